"""What the tests of /v1/responses share: a strict reader of its streams, and one engine and gateway per text."""

import json
import threading

import openai
from programs import Gateway
from scripts import QUESTION, Scripted
from wire import Broken, Connection, named_events, stream_named
from wire import call as ask

PATH = "/v1/responses"
TOOLS = [
    {"type": "function", "name": "get_weather", "description": "Weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    {"type": "function", "name": "ping", "parameters": {"type": "object"}},
]
# Events of an item's parts and text, by what the item is: (part added, part done, delta, done, what done calls it).
PARTS = {
    "message": ("response.content_part.added", "response.content_part.done", "response.output_text.delta", "response.output_text.done", "text"),
    "reasoning": ("response.content_part.added", "response.content_part.done", "response.reasoning_text.delta", "response.reasoning_text.done", "text"),
    "summary": (
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "text",
    ),
    "function_call": (None, None, "response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments"),
    "mcp_call": (None, None, "response.mcp_call_arguments.delta", "response.mcp_call_arguments.done", "arguments"),
}
ENDS = {"response.completed", "response.incomplete", "response.failed"}


class Script(Scripted):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.client = openai.OpenAI(base_url=f"{self.gateway.url}/v1", api_key="any", max_retries=0, timeout=60)

    def ask(self, **more):
        return {"model": "m", "input": QUESTION[0]["content"], "tools": TOOLS, "max_output_tokens": 500, **more}

    def whole(self, **more):
        return self.client.responses.create(**self.ask(**more))

    def events(self, **more):
        return events(self.gateway, self.ask(**more))

    def sent(self, response):
        (event,) = self.sim.events("start", response.id)
        return event["ids"]


def events(gateway, body, headers=()):
    """The events as they stand on the wire. Their grammar is checked."""
    return read_events(stream_named(gateway.port, PATH, body, headers))


def read_events(text):
    assert "[DONE]" not in text
    found = named_events(text)
    check_grammar(found)
    return found


class Item:
    """One item of a stream, from its `added` to its `done`: the machine that a strict client is."""

    def __init__(self, e):
        self.item, self.index, self.text, self.state = e["item"], e["output_index"], "", "added"
        kind = self.item["type"]
        self.kind = kind
        if kind == "reasoning":
            self.kind = "reasoning" if "content" in self.item else "summary"
        assert self.item["id"]

    def take(self, e):
        assert e["output_index"] == self.index and e["item_id"] == self.item["id"]
        kind = e["type"]
        if kind.startswith(("response.mcp_call.", "response.mcp_list_tools.")):
            return
        added, done, delta, finished, member = PARTS[self.kind]
        if added:
            assert e["summary_index" if self.kind == "summary" else "content_index"] == 0
        if kind == added:
            assert self.state == "added" and e["part"]["text"] == ""
            self.state = "open"
        elif kind == delta:
            assert self.state == ("open" if added else "added") and e["delta"]
            self.text += e["delta"]
        elif kind == finished:
            assert e[member] == self.text
            self.state = "text done"
        else:
            assert kind == done and self.state == "text done" and e["part"]["text"] == self.text
            self.state = "part done"


def check_grammar(found):
    """created, in_progress, items that begin, grow and end, and one end that repeats them."""
    assert [e["sequence_number"] for e in found] == list(range(len(found)))
    assert [e["type"] for e in found[:2]] == ["response.created", "response.in_progress"]
    assert found[-1]["type"] in ENDS and not any(e["type"] in ENDS for e in found[:-1])
    items, done = {}, {}
    for e in found[2:-1]:
        if e["type"] == "response.output_item.added":
            assert e["output_index"] == len(items)
            items[e["output_index"]] = Item(e)
        elif e["type"] == "response.output_item.done":
            item = items[e["output_index"]]
            assert e["item"]["id"] == item.item["id"] and e["output_index"] not in done
            if e["item"]["type"] in PARTS:
                assert item.state in ("part done", "text done")
            done[e["output_index"]] = e["item"]
        else:
            assert e["output_index"] not in done or e["type"].startswith("response.mcp_call.")
            items[e["output_index"]].take(e)
    if found[-1]["type"] != "response.failed":
        assert set(done) == set(items)
        assert found[-1]["response"]["output"] == [done[i] for i in sorted(done)]
        assert found[-1]["response"]["usage"]["total_tokens"] > 0


def plain(output):
    """Items without what differs from one answer to the next."""
    found = []
    for item in output:
        value = dict(item) if isinstance(item, dict) else item.model_dump(exclude_none=True, exclude_unset=True)
        value = {k: v for k, v in value.items() if k not in ("id", "call_id", "status", "encrypted_content") and v is not None}
        if value["type"] == "message":
            value["content"] = [{k: v for k, v in part.items() if k in ("type", "text")} for part in value["content"]]
        found.append(value)
    return found


class Talker(threading.Thread):
    """One conversation after the other, with a gateway that may end at any moment. `told`: what was acknowledged, with what it said."""

    def __init__(self, s, port):
        super().__init__(daemon=True)
        self.s, self.port, self.told, self.n, self.over = s, port, {}, 0, threading.Event()
        self.start()

    def say(self, body):
        with Connection(self.port) as c:
            c.request(PATH, body)
            status, headers = c.head()
            text = b"".join(c.pieces(headers)).decode()
        assert status == 200, text
        response = read_events(text)[-1]["response"] if body.get("stream") else json.loads(text)
        assert response["status"] == "completed", response
        self.told[response["id"]] = response
        return response

    def run(self):
        previous = None
        while not self.over.is_set():
            try:
                previous, self.n = self.one(previous), self.n + 1
            except (OSError, Broken):
                return  # it was killed


def killed_and_asked(start, s, kind, seconds):
    """A gateway is killed while four clients talk to it; a new one on the same history must know all that they were told, and says it again."""
    gateway = start(Gateway, s.manifest, *s.options)
    talkers = [kind(s, gateway.port) for _ in range(4)]
    threading.Event().wait(seconds)
    gateway.kill()
    for t in talkers:
        t.over.set()
        t.join()
    told = {k: v for t in talkers for k, v in t.told.items()}
    again = start(Gateway, s.manifest, *s.options)
    for key, response in told.items():
        answer = ask(again.port, f"{PATH}/{key}")
        assert answer.status == 200 and answer.json() == response, (key, answer.body)
    again.stop()
    return told
