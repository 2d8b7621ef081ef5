"""Our gRPC server with clients on gRPC core (C), grpc-go and grpcio, and with our own: what they get, and what happens when one does not behave.

The clients do the same thing (peers.CLIENTS), so every scenario runs with each. Times are only looked at where the scenario is about time, with wide margins.
"""

import pathlib
import signal
import socket
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import certificates  # noqa: E402
import peers  # noqa: E402

CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED RESOURCE_EXHAUSTED "
    "FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()


@pytest.fixture(params=["own", "c", "go", "python"], scope="module")
def kind(request):
    if request.param == "python":
        pytest.importorskip("grpc", reason="no grpcio in this environment")
    try:
        peers.CLIENTS[request.param]()
    except RuntimeError as missing:
        pytest.skip(str(missing))
    return request.param


@pytest.fixture(params=["own", "go", "python"], scope="module")
def tls_kind(request):
    """Clients with TLS (the C one is linked with gRPC core's cleartext library; grpcio is the same core)."""
    if request.param == "python":
        pytest.importorskip("grpc", reason="no grpcio in this environment")
    try:
        peers.CLIENTS[request.param]()
    except RuntimeError as missing:
        pytest.skip(str(missing))
    return request.param


@pytest.fixture(scope="module")
def shared():
    """One server for the scenarios that leave it as it was."""
    server = peers.Server("own")
    yield server
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    server.close()


@pytest.fixture
def make_server():
    made = []

    def make(*options):
        made.append(peers.Server("own", *options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def make_client():
    made = []

    def make(kind, address, **options):
        made.append(peers.Client(kind, address, **options))
        return made[-1]

    yield make
    for client in made:
        client.finish()


@pytest.fixture
def client(kind, shared, make_client):
    return make_client(kind, shared.address)


def is_ok(end):
    assert (end["code"], end["message"]) == ("OK", ""), end
    return True


def rss_mib(server):
    """0 under AddressSanitizer, which keeps what is freed."""
    if peers.BUILD.name == "asan":
        return 0
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


# --- answers ---


def test_unary(client):
    client.start("a", "echo=1 hello")
    end = client.end("a")
    assert is_ok(end) and end["messages"] == 1
    assert end["crc"] == peers.crc([b"echo=1 hello"])
    assert dict(end["trailers"])["sent"] == "1"


def test_empty_messages(client):
    client.start("a", "count=5 size=0", method="Stream")
    client.start("b", "")
    client.start("c", "count=0", method="Stream")
    ends = {end["id"]: end for end in (client.expect(event="end") for _ in range(3))}
    assert [(is_ok(ends[i]), ends[i]["messages"], ends[i]["bytes"]) for i in "abc"] == [(True, 5, 0), (True, 1, 0), (True, 0, 0)]


def test_stream_of_10000(client):
    client.start("a", "count=10000 size=16", method="Stream")
    end = client.end("a")
    assert is_ok(end)
    assert end["crc"] == peers.crc(peers.reply(k, 16) for k in range(10000))


def test_streams_side_by_side(client):
    for i in range(50):
        client.start(f"s{i}", f"count={100 + i} size={i}", method="Stream")
    for _ in range(50):
        end = client.expect(event="end")
        i = int(end["id"][1:])
        assert is_ok(end) and end["crc"] == peers.crc(peers.reply(k, i) for k in range(100 + i))


def test_4_mb_both_ways(client):
    size = 4_000_000
    client.start("a", "echo=1 ", pad=size)
    end = client.end("a")
    assert is_ok(end)
    assert end["crc"] == peers.crc([b"echo=1 " + b"x" * size])
    client.start("b", f"count=3 size={size}", method="Stream")
    end = client.end("b")
    assert is_ok(end)
    assert end["crc"] == peers.crc(peers.reply(k, size) for k in range(3))


@pytest.mark.parametrize("code", range(1, 17))
def test_status(client, code):
    """After messages (trailers), and before any (trailers only); the text in UTF-8."""
    text = "grün_€_%41_100%"
    client.start("a", f"count=2 size=3 status={code} message={text}", method="Stream")
    client.start("b", f"status={code} message={text}")
    client.start("c", f"status={code}")
    ends = {end["id"]: end for end in (client.expect(event="end") for _ in range(3))}
    for name, messages, want in (("a", 2, text.replace("_", " ")), ("b", 0, text.replace("_", " ")), ("c", 0, "")):
        assert (ends[name]["code"], ends[name]["message"], ends[name]["messages"]) == (CODES[code], want, messages), ends[name]


def test_unknown_method(client):
    client.start("a", "", method="Nope")
    end = client.end("a")
    assert (end["code"], end["message"]) == ("UNIMPLEMENTED", "call `/kelpie.test.Probe/Nope`: no such method")


def test_metadata(client):
    md = [("x-plain", "some_text,with;marks"), ("x-empty", ""), ("x-twice", "1"), ("x-twice", "2"), ("x-raw-bin", "00ff10"), ("x-none-bin", "")]
    client.start("a", "echo=1", md=md)
    client.start("b", "status=7", md=md)  # trailers only
    for _ in range(2):
        end = client.expect(event="end")
        assert end["code"] == ("OK" if end["id"] == "a" else "PERMISSION_DENIED")
        trailers = sorted(map(tuple, end["trailers"]))
        assert [pair for pair in trailers if pair[0].startswith("x-")] == sorted(md)
        # Nothing that the server adds for itself passes for the handler's.
        own = {name for name, _ in trailers if not name.startswith("x-")}
        assert own <= {"sent", "max-active", "content-type"}, own


# --- deadlines, cancel, clients that go ---


def test_deadline(shared, client):
    client.start("a", f"id=deadline-{client.kind} wait_ms=8000 count=1", method="Stream", timeout_ms=500)
    begun = time.monotonic()
    end = client.end("a")
    assert (end["code"], end["messages"]) == ("DEADLINE_EXCEEDED", 0)
    shared.expect(event="cancelled", id=f"deadline-{client.kind}", timeout=5)
    assert time.monotonic() - begun < 4


def test_the_server_is_told_the_deadline(client):
    for ms in (5_000, 100_000, 3_600_000, 400_000_000):
        client.start("a", "echo=1", timeout_ms=ms)
        end = client.end("a")
        assert is_ok(end)
        left = int(dict(end["trailers"])["left-ms"])
        assert ms - 4_000 <= left <= ms * 1.02 + 1_000  # a unit that takes eight digits rounds up


def test_cancel(shared, client):
    client.start("a", f"id=cancel-{client.kind} count=100000 size=10 delay_ms=5", method="Stream")
    client.expect(event="progress", id="a")
    client.say("cancel a")
    seen = shared.expect(event="cancelled", id=f"cancel-{client.kind}", timeout=5)
    assert seen["sent"] < 1000
    if client.kind != "own":  # whose cancelled call has no end
        assert client.end("a")["code"] == "CANCELLED"
    client.start("b", "echo=1")  # the connection is as good as new
    assert is_ok(client.end("b"))


def test_cancel_inside_a_burst(shared, client):
    client.start("a", f"id=burst-{client.kind} count=10000000 size=10", method="Stream", cancel_after=7)
    shared.expect(event="cancelled", id=f"burst-{client.kind}", timeout=10)
    client.start("b", "echo=1")
    assert is_ok(client.end("b"))


def test_a_client_that_dies(kind, make_server):
    server = make_server()
    client = peers.Client(kind, server.address)
    client.start("a", "id=widow count=100000 size=10 delay_ms=5", method="Stream")
    client.expect(event="progress", id="a")
    client.signal(signal.SIGKILL)
    server.expect(event="cancelled", id="widow", timeout=5)
    client.close()


# --- limits, flow control ---


def test_max_concurrent_streams(kind, make_server, make_client):
    server = make_server("max_streams=2")
    client = make_client(kind, server.address)
    for i in range(8):
        client.start(f"q{i}", "count=1 size=10 wait_ms=20", method="Stream")
    for _ in range(8):
        end = client.expect(event="end")
        assert is_ok(end) and int(dict(end["trailers"])["max-active"]) <= 2


def test_a_client_that_does_not_read(kind, make_server, make_client):
    server = make_server()
    client = make_client(kind, server.address)
    client.start("warm", "count=1000 size=1000", method="Stream")
    assert is_ok(client.end("warm"))
    before = rss_mib(server)
    for i in range(4):
        client.start(f"slow{i}", f"id=slow{i} count=30000 size=1000", method="Stream", pause_after=5)
    for _ in range(4):
        client.expect(event="progress", messages=5)
    time.sleep(1.0)
    # What the client's library takes ahead, and 64 KiB of the server's: far from 30 MB. (grpcio 1.85 takes all it can get, in its own memory.)
    sent = {line["id"]: line["sent"] for line in server.drain(0.3) if line["event"] == "sent"}
    assert kind == "python" or all(n < 20000 for n in sent.values()), sent
    assert rss_mib(server) - before < 4, (before, rss_mib(server))
    client.start("fast", "count=1000 size=100", method="Stream")  # others have all the connection
    assert is_ok(client.end("fast"))
    for i in range(4):
        client.say(f"resume slow{i}")
    for _ in range(4):
        end = client.expect(event="end", timeout=60)
        assert is_ok(end) and end["crc"] == peers.crc(peers.reply(k, 1000) for k in range(30000))


def test_a_stopped_client(kind, make_server):
    """Whose kernel takes bytes until it is full: the server's memory stays, and other clients are served."""
    server = make_server()
    client = peers.Client(kind, server.address)
    client.start("a", "id=stopped count=200000 size=1000", method="Stream")
    client.expect(event="progress", id="a")
    client.signal(signal.SIGSTOP)
    time.sleep(0.5)
    before = rss_mib(server)
    other = peers.Client("own", server.address)
    other.start("b", "count=2000 size=1000", method="Stream")
    assert is_ok(other.end("b"))
    other.finish()
    assert rss_mib(server) - before < 4
    client.close()
    server.expect(event="cancelled", id="stopped", timeout=10)


def test_a_request_over_the_limit(kind, make_server, make_client):
    server = make_server("max_message=100000")
    client = make_client(kind, server.address)
    client.start("a", "echo=1 ", pad=99_993)
    assert is_ok(client.end("a"))
    client.start("b", "echo=1 ", pad=99_994)
    end = client.end("b")
    assert (end["code"], end["message"]) == ("RESOURCE_EXHAUSTED", "read request of 100001 bytes: the limit is 100000 bytes")
    client.start("c", "echo=1 ", pad=5_000_000)
    assert client.end("c")["code"] == "RESOURCE_EXHAUSTED"
    client.start("d", "echo=1")  # the connection is as good as new
    assert is_ok(client.end("d"))


# --- drain ---


def test_drain(kind, make_server, make_client):
    server = make_server()
    client = make_client(kind, server.address)
    client.start("a", "id=last count=300 size=10 delay_ms=10", method="Stream")
    client.expect(event="progress", id="a", messages=10)
    server.signal(signal.SIGTERM)
    # Calls on the connection that is there are taken for half a second more; nobody's call is lost.
    late = None
    for i in range(200):
        client.start(f"late{i}", f"id=late{i} echo=1", timeout_ms=5000)
        late = client.end(f"late{i}")
        if late["code"] != "OK":
            break
        time.sleep(0.02)
    assert late["code"] == "UNAVAILABLE", late
    server.drain(0.1)
    assert not [line for line in server.seen if line.get("id") == late["id"]]
    end = next((e for e in client.seen if e["event"] == "end" and e["id"] == "a"), None) or client.end("a")
    assert is_ok(end) and end["messages"] == 300
    assert server.wait() == 0


# --- certificates ---


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    ca, other = certificates.Authority(folder / "ca"), certificates.Authority(folder / "other", "other CA")
    return {
        "ca": ca,
        "server": ca.issue("owner", "DNS:owner-1", "IP:127.0.0.1"),
        "good": ca.issue("gateway", "DNS:gateway-7", "URI:spiffe://kelpie/gateway-7"),
        "expired": ca.issue("old", "DNS:gateway-old", days=-1),
        "foreign": other.issue("gateway", "DNS:gateway-7"),
    }


@pytest.fixture
def secure(pki, make_server):
    return make_server(f"cert={pki['server']['cert']}", f"key={pki['server']['key']}", f"ca={pki['ca'].cert}")


def test_mtls(tls_kind, pki, secure, make_client):
    client = make_client(tls_kind, secure.address, ca=pki["ca"].cert, name="owner-1", **pki["good"])
    client.start("a", "count=1000 size=1000", method="Stream")
    client.start("b", "count=1000 size=1000", method="Stream")
    for _ in range(2):
        end = client.expect(event="end")
        assert is_ok(end) and end["bytes"] == 1_000_000
        assert dict(end["trailers"])["peer-names"] == "gateway-7 spiffe://kelpie/gateway-7"


@pytest.mark.parametrize(
    "which, server_says, we_say",
    [
        ("expired", "client certificate `gateway-old`: certificate has expired", "the other side says: certificate expired"),
        ("foreign", "client certificate `gateway-7`: unable to get local issuer certificate", "the other side says: unknown ca"),
        (None, "peer did not return a certificate", "the other side says: certificate required"),
    ],
)
def test_bad_client_certificates(tls_kind, pki, secure, make_client, which, server_says, we_say):
    client = make_client(tls_kind, secure.address, ca=pki["ca"].cert, name="owner-1", **(pki[which] if which else {}))
    client.start("a", "id=intruder echo=1", timeout_ms=5000)
    end = client.end("a")
    assert end["code"] == "UNAVAILABLE", end
    assert secure.expect(event="tls_failed")["why"] == f"TLS handshake: {server_says}"
    if tls_kind == "own":
        assert we_say in end["message"], end
    assert not [line for line in secure.seen if line.get("id") == "intruder"]


def test_not_the_server_that_was_meant(tls_kind, pki, secure, make_client):
    client = make_client(tls_kind, secure.address, ca=pki["ca"].cert, name="owner-2", **pki["good"])
    client.start("a", "echo=1", timeout_ms=5000)
    end = client.end("a")
    assert end["code"] == "UNAVAILABLE"
    if tls_kind == "own":
        assert "certificate `owner-1`: it is not for `owner-2`" in end["message"], end


def test_cleartext_to_tls(pki, secure, make_client):
    client = make_client("own", secure.address, connect_timeout_ms=2000)
    client.start("a", "echo=1")
    assert client.end("a")["code"] == "UNAVAILABLE"


def test_rotation(tls_kind, pki, make_server, make_client, tmp_path):
    """New files, SIGHUP: the connection that is there goes on, the next one gets the new certificate."""
    for name in ("cert", "key"):
        (tmp_path / name).write_bytes(pki["server"][name].read_bytes())
    server = make_server(f"cert={tmp_path}/cert", f"key={tmp_path}/key", f"ca={pki['ca'].cert}")
    old = make_client(tls_kind, server.address, ca=pki["ca"].cert, name="owner-1", **pki["good"])
    old.start("a", "count=100 size=10 delay_ms=10", method="Stream")
    old.expect(event="progress", id="a")
    fresh = pki["ca"].issue("owner", "DNS:owner-9", file="rotated")
    for name in ("cert", "key"):
        (tmp_path / name).write_bytes(fresh[name].read_bytes())
    server.signal(signal.SIGHUP)
    server.expect(event="reloaded")
    assert is_ok(old.end("a"))
    old.start("b", "echo=1")
    assert is_ok(old.end("b"))
    new = make_client(tls_kind, server.address, ca=pki["ca"].cert, name="owner-9", **pki["good"])
    new.start("c", "echo=1")
    assert is_ok(new.end("c"))


# --- peers that hang ---


def test_a_stopped_owner_is_given_up(make_server, make_client):
    server = make_server()
    client = make_client("own", server.address, keepalive_ms=1000, keepalive_timeout_ms=1000, keepalive_always=1, connect_timeout_ms=1000)
    client.start("a", "count=100000 size=10 delay_ms=20", method="Stream")
    client.expect(event="progress", id="a", messages=10)
    server.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    end = client.end("a")
    took = time.monotonic() - stopped
    assert 1.0 < took < 4.0, took  # 2 s, and what a busy machine adds
    assert (end["code"], end["processed"]) == ("UNAVAILABLE", True)
    assert "no answer to a keepalive PING within 1000 ms" in end["message"]
    # Its kernel still accepts: the next call finds out that nobody answers.
    client.start("b", "echo=1")
    end = client.end("b")
    assert (end["code"], end["processed"]) == ("UNAVAILABLE", False)
    assert time.monotonic() - stopped < 8
    server.signal(signal.SIGCONT)
    client.start("c", "echo=1", wait=1)
    assert is_ok(client.end("c"))


def test_quiet_calls_are_asked_for_as_long_as_they_last(make_server, make_client):
    """Many more PINGs than servers on gRPC core would take."""
    server = make_server()
    client = make_client("own", server.address, keepalive_ms=20, keepalive_timeout_ms=5000, keepalive_always=1)
    client.start("a", "wait_ms=4000 count=1", method="Stream")
    end = client.end("a")
    assert is_ok(end) and end["messages"] == 1


def test_an_address_that_swallows_packets(make_client):
    """A listener whose backlog is full drops what comes, as a partition does."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        waiting = []
        for _ in range(8):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(address)
            waiting.append(s)
        time.sleep(0.1)
        client = make_client("own", "%s:%d" % address, connect_timeout_ms=500)
        begun = time.monotonic()
        client.start("a", "echo=1")
        end = client.end("a")
        assert (end["code"], end["processed"]) == ("UNAVAILABLE", False)
        assert "not done in time" in end["message"], end
        assert 0.4 < time.monotonic() - begun < 3
        begun = time.monotonic()
        client.start("b", "echo=1")  # in back-off: at once
        assert client.end("b")["code"] == "UNAVAILABLE"
        assert time.monotonic() - begun < 0.4
        for s in waiting:
            s.close()
