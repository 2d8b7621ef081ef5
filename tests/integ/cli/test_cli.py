"""kubectl-kelpie against servers that are away, broken, lying or hostile. Against real ones: tests/e2e/test_kubectl.py."""

import http.server
import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = ROOT / os.environ.get("KP_BUILD", "build/release")
KELPIE = BUILD / "bin/kubectl-kelpie"
STATUS = {
    "operator": {"id": "op", "version": "1", "ready": True},
    "engines": [{"namespace": "default", "name": "e", "model": "m", "endpoints": []}],
}


def run(*words, env=None, **options):
    return subprocess.run(
        [KELPIE, *(str(w) for w in words)], capture_output=True, timeout=60, env={**os.environ, **(env or {})}, **options
    )


def fails(status, *words, **options):
    """What it complains of, with this exit status and nothing on standard output."""
    done = run(*words, **options)
    assert (done.returncode, done.stdout) == (status, b""), (done.returncode, done.stdout, done.stderr)
    return done.stderr.decode()


class Server(http.server.ThreadingHTTPServer):
    """Answers each path with what `answers` has for it: (status, body) or a function that writes to the handler."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        server = self
        self.answers, self.asked, self.at_once, self.most = {}, [], 0, 0
        lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with lock:
                    server.asked.append(self.path)
                    server.at_once += 1
                    server.most = max(server.most, server.at_once)
                answer = server.answers.get(self.path, (404, b"<html>no</html>"))
                try:
                    if callable(answer):
                        answer(self)
                    else:
                        self.send_response(answer[0])
                        body = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
                        self.send_header("content-length", len(body))
                        self.end_headers()
                        self.wfile.write(body)
                except OSError:
                    pass
                with lock:
                    server.at_once -= 1

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server_port}"
        self.url = f"http://{self.host}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def server():
    made = Server()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def nobody():
    """An address where nobody listens."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{s.getsockname()[1]}"


@pytest.fixture(scope="module", autouse=True)
def patience():
    """A server that takes the question and says nothing: asked when the first test begins, looked at by the last."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        host = f"127.0.0.1:{s.getsockname()[1]}"
        began = time.monotonic()
        process = subprocess.Popen([KELPIE, "status", "-s", host], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        yield host, began, process
        process.kill()
        process.wait()


@pytest.mark.parametrize("words, said", [
    ((), "what is to be done?"),
    (("frob",), "unknown command `frob`"),
    (("status", "x"), "`status`: what is `x`?"),
    (("explain",), "`explain`: MODEL or REQUEST-ID is missing"),
    (("explain", "a", "b"), "`explain`: what is `b`?"),
    (("status", "-o", "yaml"), "`--output`: unknown format `yaml`: wide or json"),
    (("status", "-o"), "`--output`: needs a value"),
    (("status", "--wide"), "unknown option `--wide`"),
    (("status", "--gateway", "x"), "`status` has no option `--gateway`"),
    (("version", "-s", "x"), "`version` has no option `--server`"),
    (("status", "-s", "ftp://x"), "`ftp://x`: only http:// and https:// are spoken"),
    (("status", "-s", "file:///etc/passwd"), "`file:///etc/passwd`: only http:// and https:// are spoken"),
    (("status", "-s", "http://a b"), "ask `http://a b/status`: "),
])  # fmt: skip
def test_wrong_usage(words, said):
    message = fails(2, *words)
    assert message.startswith(f"kubectl-kelpie: {said}") and message.endswith("help` says what can be asked\n")


@pytest.mark.parametrize("text", [" ", "{", "[]", '{"model": 5}', '{"model": {"type": "Markov"}}', '{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}', "\xff"])
def test_a_broken_tokenizer_is_no_wrong_usage(tmp_path, text):
    (tmp_path / "tokenizer.json").write_text(text, "latin-1")
    for words in (("tokenize",), ("detokenize",), ("render",)):
        message = fails(1, *words, "--path", str(tmp_path), input=b"1" if words[0] != "render" else b'[{"role": "user", "content": "a"}]')
        assert "can be asked" not in message


@pytest.mark.parametrize("chat, said", [("[]", "`messages`: must not be empty"), ("[1]", "`messages[0]`: expected an object"), ("[", "parse JSON"), ('{"messages": []}', "`messages`: must not be empty"),
                                        ("null", "request: expected an object, or a list of messages, got null")])
def test_messages_that_make_no_sense(tmp_path, chat, said):
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}')
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    message = fails(1, "render", "--path", str(tmp_path), input=chat.encode())
    assert said in message and "can be asked" not in message


def test_help_and_version():
    for words in (("help",), ("--help",), ("status", "-h"), ("explain", "--help")):
        done = run(*words)
        assert done.returncode == 0 and b"explain REQUEST-ID" in done.stdout
    for words in (("version",), ("--version",)):
        assert re.match(rb"kubectl-kelpie \d+\.\d+\.\d+\n(.*\n)*libcurl ", run(*words).stdout)


def test_where_the_server_is_said(server, nobody):
    server.answers["/status"] = server.answers["/x/y/status"] = (200, STATUS)
    for words, env in [
        (("-s", server.url), {}),
        (("--server", server.host), {}),
        (("--server=" + server.url + "/x/y/",), {"KELPIE_SERVER": nobody}),
        ((f"-s{server.host}",), {}),
        ((), {"KELPIE_SERVER": server.host}),
        ((), {"KELPIE_SERVER": server.host, "http_proxy": nobody, "ALL_PROXY": nobody}),
    ]:
        assert b"default/e" in run("status", *words, env=env).stdout
        assert b"default/e" in run(*words, "status", env=env).stdout
    message = fails(4, "status", env={"KELPIE_SERVER": nobody})
    assert f"ask `http://{nobody}/status`: " in message and "--server, KELPIE_SERVER" in message


@pytest.mark.parametrize("status, answer, exit, said", [
    (200, b"", 5, "the text ends"),
    (200, b"{", 5, "line 1 column 2"),
    (200, b"[1]", 5, "the answer is no JSON object"),
    (200, b"{}", 5, "the answer is no operator's status"),
    (200, b'{"engines":1}', 5, "the answer is no operator's status"),
    (200, b'{"engines":[],"engines":[]}', 5, "engines"),
    (200, b'{"engines":' + b"[" * 100_000, 5, "nested deeper than 32 levels"),
    (200, b'{"engines":["\xff"]}', 5, "UTF-8"),
    (404, b"<html>", 5, "it answers 404"),
    (302, b"", 1, "it answers 302"),
    (500, b"oops", 1, "it answers 500"),
    (503, {"error": {"message": "the operator is starting"}}, 4, "the operator is starting (503)"),
    (403, {"error": {"message": "not \x1b[31mfor\u202e you"}}, 1, "not ?[31mfor\ufffd you (403)"),
])  # fmt: skip
def test_answers_that_make_no_sense(server, status, answer, exit, said):
    server.answers["/status"] = (status, answer)
    message = fails(exit, "status", "-s", server.url)
    assert f"ask `{server.url}/status`: " in message and said in message, message


def test_redirects_are_not_followed(server):
    def redirect(handler):
        handler.send_response(302)
        handler.send_header("location", server.url + "/status2")
        handler.send_header("content-length", "0")
        handler.end_headers()

    server.answers.update({"/status": redirect, "/status2": (200, STATUS)})
    assert "it answers 302" in fails(1, "status", "-s", server.url)
    assert server.asked == ["/status"]


def test_an_answer_without_end(server):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b" " * 65536)

    server.answers["/status"] = endless
    limit = resource.RLIM_INFINITY if BUILD.name == "asan" else 256 << 20
    message = fails(5, "status", "-s", server.url,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))  # fmt: skip
    assert "the answer has more than 33554432 bytes" in message


def test_an_answer_that_is_cut_off(server):
    def cut(handler):
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        handler.wfile.write(json.dumps(STATUS).encode())

    server.answers["/status"] = cut
    assert f"ask `{server.url}/status`: " in fails(4, "status", "-s", server.url)


def test_text_of_servers_cannot_move_the_cursor(server):
    odd = "\x1b]0;title\x07\x1b[2J\r\n\t\x9b31m\u202e\u2066\u2028\x7f\x00€漢"
    clean = "\ufffd]0;title\ufffd\ufffd[2J   \ufffd31m\ufffd\ufffd\ufffd\ufffd\ufffd€漢"
    engine = {"namespace": odd, "name": odd, "model": odd, "aliases": [odd], "protocol": odd, "tokenizer": odd,
              "conditions": [{"type": "Ready", "status": odd, "reason": odd, "message": odd}],
              "endpoints": [{"address": odd, "state": odd, "owner": odd, "reason": odd}]}  # fmt: skip
    gateway = {"id": odd, "namespace": odd, "node": odd, "version": odd, "adminAddress": odd, "own": [odd], "stateError": odd}
    server.answers["/status"] = (200, {
        "operator": {"id": odd, "reason": odd}, "manifests": {"path": odd, "errors": [odd]},
        "engines": [engine, {**engine, "model": "m"}], "gateways": [gateway], "pools": [{"name": odd}]})  # fmt: skip
    for words in (("status",), ("status", "-owide"), ("status", "-ojson"), ("explain", "m"), ("explain", "m", "-o", "json")):
        text = run(*words, "-s", server.url).stdout.decode()
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028]", text), words
        assert (clean if "json" not in str(words) else "\\u001B]0;title\\u0007") in text, text


def test_members_of_other_types_are_nothing(server):
    server.answers["/status"] = (200, {
        "operator": [], "manifests": 7, "programs": {"a": 1}, "gateways": [None, {"own": [1], "revision": "x", "refused": []}],
        "pools": [{"targetPorts": ["x", None, 1e300]}, 3], "engines": [1, None, {"model": "m", "endpoints": [[], {"kvUsage": "x",
        "inFlight": 1e99, "index": -1, "since": "yesterday"}], "aliases": {"m": 1}, "conditions": [False]}]})  # fmt: skip
    for words in (("status",), ("status", "-owide"), ("explain", "m")):
        done = run(*words, "-s", server.url)
        assert (done.returncode, done.stderr) == (0, b"")


def test_all_gateways_are_asked_some_at_once(server):
    """A request is looked for at every gateway, and a path or a scheme in an address leads nowhere."""
    others = [Server() for _ in range(3)]

    unknown = (404, {"error": {"message": "request `a/b c` is not among the last that this gateway served"}})
    path = "/explain?request=cmpl-a%2Fb%20c%26%C3%A9"
    known = {"request": "cmpl-a/b c&é", "choices": [{"index": 0, "attempts": [{"outcome": "ok"}]}], "status": 200}
    for other in others:
        other.answers[path] = unknown
    others[2].answers[path] = lambda h: (time.sleep(0.05), h.send_response(200), h.end_headers(),
                                         h.wfile.write(json.dumps(known).encode()))  # fmt: skip
    addresses = [others[i % 2].host for i in range(198)] + [others[2].host] * 100
    addresses += [server.host + "/x", "file:///etc/passwd", "http://" + server.host, "", 7]
    server.answers["/status"] = (200, {**STATUS, "gateways": [{"id": "g", "adminAddress": a} for a in addresses]})
    done = run("explain", "cmpl-a/b c&é", "-s", server.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().count("Request:   cmpl-a/b c&é\n") == 100
    assert server.asked == ["/status"]
    assert [len(o.asked) for o in others] == [99, 99, 100] and set(others[0].asked) == {path}
    assert 8 < others[2].most <= 32
    for other in others:
        other.shutdown()
        other.server_close()


def test_gateways_that_do_not_answer(server, nobody):
    gateways = [{"id": "g", "adminAddress": nobody, "current": True}]
    server.answers["/status"] = (200, {**STATUS, "gateways": gateways})
    # The operator's half of a model is worth something alone; a request is known to gateways only.
    done = run("explain", "m", "-s", server.url)
    assert done.returncode == 0
    assert f"what a gateway serves is not known: ask `http://{nobody}/explain?model=m`: " in done.stdout.decode()
    assert f"ask `http://{nobody}/explain?request=cmpl-x`: " in fails(4, "explain", "cmpl-x", "-s", server.url)
    assert f"ask `http://{nobody}/explain?model=m`: " in fails(4, "explain", "m", "--gateway", nobody)
    server.answers["/status"] = (200, {**STATUS, "gateways": []})
    assert "no gateway is known" in run("explain", "m", "-s", server.url).stdout.decode()
    assert "0 gateways asked: none knows a request of that id" in fails(3, "explain", "cmpl-x", "-s", server.url)


def test_a_full_disk(server):
    server.answers["/status"] = (200, STATUS)
    with open("/dev/full", "w") as full:
        done = subprocess.run([KELPIE, "status", "-s", server.url], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"write `standard output`: No space left on device" in done.stderr


def test_an_answer_that_never_comes(patience):
    host, began, process = patience
    out, said = process.communicate(timeout=60)
    assert 14 < time.monotonic() - began
    assert (process.returncode, out) == (4, b"") and f"ask `http://{host}/status`: ".encode() in said
