"""What a gateway keeps of responses: conversations by `previous_response_id`, what is shown of a response, who may see it, and what a gateway that is killed has
lost: nothing that it acknowledged."""

import contextlib
import functools
import random
import subprocess

import openai
import pytest
from programs import engine, manifest, wait_until
from responses import PATH, Script, Talker, killed_and_asked
from scripts import TEXT
from wire import Connection
from wire import call as ask

NO_THINKING = {"reasoning": {"effort": "none"}}
HELLO = "Hello there, world."


def call(gateway, path, body=None, **more):
    answer = ask(gateway.port, path, body, **more)
    return answer.status, answer.json()


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def script(request, start_shared, qwen3, qwen3_path, token_file, tmp_path_factory):
    """One engine and gateway per text."""

    def make(text):
        where = "memory" if request.param == "memory" else f"sqlite:{tmp_path_factory.mktemp('history')}/history"
        return Script(start_shared, qwen3, qwen3_path, token_file, text, gateway_options=("--history", where, "--tenant-header", "X-Tenant"))

    return functools.cache(make)


def client(s, tenant="one"):
    return s.client.with_options(default_headers={"X-Tenant": tenant})


def test_rs07_a_conversation_has_its_calls_and_their_results(script):
    s = script(TEXT)
    c = client(s)
    first = c.responses.create(**s.ask())
    calls = [i for i in first.output if i.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": i.call_id, "output": i.name} for i in calls]
    second = c.responses.create(**s.ask(input=outputs, previous_response_id=first.id, instructions="Be brief."))
    assert second.previous_response_id == first.id
    again = [{"role": "user", "content": s.ask()["input"]}, *(i.model_dump() for i in first.output), *outputs]
    inline = c.responses.create(**s.ask(input=again, instructions="Be brief."))
    assert s.sent(second) == s.sent(inline)
    calls = [{"type": "function_call_output", "call_id": i.call_id, "output": "x"} for i in second.output if i.type == "function_call"]
    third = c.responses.create(**s.ask(input=[*calls, {"role": "user", "content": "And now?"}], previous_response_id=second.id))
    prompt = s.oracle.decode(s.sent(third))
    assert prompt.count("get_weather") == 4 and "And now?" in prompt and "Be brief." not in prompt


def test_rs09_calls_without_results(script):
    s = script(TEXT)
    c = client(s)
    first = c.responses.create(**s.ask())
    second = c.responses.create(**s.ask(input="Never mind.", previous_response_id=first.id))
    assert s.oracle.decode(s.sent(second)).count("No result: the call was not answered.") == 2
    with pytest.raises(openai.BadRequestError) as e:
        c.responses.create(**s.ask(input=[{"type": "function_call_output", "call_id": "nobody", "output": "x"}], previous_response_id=first.id))
    assert e.value.param == "input[0].call_id" and "`nobody`" in e.value.message


def test_rs17_there_is_one_history(script):
    s = script(HELLO)
    c = client(s)
    first = c.responses.create(**s.ask())
    with pytest.raises(openai.BadRequestError) as e:
        c.responses.create(**s.ask(previous_response_id=first.id, conversation="conv_1"))
    assert e.value.param == "conversation"


def test_rs18_no_item_is_left_out(script):
    s = script(HELLO)
    c = client(s)
    said = [{"role": ("user", "assistant")[i % 2], "content": f"word {i}."} for i in range(301)]
    first = c.responses.create(**s.ask(input=said))
    second = c.responses.create(**s.ask(input="And now?", previous_response_id=first.id))
    prompt = s.oracle.decode(s.sent(second))
    assert all(f"word {i}." in prompt for i in range(301)) and HELLO in prompt


def test_rs11_only_a_reference_must_resolve(script):
    s = script(HELLO)
    c = client(s)
    first = c.responses.create(**s.ask(**NO_THINKING))
    inline = c.responses.create(**s.ask(input=[{"id": "msg_never_seen", "role": "user", "content": "x"}], **NO_THINKING))
    referred = c.responses.create(
        **s.ask(input=[{"role": "user", "content": "a"}, {"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "b"}], **NO_THINKING)
    )
    assert f"user\na\nassistant\n{HELLO}\nuser\nb\n" in s.oracle.decode(s.sent(referred))
    for who, reference in [(c, "msg_nowhere"), (client(s, "two"), first.output[0].id), (client(s, "two"), inline.output[0].id)]:
        with pytest.raises(openai.BadRequestError) as e:
            who.responses.create(**s.ask(input=[{"type": "item_reference", "id": reference}]))
        assert e.value.param == "input[0].id"


def test_a_response_is_shown_and_deleted(script):
    s = script(HELLO)
    c = client(s)
    first = c.responses.create(**s.ask(input="Who?", metadata={"a": "b"}, **NO_THINKING))
    assert c.responses.retrieve(first.id).model_dump() == first.model_dump()
    items = c.responses.input_items.list(first.id)
    assert [(i.type, i.role, i.content[0].type, i.content[0].text) for i in items.data] == [("message", "user", "input_text", "Who?")]
    second = c.responses.create(**s.ask(input="More.", previous_response_id=first.id, **NO_THINKING))
    c.responses.delete(first.id)
    for path in (f"{PATH}/{first.id}", f"{PATH}/{first.id}/input_items", f"{PATH}/nothing"):
        status, answer = call(s.gateway, path, headers=[("X-Tenant", "one")])
        assert status == 404 and answer["error"]["message"].startswith("no response")
    assert c.responses.retrieve(second.id).id == second.id
    with pytest.raises(openai.NotFoundError) as e:
        c.responses.create(**s.ask(previous_response_id=second.id))
    assert first.id in e.value.message and e.value.param == "previous_response_id" and e.value.code == "previous_response_not_found"
    assert call(s.gateway, f"{PATH}/{second.id}", method="PUT", headers=[("X-Tenant", "one")])[0] == 405


def test_input_items_in_pages(script):
    s = script(HELLO)
    c = client(s)
    first = c.responses.create(**s.ask(input=[{"role": "user", "content": f"n{i}"} for i in range(25)], **NO_THINKING))
    found = list(c.responses.input_items.list(first.id, limit=10, order="asc"))
    assert [i.content[0].text for i in found] == [f"n{i}" for i in range(25)]
    assert [i.content[0].text for i in c.responses.input_items.list(first.id)] == [f"n{i}" for i in reversed(range(25))]
    for query in ("limit=0", "limit=101", "order=up", "after=nobody"):
        assert call(s.gateway, f"{PATH}/{first.id}/input_items?{query}", headers=[("X-Tenant", "one")])[0] == 400


def test_what_is_not_stored_is_not_there(script):
    s = script(HELLO)
    c = client(s)
    first = c.responses.create(**s.ask(store=False, **NO_THINKING))
    with pytest.raises(openai.NotFoundError):
        c.responses.retrieve(first.id)


def test_two_tenants_share_nothing(script):
    s = script(HELLO)
    first = client(s, "one").responses.create(**s.ask(**NO_THINKING))
    other = client(s, "two")
    for see in (
        lambda: other.responses.retrieve(first.id),
        lambda: other.responses.delete(first.id),
        lambda: other.responses.input_items.list(first.id),
        lambda: other.responses.create(**s.ask(previous_response_id=first.id)),
    ):
        with pytest.raises(openai.NotFoundError):
            see()
    assert client(s, "one").responses.retrieve(first.id).id == first.id
    status, answer = call(s.gateway, PATH, s.ask())
    assert status == 400 and "`x-tenant`" in answer["error"]["message"]
    assert call(s.gateway, f"{PATH}/{first.id}")[0] == 400
    assert call(s.gateway, PATH, s.ask(), headers=[("X-Tenant", "x" * 257)])[0] == 400
    status, answer = call(s.gateway, PATH, s.ask(), headers=[("X-Tenant", "two"), ("x-tenant", "one")])
    assert status == 400 and "`x-tenant`" in answer["error"]["message"]


def test_what_is_loaded_counts_among_the_bodies_of_all_requests(start, qwen3, qwen3_path, token_file):
    s = Script(start, qwen3, qwen3_path, token_file, HELLO, "--ttft-ms", 1000, gateway_options=("--max-body-total", 1_000_000))
    first = s.whole(input="word " * 60_000, **NO_THINKING)  # 300 kB
    body = s.ask(input="More.", previous_response_id=first.id, **NO_THINKING)
    before = len(s.sim.events("start"))
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Connection(s.gateway.port)).request(PATH, body)
        wait_until(lambda: len(s.sim.events("start")) == before + 3, "three of them")
        for path, what in ((PATH, body), (f"{PATH}/{first.id}", None), (f"{PATH}/{first.id}/input_items", None)):
            status, answer = call(s.gateway, path, what)
            assert status == 429 and answer["error"]["code"] == "too_many_requests", answer
        assert call(s.gateway, PATH, s.ask(**NO_THINKING))[0] == 200
    wait_until(lambda: call(s.gateway, f"{PATH}/{first.id}")[0] == 200, "their end")
    assert call(s.gateway, PATH, body)[0] == 200


@pytest.mark.parametrize("depth", [127, 128])
def test_what_is_kept_can_be_read(script, depth):
    """JSON of 128 levels is read; a kept response has its tools one level deeper than the request."""
    s = script(HELLO)
    value = 1
    for _ in range(depth - 4):
        value = [value]
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "x": value}}
    answer = ask(s.gateway.port, PATH, s.ask(tools=[tool], **NO_THINKING), headers=[("X-Tenant", "one")])
    if depth == 128:
        assert answer.status == 400 and "127 deep" in answer.json()["error"]["message"]
    else:
        assert client(s).responses.retrieve(answer.json()["id"]).id == answer.json()["id"]


def test_a_gateway_that_keeps_nothing_says_so(start, qwen3, qwen3_path, token_file):
    s = Script(start, qwen3, qwen3_path, token_file, HELLO, gateway_options=("--history", "none"))
    first = s.whole(**NO_THINKING)
    assert first.store is False
    status, answer = call(s.gateway, PATH, s.ask(previous_response_id=first.id))
    assert status == 400 and answer["error"]["param"] == "previous_response_id"
    assert call(s.gateway, f"{PATH}/{first.id}")[0] == 404


@pytest.mark.parametrize("stream", [False, True])
def test_rs15_a_store_that_fails_while_it_runs(start, qwen3, qwen3_path, token_file, tmp_path, stream):
    """Its file may not grow any more, then it may again. What was not kept is not told to be; what was kept stays."""
    s = Script(start, qwen3, qwen3_path, token_file, HELLO, gateway_options=("--history", f"sqlite:{tmp_path}/history"))
    first = s.whole(**NO_THINKING)
    subprocess.run(["prlimit", "--pid", str(s.gateway.pid), "--fsize=1:"], check=True)
    if stream:
        last = s.events(**NO_THINKING)[-1]
        assert last["type"] == "response.failed"
        error, key = last["response"]["error"], last["response"]["id"]
        assert error["code"] == "server_error"
    else:
        status, answer = call(s.gateway, PATH, s.ask(**NO_THINKING))
        error, key = answer["error"], "resp_nobody"
        assert status == 503 and error["code"] == "history_unavailable"
    assert error["message"].startswith("write the history: ") and str(tmp_path) not in error["message"]
    assert call(s.gateway, f"{PATH}/{key}")[0] == 404
    assert s.client.responses.retrieve(first.id).id == first.id
    assert s.whole(store=False, **NO_THINKING).status == "completed"
    subprocess.run(["prlimit", "--pid", str(s.gateway.pid), "--fsize=unlimited:"], check=True)
    again = s.whole(previous_response_id=first.id, **NO_THINKING)
    assert s.client.responses.retrieve(again.id).id == again.id


class Turns(Talker):
    """Conversations of four turns."""

    def one(self, previous):
        more = {"previous_response_id": previous["id"]} if previous and self.n % 4 else {}
        return self.say({**self.s.ask(input=f"turn {self.n}", stream=self.n % 2 == 0, **NO_THINKING), **more})


def kill_often(start, qwen3, qwen3_path, token_file, tmp_path, times):
    s = Script(start, qwen3, qwen3_path, token_file, HELLO)
    s.manifest = manifest(engine("sim", s.sim.port, path=qwen3_path))
    s.options, rng = ("--history", f"sqlite:{tmp_path}/history"), random.Random(9)
    return sum(len(killed_and_asked(start, s, Turns, rng.uniform(0.05, 0.5))) for _ in range(times))


def test_a_gateway_that_is_killed_loses_nothing_it_acknowledged(start, qwen3, qwen3_path, token_file, tmp_path):
    assert kill_often(start, qwen3, qwen3_path, token_file, tmp_path, 3) > 0


@pytest.mark.slow
def test_gateways_killed_at_200_moments(start, qwen3, qwen3_path, token_file, tmp_path):
    told = kill_often(start, qwen3, qwen3_path, token_file, tmp_path, 200)
    print(f"{told} acknowledged responses, none lost")
