"""Agents of the `openai-agents` package with their model behind the gateway, over /v1/responses and /v1/chat/completions, streamed and not: what the SDK makes of our answers,
and what it sends back of them. The engine says what each generation is, MCP servers are the `mcp` package's own."""

import asyncio
import functools
import json

import agents
import openai
import pydantic
import pytest
from agents import Agent, HostedMCPTool, ModelSettings, Runner, RunState, SQLiteSession, function_tool
from openai.types.shared import Reasoning
from responses import plain
from test_mcp_loop import MINE, PING, WEATHER, Rig, calls, kinds, server  # noqa: F401

agents.set_tracing_disabled(True)
APIS = {"responses": agents.OpenAIResponsesModel, "chat": agents.OpenAIChatCompletionsModel}
THOUGHT = "<think>\nWhere is it?\n</think>\n\n"
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
API = pytest.mark.parametrize("api", APIS)


class Desk:
    """A rig and the SDK in front of it."""

    def __init__(self, rig, loop):
        self.rig, self.loop = rig, loop

    def agent(self, api="responses", effort="none", settings=None, **more):
        client = openai.AsyncOpenAI(base_url=f"{self.rig.gateway.url}/v1", api_key="any", max_retries=0, timeout=60)
        asked = ModelSettings(reasoning=effort and Reasoning(effort=effort), include_usage=True, **(settings or {}))
        return Agent(**{"name": "one", "instructions": "Be brief.", "model": APIS[api]("m", client), "model_settings": asked, **more})

    def run(self, agent, input, streamed=False, **more):
        async def go():
            if not streamed:
                return await Runner.run(agent, input, **more)
            result = Runner.run_streamed(agent, input, **more)
            seen = [e async for e in result.stream_events()]
            return result, seen

        result = self.loop.run(go())
        if streamed:
            result, result.seen = result
        return result

    def hosted(self, approval="never", **more):
        return HostedMCPTool({"type": "mcp", "server_label": "s", "server_url": self.rig.server.url, "require_approval": approval}, **more)

    def prompts(self):
        return [self.rig.oracle.decode(e["ids"]) for e in self.rig.sim.events("start")]


@pytest.fixture(scope="module")
def desk(start_shared, qwen3, qwen3_path, token_file, server):  # noqa: F811
    """One engine and gateway per script."""
    with asyncio.Runner() as loop:
        yield functools.cache(lambda *texts: Desk(Rig(start_shared, qwen3, qwen3_path, token_file, server, *texts), loop))


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def types(result):
    return [i.type for i in result.new_items]


@API
@STREAMED
def test_function_tools(desk, api, streamed):
    d = desk(THOUGHT + "I look.\n" + calls(MINE, MINE), THOUGHT + "It rains.")
    before = len(d.prompts())
    result = d.run(d.agent(api, None, tools=[get_weather]), "Weather?", streamed)
    assert types(result) == ["reasoning_item", "message_output_item", *["tool_call_item"] * 2, *["tool_call_output_item"] * 2, "reasoning_item", "message_output_item"]
    assert [i.output for i in result.new_items if i.type == "tool_call_output_item"] == ["rain in Zug"] * 2
    assert result.final_output == "It rains." and "Be brief." in d.prompts()[-1]
    first, second = d.prompts()[before:]
    usage = result.context_wrapper.usage
    assert usage.requests == 2 and usage.input_tokens == sum(len(e["ids"]) for e in d.rig.sim.events("start")[before:])
    thought = THOUGHT if api == "responses" else ""  # of a chat the SDK sends no thoughts back
    assert second.startswith(first + thought + "I look.\n<tool_call>")
    if streamed:
        assert [e.item.type for e in result.seen if e.type == "run_item_stream_event"] == types(result)
        raw = [e.data for e in result.seen if e.type == "raw_response_event"]
        deltas = "".join(e.delta for e in raw if e.type == "response.output_text.delta")
        assert deltas.replace("\n", "") == "I look.It rains."


@API
def test_the_next_run_has_what_the_last_one_said(desk, api):
    """The whole conversation as items, as a session of the SDK keeps it; for Responses also by its id: the engine is asked the same."""
    d, asked = desk(calls(MINE), "It rains.", calls(MINE), "Still."), {}

    def by_items():
        first = d.run(agent, "Weather?")
        return d.run(agent, [*first.to_input_list(), {"role": "user", "content": "And now?"}], True)

    def by_session():
        session = SQLiteSession("s")
        d.run(agent, "Weather?", True, session=session)
        return d.run(agent, "And now?", session=session)

    def by_id():
        first = d.run(agent, "Weather?", auto_previous_response_id=True)
        return d.run(agent, "And now?", True, previous_response_id=first.last_response_id)

    agent = d.agent(api, tools=[get_weather])
    for way in (by_items, by_session, *([by_id] if api == "responses" else [])):
        before = len(d.prompts())
        assert way().final_output == "Still."
        asked[way] = d.prompts()[before:]
        assert len(asked[way]) == 4
    assert all(v == asked[by_items] for v in asked.values())


@API
@STREAMED
def test_a_handoff(desk, api, streamed):
    d = desk(calls(("transfer_to_weather_desk", {})), calls(MINE), "It rains.")
    other = d.agent(api, name="Weather desk", tools=[get_weather], instructions="You know the weather.", handoff_description="Knows the weather")
    result = d.run(d.agent(api, handoffs=[other], instructions="You know who knows."), "Weather?", streamed)
    assert result.last_agent is other and result.final_output == "It rains."
    assert types(result) == ["handoff_call_item", "handoff_output_item", "tool_call_item", "tool_call_output_item", "message_output_item"]
    first, *_, last = d.prompts()[-3:]
    assert "You know who knows." in first and "Knows the weather" in first and "You know the weather." in last and "Knows the weather" not in last


class Weather(pydantic.BaseModel):
    city: str
    degrees: int
    wind: list[str] | None


@API
@STREAMED
def test_structured_output(desk, api, streamed):
    d = desk(calls(MINE), '{"city": "Zug", "degrees": 7, "wind": ["west"]}')
    result = d.run(d.agent(api, tools=[get_weather], output_type=Weather), "Weather?", streamed)
    assert result.final_output == Weather(city="Zug", degrees=7, wind=["west"])
    asked = [bytes.fromhex(e["sampling"]) for e in d.rig.sim.events("start")[-2:]]
    assert all(b'"degrees"' in a for a in asked)


@API
def test_a_tool_that_must_be_called_and_agents_as_tools(desk, api):
    d = desk(calls(("ask_weather", {"input": "Zug"})), "It rains.")
    inner = d.agent(api, name="inner", settings={"max_tokens": 3})
    tool = inner.as_tool("ask_weather", "Knows the weather")
    for choice in ("required", "ask_weather"):
        asked = {"tool_choice": choice, "parallel_tool_calls": False, "temperature": 0.5, "top_p": 0.9, "metadata": {"a": "b"}, "store": False}
        result = d.run(d.agent(api, tools=[tool], settings=asked), "Weather?")
        assert result.final_output == "It rains." and types(result) == ["tool_call_item", "tool_call_output_item", "message_output_item"]


@STREAMED
def test_hosted_mcp(desk, streamed):
    d = desk("I look.\n" + calls(WEATHER, PING), "It rains.")
    result = d.run(d.agent(tools=[d.hosted(), get_weather]), "Weather?", streamed)
    assert types(result) == ["mcp_list_tools_item", "message_output_item", "tool_call_item", "tool_call_item", "message_output_item"]
    made = [i.raw_item for i in result.new_items if i.type == "tool_call_item"]
    assert [(i.type, i.output) for i in made] == [("mcp_call", "rain in Zug"), ("mcp_call", "pong")]
    assert result.final_output == "It rains." and len(result.raw_responses) == 1
    again = d.run(d.agent(tools=[d.hosted()]), [*result.to_input_list(), {"role": "user", "content": "And now?"}], streamed)
    assert not [i for i in again.new_items if i.type == "mcp_list_tools_item"]


@STREAMED
@pytest.mark.parametrize("answer", ["yes", "no"])
@pytest.mark.parametrize("by_id", [False, True], ids=["items", "id"])
def test_hosted_mcp_is_asked_about(desk, server, streamed, answer, by_id):  # noqa: F811
    d = desk(calls(WEATHER, WEATHER), "So be it.")
    before, asked = len(server.said()), []

    def allow(request):
        asked.append((request.data.name, json.loads(request.data.arguments)))
        return {"approve": True} if answer == "yes" else {"approve": False, "reason": "too wet"}

    result = d.run(d.agent(tools=[d.hosted("always", on_approval_request=allow)]), "Weather?", streamed, auto_previous_response_id=by_id)
    assert asked == [MINE, MINE] and result.final_output == "So be it."
    assert len(server.said()) - before == (2 if answer == "yes" else 0)
    assert types(result).count("mcp_approval_request_item") == 2
    assert ("too wet" in d.prompts()[-1]) == (answer == "no") and ("rain in Zug" in d.prompts()[-1]) == (answer == "yes")


@STREAMED
@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_run_that_waits_for_somebody(desk, server, streamed, answer):  # noqa: F811
    """The SDK gives the question back, and goes on later, from what it wrote down."""
    d = desk(calls(WEATHER, PING), "So be it.", "So be it.")  # what was allowed later is a turn of its own
    agent = d.agent(tools=[d.hosted({"never": {"tool_names": ["ping"]}})])
    before = len(server.said("get_weather"))
    waits = d.run(agent, "Weather?", streamed)
    (question,) = waits.interruptions
    assert question.name == "get_weather" and len(server.said("get_weather")) == before
    state = d.loop.run(RunState.from_json(agent, json.loads(json.dumps(waits.to_state().to_json()))))
    (question,) = state.get_interruptions()
    state.approve(question) if answer == "yes" else state.reject(question)
    result = d.run(agent, state, streamed)
    assert result.final_output == "So be it." and len(server.said("get_weather")) - before == (answer == "yes")
    prompt = d.prompts()[-1]
    assert "pong" in prompt and prompt.count("<tool_response>") == 2


@API
@STREAMED
def test_ends_that_are_not_the_models(desk, api, streamed):
    """An answer that was cut is as long as it is, and what the gateway refuses is told by its own words."""
    d = desk("It rains and rains and rains.")
    if api == "chat":
        cut = d.run(d.agent(api, settings={"max_tokens": 3}), "Weather?", streamed)
        assert cut.final_output == "It rains and" and cut.context_wrapper.usage.output_tokens == 3
    else:
        with pytest.raises(agents.ModelBehaviorError, match="response.incomplete.*max_output_tokens"):  # the SDK's own way
            d.run(d.agent(api, settings={"max_tokens": 3}), "Weather?", streamed)
    with pytest.raises(openai.BadRequestError) as e:
        d.run(d.agent(api, settings={"extra_body": {"nonsense": 1}}), "Weather?", streamed)
    assert e.value.param == "nonsense"
    with pytest.raises(openai.APIStatusError) as e:
        d.run(d.agent(api).clone(model=APIS[api]("nobody", openai.AsyncOpenAI(base_url=f"{d.rig.gateway.url}/v1", api_key="any"))), "Weather?", streamed)
    assert e.value.status_code == 404


@API
def test_settings(desk, api):
    """All that the SDK's settings send, where it has no other meaning than OpenAI's."""
    d = desk("It rains.")
    asked = {"temperature": 0.5, "top_p": 0.9, "metadata": {"a": "b"}, "top_logprobs": 2, "prompt_cache_retention": "24h", "verbosity": "medium"}
    if api == "responses":
        asked |= {"store": True, "truncation": "disabled", "response_include": ["reasoning.encrypted_content"], "context_management": []}
    else:
        asked |= {"frequency_penalty": 0.5, "presence_penalty": 0.25}
    for streamed in (False, True):
        result = d.run(d.agent(api, settings=asked), [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}], streamed)
        assert result.final_output == "It rains."
        (part,) = result.raw_responses[0].output[-1].content
        end = "" if api == "responses" else "<|im_end|>"  # a chat shows what ended it, as vLLM does
        assert "".join(p.token for p in part.logprobs) == "It rains." + end and all(len(p.top_logprobs) == 2 for p in part.logprobs)
