"""A real engine: vLLM on the CPU with a tiny Qwen3 of random weights, behind its own gRPC servicer. Run by `make check-vllm` only, which
brings vLLM (6 GB). The truth is vLLM itself, asked for the same ids without a gateway, and Hugging Face's libraries."""

import json
import re
import shutil
import statistics
import time

import pytest
from oracles import ask_engine, engine_load
from programs import LOGS, Gateway, engine, manifest, wait_until
from vllm_engine import CONTEXT, Vllm
from wire import CHAT, COMPLETIONS, Connection, Http2, Joined, Stream, both, call, stream

pytestmark = pytest.mark.heavy
VOCAB = 151936
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": VOCAB,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": True,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "torch_dtype": "float32",
}


@pytest.fixture(scope="module")
def vllm(start_shared, qwen3_path):
    model = LOGS / "tiny-qwen3"
    shutil.copytree(qwen3_path, model, dirs_exist_ok=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
    return start_shared(Vllm, model, "--load-format", "dummy", "--no-enable-prefix-caching")


@pytest.fixture(scope="module")
def gateway(vllm, start_shared):
    """Started first: it waits for the engine, as in a pod."""
    started = start_shared(Gateway, manifest(engine("vllm", vllm.port, aliases=["tiny"])), ready=False)
    began = time.monotonic()
    assert started.ask("/readyz")[0] == 503
    assert (
        call(started.port, CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}]}).status == 503
    )
    vllm.wait_routable(started)
    print(f"vLLM was up after {time.monotonic() - began:.0f} s")
    return started


MESSAGES = [{"role": "user", "content": "What is the sea? 海 🚀"}]


def test_health_and_the_engines_tokenizer(gateway, vllm, qwen3):
    report = gateway.ask("/readyz?verbose")[1]
    assert f"[+]engine default/vllm {vllm.address}: routable" in report
    models = {m["id"]: m for m in call(gateway.port, "/v1/models").json()["data"]}
    assert set(models) == {"m", "tiny"} and models["m"]["max_model_len"] == CONTEXT
    for text in ("", "Hello, world", "l'été 1234 🚀\n\n x", "<|im_end|>"):
        assert call(gateway.port, "/v1/tokenize", {"model": "m", "prompt": text}).json()[
            "tokens"
        ] == qwen3.encode(text)
    for kw in ({}, {"enable_thinking": False}):
        asked = {"model": "m", "messages": MESSAGES, "chat_template_kwargs": kw}
        assert call(gateway.port, "/v1/tokenize", asked).json()["tokens"] == qwen3.chat_ids(MESSAGES, **kw)


def test_chat_whole_and_streamed(gateway, vllm, qwen3):
    ids = qwen3.chat_ids(MESSAGES)
    expected = ask_engine(vllm.address, ids, temperature=0, max_tokens=40, ignore_eos=True)
    assert len(expected.ids) == 40
    answer = both(
        gateway.port,
        CHAT,
        {"model": "m", "messages": MESSAGES, "temperature": 0, "max_tokens": 40, "ignore_eos": True},
    )
    assert answer["choices"][0]["message"]["content"] == qwen3.decode(expected.ids)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == len(ids) and answer["usage"]["completion_tokens"] == 40
    with Http2(gateway.port) as h:
        body = {"model": "m", "messages": MESSAGES, "temperature": 0, "max_tokens": 40, "ignore_eos": True}
        assert h.answer(h.request(CHAT, body)).json()["choices"] == answer["choices"]


def test_completions_and_prompt_arrays(gateway, vllm, qwen3):
    prompts = ["one", "two words", "drei 🚀"]
    expected = [
        qwen3.decode(
            ask_engine(vllm.address, qwen3.encode(p), temperature=0, max_tokens=12, ignore_eos=True).ids
        )
        for p in prompts
    ]
    body = {"model": "m", "temperature": 0, "max_tokens": 12, "ignore_eos": True}
    for sent in (prompts, [qwen3.encode(p) for p in prompts]):
        answer = both(gateway.port, COMPLETIONS, {**body, "prompt": sent})
        assert [c["text"] for c in answer["choices"]] == expected


def test_logprobs(gateway, vllm, qwen3):
    ids = qwen3.chat_ids(MESSAGES)
    body = {
        "model": "m",
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": 10,
        "ignore_eos": True,
        "logprobs": True,
        "top_logprobs": 4,
    }
    expected = ask_engine(vllm.address, ids, temperature=0, max_tokens=10, ignore_eos=True, logprobs=4)
    got = both(gateway.port, CHAT, body)["choices"][0]["logprobs"]["content"]
    assert [bytes(p["bytes"]) for p in got] == [qwen3.token_bytes(t) for t in expected.ids]
    assert [p["logprob"] for p in got] == pytest.approx(expected.logprobs, abs=1e-4)
    for mine, top in zip(got, expected.top, strict=True):
        assert [t["logprob"] for t in mine["top_logprobs"]] == pytest.approx(
            [v for _, v in top[:4]], abs=1e-4
        )
        assert [bytes(t["bytes"]) for t in mine["top_logprobs"]] == [qwen3.token_bytes(t) for t, _ in top[:4]]
    prompt = qwen3.encode("Once upon")
    expected = ask_engine(vllm.address, prompt, temperature=0, max_tokens=10, ignore_eos=True, logprobs=2)
    got = both(
        gateway.port,
        COMPLETIONS,
        {
            "model": "m",
            "prompt": prompt,
            "temperature": 0,
            "max_tokens": 10,
            "ignore_eos": True,
            "logprobs": 2,
        },
    )
    assert got["choices"][0]["logprobs"]["token_logprobs"] == pytest.approx(expected.logprobs, abs=1e-4)


def test_choices_and_seeds(gateway, vllm, qwen3):
    ids = qwen3.chat_ids(MESSAGES)
    body = {
        "model": "m",
        "messages": MESSAGES,
        "temperature": 1.0,
        "seed": 7,
        "max_tokens": 10,
        "ignore_eos": True,
        "n": 3,
    }
    texts = [c["message"]["content"] for c in both(gateway.port, CHAT, body)["choices"]]
    assert texts == [
        qwen3.decode(
            ask_engine(vllm.address, ids, temperature=1.0, seed=7 + i, max_tokens=10, ignore_eos=True).ids
        )
        for i in range(3)
    ]
    assert len(set(texts)) == 3
    # vLLM itself refuses several greedy choices of one request.
    texts = [c["message"]["content"] for c in both(gateway.port, CHAT, {**body, "temperature": 0})["choices"]]
    assert len(texts) == 3 and len(set(texts)) == 1


def test_what_ends_an_answer(gateway, vllm, qwen3):
    ids = qwen3.chat_ids(MESSAGES)
    tokens = ask_engine(vllm.address, ids, temperature=0, max_tokens=30, ignore_eos=True).ids
    text = qwen3.decode(tokens)
    body = {"model": "m", "messages": MESSAGES, "temperature": 0, "max_tokens": 30, "ignore_eos": True}
    for begin, end in ((3, 5), (10, 14), (len(text) // 2, len(text) // 2 + 3)):
        stop = text[begin:end]
        choice = both(gateway.port, CHAT, {**body, "stop": ["not there", stop]})["choices"][0]
        assert choice["message"]["content"] == text[: text.index(stop)]
        assert choice["finish_reason"] == "stop" and choice["stop_reason"] == stop
    at = tokens.index(tokens[12])
    answer = both(gateway.port, CHAT, {**body, "stop_token_ids": [tokens[at]]})
    assert answer["choices"][0]["message"]["content"] == qwen3.decode(tokens[:at])
    assert (
        answer["choices"][0]["stop_reason"] == tokens[at] and answer["usage"]["completion_tokens"] == at + 1
    )
    answer = both(gateway.port, CHAT, {**body, "max_tokens": 1})
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 1
    refused = call(gateway.port, CHAT, {**body, "max_tokens": CONTEXT})
    assert refused.status == 400 and refused.error["code"] == "context_length_exceeded"
    rest = call(
        gateway.port,
        COMPLETIONS,
        {"model": "m", "prompt": [1] * (CONTEXT - 8), "max_tokens": 8, "ignore_eos": True},
    )
    assert rest.json()["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize("streamed", [True, False])
def test_cancel(gateway, vllm, streamed):
    """The client goes: vLLM runs nothing any more within a second."""
    seconds = []
    for _ in range(3):
        with Connection(gateway.port) as c:
            c.request(
                COMPLETIONS,
                {
                    "model": "m",
                    "prompt": "x",
                    "max_tokens": CONTEXT - 10,
                    "ignore_eos": True,
                    "stream": streamed,
                    "n": 2,
                },
            )
            wait_until(lambda: engine_load(vllm.address)[0] == 2, "two running requests")
            if streamed:
                for _, _chunk in zip(range(3), Stream(c), strict=False):
                    pass
        left = time.monotonic()
        wait_until(lambda: engine_load(vllm.address) == (0, 0), "an engine without work")
        seconds.append(time.monotonic() - left)
    print(f"idle after {max(seconds):.3f} s at most")
    assert max(seconds) < 1


def test_figures(gateway):
    """Nothing is judged here, only told."""
    for clients in (1, 8):
        firsts, seconds, connections = [], [], [Connection(gateway.port) for _ in range(clients)]
        began = time.monotonic()
        for c in connections:
            c.request(
                COMPLETIONS,
                {"model": "m", "prompt": "figures", "max_tokens": 64, "ignore_eos": True, "stream": True},
            )
        for c in connections:
            s = iter(Stream(c))
            next(s)
            firsts.append(time.monotonic() - began)
            assert len(list(s)) >= 60
            seconds.append(time.monotonic() - began)
            c.close()
        print(
            f"{clients} streams of 64 tokens: first token {statistics.median(firsts) * 1000:.0f} ms, "
            f"{clients * 64 / max(seconds):.0f} tokens/s, gateway {gateway.rss() >> 10} MiB"
        )
    with stream(gateway.port, CHAT, {"model": "tiny", "messages": MESSAGES, "max_tokens": 5}) as s:
        assert Joined(s, chat=True).models == {"tiny"} and s.done


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["a", "b"]}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "n"],
    "additionalProperties": False,
}
THINK, CLOSE = 151667, 151668  # of Qwen3


def constrained(port, think=False, ask=both, **more):
    """One choice, as `ask` gets it. Random weights never end a thought by themselves: the tokens that begin and end one are made likely, which counts where the constraint lets them."""
    body = {
        "model": "m",
        "messages": MESSAGES,
        "temperature": 0,
        "max_tokens": 200,
        "logit_bias": {CLOSE: 100, THINK: 60},
        "chat_template_kwargs": {"enable_thinking": think},
        **more,
    }
    return ask(port, CHAT, body)["choices"][0]


def whole(port, path, body):
    answer = call(port, path, body)
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.parametrize("think", [False, True])
def test_structured_output(gateway, think):
    """SO-01: the schema holds for the answer, and the thought before it is free."""

    def content(**more):
        choice = constrained(gateway.port, think, **more)
        assert choice["finish_reason"] == "stop", choice
        assert "think>" not in choice["message"]["content"]
        return choice["message"]["content"]

    def checked(text):
        value = json.loads(text)
        assert value["name"] in ("a", "b") and 0 <= value["n"] <= 99
        return value

    checked(content(response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}))
    checked(content(structured_outputs={"json": SCHEMA}))
    assert re.fullmatch("[A-C]{3}", content(guided_regex="[A-C]{3}"))
    assert content(guided_choice=["Paris", 'R"ome']) in ("Paris", 'R"ome')
    assert content(guided_grammar='root ::= "yes" | "no"') in ("yes", "no")
    tag = {"type": "sequence", "elements": [{"type": "const_string", "value": "<n>"}, {"type": "json_schema", "json_schema": {"enum": [7]}}]}
    assert content(response_format={"type": "structural_tag", "format": tag}) == "<n>7"


def test_structured_completions(gateway):
    body = {"model": "m", "prompt": "x", "temperature": 0, "max_tokens": 40}
    assert both(gateway.port, COMPLETIONS, {**body, "guided_choice": [" one", " two"]})["choices"][0]["text"] in (" one", " two")
    assert json.loads(both(gateway.port, COMPLETIONS, {**body, "json_schema": json.dumps(SCHEMA)})["choices"][0]["text"])


@pytest.mark.parametrize("think", [False, True])
def test_calls_that_must_be_made(gateway, think):
    """TC-26, TC-27, TC-34."""
    named = {"type": "function", "function": {"name": "get_weather"}}
    only = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}}
    for choice, names, finish in [("required", {"get_weather", "now"}, "tool_calls"), (named, {"get_weather"}, "stop"), (only, {"now"}, "tool_calls")]:
        got = constrained(gateway.port, think, whole, tools=[WEATHER, NOW], tool_choice=choice, parallel_tool_calls=False)
        (call_,) = got["message"]["tool_calls"]
        arguments = json.loads(call_["function"]["arguments"])
        assert call_["function"]["name"] in names and got["finish_reason"] == finish
        assert not got["message"].get("content")
        if call_["function"]["name"] == "now":
            assert arguments == {}
        else:
            assert arguments["city"] in ("Paris", "Rome") and 1 <= arguments["days"] <= 9


def test_what_cannot_be_compiled(gateway):
    """SO-03, SO-06: vLLM's refusal is the request's fault, and it lives on."""
    for bad in ({"guided_regex": "(unclosed"}, {"guided_json": {"type": "nonsense"}}, {"guided_grammar": "root ::= nothing"}):
        answer = call(gateway.port, CHAT, {"model": "m", "messages": MESSAGES, "max_tokens": 9, **bad})
        assert answer.status == 400, (bad, answer.status, answer.body)
    assert constrained(gateway.port, guided_choice=["yes"])["message"]["content"] == "yes"
