"""HTTP/2 on the wire: cleartext with prior knowledge and over TLS, frame by frame with the `h2` package, and h2spec's suite."""

import json
import select
import socket
import struct
import subprocess
import time
import xml.etree.ElementTree

import h2.errors
import h2.events
import h2.exceptions
import pytest
import netwire as wire
from netwire import Client2, Reader, read_response, request

Codes = h2.errors.ErrorCodes


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def block(path=b"/hello", method=b"GET"):
    """A header block without compression state: literals without indexing."""
    fields = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"h")]
    return b"".join(b"\0" + bytes([len(k)]) + k + bytes([len(v)]) + v for k, v in fields)


# ---- what is taken ----


def test_hello(either):
    client = Client2(either)
    response = client.get("/hello")
    assert response.status == 200 and response.body == b"hello\n"
    assert [k for k, _ in response.headers] == ["date", "content-length", "content-type"]
    got = client.post("/request?q=1", b"abc" * 1000, x_a="b", cookie="c=d").json()
    assert got["version"] == 20 and got["path"] == "/request" and got["query"] == "q=1" and got["authority"] == "localhost"
    assert got["headers"] == [["x-a", "b"], ["cookie", "c=d"]] and got["body_hash"] == wire.fnv(b"abc" * 1000)


def test_both_versions_on_one_port(server):
    with server.connect() as one:
        client = Client2(server)
        one.sendall(request("/hello"))
        assert client.get("/hello").body == read_response(Reader(one)).body == b"hello\n"
    stats = server.stats()
    assert stats["http2"] == 1 and stats["http1"] == 2


def test_preface_in_pieces(server):
    sock = server.connect()
    for byte in b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(HEADERS, END_STREAM | END_HEADERS, 1, block()):
        sock.sendall(bytes([byte]))
        time.sleep(0.001)
    reader = Reader(sock)
    while b"hello\n" not in reader.buffer:
        assert reader.more()


def test_almost_a_preface(server):
    """What only begins like one is HTTP/1."""
    for start in (b"POST", b"PRIVATE", b"P", b"PR", b"PRI"):
        with server.connect() as sock:
            sock.sendall(start)
            time.sleep(0.02)
            sock.sendall(b" /request HTTP/1.1\r\nHost: h\r\n\r\n")
            assert read_response(Reader(sock)).json()["method"] == start.decode()
    with server.connect() as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\nHost: h\r\n\r\n")
        assert read_response(Reader(sock)).status == 505


def test_request_without_length(server):
    client = Client2(server)
    stream = client.start("/request", "POST", end=False)
    client.send(stream, b"abc")
    client.send(stream, b"def", end=True)
    got = client.response(stream).json()
    assert got["length"] == -1 and got["body_hash"] == wire.fnv(b"abcdef")


def test_request_trailers(server):
    client = Client2(server)
    stream = client.start("/request", "POST", end=False)
    client.send(stream, b"abc")
    client.h2.send_headers(stream, [("x-sum", "1")], end_stream=True)
    client.flush()
    assert client.response(stream).json()["body_bytes"] == 3


def test_25_mb_upload(either, tmp_path):
    (tmp_path / "body").write_bytes(bytes(range(250)) * 100_000)
    hashes = set()
    scheme, more = ("https", ["-k", "--http2"]) if either.tls else ("http", ["--http2-prior-knowledge"])
    for more in (more, more + ["-H", "Expect:"], ["-k", "--http1.1"]):
        start = time.monotonic()
        out = subprocess.run(
            ["curl", "-sS", *more, "--data-binary", f"@{tmp_path}/body", f"{scheme}://127.0.0.1:{either.port}/request"],
            check=True, capture_output=True,
        ).stdout
        got = json.loads(out)
        assert got["version"] == (11 if "--http1.1" in more else 20) and got["body_bytes"] == 25_000_000
        hashes.add(got["body_hash"])
        assert time.monotonic() - start < wire.PATIENCE
    assert len(hashes) == 1  # both versions got the same bytes


def test_windows_are_generous(server):
    client = Client2(server)
    client.get("/hello")
    stream = client.start("/late?ms=300", "POST", end=False)
    assert client.h2.local_flow_control_window(stream) >= 1 << 20
    assert client.h2.remote_settings.max_concurrent_streams >= 100
    assert client.h2.remote_settings.max_header_list_size >= 16 << 10
    client.send(stream, b"x" * (1 << 20), end=True)
    assert client.response(stream).body == b"late\n"


def test_many_streams(either):
    client = Client2(either)
    client.get("/hello")
    streams = [client.start(f"/events?n=20&ms=5&size={50 + i}") for i in range(150)]
    for i, stream in enumerate(streams):
        assert len(client.response(stream).body) == 20 * (50 + i)
    assert either.stats()["closed"]["finished"] == 150


def test_answers_without_a_body(server):
    client = Client2(server)
    assert client.get("/hello", ).body == b"hello\n"
    response = client.response(client.start("/hello", "HEAD"))
    assert dict(response.headers)["content-length"] == "6" and response.body == b""
    response = client.response(client.start("/events?n=3&ms=1", "HEAD"))
    assert response.status == 200 and response.body == b""


def test_trailers(server):
    response = Client2(server).get("/trailers")
    assert response.body == b"body\n" and response.trailers == [("x-sum", "42"), ("x-odd", "a  b")]


@pytest.mark.parametrize("path", ["/abort", "/short"])
def test_broken_off_answers_are_reset(server, path):
    client = Client2(server)
    stream = client.start(path)
    assert client.wait(h2.events.StreamReset, stream).error_code == Codes.INTERNAL_ERROR
    assert client.get("/hello").body == b"hello\n"


def test_continue(server):
    client = Client2(server)
    stream = client.start("/request", "POST", end=False, expect="100-continue", content_length="3")
    client.wait(h2.events.InformationalResponseReceived, stream)
    client.send(stream, b"abc", end=True)
    assert client.response(stream).json()["body_bytes"] == 3


def test_no_continue_for_what_is_refused(make_server):
    server = make_server(max_body_bytes=1000)
    client = Client2(server)
    for path, length, status in (("/refuse", "5", 401), ("/request", "1001", 413)):
        stream = client.start(path, "POST", end=False, expect="100-continue", content_length=length)
        assert client.response(stream).status == status
        assert not client.of(stream, h2.events.InformationalResponseReceived)
        # The rest of the request is not wanted.
        assert client.wait(h2.events.StreamReset, stream).error_code == Codes.NO_ERROR


def test_body_over_the_limit(make_server):
    server = make_server(max_body_bytes=100_000)
    client = Client2(server)
    client.get("/hello")
    stream = client.start("/request", "POST", end=False)
    client.send(stream, b"x" * 120_000)
    assert client.response(stream).status == 413
    assert client.get("/hello").body == b"hello\n"
    assert server.stats()["closed"]["protocol"] == 1


def test_header_limits(server):
    client = Client2(server)
    assert dict(client.get("/request", authorization="x" * 6144).json()["headers"])["authorization"] == "x" * 6144
    for i, (path, more, status) in enumerate([
        ("/request", {"x": "y" * 70_000}, 431),
        ("/request", {f"x-{i}": "y" for i in range(200)}, 431),
        ("/" + "a" * 9000, {}, 414),
    ]):
        response = client.get(path, **more)
        assert response.status == status and response.json()["error"]["code"]
    assert client.get("/hello").status == 200
    assert server.stats()["refused"]["head"] == 3


@pytest.mark.parametrize("name, value, status", [
    (":authority", "a b", None), (":authority", "a:x", 400), (":path", "/a b", None), (":path", "/a#b", 400), (":path", "/\x7f", None), (":method", "CONNECT", None),
    ("host", "elsewhere", 400), ("expect", "coffee", 417), ("connection", "close", None), ("X-Upper", "a", None), ("te", "gzip", None),
    ("content-length", "x", None), (":path", "x", None),
])  # fmt: skip
def test_odd_requests(server, name, value, status):
    """Refused with a status, or (None) a stream error, as RFC 9113 asks; the connection goes on."""
    client = Client2(server)
    client.get("/hello")
    stream = client.h2.get_next_available_stream_id()
    headers = [(k, v) for k, v in client.headers("/request") if k != name]
    headers.insert(0 if name.startswith(":") else len(headers), (name, value))
    client.h2.send_headers(stream, headers, end_stream=True)
    client.flush()
    if status:
        assert client.response(stream).status == status
    else:
        assert client.wait(h2.events.StreamReset, stream).error_code == Codes.PROTOCOL_ERROR
    assert client.get("/hello").body == b"hello\n"


def test_length_that_lies(server):
    client = Client2(server)
    stream = client.start("/request", "POST", end=False, content_length="3")
    client.send(stream, b"abcd", end=True)
    assert client.wait(h2.events.StreamReset, stream).error_code == Codes.PROTOCOL_ERROR
    assert client.get("/hello").body == b"hello\n"


# ---- flow control ----


def test_back_pressure_of_one_stream(server):
    """A paused stream's window closes; another stream of the connection goes on."""
    client = Client2(server)
    client.get("/hello")
    stream = client.start("/paused?ms=700", "POST", end=False)
    body = b"z" * 3_000_000
    sent = 0
    while (room := client.h2.local_flow_control_window(stream)) > 0:
        n = min(room, 16384)
        client.h2.send_data(stream, body[sent : sent + n])
        sent += n
        client.flush()
    assert sent == 1 << 20
    assert client.post("/request", b"y" * 2_000_000).json()["body_bytes"] == 2_000_000
    assert client.h2.local_flow_control_window(stream) == 0
    client.send(stream, body[sent:], end=True)  # after it was resumed
    assert client.response(stream).json()["body_hash"] == wire.fnv(body)


def test_client_that_opens_no_window(make_server):
    """Window 0 and no WINDOW_UPDATE: nothing leaves, little is queued, the stream is thrown out, the connection lives."""
    server = make_server(write_timeout_ms=500)
    client = Client2(server, settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    client.auto_window = False
    stream = client.start("/flow?bytes=100000000")
    client.wait(h2.events.ResponseReceived, stream)
    assert server.stats()["max_queued"] < 256 * 1024 + 65536
    assert client.wait(h2.events.StreamReset, stream).error_code == Codes.CANCEL
    assert server.stats()["closed"]["timeout"] == 1
    assert client.response(client.start("/hello", "HEAD")).status == 200


def test_a_stream_may_wait_longer_than_its_connection(make_server):
    """For clients that hold back one stream of many on purpose."""
    server = make_server(write_timeout_ms=300, stream_timeout_ms=1500)
    client = Client2(server, settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    client.auto_window = False
    begun = time.monotonic()
    stream = client.start("/flow?bytes=100000000")
    client.wait(h2.events.ResponseReceived, stream)
    assert client.wait(h2.events.StreamReset, stream).error_code == Codes.CANCEL
    assert time.monotonic() - begun > 1.4
    assert client.response(client.start("/hello", "HEAD")).status == 200


def test_window_opened_byte_by_byte(server):
    client = Client2(server, settings={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1})
    client.auto_window = False
    stream = client.start("/flow?bytes=200")
    for _ in range(199):
        n = len(client.of(stream, h2.events.DataReceived))
        while len(client.of(stream, h2.events.DataReceived)) == n:
            client.read()
        client.h2.increment_flow_control_window(1, stream)
        client.flush()
    assert len(client.response(stream).body) == 200


def test_client_that_stops_reading(make_server):
    """TCP is full: each stream's queue is bounded, and the connection is thrown out."""
    server = make_server(write_timeout_ms=1500)
    client = Client2(server, rcvbuf=65536)
    client.h2.increment_flow_control_window(1 << 29)
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 29})
    client.flush()
    client.get("/hello")
    rss = server.rss()
    for _ in range(20):
        client.start("/flow?bytes=1000000000")
    time.sleep(0.5)
    assert server.stats()["max_queued"] < 256 * 1024 + 65536
    assert server.grown(rss) < 20 * 600 + 4096
    server.until(lambda s: s["closed"]["timeout"] == 20)


def test_slow_body_and_slow_head(make_server):
    server = make_server(body_timeout_ms=300, head_timeout_ms=300)
    client = Client2(server)
    client.get("/hello")
    stream = client.start("/request", "POST", end=False)
    assert client.response(stream).status == 408
    assert client.get("/hello").status == 200
    client.sock.sendall(frame(HEADERS, 0, 99, block()[:10]))  # no CONTINUATION ever
    start = time.monotonic()
    client.until_end()
    assert time.monotonic() - start < 5
    assert server.stats()["refused"]["slow"] == 2


def test_idle(make_server):
    server = make_server(idle_timeout_ms=300)
    client = Client2(server)
    client.get("/late?ms=500")  # a stream keeps it
    assert client.until_end() == Codes.NO_ERROR


# ---- clients that go away ----


def test_reset_is_noticed_at_once(server):
    client = Client2(server)
    stream = client.start("/events?n=3&ms=60000")
    client.wait(h2.events.ResponseReceived, stream)
    client.h2.reset_stream(stream, Codes.CANCEL)
    client.flush()
    _, seconds = server.until(lambda s: s["closed"]["client_gone"] == 1)
    assert seconds < 5
    assert client.get("/hello").body == b"hello\n"


@pytest.mark.parametrize("how", ["half-close", "close"])
def test_gone_during_streams(either, how):
    client = Client2(either)
    streams = [client.start("/events?n=3&ms=60000") for _ in range(10)]
    for stream in streams:
        client.wait(h2.events.ResponseReceived, stream)
    client.sock.shutdown(socket.SHUT_WR) if how == "half-close" else client.close()
    _, seconds = either.until(lambda s: s["closed"]["client_gone"] == 10)
    assert seconds < 5


# ---- drain ----


def test_goaway_while_streams_go_on(either):
    client = Client2(either)
    slow = client.start("/events?n=20&ms=100&size=30")
    client.wait(h2.events.ResponseReceived, slow)
    drain = client.start("/drain")
    frames = Frames(client.sock)  # the h2 package takes the first GOAWAY for the end
    seen = frames.rest()
    goaways = [(int.from_bytes(p[:4], "big"), p[4:8]) for kind, _, _, p in seen if kind == GOAWAY]
    no_error = b"\0\0\0\0"
    assert goaways == [(2**31 - 1, no_error), (drain, no_error)]  # first "open no new ones", then the last one it took
    body = b"".join(p for kind, _, stream, p in seen if kind == DATA and stream == slow)
    early = sum(len(e.data) for e in client.of(slow, h2.events.DataReceived))
    assert early + len(body) == 20 * 30
    assert any(kind == DATA and flags & END_STREAM and stream == slow for kind, flags, stream, _ in seen)


# ---- floods ----


class Frames:
    """The frames a server sends, for clients that do what the h2 package would not."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""

    def next(self):
        """(type, flags, stream, payload); None at the end of the connection."""
        while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], "big"):
            try:
                more = self.sock.recv(65536)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self.data += more
        n = int.from_bytes(self.data[:3], "big")
        found = self.data[3], self.data[4], int.from_bytes(self.data[5:9], "big"), self.data[9 : 9 + n]
        self.data = self.data[9 + n :]
        return found

    def rest(self):
        return list(iter(self.next, None))

    def goaways(self):
        return [int.from_bytes(payload[4:8], "big") for kind, _, _, payload in self.rest() if kind == GOAWAY]


def flood(client, pieces):
    """Writes until the server has enough of it; the code of its GOAWAY, None without one."""
    frames, code = Frames(client.sock), None
    for turn, piece in enumerate(pieces):
        assert turn < 100_000, "the server takes everything"
        try:
            client.sock.sendall(piece)
        except ConnectionError:
            break
        while select.select([client.sock], [], [], 0)[0]:
            found = frames.next()
            if found is None:
                return code
            if found[0] == GOAWAY:
                code = int.from_bytes(found[3][4:8], "big")
    return code


def repeat(piece, times=64):
    while True:
        yield piece * times


FLOODS = {
    "ping": repeat(frame(PING, 0, 0, b"12345678")),
    "settings": repeat(frame(SETTINGS, 0, 0, b"\0\4\0\1\0\0")),
    "empty settings": repeat(frame(SETTINGS, 0, 0)),
    "priority": repeat(frame(PRIORITY, 0, 5, b"\0\0\0\0\x10")),
    "window updates": repeat(frame(WINDOW, 0, 0, b"\0\0\0\1")),
    "ping answers nobody asked for": repeat(frame(PING, ACK, 0, b"12345678")),
}


@pytest.mark.parametrize("name", FLOODS)
def test_flood_of_frames(server, name):
    client = Client2(server)
    client.get("/hello")
    code = flood(client, FLOODS[name])
    assert code == Codes.ENHANCE_YOUR_CALM
    stats = server.stats()
    assert stats["refused"]["flood"] == 1 and stats["connections"] == 1


def test_flood_of_empty_data(server):
    client = Client2(server)
    client.get("/hello")
    stream = client.start("/request", "POST", end=False)
    code = flood(client, repeat(frame(DATA, 0, stream)))
    assert code == Codes.ENHANCE_YOUR_CALM
    assert server.stats()["closed"]["protocol"] == 1


def test_flood_of_padding(server):
    client = Client2(server)
    client.get("/hello")
    stream = client.start("/request", "POST", end=False)
    code = flood(client, repeat(frame(DATA, 8, stream, b"\x05" + b"\0" * 5)))
    assert code == Codes.ENHANCE_YOUR_CALM


def test_rapid_reset(server):
    """CVE-2023-44487: requests taken back at once."""
    client = Client2(server)
    client.get("/hello")

    def pairs():
        stream = 3
        while True:
            data = b""
            for _ in range(64):
                data += frame(HEADERS, END_STREAM | END_HEADERS, stream, block(b"/late")) + frame(RST, 0, stream, b"\0\0\0\x08")
                stream += 2
            yield data

    code = flood(client, pairs())
    assert code == Codes.ENHANCE_YOUR_CALM
    stats = server.stats()
    assert stats["http2"] < 3000 and stats["open_streams"] == 0


def test_a_few_resets_are_fine(server):
    client = Client2(server)
    for _ in range(200):
        stream = client.start("/late")
        client.h2.reset_stream(stream, Codes.CANCEL)
    client.flush()
    assert client.get("/hello").body == b"hello\n"


@pytest.mark.parametrize("piece", [b"", b"\0\1a\1b"], ids=["empty", "with fields"])
def test_flood_of_continuation(server, piece):
    """CVE-2024-28182 and its kin: a header block without end."""
    client = Client2(server)
    client.get("/hello")
    rss = server.rss()
    client.sock.sendall(frame(HEADERS, END_STREAM, 3, block()))
    assert flood(client, repeat(frame(CONTINUATION, 0, 3, piece))) == Codes.ENHANCE_YOUR_CALM
    server.until(lambda s: s["connections"] == 1)
    assert server.grown(rss) < 2048


def test_header_bomb(server):
    """4 KB put into the compression table once, then named in one byte each: megabytes of fields from kilobytes."""
    client = Client2(server)
    client.get("/hello")
    value = b"a" * 4000
    add = b"\x40\x01x\x7f\xa1\x1e" + value  # literal with incremental indexing, length 4000
    bomb = block() + add + b"\xbe" * 10_000
    rss = server.rss()
    for stream in range(3, 43, 2):
        client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, bomb[:16384]))
    time.sleep(0.2)
    assert server.grown(rss) < 4096
    assert server.process.poll() is None and server.stats()["refused"]["head"] == 0  # reset, not answered


def test_too_many_streams(make_server):
    """Before the client can know the limit, streams beyond it are refused one by one; a client that knows it is ended."""
    server = make_server(max_streams=10)
    with server.connect() as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        for stream in range(1, 61, 2):
            sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, block(b"/late?ms=300")))
        frames, refused, answered = Frames(sock), 0, 0
        while refused + answered < 30:
            kind, flags, _, payload = frames.next()
            refused += kind == RST and payload == bytes([0, 0, 0, Codes.REFUSED_STREAM])
            answered += kind == DATA and payload == b"late\n"
        assert (answered, refused) == (10, 20)
    client = Client2(server)
    client.get("/hello")
    for stream in range(3, 63, 2):
        client.sock.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, block(b"/late?ms=300")))
    assert Frames(client.sock).goaways() == [Codes.PROTOCOL_ERROR]
    assert server.stats()["http2"] == 10 + 1 + 10


# ---- h2spec ----


def test_h2spec(either, tmp_path):
    report = tmp_path / "h2spec.xml"
    argv = [wire.h2spec(), str(either.port), "/request", str(report), *(["tls"] if either.tls else [])]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    bad = [f"{c.get('package')} {c.get('classname')}" for c in cases if len(c)]
    assert len(cases) >= 145 and not bad, f"{bad}\n{done.stdout[-3000:]}"
    assert done.returncode == 0
