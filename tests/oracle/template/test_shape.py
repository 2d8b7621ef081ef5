"""What lib/template finds out about a template, and how it rewrites OpenAI's messages for it (shape.h, adapt.h), beside transformers."""

import json
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import template_conversations as conversations  # noqa: E402
import template_corpus as corpus  # noqa: E402
import template_reference as reference  # noqa: E402

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

# Content of system, user, assistant, tool; arguments; tools; what stands beside calls; p parallel calls, d developer role, r reasoning beside
# calls, R reasoning of earlier turns.
SHAPES = {
    "Qwen3":                                               "text   text   text   text   object wrapped empty   pr",
    "SmolLM2":                                             "text   text   text   text   lost   lost    empty   -",
    "Apertus-8B-Instruct":                                 "text   text   text   text   object wrapped nothing p",
    "Apriel-1.6-15b-Thinker-fixed":                        "text   either text   text   object wrapped nothing p",
    "Bielik-11B-v3.0-Instruct":                            "text   text   text   text   object wrapped nothing prR",
    "ByteDance-Seed-OSS":                                  "text   text   text   text   object wrapped nothing prR",
    "Cohere2MoE":                                          "either either either either object wrapped nothing prR",
    "CohereForAI-c4ai-command-r-plus-tool_use":            "text   text   text   text   object wrapped nothing p",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use":       "text   text   text   text   object wrapped nothing pr",
    "GLM-4.6":                                             "either either either text   object wrapped nothing pr",
    "GLM-4.7-Flash":                                       "either either either text   object wrapped nothing pr",
    "GigaChat3-10B-A1.8B":                                 "text   text   text   text   object wrapped nothing -",
    "GigaChat3.1-10B-A1.8B":                               "text   text   text   text   object wrapped nothing -",
    "HuggingFaceTB-SmolLM3-3B":                            "text   text   text   text   lost   lost    nothing -",
    "Kimi-K2-Instruct":                                    "either either either lost   lost   wrapped nothing -",
    "Kimi-K2-Thinking":                                    "either either either lost   lost   wrapped nothing -",
    "Kimi-K3":                                             "either either either either object wrapped nothing prR",
    "LFM2-8B-A1B":                                         "text   text   text   text   lost   wrapped empty   -",
    "LFM2.5-8B-A1B":                                       "either either either either object wrapped nothing pr",
    "LFM2.5-Instruct":                                     "text   text   text   text   lost   wrapped empty   -",
    "MiMo-VL":                                             "text   text   text   text   object wrapped nothing p",
    "MiniMax-M1":                                          "text   either either either object wrapped nothing p",
    "MiniMax-M2":                                          "either either either either object wrapped nothing pr",
    "MiniMax-M3":                                          "either either either either object wrapped nothing pdrR",
    "Mistral-Small-3.2-24B-Instruct-2506":                 "text   either either text   object wrapped nothing p",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16":                 "text   text   text   text   object wrapped nothing pr",
    "NVIDIA-Nemotron-Nano-v2":                             "text   text   text   text   object wrapped nothing p",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use":       "text   text   text   text   object wrapped nothing p",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use":         "text   text   text   text   object wrapped nothing p",
    "Qwen-QwQ-32B":                                        "text   text   text   text   object wrapped empty   p",
    "Qwen-Qwen2.5-7B-Instruct":                            "text   text   text   text   object wrapped nothing p",
    "Qwen-Qwen3-0.6B":                                     "text   text   text   text   object wrapped empty   pr",
    "Qwen3-Coder":                                         "text   text   text   text   object wrapped nothing p",
    "Qwen3.5-4B":                                          "either either either either object wrapped nothing pr",
    "Reka-Edge":                                           "either either either either object wrapped nothing pd",
    "Spark2.5":                                            "either either either text   object wrapped nothing prR",
    "StepFun3.5-Flash":                                    "either either either either object wrapped nothing pr",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B":            "text   text   text   text   text   lost    null    p",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B":            "text   text   text   text   object lost    empty   p",
    "deepseek-ai-DeepSeek-V3.1":                           "text   text   text   text   object lost    nothing p",
    "deepseek-ai-DeepSeek-V3.2":                           "text   text   text   text   object wrapped nothing p",
    "deepseek-ai-DeepSeek-V4-Flash-0731":                  "text   text   text   text   object wrapped nothing pd",
    "deepseek-ai-DeepSeek-V4":                             "text   text   text   text   object wrapped nothing pd",
    "fireworks-ai-llama-3-firefunction-v2":                "lost   lost   lost   lost   lost   lost    nothing -",
    "google-gemma-2-2b-it":                                "lost   text   text   lost   lost   lost    nothing -",
    "google-gemma-4-31B-it-interleaved":                   "text   either either either object wrapped nothing pdr",
    "google-gemma-4-31B-it":                               "text   either either either object wrapped nothing pdr",
    "ibm-granite-granite-3.3-2B-Instruct":                 "text   text   text   text   lost   wrapped empty   -",
    "ibm-granite-granite-4.0":                             "either either either either object wrapped nothing p",
    "ibm-granite-granite-4.1":                             "either either either either object wrapped nothing p",
    "inclusionai-ling-3.0-flash":                          "text   text   text   text   object wrapped nothing prR",
    "llama-cpp-deepseek-r1":                               "text   text   text   text   object lost    nothing p",
    "llama-cpp-rwkv-world":                                "text   text   text   lost   lost   lost    nothing -",
    "meetkai-functionary-medium-v3.1":                     "text   text   text   text   object wrapped nothing p",
    "meetkai-functionary-medium-v3.2":                     "text   text   text   text   text   wrapped nothing p",
    "meta-llama-Llama-3.1-8B-Instruct":                    "text   text   text   text   object wrapped nothing -",
    "meta-llama-Llama-3.2-3B-Instruct":                    "text   text   text   text   object wrapped nothing -",
    "meta-llama-Llama-3.3-70B-Instruct":                   "text   text   text   text   object wrapped nothing -",
    "microsoft-Phi-3.5-mini-instruct":                     "text   text   text   lost   lost   lost    empty   -",
    "mistralai-Ministral-3-14B-Reasoning-2512":            "either either either text   object wrapped nothing p",
    "mistralai-Mistral-Nemo-Instruct-2407":                "text   text   text   text   object wrapped nothing p",
    "moonshotai-Kimi-K2":                                  "either either either text   object wrapped nothing p",
    "muse-glimmer":                                        "either either either either object wrapped nothing prR",
    "openai-gpt-oss-120b":                                 "text   text   text   text   object wrapped nothing dr",
    "openbmb-MiniCPM5-1B":                                 "text   text   text   text   object wrapped nothing pr",
    "poolside-Laguna-S-2.1":                               "text   text   text   text   object wrapped nothing prR",
    "poolside-Laguna-XS-2.1":                              "text   text   text   text   object wrapped nothing prR",
    "poolside-Laguna-XS.2":                                "text   text   text   text   object wrapped nothing prR",
    "tencent-Hy3":                                         "either either either either object wrapped nothing pr",
    "unsloth-Apriel-1.5":                                  "text   either text   text   object wrapped nothing p",
    "unsloth-mistral-Devstral-Small-2507":                 "text   either text   text   object wrapped empty   p",
    "upstage-Solar-Open-100B":                             "text   text   text   text   object wrapped nothing p",
}


@pytest.fixture(scope="module")
def ours():
    r = reference.Renderer()
    yield r
    assert r.close() == 0


def shape_of(ours, source):
    return ours.ask(source, SPECIAL, probe=True)


def in_words(s):
    flags = "".join(c for c, k in [("p", "parallel_calls"), ("d", "developer"), ("r", "reasoning"), ("R", "past_reasoning")] if s[k])
    return [s[k] for k in ("system", "user", "assistant", "tool", "args", "tools", "beside_calls")] + [flags or "-"]


@pytest.mark.parametrize("name", sorted(corpus.everything()))
def test_shape(ours, name):
    assert in_words(shape_of(ours, corpus.everything()[name])) == SHAPES[name].split()


# --- adapting: the same rules once more ----------------------------------------------------------------------------------------------------


class Refused(Exception):
    pass


def adapt_content(form, content):
    if form == "text" and isinstance(content, list):
        if any(not isinstance(p.get("text"), str) for p in content):
            raise Refused
        return "\n".join(p["text"] for p in content)
    return [{"type": "text", "text": content}] if form == "parts" and isinstance(content, str) else content


def adapt_arguments(form, arguments):
    if form == "text":
        return arguments or "{}" if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if form == "object" and isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except ValueError:
            raise Refused from None
        return arguments if isinstance(arguments, dict) else {}
    return arguments


def adapt(shape, messages):
    out = []
    for message in messages:
        m = {k: v for k, v in message.items() if v is not None}
        role = m["role"]
        reasoning = next((m[k] for k in ("reasoning_content", "thinking", "reasoning") if k in m), None)
        if reasoning is not None:
            m = {"thinking": reasoning, **m, "reasoning_content": reasoning}
        if role == "developer" and not shape["developer"]:
            m["role"] = "system"
        if "content" in m:
            m["content"] = adapt_content(shape.get("system" if role == "developer" else role), m["content"])
        if m.get("tool_calls") == []:
            del m["tool_calls"]
        if "tool_calls" in m:
            m["tool_calls"] = [{**c, "function": {**c["function"], "arguments": adapt_arguments(shape["args"], c["function"]["arguments"])}} for c in m["tool_calls"]]
            if shape["beside_calls"] == "null" and m.get("content", "") == "":
                m["content"] = None
            elif shape["beside_calls"] == "empty":
                m.setdefault("content", "")
        out.append(m)
    return out


def text(rng):
    return "".join(rng.choice(["one", "Zürich", " ", "\n", "<|im_end|>", "'q'", "中文", "</think>", "{{x}}"]) for _ in range(rng.randrange(1, 6)))


def content(rng):
    k = rng.randrange(8)
    return [{"type": "text", "text": text(rng)} for _ in range(rng.randrange(3))] if k < 2 else "" if k == 2 else text(rng)


def openai(seed):
    """A conversation as clients of OpenAI's API write it, tools, settings."""
    rng = random.Random(seed)
    messages = [{"role": rng.choice(["system", "system", "developer"]), "content": content(rng)}] if rng.random() < 0.6 else []
    for turn in range(rng.randrange(1, 4)):
        messages.append({"role": "user", "content": content(rng)})
        for step in range(rng.choice([0, 0, 1, 2])):
            calls = [
                conversations.call(rng.choice(["get_weather", "ping"]), rng.choice(['{"city": "Paris", "n": 1.0}', "{}", "", '{"a":[1,{"b":"é\\n"}]}', "null", "[1]", " {}"]),
                                   f"call{turn}{step}{i}00"[:9])
                for i in range(rng.choice([1, 1, 2]))
            ]
            m = {"role": "assistant", "content": rng.choice([None, None, "", text(rng)]), "tool_calls": calls}
            if rng.random() < 0.2:
                del m["content"]
            if rng.random() < 0.4:
                m[rng.choice(["reasoning_content", "reasoning", "thinking"])] = text(rng)
            messages.append(m)
            messages += [{"role": "tool", "tool_call_id": c["id"], "name": c["function"]["name"], "content": content(rng)} for c in calls]
        m = {"role": "assistant", "content": content(rng)}
        if rng.random() < 0.3:
            m["reasoning_content"] = rng.choice([None, text(rng)])
        if rng.random() < 0.2:
            m["tool_calls"] = rng.choice([[], None])
        messages.append(m)
    if rng.random() < 0.7:
        messages.append({"role": "user", "content": content(rng)})
    return messages, rng.choice([None, conversations.TOOLS, [conversations.WEATHER]]), rng.choice([{}, {"enable_thinking": False}, {"add_generation_prompt": True}])


def check_adapted(ours, name, seeds):
    source, texts = corpus.everything()[name], 0
    shape = shape_of(ours, source)
    for seed in seeds:
        messages, tools, settings = openai(seed)
        answer = ours.ask(source, {**SPECIAL, "documents": None, "add_generation_prompt": False, **settings, "messages": messages, "tools": tools}, adapt=True)
        try:
            expected = adapt(shape, messages)
        except Refused:
            assert "takes only text here" in answer["error"] or "parse JSON: " in answer["error"]
            continue
        theirs = reference.outcome(reference.chat, source, expected, tools, {**SPECIAL, **settings})
        mine = ("text", answer["text"]) if "text" in answer else ("failed" if ": line " in answer["error"] else "refused", answer["error"])
        assert reference.same(mine, theirs), f"seed {seed}: {mine}\n{theirs}"
        if "text" in answer:
            assert answer["messages"] == expected, f"seed {seed}"
            texts += 1
    return texts


@pytest.mark.parametrize("name", sorted(corpus.everything()))
def test_adapted_messages_are_transformers(ours, name):
    """Rewritten as the rules above say, and then what apply_chat_template makes of them."""
    texts = check_adapted(ours, name, range(8))
    if not name.startswith(("fireworks", "CohereForAI-c4ai-command-r-plus")):  # these render nothing of OpenAI's
        assert texts > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(corpus.everything()))
def test_adapted_messages_are_transformers_long(ours, name):
    check_adapted(ours, name, range(1000, 1400))


@pytest.mark.parametrize("name", sorted(corpus.everything()))
def test_continue_final_message(ours, name):
    """Where the prompt is cut, for templates that keep, trim and lose what is at the end of a message."""
    source = corpus.everything()[name]
    for final in ("The answer is", " The end ", "<|im_end|>", "x\n\n", "</s>", "  ", [{"type": "text", "text": "a"}, {"type": "text", "text": "part "}], None, []):
        messages = [conversations.user("2+2?"), {"role": "assistant", "content": final}]
        messages = [{k: v for k, v in m.items() if v is not None} for m in messages]
        answer = ours.ask(source, {**SPECIAL, "messages": messages, "tools": None, "documents": None, "add_generation_prompt": False}, **{"continue": True})
        theirs = reference.outcome(reference.chat, source, messages, None, SPECIAL, continue_final_message=True)
        assert answer.get("text") == (theirs[1] if theirs[0] == "text" else None), (final, answer, theirs)


# --- the fault catalogue ---------------------------------------------------------------------------------------------------------------


def ask(ours, name, messages, tools=None, **options):
    return ours.ask(corpus.everything()[name], {**SPECIAL, "messages": messages, "tools": tools}, adapt=True, **options)


CALLED = [
    conversations.user("weather?"), {"role": "assistant", "content": None, "tool_calls": [conversations.call("get_weather", '{"city": "Zü\\"rich"}')]},
    {"role": "tool", "tool_call_id": "call00001", "name": "get_weather", "content": [{"type": "text", "text": "20"}]},
]


def test_tp04_arguments_as_the_template_takes_them(ours):
    assert '<parameter=city>\nZü"rich\n</parameter>' in ask(ours, "Qwen3-Coder", CALLED)["text"]
    assert '"arguments": {"city": "Zü\\"rich"}' in ask(ours, "Qwen-Qwen2.5-7B-Instruct", CALLED)["text"]
    assert '\n```json\n{"city": "Zü\\"rich"}\n```' in ask(ours, "deepseek-ai-DeepSeek-R1-Distill-Llama-8B", CALLED)["text"]
    for arguments, shown in [("", "{}"), ("null", "{}"), ('"x"', "{}"), ("[]", "{}")]:
        calls = [conversations.call("ping", arguments)]
        assert '"arguments": ' + shown in ask(ours, "Qwen3", [conversations.user("a"), {"role": "assistant", "tool_calls": calls}])["text"]
    calls = [conversations.call("ping", "{}"), conversations.call("ping", "{'a': 1}")]
    assert ask(ours, "Qwen3", [conversations.user("a"), {"role": "assistant", "tool_calls": calls}]) == {
        "error": "`messages[1].tool_calls[1].function.arguments`: parse JSON: expected a member name in quotes, got `'` at byte 1", "code": "INVALID_ARGUMENT"}


def test_tp05_parts_and_texts(ours):
    two = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert "<|im_start|>user\na\nb<|im_end|>" in ask(ours, "Qwen3", two)["text"]
    image = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}]}]
    assert ask(ours, "Qwen3", image) == {"error": "`messages[0].content[1]`: the model's chat template takes only text here", "code": "INVALID_ARGUMENT"}
    only_parts = "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
    assert ours.ask(only_parts, {"messages": [conversations.user("hi")]}, adapt=True)["text"] == "[hi]"
    # A variable that has "content" or "vision" in its name is not a sign of anything.
    plain = "{% set content_vision = 1 %}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert shape_of(ours, plain)["user"] == "text"


def test_tp06_null_members_are_left_out(ours):
    messages = [conversations.user("a"), {"role": "assistant", "content": None, "reasoning_content": None, "tool_calls": None}]
    assert "None" not in ask(ours, "SmolLM2", messages + [conversations.user("b")]).get("text", "")
    assert ours.ask("{% for m in messages %}{{ m }}{% endfor %}", {"messages": messages}, adapt=True)["text"] == "{'role': 'user', 'content': 'a'}{'role': 'assistant'}"


def test_tp11_what_a_template_loses_is_known(ours):
    """These show tools and not calls, or calls and not tools."""
    for name, args, tools in [("ibm-granite-granite-3.3-2B-Instruct", "lost", "wrapped"), ("HuggingFaceTB-SmolLM3-3B", "lost", "lost"),
                              ("LFM2.5-Instruct", "lost", "wrapped"), ("deepseek-ai-DeepSeek-V3.1", "object", "lost")]:
        s = shape_of(ours, corpus.everything()[name])
        assert (s["args"], s["tools"]) == (args, tools), name


def test_tp12_tools_wrapped_or_flat(ours):
    flat = "{% for t in tools %}{{ t.name }}: {{ t.description }} {{ t.parameters | tojson }};{% endfor %}{{ messages[0].content }}"
    assert shape_of(ours, flat)["tools"] == "flat"
    answer = ours.ask(flat, {"messages": [conversations.user("x")], "tools": [conversations.EMPTY]}, adapt=True)
    assert answer["text"] == 'ping:  {"type": "object", "properties": {}};x'
    tool = {"type": "function", "function": {"strict": None, "name": "f", "x": 1, "parameters": {"b": 1, "a": None}}}
    assert json.dumps(tool) in ask(ours, "Qwen3", [conversations.user("x")], [tool])["text"]  # the same keys in the same order, nothing added


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_tp20_reasoning_of_the_turn_is_kept_of_earlier_ones_dropped(ours, field):
    calls = [conversations.call("ping", "{}")]
    turn = [conversations.user("a"), {"role": "assistant", "tool_calls": calls, field: "because"}, conversations.tool("pong")]
    assert "<think>\nbecause\n</think>" in ask(ours, "Qwen3", turn)["text"]
    assert "because" not in ask(ours, "Qwen3", turn + [conversations.assistant("done"), conversations.user("b")])["text"]
    assert "because" in ask(ours, "ByteDance-Seed-OSS", turn + [conversations.assistant("done"), conversations.user("b")])["text"]
    assert "<|channel|>analysis<|message|>because" in ask(ours, "openai-gpt-oss-120b", turn)["text"]


def test_tp21_a_prefix_is_cut_at_its_own_end(ours):
    messages = [conversations.user("a"), conversations.assistant("end")]
    answer = ask(ours, "Qwen-Qwen2.5-7B-Instruct", messages, origins={"messages": "client"}, **{"continue": True})
    assert answer["text"].endswith("<|im_start|>assistant\nend")  # "end" is in <|im_end|> too
    data, last = answer["text"].encode(), answer["runs"][-1]
    assert last == [len(data), 2]


def test_tk01_rewriting_keeps_the_origin(ours):
    source = "{% for m in messages %}[{{ m.role }}:{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name ~ c.function.arguments|tojson }}{% endfor %}]{% endfor %}"
    messages = [{"role": "developer", "content": [{"type": "text", "text": "<s>"}]},
                {"role": "assistant", "content": "", "tool_calls": [conversations.call("f", '{"a": "<|end|>"}')]}]
    answer = ours.ask(source, {"messages": messages}, origins={"messages": "client"}, adapt=True)
    data, start, runs = answer["text"].encode(), 0, []
    for end, origin in answer["runs"]:
        runs.append((data[start:end].decode(), origin))
        start = end
    assert runs == [("[", 0), ("system", 1), (":", 0), ("<s>", 1), ("][", 0), ("assistant", 2), (":", 0), ('f{"a": "<|end|>"}', 2), ("]", 0)]
