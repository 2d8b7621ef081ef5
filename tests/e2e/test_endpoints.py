"""One engine's fault stays that engine's, and the gateway's own ends: what an attack on it once found."""

import os
import signal
import subprocess

import pytest
from programs import BUILD, LOGS, PATIENCE, QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from wire import COMPLETIONS, call

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}


def restarted(start, sim, *options):
    """At once, at the same address, as another engine."""
    sim.kill()
    return start(Sim, *options, port=sim.port)


@pytest.fixture
def two(start, qwen3_path):
    """Two engines with one model, and the gateway before them."""
    sims = [start(Sim, "--vocab", QWEN3_TOKENS) for _ in range(2)]
    gateway = start(Gateway, manifest(engine("e", *(s.port for s in sims), path=qwen3_path)))
    wait_until(lambda: gateway.ask("/readyz?verbose")[1].count("routable") == 2, "two engines")
    return *sims, gateway


def test_an_engine_with_another_model_is_left_out_alone(start, two):
    one, other, gateway = two
    # So quick that no health check sees it down; the new connection tells.
    one = restarted(start, one, "--vocab", 128256)
    reason = f"{one.address}: answering: the tokenizer has {QWEN3_TOKENS} tokens, the engine's model only 128256"
    wait_until(lambda: reason in gateway.ask("/readyz?verbose")[1], "the engine is left out")
    assert f"{other.address}: routable" in gateway.ask("/readyz?verbose")[1]
    assert [call(gateway.port, COMPLETIONS, BODY).status for _ in range(10)] == [200] * 10
    assert not one.events("start")
    restarted(start, one, "--vocab", QWEN3_TOKENS)
    wait_until(lambda: gateway.ask("/readyz?verbose")[1].count("routable") == 2, "both again")


def test_a_failing_engine_does_not_draw_the_requests(start, two):
    one, other, gateway = two
    one = restarted(start, one, "--vocab", QWEN3_TOKENS, "--fault", "internal")
    before = len(other.events("start"))
    assert [call(gateway.port, COMPLETIONS, BODY).status for _ in range(60)] == [200] * 60
    assert len(other.events("start")) - before == 60
    assert len(one.events("start")) <= 20  # the first ones, and one now and then


def test_no_second_gateway_at_the_same_address(two):
    gateway = two[2]
    done = subprocess.run(
        [BUILD / "bin/kelpie-sidecar", "--manifests", gateway.manifest, "--listen", f"127.0.0.1:{gateway.port}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 1
    assert f"listen on `127.0.0.1:{gateway.port}`: Address already in use" in done.stderr


def test_an_empty_manifest_is_refused(two):
    gateway = two[2]
    gateway.write_and_wait("# nothing\n", "manifests refused, the last good program stays")
    assert "there is no InferencePool in namespace `default`" in gateway.text()
    assert call(gateway.port, COMPLETIONS, BODY).status == 200


def test_hangup_drains(two):
    gateway = two[2]
    gateway.process.send_signal(signal.SIGHUP)
    assert gateway.wait() == 0


def test_a_fifo_as_tokenizer_does_not_hold_the_end(start):
    fifo = LOGS / "fifo"
    fifo.unlink(missing_ok=True)
    os.mkfifo(fifo)
    gateway = start(Gateway, manifest(engine("e", 1, path=fifo)), ready=False)
    gateway.wait_for("not a regular file")


def test_errors_carry_the_request_id(two):
    answer = call(two[2].port, COMPLETIONS, {"model": "none", "prompt": "x"}, headers=[("x-request-id", "mine-1")])
    assert (answer.status, answer.headers["x-request-id"]) == (404, "mine-1")
