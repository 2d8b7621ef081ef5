"""Calls rendered into history by each model's own chat template, cut out of the prompt where the model would have written them, and parsed back: the same calls.
Which parser a template gets is a table here, too: a template of which nothing is known must get none."""

import json
import os
import pathlib
import random
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "template")]
import template_corpus as corpus  # noqa: E402
import template_reference as reference  # noqa: E402
from parse_ours import Ours  # noqa: E402

SPECIAL = {"bos_token": "<BOS>", "eos_token": "<EOS>", "pad_token": "<PAD>", "unk_token": "<UNK>"}
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "w", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"}, "at": {"type": "object"}, "more": {"type": "array"}, "scale": {"type": "number"}}}}},
    {"type": "function", "function": {"name": "now", "description": "n", "parameters": {"type": "object", "properties": {}}}},
]
ENDS = re.compile(
    r"(<EOS>|<\|im_end\|>|<\|eot_id\|>|<\|eom_id\|>|</s>|<｜end▁of▁sentence｜>|<\|end\|>|<\|END_OF_TURN_TOKEN\|>|\[e~\[|<end_of_turn>|<turn\|>|<seed:eos>|<\|eot\|>|<\|return\|>|"
    r"<\|end_of_text\|>|<\|observation\|>|<\|user\|>|<start_function_response>|<\|assistant_end\|>|<\|eom\|>|<\|flush\|>|<extra_id_1>|<SPECIAL_12>|<\|tool_response>|\s)+$")
# Which parsers a model with the template gets: (calls, thoughts).
PARSERS = {
    "Apertus-8B-Instruct": ("apertus", "apertus"),
    "Apriel-1.6-15b-Thinker-fixed": ("hunyuan", None),
    "Bielik-11B-v3.0-Instruct": ("hermes", "qwen3"),
    "ByteDance-Seed-OSS": ("seed_oss", "seed_oss"),
    "Cohere2MoE": ("cohere", "cohere"),
    "CohereForAI-c4ai-command-r-plus-tool_use": (None, None),
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": ("cohere", "cohere"),
    "GLM-4.6": ("glm45", "glm45"),
    "GLM-4.7-Flash": ("glm45", "glm45"),
    "GigaChat3-10B-A1.8B": (None, None),
    "GigaChat3.1-10B-A1.8B": ("gigachat3", None),
    "HuggingFaceTB-SmolLM3-3B": (None, "qwen3"),
    "Kimi-K2-Instruct": ("kimi_k2", None),
    "Kimi-K2-Thinking": ("kimi_k2", "kimi_k2"),
    "Kimi-K3": ("kimi_k3", "kimi_k3"),
    "LFM2-8B-A1B": ("lfm2", None),
    "LFM2.5-8B-A1B": ("lfm2", "qwen3"),
    "LFM2.5-Instruct": (None, "qwen3"),
    "MiMo-VL": ("hermes", None),
    "MiniMax-M1": ("hunyuan", None),
    "MiniMax-M2": ("minimax_m2", "minimax_m2"),
    "MiniMax-M3": ("minimax_m3", "minimax_m3"),
    "Mistral-Small-3.2-24B-Instruct-2506": ("mistral", None),
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": ("qwen3_coder", "qwen3"),
    "NVIDIA-Nemotron-Nano-v2": ("nemotron", "qwen3"),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": ("hermes", None),
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": ("hermes", None),
    "Qwen-QwQ-32B": ("hermes", "qwen3"),
    "Qwen-Qwen2.5-7B-Instruct": ("hermes", None),
    "Qwen-Qwen3-0.6B": ("hermes", "qwen3"),
    "Qwen3": ("hermes", "qwen3"),
    "Qwen3-Coder": ("qwen3_coder", None),
    "Qwen3.5-4B": ("qwen3_coder", "qwen3"),
    "Reka-Edge": ("hermes", "qwen3"),
    "SmolLM2": (None, None),
    "Spark2.5": ("glm45", "qwen3"),
    "StepFun3.5-Flash": ("qwen3_coder", "qwen3"),
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": ("deepseek_v3", "deepseek_v3"),
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": ("deepseek_v3", "deepseek_v3"),
    "deepseek-ai-DeepSeek-V3.1": ("deepseek_v31", "deepseek_v3"),
    "deepseek-ai-DeepSeek-V3.2": ("deepseek_v32", "deepseek_v3"),
    "deepseek-ai-DeepSeek-V4": ("deepseek_v4", "deepseek_v3"),
    "deepseek-ai-DeepSeek-V4-Flash-0731": ("deepseek_v4", "deepseek_v3"),
    "fireworks-ai-llama-3-firefunction-v2": ("phi4_mini", None),
    "google-gemma-2-2b-it": (None, None),
    "google-gemma-4-31B-it": ("gemma4", "gemma4"),
    "google-gemma-4-31B-it-interleaved": ("gemma4", "gemma4"),
    "ibm-granite-granite-3.3-2B-Instruct": ("granite", "ernie45"),
    "ibm-granite-granite-4.0": ("hermes", None),
    "ibm-granite-granite-4.1": ("hermes", None),
    "inclusionai-ling-3.0-flash": ("glm45", "qwen3"),
    "llama-cpp-deepseek-r1": ("deepseek_v3", "deepseek_v3"),
    "llama-cpp-rwkv-world": (None, "qwen3"),
    "meetkai-functionary-medium-v3.1": ("functionary_v31", None),
    "meetkai-functionary-medium-v3.2": (None, None),
    "meta-llama-Llama-3.1-8B-Instruct": ("llama3_json", None),
    "meta-llama-Llama-3.2-3B-Instruct": ("llama3_json", None),
    "meta-llama-Llama-3.3-70B-Instruct": ("llama3_json", None),
    "microsoft-Phi-3.5-mini-instruct": (None, None),
    "mistralai-Ministral-3-14B-Reasoning-2512": ("mistral", "mistral"),
    "mistralai-Mistral-Nemo-Instruct-2407": ("mistral", None),
    "moonshotai-Kimi-K2": ("kimi_k2", None),
    "muse-glimmer": ("muse_glimmer", "muse_glimmer"),
    "openai-gpt-oss-120b": ("harmony", None),
    "openbmb-MiniCPM5-1B": ("minicpm5", "qwen3"),
    "poolside-Laguna-S-2.1": ("glm45", "qwen3"),
    "poolside-Laguna-XS-2.1": ("glm45", "qwen3"),
    "poolside-Laguna-XS.2": ("glm45", "qwen3"),
    "tencent-Hy3": ("hunyuan", "hunyuan"),
    "unsloth-Apriel-1.5": ("hunyuan", None),
    "unsloth-mistral-Devstral-Small-2507": ("mistral", None),
    "upstage-Solar-Open-100B": ("solar_open", "solar_open"),
}
# Templates that lose something: how many of the round trips cannot be right.
LOST = {
    "LFM2-8B-A1B": "all",  # it shows no calls
    "ibm-granite-granite-3.3-2B-Instruct": "all",
    "GigaChat3.1-10B-A1.8B": "some",  # of several calls the first
    "MiniMax-M3": "some",  # null is left out, and a number of which the schema says nothing could be a string
    "NVIDIA-Nemotron-Nano-v2": "some",  # text and calls become two turns
    "LFM2.5-8B-A1B": "some",  # strings are quoted, not escaped
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B": "some",  # a third call stands behind the end of the turn
    "openai-gpt-oss-120b": "some",  # text beside a call becomes a thought
}


def text(rng):
    words = ["Zürich", "a \"b\" c", "x\ny", "1 < 2 > 0", "007", "true", "null", "{}", "it's", "\\n", "日本", "}", "]", "--", "<b>", "</b>", "&amp;", ", ", "😀"]
    return " ".join(rng.choice(words) for _ in range(rng.randrange(1, 5))).strip()


def value(rng, depth=0):
    kinds = [lambda: text(rng), lambda: rng.randrange(-10**6, 10**18), lambda: True, lambda: None, lambda: 1.5]
    if depth < 2:
        kinds += [lambda: [value(rng, depth + 1) for _ in range(rng.randrange(3))], lambda: {f"k{i}": value(rng, depth + 1) for i in range(rng.randrange(3))}]
    return rng.choice(kinds)()


def arguments(rng):
    made = {"city": text(rng), "days": rng.randrange(100), "exact": rng.random() < 0.5, "scale": rng.choice([0.5, -3, 1e-7]),
            "at": {"k": value(rng)}, "more": [value(rng) for _ in range(rng.randrange(1, 3))]}
    keys = rng.sample(sorted(made), rng.randrange(1, len(made) + 1))
    return {k: made[k] for k in keys}


def calls(rng, n):
    return [("now", {}) if rng.random() < 0.2 else ("get_weather", arguments(rng)) for _ in range(n)]


def written(renderer, source, made, content, thought=None):
    """(what the model wrote without its end, the prompt before it), or None where the template has another prompt for the next turn."""
    found = written_to_its_end(renderer, source, made, content, thought)
    return found and (ENDS.sub("", found[0]), found[1])


def written_to_its_end(renderer, source, made, content, thought=None):
    user = {"role": "user", "content": "Weather?"}
    said = {"role": "assistant", "content": content, **({"reasoning_content": thought} if thought else {}), "tool_calls": [
        {"id": f"abcdefg{i:02}", "type": "function", "function": {"name": n, "arguments": json.dumps(a, ensure_ascii=False)}} for i, (n, a) in enumerate(made)]}

    def render(messages, prompt):
        return renderer.ask(source, {**SPECIAL, "messages": messages, "tools": TOOLS, "add_generation_prompt": prompt}, adapt=True)

    before, after = render([user], True), render([user, said], False)
    if "text" not in before or "text" not in after:
        return None
    before, after = before["text"], after["text"]
    k = len(os.path.commonprefix([before, after]))
    if k < len(before):  # the prompt is another one than what the turn becomes in history: from the last markup that they share
        k = max(after.rfind(">", 0, k), after.rfind("\n", 0, k)) + 1
        if k < len(before) - 60:
            return None
    return after[k:], after[:k]


def round_trip(ours, renderer, name, seeds):
    """How many were compared, and what differed."""
    source = corpus.everything()[name]
    chosen = ours.ask(choose=source)
    n, wrong = 0, []
    for seed in seeds:
        rng = random.Random(seed)
        made = calls(rng, rng.choice([1, 1, 2, 3]))
        content = rng.choice(["", "", "I look."])
        # A prompt that opens a thought goes on with one; templates that know only one call a turn refuse more, or show the first.
        made = made[:1] if chosen["tools"] == "harmony" else made
        thought, found = None, None
        for m in (made, made[:1]):
            for thought in ("Hm.", None):
                found = found or written(renderer, source, made := m, content, thought)
                if found and thought and thought not in found[0]:
                    thought = None
                if found:
                    break
            if found:
                break
        if not found or not chosen["tools"] or not found[0]:
            continue
        n += 1
        answer = ours.ask(parser=chosen["tools"], reasoning_parser=chosen["thinking"] or "none", text=found[0], prompt_tail=found[1][-4000:], tools=TOOLS)
        try:
            got = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in answer["tool_calls"]]
        except (KeyError, json.JSONDecodeError):
            got = answer
        expected_thought = thought if chosen["thinking"] or chosen["tools"] == "harmony" else None
        if got != made or (answer["reasoning_content"] or "").strip() != (expected_thought or ""):
            wrong.append((found[0], made, got, answer.get("content")))
    return chosen, n, wrong


def check(ours, renderer, name, seeds):
    chosen, n, wrong = round_trip(ours, renderer, name, seeds)
    assert (chosen["tools"], chosen["thinking"]) == PARSERS[name]
    if name not in LOST:
        assert not wrong, f"{len(wrong)} of {n}, the first: {wrong[0]}"
    elif LOST[name] == "some":
        assert len(wrong) < n
    return n


def test_every_template_is_known():
    assert sorted(PARSERS) == sorted(corpus.everything())


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_round_trip(ours, renderer, name):
    check(ours, renderer, name, range(6))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PARSERS))
def test_round_trip_long(ours, renderer, name):
    check(ours, renderer, name, range(300))


def test_most_were_compared(ours, renderer):
    compared = [name for name in PARSERS if name not in LOST and check(ours, renderer, name, [0])]
    assert len(compared) >= 45


if __name__ == "__main__":
    o, r = Ours(), reference.Renderer()
    for name in sorted(corpus.everything()):
        chosen, n, wrong = round_trip(o, r, name, range(20))
        print(f'    "{name}": ("{chosen["tools"]}", "{chosen["thinking"]}"),  # {n - len(wrong)} of {n}')
        for w in wrong[:1]:
            print("       ", *map(repr, w), sep="\n          ")
