"""Images of URLs: whom a gateway fetches from, and how what goes wrong there is said to the client. tests/unit/fetch has the client itself."""

import http.server
import os
import pathlib
import shutil
import socket
import struct
import threading
import time

import pytest
import vision
import wire
from programs import Gateway, Sim, engine, manifest, wait_until
from vision import file_of, part, picture
from wire import CHAT

VOCAB = 151700
PNG = file_of(picture(1, 60, 50))


class Server(http.server.ThreadingHTTPServer):
    """Serves what a path says, and counts who came."""

    daemon_threads = True

    def __init__(self):
        self.seen = []
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):  # noqa: N802
        self.server.seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        kind, _, rest = self.path[1:].partition("/")
        try:
            getattr(self, f"do_{kind}")(rest)
        except OSError:  # it left
            pass

    def answer(self, body, status=200, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_png(self, _):
        self.answer(PNG)

    def do_status(self, rest):
        self.answer(PNG, int(rest))

    def do_to(self, rest):
        self.answer(b"", 302, Location=rest)

    def do_round(self, rest):
        self.answer(b"", 302, Location=f"/round/{int(rest) + 1}")

    def do_text(self, _):
        self.answer(b"<html>secret</html>", **{"Content-Type": "image/png"})

    def do_empty(self, _):
        self.answer(b"")

    def do_long(self, _):
        self.send_response(200)
        self.end_headers()
        for _ in range(1000):
            self.wfile.write(bytes(1 << 16))

    def do_slow(self, _):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PNG)))
        self.end_headers()
        for i in range(len(PNG)):
            self.wfile.write(PNG[i : i + 1])
            time.sleep(0.2)

    def do_cut(self, _):
        self.send_response(200)
        self.send_header("Content-Length", str(len(PNG)))
        self.end_headers()
        self.wfile.write(PNG[:100])


@pytest.fixture(scope="module")
def server():
    s = Server()
    yield s
    s.shutdown()
    s.server_close()


@pytest.fixture(scope="module")
def model(qwen3_path, tmp_path_factory):
    return vision.Model("qwen25", qwen3_path, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def sim(start_shared):
    return start_shared(Sim, "--vocab", VOCAB, "--max-context", 100000)


@pytest.fixture(scope="module")
def make(start_shared, sim, model):
    def make(*options, **more):
        return start_shared(Gateway, manifest(engine("e", sim.port, path=model.folder)), *options, **more)

    return make


@pytest.fixture(scope="module")
def trusting(make):
    """Fetches from the test's own server."""
    return make("--media-host", "127.0.0.1", "--media-allow", "127.0.0.0/8", "--media-timeout", 2, "--max-image-bytes", 1 << 20)


@pytest.fixture(scope="module")
def careful(make):
    """As one would run it: any host with a global address."""
    return make("--media-host", "*", "--media-timeout", 2)


def ask(gateway, *urls):
    answer = wire.call(gateway.port, CHAT, {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": [part(u) for u in urls]}]})
    return answer.status, answer.json()


def refused(gateway, *urls):
    status, answer = ask(gateway, *urls)
    assert status == 400, answer
    return answer["error"]


def test_an_image_of_a_url_is_that_image(trusting, server, sim):
    status, answer = ask(trusting, server.base + "/png/a", vision.data_url(PNG), server.base + "/to//png/b")
    assert status == 200, answer
    hashes = sim.wait_event("media", answer["id"])[0]["hashes"]
    assert len(set(hashes)) == 1 and len(hashes) == 3
    headers = server.seen[-1][1]
    assert headers["accept"] == "image/jpeg,image/png,image/webp" and not {"authorization", "cookie"} & headers.keys()
    answer = wire.call(trusting.port, "/v1/tokenize", {"model": "m", "messages": [{"role": "user", "content": [part(server.base + "/png/c")]}]})
    assert answer.status == 200 and answer.json()["tokens"].count(vision.IMAGE_PAD) > 1


def test_MM_07_what_goes_wrong_there(trusting, server):
    """Size and time while it streams, redirects without end, statuses, no image: a 400 that names the part and shows nothing of it."""
    for path, words in (
        ("status/404", "status 404"), ("status/500", "status 500"), ("status/204", "status 204"), ("round/0", "cannot be fetched"), ("text/", "JPEG"), ("empty/", ""),
        ("long/", "more than 1048576 bytes"), ("slow/", "too long"), ("cut/", "cannot be fetched"), ("to/file:///etc/passwd", ""), ("to/ftp://x/", ""),
    ):  # fmt: skip
        error = refused(trusting, vision.data_url(PNG), f"{server.base}/{path}")
        assert error["param"] == "messages[0].content[1]" and words in error["message"] and "secret" not in error["message"], (path, error)
    error = refused(trusting, "http://127.0.0.1:1/")
    assert "cannot be fetched" in error["message"] and error["code"] == "invalid_image_url"
    assert "a URL of 9017 bytes" in refused(trusting, "http://127.0.0.1/" + "a" * 9000)["message"]
    wait_until(lambda: trusting.metric("kelpie_media_bytes") == 0, "memory given back")


def test_a_client_that_leaves_ends_what_is_fetched(trusting, server):
    body = {"model": "m", "messages": [{"role": "user", "content": [part(server.base + "/slow/1"), part(server.base + "/slow/2")]}]}
    for _ in range(3):
        with wire.Connection(trusting.port) as c:
            c.request(CHAT, body)
            before = len(server.seen)
            wait_until(lambda: len(server.seen) > before, "a fetch")
    wait_until(lambda: trusting.metric("kelpie_requests_in_flight") == trusting.metric("kelpie_media_bytes") == 0, "everything given back")
    assert ask(trusting, server.base + "/png/")[0] == 200


# What a URL can hide an address of the gateway's own network behind.
INSIDE = [
    "http://127.0.0.1:{port}/png/", "http://localhost:{port}/png/", "http://LOCALHOST.:{port}/png/", "http://127.1:{port}/png/", "http://2130706433:{port}/png/",
    "http://0x7f000001:{port}/png/", "http://0177.0.0.1:{port}/png/", "http://[::1]:{port}/png/", "http://[::ffff:127.0.0.1]:{port}/png/",
    "http://[::ffff:7f00:1]:{port}/png/", "http://[64:ff9b::7f00:1]:{port}/png/", "http://[::127.0.0.1]:{port}/png/", "http://0.0.0.0:{port}/png/",
    "http://[::]:{port}/png/", "http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://100.100.100.200/", "http://10.0.0.1/",
    "http://172.16.0.1/", "http://192.168.1.1/", "http://100.64.0.1/", "http://[fe80::1]/", "http://[fc00::1]/", "http://224.0.0.1/", "http://255.255.255.255/",
    "http://user:password@127.0.0.1:{port}/png/", "http://example.com@127.0.0.1:{port}/png/", "http://127.0.0.1:{port}#@example.com/png/", "http://①②⑦.⓪.⓪.①:{port}/png/",
]  # fmt: skip


@pytest.mark.parametrize("url", INSIDE)
def test_MM_05_addresses_inside_are_not_asked(careful, server, url):
    before = len(server.seen)
    error = refused(careful, url.format(port=server.server_port))
    assert error["param"] == "messages[0].content[0]", error
    assert len(server.seen) == before


def test_MM_05_without_a_list_nobody_is_asked(make, server):
    gateway = make()
    before = len(server.seen)
    error = refused(gateway, server.base + "/png/")
    assert error["code"] == "unsupported_parameter" and len(server.seen) == before


def test_MM_05_with_a_list_only_those_are_asked(make, server):
    gateway = make("--media-host", "*.example.com", "--media-host", "localhost", "--media-allow", "127.0.0.1/32", "--media-timeout", 2)
    before = len(server.seen)
    for host in ("127.0.0.1", "example.com.evil.test", "evilexample.com"):
        refused(gateway, f"http://{host}:{server.server_port}/png/")
    assert len(server.seen) == before
    assert ask(gateway, f"http://localhost:{server.server_port}/png/")[0] == 200


def test_MM_06_a_redirect_leads_nowhere_else(make, server):
    """The first hop may be asked, by its name and address; where it leads is judged like any other."""
    gateway = make("--media-host", "localhost", "--media-allow", "127.0.0.1/32", "--media-timeout", 2)
    other = Server()
    try:
        for target in (f"{other.base}/png/", f"http://[::1]:{other.server_port}/png/", "http://169.254.169.254/", f"//127.0.0.1:{other.server_port}/png/"):
            error = refused(gateway, f"http://localhost:{server.server_port}/to/{target}")
            assert "leads" in error["message"], error
        assert not other.seen
    finally:
        other.shutdown()
        other.server_close()


class Resolver:
    """A DNS server whose answers change: the addresses of a name one after the other, or all at once."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.n = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                query, peer = self.socket.recvfrom(512)
            except OSError:
                return
            end = query.index(b"\0", 12) + 5
            kind = struct.unpack(">H", query[end - 4 : end - 2])[0]
            outside, inside = socket.inet_aton("198.41.0.4"), socket.inet_aton("127.0.0.1")
            addresses = []
            if kind == 1:
                self.n += 1
                addresses = [outside, inside] if b"both" in query[:end] else [[outside], [inside]][self.n % 2]
            records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + a for a in addresses)
            self.socket.sendto(query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0) + query[12:end] + records, peer)


def test_MM_06_a_name_that_changes_its_address(make, server, tmp_path):
    """Whatever a name is said to be, the address that is connected to is the one that is judged."""
    address = ("127.53.53.53", 53)
    if os.geteuid() or not shutil.which("unshare"):
        pytest.skip("needs root, for a resolver of its own")
    resolver = Resolver(address)
    (tmp_path / "resolv").write_text(f"nameserver {address[0]}\noptions timeout:1 attempts:1\n")
    (tmp_path / "nsswitch").write_text("hosts: files dns\n")
    script = f'mount --bind {tmp_path}/resolv /etc/resolv.conf && mount --bind {tmp_path}/nsswitch /etc/nsswitch.conf && exec "$@"'
    if not pathlib.Path("/etc/nsswitch.conf").exists():
        pytest.skip("no /etc/nsswitch.conf to mount over")
    gateway = make("--media-host", "*", "--media-timeout", 1, wrapper=("unshare", "--mount", "sh", "-c", script, "sh"))
    before = len(server.seen)
    for name in ("turns.test", "turns.test", "turns.test", "both.test", "both.test"):
        refused(gateway, f"http://{name}:{server.server_port}/png/")
    assert resolver.n > 0 and len(server.seen) == before
    resolver.socket.close()
