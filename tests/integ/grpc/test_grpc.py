"""Our gRPC client against servers on gRPC core (C), grpc-go, grpcio and lib/net: what is answered, how calls end, and what happens when a server does not behave.

The servers do the same thing (service.txt), so every scenario runs against each. Times are only looked at where the scenario is about time, with wide margins.
"""

import pathlib
import signal
import socket
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import peers  # noqa: E402

CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()


def command_of(kind):
    """Skips where a server's language is missing."""
    try:
        return peers.COMMANDS[kind]()
    except RuntimeError as missing:
        pytest.skip(str(missing))


@pytest.fixture(params=["c", "go", "python", "own"], scope="module")
def kind(request):
    if request.param == "python":
        pytest.importorskip("grpc", reason="no grpcio in this environment")
    command_of(request.param)
    return request.param


@pytest.fixture(scope="module")
def shared(kind):
    """One server for the scenarios that leave it as it was."""
    server = peers.Server(kind)
    yield server
    server.close()


@pytest.fixture
def make_server(kind):
    made = []

    def make(*options, kind=kind):
        made.append(peers.Server(kind, *options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def make_probe():
    made = []

    def make(address, **options):
        made.append(peers.Probe(address, **options))
        return made[-1]

    yield make
    for probe in made:
        probe.finish()


@pytest.fixture
def probe(shared, make_probe):
    return make_probe(shared.address)


def trailers(end):
    return dict(end["trailers"])


def is_ok(end):
    assert (end["code"], end["message"], end["processed"]) == ("OK", "", True), end
    return True


# --- answers ---


def test_unary(probe):
    probe.start("a", "echo=1 hello", show=1)
    assert probe.expect(event="message", id="a") == {"event": "message", "id": "a", "bytes": 12, "text": "echo=1 hello"}
    end = probe.end("a")
    assert is_ok(end) and end["messages"] == 1
    assert trailers(end)["sent"] == "1"


def test_stream_of_10000(probe):
    probe.start("a", "count=10000 size=16", method="Stream")
    end = probe.end("a")
    assert is_ok(end)
    assert (end["messages"], end["bytes"]) == (10000, 160000)
    assert end["crc"] == peers.crc(peers.reply(k, 16) for k in range(10000))


def test_streams_side_by_side(probe):
    for i in range(20):
        probe.start(f"s{i}", f"count={100 + i} size={i}", method="Stream")
    ends = {}
    while len(ends) < 20:
        end = probe.expect(event="end")
        ends[end["id"]] = end
    for i in range(20):
        end = ends[f"s{i}"]
        assert is_ok(end) and end["crc"] == peers.crc(peers.reply(k, i) for k in range(100 + i))


def test_4_mb_both_ways(probe):
    size = 4_000_000
    probe.start("a", "echo=1 ", pad=size)
    end = probe.end("a")
    assert is_ok(end)
    assert end["crc"] == peers.crc([b"echo=1 " + b"x" * size])
    probe.start("b", f"count=3 size={size}", method="Stream")
    end = probe.end("b")
    assert is_ok(end)
    assert (end["messages"], end["bytes"]) == (3, 3 * size)
    assert end["crc"] == peers.crc(peers.reply(k, size) for k in range(3))


def test_empty_messages(probe):
    probe.start("a", "count=5 size=0", method="Stream", show=1)
    for _ in range(5):
        assert probe.expect(event="message", id="a")["bytes"] == 0
    assert is_ok(probe.end("a"))
    probe.start("b", "", method="Unary")  # an empty request, an empty reply
    end = probe.end("b")
    assert is_ok(end)
    assert (end["messages"], end["bytes"]) == (1, 0)
    probe.start("c", "count=0", method="Stream")
    end = probe.end("c")
    assert is_ok(end) and end["messages"] == 0


@pytest.mark.parametrize("code", range(1, 17))
def test_status(probe, code):
    """After messages (trailers), and before any (trailers only); the text in UTF-8."""
    text = "grün_€_%41_100%"
    probe.start("a", f"count=2 size=3 status={code} message={text}", method="Stream")
    probe.start("b", f"status={code} message={text}", method="Unary")
    probe.start("c", f"status={code}", method="Unary")
    ends = {}
    while len(ends) < 3:
        end = probe.expect(event="end")
        ends[end["id"]] = end
    for name, messages, want in (("a", 2, text.replace("_", " ")), ("b", 0, text.replace("_", " ")), ("c", 0, "")):
        end = ends[name]
        assert (end["code"], end["message"], end["messages"]) == (CODES[code], want, messages), end
        assert end["processed"] is True


def test_unknown_method(probe):
    probe.start("a", "", method="Nope")
    assert probe.end("a")["code"] == "UNIMPLEMENTED"


def test_metadata(probe):
    md = [("x-plain", "some_text,with;marks"), ("x-empty", ""), ("x-twice", "1"), ("x-twice", "2"), ("x-raw-bin", "00ff10"), ("x-none-bin", "")]
    probe.start("a", "echo=1", md=md)
    end = probe.end("a")
    assert is_ok(end)
    assert sorted(pair for pair in map(tuple, end["trailers"]) if pair[0].startswith("x-")) == sorted(md)
    probe.start("b", "status=7", md=md)  # trailers only
    end = probe.end("b")
    assert end["code"] == "PERMISSION_DENIED"
    assert sorted(pair for pair in map(tuple, end["trailers"]) if pair[0].startswith("x-")) == sorted(md)


def test_bad_metadata_never_leaves(probe):
    for name, value in (("te", "x"), ("grpc-timeout", "1S"), ("X-Upper", "1"), ("x-bad", "\x01")):
        probe.start("a", "echo=1", md=[(name, value)])
        end = probe.end("a")
        assert (end["code"], end["processed"]) == ("INVALID_ARGUMENT", False)


# --- deadlines, cancel ---


def test_deadline(shared, probe):
    probe.start("a", "id=deadline wait_ms=8000 count=1", method="Stream", timeout_ms=300)
    end = probe.end("a")
    assert (end["code"], end["processed"], end["messages"]) == ("DEADLINE_EXCEEDED", True, 0)
    assert 250 <= end["ms"] < 3000
    shared.expect(event="cancelled", id="deadline", timeout=5)


def test_the_server_is_told_the_deadline(probe):
    for ms in (5_000, 100_000, 3_600_000, 400_000_000):
        probe.start("a", "echo=1", timeout_ms=ms)
        end = probe.end("a")
        assert is_ok(end)
        assert ms - 4_000 <= int(trailers(end)["left-ms"]) <= ms + 1_000  # whole seconds are rounded up


def test_cancel_is_seen_by_the_server(shared, probe):
    probe.start("a", "id=cancel count=100000 size=10 delay_ms=5", method="Stream", show=1)
    for _ in range(3):
        probe.expect(event="message", id="a")
    probe.say("cancel a")
    seen = shared.expect(event="cancelled", id="cancel", timeout=5)
    assert seen["sent"] < 1000
    assert not [line for line in probe.drain(0.2) if line["event"] == "end"]  # a cancelled call has no end
    probe.start("b", "echo=1")  # the connection is as good as new
    assert is_ok(probe.end("b"))


def test_cancel_inside_a_message(shared, probe):
    probe.start("a", "id=cancel-inside count=100000 size=10", method="Stream", cancel_after=7)
    assert probe.expect(event="progress", id="a", messages=7)
    shared.expect(event="cancelled", id="cancel-inside", timeout=5)
    probe.start("b", "echo=1")
    assert is_ok(probe.end("b"))


def test_cancel_before_the_connection_is_up(shared, make_probe):
    probe = make_probe(shared.address)
    probe.say("start a /kelpie.test.Probe/Unary -- id=early echo=1\ncancel a\nstate")
    assert probe.expect(event="state")["calls"] == 0
    probe.start("b", "echo=1")
    assert is_ok(probe.end("b"))
    assert not [line for line in shared.seen if line.get("id") == "early"]


def test_destroyed_inside_a_message(shared, probe):
    probe.start("other", "id=other count=100000 size=10 delay_ms=5", method="Stream")
    probe.expect(event="progress", id="other")
    probe.start("a", "id=destroyer count=100000 size=10", method="Stream", destroy_after=5)
    ends = [probe.expect(event="end"), probe.expect(event="end")]
    assert {end["id"]: end["code"] for end in ends} == {"a": "CANCELLED", "other": "CANCELLED"}
    shared.expect(event="cancelled", id="destroyer", timeout=5)


# --- servers that go ---


def test_killed_in_mid_stream(make_server, make_probe):
    server = make_server()
    probe = make_probe(server.address)
    probe.start("a", "count=100000 size=10 delay_ms=2", method="Stream")
    probe.expect(event="progress", id="a", messages=10)
    server.signal(signal.SIGKILL)
    end = probe.end("a")
    assert (end["code"], end["processed"]) == ("UNAVAILABLE", True)
    server.wait()
    # Nobody listens: refused, so certainly not processed, at once and again while backing off.
    for _ in range(3):
        probe.start("b", "echo=1")
        end = probe.end("b")
        assert (end["code"], end["processed"]) == ("UNAVAILABLE", False)
        assert "refused" in end["message"] and server.address in end["message"], end
    # Back on the same port: who waits for it is served.
    probe.start("c", "echo=1", wait=1)
    make_server(f"listen={server.address}")
    assert is_ok(probe.end("c"))


def test_graceful_stop(make_server, make_probe):
    server = make_server()
    probe = make_probe(server.address)
    probe.start("a", "id=last count=200 size=10 delay_ms=5", method="Stream")
    probe.expect(event="progress", id="a", messages=10)
    server.signal(signal.SIGTERM)
    # The stream that runs may end; a call that comes after the goodbye is told that it was not taken.
    for i in range(200):
        probe.start("b", f"id=late{i} echo=1", timeout_ms=3000)
        late = probe.end("b")
        if late["code"] in ("DEADLINE_EXCEEDED", "UNAVAILABLE") and late["processed"]:
            # Rare: gRPC core counts the request in its GOAWAY and then forgets it. We did send it, and no handler saw it.
            server.drain(0.1)
            assert not [line for line in server.seen if line.get("id") == f"late{i}"], late
        elif late["code"] not in ("OK", "CANCELLED"):  # CANCELLED: how gRPC core answers between the signal and its goodbye
            break
        time.sleep(0.005)
    assert (late["code"], late["processed"]) == ("UNAVAILABLE", False), late
    end = next((e for e in probe.seen if e["event"] == "end" and e["id"] == "a"), None) or probe.end("a")
    assert is_ok(end) and end["messages"] == 200
    assert server.wait() == 0


def test_wait_for_ready(make_server, make_probe):
    address = f"127.0.0.1:{peers.free_port()}"
    probe = make_probe(address)
    probe.start("no", "echo=1")
    end = probe.end("no")
    assert (end["code"], end["processed"]) == ("UNAVAILABLE", False)
    probe.start("short", "echo=1", wait=1, timeout_ms=200)
    end = probe.end("short")
    assert (end["code"], end["processed"]) == ("DEADLINE_EXCEEDED", False)
    assert "refused" in end["message"]
    probe.start("yes", "echo=1", wait=1)
    time.sleep(0.3)
    make_server(f"listen={address}")
    assert is_ok(probe.end("yes"))


def test_pending_calls_have_a_limit(make_probe):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, never says a word
        probe = make_probe("127.0.0.1:%d" % silent.getsockname()[1], max_pending=3, connect_timeout_ms=800)
        for i in range(5):
            probe.start(f"p{i}", "echo=1")
        ends = {}
        while len(ends) < 5:
            end = probe.expect(event="end")
            ends[end["id"]] = end
        for i in range(5):
            end = ends[f"p{i}"]
            assert (end["code"], end["processed"]) == ("UNAVAILABLE" if i < 3 else "RESOURCE_EXHAUSTED", False)
        assert "no HTTP/2 SETTINGS from the server within 800 ms" in ends["p0"]["message"]


def test_not_a_grpc_server(make_probe):
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def web():
            while True:
                try:
                    conn, _ = listener.accept()
                except OSError:
                    return
                with conn:
                    conn.recv(4096)
                    conn.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=web, daemon=True).start()
        probe = make_probe("127.0.0.1:%d" % listener.getsockname()[1])
        probe.start("a", "echo=1")
        end = probe.end("a")
        assert (end["code"], end["processed"]) == ("UNAVAILABLE", False)
        assert "does not speak HTTP/2" in end["message"]
        listener.shutdown(socket.SHUT_RDWR)


# --- limits, flow control, keepalive ---


def test_max_concurrent_streams(make_server, make_probe):
    server = make_server("max_streams=1")
    probe = make_probe(server.address)
    for i in range(10):
        probe.start(f"q{i}", "count=1 size=10 wait_ms=20", method="Stream")
    order = []
    while len(order) < 10:
        end = probe.expect(event="end")
        assert is_ok(end)
        order.append((end["id"], trailers(end)["max-active"]))
    assert order == [(f"q{i}", "1") for i in range(10)]


def test_a_paused_call_holds_the_server_back(make_server, make_probe):
    server = make_server()
    probe = make_probe(server.address, window=65536)
    probe.start("slow", "id=slow count=20000 size=1000", method="Stream", pause_after=10)
    probe.expect(event="progress", id="slow", messages=10)
    time.sleep(1.0)
    sent = [line["sent"] for line in server.drain(0.3) if line.get("id") == "slow"]
    # 64 KiB of window and what a server keeps for itself: far from 20 MB.
    assert max(sent) < 3000, sent
    # Others have all the connection.
    probe.start("fast", "count=5000 size=1000", method="Stream")
    end = probe.end("fast")
    assert is_ok(end) and end["bytes"] == 5_000_000
    assert not [line for line in probe.seen if line.get("id") == "slow" and line.get("messages", 0) > 10]
    probe.say("resume slow")
    end = probe.end("slow")
    assert is_ok(end)
    assert (end["messages"], end["bytes"]) == (20000, 20_000_000)
    assert end["crc"] == peers.crc(peers.reply(k, 1000) for k in range(20000))


def test_pause_and_resume_over_and_over(probe):
    probe.start("a", "count=20000 size=100", method="Stream")
    end = None
    for _ in range(200):
        probe.say("pause a\nresume a")
        end = next((line for line in probe.drain(0.003) if line["event"] == "end"), None)
        if end:
            break
    end = end or probe.end("a")
    assert is_ok(end)
    assert end["crc"] == peers.crc(peers.reply(k, 100) for k in range(20000))


def test_a_message_over_the_limit(make_server, make_probe):
    server = make_server()
    probe = make_probe(server.address, max_message=100_000)
    probe.start("a", "id=big count=5 size=100001 delay_ms=1000", method="Stream")
    end = probe.end("a")
    assert end["code"] == "INTERNAL"
    assert end["message"] == "read message of 100001 bytes: the limit is 100000 bytes"
    server.expect(event="cancelled", id="big", timeout=5)
    probe.start("b", "count=2 size=100000", method="Stream")
    assert is_ok(probe.end("b"))


def test_compressed_answers_are_refused(kind, make_server, make_probe):
    if kind == "own":
        pytest.skip("our server does not compress")
    server = make_server("gzip=1")
    probe = make_probe(server.address)
    probe.start("a", "count=3 size=5000", method="Stream")
    end = probe.end("a")
    assert (end["code"], end["messages"]) == ("INTERNAL", 0)
    assert end["message"] == "read message: it is compressed, and no compression was offered"


def test_keepalive_finds_a_stopped_server(make_server, make_probe):
    server = make_server()
    probe = make_probe(server.address, keepalive_ms=300, keepalive_timeout_ms=400)
    probe.start("a", "count=100000 size=10 delay_ms=20", method="Stream")
    probe.expect(event="progress", id="a", messages=10)
    server.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    end = probe.end("a")
    assert time.monotonic() - stopped < 5
    assert (end["code"], end["processed"]) == ("UNAVAILABLE", True)
    assert "no answer to a keepalive PING within 400 ms" in end["message"]
    server.signal(signal.SIGCONT)
    probe.start("b", "echo=1", wait=1)
    assert is_ok(probe.end("b"))


def test_keepalive_leaves_a_slow_call_alone(make_server, make_probe):
    """Servers end a connection that PINGs too often (gRPC's default: a third one in five minutes without data)."""
    server = make_server()
    probe = make_probe(server.address, keepalive_ms=100, keepalive_timeout_ms=5000)
    probe.start("a", "wait_ms=2000 count=1", method="Stream")
    end = probe.end("a")
    assert is_ok(end) and end["messages"] == 1
    probe.start("b", "wait_ms=1500 count=1", method="Stream")
    assert is_ok(probe.end("b"))


# --- addresses ---


def test_unix_socket(make_server, make_probe, tmp_path):
    make_server(f"listen=unix:{tmp_path}/s")
    probe = make_probe(f"unix:{tmp_path}/s")
    probe.start("a", "echo=1 over unix")
    assert is_ok(probe.end("a"))


def test_a_name_with_several_addresses(shared, make_probe):
    """localhost is ::1 and 127.0.0.1 on most machines; the server is on one of them."""
    found = {a[4][0] for a in socket.getaddrinfo("localhost", None)}
    if len(found) < 2:
        pytest.skip(f"localhost has one address here: {found}")
    probe = make_probe(f"localhost:{shared.port}")
    probe.start("a", "echo=1")
    assert is_ok(probe.end("a"))


def test_a_name_that_does_not_exist(make_probe):
    probe = make_probe("no-such-host.invalid:1")
    probe.start("a", "echo=1")
    end = probe.end("a")
    assert (end["code"], end["processed"]) == ("UNAVAILABLE", False)
    assert "no-such-host.invalid" in end["message"]


# --- TLS: the Go server ---


@pytest.fixture
def ca(tmp_path):
    command_of("go")
    return tmp_path / "ca.pem"


def test_tls(ca, make_probe):
    server = peers.Server("go", f"tls={ca}")
    try:
        for options in ({"ca": ca}, {"ca": ca, "authority": "engine.test:443"}, {"insecure": 1}):
            probe = make_probe(server.address, **options)
            probe.start("a", "count=1000 size=1000", method="Stream")
            end = probe.end("a")
            assert is_ok(end) and end["bytes"] == 1_000_000
    finally:
        server.close()


def test_tls_refusals(ca, make_probe, tmp_path):
    server = peers.Server("go", f"tls={ca}")
    other = peers.Server("go", f"tls={tmp_path}/other.pem")
    without = peers.Server("go", f"tls={tmp_path}/without.pem", "alpn=none")
    try:
        for address, options in (
            (other.address, {"ca": ca}),  # not our CA
            (server.address, {"ca": ca, "authority": "somebody.else"}),  # not that name
            (server.address, {}),  # cleartext to a TLS server
        ):
            probe = make_probe(address, **options)
            probe.start("a", "echo=1")
            end = probe.end("a")
            assert (end["code"], end["processed"]) == ("UNAVAILABLE", False), end
        probe = make_probe(without.address, insecure=1)
        probe.start("a", "echo=1")
        end = probe.end("a")
        assert (end["code"], end["processed"]) == ("UNAVAILABLE", False), end
        assert "h2" in end["message"], end
    finally:
        for s in (server, other, without):
            s.close()
