"""What streams must look like, for chat completions and completions: each fault of other servers (SS-.. of the catalogue) has a test here or is named in another file.
OpenAI's own SDK reads them, and what is not streamed must say the same."""

import functools
import json

import openai
import pytest
from oracles import ask_engine
from programs import PATIENCE, wait_until
from scripts import Scripted
from wire import CHAT, COMPLETIONS, Connection, Stream, call

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "ping"}},
]
QUESTION = [{"role": "user", "content": "Weather in Zürich?"}]
CALLS = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Zürich 🙂"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
)
TEXT = f"<think>\nTwo calls.\n</think>\n\nI look: 🙂.\n{CALLS}"
PLAIN = "Grüße, wörld 🙂🙂, and so on, and on."


class Script(Scripted):
    def __init__(self, *args):
        super().__init__(*args)
        self.client = openai.OpenAI(base_url=self.gateway.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def chat(self, **more):
        return {"model": "m", "messages": QUESTION, "tools": TOOLS, **more}

    def completion(self, **more):
        return {"model": "m", "prompt": "x", "max_tokens": 100, **more}

    def chunks(self, path, body):
        with Connection(self.gateway.port) as c:
            c.request(path, {**body, "stream": True})
            stream = Stream(c)
            found = list(stream)
        assert stream.done, stream.error
        return found

    def both(self, path, body):
        answer = call(self.gateway.port, path, body)
        assert answer.status == 200, answer.body
        return answer.json(), self.chunks(path, body)


@pytest.fixture(scope="module")
def script(start_shared, qwen3, qwen3_path, token_file):
    return functools.cache(lambda text, *options: Script(start_shared, qwen3, qwen3_path, token_file, text, *options))


def of_choice(chunks, index=0):
    return [c["choices"][0] for c in chunks if c["choices"] and c["choices"][0]["index"] == index]


def test_ss01_ss02_the_role_comes_first_and_once_for_each_choice(script):
    chunks = script(TEXT).chunks(CHAT, script(TEXT).chat(n=3))
    assert {c["choices"][0]["index"] for c in chunks} == {0, 1, 2}
    for index in range(3):
        first, *others = of_choice(chunks, index)
        assert first["delta"] == {"role": "assistant", "content": ""} and first["finish_reason"] is None
        assert not any("role" in c["delta"] for c in others)


def test_ss03_ss04_ss05_deltas_of_calls(script):
    s = script(TEXT)
    whole, chunks = s.both(CHAT, s.chat())
    calls = [c for choice in of_choice(chunks) for c in choice["delta"].get("tool_calls", [])]
    seen = -1
    for c in calls:
        if c["index"] > seen:
            assert c["index"] == seen + 1 and set(c) == {"index", "id", "type", "function"} and c["function"]["arguments"] == "" and c["function"]["name"]
            seen += 1
        else:
            assert c["index"] == seen and set(c) == {"index", "function"} and set(c["function"]) == {"arguments"}
    joined = ["".join(c["function"]["arguments"] for c in calls if c["index"] == i) for i in range(2)]
    assert joined == [c["function"]["arguments"] for c in whole["choices"][0]["message"]["tool_calls"]]
    assert of_choice(chunks)[-1]["delta"] == {}


def test_ss06_ss21_the_same_end_in_both_modes_and_nothing_behind_it(script):
    s = script(TEXT)
    for limit, reason in ((500, "tool_calls"), (len(s.ids) - 4, "length"), (3, "length")):
        whole, chunks = s.both(CHAT, s.chat(max_tokens=limit))
        choices = of_choice(chunks)
        assert whole["choices"][0]["finish_reason"] == choices[-1]["finish_reason"] == reason
        assert all(c["finish_reason"] is None for c in choices[:-1])
    whole, chunks = s.both(CHAT, s.chat(stop=["look"]))
    assert whole["choices"][0]["finish_reason"] == of_choice(chunks)[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_ss07_usage_is_one_chunk_behind_all_others(script, path):
    s = script(PLAIN)
    body = s.chat() if path == CHAT else s.completion()
    chunks = s.chunks(path, {**body, "stream_options": {"include_usage": True}})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == len(s.ids) + 1
    assert all(c["usage"] is None and c["choices"] for c in chunks[:-1])
    assert not any("usage" in c or not c["choices"] for c in s.chunks(path, body))


def test_ss08_streams_are_counted_though_nobody_asks(script):
    s = script(PLAIN)
    before = s.gateway.metric("kelpie_completion_tokens_total", model="m")
    s.chunks(COMPLETIONS, s.completion())
    wait_until(lambda: s.gateway.metric("kelpie_completion_tokens_total", model="m") == before + len(s.ids) + 1, "the tokens are counted")


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("fault", ["internal:5", "no-finish:5", "unavailable:5"])
def test_ss09_ss10_death_in_the_middle_is_one_error(start, qwen3, qwen3_path, token_file, path, fault):
    s = Script(start, qwen3, qwen3_path, token_file, PLAIN, "--fault", fault)
    body = s.chat() if path == CHAT else s.completion()
    with Connection(s.gateway.port) as c:
        c.request(path, {**body, "stream": True})
        stream = Stream(c)
        chunks = list(stream)  # checks that nothing comes behind the error
    assert stream.error and not stream.done and all(k["choices"][0]["finish_reason"] is None for k in chunks)
    with pytest.raises(openai.APIError):
        if path == CHAT:
            list(s.client.chat.completions.create(**body, stream=True))
        else:
            list(s.client.completions.create(**body, stream=True))
    wait_until(lambda: s.gateway.metric("kelpie_requests_in_flight") == 0, "nothing in flight")


def test_ss11_a_connection_is_free_when_its_stream_is_done(script):
    s = script(PLAIN)
    with Connection(s.gateway.port, timeout=PATIENCE) as c:
        for _ in range(3):
            c.request(COMPLETIONS, s.completion(stream=True))
            stream = Stream(c)
            assert "".join(k["choices"][0]["text"] for k in stream) == PLAIN and stream.done


def test_ss13_requests_on_the_engine_have_names_of_their_own(script):
    s = script(PLAIN)
    before = len(s.sim.events("start"))
    for _ in range(2):
        call(s.gateway.port, COMPLETIONS, s.completion(n=2), headers=[("x-request-id", "mine")])
    names = [e["request_id"] for e in s.sim.events("start")[before:]]
    assert len(names) == len(set(names)) == 4
    assert not any(a != b and a.startswith(b) for a in names for b in names)


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_ss15_what_is_wrong_has_a_status_also_in_a_stream(script, path):
    s = script(PLAIN)
    body = s.chat() if path == CHAT else s.completion()
    for change, status in (({"temperature": 9}, 400), ({"model": "x"}, 404), ({"max_tokens": 10_000_000}, 400)):
        assert call(s.gateway.port, path, {**body, **change, "stream": True}).status == status


def test_ss16_ss17_ss18_log_probabilities_go_with_their_text(script):
    """Each token once, in order, whatever it was: thought, marker, text that may become a stop string, half a character."""
    s = script(TEXT)
    whole, chunks = s.both(CHAT, s.chat(logprobs=True, top_logprobs=2, stop=["never comes", "🙂🙂"]))
    content = whole["choices"][0]["logprobs"]["content"]
    assert [p for c in of_choice(chunks) if c["logprobs"] for p in c["logprobs"]["content"]] == content
    assert len(content) == len(s.ids) + 1 and all(len(p["top_logprobs"]) == 2 for p in content)
    assert b"".join(bytes(p["bytes"]) for p in content[:-1]).decode() == TEXT
    plain = script(PLAIN)
    for c in of_choice(plain.chunks(COMPLETIONS, plain.completion(logprobs=1, stop=["zzz"]))):
        # What a chunk has of both belongs together, but for characters that are not complete yet.
        if c["logprobs"] and "�" not in "".join(c["logprobs"]["tokens"]) and len(c["text"]) > 0:
            assert c["text"].endswith(c["logprobs"]["tokens"][-1][-1:])


def echoed(s, prompt, qwen3, **more):
    whole, chunks = s.both(COMPLETIONS, s.completion(prompt=prompt, echo=True, **more))
    (choice,) = whole["choices"]
    choices = of_choice(chunks)
    assert "".join(c["text"] for c in choices) == choice["text"] and choices[-1]["finish_reason"] == choice["finish_reason"]
    if choice["logprobs"]:
        for name, values in choice["logprobs"].items():
            assert [v for c in choices if c["logprobs"] for v in c["logprobs"][name]] == values
    return choice


def test_ss19_echo(script, qwen3):
    s = script(PLAIN)
    prompt = "Üben 🙂 macht"
    ids = qwen3.encode(prompt)
    assert echoed(s, prompt, qwen3)["text"] == echoed(s, ids, qwen3)["text"] == prompt + PLAIN
    choice = echoed(s, prompt, qwen3, logprobs=1)
    got = choice["logprobs"]
    assert "".join(got["tokens"][:2]) == qwen3.decode(ids[:2]) and len(got["tokens"]) == len(ids) + len(s.ids) + 1
    assert got["token_logprobs"][0] is None and got["top_logprobs"][0] is None and None not in got["token_logprobs"][1:]
    assert got["text_offset"][len(ids)] == len(prompt)
    # Only the prompt's, as those ask who score a text.
    only = echoed(s, prompt, qwen3, logprobs=1, max_tokens=0)
    assert only["text"] == prompt and only["finish_reason"] == "length" and len(only["logprobs"]["tokens"]) == len(ids)
    assert only["logprobs"]["token_logprobs"] == got["token_logprobs"][: len(ids)]
    # A list of prompts, two choices each: index = prompt * n + choice.
    many = call(s.gateway.port, COMPLETIONS, s.completion(prompt=["a", "b"], n=2, echo=True)).json()["choices"]
    assert [c["text"] for c in many] == ["a" + PLAIN] * 2 + ["b" + PLAIN] * 2 and [c["index"] for c in many] == [0, 1, 2, 3]


def test_ss20_how_the_engine_batches_is_not_seen(script):
    """A token per message, and many in one."""
    at_once, one_by_one = script(TEXT), script(TEXT, "--itl-ms", "1")
    messages = [call(s.gateway.port, CHAT, s.chat()).json()["choices"][0]["message"] for s in (at_once, one_by_one)]
    for m in messages:
        for c in m["tool_calls"]:
            c.pop("id")
    assert messages[0] == messages[1]


def test_ids_and_log_probabilities_of_the_prompt_as_vllm_has_them(script, qwen3):
    s = script(PLAIN)
    prompt = qwen3.encode("Say hello")
    engine = ask_engine(s.sim.address, prompt, max_tokens=4, prompt_logprobs=1)
    whole, chunks = s.both(COMPLETIONS, s.completion(prompt="Say hello", return_token_ids=True))
    (choice,) = whole["choices"]
    assert choice["prompt_token_ids"] == prompt and choice["token_ids"][:-1] == s.ids
    first, *others = of_choice(chunks)
    assert first["prompt_token_ids"] == prompt and not any("prompt_token_ids" in c for c in others)
    assert [i for c in of_choice(chunks) for i in c.get("token_ids", [])] == choice["token_ids"]
    (scored,) = call(s.gateway.port, COMPLETIONS, s.completion(prompt="Say hello", prompt_logprobs=1)).json()["choices"]
    assert scored["prompt_logprobs"][0] is None and len(scored["prompt_logprobs"]) == len(prompt)
    for position, token in zip(scored["prompt_logprobs"][1:], prompt[1:]):
        assert position[str(token)]["decoded_token"] == qwen3.decode([token]) and position[str(token)]["logprob"] < 0
    assert engine.finish
    calling = script(TEXT)
    whole, chunks = calling.both(CHAT, calling.chat(return_token_ids=True))
    (event,) = calling.sim.events("start", whole["id"])
    assert whole["prompt_token_ids"] == event["ids"] and whole["choices"][0]["token_ids"][:-1] == calling.ids
    assert chunks[0]["prompt_token_ids"] == event["ids"]
    assert [i for c in of_choice(chunks) for i in c.get("token_ids", [])] == whole["choices"][0]["token_ids"]
    chat = call(calling.gateway.port, CHAT, calling.chat(prompt_logprobs=0)).json()
    assert len(chat["prompt_logprobs"]) == len(event["ids"])
    refused = call(s.gateway.port, COMPLETIONS, s.completion(prompt_logprobs=1, stream=True))
    assert refused.status == 400 and refused.error["param"] == "prompt_logprobs"


def test_the_sdks_own_accumulator(script):
    """`client.chat.completions.stream` keeps the state of the message by itself."""
    s = script(TEXT)
    with s.client.chat.completions.stream(**s.chat()) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    assert [json.loads(c.function.arguments) for c in message.tool_calls] == [{"city": "Zürich 🙂"}, {}]
    assert message.content == "I look: 🙂." and message.reasoning_content == "Two calls."
