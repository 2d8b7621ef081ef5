"""Which schemas are taken with `strict: true`, by spec.output.strictSchemas: any, or those of OpenAI's subset. The client is OpenAI's SDK, which makes schemas of that subset
out of classes."""

import enum
from typing import Literal

import openai
import pydantic
import pytest
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until

QUESTION = [{"role": "user", "content": "Where?"}]


class Unit(enum.Enum):
    METRES = "m"
    FEET = "ft"


class Point(pydantic.BaseModel):
    x: float = pydantic.Field(ge=-180, le=180, description="degrees east")
    y: float


class Place(pydantic.BaseModel):
    name: str = pydantic.Field(pattern="^[A-Z]")
    kind: Literal["town", "lake"]
    at: Point | None = None
    height: int | None = None
    unit: Unit
    parts: list["Place"] = pydantic.Field(max_length=3)


LOOSE = {"type": "object", "properties": {"n": {"type": "object", "properties": {"a": {"type": "string"}}}}, "required": ["n"], "additionalProperties": False}
PLACE = "`#/properties/n`: `additionalProperties` must be there, and false"


@pytest.fixture(scope="module")
def ask(start_shared, qwen3_path):
    """An OpenAI client of a gateway with a model for each setting."""
    sim = start_shared(Sim, "--vocab", QWEN3_TOKENS)
    settings = {"openai": {"strictSchemas": "OpenAI"}, "off": {"strictSchemas": "OpenAI", "validation": "Off"}, "any": {"strictSchemas": "Any"}, "unset": {}}
    engines = [engine(name, sim.port, model=name, path=qwen3_path) for name in settings]
    for e in engines:
        e["spec"]["output"] = settings[e["metadata"]["name"]]
    gateway = start_shared(Gateway, manifest(*engines))
    wait_until(lambda: gateway.ask("/readyz?verbose")[1].count(": routable") == len(engines), "every model")
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0)
    client.sim = sim
    yield client
    client.close()


def format_of(schema, strict=True):
    return {"type": "json_schema", "json_schema": {"name": "place", "schema": schema, "strict": strict}}


def function(schema, strict=True):
    return {"type": "function", "function": {"name": "go", "parameters": schema, "strict": strict}}


def chat(client, model, **more):
    return client.chat.completions.create(model=model, messages=QUESTION, max_tokens=4, **more)


def refused(client, model, **more):
    with pytest.raises(openai.BadRequestError) as e:
        chat(client, model, **more)
    return e.value


@pytest.mark.parametrize("model", ("openai", "off"))
def test_what_the_sdk_makes_is_taken(ask, model):
    tool = openai.pydantic_function_tool(Place)
    assert tool["function"]["strict"] and tool["function"]["parameters"]["additionalProperties"] is False
    with pytest.raises(openai.LengthFinishReasonError):  # four tokens are no place; the request was taken
        ask.chat.completions.parse(model=model, messages=QUESTION, max_tokens=4, response_format=Place)
    assert chat(ask, model, tools=[tool]).choices
    assert ask.responses.create(
        model=model, input="Where?", max_output_tokens=16, tools=[{"type": "function", "name": "go", "strict": True, "parameters": tool["function"]["parameters"]}]
    ).id


@pytest.mark.parametrize("model", ("openai", "off"))
def test_another_schema_is_refused_with_its_place(ask, model):
    before = len(ask.sim.events("start"))
    e = refused(ask, model, response_format=format_of(LOOSE))
    assert e.param == "response_format" and e.code == "invalid_json_schema" and PLACE in e.message and "strictSchemas" in e.message
    e = refused(ask, model, tools=[function(LOOSE, False), function(LOOSE)])
    assert e.param == "tools[1].function.parameters" and PLACE in e.message
    with pytest.raises(openai.BadRequestError) as caught:
        ask.responses.create(model=model, input="Where?", text={"format": {"type": "json_schema", "name": "p", "schema": LOOSE, "strict": True}})
    assert caught.value.param == "text" and PLACE in caught.value.message
    with pytest.raises(openai.BadRequestError) as caught:
        ask.responses.create(model=model, input="Where?", tools=[{"type": "function", "name": "go", "strict": True, "parameters": LOOSE}])
    assert caught.value.param == "tools[0].parameters" and PLACE in caught.value.message
    assert len(ask.sim.events("start")) == before


def test_without_strict_or_the_setting_any_is_taken(ask):
    for model, strict in (("openai", False), ("any", True), ("unset", True)):
        assert chat(ask, model, response_format=format_of(LOOSE, strict)).choices
        assert chat(ask, model, tools=[function(LOOSE, strict)]).choices


@pytest.mark.parametrize("keyword", ("allOf", "oneOf", "not", "if", "patternProperties", "uniqueItems", "contains", "default"))
def test_so10_a_keyword_beyond_the_subset_is_not_ignored(ask, keyword):
    """A keyword that nobody would keep to is named, not dropped."""
    value = {"allOf": [{"type": "string"}], "oneOf": [{"type": "string"}], "patternProperties": {"^a": {"type": "string"}}, "uniqueItems": True, "default": "a"}
    schema = {"type": "string", keyword: value.get(keyword, {"type": "string"})}
    e = refused(ask, "openai", response_format=format_of({"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}))
    assert f"`#/properties/a`: `{keyword}` is not permitted" in e.message
