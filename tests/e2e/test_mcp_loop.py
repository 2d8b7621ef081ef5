"""MCP tools of a response: an engine that says what each generation is, a server of the `mcp` package's own, and what the `openai` package sees of them. The faults
of other servers that a test is named after are those of the catalogue (MC-.., RS-..)."""

import http.client
import json
import random
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest
from programs import ASAN, QWEN3_TOKENS, ROOT, Gateway, Program, Sim, engine, manifest, wait_until
from responses import PATH, Talker, events, killed_and_asked, plain
from scripts import EOS
from wire import Connection
from wire import call as ask

IM_START = 151644  # Qwen3's; a prompt of one question with tools has three, each further turn of a conversation two more
NO_THINKING = {"reasoning": {"effort": "none"}}


def calls(*pairs):
    return "\n".join(f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>' for name, arguments in pairs)


WEATHER = ("s__get_weather", {"city": "Zug"})
PING = ("s__ping", {})
MINE = ("get_weather", {"city": "Zug"})


class Server(Program):
    def __init__(self):
        venv = subprocess.run([ROOT / "hack/venv", "mcp"], check=True, capture_output=True, text=True).stdout.strip()
        super().__init__("mcp", [f"{venv}/bin/python", ROOT / "tests/e2e/tool_server.py", "0"])
        self.port = int(self.wait_for(r'{"ready": (\d+)}')[1])
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def stop(self):
        super().stop(expect=-15)

    def said(self, tool=None):
        found = [json.loads(line) for line in self.text().splitlines() if line.startswith("{")]
        return [e for e in found if "tool" in e and tool in (None, e["tool"])]

    def asked(self):
        return [json.loads(line) for line in self.text().splitlines() if '"method"' in line]


class Rig:
    """`texts`: what the model writes, one generation after the other of a conversation."""

    def __init__(self, start, qwen3, qwen3_path, token_file, server, *texts, options=(), more=()):
        rows = [qwen3.encode(t) + [EOS] for t in texts]
        step = max(len(r) for r in rows)
        filler = [EOS] * step
        slots = [filler] * 3
        for r in rows:
            slots += [r + [EOS] * (step - len(r)), filler]
        ids = [i for s in slots for i in s]
        self.sim = start(Sim, "--vocab", QWEN3_TOKENS, "--eos", EOS, "--log-ids", "--tokens", token_file(ids), "--turns", f"{IM_START}:{step}")
        self.start, self.server, self.oracle = start, server, qwen3
        self.manifest = manifest(engine("sim", self.sim.port, path=qwen3_path), *more)
        self.options = ("--mcp-host", "127.0.0.1", "--mcp-allow", "127.0.0.0/8", *options)
        self.begin()

    def begin(self):
        self.gateway = self.start(Gateway, self.manifest, *self.options)
        self.client = openai.OpenAI(base_url=f"{self.gateway.url}/v1", api_key="any", max_retries=0, timeout=60)

    def ask(self, approval="never", **more):
        tool = {"type": "mcp", "server_label": "s", "server_url": self.server.url, "require_approval": approval}
        return {"model": "m", "input": "Weather?", "tools": [tool], **NO_THINKING, **more}

    def whole(self, **more):
        return self.client.responses.create(**self.ask(**more))

    def events(self, **more):
        return events(self.gateway, self.ask(**more))

    def prompts(self, response):
        return [self.oracle.decode(e["ids"]) for e in self.sim.events("start", response["id"] if isinstance(response, dict) else response.id)]


@pytest.fixture(scope="module")
def server(start_shared):
    return start_shared(Server)


@pytest.fixture
def rig(start, qwen3, qwen3_path, token_file, server):
    return lambda *texts, **more: Rig(start, qwen3, qwen3_path, token_file, server, *texts, **more)


def kinds(output):
    return [i["type"] if isinstance(i, dict) else i.type for i in output]


def test_a_call_is_made_and_the_model_goes_on(rig):
    r = rig("I look.\n" + calls(WEATHER), "It rains.")
    response = r.whole()
    assert kinds(response.output) == ["mcp_list_tools", "message", "mcp_call", "message"]
    listed, _, called, last = response.output
    assert [t.name for t in listed.tools] == ["get_weather", "ping", "broken", "slow"] and listed.server_label == "s"
    assert (called.name, called.server_label, json.loads(called.arguments), called.output, called.error) == ("get_weather", "s", {"city": "Zug"}, "rain in Zug", None)
    assert last.content[0].text == "It rains." and response.status == "completed"
    first, second = r.prompts(response)
    assert "s__get_weather" in first and "rain in Zug" not in first
    assert "<tool_response>\nrain in Zug\n</tool_response>" in second and second.startswith(first[: first.rindex("assistant")])


def test_rs16_the_usage_is_of_all_generations(rig):
    r = rig(calls(WEATHER), "It rains.")
    response = r.whole()
    starts = r.sim.events("start", response.id)
    assert len(starts) == 2
    assert response.usage.input_tokens == sum(len(e["ids"]) for e in starts)
    assert response.usage.output_tokens == len(r.oracle.encode(calls(WEATHER))) + len(r.oracle.encode("It rains.")) + 2


def test_rs14_streamed_as_items_of_mcp(rig):
    r = rig("I look.\n" + calls(WEATHER), "It rains.")
    found = r.events()
    types = [e["type"] for e in found]
    order = [
        "response.created",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.completed",
        "response.output_text.delta",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.completed",
    ]
    places = [types.index(t) for t in order]
    assert places == sorted(places)
    whole = ask(r.gateway.port, PATH, r.ask()).json()
    assert plain(found[-1]["response"]["output"]) == plain(whole["output"])
    assert "function_call" not in json.dumps(found[-1]["response"]["output"])
    with r.client.responses.stream(**r.ask()) as stream:
        assert {e.type for e in stream} == set(types)


def test_mc05_names_of_tools(rig):
    r = rig("Hello.")
    response = r.whole(tools=[*r.ask()["tools"], {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}])
    (prompt,) = r.prompts(response)
    for name in ("s__get_weather", "s__ping", '"get_weather"'):
        assert name in prompt
    clash = {"type": "function", "name": "s__ping", "parameters": {"type": "object"}}
    with pytest.raises(openai.BadRequestError) as e:
        r.whole(tools=[*r.ask()["tools"], clash])
    assert "`s__ping`" in e.value.message and e.value.param == "tools"
    with pytest.raises(openai.BadRequestError) as e:
        r.whole(tools=r.ask()["tools"] * 2)
    assert e.value.param == "tools[1].server_label"


def test_mc06_a_name_stays_when_another_server_comes(rig):
    r = rig("Hello.")
    other = {**r.ask()["tools"][0], "server_label": "t"}
    (alone,), (both,) = r.prompts(r.whole()), r.prompts(r.whole(tools=[*r.ask()["tools"], other]))
    assert '"s__get_weather"' in alone and '"s__get_weather"' in both and '"t__get_weather"' in both


def test_rs19_a_call_is_whose_tool_it_names(rig, server):
    """A name that the server knows, but that the model was not told: nothing is called. With the client's function of that name it is the client's."""
    r = rig(calls(MINE), "Never.")
    before = len(server.said())
    found = r.whole()
    assert "mcp_call" not in kinds(found.output) and len(server.said()) == before
    mine = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    found = r.whole(tools=[*r.ask()["tools"], mine])
    assert kinds(found.output) == ["mcp_list_tools", "function_call"] and found.output[1].name == "get_weather" and len(server.said()) == before


def test_mc07_nothing_runs_that_nobody_allowed(rig, server, tmp_path):
    r = rig(calls(WEATHER), "It rains.", options=("--history", f"sqlite:{tmp_path}/history"))
    before = len(server.said())
    found = r.events(approval="always")
    (asked,) = [i for i in found[-1]["response"]["output"] if i["type"] == "mcp_approval_request"]
    assert (asked["name"], asked["server_label"], json.loads(asked["arguments"])) == ("get_weather", "s", {"city": "Zug"})
    assert kinds(found[-1]["response"]["output"]) == ["mcp_list_tools", "mcp_approval_request"]
    assert len(server.said()) == before
    r.gateway.kill()
    r.begin()  # another gateway, the same store
    yes = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
    response = r.whole(approval="always", input=[yes], previous_response_id=found[-1]["response"]["id"])
    assert kinds(response.output) == ["mcp_call", "message"]
    assert response.output[0].approval_request_id == asked["id"] and response.output[0].output == "rain in Zug"
    assert response.output_text == "It rains." and len(server.said()) == before + 1
    (prompt,) = r.prompts(response)
    assert prompt.count("<tool_response>") == 1 and "rain in Zug" in prompt


def test_mc07_without_a_word_it_is_asked_for(rig):
    r = rig(calls(WEATHER), "It rains.")
    tool = {k: v for k, v in r.ask()["tools"][0].items() if k != "require_approval"}
    assert kinds(r.whole(tools=[tool]).output) == ["mcp_list_tools", "mcp_approval_request"]


def test_mc07_what_was_denied_is_told_to_the_model(rig, server):
    r = rig(calls(WEATHER), "As you like.")
    first = r.whole(approval="always")
    before = len(server.said())
    no = {"type": "mcp_approval_response", "approval_request_id": first.output[-1].id, "approve": False, "reason": "too wet"}
    response = r.whole(approval="always", input=[no], previous_response_id=first.id)
    assert response.output_text == "As you like." and len(server.said()) == before
    assert "The user did not allow the call. Reason: too wet" in r.prompts(response)[0]
    with pytest.raises(openai.BadRequestError) as e:
        r.whole(input=[{**no, "approval_request_id": "mcpr_nobody"}], previous_response_id=first.id)
    assert e.value.param == "input[0].approval_request_id"


def test_mc08_approval_by_tool(rig):
    r = rig(calls(WEATHER, PING), "Done.")
    output = r.whole(approval={"never": {"tool_names": ["get_weather"]}}).output
    assert kinds(output) == ["mcp_list_tools", "mcp_call", "mcp_approval_request"] and output[1].output == "rain in Zug"
    assert kinds(r.whole(approval={"never": {"read_only": True}}).output) == ["mcp_list_tools", "mcp_call", "mcp_approval_request"]


def test_mc09_a_list_is_not_sent_twice(rig):
    r = rig(calls(WEATHER), "It rains.", "Again.")
    first = r.whole()
    second = r.whole(input="More?", previous_response_id=first.id)
    assert kinds(second.output) == ["message"]


def test_mc11_errors_are_told_to_the_model(rig):
    r = rig(calls(("s__broken", {}), ("s__get_weather", {"town": "Zug"})), "Sorry.")
    found = r.events()
    response = found[-1]["response"]
    _, broken, wrong, last = response["output"]
    assert broken["status"] == "failed" and broken["output"] is None
    assert broken["error"]["type"] == "mcp_tool_execution_error" and "the pipe has burst" in json.dumps(broken["error"])
    assert wrong["status"] == "failed" and wrong["error"]["type"] in ("mcp_tool_execution_error", "mcp_protocol_error")
    assert last["content"][0]["text"] == "Sorry." and response["status"] == "completed"
    assert sum(e["type"] == "response.mcp_call.failed" for e in found) == 2
    assert "the pipe has burst" in r.prompts(response)[1]


@pytest.mark.parametrize("arguments, approval", [('{"city": }', "never"), ('"Zug"', "never"), ("[1]", "never"), ("{city: 1}", "always")])
def test_mc11_arguments_that_are_no_json(rig, server, arguments, approval):
    """What a model writes is no fault of the client's, now or in a later turn."""
    r = rig(f'<tool_call>\n{{"name": "s__get_weather", "arguments": {arguments}}}\n</tool_call>', "Sorry.", "Again?")
    before = len(server.said())
    response = r.whole(approval=approval)
    if approval == "always":
        allowed = {"type": "mcp_approval_response", "approval_request_id": response.output[-1].id, "approve": True}
        response = r.whole(approval=approval, input=[allowed], previous_response_id=response.id)
    called, last = response.output[-2:]
    assert called.status == "failed" and called.error.type == "mcp_protocol_error" and len(server.said()) == before
    assert called.arguments.startswith(arguments.strip('"')) and last.content[0].text == "Sorry." and response.status == "completed"
    shown = r.prompts(response)[-1]
    assert '"name": "s__get_weather", "arguments": {}}' in shown and "the arguments" in shown
    assert r.whole(input="More?", previous_response_id=response.id).output_text == "Again?"
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": called.arguments}
    output = {"type": "function_call_output", "call_id": "c", "output": "no JSON"}
    mine = r.client.responses.create(model="m", input=[{"role": "user", "content": "?"}, call, output], **NO_THINKING)
    assert '"name": "f", "arguments": {}}' in r.prompts(mine)[0]


@pytest.mark.parametrize("stream", [False, True])
def test_mc11_a_tool_of_a_server_that_is_not_there(rig, server, stream):
    """The client could do nothing with such a call; one that its own function of that name answers is the client's."""
    r = rig(calls(("s__get_news", {"city": "Zug"}), WEATHER), "Sorry.")
    response = r.events(approval="always")[-1]["response"] if stream else r.whole().model_dump()
    failed = next(i for i in response["output"] if i["type"] == "mcp_call")
    assert (failed["server_label"], failed["name"], failed["status"]) == ("s", "get_news", "failed") and "no such tool" in str(failed["error"])
    if not stream:
        assert kinds(response["output"]) == ["mcp_list_tools", "mcp_call", "mcp_call", "message"] and response["output"][2]["output"] == "rain in Zug"
        assert "There is no such tool." in r.prompts(response)[1]
    mine = {"type": "function", "name": "s__get_news", "parameters": {"type": "object"}}
    assert r.whole(tools=[*r.ask()["tools"], mine]).output[1].type == "function_call"


def test_mc12_calls_end(rig, server):
    r = rig(calls(WEATHER), calls(WEATHER), calls(WEATHER), "Never.")
    before = len(server.said())
    response = r.whole(max_tool_calls=2)
    assert response.status == "incomplete" and response.incomplete_details.reason == "max_tool_calls"
    made = [i for i in response.output if i.type == "mcp_call"]
    assert [i.status for i in made] == ["completed", "completed", "failed"] and len(server.said()) == before + 2


def test_mc13_calls_of_both_sides(rig):
    r = rig(calls(WEATHER, ("mine", {"a": 1})), "Both.")
    tools = [*r.ask()["tools"], {"type": "function", "name": "mine", "parameters": {"type": "object"}}]
    first = r.whole(tools=tools)
    assert kinds(first.output) == ["mcp_list_tools", "mcp_call", "function_call"] and first.output[1].output == "rain in Zug"
    mine = {"type": "function_call_output", "call_id": first.output[2].call_id, "output": "42"}
    second = r.whole(tools=tools, input=[mine], previous_response_id=first.id)
    assert second.output_text == "Both."
    (prompt,) = r.prompts(second)
    assert "<tool_response>\nrain in Zug\n</tool_response>\n<tool_response>\n42\n</tool_response>" in prompt


def test_mc14_each_generation_has_its_own_parser(rig):
    r = rig("<think>\nFirst.\n</think>\n\n" + calls(WEATHER), "<think>\nSecond.\n</think>\n\nIt rains.")
    response = r.whole(reasoning={})
    assert kinds(response.output) == ["mcp_list_tools", "reasoning", "mcp_call", "reasoning", "message"]
    assert response.output[1].content[0].text == "First." and response.output[3].content[0].text == "Second."
    assert response.output_text == "It rains."


def test_parallel_calls_run_at_once(rig, server):
    r = rig(calls(PING, PING, PING), "Done.")
    before = len(server.said("ping"))
    output = r.whole().output
    assert [i.output for i in output if i.type == "mcp_call"] == ["pong"] * 3
    assert [e["begins"] for e in server.said("ping")[before:]] == [True] * 3 + [False] * 3


def test_streams_on_one_loop_do_not_mix(rig):
    r = rig("I look.\n" + calls(WEATHER, PING), "It rains.", options=("--loops", "1"))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: events(r.gateway, r.ask(metadata={"i": str(i)})), range(24)))
    for i, es in enumerate(found):
        assert es[-1]["response"]["metadata"] == {"i": str(i)} and {e["response"]["id"] for e in es if "response" in e} == {es[0]["response"]["id"]}


def test_a_client_that_leaves_cancels_its_call(rig, server):
    r = rig(calls(("s__slow", {})), "Never.")
    before = len(server.said("slow"))
    with Connection(r.gateway.port) as c:
        c.request(PATH, {**r.ask(), "stream": True})
        wait_until(lambda: len(server.said("slow")) > before, "the call")
    wait_until(lambda: any("cancelled" in e for e in server.said("slow")[before:]), "its end")


def test_two_tenants_have_two_sessions(rig, server):
    r = rig(calls(WEATHER), "It rains.", options=("--tenant-header", "X-Tenant"))
    used = {"one": set(), "two": set()}
    for tenant in ("one", "two", "one"):
        before = len(server.asked())
        r.client.with_options(default_headers={"X-Tenant": tenant}).responses.create(**r.ask())
        used[tenant] |= {e["headers"].get("mcp-session-id") for e in server.asked()[before:]} - {None}
    assert used["one"] and used["two"] and not used["one"] & used["two"]


def test_mc15_headers_go_to_their_server_alone(rig, server):
    r = rig(calls(WEATHER), "It rains.")
    before = len(server.asked())
    tool = {**r.ask()["tools"][0], "headers": {"X-Secret": "s3cret"}, "authorization": "t0ken"}
    response = r.whole(tools=[tool])
    seen = [e["headers"] for e in server.asked()[before:]]
    assert all(h["x-secret"] == "s3cret" and h["authorization"] == "Bearer t0ken" for h in seen)
    kept = r.client.responses.retrieve(response.id).model_dump_json() + response.model_dump_json() + r.gateway.text()
    assert "s3cret" not in kept and "t0ken" not in kept


def test_servers_that_are_not_allowed_or_do_not_answer(rig, start):
    r = rig("Hello.")

    def refused(place, **more):
        answer = ask(r.gateway.port, PATH, r.ask(tools=[{**r.ask()["tools"][0], **more}]))
        assert answer.status in (400, 403) and answer.json()["error"]["param"] == place, answer.body

    refused("tools[0].server_url", server_url="http://example.com/mcp")
    refused("tools[0].server_label", server_url=None)
    refused("tools[0].server_label", server_label="a b")
    refused("tools[0].require_approval", require_approval="sometimes")
    refused("tools[0].allowed_tools", allowed_tools="x")
    refused("tools[0].connector_id", connector_id="connector_gmail")
    refused("tools[0].headers", headers={"Host": "x"})
    gone = {**r.ask()["tools"][0], "server_url": "http://127.0.0.1:9/mcp"}
    answer = ask(r.gateway.port, PATH, r.ask(tools=[gone]))
    assert answer.status in (502, 503) and "`s`" in answer.json()["error"]["message"], answer.body
    found = events(r.gateway, r.ask(tools=[gone]))
    assert found[-1]["type"] == "response.failed" and "response.mcp_list_tools.failed" in [e["type"] for e in found]


def tool_server(server, **spec):
    spec = {"label": "s", "url": server.url, "network": "Private", **spec}
    return {"apiVersion": "kelpie.dev/v1alpha1", "kind": "ToolServer", "metadata": {"name": "weather"}, "spec": spec}


def test_a_tool_server_that_the_gateway_knows(rig, server, tmp_path):
    (tmp_path / "weather").mkdir()
    (tmp_path / "weather/token").write_text("Bearer s3cret\n")
    secret = {"name": "Authorization", "secretKeyRef": {"name": "weather", "key": "token"}}
    r = rig(calls(WEATHER), "It rains.", options=("--tool-secrets", tmp_path), more=[tool_server(server, headers=[secret], forwardHeaders=["X-User"])])
    tool = {"type": "mcp", "server_label": "s"}
    before = len(server.asked())
    assert kinds(r.whole(tools=[tool]).output) == ["mcp_list_tools", "mcp_approval_request"]
    assert all(e["headers"]["authorization"] == "Bearer s3cret" for e in server.asked()[before:])
    assert kinds(r.whole(tools=[{**tool, "require_approval": "never"}]).output) == ["mcp_list_tools", "mcp_approval_request"]
    r.client.with_options(default_headers={"X-User": "me", "X-Other": "x"}).responses.create(**r.ask(tools=[tool]))
    last = server.asked()[-1]["headers"]
    assert last["x-user"] == "me" and "x-other" not in last
    answer = ask(r.gateway.port, PATH, r.ask(tools=[{**tool, "headers": {"X": "y"}}]))
    assert answer.status == 400 and "its own" in answer.error["message"]


def test_a_tool_server_whose_secret_is_not_there(rig, server, tmp_path):
    secret = {"name": "Authorization", "secretKeyRef": {"name": "weather", "key": "token"}}
    r = rig("Never.", options=("--tool-secrets", tmp_path), more=[tool_server(server, headers=[secret])])
    before = len(server.asked())
    answer = ask(r.gateway.port, PATH, r.ask(tools=[{"type": "mcp", "server_label": "s"}]))
    assert (answer.status, answer.error["code"]) == (503, "tool_server_failed")
    assert "`default/weather`" in answer.error["message"] and str(tmp_path) not in answer.body.decode()
    assert str(tmp_path) in r.gateway.text() and len(server.asked()) == before


def test_a_tool_server_has_the_first_word(rig, server):
    spec = {"allowedTools": ["get_weather", "ping"], "approval": {"policy": "Never", "except": ["ping"]}}
    r = rig(calls(WEATHER, PING), "Done.", more=[tool_server(server, **spec)])
    tool = {"type": "mcp", "server_label": "s"}
    output = r.whole(tools=[tool]).output
    assert kinds(output) == ["mcp_list_tools", "mcp_call", "mcp_approval_request"] and [t.name for t in output[0].tools] == ["get_weather", "ping"]
    assert kinds(r.whole(tools=[{**tool, "require_approval": "always"}]).output) == ["mcp_list_tools", "mcp_approval_request", "mcp_approval_request"]
    assert [t.name for t in r.whole(tools=[{**tool, "allowed_tools": ["ping", "broken"]}]).output[0].tools] == ["ping"]


def test_allowed_tools(rig):
    r = rig("Hello.")
    (prompt,) = r.prompts(r.whole(tools=[{**r.ask()["tools"][0], "allowed_tools": ["ping"]}]))
    assert "s__ping" in prompt and "s__get_weather" not in prompt
    (prompt,) = r.prompts(r.whole(tools=[{**r.ask()["tools"][0], "allowed_tools": {"read_only": True}}]))
    assert "s__get_weather" in prompt and "s__ping" not in prompt


class Approvals(Talker):
    """A question, a call that is asked about, and a yes."""

    def one(self, previous):
        asked = previous and previous["output"][-1]
        if not asked or asked["type"] != "mcp_approval_request":
            return self.say(self.s.ask(approval="always", stream=self.n % 3 == 0))
        yes = {"type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": True}
        return self.say(self.s.ask(approval="always", input=[yes], previous_response_id=previous["id"], stream=self.n % 2 == 0))


def kill_often(start, rig, server, tmp_path, times):
    """How many tool conversations came to their end. Each call that was acknowledged was made once: the server knows of no more than those, and one for each client
    that was cut off."""
    r, rng, done = rig(calls(WEATHER), "It rains.", options=("--history", f"sqlite:{tmp_path}/history")), random.Random(7), 0
    r.gateway.stop()
    for _ in range(times):
        before = len(server.said("get_weather"))
        told = killed_and_asked(start, r, Approvals, rng.uniform(0.05, 0.6))
        made = [i for v in told.values() for i in v["output"] if i["type"] == "mcp_call"]
        assert len({i["approval_request_id"] for i in made}) == len(made) and all(i["output"] == "rain in Zug" for i in made)
        next(direct(server.port))  # behind what clients that were cut off left there, which counts
        assert len(made) <= len(server.said("get_weather")) - 1 - before <= len(made) + 4
        done += len(made)
    return done


def test_tool_conversations_with_a_gateway_that_is_killed(start, rig, server, tmp_path):
    kill_often(start, rig, server, tmp_path, 3)


@pytest.mark.slow
def test_tool_conversations_with_gateways_killed_at_200_moments(start, rig, server, tmp_path):
    done = kill_often(start, rig, server, tmp_path, 200)
    assert done >= 200
    print(f"{done} tool conversations ended, none lost, none doubled")


@pytest.mark.alone
def test_the_loop_costs_less_than_a_millisecond_a_call(rig, server):
    """The CPU time of the gateway for a call and the generation behind it. Beside it, for people: how long it is from one generation's end to the next one's begin,
    and how long the server takes for the same call by itself."""
    r = rig(*[calls(WEATHER)] * 20, "Done.")
    r.whole()
    gaps, begin, n = [], r.gateway.cpu(), 10
    for _ in range(n):
        response = r.whole()
        starts = [e["t"] for e in r.sim.events("start", response.id)]
        ends = [e["t"] for e in r.sim.events("end", response.id)]
        assert len(starts) == 21
        gaps += [b - a for a, b in zip(ends, starts[1:], strict=False)]
    cpu = (r.gateway.cpu() - begin) / (20 * n)
    between, alone = (sorted(v)[len(v) // 2] * 1e3 for v in (gaps, list(direct(server.port))))
    print(f"{cpu * 1e3:.3f} ms of CPU a call; {between:.2f} ms between two generations, of which the server takes {alone:.2f}")
    assert ASAN or cpu < 0.001


def direct(port):
    """The seconds that the server takes for each of some calls, asked without a gateway."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}

    def post(**body):
        c.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **body}), headers)
        answer = c.getresponse()
        text = answer.read()
        assert answer.status < 300, text
        headers["mcp-session-id"] = answer.headers.get("mcp-session-id") or headers["mcp-session-id"]
        return text

    post(id=0, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
    post(method="notifications/initialized")
    for i in range(1, 41):
        begin = time.monotonic()
        assert b"rain" in post(id=i, method="tools/call", params={"name": "get_weather", "arguments": {"city": "Zug"}})
        yield time.monotonic() - begin
