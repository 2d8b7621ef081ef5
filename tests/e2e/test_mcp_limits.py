"""What clients may not do with MCP tools: have a call made by a request that is refused, against their own last word, or by a rule that they misspelt; take all
descriptors of the gateway with sessions."""

import http.server
import itertools
import json
import pathlib
import re
import threading
import time

import pytest
from programs import Gateway, Sim, engine, manifest
from responses import PATH
from test_mcp_loop import PING, WEATHER, calls, kinds, rig, server  # noqa: F401
from wire import CHAT, Connection
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
    for more in ({"tools": [*r.ask()["tools"], {"type": "web_search"}]}, {"tool_choice": {"type": "function", "name": "none_of_ours"}}):
        answer = ask(r.gateway.port, PATH, {**r.ask(approval="always", input=[yes], previous_response_id=first.id), **more})
        assert answer.status == 400 and answer.json()["error"]["param"] in ("tools[1].type", "tool_choice"), answer.body
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


def test_a_request_that_is_an_allowed_call_alone(asked, server):  # noqa: F811
    """Nobody has said anything in it, but there is something to do."""
    r, first, yes, no = asked
    request, before = first.output[-1].model_dump(exclude_none=True), len(server.said())
    for item in (request, {"type": "item_reference", "id": request["id"]}):
        assert kinds(r.whole(approval="always", input=[item, yes]).output) == ["mcp_list_tools", "mcp_call", "message"]
    assert len(server.said()) == before + 2
    assert kinds(r.whole(approval="always", input=[request, no]).output)[-1] == "message" and len(server.said()) == before + 2


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_allowed_tools_are_called_in_every_generation(rig, server, mode):  # noqa: F811
    r = rig(calls(WEATHER), calls(PING), "Done.")
    before = len(server.said("ping"))
    only = [{"type": "mcp", "server_label": "s", "name": "get_weather"}]
    _, first, second, last = r.whole(tool_choice={"type": "allowed_tools", "mode": mode, "tools": only}).output
    assert first.output == "rain in Zug" and last.content[0].text == "Done."
    assert second.status == "failed" and "not allowed" in str(second.error) and len(server.said("ping")) == before


def cpu_by_thread(gateway):
    return {t.name: int((t / "schedstat").read_text().split()[0]) for t in pathlib.Path(f"/proc/{gateway.pid}/task").iterdir()}


def spent(gateway, do):
    """What each thread has spent, in ns."""
    before = cpu_by_thread(gateway)
    do()
    return {name: n - before[name] for name, n in cpu_by_thread(gateway).items() if name in before}


def loop_of(gateway):
    """The thread that answers /livez; the gateway has one loop."""
    of_loop = spent(gateway, lambda: [ask(gateway.port, "/livez") for _ in range(100)])
    return max(of_loop, key=of_loop.get)


def test_many_answers_do_not_hold_the_loop(rig, server):  # noqa: F811
    """As many items as a conversation may have: questions, answers that allow a call, and the calls. The loop has as much to do with them as with as many denials."""
    r, n = rig("Hello.", options=("--loops", "1")), 5400
    name = {"server_label": "s", "name": "ping", "arguments": "{}"}
    before, loop = len(server.said()), loop_of(r.gateway)

    def question(approve):
        items = [{"type": "mcp_approval_request", "id": f"mcpr_{i}", **name} for i in range(n)]
        items += [{"type": "mcp_approval_response", "approval_request_id": f"mcpr_{i}", "approve": approve} for i in range(n)]
        items += [{"type": "mcp_call", "id": f"mcp_{i}", "approval_request_id": f"mcpr_{i}", "output": "pong", **name} for i in range(n)]
        assert ask(r.gateway.port, PATH, r.ask(input=items)).status == 200

    question(True)
    denied, allowed = spent(r.gateway, lambda: question(False))[loop], spent(r.gateway, lambda: question(True))[loop]
    assert allowed < 4 * denied and len(server.said()) == before


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("tools[0].alowed_tools", {"alowed_tools": ["ping"]}),
        ("tools[0].headers", {"headers": {"X-A": "a\r\nX-B: b"}}),
        ("tools[0].headers", {"headers": {"a b": "c"}}),
        ("tools[0].headers", {"headers": {"Accept-Encoding": "gzip"}}),
        ("tools[0].headers", {"headers": {f"X-{i}": "y" for i in range(41)}}),
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
    assert gateway.metric("kelpie_mcp_requests_total", server="request", method="initialize", outcome="ok") == 60
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


SCHEMA = {"type": "object", "properties": {f"p{i}": {"type": "string", "description": "d" * 40} for i in range(10)}}


class LongList(http.server.BaseHTTPRequestHandler):
    """An MCP server with 400 tools of 3 kB."""

    protocol_version = "HTTP/1.1"
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [{"name": f"t{i}", "description": "D" * 2000, "inputSchema": SCHEMA} for i in range(400)]},
    }

    def log_message(self, *_):
        pass

    def do_POST(self):  # noqa: N802
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = self.results.get(asked["method"])
        body = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}).encode() if result else b""
        self.send_response(200 if result else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def long_list():
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), LongList)
    made.daemon_threads = True
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_port}/mcp"
    made.shutdown()
    made.server_close()


@pytest.fixture
def many(rig, start, qwen3_path, long_list):  # noqa: F811
    """(gateway, body(), a request's with a session of its own); the model has room for all tools."""
    r = rig("Hello.")
    sim = start(Sim, *r.sim.options, "--max-context", 10_000_000)
    gateway = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)), *r.options, wrapper=("prlimit", "--nofile=128:128"), loops=1)
    number = itertools.count()
    tool = {**r.ask()["tools"][0], "server_url": long_list}
    return gateway, lambda: {**r.ask(), "stream": True, "store": False, "tools": [{**tool, "headers": {"X-Number": str(next(number))}}]}


def test_clients_that_leave_while_a_worker_reads_their_tools(many):
    """Sessions are few here, so a list that only its request holds goes with the request: not before the worker is done with it."""
    gateway, body = many

    def leave(seconds):
        for i in range(12):
            with Connection(gateway.port) as c:
                c.request(PATH, body())
                _, headers = c.head()
                text = b""
                for piece in c.pieces(headers):
                    text += piece
                    if b"mcp_list_tools.completed" in text:
                        break
                time.sleep(seconds * i / 12)

    threads = [threading.Thread(target=leave, args=(0.06,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert ask(gateway.port, PATH, body()).status == 200


def test_a_long_list_does_not_hold_the_loop(many):
    """1.3 MB of tools are read, rendered and tokenized by a worker."""
    gateway, body = many
    same = body()

    def questions():
        for i in range(3):  # nothing of an earlier prompt is of use
            assert ask(gateway.port, PATH, {**same, "cache_salt": str(i)}).status == 200

    assert ask(gateway.port, PATH, same).status == 200
    loop = loop_of(gateway)
    of_all = spent(gateway, questions)
    assert of_all[loop] < sum(of_all.values()) / 2
