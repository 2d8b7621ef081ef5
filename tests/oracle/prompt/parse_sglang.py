"""SGLang's parsers of thoughts and tool calls, as its server puts them together: parse_sglang.py FOLDER, which has the sources of its wheel. They import without its engine and without
PyTorch; what they never call is left out: the package's front door, xgrammar's, a helper for notebooks. A line {"text", "tools", "parser", "reasoning", "forced", "pieces"} on stdin
(parser, reasoning: names or null; forced: the prompt opened a thought; pieces: how many characters come at a time between markers, 0: the whole text unstreamed) is answered by
[[[name, arguments], ...], content, thought], or ["error", why]."""

import importlib.util
import json
import logging
import pathlib
import re
import sys
import types

import serve

MARKER = r"</?[^<>\s=]{1,40}>|\[[A-Z_]+\]"  # what is one token, or nearly: these parsers want it in one piece
logging.disable(logging.CRITICAL)


def without_front_doors(root):
    for name in ("sglang", "sglang.srt", "sglang.srt.utils", "sglang.srt.entrypoints", "sglang.srt.entrypoints.openai", "sglang.srt.parser", "sglang.srt.function_call"):
        module = types.ModuleType(name)
        module.__path__ = [str(root / name.replace(".", "/"))]
        sys.modules[name] = module
    utils = types.ModuleType("sglang.utils")
    utils.convert_json_schema_to_str = json.dumps
    sys.modules["sglang.utils"] = utils
    xgrammar = types.ModuleType("xgrammar")
    xgrammar.__path__ = list(importlib.util.find_spec("xgrammar").submodule_search_locations)
    sys.modules["xgrammar"] = xgrammar
    from xgrammar.structural_tag import StructuralTag

    xgrammar.StructuralTag = StructuralTag


without_front_doors(pathlib.Path(sys.argv[1]))
from sglang.srt.entrypoints.openai.protocol import Tool  # noqa: E402
from sglang.srt.function_call.function_call_parser import FunctionCallParser  # noqa: E402
from sglang.srt.parser.reasoning_parser import ReasoningParser  # noqa: E402


def whole(text, thoughts, calls):
    thought = ""
    if thoughts:
        thought, text = thoughts.parse_non_stream(text)
    text, found = calls.parse_non_stream(text or "") if calls else (text, [])
    return [[c.name, c.parameters] for c in found], text, thought


def streamed(pieces, thoughts, calls):
    content, thought, made = "", "", []

    def take(text):
        nonlocal content
        text, found = calls.parse_stream_chunk(text) if calls else (text, [])
        content += text
        collect(found)

    def collect(found):
        for c in found:
            if c.name:
                made.append([c.name, ""])
            if c.parameters:
                made[-1][1] += c.parameters

    for piece in pieces:
        if thoughts:
            said, piece = thoughts.parse_stream_chunk(piece)
            thought += said or ""
        if piece:
            take(piece)
    if calls:
        text, found = calls.parse_stream_end()
        content += text
        collect(found)
    return made, content, thought


def answer(text, tools, parser, reasoning, forced, pieces):
    tools = [Tool(**t) for t in tools]
    thoughts = ReasoningParser(reasoning, stream_reasoning=True, force_reasoning=forced, tool_call_parser_active=bool(parser)) if reasoning else None
    calls = FunctionCallParser(tools, parser) if parser else None
    if not pieces:
        return whole(text, thoughts, calls)
    return streamed(re.findall(MARKER + "|(?s:.){1,%d}?(?=%s|$)|(?s:.){1,%d}" % (pieces, MARKER, pieces), text), thoughts, calls)


def main():
    print(json.dumps([sorted(FunctionCallParser.ToolCallParserEnum), sorted(ReasoningParser.DetectorMap)]), flush=True)
    serve.answer_all(answer)


if __name__ == "__main__":
    main()
