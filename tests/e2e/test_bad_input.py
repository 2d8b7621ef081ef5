"""Whatever is wrong gets an answer of OpenAI's shape with the right status, and is nobody else's business: all the while other clients
stream, and every answer of theirs must be whole and right. At the end the gateway holds no more memory and no more descriptors than
before."""

import json
import re
import resource
import socket
import time

import pytest
from bad_values import (
    BODIES,
    CHAT_WRONG,
    COMPLETION_WRONG,
    HARMLESS,
    REFUSED,
    REFUSED_VALUES,
    TAKEN,
    VALUES,
    WRONG,
)
from clients import Bystander, Patient, SilentBody, SilentHead, SlowHead
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_params
from oracles import ask_engine, engine_load
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from wire import CHAT, COMPLETIONS, Broken, Connection, Http2, Stream, call, encode

MESSAGES = "/v1/messages"
CONTEXT, MAX_BODY = 4096, 2 << 20
CHAT_BODY = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
COMPLETION_BODY = {"model": "m", "prompt": "Hello", "max_tokens": 4}

# What the engine does wrong, chosen by the request's max_tokens.
LIES = {
    "garbage-ids:2": 1001,
    "no-finish:3": 1002,
    "wrong-proto:2": 1003,
    "bad-choice:1": 1004,
    "empty:2": 1005,
    "internal:2": 1006,
    "unavailable:2": 1007,
    "exhausted": 1008,
    "invalid": 1009,
    "refuse": 1010,
    "hang:2": 1011,
    "slow-drip:20": 12,
    "extra": 13,
}


@pytest.fixture(scope="module")
def sim(start_shared):
    faults = [word for fault, tokens in LIES.items() for word in ("--fault", f"{fault}@{tokens}")]
    return start_shared(
        Sim, "--vocab", QWEN3_TOKENS, "--max-context", CONTEXT, "--eos", "151645", "--itl-ms", 2, *faults
    )


@pytest.fixture(scope="module")
def gateway(sim, start_shared, qwen3_path):
    thinking = start_shared(Sim, "--vocab", QWEN3_TOKENS, "--ttft-ms", 11_000)
    engines = [
        engine("sim", sim.port, path=qwen3_path),
        engine("thinking", thinking.port, model="thinking", path=qwen3_path),
    ]
    started = start_shared(Gateway, manifest(*engines), "--max-body", MAX_BODY, "--request-timeout", 60)
    wait_until(lambda: started.ask("/readyz?verbose")[1].count("routable") == 2, "two engines")
    return started


@pytest.fixture(scope="module")
def slow(gateway):
    """Clients that send next to nothing, and one that waits, from the beginning on; they are asked at the end what became of them."""
    clients = [
        SlowHead(gateway),
        SilentHead(gateway),
        SilentBody(gateway),
        SilentBody(gateway, chunked=True),
        SilentBody(gateway, path=MESSAGES),
        Patient(gateway),
    ]
    yield clients
    for client in clients:
        client.join(90)


@pytest.fixture(scope="module")
def bystanders(sim, gateway, qwen3, slow):
    prompts = [qwen3.encode("bystander one"), qwen3.encode("bystander two")]
    texts = [qwen3.decode(ask_engine(sim.address, p, max_tokens=30).ids) for p in prompts]
    # Warm: what is kept from the first requests on is no leak.
    for _ in range(20):
        call(gateway.port, CHAT, CHAT_BODY)
    found = [Bystander(gateway, t, p) for t, p in zip(texts, prompts, strict=True)]
    yield found
    for b in found:
        b.over.set()
        b.join(60)
    assert not [f for b in found for f in b.failures]


@pytest.fixture(autouse=True)
def untouched(bystanders):
    """No other request suffered, and each bystander got another whole answer since the test ended."""
    yield
    if any(b.over.is_set() for b in bystanders):
        return
    done = [b.done for b in bystanders]
    wait_until(
        lambda: all(b.done > n for b, n in zip(bystanders, done, strict=True)), "answers for other clients"
    )
    assert not [f for b in bystanders for f in b.failures]


def refused(gateway, path, body, status, param=None, code=None, kind="invalid_request_error", message=""):
    answer = call(gateway.port, path, body)
    assert answer.status == status, (body if len(str(body)) < 300 else "(long)", answer.body[:500])
    assert answer.headers["content-type"] == "application/json"
    error = answer.error
    assert (error["type"], error["param"], error["code"]) == (kind, param, code), error
    assert re.search(message, error["message"]), error
    return error


# --- JSON ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/tokenize", "/v1/detokenize"])
def test_malformed_json(gateway, path):
    for body in BODIES + [b'{"model":' + value + b"}" for value in VALUES]:
        answer = call(gateway.port, path, body)
        assert answer.status == 400 and answer.error["param"] in ("model", None), (body, answer.body)
        assert answer.error["type"] == "invalid_request_error" and answer.error["code"] is None, answer.body


def test_tk09_lone_surrogates_and_nul(gateway, qwen3):
    message = lambda text: (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"' + text + b'"}]}'
    )
    for text in (rb"\ud83d", rb"\ude80", rb"\ude80\ud83d", rb"a\ud83d\u0041", b"\xed\xa0\xbd", b"\0"):
        refused(gateway, CHAT, message(text), 400, "messages[0].content")
    expected = len(qwen3.chat_ids([{"role": "user", "content": "a\0b 🚀"}]))
    answer = call(gateway.port, CHAT, message(rb"a\u0000b \ud83d\ude80"))
    assert answer.status == 200 and answer.json()["usage"]["prompt_tokens"] == expected
    answer = call(gateway.port, "/v1/tokenize", b'{"model":"m","prompt":"a\\u0000b"}')
    assert answer.json()["tokens"] == qwen3.encode("a\0b")


def test_deep_and_huge_json(gateway):
    for depth in (129, 5000, 500_000):
        for path, name in (
            (CHAT, "messages"),
            (COMPLETIONS, "prompt"),
            (CHAT, "metadata"),
            (CHAT, "unknown"),
        ):
            for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
                if depth == 500_000:
                    opening, closing = b"[", b"]"
                deep = b'{"model":"m","%s":' % name.encode() + opening * depth + b"1" + closing * depth + b"}"
                started = time.monotonic()
                answer = call(gateway.port, path, deep)
                assert answer.status == 400 and answer.error["param"].startswith(name), answer.body
                assert time.monotonic() - started < 5
    many = b'{"model":"m","messages":[' + b",".join([b"1"] * 400_000) + b"]}"
    refused(gateway, CHAT, many, 400, "messages")
    many = b'{"model":"m","prompt":[' + b",".join([b'"x"'] * 129) + b"]}"
    refused(gateway, COMPLETIONS, many, 400, "prompt[128]")
    wide = b"{" + b",".join(b'"k%d":1' % i for i in range(100_000)) + b"}"
    refused(gateway, CHAT, wide, 400, "k0", "unknown_parameter")
    one = b'{"model":"m","%s":1}' % (b"k" * 1_000_000)
    answer = call(gateway.port, CHAT, one)
    assert answer.status == 400 and answer.error["code"] == "unknown_parameter" and len(answer.body) < 2000
    numbers = (
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":' + b"1" * 100_000 + b"}"
    )
    refused(gateway, CHAT, numbers, 400, "temperature")


# --- parameters ----------------------------------------------------------------------------------------------------


def names_of(module):
    return set(module.CompletionCreateParamsBase.__annotations__) | {"stream"}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_every_parameter_of_openai(gateway, path):
    names = names_of(chat_params if path == CHAT else completion_create_params)
    unknown = names - TAKEN - set(HARMLESS) - set(REFUSED)
    assert not unknown, f"new parameters in OpenAI's SDK: {unknown}"
    body = CHAT_BODY if path == CHAT else COMPLETION_BODY
    for name in sorted(names & set(HARMLESS)):
        answer = call(gateway.port, path, {**body, name: HARMLESS[name]})
        assert answer.status == 200, (name, answer.body)
    for name in sorted(names & set(REFUSED)):
        refused(
            gateway,
            path,
            {**body, name: REFUSED[name]},
            400,
            name,
            "unsupported_parameter",
            message=f"`{name}`",
        )
    for name in sorted(names & set(REFUSED_VALUES)):
        answer = call(gateway.port, path, {**body, name: REFUSED_VALUES[name]})
        param = answer.error["param"]
        assert (
            answer.status == 400 and param.split("[")[0] == name and f"`{param}`" in answer.error["message"]
        )


def test_parameters_of_engines_that_are_not_served(gateway):
    for name, value in {
        "guided_whitespace_pattern": " ",
        "chat_template": "{{ x }}",
        "truncate_prompt_tokens": 5,
        "length_penalty": 1.0,
        "bad_words": ["a"],
        "allowed_token_ids": [1],
        "priority": 1,
    }.items():
        refused(
            gateway, CHAT, {**CHAT_BODY, name: value}, 400, name, "unsupported_parameter", message=f"`{name}`"
        )
    refused(gateway, CHAT, {**CHAT_BODY, "use_beam_search": True}, 400, "use_beam_search")
    for path, body in ((CHAT, CHAT_BODY), (COMPLETIONS, COMPLETION_BODY)):
        for name in ("temprature", "Temperature", "max-tokens", "", "é", "max_tokens "):
            answer = call(gateway.port, path, json.dumps({**body, name: 1}, ensure_ascii=False).encode())
            assert answer.status == 400 and answer.error["code"] == "unknown_parameter"
            assert answer.error["param"] == (name or None)
    refused(gateway, CHAT, {**CHAT_BODY, "prompt": "x"}, 400, "prompt", "unknown_parameter")
    refused(gateway, COMPLETIONS, {**COMPLETION_BODY, "messages": []}, 400, "messages", "unknown_parameter")
    refused(
        gateway,
        "/v1/tokenize",
        {"model": "m", "prompt": "x", "tokens": [1]},
        400,
        "tokens",
        "unknown_parameter",
    )


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_wrong_types_and_ranges(gateway, path):
    body = CHAT_BODY if path == CHAT else COMPLETION_BODY
    for table in (WRONG, CHAT_WRONG if path == CHAT else COMPLETION_WRONG):
        for name, values in table.items():
            for value in values:
                sent = {**body, name: value, **({"logprobs": True} if name == "top_logprobs" else {})}
                answer = call(gateway.port, path, sent)
                assert answer.status == 400, (name, value, answer.body)
                error = answer.error
                assert (
                    error["type"] == "invalid_request_error" and re.split(r"[.[]", error["param"])[0] == name
                ), (value, error)


def test_what_does_not_go_together(gateway):
    for path, body, param in (
        (CHAT, {**CHAT_BODY, "top_logprobs": 1}, "top_logprobs"),
        (CHAT, {**CHAT_BODY, "logprobs": False, "top_logprobs": 1}, "top_logprobs"),
        (CHAT, {**CHAT_BODY, "stream_options": {"include_usage": True}}, "stream_options"),
        (CHAT, {**CHAT_BODY, "stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        (
            CHAT,
            {**CHAT_BODY, "stream": True, "stream_options": {"include_usage": 1}},
            "stream_options.include_usage",
        ),
        (
            CHAT,
            {**CHAT_BODY, "stream": True, "stream_options": {"include_obfuscation": True}},
            "stream_options.include_obfuscation",
        ),
        (CHAT, {**CHAT_BODY, "stream": True, "stream_options": []}, "stream_options"),
        (CHAT, {**CHAT_BODY, "min_tokens": 5, "max_tokens": 4}, "min_tokens"),
        (
            CHAT,
            {**CHAT_BODY, "continue_final_message": True, "add_generation_prompt": True},
            "continue_final_message",
        ),
        (COMPLETIONS, {**COMPLETION_BODY, "prompt": ["a", "b"], "n": 65}, "n"),
        (CHAT, {"messages": CHAT_BODY["messages"]}, "model"),
        (CHAT, {"model": None, "messages": CHAT_BODY["messages"]}, "model"),
        (CHAT, {"model": "m"}, "messages"),
        (CHAT, {"model": "m", "messages": None}, "messages"),
        (COMPLETIONS, {"model": "m"}, "prompt"),
        ("/v1/tokenize", {"model": "m"}, "prompt"),
        ("/v1/tokenize", {"model": "m", "prompt": "x", "messages": CHAT_BODY["messages"]}, "messages"),
        ("/v1/detokenize", {"model": "m"}, "tokens"),
        ("/v1/detokenize", {"model": "m", "tokens": ["x"]}, "tokens[0]"),
        ("/v1/detokenize", {"model": "m", "tokens": [QWEN3_TOKENS]}, "tokens"),
        ("/v1/detokenize", {"model": "m", "tokens": [-1]}, "tokens[0]"),
    ):
        refused(gateway, path, body, 400, param)


def test_messages(gateway):
    def one(message, param, code=None):
        for path in (CHAT, "/v1/tokenize"):
            first = {"role": "system", "content": "s"}
            refused(gateway, path, {"model": "m", "messages": [first, message]}, 400, param, code)

    refused(gateway, CHAT, {"model": "m", "messages": []}, 400, "messages", message="empty")
    one("x", "messages[1]")
    one(None, "messages[1]")
    one({"content": "x"}, "messages[1].role")
    one({"role": "robot", "content": "x"}, "messages[1].role")
    one({"role": 1, "content": "x"}, "messages[1].role")
    one({"role": "user"}, "messages[1].content")
    one({"role": "user", "content": None}, "messages[1].content")
    one({"role": "user", "content": 5}, "messages[1].content")
    one({"role": "user", "content": {}}, "messages[1].content")
    one({"role": "tool", "content": "x", "tool_call_id": 1}, "messages[1].tool_call_id")
    one({"role": "assistant", "tool_calls": [{"id": "1"}]}, "messages[1].tool_calls[0].function")
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{'a': 1}"}}]
    one({"role": "assistant", "tool_calls": calls}, "messages[1].tool_calls[0].function.arguments")
    one({"role": "assistant", "function_call": calls[0]["function"]}, "messages[1].function_call.arguments")
    one({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0].text")
    one({"role": "user", "content": [{"text": "x"}]}, "messages[1].content[0].type", "unsupported_parameter")
    parts = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    one({"role": "user", "content": parts}, "messages[1].content[1]", "unsupported_parameter")
    many = [{"role": "user", "content": "x"}] * 4097
    refused(gateway, CHAT, {"model": "m", "messages": many}, 400, "messages", message="4096")


def test_unknown_models_paths_and_methods(gateway):
    for name in ("nobody", "M", "m ", "../m", "m\0", "é" * 100):
        for path, body in ((CHAT, CHAT_BODY), (COMPLETIONS, COMPLETION_BODY), ("/tokenize", {"prompt": "x"})):
            refused(
                gateway,
                path,
                {**body, "model": name},
                404,
                "model",
                "model_not_found",
                message="does not exist",
            )
    for method, path, status in (
        ("GET", CHAT, 405),
        ("PUT", CHAT, 405),
        ("DELETE", "/v1/models", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/v1/../v1/models", 404),
        ("GET", "/metrics", 404),
        ("POST", "/v2/chat/completions", 404),
        ("GET", "//v1/models", 404),
    ):
        answer = call(gateway.port, path, b"{}" if method in ("PUT", "POST") else None, method)
        assert answer.status == status, (method, path, answer.body)
        assert answer.error["type"] == "invalid_request_error"
    with Connection(gateway.port) as c:
        c.request(CHAT, headers=[("Content-Length", "2"), ("Content-Type", "text/plain")], method="POST")
        answer = c.answer()
        assert answer.status == 415 and answer.error["type"] == "invalid_request_error"


def test_context_length(gateway, qwen3):
    for words, extra in ((5000, {}), (CONTEXT, {}), (4000, {"max_tokens": 200}), (100, {"max_tokens": 4000})):
        text = "word " * words
        count = len(qwen3.chat_ids([{"role": "user", "content": text}]))
        body = {"model": "m", "messages": [{"role": "user", "content": text}], **extra}
        error = refused(gateway, CHAT, body, 400, "messages", "context_length_exceeded")
        numbers = list(map(int, re.findall(r"\d+", error["message"])))
        assert CONTEXT in numbers and count in numbers and count + extra.get("max_tokens", 1) in numbers, (
            error
        )
    count = len(qwen3.encode("word " * 5000))
    error = refused(
        gateway,
        COMPLETIONS,
        {"model": "m", "prompt": "word " * 5000},
        400,
        "prompt",
        "context_length_exceeded",
    )
    assert str(count) in error["message"] and str(CONTEXT) in error["message"]
    refused(
        gateway,
        COMPLETIONS,
        {"model": "m", "prompt": ["x", [1] * CONTEXT]},
        400,
        "prompt",
        "context_length_exceeded",
    )
    # A megabyte of text goes to a worker; the answer is the same.
    refused(
        gateway,
        CHAT,
        {"model": "m", "messages": [{"role": "user", "content": "x y " * 300_000}]},
        400,
        "messages",
        "context_length_exceeded",
    )


# --- HTTP ----------------------------------------------------------------------------------------------------------


def test_a_body_that_is_announced_too_large_is_not_read(gateway):
    for length in (MAX_BODY + 1, 10**12, 10**17):
        for path in (CHAT, "/v1/tokenize"):
            with Connection(gateway.port) as c:
                c.request(
                    path,
                    method="POST",
                    headers=[("Content-Length", length), ("Content-Type", "application/json")],
                )
                answer = c.answer()
                assert answer.status == 413 and answer.error["type"] == "invalid_request_error"
                assert answer.error["code"] == "body_too_large"
                assert answer.headers["connection"] == "close" and c.ended()
    body = b" " * (MAX_BODY - 2) + b"{}"
    assert call(gateway.port, CHAT, body).status == 400, "just as large as allowed"
    with Connection(gateway.port) as c:  # told before it sends anything
        c.request(CHAT, method="POST", headers=[("Content-Length", MAX_BODY + 1), ("Expect", "100-continue")])
        assert c.answer().status == 413


def test_a_body_of_unknown_length_is_cut_at_the_limit(gateway):
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    piece = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    with Connection(gateway.port) as c:
        c.send(head)
        c.socket.setblocking(False)
        sent, over = 0, False
        deadline = time.monotonic() + 60
        while sent < 64 << 20 and not over:
            assert time.monotonic() < deadline
            try:
                sent += c.socket.send(piece)
            except BlockingIOError:
                time.sleep(0.002)
            except (BrokenPipeError, ConnectionResetError):
                over = True
            try:
                over = over or bool(c.socket.recv(1, socket.MSG_PEEK))
            except BlockingIOError:
                pass
            except ConnectionResetError:
                over = True
        c.socket.setblocking(True)
        c.socket.settimeout(60)
        answer = c.answer()
        assert answer.status == 413 and answer.error["type"] == "invalid_request_error"
        # The kernel's buffers hold some megabytes more.
        assert sent < MAX_BODY + (16 << 20), sent


def test_http2_bodies_over_the_limit(gateway):
    with Http2(gateway.port) as c:
        number = c.h2.get_next_available_stream_id()
        c.streams[number] = {"status": None, "headers": {}, "body": b"", "ended": False, "reset": None}
        head = {
            ":method": "POST",
            ":scheme": "http",
            ":authority": "x",
            ":path": CHAT,
            "content-type": "application/json",
        }
        c.h2.send_headers(number, [*head.items(), ("content-length", str(MAX_BODY + 1))])
        c.flush()
        stream = c.streams[number]
        while stream["status"] is None:
            c.pump()
        assert stream["status"] == 413
        # The connection goes on.
        assert c.answer(c.request("/v1/models")).status == 200


def test_streams_opened_and_reset(gateway, sim):
    """HTTP/2's rapid reset: nothing runs on for nobody, and the client may lose its connection."""
    began = len(sim.events("start"))
    for _ in range(3):
        with Http2(gateway.port) as c:
            try:
                for _ in range(1000):
                    c.wait_window(200)
                    c.reset(c.request(COMPLETIONS, {**COMPLETION_BODY, "max_tokens": 1000, "stream": True}))
            except (Broken, BrokenPipeError, ConnectionResetError):
                pass
    wait_until(lambda: engine_load(sim.address)[0] <= 2, "only the bystanders' requests")
    assert len(sim.events("start")) - began < 3100
    assert call(gateway.port, CHAT, CHAT_BODY).status == 200


def test_broken_requests(gateway):
    """tests/integ has the long list; here: an answer, and the connection ends."""
    for data in (
        b"GET\r\n\r\n",
        b"GET /v1/models\r\n\r\n",
        b"GET /v1/models HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0",
        b"GET /v1/models HTTP/1.1\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    ):
        with Connection(gateway.port) as c:
            c.send(data)
            try:
                answer = c.answer()
            except (Broken, ConnectionResetError):
                continue
            assert answer.status in (400, 414, 431, 501, 505), (data[:60], answer.status)
            assert answer.error["type"] == "invalid_request_error"
            assert c.ended()


def test_pipelined_requests(gateway):
    """Answered one after the other, in their order."""
    requests = [
        encode("/v1/models"),
        encode(COMPLETIONS, COMPLETION_BODY),
        encode("/nowhere"),
        encode(CHAT, b"{"),
    ] * 10
    requests += [encode(COMPLETIONS, {**COMPLETION_BODY, "max_tokens": n, "stream": True}) for n in (1, 2, 3)]
    with Connection(gateway.port) as c:
        c.send(b"".join(requests))
        answers = [c.answer() for _ in requests]
    assert [a.status for a in answers] == [200, 200, 404, 400] * 10 + [200] * 3
    assert all(a.json()["object"] == "text_completion" for a in answers[1:40:4])
    assert [a.body.count(b'"finish_reason":null') >= n for n, a in enumerate(answers[-3:], 1)] == [True] * 3


def test_thousands_of_idle_connections(gateway, bystanders):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(3000, hard - 200)
    before = gateway.fds()
    idle = []
    try:
        for i in range(count):
            s = socket.create_connection(("127.0.0.1", gateway.port), 60)
            if i % 3 == 1:
                s.sendall(b"GET /v1/mod")  # half a head
            elif i % 3 == 2:
                s.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")  # idle after an answer
            idle.append(s)
        wait_until(lambda: gateway.fds() >= before + count - 20, "accepted connections")
        started = time.monotonic()
        for _ in range(50):
            assert call(gateway.port, CHAT, CHAT_BODY).status == 200
        assert time.monotonic() - started < 20
        gateway.assert_rss_below(400)
    finally:
        for s in idle:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_until(lambda: gateway.fds() <= before + 20, "closed connections")


def test_too_many_requests(start, gateway, qwen3_path):
    """Beyond --max-requests: at once, with a time to come again; who is in stays in."""
    slow = start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 10)
    small = start(Gateway, manifest(engine("slow", slow.port, path=qwen3_path)), "--max-requests", 3)
    inside = [Connection(small.port) for _ in range(3)]
    for c in inside:
        c.request(COMPLETIONS, {**COMPLETION_BODY, "max_tokens": 40, "stream": True})
    slow.wait_event("start", count=3)
    for path, body in (
        (CHAT, CHAT_BODY),
        (COMPLETIONS, COMPLETION_BODY),
        (COMPLETIONS, {**COMPLETION_BODY, "stream": True}),
    ):
        answer = call(small.port, path, body)
        assert (
            answer.status == 429
            and answer.error["type"] == "rate_limit_error"
            and answer.error["code"] == "too_many_requests"
        )
        assert int(answer.headers["retry-after"]) > 0
    answer = call(small.port, MESSAGES, {**CHAT_BODY, "max_tokens": 4})
    assert answer.status == 529 and answer.json()["error"]["type"] == "overloaded_error"
    assert answer.json()["error"]["details"] == {"error_code": "too_many_requests"} and int(answer.headers["retry-after"]) > 0
    assert call(small.port, "/v1/models").status == 200
    for c in inside:
        stream = Stream(c)
        assert len(list(stream)) >= 40 and stream.done
        c.close()
    assert call(small.port, CHAT, CHAT_BODY).status == 200


# --- an engine that lies -------------------------------------------------------------------------------------------


def lie(gateway, fault, stream):
    body = {**COMPLETION_BODY, "max_tokens": LIES[fault], "stream": stream}
    return call(gateway.port, COMPLETIONS, body)


@pytest.mark.parametrize(
    ("fault", "status", "kind", "message"),
    [
        ("garbage-ids:2", 500, "server_error", str(QWEN3_TOKENS)),
        ("no-finish:3", 502, "server_error", "finish"),
        ("wrong-proto:2", 500, "server_error", "protobuf"),
        ("bad-choice:1", 500, "server_error", "choice"),
        ("empty:2", 500, "server_error", "neither"),
        ("internal:2", 500, "server_error", "engine"),
        ("unavailable:2", 503, "service_unavailable_error", "engine"),
        ("exhausted", 429, "rate_limit_error", "exhausted on demand"),
        ("invalid", 400, "invalid_request_error", "invalid on demand"),
        ("refuse", 503, "service_unavailable_error", "refused on demand"),
    ],
)
def test_an_engine_that_lies(gateway, sim, fault, status, kind, message):
    answer = lie(gateway, fault, stream=False)
    assert answer.status == status and answer.error["type"] == kind, answer.body
    assert re.search(message, answer.error["message"]), answer.error
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) > 0
    if status == 500:
        assert sim.address in answer.error["message"]
    with Connection(gateway.port) as c:
        c.request(COMPLETIONS, {**COMPLETION_BODY, "max_tokens": LIES[fault], "stream": True})
        if ":" not in fault:  # nothing was sent yet: the status says it
            streamed = c.answer()
            assert streamed.status == status and streamed.error == answer.error
            return
        stream = Stream(c)
        chunks = list(stream)
        assert (
            not stream.done and stream.error["type"] == kind and re.search(message, stream.error["message"])
        )
        assert 0 < len(chunks) <= int(fault.split(":")[1]) and all(
            x["choices"][0]["finish_reason"] is None for x in chunks
        )
        # The framing is whole: the connection goes on.
        c.request("/v1/models")
        assert c.answer().status == 200


def test_an_engine_that_refuses_often(gateway):
    """What it says to one client takes nothing from the others: see the bystanders."""
    for fault in ("refuse", "unavailable:2") * 30:
        assert lie(gateway, fault, stream=False).status == 503


def test_an_engine_that_goes_on_after_the_end(gateway):
    """The client has the whole answer; the engine gets the blame."""
    answer = lie(gateway, "extra", stream=False)
    assert answer.status == 200 and answer.json()["choices"][0]["finish_reason"] == "length"
    told = json.loads(gateway.ask("/explain?model=m")[1])
    assert told["revisions"][0]["endpoints"][0]["penalty"] > 0


def test_a_slow_engine(gateway, sim, qwen3):
    expected = qwen3.decode(
        ask_engine(sim.address, qwen3.encode("Hello"), max_tokens=LIES["slow-drip:20"]).ids
    )
    answer = lie(gateway, "slow-drip:20", stream=False)
    assert answer.status == 200 and answer.json()["choices"][0]["text"] == expected


def test_lm11_a_hanging_engine(start, sim, gateway, qwen3_path):
    """The request's own time limit ends it, whole or in the middle of a stream."""
    other = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)), "--request-timeout", 1)
    started = time.monotonic()
    answer = lie(other, "hang:2", stream=False)
    assert answer.status == 504 and answer.error["type"] == "timeout_error"
    assert 0.9 < time.monotonic() - started < 20
    with Connection(other.port) as c:
        c.request(COMPLETIONS, {**COMPLETION_BODY, "max_tokens": LIES["hang:2"], "stream": True})
        stream = Stream(c)
        assert len(list(stream)) == 2 and stream.error["type"] == "timeout_error"


def test_a_tokenizer_that_lies(start, smollm2_zip, tmp_path):
    """Not ready, with the reason; ready by itself when the engine has recovered."""
    faults = tmp_path / "faults"
    faults.write_text("bad-digest\n")
    sim = start(Sim, "--vocab", 49152, "--tokenizer-zip", smollm2_zip, "--control", faults)
    gateway = start(Gateway, manifest(engine("sim", sim.port)), ready=False)
    for fault, why in (
        ("bad-digest", "announced 0000"),
        ("no-digest", "without a digest"),
        ("unhealthy", "not.*(healthy|alive)"),
    ):
        faults.write_text(fault + "\n")
        wait_until(lambda why=why: re.search(why, gateway.ask("/readyz?verbose")[1]), f"{why} in the report")
        status, text = gateway.ask("/readyz?verbose")
        assert status == 503 and sim.address in text
        answer = call(gateway.port, CHAT, CHAT_BODY)
        assert (
            answer.status == 503
            and answer.error["code"] == "model_not_ready"
            and int(answer.headers["retry-after"]) > 0
        )
        assert call(gateway.port, "/readyz").status == 503 and call(gateway.port, "/livez").status == 200
    faults.write_text("")
    gateway.wait_ready()
    assert call(gateway.port, CHAT, CHAT_BODY).status == 200
    faults.write_text("unhealthy\n")
    wait_until(lambda: gateway.ask("/readyz")[0] == 503, "the engine is known to be unhealthy")
    answer = call(gateway.port, CHAT, CHAT_BODY)
    assert answer.status == 503 and answer.error["code"] == "no_engine_available"
    faults.write_text("")
    gateway.wait_ready()
    assert call(gateway.port, CHAT, CHAT_BODY).status == 200


# --- afterwards ----------------------------------------------------------------------------------------------------


def test_slow_clients_were_ended(slow):
    for client in slow[:-1]:
        client.join(90)
        assert client.error is None and client.answer.status == 408, (type(client), client.error)
        value = client.answer.json()
        assert value["error"]["type"] == "timeout_error"
        if getattr(client, "path", COMPLETIONS) == MESSAGES:
            assert value["type"] == "error" and value["request_id"] == client.answer.headers["request-id"]
        else:
            assert client.answer.error["code"] == "request_timeout"
        assert client.limit - 0.5 < client.seconds < client.limit + 15, (type(client), client.seconds)


def test_ss14_comments_while_the_engine_thinks(slow):
    patient = slow[-1]
    patient.join(90)
    assert patient.error is None and patient.answer.startswith(b": keep-alive\n\ndata: {"), (
        patient.error,
        patient.answer,
    )
    assert patient.answer.endswith(b"data: [DONE]\n\n")


def test_the_admin_listener(gateway):
    """For people and probes, not for clients; all the same nothing harms it."""
    for path, status in (
        ("/livez", 200),
        ("/readyz", 200),
        ("/readyz?verbose", 200),
        ("/metrics", 200),
        ("/version", 200),
        ("/", 404),
        ("/v1/models", 404),
    ):
        assert gateway.ask(path)[0] == status, path
    assert re.search(r"kelpie-sidecar|version", gateway.ask("/version")[1])
    for data in (
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"PUT / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\0\0",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"\r\n\r\n",
        b"GET",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50,
    ):
        with Connection(gateway.admin) as c:
            try:
                c.send(data)
                c.socket.shutdown(socket.SHUT_WR)
                while c.socket.recv(65536):
                    pass
            except OSError:
                pass  # closed while we wrote
        assert gateway.ask("/livez") == (200, "ok\n")


def test_nothing_is_left_behind(gateway, sim, bystanders):
    """The last test of this file."""
    wait_until(lambda: all(b.done >= 20 for b in bystanders), "answers for other clients")
    for b in bystanders:
        b.over.set()
        b.join(60)
    assert not [f for b in bystanders for f in b.failures]
    wait_until(lambda: engine_load(sim.address) == (0, 0), "an engine without work")
    base = gateway.fds()
    # One connection to the engine for each loop and one of the control thread, listeners, and the loops' own.
    assert base < 60
    before = gateway.rss()
    for _ in range(100):
        call(gateway.port, CHAT, CHAT_BODY)
        call(gateway.port, CHAT, b"{" * 100_000)
    gateway.assert_rss_below((before >> 10) + 8)
    gateway.assert_rss_below(250)
    wait_until(lambda: gateway.fds() <= base, "closed connections")
