"""Structural tags beside xgrammar, which is what vLLM and SGLang constrain with: each is compiled; calls as each model's own template renders them are admitted, what was
not asked for is not, and whatever is admitted is read back by the parser as the calls that were asked for."""

import json
import pathlib
import random
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "template")]
import golang  # noqa: E402
import template_corpus as corpus  # noqa: E402
import test_parse_round_trip as trips  # noqa: E402
import xgrammar_live  # noqa: E402

DEFS = {"unit": {"enum": ["c", "f"]}}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"$ref": "#/$defs/unit"}}, "required": ["city"], "additionalProperties": False, "$defs": DEFS}}},
    {"type": "function", "function": {"name": "my-tool.v2", "strict": True, "parameters": {
        "type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False}}},
    {"type": "function", "function": {"name": "now"}},
]
NAMED = {"type": "function", "function": {"name": "my-tool.v2"}}


def allowed(mode, *names):
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [{"type": "function", "function": {"name": n}} for n in names]}}


THINK = ["<think>", "</think>"]
# Each family: the thoughts it goes with, and what of its markers a vocabulary has as tokens.
FAMILIES = {
    "hermes": ("qwen3", ["<tool_call>", "</tool_call>", *THINK]),
    "ernie45": ("ernie45", ["<tool_call>", "</tool_call>", *THINK]),
    "qwen3_coder": ("qwen3_thinking", ["<tool_call>", "</tool_call>", *THINK]),
    "seed_oss": ("seed_oss", ["<seed:tool_call>", "</seed:tool_call>", "<seed:think>", "</seed:think>"]),
    "llama3_json": (None, ["<|python_tag|>"]),
    "functionary_v31": (None, []),
    "mistral": ("mistral", ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"]),
    "deepseek_v3": ("deepseek_r1", ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", *THINK]),
    "deepseek_v31": ("deepseek_v3", ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>", *THINK]),
    "deepseek_v32": ("deepseek_v3", THINK),
    "deepseek_v4": ("deepseek_v3", THINK),
    "kimi_k2": ("kimi_k2", ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>", *THINK]),
    "kimi_k3": ("kimi_k3", ["<|open|>", "<|close|>", "<|sep|>"]),
    "glm45": ("glm45", ["<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", *THINK]),
    "longcat": (None, []),
    "minimax_m2": ("minimax_m2", ["<minimax:tool_call>", "</minimax:tool_call>", *THINK]),
    "cohere": ("cohere", ["<|START_ACTION|>", "<|END_ACTION|>", "<|START_THINKING|>", "<|END_THINKING|>"]),
    "nemotron": ("qwen3", ["<TOOLCALL>", "</TOOLCALL>", *THINK]),
    "phi4_mini": (None, []),
    "granite": ("granite", ["<|tool_call|>"]),
    "granite_20b_fc": (None, ["<function_call>"]),
    "internlm": (None, ["<|action_start|>", "<|action_end|>", "<|plugin|>"]),
    "hunyuan": ("hunyuan", ["<tool_calls>", "</tool_calls>"]),
    "apertus": ("apertus", ["<|tools_prefix|>", "<|tools_suffix|>", "<|inner_prefix|>", "<|inner_suffix|>"]),
    "xlam": (None, []),
    "gigachat3": (None, ["<|function_call|>", "<|message_sep|>"]),
    "solar_open": ("solar_open", ["<|tool_calls|>", "<|calls|>", "<|tool_call:begin|>", "<|tool_call:name|>", "<|tool_call:args|>", "<|tool_call:end|>", "<|think|>", "<|end|>", "<|begin|>", "<|content|>"]),
    "trinity": ("qwen3", ["<tool_call>", "</tool_call>", *THINK]),
    "iquest_q1": ("iquest_q1", ["<iquest_tool_call>", "</iquest_tool_call>", *THINK]),
    "minimax_m3": ("minimax_m3", ["]<]minimax[>[", "<mm:think>", "</mm:think>"]),
    "harmony": (None, ["<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>"]),
    # No form: a list of objects.
    "minicpm5": ("qwen3", THINK),
    "dots": ("qwen3", THINK),
    "inkling": (None, []),
    "llama4_pythonic": (None, []),
    "lfm2": ("qwen3", ["<|tool_call_start|>", "<|tool_call_end|>"]),
    "olmo3": ("olmo3", THINK),
    "muse_glimmer": (None, []),
    "step3": ("step3", THINK),
    "functiongemma": (None, []),
    "gemma4": ("gemma4", ["<|tool_call>", "<tool_call|>", "<|channel>", "<channel|>", '<|"|>']),
    None: ("qwen3", THINK),
}
# What ends free text and values: tried more often than chance would.
CLOSERS = {"deepseek_v3": ["</think>", "}\n```", "<｜tool▁calls▁end｜>"],
           "granite": ["Here is my response:"], "hunyuan": ["</think>"], "qwen3_coder": ["</think>", "\n</parameter>"], "seed_oss": ["</seed:think>", "\n</parameter>"],
           "minimax_m2": ["</think>", "\n</parameter>"], "deepseek_v32": ["</think>", "</｜DSML｜parameter>"], "deepseek_v4": ["</think>", "</｜DSML｜parameter>"],
           "glm45": ["</think>", "</arg_value>"], "iquest_q1": ["</think>", "</arg_value>"], "minimax_m3": ["</mm:think>", "]<]minimax[>[</city>", "]<]minimax[>[</tool_call>"], "solar_open": ["<|end|>"], "kimi_k3": ["x<|close|>argument<|sep|>", "<|close|>think<|sep|>", "<|close|>tools<|sep|>"], "apertus": ["<|inner_suffix|>"], "cohere": ["<|END_THINKING|>"],
           "mistral": ["[/THINK]"], "gemma4": ["<channel|>"], "harmony": ["<|end|>"]}
MARKS = {"seed_oss": ["<seed:tool_call>", "</seed:tool_call>", "<function="], "qwen3_coder": ["<tool_call>", "</tool_call>", "<function="], "minimax_m2": ["<invoke", "</invoke>"],
         "glm45": ["<tool_call>", "</tool_call>"], "iquest_q1": ["<iquest_tool_call>", "</iquest_tool_call>"], "minimax_m3": ["<invoke", "</invoke>", "]<]minimax[>[</invoke>"], "kimi_k3": ["<|open|>call", "<|close|>call"], "deepseek_v32": ["<｜DSML｜invoke", "</｜DSML｜invoke"], "deepseek_v4": ["<｜DSML｜invoke", "</｜DSML｜invoke"]}
NO_FORM = {"minicpm5", "dots", "inkling", "llama4_pythonic", "lfm2", "olmo3", "muse_glimmer", "step3", "functiongemma", "gemma4", None}
NOT_IN_TEXT = NO_FORM | {"llama3_json", "xlam"}  # where `auto` cannot be limited
CASES = [(name, tokens) for name, (_, controls) in FAMILIES.items() for tokens in [bool(controls)]]


class Constrain:
    def __init__(self):
        self.process = subprocess.Popen([golang.helper("prompt", "constrain")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def constrain():
    c = Constrain()
    yield c
    c.process.stdin.close()
    assert c.process.wait() == 0


def arguments_are_right(name, arguments):
    match name:
        case "get_weather":
            return isinstance(arguments.get("city"), str) and set(arguments) <= {"city", "days", "unit"} and arguments.get("unit", "c").strip() in ("c", "f") and isinstance(arguments.get("days", 1), int)
        case "my-tool.v2":
            return list(arguments) == ["on"] and isinstance(arguments["on"], bool)
    return name == "now" and isinstance(arguments, dict)


def calls_of(message):
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message["tool_calls"]]


def family(name, tokens):
    thinking, controls = FAMILIES[name]
    # Without tokens harmony's headers are text; everywhere else the markers are found by their text.
    return {"tools": name, "thinking": thinking, "controls": controls if tokens else []}


def is_odd(name, text):
    """In its XML styles xgrammar lets strings hold the family's own markers, which no parser can tell from real ones."""
    return any(text.count(m) != text.count(MARKS[name][0]) for m in MARKS.get(name, ())) or text.count("<|close|>tools") > 1


def outputs(constrain, request, seed, n, closers=None):
    """n outputs that the constraint admits, and what the parser makes of each."""
    answer = constrain(**request)
    assert answer.get("kind") == 6, answer
    vocabulary = xgrammar_live.Vocabulary(request["controls"])
    matcher = vocabulary.matcher(answer["text"])
    rng = random.Random(seed)
    words = [vocabulary.encode(w) for w in closers or CLOSERS.get(request["tools"], ["</think>"])]
    made = []
    for _ in range(12 * n):
        if len(made) == n:
            break
        ids = matcher.walk(rng, words)
        assert not isinstance(ids, tuple), ("stuck", vocabulary.decode(ids[1]))
        if ids is not None and len(made) < n and not is_odd(request["tools"], text := vocabulary.decode(ids)):
            made.append(vocabulary.encode(text))  # in the tokens that a tokenizer would make of it
    assert made, "no output came to its end"
    messages = constrain(**request, outputs=made)["messages"]
    return [(vocabulary.decode(ids), message) for ids, message in zip(made, messages, strict=True)], matcher, vocabulary


@pytest.mark.parametrize(("name", "tokens"), CASES)
@pytest.mark.parametrize("start", ["text", "thought", "auto"])
def test_tc26_tc34_so04_what_required_admits_is_read_back_as_calls(constrain, name, tokens, start):
    """TC-26, TC-34: read by what was asked for; SO-04: each tool's $defs come along."""
    for choice, parallel, names in [("required", True, None), (NAMED, True, ["my-tool.v2"]), (allowed("required", "now", "get_weather"), False, ["now", "get_weather"])]:
        request = {**family(name, tokens), "start": start, "chat": {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": parallel}}
        made, matcher, vocabulary = outputs(constrain, request, f"{name} {choice}", 3)
        for text, message in made:
            calls = calls_of(message)
            assert calls and not (message["content"] or "").strip(), (text, message)
            assert all(arguments_are_right(*c) for c in calls), (text, calls)
            assert not names or {c[0] for c in calls} <= set(names), (text, calls)
            assert len(calls) == 1 or (parallel and choice != NAMED)
        if start == "text":
            assert matcher.stops_at(vocabulary.encode("It is sunny.")) < 12


@pytest.mark.parametrize(("name", "tokens"), CASES)
def test_auto_with_allowed_tools(constrain, name, tokens):
    request = {**family(name, tokens), "start": "text", "chat": {"tools": TOOLS, "tool_choice": allowed("auto", "now", "my-tool.v2")}}
    if name in NOT_IN_TEXT:
        assert constrain(**request)["param"] == "tool_choice"
        return
    made, matcher, vocabulary = outputs(constrain, request, name, 4)
    for text, message in made:
        assert all(n in ("now", "my-tool.v2") and arguments_are_right(n, a) for n, a in calls_of(message)), (text, message)
    if name != "harmony":
        assert matcher.takes(vocabulary.encode("It is sunny."))


@pytest.mark.parametrize(("name", "tokens"), CASES)
@pytest.mark.parametrize("start", ["text", "thought", "auto"])
def test_so01_so09_a_format_leaves_thoughts_alone(constrain, name, tokens, start):
    """SO-01, SO-09: a schema holds for the answer, not for the thought before it; beside tools either comes."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    for chat in ({}, {"tools": TOOLS}):
        request = {**family(name, tokens), "start": start, "chat": chat, "format": {"kind": 2, "schema": schema}}
        if chat and name in NO_FORM:
            assert constrain(**request)["param"] == "response_format"
            continue
        if constrain(**request).get("kind") == 2:
            assert start == "text" or FAMILIES[name][0] is None
            continue
        for text, message in outputs(constrain, request, name, 3)[0]:
            if message["tool_calls"]:
                assert chat and all(isinstance(a, dict) for _, a in calls_of(message)), (text, message)
            else:
                assert isinstance(json.loads(message["content"])["n"], int), (text, message)


def test_markers_with_a_suffix(constrain):
    """Hy 3: a suffix of the vocabulary's own stands in all markers."""
    controls = [f"<{name}:6124c78e>" for name in ("think", "/think", "tool_calls", "/tool_calls", "tool_call", "/tool_call", "tool_sep", "arg_key", "/arg_key", "arg_value", "/arg_value")]
    request = {"tools": "hunyuan", "thinking": "hunyuan", "controls": controls, "start": "thought", "chat": {"tools": TOOLS, "tool_choice": "required"}}
    for text, message in outputs(constrain, request, "suffix", 3, ["</think:6124c78e>"])[0]:
        calls = calls_of(message)
        assert calls and not (message["content"] or "").strip() and all(arguments_are_right(*c) for c in calls), (text, message)


def test_every_kind_of_format(constrain):
    thinking = {"tools": "hermes", "thinking": "qwen3", "start": "thought", "controls": THINK, "chat": {}}
    vocabulary = xgrammar_live.Vocabulary(THINK)
    old = {"structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}], "triggers": ["<f>"]}
    new = {"type": "structural_tag", "format": {"type": "const_string", "value": "yes"}}
    for kind, more, good, bad in [
        (1, {}, '{"a": [1, {}]}', "[1]"),
        (2, {"schema": {"type": "array", "items": {"type": "integer"}}}, "[1, 2]", "{}"),
        (3, {"text": "[a-c]+\\d"}, "abc7", "abc"),
        (4, {"text": 'root ::= "x" root | "y"'}, "xxy", "xx"),
        (5, {"choices": ["yes", 'n"o']}, 'n"o', "y"),
        (6, {"text": json.dumps(new)}, "yes", "no"),
        (6, {"text": json.dumps(old)}, "well <f>12</f>.", "well <f>x</f>."),
    ]:
        answer = constrain(**thinking, format={"kind": kind, **more})
        matcher = vocabulary.matcher(answer["text"])
        assert matcher.takes(vocabulary.encode(f"Hm.</think>\n\n{good}")), answer
        assert matcher.takes(vocabulary.encode(f"</think>{good}"))
        assert not matcher.takes(vocabulary.encode(f"Hm.</think>\n\n{bad}"))
        assert not matcher.takes(vocabulary.encode(good))
        plain = constrain(**{**thinking, "start": "text"}, format={"kind": kind, **more})
        assert plain["kind"] == (6 if kind in (1, 2) else kind)
    assert constrain(**thinking, format={"kind": 6, "text": "{}"})["param"] == "response_format"


@pytest.mark.parametrize("kind", [{"kind": 1}, {"kind": 2, "schema": {"type": "object"}}])
@pytest.mark.parametrize(("start", "before"), [("thought", "</think>"), ("text", "")])
def test_so02_white_space_is_bounded(constrain, kind, start, before):
    request = {**family("hermes", True), "start": start, "chat": {}, "format": kind}
    vocabulary = xgrammar_live.Vocabulary(request["controls"])
    matcher = vocabulary.matcher(constrain(**request)["text"])
    assert matcher.takes(vocabulary.encode(before + "{" + " " * 8 + "}"))
    assert not matcher.takes(vocabulary.encode(before + "{" + " " * 9 + "}"))


# Templates whose calls look otherwise than the family's form, and why that is right.
OTHERWISE = {
    "Apriel-1.6-15b-Thinker-fixed": "its thoughts are not known",
    "unsloth-Apriel-1.5": "its thoughts are not known",
    "tencent-Hy3": "tags, whose markers have a suffix; the form is a list, which is read as well",
    "Kimi-K3": "an empty response stands before the calls",
    "MiniMax-M1": "one object a line",
    "Mistral-Small-3.2-24B-Instruct-2506": "an identifier stands behind the name, in this version only",
    "deepseek-ai-DeepSeek-V3.2": "in history the thought's end stands in the answer",
}
OLD_MISTRAL = {"mistralai-Mistral-Nemo-Instruct-2407"}  # a list of objects; its vocabulary has no [ARGS]


def own_calls(rng, n):
    """As in the round trips, but in the order of the schema, which xgrammar keeps to, and of what every template writes as JSON does."""
    return [(name, {k: a[k] for k in ("city", "days") if k in a}) for name, a in trips.calls(rng, n)]


@pytest.mark.parametrize("name", sorted(n for n, (t, _) in trips.PARSERS.items() if t and t not in NO_FORM))
def test_calls_as_the_models_template_writes_them(constrain, ours, renderer, name):
    if name not in corpus.everything():
        pytest.skip("no such template here")
    tools, thinking = trips.PARSERS[name]
    source, n, refused = corpus.everything()[name], 0, []
    controls = [c for c in FAMILIES[tools][1] if name not in OLD_MISTRAL or c != "[ARGS]"]
    vocabulary = xgrammar_live.Vocabulary(controls)
    for seed in range(5):
        rng = random.Random(seed)
        made = own_calls(rng, 1 if tools == "harmony" else rng.choice([1, 1, 2]))
        found = trips.written(renderer, source, made, "", "Hm.") or trips.written(renderer, source, made[:1], "", None)
        if not found or not found[0]:
            continue
        n += 1
        request = {"tools": tools, "controls": controls, "thinking": thinking, "prompt_tail": found[1][-4000:], "chat": {"tools": trips.TOOLS, "tool_choice": "required"}}
        ids = vocabulary.encode(found[0])
        matcher = vocabulary.matcher(constrain(**request)["text"])
        got = matcher.stops_at(ids)
        rest = vocabulary.decode(ids[got:])
        # What a template puts behind the last call does not come from the model.
        if got <= len(ids) and not (matcher.takes(vocabulary.encode(vocabulary.decode(ids[:got]).rstrip())) and not any(t in rest for t in ("get_weather", "now"))):
            refused.append((vocabulary.decode(ids[:got]), vocabulary.decode(ids[got : got + 40])))
    if name in trips.LOST or name in OTHERWISE:
        return
    assert not refused, (len(refused), n, refused[0])
