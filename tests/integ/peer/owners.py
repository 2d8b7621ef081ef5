"""What stands at the other end of a peer port in tests/integ/peer: an owner of grpcio's that says what a test tells it, a cable that can be cut, certificates."""

import concurrent.futures
import functools
import pathlib
import queue
import socket
import subprocess
import sys
import tempfile
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parents[3]
for folder in ("grpc", "engine"):
    sys.path.insert(0, str(ROOT / "tests/integ" / folder))
import engines  # noqa: E402

PATIENCE = engines.PATIENCE
ENGINE, ADDRESS = "default/demo", "127.0.0.1:50051"


@functools.cache
def pool():
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["protoc", f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={out.name}", "kelpie/peer/v1/peer.proto"], check=True)
        found = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes()).file:
            found.Add(file)
    return found


@functools.cache
def message(name):
    """A class of proto/kelpie/peer/v1/peer.proto."""
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(f"kelpie.peer.v1.{name}"))


def response(ids=(), **more):
    return message("GenerateResponse")(ids=ids, **more)


class Tls:
    """A CA and, in folders of their own, what a gateway is given: tls.crt, tls.key, ca.crt."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.ca = folder / "ca.crt"
        self._openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={folder.name}",
                      "-keyout", folder / "ca.key", "-out", self.ca)

    @staticmethod
    def _openssl(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def gateway(self, name, ca=None, ns=None):
        """The folder of a gateway called `name`; no name: a certificate without any. `ns`: its SPIFFE ID says that namespace."""
        folder = self.folder / ((name or "nameless") + (f"-{ns}" if ns else ""))
        if folder.exists():
            return folder
        folder.mkdir()
        key, request, cert = folder / "tls.key", folder / "request", folder / "tls.crt"
        self._openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/O=kelpie", "-keyout", key, "-out", request)
        spiffe = f",URI:spiffe://cluster.local/ns/{ns}/sa/gateway" if ns else ""
        (folder / "ext").write_text(f"subjectAltName=DNS:{name}{spiffe}" if name else "keyUsage=digitalSignature")
        self._openssl("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial", "-days", "2",
                      "-extfile", folder / "ext", "-out", cert)
        (folder / "ca.crt").write_bytes((ca or self).ca.read_bytes())
        return folder


class Owner:
    """kelpie.peer.v1.Peer by grpcio. Requests are kept in `requests`. What is answered is set by the test: `responses`, messages or bytes (an iterable, or a
    function of the request), `description`, `chunks`; then `status`, and `trailers`."""

    def __init__(self, tls=None, address="127.0.0.1:0"):
        self.requests = queue.Queue()
        self.responses, self.chunks = [], []
        self.description = message("DescribeResponse")(state="routable", vocab_size=1000, model="scripted", max_context=500, text_fingerprint=2**63 + 1)
        self.status = grpc.StatusCode.OK
        self.trailers = {"kelpie-load": "in_flight=3 running=2 waiting=1 kv=0.5"}
        self.cancelled = threading.Event()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=[
            # As Kelpie's own server, which a gateway may ask for ever whether it lives.
            ("grpc.so_reuseport", 0), ("grpc.http2.max_ping_strikes", 0)])
        stream = grpc.unary_stream_rpc_method_handler

        def raw(m):
            return m if isinstance(m, bytes) else m.SerializeToString()

        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("kelpie.peer.v1.Peer", {
            "Generate": stream(self._answer("responses"), message("GenerateRequest").FromString, raw),
            "Describe": stream(self._answer("description"), message("DescribeRequest").FromString, raw),
            "GetTokenizer": stream(self._answer("chunks"), message("DescribeRequest").FromString, raw),
        }),))
        if tls:
            pair = ((tls / "tls.key").read_bytes(), (tls / "tls.crt").read_bytes())
            creds = grpc.ssl_server_credentials([pair], (tls / "ca.crt").read_bytes(), require_client_auth=True)
            port = self.server.add_secure_port(address, creds)
        else:
            port = self.server.add_insecure_port(address)
        self.address = f"127.0.0.1:{port}"
        self.server.start()

    def _answer(self, what):
        def answer(request, context):
            self.requests.put((what, request, dict(context.invocation_metadata()), context.time_remaining()))
            context.add_callback(lambda: self.cancelled.set() if not context.is_active() else None)
            answers = getattr(self, what)
            if callable(answers):
                answers = answers(request)
            yield from answers if not hasattr(answers, "SerializeToString") else [answers]
            context.set_trailing_metadata(tuple(self.trailers.items()))
            if self.status is not grpc.StatusCode.OK:
                context.abort(self.status, "as the test says")

        return answer

    def asked(self):
        return self.requests.get(timeout=PATIENCE)

    def stop(self):
        self.server.stop(None).wait()


class Cable:
    """A TCP connection that goes through us: `freeze` stops both directions, `inject` puts bytes into what the client reads."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.running = threading.Event()
        self.running.set()
        self.clients, self.open = [], True
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while self.open:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.target)
            self.clients.append((client, server))
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, a, b):
        try:
            while data := a.recv(65536):
                self.running.wait()
                b.sendall(data)
        except OSError:
            pass
        finally:
            for s in (a, b):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def freeze(self):
        self.running.clear()

    def inject(self, data):
        self.clients[-1][0].sendall(data)

    def cut(self):
        for pair in self.clients:
            for s in pair:
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self.open = False
        self.running.set()
        self.listener.close()
        self.cut()
