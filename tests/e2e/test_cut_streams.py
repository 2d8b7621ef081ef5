"""The engine's connection breaks at each of its bytes: a proxy between gateway and engine lets so many through, then cuts. A client gets the whole answer or one
error, in each dialect, and never a part that looks complete."""

import concurrent.futures
import contextlib
import json
import re
import socket
import struct
import threading
import time

import pytest
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from wire import CHAT, COMPLETIONS, call

MESSAGES = "/v1/messages"
TOKENS = 6
KINDS = ("close", "reset", "garbage")


class Proxy(threading.Thread):
    """One engine's address. `arm(n, kind)`: the connections of loops get n bytes more of the engine, then it happens; None: all pass."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.left, self.kind, self.passed = None, None, 0
        self.lock = threading.Lock()
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                engine_side = socket.create_connection(("127.0.0.1", self.target))
                seen = {"generate": False}
                threading.Thread(target=self.forward, args=(client, engine_side, seen), daemon=True).start()
                threading.Thread(target=self.back, args=(engine_side, client, seen), daemon=True).start()

    def forward(self, client, engine_side, seen):
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                # A generation carries the prompt's ids; health checks and questions are a few bytes.
                if len(data) > 120:
                    seen["generate"] = True
                engine_side.sendall(data)
        self.end(client, engine_side)

    def back(self, engine_side, client, seen):
        with contextlib.suppress(OSError):
            while data := engine_side.recv(65536):
                with self.lock:
                    cut = self.left is not None and seen["generate"]
                    if seen["generate"]:
                        self.passed += len(data)
                    if cut and len(data) >= self.left:
                        data, kind = data[: self.left], self.kind
                        self.left = None
                    else:
                        kind = None
                        if cut:
                            self.left -= len(data)
                client.sendall(data)
                if kind:
                    self.happen(client, kind)
                    break
        self.end(client, engine_side)

    @staticmethod
    def happen(client, kind):
        if kind == "garbage":
            client.sendall(b"\xff" * 64)
        elif kind == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.shutdown(socket.SHUT_RD)  # who waits in recv would keep it from closing

    @staticmethod
    def end(*sockets):
        for s in sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR) if s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)[:4] == b"\0\0\0\0" else None
            s.close()

    def arm(self, n, kind):
        with self.lock:
            self.left, self.kind, self.passed = n, kind, 0


LANES = 12  # engines of one gateway, each behind a proxy of its own


@pytest.fixture(scope="module", params=("vllm", "sglang"))
def chain(request, start_shared, qwen3_path):
    sim = start_shared(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", "2")
    proxies = [Proxy(sim.port) for _ in range(LANES)]
    engines = [engine(f"e{i}", p.port, model=f"m{i}", path=qwen3_path, type=request.param) for i, p in enumerate(proxies)]
    return proxies, start_shared(Gateway, manifest(*engines), loops=1)


BODIES = {
    CHAT: {"messages": [{"role": "user", "content": "Hello " * 40}]},
    MESSAGES: {"messages": [{"role": "user", "content": "Hello " * 40}]},
    COMPLETIONS: {"prompt": "Hello " * 60},
}


def ask(gateway, lane, path, is_streamed):
    return call(gateway.port, path, {"model": f"m{lane}", "max_tokens": TOKENS, **BODIES[path], "stream": is_streamed})


def whole_text(path, body):
    """Of an answer that is not streamed."""
    value = json.loads(body)
    if path == MESSAGES:
        assert value["stop_reason"] == "max_tokens"
        return "".join(block.get("text", "") for block in value["content"])
    choice = value["choices"][0]
    assert choice["finish_reason"] == "length"
    return choice["text"] if path == COMPLETIONS else choice["message"]["content"] or choice["message"]["reasoning_content"]


def text_of(path, answer, is_streamed):
    """The whole text, or None: there was one error, in the dialect's shape."""
    body = answer.body.decode()
    if answer.status != 200:
        assert answer.status in (500, 502, 503, 529), answer.body
        value = json.loads(body)
        assert value["error"]["message"] and (path != MESSAGES or value["type"] == "error")
        return None
    if not is_streamed:
        return whole_text(path, body)
    if path == MESSAGES:
        events = re.findall(r"^event: (\w+)$", body, flags=re.M)
        if events[-1] == "error":
            assert events.count("error") == 1 and "message_delta" not in events and '"stop_reason":"' not in body
            return None
        assert events[-1] == "message_stop" and "error" not in events
        return "".join(json.loads(d)["delta"].get("text", "") for d in re.findall(r"^data: (.*content_block_delta.*)$", body, flags=re.M))
    datas = re.findall(r"^data: (.*)$", body, flags=re.M)
    if '{"error"' in datas[-1]:
        assert not any('"finish_reason":"' in d or d == "[DONE]" for d in datas)
        return None
    assert datas[-1] == "[DONE]"
    choices = [json.loads(d)["choices"][0] for d in datas[:-1]]
    assert choices[-1]["finish_reason"] == "length"
    return "".join(c.get("text") or c.get("delta", {}).get("content") or c.get("delta", {}).get("reasoning_content") or "" for c in choices)


def wait_ready(gateway, lane):
    """The lane's engine takes requests."""

    def ready():
        time.sleep(0.02)
        return re.search(rf"\be{lane}\b.*: routable", gateway.ask("/readyz?verbose")[1])

    wait_until(ready, f"engine e{lane} takes requests")


def learn(proxy, gateway, lane, path, is_streamed):
    """The whole text, and how many bytes of the engine's it takes on a connection that is there."""
    for _ in range(2):
        proxy.arm(None, None)
        wait_ready(gateway, lane)
        text = text_of(path, ask(gateway, lane, path, is_streamed), is_streamed)
    assert proxy.passed > 100
    return text, proxy.passed


@pytest.mark.parametrize("step", (31, pytest.param(1, marks=pytest.mark.slow)), ids=("some", "each"))
@pytest.mark.parametrize("is_streamed", (True, False), ids=("streamed", "whole"))
@pytest.mark.parametrize("path", (CHAT, COMPLETIONS, MESSAGES), ids=("chat", "completions", "messages"))
def test_ss09_ss10_an08_the_connection_breaks(chain, path, is_streamed, step):
    proxies, gateway = chain
    texts, totals = zip(*(learn(p, gateway, i, path, is_streamed) for i, p in enumerate(proxies)), strict=True)
    cuts = [(n, kind) for n in range(0, max(totals) + 1, step) for kind in KINDS]

    def lane(i):
        failed = 0
        for n, kind in cuts[i::LANES]:
            proxies[i].arm(n, kind)
            got = text_of(path, ask(gateway, i, path, is_streamed), is_streamed)
            assert got in (None, texts[i]), (n, kind, got)
            failed += got is None
            proxies[i].arm(None, None)
            wait_ready(gateway, i)
        return failed

    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        failed = sum(pool.map(lane, range(LANES)))
    print(f"{len(cuts)} cuts, {failed} of them told as an error")
    assert failed
    wait_until(lambda: gateway.metric("kelpie_requests_in_flight") == 0, "nothing in flight")
