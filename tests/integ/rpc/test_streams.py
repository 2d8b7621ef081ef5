"""lib/rpc between two processes: the other side stopped, killed, not reading; many streams on one server."""

import contextlib
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "grpc"))
import peers  # noqa: E402

NOTICED = 8  # seconds; a dead side is noticed after 5 at most, and the machine may be busy


class Peer(peers.Child):
    def __init__(self, *argv, stderr=subprocess.PIPE):
        super().__init__([peers.tool("rpc_peer"), *argv], stderr=stderr)
        self.port = self.expect(event="ready")["port"]

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def stats(self):
        self.say("stats")
        return self.expect(event="stats")

    def end(self):
        """Ends it in order; what it says on standard error, which is where a sanitizer would complain."""
        self.process.stdin.close()
        text = self.process.stderr.read()
        assert self.process.wait(peers.PATIENCE) == 0, text
        return text


@pytest.fixture
def start():
    started = []

    def make(*argv):
        started.append(Peer(*argv))
        return started[-1]

    yield make
    for peer in started:
        if peer.process.poll() is None:
            peer.signal(signal.SIGCONT)
            peer.end()


@pytest.fixture
def pair(start):
    server = start("serve", "127.0.0.1:0")
    client = start("talk", f"127.0.0.1:{server.port}")
    client.say("open 1")
    server.expect(event="message", bytes=5)
    client.expect(event="message", bytes=5)
    return server, client


def test_server_stopped(pair):
    server, client = pair
    server.signal(signal.SIGSTOP)
    began = time.monotonic()
    assert "keepalive" in client.expect(event="closed", code="UNAVAILABLE", timeout=NOTICED)["message"]
    # The kernel still takes connections for it; an attempt ends all the same.
    client.say("open 1")
    client.expect(event="closed", code="UNAVAILABLE", timeout=NOTICED)
    assert time.monotonic() - began < 2 * NOTICED
    server.signal(signal.SIGCONT)
    server.expect(event="closed", code="CANCELLED", timeout=NOTICED)
    client.say("open 1")
    client.expect(event="message", bytes=5)


def test_client_stopped(pair):
    server, client = pair
    client.signal(signal.SIGSTOP)
    server.expect(event="closed", code="CANCELLED", timeout=NOTICED)
    client.signal(signal.SIGCONT)
    client.expect(event="closed", code="UNAVAILABLE", timeout=NOTICED)


def test_quiet_but_alive(pair):
    """Pings alone keep a stream open: nobody takes them for too many."""
    server, client = pair
    assert server.drain(7) == client.drain(0.1) == []
    assert client.stats()["open"] == 1


@pytest.mark.parametrize("which", ["server", "client"])
def test_killed(pair, which):
    server, client = pair
    victim, other = (server, client) if which == "server" else (client, server)
    victim.process.kill()
    other.expect(event="closed", code="UNAVAILABLE" if which == "server" else "CANCELLED", timeout=2)
    victim.process.wait()


def test_client_that_does_not_read(pair):
    """What is sent to it waits in the server, up to the limit, and not for ever."""
    server, client = pair
    client.signal(signal.SIGSTOP)
    server.say(f"send {100 << 20}")  # of 128 MiB
    server.expect(event="closed", timeout=NOTICED)
    client.signal(signal.SIGCONT)
    client.expect(event="closed", timeout=NOTICED)


def test_message_too_large(pair):
    server, client = pair
    server.say(f"send {65 << 20}")
    assert client.expect(event="closed")["code"] == "RESOURCE_EXHAUSTED"


def test_many_streams(start):
    """One server, many clients: each gets what is sent, in little memory."""
    many = 300
    server = start("serve", "127.0.0.1:0")
    client = start("talk", f"127.0.0.1:{server.port}")
    before = server.stats()
    client.say(f"open {many}")
    for _ in range(many):
        client.expect(event="message", bytes=5)
    after = server.stats()
    if "asan" not in str(peers.BUILD):
        assert (after["rss_kb"] - before["rss_kb"]) / many < 100  # 31 measured
    server.say("shared 20000")
    for _ in range(many):
        client.expect(event="message", bytes=20000)
    client.say("close")
    for _ in range(many):
        client.expect(event="closed", code="CANCELLED")
    for _ in range(many):
        server.expect(event="closed", code="CANCELLED")
    assert server.stats()["open"] == 0


def test_garbage(start):
    """Bytes that are no HTTP/2, and a connection that says nothing: closed; others are served."""
    import socket

    server = start("serve", "127.0.0.1:0")
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(1000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(1000)):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.settimeout(peers.PATIENCE)
            s.sendall(garbage)
            while s.recv(4096):
                pass
    with socket.create_connection(("127.0.0.1", server.port)) as silent:
        silent.settimeout(peers.PATIENCE)
        while silent.recv(4096):  # 5 s for the handshake
            pass
    client = start("talk", f"127.0.0.1:{server.port}")
    client.say("open 1")
    client.expect(event="message", bytes=5)


def test_quiet(pair):
    """gRPC writes nothing to standard error."""
    server, client = pair
    client.process.kill()
    client.process.wait()
    server.expect(event="closed")
    assert server.end() == ""


def test_no_descriptor_left(start):
    """gRPC never accepts again after it could not once: streams that are there go on, and new ones come when there is room again."""
    server = start("serve", "127.0.0.1:0")
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (48, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    client = start("talk", f"127.0.0.1:{server.port}")
    client.say("open 1")
    client.expect(event="message", bytes=5)
    with contextlib.ExitStack() as strangers:
        for _ in range(60):
            strangers.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        client.say("open 1")
        client.expect(event="closed", code="UNAVAILABLE", timeout=NOTICED)
        client.say("send 100")
        client.expect(event="message", bytes=100)
    end = time.monotonic() + 2 * NOTICED
    while client.stats()["open"] < 2:
        assert time.monotonic() < end
        client.say("open 1")
        client.drain(0.5)
    client.say("send 7")
    client.expect(event="message", bytes=7)
    client.expect(event="message", bytes=7)
    assert "listening anew" in server.end()
