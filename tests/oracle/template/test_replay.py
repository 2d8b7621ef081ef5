"""Packaged templates with what is remembered of messages beside renders without: the same text, origins and errors, whatever is edited (tests/prop/template/walk.h)."""

import json
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import golang  # noqa: E402
import template_conversations as conversations  # noqa: E402
import template_corpus as corpus  # noqa: E402

POOL = 256


def pool(seed):
    messages = [m for c in conversations.WRITTEN.values() for m in c]
    while len(messages) < POOL:
        messages += conversations.generate(seed)[0]
        seed += 1
    return messages[:POOL]


def walk(names, steps, seed):
    """The counts of each template."""
    variants = [{k: v for k, v in conversations.variables([], s).items() if k != "messages"} for s in conversations.SETTINGS.values()]
    lines = [json.dumps({"source": corpus.everything()[n], "pool": pool(seed), "variants": variants, "seed": seed, "steps": steps}, ensure_ascii=False) for n in names]
    p = subprocess.run([golang.helper("template", "replay")], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    for name, line in zip(names, p.stdout.splitlines(), strict=True):
        counts = json.loads(line)
        assert "error" not in counts, f"{name}, seed {seed}: {counts['error']}"
        yield name, counts


def test_packaged():
    replayed = []
    for name, counts in walk(sorted(corpus.everything()), 300, 1):
        assert counts["bytes"] <= 1 << 20
        if counts["replayed"] > counts["messages"] * 0.55:
            replayed.append(name)
    # The others hand a namespace on, look through all messages from each, or go over numbers.
    assert len(replayed) >= 60, replayed


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(corpus.everything()))
def test_packaged_long(name):
    for seed in range(2, 10):
        list(walk([name], 5000, seed))
