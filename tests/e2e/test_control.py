"""The operator programs gateways: programs arrive, are acknowledged and kept; without an operator everything goes on."""

import contextlib
import hashlib
import json
import os
import resource
import socket
import stat
import time

import pytest
from load import Load, short_requests
from programs import QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until
from wire import COMPLETIONS, call

BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}


def controlled(start, operator, id, *options, own=(), **kw):
    claims = [word for claim in own for word in ("--own", claim)]
    peer = ("--peer-listen", "127.0.0.1:0") if own else ()
    return start(
        Gateway, None, "--control", f"127.0.0.1:{operator.port}", "--id", id, *claims, *peer, *options, **kw
    )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def acked(operator, id):
    """The hash of the program in force, once the gateway acknowledged it; None before."""
    for g in operator.told()["gateways"]:
        if g["id"] == id and g["current"]:
            return g["revision"]["hash"]
    return None


@pytest.fixture
def sims(start):
    return [start(Sim, "--vocab", QWEN3_TOKENS, "--itl-ms", 1) for _ in range(3)]


def test_a_program_arrives_is_acknowledged_and_served(start, sims, qwen3_path):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    gateway = controlled(start, operator, "gw-a", own=["default/e"])
    assert call(gateway.port, COMPLETIONS, BODY).status == 200
    wait_until(lambda: acked(operator, "gw-a"), "the acknowledgement")
    verbose = gateway.ask("/readyz?verbose")[1]
    assert f"[+]operator 127.0.0.1:{operator.port}" in verbose and "[+]program: " in verbose
    assert gateway.metric("kelpie_operator_connected") == 1
    told = json.loads(gateway.ask("/explain?model=m")[1])["revisions"][0]["endpoints"][0]
    assert (told["owner"], told["distance"], told["state"]) == ("gw-a", "own", "routable")


def test_manifest_edited_under_load_and_a_bad_edit(start, sims, qwen3_path):
    """200 requests/s while engines come and go: none fails, all gateways acknowledge, a bad edit is named and changes nothing."""
    text = lambda *ports, aliases=(): manifest(
        engine("stay", sims[0].port, path=qwen3_path, aliases=("stable",)),
        engine("e", *ports, path=qwen3_path, aliases=("stable", *aliases)),
    )
    operator = start(Operator, text(sims[1].port))
    gateways = [
        controlled(start, operator, "gw-a", own=["default/stay"]),
        controlled(start, operator, "gw-b", own=["default/e"]),
    ]
    for g in gateways:
        wait_until(lambda: g.ask("/readyz?verbose")[1].count(": routable") == 2, "both engines")
    loads = [Load(g, 100, short_requests(("stable",))) for g in gateways]
    agreed = lambda: len(h := {acked(operator, "gw-a"), acked(operator, "gw-b")}) == 1 and None not in h and h
    seen = set(wait_until(agreed, "both acknowledge the first program"))
    for ports, aliases in [
        ((sims[1].port, sims[2].port), ()),
        ((sims[2].port,), ("x",)),
        ((sims[1].port,), ("x", "y")),
        ((sims[1].port, sims[2].port), ("z",)),
    ]:
        operator.write_and_wait(text(*ports, aliases=aliases))
        hashes = wait_until(
            lambda: (h := agreed()) and not h & seen and h, "both acknowledge the same new program"
        )
        seen |= hashes
        for g in gateways:
            wait_until(lambda: g.ask("/readyz?verbose")[1].count(": routable") >= 1 + len(ports), "its engines")
    operator.write_and_wait(text(sims[1].port).replace('"vllm"', '"vlm"', 1), "manifests refused, the last good program stays")
    (error,) = wait_until(lambda: operator.told()["manifests"].get("errors"), "the errors")
    assert "spec.engine.type" in json.dumps(error) and str(operator.manifest) in json.dumps(error), error
    assert {acked(operator, "gw-a"), acked(operator, "gw-b")} == hashes
    for load in loads:
        load.stop()
        assert not load.failures and load.unsent == 0 and set(load.statuses) == {200}, load.failures[:3]
        assert load.done > 100


def test_without_an_operator_everything_goes_on(start, sims, qwen3_path, tmp_path):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    # A fixed peer port: it is part of the program.
    options = ("--state-dir", tmp_path, "--own", "default/e", "--peer-listen", f"127.0.0.1:{free_port()}")
    gateway = controlled(start, operator, "gw-a", *options)
    first = wait_until(lambda: acked(operator, "gw-a"), "the acknowledgement")
    kept = tmp_path / "last-good-program"
    wait_until(kept.exists, "the last good program")
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    load = Load(gateway, 100, short_requests())
    operator.kill()
    wait_until(lambda: gateway.metric("kelpie_operator_connected") == 0, "the gateway notices")
    assert gateway.ask("/readyz")[0] == 200
    load.stop()
    assert not load.failures and set(load.statuses) == {200}
    gateway.stop()

    # A gateway that starts without operator serves from the last good program.
    gateway = controlled(start, operator, "gw-a", *options)
    assert gateway.lines("starting with the last good program")
    assert call(gateway.port, COMPLETIONS, BODY).status == 200

    # The operator is back: the same program, nothing is applied anew.
    operator = operator.again()
    try:
        wait_until(lambda: acked(operator, "gw-a") == first, "the same revision")
        assert gateway.metric("kelpie_operator_connected") == 1
        assert not gateway.lines("program accepted")
        assert call(gateway.port, COMPLETIONS, BODY).status == 200
    finally:
        operator.stop()


def test_without_an_operator_and_without_a_program_it_waits(start, sims, qwen3_path, tmp_path):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    operator.stop()
    gateway = controlled(start, operator, "gw-a", "--state-dir", tmp_path, own=["default/e"], ready=False)
    wait_until(lambda: "[!]operator" in gateway.ask("/readyz?verbose")[1], "it says what it waits for")
    status, text = gateway.ask("/readyz?verbose")
    assert status == 503 and "[-]program: none" in text
    assert gateway.ask("/livez")[0] == 200
    answer = call(gateway.port, COMPLETIONS, BODY)
    assert answer.status == 503 and "operator" in answer.error["message"]
    operator = operator.again()
    try:
        gateway.wait_ready()
        assert call(gateway.port, COMPLETIONS, BODY).status == 200
    finally:
        operator.stop()


def owners(operator):
    """Who owns each endpoint of the engine, in the manifest's order."""
    return [e.get("owner") for e in operator.told()["engines"][0]["endpoints"]]


def test_an_owner_that_is_told_to_end_hands_over(start, sims, qwen3_path):
    """Two claim the same engine: when the one that has it ends, nobody waits for the other."""
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    a = controlled(start, operator, "gw-a", own=["default/e"])
    b = controlled(start, operator, "gw-b", own=["default/e"])
    wait_until(lambda: owners(operator) == ["gw-a"], "the lower id has it")
    for g in (a, b):
        wait_until(lambda: g.ask("/readyz?verbose")[1].count(": routable") == 1, "the engine")
    load = Load(b, 100, short_requests())
    wait_until(lambda: load.done > 50, "some answers")
    a.stop()
    wait_until(lambda: owners(operator) == ["gw-b"], "the other has it", 3)
    before = load.done
    wait_until(lambda: load.done > before + 100, "answers by its own engine")
    load.stop()
    assert not load.failures and load.unsent == 0 and set(load.statuses) == {200}, load.failures[:3]


def test_an_operator_that_starts_anew_gives_nothing_to_the_dead(start, sims, qwen3_path):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    dead = controlled(start, operator, "gw-0", own=["default/e"])
    live = controlled(start, operator, "gw-a", own=["default/e"])
    wait_until(lambda: owners(operator) == ["gw-0"], "the lower id has it")
    dead.kill()
    wait_until(lambda: owners(operator) == ["gw-a"], "the other has it")
    wait_until(lambda: acked(operator, "gw-a"), "it runs that")
    operator.kill()
    operator = operator.again()
    try:
        wait_until(lambda: acked(operator, "gw-a"), "it is back")
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert owners(operator) == ["gw-a"]
            assert call(live.port, COMPLETIONS, BODY).status == 200
        assert "gw-0" not in json.dumps(operator.told()["gateways"])
    finally:
        operator.stop()


def test_an_empty_program_is_one(start, tmp_path):
    """The protocol allows it; it names no port, so the gateway listens nowhere and waits."""

    def field(number, value):
        return bytes([number << 3 | 2, len(value)]) + value

    revision = b"\x08\x01\x10\x01" + field(3, hashlib.sha256(b"").digest())
    body = field(2, field(1, revision))
    head = b"KPLPROG\x01" + len(body).to_bytes(8, "little") + hashlib.sha256(body).digest()
    (tmp_path / "last-good-program").write_bytes(head + body)
    nobody = f"127.0.0.1:{free_port()}"
    gateway = start(Gateway, None, "--control", nobody, "--state-dir", tmp_path, ready=False, listen=())
    assert gateway.lines("starting with the last good program"), gateway.text()
    assert gateway.ask("/readyz")[0] == 503 and not gateway.lines("listening")


def test_what_cannot_be_kept_is_tried_again(start, sims, qwen3_path, tmp_path):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    directory = tmp_path / "state"
    gateway = controlled(start, operator, "gw-a", "--state-dir", directory, own=["default/e"])
    wait_until(lambda: "[!]last good program: " in gateway.ask("/readyz?verbose")[1], "it says so")
    directory.mkdir()
    wait_until((directory / "last-good-program").exists, "it is written", 20)
    wait_until(lambda: "[!]last good program: " not in gateway.ask("/readyz?verbose")[1], "all is well")
    gateway.stop()
    # What would wait for a writer is named, and not waited for.
    (directory / "last-good-program").unlink()
    os.mkfifo(directory / "last-good-program")
    gateway = controlled(start, operator, "gw-a", "--state-dir", directory, own=["default/e"])
    assert "not a regular file" in gateway.lines("cannot read the last good program")[0]["error"]


def test_strangers_at_the_peer_port_take_only_their_share(start, sims, qwen3_path):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    few = ("prlimit", "--nofile=300:300")
    gateway = controlled(start, operator, "gw-a", "--peer-listen", f"127.0.0.1:{(port := free_port())}", own=["default/e"], wrapper=few)
    admin = gateway.admin
    with contextlib.ExitStack() as stack:
        for at in [port] * 400 + [admin] * 100:
            s = stack.enter_context(socket.socket())
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", at))
        wait_until(lambda: gateway.fds() > 60, "they are there")
        assert gateway.fds() < 250, gateway.fds()
        operator.kill()
        operator = operator.again()
        stack.callback(operator.stop)
        wait_until(lambda: acked(operator, "gw-a"), "the operator reaches it")
        assert [call(gateway.port, COMPLETIONS, BODY).status for _ in range(20)] == [200] * 20


@contextlib.contextmanager
def no_descriptor_left(program):
    before = resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    yield
    resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE, before)


def test_descriptors_that_run_out(start, sims, qwen3_path):
    """Neither program ends of it: what is open goes on, and what could not be opened is tried again."""
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    a = controlled(start, operator, "gw-a", own=["default/e"])
    assert call(a.port, COMPLETIONS, BODY).status == 200
    with no_descriptor_left(operator):
        b = controlled(start, operator, "gw-b", ready=False)
        time.sleep(3)  # it is refused, and the operator has tried to listen anew
        assert a.metric("kelpie_operator_connected") == 1 and "[+]operator" not in b.ask("/readyz?verbose")[1]
    b.wait_ready()
    with no_descriptor_left(a):
        operator.kill()
        a.wait_for("no operator, going on without.*Too many open files")
    operator = operator.again()
    try:
        for g in (a, b):
            wait_until(lambda g=g: g.metric("kelpie_operator_connected") == 1, "it is back")
            assert call(g.port, COMPLETIONS, BODY).status == 200
    finally:
        operator.stop()


@pytest.mark.parametrize("damage", ["a file", "cut short", "other bytes", "full"])
def test_a_state_directory_that_fails_harms_nothing(start, sims, qwen3_path, tmp_path, damage):
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path)))
    directory = tmp_path / "state"
    if damage == "a file":
        directory.write_text("")
    elif damage == "full":
        directory = "/dev/full"
    else:
        directory.mkdir()
        (directory / "last-good-program").write_bytes(b"KPLPROG\x01" + b"\0" * (3 if damage == "cut short" else 90))
    gateway = controlled(start, operator, "gw-a", "--state-dir", directory, own=["default/e"])
    assert call(gateway.port, COMPLETIONS, BODY).status == 200
    if damage in ("a file", "full"):
        assert "[!]last good program: " in gateway.ask("/readyz?verbose")[1]
        wait_until(lambda: "last-good-program" in json.dumps(operator.told()), "the operator is told")
    else:
        assert gateway.lines("cannot read the last good program")
        wait_until(lambda: (directory / "last-good-program").stat().st_size > 100, "it is written anew")


def test_the_program_names_the_ports(start, sims, qwen3_path):
    import socket

    port = free_port()
    operator = start(Operator, manifest(engine("e", sims[0].port, path=qwen3_path), ports=(port,)))
    gateway = controlled(start, operator, "gw-a", own=["default/e"], listen=(), ready=False)
    gateway.wait_ready()
    assert call(port, COMPLETIONS, BODY).status == 200


@pytest.mark.slow
def test_an_operator_of_a_lower_epoch_waits_and_takes_over(start, sims, qwen3_path, tmp_path):
    """Its clock was set back, and it kept nothing: half a minute in which the gateway is left alone, and traffic goes on."""
    text = lambda *aliases: manifest(engine("e", sims[0].port, path=qwen3_path, aliases=aliases))
    future = int(time.time() * 1000) + 3600 * 1000
    (tmp_path / "epoch").write_text(str(future))
    first = start(Operator, text(), "--state-dir", tmp_path)
    gateway = controlled(start, first, "gw-a", own=["default/e"])
    wait_until(lambda: acked(first, "gw-a"), "the acknowledgement")
    load = Load(gateway, 100, short_requests())
    first.kill()
    second = start(Operator, text("late"), port=first.port)
    problems = lambda: [p for g in second.told()["gateways"] for p in g.get("problems", [])]
    wait_until(lambda: any(f"another operator programs it, of epoch {future + 1}" in p for p in problems()), "that it is left alone")
    assert int(second.told()["operator"]["epoch"]) < future
    time.sleep(20)
    assert not acked(second, "gw-a")
    wait_until(lambda: acked(second, "gw-a"), "the acknowledgement")
    assert int(second.told()["operator"]["epoch"]) == future + 2
    assert call(gateway.port, COMPLETIONS, BODY | {"model": "late"}).status == 200
    load.stop()
    assert not load.failures and set(load.statuses) == {200}
