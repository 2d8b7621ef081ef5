"""lib/mcp against a server that is told what to say: everything that a server may do wrong."""

import json
import time

import pytest
import mcp_rig


def rpc(asked, **members):
    return {"jsonrpc": "2.0", "id": asked.id, **members}


def ok(asked, h):
    h.text(asked, "ok")


def test_mc_01_a_404_makes_one_new_session_and_one_more_try(probe, scripted):
    def script(asked, h):
        if asked.headers.get("Mcp-Session-Id") == "s1":
            s.session = "s2"
            h.answer(404)
        else:
            h.text(asked, "ok")

    s = scripted(script)
    assert probe.call(s.url, "t")["output"] == "ok"
    assert s.rpcs() == ["initialize", "notifications/initialized", "tools/call"] * 2
    assert [a.headers.get("Mcp-Session-Id") for a in s.all] == [None, "s1", "s1", None, "s2", "s2"]
    assert [a.headers.get("MCP-Protocol-Version") for a in s.all][:3] == [None, "2025-06-18", "2025-06-18"]


def test_mc_11_the_code_of_an_error_is_the_server_s(probe, scripted):
    s = scripted(lambda asked, h: h.answer(200, {"jsonrpc": "2.0", "id": asked.id, "error": {"code": -32000, "message": "full"}}))
    answer = probe.call(s.url, "t")
    assert (answer["outcome"], answer["rpc_code"], answer["may_have_run"]) == ("protocol_error", -32000, False) and "full" in answer["output"]


def test_mc_01_no_third_try(probe, scripted):
    s = scripted(lambda asked, h: h.answer(404))
    answer = probe.call(s.url, "t")
    assert (answer["outcome"], answer["code"], answer["may_have_run"]) == ("failed", "NOT_FOUND", False)
    assert s.rpcs().count("tools/call") == 2
    assert probe.tools(s.url)["code"] == "NOT_FOUND"
    assert s.rpcs().count("tools/list") == 2


@pytest.mark.parametrize("status", [400, 404])
def test_mc_01_a_list_of_a_session_that_was_forgotten(probe, scripted, status):
    """Some servers say 400 of one, which a call is not repeated for; a list is."""

    def script(asked, h):
        if asked.headers.get("Mcp-Session-Id") == "s1":
            s.session = "s2"
            h.answer(status)
        else:
            h.result(asked, {"tools": []})

    s = scripted(script)
    assert probe.tools(s.url)["code"] == ""
    assert s.rpcs() == ["initialize", "notifications/initialized", "tools/list"] * 2


@pytest.mark.parametrize("how", ["cut", "500", "silence", "reset"])
def test_mc_02_what_may_have_run_is_not_called_again(probe, scripted, how):
    def script(asked, h):
        if how == "cut":
            h.events()
        elif how == "500":
            h.answer(500, b"<html>", type="text/html")
        elif how == "silence":
            time.sleep(1.5)
        h.close_connection = True

    s = scripted(script)
    answer = probe.call(s.url, "t", call_ms=700)
    assert (answer["outcome"], answer["may_have_run"]) == ("failed", True), answer
    assert "may have run" in answer["output"]
    assert s.rpcs().count("tools/call") == 1
    assert probe.metrics().count('method="tools/call",outcome="failed"} 1\n') == 1


def test_mc_02_what_was_not_sent_did_not_run(probe):
    answer = probe.call(f"http://127.0.0.1:{mcp_rig.peers.free_port()}/mcp", "t")
    assert (answer["outcome"], answer["code"], answer["may_have_run"]) == ("failed", "UNAVAILABLE", False)


def test_mc_03_a_failed_session_is_replaced(probe, scripted):
    def broken(self, asked, h):
        h.answer(503)
        self.initialize = None

    s = scripted(ok, initialize=broken)
    first = probe.call(s.url, "t")
    assert (first["outcome"], first["code"], first["may_have_run"]) == ("failed", "UNAVAILABLE", False)
    assert probe.call(s.url, "t")["output"] == "ok"


@pytest.mark.parametrize(
    "status, code", [(401, "UNAUTHENTICATED"), (403, "PERMISSION_DENIED"), (405, "UNIMPLEMENTED"), (429, "RESOURCE_EXHAUSTED"), (302, "FAILED_PRECONDITION")]
)
def test_mc_04_a_server_that_refuses(probe, scripted, status, code):
    s = scripted(ok, initialize=lambda self, asked, h: h.answer(status, {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "reason"}}))
    answer = probe.call(s.url, "t", list_ms=2000)
    assert answer["code"] == code and "reason" in answer["output"], answer
    assert s.rpcs() == ["initialize"]


@pytest.mark.parametrize("version", ["2024-11-05", "1.0", "2099-01-01"])
def test_versions_that_are_not_spoken(probe, scripted, version):
    s = scripted(ok, version=version)
    answer = probe.call(s.url, "t")
    assert answer["code"] == "UNIMPLEMENTED" and f"`{version}`" in answer["output"]
    assert s.rpcs() == ["initialize"]


@pytest.mark.parametrize("version", ["", 7, None])
def test_a_server_that_names_no_version(probe, scripted, version):
    answer = probe.call(scripted(ok, version=version).url, "t")
    assert answer["code"] == "DATA_LOSS" and answer["output"].endswith("initialize: it has no `protocolVersion`")


def test_mc_04_json_and_streams_with_everything_in_them(probe, scripted):
    def script(asked, h):
        h.events()
        h.wfile.write(b": comment\n\nid: 7\ndata:\n\nretry: 10\n\n")
        h.event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}})
        h.event({"jsonrpc": "2.0", "id": "ping-1", "method": "ping"})
        h.event({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {}})
        h.event({"jsonrpc": "2.0", "id": 999, "result": {"content": []}})
        h.wfile.write(b"event: other\ndata: nonsense\n\n")
        text = json.dumps(rpc(asked, result={"content": [{"type": "text", "text": "o\u00e9k"}]}))
        for i in range(0, len(text), 7):
            h.wfile.write(b"data: " if i == 0 else b"")
            h.wfile.write(text[i : i + 7].encode())
            h.wfile.flush()
        h.wfile.write(b"\r\r")

    s = scripted(script)
    assert probe.call(s.url, "t")["output"] == "oék"
    answers = []
    while len(answers) < 2:
        asked = s.asked.get(timeout=10)
        if "result" in asked.message or "error" in asked.message:
            answers.append(asked.message)
    answers.sort(key=lambda a: str(a["id"]))
    assert answers[1] == {"jsonrpc": "2.0", "id": "ping-1", "result": {}}
    assert (answers[0]["id"], answers[0]["error"]["code"]) == (7, -32601)


def test_mc_09_list_changed_is_heard(probe, scripted):
    names = ["a"]

    def script(asked, h):
        if asked.rpc == "tools/list":
            h.result(asked, {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]})
            return
        names.append("b")
        h.events()
        h.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        h.event(rpc(asked, result={"content": []}))

    s = scripted(script)
    assert len(probe.tools(s.url)["tools"]) == len(probe.tools(s.url)["tools"]) == 1
    probe.call(s.url, "a")
    assert len(probe.tools(s.url)["tools"]) == 2
    assert s.rpcs().count("tools/list") == 2


def test_pages_and_what_is_left_out(probe, scripted):
    good = {"inputSchema": {"type": "object"}}
    pages = [
        {"tools": [{"name": "a", **good}, {"name": "b"}, {"name": "c d", **good}, {"name": "", **good}, 7], "nextCursor": 'x"y'},
        {"tools": [{"name": "a", **good}, {"name": "e" * 129, **good}, {"name": "f", "inputSchema": []}, {"name": "g", **good}]},
    ]

    def script(asked, h):
        h.result(asked, pages[1 if asked.message["params"].get("cursor") == 'x"y' else 0])

    s = scripted(script)
    listed = probe.tools(s.url)
    assert ([t["name"] for t in listed["tools"]], listed["left_out"]) == (["a", "g"], 7)


@pytest.mark.parametrize("what", ["endless", "many", "deep", "schema", "nonsense", "none", "error"])
def test_lists_without_measure(probe, scripted, what):
    n = 0

    def script(asked, h):
        nonlocal n
        n += 1
        tool = {"name": f"t{n}", "inputSchema": {"type": "object"}}
        if what == "endless":
            h.result(asked, {"tools": [tool], "nextCursor": "again"})
        elif what == "many":
            h.result(asked, {"tools": [{**tool, "name": f"t{i}"} for i in range(513)]})
        elif what == "deep":
            body = json.dumps(rpc(asked, result={"tools": [{**tool, "inputSchema": "@"}]})).replace('"@"', '{"a":' * 200 + "1" + "}" * 200)
            h.answer(200, body.encode())
        elif what == "schema":
            h.result(asked, {"tools": [tool, {**tool, "name": "large", "inputSchema": {"x": "y" * 70000}}]})
        elif what == "none":
            h.result(asked, {})
        elif what == "error":
            h.answer(200, rpc(asked, error={"code": -32603, "message": "it broke"}))
        else:
            h.answer(200, b"{]")

    s = scripted(script)
    listed = probe.tools(s.url)
    if what == "schema":
        assert ([t["name"] for t in listed["tools"]], listed["left_out"]) == (["t1"], 1)
    else:
        want = {"endless": "TOO_LARGE", "many": "TOO_LARGE", "error": "FAILED_PRECONDITION"}.get(what, "DATA_LOSS")
        assert listed["code"] == want, listed
    assert n <= 64


def test_a_server_without_tools_is_not_asked_for_them(probe, scripted):
    s = scripted(ok, capabilities={"prompts": {}})
    assert probe.tools(s.url)["tools"] == []
    assert "tools/list" not in s.rpcs()


@pytest.mark.parametrize("stream", [False, True])
def test_mc_16_results_that_are_no_text(probe, scripted, stream):
    body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\\ud83d\\u0000b\xff\\udc00\\ud83d\\ude00"},{"type":"x"}]}}'

    def script(asked, h):
        if stream:
            h.events()
            h.wfile.write(b"data: " + body % asked.id + b"\n\n")
        else:
            h.answer(200, body % asked.id, type="application/json; charset=utf-8")

    s = scripted(script)
    assert probe.call(s.url, "t")["output"] == "a��b��😀\n[content of another kind: not shown]"


@pytest.mark.parametrize("result", [{}, {"content": "x"}, [], "x", None])
def test_results_that_are_none(probe, scripted, result):
    s = scripted(lambda asked, h: h.result(asked, result))
    answer = probe.call(s.url, "t")
    assert (answer["outcome"], answer["code"], answer["may_have_run"]) == ("failed", "DATA_LOSS", True)


@pytest.mark.parametrize("stream", [False, True])
def test_a_message_without_end(probe, scripted, stream):
    def script(asked, h):
        if stream:
            h.events()
            piece = b"data: " + b"x" * 65536
        else:
            h.send_response(200)
            h.send_header("Content-Type", "application/json")
            h.send_header("Connection", "close")
            h.end_headers()
            piece = b" " * 65536
        try:
            for _ in range(200):
                h.wfile.write(piece)
        except OSError:
            pass
        h.close_connection = True

    s = scripted(script)
    answer = probe.call(s.url, "t")
    assert (answer["outcome"], answer["code"]) == ("failed", "TOO_LARGE"), answer


def test_mc_10_deadlines_of_their_own(probe, scripted):
    def slow_start(self, asked, h):
        time.sleep(1)
        self.start(asked, h)

    def script(asked, h):
        time.sleep(1)
        (h.text(asked, "ok") if asked.rpc == "tools/call" else h.result(asked, {"tools": []}))

    s = scripted(script)
    assert probe.tools(s.url, list_ms=300)["code"] == "DEADLINE_EXCEEDED"
    assert probe.call(s.url, "t", list_ms=300)["output"] == "ok"  # a call has its own
    t = scripted(ok, initialize=slow_start)
    answer = probe.call(t.url, "t", list_ms=300)
    assert (answer["code"], answer["may_have_run"]) == ("DEADLINE_EXCEEDED", False)
    assert probe.call(t.url, "t", list_ms=3000)["output"] == "ok"


def test_mc_15_where_it_may_connect_and_what_it_tells(probe, scripted):
    s = scripted(ok)
    assert probe.tools(s.url, private=False)["code"] == "PERMISSION_DENIED"
    assert probe.tools("http://169.254.169.254/mcp")["code"] == "PERMISSION_DENIED"
    assert probe.tools("file:///etc/passwd")["code"] == "INVALID_ARGUMENT"
    assert s.all == []
    for name in ("Host", "mcp-session-id", "Content-Length", "Accept"):
        assert probe.tools(s.url, headers={name: "x"})["code"] == "INVALID_ARGUMENT"
    other = scripted(ok)

    def away(self, asked, h):
        h.answer(307, Location=other.url)

    t = scripted(ok, initialize=away)
    answer = probe.call(t.url, "t", headers={"Authorization": "Bearer secret"})
    assert answer["code"] == "PERMISSION_DENIED" and "secret" not in json.dumps(answer)
    assert other.all == []


def test_too_many_at_once(probe, scripted):
    def script(asked, h):
        time.sleep(0.5)
        h.text(asked, "ok")

    s = scripted(script)
    ids = [probe.send("call", s.url, tool="t", arguments="{}") for _ in range(70)]
    got = {}
    while len(got) < len(ids):
        line = probe.next()
        got[line["id"]] = line
    answers = list(got.values())
    assert sum(a["outcome"] == "ok" for a in answers) == 64
    assert sum(a["code"] == "RESOURCE_EXHAUSTED" for a in answers) == 6


def test_as_many_behind_a_list(probe, scripted):
    """Who is told of a list may call at once: its question is over."""
    s = scripted(lambda asked, h: h.result(asked, {"tools": []}) if asked.rpc == "tools/list" else h.text(asked, "ok"))
    id = probe.send("list", s.url, tool="t", arguments="{}", then=65)
    assert probe.expect(id=id)["tools"] == []
    codes = [probe.expect(id=id)["code"] for _ in range(65)]
    assert sorted(codes) == ["OK"] * 64 + ["RESOURCE_EXHAUSTED"]


def test_whoever_ends_with_calls_under_way(scripted, probe):
    s = scripted(lambda asked, h: time.sleep(1))
    for _ in range(5):
        probe.send("call", s.url, tool="t", arguments="{}")
    probe.send("list", s.url)
    assert s.asked.get(timeout=10).rpc == "initialize"
    time.sleep(0.2)  # the probe's end in the fixture cancels them
