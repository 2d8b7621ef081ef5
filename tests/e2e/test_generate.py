"""SGLang's /generate as its clients use it: texts and ids, one and several, streamed with all the text so far in each chunk. What the engine sends is known from
asking it directly."""

import json
import math

import pytest
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from scripts import Scripted
from wire import Connection, call, split_events

GENERATE = "/generate"
TEXT = 'Hello there, wörld 🙂, "and\\so" on.'


@pytest.fixture(scope="module")
def script(start_shared, qwen3, qwen3_path, token_file):
    return Scripted(start_shared, qwen3, qwen3_path, token_file, TEXT)


def ask(script, **body):
    answer = call(script.gateway.port, GENERATE, body)
    assert answer.status == 200, answer.body
    return answer.json()


def streamed(script, **body):
    with Connection(script.gateway.port) as c:
        c.request(GENERATE, {**body, "stream": True})
        status, headers = c.head()
        found = list(split_events(c.pieces(headers)))
    assert status == 200 and found[-1] == "[DONE]"
    return [json.loads(f) for f in found[:-1]]


def test_one_text(script, qwen3):
    answer = ask(script, text="Say hello")
    prompt = qwen3.encode("Say hello")
    (event,) = script.sim.events("start", answer["meta_info"]["id"])
    assert event["ids"] == prompt and event["max_tokens"] == 128
    assert answer["text"] == TEXT and answer["output_ids"][:-1] == script.ids
    meta = answer["meta_info"]
    assert meta["prompt_tokens"] == len(prompt) and meta["completion_tokens"] == len(script.ids) + 1 and meta["cached_tokens"] == 0
    assert meta["finish_reason"] == {"type": "stop", "matched": answer["output_ids"][-1]}
    by_ids = ask(script, input_ids=prompt)
    assert by_ids["text"] == TEXT and by_ids["output_ids"] == answer["output_ids"]


def test_how_it_ends(script):
    short = ask(script, text="x", sampling_params={"max_new_tokens": 3, "temperature": 0})
    assert short["meta_info"]["finish_reason"] == {"type": "length", "length": 3} and len(short["output_ids"]) == 3
    stopped = ask(script, text="x", sampling_params={"stop": [", w"]})
    assert stopped["text"] == "Hello there" and stopped["meta_info"]["finish_reason"] == {"type": "stop", "matched": ", w"}
    kept = ask(script, text="x", sampling_params={"stop": ", w", "no_stop_trim": True})
    assert kept["text"] == "Hello there, w"
    by_id = ask(script, text="x", sampling_params={"stop_token_ids": [script.ids[2]]})
    assert by_id["meta_info"]["finish_reason"] == {"type": "stop", "matched": script.ids[2]}


def test_several(script):
    for body in ({"text": ["a", "b"]}, {"input_ids": [[1, 2], [3]]}, {"text": "a", "sampling_params": {"n": 2}}):
        answers = ask(script, **body)
        assert [a["text"] for a in answers] == [TEXT, TEXT]
    assert isinstance(ask(script, text=["a"]), list) and isinstance(ask(script, input_ids=[[1]]), list)
    assert [a["meta_info"]["prompt_tokens"] for a in ask(script, input_ids=[[1, 2], [3]])] == [2, 1]


def test_defaults_that_clients_send(script):
    assert ask(script, text="a", return_hidden_states=False, lora_path=None, image_data=None)["text"] == TEXT


def test_streamed_chunks_have_all_so_far(script):
    chunks = streamed(script, text="a")
    for before, after in zip(chunks, chunks[1:]):
        assert after["text"].startswith(before["text"]) and after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
        assert before["meta_info"]["finish_reason"] is None
    whole = ask(script, text="a")
    for answer in (whole, chunks[-1]):
        answer["meta_info"].pop("id")
    assert chunks[-1] == whole and len(chunks) > 5
    several = streamed(script, text=["a", "b"])
    assert {c["index"] for c in several} == {0, 1}


def test_log_probabilities(script, qwen3):
    body = {"text": "Say hello", "return_logprob": True, "top_logprobs_num": 2, "return_text_in_logprobs": True}
    plain = ask(script, **body)
    assert plain["meta_info"]["input_token_logprobs"] == []
    tokens = plain["meta_info"]["output_token_logprobs"]
    assert [t[1] for t in tokens] == plain["output_ids"] and all(math.isfinite(t[0]) for t in tokens)
    assert "".join(t[2] for t in tokens[:2]) == "Hello there"
    assert all(len(t) == 2 for t in plain["meta_info"]["output_top_logprobs"])
    prompt = qwen3.encode("Say hello")
    for start in (0, 1):
        meta = ask(script, **body, logprob_start_len=start)["meta_info"]
        assert [t[1] for t in meta["input_token_logprobs"]] == prompt[start:]
        assert [t[0] is None for t in meta["input_token_logprobs"]] == [i + start == 0 for i in range(len(prompt) - start)]
    (last,) = streamed(script, **body)[-1:]
    last["meta_info"].pop("id"), plain["meta_info"].pop("id")
    assert last == plain


@pytest.mark.parametrize(
    "param, body",
    [
        ("text", {}),
        ("input_ids", {"text": "a", "input_ids": [1]}),
        ("text", {"text": [[1]]}),
        ("input_ids", {"input_ids": ["a"]}),
        ("image_data", {"text": "a", "image_data": "x"}),
        ("nonsense", {"text": "a", "nonsense": 1}),
        ("sampling_params", {"text": ["a"], "sampling_params": [{}]}),
        ("sampling_params.max_tokens", {"text": "a", "sampling_params": {"max_tokens": 1}}),
        ("sampling_params.stop_regex", {"text": "a", "sampling_params": {"stop_regex": "x"}}),
        ("sampling_params.temperature", {"text": "a", "sampling_params": {"temperature": -1}}),
        ("sampling_params.max_new_tokens", {"text": "a", "sampling_params": {"max_new_tokens": 0}}),
        ("sampling_params.max_new_tokens", {"text": "a", "sampling_params": {"max_new_tokens": 2, "min_new_tokens": 3}}),
        ("sampling_params.n", {"text": ["a", "b"], "sampling_params": {"n": 65}}),
        ("sampling_params.stop[1]", {"text": "a", "sampling_params": {"stop": ["a", ""]}}),
        ("text", {"text": ""}),
        ("text", {"text": []}),
        ("input_ids", {"input_ids": []}),
        ("input_ids", {"input_ids": [10**9]}),
        ("text", {"text": "a", "sampling_params": {"max_new_tokens": 10**8}}),
        ("return_hidden_states", {"text": "a", "return_hidden_states": True}),
    ],
)
def test_what_is_wrong_is_named(script, param, body):
    answer = call(script.gateway.port, GENERATE, body)
    assert answer.status == 400 and answer.error["param"] == param, answer.body


def test_the_model_is_asked_for_where_there_are_two(start, qwen3_path):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    text = manifest(engine("a", sim.port, model="a", path=qwen3_path), engine("b", sim.port, model="b", path=qwen3_path))
    gateway = start(Gateway, text)
    wait_until(lambda: gateway.ask("/readyz?verbose")[1].count(": routable") == 2, "both models")
    assert call(gateway.port, GENERATE, {"text": "x"}).error["param"] == "model"
    assert call(gateway.port, GENERATE, {"text": "x", "model": "b", "sampling_params": {"max_new_tokens": 1}}).status == 200
