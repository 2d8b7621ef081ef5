"""lib/mcp beside servers that are made with the MCP SDK: with sessions and without, answers as JSON and as event streams."""

import time

import pytest
import mcp_rig

KINDS = [(), ("json",), ("stateless",), ("stateless", "json")]


@pytest.mark.parametrize("flags", KINDS, ids=lambda f: "-".join(f) or "sessions")
def test_tools_are_listed_and_called(probe, sdk, flags):
    s = sdk(*flags)
    listed = probe.tools(s.url)
    tools = {t["name"]: t for t in listed["tools"]}
    assert set(tools) == {"add", "fail", "picture", "big", "odd.name/v1", "slow", "count", "grow"}
    assert tools["add"]["schema"]["required"] == ["a", "b"]
    assert (tools["add"]["read_only"], tools["fail"]["read_only"]) == (True, False)
    assert tools["add"]["description"] == "Add two numbers."
    assert tools["add"]["exposed"] == "srv__add"
    assert tools["odd.name/v1"]["exposed"].startswith("srv__odd_name_v1_")
    added = probe.call(s.url, "add", {"a": 2, "b": 3})
    assert (added["outcome"], added["output"]) == ("ok", "5")
    picture = probe.call(s.url, "picture")
    assert picture["output"] == "a picture:\n[an image of type image/png, about 3 bytes: not shown]"
    assert [probe.call(s.url, "count")["output"] for _ in range(3)] == ["1", "2", "3"]
    slow = probe.call(s.url, "slow", {"seconds": 0.2, "steps": 2})
    assert slow["output"] == "done"


def test_mc_11_errors_are_of_use(probe, sdk):
    s = sdk()
    failed = probe.call(s.url, "fail", {"why": "no such city: Atlantis"})
    assert failed["outcome"] == "tool_error"
    assert "no such city: Atlantis" in failed["output"] and "no such city" in failed["message"]
    wrong = probe.call(s.url, "add", {"a": "x"})
    assert wrong["outcome"] in ("tool_error", "protocol_error")
    assert "a" in wrong["output"] and "integer" in wrong["output"], wrong
    absent = probe.call(s.url, "absent")
    assert absent["outcome"] in ("tool_error", "protocol_error") and "absent" in absent["output"], absent
    no_json = probe.call(s.url, "add", text="[1]")
    assert (no_json["outcome"], no_json["may_have_run"]) == ("protocol_error", False)
    assert "no JSON object" in no_json["output"]


def test_mc_16_output_is_clean_and_has_an_end(probe, sdk):
    s = sdk()
    big = probe.call(s.url, "big", {"n": 100000}, max=1001)
    assert big["cut"] and big["output"] == "é" * 500 + "\n[cut: 1000 of 200000 bytes are shown]"
    assert probe.call(s.url, "odd.name/v1")["output"] == "odd�" + "�[31m\nline"


def test_progress_is_told_and_cancelling_reaches_the_tool(probe, sdk):
    s = sdk()
    id = probe.send("call", s.url, tool="slow", arguments='{"seconds": 30, "steps": 300}')
    told = probe.expect(id=id, progress=2.0)
    assert (told["total"], told["message"]) == (300.0, "step 2")
    probe.send("cancel", id=id)
    s.expect(cancelled="slow")
    assert probe.call(s.url, "add", {"a": 1, "b": 1})["output"] == "2"


def test_mc_10_progress_extends_a_deadline(probe, sdk):
    s = sdk()
    assert probe.call(s.url, "slow", {"seconds": 2, "steps": 10}, call_ms=800)["output"] == "done"
    late = probe.call(s.url, "slow", {"seconds": 5, "steps": 1}, call_ms=500)
    assert (late["outcome"], late["code"], late["may_have_run"]) == ("failed", "DEADLINE_EXCEEDED", True)
    s.expect(cancelled="slow")
    capped = probe.call(s.url, "slow", {"seconds": 20, "steps": 100}, call_ms=800, total_ms=1500)
    assert capped["code"] == "DEADLINE_EXCEEDED"


def test_mc_09_the_list_is_remembered_until_it_changes(probe, sdk):
    s = sdk()
    assert len(probe.tools(s.url)["tools"]) == 8
    assert len(probe.tools(s.url)["tools"]) == 8
    assert probe.metrics().count('method="tools/list",outcome="ok"} 1\n') == 1
    assert probe.call(s.url, "grow")["outcome"] == "ok"
    # The SDK tells of it on the stream of the call, or only on one that we do not hold open; then time brings it.
    assert probe.metrics().count('method="tools/list",outcome="ok"} 1\n') == 1
    deadline = time.monotonic() + 20
    while len(probe.tools(s.url, ttl_ms=200)["tools"]) != 9:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_mc_01_a_session_that_the_server_forgot(probe, sdk):
    s = sdk()
    assert probe.call(s.url, "count")["output"] == "1"
    s.stop()
    again = sdk(port=s.port)
    # Several at once: one new session.
    for _ in range(4):
        probe.send("call", s.url, tool="count", arguments="{}")
    assert sorted(probe.next()["output"] for _ in range(4)) == ["1", "2", "3", "4"]
    heads = [line["headers"] for line in again.drain(0.5) if line.get("method") == "POST"]
    assert len({h["mcp-session-id"] for h in heads if "mcp-session-id" in h}) == 2  # the old one, the new one
    assert sum("mcp-session-id" not in h for h in heads) == 1  # one initialize


def test_tenants_and_credentials_have_sessions_of_their_own(probe, sdk):
    s = sdk()
    for who in ({"tenant": "a"}, {"tenant": "b"}, {"headers": {"Authorization": "Bearer x"}}, {"tenant": "a"}):
        assert probe.call(s.url, "add", {"a": 1, "b": 1}, **who)["output"] == "2"
    heads = [line["headers"] for line in s.drain(0.5) if line.get("method") == "POST"]
    assert len({h["mcp-session-id"] for h in heads if "mcp-session-id" in h}) == 3
    assert sum(h.get("authorization") == "Bearer x" for h in heads) == 3  # initialize, initialized, call
    assert all(h["accept"] == "application/json, text/event-stream" for h in heads)


def test_an_idle_session_is_ended(sdk):
    s, p = sdk(), mcp_rig.Probe("300")
    assert p.call(s.url, "add", {"a": 1, "b": 1})["output"] == "2"
    s.expect(method="DELETE", timeout=10)
    assert p.call(s.url, "add", {"a": 1, "b": 1})["output"] == "2"
    p.end()
