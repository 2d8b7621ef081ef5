"""The names of parsers that vLLM 0.32 and SGLang 0.5.23 have, beside ours: who moves from them writes the same name. In hack/check-vllm the lists are compared with
the programs' own."""

import pytest

# theirs: ours; the same name where nothing is given
VLLM = """apertus cohere_command3:cohere cohere_command4:cohere deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41:deepseek_v4 dots ernie45 functiongemma gemma4
    gigachat3 glm45 glm47:glm45 granite granite-20b-fc:granite_20b_fc granite4:hermes hermes hf hunyuan_a13b:hunyuan hy_v3:hunyuan hy_v4:hunyuan inkling internlm jamba:hunyuan
    k2_horizon kimi_k2 kimi_k3 lfm2 ling3:glm45 llama3_json llama4_json:llama3_json llama4_pythonic longcat mimo:qwen3_coder minicpm5 minimax_m2 minimax_m3 mistral muse_glimmer
    olmo3 openai:harmony phi4_mini_json:phi4_mini plamo3 poolside_v1:glm45 pythonic:llama4_pythonic qwen3_coder qwen3_json:hermes qwen3_xml:qwen3_coder seed_oss step3
    step3p5:qwen3_coder xlam"""
SGLANG = """apertus2509:apertus beam cohere_command4:cohere deepseekv3:deepseek_v3 deepseekv31:deepseek_v31 deepseekv32:deepseek_v32 deepseekv4:deepseek_v4 deepseekv41:deepseek_v4
    dots glm:glm45 glm45 glm47:glm45 gpt-oss:harmony k2_horizon kimi_k2 kimi_k3 lfm2 ling3:glm45 llama3:llama3_json mimo:qwen3_coder minicpm5 mistral muse:muse_glimmer
    poolside_v1:glm45 pythonic:llama4_pythonic qwen:hermes qwen25:hermes qwen3_coder spark25:glm45 step3 step3p5:qwen3_coder minimax-m2:minimax_m2 minimax-m3:minimax_m3
    nanbeige:qwen3_coder trinity interns1:internlm hermes hunyuan gigachat3 gigachat35 gemma4 inkling iquest_q1 response_template"""
VLLM_THOUGHTS = """cohere_command3:cohere cohere_command4:cohere deepseek_r1 deepseek_v3 deepseek_v4:deepseek_v3 deepseek_v41:deepseek_v3 ernie45 gemma4 glm45 glm47:glm45 granite
    granite_thinking_parser:granite hf holo2:qwen3 hunyuan_a13b:hunyuan hy_v3:hunyuan hy_v4:hunyuan inkling k2_horizon kimi_k2 kimi_k3 ling3:glm45 mimo:qwen3 minicpmv:qwen3
    minimax_m2 minimax_m2_append_think:minimax_m2 minimax_m3 mistral muse_glimmer nemotron_v3:qwen3_thinking olmo3 openai_gptoss plamo3 poolside_v1:qwen3 qwen3 seed_oss step3
    step3p5:qwen3_thinking"""
SGLANG_THOUGHTS = """apertus2509:apertus beam deepseek-r1:deepseek_r1 deepseek-v3:deepseek_v3 deepseek-v4:deepseek_v3 deepseek-v41:deepseek_v3 dots:qwen3 glm45 ling3:glm45 hunyuan
    gpt-oss k2_horizon kimi:kimi_k2 kimi_k2 kimi_k3 mimo:qwen3 muse:muse_glimmer poolside_v1:qwen3 qwen3 qwen3-thinking:qwen3_thinking minimax:minimax_m2
    minimax-append-think:minimax_m2 minimax-m3:minimax_m3 nanbeige:qwen3 step3 step3p5:qwen3_thinking mistral nemotron_3:qwen3_thinking granite_thinking_parser:granite
    interns1:qwen3 gemma4 gigachat35:deepseek_r1 inkling iquest_q1:qwen3_thinking cohere_command4:cohere response_template"""
# No parser of ours, and why.
WITHOUT = {
    "hf": "reads the model's own response template",
    "response_template": "reads the model's own response template",
    "beam": "is written down in such a template only",
    "plamo3": "its markers are pieces of several tokens; PLaMo's tokenizer is not read either",
}
# Thoughts that the parser of calls tells apart: it reads the whole format.
WHOLE = {"openai_gptoss": "harmony", "gpt-oss": "harmony", "inkling": "inkling"}


def pairs(names):
    return [(theirs, ours or theirs) for theirs, _, ours in (n.partition(":") for n in names.split())]


def chosen(ours, **names):
    answer = ours.ask(text="x", **names)
    return answer if "error" in answer else (answer["parser"], answer["reasoning_parser"])


@pytest.mark.parametrize("theirs, name", sorted(set(pairs(VLLM) + pairs(SGLANG))))
def test_tc25_calls(ours, theirs, name):
    got = chosen(ours, parser=theirs, reasoning_parser="none")
    if theirs in WITHOUT:
        assert "error" in got, WITHOUT[theirs]
    else:
        assert got == (name, None)


@pytest.mark.parametrize("theirs, name", sorted(set(pairs(VLLM_THOUGHTS) + pairs(SGLANG_THOUGHTS))))
def test_tc25_thoughts(ours, theirs, name):
    got = chosen(ours, parser="none", reasoning_parser=theirs)
    if theirs in WITHOUT:
        assert "error" in got, WITHOUT[theirs]
    elif theirs in WHOLE:
        assert chosen(ours, reasoning_parser=theirs) == (WHOLE[theirs], None)
    else:
        assert got == (None, name)
