"""What the tests of lib/net's HTTP server share: the server (tests/tools/echo_server.c), raw HTTP/1 and frame by frame HTTP/2 clients."""

import functools
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import time

import h2.config
import h2.connection
import h2.events

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "integ" / "grpc"))
import peers  # noqa: E402

PATIENCE = peers.PATIENCE
FNV = 0xCBF29CE484222325


def fnv(data):
    value = FNV
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


class Server:
    """echo_server with the given options; has to end with status 0 (no leak under ASan)."""

    def __init__(self, tls=None, wrap=(), **options):
        argv = [*wrap, peers.tool("echo_server"), *(f"{k}={v}" for k, v in options.items())]
        if tls:
            argv += [f"cert={tls.cert}", f"key={tls.key}"]
        self.tls = tls
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline().split()
        assert line and line[0] == b"port", f"the server says {line}, status {self.process.poll()}"
        self.port = int(line[1])

    def connect(self, alpn=None, timeout=PATIENCE, rcvbuf=None):
        sock = socket.socket()
        if rcvbuf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        sock.settimeout(timeout)
        sock.connect(("127.0.0.1", self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.tls.wrap(sock, alpn) if self.tls else sock

    def stats(self):
        with self.connect() as sock:
            sock.sendall(b"GET /stats HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            return json.loads(read_response(Reader(sock)).body)

    def until(self, condition, timeout=PATIENCE):
        """The first stats for which condition(stats) holds, and how long it took."""
        start = time.monotonic()
        while not condition(stats := self.stats()):
            assert time.monotonic() - start < timeout, f"it never came: {stats}"
            time.sleep(0.01)
        return stats, time.monotonic() - start

    def rss(self):
        """Resident KiB."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))

    def grown(self, before):
        """KiB since rss() was `before`; 0 under a sanitizer, whose memory says nothing."""
        return self.rss() - before if peers.BUILD.name in ("release", "debug", "clang") else 0

    def stop(self):
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


class Tls:
    """A self-signed certificate for localhost."""

    def __init__(self, folder):
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", self.key, "-out", self.cert],
            check=True, capture_output=True,
        )

    def wrap(self, sock, alpn=None, **context):
        ctx = ssl.create_default_context(cafile=self.cert)
        for name, value in context.items():
            setattr(ctx, name, value)
        if alpn:
            ctx.set_alpn_protocols(alpn if isinstance(alpn, list) else [alpn])
        return ctx.wrap_socket(sock, server_hostname="localhost")


# ---- HTTP/1 ----


class Reader:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def more(self):
        data = self.sock.recv(65536)
        self.buffer += data
        return bool(data)

    def until(self, mark):
        while mark not in self.buffer:
            if not self.more():
                raise EOFError(f"the connection ended after {self.buffer!r}")
        head, _, self.buffer = self.buffer.partition(mark)
        return head

    def exactly(self, n):
        while len(self.buffer) < n:
            if not self.more():
                raise EOFError(f"the connection ended, {n - len(self.buffer)} bytes too early")
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data

    def rest(self):
        while self.more():
            pass
        data, self.buffer = self.buffer, b""
        return data


class Response:
    def __init__(self, status, headers):
        self.status, self.headers, self.body, self.trailers = status, headers, b"", []

    def header(self, name):
        values = [v for k, v in self.headers if k == name]
        assert len(values) <= 1, f"{name} twice"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)


def read_head(reader):
    lines = reader.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
    version, status, _ = lines[0].split(" ", 2)
    assert version == "HTTP/1.1"
    return Response(int(status), [tuple(line.split(": ", 1)) for line in lines[1:]])


def read_chunked(reader, response):
    while size := int(reader.until(b"\r\n"), 16):
        response.body += reader.exactly(size)
        assert reader.exactly(2) == b"\r\n"
    while line := reader.until(b"\r\n"):
        response.trailers.append(tuple(line.decode().split(": ", 1)))


def read_response(reader, head=False):
    """One response, framed as HTTP/1.1 demands; nothing but that is read."""
    response = read_head(reader)
    length, coding = response.header("content-length"), response.header("transfer-encoding")
    assert not (length and coding)
    if head or response.status in (100, 204, 304):
        return response
    if coding:
        assert coding == "chunked"
        read_chunked(reader, response)
    elif length is not None:
        response.body = reader.exactly(int(length))
    else:
        response.body = reader.rest()
    return response


def exchange(server, data, alpn=None):
    """Sends the bytes, reads one response; the reader for what follows."""
    sock = server.connect(alpn)
    sock.sendall(data)
    reader = Reader(sock)
    return read_response(reader), reader


def request(path, method="GET", body=b"", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunks(*pieces):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces if p) + b"0\r\n\r\n"


# ---- HTTP/2 ----


class Client2:
    """One HTTP/2 connection on the `h2` package; events of streams are kept."""

    def __init__(self, server, settings=None, **connect):
        self.sock = server.connect("h2" if server.tls else None, **connect)
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False, normalize_outbound_headers=False)
        )
        self.h2.local_settings.update(settings or {})
        self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()
        self.events, self.ended = [], False
        self.auto_window = True
        self.flush()

    def flush(self):
        self.sock.sendall(self.h2.data_to_send())

    def headers(self, path, method="GET", scheme=None, **more):
        return [(":method", method), (":scheme", scheme or "http"), (":path", path), (":authority", "localhost"),
                *((k.replace("_", "-"), str(v)) for k, v in more.items())]

    def start(self, path, method="GET", end=True, **more):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, self.headers(path, method, **more), end_stream=end)
        self.flush()
        return stream

    def send(self, stream, data, end=False):
        """As much at once as the windows allow, reading while they do not."""
        while data:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data))
            if room <= 0:
                self.read()
                continue
            self.h2.send_data(stream, data[:room])
            data = data[room:]
            self.flush()
        if end:
            self.h2.end_stream(stream)
            self.flush()

    def read(self):
        """What comes next; False at the end of the connection."""
        assert not self.ended, f"the connection has ended: {self.events[-5:]}"
        data = self.sock.recv(65536)
        if not data:
            self.ended = True
            return False
        for event in self.h2.receive_data(data):
            self.events.append(event)
            if isinstance(event, h2.events.DataReceived) and self.auto_window:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()
        return True

    def of(self, stream, kind=None):
        return [e for e in self.events if getattr(e, "stream_id", None) == stream and (kind is None or isinstance(e, kind))]

    def wait(self, kind, stream=None, timeout=PATIENCE):
        """The first event of this kind (of this stream), read for if need be."""
        end = time.monotonic() + timeout
        while True:
            found = [e for e in self.events if isinstance(e, kind) and (stream is None or e.stream_id == stream)]
            if found:
                return found[0]
            if stream is not None:
                assert not self.of(stream, h2.events.StreamReset), f"stream {stream} was reset"
            assert time.monotonic() < end and not self.ended, f"no {kind.__name__}: {self.events[-5:]}"
            self.read()

    def response(self, stream, timeout=PATIENCE):
        self.wait(h2.events.StreamEnded, stream, timeout)
        headers = self.of(stream, h2.events.ResponseReceived)[0].headers
        result = Response(int(dict(headers)[":status"]), headers[1:])
        result.body = b"".join(e.data for e in self.of(stream, h2.events.DataReceived))
        result.trailers = [h for e in self.of(stream, h2.events.TrailersReceived) for h in e.headers]
        return result

    def get(self, path, **more):
        return self.response(self.start(path, **more))

    def post(self, path, body, **more):
        stream = self.start(path, "POST", end=False, **more)
        self.send(stream, body, end=True)
        return self.response(stream)

    def until_end(self, timeout=PATIENCE):
        """Reads until the server closes; the code of its GOAWAY, None without one."""
        end = time.monotonic() + timeout
        try:
            while self.read():
                assert time.monotonic() < end, "the server does not close"
        except ConnectionError:
            self.ended = True
        goaways = [e for e in self.events if isinstance(e, h2.events.ConnectionTerminated)]
        return goaways[-1].error_code if goaways else None

    def close(self):
        self.sock.close()


@functools.cache
def h2spec():
    sys.path.insert(0, str(ROOT / "tests" / "oracle"))
    import golang

    return golang.build(pathlib.Path(__file__).resolve().parent / "h2spec", "h2spec")
