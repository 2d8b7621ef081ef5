"""Who leads, by a Lease on a real API server, while leaders end, crash, freeze and lose the server."""

import signal
import time

import pytest
import rig

pytestmark = pytest.mark.kube

LEASE = {"name": "leader", "duration_ms": 3000, "renew_ms": 1500, "retry_ms": 300}


def stored(ns):
    return ns.cluster.ask("GET", f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases/leader")["spec"]


@pytest.fixture
def candidate(probe, ns):
    def make(name):
        p = probe(ns.cluster.admin, "1000", "1000")
        p.do("lease", "l", ns=ns.name, identity=name, **LEASE)
        return p

    return make


def test_one_leads_and_gives_it_up(candidate, ns):
    a = candidate("a")
    assert a.expect(event="acquired") == {"event": "acquired", "id": "l", "term": 1, "held": True}
    b = candidate("b")
    assert b.expect(event="seen")["holder"] == "a"
    first = stored(ns)
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("a", 3, 1)
    time.sleep(1)
    later = stored(ns)
    assert later["renewTime"] > first["renewTime"] and later["acquireTime"] == first["acquireTime"]
    began = time.monotonic()
    a.do("release", "l")
    a.expect(event="released")
    assert b.expect(event="acquired")["term"] == 2
    assert time.monotonic() - began < 2  # it need not wait for the end of the lease
    assert a.drain(0.5) == []
    assert stored(ns)["holderIdentity"] == "b"


def test_a_leader_that_crashes(candidate, ns):
    a = candidate("a")
    a.expect(event="acquired")
    b = candidate("b")
    b.expect(event="seen", holder="a")
    began = time.monotonic()
    a.process.kill()
    a.process.wait()
    assert b.expect(event="acquired")["term"] == 2
    assert time.monotonic() - began > 2.5


def test_a_leader_that_freezes(candidate, ns):
    """When it goes on it does not lead for a moment, though nobody told it."""
    a = candidate("a")
    a.expect(event="acquired")
    b = candidate("b")
    b.expect(event="seen", holder="a")
    a.signal(signal.SIGSTOP)
    assert b.expect(event="acquired")["term"] == 2
    a.do("is_held", "l")  # the first thing it reads when it wakes
    a.signal(signal.SIGCONT)
    assert a.expect(event="is_held")["held"] is False
    assert [x["code"] for x in [*a.seen, *a.drain(1)] if x["event"] == "lost"] in (["DEADLINE_EXCEEDED"], ["ABORTED"])
    assert [x["term"] for x in [*a.seen, *b.seen] if x["event"] == "acquired"] == [1, 2]


def test_a_leader_without_a_server(candidate, ns):
    """It stops leading before the lease ends, and leads again, in a new term, when the server is back."""
    a = candidate("a")
    a.expect(event="acquired")
    ns.cluster.signal("kube-apiserver", signal.SIGSTOP)
    began = time.monotonic()
    try:
        lost = a.expect(event="lost")
        assert time.monotonic() - began < LEASE["duration_ms"] / 1000
        assert lost["code"] == "DEADLINE_EXCEEDED" and "renew lease `leader`: not within 1500 ms" in lost["message"]
    finally:
        ns.cluster.signal("kube-apiserver", signal.SIGCONT)
    assert a.expect(event="acquired")["term"] == 2


def test_clocks_may_differ(candidate, ns):
    """What the holder wrote of its clock counts for nothing: a candidate waits by its own."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases"
    for name, year in (("leader", 1999),):
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 2, "renewTime": f"{year}-01-01T00:00:00.000000Z", "leaseTransitions": 7}
        ns.cluster.ask("POST", path, {"metadata": {"name": name}, "spec": spec})
    began = time.monotonic()
    a = candidate("a")
    assert a.expect(event="acquired")["term"] == 8
    assert time.monotonic() - began > 1.9


def test_the_lease_is_taken_or_deleted(candidate, ns):
    a = candidate("a")
    a.expect(event="acquired")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases/leader"
    ns.cluster.ask("PATCH", path, {"spec": {"holderIdentity": "thief"}}, "application/merge-patch+json")
    lost = a.expect(event="lost")
    assert (lost["code"], lost["message"]) == ("ABORTED", "renew lease `leader`: `thief` holds it")
    ns.cluster.ask("DELETE", path)
    a.expect(event="acquired")
    ns.cluster.ask("PATCH", path, {"metadata": {"annotations": {"edited": "by hand"}}}, "application/merge-patch+json")
    assert a.drain(1) == []  # somebody else's note costs nothing
    assert stored(ns)["holderIdentity"] == "a"


def test_many_candidates(candidate, ns):
    """At no time two of them."""
    all_of_them = [candidate(f"c{i}") for i in range(4)]
    terms = []
    for _ in range(4):
        deadline = time.monotonic() + rig.PATIENCE
        while True:
            leaders = [p for p in all_of_them if any(x["event"] == "acquired" for x in [*p.seen, *p.drain(0.02)])]
            if leaders or time.monotonic() > deadline:
                break
        assert len(leaders) == 1
        terms.append(next(x["term"] for x in leaders[0].seen if x["event"] == "acquired"))
        leaders[0].do("release", "l")
        leaders[0].expect(event="released")
        all_of_them.remove(leaders[0])
    assert terms == [1, 2, 3, 4]
