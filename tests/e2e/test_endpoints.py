"""One engine's fault stays that engine's, and the gateway's own ends: what an attack on it once found."""

import contextlib
import fcntl
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time
import zipfile

import pytest
from programs import BUILD, LOGS, PATIENCE, QWEN3_TOKENS, Gateway, Sim, engine, manifest, wait_until
from wire import CHAT, COMPLETIONS, Connection, call

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}


def restarted(start, sim, *options):
    """At once, at the same address, as another engine."""
    sim.kill()
    return start(Sim, *options, port=sim.port)


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


@pytest.fixture
def archives(smollm2_zip, qwen3_path, tmp_path):
    """name -> options of a sim engine that sends this tokenizer."""
    path = tmp_path / "qwen3.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            archive.write(pathlib.Path(qwen3_path) / name, name)
    options = lambda archive: ("--vocab", QWEN3_TOKENS, "--tokenizer-zip", archive, "--log-ids")
    return {"smollm2": options(smollm2_zip), "qwen3": options(path)}


def test_endpoints_of_one_engine_have_one_tokenizer(start, archives, qwen3):
    """An upgrade, one endpoint after the other: each prompt has the ids of the tokenizer that its endpoint sent."""
    first, *others = [start(Sim, *archives["smollm2"]) for _ in range(3)]
    for sim in others:
        sim.kill()
    gateway = start(Gateway, manifest(engine("e", first.port, *[sim.port for sim in others])))
    states = lambda: gateway.ask("/readyz?verbose")[1]
    waits = lambda sim, other: f"{sim.address}: answering: its tokenizer: it is not the one of `{other.address}`" in states()
    serves = lambda sim: f"{sim.address}: routable" in states()
    answers = lambda: [call(gateway.port, COMPLETIONS, BODY).status for _ in range(10)] == [200] * 10
    wait_until(lambda: serves(first), "the first")
    for i in range(2):
        time.sleep(i)  # so that one of them is asked, and taken, well before the other
        others[i] = start(Sim, *archives["qwen3"], port=others[i].port)
        wait_until(lambda: waits(others[i], first), "a new one waits")
    assert answers() and len(first.events("start")) == 10
    expected = qwen3.encode("Hello")
    assert all(e["ids"] != expected for e in first.events("start"))
    first.kill()
    wait_until(lambda: all(serves(sim) for sim in others), "the new ones' turn")
    assert answers()
    first = start(Sim, *archives["smollm2"], port=first.port)
    wait_until(lambda: any(waits(first, sim) for sim in others), "now the old one waits")
    assert answers()
    assert not first.events("start") and all(e["ids"] == expected for sim in others for e in sim.events("start"))


def test_an_endpoint_that_waited_for_another_reason_keeps_its_own_tokenizer(start, archives):
    """The first does not fit its own tokenizer; that of the second, loaded in its place, is no reason to take requests."""
    odd = start(Sim, "--vocab", "60000", *archives["qwen3"][2:])
    other = start(Sim, *archives["smollm2"])
    other.kill()
    gateway = start(Gateway, manifest(engine("e", odd.port, other.port)), ready=False)
    states = lambda: gateway.ask("/readyz?verbose")[1]
    wait_until(lambda: f"{odd.address}: answering: the tokenizer has {QWEN3_TOKENS} tokens" in states(), "it does not fit")
    other = start(Sim, *archives["smollm2"], port=other.port)
    wait_until(lambda: f"{odd.address}: answering: its tokenizer: it is not the one of `{other.address}`" in states(), "nor does it now")
    assert [call(gateway.port, COMPLETIONS, BODY).status for _ in range(10)] == [200] * 10
    assert not odd.events("start") and len(other.events("start")) == 10


def test_a_replaced_engine_gets_no_ids_of_another_tokenizer(start, archives, qwen3):
    """Another process at the same address, so quick that only the connections tell."""
    names = ("smollm2", "qwen3")
    sim = start(Sim, *archives["smollm2"])
    gateway = start(Gateway, manifest(engine("e", sim.port)))
    call(gateway.port, COMPLETIONS, BODY)
    ids = {"smollm2": sim.events("start")[0]["ids"], "qwen3": qwen3.encode("Hello")}
    assert ids["smollm2"] != ids["qwen3"]
    statuses, over = [], threading.Event()

    def client():
        while not over.is_set():
            statuses.append(call(gateway.port, COMPLETIONS, BODY).status)

    clients = [threading.Thread(target=client) for _ in range(4)]
    for thread in clients:
        thread.start()
    try:
        for swap in range(1, 6):
            name = names[swap % 2]
            sim = restarted(start, sim, *archives[name])
            sim.wait_event("start", count=5)
            assert all(e["ids"] == ids[name] for e in sim.events("start")), name
    finally:
        over.set()
        for thread in clients:
            thread.join()
    assert set(statuses) <= {200, 503} and statuses.count(200) >= 25


def test_an_endpoint_that_sends_no_tokenizer_any_more_is_left_out(start, archives):
    sim = start(Sim, *archives["smollm2"])
    gateway = start(Gateway, manifest(engine("e", sim.port)))
    states = lambda: gateway.ask("/readyz?verbose")[1]
    wait_until(lambda: f"{sim.address}: routable" in states(), "it serves")
    silent = restarted(start, sim, "--vocab", QWEN3_TOKENS)
    wait_until(lambda: f"{sim.address}: answering: its tokenizer: " in states(), "it is left out")
    assert call(gateway.port, COMPLETIONS, BODY).status == 503 and not silent.events("start")
    restarted(start, silent, *archives["smollm2"])
    wait_until(lambda: f"{sim.address}: routable" in states(), "it serves again")
    assert call(gateway.port, COMPLETIONS, BODY).status == 200


def test_one_of_two_that_leave_dies(start, two, qwen3_path):
    one, other, gateway = two
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gateway.write_and_wait(manifest(engine("e", nobody.getsockname()[1], path=qwen3_path)))
        one.kill()
        wait_until(lambda: one.address not in gateway.ask("/readyz?verbose")[1], "it is forgotten")
        assert f"{other.address}: routable, leaving" in gateway.ask("/readyz?verbose")[1]
        assert call(gateway.port, COMPLETIONS, BODY).status == 200


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


def test_lm12_errors_carry_the_request_id(two):
    answer = call(two[2].port, COMPLETIONS, {"model": "none", "prompt": "x"}, headers=[("x-request-id", "mine-1")])
    assert (answer.status, answer.headers["x-request-id"]) == (404, "mine-1")


# --- limits of the whole gateway ---


def unfinished(gateway, announced, sent):
    """A request whose body stays unfinished."""
    c = Connection(gateway.port)
    c.send(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        + f"Content-Length: {announced}\r\n\r\n".encode()
        + b" " * sent
    )
    return c


def gateway_with(start, qwen3_path, *options, **kw):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    return start(Gateway, manifest(engine("e", sim.port, path=qwen3_path)), *options, **kw)


def test_bodies_that_arrive_are_requests(start, qwen3_path):
    gateway = gateway_with(start, qwen3_path, "--max-requests", 2)
    held = [unfinished(gateway, 1000, 10) for _ in range(2)]
    wait_until(lambda: gateway.metric("kelpie_requests_in_flight") == 2, "two requests")
    answer = call(gateway.port, COMPLETIONS, BODY)
    assert (answer.status, answer.json()["error"]["code"]) == (429, "too_many_requests")
    assert gateway.metric("kelpie_requests_total", api="completions", model="", code="429") == 1
    for c in held:
        c.close()
    wait_until(lambda: gateway.metric("kelpie_requests_in_flight") == 0, "none")
    assert call(gateway.port, COMPLETIONS, BODY).status == 200


def test_bodies_have_a_limit_together(start, qwen3_path):
    gateway = gateway_with(start, qwen3_path, "--max-body-total", 100_000)
    first = unfinished(gateway, 80_000, 70_000)
    wait_until(lambda: gateway.metric("kelpie_requests_in_flight") == 1, "the first")
    second = unfinished(gateway, 80_000, 70_000)
    answer = second.answer()
    assert (answer.status, answer.json()["error"]["code"]) == (429, "too_many_requests")
    assert "100000 bytes" in answer.json()["error"]["message"]
    second.close()
    first.close()
    wait_until(lambda: gateway.metric("kelpie_requests_in_flight") == 0, "none")
    # What was counted is given back: the same again fits.
    assert call(gateway.port, COMPLETIONS, {**BODY, "prompt": "a " * 30_000}).status == 200


def test_what_one_request_cannot_have_is_not_429(start, qwen3_path):
    gateway = gateway_with(start, qwen3_path)
    body = b'{"model":"m","messages":[{"role":"user","content":"x","y":[' + b"1," * 1_000_001 + b"1]}]}"
    answer = call(gateway.port, CHAT, body)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "request_too_large")


def test_few_descriptors_leave_some_for_probes(start, qwen3_path):
    gateway = gateway_with(start, qwen3_path, wrapper=("prlimit", "--nofile=128:128"))
    crowd = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(300)]
    try:
        for _ in range(20):
            assert gateway.ask("/livez")[0] == 200
    finally:
        for c in crowd:
            c.close()
    wait_until(lambda: call(gateway.port, COMPLETIONS, BODY).status == 200, "an answer")
    assert len(gateway.text()) < 100_000


# --- standard error ---


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@contextlib.contextmanager
def quiet_gateway(start, qwen3_path, shell, **kw):
    """A gateway that does not log where a test could read its ports: (process, port), serving."""
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    file = LOGS / "quiet.yaml"
    file.write_text(manifest(engine("e", sim.port, path=qwen3_path)))
    port = free_port()
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {shell}', "sh", BUILD / "bin/kelpie-sidecar", "--manifests", file]
        + ["--listen", f"127.0.0.1:{port}", "--admin-listen", "127.0.0.1:0", "--log-level", "debug"],
        **kw,
    )

    def serves():
        try:
            return call(port, COMPLETIONS, BODY).status == 200
        except OSError:
            return False

    try:
        wait_until(serves, "an answer")
        yield process, port
    finally:
        process.kill()
        process.wait()


def test_closed_standard_error(start, qwen3_path):
    with quiet_gateway(start, qwen3_path, "0<&- 1>&- 2>&-") as (process, port):
        assert [call(port, COMPLETIONS, BODY).status for _ in range(5)] == [200] * 5
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_a_reader_of_the_log_that_stopped_does_not_hold_the_end(start, qwen3_path):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with quiet_gateway(start, qwen3_path, "", stderr=writing) as (process, port):
        os.close(writing)
        for _ in range(300):  # each is a line of the log
            assert call(port, COMPLETIONS, {**BODY, "nope": 1}).status == 400
        process.terminate()
        assert process.wait(PATIENCE) == 0
    os.close(reading)
