"""What operators see: protocols and TLS, where the gateway listens, metrics."""

import json
import re
import socket
import ssl
import subprocess

import pytest
from oracles import ask_engine
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from wire import CHAT, COMPLETIONS, Http2, Joined, both, call, split_events, stream


@pytest.fixture(scope="module")
def sim(start_shared):
    return start_shared(Sim, "--vocab", QWEN3_TOKENS, "--eos", "151645")


def test_http2_and_tls(start, sim, qwen3, qwen3_path, tmp_path):
    """The same answers over HTTP/1.1 and HTTP/2, with TLS and without."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=x",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-out",
            certificate,
            "-keyout",
            key,
        ],
        check=True,
        capture_output=True,
    )
    text = manifest(engine("sim", sim.port, path=qwen3_path))
    plain = start(Gateway, text)
    secured = start(Gateway, text, "--tls-cert", certificate, "--tls-key", key)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "seed": 1, "max_tokens": 30}
    expected = qwen3.decode(
        ask_engine(sim.address, qwen3.chat_ids(body["messages"]), seed=1, max_tokens=30).ids
    )
    with Http2(plain.port) as h:
        whole, streamed = h.request(CHAT, body), h.request(CHAT, {**body, "stream": True})
        assert h.answer(whole).json()["choices"][0]["message"]["content"] == expected
        joined = Joined(map(json.loads, list(split_events([h.answer(streamed).body]))[:-1]), chat=True)
        assert joined.text[0] == expected
    context = ssl.create_default_context(cafile=certificate)
    for protocol in ("http/1.1", "h2"):
        context.set_alpn_protocols([protocol])
        curl = subprocess.run(
            [
                "curl",
                "-sS",
                "--max-time",
                "60",
                "--cacert",
                certificate,
                "--http2" if protocol == "h2" else "--http1.1",
                "-w",
                "\n%{http_version}",
                "-H",
                "Content-Type: application/json",
                "-d",
                json.dumps(body),
                f"https://127.0.0.1:{secured.port}{CHAT}",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        answer, version = curl.rsplit("\n", 1)
        assert version == {"h2": "2", "http/1.1": "1.1"}[protocol]
        assert json.loads(answer)["choices"][0]["message"]["content"] == expected
        with (
            socket.create_connection(("127.0.0.1", secured.port), 60) as s,
            context.wrap_socket(s, server_hostname="127.0.0.1") as t,
        ):
            assert t.selected_alpn_protocol() == protocol


def test_where_it_listens(start, sim, qwen3_path):
    """--listen as often as one likes; without it, the ports of the pool."""
    text = manifest(engine("sim", sim.port, path=qwen3_path))
    gateway = start(Gateway, text, listen=["127.0.0.1:0", "127.0.0.1:0"])
    assert len(set(gateway.ports)) == 2
    for port in gateway.ports:
        assert call(port, "/v1/models").json()["data"][0]["id"] == "m"
    with socket.create_server(("127.0.0.1", 0)) as a, socket.create_server(("127.0.0.1", 0)) as b:
        ports = [a.getsockname()[1], b.getsockname()[1]]
    gateway = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path), ports=ports), listen=())
    assert gateway.ports == ports
    for port in ports:
        assert call(port, "/readyz").status == 200


def test_metrics(start, sim, qwen3, qwen3_path):
    gateway = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path, aliases=["other"])))
    messages = [{"role": "user", "content": "x"}]
    prompt = len(qwen3.chat_ids(messages))
    for _ in range(2):
        both(gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 5})
    both(gateway.port, COMPLETIONS, {"model": "other", "prompt": [1, 2, 3], "max_tokens": 7, "n": 2})
    assert call(gateway.port, CHAT, {"model": "nobody", "messages": messages}).status == 404
    assert call(gateway.port, CHAT, b"{").status == 400
    count = lambda **labels: gateway.metric("kelpie_requests_total", **labels)
    assert (
        count(api="chat", model="m", code="200") == 4
        and count(api="completions", model="other", code="200") == 2
    )
    assert count(api="chat", model="", code="404") == 1 and count(api="chat", model="", code="400") == 1
    assert gateway.metric("kelpie_prompt_tokens_total", model="m") == 4 * prompt
    assert gateway.metric("kelpie_completion_tokens_total", model="m") == 20
    assert gateway.metric("kelpie_prompt_tokens_total", model="other") == 6
    assert gateway.metric("kelpie_completion_tokens_total", model="other") == 28
    assert gateway.metric("kelpie_time_to_first_token_seconds_count", model="m") == 4
    assert gateway.metric("kelpie_engine_up", engine="default/sim", address=sim.address) == 1
    # The client leaves.
    slow = start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 20)
    gateway.write_and_wait(manifest(engine("slow", slow.port, path=qwen3_path)))
    wait_until(
        lambda: gateway.metric("kelpie_engine_up", engine="default/slow", address=slow.address) == 1,
        "the slow one",
    )
    with stream(gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 500}) as s:
        next(iter(s))
    wait_until(lambda: count(api="chat", model="m", code="499") == 1, "the request counts as left")
    # Every family has its help and type, every series one line.
    text = gateway.ask("/metrics")[1]
    names = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and line[0] != "#"]
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line and line[0] != "#"]
    assert len(series) == len(set(series))
    for name in set(names):
        family = re.sub("_(bucket|sum|count)$", "", name) if f"# TYPE {name} " not in text else name
        assert text.count(f"# HELP {family} ") == text.count(f"# TYPE {family} ") == 1, name
