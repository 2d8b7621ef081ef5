"""Anthropic's Messages API as Anthropic's own SDK sees it, streamed and not: what is written by a script comes out as blocks, what is asked for reaches the
engine as the same ids as the chat that says the same. The faults of other servers that a test is named after are those of the catalogue (AN-..)."""

import functools
import json
import shutil

import anthropic
import pytest
from scripts import CALLS, QUESTION, TEXT, WEATHER, Scripted
from wire import CHAT, Connection, call, named_events, stream_named

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
TOOLS = [
    {"name": "get_weather", "description": "Weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"name": "ping", "input_schema": {"type": "object"}},
]
WRAPPED = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": TOOLS[0]["input_schema"]}},
    {"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}},
]


class Script(Scripted):
    def __init__(self, *args):
        super().__init__(*args)
        self.client = anthropic.Anthropic(base_url=self.gateway.url, api_key="any", max_retries=0, timeout=60)

    def ask(self, **more):
        return {"model": "m", "max_tokens": 500, "messages": QUESTION, "tools": TOOLS, **more}

    def whole(self, **more):
        return self.client.messages.create(**self.ask(**more))

    def events(self, **more):
        """The events as they stand on the wire. Their grammar is checked."""
        found = named_events(stream_named(self.gateway.port, MESSAGES, self.ask(**more)))
        check_grammar(found)
        return found

    def sent(self, message):
        (event,) = self.sim.events("start", message.id)
        return event["ids"]


def check_grammar(events):
    """message_start, blocks one after the other, message_delta, message_stop."""
    kinds = [e["type"] for e in events if e["type"] != "ping"]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    deltas = {"text": {"text_delta"}, "thinking": {"thinking_delta", "signature_delta"}, "tool_use": {"input_json_delta"}}
    index, kind = 0, None
    for e in events[1:-2]:
        if e["type"] == "content_block_start":
            assert kind is None and e["index"] == index
            kind = e["content_block"]["type"]
        elif e["type"] == "content_block_delta":
            assert e["index"] == index and e["delta"]["type"] in deltas[kind]
        elif e["type"] == "content_block_stop":
            assert e["index"] == index
            index, kind = index + 1, None
        else:
            assert e["type"] == "ping"
    assert kind is None


@pytest.fixture(scope="module")
def script(start_shared, qwen3, qwen3_path, token_file):
    """One engine and gateway per text."""
    return functools.cache(lambda text, *options: Script(start_shared, qwen3, qwen3_path, token_file, text, *options))


def blocks(message):
    """Without what differs from one answer to the next: identifiers and signatures."""
    found = []
    for b in message.content:
        value = b.model_dump(exclude_none=True)
        value.pop("id", None), value.pop("signature", None), value.pop("parsed_output", None), value.pop("caller", None)
        found.append(value)
    return found


EXPECTED = [
    {"type": "thinking", "thinking": "Two calls: stop here?"},
    {"type": "text", "text": "I look."},
    {"type": "tool_use", "name": "get_weather", "input": json.loads(WEATHER)},
    {"type": "tool_use", "name": "ping", "input": {}},
]


def test_an01_streamed_and_whole_are_the_same_message(script):
    s = script(TEXT)
    whole = s.whole()
    assert blocks(whole) == EXPECTED and whole.stop_reason == "tool_use" and whole.stop_sequence is None
    assert whole.model == "m" and whole.role == "assistant" and whole.id.startswith("msg_")
    assert whole._request_id.startswith("req_")
    with s.client.messages.stream(**s.ask()) as stream:
        kinds = [e.type for e in stream]
        streamed = stream.get_final_message()
        text = stream.get_final_text()
    assert blocks(streamed) == EXPECTED and streamed.stop_reason == "tool_use"
    assert text == "I look." and "thinking" in kinds and "input_json" in kinds and "text" in kinds
    assert streamed.usage == whole.usage
    s.events()


def test_an02_what_stands_between_two_calls_is_no_block(script):
    for text in (f"{CALLS}\n\n", f"\n\n{CALLS}\n"):
        s = script(text)
        message = s.whole(thinking={"type": "disabled"})
        assert [b.type for b in message.content] == ["tool_use", "tool_use"] and message.stop_reason == "tool_use"
        starts = [e for e in s.events(thinking={"type": "disabled"}) if e["type"] == "content_block_start"]
        assert [e["content_block"]["type"] for e in starts] == ["tool_use", "tool_use"]


def test_an03_stop_reasons(script):
    s = script(TEXT)
    plain = script("Hello there, world.")
    off = {"thinking": {"type": "disabled"}}
    for message, reason, sequence in [
        (plain.whole(**off), "end_turn", None),
        (plain.whole(max_tokens=2, **off), "max_tokens", None),
        (plain.whole(stop_sequences=["zzz", ", w"], **off), "stop_sequence", ", w"),
        (s.whole(), "tool_use", None),
        (s.whole(max_tokens=len(s.ids) - 3), "max_tokens", None),
        (s.whole(tools=anthropic.NOT_GIVEN), "end_turn", None),
    ]:
        assert (message.stop_reason, message.stop_sequence) == (reason, sequence)
    assert blocks(plain.whole(stop_sequences=[", w"], **off)) == [{"type": "text", "text": "Hello there"}]
    (delta,) = [e for e in plain.events(stop_sequences=[", w"], **off) if e["type"] == "message_delta"]
    assert delta["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": ", w"}


def test_an04_thoughts_are_blocks_with_a_signature(script):
    s = script(TEXT)
    thought = s.whole().content[0]
    assert thought.type == "thinking" and thought.signature
    events = s.events()
    assert events[1]["content_block"] == {"type": "thinking", "thinking": "", "signature": ""}
    assert [e["delta"]["type"] for e in events if e["type"] == "content_block_delta" and e["index"] == 0][-2:] == ["thinking_delta", "signature_delta"]


def test_an05_usage(script):
    s = script(TEXT, "--cached", "7")
    message = s.whole()
    prompt = len(s.sent(message))
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (prompt - 7, 7, 0)
    assert usage.output_tokens == len(s.ids) + 1 and 0 < usage.output_tokens_details.thinking_tokens < len(s.ids)
    events = s.events()
    assert events[0]["message"]["usage"]["input_tokens"] == prompt - 7 and events[0]["message"]["usage"]["cache_read_input_tokens"] == 7
    assert events[-2]["usage"]["output_tokens"] == len(s.ids) + 1
    assert s.client.messages.count_tokens(model="m", messages=QUESTION, tools=TOOLS).input_tokens == prompt


def conversation(said):
    """(Anthropic's messages, the same as OpenAI's API has them)"""
    return [
        *QUESTION,
        {"role": "assistant", "content": said},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": said[2]["id"], "content": [{"type": "text", "text": "20"}, {"type": "text", "text": "°C"}]},
                {"type": "tool_result", "tool_use_id": said[3]["id"], "is_error": True, "content": "no answer", "cache_control": {"type": "ephemeral"}},
                {"type": "text", "text": "Go on."},
            ],
        },
    ], [
        *QUESTION,
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "Two calls: stop here?",
            "tool_calls": [
                {"id": said[2]["id"], "type": "function", "function": {"name": "get_weather", "arguments": WEATHER}},
                {"id": said[3]["id"], "type": "function", "function": {"name": "ping", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": said[2]["id"], "content": "20\n°C"},
        {"role": "tool", "tool_call_id": said[3]["id"], "content": "Error: no answer"},
        {"role": "user", "content": "Go on."},
    ]


def chat_ids(s, messages, **more):
    answer = call(s.gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 1, **more})
    assert answer.status == 200, answer.body
    (event,) = s.sim.events("start", answer.json()["id"])
    return event["ids"]


def test_an06_an07_an10_the_message_goes_back_as_it_came(script):
    """Thoughts, calls and results in the history: the same ids as the chat that says the same."""
    s = script(TEXT)
    said = [b.model_dump(exclude_none=True) for b in s.whole().content]
    theirs, ours = conversation(said)
    message = s.whole(messages=theirs, max_tokens=1)
    assert s.sent(message) == chat_ids(s, ours, tools=WRAPPED)
    redacted = [theirs[0], {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "abc"}, *said]}, theirs[2]]
    assert s.sent(s.whole(messages=redacted, max_tokens=1)) == s.sent(message)
    assert s.client.messages.count_tokens(model="m", messages=theirs, tools=TOOLS).input_tokens == len(s.sent(message))


def test_an11_what_requests_may_look_like(script):
    s = script("Hello there, world.")

    def sent(chat=None, **more):
        ids = s.sent(s.whole(max_tokens=1, tools=more.pop("tools", anthropic.NOT_GIVEN), **more))
        assert chat is None or ids == chat_ids(s, chat)
        return ids

    system = {"role": "system", "content": "Be brief.\nAnd kind."}
    sent([{**system, "content": "Be brief."}, *QUESTION], system="Be brief.")
    blocks_of = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "And kind."}]
    sent([system, *QUESTION], system=blocks_of)
    sent([system, *QUESTION], system=[{"type": "text", "text": "x-anthropic-billing-header: a=1;"}, *blocks_of])
    sent(QUESTION, system="")
    # Turns of one role are one turn; the last one of the assistant is gone on with.
    two = [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]
    sent([{"role": "user", "content": "a\nb"}], messages=two)
    named = [{"role": "user", "content": "a"}, {"role": "ctx", "content": "b"}, {"role": "msg", "content": "c"}, {"role": "system", "content": "d"}, {"role": "user", "content": "e"}]
    sent([{"role": "user", "content": "a\nb\nc"}, {"role": "system", "content": "d"}, {"role": "user", "content": "e"}], messages=named)
    prefilled = [*QUESTION, {"role": "assistant", "content": "It is"}]
    assert sent(messages=prefilled) == chat_ids(s, prefilled, continue_final_message=True, add_generation_prompt=False)
    # No tools are told of.
    assert sent(tools=TOOLS, tool_choice={"type": "none"}) == sent(QUESTION)
    assert sent(tools=TOOLS, tool_choice={"type": "auto"}) == chat_ids(s, QUESTION, tools=WRAPPED)
    # What has no effect here.
    sent(QUESTION, metadata={"user_id": "u"}, service_tier="auto", extra_body={"temperature": 0.5, "top_p": 0.9, "top_k": 40, "cache_control": {"type": "ephemeral"}, "context_management": {"edits": []}, "mcp_servers": []})
    ignored = {"cache_control": {"type": "ephemeral"}, "defer_loading": False, "eager_input_streaming": True, "input_examples": [{}], "allowed_callers": ["direct"]}
    assert sent(tools=[{**t, **ignored} for t in TOOLS], tool_choice={"type": "auto"}) == chat_ids(s, QUESTION, tools=WRAPPED)
    # Thinking: the template's own switch.
    off = chat_ids(s, QUESTION, chat_template_kwargs={"enable_thinking": False})
    assert sent(thinking={"type": "disabled"}) == off != sent(QUESTION)
    assert sent(thinking={"type": "enabled", "budget_tokens": 1024}) == sent(thinking={"type": "adaptive", "display": "omitted"}) == sent()
    assert sent(extra_body={"chat_template_kwargs": {"enable_thinking": False}}, thinking={"type": "adaptive"}) == off
    sent(QUESTION, extra_body={"output_config": {"effort": "low"}})  # this template has no efforts


SWITCHES = "{% for m in messages %}{{ m.content }}{% endfor %}|{{ reasoning_effort }}|{{ enable_thinking }}|{{ thinking_budget }}|"


def test_an04_what_a_template_is_told_of_thinking(start, qwen3, qwen3_path, token_file, tmp_path):
    folder = tmp_path / "switches"
    shutil.copytree(qwen3_path, folder)
    (folder / "chat_template.jinja").write_text(SWITCHES)
    s = Script(start, qwen3, folder, token_file, "Hello")
    for asked, told in [
        ({}, "|||"),
        ({"output_config": {"effort": "low"}}, "low|||"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "|True|1024|"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high|True||"),
        ({"thinking": {"type": "between_tools"}}, "|True||"),
        ({"thinking": {"type": "disabled"}}, "|False||"),
        ({"thinking": {"type": "disabled"}, "chat_template_kwargs": {"enable_thinking": True}}, "|True||"),
    ]:
        message = s.whole(max_tokens=1, tools=anthropic.NOT_GIVEN, extra_body=asked)
        assert qwen3.decode(s.sent(message)) == f"{QUESTION[0]['content']}|{told}", asked


def error_of(answer):
    """The body of an error in Anthropic's shape."""
    value = answer.json()
    assert list(value) == ["type", "error", "request_id"] and value["type"] == "error"
    assert list(value["error"]) in (["type", "message"], ["type", "message", "details"])
    assert answer.headers["request-id"] == value["request_id"]
    return value["error"]


def test_an12_every_error_has_anthropics_shape(script):
    s = script(TEXT)
    port = s.gateway.port
    good = s.ask()

    def error(body, status, kind, path=MESSAGES, **more):
        answer = call(port, path, body, **more)
        found = error_of(answer)
        assert (answer.status, found["type"]) == (status, kind), answer.body
        return found["message"]

    assert "`m2`" in error({**good, "model": "m2"}, 404, "not_found_error")
    error(b"{", 400, "invalid_request_error")
    error(None, 405, "invalid_request_error", method="GET")
    error({}, 404, "not_found_error", path="/v1/messages/batches")
    with Connection(port) as c:
        c.send(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
        answer = c.answer()
        assert answer.status == 415 and error_of(answer)["type"] == "invalid_request_error"
    with Connection(port) as c:
        c.send(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n")
        answer = c.answer()
        assert answer.status == 413 and error_of(answer)["type"] == "request_too_large"
    answer = call(port, MESSAGES, {**good, "model": "m2"}, headers=[("x-request-id", "mine"), ("x-api-key", "k"), ("anthropic-version", "2023-06-01")])
    assert answer.json()["request_id"] == "mine" and answer.headers["x-request-id"] == "mine"
    long = [{"role": "user", "content": "hello " * 140_000}]
    assert "prompt is too long: " in error({**good, "messages": long}, 400, "invalid_request_error")
    assert "input length and `max_tokens` exceed context limit" in error({**good, "max_tokens": 10_000_000}, 400, "invalid_request_error")
    # The SDK makes its exceptions of them.
    with pytest.raises(anthropic.NotFoundError) as e:
        s.client.messages.create(**{**good, "model": "m2"})
    assert e.value.request_id.startswith("req_") and e.value.type == "not_found_error"
    with pytest.raises(anthropic.BadRequestError):
        s.client.messages.count_tokens(model="m", messages=[])


def test_heads_that_are_no_http(script):
    """Each is refused in the dialect of its path, where it has one already, and the gateway goes on."""
    s = script(TEXT)
    lines = [b"a : b", b"no colon", b"a: \x01", b" folded", b"Content-Length: x", b"Transfer-Encoding: gzip", b"Host: b"]
    for path in ("/v1/messages", CHAT, "/generate", "/v1/models", "/nothing", "/" + "x" * 20_000):
        for line in lines * 3:
            with Connection(s.gateway.port) as c:
                c.send(f"POST {path} HTTP/1.1\r\nHost: a\r\n".encode() + line + b"\r\n\r\n")
                answer = c.answer()
            assert answer.status in (400, 414, 501), answer.body
            assert ("request_id" in answer.json()) == (path == "/v1/messages") and answer.json()["error"]["message"]
    assert s.whole().stop_reason == "tool_use"


@pytest.mark.parametrize(
    "place, change",
    [
        ("max_tokens", {"max_tokens": None}),
        ("messages", {"messages": []}),
        ("messages[0].role", {"messages": [{"role": "tool", "content": "x"}]}),
        ("messages[0].content", {"messages": [{"role": "user"}]}),
        ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]}),
        ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "document"}]}]}),
        ("messages[0].content[0].type", {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}]}),
        ("messages[0].content[0].content[1].type", {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}]}]}),
        ("messages[1].content[0].input", {"messages": [*QUESTION, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": 1}]}]}),
        ("messages[1]", {"messages": [*QUESTION, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}]}),
        ("system[0].type", {"system": [{"type": "image"}]}),
        ("tools[0].type", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ("tools[0].input_schema", {"tools": [{"name": "f"}]}),
        ("tools[1].parameters", {"tools": [TOOLS[0], {**TOOLS[0], "parameters": {}}]}),
        ("tool_choice.disable_parallel_tool_calls", {"tool_choice": {"type": "auto", "disable_parallel_tool_calls": True}}),
        ("thinking.budget", {"thinking": {"type": "adaptive", "budget": 5}}),
        ("output_config.task_budget", {"output_config": {"task_budget": {"type": "tokens", "total": 1}}}),
        ("output_config.format", {"output_config": {"format": [1]}}),
        ("output_config.format.strict", {"output_config": {"format": {"type": "json_schema", "schema": {}, "strict": True}}}),
        ("tool_choice", {"tool_choice": {"type": "maybe"}}),
        ("thinking", {"thinking": {"type": "enabled"}}),
        ("mcp_servers", {"mcp_servers": [{"type": "url"}]}),
        ("container", {"container": "c"}),
        ("n", {"n": 2}),
        ("temperature", {"temperature": 3}),
        ("stop_sequences[1]", {"stop_sequences": ["a", ""]}),
        ("stop_sequences[0]", {"stop_sequences": ["x" * 1025]}),
        ("stop_sequences", {"stop_sequences": "a"}),
    ],
)
def test_what_is_wrong_is_named(script, place, change):
    s = script(TEXT)
    answer = call(s.gateway.port, MESSAGES, s.ask(**change))
    assert answer.status == 400 and error_of(answer)["message"].startswith(f"`{place}`: "), answer.body


def test_an13_a_call_without_arguments(script):
    s = script('<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>')
    off = {"thinking": {"type": "disabled"}}
    with s.client.messages.stream(**s.ask(**off)) as stream:
        (streamed,) = stream.get_final_message().content
    (whole,) = s.whole(**off).content
    assert streamed.input == whole.input == {}


def test_calls_that_are_cut_short(script):
    """At every length the SDK makes a message of the stream, and what is not streamed has the same blocks."""
    s = script(TEXT)
    for limit in range(1, len(s.ids) + 2):
        events = s.events(max_tokens=limit)
        joined = {}
        for e in events:
            if e["type"] == "content_block_start":
                joined[e["index"]] = [e["content_block"]["type"], ""]
            elif e["type"] == "content_block_delta" and "signature" not in e["delta"]:
                joined[e["index"]][1] += e["delta"].get("text", e["delta"].get("thinking", e["delta"].get("partial_json", "")))
        whole = s.whole(max_tokens=limit)
        assert whole.stop_reason == events[-2]["delta"]["stop_reason"] == ("max_tokens" if limit <= len(s.ids) else "tool_use")
        assert len(whole.content) == len(joined)
        for block, (kind, text) in zip(whole.content, joined.values()):
            assert block.type == kind
            if kind == "tool_use":
                assert block.input in ({"INVALID_JSON": text}, json.loads(text) if text.endswith("}") else {})
            else:
                assert getattr(block, kind) == text


def test_one_call_only(script):
    s = script(CALLS)
    message = s.whole(tool_choice={"type": "auto", "disable_parallel_tool_use": True}, thinking={"type": "disabled"})
    assert [b.name for b in message.content] == ["get_weather"]


def test_the_sdks_tool_runner(script):
    """It calls the tool, gives the result back, and asks again."""
    s = script('<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>')
    called = []

    @anthropic.beta_tool
    def ping() -> str:
        """Says pong."""
        called.append(1)
        return "pong"

    runner = s.client.beta.messages.tool_runner(model="m", max_tokens=50, messages=QUESTION, tools=[ping], max_iterations=2, thinking={"type": "disabled"})
    messages = list(runner)
    assert len(messages) == 2 and called and messages[0].stop_reason == "tool_use"


def test_an09_pings_while_the_engine_thinks(start, qwen3, qwen3_path, token_file):
    s = Script(start, qwen3, qwen3_path, token_file, "Hello", "--ttft-ms", "11000")
    off = {"thinking": {"type": "disabled"}, "tools": []}
    with Connection(s.gateway.port, timeout=90) as c:
        c.request(MESSAGES, {**s.ask(**off), "stream": True})
        _, headers = c.head()
        body = b"".join(c.pieces(headers)).decode()
    assert body.startswith('event: ping\ndata: {"type":"ping"}\n\nevent: message_start\n')
    assert "\n: " not in body


def test_an08_a_stream_that_breaks_ends_with_an_error(start, qwen3, qwen3_path, token_file):
    s = Script(start, qwen3, qwen3_path, token_file, TEXT, "--fault", "internal:12")
    with pytest.raises(anthropic.APIStatusError) as e, s.client.messages.stream(**s.ask()) as stream:
        for _ in stream:
            pass
    assert e.value.body["error"]["type"] == "api_error" and e.value.body["request_id"].startswith("req_")
    with pytest.raises(anthropic.InternalServerError):
        s.whole()


def test_without_an_engine(start, qwen3, qwen3_path, token_file):
    s = Script(start, qwen3, qwen3_path, token_file, TEXT, "--fault", "exhausted")
    answer = call(s.gateway.port, MESSAGES, s.ask())
    assert answer.status == 529 and error_of(answer)["type"] == "overloaded_error" and answer.headers["retry-after"]
    with pytest.raises(anthropic.APIStatusError) as e:
        s.whole()
    assert e.value.status_code == 529
