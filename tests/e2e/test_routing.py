"""Where a request goes, why, and what becomes of it when its engine freezes."""

import json
import os
import signal
import threading
import time

import pytest
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from wire import COMPLETIONS, call

pytestmark = pytest.mark.alone

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}


def explain(gateway, request):
    status, body = gateway.ask(f"/explain?request={request}")
    assert status == 200, body
    return json.loads(body)


def test_explain_says_what_stood_to_choose_from(two):
    one, other, gateway = two
    id = call(gateway.port, COMPLETIONS, {**BODY, "n": 2, "temperature": 1}).json()["id"]
    told = explain(gateway, id)
    assert (told["request"], told["model"], told["pool"], told["revision"]) == (id, "m", "default/pool", "default/e")
    assert (told["status"], told["outcome"]) == (200, "ok")
    first, second = (c["attempts"] for c in told["choices"])
    assert len(first) == len(second) == 1
    assert first[0]["because"] == "lowest score" and first[0]["outcome"] == "ok"
    assert second[0]["because"] == "the prompt's other choices run there"
    assert first[0]["endpoint"] == second[0]["endpoint"]
    assert first[0]["endpoint"] in [f"default/e/{s.address}" for s in (one, other)]
    assert [c["endpoint"] for c in first[0]["candidates"]] == [f"default/e/{s.address}" for s in (one, other)]
    assert all(c["state"] == "routable" and c["distance"] == "own" for c in first[0]["candidates"])


def test_explain_finds_the_clients_own_request_id_and_tells_of_the_retry(start, qwen3_path):
    bad = start(Sim, "--vocab", QWEN3_TOKENS, "--fault", "unavailable")
    good = start(Sim, "--vocab", QWEN3_TOKENS)
    gateway = start(Gateway, manifest(engine("e", bad.port, good.port, path=qwen3_path)))
    wait_until(lambda: gateway.ask("/readyz?verbose")[1].count("routable") == 2, "two engines")
    for i in range(20):
        headers = (("x-request-id", f"mine-{i}"),)
        assert call(gateway.port, COMPLETIONS, BODY, headers=headers).status == 200
        attempts = explain(gateway, f"mine-{i}")["choices"][0]["attempts"]
        if len(attempts) == 2:
            break
    assert attempts[0]["endpoint"] == f"default/e/{bad.address}"
    assert attempts[0]["outcome"].startswith("UNAVAILABLE: ")
    assert attempts[1]["endpoint"] == f"default/e/{good.address}" and attempts[1]["outcome"] == "ok"
    assert attempts[1]["because"] == "lowest score"
    excluded = {c["endpoint"]: c.get("excluded") for c in attempts[1]["candidates"]}
    assert excluded[f"default/e/{good.address}"] is None and excluded[f"default/e/{bad.address}"]


def test_explain_shows_what_stands_behind_a_model_and_names_what_it_does_not_know(two):
    one, other, gateway = two
    told = json.loads(gateway.ask("/explain?model=m")[1])
    (revision,) = told["revisions"]
    assert told["pool"] == "default/pool" and revision["chatTemplate"] == "the model's own" and revision["shape"]["arguments"] == "object"
    assert revision["cutTokens"] == 26
    assert [(e["address"], e["state"], e["protocol"]) for e in revision["endpoints"]] == [
        (s.address, "routable", "vllm") for s in (one, other)
    ]
    for query, status, said in (
        ("model=nope", 404, "the model `nope` does not exist"),
        ("request=chatcmpl-nope", 404, "request `chatcmpl-nope` is not among the last that this gateway served"),
        ("", 400, "say `?request=ID` or `?model=NAME`"),
    ):
        got, body = gateway.ask(f"/explain?{query}")
        assert (got, json.loads(body)["error"]["message"]) == (status, said)


def test_a_frozen_engine_holds_no_request_that_waits_for_its_first_token(two):
    one, other, gateway = two
    answers, began = [], time.monotonic()
    os.kill(one.pid, signal.SIGSTOP)
    try:
        threads = [
            threading.Thread(target=lambda: answers.append(call(gateway.port, COMPLETIONS, BODY).status))
            for _ in range(16)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        took = time.monotonic() - began
        assert answers == [200] * 16
        assert len(other.events("start")) == 16
        assert took < 7, took  # health every 2 s, asked at most 3 s: far below the 30 s of the connection
    finally:
        os.kill(one.pid, signal.SIGCONT)


def test_a_frozen_engine_ends_the_streams_it_left_hanging(start, qwen3_path):
    sim = start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 20)
    gateway = start(Gateway, manifest(engine("e", sim.port, path=qwen3_path)))
    answer = []
    body = {**BODY, "max_tokens": 1000, "stream": True}
    thread = threading.Thread(target=lambda: answer.append(call(gateway.port, COMPLETIONS, body)))
    thread.start()
    sim.wait_event("start")
    time.sleep(0.3)
    os.kill(sim.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        thread.join(25)
        took = time.monotonic() - began
        assert not thread.is_alive()
        assert 5 < took < 20, took
        text = answer[0].body.decode()
        assert text.count('"error"') == 1 and f"engine `{sim.address}` does not answer" in text
        assert gateway.metric("kelpie_requests_in_flight") == 0
    finally:
        os.kill(sim.pid, signal.SIGCONT)


def test_drain_sends_new_work_nowhere_but_serves_what_has_no_other_place(two):
    one, other, gateway = two
    assert gateway.ask("/drain") == (200, "draining, 0 requests in flight\n")
    assert gateway.ask("/readyz")[0] == 503
    assert call(gateway.port, COMPLETIONS, BODY).status == 200
