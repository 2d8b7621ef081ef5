"""Mistral: mistral-common beside our parser. Turns that it renders to token ids, in each version of its vocabularies, are read as its own server reads them."""

import json
import pathlib
import random
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "template")]
from test_parse_round_trip import TOOLS, calls, text  # noqa: E402

THINKS = ("v13", "v15")


def answer(version, rng):
    """(parts, calls) as a model of that version can write them."""
    parts = [[False, text(rng)]] * rng.randrange(2)
    if version in THINKS and rng.random() < 0.5:
        parts = [[True, text(rng)], *parts]
    made = calls(rng, rng.randrange(4))
    if version in ("v2", "v3", "v3 tekken", "v7") and made:
        parts = [] if version != "v7" else parts  # a text or calls
    return (parts, made) if parts or made else ([[False, "Hi."]], made)


def check(ours, code, version, seeds):
    for seed in seeds:
        parts, made = answer(version, random.Random(seed))
        said = code.say({"mistral_write": version, "parts": parts, "calls": made})
        assert [[n, a] for n, a, _ in said["calls"]] == [list(c) for c in made], (seed, said)
        got = ours.ask(parser="mistral", reasoning_parser="mistral" if version in THINKS else "none", text=said["text"], tools=TOOLS)
        assert [[c["function"]["name"], json.loads(c["function"]["arguments"])] for c in got["tool_calls"]] == [[n, a] for n, a, _ in said["calls"]], (seed, said, got)
        if "[CALL_ID]" in said["text"]:  # in a list it comes behind the arguments, which have been sent by then
            assert [c["id"] for c in got["tool_calls"]] == [i for _, _, i in said["calls"]], (seed, said, got)
        for is_thought, mine in ((True, got["reasoning_content"]), (False, got["content"])):
            assert (mine or "").strip() == "".join(t for thought, t in said["parts"] if thought == is_thought).strip(), (seed, said, got)


VERSIONS = ("v2", "v3", "v3 tekken", "v7", "v11", "v13", "v15")


@pytest.mark.parametrize("version", VERSIONS)
def test_what_mistral_common_renders(ours, code, version):
    check(ours, code, version, range(150))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_what_mistral_common_renders_long(ours, code, version):
    check(ours, code, version, range(20_000))
