"""kelpie-load against an HTTP server of the test's own: what it sends, what it counts, what it takes for a failure, and that it only loads this machine."""

import json
import pathlib
import socket
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "integ" / "engine"))
import engines  # noqa: E402


def chunked(parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"


def event(value):
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()) + b"\n\n"


def stream(tokens=3, pieces=None):
    events = [event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})]
    events += [event({"choices": [{"index": 0, "delta": {"content": f"w{k} "}}]}) for k in range(tokens)]
    events += [event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}), event(b"[DONE]")]
    body = b"".join(events)
    if pieces:
        body = [body[i : i + pieces] for i in range(0, len(body), pieces)]
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(body if pieces else events)


def whole(body, status=b"200 OK", headers=b""):
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), headers, body)


class Server:
    """Answers each request with the bytes given, `cut` bytes at a time, and keeps what it was asked."""

    def __init__(self, answer, cut=None, close=False):
        self.answer, self.cut, self.close_after = answer, cut, close
        self.requests, self.connections = [], 0
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.accepting = threading.Thread(target=self.accept, daemon=True)
        self.accepting.start()

    def stop(self):
        """The thread ends before the descriptor does: its number may soon be another test's listener."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.accepting.join()
        self.socket.close()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = client.makefile("rb")
        with client:
            while line := reader.readline():
                headers = {}
                while (h := reader.readline().strip()):
                    name, value = h.decode().split(": ", 1)
                    headers[name.lower()] = value
                body = reader.read(int(headers["content-length"]))
                self.requests.append((line.decode().strip(), headers, json.loads(body)))
                step = self.cut or len(self.answer)
                for i in range(0, len(self.answer), step):
                    client.sendall(self.answer[i : i + step])
                    if self.cut:
                        time.sleep(0.001)
                if self.close_after:
                    return


@pytest.fixture
def serve():
    made = []

    def make(*args, **more):
        made.append(Server(*args, **more))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def load(address, *args, status=0):
    done = subprocess.run(
        [engines.program("kelpie-load"), "--address", address, "--model", "m", "--json", *map(str, args)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr + done.stdout
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_it_asks_what_it_says_and_counts_what_it_gets(serve):
    server = serve(stream())
    result = load(server.address, "--requests", 20, "--concurrency", 4, "--warmup", 3, "--max-tokens", 7)
    assert (result["requests"], result["failed"], result["tokens"], result["events_per_request"]) == (20, 0, 60, 5)
    assert 0 < result["ttft_p50_ms"] <= result["ttft_p99_ms"] and result["first_error"] == ""
    assert len(server.requests) == 23 and server.connections <= 4
    line, headers, body = server.requests[0]
    assert line == "POST /v1/chat/completions HTTP/1.1" and headers["host"] == server.address
    assert body["model"] == "m" and body["max_tokens"] == 7 and body["stream"] is True and body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True} and body["messages"][0]["role"] == "user"


@pytest.mark.parametrize("answer", [stream(), stream(pieces=1), stream(pieces=7)])
@pytest.mark.parametrize("cut", [1, 13])
def test_the_answer_may_come_in_any_pieces(serve, answer, cut):
    result = load(serve(answer, cut=cut).address, "--requests", 3, "--concurrency", 1, "--warmup", 0)
    assert (result["requests"], result["tokens"], result["events_per_request"]) == (3, 9, 5)


def test_whole_answers_and_completions(serve):
    server = serve(whole(b'{"choices":[{"text":"x"}],"usage": {"completion_tokens": 4}}'))
    result = load(server.address, "--requests", 5, "--concurrency", 2, "--no-stream", "--completions")
    assert (result["requests"], result["tokens"]) == (5, 20)
    assert server.requests[0][0] == "POST /v1/completions HTTP/1.1" and isinstance(server.requests[0][2]["prompt"], str)


def test_long_prompts_are_new_each_time_and_the_same_for_the_same_seed(serve):
    prompts = []
    for seed in (1, 1, 2):
        server = serve(stream())
        load(server.address, "--requests", 3, "--concurrency", 1, "--warmup", 0, "--prompt", "long", "--seed", seed)
        prompts.append([body["messages"][0]["content"] for _, _, body in server.requests])
    assert prompts[0] == prompts[1] and not set(prompts[0]) & set(prompts[2]) and len(set(prompts[0])) == 3
    for prompt in prompts[0]:
        assert len(prompt.split(" ")) == 3000 and 18000 < len(prompt) < 24000 and sum(c.isdigit() for c in prompt) > 8000


def test_a_file_of_prompts(serve, tmp_path):
    (tmp_path / "p").write_text('one "quoted"\n\ntwo ü\n')
    server = serve(stream())
    load(server.address, "--requests", 3, "--concurrency", 1, "--warmup", 0, "--prompt", tmp_path / "p")
    assert [b["messages"][0]["content"] for _, _, b in server.requests] == ['one "quoted"', "two ü", 'one "quoted"']


def test_for_a_time_instead_of_a_number(serve):
    began = time.monotonic()
    result = load(serve(stream()).address, "--seconds", 0.5, "--concurrency", 2)
    assert 0.5 <= result["wall_s"] < 5 and result["requests"] > 10 and time.monotonic() - began < 10


@pytest.mark.parametrize("answer,words", [
    (whole(b'{"error":{"message":"no"}}', b"503 Service Unavailable"), 'HTTP status 503: {"error":{"message":"no"}}'),
    (stream().replace(b"data: [DONE]", b"data: 123456"), "without [DONE]"),
    (stream().replace(b"completion_tokens", b"complexion_tokens"), "no usage"),
    (stream().replace(b'{"choices":[]', b'{"error":"x"}#'), "an error event"),
    (stream() + b"more", "bytes that nobody asked for"),
    (b"HTTP/1.0 200 OK\r\n\r\n", "not a status line"),
    (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}", "without framing"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "a chunk size: xyz"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd", "bytes behind a chunk"),
])
def test_what_counts_as_failed(serve, answer, words):
    result = load(serve(answer).address, "--requests", 4, "--concurrency", 1, "--warmup", 0, status=1)
    assert result["failed"] >= 1 and words in result["first_error"]


def test_a_connection_that_ends_in_an_answer_is_a_failure(serve):
    result = load(serve(stream()[:-30], close=True).address, "--requests", 4, "--concurrency", 1, "--warmup", 0, status=1)
    assert result["failed"] == 4 and "the connection ended" in result["first_error"]


def test_a_server_that_closes_between_answers_is_none(serve):
    server = serve(whole(b'{"usage":{"completion_tokens":4}}', headers=b"Connection: close\r\n"), close=True)
    assert load(server.address, "--requests", 6, "--concurrency", 2, "--no-stream")["requests"] == 6
    assert server.connections == 8


def test_nobody_there():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % s.getsockname()[1]
    result = load(address, "--requests", 4, "--concurrency", 2, status=1)
    assert result["failed"] >= 4 and "refused" in result["first_error"]


def test_only_this_machine_is_loaded():
    for address in ("192.0.2.1:80", "0.0.0.0:80", "[::]:80", "localhost:80", "10.0.0.1:80", "nonsense"):
        assert "parse address" in load(address, status=2)


def test_the_cost_of_another_process(serve):
    burner = subprocess.Popen([sys.executable, "-c", "x = bytearray(64 << 20)\nprint(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        burner.stdout.readline()
        result = load(serve(stream()).address, "--seconds", 1, "--concurrency", 1, "--pid", burner.pid)
    finally:
        burner.kill()
        burner.wait()
    assert 0.1 < result["cpu_s"] <= result["wall_s"] * 1.05
    assert result["cpu_ms_per_request"] == pytest.approx(result["cpu_s"] * 1000 / result["requests"], rel=1e-3)
    assert 64 < result["rss_mib"] <= result["peak_mib"] < 200
    assert "process `%d`" % burner.pid in load("127.0.0.1:9", "--requests", 1, "--warmup", 0, "--pid", burner.pid, status=2)
