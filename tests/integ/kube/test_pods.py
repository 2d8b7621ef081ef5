"""Pods of engines become endpoints: whose they are, how their owner reaches them, and when they are gone."""

import pytest
from cluster import PODS, Operator, endpoints, in_pods, make_pod, put, set_status
from fakes import Gateway, programs, wait_until

pytestmark = pytest.mark.kube


def test_row_3_a_pod_is_an_endpoint_of_its_own_gateway(operator, join, ns):
    put(ns, programs.pool(), in_pods(programs.engine("e", 1)))
    entry = join("entry")
    entry.wait_programs(1)
    assert endpoints(entry) == {}
    uid = make_pod(ns, "a", "e")["metadata"]["uid"]
    make_pod(ns, "other", "nobody")
    set_status(ns, "a", "10.1.0.1")
    entry.wait(lambda: "10.1.0.1:50051" in endpoints(entry), "the endpoint")
    first = endpoints(entry)["10.1.0.1:50051"]
    assert (first.engine, first.owner, first.local, first.instance) == (f"{ns.name}/e", "", "127.0.0.1:50051", f"{uid}/0")
    own = join(uid, peer="10.1.0.1:9443")
    entry.wait(lambda: endpoints(entry)["10.1.0.1:50051"].owner == uid, "its owner")
    own.wait(lambda: [e.owner for e in endpoints(own).values()] == [uid], "its owner, there too")
    # The container was restarted: another run, so another endpoint.
    set_status(ns, "a", "10.1.0.1", restarts=2)
    entry.wait(lambda: endpoints(entry)["10.1.0.1:50051"].instance == f"{uid}/2", "the restart")
    # A second pod changes nothing of the first.
    second = make_pod(ns, "b", "e")["metadata"]["uid"]
    set_status(ns, "b", "10.1.0.2")
    entry.wait(lambda: len(endpoints(entry)) == 2, "the second")
    assert [key.key for key in entry.programs[-1].remove] == []
    assert [item.key.key for item in entry.programs[-1].upsert] == [f"{ns.name}/e/10.1.0.2:50051"]
    # Evicted: Failed, without an address. And one that was told to end.
    set_status(ns, "b", "10.1.0.2", ready=False, phase="Failed")
    entry.wait(lambda: list(endpoints(entry)) == ["10.1.0.1:50051"], "the evicted one is gone")
    ns.cluster.ask("DELETE", PODS.format(ns.name) + "/a")
    entry.wait(lambda: endpoints(entry) == {}, "the deleted one is gone")
    pod = ns.cluster.ask("GET", PODS.format(ns.name) + "/a")
    assert pod["metadata"]["deletionTimestamp"], "it is still there: nobody ends it"
    assert second != uid


def test_row_3_a_name_that_comes_again_is_another_endpoint(operator, join, ns):
    """A StatefulSet's pod: the same name, and by chance the same address."""
    put(ns, programs.pool(), in_pods(programs.engine("e", 1), port=8000))
    entry = join("entry")
    first = make_pod(ns, "e-0", "e")["metadata"]["uid"]
    set_status(ns, "e-0", "fd00::1")
    entry.wait(lambda: "[fd00::1]:8000" in endpoints(entry), "the endpoint")
    assert endpoints(entry)["[fd00::1]:8000"].local == "127.0.0.1:8000"
    ns.cluster.ask("DELETE", PODS.format(ns.name) + "/e-0", {"gracePeriodSeconds": 0})
    again = make_pod(ns, "e-0", "e")["metadata"]["uid"]
    set_status(ns, "e-0", "fd00::1")
    entry.wait(lambda: [e.instance for e in endpoints(entry).values()] == [f"{again}/0"], "the new one")
    assert first != again


def test_a_node_gateway_owns_the_pods_of_its_node(operator, join, ns):
    # The name is taken: the operator's own DaemonSet would adopt the pods of this test, and end them, since there are no nodes.
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    taken = {"metadata": {"name": "kelpie-gateway"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}}
    ns.cluster.ask("POST", f"/apis/apps/v1/namespaces/{ns.name}/daemonsets", taken)
    put(ns, programs.pool(), in_pods(programs.engine("e", 1), gateway={"mode": "Node"}))
    entry = join("entry")
    for i in (1, 2, 3):
        make_pod(ns, f"e{i}", "e", node=f"node-{i % 2}")
        set_status(ns, f"e{i}", f"10.1.0.{i}")
    gateways = {}
    for node in ("node-0", "node-1"):
        pod = make_pod(ns, f"gw-{node}", "none", node=node, labels={"kelpie.dev/node-gateway": ns.name})
        gateways[node] = join(pod["metadata"]["uid"], node=node, peer="10.1.0.9:9443")
    wanted = {f"10.1.0.{i}:50051": gateways[f"node-{i % 2}"].id for i in (1, 2, 3)}
    entry.wait(lambda: {a: e.owner for a, e in endpoints(entry).items()} == wanted, "the owners")
    assert {e.local for e in endpoints(entry).values()} == {""}  # over the network of the node


def test_pods_that_may_not_be_read_are_not_taken_for_none(cluster, join, ns, crds, tmp_path):
    """Without the right to read pods nothing follows: gateways keep what they have."""
    rules = [
        {"apiGroups": ["inference.networking.k8s.io", "kelpie.dev"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
    ]
    put(ns, programs.pool(), in_pods(programs.engine("e", 1)))
    make_pod(ns, "a", "e")
    set_status(ns, "a", "10.1.0.1")
    ns.account("operator", rules)
    config = cluster.kubeconfig(tmp_path / "config", {"token": cluster.token(ns.name, "operator")})
    blind = Operator(config, "--watch-namespace", ns.name)
    try:
        gateway = Gateway(f"127.0.0.1:{blind.port}", ns=ns.name)
        wait_until(lambda: any("watch `pods` with kelpie.dev/engine" in line and "(403 Forbidden)" in line for line in blind.errors()), "it says so")
        blind.wait_ready()
        assert gateway.programs == []
        role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns.name}/roles/operator"
        more = rules + [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
        cluster.ask("PATCH", role, {"rules": more}, "application/merge-patch+json")
        gateway.wait(lambda: "10.1.0.1:50051" in endpoints(gateway), "the endpoint")
        assert len(gateway.programs) == 1
        gateway.close()
    finally:
        blind.stop()
