"""Answers that break their schema, by spec.output.validation: marked, made again, failed, or passed on; in every API, streamed and not. The engine is the
simulated one, which keeps to no constraint and writes what it is told to."""

import contextlib
import json

import pytest
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from scripts import EOS
from wire import CHAT, Connection, call

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["n"]}
GOOD = '{"n": 12, "tags": ["a", "b"]}'
BAD = '{"n": 12, "tags": ["a", 7]}'
AT = {"valid": False, "reason": "invalid", "at": "/tags/1", "offset": BAD.index("7")}
QUESTION = [{"role": "user", "content": "Numbers, please."}]
FORMAT = {"type": "json_schema", "json_schema": {"name": "numbers", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {"name": "put", "strict": True, "parameters": SCHEMA}}
COMPLETIONS, MESSAGES, GENERATE = "/v1/completions", "/v1/messages", "/generate"
SETTINGS = ("Off", "Mark", "Retry", "Fail")


def write_call(arguments):
    return f'<tool_call>\n{{"name": "put", "arguments": {arguments}}}\n</tool_call>'


class Engines:
    """A gateway with a model for each setting, before an engine that writes the texts: a request with seed S gets the S-th."""

    def __init__(self, start, qwen3, qwen3_path, token_file, *texts, itl_ms=0):
        ids = [qwen3.encode(text) for text in texts]
        self.length = max(len(i) for i in ids)
        (pad,) = qwen3.encode("\n")
        script = token_file([one for i in ids for one in i + [pad] * (self.length - len(i))])
        self.sim = start(
            Sim,
            *("--vocab", QWEN3_TOKENS, "--eos", EOS, "--itl-ms", itl_ms),
            *("--tokens", script, "--seed-step", self.length, "--stop-after", self.length + 1),
        )
        engines = [engine(s.lower(), self.sim.port, model=s, path=qwen3_path) for s in SETTINGS]
        for e, setting in zip(engines, SETTINGS):
            e["spec"]["output"] = {"validation": setting}
        engines.append(engine("unset", self.sim.port, model="unset", path=qwen3_path))
        self.gateway = start(Gateway, manifest(*engines))
        wait_until(lambda: self.gateway.ask("/readyz?verbose")[1].count(": routable") == len(engines), "every model")

    def __call__(self, path, model, **more):
        return call(self.gateway.port, path, body_of(path, model, **more))

    def stream(self, path, model, **more):
        """The values of the stream's data lines."""
        with Connection(self.gateway.port) as c:
            c.request(path, {**body_of(path, model, **more), "stream": True})
            status, headers = c.head()
            body = b"".join(c.pieces(headers)).decode()
        assert status == 200, body
        lines = [line[6:] for line in body.splitlines() if line.startswith("data: ")]
        return [json.loads(line) for line in lines if line != "[DONE]"]

    def counted(self, model):
        found = {}
        for result in ("valid", "invalid", "truncated", "unchecked", "retried"):
            with contextlib.suppress(Exception):
                if n := self.gateway.metric("kelpie_output_validation_total", model=model, result=result):
                    found[result] = n
        return found


def body_of(path, model, **more):
    seed, most = more.pop("seed", 0), more.pop("max_tokens", 500)
    if path == CHAT:
        return {"model": model, "messages": QUESTION, "seed": seed, "max_tokens": most, "response_format": FORMAT, **more}
    if path == COMPLETIONS:
        return {"model": model, "prompt": "Numbers:", "seed": seed, "max_tokens": most, "guided_json": SCHEMA, **more}
    if path == MESSAGES:
        return {"model": model, "messages": QUESTION, "max_tokens": most, "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}, **more}
    sampling = {"max_new_tokens": most, "sampling_seed": seed, "json_schema": json.dumps(SCHEMA)}
    return {"model": model, "text": "Numbers:", "sampling_params": sampling, **more}


def mark_of(path, answer):
    """What an answer that is not streamed says of its validation, or None."""
    holder = {CHAT: lambda: answer["choices"][0], COMPLETIONS: lambda: answer["choices"][0], MESSAGES: lambda: answer, GENERATE: lambda: answer["meta_info"]}[path]()
    return holder.get("kelpie", {}).get("validation")


def marks_in(values):
    """All marks of a stream, wherever they stand."""
    found = []
    for value in values:
        for holder in (value, value.get("meta_info", {}), *value.get("choices", ())):
            if "kelpie" in holder:
                found.append(holder["kelpie"]["validation"])
    return found


@pytest.fixture(scope="module")
def bad(start_shared, qwen3, qwen3_path, token_file):
    """Every answer is wrong."""
    return Engines(start_shared, qwen3, qwen3_path, token_file, BAD)


@pytest.fixture(scope="module")
def mended(start_shared, qwen3, qwen3_path, token_file):
    """Wrong with seed 0, right with seed 1."""
    return Engines(start_shared, qwen3, qwen3_path, token_file, BAD, GOOD)


PATHS = (CHAT, COMPLETIONS, MESSAGES, GENERATE)


@pytest.mark.parametrize("path", PATHS)
def test_what_is_wrong_is_marked(bad, path):
    for model in ("Mark", "unset", "Retry"):
        mark = mark_of(path, bad(path, model).json())
        assert {k: mark[k] for k in AT} == AT and mark["keyword"] == "#/properties/tags/items/type" and "string" in mark["message"]
        (mark,) = marks_in(bad.stream(path, model))
        assert {k: mark[k] for k in AT} == AT
    assert mark_of(path, bad(path, "Off").json()) is None and marks_in(bad.stream(path, "Off")) == []


@pytest.mark.parametrize("path", PATHS)
def test_what_is_wrong_fails(bad, path):
    answer = bad(path, "Fail")
    error = answer.json()["error"]
    assert answer.status == (500 if path == MESSAGES else 502) and "`/tags/1`" in error["message"], answer.body
    assert (error["details"]["error_code"] if path == MESSAGES else error["code"]) == "invalid_output"
    values = bad.stream(path, "Fail")
    assert "`/tags/1`" in values[-1]["error"]["message"] and sum("error" in v for v in values) == 1
    assert not any(c.get("finish_reason") for v in values for c in v.get("choices", ()))
    assert "/tags/1" not in bad.gateway.text()  # of outputs nothing is logged


@pytest.mark.parametrize("path", (CHAT, COMPLETIONS, GENERATE))
def test_a_second_try(mended, path):
    more = {"n": 2, "logprobs": True, "return_token_ids": True} if path == CHAT else {}
    answer = mended(path, "Retry", **more).json()
    texts = {
        CHAT: lambda: [c["message"]["content"] for c in answer["choices"]],
        COMPLETIONS: lambda: [c["text"] for c in answer["choices"]],
        GENERATE: lambda: [answer["text"]],
    }[path]()
    assert [t.strip() for t in texts] == ([BAD, GOOD] if more else [GOOD])  # seeds 0 and 1 became 2, which is 0 again here, and 1
    if more:
        assert mark_of(path, answer)["at"] == "/tags/1" and "kelpie" not in answer["choices"][1]
        for choice in answer["choices"]:
            made = "".join(t["token"] for t in choice["logprobs"]["content"])
            assert made.startswith(choice["message"]["content"]) and made.count("tags") == 1 and len(choice["token_ids"]) == len(choice["logprobs"]["content"])
    else:
        assert mark_of(path, answer) is None
    (mark,) = marks_in(mended.stream(path, "Retry"))
    assert mark["at"] == "/tags/1"


def test_a_second_try_of_a_message(mended):
    """Anthropic's API has no seed, so the engine chooses: here it writes the same again."""
    answer = mended(MESSAGES, "Retry").json()
    assert mark_of(MESSAGES, answer)["at"] == "/tags/1" and [b["text"].strip() for b in answer["content"]] == [BAD]
    assert len(mended.sim.events("start", answer["id"])) == 2
    once = mended(MESSAGES, "Mark").json()["usage"]["output_tokens"]
    assert once == mended.length + 1 and once < answer["usage"]["output_tokens"] < 2 * once  # both are paid for, the first up to its fault


LONG_TEXT = json.dumps({"n": 12, "tags": ["a", 7, *["b"] * 400]})
LONG_CALLS = f"{write_call(BAD)}\n" + f"{write_call(GOOD)}\n" * 60


@pytest.fixture(scope="module", params=("text", "call"))
def long(request, start_shared, qwen3, qwen3_path, token_file):
    """Wrong soon, and then long; and how the check is asked for."""
    e = Engines(start_shared, qwen3, qwen3_path, token_file, LONG_TEXT if request.param == "text" else LONG_CALLS, GOOD, itl_ms=1)
    e.ask = {} if request.param == "text" else {"tools": [TOOL], "response_format": {"type": "text"}}
    return e


def ends(e, answer_id):
    """How the engine's calls of a request ended, with the tokens each made."""
    found = lambda event: e.sim.events(event, answer_id)
    wait_until(lambda: len(found("start")) == len(found("end")) + len(found("cancelled")), "its ends")
    return [(x["event"], x["after"]) for x in found(None) if x["event"] in ("end", "cancelled")]


@pytest.mark.parametrize("is_streamed", (False, True))
def test_what_has_become_wrong_is_not_written_to_its_end(long, is_streamed):
    answer = long(CHAT, "Fail", max_tokens=5000, stream=is_streamed, **long.ask)
    assert "/tags/1" in answer.body.decode() and "invalid_output" in answer.body.decode()
    ((event, tokens),) = ends(long, answer.headers["x-request-id"])
    assert event == "cancelled" and tokens < long.length / 2
    wait_until(lambda: long.gateway.metric("kelpie_requests_in_flight") == 0, "nothing in flight")


def test_a_second_try_begins_once_the_first_is_lost(long):
    answer = long(CHAT, "Retry", max_tokens=5000, **long.ask).json()
    assert mark_of(CHAT, answer) is None and answer["choices"][0]["message"]["content"].strip() == GOOD
    (first, tokens), (second, rest) = ends(long, answer["id"])
    assert (first, second) == ("cancelled", "end") and tokens < long.length / 2 < rest
    for again in (long(CHAT, "Mark", max_tokens=5000, **long.ask).json(), long(CHAT, "Retry", max_tokens=5000, **long.ask, n=2).json()):
        assert mark_of(CHAT, again)["at"] == "/tags/1"  # with n = 2 the second try of the first is as wrong, and goes on
        assert ends(long, again["id"])[-1][0] == "end"


def test_a_text_that_a_call_may_replace_goes_on(start, qwen3, qwen3_path, token_file):
    e = Engines(start, qwen3, qwen3_path, token_file, f"I put.\n{write_call(GOOD)}")
    answer = e(CHAT, "Fail", tools=[TOOL]).json()
    assert answer["choices"][0]["finish_reason"] == "tool_calls" and mark_of(CHAT, answer) is None


def test_each_result_is_counted(start, qwen3, qwen3_path, token_file):
    e = Engines(start, qwen3, qwen3_path, token_file, BAD, GOOD)
    for model in SETTINGS:
        e(CHAT, model)
    e(CHAT, "Mark", seed=1)
    e(CHAT, "Mark", max_tokens=3)
    e(CHAT, "Mark", response_format={"type": "text"})
    assert e.counted("Mark") == {"invalid": 1, "valid": 1, "truncated": 1}
    assert e.counted("Retry") == {"retried": 1, "valid": 1} and e.counted("Fail") == {"invalid": 1} and e.counted("Off") == {}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_cut_off_is_not_wrong(mended, path):
    for model in ("Mark", "Retry", "Fail"):
        mark = mark_of(path, mended(path, model, max_tokens=5).json())
        assert mark["reason"] == "truncated" and mark["valid"] is False
        (mark,) = marks_in(mended.stream(path, model, max_tokens=5))
        assert mark["reason"] == "truncated"
    stopped = mended(CHAT, "Fail", stop=['"tags"']).json()["choices"][0]
    assert stopped["kelpie"]["validation"]["reason"] == "truncated" and stopped["finish_reason"] == "stop"


def test_arguments_of_strict_tools(start, qwen3, qwen3_path, token_file):
    e = Engines(start, qwen3, qwen3_path, token_file, f"I put.\n{write_call(GOOD)}\n{write_call(BAD)}", f"I put.\n{write_call(GOOD)}")
    ask = {"tools": [TOOL], "response_format": {"type": "text"}}
    answer = e(CHAT, "Mark", **ask).json()
    mark = mark_of(CHAT, answer)
    assert answer["choices"][0]["finish_reason"] == "tool_calls" and len(answer["choices"][0]["message"]["tool_calls"]) == 2
    assert (mark["tool_call"], mark["at"]) == (1, "/tags/1")
    (mark,) = marks_in(e.stream(CHAT, "Mark", **ask))
    assert (mark["tool_call"], mark["at"]) == (1, "/tags/1")
    answer = e(CHAT, "Retry", **ask).json()
    assert mark_of(CHAT, answer) is None and len(answer["choices"][0]["message"]["tool_calls"]) == 1
    failed = e(CHAT, "Fail", **ask)
    assert failed.status == 502 and "tool call 1: `/tags/1`" in failed.json()["error"]["message"]
    loose = {"type": "function", "function": {**TOOL["function"], "strict": False}}
    assert mark_of(CHAT, e(CHAT, "Fail", **{**ask, "tools": [loose]}).json()) is None
    said = {"tools": [{"name": "put", "strict": True, "input_schema": SCHEMA}], "output_config": {}}
    assert mark_of(MESSAGES, e(MESSAGES, "Mark", **said).json())["tool_call"] == 1
    (mark,) = marks_in(e.stream(MESSAGES, "Mark", **said))
    assert mark["at"] == "/tags/1"


def test_other_texts_that_are_no_such_json(start, qwen3, qwen3_path, token_file):
    texts = ["```json\n" + GOOD + "\n```", GOOD + " That is all.", '{"n": 1', '{"n": 1, "n": 2}', "{}", "<think>\n{]\n</think>\n\n" + GOOD]
    e = Engines(start, qwen3, qwen3_path, token_file, *texts)
    found = [mark_of(CHAT, e(CHAT, "Mark", seed=s).json()) for s in range(len(texts))]
    assert [m and (m["reason"], m["at"], m["offset"]) for m in found] == [
        ("invalid", "", 0),
        ("invalid", "", len(GOOD) + 1),
        ("invalid", "/n", found[2]["offset"]),
        ("invalid", "", len('{"n": 1, "n"')),
        ("invalid", "", 2),
        None,
    ]
    objects = [mark_of(CHAT, e(CHAT, "Mark", seed=s, response_format={"type": "json_object"}).json()) for s in (0, 4)]
    assert objects[0]["reason"] == "invalid" and objects[1] is None


def test_a_long_schema_is_compiled_by_a_worker(bad):
    long = {**SCHEMA, "description": "x" * (200 << 10)}
    answer = bad(COMPLETIONS, "Mark", guided_json=long)
    assert mark_of(COMPLETIONS, answer.json())["at"] == "/tags/1"
    wrong = bad(COMPLETIONS, "Mark", guided_json={**long, "type": "objekt"})
    assert wrong.status == 400 and wrong.error["param"] == "guided_json"


def test_what_could_not_be_told_fails_only_where_it_must(start, qwen3, qwen3_path, token_file):
    dear = {"type": "array", "items": {"anyOf": [{"const": n} for n in range(5000)]}}
    e = Engines(start, qwen3, qwen3_path, token_file, json.dumps([4999] * 60))
    for model in ("Mark", "Retry"):
        mark = mark_of(COMPLETIONS, e(COMPLETIONS, model, guided_json=dear).json())
        assert mark["valid"] is False and mark["reason"] == "unchecked" and "steps" in mark["message"] and not {"at", "offset", "keyword"} & set(mark)
    failed = e(COMPLETIONS, "Fail", guided_json=dear)
    assert failed.status == 502 and failed.error["code"] == "invalid_output"
    assert e.counted("Mark") == e.counted("Retry") == e.counted("Fail") == {"unchecked": 1}


def test_a_schema_that_cannot_be_compiled(bad):
    wrong = {"type": "object", "properties": {"n": {"type": "integr"}}}
    before = len(bad.sim.events("start"))
    answer = bad(CHAT, "Mark", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": wrong}})
    error = answer.json()["error"]
    assert answer.status == 400 and error["param"] == "response_format" and "#/properties/n" in error["message"], answer.body
    tool = {"type": "function", "function": {"name": "put", "strict": True, "parameters": wrong}}
    error = bad(CHAT, "Mark", response_format={"type": "text"}, tools=[TOOL, tool]).json()["error"]
    assert error["param"] == "tools[1].function.parameters"
    error = bad(COMPLETIONS, "Fail", guided_json=wrong).json()["error"]
    assert error["param"] == "guided_json"
    answer = bad(MESSAGES, "Mark", output_config={"format": {"type": "json_schema", "schema": wrong}})
    assert answer.status == 400 and "output_config" in answer.json()["error"]["message"]
    assert len(bad.sim.events("start")) == before
