"""Several kelpie-operators on one API server: one leads, the others say where it is, and epochs only grow."""

import signal
import time

import grpc
import pytest
import rig
from cluster import Operator, put
from fakes import ENGINE, Gateway, programs, wait_until

pytestmark = pytest.mark.kube


def lease(ns):
    return ns.cluster.ask("GET", f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases/kelpie-operator")


@pytest.fixture
def operator(cluster, ns, crds):
    running = []

    def make(id):
        env = {"POD_NAMESPACE": ns.name, "POD_IP": "127.0.0.1"}
        running.append(Operator(cluster.admin, "--leader-elect", "--id", id, "--watch-namespace", ns.name, env=env))
        return running[-1]

    yield make
    for o in running:
        o.signal(signal.SIGCONT)
        o.stop()


def leads(o):
    return o.metric("kelpie_operator_leader") == 1


def join(o, ns):
    return Gateway(f"127.0.0.1:{o.port}", ns=ns.name)


def epoch(ns):
    return int(lease(ns)["metadata"]["annotations"]["kelpie.dev/epoch"])


def test_one_leads_and_the_others_say_where_it_is(operator, ns):
    put(ns, programs.pool(), programs.engine("e", 1))
    a = operator("a")
    wait_until(lambda: leads(a), "a leads")
    b = operator("b")
    b.wait_ready()
    wait_until(lambda: b.told()["operator"].get("leader") == f"127.0.0.1:{a.port}", "b knows a")
    assert not leads(b)
    at_b = join(b, ns)
    at_b.wait_end(grpc.StatusCode.UNAVAILABLE, f"operator `b` is a standby; the leader is `127.0.0.1:{a.port}`")
    at_a = join(a, ns)
    at_a.wait_programs(1)
    first = at_a.welcome.epoch
    assert first == epoch(ns)
    a.stop()  # it gives the Lease up
    at_a.wait_end(grpc.StatusCode.UNAVAILABLE)
    wait_until(lambda: leads(b), "b leads", timeout=5)
    again = Gateway(f"127.0.0.1:{b.port}", ns=ns.name, items=at_a.items, revision=at_a.revision)
    again.wait_programs(1)
    assert again.welcome.epoch == epoch(ns) > first
    assert not again.programs[0].upsert and not again.programs[0].remove  # its content is the same: a number
    again.close()
    at_a.close()
    at_b.close()


def test_a_leader_that_freezes_does_not_lead_when_it_goes_on(operator, ns):
    put(ns, programs.pool(), programs.engine("e", 1))
    a = operator("a")
    wait_until(lambda: leads(a), "a leads")
    b = operator("b")
    gateway = join(a, ns)
    gateway.wait_programs(1)
    a.signal(signal.SIGSTOP)
    wait_until(lambda: leads(b), "b leads", timeout=40)
    later = join(b, ns)
    later.wait_programs(1)
    put(ns, programs.engine("f", 2, model="g"))
    a.signal(signal.SIGCONT)
    gateway.wait_end(grpc.StatusCode.UNAVAILABLE, "is a standby")
    assert len(gateway.programs) == 1  # the engine that came meanwhile was told by b alone
    later.wait(lambda: len(later.items) >= 4, "the new engine")
    wait_until(lambda: a.told()["operator"].get("leader") == f"127.0.0.1:{b.port}", "a knows b")
    later.close()
    gateway.close()


def test_epochs_grow_though_the_lease_is_deleted_or_its_number_is_wrong(operator, ns):
    a = operator("a")
    wait_until(lambda: leads(a), "a leads")
    first = epoch(ns)
    a.stop()
    path = f"/apis/coordination.k8s.io/v1/namespaces/{ns.name}/leases/kelpie-operator"
    kept = first + 3_600_000  # a leader whose clock was an hour ahead
    ns.cluster.ask("PATCH", path, {"metadata": {"annotations": {"kelpie.dev/epoch": str(kept)}}}, "application/merge-patch+json")
    b = operator("b")
    wait_until(lambda: leads(b), "b leads")
    assert epoch(ns) == kept + 1
    time.sleep(3)  # renewed
    assert epoch(ns) == kept + 1
    b.stop()
    ns.cluster.ask("DELETE", path)
    c = operator("c")
    wait_until(lambda: leads(c), "c leads")
    assert first < epoch(ns) < kept  # the clocks alone
    c.stop()
    ns.cluster.ask("PATCH", path, {"metadata": {"annotations": {"kelpie.dev/epoch": str(2**62)}}}, "application/merge-patch+json")
    d = operator("d")
    wait_until(lambda: leads(d), "d leads")
    assert first < epoch(ns) < kept


def test_a_gateway_goes_where_a_standby_sends_it(operator, ns):
    """It knows one address, as of a Service that has only the standby: each leader programs it all the same, and is not asked in a loop."""
    put(ns, programs.pool(), programs.engine("e", 1))
    a = operator("a")
    wait_until(lambda: leads(a), "a leads")
    b = operator("b")
    wait_until(lambda: b.told()["operator"].get("leader") == f"127.0.0.1:{a.port}", "b knows a")
    gateway = programs.Gateway(None, "--control", f"127.0.0.1:{b.port}", "--namespace", ns.name, "--id", "gw", "--peer-listen", "127.0.0.1:0", ready=False)
    try:
        wait_until(lambda: [g["current"] for g in a.told()["gateways"]] == [True], "a programs it")
        assert [line["address"] for line in gateway.lines("no operator, going on without")] == [f"127.0.0.1:{b.port}"]
        assert [line["address"] for line in gateway.lines("operator")] == [f"127.0.0.1:{a.port}"]
        a.stop()
        wait_until(lambda: len(gateway.lines("no operator, going on without")) > 1, "it says so")
        assert gateway.lines("no operator, going on without")[1]["address"] == f"127.0.0.1:{a.port}", "the one that is lost"
        wait_until(lambda: leads(b), "b leads", timeout=5)
        wait_until(lambda: [g["current"] for g in b.told()["gateways"]] == [True], "b programs it")
        c = operator("c")
        wait_until(lambda: c.told()["operator"].get("leader") == f"127.0.0.1:{b.port}", "c knows b")
        b.signal(signal.SIGSTOP)  # nobody at the gateway's address, and nobody who sends it on: it tries on, with pauses
        wait_until(lambda: leads(c), "c leads", timeout=40)
        b.signal(signal.SIGCONT)
        wait_until(lambda: [g["current"] for g in c.told()["gateways"]] == [True], "b sends it to c", timeout=20)
        assert len(gateway.lines("no operator, going on without")) < 30  # some twenty seconds without any leader
    finally:
        gateway.stop()


def test_two_operators_by_mistake(cluster, ns, crds):
    """Neither asks who leads. Objects are written once, statuses seldom; a gateway follows the one it is connected to."""
    running = [Operator(cluster.admin, "--id", id, "--watch-namespace", ns.name) for id in "ab"]
    try:
        put(ns, programs.pool(), programs.engine("e", 1))
        gateways = [Gateway(f"127.0.0.1:{running[i // 2].port}", ns=ns.name, id=f"gw-{i}") for i in range(3)]  # so each sees something else
        for gateway in gateways:
            gateway.wait(lambda g=gateway: len(g.items) >= 3, "its program")
        assert gateways[2].welcome.epoch > gateways[0].welcome.epoch == gateways[1].welcome.epoch
        service = lambda: ns.cluster.ask("GET", f"/api/v1/namespaces/{ns.name}/services/pool")["metadata"]["resourceVersion"]
        time.sleep(6)
        before, written, sent = service(), [o.total("kelpie_operator_writes_total") for o in running], [len(g.programs) for g in gateways]
        time.sleep(11)
        assert service() == before and [len(g.programs) for g in gateways] == sent
        for o, was in zip(running, written):
            # Each waits 3 s for what differs in gateways alone, and 5 s after what it wrote itself.
            assert 1 <= o.total("kelpie_operator_writes_total") - was <= 3, "they differ, and are in no hurry"
        # One of them goes, and its gateway comes to the other, which is of a higher epoch.
        running.pop(0).stop()
        again = Gateway(f"127.0.0.1:{running[0].port}", ns=ns.name, id="gw-0", items=gateways[0].items, revision=gateways[0].revision)
        again.wait_programs(1)
        engine = (ENGINE, f"{ns.name}/e")
        assert again.items[engine] == gateways[0].items[engine] and again.welcome.epoch == gateways[2].welcome.epoch
        again.close()
        for gateway in gateways:
            gateway.close()
    finally:
        for o in running:
            o.stop()
