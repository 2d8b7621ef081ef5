"""Injected pods on a real API server: what it says of them under each level of Pod Security, and what injection says of pods that it has filled with its defaults."""

import copy
import json
import os
import subprocess
import sys

import pytest
import rig

pytestmark = pytest.mark.kube

BUILD = rig.ROOT / os.environ.get("KP_BUILD", "build/release")
PODS = rig.ROOT / "tests/corpus/pods"
MANIFESTS = sorted(p for p in PODS.glob("*") if p.suffix in (".yaml", ".json") and ".injected" not in p.name)
LEVELS = ("restricted", "baseline", "privileged")
PATHS = {  # kind -> (API, plural, where its pod template is)
    "Pod": ("api/v1", "pods", ()),
    "Deployment": ("apis/apps/v1", "deployments", ("spec", "template")),
    "StatefulSet": ("apis/apps/v1", "statefulsets", ("spec", "template")),
    "DaemonSet": ("apis/apps/v1", "daemonsets", ("spec", "template")),
    "Job": ("apis/batch/v1", "jobs", ("spec", "template")),
    "CronJob": ("apis/batch/v1", "cronjobs", ("spec", "jobTemplate", "spec", "template")),
    "LeaderWorkerSet": (None, None, ("spec", "leaderWorkerTemplate", "leaderTemplate")),
}


def inject(text, known=(), *words):
    """known: engines and pools that are known besides; words: options."""
    text = b"\n---\n".join([*(json.dumps(o).encode() for o in known), text])
    done = subprocess.run([BUILD / "bin/kubectl-kelpie", "inject", "-o", "json", *words], input=text, capture_output=True, check=True, timeout=60)
    made = json.loads(done.stdout)
    return (made["items"] if made["kind"] == "List" else [made])[len(known) :]


def as_json(manifest):
    """The manifest without the opt-in: it passes through, as JSON."""
    text = manifest.read_bytes()
    plain = inject(text.replace(b"kelpie.dev/engine:", b"was/engine:").replace(b'"kelpie.dev/engine":', b'"was/engine":'))
    for o in plain:
        meta = template_of(o).get("metadata", {}) if o["kind"] in PATHS else {}
        if "was/engine" in meta.get("labels", {}):
            meta["labels"]["kelpie.dev/engine"] = meta["labels"].pop("was/engine")
    return plain


def template_of(object):
    for key in PATHS[object["kind"]][2]:
        object = object[key]
    return object


def workloads(objects):
    return [o for o in objects if o["kind"] in PATHS and "kelpie.dev/engine" in template_of(o)["metadata"].get("labels", {})]


def pod_of(object):
    template = copy.deepcopy(template_of(object))
    meta = {k: v for k, v in template["metadata"].items() if k in ("labels", "annotations")}
    spec = template["spec"]
    # A job's template alone may say OnFailure; the claims of a StatefulSet come with it.
    for claim in object["spec"].get("volumeClaimTemplates", []):
        volume = {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": "c"}}
        spec["volumes"] = [*spec.get("volumes", []), volume]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **meta}, "spec": spec}


@pytest.fixture(scope="module")
def levels(cluster):
    """A namespace for each level; the RuntimeClass that the manifests name."""
    for level in LEVELS:
        labels = {"pod-security.kubernetes.io/enforce": level}
        cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": f"inject-{level}", "labels": labels}})
    cluster.ask("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    for level in LEVELS:
        accounts = f"/api/v1/namespaces/inject-{level}/serviceaccounts"
        rig.wait_until(lambda a=accounts: cluster.ask("GET", a)["items"], "the service account")


def dry_run(cluster, level, object):
    """The object as it would be stored, or what is wrong with it."""
    api, plural, _ = PATHS[object["kind"]]
    object = copy.deepcopy(object)
    object["metadata"].pop("namespace", None)
    if object["kind"] == "Pod":  # of the mesh's own token volume, an API server makes one itself
        object["metadata"].pop("uid", None)
    try:
        return cluster.ask("POST", f"/{api}/namespaces/inject-{level}/{plural}?dryRun=All&fieldValidation=Strict", object), None
    except rig.Refused as e:
        return None, e.body


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda p: p.stem)
def test_row_6_an_injected_pod_is_taken_where_the_original_is(cluster, levels, manifest):
    known = [o for o in as_json(manifest) if o["kind"] in ("InferenceEngine", "InferencePool")]
    before, after = workloads(as_json(manifest)), workloads(inject(manifest.read_bytes()))
    assert len(before) == len(after) and (before or manifest.stem == "others")
    for was, now in zip(before, after, strict=True):
        taken = 0
        for level in LEVELS:
            original, why = dry_run(cluster, level, pod_of(was))
            if original is None:
                assert level != "privileged" and "violates PodSecurity" in why, why
                continue
            taken += 1
            stored, why = dry_run(cluster, level, pod_of(now))
            assert stored, why
            node_mode = manifest.stem == "node-mode"
            assert [c["name"] for c in stored["spec"].get("initContainers", [])].count("kelpie-gateway") == (not node_mode)
            assert stored["status"]["qosClass"] == original["status"]["qosClass"] or original["status"]["qosClass"] == "BestEffort"
            # A pod with all that the API server fills in comes through the webhook again: nothing changes.
            stored["metadata"].pop("namespace")  # where the engine is known
            again = inject(json.dumps(stored).encode(), known)[0]
            assert again == stored
            if PATHS[was["kind"]][0] and was["kind"] != "Pod":
                whole, why = dry_run(cluster, level, now)
                assert whole, why
                whole["metadata"].pop("namespace")
                assert inject(json.dumps(whole).encode(), known)[0] == whole
        assert taken >= 1


def test_the_restricted_level_takes_those_that_were_made_for_it(cluster, levels):
    """So that the test above does not pass by having nothing to ask."""
    passed = set()
    for manifest in MANIFESTS:
        for was in workloads(as_json(manifest)):
            if dry_run(cluster, "restricted", pod_of(was))[0]:
                passed.add(manifest.stem)
    assert passed == {"restricted-kserve", "statefulset-guaranteed", "llm-d-decode"}


@pytest.mark.parametrize(
    "spec, want",
    [
        # What an API server would refuse of a gateway is refused, or put right, before.
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, None),
        ({"terminationGracePeriodSeconds": 1}, None),
        ({"restartPolicy": "Never"}, None),
        ({"shareProcessNamespace": True, "enableServiceLinks": False}, None),
        ({"readinessGates": [{"conditionType": "example.com/other"}]}, None),
        ({"securityContext": {"runAsUser": 0, "runAsNonRoot": False}}, None),
        ({"priority": 1}, "spec.priority"),
    ],
)
def test_odd_pods(cluster, levels, spec, want):
    container = {"name": "e", "image": "e", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    meta = {"name": "p", "labels": {"kelpie.dev/engine": "demo"}, "annotations": {"kelpie.dev/gateway-memory-limit": "1e9"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}
    stored, why = dry_run(cluster, "privileged", inject(json.dumps(pod).encode())[0])
    assert bool(stored) == (want is None), why
    if stored is None:
        assert "priority" in why


# --- through the operator's webhook -------------------------------------------------------------------------------------

sys.path.insert(0, str(rig.ROOT / "tests/integ/operator"))
from cluster import install  # noqa: E402
from trust_rig import WEBHOOKS, Operator, bundle, ca_bundle, secret, webhook  # noqa: E402


@pytest.fixture(scope="module")
def hooked(cluster, levels, crds_once):
    """An operator whose webhook looks at pods, beside namespaces that the tests above use too: (operator, namespace)."""
    for name in ("inject-system", "inject-hooked"):
        cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    operator = Operator(cluster.admin, "--gateway-image", "example.com/gateway:1", namespace="inject-system")
    rig.wait_until(lambda: secret(cluster, "inject-system"), "the Secret")
    webhook(cluster, f"https://127.0.0.1:{operator.https}/inject")
    rig.wait_until(lambda: ca_bundle(cluster), "the webhook's bundle")
    probe = {"metadata": {"name": "p", "labels": {"kelpie.dev/engine": "probe"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    path = "/api/v1/namespaces/inject-hooked/pods?dryRun=All"

    def is_called():
        try:
            return "initContainers" in cluster.ask("POST", path, probe)["spec"]
        except rig.Refused:
            return False  # the API server has not seen the bundle yet

    rig.wait_until(is_called, "the webhook is called")
    yield operator, "inject-hooked"
    cluster.ask("DELETE", f"{WEBHOOKS}/kelpie")
    operator.stop()


@pytest.fixture(scope="module")
def crds_once(cluster):
    install(cluster)


def create(cluster, ns, pod):
    pod = copy.deepcopy(pod)
    pod["metadata"]["namespace"] = ns
    return cluster.ask("POST", f"/api/v1/namespaces/{ns}/pods?dryRun=All&fieldValidation=Strict", pod)


def without_chance(pod):
    """What two creations of the same differ in."""
    for name in ("uid", "creationTimestamp", "managedFields"):
        pod["metadata"].pop(name, None)
    key = pod["metadata"].get("annotations", {}).get(DRAIN_KEY)
    return json.loads(json.dumps(pod).replace(key, "KEY")) if key else pod


DRAIN_KEY = "kelpie.dev/drain-key"
GROUPS = {"InferencePool": "inference.networking.k8s.io/v1", "InferenceEngine": "kelpie.dev/v1alpha1"}


def test_row_6_the_webhook_and_the_command_line_make_the_same_pod(cluster, hooked):
    operator, ns = hooked
    words = ("--gateway-image", "example.com/gateway:1", "--operator-namespace", "inject-system")
    asked = keyed = 0
    for manifest in MANIFESTS:
        objects = as_json(manifest)
        known = [o for o in objects if o["kind"] in GROUPS]
        for o in known:
            o["metadata"]["namespace"] = ns
            cluster.ask("POST", f"/apis/{GROUPS[o['kind']]}/namespaces/{ns}/{o['kind'].lower()}s", o)
        if known:
            names = {o["metadata"]["name"] for o in known if o["kind"] == "InferenceEngine"}
            told = lambda: {e["name"] for e in operator.told()["engines"] if e["namespace"] == ns}
            rig.wait_until(lambda: names <= told(), "the operator knows the engine")
        for was in workloads(objects):
            pod = pod_of(was)
            pod["metadata"]["namespace"] = ns
            pod["spec"]["automountServiceAccountToken"] = False  # its volume's name is made by chance
            here = inject(json.dumps(pod).encode(), known, *words)[0]
            if any(o["spec"].get("gateway", {}).get("mode") == "Node" for o in known):
                asks = lambda p=pod: DRAIN_KEY in create(cluster, ns, p)["metadata"]["annotations"]
                rig.wait_until(asks, "the operator knows the Service of the nodes' gateways")
            through = without_chance(create(cluster, ns, pod))
            # The one made here goes through the webhook too, and comes out unchanged.
            assert through == without_chance(create(cluster, ns, here)), manifest
            asked += 1
            # Where no webhook is asked it is stored as it is. In mode Node only the webhook knows the node's gateway.
            if DRAIN_KEY in through["metadata"].get("annotations", {}):
                keyed += 1
                continue
            for p in (here, through):
                p["metadata"]["labels"] = {"was": "asked", **p["metadata"]["labels"]}
                del p["metadata"]["labels"]["kelpie.dev/engine"]
            assert through == without_chance(create(cluster, ns, here)), manifest
    assert asked == len([w for m in MANIFESTS for w in workloads(as_json(m))]) > 12
    assert operator.metric("kelpie_operator_injections_total", verdict="unchanged") >= asked - keyed
    assert operator.metric("kelpie_operator_injections_total", verdict="injected") >= asked
    assert operator.metric("kelpie_operator_injections_total", verdict="bad") == 0


def test_the_webhook_says_why(cluster, hooked):
    operator, ns = hooked
    container = {"name": "e", "image": "e", "lifecycle": {"preStop": {"exec": {"command": ["drain"]}}}}
    pod = {"metadata": {"name": "p", "labels": {"kelpie.dev/engine": "none"}}, "spec": {"containers": [container]}}
    words = ["--kubeconfig", cluster.admin, "-n", ns, "create", "--dry-run=server", "-f", "-"]
    run = lambda p: subprocess.run([rig.BINARIES / "kubectl", *words], input=json.dumps({"apiVersion": "v1", "kind": "Pod", **p}), capture_output=True, text=True)
    done = run(pod)
    assert done.returncode == 0
    assert "Warning: kelpie: none: there is no InferenceEngine `none` yet: injected with defaults" in done.stderr
    assert "Warning: kelpie: none: container `e` has a preStop of its own" in done.stderr
    done = run({**pod, "metadata": {**pod["metadata"], "annotations": {"kelpie.dev/drain-seconds": "-1"}}})
    assert done.returncode == 1
    assert "kelpie: annotation `kelpie.dev/drain-seconds`: expected a number of seconds from 0 to 86400, got `-1`" in done.stderr


def test_the_gateway_gets_no_token_of_the_api(cluster, hooked):
    """Though an API server gives it to every container, also to those that a webhook adds."""
    _, ns = hooked
    pod = {"metadata": {"name": "p", "labels": {"kelpie.dev/engine": "none"}}, "spec": {"containers": [{"name": "e", "image": "e"}]}}
    made = create(cluster, ns, pod)["spec"]
    at = lambda c: [m["name"] for m in c["volumeMounts"] if m["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"]
    assert at(made["containers"][0])[0].startswith("kube-api-access-")
    assert at(made["initContainers"][0]) == ["kelpie-nothing"]


def test_garbage_at_the_webhook(cluster, hooked):
    operator, _ = hooked
    ca = bundle(cluster, "inject-system")
    for body in (b"", b"x", b"{}", b"[" * 100000, b"\xff" * 1000, b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":7}'):
        status, text = operator.call("POST", "/inject", ca, body)
        assert status in (400, 413) and "error" in json.loads(text), body[:20]
    assert operator.metric("kelpie_operator_injections_total", verdict="bad") == 6
