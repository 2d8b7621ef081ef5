"""The server as a whole: many connections, limits on them, SO_REUSEPORT, TLS, signals."""

import resource
import signal
import socket
import ssl
import subprocess
import time

import pytest
import netwire as wire
from netwire import Client2, Reader, exchange, read_response, request


@pytest.fixture
def many_files():
    """Enough descriptors for the test; the server inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_10000_idle_connections(many_files, make_server, record_property):
    """Cheap while they do nothing, and the busy ones do not notice them."""
    n = min(10_000, many_files - 200)
    assert n >= 1000, "RLIMIT_NOFILE is too low for this test"
    server = make_server()
    exchange(server, request("/hello"))
    empty = server.rss()
    idle = []
    for _ in range(n):
        sock = server.connect()
        sock.sendall(request("/hello"))
        idle.append(sock)
        if len(idle) % 500 == 0:
            for s in idle[-500:]:
                assert s.recv(1000).startswith(b"HTTP/1.1 200 ")
    assert server.stats()["connections"] == n + 1
    per_connection = server.grown(empty) * 1024 / n
    start = time.monotonic()
    busy, reader = exchange(server, request("/hello"))
    for _ in range(100):
        reader.sock.sendall(request("/hello"))
        assert read_response(reader).body == b"hello\n"
    per_request = (time.monotonic() - start) / 100
    record_property("bytes per idle connection", per_connection)
    print(f"{n} idle connections: {per_connection:.0f} bytes each, {per_request * 1e6:.0f} us per request beside them")
    assert per_connection < 2048
    for s in idle[::2]:
        s.close()
    server.until(lambda s: s["connections"] <= n - len(idle[::2]) + 2)
    for s in idle[1::2]:
        s.sendall(request("/hello"))
    for s in idle[1::2]:
        assert s.recv(1000).startswith(b"HTTP/1.1 200 ")
        s.close()


def test_connections_beyond_the_limit(make_server):
    server = make_server(max_connections=5)
    kept = [exchange(server, request("/hello"))[1] for _ in range(4)]
    with server.connect() as fifth:
        fifth.sendall(request("/hello"))
        assert fifth.recv(1000)
        with server.connect() as sixth:
            assert sixth.recv(1000) == b""
    time.sleep(0.1)
    assert server.stats()["refused"]["connections"] == 1  # the fifth's place is free again
    kept[0].sock.sendall(request("/hello"))
    assert read_response(kept[0]).status == 200


def test_no_descriptors_left(make_server):
    """Clients beyond what the process may open are turned away, it does not spin, and it serves again afterwards."""
    server = wire.Server(wrap=["prlimit", "--nofile=40:40"])
    socks = [server.connect() for _ in range(60)]
    time.sleep(0.2)
    turned_away = 0
    for sock in socks:
        sock.settimeout(0.05)
        try:
            turned_away += sock.recv(10) == b""
        except TimeoutError:
            pass
    assert 20 <= turned_away < 60
    before = time.process_time()
    with open(f"/proc/{server.process.pid}/stat") as f:
        ticks = sum(map(int, f.read().split()[13:15]))
    time.sleep(0.3)
    with open(f"/proc/{server.process.pid}/stat") as f:
        assert sum(map(int, f.read().split()[13:15])) - ticks <= 5
    assert time.process_time() - before < 1
    for sock in socks:
        sock.close()
    stats, _ = server.until(lambda s: s["connections"] == 1)
    assert stats["refused"]["connections"] >= turned_away
    assert server.stop() == 0


def test_two_servers_on_one_port(make_server):
    """As two loops do: the kernel spreads the connections."""
    first = make_server()
    second = make_server(listen=f"127.0.0.1:{first.port}")
    assert second.port == first.port
    for _ in range(40):
        assert exchange(first, request("/hello"))[0].status == 200
    first_seen = [exchange(first, request("/stats"))[0].json()["accepted"] for _ in range(40)]
    assert len(set(first_seen)) > 2


@pytest.mark.parametrize("address", ["[::1]:0", ":0", "unix:"])
def test_other_addresses(make_server, tmp_path, address):
    if address == "unix:":
        path = f"{tmp_path}/s"
        server = make_server(listen=f"unix:{path}")
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
    else:
        try:
            server = make_server(listen=address)
        except AssertionError:
            pytest.skip("no IPv6 on this machine")
        sock = socket.create_connection(("::1" if address != ":0" else "127.0.0.1", server.port))
    sock.settimeout(wire.PATIENCE)
    sock.sendall(request("/request"))
    peer = read_response(Reader(sock)).json()["peer"]
    assert peer.startswith({"[::1]:0": "[::1]:", ":0": "127.0.0.1:", "unix:": "unix"}[address])


def test_port_in_use_is_named(make_server):
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    port = sock.getsockname()[1]
    done = subprocess.run([wire.peers.tool("echo_server"), f"listen=127.0.0.1:{port}"], capture_output=True, text=True)
    assert done.returncode == 2 and f"listen on `127.0.0.1:{port}`" in done.stderr and "in use" in done.stderr


def test_sigpipe(make_server):
    """With the signal's default action (the server does not ignore it), writing to clients that are gone ends nothing."""
    server = make_server()
    status = open(f"/proc/{server.process.pid}/status").read()
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), 16)
    if ignored & (1 << (signal.SIGPIPE - 1)):
        pytest.fail("the test's server must not inherit an ignored SIGPIPE")
    for _ in range(50):
        sock = server.connect()
        sock.sendall(request("/events?n=100&ms=1&size=5000"))
        sock.recv(1000)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    server.until(lambda s: s["closed"]["client_gone"] == 50)
    assert server.process.poll() is None


def test_a_client_whose_bytes_wait_in_the_kernel(make_server):
    """As those for a client that vanished do: little enough for the kernel to take, but nobody takes it from there."""
    server = make_server(write_timeout_ms=1000)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", server.port))
    sock.sendall(request("/events?n=100000&ms=20&size=500"))
    server.until(lambda s: s["closed"]["client_gone"] == 1)
    stats = server.stats()
    assert stats["max_queued"] < 65536 and stats["refused"]["slow"] == 0  # it is the kernel that gave up
    sock.close()


# ---- TLS ----


@pytest.fixture
def secure(make_server, certificate):
    return make_server(tls=certificate)


@pytest.mark.parametrize("offer, chosen", [(["h2"], "h2"), (["http/1.1"], "http/1.1"), (["h2", "http/1.1"], "h2"),
                                           (["http/1.1", "h2"], "h2"), (["spdy/3", "http/1.1"], "http/1.1"), (None, None)])  # fmt: skip
def test_alpn(secure, offer, chosen):
    sock = secure.connect(offer)
    assert sock.selected_alpn_protocol() == chosen
    if chosen != "h2":
        sock.sendall(request("/hello"))
        assert read_response(Reader(sock)).body == b"hello\n"


def test_alpn_without_overlap(secure):
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        secure.connect(["spdy/3"])


def test_h2_over_tls_needs_no_sniffing(secure):
    """With ALPN http/1.1 the HTTP/2 preface is just a bad request."""
    sock = secure.connect("http/1.1")
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert read_response(Reader(sock)).status == 505


@pytest.mark.parametrize("version, works", [("TLSv1", False), ("TLSv1_1", False), ("TLSv1_2", True), ("TLSv1_3", True)])
def test_versions(secure, certificate, version, works):
    sock = socket.create_connection(("127.0.0.1", secure.port))
    sock.settimeout(wire.PATIENCE)
    number = getattr(ssl.TLSVersion, version)
    context = dict(minimum_version=number, maximum_version=number)
    if works:
        sock = certificate.wrap(sock, **context)
        assert sock.version() == version.replace("_", ".")
        sock.sendall(request("/hello"))
        assert read_response(Reader(sock)).body == b"hello\n"
    else:
        with pytest.raises(ssl.SSLError), pytest.warns(DeprecationWarning):
            certificate.wrap(sock, **context)


def test_renegotiation_is_off(secure):
    """openssl s_client asks for it when it reads a line R; the server refuses and goes on for the others."""
    client = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{secure.port}", "-tls1_2", "-msg"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    time.sleep(0.5)
    client.stdin.write(b"R\n")
    client.stdin.flush()
    time.sleep(0.5)
    out, _ = client.communicate(timeout=wire.PATIENCE)
    assert b"RENEGOTIATING" in out and b"warning no_renegotiation" in out
    assert out.count(b", ServerHello\n") == 1  # no second handshake
    assert Client2(secure).get("/hello").body == b"hello\n"


def test_plain_bytes_and_broken_handshakes(secure):
    for data in (request("/hello"), b"\x16\x03\x01\x00\x05hello", b"\x16\x03\x03\x40\x00" + b"x" * 20000, b"\0" * 100):
        with socket.create_connection(("127.0.0.1", secure.port)) as sock:
            sock.settimeout(wire.PATIENCE)
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            try:
                while sock.recv(1000):
                    pass
            except ConnectionError:
                pass
    secure.until(lambda s: s["connections"] == 1)


def test_slow_handshake_holds_no_one(secure):
    half = [socket.create_connection(("127.0.0.1", secure.port)) for _ in range(20)]
    for sock in half:
        sock.sendall(b"\x16\x03\x01")
    assert Client2(secure).get("/hello").body == b"hello\n"


def test_resumption(secure, certificate):
    ctx = ssl.create_default_context(cafile=certificate.cert)
    session = None
    for turn in range(2):
        sock = ctx.wrap_socket(socket.create_connection(("127.0.0.1", secure.port)), server_hostname="localhost", session=session)
        sock.sendall(request("/hello"))
        assert read_response(Reader(sock)).body == b"hello\n"
        assert sock.session_reused == bool(turn)
        session = sock.session
        sock.close()
