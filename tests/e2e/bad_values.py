"""What clients send that is wrong, and what becomes of each parameter of OpenAI's."""

from programs import QWEN3_TOKENS

# One body a line, then those that have no line of their own.
BODIES = (
    rb"""
{
}
[]
null
true
1
"text"
{}}
{} {}
nul
{"model"
{"model":
{"model":"m"
{"model":"m",}
{'model':'m'}
{"model":"m" "n":1}
{model:"m"}
{"model":"m"}x
// no {}
""".split(b"\n")[1:-1]
    + [b"", b" ", b"\xef\xbb\xbf{}", b"\xff\xfe{\0}\0", b"\0", b'{"\xc3":1}']
)
# In place of a model's name.
VALUES = rb"""
"\x" "\u12" "abc +1 01 1. .5 1e NaN -Infinity True tru [1 { "\ud800" "\udc00" "\ud800\ud800" "\ud800x"
""".split()
VALUES += [b'"\xff"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xc0\x80"', b'"a\0b"', b'"a\nb"', b"\x01"]
# Every parameter of OpenAI's two endpoints, as their own SDK lists them. What we do with each:
TAKEN = {
    "model",
    "messages",
    "prompt",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "n",
    "presence_penalty",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_logprobs",
    "top_p",
    "tools",
    "reasoning_effort",
}
# Nothing follows from these: labels, and values that say what is done anyway.
HARMLESS = {
    "user": "u",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "modalities": ["text"],
    "verbosity": "medium",
    "store": False,
    "best_of": 1,
    "echo": False,
    "suffix": "",
    "response_format": {"type": "text"},
    "parallel_tool_calls": True,
    "tool_choice": "none",
}
REFUSED = {
    "audio": {"voice": "alloy", "format": "wav"},
    "function_call": "auto",
    "functions": [{"name": "f"}],
    "moderation": {"model": "m"},
    "prediction": {"type": "content", "content": "x"},
    "prompt_cache_options": {"mode": "explicit"},
    "web_search_options": {},
}
# Parameters that are taken with some values only.
REFUSED_VALUES = {
    "best_of": 2,
    "suffix": "x",
    "store": True,
    "service_tier": "priority",
    "modalities": ["audio"],
    "verbosity": "low",
    "tool_choice": "required",
    "reasoning_effort": "low",
}
WRONG = {
    "model": [1, True, [], {}, "", "x" * 257],
    "frequency_penalty": ["1", 2.1, -2.1, [], 1e999],
    "presence_penalty": ["1", 2.1, -2.1, True],
    "temperature": ["hot", -0.1, 2.1, 1e400, {}],
    "top_p": ["1", 0, -1, 1.5],
    "top_k": ["1", -2, 1.5],
    "min_p": [-0.1, 1.1, "0"],
    "repetition_penalty": [0, -1, 11, "1"],
    "max_tokens": ["1", -1, 1.5, 2**31, 1e10],
    "min_tokens": [-1, "1", 0.5],
    "n": [0, -1, 129, "1", 1.5, []],
    "seed": ["1", 1.5, 2**63, -(2**63) - 1, 1e30],
    "stream": ["true", 1, [], {}],
    "stop_token_ids": [1, "1", [-1], ["1"], [1.5], [2**31], list(range(129))],
    "ignore_eos": ["true", 0],
    "skip_special_tokens": [1],
    "spaces_between_special_tokens": [False, 1],
    "include_stop_str_in_output": ["yes"],
    "logit_bias": [[], "x", {"a": 1}, {"1": "1"}, {"1": 101}, {"-1": 0}, {"1.5": 0}, {str(QWEN3_TOKENS): 1}],
    "stop": [1, {}, [1], [None], "", [""], ["a"] * 17, "x" * 1025],
    "user": [1, []],
}
CHAT_WRONG = {
    "max_tokens": [0],
    "max_completion_tokens": [0, "1", -5],
    "logprobs": [1, "true"],
    "top_logprobs": [-1, 21, "3", 1.5],
    "chat_template_kwargs": [[], "x", {"messages": []}, {"add_generation_prompt": True}],
    "add_generation_prompt": ["x"],
    "continue_final_message": [1],
    "documents": [{}, "x", ["x"]],
    "tools": [{}, "x", ["x"], [{}], [{"type": "custom"}], [{"type": "function", "function": {"name": 1}}]],
    "response_format": [5, [], {}, {"type": "xml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {"name": "a"}}],
    "structured_outputs": [5, [], {"json": 5}, {"choice": []}, {"regex": "a", "choice": ["a"]}, {"x": 1}],
    "guided_json": [5, "{", []],
    "guided_regex": [5, ""],
    "guided_choice": ["x", [], [""], [1]],
    "guided_grammar": [5, ""],
    "regex": [5, ""],
    "ebnf": [5, ""],
    "tool_choice": ["always", 1, [], {}, "required", {"type": "function", "function": {"name": "f"}}],
    "parallel_tool_calls": ["x", 1],
    "reasoning_effort": [1, {}],
    "messages": [{}, "x", [], 1, True],
    "store": ["x"],
}
COMPLETION_WRONG = {
    "max_tokens": [0],
    "logprobs": [True, -1, 21, "1"],
    "prompt": [
        {},
        1,
        True,
        [],
        [[]],
        [1.5],
        [-1],
        [2**31],
        [[1], [2.5]],
        [True],
        [{}],
        [["a"]],
        ["a", 1],
        [QWEN3_TOKENS],
        "",
    ],
    "best_of": [0, "1"],
    "echo": [1],
    "suffix": [1],
}
