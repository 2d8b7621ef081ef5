"""SGLang's parsers beside ours, out of its wheel's sources: on well-formed calls of each family they say the same, whole and streamed; its lists of names are those that ours are held
against; and the cases of tests/prop/parse, with what differs counted."""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import golang  # noqa: E402
import pypi  # noqa: E402
from test_parse_cases_vllm import calls, same  # noqa: E402
from test_parse_round_trip import TOOLS  # noqa: E402
from test_parse_vllm import ALL, CASES, TAGS, A, invoke, keyed, objects, tags  # noqa: E402
from test_parser_names import SGLANG, SGLANG_THOUGHTS, WITHOUT, pairs  # noqa: E402

NAME, VERSION, SHA256 = "sglang", "0.5.23", "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937"
WHICH = ["--only-binary=:all:", "--platform=manylinux_2_34_x86_64", "--python-version=3.11", "--implementation=cp"]  # only its Python sources are read


def place(path):
    return path if path.parts[:2] == ("sglang", "srt") and path.suffix == ".py" else None


def sources():
    return pypi.unpacked(NAME, VERSION, SHA256, place, *WHICH)


class Theirs:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, HERE / "parse_sglang.py", sources()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.names = self.read()

    def read(self):
        while not (line := self.process.stdout.readline()).startswith("["):
            assert line, "SGLang's side ended"
        return json.loads(line)

    def ask(self, text, tools=TOOLS, parser=None, reasoning=None, forced=None, pieces=0):
        self.process.stdin.write(json.dumps({"text": text, "tools": tools, "parser": parser, "reasoning": reasoning, "forced": forced, "pieces": pieces}) + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        return self.process.wait()


@pytest.fixture(scope="module")
def theirs():
    t = Theirs()
    yield t
    t.close()


def test_names_are_sglangs(theirs):
    listed = [sorted({t for t, _ in pairs(names)}) for names in (SGLANG, SGLANG_THOUGHTS)]
    assert listed == theirs.names


GCML = "<｜GCML｜tool_calls>\n" + tags(
    lambda n, p: f'<｜GCML｜invoke name="{n}">\n{p}</｜GCML｜invoke>\n',
    lambda k, v: f'<｜GCML｜parameter name="{k}" string="{"true" if k == "city" else "false"}">{v}</｜GCML｜parameter>\n') + "</｜GCML｜tool_calls>"
HERMES = "".join(f"<tool_call>\n{o}\n</tool_call>\n" for o in objects())
# ours: (text, calls)
MORE = {
    "gigachat35": (f"I look.{GCML}", TAGS),
    "iquest_q1": (keyed("").replace("tool_call>", "iquest_tool_call>"), TAGS),
    "trinity": (f"I look.{HERMES}", ALL),
    "minicpm5": (tags(lambda n, p: f'<function name="{n}">{p}</function>', lambda k, v: f'<param name="{k}">{v}</param>'), TAGS),
    "glm45": (keyed(""), TAGS),
    "lfm2": ("<|tool_call_start|>" + CASES["llama4_pythonic"][1] + "<|tool_call_end|>", ALL),
    "gemma4": ('I look.<|tool_call>call:get_weather{city:<|"|>Zü, {x}<|"|>,days:3,exact:true}<tool_call|>', [["get_weather", {"city": "Zü, {x}", "days": 3, "exact": True}]]),
    "mistral": ("[TOOL_CALLS]get_weather[ARGS]" + json.dumps(A) + "[TOOL_CALLS]now[ARGS]{}", ALL[:2]),
    "llama3_json": ("<|python_tag|>" + objects(arguments="parameters")[0], ALL[:1]),
    "qwen3_coder": (tags(lambda n, p: f"<tool_call>\n<function={n}>\n{p}</function>\n</tool_call>\n", lambda k, v: f"<parameter={k}>\n{v}\n</parameter>\n"), TAGS),
    "kimi_k2": ("<|tool_calls_section_begin|>" + "".join(
        f"<|tool_call_begin|>functions.{n}:{i}<|tool_call_argument_begin|>{json.dumps(a)}<|tool_call_end|>" for i, (n, a) in enumerate(ALL)) + "<|tool_calls_section_end|>", ALL),
    "deepseek_v31": ("<｜tool▁calls▁begin｜>" + "".join(
        f"<｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{json.dumps(a)}<｜tool▁call▁end｜>" for n, a in ALL) + "<｜tool▁calls▁end｜>", ALL),
    "deepseek_v3": ("<｜tool▁calls▁begin｜>" + "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{json.dumps(a)}\n```<｜tool▁call▁end｜>" for n, a in ALL) + "<｜tool▁calls▁end｜>", ALL),
    "deepseek_v32": (GCML.replace("GCML", "DSML").replace("tool_calls", "function_calls"), TAGS),
    "deepseek_v4": (GCML.replace("GCML", "DSML"), TAGS),
    "deepseek_v4, V4.1": (GCML.replace("｜GCML｜", "｜DSML｜ ").replace(" tool_calls", " calls"), TAGS),
    "glm45, 4.7": (keyed("").replace("get_weather\n", "get_weather"), TAGS),
    "cohere": ("<|START_ACTION|>[" + ", ".join(json.dumps({"tool_call_id": str(i), "tool_name": n, "parameters": a}) for i, (n, a) in enumerate(ALL)) + "]<|END_ACTION|>", ALL),
    "hunyuan, tags": ("I look.<tool_calls>\n" + tags(
        lambda n, p: f"<tool_call>{n}<tool_sep>\n{p}</tool_call>\n", lambda k, v: f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n") + "</tool_calls>", TAGS),
    "internlm, spaced": (f"I look.<|action_start|> <|plugin|>\n{objects(arguments='parameters')[0]}<|action_end|>", ALL[:1]),
    "muse_glimmer, a message": (f" to=user<|message|>I look.<|eom|><|start|>assistant to=functions<|message|><atem:function_calls>\n{invoke('atem:')}\n</atem:function_calls>", TAGS),
    "qwen3_coder, no lines": (tags(lambda n, p: f"<tool_call><function={n}>{p}</function></tool_call>", lambda k, v: f"<parameter={k}>{v}</parameter>"), TAGS),
    "gigachat3": ("I look.<|function_call|>" + objects()[0], ALL[:1]),
}
TEXTS = {name: (text, made) for name, (_, text, made) in CASES.items()} | MORE
# What SGLang makes of a text instead, whole or streamed, and why ours does not.
DIFFERS = {
    ("hunyuan", "hunyuan"): "reads the tags of newer ones only, and drops a list of objects",
    ("interns1", "internlm"): "wants a blank between the two markers, as Intern-S1 writes it; InternLM 2.5's template writes none",
    ("muse", "muse_glimmer"): "reads calls only in a message to a tool, and the parser of thoughts has taken that header away by then",
    ("deepseekv41", "deepseek_v4"): "V4.1 writes its tags with a blank: the case below",
    ("deepseekv4", "deepseek_v4, V4.1"): "as V4.1 only",
    ("glm", "glm45, 4.7"): "wants 4.5's line end behind the name, else nothing is left of the text",
    ("glm45", "glm45, 4.7"): "the same",
    ("glm47", "glm45"): "4.7 has no line end behind the name, and SGLang makes it a part of the name where it is not streamed",
    ("mimo", "qwen3_coder"): "keeps the line ends around a value, so that true is false; MiMo writes none, and then both say the same",
}


def read(answer):
    return [[n, json.loads(a)] for n, a in answer[0]]


BOTH = sorted((t, name) for t, family in pairs(SGLANG) if t not in WITHOUT for name in TEXTS if name.partition(", ")[0] == family)


@pytest.mark.parametrize("theirs_name, name", BOTH)
@pytest.mark.parametrize("pieces", [0, 1, 7])
def test_parse_is_sglangs(ours, theirs, theirs_name, name, pieces):
    text, made = TEXTS[name]
    family = name.partition(", ")[0]
    framed = theirs_name if family in ("inkling", "muse_glimmer") else None  # what is a message, and to whom, is the other parser's
    got = ours.ask(parser=family, reasoning_parser="none" if family != "muse_glimmer" else family, text=text, tools=TOOLS)
    assert [[c["function"]["name"], json.loads(c["function"]["arguments"])] for c in got["tool_calls"]] == made
    said = theirs.ask(text, parser=theirs_name, pieces=pieces, reasoning=framed)
    if (theirs_name, name) in DIFFERS:
        return
    assert said[0] != "error" and read(said) == made, said
    assert (said[1] or "").strip() == (got["content"] or "").strip()


def meaning(said):
    """As tests/prop/parse/cases.h writes it, but for the order, which SGLang's answer has not."""
    return [(n, a) for n, a in said[0]], (said[1] or "").strip(), (said[2] or "").strip()


def wanted(means):
    texts = {"C": "", "R": ""}
    kind = None
    for line in means.split("\n"):
        kind = line[0] if line[:2] in ("C:", "R:", "T:") else kind
        if kind in texts:
            texts[kind] += line[2:] if line[:2] in ("C:", "R:") else "\n" + line
    return calls(means), texts["C"].strip(), texts["R"].strip()


def test_tc_cases_of_ours(theirs):
    """How many of our cases, most of them damaged on purpose, SGLang reads as they mean. The others are no fault of ours: family_test.c says what each means, and why is in docs/parsers.md."""
    lines = subprocess.run([golang.helper("prompt", "cases")], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    tools, cases = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    # The parser of the same name where there is one, else the first.
    parsers, thoughts = ({family: t for t, family in sorted(reversed(pairs(names)), key=lambda p: p[0] == p[1]) if t not in WITHOUT} for names in (SGLANG, SGLANG_THOUGHTS))
    n, right, wrong = 0, 0, {}
    for case in cases:
        if (case["tools"] and case["tools"] not in parsers) or (case["thinking"] and case["thinking"] not in thoughts):
            continue
        reasoning = thoughts.get(case["thinking"]) or {"harmony": "gpt-oss", "inkling": "inkling"}.get(case["tools"])
        said = theirs.ask(case["text"], tools=tools, parser=parsers.get(case["tools"]), reasoning=reasoning)
        want, n = wanted(case["means"]), n + 1
        got = meaning(said) if said[0] != "error" else None
        if got and [c[0] for c in got[0]] == [c[0] for c in want[0]] and all(same(a[1], b[1]) for a, b in zip(got[0], want[0])) and got[1:] == want[1:]:
            right += 1
        else:
            wrong.setdefault(case["tools"] or case["thinking"], []).append((case["text"], want, said))
    print(f"\nSGLang reads {right} of {n} cases as they mean ({100 * right / n:.1f} %); ours all, in every cut. Otherwise:")
    for family, all_ in sorted(wrong.items()):
        print(f"  {family}: {len(all_)}, {all_[0]!r}")
    assert right > n / 3
