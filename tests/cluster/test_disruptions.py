"""What happens to clusters, one after the other, under load: no request fails, and no stream is cut. What cannot be saved is counted: streams
that an engine had begun when its process was killed, and connections to a gateway that was killed."""

import json
import os
import signal
import time

from nodes import KUBE, MODE, PATIENCE_S, ROOT, containers, kubectl, leader, pods, process, run, wait_until

GATEWAYS = ("kelpie.dev/node-gateway", "default") if MODE == "node" else ("part=engine", "default")


def all_whole(ended):
    bad = {outcome: found[:5] for outcome, found in ended.items() if outcome != "whole" and found}
    assert not bad, bad


def kill(pod, program):
    os.kill(process(pod, program), signal.SIGKILL)


def restarts(pod, container):
    return containers(name(pod))[container]["restartCount"]


def a_pod(on=None):
    return next(p for p in pods() if on in (None, p["spec"]["nodeName"]))


def name(pod):
    return pod["metadata"]["name"]


def test_nothing(during):
    """What the rest is compared with."""
    all_whole(during("nothing", lambda: time.sleep(10)))


def test_pod_deletion(during):
    all_whole(during("a pod is deleted", lambda: kubectl("delete", "pod", name(a_pod()))))


def test_eviction(during):
    pod = name(a_pod())
    eviction = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}})

    def evict():
        kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{pod}/eviction", "-f", "-", stdin=eviction)
        kubectl("wait", "--for=delete", f"pod/{pod}", "--timeout=120s")

    all_whole(during("a pod is evicted", evict))


def test_node_drain(during):
    def drain():
        kubectl("drain", "node2", "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s")
        assert not [p for p in pods() if p["spec"].get("nodeName") == "node2"]
        time.sleep(5)
        kubectl("uncordon", "node2")

    all_whole(during("a node is drained", drain))


def test_engine_restart(during):
    pod = a_pod()
    before = restarts(pod, "engine")

    def crash():
        kill(pod, "sim-engine")
        wait_until(lambda: restarts(pod, "engine") > before, "the restart")
        time.sleep(3)

    ended = during("an engine's process is killed", crash)
    # Those it had begun: five seconds of them at most, and as many as there are; each has one error that says so.
    began = ended.pop("error")
    assert 0 < len(began) <= 100 and all(e["detail"].startswith("1 service_unavailable_error") for e in began), began[:5]
    assert max(e["ended"] for e in began) - min(e["ended"] for e in began) < 2
    all_whole(ended)


def test_gateway_crash(during):
    pod = pods(*GATEWAYS)[0]
    before, at = restarts(pod, "kelpie-gateway"), []

    def crash():
        at.append(time.time())
        kill(pod, "kelpie-sidecar")
        wait_until(lambda: restarts(pod, "kelpie-gateway") > before, "the restart")
        time.sleep(3)

    ended = during("a gateway's process is killed", crash)
    # Its clients' connections end with it, and what others had forwarded to its engines ends with one error. Nothing but what had begun.
    gone = [e for outcome in ("cut", "error", "lost") for e in ended.pop(outcome)]
    assert all(e["began"] < at[0] + 3 and e["ended"] < at[0] + 6 for e in gone), gone[:5]
    all_whole(ended)


def test_operator_restart(during):
    def restart():
        kubectl("rollout", "restart", "deployment/kelpie-operator", "-n", "kelpie-system")
        kubectl("rollout", "status", "deployment/kelpie-operator", "-n", "kelpie-system", "--timeout=120s")

    all_whole(during("the operators are restarted", restart))


def test_leader_change_during_pod_creation(during):
    def change():
        first = leader()
        pod = name(a_pod())
        kubectl("delete", "pod", pod, "--wait=false")
        wait_until(lambda: len(pods()) == 4, "the new pod")
        kubectl("delete", "pod", "-n", "kelpie-system", first, "--grace-period=0", "--force")
        wait_until(lambda: leader() != first, "another leader")
        kubectl("wait", "--for=delete", f"pod/{pod}", "--timeout=120s")

    all_whole(during("the leader is killed while a pod starts", change))


def test_api_server_is_down_for_two_minutes(during):
    def outage():
        pid = int((KUBE / "run/kube-apiserver.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        time.sleep(120)
        run(ROOT / "hack/kube/up", "-n", "2", check=False)  # a kubelet may need longer than it waits
        kubectl("wait", "--for=condition=Ready", "nodes", "--all", f"--timeout={PATIENCE_S}s")

    all_whole(during("the API server is down for two minutes", outage))
