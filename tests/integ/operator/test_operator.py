"""kelpie-operator with gateways that are not ours: what they are sent, and what becomes of those that are slow, wrong, or gone."""

import json
import signal
import socket
import subprocess
import threading
import time

import grpc
import pytest
from fakes import ENDPOINT, ENGINE, PATIENCE, ROOT, Credentials, hash_of, message, programs, wait_until
from programs import engine, manifest

TWO = manifest(engine("e", 1, model="m"), engine("f", 2, model="m"))


def elsewhere(ns, *engines):
    """The manifest of a namespace of its own."""
    return manifest(*engines).replace('"metadata": {', f'"metadata": {{\n  "namespace": "{ns}",')


def gateway_of(operator, id):
    """What the status says of it; {}: nothing."""
    found = [g for g in operator.told()["gateways"] if g["id"] == id]
    return {"problems": [], "current": False, **(found[0] if found else {})}


def condition(operator, type, name="e"):
    [of_engine] = [e for e in operator.told()["engines"] if e["name"] == name]
    [found] = [c for c in of_engine["conditions"] if c["type"] == type]
    return found


# --- programs ---------------------------------------------------------------------------------------------------------------


def test_hello_program_acknowledgement(run, join):
    operator = run(TWO, "--id", "op")
    gw = join(operator, "gw-a", own=["default/e"], peer="10.0.0.1:8443", node="n1", admin="10.0.0.1:9090")
    gw.wait_programs(1)
    assert gw.welcome.id == "op" and gw.welcome.protocol == 1 and gw.welcome.report_interval_ms > 0
    assert gw.welcome.epoch == gw.programs[0].revision.epoch == int(operator.told()["operator"]["epoch"])
    assert hash_of(gw.items) == gw.programs[0].revision.hash  # by docs/control.md, in Python
    assert gw.owners() == {"default/e/127.0.0.1:1": "gw-a", "default/f/127.0.0.1:2": ""}
    assert gw.gateways()["gw-a"].peer == "10.0.0.1:8443" and gw.gateways()["gw-a"].node == "n1"
    told = wait_until(lambda: (g := gateway_of(operator, "gw-a")) and g["current"] and g, "its acknowledgement")
    assert told["revision"]["hash"] == gw.revision.hash.hex() and told["adminAddress"] == "10.0.0.1:9090"
    assert condition(operator, "Ready", "f")["reason"] == "NoOwner"


def test_an_edit_is_a_delta(run, join):
    operator = run(TWO)
    gw = join(operator, own=["default/e"])
    gw.wait_programs(1)
    operator.write_and_wait(manifest(engine("e", 1, 3, model="m"), engine("g", 2, model="m")))
    gw.wait_item(ENGINE, "default/g")
    delta = gw.programs[-1]
    assert delta.HasField("base_revision")
    assert {(i.key.kind, i.key.key) for i in delta.upsert} == {
        (ENDPOINT, "default/e/127.0.0.1:3"), (ENGINE, "default/g"), (ENDPOINT, "default/g/127.0.0.1:2")}
    assert {k.key for k in delta.remove} == {"default/f", "default/f/127.0.0.1:2"}
    assert delta.revision.n > gw.programs[0].revision.n
    assert operator.metric("kelpie_operator_programs_sent_total", **{"as": "delta"}) == 1


def test_all_gateways_of_a_namespace_run_the_same(run, join):
    operator = run(manifest(engine("e", 1)) + "---\n" + elsewhere("other", engine("e", 9)))
    first, second = join(operator, "a", own=["default/e"]), join(operator, "b")
    other = join(operator, "c", ns="other", own=["other/e"])
    for gw in (first, second):
        gw.wait(lambda: set(gw.gateways()) == {"a", "b"}, "both gateways")
        gw.wait_owners(e="a")
    other.wait_owners(e="c")
    assert first.items == second.items and set(other.gateways()) == {"c"}
    wait_until(lambda: {p["namespace"]: (p["gateways"], p["acknowledged"]) for p in operator.told()["programs"]} == {"default": (2, 2), "other": (1, 1)},
               "all acknowledgements")


def test_a_base_that_is_not_known_gets_the_whole(run, join):
    """One says that it runs something older than anything known here; another refuses the delta."""
    operator = run(TWO)
    stale = message("Revision")(epoch=5, n=1, hash=b"x" * 32)
    gw = join(operator, "a", revision=stale, items={(1, "x"): b""})
    gw.wait_programs(1)
    assert not gw.programs[0].HasField("base_revision")
    loses = join(operator, "b", answer=lambda p: "unknown_base" if p.HasField("base_revision") else None)
    loses.wait_programs(1)
    n = len(loses.programs)
    operator.write_and_wait(manifest(engine("e", 1)))
    loses.wait(lambda: len(loses.programs) >= n + 2, "the delta, and the whole")
    assert loses.programs[-2].HasField("base_revision") and not loses.programs[-1].HasField("base_revision")
    assert loses.programs[-1].revision == loses.programs[-2].revision
    wait_until(lambda: gateway_of(operator, "b")["current"], "its acknowledgement")
    assert operator.metric("kelpie_operator_answers_total", result="unknown_base") >= 1


def test_a_refused_program_is_named_and_not_sent_again(run, join):
    operator = run(TWO)
    answer = lambda p: "not_understood" if any(i.key.key == "default/g" for i in p.upsert) else None
    gw = join(operator, own=["default/e", "default/f"], answer=answer)
    gw.wait_programs(1)
    operator.write_and_wait(manifest(engine("e", 1, model="m"), engine("g", 2, model="m")))
    told = wait_until(lambda: (g := gateway_of(operator, "gw-a")).get("refused") and g, "the refusal")
    assert told["refused"].pop("time") >= told["acknowledgedTime"]
    assert told["refused"] == {"reason": "not_understood", "message": "the test says so"} and not told["current"]
    stalled = condition(operator, "Stalled")
    assert stalled["status"] == "True" and stalled["reason"] == "ProgramRefused" and "gw-a" in stalled["message"]
    [line] = operator.lines("program refused")
    assert line["gateway"] == "gw-a" and line["reason"] == "not_understood"
    n = len(gw.programs)
    time.sleep(2.5)
    assert len(gw.programs) == n
    operator.write_and_wait(manifest(engine("e", 1, model="m"), engine("h", 2, model="m")))
    gw.wait_item(ENGINE, "default/h")
    wait_until(lambda: gateway_of(operator, "gw-a")["current"], "its acknowledgement")
    assert "refused" not in gateway_of(operator, "gw-a")


def test_one_program_at_a_time_and_the_newest_next(run, join):
    operator = run(TWO)
    gw = join(operator, "slow", answer=lambda p: "")
    gw.wait_programs(1)
    quick = join(operator, "quick")
    for i in range(3, 8):
        operator.write_and_wait(manifest(engine("e", i)))
        quick.wait(lambda: f"default/e/127.0.0.1:{i}" in quick.owners(), "each edit")
    assert len(gw.programs) == 1
    gw.answer = None
    gw._apply(gw.programs[0])
    gw.acknowledge(gw.programs[0].revision)
    gw.wait_programs(2)
    assert list(gw.owners()) == ["default/e/127.0.0.1:7"] and gw.items == quick.items
    wait_until(lambda: gateway_of(operator, "slow")["current"], "its acknowledgement")
    assert len(gw.programs) == 2


def test_a_gateway_that_does_not_read_holds_nobody_back(run, join):
    """Nor does one that never says hello; that one ends."""
    text = lambda *more: manifest(engine("e", *range(1000, 1250), *more), *(engine(f"e{i}", *range(1000 * i, 1000 * i + 250)) for i in (2, 3, 4)))
    operator = run(text())
    mute, begin = join(operator, hello=False), time.monotonic()
    deaf = [join(operator, f"deaf-{i}", read=False) for i in range(5)]
    hears = join(operator, "hears", own=["default/e", "default/e2", "default/e3", "default/e4"])
    hears.wait(lambda: len(hears.owners()) == 1000 and set(hears.owners().values()) == {"hears"}, "1,000 endpoints")
    for i in range(20):
        operator.write_and_wait(text(9000 + i))
        hears.wait_item(ENDPOINT, f"default/e/127.0.0.1:{9000 + i}")
    operator.assert_rss_below(64)
    assert sum(g["connected"] for g in operator.told()["gateways"]) == 6
    for gw in deaf:
        gw.read()
        gw.wait_item(ENDPOINT, "default/e/127.0.0.1:9019")
        assert len(gw.programs) <= 3
    mute.wait_end(grpc.StatusCode.DEADLINE_EXCEEDED, "hello: did not come within 10 s")
    assert 8 < time.monotonic() - begin < 20


def test_no_pool_is_no_program(run, join):
    """A gateway of a namespace without pool keeps what it has; when the pool comes, it is programmed."""
    operator = run(TWO)
    gw = join(operator, "far", ns="elsewhere", own=["elsewhere/e"])
    told = wait_until(lambda: (g := gateway_of(operator, "far")).get("id") and g, "the gateway")
    assert told["problems"] == ["there is no pool in namespace `elsewhere`"]
    time.sleep(0.5)
    assert gw.welcome and not gw.programs
    text = lambda port: TWO + "---\n" + elsewhere("elsewhere", engine("e", port))
    operator.write_and_wait(text(7))
    gw.wait_owners(e="far")
    operator.write_and_wait(TWO)
    wait_until(lambda: gateway_of(operator, "far")["problems"], "that it has none any more")
    assert len(gw.programs) == 1 and not gw.end
    operator.write_and_wait(text(7))
    gw.wait_programs(2)
    assert not gw.programs[1].upsert and gw.programs[1].HasField("base_revision")  # it has it


# --- manifests --------------------------------------------------------------------------------------------------------------


def test_a_bad_edit_is_refused_as_a_whole(run, join, tmp_path):
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "a.yaml").write_text(TWO)
    operator = run(folder)
    gw = join(operator)
    gw.wait_programs(1)
    before = dict(gw.items)
    (folder / "b.yaml").write_text("# a comment\n" + manifest(engine("z", 70000, pool="nope"), pools=()))
    wait_until(lambda: operator.lines("manifests refused, the last good program stays"), "the refusal")
    told = wait_until(lambda: operator.told()["manifests"].get("errors"), "the errors in the status")
    assert any("b.yaml:" in line and "spec.endpoints[0].port" in line for line in told), told
    assert any("b.yaml:" in line["problem"] for line in operator.lines("manifest"))
    assert operator.metric("kelpie_operator_manifest_errors") == len(told)
    assert operator.metric("kelpie_operator_manifest_loads_total", result="refused") == 1
    assert operator.ask("/readyz")[0] == 200
    assert "Manifests refused" in operator.ask("/")[1]
    time.sleep(0.5)
    assert gw.items == before
    (folder / "b.yaml").write_text(manifest(engine("z", 7, model="z"), pools=()))
    gw.wait_item(ENGINE, "default/z")
    assert operator.metric("kelpie_operator_manifest_errors") == 0
    wait_until(lambda: "errors" not in operator.told()["manifests"], "no errors in the status")
    # Truncated: no pool is left.
    (folder / "a.yaml").write_text("")
    (folder / "b.yaml").write_text("")
    wait_until(lambda: operator.metric("kelpie_operator_manifest_errors") > 0, "the refusal")
    wait_until(lambda: "there is no InferencePool" in json.dumps(operator.told()["manifests"]), "the error in the status")


def test_a_start_with_bad_manifests_or_options_fails(tmp_path):
    def start(*arguments):
        return subprocess.run([programs.BUILD / "bin/kelpie-operator", *arguments], capture_output=True, text=True, timeout=PATIENCE)

    good = tmp_path / "good.yaml"
    good.write_text(TWO)
    for arguments, status, words in (
        ([], 2, "`--manifests` or `--kubeconfig` is missing"),
        (["--manifests"], 2, "needs a value"),
        (["--nope", "x"], 2, "unknown option"),
        (["--manifests", good, "--id", ""], 2, "`--id`: must not be empty"),
        (["--manifests", good, "--https-listen", "127.0.0.1:0"], 2, "`--https-listen` and `--manifests`"),
        (["--kubeconfig", good, "--https-listen", ":0", "--tls-dir", tmp_path], 2, "`--https-listen` and `--tls-dir`"),
        (["--kubeconfig", good, "--https-listen", ":0", "--ca-rotate", "60", "--ca-overlap", "60"], 2, "`--ca-overlap` must be shorter"),
        (["--kubeconfig", good, "--https-listen", ":0", "--ca-rotate", "60"], 2, "`--ca-overlap` must be shorter"),
        (["--kubeconfig", good, "--https-listen", ":0", "--ca-rotate", "3600"], 2, "`--certificate-lifetime` must be shorter than 13 times"),
        (["--manifests", tmp_path / "none.yaml"], 1, "none.yaml"),
        (["--manifests", good, "--control-listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"], 1, "without certificates only a loopback address"),
        (["--manifests", good, "--control-listen", "nowhere", "--admin-listen", "127.0.0.1:0"], 1, "nowhere"),
        (["--manifests", good, "--tls-dir", tmp_path, "--control-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"], 1, "tls.crt"),
        (["--manifests", good, "--state-dir", tmp_path / "none", "--admin-listen", "127.0.0.1:0"], 1, "keep the epoch"),
    ):
        done = start(*arguments)
        assert done.returncode == status and words in done.stderr, (arguments, done)
    bad = tmp_path / "bad.yaml"
    bad.write_text(TWO.replace('"vllm"', '"vlm"', 1))
    done = start("--manifests", bad)
    assert done.returncode == 1 and f"{bad}:" in done.stderr and "spec.engine.type" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = start("--manifests", good, "--admin-listen", "127.0.0.1:0", "--control-listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1 and "Address already in use" in done.stderr
    assert start("--version").stdout.startswith("kelpie-operator ")
    assert "--control-listen" in start("--help").stdout


# --- gateways come and go ---------------------------------------------------------------------------------------------------


def test_too_few_descriptors(tmp_path):
    for program in ("kelpie-operator", "kelpie-sidecar"):
        done = subprocess.run(["prlimit", "--nofile=63:63", programs.BUILD / "bin" / program, "--manifests", tmp_path], capture_output=True, text=True,
                              timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (1, f"{program}: at most 63 descriptors (ulimit -n), 64 are needed\n")


def test_two_gateways_of_one_id(run, join):
    operator = run(TWO)
    old = join(operator, "twin", own=["default/e"])
    old.wait_programs(1)
    new = join(operator, "twin", own=["default/f"])
    old.wait_end(grpc.StatusCode.ABORTED, "replaced by a newer stream of gateway `twin`")
    new.wait_owners(e="", f="twin")
    told = wait_until(lambda: (g := gateway_of(operator, "twin")).get("problems") and g, "that it was replaced")
    assert told["connected"] and told["own"] == ["default/f"]
    assert "a newer stream of the same id took its place 1 times" in told["problems"]
    assert any("replaced" in line["error"] for line in operator.lines("stream refused"))


def test_claims_that_name_nothing_and_conflicts(run, join):
    operator = run(TWO)
    join(operator, "a", own=["default/e", "default/nope", "default/e/5", "other/e", "x"])
    gw = join(operator, "b", own=["default/e", "default/f"])
    gw.wait_owners(e="a", f="b")
    problems = wait_until(lambda: (p := gateway_of(operator, "a")["problems"]) and len(p) == 4 and p, "its problems")
    assert sum("there is no such endpoint" in p for p in problems) == 3
    assert any("`x`: not NAMESPACE/ENGINE" in p for p in problems)
    [conflict] = gateway_of(operator, "b")["problems"]
    assert "gateway `a` has" in conflict


def test_one_address_in_two_engines_has_one_owner(run, join):
    operator = run(manifest(engine("e", 1, model="m"), engine("f", 1, model="m")))
    first = join(operator, "b", own=["default/e"], node="n")
    join(operator, "a", own=["default/f"], node="n")
    first.wait_owners(e="b", f="")
    words = "gateway `a` claims `default/f/127.0.0.1:1`: gateway `b` has the same engine as `default/e/127.0.0.1:1`, and an address has one owner"
    wait_until(lambda: gateway_of(operator, "a")["problems"] == [words], "the gateway's problem")
    stalled = condition(operator, "Stalled", "f")
    assert (stalled["status"], stalled["reason"], stalled["message"]) == ("True", "AddressTaken", words)
    assert condition(operator, "Stalled", "e")["status"] == "False"
    first.say(draining=True)  # who drains gives way
    wait_until(lambda: condition(operator, "Stalled", "e")["reason"] == "AddressTaken", "the other way round")
    assert condition(operator, "Stalled", "f")["status"] == "False"


def test_a_lost_gateway_stays_owner_and_a_drained_one_gives_way(run, join):
    operator = run(TWO)
    lost, drained = join(operator, "a-lost", own=["default/e"]), join(operator, "b-drained", own=["default/f"])
    stays = join(operator, "c-stays", own=["default/e", "default/f"])
    stays.wait_owners(e="a-lost", f="b-drained")
    drained.say(draining=True)
    stays.wait_owners(e="a-lost", f="c-stays")  # at once: what still runs there needs no new owner's leave
    wait_until(lambda: gateway_of(operator, "b-drained").get("draining"), "it is shown")
    drained.say(draining=False)
    stays.wait_owners(e="a-lost", f="b-drained")
    drained.say(draining=True)
    stays.wait_owners(e="a-lost", f="c-stays")
    drained.close()
    lost.close()
    stays.wait_owners(e="a-lost", f="c-stays")
    wait_until(lambda: not gateway_of(operator, "a-lost")["connected"], "that it is lost")
    assert set(stays.gateways()) == {"a-lost", "b-drained", "c-stays"}
    again = join(operator, "b-drained", own=["default/f"])
    again.wait_owners(e="a-lost", f="b-drained")


def test_reports_are_shown(run, join):
    operator = run(TWO)
    gw = join(operator, own=["default/e", "default/f"])
    gw.wait_programs(1)
    report = dict(engine="default/e", address="127.0.0.1:1", state="routable", in_flight=3, running=2, waiting=1, kv_usage=0.5, model="big")
    down = dict(engine="default/f", address="127.0.0.1:2", state="down", reason="connection refused")
    gw.say(endpoints=[down, report], in_flight=4, requests=10, errors=1, tokens=99, state_error="disk full")
    ready = wait_until(lambda: (c := condition(operator, "Ready"))["status"] == "True" and c, "an engine that is ready")
    assert ready["reason"] == "Serving"
    told = operator.told()
    [e] = [e for e in told["engines"] if e["name"] == "e"]
    assert e["endpoints"][0] | {"since": 0} == {"index": 0, "address": "127.0.0.1:1", "owner": "gw-a", "state": "routable", "since": 0, "model": "big",
                                                "inFlight": 3, "running": 2, "waiting": 1, "kvUsage": 0.5}
    reconciling = condition(operator, "Reconciling", "f")
    assert reconciling["status"] == "True" and "down: connection refused" in reconciling["message"]
    g = gateway_of(operator, "gw-a")
    assert (g["inFlight"], g["requests"], g["errors"], g["tokens"], g["stateError"]) == (4, 10, 1, 99, "disk full")
    assert operator.metric("kelpie_operator_endpoints", state="routable") == operator.metric("kelpie_operator_endpoints", state="down") == 1
    # Its owner alone is believed.
    liar = join(operator, "liar")
    liar.wait_programs(1)
    liar.say(endpoints=[down | {"engine": "default/e", "address": "127.0.0.1:1"}])
    time.sleep(1)
    assert condition(operator, "Ready")["status"] == "True"
    # When it is gone, nobody knows.
    gw.close()
    wait_until(lambda: condition(operator, "Ready")["status"] == "False", "an engine of which nothing is known")
    assert [e for e in operator.told()["engines"] if e["name"] == "e"][0]["endpoints"][0]["state"] == "unknown"


# --- operators come and go --------------------------------------------------------------------------------------------------


def follow(join, operator, gw, **fields):
    """The gateway comes back with what it runs and knows."""
    known = list(gw.gateways().values())
    return join(operator, gw.id, items=gw.items, revision=gw.revision, known=known, epoch_seen=gw.revision.epoch, epoch_age_ms=1, **fields)


def test_an_operator_that_starts_anew_makes_the_same_program(run, join):
    operator = run(TWO)
    fleet = [join(operator, id, own=own) for id, own in (("a", ["default/e"]), ("b", ["default/f"]), ("c", []))]
    for gw in fleet:
        gw.wait(lambda: set(gw.gateways()) == {"a", "b", "c"}, "all gateways")
        gw.wait_owners(e="a", f="b")
    wait_until(lambda: all(g["current"] for g in operator.told()["gateways"]), "all acknowledgements")
    before = fleet[0].revision.hash
    operator.kill()
    for gw in fleet:
        gw.close()
    operator = operator.again()
    try:
        # Only one is back: nothing is taken from the others.
        back = follow(join, operator, fleet[2])
        back.wait_programs(1)
        assert back.programs[0].revision.hash == before and back.programs[0].revision.epoch > fleet[0].revision.epoch
        assert not back.programs[0].upsert and not back.programs[0].remove
        wait_until(lambda: "known from other gateways only" in gateway_of(operator, "a")["problems"], "that it is believed")
        rest = [follow(join, operator, gw, own=own) for gw, own in ((fleet[0], ["default/e"]), (fleet[1], ["default/f"]))]
        for gw in rest:
            gw.wait_programs(1)
            assert not gw.programs[0].upsert and not gw.programs[0].remove
        wait_until(lambda: all(g["current"] for g in operator.told()["gateways"]), "all acknowledgements")
        assert len(back.programs) == 1
        assert operator.metric("kelpie_operator_programs_sent_total", **{"as": "full"}) == 0
        assert operator.metric("kelpie_operator_programs_sent_total", **{"as": "delta"}) == 0
        # The same stream's end and beginning: nothing at all.
        again = follow(join, operator, back)
        wait_until(lambda: gateway_of(operator, "c")["connected"] and again.welcome, "the gateway")
        time.sleep(0.5)
        assert not again.programs, (back.revision, again.programs)
    finally:
        operator.stop()


def test_a_higher_epoch_of_an_operator_that_was_heard_of_lately_is_not_fought(run, join):
    operator = run(TWO)
    ours = int(operator.told()["operator"]["epoch"])
    calm = join(operator, "calm")
    calm.wait_programs(1)
    gw = join(operator, "taken", epoch_seen=ours + 1000, epoch_age_ms=27500, own=["default/e"])
    gw.wait(lambda: gw.welcome, "the welcome")
    assert any(f"another operator programs it, of epoch {ours + 1000}" in p for p in wait_until(
        lambda: gateway_of(operator, "taken")["problems"], "that it is not ours"))
    calm.wait_owners(e="taken", f="")
    assert not gw.programs
    assert len(operator.lines("gateway is programmed by another operator, of a higher epoch")) == 1
    # It is silent for 30 s now: our epoch becomes higher, and everybody begins anew.
    gw.wait_end(grpc.StatusCode.ABORTED, "new epoch", timeout=10)
    calm.wait_end(grpc.StatusCode.ABORTED, "new epoch")
    again = join(operator, "taken", epoch_seen=ours + 1000, epoch_age_ms=31000, own=["default/e"])
    again.wait_programs(1)
    assert again.welcome.epoch == again.programs[0].revision.epoch == ours + 1001
    back = follow(join, operator, calm)
    back.wait_programs(1)
    assert not back.programs[0].upsert and back.programs[0].revision.hash == again.programs[0].revision.hash
    assert operator.metric("kelpie_operator_epoch") == ours + 1001


def test_a_higher_epoch_of_an_operator_that_is_silent_is_passed(run, join, tmp_path):
    operator = run(TWO, "--state-dir", tmp_path)
    ours = int(operator.told()["operator"]["epoch"])
    assert int((tmp_path / "epoch").read_text()) == ours
    gw = join(operator, epoch_seen=ours + 5, epoch_age_ms=60000)
    gw.wait_programs(1)
    assert gw.welcome.epoch == gw.programs[0].revision.epoch == ours + 6
    assert int((tmp_path / "epoch").read_text()) == ours + 6
    operator.stop()
    # The clock is set back far behind that.
    (tmp_path / "epoch").write_text(str(ours + 10**9) + "\n")
    operator = operator.again()
    try:
        assert int(operator.told()["operator"]["epoch"]) == ours + 10**9 + 1
    finally:
        operator.stop()


def test_an_epoch_far_ahead_locks_nobody_out(run, join, tmp_path):
    """Whatever one gateway says it has seen: the bound is the clock's, so that what was believed once can be raised above again."""
    year = 365 * 86400000
    operator = run(TWO, "--state-dir", tmp_path)
    most = int(time.time() * 1000) + year - 60000
    liar = join(operator, "liar", epoch_seen=most, epoch_age_ms=31000)
    liar.wait_programs(1)
    assert liar.welcome.epoch == most + 1
    for seen in (2**53, 2**63, most + 10 * 60000):
        refused = join(operator, "more", epoch_seen=seen, epoch_age_ms=31000)
        refused.wait_end(grpc.StatusCode.INVALID_ARGUMENT, "far ahead of this operator's clock")
    # Once in half a minute, so that nobody's streams are ended again and again.
    calm = join(operator, "calm", epoch_seen=most + 1, epoch_age_ms=0)
    calm.wait_programs(1)
    held = join(operator, "held", epoch_seen=most + 2, epoch_age_ms=31000)
    wait_until(lambda: any("another operator programs it" in p for p in gateway_of(operator, "held")["problems"]), "it waits")
    assert int(operator.told()["operator"]["epoch"]) == most + 1 and calm.end is None and not held.programs
    # A new operator, with the kept epoch or without: the gateways that believed it are programmed.
    for options in (("--state-dir", tmp_path), ()):
        other = run(TWO, *options)
        gw = join(other, "gw", epoch_seen=most + 1, epoch_age_ms=31000)
        gw.wait_programs(1)
        assert gw.welcome.epoch > most


def test_a_refusal_for_a_stale_epoch_asks_for_another_hello(run, join):
    operator = run(TWO)
    gw = join(operator, answer=lambda p: "stale_epoch")
    gw.wait_end(grpc.StatusCode.FAILED_PRECONDITION, "is stale to it")
    assert operator.metric("kelpie_operator_answers_total", result="stale_epoch") == 1


def test_an_operator_that_was_stopped_for_a_while_takes_nobody_for_gone(run, join):
    operator = run(TWO)
    lost = join(operator, "a-lost", own=["default/e"])
    lost.wait_owners(e="a-lost", f="")
    lost.close()
    wait_until(lambda: not gateway_of(operator, "a-lost").get("connected", True), "that it is lost")
    operator.process.send_signal(signal.SIGSTOP)
    time.sleep(10.5)
    operator.process.send_signal(signal.SIGCONT)
    other = join(operator, "b-other", own=["default/e"])  # would have it, if that had been silence
    other.wait_owners(e="a-lost", f="")
    time.sleep(1.5)
    other.wait_owners(e="a-lost", f="")


@pytest.mark.slow
def test_a_minute_later(run, join):
    """Who was only heard of, and who was lost, is gone; who has not answered is asked to come back."""
    operator = run(TWO)
    revision = message("Revision")(epoch=1, n=1, hash=b"x" * 32)
    known = [message("Gateway")(id="heard-of", own=["default/e"])]
    gw = join(operator, "stays", own=["default/e"], known=known, revision=revision, items={(1, "x"): b""})
    lost, mute = join(operator, "lost", own=["default/f"]), join(operator, "mute", answer=lambda p: "")
    gw.wait_owners(e="heard-of", f="lost")
    begin = time.monotonic()
    lost.close()
    while time.monotonic() < begin + 8:
        gw.say()
        mute.say()
        time.sleep(1)
    assert gw.owners()["default/e/127.0.0.1:1"] == "heard-of"
    for _ in range(5):
        gw.say()
        time.sleep(1)
    gw.wait_owners(e="stays", f="lost")  # who is silent gives way, and keeps what nobody else claims
    assert set(gw.gateways()) == {"stays", "lost", "mute", "heard-of"}
    while time.monotonic() < begin + 55:
        gw.say()
        mute.say()
        time.sleep(1)
    assert gw.owners()["default/f/127.0.0.1:2"] == "lost"
    while time.monotonic() < begin + 63:
        gw.say()
        time.sleep(1)
    gw.wait_owners(e="stays", f="")
    assert set(gw.gateways()) <= {"stays", "mute"}
    mute.wait_end(grpc.StatusCode.DEADLINE_EXCEEDED, "was not answered within 60 s")
    assert "lost" not in {g["id"] for g in operator.told()["gateways"]}


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_says_goodbye(run, join, sig):
    operator = run(TWO)
    gw = join(operator)
    gw.wait_programs(1)
    operator.process.send_signal(sig)
    gw.wait_end(grpc.StatusCode.UNAVAILABLE, "the operator ends")
    assert operator.wait() == 0


# --- gateways that are wrong -------------------------------------------------------------------------------------------------


def test_hellos_that_are_refused(run, join):
    operator = run(TWO)
    for fields, code, words in (
        (dict(protocol=2), "UNIMPLEMENTED", "protocol `2`"),
        (dict(id=""), "INVALID_ARGUMENT", "hello.id"),
        (dict(id="a b"), "INVALID_ARGUMENT", "id `a b`"),
        (dict(namespace="a/b"), "INVALID_ARGUMENT", "namespace `a/b`"),
        (dict(peer="nowhere"), "INVALID_ARGUMENT", "peer `nowhere`"),
        (dict(own=["x" * 600]), "RESOURCE_EXHAUSTED", "hello.own"),
        (dict(own=["default/" + "x" * 100] * 1000), "RESOURCE_EXHAUSTED", "own: "),
        (dict(epoch_seen=2**63), "INVALID_ARGUMENT", "far ahead of this operator's clock"),
    ):
        m = message("GatewayMessage")()
        m.hello.CopyFrom(message("Hello")(**({"protocol": 1, "id": "x", "namespace": "default"} | fields)))
        gw = join(operator, hello=False)
        gw.send(m)
        gw.wait_end(getattr(grpc.StatusCode, code), words)
        assert not gw.welcome
    assert operator.told()["gateways"] == []
    assert operator.metric("kelpie_operator_streams_refused_total", reason="Unimplemented") == 1


def test_messages_that_are_refused(run, join):
    operator = run(TWO)
    ack = message("GatewayMessage")()
    ack.ack.revision.CopyFrom(message("Revision")(epoch=1, n=1, hash=b"x" * 32))
    bad_hash = message("GatewayMessage")()
    bad_hash.ack.revision.CopyFrom(message("Revision")(epoch=1, n=1, hash=b"x"))
    not_utf8 = b"\x0a\x04\x1a\x02\xff\xfe"
    cases = [
        ([b"\xff\xff\xff"], "INVALID_ARGUMENT", ""),
        ([not_utf8], "INVALID_ARGUMENT", ""),
        ([b"\x0a" + b"\x80" * 9], "INVALID_ARGUMENT", ""),
        ([ack], "FAILED_PRECONDITION", "hello: must come first"),
        ([b"\0" * (9 << 20)], "RESOURCE_EXHAUSTED", ""),
    ]
    for messages, code, words in cases:
        gw = join(operator, hello=False)
        for m in messages:
            gw.send(m)
        gw.wait_end(getattr(grpc.StatusCode, code), words)
    # The same after a hello; what is newer than this operator is passed over.
    for messages, code, words in [*cases[:3], ([bad_hash], "INVALID_ARGUMENT", "hash"), cases[4]]:
        gw = join(operator)
        gw.send(b"")  # no body that is known here
        gw.send(b"\xaa\x06\x03abc")
        gw.wait_programs(1)
        for m in messages:
            gw.send(m)
        gw.wait_end(getattr(grpc.StatusCode, code), words)
    gw = join(operator)
    gw.wait_programs(1)
    gw.hello()
    gw.wait_end(grpc.StatusCode.FAILED_PRECONDITION, "hello: has been said")
    # An acknowledgement of what was not sent means nothing.
    gw = join(operator, answer=lambda p: "")
    gw.wait_programs(1)
    gw.send(ack)
    gw.refuse(message("Revision")(epoch=1, n=1, hash=b"x" * 32), "invalid")
    time.sleep(0.5)
    assert not gw.end and "refused" not in gateway_of(operator, "gw-a")
    assert operator.process.poll() is None
    operator.assert_rss_below(96)


def test_memory_is_bounded(run, join):
    """Gateways that report more than is kept, that come and go, and manifests that change: nothing piles up."""
    operator = run(TWO)
    gw = join(operator, "big", own=["default/e"])
    gw.wait_programs(1)

    def burden(round):
        for i in range(10):
            endpoints = [dict(engine="default/e", address=f"10.0.0.1:{k}", reason="x" * 900, state=f"{round}.{i}") for k in range(8000)]
            gw.say(endpoints=endpoints)
        for i in range(40):
            passing = join(operator, f"passing-{i}", own=["default/e"] * 100)
            passing.wait(lambda: passing.items, "a program")
            passing.leave()
        for i in range(2):
            operator.write_and_wait(manifest(engine("e", *range(1, 200 + 4 * round + i))))
        wait_until(lambda: operator.metric("kelpie_operator_reports_total") > 10 * (round + 1), "the reports")

    burden(0)
    burden(1)
    before = operator.rss()
    for round in range(2, 4):
        burden(round)
    assert programs.ASAN or operator.rss() < before + (16 << 10), (before, operator.rss())
    assert any(line["gateway"] == "big" for line in operator.lines("report is too large, its endpoints are left out"))
    operator.assert_rss_below(160)


def test_an_edit_with_50_gateways(run, join):
    operator = run(manifest(engine("e", *range(1, 200))))
    fleet = [join(operator, f"gw-{i:02}", own=[f"default/e/{i}"], peer=f"10.0.0.{i}:8443") for i in range(50)]
    for gw in fleet:
        gw.wait(lambda: len(gw.gateways()) == 50, "all gateways")
    wait_until(lambda: operator.metric("kelpie_operator_gateways_behind") == 0, "all acknowledgements")
    stop = threading.Event()

    def load():
        n = 0
        while not stop.is_set():
            for gw in fleet:
                n += 1
                gw.say(requests=n)
            stop.wait(0.05)

    loader = threading.Thread(target=load)
    loader.start()
    try:
        took = []
        for i in range(10):
            port = 1000 + i
            begin = time.monotonic()
            operator.write_and_wait(manifest(engine("e", *range(1, 200), port)))
            for gw in fleet:
                gw.wait_item(ENDPOINT, f"default/e/127.0.0.1:{port}")
            took.append(time.monotonic() - begin)
    finally:
        stop.set()
        loader.join()
    wait_until(lambda: all(g["current"] for g in operator.told()["gateways"]), "all acknowledgements")
    assert len({hash_of(gw.items) for gw in fleet}) == 1
    fulls = operator.metric("kelpie_operator_programs_sent_total", **{"as": "full"})
    assert fulls == 50, fulls  # the first of each; all later ones are deltas
    print("edit to the last gateway, s:", [round(t, 2) for t in took])
    assert max(took) < (30 if programs.ASAN else 5)


# --- TLS ---------------------------------------------------------------------------------------------------------------------


def connect(join, operator, folder, id, **kw):
    return join(operator, id, tls=Credentials(folder), **kw)


def test_certificates(run, join, certificates, tmp_path):
    server, a, both = certificates("operator,localhost", "gw-a", "gw-b,gw-c")
    [foreign] = certificates("gw-a", folder="foreign")
    operator = run(TWO, "--tls-dir", server)
    gw = connect(join, operator, a, "gw-a", own=["default/e"])
    gw.wait_owners(e="gw-a", f="")
    connect(join, operator, both, "gw-c").wait_programs(1)
    # A name that is not in the certificate, and one that is another's.
    for id in ("gw-x", "gw-a"):
        wrong = connect(join, operator, both, id)
        wrong.wait_end(grpc.StatusCode.PERMISSION_DENIED, f"id `{id}`: is not a name of the client's certificate (`gw-b`, `gw-c`)")
    assert not gw.end, "a stranger's hello ends nobody's stream"
    # Another authority's, none, an expired one, cleartext: no stream at all.
    (foreign / "ca.crt").write_bytes((a / "ca.crt").read_bytes())
    connect(join, operator, foreign, "gw-a").wait_end(grpc.StatusCode.UNAVAILABLE)
    [expired] = certificates("gw-late", days=0)
    time.sleep(1.5)
    connect(join, operator, expired, "gw-late").wait_end(grpc.StatusCode.UNAVAILABLE)
    join(operator, "gw-plain").wait_end(grpc.StatusCode.UNAVAILABLE)

    class Nobody:
        channel = grpc.ssl_channel_credentials((a / "ca.crt").read_bytes())

    join(operator, "gw-a", tls=Nobody).wait_end(grpc.StatusCode.UNAVAILABLE)
    assert {g["id"] for g in operator.told()["gateways"]} == {"gw-a", "gw-c"}
    # New certificates are taken by the next connection.
    certificates("operator,localhost", "gw-a")
    gw.close()
    connect(join, operator, a, "gw-a").wait_programs(1)


def test_a_certificate_is_of_one_namespace(run, join, certificates):
    """A gateway of `default` gets nothing of `other`, and the other way round; the same id in both is two gateways."""
    server, ours = certificates("operator,localhost", "gw-a")
    [theirs] = certificates("gw-b,gw-a", ns="other")
    [third] = certificates("gw-c", ns="third")
    engines = engine("e", 1, model="m"), engine("f", 2, model="m")
    operator = run(f"{manifest(*engines)}\n---\n{elsewhere('other', *engines)}", "--tls-dir", server)
    gw = connect(join, operator, ours, "gw-a", own=["default/e"])
    gw.wait_owners(e="gw-a", f="")
    other = connect(join, operator, theirs, "gw-a", ns="other", own=["other/e"])
    other.wait_programs(1)
    assert {key.partition("/")[0] for kind, key in other.items if kind in (ENGINE, ENDPOINT)} == {"other"}
    refusals = (
        (ours, "gw-a", "other", "the certificate has no SPIFFE ID, so it is of namespace `default`, not of `other`"),
        (theirs, "gw-b", "default", "the certificate is of `spiffe://kelpie/ns/other/gateway/gw-b`, not of namespace `default`"),
        (third, "gw-c", "other", "the certificate is of `spiffe://kelpie/ns/third/gateway/gw-c`, not of namespace `other`"),
    )
    for tls, id, ns, words in refusals:
        connect(join, operator, tls, id, ns=ns).wait_end(grpc.StatusCode.PERMISSION_DENIED, f"id `{id}`: {words}")
    assert not gw.end and not other.end
    told = lambda: {(g["namespace"], g["id"]): g["connected"] for g in operator.told()["gateways"]}
    wait_until(lambda: told() == {("default", "gw-a"): True, ("other", "gw-a"): True}, "both are shown")
    owners = lambda: {(e["namespace"], e["name"]): [p.get("owner", "") for p in e["endpoints"]] for e in operator.told()["engines"]}
    wait_until(lambda: [owners()[(ns, "e")] for ns in ("default", "other")] == [["gw-a"], ["gw-a"]], "each has its own")


def test_hack_certs(tmp_path):
    def certs(*arguments):
        return subprocess.run([ROOT / "hack/certs", *arguments], capture_output=True, text=True, timeout=PATIENCE)

    def text(name):
        command = ["openssl", "x509", "-in", tmp_path / "pki" / name / "tls.crt", "-noout", "-ext", "subjectAltName"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert certs(tmp_path / "pki", "operator.example,10.0.0.1,::1", "gw_a").returncode == 0
    assert "DNS:operator.example, IP Address:10.0.0.1, IP Address:0:0:0:0:0:0:0:1" in text("operator.example")
    assert "DNS:gw_a" in text("gw_a")
    for file in ("ca.key", "gw_a/tls.key", "gw_a/tls.crt"):
        assert (tmp_path / "pki" / file).stat().st_mode & 0o777 == 0o600
    before = [(tmp_path / "pki" / file).read_bytes() for file in ("ca.crt", "gw_a/tls.key")]
    assert certs(tmp_path / "pki", "gw_a").returncode == 0  # the same authority, a new key
    after = [(tmp_path / "pki" / file).read_bytes() for file in ("ca.crt", "gw_a/tls.key")]
    assert after[0] == before[0] and after[1] != before[1]
    assert certs("-n", "prod", tmp_path / "pki", "gw-p,10.0.0.2").returncode == 0
    assert "URI:spiffe://kelpie/ns/prod/gateway/gw-p, DNS:gw-p, IP Address:10.0.0.2" in text("gw-p")
    for arguments, words in (
        (["-n", "a/b", tmp_path / "x", "a"], "`a/b` is not the name of a namespace"), (["-x", tmp_path / "x", "a"], "usage:"),
        ([], "usage:"), ([tmp_path / "x"], "usage:"), (["-d"], "usage:"), (["-d", "x", tmp_path / "x", "a"], "days must be a number"),
        ([tmp_path / "x", "a b"], "`a b`"), ([tmp_path / "x", "../a"], "`../a`"), ([tmp_path / "x", "a,,b"], "`a,,b`"), ([tmp_path / "x", ""], "``"),
    ):
        done = certs(*arguments)
        assert done.returncode == 1 and words in done.stderr, (arguments, done)
    (tmp_path / "pki/ca.key").unlink()
    assert "is there, but not its key" in certs(tmp_path / "pki", "b").stderr
