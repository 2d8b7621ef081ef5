"""The chart: what helm makes of it, what the API server and its pod security say of that, what the operator may do with it, and that the plain
manifests are the same."""

import json
import re
import shutil
import subprocess

import pytest
import rig
import yaml
from fakes import wait_until

pytestmark = pytest.mark.kube
CHART = rig.ROOT / "charts/kelpie"
ACCOUNT = "system:serviceaccount:kelpie-system:kelpie-operator"
EVERYTHING = {
    "replicas": 3,
    "imagePullSecrets": [{"name": "pull"}],
    "image": {"repository": "example.com/x", "tag": "1", "pullPolicy": "Always"},
    "extraArgs": ["--id=a b"],
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "system-cluster-critical",
    "podLabels": {"a": "b"},
    "podAnnotations": {"a": "b"},
    "serviceAccountAnnotations": {"a": "b"},
    "resources": {},
    "workloadKinds": [{"apiGroup": "leaderworkerset.x-k8s.io", "resource": "leaderworkersets"}],
}


@pytest.fixture(scope="module")
def helm(cluster, tmp_path_factory):
    program = rig.BINARIES / "helm" if (rig.BINARIES / "helm").exists() else shutil.which("helm")
    if not program:
        pytest.skip("there is no helm: hack/kube/build helm makes it")
    home = tmp_path_factory.mktemp("helm")

    def run(*words, fails=False, values=None):
        if values is not None:
            (home / "values.yaml").write_text(json.dumps(values))
            words += ("-f", home / "values.yaml")
        env = dict(cluster.env, HOME=str(home), KUBECONFIG=str(cluster.admin))
        done = subprocess.run([program, *words], env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    return run


@pytest.fixture(scope="module")
def render(helm):
    def run(**values):
        text = helm("template", "kelpie", CHART, "-n", "kelpie-system", values=values)
        return [o for o in yaml.safe_load_all(text) if o]

    return run


@pytest.fixture(scope="module")
def kubectl(cluster):
    def run(*words, input=None, fails=False):
        argv = [rig.BINARIES / "kubectl", "--kubeconfig", cluster.admin, *words]
        done = subprocess.run(argv, input=input, capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def table():
    return yaml.safe_load((CHART / "files/rbac.yaml").read_text())["rows"]


def one(objects, kind, name="kelpie-operator"):
    return next(o for o in objects if o["kind"] == kind and o["metadata"]["name"] == name)


def test_nothing_of_it_depends_on_when_or_where(helm, render):
    """What GitOps tools need: no hooks, no look-ups in the cluster, nothing random; the same text each time."""
    helm("lint", CHART, "--strict")
    for file in (CHART / "templates").iterdir():
        assert not re.search(r"helm\.sh/hook|\blookup\b|\brand|\bgenCA|\bnow\b", file.read_text()), file
    assert render() == render()


@pytest.mark.parametrize("words", ["replicas=two", "replicas=0", "replica=2", "image.tags=1", "watchNamespaces={A_b}", "webhook.failurePolicy=Maybe"])
def test_a_mistake_in_the_values_is_named(helm, words):
    said = helm("template", "kelpie", CHART, "--set", words, fails=True)
    assert re.split(r"[.=]", words)[0] in said or "additional" in said.lower()


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["default"]}, EVERYTHING], ids=["default", "namespaces", "everything"])
def test_the_server_takes_it(render, kubectl, values):
    if "not found" in kubectl_or(kubectl, "get", "ns", "kelpie-system"):
        kubectl("create", "ns", "kelpie-system")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": render(**values)})
    said = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", input=text)
    assert "Warning" not in said and said.count("serverside-applied") == len(render(**values))


def kubectl_or(kubectl, *words):
    try:
        return kubectl(*words)
    except AssertionError as e:
        return str(e)


def test_pods_pass_the_restricted_policy(render, cluster):
    """Pod Security's strictest level, enforced, takes the operator's pod as it is."""
    name = "restricted"
    cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    template = one(render(), "Deployment")["spec"]["template"]
    cluster.ask("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "kelpie-operator"}})
    pod = {"metadata": {"name": "x", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    cluster.ask("POST", f"/api/v1/namespaces/{name}/pods?dryRun=All", pod)
    container = template["spec"]["containers"][0]["securityContext"]
    assert container["readOnlyRootFilesystem"] and container["capabilities"] == {"drop": ["ALL"]}


def test_the_definition_is_the_one_of_crds(render):
    ours = yaml.safe_load((rig.ROOT / "crds/kelpie.dev_inferenceengines.yaml").read_text())
    crd = one(render(), "CustomResourceDefinition", "inferenceengines.kelpie.dev")
    assert crd["spec"] == ours["spec"] and crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert not [o for o in render(crds={"install": False}) if o["kind"] == "CustomResourceDefinition"]


def test_versions_are_ours(render):
    version = (rig.ROOT / "VERSION").read_text().strip()
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    container = one(render(), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == f"kelpie.dev/operator:{version}" and f"--gateway-image=kelpie.dev/sidecar:{version}" in container["args"]
    for name in "cluster.yaml", "cluster-node.yaml":
        assert f"kelpie.dev/demo-engine:{version}" in (rig.ROOT / "docs/examples" / name).read_text()


def test_plain_manifests_and_documentation_are_the_chart(helm):
    subprocess.run([rig.ROOT / "hack/gen-manifests", "--check"], check=True)


# --- rights ------------------------------------------------------------------------------------------------------------


def rules(objects, kind, name="kelpie-operator", namespace=None):
    return next(o["rules"] for o in objects if o["kind"] == kind and o["metadata"]["name"] == name and o["metadata"].get("namespace") == namespace)


def listed(place):
    return [{k: row[k] for k in ("apiGroups", "resources", "verbs", "resourceNames") if k in row} for row in table() if row["in"] == place]


def test_roles_are_the_table(render):
    objects = render()
    assert rules(objects, "ClusterRole", "kelpie-operator-engines") == listed("namespaces") + listed("everywhere")
    assert rules(objects, "ClusterRole") == listed("cluster")
    assert rules(objects, "Role", namespace="kelpie-system") == listed("own")
    objects = render(watchNamespaces=["a", "b"])
    for name in "a", "b":
        assert rules(objects, "Role", "kelpie-operator-engines", name) == listed("namespaces")
    assert [o["metadata"]["name"] for o in objects if o["kind"] == "ClusterRole"] == ["kelpie-operator"]
    selector = one(objects, "MutatingWebhookConfiguration", "kelpie")["webhooks"][0]["namespaceSelector"]
    assert selector["matchExpressions"][0]["values"] == ["a", "b"]


def test_the_table_is_narrow():
    for row in table():
        assert row["why"] and "*" not in row["apiGroups"] + row["resources"] + row["verbs"]
        if "secrets" in row["resources"]:
            assert row["in"] == "own"
            assert row.get("resourceNames") == ["kelpie-operator-tls"] or row["verbs"] == ["create"]


# --- a life ------------------------------------------------------------------------------------------------------------


def test_install_upgrade_uninstall(helm, kubectl, cluster):
    """Without nodes no pod comes, so nothing is waited for; what the operator may do, the server is asked."""
    helm("install", "kelpie", CHART, "-n", "kelpie-system", "--create-namespace", "--take-ownership")  # other tests define things too
    may = lambda verb, what, *more: kubectl_or(kubectl, "auth", "can-i", verb, what, "--as", ACCOUNT, *more)  # noqa: E731
    wait_until(lambda: "Warning" not in may("get", "inferenceengines.kelpie.dev"), "discovery of what was defined a moment ago")
    assert may("patch", "inferenceengines.kelpie.dev", "--subresource=status", "-n", "default").startswith("yes")
    assert may("create", "deployments.apps", "-n", "default").startswith("yes")
    assert may("get", "secrets/kelpie-operator-tls", "-n", "kelpie-system").startswith("yes")
    for verb, what, where in ("list", "secrets", "kelpie-system"), ("get", "secrets", "default"), ("delete", "pods", "default"), ("patch", "pods", "default"), ("update", "inferenceengines.kelpie.dev", "default"):  # fmt: skip
        assert "no" in may(verb, what, "-n", where).split(), (verb, what)
    # The operator's caBundle survives upgrades; a changed definition comes with one.
    bundle = {"webhooks": [{"name": "inject.kelpie.dev", "clientConfig": {"caBundle": "QQ=="}}]}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kelpie"
    cluster.ask("PATCH", path, [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle["webhooks"][0]["clientConfig"]["caBundle"]}], "application/json-patch+json")
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferenceengines.kelpie.dev"
    cluster.ask("PATCH", crd, [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns/0"}], "application/json-patch+json")
    helm("upgrade", "kelpie", CHART, "-n", "kelpie-system", "--force-conflicts", "--set", "replicas=3")
    assert cluster.ask("GET", path)["webhooks"][0]["clientConfig"]["caBundle"] == "QQ=="
    assert cluster.ask("GET", crd)["spec"]["versions"][0]["additionalPrinterColumns"][0]["name"] == "Pool"
    assert cluster.ask("GET", "/apis/apps/v1/namespaces/kelpie-system/deployments/kelpie-operator")["spec"]["replicas"] == 3
    helm("uninstall", "kelpie", "-n", "kelpie-system")
    with pytest.raises(rig.Refused, match="404"):
        cluster.ask("GET", path)
    assert cluster.ask("GET", crd)["metadata"]["name"] == "inferenceengines.kelpie.dev"  # and with it every engine
