"""The code that some models have instead of a chat template, run beside lib/template/native. By the Python of hack/venv chat:
native_reference.py FOLDER, where FOLDER has DeepSeek's encoders and o200k_base.tiktoken. A JSON object a line on stdin:
{"name": "harmony", "messages": [...], "tools": [...] or null, "kwargs": {...}}; one a line on stdout: {"text": "..."} or {"error": "..."}.
"""

import copy
import functools
import itertools
import json
import os
import sys

DATE = "2026-02-28"


def renamed(messages):
    """Messages as vLLM hands them on: reasoning has its newer name."""
    messages = copy.deepcopy(messages)
    for m in messages:
        if "reasoning_content" in m:
            m["reasoning"] = m["reasoning_content"]
    return messages


# DeepSeek: what vLLM 0.32's tokenizers/deepseek_v32.py and deepseek_v4.py do around the encoders.


def deepseek_v32(messages, tools, kwargs):
    import deepseek_v32_encoding

    messages = renamed(messages)
    if tools:
        messages.insert(0, {"role": "system", "tools": tools})
    mode = "thinking" if kwargs.get("thinking") or kwargs.get("enable_thinking") else "chat"
    return deepseek_v32_encoding.encode_messages(messages, thinking_mode=mode, drop_thinking=messages[-1]["role"] == "user")


def deepseek_v4(messages, tools, kwargs):
    import deepseek_v4_encoding

    messages = renamed(messages)
    thinking = bool(kwargs.get("thinking")) or bool(kwargs.get("enable_thinking"))
    if "thinking" not in kwargs and "enable_thinking" not in kwargs:
        thinking = True
    if tools:
        at = next((i for i, m in enumerate(messages) if m["role"] == "system"), None)
        if at is None:
            messages.insert(0, {"role": "system"})
        messages[at or 0]["tools"] = tools
    effort = kwargs.get("reasoning_effort")
    if not isinstance(effort, str):
        effort = "high" if thinking else None
    elif effort == "none":
        thinking, effort = False, None
    elif effort in ("low", "minimal", "medium"):
        effort = "low"
    elif effort != "max":
        effort = "high"
    return deepseek_v4_encoding.encode_messages(
        messages, thinking_mode="thinking" if thinking else "chat", drop_thinking=kwargs.get("drop_thinking", True), reasoning_effort=effort)


# gpt-oss: what vLLM 0.32's entrypoints/openai/parser/harmony_utils.py makes of a chat, rendered by openai-harmony; and `python` and `browser.…`, which the model brings along.


def is_own_tool(function):
    properties = (function.get("parameters") or {}).get("properties")
    return function["name"].startswith("browser.") or (function["name"] == "python" and not (isinstance(properties, dict) and set(properties) - {"code"}))


def own_call(function, python_is_function):
    """What is sent to the tool, or None: it is a function of the client's."""
    if function["name"].startswith("browser."):
        return function["arguments"]
    if function["name"] == "python" and not python_is_function:
        given = json.loads(function["arguments"])
        if isinstance(given, dict) and set(given) == {"code"} and isinstance(given["code"], str):
            return given["code"]
    return None


def own_tools(h, system, functions):
    browser, python = [f for f in functions if f["name"].startswith("browser.")], [f for f in functions if f["name"] == "python"]
    if browser:
        made = [h.ToolDescription.new(name=f["name"][8:], description=f.get("description") or "", parameters=f.get("parameters")) for f in browser]
        system = system.with_tools(h.ToolNamespaceConfig(name="browser", description=None, tools=made))
    return system.with_tools(h.ToolNamespaceConfig(name="python", description=python[-1].get("description") or None, tools=[])) if python else system


def flat(content):
    if content is None or isinstance(content, str):
        return content
    texts = [p["text"] for p in content if p.get("text") is not None]
    return "".join(texts) if texts else None


def harmony_developer(h, instructions, tools):
    content = h.DeveloperContent.new()
    if instructions is not None:
        content = content.with_instructions(instructions)
    if tools:
        functions = [t["function"] for t in tools]
        content = content.with_function_tools(
            [h.ToolDescription.new(name=f["name"], description=f.get("description") or "", parameters=f.get("parameters")) for f in functions])
    return h.Message.from_role_and_content(h.Role.DEVELOPER, content)


def harmony_message(h, m, names, python_is_function):
    says = h.Message.from_role_and_content
    role, calls, content, out = m["role"], m.get("tool_calls"), m.get("content"), []
    if role == "tool":
        function = names.get(m.get("tool_call_id", ""), {"name": "", "arguments": ""})
        if own_call(function, python_is_function) is not None:
            return [h.Message.from_author_and_content(h.Author.new(h.Role.TOOL, function["name"]), flat(content) or "").with_channel("analysis").with_recipient("assistant")]
        author = h.Author.new(h.Role.TOOL, "functions." + function["name"])
        return [h.Message.from_author_and_content(author, flat(content) or "").with_channel("commentary").with_recipient("assistant")]
    if role in ("system", "developer"):
        return [] if flat(content) is None else [harmony_developer(h, flat(content), None)]
    if calls and flat(content):
        out.append(says(h.Role.ASSISTANT, flat(content)).with_channel("commentary"))
    if role == "assistant" and m.get("reasoning"):
        out.append(says(h.Role.ASSISTANT, m["reasoning"]).with_channel("analysis"))
    for c in calls or []:
        if (code := own_call(c["function"], python_is_function)) is not None:
            out.append(says(h.Role.ASSISTANT, code).with_channel("analysis").with_recipient(c["function"]["name"]).with_content_type("code"))
            continue
        call = says(h.Role.ASSISTANT, c["function"].get("arguments") or "").with_channel("commentary")
        out.append(call.with_recipient("functions." + c["function"]["name"]).with_content_type("json"))
    if calls:
        return out
    parts = [h.TextContent(text=t) for t in ([content or ""] if not isinstance(content, list) else [p.get("text", "") for p in content])]
    if role != "assistant":
        out.append(h.Message.from_role_and_contents(role, parts))
    elif parts and parts[0].text:
        out.append(h.Message.from_role_and_contents(role, parts).with_channel("final"))
    return out


@functools.cache
def harmony_encoding():
    import openai_harmony as h

    return h.load_harmony_encoding(h.HarmonyEncodingName.HARMONY_GPT_OSS)


def harmony(messages, tools, kwargs):
    import openai_harmony as h

    messages = renamed(messages)
    system = h.SystemContent.new().with_conversation_start_date(DATE)
    if kwargs.get("reasoning_effort") is not None:
        system = system.with_reasoning_effort(h.ReasoningEffort[kwargs["reasoning_effort"].upper()])
    system = own_tools(h, system, [t["function"] for t in tools or [] if is_own_tool(t["function"])])
    tools = [t for t in tools or [] if not is_own_tool(t["function"])]
    python_is_function = any(t["function"]["name"] == "python" for t in tools)
    out, instructions = [h.Message.from_role_and_content(h.Role.SYSTEM, system)], None
    if messages and messages[0]["role"] in ("system", "developer"):
        instructions = flat(messages.pop(0).get("content"))
    if instructions or tools:
        out.append(harmony_developer(h, instructions, tools))
    names = {c.get("id"): c["function"] for m in messages for c in m.get("tool_calls") or []}
    for m in messages:
        out += harmony_message(h, m, names, python_is_function)
    final = max((i for i, m in enumerate(out) if m.author.role == "assistant" and m.channel == "final"), default=-1)
    out = [m for i, m in enumerate(out) if i >= final or m.channel != "analysis"]
    encoding = harmony_encoding()
    config = h.RenderConversationConfig(auto_drop_analysis=False)
    return encoding.decode(encoding.render_conversation_for_completion(h.Conversation.from_messages(out), h.Role.ASSISTANT, config=config))


# Mistral: what vLLM 0.32's tokenizers/mistral.py does around mistral-common (ids of tool calls are cut to nine characters). The vocabulary is the
# one in its package, with all special tokens and the version asked for.


EFFORTS = {"values": ["none", "low", "high"], "default": "low"}  # of version 15


def write_tekken(version, file):
    import pathlib

    import mistral_common
    from mistral_common.tokens.tokenizers.base import SpecialTokens

    tekken = json.loads((pathlib.Path(mistral_common.__file__).parent / "data/tekken_240911.json").read_text())
    del tekken["image"]
    tekken["config"]["version"] = version
    tekken["special_tokens"] = [{"rank": i, "token_str": t.value, "is_control": True} for i, t in enumerate(SpecialTokens)]
    if version == "v15":
        tekken["model_settings_builder"] = {"reasoning_effort": {"type": "enum", "accepts_none": True, **EFFORTS}}
    pathlib.Path(file).write_text(json.dumps(tekken))


@functools.cache
def mistral_tokenizer(version):
    import tempfile

    from mistral_common.protocol.instruct.validator import ValidationMode
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "tekken.json")
        write_tekken(version, file)
        return MistralTokenizer.from_file(file, mode=ValidationMode.test)


# Versions 1 to 3 and the files in mistral-common's package that have them: SentencePiece, or tekken. What comes out of these is compared as ids.
FILES = {"v1": "tokenizer.model.v1", "v2": "mistral_instruct_tokenizer_240216.model.v2", "v3": "mistral_instruct_tokenizer_240323.model.v3", "v3 tekken": "tekken_240718.json",
         "v7": "mistral_instruct_tokenizer_241114.model.v7"}


@functools.cache
def mistral_file(version):
    import pathlib

    import mistral_common
    from mistral_common.protocol.instruct.validator import ValidationMode
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    file = pathlib.Path(mistral_common.__file__).parent / "data" / FILES[version]
    return str(file), MistralTokenizer.from_file(str(file), mode=ValidationMode.test)


def mistral_ids(version, messages, tools, kwargs):
    return mistral_file(version)[1].encode_chat_completion(mistral_request(messages, tools, kwargs.get("prefix", False))).tokens


def mistral_request(messages, tools, prefix=False, **more):
    from mistral_common.protocol.instruct.request import ChatCompletionRequest

    messages = copy.deepcopy(messages)
    for m in messages:
        for key in ("thinking", "reasoning", "reasoning_content"):
            m.pop(key, None)
        for call in m.get("tool_calls") or []:
            call["id"] = call["id"][-9:]
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
        if "tool_call_id" in m:
            m["tool_call_id"] = m["tool_call_id"][-9:]
    if prefix:
        messages[-1]["prefix"] = True
    return ChatCompletionRequest.from_openai(messages=messages, tools=tools, **more)


def mistral(version, messages, tools, kwargs):
    from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

    tokenizer = mistral_tokenizer(version)
    return tokenizer.decode(tokenizer.encode_chat_completion(mistral_request(messages, tools, **kwargs)).tokens, special_token_policy=SpecialTokenPolicy.KEEP)


# Kimi K3: the functions of vLLM's renderer that need nothing of vLLM.


@functools.cache
def kimi_functions():
    import ast
    import typing

    source = open(os.path.join(sys.argv[1], "kimi_k3.py")).read()
    wanted = {"_apply_k3_thinking_kwargs", "_normalize_k3_tool_messages"}
    body = [n for n in ast.parse(source).body if (isinstance(n, ast.FunctionDef) and n.name in wanted) or (isinstance(n, ast.Assign) and n.targets[0].id == "_K3_THINKING_EFFORTS")]

    def refused(text, **_):
        return ValueError(text)

    found = {"Any": typing.Any, "ConversationMessage": dict, "VLLMValidationError": refused}
    exec(compile(ast.Module(body, []), "kimi_k3.py", "exec"), found)
    return found


def kimi(messages, kwargs):
    f, kwargs = kimi_functions(), dict(kwargs)
    f["_apply_k3_thinking_kwargs"](kwargs)
    return {"messages": f["_normalize_k3_tool_messages"](messages), "kwargs": kwargs}


# gpt-oss's answers: openai-harmony's renderer and parser of ids.


def harmony_read(ids):
    import openai_harmony as h

    found = harmony_encoding().parse_messages_from_completion_tokens(ids, h.Role.ASSISTANT)
    return [{"content": "".join(c.text for c in m.content), "channel": m.channel, "recipient": m.recipient, "content_type": m.content_type} for m in found]


def harmony_write(messages):
    """A turn of these; the prompt had the first header's begin."""
    import openai_harmony as h

    encoding, ids = harmony_encoding(), []
    for m in messages:
        made = h.Message.from_role_and_content(h.Role.ASSISTANT, m["content"]).with_channel(m["channel"])
        made = made.with_recipient(m["recipient"]) if m["recipient"] else made
        ids += encoding.render(made.with_content_type(m["content_type"]) if m["content_type"] else made)
    begin = encoding.encode("<|start|>assistant", allowed_special="all")
    assert ids[:len(begin)] == begin
    ids = ids[len(begin):]
    return {"text": encoding.decode(ids), "read": harmony_read(ids)}


# Mistral's answers: what mistral-common renders, and what its own server reads of the ids.


def mistral_write(version, parts, calls):
    """A turn of these parts ([is a thought, text]) and calls; and what is read of it."""
    from mistral_common.experimental.think import _split_content_and_think_chunks
    from mistral_common.experimental.tools import _decode_tool_calls, _split_content_and_tool_calls
    from mistral_common.protocol.instruct.chunk import TextChunk, ThinkChunk
    from mistral_common.protocol.instruct.messages import AssistantMessage
    from mistral_common.protocol.instruct.tool_calls import FunctionCall, ToolCall
    from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy

    tokenizer = mistral_file(version)[1] if version in FILES else mistral_tokenizer(version)
    instruct, policy = tokenizer.instruct_tokenizer, SpecialTokenPolicy
    chunks = [ThinkChunk(thinking=text) if is_thought else TextChunk(text=text) for is_thought, text in parts]
    content = chunks if any(is_thought for is_thought, _ in parts) else "".join(text for _, text in parts) or None
    made = [ToolCall(id=f"abcdefgh{i}", function=FunctionCall(name=name, arguments=json.dumps(a, ensure_ascii=False))) for i, (name, a) in enumerate(calls)]
    ids = instruct.encode_assistant_message(AssistantMessage(content=content, tool_calls=made or None), False)
    ids = ids[:-1] if ids[-1] == instruct.tokenizer.eos_id else ids
    said, calling = _split_content_and_tool_calls(ids, instruct.tokenizer.get_special_token("[TOOL_CALLS]"))
    thinks = getattr(instruct, "BEGIN_THINK", None) is not None
    split = _split_content_and_think_chunks(said, instruct.BEGIN_THINK, instruct.END_THINK) if thinks else [(said, False)]
    read = [[is_thought, tokenizer.decode(part, special_token_policy=policy.IGNORE)] for part, is_thought in split if part]
    found = [[c.function.name, json.loads(c.function.arguments), c.id] for c in _decode_tool_calls(calling, instruct.tokenizer)]
    runs = [list(run) for _, run in itertools.groupby(ids, instruct.tokenizer.is_special)]  # at once, SentencePiece's blanks would be those of its pieces
    written = "".join(tokenizer.decode(run, special_token_policy=policy.KEEP if instruct.tokenizer.is_special(run[0]) else policy.IGNORE) for run in runs)
    return {"text": written, "parts": read, "calls": found}


def answer_to(request, renderers):
    if "mistral_write" in request:
        return mistral_write(request["mistral_write"], request["parts"], request["calls"])
    if "harmony_write" in request:
        return harmony_write(request["harmony_write"])
    if "harmony_read" in request:
        return {"read": harmony_read(harmony_encoding().encode(request["harmony_read"], allowed_special="all"))}
    if "kimi" in request:
        return kimi(request["messages"], request["kimi"])
    if "write" in request:
        write_tekken(request["version"], request["write"])
        return {}
    asked = request["messages"], request["tools"], request["kwargs"]
    if "version" in request:
        return {"ids": mistral_ids(request["version"], *asked), "file": mistral_file(request["version"])[0]}
    return {"text": renderers[request["name"]](*asked)}


def main():
    sys.path.insert(0, sys.argv[1])
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = sys.argv[1]
    renderers = {"deepseek_v32": deepseek_v32, "deepseek_v4": deepseek_v4, "harmony": harmony}
    renderers |= {f"mistral_{version}": functools.partial(mistral, version) for version in ("v7", "v11", "v13", "v15")}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = answer_to(request, renderers)
        except Exception as e:  # whatever it raises: it refuses
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
