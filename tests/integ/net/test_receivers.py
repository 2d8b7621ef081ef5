"""Long bodies that another thread than the loop receives: the same answers, limits and ends as without."""

import functools
import os
import socket
import struct
import threading
import time

import pytest
import netwire as wire
from netwire import Reader, exchange, read_response, request

AT_ONCE = 5  # seconds, on a busy machine
LONG = 256 << 10  # from so much on a body is for the receivers
PATTERN = bytes(range(251))


@functools.cache
def hash_of(n, seed=0):
    return wire.fnv(body_of(n, seed))


def body_of(n, seed=0):
    return (PATTERN[seed % 251 :] + PATTERN * (n // 251 + 1))[:n]


def post(n, path="/collect", *headers):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: h", f"Content-Length: {n}", *headers, "", ""]).encode()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


@pytest.fixture
def server(make_server):
    return make_server(receivers=2)


@pytest.fixture(params=["none", "one", "two, and a queue for one", "one, and TLS"])
def any_server(request, make_server, certificate):
    return {
        "none": lambda: make_server(),
        "one": lambda: make_server(receivers=1),
        "two, and a queue for one": lambda: make_server(receivers=2, receiver_queue=1),
        "one, and TLS": lambda: make_server(receivers=1, tls=certificate),
    }[request.param]()


def test_bodies_arrive_as_they_were_sent(any_server):
    """Around each border, one after the other on one connection, with the next request right behind."""
    sock = any_server.connect()
    reader = Reader(sock)
    sizes = [1, LONG - 1, LONG, LONG + 1, LONG + (64 << 10), (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3_000_001]
    for seed, n in enumerate(sizes):
        body = body_of(n, seed)
        sock.sendall(post(n) + body + request("/hello"))
        got = read_response(reader).json()
        assert (got["length"], got["body_bytes"], got["body_hash"]) == (n, n, hash_of(n, seed)), n
        assert read_response(reader).body == b"hello\n"


def test_many_at_once_and_short_requests_between(any_server):
    bodies = [body_of(2_000_000, i % 2) for i in range(30)]
    socks = [any_server.connect() for _ in bodies]
    senders = [threading.Thread(target=s.sendall, args=(post(len(b)) + b,)) for s, b in zip(socks, bodies)]
    for t in senders:
        t.start()
    while any(t.is_alive() for t in senders):
        assert exchange(any_server, request("/hello"))[0].body == b"hello\n"
    for i, s in enumerate(socks):
        assert read_response(Reader(s)).json()["body_hash"] == hash_of(2_000_000, i % 2)
        s.close()
    any_server.until(lambda s: s["open_streams"] == 0)


def test_in_drops(server):
    """Pieces with gaps; the first of them are so short that the head comes in two."""
    body = body_of(LONG + 70_000)
    data = post(len(body)) + body
    sock = server.connect()
    for begin, end in ((0, 20), (20, 80), (80, 300), (300, LONG // 2), (LONG // 2, LONG), (LONG, LONG + 1), (LONG + 1, len(data))):
        sock.sendall(data[begin:end])
        time.sleep(0.05)
    assert read_response(Reader(sock)).json()["body_hash"] == wire.fnv(body)


def test_waits_to_be_told_to_go_on(server):
    body = body_of(2_000_000)
    sock = server.connect()
    sock.sendall(post(len(body), "/collect", "Expect: 100-continue"))
    reader = Reader(sock)
    assert reader.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
    sock.sendall(body)
    assert read_response(reader).json()["body_hash"] == hash_of(2_000_000)


def test_slow_body(make_server):
    server = make_server(receivers=1, body_timeout_ms=700)
    sock = server.connect()
    sock.sendall(post(LONG * 4))
    for _ in range(3):  # longer than the time, which counts from the last byte
        sock.sendall(b"x" * LONG)
        time.sleep(0.3)
    start = time.monotonic()
    response = read_response(reader := Reader(sock))
    assert response.status == 408 and time.monotonic() - start < AT_ONCE and reader.rest() == b""
    assert server.stats()["closed"]["timeout"] == 1


def test_answered_in_the_middle(server):
    """Of a body that the handler has enough of the rest is not read; of the last bytes of one it is, and the connection goes on."""
    response, reader = exchange(server, post(5_000_000, "/collect?stop=1000000") + body_of(1_100_000))
    assert response.status == 429 and reader.rest() == b""
    body = body_of(LONG + 1000)
    sock = server.connect()
    sock.sendall(post(len(body), f"/collect?stop={LONG - 20_000}") + body[: LONG - 10_000])
    response = read_response(reader := Reader(sock))
    assert response.status == 429 and response.header("connection") is None
    sock.sendall(body[LONG - 10_000 :] + request("/hello"))
    assert read_response(reader).body == b"hello\n"


@pytest.mark.parametrize("how", ["closed", "reset", "half closed"])
@pytest.mark.parametrize("sent", [0, 1000, LONG, 3_000_000])
def test_gone_in_the_middle(server, how, sent):
    before = descriptors(server)
    sock = server.connect()
    sock.sendall(post(4_000_000) + body_of(sent))
    server.until(lambda s: s["open_streams"] == 1)
    if how == "half closed":
        sock.shutdown(socket.SHUT_WR)
    else:
        if how == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    stats, seconds = server.until(lambda s: s["open_streams"] == 0)
    assert seconds < AT_ONCE and stats["closed"]["client_gone"] == 1
    sock.close()
    end = time.monotonic() + AT_ONCE
    while descriptors(server) > before:
        assert time.monotonic() < end, "descriptors are left"
        time.sleep(0.01)


def test_the_server_ends_while_bodies_arrive(make_server):
    """Whatever is with a receiver then: nothing of it is left, no thread touches what is gone (that the sanitizers say)."""
    for delay in (0, 0.001, 0.005, 0.02):
        server = make_server(receivers=2)
        socks = [server.connect() for _ in range(20)]

        def send(sock):
            try:
                sock.sendall(post(3_000_000) + body_of(3_000_000))
            except OSError:
                pass  # the server is gone

        senders = [threading.Thread(target=send, args=(s,)) for s in socks]
        for t in senders:
            t.start()
        time.sleep(delay)
        assert server.stop() == 0
        for t in senders:
            t.join()
        for s in socks:
            s.close()
