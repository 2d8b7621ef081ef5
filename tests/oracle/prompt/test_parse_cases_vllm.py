"""vLLM's parsers of tool calls on the cases of tests/prop/parse, whole: how many it reads as they mean. By hand (hack/check-vllm). What differs is theirs or a matter of
taste; a case of which vLLM finds the calls and we did not would be a fault here, and family_test.c says that there is none."""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import golang  # noqa: E402
from test_parse_vllm import vllm  # noqa: E402, F401
from test_parser_names import VLLM, WITHOUT, pairs  # noqa: E402

pytestmark = pytest.mark.heavy


def calls(means):
    found = [line[2:].partition(" ") for line in means.split("\n") if line.startswith("T:")]
    return [(name, arguments) for name, _, arguments in found]


def same(a, b):
    try:
        return json.loads(a) == json.loads(b)
    except ValueError:
        return a == b


def test_tc_cases_of_ours(vllm):  # noqa: F811
    lines = subprocess.run([golang.helper("prompt", "cases")], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    tools, cases = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    for t in tools:
        t["function"].setdefault("parameters", {"type": "object", "properties": {}})
    names = {ours: theirs for theirs, ours in reversed(pairs(VLLM)) if theirs not in WITHOUT}
    n, right, wrong = 0, 0, {}
    for case in cases:
        if case["tools"] not in names or case["tools"] in ("harmony", "inkling") or case["thinking"]:  # those two are read from ids only
            continue
        want = calls(case["means"])
        said = vllm(parser=names[case["tools"]], text=case["text"], tools=tools)
        n += 1
        if said[0] != "error" and [c[0] for c in said[0]] == [w[0] for w in want] and all(same(c[1], w[1]) for c, w in zip(said[0], want)):
            right += 1
        else:
            wrong.setdefault(case["tools"], []).append(case["text"][:60])
    print(f"\nvLLM reads the calls of {right} of {n} cases as they mean ({100 * right / n:.1f} %); ours all, in every cut. Otherwise:")
    for family, texts in sorted(wrong.items()):
        print(f"  {family}: {len(texts)}, {texts[0]!r}")
    assert right > n / 2
