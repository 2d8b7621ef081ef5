"""Microseconds per render, the best of many batches: this project's, the same with all messages remembered, jinja2's compiled template, minijinja's; the same conversations."""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/oracle/template"))
import template_conversations as conversations  # noqa: E402
import template_corpus as corpus  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

WORDS = "the quick brown fox jumps over the lazy dog while seven wizards quietly judge my vow, and then 42 of them left. ".split()


def chat(messages, words):
    """A system message, then user and assistant in turn, of so many words each."""
    out = [conversations.system("You are a helpful assistant.")]
    for i in range(messages - 1):
        text = " ".join(WORDS[(i * 7 + k) % len(WORDS)] for k in range(words)) + "\n\n* a list\n* of things\n"
        out.append(conversations.assistant(text) if i % 2 else conversations.user(text))
    return out


def agent(turns):
    out = [conversations.system("You use tools.")]
    for i in range(turns):
        out += [conversations.user("What about city number %d?" % i),
                conversations.assistant("", tool_calls=[conversations.call("get_weather", {"city": "City %d" % i, "days": i, "unit": "c"})]),
                conversations.tool(json.dumps({"temp": i, "sky": "clear", "wind": [1, 2, 3]}), name="get_weather", tool_call_id="call00001"),
                conversations.assistant("It is %d degrees." % i)]
    return out


CASES = [
    ("Qwen3, 41 messages, 33 KB", "Qwen3", chat(41, 160), {}),
    ("Qwen3, 3 messages", "Qwen3", chat(3, 20), {}),
    ("Qwen3, 40 tool turns", "Qwen3", agent(10), {"tools": conversations.TOOLS}),
    ("SmolLM2, 41 messages", "SmolLM2", chat(41, 160), {}),
    ("Llama 3.1, tools", "meta-llama-Llama-3.1-8B-Instruct", chat(8, 40)[:-1], {"tools": conversations.TOOLS}),
    ("gpt-oss, tools", "openai-gpt-oss-120b", agent(10), {"tools": conversations.TOOLS}),
    ("DeepSeek V3.1, tool turns", "deepseek-ai-DeepSeek-V3.1", agent(10), {"tools": conversations.TOOLS}),
]


def measure(fn, seconds=0.7):
    fn()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter_ns()
        fn()
        times.append(time.perf_counter_ns() - start)
    return min(times) / 1000, statistics.median(times) / 1000


def minijinja(source, variables):
    """The best time, or None: not installed, or it cannot do this template."""
    try:
        from minijinja import Environment
    except ImportError:
        return None
    try:
        env = Environment(templates={"t": source}, trim_blocks=True, lstrip_blocks=True, debug=False, auto_escape_callback=lambda name: False)
        env.add_filter("tojson", lambda x, **kw: json.dumps(x, ensure_ascii=False, **kw))
        env.add_function("raise_exception", lambda m: 1 / 0)
        return measure(lambda: env.render_template("t", **variables))[0]
    except BaseException:
        return None


def main(program):
    print(f"{'microseconds per render':34} {'ours':>8} {'median':>8} {'replayed':>9} {'jinja2':>9} {'ratio':>7} {'minijinja':>9} {'ratio':>7} {'text':>7} {'arena':>8} {'compile':>8} {'messages':>8} {'kept':>8}")
    for title, name, messages, more in CASES:
        source = corpus.everything()[name]
        variables = conversations.variables(messages, {"add_generation_prompt": True, **more})
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump({"source": source, "vars": variables}, f, ensure_ascii=False)
            f.flush()
            best, median, size, arena, compile_us, again, _, replayed, kept = map(float, subprocess.run([program, f.name, "700"], check=True, capture_output=True, text=True).stdout.split())
        template = chat_template_utils._compile_jinja_template(source)
        assert len(template.render(**variables).encode()) == size, "not the same text"
        theirs = measure(lambda: template.render(**variables))[0]
        mini = minijinja(source, variables)
        shown = f"{mini:9.1f} {best / 1000 / mini:7.3f}" if mini else f"{'-':>9} {'-':>7}"
        print(f"{title:34} {best / 1000:8.1f} {median / 1000:8.1f} {again / 1000:9.1f} {theirs:9.1f} {best / 1000 / theirs:7.3f} {shown} {size:7.0f} {arena:8.0f} {compile_us:8.0f} {replayed:8.0f} {kept:8.0f}")


if __name__ == "__main__":
    main(sys.argv[1])
