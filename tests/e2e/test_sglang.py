"""The gateway in front of engines that speak SGLang's protocol. The sim engine speaks both, with the same tokens: an answer must not depend on the
protocol it came through. A stand-in for SGLang (tests/integ/engine) looks at every field of what the gateway sends, and says of its model what SGLang's
servicer says, which is not all true."""

import re
import sys

import openai
import pytest
from programs import QWEN3_TOKENS, ROOT, Gateway, Operator, Sim, engine, manifest, wait_until
from wire import CHAT, COMPLETIONS, both, call

sys.path.insert(0, str(ROOT / "tests/integ/engine"))
from sglang_standin import Finish, Plan, Standin  # noqa: E402

EOS = 151645
MESSAGES = [{"role": "user", "content": "What is 2+2?"}]


@pytest.fixture(scope="module")
def sim(start_shared):
    options = ("--vocab", QWEN3_TOKENS, "--max-context", 4096, "--eos", EOS, "--stop-after", 24, "--cached", 3, "--itl-ms", 2)
    return start_shared(Sim, *options)


@pytest.fixture(scope="module")
def gateway(start_shared, sim, qwen3_path):
    engines = [engine(f"by-{t}", sim.port, model=t, path=qwen3_path, type=t) for t in ("vllm", "sglang")]
    return start_shared(Gateway, manifest(*engines))


def without_names(answer):
    """All of an answer but what is another each time."""
    return {k: v for k, v in answer.items() if k not in ("id", "created", "model")}


ASKED = {
    "plain": {"max_tokens": 12},
    "to-the-models-end": {"max_tokens": 100},
    "as-much-as-fits": {"ignore_eos": True},
    "greedy-with-a-seed": {"max_tokens": 5, "temperature": 0, "seed": 0},
    "sampling": {"max_tokens": 9, "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "frequency_penalty": 0.5, "presence_penalty": -0.5,
                 "repetition_penalty": 1.1},
    "choices": {"max_tokens": 7, "n": 3},
    "tokens-that-must-be": {"max_tokens": 40, "min_tokens": 30},
    "a-bias": {"max_tokens": 6, "logit_bias": {"5": -100, "151643": 3}},
}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_an_answer_is_the_same_through_both_protocols(gateway, sim, path, asked):
    prompt = {"messages": MESSAGES} if path == CHAT else {"prompt": "The capital of France is"}
    if asked.get("ignore_eos"):
        prompt = {"messages": [{"role": "user", "content": "x " * 3900}]} if path == CHAT else {"prompt": "x " * 3950}
    answers = [both(gateway.port, path, {"model": model, **prompt, **asked}) for model in ("vllm", "sglang")]
    assert without_names(answers[0]) == without_names(answers[1])
    assert {e["protocol"] for e in sim.events("start")} == {"vllm", "sglang"}


@pytest.mark.parametrize("path,logprobs", [(CHAT, {"logprobs": True, "top_logprobs": 3}), (CHAT, {"logprobs": True}), (COMPLETIONS, {"logprobs": 2})])
def test_so_are_log_probabilities(gateway, path, logprobs):
    prompt = {"messages": MESSAGES} if path == CHAT else {"prompt": ["A", "B C"]}
    answers = [both(gateway.port, path, {"model": m, **prompt, "max_tokens": 8, **logprobs}) for m in ("vllm", "sglang")]
    assert answers[0]["choices"][0]["logprobs"] and without_names(answers[0]) == without_names(answers[1])


def test_so_are_stop_ids_and_stop_strings(gateway, sim):
    body = {"prompt": "Hello", "max_tokens": 20, "logprobs": 0}
    pieces = both(gateway.port, COMPLETIONS, {"model": "sglang", **body})["choices"][0]["logprobs"]["tokens"]
    ids = call(gateway.port, "/v1/tokenize", {"model": "sglang", "prompt": pieces[4], "add_special_tokens": False}).json()["tokens"]
    for stop in ({"stop": pieces[5]}, {"stop_token_ids": [EOS, *ids]}):
        answers = [both(gateway.port, COMPLETIONS, {"model": m, **body, **stop}) for m in ("vllm", "sglang")]
        assert without_names(answers[0]) == without_names(answers[1])
        assert answers[0]["choices"][0]["finish_reason"] == "stop"
    # The model's own end is no stop id, whatever SGLang calls it.
    own = both(gateway.port, COMPLETIONS, {"model": "sglang", "prompt": "Hello", "max_tokens": 100})["choices"][0]
    assert (own["finish_reason"], own.get("stop_reason")) == ("stop", None)


def test_the_sdk_sees_no_difference(gateway):
    with openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=60) as client:
        seen = []
        for model in ("vllm", "sglang"):
            whole = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=10, logprobs=True, top_logprobs=2)
            pieces = list(client.chat.completions.create(
                model=model, messages=MESSAGES, max_tokens=10, stream=True, stream_options={"include_usage": True}))
            text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
            assert text == whole.choices[0].message.content and pieces[-1].usage == whole.usage
            completion = client.completions.create(model=model, prompt="Once upon", max_tokens=10, n=2)
            seen.append((whole.choices, whole.usage, completion.choices, completion.usage))
        assert seen[0] == seen[1]
        with pytest.raises(openai.BadRequestError) as e:
            client.chat.completions.create(model="sglang", messages=MESSAGES, max_tokens=5, seed=1)
        assert e.value.param == "seed" and "temperature" in e.value.message
        client.chat.completions.create(model="vllm", messages=MESSAGES, max_tokens=5, seed=1)


def test_a_stop_string_ends_the_request_on_the_engine(gateway, sim):
    text = both(gateway.port, COMPLETIONS, {"model": "sglang", "prompt": "Go", "max_tokens": 20, "ignore_eos": True})["choices"][0]["text"]
    ended = call(gateway.port, COMPLETIONS, {"model": "sglang", "prompt": "Go", "max_tokens": 3000, "ignore_eos": True, "stop": text[5:12]}).json()
    sim.wait_event("abort", ended["id"])
    # The vLLM servicer needs no such word.
    ended = call(gateway.port, COMPLETIONS, {"model": "vllm", "prompt": "Go", "max_tokens": 3000, "ignore_eos": True, "stop": text[5:12]}).json()
    sim.wait_event("cancelled", ended["id"])
    assert sim.events("abort", ended["id"]) == []


def test_the_tokenizer_comes_from_the_engine(start, smollm2_zip):
    sim = start(Sim, "--protocol", "sglang", "--vocab", 49152, "--tokenizer-zip", smollm2_zip)
    gateway = start(Gateway, manifest(engine("e", sim.port, type="sglang")))
    answer = both(gateway.port, CHAT, {"model": "m", "messages": MESSAGES, "max_tokens": 5})
    assert answer["usage"]["completion_tokens"] == 5


# --- SGLang as its servicer is ---------------------------------------------------------------------------------------


@pytest.fixture
def standin():
    engine = Standin(vocab=QWEN3_TOKENS)
    yield engine
    engine.stop()
    assert engine.complaints == []


@pytest.fixture
def behind(start, standin, qwen3_path):
    return start(Gateway, manifest(engine("e", int(standin.address.split(":")[1]), path=qwen3_path, type="sglang")))


def test_a_servicer_that_makes_its_model_up_is_served(standin, behind):
    """It speaks of 128,256 ids, the tokenizer has more; of a context of 70,000, the model has 4,096."""
    standin.plan = lambda r, k: Plan([[QWEN3_TOKENS - 1 - 40000], [9707]], Finish("stop", matched=EOS))
    answer = call(behind.port, CHAT, {"model": "m", "messages": MESSAGES, "logprobs": True, "top_logprobs": 1})
    assert answer.status == 200 and answer.json()["choices"][0]["finish_reason"] == "stop"
    assert call(behind.port, "/v1/tokenize", {"model": "m", "prompt": "x"}).json()["max_model_len"] == 4096
    too_long = call(behind.port, COMPLETIONS, {"model": "m", "prompt": [5] * 4096})
    assert too_long.status == 400 and too_long.error["code"] == "context_length_exceeded"


def test_what_the_gateway_sends(standin, behind):
    body = {"model": "m", "prompt": [1, 2, 3], "max_tokens": 7, "temperature": 0.25, "top_k": 9, "min_tokens": 2, "stop": ["never"],
            "stop_token_ids": [7, 8], "logit_bias": {"5": 1}, "n": 2}
    assert call(behind.port, COMPLETIONS, body).status == 200
    first, second = (standin.requests[-2:])
    assert {r.request_id for r in (first, second)} == {first.request_id, second.request_id} and first.request_id[:-3] == second.request_id[:-3]
    p = first.sampling_params
    assert (p.n, p.temperature, p.top_k, p.max_new_tokens, p.min_new_tokens) == (1, 0.25, 9, 7, 2)
    assert (list(p.stop), list(p.stop_token_ids), dict(p.logit_bias)) == ([], [7, 8], {"5": 1})
    assert first.stream and not first.return_logprob and list(first.tokenized.input_ids) == [1, 2, 3]


def in_front(start, standin, qwen3_path, is_forwarded):
    """A gateway whose own the engine is, or another's."""
    text = manifest(engine("e", int(standin.address.split(":")[1]), path=qwen3_path, type="sglang"))
    if not is_forwarded:
        return start(Gateway, text)
    operator = start(Operator, text)
    control = ("--control", f"127.0.0.1:{operator.port}")
    start(Gateway, None, *control, "--id", "owner", "--own", "default/e", "--peer-listen", "127.0.0.1:0")
    gateway = start(Gateway, None, *control, "--id", "entry")
    wait_until(lambda: ": routable" in gateway.ask("/readyz?verbose")[1], "an endpoint")
    return gateway


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["own", "forwarded"])
def test_what_an_answer_must_look_like(start, standin, qwen3_path, is_forwarded):
    """SGLang has a field for each but choices; JSON goes in a tag."""
    gateway = in_front(start, standin, qwen3_path, is_forwarded)
    schema = '{"type":"object","properties":{"ü":{"const":1.50}}}'
    tag = '{"type":"structural_tag","format":{"type":"any_text"}}'
    for asked, field, value in [
        ({"guided_json": schema}, "structural_tag", schema),
        ({"response_format": {"type": "json_object"}}, "structural_tag", '{"type":"object"}'),
        ({"regex": "a+"}, "regex", "a+"),
        ({"ebnf": 'root ::= "x"'}, "ebnf_grammar", 'root ::= "x"'),
        ({"structured_outputs": {"structural_tag": tag}}, "structural_tag", tag),
        ({}, None, None),
    ]:
        assert call(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", **asked}).status == 200
        p = standin.requests[-1].sampling_params
        assert p.WhichOneof("constraint") == field and (field is None or value in getattr(p, field)), asked
    choices = ["a.b|c", "(x)*[y]{2}", "\\d ^$?+-/", "zwei\nZeilen", "Zürich 🙂", "a"]
    assert call(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", "guided_choice": choices}).status == 200
    pattern = standin.requests[-1].sampling_params.regex
    assert all(re.fullmatch(pattern, c) for c in choices)
    assert not any(re.fullmatch(pattern, other) for other in ("aXb|c", "a.b", "xx", "5", "zwei", "", "aa"))


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["own", "forwarded"])
def test_the_models_own_sampling_is_what_nobody_said(start, standin, qwen3_path, is_forwarded):
    standin.facts["default_sampling_params_json"] = '{"temperature":0.5,"top_k":20,"top_p":0.75}'
    gateway = in_front(start, standin, qwen3_path, is_forwarded)
    for said, sent in [({}, (0.5, 20, 0.75)), ({"temperature": 0}, (0, 20, 0.75)), ({"top_k": -1, "top_p": 1, "temperature": 2}, (2, -1, 1))]:
        assert call(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", **said}).status == 200
        p = standin.requests[-1].sampling_params
        assert (p.temperature, p.top_k, p.top_p) == sent, said
    # A seed changes nothing where the model itself is greedy.
    refused = call(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", "seed": 3})
    assert refused.status == 400 and "`seed`" in refused.error["message"]
    assert call(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", "seed": 3, "temperature": 0}).status == 200


def test_an_answer_that_the_engine_aborts(standin, behind):
    """OpenAI's APIs have a word for it; Anthropic's has none, so it is an error there."""
    standin.plan = lambda r, k: Plan([[5], [6]], Finish("abort"))
    body = {"model": "m", "messages": MESSAGES, "max_tokens": 9}
    answer = call(behind.port, CHAT, body)
    assert answer.status == 200 and answer.json()["choices"][0]["finish_reason"] == "abort"
    answer = call(behind.port, "/v1/messages", body)
    assert answer.status == 500 and answer.json()["error"]["type"] == "api_error" and "aborted" in answer.json()["error"]["message"]
    answer = call(behind.port, "/v1/messages", {**body, "stream": True})
    assert b"event: error\n" in answer.body and b"message_delta" not in answer.body


def test_a_full_engine_is_no_failure(standin, behind):
    standin.plan = lambda r, k: Plan([[5]], Finish("abort", status=503, message="The request queue is full."))
    answer = call(behind.port, COMPLETIONS, {"model": "m", "prompt": "x"})
    assert answer.status == 429 and "queue is full" in answer.error["message"]
    standin.plan = lambda r, k: Plan([[5]], Finish("length"))
    assert call(behind.port, COMPLETIONS, {"model": "m", "prompt": "x"}).status == 200
