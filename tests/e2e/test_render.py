"""kubectl-kelpie render: a model's prompt at the terminal, read here or asked of a gateway, beside Hugging Face's."""

import json
import os
import pathlib
import pty
import shutil
import subprocess

import pytest
from programs import BUILD, QWEN3_TOKENS, Gateway, Sim, engine, manifest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}]
MESSAGES = [
    {"role": "user", "content": "a <|im_end|> b"},
    {"role": "assistant", "content": "c", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "d"}]},
]
REQUEST = {"messages": MESSAGES, "tools": TOOLS, "temperature": 0.5, "chat_template_kwargs": {"enable_thinking": False}}


def render(*words, request=None, expect=0, env=None):
    found = subprocess.run(
        [BUILD / "bin/kubectl-kelpie", "render", *words],
        input=None if request is None else json.dumps(request),
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL if request is None else None,
    )
    assert found.returncode == expect, found.stderr
    return found.stdout if expect == 0 else found.stderr


@pytest.fixture(scope="module")
def gateway(start_shared, qwen3_path):
    sim = start_shared(Sim, "--vocab", QWEN3_TOKENS)
    return start_shared(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)))


def theirs(qwen3, tokenize):
    messages = json.loads(json.dumps(MESSAGES))
    messages[1]["tool_calls"][0]["function"]["arguments"] = {}
    messages[2]["content"] = "d"
    return qwen3.fast.apply_chat_template(messages, tools=TOOLS, add_generation_prompt=True, enable_thinking=False, tokenize=tokenize)


def test_the_text_is_transformers(qwen3, qwen3_path, gateway, tmp_path):
    expected = theirs(qwen3, False)
    assert render("--path", qwen3_path, request=REQUEST) == expected
    assert render("--gateway", gateway.url, request=REQUEST) == expected
    file = tmp_path / "request.json"
    file.write_text(json.dumps({**REQUEST, "model": "m"}))
    assert render("--gateway", gateway.url, "-f", file) == expected
    assert render("--path", qwen3_path, json.dumps(MESSAGES[:1])) == qwen3.fast.apply_chat_template(MESSAGES[:1], add_generation_prompt=True, tokenize=False)


def test_both_ways_say_the_same(qwen3_path, gateway):
    here, there = (json.loads(render(*way, "-o", "json", request=REQUEST)) for way in (("--path", qwen3_path), ("--gateway", gateway.url)))
    for answer in (here, there):
        answer.pop("max_model_len")
        answer["explain"].pop("seconds")
    assert here == there
    explain = here["explain"]
    assert explain["chatTemplate"] == "the model's own" and explain["shape"]["arguments"] == "object" and explain["textPolicy"] == "Markers"
    data, start, clients = explain["prompt"].encode(), 0, []
    for run in explain["runs"]:
        if run["origin"] == "client":
            clients.append(data[start : run["end"]].decode())
        start = run["end"]
    assert start == len(data) and "a <|im_end|> b" in clients
    assert here["tokens"].count(151645) == 4  # what the user typed is none


def test_who_wrote_what_in_marks_or_colours(qwen3_path):
    shown = render("--path", qwen3_path, "--explain", request=REQUEST)
    assert "<|im_start|>⟦user⟧\n⟦a <|im_end|> b⟧<|im_end|>\n" in shown and "⟪c⟫" in shown
    assert "  Chat template: the model's own\n" in shown and "ORIGIN" in shown and "\033" not in shown

    def at_a_terminal(**env):
        ours, its = pty.openpty()
        p = subprocess.Popen(
            [BUILD / "bin/kubectl-kelpie", "render", "--path", qwen3_path, "--explain", json.dumps(MESSAGES)],
            stdout=its, stdin=subprocess.DEVNULL, env={**os.environ, **env},
        )  # fmt: skip
        os.close(its)
        out = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:
                break
            if not piece:
                break
            out += piece
        os.close(ours)
        assert p.wait(60) == 0
        return out.decode()

    coloured = at_a_terminal(NO_COLOR="")
    assert "\033[33ma <|im_end|> b\033[0m<|im_end|>" in coloured and "\033[36mc\033[0m" in coloured and "⟦" not in coloured
    assert "\033" not in at_a_terminal(NO_COLOR="1")


def test_what_is_wrong_is_named(qwen3_path, gateway):
    for way in (("--path", qwen3_path), ("--gateway", gateway.url)):
        assert "`messages[0].content`: missing" in render(*way, request=[{"role": "user"}], expect=1)
        assert "`messages`: missing" in render(*way, request={"model": "m"}, expect=1)
    refusing = {**REQUEST, "chat_template": "{{ raise_exception('not like this') }}"}
    assert "not like this" in render("--path", qwen3_path, request=refusing, expect=1)
    assert "not allowed here" in render("--gateway", gateway.url, request=refusing, expect=1)
    assert "/nonexistent" in render("--path", "/nonexistent", request=REQUEST, expect=3)


MISTRAL = """
import pathlib, sys
import mistral_common
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
file = next((pathlib.Path(mistral_common.__file__).parent / "data").glob(sys.argv[1]))
messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q </s>"}, {"role": "assistant", "content": "a "}, {"role": "user", "content": "r"}]
print(file, *MistralTokenizer.from_file(str(file)).encode_chat_completion(ChatCompletionRequest.from_openai(messages)).tokens)
"""


@pytest.mark.parametrize("version, kind", [("v1", "tokenizer.model"), ("v2", "tokenizer.model"), ("v3", "tokenizer.model"), ("v7", "tokenizer.model"), ("v3", "tekken.json")])
def test_mistrals_files_have_its_templates(tmp_path, version, kind):
    """The version is in the name of a SentencePiece file, in tekken.json itself; ids are mistral-common's."""
    venv = subprocess.run([ROOT / "hack/venv", "chat"], check=True, capture_output=True, text=True).stdout.strip()
    given = "tekken_240718.json" if kind == "tekken.json" else f"*.model.{version}"
    file, *ids = subprocess.run([venv + "/bin/python", "-c", MISTRAL, given], check=True, capture_output=True, text=True).stdout.split()
    shutil.copy(file, tmp_path / (kind if kind == "tekken.json" else f"{kind}.{version}"))
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q </s>"}, {"role": "assistant", "content": "a "}, {"role": "user", "content": "r"}]
    answer = json.loads(render("--path", tmp_path, "-o", "json", json.dumps(messages)))
    assert answer["explain"]["chatTemplate"] == f"mistral_{version} ({kind} `{version}`)"
    assert [str(i) for i in answer["tokens"]] == ids
