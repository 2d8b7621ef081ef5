"""kelpie-operator with a real API server as the source of its objects: what gateways are sent, and what is left out."""

import json
import re
import subprocess
import sys
import time

import pytest
import rig

sys.path.insert(0, str(rig.ROOT / "tests/integ/operator"))
import fakes  # noqa: E402
from cluster import GROUPS, PLURALS, Operator, change, install, path_of, put, uninstall  # noqa: E402
from fakes import ENGINE, POOL, TOOL_SERVER, programs, wait_until  # noqa: E402

pytestmark = pytest.mark.kube
WATCHES = 9  # what an operator of all namespaces follows


@pytest.fixture
def run(cluster):
    running = []

    def make(*options, kubeconfig=None):
        running.append(Operator(kubeconfig or cluster.admin, *options))
        return running[-1]

    yield make
    for operator in reversed(running):
        operator.stop()


@pytest.fixture
def join(run):
    joined = []

    def make(operator, ns, **kw):
        joined.append(fakes.Gateway(f"127.0.0.1:{operator.port}", ns=ns, **kw))
        return joined[-1]

    yield make
    for gateway in joined:
        gateway.close()


def names(gateway, kind=ENGINE):
    return sorted(key.split("/")[1] for (k, key) in gateway.items if k == kind)


def test_a_cluster_without_its_kinds(cluster, run):
    """It starts, says what it waits for, and goes on by itself."""
    uninstall(cluster)
    operator = run()
    wait_until(lambda: len(operator.errors()) == 3, "all kinds named")
    assert all("is its CustomResourceDefinition installed?" in line for line in operator.errors())
    assert operator.ask("/readyz")[0] == 503
    assert operator.told()["operator"]["reason"] == "the objects of the cluster are not known yet"
    install(cluster)
    operator.wait_ready()
    wait_until(lambda: operator.errors() == [], "nothing wrong any more")
    assert operator.told().get("engines", []) == []


def test_the_same_program_as_from_files(cluster, run, join, ns, crds):
    objects = [programs.pool(), programs.engine("e", 1, 2, aliases=["x"]), programs.engine("f", 3, model="g", type="sglang")]
    spec = {"label": "t", "url": "https://t.example/mcp", "headers": [{"name": "X", "secretKeyRef": {"name": "s", "key": "k"}}]}
    objects.append({"apiVersion": "kelpie.dev/v1alpha1", "kind": "ToolServer", "metadata": {"name": "t"}, "spec": spec})
    operator = run()
    operator.wait_ready()
    gateway = join(operator, ns.name, own=[f"{ns.name}/e"], peer="10.0.0.1:8443")
    put(ns, *objects)
    gateway.wait(lambda: names(gateway) == ["e", "f"] and names(gateway, POOL) == ["pool"] and names(gateway, TOOL_SERVER) == ["t"], "its program")
    files = programs.Operator("---\n".join(json.dumps(o) + "\n" for o in objects), "--namespace", ns.name)
    try:
        files.wait_ready()
        other = join(files, ns.name, own=[f"{ns.name}/e"], peer="10.0.0.1:8443")
        other.wait(lambda: other.items == gateway.items, "the same items")
        other.close()
    finally:
        files.stop()
    # A change is a delta; a status is none; a deleted object is gone.
    change(ns, "InferenceEngine", "e", {"model": {"aliases": ["y"]}})
    gateway.wait_programs(len(gateway.programs) + 1)
    assert gateway.programs[-1].HasField("base_revision")
    before = operator.metric("kelpie_operator_object_loads_total", result="accepted")
    condition = {"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"conditions": [condition]}}
    seen = operator.metric("kelpie_kube_events_total", resource="inferenceengines")
    ns.cluster.ask("PATCH", path_of(ns, "InferenceEngine", "e") + "/status", status, "application/merge-patch+json")
    wait_until(lambda: operator.metric("kelpie_kube_events_total", resource="inferenceengines") > seen, "the event")
    time.sleep(0.2)
    assert operator.metric("kelpie_operator_object_loads_total", result="accepted") == before
    ns.cluster.ask("DELETE", path_of(ns, "InferenceEngine", "f"))
    gateway.wait(lambda: names(gateway) == ["e"], "one engine")
    assert operator.metric("kelpie_operator_object_loads_total", result="accepted") == before + 1


def test_what_makes_no_sense_is_left_out(cluster, run, join, ns, crds):
    operator = run("--watch-namespace", ns.name)
    operator.wait_ready()
    gateway = join(operator, ns.name)
    put(ns, programs.pool(), programs.pool("other"), programs.engine("good", 1, model="good"))
    gateway.wait(lambda: names(gateway) == ["good"], "its program")
    put(
        ns,
        programs.engine("lost", 2, model="lost", pool="nowhere"),
        programs.engine("thief", 3, model="good", pool="other"),
        programs.engine("fine", 4, model="fine"),
    )
    gateway.wait(lambda: names(gateway) == ["fine", "good"], "the two that make sense")
    errors = wait_until(lambda: len(found := operator.errors()) == 2 and found, "both named")
    assert any(f"InferenceEngine {ns.name}/lost: spec.poolRef.name: Not found" in line for line in errors), errors
    assert any(f"InferenceEngine {ns.name}/thief: spec.model.name: Invalid value" in line for line in errors), errors
    assert operator.metric("kelpie_operator_object_errors") == 2
    assert len(operator.lines("object left out")) == 2
    change(ns, "InferenceEngine", "lost", {"poolRef": {"name": "other"}})
    ns.cluster.ask("DELETE", path_of(ns, "InferenceEngine", "thief"))
    gateway.wait(lambda: names(gateway) == ["fine", "good", "lost"], "all that are there")
    wait_until(lambda: operator.errors() == [], "nothing wrong any more")


def test_only_its_namespace_and_only_what_it_may(cluster, run, join, ns, crds, tmp_path):
    """The least rights: get, list and watch of both kinds in one namespace. More is refused by the server and said."""
    rules = [{"apiGroups": [g.split("/")[0]], "resources": [PLURALS[kind]], "verbs": ["get", "list", "watch"]} for kind, g in GROUPS.items()]
    ns.account("operator", rules)
    config = cluster.kubeconfig(tmp_path / "config", {"token": cluster.token(ns.name, "operator")})
    operator = run("--watch-namespace", ns.name, kubeconfig=config)
    operator.wait_ready()
    gateway = join(operator, ns.name)
    put(ns, programs.pool(), programs.engine("e", 1))
    gateway.wait(lambda: names(gateway) == ["e"], "its program")
    everywhere = run(kubeconfig=config)
    wait_until(lambda: len(everywhere.errors()) == WATCHES, "what it may not")
    assert all("at the cluster scope (403 Forbidden)" in line for line in everywhere.errors())
    assert everywhere.ask("/readyz")[0] == 503


def test_half_of_the_objects_is_nothing(cluster, run, join, ns, crds, tmp_path):
    """It may read the pools alone at first. A program without engines would take them from gateways that serve."""

    def rules(*kinds):
        return [{"apiGroups": [GROUPS[k].split("/")[0]], "resources": [PLURALS[k]], "verbs": ["get", "list", "watch"]} for k in kinds]

    put(ns, programs.pool(), programs.engine("e", 1))
    ns.account("operator", rules("InferencePool"))
    config = cluster.kubeconfig(tmp_path / "config", {"token": cluster.token(ns.name, "operator")})
    operator = run("--watch-namespace", ns.name, kubeconfig=config)
    gateway = join(operator, ns.name)
    gateway.wait(lambda: gateway.welcome, "the greeting")
    wait_until(lambda: operator.metric("kelpie_kube_objects", resource="inferencepools") == 1, "the pool")
    ours = lambda: [line for line in operator.errors() if "watch `inference" in line]
    [error] = wait_until(ours, "what it may not")
    assert "watch `inferenceengines`" in error and "(403 Forbidden)" in error
    time.sleep(0.5)
    assert gateway.programs == [] and operator.ask("/readyz")[0] == 503
    role = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns.name}/roles/operator"
    cluster.ask("PATCH", role, {"rules": rules(*GROUPS)}, "application/merge-patch+json")
    gateway.wait_programs(1)
    assert names(gateway) == ["e"] and len(gateway.programs) == 1
    operator.wait_ready()


def test_the_api_server_is_away(cluster, run, join, ns, crds):
    """Nothing is sent, nothing is lost; what happened meanwhile comes when it is back."""
    operator = run()
    operator.wait_ready()
    gateway = join(operator, ns.name)
    put(ns, programs.pool(), programs.engine("e", 1), programs.engine("goes", 2))
    gateway.wait(lambda: names(gateway) == ["e", "goes"], "its program")
    sent = len(gateway.programs)
    cluster.kill_api_server()
    wait_until(lambda: len(operator.errors()) == WATCHES, "all watches named")
    assert operator.ask("/readyz")[0] == 200 and len(gateway.programs) == sent
    cluster.delete_raw(f"kelpie.dev/inferenceengines/{ns.name}/goes")
    cluster.up()
    gateway.wait(lambda: names(gateway) == ["e"], "what is left")
    wait_until(lambda: operator.errors() == [], "nothing wrong any more")
    assert len(gateway.programs) == sent + 1


def test_every_metric_is_written_down(cluster, run, crds):
    operator = run()
    operator.wait_ready()
    found = set(re.findall(r"^# TYPE (kelpie_\S+) ", operator.ask("/metrics")[1], re.M))
    page = (rig.ROOT / "docs/metrics.md").read_text()
    rows = page.partition("## The operator\n")[2]
    written = set(re.findall(r"`(kelpie_\w+)`", "\n".join(line for line in rows.splitlines() if line.startswith("|"))))
    # Those of files, and of the listener for webhooks and certificates, which this one has not.
    others = {name for name in written if re.search("_manifest_|certificate|https|injection|authorit", name)}
    assert found | {"kelpie_kube_requests_total"} == written - others  # which is there when the first has ended


@pytest.mark.parametrize(
    "words, wanted",
    [
        (["--kubeconfig", "/nonexistent"], "/nonexistent"),
        (["--kubeconfig", "x", "--manifests", "y"], "`--manifests` and `--kubeconfig`: objects come from one place"),
        (["--watch-namespace", "x", "--manifests", "y"], "`--manifests` and `--watch-namespace`: objects come from one place"),
        ([], "`--manifests` or `--kubeconfig` is missing"),
    ],
)
def test_options(words, wanted):
    argv = [programs.BUILD / "bin/kelpie-operator", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=rig.PATIENCE)
    assert done.returncode in (1, 2) and wanted in done.stderr
