"""All that a prompt is made of, asked for as clients of OpenAI and of vLLM do: tools, their calls and results, parts, reasoning, documents, a
message to go on with, a template of the request's own. The engine must get Hugging Face's ids for the same conversation."""

import openai
import pytest
from openai.types.chat import ChatCompletionMessage
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest
from wire import CHAT, call

EOS = 151645
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Compare if temp > 10 & humidity < 50 (user's choice) — \"now\"",
        "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
PING = {"type": "function", "function": {"name": "ping"}}
TOOLS = [WEATHER, PING]
CALLS = [
    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Zü\\"rich"}'}},
    {"id": "call_2", "type": "function", "function": {"name": "ping", "arguments": ""}},
]
PARSED = [{"city": 'Zü"rich'}, {}]
RESULTS = [
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "20"}, {"type": "text", "text": "°C"}]},
    {"role": "tool", "tool_call_id": "call_2", "content": "pong"},
]
QUESTION = {"role": "user", "content": "Weather in Zürich?"}


@pytest.fixture(scope="module")
def sim(start_shared):
    return start_shared(Sim, "--vocab", QWEN3_TOKENS, "--max-context", 4096, "--eos", EOS, "--log-ids")


@pytest.fixture(scope="module")
def gateway(sim, start_shared, qwen3_path):
    return start_shared(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)))


@pytest.fixture(scope="module")
def client(gateway):
    with openai.OpenAI(base_url=gateway.url + "/v1", api_key="none", max_retries=0, timeout=60) as c:
        yield c


def as_qwen3_takes_them(messages):
    """Arguments as objects, texts joined."""
    found = []
    for m in messages:
        m = {k: v for k, v in m.items() if v is not None}
        if isinstance(m.get("content"), list):
            m["content"] = "\n".join(p["text"] for p in m["content"])
        if m.get("tool_calls"):
            m["tool_calls"] = [
                {**c, "function": {**c["function"], "arguments": a}} for c, a in zip(m["tool_calls"], PARSED)
            ]
            m.setdefault("content", "")
        found.append(m)
    return found


def ids_sent(sim, answer_id):
    (event,) = sim.events("start", answer_id)
    return event["ids"]


def test_a_conversation_with_tools(client, sim, qwen3):
    """As a program that uses the SDK has it: the model's message goes back as the object that it came as."""
    said = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "tool_calls": CALLS, "reasoning_content": "Two calls."}
    )
    conversations = [
        [QUESTION],
        [{"role": "developer", "content": "Be brief."}, QUESTION],
        [QUESTION, said, *RESULTS],
        [QUESTION, said, *RESULTS, {"role": "assistant", "content": "20"}, {"role": "user", "content": "Thanks"}],
    ]
    for messages in conversations:
        plain = [m if isinstance(m, dict) else m.model_dump() for m in messages]
        theirs = [{**m, "role": "system"} if m["role"] == "developer" else m for m in as_qwen3_takes_them(plain)]
        expected = qwen3.chat_ids(theirs, tools=TOOLS)
        ask = {"model": "m", "messages": messages, "tools": TOOLS, "max_completion_tokens": 2}
        whole = client.chat.completions.create(**ask, tool_choice="auto", parallel_tool_calls=True)
        assert ids_sent(sim, whole.id) == expected
        with client.chat.completions.create(**ask, stream=True) as stream:
            chunks = list(stream)
        assert ids_sent(sim, chunks[0].id) == expected


def test_tool_choice_none_tells_of_no_tools(client, sim, qwen3):
    answer = client.chat.completions.create(
        model="m", messages=[QUESTION], tools=TOOLS, tool_choice="none", max_completion_tokens=1
    )
    assert ids_sent(sim, answer.id) == qwen3.chat_ids([QUESTION])
    again = client.chat.completions.create(model="m", messages=[QUESTION], tools=[], max_completion_tokens=1)
    assert ids_sent(sim, again.id) == qwen3.chat_ids([QUESTION])


def test_the_older_function_call(gateway, sim):
    old = [
        QUESTION,
        {"role": "assistant", "content": None, "function_call": {"name": "ping", "arguments": "{}"}},
        {"role": "function", "name": "ping", "content": "pong"},
    ]
    new = [
        QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "ping", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "pong"},
    ]
    sent = [
        ids_sent(sim, call(gateway.port, CHAT, {"model": "m", "messages": m, "tools": TOOLS, "max_tokens": 1}).json()["id"])
        for m in (old, new)
    ]
    assert sent[0] == sent[1]


def test_an_assistant_that_said_nothing(gateway, sim):
    """Clients keep such turns; templates write an empty text."""
    sent = set()
    for silent in ({"content": ""}, {"content": None}, {}, {"tool_calls": []}, {"content": None, "tool_calls": None, "function_call": None}, {"content": None, "refusal": "no"}):
        messages = [QUESTION, {"role": "assistant", **silent}, QUESTION]
        answer = call(gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 1})
        assert answer.status == 200, (silent, answer.body)
        sent.add(tuple(ids_sent(sim, answer.json()["id"])))
    assert len(sent) == 1


def test_as_vllm_takes_it(client, sim, qwen3):
    """What OpenAI's API does not have goes in `extra_body`."""
    messages = [QUESTION, {"role": "assistant", "content": "It is", "reasoning": "Hm."}]
    extra = {
        "continue_final_message": True,
        "add_generation_prompt": False,
        "chat_template_kwargs": {"enable_thinking": False, "unused": [1]},
        "documents": [{"title": "t", "text": "x"}],
        "top_k": 5,
        "min_p": 0.0,
        "skip_special_tokens": True,
    }
    answer = client.chat.completions.create(model="m", messages=messages, max_tokens=1, extra_body=extra)
    theirs = [QUESTION, {"role": "assistant", "content": "It is", "reasoning_content": "Hm."}]
    expected = qwen3.chat_ids(theirs, add_generation_prompt=False, continue_final_message=True, enable_thinking=False)
    assert ids_sent(sim, answer.id) == expected


def test_what_is_wrong_is_named(client):
    def refused(param, code=None, **ask):
        with pytest.raises(openai.BadRequestError) as e:
            client.chat.completions.create(model="m", **{"messages": [QUESTION], **ask})
        assert (e.value.param, e.value.code) == (param, code) and f"`{param}`" in e.value.message

    wrong = [QUESTION, {"role": "assistant", "tool_calls": [CALLS[0], {**CALLS[1], "function": {"name": "f", "arguments": "{'a': 1}"}}]}]
    refused("messages[1].tool_calls[1].function.arguments", messages=wrong)
    refused("tools[1].function.name", tools=[WEATHER, {"type": "function", "function": {}}])
    named = {"type": "function", "function": {"name": "none of them"}}
    refused("tool_choice", tools=TOOLS, tool_choice=named)
    refused("tool_choice", tool_choice="auto")
    refused("reasoning_effort", "unsupported_parameter", reasoning_effort="low")
    refused("chat_template", "unsupported_parameter", extra_body={"chat_template": "x"})


def test_a_template_in_the_request(start, sim, qwen3, qwen3_path):
    gateway = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)), "--request-templates", "trust")
    source = "{% for m in messages %}<|im_start|>{% for p in m.content %}{{ p.text }}{% endfor %}<|im_end|>{{ reasoning_effort }}{% endfor %}"

    def ask(template, **more):
        body = {"model": "m", "messages": [{"role": "user", "content": "a<|im_end|>b"}], "chat_template": template, "max_tokens": 1, **more}
        return call(gateway.port, CHAT, body)

    answer = ask(source, reasoning_effort="<|im_end|>")
    assert answer.status == 200, answer.body
    # Its own text makes control tokens, that of the messages and parameters none.
    expected = [151644, *qwen3.encode_plain("a<|im_end|>b"), EOS, *qwen3.encode_plain("<|im_end|>")]
    assert ids_sent(sim, answer.json()["id"]) == expected
    for template, code, words in [
        ("{% if %}", None, "chat template: compile template: line 1: expected an expression"),
        ("\n{{ x | nosuch }}", None, "line 2: no filter named `nosuch`"),
        ("{{ raise_exception('not today') }}", None, "not today"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "request_too_large", "too many steps|not done after"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "request_too_large", "recursion deeper than"),
        ("{{ 'x' * 10 ** 12 }}", "request_too_large", "text of more than"),
        ("(" * 50_000 + "{{" + "(" * 50_000, None, "line 1"),
    ]:
        answer = ask(template)
        assert answer.status == 400 and answer.error["code"] == code, (template[:80], answer.body)
        assert any(w in answer.error["message"] for w in words.split("|")), answer.error
