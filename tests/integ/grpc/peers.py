"""The programs of tests/integ/grpc: servers and clients, ours and others, each a child process that talks in JSON lines."""

import functools
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "oracle"))
import golang  # noqa: E402

BUILD = ROOT / os.environ.get("KP_BUILD", "build/debug")
PATIENCE = 20  # seconds until an expected line counts as missing; the machine may be busy


def tool(name):
    """A program of tests/tools, built if need be."""
    return str(golang.make(f"tests/tools/{name}", BUILD.relative_to(ROOT)))


@functools.cache
def go_server():
    return golang.build(HERE / "go", "grpc_server_go")


class Child:
    """A program whose output lines are JSON objects."""

    def __init__(self, argv, **popen):
        self.process = subprocess.Popen(
            [str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **popen
        )
        self.lines = queue.Queue()
        self.seen = []  # every line so far
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, timeout=PATIENCE):
        line = self.lines.get(timeout=timeout)
        if line is not None:
            self.seen.append(line)
        return line

    def expect(self, timeout=PATIENCE, **fields):
        """The next line that has these fields, now or within the time."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self.next(max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {fields} within {timeout} s; seen: {self.seen[-10:]}") from None
            assert line is not None, f"the program ended without a line with {fields}; seen: {self.seen[-10:]}"
            if all(line.get(name) == value for name, value in fields.items()):
                return line

    def drain(self, seconds):
        """The lines of this time."""
        found, deadline = [], time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                line = self.next(left)
            except queue.Empty:
                break
            if line is None:
                break
            found.append(line)
        return found

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=PATIENCE):
        return self.process.wait(timeout)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()


class Server(Child):
    def __init__(self, kind, *options):
        super().__init__([*COMMANDS[kind](), *options])
        self.kind = kind
        self.port = self.expect(event="listening")["port"]
        self.address = f"127.0.0.1:{self.port}"


COMMANDS = {
    "c": lambda: [tool("grpc_server_c")],
    "go": lambda: [go_server()],
    "python": lambda: [sys.executable, HERE / "server.py"],
    "own": lambda: [tool("grpc_own_server")],
}


CLIENTS = {
    "own": lambda: [tool("grpc_probe")],
    "c": lambda: [tool("grpc_core_client")],
    "go": lambda: [golang.build(HERE / "go-client", "grpc_client_go")],
    "python": lambda: [sys.executable, HERE / "client.py"],
}


class Client(Child):
    """Ends without a complaint and with status 0, or the test fails."""

    def __init__(self, kind, address, **options):
        words = [f"{name}={value}" for name, value in options.items()]
        quiet = dict(os.environ, GRPC_VERBOSITY="NONE")  # a refused handshake is no complaint
        super().__init__([*CLIENTS[kind](), address, *words], stderr=subprocess.PIPE, env=quiet)
        self.kind = kind

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def start(self, call, text="", method="Unary", md=(), **options):
        words = ["start", call, f"/kelpie.test.Probe/{method}"]
        words += [f"{name}={value}" for name, value in options.items()]
        words += [f"md={name}:{value}" for name, value in md]
        self.say(" ".join([*words, "--", text]))

    def end(self, call, timeout=PATIENCE):
        return self.expect(timeout=timeout, event="end", id=call)

    def finish(self):
        if self.process.poll() is None and not self.process.stdin.closed:
            self.process.stdin.close()
        status = self.process.wait(PATIENCE)
        complaint = self.process.stderr.read()
        assert status == 0 and not complaint, f"the {self.kind} client ended with {status}: {complaint}"


class Probe(Client):
    """Our client, which can more."""

    def __init__(self, address, **options):
        super().__init__("own", address, **options)

    def state(self):
        self.say("state")
        return self.expect(event="state")["state"]

    def until_state(self, state):
        deadline = time.monotonic() + PATIENCE
        while self.state() != state:
            assert time.monotonic() < deadline, f"the channel never became {state}"
            time.sleep(0.02)


def free_port():
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def crc(messages):
    """The probe's check sum over messages."""
    value = 0
    for m in messages:
        value = zlib.crc32(m, zlib.crc32(len(m).to_bytes(4, "big"), value))
    return value


def reply(k, size):
    one = bytes((k + i) % 256 for i in range(256))
    return (one * (size // 256 + 1))[:size]
