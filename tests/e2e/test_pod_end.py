"""How a pod ends, as its injected hooks drive it: the gateway is asked to drain, and the engine is held back until nothing is in flight."""

import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from programs import BUILD, QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until
from test_control import controlled
from test_peers import Watch
from wire import COMPLETIONS, Connection, Stream, call

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}


def get(port, path, timeout=60):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()


def probes(gateway):
    return int(gateway.wait_for(r'"msg":"probes listening","port":(\d+)')[1])


def ask_drain(gateway):
    """What the gateway's own preStop hook runs."""
    command = [BUILD / "bin/kelpie-sidecar", "--ask-drain", f"127.0.0.1:{gateway.admin}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


class Hook(threading.Thread):
    """The engine's preStop hook: kubelet waits for its answer."""

    def __init__(self, port, path="/drained"):
        super().__init__(daemon=True)
        self.port, self.path, self.answer, self.took = port, path, None, None
        self.start()

    def run(self):
        began = time.monotonic()
        self.answer = get(self.port, self.path)
        self.took = time.monotonic() - began

    def end(self, timeout=60):
        self.join(timeout)
        assert not self.is_alive(), "the hook was not answered"
        return self.answer


@pytest.fixture
def pod(start, qwen3_path):
    def make(*options, itl_ms=20):
        sim = start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", itl_ms)
        text = manifest(engine("e", sim.port, path=qwen3_path))
        gateway = start(Gateway, text, "--probe-listen", "127.0.0.1:0", *options)
        return sim, gateway, probes(gateway)

    return make


def test_the_engine_is_held_back_until_streams_have_ended(pod):
    sim, gateway, port = pod("--drain-settle", 1)
    with Connection(gateway.port) as c:
        c.request(COMPLETIONS, {**BODY, "max_tokens": 150, "stream": True})  # three seconds
        chunks = iter(Stream(c))
        next(chunks)
        hook = Hook(port)  # kubelet calls both at once, in any order
        time.sleep(0.3)
        asked = ask_drain(gateway)
        assert (asked.returncode, asked.stderr) == (0, "")
        assert get(port, "/readyz")[0] == 503 and get(port, "/livez")[0] == 200
        time.sleep(1.5)
        assert hook.is_alive()
        assert sum(1 for _ in chunks) >= 148
    assert hook.end() == (200, "drained, 0 requests in flight\n")
    assert 2 < hook.took < 10
    assert len(sim.events("end")) == 1
    # It takes no connection any more, and ends at once when it is told to.
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", gateway.port), 1).close()
    began = time.monotonic()
    gateway.stop()
    assert time.monotonic() - began < 3


def test_new_work_is_served_until_others_have_noticed(pod):
    """A single pod: what comes while endpoints are still being taken out of Services has nowhere else to go."""
    _, gateway, port = pod("--drain-settle", 2)
    assert ask_drain(gateway).returncode == 0
    hook = Hook(port)
    assert call(gateway.port, COMPLETIONS, BODY).status == 200
    assert hook.end()[0] == 200
    assert hook.took > 1.5


def test_the_budget_ends_it(pod):
    _, gateway, port = pod("--drain-timeout", 1)
    with Connection(gateway.port) as c:
        c.request(COMPLETIONS, {**BODY, "max_tokens": 2000, "stream": True})
        next(iter(Stream(c)))
        assert ask_drain(gateway).returncode == 0
        hook = Hook(port)
        assert hook.end() == (200, "the time is over, 1 requests in flight\n")
        assert hook.took < 4


def test_it_waits_at_least_as_long_as_the_hook_that_was_there(pod):
    _, gateway, port = pod()
    hook = Hook(port, "/drained?min=3")
    assert ask_drain(gateway).returncode == 0
    assert hook.end()[0] == 200
    assert 3 <= hook.took < 8


def test_strangers_can_only_wait(pod):
    """The probes' port is open to the network: it has nothing that changes anything, and waiting there starves nobody. Without a
    drain, it is the engine's container alone that ends, and the pod stays."""
    _, gateway, port = pod()
    assert get(port, "/drain")[0] == 404 and get(port, "/explain")[0] == 404
    assert get(port, "/drained?min=x")[0] == 400 and get(port, "/drained?min=86401")[0] == 400
    assert "kelpie_requests_in_flight" in get(port, "/metrics")[1]
    crowd = [Hook(port) for _ in range(80)]
    began = time.monotonic()
    assert get(port, "/livez")[0] == 200 and get(port, "/readyz")[0] == 200
    assert time.monotonic() - began < 2
    answers = [h.end() for h in crowd]
    assert [status for status, _ in answers].count(503) == 16
    assert answers.count((200, "not draining, 0 requests in flight\n")) == 64
    assert all(4.5 < h.took < 10 for h in crowd if h.answer[0] == 200)
    assert get(port, "/readyz")[0] == 200 and call(gateway.port, COMPLETIONS, BODY).status == 200


def test_a_client_that_leaves_gives_its_place_back(pod):
    _, gateway, port = pod()
    for _ in range(200):
        with socket.create_connection(("127.0.0.1", port), 5) as s:
            s.sendall(b"GET /drained HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.002)
    time.sleep(0.3)
    hooks = [Hook(port) for _ in range(40)]
    assert ask_drain(gateway).returncode == 0
    assert {h.end() for h in hooks} == {(200, "drained, 0 requests in flight\n")}


def test_asking_nobody(pod):
    failed = subprocess.run(
        [BUILD / "bin/kelpie-sidecar", "--ask-drain", "127.0.0.1:1"], capture_output=True, text=True, timeout=30
    )
    assert failed.returncode == 1 and "connect to `127.0.0.1:1`" in failed.stderr
    named = subprocess.run(
        [BUILD / "bin/kelpie-sidecar", "--ask-drain", "localhost:1"], capture_output=True, text=True, timeout=30
    )
    assert named.returncode == 1 and "expected an IP address" in named.stderr


def test_two_pods_one_ends_under_load(start, qwen3_path):
    """The operator knows, the other gateways choose again, and no request fails; the engine ends only behind its last stream."""
    sims = [start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 10) for _ in range(2)]
    operator = start(Operator, manifest(engine("e", *(s.port for s in sims), path=qwen3_path)))
    options = ("--probe-listen", "127.0.0.1:0")
    a = controlled(start, operator, "gw-a", *options, own=["default/e/0"], ready=False)
    b = controlled(start, operator, "gw-b", *options, own=["default/e/1"], ready=False)
    entry = controlled(start, operator, "entry", ready=False)
    for g in (a, b, entry):
        wait_until(lambda: g.ask("/readyz?verbose")[1].count(": routable") == 2, "both engines")
    watch = Watch(entry, rate=100)
    time.sleep(1)
    hook = Hook(probes(a))
    assert ask_drain(a).returncode == 0
    at = time.monotonic()
    assert hook.end() == (200, "drained, 0 requests in flight\n")
    sims[0].stop()  # the engine's SIGTERM comes behind the hook's answer
    a.stop()
    time.sleep(3)
    n_errors, _ = watch.judge(at, time.monotonic(), may_fail=False)
    assert n_errors == 0


def test_a_pods_address_alone_is_advertised_with_the_port(start, qwen3_path):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    operator = start(Operator, manifest(engine("e", sim.port, path=qwen3_path)))
    for address, shown in (("10.88.1.7", r"10\.88\.1\.7"), ("fd00::7", r"\[fd00::7\]")):
        g = controlled(start, operator, "gw", "--advertise", address, own=["default/e/0"], ready=False)
        port = g.wait_for(r'"msg":"peers listening","address":"127\.0\.0\.1:(\d+)"')[1]
        assert re.search(rf'"advertised":"{shown}:{port}"', g.text())
        g.stop()
