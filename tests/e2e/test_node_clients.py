"""Clients of another language: Vercel's AI SDK for chat completions and Messages, and Anthropic's SDK for JavaScript. They run in tests/e2e/node, streamed and not."""

import json
import subprocess

import npm
import pytest
from programs import PATIENCE, ROOT
from scripts import Scripted

WEATHER = '{"city": "Zü\\"rich </tool_call>"}'
TEXT = (
    "<think>\nTwo calls.\n</think>\n\nI look.\n"
    f'<tool_call>\n{{"name": "get_weather", "arguments": {WEATHER}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>'
)
CALLS = [{"name": "get_weather", "input": json.loads(WEATHER)}, {"name": "ping", "input": {}}]


@pytest.fixture(scope="module")
def said(start_shared, qwen3, qwen3_path, token_file):
    script = Scripted(start_shared, qwen3, qwen3_path, token_file, TEXT)
    folder = npm.install(ROOT / "tests/e2e/node")
    run = subprocess.run([npm.node(), folder / "clients.mjs", script.gateway.url], capture_output=True, text=True, timeout=2 * PATIENCE)
    assert run.returncode == 0, run.stderr[-3000:]
    return script, json.loads(run.stdout)


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_vercels_ai_sdk(said, api):
    script, answers = said
    answer = answers[api]
    assert answer["errors"] == []
    for way in ("streamed", "whole"):
        got = answer[way]
        assert (got["text"], got["reasoning"], got["calls"], got["finish"]) == ("I look.", "Two calls.", CALLS, "tool-calls"), way
        assert got["output"] == len(script.ids) + 1 and got["input"] > 50
    assert {"reasoning-delta", "text-delta", "tool-input-delta", "tool-call", "finish"} <= set(answer["kinds"])


def test_anthropics_sdk_for_javascript(said):
    script, answers = said
    sdk = answers["sdk"]
    for message in (sdk["streamed"], sdk["whole"]):
        assert [b["type"] for b in message["content"]] == ["thinking", "text", "tool_use", "tool_use"]
        assert [b["input"] for b in message["content"][2:]] == [c["input"] for c in CALLS]
        assert message["stop_reason"] == "tool_use" and message["usage"]["output_tokens"] == len(script.ids) + 1
    assert sdk["counted"]["input_tokens"] == sdk["whole"]["usage"]["input_tokens"]
    error = sdk["error"]
    assert (error["name"], error["status"], error["type"]) == ("NotFoundError", 404, "not_found_error") and error["id"].startswith("req_")
