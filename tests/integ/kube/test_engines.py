"""Engines with a template on a real API server and controller-manager: what is made for them, what their status says, when pods may take requests."""

import threading
import time

import pytest
import rig
from cluster import PODS, Late, Operator, change, endpoints, in_pods, make_pod, path_of, put, set_status
from fakes import Gateway, programs, wait_until

pytestmark = pytest.mark.kube

DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"
TOO_LITTLE = {"mode": "Node", "resources": {"limits": {"memory": "64Mi"}}}


def pool(name="pool", port=8080, **labels):
    made = programs.pool(name, (port,))
    made["spec"]["selector"]["matchLabels"] = labels or {"app": "demo"}
    return made


def template(name="e", replicas=2, image="example/engine:1", labels=None, spec=None, **more):
    """The gateway's container and the gate are in it, as the webhook puts them there."""
    engine = programs.engine(name, 1)
    del engine["spec"]["endpoints"]
    pod = {
        "containers": [{"name": "engine", "image": image, "resources": {"limits": {"nvidia.com/gpu": 2}}}],
        "initContainers": [{"name": "kelpie-gateway", "image": "example/gateway:1", "restartPolicy": "Always"}],
        "readinessGates": [{"conditionType": "kelpie.dev/routable"}],
        **(spec or {}),
    }
    engine["spec"].update({"replicas": replicas, "template": {"metadata": {"labels": labels or {"app": "demo"}}, "spec": pod}, **more})
    return engine


def deployment(ns, name="e"):
    try:
        return ns.cluster.ask("GET", DEPLOYMENTS.format(ns.name) + "/" + name)
    except rig.Refused as e:
        assert e.status == 404, e
        return None


def pods(ns):
    found = ns.cluster.ask("GET", PODS.format(ns.name))["items"]
    return {p["metadata"]["name"]: p for p in found if "deletionTimestamp" not in p["metadata"]}


def status(ns, name="e"):
    return ns.cluster.ask("GET", path_of(ns, "InferenceEngine", name)).get("status", {})


def condition(ns, type, name="e"):
    """(status, reason) or None"""
    for c in status(ns, name).get("conditions", []):
        if c["type"] == type:
            return c["status"], c["reason"]
    return None


def wait_condition(ns, type, wanted, name="e", timeout=20):
    try:
        wait_until(lambda: condition(ns, type, name) == wanted, f"{type} {wanted}", timeout)
    except AssertionError:
        raise AssertionError(f"{type}: not {wanted}: {status(ns, name)}") from None


def gate(pod):
    return [c["status"] for c in pod["status"].get("conditions", []) if c["type"] == "kelpie.dev/routable"]


def serve(gateway, ns, *names, ips):
    """The owner says of its endpoints that they are routable, and goes on saying so."""
    report = [dict(engine=f"{ns.name}/{name}", address=f"{ip}:50051", state="routable", tokenizer_loaded=True) for name in names for ip in ips]
    gateway.wait_programs(1)

    def go_on():
        while not gateway.end:
            gateway.say(endpoints=report)
            time.sleep(2)

    threading.Thread(target=go_on, daemon=True).start()


def start(ns, join):
    """Every pod runs, and has its gateway: {uid: (gateway, ip)}"""
    running = {}
    for i, (name, p) in enumerate(sorted(pods(ns).items())):
        ip = f"10.1.0.{i + 1}"
        set_status(ns, name, ip)
        gateway = join(p["metadata"]["uid"], peer=f"{ip}:9443")
        running[p["metadata"]["uid"]] = (gateway, ip)
    return running


def test_from_a_template_to_a_served_model(operator, join, ns):
    put(ns, pool(), template())
    made = wait_until(lambda: deployment(ns), "its Deployment")
    assert made["spec"]["replicas"] == 2
    assert made["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["kelpie.dev/engine"] == "e" and labels["app"] == "demo" and len(labels["kelpie.dev/revision"]) == 10
    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 45
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("InferenceEngine", "e", True)
    service = wait_until(lambda: ns.cluster.ask("GET", f"/api/v1/namespaces/{ns.name}/services")["items"], "the pool's Service")[0]
    assert (service["metadata"]["name"], service["spec"]["selector"]) == ("pool", {"app": "demo"})
    assert [(p["port"], p["targetPort"], p["appProtocol"]) for p in service["spec"]["ports"]] == [(8080, 8080, "http")]
    wait_until(lambda: len(pods(ns)) == 2, "two pods")
    wait_condition(ns, "Ready", ("False", "PodsPending"))
    running = start(ns, join)
    wait_condition(ns, "Ready", ("False", "EndpointsNotRoutable"))
    assert condition(ns, "Reconciling") == ("True", "EndpointsNotRoutable") and condition(ns, "Stalled") is None
    # A model is loading: an update must not end old pods for such ones.
    assert [gate(p) for p in pods(ns).values()] == [[], []]
    for gateway, ip in running.values():
        serve(gateway, ns, "e", ips=[ip])
    wait_until(lambda: all(gate(p) == ["True"] for p in pods(ns).values()), "the gates are open")
    wait_condition(ns, "Ready", ("True", "Serving"))
    assert condition(ns, "Reconciling") is None
    now = status(ns)
    counts = {k: now[k] for k in ("replicas", "readyReplicas", "updatedReplicas", "routableReplicas", "observedGeneration")}
    assert counts == {"replicas": 2, "readyReplicas": 2, "updatedReplicas": 2, "routableReplicas": 2, "observedGeneration": 1}
    assert now["gateways"] == {"desired": 2, "acked": 2} and now["gpus"] == [{"name": "nvidia.com/gpu", "perReplica": 2}]
    assert now["selector"] == "kelpie.dev/engine=e" and now["currentRevision"] == now["updateRevision"] == labels["kelpie.dev/revision"]
    for type in ("Injected", "Attached", "Routable", "PoolSelects", "PortsFree", "DrainFits", "WorkloadApplied", "ServiceApplied", "Accepted"):
        assert condition(ns, type)[0] == "True", type
    events = ns.cluster.ask("GET", f"/apis/events.k8s.io/v1/namespaces/{ns.name}/events")["items"]
    assert "Serving" in [e["reason"] for e in events if e["regarding"]["kind"] == "InferenceEngine"]


def test_row_2_a_pool_is_the_users_and_the_gateways(operator, join, ns):
    """Kelpie is no Gateway: it writes nothing into the pool, neither spec nor labels nor an entry of status.parents."""
    put(ns, pool(), template(replicas=1))
    before = ns.cluster.ask("GET", path_of(ns, "InferencePool", "pool"))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    for gateway, ip in start(ns, join).values():
        serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    assert ns.cluster.ask("GET", path_of(ns, "InferencePool", "pool")) == before


def test_row_19_the_api_server_is_away(operator, join, ns, cluster):
    """What runs goes on; nothing runs hot; what happened meanwhile is done when it is back."""
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    [(gateway, ip)] = start(ns, join).values()
    serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    sent, asked = len(gateway.programs), operator.total("kelpie_kube_requests_total")
    cluster.kill_api_server()
    join("late").wait_programs(1)  # programs do not need the API: its coming is one
    time.sleep(4)
    assert operator.total("kelpie_kube_requests_total") - asked < 400 and operator.ask("/readyz")[0] == 200
    assert not gateway.end and len(gateway.programs) <= sent + 2
    cluster.up()
    change(ns, "InferenceEngine", "e", {"replicas": 2})
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 2, "the change")
    wait_until(lambda: status(ns)["gateways"]["desired"] == 2, "the gateway that came meanwhile")


def test_a_namespace_that_is_deleted_in_the_middle(operator, join, ns, cluster):
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    [(gateway, ip)] = start(ns, join).values()
    serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    cluster.ask("DELETE", f"/api/v1/namespaces/{ns.name}")
    wait_until(lambda: operator.told().get("engines", []) == [], "the engine is gone")
    time.sleep(1)
    asked = operator.total("kelpie_kube_requests_total")
    time.sleep(2)
    assert operator.total("kelpie_kube_requests_total") - asked < 10 and not gateway.end  # it keeps what it has


def test_a_run_with_nothing_changing_writes_nothing(operator, join, ns):
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    for gateway, ip in start(ns, join).values():
        serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    time.sleep(2)
    before = {kind: version(ns, kind) for kind in ("engine", "deployment", "service", "pods")}
    written = operator.total("kelpie_operator_writes_total")
    asked = operator.total("kelpie_kube_requests_total")
    time.sleep(6)
    assert {kind: version(ns, kind) for kind in before} == before
    assert operator.total("kelpie_operator_writes_total") == written
    assert operator.total("kelpie_kube_requests_total") <= asked + 1  # a probe of the connection


def version(ns, kind):
    paths = {
        "engine": path_of(ns, "InferenceEngine", "e"),
        "deployment": DEPLOYMENTS.format(ns.name) + "/e",
        "service": f"/api/v1/namespaces/{ns.name}/services/pool",
        "pods": PODS.format(ns.name),
    }
    found = ns.cluster.ask("GET", paths[kind])
    return [p["metadata"]["resourceVersion"] for p in found.get("items", [found])]


def test_row_11_replicas_belong_to_who_scales(operator, ns):
    """/scale of the engine moves the Deployment; a new template does not move the number back; nor may others scale behind our back."""
    engine = template()
    del engine["spec"]["replicas"]
    put(ns, pool(), engine)
    wait_until(lambda: deployment(ns), "its Deployment")
    scale = path_of(ns, "InferenceEngine", "e") + "/scale"
    ns.cluster.ask("PATCH", scale, {"spec": {"replicas": 5}}, "application/merge-patch+json")
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 5, "five")
    wait_until(lambda: ns.cluster.ask("GET", scale)["status"] == {"replicas": 5, "selector": "kelpie.dev/engine=e"}, "/scale says so")
    first = deployment(ns)["spec"]["template"]["metadata"]["labels"]["kelpie.dev/revision"]
    change(ns, "InferenceEngine", "e", {"template": template(image="example/engine:2")["spec"]["template"]})
    wait_until(lambda: deployment(ns)["spec"]["template"]["metadata"]["labels"]["kelpie.dev/revision"] != first, "the new template")
    assert deployment(ns)["spec"]["replicas"] == 5
    ns.cluster.ask("PATCH", DEPLOYMENTS.format(ns.name) + "/e/scale", {"spec": {"replicas": 1}}, "application/merge-patch+json")
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 5, "taken back")
    ns.cluster.ask("PATCH", scale, {"spec": {"replicas": 0}}, "application/merge-patch+json")
    wait_until(lambda: pods(ns) == {}, "no pod")
    wait_condition(ns, "Ready", ("True", "ScaledToZero"))
    for type in "Attached", "Routable", "TokenizerReady":  # nothing is missing
        assert condition(ns, type) == ("True", "ScaledToZero"), type


def test_a_new_template_is_an_update_and_the_old_one_is_known_again(operator, join, ns):
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    for gateway, ip in start(ns, join).values():
        serve(gateway, ns, "e", ips=[ip])
    wait_condition(ns, "Ready", ("True", "Serving"))
    first = status(ns)["currentRevision"]
    change(ns, "InferenceEngine", "e", {"template": template(image="example/engine:2")["spec"]["template"]})
    wait_until(lambda: len(pods(ns)) == 2, "one more pod, none less")
    wait_until(lambda: status(ns).get("observedGeneration") == 2 and status(ns)["replicas"] == 2, "it is seen")
    now = status(ns)
    assert now["currentRevision"] == first != now["updateRevision"] and now["updatedReplicas"] == 1
    assert condition(ns, "Ready")[0] == "False" and condition(ns, "Reconciling")[0] == "True"
    change(ns, "InferenceEngine", "e", {"template": template()["spec"]["template"]})
    wait_until(lambda: len(pods(ns)) == 1, "the first alone, which served on")
    wait_condition(ns, "Ready", ("True", "Serving"))
    assert status(ns)["currentRevision"] == status(ns)["updateRevision"] == first


@pytest.mark.parametrize(
    "objects, type, wanted",
    [
        ([template()], "Stalled", ("True", "PoolNotFound")),
        ([pool(app="other"), template()], "PoolSelects", ("False", "SelectorMisses")),
        ([pool(), pool("second"), template()], "PoolSelects", ("False", "SeveralPools")),
        ([pool(port=50051), template()], "PortsFree", ("False", "PortClash")),
        ([pool(), template(spec={"terminationGracePeriodSeconds": 30})], "DrainFits", ("False", "GracePeriodTooShort")),
        ([pool(), template(spec={"initContainers": []})], "Injected", ("False", "NoGateway")),
        ([pool(), template(spec={"containers": []})], "WorkloadApplied", ("False", "InvalidArgument")),
        ([pool(), template("e." + "e" * 63, replicas=0)], "WorkloadApplied", ("False", "InvalidArgument")),
        ([pool("a.b"), template(replicas=0, poolRef={"name": "a.b"})], "ServiceApplied", ("False", "InvalidArgument")),
        ([pool(), template(replicas=0, gateway=TOO_LITTLE)], "WorkloadApplied", ("False", "InvalidArgument")),
    ],
    ids=["missing-pool", "selector", "two-pools", "ports", "grace", "no-gateway", "no-container", "engine-name", "pool-name", "node-gateway"],
)
def test_row_7_each_broken_link_has_a_name(operator, ns, objects, type, wanted):
    name = objects[-1]["metadata"]["name"]
    put(ns, *objects)
    began = time.monotonic()
    wait_condition(ns, type, wanted, name)
    assert time.monotonic() - began < 10
    if type == "ServiceApplied":  # it serves all the same
        assert condition(ns, "Ready", name) == ("True", "ScaledToZero")
    else:
        assert condition(ns, "Ready", name)[0] == "False"
    if type in ("PoolSelects", "PortsFree", "WorkloadApplied"):
        assert condition(ns, "Stalled", name) == ("True", wanted[1])
    # It is told once, and nothing runs hot.
    time.sleep(1)
    asked = operator.total("kelpie_kube_requests_total")
    time.sleep(1)
    assert operator.total("kelpie_kube_requests_total") - asked < 8


def test_row_7_injected_attached_and_used_are_three_things(operator, join, ns):
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    name, pod = next(iter(pods(ns).items()))
    set_status(ns, name, "10.1.0.1")
    wait_condition(ns, "Injected", ("True", "Injected"))
    wait_condition(ns, "Attached", ("False", "NotConnected"))
    gateway = join(pod["metadata"]["uid"], peer="10.1.0.1:9443")
    wait_condition(ns, "Attached", ("True", "Attached"))
    assert condition(ns, "Routable") == ("False", "NotRoutable")
    serve(gateway, ns, "e", ips=["10.1.0.1"])
    wait_condition(ns, "Routable", ("True", "Routable"))
    wait_until(lambda: gate(next(iter(pods(ns).values()))) == ["True"], "the gate is open")
    gateway.close()
    wait_condition(ns, "Attached", ("False", "NotConnected"))
    assert gate(next(iter(pods(ns).values()))) == ["True"]  # never turned back


def ready_message(ns, name="e"):
    return next((c["message"] for c in status(ns, name).get("conditions", []) if c["type"] == "Ready"), "")


def test_row_7_pods_that_do_not_run_are_explained(operator, join, ns):
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    name, pod = next(iter(pods(ns).items()))
    wait_condition(ns, "Reconciling", ("True", "PodsPending"))
    wait_until(lambda: f"pod `{name}`: Unschedulable: no nodes" in ready_message(ns), "what the scheduler says")
    bound = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
    waiting = {"reason": "ImagePullBackOff", "message": "example/engine:1 is not there"}
    engine = {"name": "engine", "restartCount": 0, "ready": False, "image": "x", "imageID": "", "started": False, "state": {"waiting": waiting}}
    set_status(ns, name, "10.1.0.1", ready=False, phase="Pending", conditions=bound, containerStatuses=[engine])
    said = f"pod `{name}`, container `engine`: ImagePullBackOff: example/engine:1 is not there"
    join(pod["metadata"]["uid"], peer="10.1.0.1:9443")
    wait_condition(ns, "Ready", ("False", "EndpointsNotRoutable"))
    assert said in ready_message(ns)
    set_status(ns, name, "10.1.0.1")
    wait_until(lambda: "ImagePullBackOff" not in ready_message(ns), "the image is there")


def test_a_gate_waits_for_the_last_gateway(operator, join, ns):
    """One that must know the endpoint and does not answer holds it; one that is gone does not."""
    put(ns, pool(), template(replicas=1))
    wait_until(lambda: len(pods(ns)) == 1, "its pod")
    name, pod = next(iter(pods(ns).items()))
    slow = join("slow", answer=lambda p: "" if slow_now else None)
    slow_now = False
    slow.wait_programs(1)
    slow_now = True
    set_status(ns, name, "10.1.0.1")
    serve(join(pod["metadata"]["uid"], peer="10.1.0.1:9443"), ns, "e", ips=["10.1.0.1"])
    wait_condition(ns, "Routable", ("True", "Routable"))
    time.sleep(1)
    assert gate(next(iter(pods(ns).values()))) == []
    slow.close()
    wait_until(lambda: gate(next(iter(pods(ns).values()))) == ["True"], "the gate is open")


def test_what_somebody_else_made_is_left_alone(operator, ns):
    other = {
        "metadata": {"name": "e"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
        },
    }
    ns.cluster.ask("POST", DEPLOYMENTS.format(ns.name), other)
    service = {"metadata": {"name": "pool"}, "spec": {"ports": [{"port": 1}], "selector": {"a": "b"}}}
    ns.cluster.ask("POST", f"/api/v1/namespaces/{ns.name}/services", service)
    put(ns, pool(), template())
    wait_condition(ns, "WorkloadApplied", ("False", "AlreadyExists"))
    wait_condition(ns, "ServiceApplied", ("True", "SomebodyElses"))
    assert deployment(ns)["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert ns.cluster.ask("GET", f"/api/v1/namespaces/{ns.name}/services/pool")["spec"]["selector"] == {"a": "b"}
    ns.cluster.ask("DELETE", DEPLOYMENTS.format(ns.name) + "/e")


def test_a_change_during_a_write_is_written_next(cluster, ns, crds, tmp_path):
    """The answer to the first write is no answer to what was wanted since."""
    late = Late(cluster, 1)
    user = {"client-certificate": str(cluster.pki / "admin.crt"), "client-key": str(cluster.pki / "admin.key")}
    config = cluster.kubeconfig(tmp_path / "config", user, server=late.server)
    put(ns, pool(), template(replicas=0))
    o = Operator(config, "--watch-namespace", ns.name)
    try:
        wait_condition(ns, "WorkloadApplied", ("True", "Applied"))
        time.sleep(3)  # until it has heard the answers
        change(ns, "InferenceEngine", "e", {"replicas": 1})
        time.sleep(0.5)
        change(ns, "InferenceEngine", "e", {"replicas": 2})
        wait_until(lambda: deployment(ns)["spec"]["replicas"] == 1, "the first, of which it hears a second later")
        wait_until(lambda: deployment(ns)["spec"]["replicas"] == 2, "the second", timeout=4)
    finally:
        o.stop()
        late.close()


def daemonset(ns):
    found = ns.cluster.ask("GET", f"/apis/apps/v1/namespaces/{ns.name}/daemonsets")["items"]
    return found[0] if found else None


def test_node_mode_has_a_gateway_on_each_node(operator, ns):
    """One DaemonSet for all engines of a namespace in mode Node, gone when there is none of them any more."""
    nodes = {"nodeSelector": {"gpu": "yes"}}
    gateway = {"mode": "Node", "node": {"labels": {"app": "demo"}}}
    put(ns, pool(), template(replicas=0, spec=nodes, gateway=gateway), template("f", replicas=0, spec=nodes, gateway=gateway, model={"name": "g"}))
    made = wait_until(lambda: daemonset(ns), "the DaemonSet")
    pod = made["spec"]["template"]
    assert made["metadata"]["name"] == "kelpie-gateway" and pod["metadata"]["labels"] == {"app": "demo", "kelpie.dev/node-gateway": ns.name}
    assert [c["name"] for c in pod["spec"]["containers"]] == ["kelpie-gateway"]
    owners = lambda: sorted(o["name"] for o in daemonset(ns)["metadata"]["ownerReferences"])
    wait_until(lambda: owners() == ["e", "f"], "both own it")
    change(ns, "InferenceEngine", "f", {"gateway": {"mode": "Sidecar"}})
    wait_until(lambda: owners() == ["e"], "one owns it")
    change(ns, "InferenceEngine", "e", {"gateway": {"mode": "Sidecar"}})
    wait_until(lambda: not daemonset(ns), "it is gone")


def rules(**verbs):
    """What the operator needs, but for what is said otherwise; none: that right is not there."""
    wanted = [
        (["inference.networking.k8s.io", "kelpie.dev"], "*"),
        ([""], "pods"),
        ([""], "pods/status"),
        ([""], "services"),
        (["events.k8s.io"], "events"),
        (["apps"], "daemonsets"),
        (["apps"], "deployments"),
    ]
    made = [{"apiGroups": groups, "resources": [what], "verbs": verbs.get(what, ["*"])} for groups, what in wanted]
    return [r for r in made if r["verbs"]]


@pytest.fixture
def limited(cluster, ns, crds, tmp_path):
    """limited(rules): an operator that may do no more."""
    running = []

    def make(rules, *also):
        ns.account("operator", rules)
        config = cluster.kubeconfig(tmp_path / "config", {"token": cluster.token(ns.name, "operator")})
        watched = [word for name in (ns.name, *also) for word in ("--watch-namespace", name)]
        running.append(Operator(config, *watched))
        return running[-1]

    yield make
    for o in running:
        o.stop()


def test_rights_that_are_missing_are_named(limited, ns):
    """RBAC: a refusal is a condition and a metric, tried again seldom."""
    o = limited(rules(deployments=["get", "list", "watch"]))
    put(ns, pool(), template())
    wait_condition(ns, "WorkloadApplied", ("False", "PermissionDenied"))
    assert condition(ns, "Stalled") == ("True", "PermissionDenied")
    refused = o.metric("kelpie_operator_writes_total", result="forbidden")
    time.sleep(2)
    assert o.metric("kelpie_operator_writes_total", result="forbidden") == refused >= 1


def test_pods_of_one_namespace_may_not_be_read(limited, ns, cluster):
    """Of two that are watched: its engines say so and have no program, those of the other are served."""
    other = cluster.namespace(f"{ns.name}-closed")
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{other.name}"
    subject = {"kind": "ServiceAccount", "name": "operator", "namespace": ns.name}
    cluster.ask("POST", f"{rbac}/roles", {"metadata": {"name": "operator"}, "rules": rules(pods=[])})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"}
    cluster.ask("POST", f"{rbac}/rolebindings", {"metadata": {"name": "operator"}, "subjects": [subject], "roleRef": ref})
    operator = limited(rules(), other.name)
    for where in ns, other:
        put(where, pool(), in_pods(programs.engine("e", 1)))
    wait_condition(other, "Ready", ("False", "PodsUnknown"))
    make_pod(ns, "p", "e")
    set_status(ns, "p", "10.5.0.1")
    wait_condition(ns, "Ready", ("False", "NoGateways"))
    assert [e["namespace"] for e in operator.told()["engines"]] == [ns.name]


def test_rights_that_are_taken_away_in_the_middle(limited, ns, cluster):
    """What is served goes on; what may not be done is named; with the rights it is done."""
    o = limited(rules())
    put(ns, pool(), template(replicas=1))
    name, pod = next(iter(wait_until(lambda: pods(ns), "its pod").items()))
    set_status(ns, name, "10.1.0.1")
    gateway = Gateway(f"127.0.0.1:{o.port}", ns=ns.name, id=pod["metadata"]["uid"], peer="10.1.0.1:9443")
    serve(gateway, ns, "e", ips=["10.1.0.1"])
    wait_condition(ns, "Ready", ("True", "Serving"))
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns.name}/roles/operator"
    less = rules(deployments=["get", "list", "watch"], pods=[])
    cluster.ask("PATCH", role, {"rules": less}, "application/merge-patch+json")
    cluster.kill_api_server()  # or watches that are open would go on
    cluster.up()
    wait_until(lambda: any("watch `pods` with kelpie.dev/engine" in line and "(403 Forbidden)" in line for line in o.errors()), "it says so", 40)
    change(ns, "InferenceEngine", "e", {"replicas": 2})
    wait_condition(ns, "WorkloadApplied", ("False", "PermissionDenied"), timeout=40)  # a watch that failed for long waits up to 30 s
    assert list(endpoints(gateway)) == ["10.1.0.1:50051"] and not gateway.end
    assert o.ask("/readyz")[0] == 200
    cluster.ask("PATCH", role, {"rules": rules()}, "application/merge-patch+json")
    wait_until(lambda: deployment(ns)["spec"]["replicas"] == 2, "the change", timeout=70)
    wait_condition(ns, "WorkloadApplied", ("True", "Applied"))
    wait_until(lambda: o.errors() == [], "nothing wrong any more", timeout=40)
    gateway.close()


def test_an_engine_that_is_kept_by_a_finalizer(operator, ns):
    """It was deleted, so it is not ready, whatever still runs; and who keeps it is named."""
    put(ns, pool(), template(replicas=0))
    wait_condition(ns, "Ready", ("True", "ScaledToZero"))
    path = path_of(ns, "InferenceEngine", "e")
    ns.cluster.ask("PATCH", path, {"metadata": {"finalizers": ["example.com/keep"]}}, "application/merge-patch+json")
    ns.cluster.ask("DELETE", path)
    wait_condition(ns, "Ready", ("False", "Deleting"))
    assert condition(ns, "Reconciling") == ("True", "Deleting")
    assert any("`example.com/keep`" in c["message"] for c in status(ns)["conditions"])
    ns.cluster.ask("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    wait_until(lambda: not ns.cluster.ask("GET", path_of(ns, "InferenceEngine"))["items"], "it is gone")
    assert operator.errors() == []


def stateful_set(name, engine):
    labels = {"app": "demo", **({"kelpie.dev/engine": engine} if engine else {})}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "engine", "image": "example/engine:1"}]}}
    spec = {"replicas": 0, "serviceName": "x", "selector": {"matchLabels": {"app": "demo"}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}


def test_a_workload_of_somebody_else_is_looked_up(operator, ns):
    """Whether it is there, and whether its pods will be the engine's: as long as there are none, that is what keeps it from serving."""
    sets = f"/apis/apps/v1/namespaces/{ns.name}/statefulsets"
    put(ns, pool(), in_pods(programs.engine("e", 1)))
    wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotFound"))
    assert condition(ns, "Stalled") == ("True", "WorkloadNotFound")
    ns.cluster.ask("POST", sets, stateful_set("x", None))
    wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotLabelled"))
    change(ns, "InferenceEngine", "e", {"workloadRef": {"name": "y"}})
    wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotFound"))
    ns.cluster.ask("POST", sets, stateful_set("y", "e"))
    wait_condition(ns, "WorkloadFound", ("True", "Found"))
    assert condition(ns, "Reconciling") == ("True", "NoPods")
    ns.cluster.ask("DELETE", sets + "/y")
    wait_condition(ns, "Stalled", ("True", "WorkloadNotFound"))
    make_pod(ns, "left", "e")  # what there is serves on
    set_status(ns, "left", "10.4.0.1")
    wait_condition(ns, "Ready", ("False", "NoGateways"))
    assert condition(ns, "WorkloadFound") == ("False", "WorkloadNotFound")
    assert operator.errors() == []


LWS = ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets")


def define(cluster, group, version, kind, plural):
    """A CustomResourceDefinition that takes anything in its spec."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    cluster.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                 "versions": [{"name": version, "served": True, "storage": True, "schema": schema}]}})


def leader_worker_set(name, engine):
    def pod(labels):
        return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "engine", "image": "example/engine:1"}]}}

    spec = {"replicas": 0, "leaderWorkerTemplate": {"leaderTemplate": pod(engine), "workerTemplate": pod({"role": "worker"}), "size": 2}}
    return {"apiVersion": f"{LWS[0]}/{LWS[1]}", "kind": LWS[2], "metadata": {"name": name}, "spec": spec}


def test_a_workload_of_a_kind_that_nobody_knows_beforehand(operator, ns):
    """Its kind is missing, then defined; then it is missing itself, has no label, has it in one of its templates."""
    sets = f"/apis/{LWS[0]}/{LWS[1]}/namespaces/{ns.name}/{LWS[3]}"
    reference = {"apiVersion": f"{LWS[0]}/{LWS[1]}", "kind": LWS[2], "name": "x"}
    put(ns, pool(), in_pods(programs.engine("e", 1), workloadRef=reference))
    wait_condition(ns, "WorkloadFound", ("False", "KindNotFound"))
    assert condition(ns, "Stalled") == ("True", "KindNotFound")
    define(ns.cluster, *LWS)
    wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotFound"), timeout=60)
    ns.cluster.ask("POST", sets, leader_worker_set("x", {}))
    wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotLabelled"))
    change(ns, "InferenceEngine", "e", {"workloadRef": {"name": "y"}})
    wait_condition(ns, "WorkloadFound", ("False", "WorkloadNotFound"))
    ns.cluster.ask("POST", sets, leader_worker_set("y", {"kelpie.dev/engine": "e"}))
    wait_condition(ns, "WorkloadFound", ("True", "Found"))
    assert condition(ns, "Reconciling") == ("True", "NoPods")
    change(ns, "InferenceEngine", "e", {"workloadRef": {"apiVersion": "../../v1", "kind": "Secret", "name": "y"}})
    wait_condition(ns, "WorkloadFound", ("False", "KindNotFound"))
    assert operator.errors() == []


def test_kinds_of_workloads_beyond_what_is_looked_up(operator, ns):
    """Each kind that is named is followed until the operator ends, so there are only so many; of the next one that is said."""
    put(ns, pool())
    for n in range(17):
        reference = {"apiVersion": "kinds.example.com/v1", "kind": f"Kind{n}", "name": "x"}
        put(ns, in_pods(programs.engine(f"e{n}", 1, model=f"m{n}"), workloadRef=reference))
        wait_condition(ns, "WorkloadFound", ("True", "NotLookedUp") if n == 16 else ("False", "KindNotFound"), f"e{n}")
    message = next(c["message"] for c in status(ns, "e16")["conditions"] if c["type"] == "WorkloadFound")
    assert message == "its pods' label counts; 16 kinds of workloads are looked up, and no more"


def test_workloads_that_may_not_be_read_say_nothing(limited, ns):
    """Their pods' label counts; condition and status page name the right that is missing."""
    operator = limited(rules())
    put(ns, pool(), in_pods(programs.engine("e", 1)))
    wait_until(lambda: any("watch `statefulsets`" in line for line in operator.errors()), "it says so")
    wait_condition(ns, "Ready", ("False", "NoPods"))
    wait_condition(ns, "WorkloadFound", ("True", "NotLookedUp"))
