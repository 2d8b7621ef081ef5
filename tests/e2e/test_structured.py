"""Structured output and tools that must be called, asked for with OpenAI's own client, of a real model whose engine enforces what it is told."""

import json
import re
import typing

import openai
import pydantic
import pytest
from programs import Gateway, engine, manifest

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["c", "f"]}}, "required": ["city", "unit"], "additionalProperties": False},
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}
QUESTION = [{"role": "user", "content": "What is the weather in Paris?"}]


@pytest.fixture(scope="module")
def client(demo, start_shared):
    gateway = start_shared(Gateway, manifest(engine("demo", demo.port, model="smollm2-135m")))
    return openai.OpenAI(base_url=f"http://127.0.0.1:{gateway.port}/v1", api_key="x", max_retries=0)


def ask(client, **more):
    return client.chat.completions.create(model="smollm2-135m", messages=QUESTION, max_tokens=120, temperature=0, seed=1, **more)


class City(pydantic.BaseModel):
    name: typing.Annotated[str, pydantic.Field(max_length=20)]
    country: typing.Literal["France", "Italy"]
    is_capital: bool


def test_a_pydantic_model_is_filled_in(client):
    answer = client.chat.completions.parse(
        model="smollm2-135m", messages=[{"role": "user", "content": "Tell me of Paris."}], response_format=City, max_tokens=120, temperature=0
    )
    assert isinstance(answer.choices[0].message.parsed, City) and answer.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_tc27_required_and_named_calls(client, stream):
    """TC-26, TC-27: calls that must be made come as tool_calls; by name the finish reason is `stop`, as OpenAI's."""
    named = {"type": "function", "function": {"name": "now"}}
    for choice, names, finish in [("required", {"get_weather", "now"}, "tool_calls"), (named, {"now"}, "stop")]:
        if stream:
            with client.chat.completions.stream(
                model="smollm2-135m", messages=QUESTION, tools=[WEATHER, NOW], tool_choice=choice, max_tokens=120, temperature=0, parallel_tool_calls=False
            ) as s:
                answer = s.get_final_completion().choices[0]
        else:
            answer = ask(client, tools=[WEATHER, NOW], tool_choice=choice, parallel_tool_calls=False).choices[0]
        (call,) = answer.message.tool_calls
        assert call.function.name in names and not answer.message.content and answer.finish_reason == finish
        arguments = json.loads(call.function.arguments)
        assert arguments == {} if call.function.name == "now" else arguments["unit"] in ("c", "f")


def test_only_allowed_tools_are_called(client):
    only = {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}
    answer = ask(client, tools=[WEATHER, NOW], tool_choice={"type": "allowed_tools", "allowed_tools": only}, parallel_tool_calls=False)
    assert [c.function.name for c in answer.choices[0].message.tool_calls] == ["now"]
    assert answer.choices[0].finish_reason == "tool_calls"


def test_every_name_of_a_format(client):
    def text(**extra):
        return ask(client, extra_body=extra).choices[0].message.content

    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    assert json.loads(text(guided_json=schema))["n"] in (1, 2)
    assert json.loads(text(structured_outputs={"json": schema}))["n"] in (1, 2)
    assert isinstance(json.loads(text(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})), dict)
    assert re.fullmatch("[A-C]{3}", text(guided_regex="[A-C]{3}"))
    assert text(guided_choice=["Paris", "Rome"]) in ("Paris", "Rome")
    assert text(ebnf='root ::= "yes" | "no"') in ("yes", "no")
    tag = {"type": "structural_tag", "format": {"type": "sequence", "elements": [{"type": "const_string", "value": "<n>"}, {"type": "json_schema", "json_schema": {"enum": [7]}}]}}
    assert text(response_format=tag) == "<n>7"
    completion = client.completions.create(model="smollm2-135m", prompt="Paris is in", max_tokens=9, extra_body={"guided_choice": [" France", " Italy"]})
    assert completion.choices[0].text in (" France", " Italy")


def test_so07_what_is_cut_off_is_not_repaired(client):
    answer = client.chat.completions.create(
        model="smollm2-135m", messages=QUESTION, max_tokens=3, temperature=0, response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": City.model_json_schema()}}
    ).choices[0]
    assert answer.finish_reason == "length" and answer.message.content.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.message.content)


def test_so03_so05_so06_what_the_engine_cannot_compile_is_the_requests_fault(client):
    """SO-03, SO-05, SO-06: the engine's refusal is a 400, and it lives on."""
    endless, large = {"$ref": "#"}, {"enum": [f"{i:030}" for i in range(40000)]}
    for bad in ({"guided_regex": "(unclosed"}, {"guided_json": {"type": "nonsense"}}, {"ebnf": "root ::= nothing"}, {"guided_json": endless}, {"guided_json": large}):
        with pytest.raises(openai.BadRequestError):
            ask(client, extra_body=bad)
    assert ask(client, extra_body={"guided_choice": ["yes"]}).choices[0].message.content == "yes"


def test_so11_json_goes_the_way_of_every_answer(client):
    """A stop string ends it, and the same comes streamed."""
    how = {"response_format": {"type": "json_object"}, "stop": ["}"], "logprobs": True}
    whole = ask(client, **how).choices[0]
    assert whole.finish_reason == "stop" and whole.message.content.strip() == "{" and whole.logprobs.content
    deltas = [c.choices[0] for c in ask(client, stream=True, **how) if c.choices]
    assert "".join(d.delta.content or "" for d in deltas) == whole.message.content
    assert deltas[-1].finish_reason == "stop"


def test_so08_two_constraints_at_once_are_refused(client):
    with pytest.raises(openai.BadRequestError) as e:
        ask(client, tools=[NOW], tool_choice="required", response_format={"type": "json_object"})
    assert e.value.param == "response_format"
