"""Markers as data in prompts: every marker of every family in what a user says and in what a tool answers. What the template writes stays the same, the text arrives whole and as the
client's, and the answer begins where it would have begun. What models answer with such text is tests/prop/parse/literal_test.c."""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "template")]
import golang  # noqa: E402
import template_corpus as corpus  # noqa: E402
from test_parse_round_trip import SPECIAL, TOOLS  # noqa: E402

CLIENT = 1


@pytest.fixture(scope="module")
def markers():
    lines = subprocess.run([golang.helper("prompt", "cases"), "markers"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    assert len(lines) > 100
    return [json.loads(line) for line in lines]


def conversations(text):
    """A user's text, and a tool's result; the shorter for templates that know no tools."""
    call = {"id": "abcdefg01", "type": "function", "function": {"name": "now", "arguments": "{}"}}
    user = {"role": "user", "content": f"u {text} v"}
    return [
        ([user, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "abcdefg01", "name": "now", "content": f"t {text} w"}], TOOLS),
        ([user], TOOLS), ([user], None), ([user], []),
    ]


def parts(answer):
    data, start, own, client = answer["text"].encode(), 0, [], []
    for end, origin in answer["runs"]:
        (client if origin == CLIENT else own).append(data[start:end].decode())
        start = end
    return "".join(own), "".join(client)


def rendered(renderer, source, messages, tools):
    answer = renderer.ask(source, {**SPECIAL, "messages": messages, "tools": tools, "documents": None, "add_generation_prompt": True},
                          origins={"messages": "client", "tools": "client"}, adapt=True)
    return parts(answer) if "text" in answer else None


# Markers that a template looks for in what a client says, as their models' own code does. It takes something away, or writes other marks around it; the rest stays the client's.
LOOKED_FOR = {"NVIDIA-Nemotron-Nano-v2": {"</think>"}}
WITHOUT = {"fireworks-ai-llama-3-firefunction-v2"}  # asks for what no client sends


@pytest.mark.parametrize("name", sorted(set(corpus.everything()) - WITHOUT))
def test_markers_that_a_client_writes(renderer, markers, name):
    source = corpus.everything()[name]
    plain = [rendered(renderer, source, *c) for c in conversations("zz")]
    kind = next(i for i, p in enumerate(plain) if p)
    own, client = plain[kind]
    wrong = []
    for marker in set(markers) - LOOKED_FOR.get(name, set()):
        got = rendered(renderer, source, *conversations(marker)[kind])
        written = client.replace("zz", marker), client.replace("t zz w", f"t {json.dumps(marker)[1:-1]} w").replace("zz", marker)
        if not got or got[0] != own or got[1] not in written:
            wrong.append((marker, got, own, client))
    assert not wrong, wrong
