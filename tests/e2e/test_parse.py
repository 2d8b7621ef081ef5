"""Thoughts and tool calls of the model's answer, as OpenAI's SDK sees them, streamed and not. The sim engine writes a script in Qwen3's tokens, one per message."""

import functools
import json
import subprocess
import urllib.request

import openai
import pytest
from programs import BUILD, PATIENCE, Gateway, engine, manifest
from scripts import CALLS, QUESTION, TEXT, WEATHER, Scripted
from wire import CHAT, call, stream

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "ping"}},
]


class Script(Scripted):
    def __init__(self, *args):
        super().__init__(*args)
        self.client = openai.OpenAI(base_url=self.gateway.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def whole(self, **more):
        more.setdefault("tools", TOOLS)
        (choice,) = self.client.chat.completions.create(model="m", messages=QUESTION, **more).choices
        return choice

    def streamed(self, **more):
        """What a client has at the end: (reasoning, content, calls, finish_reason, chunks)"""
        more.setdefault("tools", TOOLS)
        reasoning, content, calls, finish, chunks = "", "", [], None, []
        for chunk in self.client.chat.completions.create(model="m", messages=QUESTION, stream=True, **more):
            chunks.append(chunk)
            for choice in chunk.choices:
                reasoning += getattr(choice.delta, "reasoning_content", None) or ""
                content += choice.delta.content or ""
                for c in choice.delta.tool_calls or []:
                    if c.id:
                        assert c.index == len(calls) and c.type == "function" and c.function.arguments == ""
                        calls.append([c.id, c.function.name, ""])
                    else:
                        assert c.index == len(calls) - 1 and c.function.name is None
                        calls[c.index][2] += c.function.arguments
                finish = choice.finish_reason or finish
        return reasoning, content, calls, finish, chunks


@pytest.fixture(scope="module")
def script(start_shared, qwen3, qwen3_path, token_file):
    """One engine and gateway per text."""
    return functools.cache(lambda text: Script(start_shared, qwen3, qwen3_path, token_file, text))


def test_thoughts_text_and_calls(script):
    s = script(TEXT)
    reasoning, content, calls, finish, chunks = s.streamed(stream_options={"include_usage": True})
    assert reasoning == "Two calls: stop here?" and content == "I look." and finish == "tool_calls"
    assert [c[1:] for c in calls] == [["get_weather", WEATHER], ["ping", "{}"]]
    assert len({c[0] for c in calls}) == 2
    usage = chunks[-1].usage
    assert 0 < usage.completion_tokens_details.reasoning_tokens < usage.completion_tokens == len(s.ids) + 1
    # Arguments come as they are written, not at the end of the call.
    assert sum(bool(c.choices and c.choices[0].delta.tool_calls) for c in chunks) > 8
    choice = s.whole()
    assert choice.finish_reason == "tool_calls" and choice.message.content == "I look."
    assert choice.message.reasoning_content == "Two calls: stop here?"
    assert [[c.function.name, c.function.arguments] for c in choice.message.tool_calls] == [c[1:] for c in calls]


def test_without_tools_calls_are_text(script):
    s = script(TEXT)
    for more in ({"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}):
        reasoning, content, calls, finish, _ = s.streamed(**more)
        assert (reasoning, content, calls, finish) == ("Two calls: stop here?", f"I look.\n{CALLS}", [], "stop")


def test_thinking_that_the_template_closed(script):
    s = script("Use <think> and </think>.")
    _, content, _, _, _ = s.streamed(extra_body={"chat_template_kwargs": {"enable_thinking": False}})
    # Added tokens of Qwen3's: the model wrote a thought, not about one.
    assert content == "Use ."


def test_one_call_only(script):
    _, _, calls, finish, _ = script(CALLS).streamed(parallel_tool_calls=False)
    assert [c[1] for c in calls] == ["get_weather"] and finish == "tool_calls"


def test_cut_short(script):
    s = script(TEXT)
    n = len(s.ids)
    for limit in (1, 5, n // 3, n // 2, n - 3):
        reasoning, content, calls, finish, _ = s.streamed(max_completion_tokens=limit)
        choice = s.whole(max_completion_tokens=limit)
        message = choice.message
        assert finish == choice.finish_reason == "length"
        assert (getattr(message, "reasoning_content", None) or "", message.content or "") == (reasoning, content)
        assert [[c.function.name, c.function.arguments] for c in message.tool_calls or []] == [c[1:] for c in calls]


def test_st04_st05_stop_strings_are_for_visible_text(script):
    s = script(TEXT)
    reasoning, content, calls, finish, _ = s.streamed(stop=["stop here", "look", "Zü"])
    assert (reasoning, content, calls, finish) == ("Two calls: stop here?", "I ", [], "stop")
    assert len(s.streamed(stop=["Zü", "arguments", "tool_call"])[2]) == 2


def test_log_probabilities_are_of_all_tokens(script):
    s = script(TEXT)
    _, _, calls, _, chunks = s.streamed(logprobs=True)
    streamed = [p.token for c in chunks for k in c.choices if k.logprobs for p in k.logprobs.content or []]
    whole = s.whole(logprobs=True)
    assert len(streamed) == len(s.ids) + 1 and [p.token for p in whole.logprobs.content] == streamed
    assert len(calls) == 2


def test_parse_on_the_admin_listener(script):
    s = script(TEXT)

    def parse(**body):
        request = urllib.request.Request(f"http://127.0.0.1:{s.gateway.admin}/parse", json.dumps(body).encode(), {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    by_text = parse(model="m", text=TEXT, tools=TOOLS, splits=[3, 50, 80])
    assert by_text["content"] == "I look." and by_text["finish_reason"] == "tool_calls"
    by_ids = parse(model="m", token_ids=s.ids, tools=TOOLS, splits=[7, 8, len(s.ids) // 2])
    for answer in (by_text, by_ids):
        answer.pop("events")
        answer["tool_calls"] = [c["function"] for c in answer["tool_calls"]]
    assert by_text == by_ids and by_ids["tool_calls"][0]["arguments"] == WEATHER
    assert parse(parser="hermes", text=CALLS, tools=TOOLS, prompt_tail="x")["tool_calls"][0]["function"]["arguments"] == WEATHER
    bad = call(s.gateway.admin, "/parse", {"parser": "nobody", "text": ""})
    assert bad.status == 400 and bad.json()["error"]["param"] == "parser"
    assert call(s.gateway.admin, "/parse", {"model": "nobody", "text": ""}).status == 404
    for body, param, message in [
        ({"txt": "a"}, "txt", "`txt`: unknown parameter"),
        ({"finish_reason": "tired"}, "finish_reason", "`finish_reason` must be stop, length or abort"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name", "`tools[0].function.name`: missing"),
        ({"tools": [1]}, "tools[0]", "`tools[0]`: expected an object"),
    ]:
        error = call(s.gateway.admin, "/parse", {"parser": "hermes", "text": "", **body}).error
        assert (error["param"], error["message"]) == (param, message)
    for path, port in (("/parse", s.gateway.admin), (CHAT, s.gateway.port), ("/v1/tokenize", s.gateway.port), ("/generate", s.gateway.port)):
        assert call(port, path, b"null").error["message"] == "`body`: expected an object, got null"


def test_rp13_what_thoughts_are_called_is_the_gateways_choice(start, script):
    s = script(TEXT)
    gateway = start(Gateway, manifest(engine("sim", s.sim.port, path=s.path)), "--reasoning-field", "reasoning")
    body = {"model": "m", "messages": QUESTION, "tools": TOOLS}
    message = call(gateway.port, "/v1/chat/completions", body).json()["choices"][0]["message"]
    assert message["reasoning"] == "Two calls: stop here?" and "reasoning_content" not in message
    with stream(gateway.port, "/v1/chat/completions", body) as chunks:
        deltas = [c["choices"][0]["delta"] for c in chunks if c["choices"]]
    assert "".join(d.get("reasoning", "") for d in deltas) == "Two calls: stop here?" and not any("reasoning_content" in d for d in deltas)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"f","arguments":{}}</tool_call>' * 15_000,
        '<tool_call>{"name":"f","arguments":{"a":["' + '","' * 300_000,
        '<tool_call>{"name":"' + "n" * 900_000,
        "<tool_call>" * 80_000,
    ],
    ids=["calls", "strings", "name", "markers"],
)
def test_a_megabyte_in_one_piece_takes_no_longer_than_in_many(text):
    """It took minutes: for each step all that was still to come was searched for markers."""
    ask = {"parser": "hermes", "text": text, "tools": [{"type": "function", "function": {"name": "f"}}]}
    run = subprocess.run([BUILD / "bin/kubectl-kelpie", "parse", "-o", "json"], input=json.dumps(ask).encode(), capture_output=True, timeout=PATIENCE, check=True)
    answer = json.loads(run.stdout)
    assert len(answer["tool_calls"]) == text.count('"arguments"') or answer["content"] == text
