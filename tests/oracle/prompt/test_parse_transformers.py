"""transformers' parser of answers beside ours. It reads them by a response template that a tokenizer brings along; those here are TRL's, one for each chat template of its package, and the
ones that transformers itself falls back to. Turns are rendered by the chat template with calls, text and thoughts, and read by both."""

import ast
import contextlib
import functools
import importlib.util
import json
import pathlib
import random
import sys
import types

import pytest
from transformers.utils.chat_parsing import parse_response

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "template")]
import pypi  # noqa: E402
from test_parse_round_trip import ENDS, TOOLS, calls, text, written_to_its_end  # noqa: E402

NAME, VERSION, SHA256 = "trl", "1.16.0", "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396"


def place(path):
    return path if path.parts[0] == "trl" and (path.name == "chat_template_utils.py" or path.suffix == ".jinja") else None


@functools.cache
def trl():
    """The module that knows the templates, without the package around it, which wants torch."""
    folder = pypi.unpacked(NAME, VERSION, SHA256, place, "--only-binary=:all:") / "trl"
    package, data = types.ModuleType("trl_only"), types.ModuleType("trl_only.data_utils")
    package.__path__, data.prepare_multimodal_messages = [str(folder)], None
    sys.modules.update({"trl_only": package, "trl_only.data_utils": data})
    spec = importlib.util.spec_from_file_location("trl_only.chat_template_utils", folder / "chat_template_utils.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, {f.stem: f.read_text() for f in sorted((folder / "chat_templates").glob("*.jinja")) if not f.stem.endswith("_training")}


@functools.cache
def fallbacks():
    """transformers' own, by the type of the model."""
    path = pathlib.Path(importlib.util.find_spec("transformers").origin).parent / "cli/serving/utils.py"
    (found,) = (n.value for n in ast.parse(path.read_text()).body if isinstance(n, ast.Assign) and n.targets[0].id == "_RESPONSE_TEMPLATE_FALLBACKS")
    return {kind: template for kinds, template in ast.literal_eval(found).items() for kind in kinds}


FALLS_BACK = {"qwen2_5": "qwen2", "qwen3": "qwen3", "qwen3_instruct_2507": "qwen3", "qwen3_5_think": "qwen3_5", "qwen3_5_nothink": "qwen3_5", "gemma4_v5": "gemma4"}


def response_templates():
    """(name of the chat template, whose) -> response template"""
    module, sources = trl()
    made = {(name, "transformers"): fallbacks()[kind] for name, kind in FALLS_BACK.items()}
    for name, source in sources.items():
        tokenizer = types.SimpleNamespace(chat_template=source)
        with contextlib.suppress(ValueError):
            made[name, "trl"] = module.add_response_schema(tokenizer).response_template
    return made


def theirs(template, prefix, answer):
    said = parse_response(answer, template, prefix=prefix, tools=TOOLS)
    made = [(c["function"]["name"], c["function"]["arguments"]) for c in said.get("tool_calls") or []]
    return made, (said.get("reasoning_content") or said.get("thinking") or "").strip(), (said.get("content") or "").strip()


def mine(ours, chosen, prefix, answer):
    text = ENDS.sub("", answer)
    got = ours.ask(parser=chosen["tools"] or "none", reasoning_parser=chosen["thinking"] or "none", text=text, prompt_tail=prefix[-4000:], tools=TOOLS)
    made = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in got["tool_calls"]]
    return made, (got["reasoning_content"] or "").strip(), (got["content"] or "").strip()


# What a model with one of TRL's chat templates gets: (calls, thoughts).
CHOSEN = {
    "cohere": (None, None),
    "cohere2": (None, None),
    "deepseek_r1_distill": ("deepseek_v3", "deepseek_v3"),
    "deepseekv3": ("deepseek_v3", "deepseek_v3"),
    "diffusion_gemma": ("gemma4", "gemma4"),
    "gemma": (None, None),
    "gemma3": (None, None),
    "glm4moe": ("glm45", "glm45"),
    "gptoss": ("harmony", None),
    "idefics3": (None, None),
    "lfm2": ("lfm2", None),
    "lfm2_v2": ("lfm2", None),
    "llama3": (None, None),
    "llama3_1": ("llama3_json", None),
    "llama3_2": ("llama3_json", None),
    "llava_next": (None, None),
    "muse_glimmer": ("muse_glimmer", "muse_glimmer"),
    "phi3": (None, None),
    "phi3_5": (None, None),
    "qwen2_5": ("hermes", None),
    "qwen2_5_vl": (None, None),
    "qwen3": ("hermes", "qwen3"),
    "qwen3_instruct_2507": ("hermes", None),
    "qwen3_vl": ("hermes", None),
    "smolvlm": (None, None),
    **{name: ("gemma4", "gemma4") for name in ("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5")},
    **{name: ("lfm2", "qwen3") for name in ("lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl")},
    **{f"nemotron_3{name}": ("qwen3_coder", "qwen3") for name in ("_5_lightning", "_nano", "_super", "_ultra")},
    **{name: ("qwen3_coder", "qwen3") for name in ("qwen3_5_nothink", "qwen3_5_think", "qwen3_6", "qwen3_8")},
}
# Chat templates that do not show what they are told, so that nobody can read it: no calls, or other strings.
LOSES = {"lfm2": "shows no calls", "deepseek_r1_distill": "drops calls beside a text", "lfm2_2_5": "does not escape what it quotes", "lfm2_2_5_v2": "the same"}
# What theirs makes of some answers instead, by chat template.
DIFFERS = {
    "deepseek_r1_distill": "takes the whole prompt for a part of the answer where the prompt does not open a thought",
    **{f"gemma4{v}": "refuses the answer where a value is null, which the chat template writes as None" for v in ("", "_v2", "_v3", "_v4")},
    **{name: "ends a string at an apostrophe in it, leaves lists with Python's words as text, and a quoted line end as it is" for name in ("lfm2_v2", "lfm2_2_5", "lfm2_2_5_v2", "lfm2_2_5_vl")},
}


def turns(renderer, source, seeds):
    """(calls, what the model wrote with its end, the prompt before it)"""
    for seed in seeds:
        rng = random.Random(seed)
        made, thought, content = calls(rng, rng.choice([0, 1, 1, 2, 3])), rng.choice(["Hm.", text(rng), None]), rng.choice(["", text(rng), "I look."])
        if found := written_to_its_end(renderer, source, made, content, thought):
            yield made, found[0].rstrip(), found[1]


def check(ours, renderer, name, whose, seeds):
    """How many answers were read by both."""
    source, template = trl()[1][name], response_templates()[name, whose]
    chosen = ours.ask(choose=source)
    n = 0
    for made, answer, prefix in turns(renderer, source, seeds):
        got = mine(ours, chosen, prefix, answer)
        try:
            said = theirs(template, prefix, answer)
        except ValueError as e:
            said = str(e)
        n += 1
        if said != got:
            assert name in DIFFERS, (answer, said, got)
            assert got[0] == made or name in LOSES, (answer, got, made)
    return n


def test_the_choice(ours):
    found = {name: ours.ask(choose=source) for name, source in trl()[1].items()}
    assert {name: (f["tools"], f["thinking"]) for name, f in found.items()} == CHOSEN


ALL = sorted((name, "trl") for name, (tools, _) in CHOSEN.items() if tools and name not in ("deepseekv3", "diffusion_gemma", "lfm2", "muse_glimmer")) + sorted(
    (name, "transformers") for name in FALLS_BACK)


def test_each_response_template_is_run():
    assert sorted(response_templates()) == sorted(ALL)


@pytest.mark.parametrize("name, whose", ALL)
def test_parse_is_transformers(ours, renderer, name, whose):
    assert check(ours, renderer, name, whose, range(40)) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("name, whose", ALL)
def test_parse_is_transformers_long(ours, renderer, name, whose):
    check(ours, renderer, name, whose, range(2000))


@pytest.mark.parametrize("name", sorted(name for name, (tools, _) in CHOSEN.items() if tools and name not in LOSES))
def test_calls_come_back(ours, renderer, name):
    """Whatever reads them: what a chat template writes are the calls that it was given."""
    source = trl()[1][name]
    chosen = ours.ask(choose=source)
    wrong = []
    for made, answer, prefix in turns(renderer, source, range(40)):
        # Llama's and harmony's write one call a turn, and where there is a text beside it none, or a thought.
        if answer and len(made) > 1 and name in ("gptoss", "llama3_1", "llama3_2"):
            continue
        got = mine(ours, chosen, prefix, answer)
        if got[0] != made:
            wrong.append((answer, got, made))
    assert not wrong, (len(wrong), wrong[0])
