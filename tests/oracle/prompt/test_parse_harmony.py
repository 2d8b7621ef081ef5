"""gpt-oss: openai-harmony beside our parser, both ways. Messages that it renders to token ids we read as they were; and what it reads out of a text, written in the ways that models do,
we read, too."""

import json
import pathlib
import random
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "template")]
from test_parse_round_trip import TOOLS, arguments, text  # noqa: E402

BUILT_IN = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}} for name in ("python", "browser.search", "browser.open")]


def message(content, channel, recipient=None, kind=None):
    return {"content": content, "channel": channel, "recipient": recipient, "content_type": kind}


def answer(rng):
    """What a model writes in a turn: thoughts, preambles, calls of the client's tools and of its own, the answer."""
    out = []
    for _ in range(rng.randrange(1, 5)):
        kind = rng.randrange(6)
        if kind == 0:
            out.append(message(text(rng), "analysis"))
        elif kind == 1:
            out.append(message(text(rng), "commentary"))
        elif kind == 2:
            out.append(message(json.dumps(arguments(rng), ensure_ascii=False), "commentary", "functions.get_weather", "<|constrain|>json"))
        elif kind == 3:
            out.append(message("{}", "commentary", "functions.now", rng.choice(["<|constrain|>json", "json", None])))
        elif kind == 4:
            out.append(message("print(1)\n", "analysis", "python", rng.choice(["code", None])))
        else:
            out.append(message('{"query": "x"}', rng.choice(["analysis", "commentary"]), "browser.search", rng.choice(["code", None])))
    return out + [message(text(rng), "final")] * rng.randrange(2)


def meaning(messages, offered):
    """(calls, thoughts, text): what a client should get of it."""
    calls, thought, shown = [], "", ""
    for m in messages:
        to = m["recipient"] or ""
        if to.startswith("functions."):
            calls.append([to[10:], json.loads(m["content"])])
        elif to in offered:
            calls.append([to, {"code": m["content"]} if to == "python" else json.loads(m["content"])])
        elif to or m["channel"] == "analysis":
            thought += m["content"]
        else:
            shown += m["content"]
    return calls, thought, shown


def read(ours, written, tools):
    got = ours.ask(parser="harmony", text=written, tools=tools)
    return [[c["function"]["name"], json.loads(c["function"]["arguments"])] for c in got["tool_calls"]], got["reasoning_content"] or "", got["content"] or ""


@pytest.mark.parametrize("tools, offered", [(TOOLS, ()), (TOOLS + BUILT_IN, ("python", "browser.search", "browser.open"))], ids=["functions", "built-in tools"])
def test_what_harmony_renders(ours, code, tools, offered):
    for seed in range(200):
        messages = answer(random.Random(seed))
        said = code.say({"harmony_write": messages})
        assert said.get("read") == messages, (seed, said)  # harmony's own parser, on the ids
        assert read(ours, said["text"], tools) == meaning(messages, offered), (seed, said["text"])


# Headers as models write them, which openai-harmony's renderer does not.
WRITTEN = [
    '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "x"}<|call|>',
    ' to=functions.get_weather<|channel|>commentary json<|message|>{"city": "x"}<|call|>',
    ' to=functions.get_weather<|channel|>analysis<|message|>{"city": "x"}<|call|>',
    '<|channel|>analysis to=functions.get_weather code<|message|>{"city": "x"}<|call|>',
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}<|call|>',
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.now<|channel|>commentary<|message|>{}<|call|>',
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>",
    "<|channel|>final <|constrain|>json<|message|>{}<|return|>",
    "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>analysis to=python code<|message|>print(1)<|call|>",
    "<|channel|>analysis to=browser.search code<|message|>{}<|call|>",
    "<|channel|>final<|message|>no end",
]


# Where openai-harmony takes a marker for a part of the receiver's name; a client is told the name, and the answer.
QUIRKS = {WRITTEN[4]: ([["now", {}]], "Hm.", ""), WRITTEN[7]: ([], "", "{}")}


@pytest.mark.parametrize("written", WRITTEN)
def test_what_harmony_reads(ours, code, written):
    said = code.say({"harmony_read": written})["read"]
    got = read(ours, written, TOOLS)
    if written in QUIRKS:
        assert any("<|" in (m["recipient"] or "") for m in said) and got == QUIRKS[written]
    else:
        assert got == meaning(said, ())
