"""Gateways of grpcio's, as the operator sees them: they say what a test tells them, and follow the protocol by its page (docs/control.md), not by our code."""

import functools
import hashlib
import pathlib
import queue
import struct
import subprocess
import sys
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import programs  # noqa: E402

programs.LOGS = programs.logs("build/test/operator")
PATIENCE = programs.PATIENCE
METHOD = "/kelpie.control.v1.Control/Connect"
POOL, ENGINE, ENDPOINT, GATEWAY, TOOL_SERVER = 1, 2, 3, 4, 5
wait_until = programs.wait_until


@functools.cache
def message(name):
    """A class of proto/kelpie/control/v1/control.proto."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"kelpie.control.v1.{name}"))


@functools.cache
def _pool():
    with tempfile.NamedTemporaryFile() as out:
        command = ["protoc", f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={out.name}", "kelpie/control/v1/control.proto"]
        subprocess.run(command, check=True)
        found = descriptor_pool.DescriptorPool()
        for file in descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes()).file:
            found.Add(file)
    return found


def hash_of(items):
    """Of {(kind, key): value}."""
    digest = hashlib.sha256()
    for (kind, key), value in sorted(items.items()):
        for part in (key.encode(), value):
            digest.update((struct.pack(">I", kind) if part is not value else b"") + struct.pack(">I", len(part)) + part)
    return digest.digest()


class Credentials:
    """Of a folder that hack/certs made."""

    def __init__(self, folder):
        read = lambda name: (folder / name).read_bytes()
        self.channel = grpc.ssl_channel_credentials(read("ca.crt"), read("tls.key"), read("tls.crt"))


class Gateway:
    """One stream. `items` is what it runs, `programs` every program it was sent, `welcome` the greeting, `end` the stream's status once it ended. It
    acknowledges what it can follow, unless `answer` is set: a function of a program that gives a reason to refuse it, None to
    acknowledge it, or "" to stay silent."""

    def __init__(self, address, id="gw-a", ns="default", own=(), hello=True, tls=None, answer=None, read=True, items=None, revision=None, report=True,
                 **fields):
        self.id, self.ns, self.answer, self.report = id, ns, answer, report
        self.items, self.revision = dict(items or {}), revision
        self.programs, self.welcome, self.end, self.at = [], None, None, {}
        self._out = queue.Queue()
        self._changed = threading.Condition()
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1), ("grpc.keepalive_time_ms", 600000)]
        target = f"localhost:{address.rpartition(':')[2]}" if tls else address
        self.channel = grpc.secure_channel(target, tls.channel, options) if tls else grpc.insecure_channel(target, options)
        call = self.channel.stream_stream(METHOD, lambda m: m, message("OperatorMessage").FromString)
        if hello:
            self.hello(own=own, **fields)
        self.call = call(iter(self._out.get, None))
        self.is_reading = False
        if read:
            self.read()

    def read(self):
        self.is_reading = True
        threading.Thread(target=self._read, daemon=True).start()

    def hello(self, **fields):
        m = message("GatewayMessage")()
        h = dict(protocol=1, id=self.id, namespace=self.ns, version="test", **fields)
        m.hello.CopyFrom(message("Hello")(**h))
        if self.revision is not None:
            m.hello.revision.CopyFrom(self.revision)
        self.send(m)

    def send(self, m):
        self._out.put(m if isinstance(m, bytes) else m.SerializeToString())

    def say(self, **endpoints_of_report):
        m = message("GatewayMessage")()
        m.report.CopyFrom(message("Report")(**endpoints_of_report))
        self.send(m)

    def _read(self):
        end = (grpc.StatusCode.OK, "")
        try:
            for m in self.call:
                with self._changed:
                    self._take(m)
                    self._changed.notify_all()
            end = (self.call.code(), self.call.details())
        except grpc.RpcError as e:
            end = (e.code(), e.details())
        with self._changed:
            self.end = end
            self._changed.notify_all()

    def _take(self, m):
        if m.WhichOneof("body") == "welcome":
            assert self.welcome is None and not self.programs, "a second welcome, or a program before it"
            self.welcome = m.welcome
            if self.report:
                self.say()
            return
        p = m.program
        self.programs.append(p)
        self.at[len(self.programs)] = time.monotonic()
        reason = self.answer(p) if self.answer else None
        reason = reason if reason is not None else self._apply(p)
        if reason is None:
            self.acknowledge(p.revision)
        elif reason:
            self.refuse(p.revision, reason)

    def _apply(self, p):
        base = p.HasField("base_revision")
        if base and (self.revision is None or p.base_revision.hash != self.revision.hash):
            return "unknown_base"
        items = dict(self.items) if base else {}
        for key in p.remove:
            del items[key.kind, key.key]
        for item in p.upsert:
            items[item.key.kind, item.key.key] = item.value
        if hash_of(items) != p.revision.hash:
            return "hash_mismatch"
        self.items, self.revision = items, p.revision
        return None

    def acknowledge(self, revision):
        m = message("GatewayMessage")()
        m.ack.revision.CopyFrom(revision)
        self.send(m)

    def refuse(self, revision, reason, text="the test says so"):
        m = message("GatewayMessage")()
        m.nack.CopyFrom(message("Nack")(revision=revision, reason=reason, message=text))
        self.send(m)

    def wait(self, condition, what, timeout=PATIENCE):
        with self._changed:
            found = self._changed.wait_for(lambda: condition() or self.end, timeout)
            assert found and condition(), f"{self.id}: {what}: not within {timeout} s, end {self.end}, programs {len(self.programs)}"

    def wait_programs(self, n):
        self.wait(lambda: len(self.programs) >= n, f"{n} programs")

    def wait_end(self, code, words="", timeout=PATIENCE):
        self.wait(lambda: self.end, f"an end with {code}", timeout)
        assert self.end[0] == code and words in self.end[1], self.end

    def wait_item(self, kind, key):
        self.wait(lambda: (kind, key) in self.items, f"item {key}")

    # --- what its program says ---

    def _values(self, kind, name):
        return [message(name).FromString(v) for (k, _), v in sorted(self.items.items()) if k == kind]

    def owners(self):
        """{"default/e/127.0.0.1:1": "gw-a"}"""
        return {f"{e.engine}/{e.address}": e.owner for e in self._values(ENDPOINT, "Endpoint")}

    def gateways(self):
        return {g.id: g for g in self._values(GATEWAY, "Gateway")}

    def wait_owners(self, **owners):
        """wait_owners(e="gw-a"): that engine's only endpoint is owned by it."""
        self.wait(lambda: {k.split("/")[1]: v for k, v in self.owners().items()} == owners, f"owners {owners}, last {self.owners()}")

    def close(self):
        """As if its process had ended in order."""
        self._out.put(None)
        self.channel.close()
        with self._changed:
            self._changed.wait_for(lambda: self.end or not self.is_reading, PATIENCE)

    def leave(self):
        """It says goodbye itself: the stream ends with status OK."""
        self._out.put(None)
        self.wait_end(grpc.StatusCode.OK)
        self.channel.close()
