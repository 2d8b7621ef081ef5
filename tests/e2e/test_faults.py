"""Every fault of the simulated engine, behind both protocols, on an engine of the gateway's own and on another gateway's: what the
client gets is the table in docs/faults.md, which is read here."""

import json
import pathlib
import re

import pytest
from programs import QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until
from wire import CHAT, COMPLETIONS, call

TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/faults.md"
REQUEST_TIMEOUT = 4  # seconds, so that an engine that never answers is one row among others


def rows():
    """(fault, case, expected) of each cell: the fault before the first token alone, with another engine, and after three tokens."""
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    for line in lines:
        fault, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for case, cell in zip(("alone", "with another", "after tokens"), cells):
            if cell != "–":
                yield pytest.param(fault.strip("`"), case, cell, id=f"{fault.strip('`')}-{case.replace(' ', '-')}")


@pytest.fixture(scope="module", params=["vllm-own", "sglang-own", "vllm-forwarded", "sglang-forwarded"])
def chain(request, start_shared, qwen3_path, tmp_path_factory):
    protocol, way = request.param.split("-")
    return Chain(start_shared, qwen3_path, tmp_path_factory.mktemp("faults"), protocol, way == "forwarded")


class Chain:
    """Models `alone` (one engine, which fails) and `both` (that one and a good one) behind one gateway, or behind two."""

    def __init__(self, start, qwen3_path, directory, protocol, forwarded):
        self.start, self.faults, self.fault = start, directory / "faults", ""
        self.is_first = protocol == "vllm" and not forwarded
        self.faults.write_text("")
        self.bad = start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 1, "--control", self.faults)
        self.good = start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 1)
        text = manifest(
            engine("alone", self.bad.port, model="alone", path=qwen3_path, type=protocol),
            engine("both", self.bad.port, self.good.port, model="both", path=qwen3_path, type=protocol),
        )
        # In turn, whatever failed before: so that the failing engine is asked.
        limit = ("--request-timeout", REQUEST_TIMEOUT, "--routing", "round_robin")
        if forwarded:
            operator = start(Operator, text)
            control = ("--control", f"127.0.0.1:{operator.port}")
            own = ("--own", "default/alone", "--own", "default/both", "--peer-listen", "127.0.0.1:0")
            self.owner = start(Gateway, None, *control, "--id", "owner", *own, *limit)
            self.gateway = start(Gateway, None, *control, "--id", "entry", *limit)
        else:
            self.owner = self.gateway = start(Gateway, text, *limit)
        self.wait()

    def wait(self):
        """Until every engine takes requests, and failures are forgotten."""
        self.faults.write_text("")
        if self.fault.startswith("die"):
            self.bad.wait()
            self.fault = ""
            self.bad = self.start(
                Sim, *self.bad.options, port=self.bad.port, log=self.bad.events_file
            )
        ready = lambda: all(g.ask("/readyz?verbose")[1].count(": routable") == 3 for g in {self.owner, self.gateway})
        wait_until(ready, "three endpoints")

    def ask(self, model, fault, body, path=COMPLETIONS):
        """The answer of a request that the failing engine has seen."""
        self.fault = fault
        self.faults.write_text(f"{fault}\n" if fault else "")
        for _ in range(40):
            before = len(self.bad.events("start"))
            asked = {"prompt": "Hello"} if path == COMPLETIONS else {"messages": [{"role": "user", "content": "Hello"}]}
            answer = call(self.gateway.port, path, {**asked, "model": model, **body})
            if len(self.bad.events("start")) > before or model == "alone":
                return answer
        raise AssertionError("the failing engine is never asked")


def in_messages():
    """What the table says, in the words of Anthropic's Messages."""
    text = TABLE.read_text(encoding="utf-8").partition("| here | Messages |")[2].partition("\n\n")[0]
    found = {}
    for line in text.splitlines()[2:]:
        here, there = (cell.strip() for cell in line.strip("|").split("|"))
        for one in re.split(r" or |, ", here):
            status = re.match(r"\d+|error event", one)[0]
            name = (re.search(r"`\w+`", one) or re.search(r"`\w+`", here))[0]
            found[f"{status} {name}"] = there
    return {**found, "answer": "answer"}


def outcome_of_message(answer):
    text = answer.body.decode()
    if answer.status != 200:
        return f"{answer.status} `{answer.json()['error']['type']}`"
    if text.startswith("{"):
        return "answer"
    assert text.count("event: error\n") <= 1 and ("event: error\n" in text) != text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    error = re.search(r"^event: error\ndata: (.*)\n\n\Z", text, flags=re.M)
    return f"error event `{json.loads(error[1])['error']['type']}`" if error else "answer"


def outcome(answer, streamed):
    """In the words of the table."""
    text = answer.body.decode()
    if answer.status != 200:
        return f"{answer.status} `{answer.error['code'] or answer.error['type']}`"
    if not streamed:
        return "answer"
    errors = [json.loads(line[6:])["error"] for line in text.splitlines() if line.startswith('data: {"error"')]
    assert len(errors) <= 1 and text.endswith("data: [DONE]\n\n") != bool(errors), text[-500:]
    return f"error event `{errors[0]['code'] or errors[0]['type']}`" if errors else "answer"


@pytest.mark.parametrize("fault, case, expected", list(rows()))
def test_fault(chain, fault, case, expected):
    k = ":3" if case == "after tokens" else ""
    model = "both" if case == "with another" else "alone"
    for streamed in (True, False):
        chain.wait()
        answer = chain.ask(model, fault + k, {"max_tokens": 8, "stream": streamed})
        got = outcome(answer, streamed)
        if streamed or not expected.startswith("error event"):
            assert got == expected
        else:  # one that is not streamed has its status still free
            assert re.fullmatch(r"5\d\d " + re.escape(expected.removeprefix("error event ")), got), got
    # In the other dialects the same; once for each fault is enough.
    if chain.is_first and case != "with another":
        chain.wait()
        answer = chain.ask(model, fault + k, {"max_tokens": 8, "stream": True}, CHAT)
        assert outcome(answer, True) == expected
        chain.wait()
        answer = chain.ask(model, fault + k, {"max_tokens": 8, "stream": True}, "/v1/messages")
        assert outcome_of_message(answer) == in_messages()[expected], answer.body
    # Whatever happened, nothing is left behind.
    for g in {chain.owner, chain.gateway}:
        wait_until(lambda: g.metric("kelpie_requests_in_flight") == 0, "nothing in flight")
