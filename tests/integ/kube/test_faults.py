"""Row 22: each fault of the cluster leaves a visible trace, and harms nothing that serves. docs/operator.md has the table; what others test stands there too."""

import http.client
import json
import os
import pathlib
import re
import signal
import threading
import time

import pytest
import rig
import yaml
from cluster import PODS, Operator, change, endpoints, in_pods, make_pod, path_of, post_pod, put, set_status
from fakes import Gateway, programs, wait_until
from test_engines import DEPLOYMENTS, condition, deployment, gate, pods, pool, rules, serve, start, status, template, version, wait_condition

pytestmark = pytest.mark.kube


@pytest.fixture
def serving(operator, join, ns):
    """One engine of one pod that serves: (gateway, name of the pod)"""
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    [(gateway, ip)] = start(ns, join).values()
    serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    return gateway, next(iter(pods(ns)))


def is_quiet(operator, seconds=2, most=10):
    """No hot loop: few requests, little CPU."""
    asked, cpu = operator.total("kelpie_kube_requests_total"), cpu_s(operator)
    time.sleep(seconds)
    assert operator.total("kelpie_kube_requests_total") - asked <= most
    assert cpu_s(operator) - cpu < 0.3 * seconds


def cpu_s(operator):
    fields = pathlib.Path(f"/proc/{operator.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def errors_have(operator, *words):
    return lambda: any(all(word in line for word in words) for line in operator.errors())


# --- the API server ----------------------------------------------------------------------------------------------------


def test_row_22_etcd_is_compacted_under_us(operator, join, ns, cluster, serving):
    """Events are lost for good: what went meanwhile is found missing, what stayed stays."""
    gateway, _ = serving
    made = in_pods(programs.engine("other", 1, model="other"))
    put(ns, made)
    for i, name in enumerate(("a", "b")):
        make_pod(ns, name, "other")
        set_status(ns, name, f"10.2.0.{i + 1}")
    gateway.wait(lambda: len(endpoints(gateway)) == 3, "three endpoints")
    cluster.kill_api_server()
    cluster.delete_raw(f"pods/{ns.name}/a")
    cluster.compact()
    wait_until(errors_have(operator, "watch `pods`"), "it says that it cannot watch")
    cluster.up()
    gateway.wait(lambda: sorted(endpoints(gateway)) == ["10.1.0.1:50051", "10.2.0.2:50051"], "the one that went is gone", 40)
    wait_until(lambda: operator.errors() == [], "nothing wrong any more", 40)
    wait_condition(ns, "Ready", ("True", "Serving"))
    assert not gateway.end


def test_row_22_hundreds_of_pods_at_once(operator, ns, cluster, serving):
    """More than are put into the world one by one: it is made anew of all that there is; and again when they go."""
    gateway, _ = serving
    put(ns, in_pods(programs.engine("many", 1, model="many")))
    make_pod(ns, "p", "many")
    pod = {"apiVersion": "v1", "kind": "Pod", **set_status(ns, "p", "10.3.0.0")}
    gateway.wait(lambda: len(endpoints(gateway)) == 2, "two endpoints")
    del pod["metadata"]["managedFields"]

    def copy(n):
        ip = f"10.3.{n // 200}.{n % 200}"
        meta = {**pod["metadata"], "name": f"p{n}", "uid": f"00000000-0000-4000-8000-{n:012}"}
        return {**pod, "metadata": meta, "status": {**pod["status"], "podIP": ip, "podIPs": [{"ip": ip}]}}

    cluster.kill_api_server()
    cluster.put_raw({f"pods/{ns.name}/p{n}": copy(n) for n in range(1, 601)})
    cluster.up()
    gateway.wait(lambda: len(endpoints(gateway)) == 602, "602 endpoints", 60)
    cluster.kill_api_server()
    for n in range(1, 601):
        cluster.delete_raw(f"pods/{ns.name}/p{n}")
    cluster.up()
    gateway.wait(lambda: sorted(endpoints(gateway)) == ["10.1.0.1:50051", "10.3.0.0:50051"], "those that went are gone", 60)


def outage(operator, gateway, cluster, ns, seconds):
    """Nothing of a pod's changes is known meanwhile, gateways come and go, and the API is not asked in a loop."""
    cluster.kill_api_server()
    asked, sent = operator.total("kelpie_kube_requests_total"), len(gateway.programs)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        late = Gateway(f"127.0.0.1:{operator.port}", ns=ns.name, id=f"late-{len(gateway.programs)}")
        late.wait_programs(1)
        assert list(endpoints(late)) == ["10.1.0.1:50051"] and not gateway.end
        wait_until(lambda: operator.errors() and operator.ask("/readyz")[0] == 200, "it says so, and serves on")
        time.sleep(min(20, max(0, end - time.monotonic())))
        late.close()
    # Nine watches and what was to be written, each after pauses that grow to half a minute.
    assert operator.total("kelpie_kube_requests_total") - asked < 300 + 10 * seconds
    assert len(gateway.programs) > sent
    cluster.up()
    change(ns, "InferenceEngine", "e", {"replicas": 2})
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 2, "the change", 60)
    wait_until(lambda: operator.errors() == [], "nothing wrong any more", 60)
    is_quiet(operator)


def test_row_19_a_minute_without_the_api_server(operator, ns, cluster, serving):
    outage(operator, serving[0], cluster, ns, 60)


@pytest.mark.slow
def test_row_19_ten_minutes_without_the_api_server(operator, ns, cluster, serving):
    outage(operator, serving[0], cluster, ns, 600)


@pytest.mark.slow
def test_row_22_a_server_that_says_nothing(operator, ns, cluster, serving):
    """It takes connections and answers nothing: found out by asking; gateways are programmed meanwhile; then all goes on."""
    gateway, _ = serving
    cluster.signal("kube-apiserver", signal.SIGSTOP)
    try:
        wait_until(lambda: errors_have(operator, "watch `inferenceengines`")(), "it says so", 90)
        late = Gateway(f"127.0.0.1:{operator.port}", ns=ns.name, id="late")
        late.wait_programs(1)
        late.close()
    finally:
        cluster.signal("kube-apiserver", signal.SIGCONT)
    change(ns, "InferenceEngine", "e", {"replicas": 2})
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 2, "the change", 60)
    wait_until(lambda: operator.errors() == [], "nothing wrong any more", 60)
    assert not gateway.end


def test_row_22_a_token_that_counts_no_more(cluster, ns, crds, tmp_path):
    """As one that expired: named; gateways keep what they have; the next one in its file is taken without a restart."""
    ns.account("operator", rules())
    token = tmp_path / "token"
    token.write_text(cluster.token(ns.name, "operator"))
    config = cluster.kubeconfig(tmp_path / "config", {"tokenFile": str(token)})
    o = Operator(config, "--watch-namespace", ns.name)
    accounts = f"/api/v1/namespaces/{ns.name}/serviceaccounts"
    try:
        put(ns, pool(), template(replicas=0))
        wait_condition(ns, "Ready", ("True", "ScaledToZero"))
        cluster.ask("DELETE", f"{accounts}/operator")
        cluster.ask("POST", accounts, {"metadata": {"name": "operator"}})
        cluster.kill_api_server()  # or watches that are open would go on
        cluster.up()
        wait_until(errors_have(o, "401"), "it says so", 60)
        assert o.ask("/readyz")[0] == 200
        is_quiet(o, most=40)
        token.write_text(cluster.token(ns.name, "operator"))
        wait_until(lambda: o.errors() == [], "nothing wrong any more", 60)
        change(ns, "InferenceEngine", "e", {"replicas": 1})
        wait_until(lambda: deployment(ns)["spec"]["replicas"] == 1, "the change")
    finally:
        o.stop()


@pytest.mark.slow
def test_row_19_ten_minutes_of_nothing_write_nothing(operator, ns, serving):
    time.sleep(3)
    kinds = ("engine", "deployment", "service", "pods")
    before, written, asked = {k: version(ns, k) for k in kinds}, operator.total("kelpie_operator_writes_total"), operator.total("kelpie_kube_requests_total")
    time.sleep(600)
    assert {k: version(ns, k) for k in kinds} == before
    assert operator.total("kelpie_operator_writes_total") == written
    # Watches that the server ends after five minutes and more, and probes of a connection on which nothing came.
    assert operator.total("kelpie_kube_requests_total") - asked < 60


# --- objects that the schema lets through ------------------------------------------------------------------------------


def test_row_22_an_engine_of_a_type_that_nobody_knows(operator, ns, cluster, serving):
    """As a newer definition would let it through: it is left out by name, the others serve."""
    gateway, _ = serving
    odd = in_pods(programs.engine("odd", 1, model="odd"))
    odd["spec"]["engine"]["type"] = "of-tomorrow"
    odd["metadata"].update({"namespace": ns.name, "uid": "0b7c0f4e-0000-4000-8000-000000000001", "generation": 1})
    cluster.put_raw({f"kelpie.dev/inferenceengines/{ns.name}/odd": odd})
    wait_condition(ns, "Accepted", ("False", "Invalid"), "odd")
    message = next(c["message"] for c in status(ns, "odd")["conditions"] if c["type"] == "Accepted")
    assert "spec.engine.type" in message and "of-tomorrow" in message
    assert condition(ns, "Stalled", "odd") == ("True", "Invalid")
    assert operator.metric("kelpie_operator_object_errors") == 1
    assert condition(ns, "Ready") == ("True", "Serving") and list(endpoints(gateway)) == ["10.1.0.1:50051"]
    is_quiet(operator)


HOSTILE = [
    {"kelpie.dev/engine-container": "no\nsuch\x1b[31m container"},
    {"kelpie.dev/engine-container": "x" * 100000},
    {"kelpie.dev/injected": "{" * 10000},
    {"kubectl.kubernetes.io/default-container": "../../etc/passwd"},
    {"kelpie.dev/drain-seconds": "99999999999999999999"},
    {"kelpie.dev/routable": "True", "kelpie.dev/applied": "deadbeef"},
]


def test_row_22_annotations_that_somebody_made_up(operator, ns, serving):
    """On pods: each is an endpoint with a gateway of its own, or is named; nothing of the text gets anywhere."""
    gateway, _ = serving
    for i, annotations in enumerate(HOSTILE):
        make_pod(ns, f"h{i}", "e", annotations=annotations)
        set_status(ns, f"h{i}", f"10.3.0.{i + 1}")
    gateway.wait(lambda: len(endpoints(gateway)) == 1 + len(HOSTILE), "all are endpoints")
    text = json.dumps(operator.told()) + json.dumps(status(ns)) + operator.text()
    assert "\x1b" not in text and "passwd" not in text and "xxxxxxxx" not in text
    is_quiet(operator)


def test_row_22_our_own_marks_are_torn_off(operator, ns, serving):
    """Somebody edits what we made, and takes off what it is known by: it is put right once, and not fought over in a loop."""
    path = DEPLOYMENTS.format(ns.name) + "/e"
    edit = {"metadata": {"annotations": {"kelpie.dev/applied": "0000000000000000"}}, "spec": {"replicas": 7, "strategy": {"rollingUpdate": {"maxSurge": 9}}}}
    ns.cluster.ask("PATCH", path, edit, "application/merge-patch+json")
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 1, "it is put right")
    assert deployment(ns)["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == 1
    ns.cluster.ask("PATCH", path, {"metadata": {"labels": {"app.kubernetes.io/managed-by": "somebody"}}}, "application/merge-patch+json")
    time.sleep(2)
    is_quiet(operator)


def test_row_22_a_status_that_somebody_else_writes_too(operator, ns):
    """Also at once after the operator did, when it takes what it sees for older than its own."""
    put(ns, pool(), template(replicas=0))
    wait_condition(ns, "Ready", ("True", "ScaledToZero"))
    path = path_of(ns, "InferenceEngine", "e") + "/status"
    for _ in range(2):
        ns.cluster.ask("PATCH", path, {"status": {"observedGeneration": 77}}, "application/merge-patch+json")
        wait_until(lambda: status(ns)["observedGeneration"] == 1, "its own status")
    assert operator.errors() == []


# --- Kubernetes says no ------------------------------------------------------------------------------------------------


def wait_refused(ns, word):
    """What keeps pods from being made takes a while until the API server knows it."""

    def is_refused():
        try:
            post_pod(ns.cluster, ns.name, {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "?dryRun=All")
        except rig.Refused as e:
            return word in str(e)
        return False

    wait_until(is_refused, f"pods are refused: {word}")


def test_row_22_pods_that_cannot_be_made(operator, ns):
    """A quota: its words stand in the engine's condition."""
    ns.cluster.ask("POST", f"/api/v1/namespaces/{ns.name}/resourcequotas", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    wait_refused(ns, "exceeded quota")
    put(ns, pool(), template(replicas=1))
    wait_condition(ns, "Reconciling", ("True", "PodsNotMade"))
    message = next(c["message"] for c in status(ns)["conditions"] if c["type"] == "Ready")
    assert "exceeded quota" in message
    is_quiet(operator)
    ns.cluster.ask("DELETE", f"/api/v1/namespaces/{ns.name}/resourcequotas/none")


def test_row_22_a_webhook_that_does_not_answer(operator, ns):
    """Pods wait for it, and the condition says for whom."""
    hook = {
        "name": "down.example.com", "clientConfig": {"url": "https://127.0.0.1:1/inject"}, "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail", "timeoutSeconds": 1, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns.name}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    ns.cluster.ask("POST", path, {"metadata": {"name": f"down-{ns.name}"}, "webhooks": [hook]})
    try:
        wait_refused(ns, "down.example.com")
        put(ns, pool(), template(replicas=1))
        wait_condition(ns, "Reconciling", ("True", "PodsNotMade"))
        assert "down.example.com" in next(c["message"] for c in status(ns)["conditions"] if c["type"] == "Ready")
        is_quiet(operator)
    finally:
        ns.cluster.ask("DELETE", f"{path}/down-{ns.name}")


# --- row 23 ------------------------------------------------------------------------------------------------------------


def test_row_23_the_rights_of_the_chart_are_enough(cluster, ns, crds, tmp_path):
    """All that an operator of one namespace does there, with the roles that the chart makes and no others: nothing is refused, and nothing left undone."""
    rows = [r for r in yaml.safe_load((rig.ROOT / "charts/kelpie/files/rbac.yaml").read_text())["rows"] if r["in"] in ("namespaces", "own")]
    ns.account("operator", [{k: r[k] for k in ("apiGroups", "resources", "resourceNames", "verbs") if k in r} for r in rows])
    config = cluster.kubeconfig(tmp_path / "config", {"token": cluster.token(ns.name, "operator")})
    o = Operator(config, "--watch-namespace", ns.name, "--leader-elect", env={"POD_NAMESPACE": ns.name, "POD_IP": "127.0.0.1"})
    joined = []

    def join(id, **kw):
        joined.append(Gateway(f"127.0.0.1:{o.port}", ns=ns.name, id=id, **kw))
        return joined[-1]

    try:
        node = template("n", replicas=0, gateway={"mode": "Node"})
        put(ns, pool(), template(replicas=1), node, in_pods(programs.engine("w", 1, model="w")))
        wait_until(lambda: len(pods(ns)) == 1, "its pod")
        [(gateway, ip)] = start(ns, join).values()
        serve(gateway, ns, "e", ips=[ip])
        wait_condition(ns, "Ready", ("True", "Serving"))
        wait_until(lambda: gate(next(iter(pods(ns).values()))) == ["True"], "the gate is open")
        wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotFound"), "w")
        sets = f"/apis/apps/v1/namespaces/{ns.name}/daemonsets"
        wait_until(lambda: ns.cluster.ask("GET", sets)["items"], "gateways of nodes")
        assert {s["metadata"]["name"] for s in ns.cluster.ask("GET", f"/api/v1/namespaces/{ns.name}/services")["items"]} == {"pool", "kelpie-gateway"}
        wait_until(lambda: ns.cluster.ask("GET", f"/apis/events.k8s.io/v1/namespaces/{ns.name}/events?fieldSelector=reason=Serving")["items"], "the Event")
        change(ns, "InferenceEngine", "n", {"gateway": {"mode": "Sidecar"}})
        wait_until(lambda: not [d for d in ns.cluster.ask("GET", sets)["items"] if "deletionTimestamp" not in d["metadata"]], "they are gone")
        assert o.errors() == [] and o.metric("kelpie_operator_leader") == 1
        assert not re.search(r'kelpie_kube_requests_total\{[^}]*"40[13]"', o.ask("/metrics")[1])
    finally:
        for g in joined:
            g.close()
        o.stop()


# --- row 4 -------------------------------------------------------------------------------------------------------------


def kstatus(o):
    """As kstatus computes it (sigs.k8s.io/cli-utils, its order)."""
    meta, said = o["metadata"], o.get("status", {})
    held = {c["type"]: c["status"] for c in said.get("conditions", [])}
    if "deletionTimestamp" in meta:
        return "Terminating"
    if said.get("observedGeneration", meta["generation"]) != meta["generation"]:
        return "InProgress"
    if held.get("Stalled") == "True":
        return "Failed"
    if held.get("Reconciling") == "True":
        return "InProgress"
    return "Current" if held.get("Ready", "True") == "True" else "InProgress"


def test_row_4_every_status_is_true_when_it_is_written(operator, join, ns):
    """What kstatus makes of each status in the history of an engine: Current is said only of one that serves, and a change is in progress until it is done."""
    put(ns, pool())
    history = []
    from_here = ns.cluster.ask("GET", path_of(ns, "InferencePool", "pool"))["metadata"]["resourceVersion"]
    connection = http.client.HTTPSConnection("127.0.0.1", ns.cluster.port, context=ns.cluster.tls)
    connection.request("GET", path_of(ns, "InferenceEngine") + f"?watch=1&resourceVersion={from_here}")
    answer = connection.getresponse()

    def follow():
        while line := answer.readline():
            history.append(json.loads(line)["object"])

    threading.Thread(target=follow, daemon=True).start()
    put(ns, template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    for gateway, ip in start(ns, join).values():
        serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    change(ns, "InferenceEngine", "e", {"poolRef": {"name": "nowhere"}})
    wait_condition(ns, "Stalled", ("True", "PoolNotFound"))
    change(ns, "InferenceEngine", "e", {"poolRef": {"name": "pool"}})
    wait_condition(ns, "Ready", ("True", "Serving"))
    change(ns, "InferenceEngine", "e", {"template": template(image="example/engine:2")["spec"]["template"]})
    wait_condition(ns, "Reconciling", ("True", "Updating"))
    wait_until(lambda: history and history[-1]["metadata"]["generation"] == 4 and kstatus(history[-1]) == "InProgress", "all of it was seen")
    seen = [(o["metadata"]["generation"], kstatus(o)) for o in history if "status" in o]
    short = [s for i, s in enumerate(seen) if i == 0 or s != seen[i - 1]]
    assert short[0] == (1, "InProgress"), ("the first status is written before any work", [o.get("status") for o in history[:3]])
    assert [s for s in short if s[1] == "Current"] == [(1, "Current"), (3, "Current")], short
    assert (2, "Failed") in short and short[-1] == (4, "InProgress"), short
    for o in history:
        for c in o.get("status", {}).get("conditions", []):
            assert c["observedGeneration"] <= o["metadata"]["generation"] and c["lastTransitionTime"] and c["reason"] and len(c["message"]) < 1024
