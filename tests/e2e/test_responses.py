"""OpenAI's Responses API as OpenAI's own SDK sees it, streamed and not. The faults of other servers that a test is named after are those of the catalogue (RS-..)."""

import functools
import json

import openai
import pydantic
import pytest
from responses import PATH, TOOLS, Script, plain
from scripts import CALLS, TEXT, WEATHER
from wire import CHAT, Connection
from wire import call as ask


def call(gateway, path, body=None, **more):
    answer = ask(gateway.port, path, body, **more)
    return answer.status, answer.json()


NO_THINKING = {"reasoning": {"effort": "none"}}


@pytest.fixture(scope="module")
def script(start_shared, qwen3, qwen3_path, token_file):
    """One engine and gateway per text."""
    return functools.cache(lambda text, *options: Script(start_shared, qwen3, qwen3_path, token_file, text, *options))


EXPECTED = [
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Two calls: stop here?"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
    {"type": "function_call", "name": "get_weather", "arguments": WEATHER},
    {"type": "function_call", "name": "ping", "arguments": "{}"},
]


def test_rs01_streamed_and_whole_are_the_same_response(script):
    s = script(TEXT)
    whole = s.whole()
    assert plain(whole.output) == EXPECTED and whole.status == "completed" and whole.object == "response"
    found = s.events()
    assert plain(found[-1]["response"]["output"]) == EXPECTED
    kinds = [e["type"] for e in found]
    for kind in (
        "response.reasoning_text.delta",
        "response.output_text.delta",
        "response.content_part.done",
        "response.function_call_arguments.delta",
        "response.output_item.done",
    ):
        assert kind in kinds
    with s.client.responses.stream(**s.ask()) as stream:
        assert {e.type for e in stream} == set(kinds)
        final = stream.get_final_response()
    assert plain(final.output) == EXPECTED and final.output_text == "I look."


def test_calls_without_end(script):
    """What a model writes beyond the items that a response has room for is cut, and the conversation goes on."""
    s = script("\n".join(['<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'] * 4100))
    whole, last = s.whole(max_output_tokens=None), s.events(max_output_tokens=None)[-1]
    assert whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens" and len(whole.output) == 4096
    assert last["type"] == "response.incomplete" and plain(last["response"]["output"]) == plain(whole.output)
    assert s.whole(input="On", previous_response_id=whole.id, max_output_tokens=1).status == "incomplete"


def test_rs02_the_last_event_has_the_whole_response(script):
    s = script(TEXT)
    asked = {
        "instructions": "Be brief.",
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "top_p": 0.9,
        "parallel_tool_calls": True,
        "user": "someone",
        "safety_identifier": "x",
        "prompt_cache_key": "k",
        "truncation": "disabled",
        "max_output_tokens": 400,
    }
    last = s.events(**asked)[-1]["response"]
    for name, value in asked.items():
        assert last[name] == value
    assert last["id"].startswith("resp_") and last["model"] == "m" and last["object"] == "response"
    assert last["error"] is None and last["incomplete_details"] is None and last["status"] == "completed"
    assert last["tools"] == TOOLS and last["tool_choice"] == "auto" and last["text"] == {"format": {"type": "text"}}
    usage = last["usage"]
    assert usage["input_tokens"] > 0 and usage["output_tokens"] == len(s.ids) + 1
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["output_tokens_details"]["reasoning_tokens"] > 0 and usage["input_tokens_details"]["cached_tokens"] == 0
    assert last["completed_at"] >= last["created_at"]
    whole = s.whole(**asked).model_dump(by_alias=True)
    for name, value in asked.items():
        assert whole[name] == value


def test_rs03_the_index_of_a_part_is_within_its_item(script):
    found = script(TEXT).events()
    assert {e["content_index"] for e in found if "content_index" in e} == {0}
    assert {e["output_index"] for e in found if "output_index" in e} == {0, 1, 2, 3}


def test_rs04_a_stream_ends_with_its_last_event(script):
    with Connection(script(TEXT).gateway.port) as c:
        c.request(PATH, {**script(TEXT).ask(), "stream": True})
        status, headers = c.head()
        body = b"".join(c.pieces(headers)).decode()
    assert status == 200 and "[DONE]" not in body
    assert body.rstrip().splitlines()[-2] == "event: response.completed"


def test_rs05_parallel_calls_end_each_for_itself(script):
    found = script(TEXT).events()
    calls = {e["item"]["id"]: e["item"] for e in found if e["type"] == "response.output_item.done" and e["item"]["type"] == "function_call"}
    assert [c["name"] for c in calls.values()] == ["get_weather", "ping"] and len({c["call_id"] for c in calls.values()}) == 2
    for e in found:
        if e["type"] == "response.function_call_arguments.done":
            assert e["arguments"] == calls[e["item_id"]]["arguments"]


def test_rs06_an_item_is_open_before_its_arguments_come(script):
    found = script(CALLS).events(**NO_THINKING)
    opened = set()
    for e in found:
        if e["type"] == "response.output_item.added":
            assert e["item"]["arguments"] == "" and e["item"]["name"]
            opened.add(e["item"]["id"])
        elif e["type"].startswith("response.function_call_arguments."):
            assert e["item_id"] in opened
    assert len(opened) == 2
    empty = [e for e in found if e["type"] == "response.function_call_arguments.delta" and e["output_index"] == 1]
    assert "".join(e["delta"] for e in empty) == "{}"


def test_rs08_items_are_told_apart_by_their_type(script):
    s = script("Hello there, world.")
    items = [
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Z"}'},
        {"type": "function_call", "call_id": "c2", "name": "ping", "arguments": ""},
        {"type": "function_call_output", "call_id": "c2", "output": "pong"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "rain"}]},
    ]
    response = s.whole(input=items)
    chat = [
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Z"}'}},
                {"id": "c2", "type": "function", "function": {"name": "ping", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "name": "ping", "content": "pong"},
        {"role": "tool", "tool_call_id": "c1", "name": "get_weather", "content": "rain"},
    ]
    tools = [{"type": "function", "function": {k: v for k, v in t.items() if k != "type"}} for t in TOOLS]
    status, answer = call(s.gateway, CHAT, {"model": "m", "messages": chat, "tools": tools, "max_tokens": 500})
    assert status == 200
    (event,) = s.sim.events("start", answer["id"])
    assert s.sent(response) == event["ids"]
    for item, place in [
        ({"type": "telepathy"}, "input[0].type"),
        ({"type": "file_search_call", "id": "x"}, "input[0].type"),
        ({"type": "function_call_output", "output": "x"}, "input[0].call_id"),
        ({"type": "function_call_output", "call_id": "zz", "output": "x"}, "input[0].call_id"),
        ({"type": "function_call", "call_id": "zz", "name": "f", "arguments": "{}"}, "input[0].call_id"),
        ({"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}, "input[0].content[0].type"),
        ({"role": "robot", "content": "x"}, "input[0].role"),
        ({"content": "x"}, "input[0].type"),
        (17, "input[0]"),
    ]:
        status, answer = call(s.gateway, PATH, s.ask(input=[item]))
        assert status == 400 and answer["error"]["param"] == place, answer


def test_rs10_output_can_be_sent_again(script):
    s = script(TEXT)
    first = s.whole()
    items = [{"role": "user", "content": "Weather?"}, *(i.model_dump() for i in first.output)]
    items += [{"type": "function_call_output", "call_id": i.call_id, "output": "x"} for i in first.output if i.type == "function_call"]
    assert s.whole(input=items).status == "completed"
    assert s.whole(input=items, store=False).status == "completed"


def test_rs12_thoughts_as_a_summary(script):
    found = script(TEXT).events(reasoning={"summary": "auto"})
    assert found[-1]["response"]["output"][0]["summary"] == [{"type": "summary_text", "text": "Two calls: stop here?"}]
    assert {e["type"] for e in found if "summary_index" in e} == {
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
    }


def test_rs13_how_answers_end(script):
    s = script(TEXT)
    cut = s.events(max_output_tokens=3)[-1]
    assert cut["type"] == "response.incomplete" and cut["response"]["status"] == "incomplete"
    assert cut["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert cut["response"]["output"][-1]["status"] == "incomplete"
    assert s.whole(max_output_tokens=3).status == "incomplete"


def test_rs13_an_engine_that_fails(script):
    s = script(TEXT, "--fault", "internal:5")
    found = s.events()
    assert found[-1]["type"] == "response.failed"
    last = found[-1]["response"]
    assert last["status"] == "failed" and last["error"]["code"] == "server_error" and last["error"]["message"]
    with pytest.raises(openai.APIStatusError) as e:
        s.whole()
    assert e.value.status_code >= 500


def test_rs20_log_probabilities_belong_to_their_text(script):
    s = script("Hello there, world.")
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, **NO_THINKING}
    found = s.events(**asked)
    deltas = [e for e in found if e["type"] == "response.output_text.delta"]
    for e in deltas:
        assert "".join(bytes(p["bytes"]).decode() for p in e["logprobs"]) == e["delta"]
    (done,) = [e for e in found if e["type"] == "response.output_text.done"]
    assert done["logprobs"] == [p for e in deltas for p in e["logprobs"]]
    part = s.whole(**asked).output[0].content[0]
    assert "".join(p.token for p in part.logprobs) == "Hello there, world."


def test_rs21_sampling_reaches_the_engine(script):
    s = script("Hello there, world.")
    asked = {"temperature": 0.25, "top_p": 0.5, "max_output_tokens": 7}
    extra = {"top_k": 3, "seed": 5, "frequency_penalty": 0.5, "presence_penalty": 0.25, "min_p": 0.125}
    response = s.whole(**asked, extra_body=extra)
    (event,) = s.sim.events("start", response.id)
    chat = s.client.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "x"}],
        temperature=0.25,
        top_p=0.5,
        max_tokens=7,
        seed=5,
        frequency_penalty=0.5,
        presence_penalty=0.25,
        extra_body={"top_k": 3, "min_p": 0.125},
    )
    (other,) = s.sim.events("start", chat.id)
    (bare,) = s.sim.events("start", s.whole(max_output_tokens=7).id)
    assert event["sampling"] == other["sampling"] != bare["sampling"]


class Weather(pydantic.BaseModel):
    city: str
    degrees: int


def test_parsed_by_the_sdk(script):
    s = script('{"city": "Zug", "degrees": 7}')
    asked = {k: v for k, v in s.ask().items() if k != "tools"}
    parsed = s.client.responses.parse(**asked, text_format=Weather, **NO_THINKING)
    assert parsed.output_parsed == Weather(city="Zug", degrees=7)
    assert s.whole(text={"format": {"type": "json_object"}}, tools=[]).output_text == '{"city": "Zug", "degrees": 7}'


def test_what_is_not_supported_is_refused_by_name(script):
    s = script(TEXT)
    for more, place in [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "x"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["nothing"]}, "include[0]"),
        ({"nonsense": 1}, "nonsense"),
        ({"messages": []}, "messages"),
        ({"n": 2}, "n"),
        ({"text": {"verbosity": "low"}}, "text"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "zz"}}, "tool_choice"),
        ({"tools": [*TOOLS, TOOLS[0]]}, "tools"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"input": 7}, "input"),
        ({"input": []}, "input"),
        ({"metadata": {"a": 1}}, "metadata.a"),
        ({"text": {"format": {"type": "json_object"}}, "tool_choice": "required"}, "text"),
    ]:
        status, answer = call(s.gateway, PATH, s.ask(**more))
        assert status == 400 and answer["error"]["param"] == place, (more, answer)
    status, answer = call(s.gateway, PATH, {"model": "m"})
    assert status == 400 and answer["error"] == {
        "message": "`input`: missing",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }


def test_calls_that_must_be_made(script):
    s = script(TEXT)
    named = {"type": "function", "name": "ping"}
    for choice in ("required", named, {"type": "allowed_tools", "mode": "required", "tools": [named]}):
        assert [i.type for i in s.whole(tool_choice=choice).output][-1] == "function_call"
    assert s.whole(tool_choice="none").output[-1].type == "message"
