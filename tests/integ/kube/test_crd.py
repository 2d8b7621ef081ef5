"""Our resources on a real API server: it takes the definitions, says of every object what --manifests says, scales, and prints."""

import json
import random
import re
import subprocess
import sys

import pytest
import rig
import yaml

sys.path.insert(0, str(rig.ROOT / "tests/oracle"))
sys.path.insert(0, str(rig.ROOT / "tests/oracle/api"))
import golang  # noqa: E402
import test_verdicts as oracle  # noqa: E402

sys.path.insert(0, str(rig.ROOT / "tests/integ/operator"))
from cluster import wait_for_kinds  # noqa: E402

pytestmark = pytest.mark.kube
PLURALS = {"InferencePool": "inferencepools", "InferenceEngine": "inferenceengines", "ToolServer": "toolservers"}
ENGINE = {
    "apiVersion": "kelpie.dev/v1alpha1",
    "kind": "InferenceEngine",
    "metadata": {"name": "demo"},
    "spec": {
        "poolRef": {"name": "demo"},
        "model": {"name": "m"},
        "engine": {"type": "vllm"},
        "template": {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "engine", "image": "a"}]}},
    },
}


def kubectl(cluster, *words):
    argv = [rig.BINARIES / "kubectl", "--kubeconfig", cluster.admin, *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.fixture(scope="module")
def defined(cluster):
    for file in sorted((rig.ROOT / "crds").glob("*.yaml")):
        kubectl(cluster, "apply", "--server-side", "--validate=strict", "-f", file)
    wait_for_kinds(cluster)
    return cluster


@pytest.fixture
def space(defined, ns):
    return ns


@pytest.fixture(scope="module")
def ours():
    return golang.Framed(golang.helper("api", "check"))


def path_of(space, kind):
    group = "inference.networking.k8s.io/v1" if kind == "InferencePool" else "kelpie.dev/v1alpha1"
    return f"/apis/{group}/namespaces/{space.name}/{PLURALS[kind]}"


def engine(space, **spec):
    body = json.loads(json.dumps(ENGINE))
    body["spec"].update(spec)
    space.cluster.ask("POST", path_of(space, "InferenceEngine"), body)


def patch(space, what, body):
    return space.cluster.ask("PATCH", f"{path_of(space, 'InferenceEngine')}/demo{what}", body, "application/merge-patch+json")


def test_row_5_definitions_cost_no_more_than_the_server_allows(defined):
    """What would cost too much, or is not structural, the server refuses or says so in a condition."""
    for name in "inferencepools.inference.networking.k8s.io", "inferenceengines.kelpie.dev", "toolservers.kelpie.dev":
        crd = defined.ask("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        held = {c["type"] for c in crd["status"]["conditions"] if c["status"] == "True"}
        assert {"Established", "NamesAccepted"} <= held and "NonStructuralSchema" not in held, crd["status"]


# --- the same verdict --------------------------------------------------------------------------------------------------


def says(space, obj):
    """What the server would do: None (it takes it), "strict" with fields, "refused", or the set of (field, text)."""
    try:
        space.cluster.ask("POST", f"{path_of(space, obj['kind'])}?dryRun=All&fieldValidation=Strict", obj)
        return None
    except rig.Refused as e:
        status = json.loads(e.body)
        unknown = re.findall(r'unknown field "([^"]*)"', status["message"]) if "strict decoding error" in status["message"] else []
        if unknown:
            return {(field, "unknown field") for field in unknown}
        if e.status != 422:
            return "refused"
        causes = status.get("details", {}).get("causes", [])
        out = set()
        for cause in causes:
            field = cause.get("field", "")
            text = cause["message"].replace(f"{field} in body ", "")
            # Said twice: that rules were not checked because of the rest, a type error, and what /scale wants of replicas.
            if re.search("some validation rules were not checked|must be an object for an array of list-type map", text) or field.startswith("."):
                continue
            out.add((field, oracle.normal(oracle.cut(text))))
        return out


def compare(space, ours, texts):
    answers = ours.ask([("m", json.dumps(obj).encode()) for obj in texts])
    counts, wrong = {"taken": 0, "invalid": 0, "unknown": 0, "refused": 0}, []
    for obj, answer in zip(texts, answers):
        got, want = oracle.our_errors(json.loads(answer)), says(space, obj)
        if want is None:
            counts["taken"] += 1
            same = not got
        elif want == "refused":
            counts["refused"] += 1
            same = bool(got)
        elif any(text == "unknown field" for _, text in want):  # said before anything else is looked at
            counts["unknown"] += 1
            unknown = {(f, t) for f, t in got if t == "unknown field"}
            same = unknown == want or (len(want) > 100 and len(got) == 100 and unknown <= want)  # we say no more than that
        else:
            counts["invalid"] += 1
            same = got == want or (len(want) > 100 and len(got) == 100 and got <= want)
        if not same:
            wrong.append(f"{json.dumps(obj)}\n  only ours {sorted(got - (want if isinstance(want, set) else set()))}\n  server {want}")
    assert not wrong, f"{len(wrong)} of {len(texts)} differ:\n" + "\n".join(wrong[:5])
    return counts


def corpus(which):
    for path in sorted((oracle.CORPUS / which).glob("*.y*ml")):
        if "# only files:" in path.read_text():
            continue
        for document in oracle.documents(path):
            obj = yaml.safe_load(document)
            if isinstance(obj, dict) and obj.get("kind") in PLURALS and obj.get("apiVersion", "").count("/") == 1:
                yield path.name, obj


def here(obj, space):
    """The namespace of a request is in its address."""
    meta = obj.get("metadata")
    if isinstance(meta, dict) and isinstance(meta.get("namespace"), str):
        meta["namespace"] = space.name
    return obj


def test_good_corpus(space, ours):
    objects = [here(obj, space) for _, obj in corpus("good")]
    assert compare(space, ours, objects)["taken"] == len(objects) > 20


def test_row_5_bad_corpus(space, ours):
    objects = [here(obj, space) for name, obj in corpus("bad") if not name.startswith(("meta-namespace", "file-", "yaml-"))]
    counts = compare(space, ours, objects)
    assert counts["taken"] == 0 and counts["invalid"] > 60 and counts["unknown"] > 3, counts


def test_mutations(space, ours):
    rng, objects = random.Random(11), []
    while len(objects) < 500:
        obj = json.loads(json.dumps(rng.choice((oracle.POOL, oracle.ENGINE, oracle.OWNED, oracle.WATCHED))))
        obj["metadata"].pop("namespace", None)
        for _ in range(rng.choice((1, 1, 2))):
            try:
                oracle.mutate(rng, obj)
            except (KeyError, IndexError, TypeError):
                pass
        meta = obj.get("metadata")
        if oracle.skipped(obj) or not isinstance(meta, dict) or "namespace" in meta or "uid" in meta:
            continue
        objects.append(obj)
    counts = compare(space, ours, objects)
    assert counts["taken"] > 50 and counts["invalid"] > 200, counts


def test_defaults(space, ours):
    """What the server fills in, --manifests fills in."""
    objects = [here(obj, space) for _, obj in corpus("good")]
    for obj, text in zip(objects, ours.ask([("d", json.dumps(obj).encode()) for obj in objects])):
        stored = space.cluster.ask("POST", f"{path_of(space, obj['kind'])}?dryRun=All", obj)
        assert json.loads(text)["spec"] == stored["spec"], obj


# --- what files do not have --------------------------------------------------------------------------------------------


def test_transitions(space):
    engine(space)
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x"}
    endpoints = [{"address": "127.0.0.1", "port": 1}]
    for spec in {"template": None}, {"template": None, "workloadRef": reference}, {"template": None, "endpoints": endpoints}:
        with pytest.raises(rig.Refused, match="cannot replace one another"):
            patch(space, "", {"spec": spec})
    patch(space, "", {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}, "replicas": 3}})
    # From fixed addresses into the cluster is no loss of anything.
    space.cluster.ask("DELETE", f"{path_of(space, 'InferenceEngine')}/demo")
    engine(space, template=None, endpoints=endpoints)
    patch(space, "", {"spec": {"endpoints": None, "template": ENGINE["spec"]["template"]}})


def test_columns(space):
    engine(space)
    conditions = [{"type": "Ready", "status": "False", "reason": "NoEndpoints", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    patch(space, "/status", {"status": {"replicas": 3, "routableReplicas": 2, "conditions": conditions}})
    head, row = kubectl(space.cluster, "get", "ie", "-n", space.name).splitlines()
    assert head.split() == ["NAME", "POOL", "MODEL", "READY", "REASON", "REPLICAS", "ROUTABLE", "AGE"]
    assert row.split()[:-1] == ["demo", "demo", "m", "False", "NoEndpoints", "3", "2"]
    assert "ENGINE" in kubectl(space.cluster, "get", "inferenceengine", "demo", "-n", space.name, "-o", "wide").splitlines()[0]
    pool = {"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "demo"}}
    pool["spec"] = {"selector": {"matchLabels": {"app": "demo"}}, "targetPorts": [{"number": 8080}]}
    space.cluster.ask("POST", path_of(space, "InferencePool"), pool)
    assert kubectl(space.cluster, "get", "infpool", "-n", space.name).splitlines()[1].split()[0] == "demo"


def test_status_is_apart(space):
    """What a user writes does not touch the status, what the operator writes does not touch the spec."""
    engine(space)
    patch(space, "", {"status": {"replicas": 9}, "spec": {"replicas": 2}})
    assert "status" not in patch(space, "", {"metadata": {"labels": {"a": "b"}}})
    stored = patch(space, "/status", {"status": {"replicas": 2}, "spec": {"replicas": 7}})
    assert (stored["spec"]["replicas"], stored["status"]["replicas"]) == (2, 2)


def test_scale(space):
    engine(space)
    patch(space, "/status", {"status": {"replicas": 1, "selector": "kelpie.dev/engine=demo"}})
    kubectl(space.cluster, "scale", "ie", "demo", "--replicas=4", "-n", space.name)
    scale = space.cluster.ask("GET", f"{path_of(space, 'InferenceEngine')}/demo/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 1, "selector": "kelpie.dev/engine=demo"})
    # Who applies without replicas leaves what the autoscaler wrote.
    applied = json.dumps(dict(ENGINE, metadata={"name": "demo", "namespace": space.name}))
    argv = [rig.BINARIES / "kubectl", "--kubeconfig", space.cluster.admin, "apply", "--server-side", "--force-conflicts", "-f", "-"]
    subprocess.run(argv, input=applied, text=True, check=True, stdout=sys.stderr)
    assert space.cluster.ask("GET", f"{path_of(space, 'InferenceEngine')}/demo")["spec"]["replicas"] == 4


def test_an_autoscaler_drives_it(space):
    """The controller-manager's own autoscaler, which reads the selector and writes the replicas through /scale."""
    engine(space)
    patch(space, "/status", {"status": {"replicas": 1, "selector": "kelpie.dev/engine=demo"}})
    target = {"apiVersion": "kelpie.dev/v1alpha1", "kind": "InferenceEngine", "name": "demo"}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
    spec = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5, "metrics": [metric]}
    space.cluster.ask("POST", f"/apis/autoscaling/v2/namespaces/{space.name}/horizontalpodautoscalers", {"metadata": {"name": "demo"}, "spec": spec})
    wanted = lambda: space.cluster.ask("GET", f"{path_of(space, 'InferenceEngine')}/demo")["spec"]["replicas"]  # noqa: E731
    rig.wait_until(lambda: wanted() == 3, "the autoscaler has scaled the engine", timeout=60)


# --- spec.template -----------------------------------------------------------------------------------------------------


def test_the_templates_schema_is_the_servers(defined, tmp_path):
    """What hack/gen-pod-template makes of this server's OpenAPI is what is committed."""
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(defined.ask("GET", "/openapi/v3/apis/apps/v1")))
    subprocess.run([rig.ROOT / "hack/gen-pod-template", "--check", file], check=True)


def test_the_definition_is_small_enough_for_kubectl(defined):
    """`kubectl apply` without --server-side keeps the whole of it in an annotation, and those have 256 KiB together."""
    text = json.dumps(yaml.safe_load((rig.ROOT / "crds/kelpie.dev_inferenceengines.yaml").read_text()), separators=(",", ":"))
    assert len(text) < 200 << 10
    kubectl(defined, "apply", "--dry-run=server", "-f", rig.ROOT / "crds/kelpie.dev_inferenceengines.yaml")


def test_two_appliers_share_a_template(space):
    """Server-side apply knows a container, a variable and a port by their keys, so one tool's sidecar does not take away another's engine."""
    path = f"{path_of(space, 'InferenceEngine')}/demo"

    def applied(manager, containers, **spec):
        body = {**ENGINE, "spec": {**ENGINE["spec"], "template": {"spec": {"containers": containers, **spec}}}}
        made = space.cluster.ask("PATCH", f"{path}?fieldManager={manager}", body, "application/apply-patch+yaml")
        return {c["name"]: c for c in made["spec"]["template"]["spec"]["containers"]}

    ports = [{"containerPort": 50051}, {"containerPort": 9000}]
    applied("a", [{"name": "engine", "image": "x", "env": [{"name": "A", "value": "1"}], "ports": ports}])
    both = applied("b", [{"name": "logs", "image": "y"}, {"name": "engine", "env": [{"name": "B", "value": "2"}]}], ofANewerKubernetes={"x": 1})
    assert set(both) == {"engine", "logs"} and both["engine"]["image"] == "x"
    assert {e["name"] for e in both["engine"]["env"]} == {"A", "B"}
    both = applied("a", [{"name": "engine", "image": "z", "ports": ports[:1]}])
    assert [e["name"] for e in both["engine"]["env"]] == ["B"], "what its applier left out is gone, the other's stays"
    assert both["engine"]["image"] == "z" and [p["containerPort"] for p in both["engine"]["ports"]] == [50051] and "logs" in both
    assert space.cluster.ask("GET", path)["spec"]["template"]["spec"]["ofANewerKubernetes"] == {"x": 1}
