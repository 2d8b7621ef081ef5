"""What clients may not do with MCP tools: have a call made by a request that is refused, against their own last word, or by a rule that they misspelt; take all
descriptors of the gateway with sessions."""

import re

import pytest
from programs import Gateway, Sim, engine, manifest
from responses import PATH
from test_mcp_loop import WEATHER, calls, kinds, rig, server  # noqa: F401
from wire import CHAT
from wire import call as ask


@pytest.fixture
def asked(rig):  # noqa: F811
    """(rig, the response that asks, the answers yes and no)"""
    r = rig(calls(WEATHER), "Done.")
    first = r.whole(approval="always")
    yes = {"type": "mcp_approval_response", "approval_request_id": first.output[-1].id, "approve": True}
    return r, first, yes, {**yes, "approve": False}


REFUSED = [
    {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]},
    {"type": "none_of_ours"},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "item_reference", "id": "nowhere"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_nobody", "approve": True},
]


def test_nothing_is_called_for_a_request_that_is_refused(asked, server):  # noqa: F811
    r, first, yes, _ = asked
    before = len(server.said())
    for item in REFUSED:
        answer = ask(r.gateway.port, PATH, r.ask(approval="always", input=[yes, item], previous_response_id=first.id))
        assert answer.status == 400 and answer.json()["error"]["param"].startswith("input[1]"), answer.body
    assert len(server.said()) == before
    assert kinds(r.whole(approval="always", input=[yes], previous_response_id=first.id).output) == ["mcp_call", "message"]
    assert len(server.said()) == before + 1


def test_the_last_word_counts(asked, server):  # noqa: F811
    r, first, yes, no = asked
    before = len(server.said())
    response = r.whole(approval="always", input=[yes, no], previous_response_id=first.id)
    assert kinds(response.output) == ["message"] and len(server.said()) == before
    assert "The user did not allow the call." in r.prompts(response)[0]
    assert kinds(r.whole(approval="always", input=[no, yes], previous_response_id=first.id).output) == ["mcp_call", "message"]


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("tools[0].alowed_tools", {"alowed_tools": ["ping"]}),
        ("tools[0].headers", {"headers": {"X-A": "a\r\nX-B: b"}}),
        ("tools[0].headers", {"headers": {"a b": "c"}}),
        ("tools[0].authorization", {"authorization": "a\nb"}),
    ],
)
def test_what_is_wrong_with_a_tool_is_said_before_it_is_asked(rig, server, place, more):  # noqa: F811
    r = rig("Hello.")
    before = len(server.asked())
    answer = ask(r.gateway.port, PATH, r.ask(tools=[{**r.ask()["tools"][0], **more}]))
    assert answer.status == 400 and answer.json()["error"]["param"] == place, answer.body
    assert len(server.asked()) == before


def test_sessions_leave_descriptors_for_others(rig, start, server):  # noqa: F811
    """Each request has a session of its own. An eighth of the descriptors is theirs; the oldest go."""
    r = rig("Hello.")
    gateway = start(Gateway, r.manifest, *r.options, wrapper=("prlimit", "--nofile=512:512"))
    at_first = gateway.fds()
    for i in range(60):
        tool = {**r.ask()["tools"][0], "headers": {"X-Number": str(i)}}
        answer = ask(gateway.port, PATH, r.ask(tools=[tool]))
        assert answer.status == 200, answer.body
    assert gateway.fds() < at_first + 512 // 8
    assert len(re.findall(r'"method": "DELETE"', server.text())) > 0
    assert ask(gateway.port, CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1}).status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_results_that_do_not_fit_end_the_response_with_what_was_called(rig, start, qwen3_path, stream):  # noqa: F811
    r = rig(calls(WEATHER), "It rains.")
    first, second = (len(e["ids"]) for e in r.sim.events("start", r.whole().id))
    sim = start(Sim, *r.sim.options, "--max-context", second)  # one fewer than the second generation needs
    r.manifest = manifest(engine("sim", sim.port, path=qwen3_path))
    r.begin()
    response = r.events()[-1]["response"] if stream else r.whole().model_dump()
    assert (response["status"], response["incomplete_details"]["reason"]) == ("incomplete", "max_output_tokens")
    assert kinds(response["output"]) == ["mcp_list_tools", "mcp_call"] and response["output"][1]["output"] == "rain in Zug"
    assert response["usage"]["input_tokens"] == first
    assert r.client.responses.retrieve(response["id"]).output[1].output == "rain in Zug"
