"""HTTP/1.1 on the wire, with plain sockets: the cases that Debian's libwebsockets fails, and their neighbours."""

import json
import socket
import subprocess
import time

import pytest
import netwire as wire
from netwire import Reader, chunks, exchange, read_head, read_response, request


AT_ONCE = 5  # seconds, on a busy machine


def post(path, *headers):
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n".encode() + b"".join(h + b"\r\n" for h in headers) + b"\r\n"


# ---- what is taken ----


def test_hello(either):
    response, reader = exchange(either, request("/hello"))
    assert (response.status, response.body) == (200, b"hello\n")
    assert response.header("content-length") == "6"
    assert response.header("connection") is None
    sent = time.mktime(time.strptime(response.header("date"), "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
    assert abs(sent - time.time()) < 30
    reader.sock.sendall(request("/hello"))  # the connection goes on
    assert read_response(reader).body == b"hello\n"


def test_what_the_handler_gets(either):
    body = b"x" * 100_000
    response, _ = exchange(either, request("/request?a=%20b", "POST", body, X_Thing=" v ", Accept="*/*", TE="trailers"))
    got = response.json()
    assert got["method"] == "POST" and got["target"] == "/request?a=%20b" and got["path"] == "/request" and got["query"] == "a=%20b"
    assert got["authority"] == "localhost" and got["version"] == 11 and got["length"] == 100_000
    assert got["headers"] == [["x-thing", "v"], ["accept", "*/*"]]
    assert got["body_bytes"] == len(body) and got["body_hash"] == wire.fnv(body)
    assert got["tls"] == bool(either.tls) and got["scheme"] == ("https" if either.tls else "http")
    assert got["peer"].startswith("127.0.0.1:")


def test_chunked_request(either):
    body = b"hello " * 5000
    response, reader = exchange(either, post("/request", b"Transfer-Encoding: chunked") + chunks(body[:7], body[7:20000], body[20000:]))
    assert response.json()["body_hash"] == wire.fnv(body)
    assert response.json()["length"] == -1
    reader.sock.sendall(post("/request", b"Transfer-Encoding: chunked") + b"3;x=\"y\"\r\nabc\r\n0\r\nX-Trailer: z\r\n\r\n")
    assert read_response(reader).json()["body_bytes"] == 3


def test_byte_by_byte(server):
    sock = server.connect()
    for byte in post("/request", b"Transfer-Encoding: chunked", b"X: y") + chunks(b"abc", b"defgh"):
        sock.sendall(bytes([byte]))
    got = read_response(Reader(sock)).json()
    assert got["body_hash"] == wire.fnv(b"abcdefgh") and got["headers"] == [["x", "y"]]


def test_25_mb_upload(either):
    body = bytes(range(256)) * 100_000
    for data in (request("/request", "POST", body), post("/request", b"Transfer-Encoding: chunked") + chunks(body[:9_000_000], body[9_000_000:])):
        start = time.monotonic()
        response, _ = exchange(either, data)
        assert response.json()["body_bytes"] == len(body)
        assert time.monotonic() - start < wire.PATIENCE


def test_echo_and_held_back_reader(either):
    """The echo is read only after everything was sent: the server must hold the upload back and not fill its memory."""
    body = bytes(range(251)) * 80_000
    sock = either.connect(rcvbuf=65536)
    sock.sendall(post("/echo", b"Content-Length: %d" % len(body)))
    sock.settimeout(0.5)
    sent = 0
    with pytest.raises(TimeoutError):
        while sent < len(body):
            sent += sock.send(body[sent : sent + 65536])
    assert sent < len(body)
    assert either.stats()["max_queued"] < 256 * 1024 + 2 * 65536
    sock.settimeout(wire.PATIENCE)
    if either.tls:
        return  # one ssl socket cannot be read and written at once here
    import threading

    writer = threading.Thread(target=sock.sendall, args=(body[sent:],))
    writer.start()
    assert read_response(Reader(sock)).body == body
    writer.join()


def test_pipelined_requests(either):
    """Answered one after the other, in order."""
    sock = either.connect()
    sock.sendall(request("/late?ms=50") + request("/request", "POST", b"abc") + request("/hello") * 3)
    reader = Reader(sock)
    assert read_response(reader).body == b"late\n"
    assert read_response(reader).json()["body_bytes"] == 3
    assert [read_response(reader).body for _ in range(3)] == [b"hello\n"] * 3


def test_many_pipelined_requests(server):
    """More than the server keeps for later: it stops reading, then goes on."""
    n = 5000
    sock = server.connect()
    sock.settimeout(0.2)
    data, sent = request("/late?ms=100") + request("/hello") * n, 0
    reader = Reader(sock)
    done = 0
    while done < n + 1:
        try:
            sent += sock.send(data[sent:]) if sent < len(data) else 0
        except TimeoutError:
            pass
        try:
            while b"hello\n" in reader.buffer or sent == len(data) or b"late\n" in reader.buffer:
                read_response(reader)
                done += 1
                if done == n + 1:
                    break
            else:
                reader.more()
        except TimeoutError:
            pass
    assert server.process.poll() is None


def test_byte_after_the_body(server):
    """One byte too much is the beginning of a next request: answered with 400 once it cannot be one, and no CPU is burnt meanwhile."""
    response, reader = exchange(server, request("/request", "POST", b"abc") + b"Z")
    assert response.json()["body_bytes"] == 3
    before = cpu_ticks(server)
    time.sleep(0.5)
    assert cpu_ticks(server) - before <= 5
    reader.sock.sendall(b"\r\n\r\n")
    assert read_response(reader).status == 400
    assert reader.rest() == b""


def cpu_ticks(server):
    with open(f"/proc/{server.process.pid}/stat") as f:
        fields = f.read().split()
    return int(fields[13]) + int(fields[14])


def test_http10(server):
    response, reader = exchange(server, b"GET /hello HTTP/1.0\r\n\r\n")
    assert response.body == b"hello\n" and response.header("connection") == "close"
    assert reader.rest() == b""
    response, reader = exchange(server, b"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert response.header("connection") == "keep-alive"
    reader.sock.sendall(b"GET /events?n=3&size=20 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    response = read_response(reader)  # no length, no chunks: ended by the connection
    assert response.header("transfer-encoding") is None and response.body.count(b"data: ") == 3


def test_close_asked_for(server):
    response, reader = exchange(server, request("/hello", Connection="close"))
    assert response.header("connection") == "close" and reader.rest() == b""


def test_head(server):
    sock = server.connect()
    reader = Reader(sock)
    sock.sendall(request("/hello", "HEAD") + request("/events?n=2", "HEAD") + request("/hello"))
    response = read_response(reader, head=True)
    assert response.header("content-length") == "6"
    response = read_response(reader, head=True)
    assert response.header("transfer-encoding") == "chunked"
    assert read_response(reader).body == b"hello\n"


def test_options_asterisk_and_absolute_form(server):
    response, _ = exchange(server, b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
    assert response.json()["path"] == "*"
    response, _ = exchange(server, b"GET http://other:8080/request?q HTTP/1.1\r\nHost: h\r\n\r\n")
    got = response.json()
    assert (got["path"], got["query"], got["authority"]) == ("/request", "q", "other:8080")


def test_upgrade_is_ignored(server):
    response, reader = exchange(
        server, request("/hello", Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMAAABkAAQAAP__")
    )
    assert response.body == b"hello\n"
    reader.sock.sendall(request("/hello"))
    assert read_response(reader).body == b"hello\n"


def test_trailers(server):
    response, _ = exchange(server, request("/trailers"))
    assert response.body == b"body\n"
    assert response.trailers == [("x-sum", "42"), ("x-odd", "a  b")]  # CR and LF of the handler's value do not get out


def test_big_answer(either):
    response, _ = exchange(either, request("/big?bytes=20000000"))
    assert response.body == b"x" * 20_000_000


@pytest.mark.parametrize("path", ["/abort", "/short"])
def test_broken_off_answers_look_broken(server, path):
    sock = server.connect()
    sock.sendall(request(path))
    reader = Reader(sock)
    with pytest.raises((EOFError, ConnectionResetError)):
        read_response(reader)
    assert b"a piece" in reader.buffer or path == "/abort"


def test_destroyed_inside_a_handler(make_server):
    server = make_server()
    with server.connect() as other, server.connect() as sock:
        other.sendall(request("/late?ms=5000"))
        time.sleep(0.1)
        sock.sendall(request("/close"))
        assert sock.recv(100) == b""
        assert other.recv(100) == b""


# ---- 100-continue ----


def test_continue(either):
    body = b"x" * 2_000_000
    sock = either.connect()
    reader = Reader(sock)
    sock.sendall(post("/request", b"Content-Length: %d" % len(body), b"Expect: 100-continue"))
    assert read_response(reader).status == 100
    sock.sendall(body)
    response = read_response(reader)
    assert response.status == 200 and response.json()["body_hash"] == wire.fnv(body)
    sock.sendall(request("/hello"))
    assert read_response(reader).body == b"hello\n"


def test_continue_waits_while_paused(server):
    sock = server.connect()
    reader = Reader(sock)
    sock.sendall(post("/paused?ms=200", b"Content-Length: 3", b"Expect: 100-continue"))
    start = time.monotonic()
    assert read_response(reader).status == 100
    assert time.monotonic() - start > 0.15
    sock.sendall(b"abc")
    assert read_response(reader).json()["body_bytes"] == 3


@pytest.mark.parametrize("path, length, status", [("/refuse", 5, 401), ("/request", 10_000_000, 413)])
def test_no_continue_for_what_is_refused(make_server, path, length, status):
    server = make_server(max_body_bytes=1_000_000)
    response, reader = exchange(server, post(path, b"Content-Length: %d" % length, b"Expect: 100-continue"))
    assert response.status == status  # not 100
    assert response.header("connection") == "close" and reader.rest() == b""


def test_curl_sends_a_large_body_without_waiting(server, tmp_path):
    """curl waits for 100 with bodies over 1 MiB: a second, here half a minute."""
    (tmp_path / "body").write_bytes(b"x" * 3_000_000)
    start = time.monotonic()
    out = subprocess.run(
        ["curl", "-sS", "--expect100-timeout", "30", "--data-binary", f"@{tmp_path}/body", f"http://127.0.0.1:{server.port}/request"],
        check=True, capture_output=True,
    ).stdout
    assert json.loads(out)["body_bytes"] == 3_000_000
    assert time.monotonic() - start < 15


# ---- what is refused ----

SMUGGLED = b"GET /hello HTTP/1.1\r\nHost: h\r\n\r\n"
REFUSED = {
    "length and coding": (post("/request", b"Content-Length: 5", b"Transfer-Encoding: chunked") + chunks(b"hello"), 400),
    "two lengths": (post("/request", b"Content-Length: 5", b"Content-Length: 6") + b"hello", 400),
    "the same length twice": (post("/request", b"Content-Length: 5", b"Content-Length: 5") + b"hello", 400),
    "5abc": (post("/request", b"Content-Length: 5abc") + b"hello", 400),
    "+5": (post("/request", b"Content-Length: +5") + b"hello", 400),
    "-5": (post("/request", b"Content-Length: -5") + b"hello", 400),
    "a list of lengths": (post("/request", b"Content-Length: 5, 5") + b"hello", 400),
    "huge length": (post("/request", b"Content-Length: 99999999999999999999") + b"hello", 400),
    "coding twice": (post("/request", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + chunks(b"hello"), 400),
    "chunked, chunked": (post("/request", b"Transfer-Encoding: chunked, chunked") + chunks(b"hello"), 400),
    "other coding": (post("/request", b"Transfer-Encoding: gzip") + chunks(b"hello"), 501),
    "folded line": (post("/request", b"X: a\r\n b"), 400),
    "folded first line": (b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400),
    "bare LF": (b"GET / HTTP/1.1\nHost: h\n\n", 400),
    "bare LF in a header": (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\nY: b\r\n\r\n", 400),
    "bare CR": (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\rY: b\r\n\r\n", 400),
    "NUL in a value": (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n", 400),
    "NUL in the target": (b"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "control byte": (b"GET / HTTP/1.1\r\nHost: h\r\nX: a\x01b\r\n\r\n", 400),
    "space before the colon": (post("/request", b"Content-Length : 5") + b"hello", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "odd host": (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    "no version": (b"GET /\r\n\r\n", 400),
    "two spaces": (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    "version 3": (b"GET / HTTP/3.0\r\nHost: h\r\n\r\n", 505),
    "connect": (b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", 501),
    "unknown expectation": (b"GET / HTTP/1.1\r\nHost: h\r\nExpect: coffee\r\n\r\n", 417),
    "bad chunk size": (post("/request", b"Transfer-Encoding: chunked") + b"5x\r\nhello\r\n0\r\n\r\n", 400),
    "chunk without CRLF": (post("/request", b"Transfer-Encoding: chunked") + b"5\r\nhelloXX0\r\n\r\n", 400),
    "chunk size with LF": (post("/request", b"Transfer-Encoding: chunked") + b"5\nhello\r\n0\r\n\r\n", 400),
    "huge chunk": (post("/request", b"Transfer-Encoding: chunked") + b"ffffffffffffffffff\r\n", 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(server, name):
    """One answer in OpenAI's shape, then the end; what follows is never taken for a request."""
    data, status = REFUSED[name]
    response, reader = exchange(server, data + SMUGGLED * 2)
    assert response.status == status
    assert response.header("connection") == "close"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["message"] and error["code"] and error["param"] is None
    assert reader.rest() == b""
    stats = server.stats()
    assert stats["refused"]["malformed"] == 1 and stats["http1"] <= 2


def test_header_limits(server):
    response, _ = exchange(server, request("/request", Authorization="x" * 6144))
    assert dict(response.json()["headers"])["authorization"] == "x" * 6144
    response, _ = exchange(server, request("/request", X="x" * 70000))
    assert response.status == 431 and response.json()["error"]["code"] == "headers_too_large"
    response, _ = exchange(server, request("/request", **{f"X-{i}": "y" for i in range(101)}))
    assert response.status == 431
    response, _ = exchange(server, request("/" + "a" * 9000))
    assert response.status == 414 and response.json()["error"]["code"] == "target_too_long"


def test_endless_head_is_refused_at_the_limit(server):
    sock = server.connect()
    sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n")
    for _ in range(2000):  # the server takes it for a while, and forgets it, so that its answer is not lost to a reset
        sock.sendall(b"X: " + b"y" * 1000 + b"\r\n")
    response = read_response(reader := Reader(sock))
    assert response.status == 431 and reader.rest() == b""
    assert server.stats()["refused"]["head"] == 1


@pytest.mark.parametrize("how", ["announced", "chunked", "announced, all of it sent"])
def test_body_over_the_limit(make_server, how):
    server = make_server(max_body_bytes=100_000)
    data = {
        "announced": post("/request", b"Content-Length: 100001"),
        "chunked": post("/request", b"Transfer-Encoding: chunked") + b"ffff\r\n" + b"x" * 0xFFFF + b"\r\nffff\r\n" + b"x" * 40000,
        "announced, all of it sent": request("/request", "POST", b"x" * 2_000_000),
    }[how]
    response, reader = exchange(server, data)
    assert response.status == 413 and response.json()["error"]["code"] == "body_too_large"
    assert response.header("connection") == "close" and reader.rest() == b""
    assert server.stats()["refused"]["body"] == 1
    assert exchange(server, request("/request", "POST", b"x" * 100_000))[0].status == 200


def test_refused_before_a_small_body_keeps_the_connection(server):
    response, reader = exchange(server, request("/refuse", "POST", b"x" * 1000) + request("/hello"))
    assert response.status == 401 and response.header("connection") is None
    assert read_response(reader).body == b"hello\n"


def test_refused_before_a_large_body_ends_it(server):
    response, reader = exchange(server, post("/refuse", b"Content-Length: 30000000") + b"x" * 10_000)
    assert response.status == 401 and response.header("connection") == "close"
    assert reader.rest() == b""


def test_not_http(server):
    with server.connect() as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # a TLS hello
        assert sock.recv(100) == b""
    with server.connect() as sock:
        sock.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        sock.settimeout(0.3)
        with pytest.raises(TimeoutError):
            sock.recv(100)  # still may be a request line


# ---- time ----


def test_slow_head(make_server):
    server = make_server(head_timeout_ms=300)
    sock = server.connect()
    start = time.monotonic()
    for byte in b"GET / HTTP/1.1\r\nHost: h\r\nX: ":
        sock.sendall(bytes([byte]))
        time.sleep(0.005)
    response = read_response(Reader(sock))
    assert response.status == 408 and 0.25 < time.monotonic() - start < 5
    assert response.json()["error"]["code"] == "request_timeout"
    assert server.stats()["refused"]["slow"] == 1


def test_slow_preface(make_server):
    server = make_server(head_timeout_ms=300)
    with server.connect() as sock:
        sock.sendall(b"PRI * HTTP/2.0\r\n")
        assert sock.recv(100) == b""


def test_slow_body(make_server):
    server = make_server(body_timeout_ms=300)
    start = time.monotonic()
    response, reader = exchange(server, post("/request", b"Content-Length: 100") + b"x" * 50)
    assert response.status == 408 and 0.25 < time.monotonic() - start < 5
    assert reader.rest() == b""
    assert server.stats()["closed"]["timeout"] == 1


def test_body_time_counts_from_the_last_byte(make_server):
    server = make_server(body_timeout_ms=1500)
    sock = server.connect()
    sock.sendall(post("/request", b"Content-Length: 5"))
    for _ in range(5):
        time.sleep(0.5)
        sock.sendall(b"x")
    assert read_response(Reader(sock)).status == 200


def test_idle(make_server):
    server = make_server(idle_timeout_ms=300)
    with server.connect() as unused:
        start = time.monotonic()
        assert unused.recv(100) == b"" and time.monotonic() - start > 0.2
    response, reader = exchange(server, request("/hello"))
    start = time.monotonic()
    assert reader.rest() == b"" and time.monotonic() - start > 0.2


def test_client_that_stops_reading(make_server):
    """Its queue stays bounded, other clients do not notice, and in the end it is thrown out."""
    server = make_server(write_timeout_ms=1000)
    sock = server.connect(rcvbuf=65536)
    sock.sendall(request("/flow?bytes=1000000000"))
    rss = server.rss()
    time.sleep(0.5)
    stats = server.stats()
    assert 256 * 1024 < stats["max_queued"] < 256 * 1024 + 65536
    assert server.grown(rss) < 4096
    server.until(lambda s: s["closed"]["timeout"] == 1)
    assert server.stats()["refused"]["slow"] == 1
    sock.close()


def test_slow_reader_gets_everything(make_server):
    server = make_server(write_timeout_ms=1000)
    sock = server.connect(rcvbuf=16384)
    sock.sendall(request("/flow?bytes=3000000"))
    reader = Reader(sock)
    head = read_head(reader)
    while len(reader.buffer) < int(head.header("content-length")):
        time.sleep(0.01)
        assert reader.more()
    assert server.stats()["max_queued"] < 256 * 1024 + 65536


# ---- clients that go away ----


@pytest.mark.parametrize("how", ["half-close", "close", "reset"])
def test_gone_during_a_stream(either, how):
    """Noticed at once (patience is for busy machines), not when the next event is written in a minute."""
    sock = either.connect()
    sock.sendall(request("/events?n=3&ms=60000"))
    reader = Reader(sock)
    read_head(reader)
    if how == "half-close":
        sock.shutdown(socket.SHUT_WR)
    elif how == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    else:
        sock.close()
    stats, seconds = either.until(lambda s: s["closed"]["client_gone"] == 1)
    assert seconds < AT_ONCE and stats["open_streams"] == 0
    sock.close()


def test_gone_while_reading_is_paused(server):
    """The server does not read the body, and still sees that its client has left."""
    sock = server.connect()
    sock.sendall(post("/paused?ms=60000", b"Content-Length: 1000") + b"x" * 100)
    time.sleep(0.2)
    sock.close()
    _, seconds = server.until(lambda s: s["closed"]["client_gone"] == 1)
    assert seconds < AT_ONCE


def test_half_close_after_the_request(server):
    """A client that asks, sends FIN and waits gets the answer if it is ready at once."""
    sock = server.connect()
    sock.sendall(request("/hello"))
    sock.shutdown(socket.SHUT_WR)
    assert Reader(sock).rest().endswith(b"hello\n")


def test_gone_in_the_middle_of_a_request(server):
    for part in (b"GET / HT", post("/request", b"Content-Length: 10") + b"abc"):
        with server.connect() as sock:
            sock.sendall(part)
        time.sleep(0.05)
    stats, _ = server.until(lambda s: s["connections"] == 1)
    assert stats["closed"]["client_gone"] == 1 and stats["open_streams"] == 0


# ---- drain ----


def test_drain(server):
    _, idle = exchange(server, request("/hello"))
    unused, busy = server.connect(), server.connect()
    busy.sendall(request("/late?ms=1500"))
    time.sleep(0.1)
    response, reader = exchange(server, request("/drain"))
    assert response.body == b"draining\n" and response.header("connection") is None  # it was answered before the drain
    assert reader.rest() == b""
    start = time.monotonic()
    assert idle.rest() == b"" and time.monotonic() - start < 0.5  # closed at once
    assert unused.recv(100) == b"" and time.monotonic() - start < 3  # its first request could have been on the way
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    reader = Reader(busy)
    response = read_response(reader)  # goes on to its end
    assert response.body == b"late\n" and response.header("connection") == "close"
    assert reader.rest() == b""
