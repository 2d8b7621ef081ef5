"""kelpie-operator beside a real API server, and our resources there, for the tests of both."""

import subprocess
import sys

import rig

sys.path.insert(0, str(rig.ROOT / "tests/integ/operator"))
from fakes import programs  # noqa: E402

GROUPS = {"InferencePool": "inference.networking.k8s.io/v1", "InferenceEngine": "kelpie.dev/v1alpha1"}
PLURALS = {"InferencePool": "inferencepools", "InferenceEngine": "inferenceengines"}


class Operator(programs.Operator):
    def __init__(self, kubeconfig, *options, env=None):
        argv = [programs.BUILD / "bin/kelpie-operator", "--kubeconfig", kubeconfig, "--control-listen", "127.0.0.1:0"]
        programs.Service.__init__(self, "operator", [*argv, "--admin-listen", "127.0.0.1:0", "--log-format", "json", *options], env)
        self.port = int(self.wait_for(r'"msg":"control listening".*?"port":(\d+)')[1])
        self.admin = int(self.wait_for(r'"msg":"admin listening","port":(\d+)')[1])

    def errors(self):
        return self.told()["manifests"].get("errors", [])

    def signal(self, number):
        self.process.send_signal(number)


def kubectl(cluster, *words):
    subprocess.run([rig.BINARIES / "kubectl", "--kubeconfig", cluster.admin, *words], check=True, stdout=sys.stderr)


def install(cluster):
    """Our kinds, and the standard pool's."""
    for file in sorted((rig.ROOT / "crds").glob("*.yaml")):
        kubectl(cluster, "apply", "--server-side", "-f", file)
    kubectl(cluster, "wait", "--for=condition=Established", "--timeout=20s", "crd", "--all")


def uninstall(cluster):
    for file in sorted((rig.ROOT / "crds").glob("*.yaml")):
        kubectl(cluster, "delete", "--ignore-not-found", "-f", file)


def path_of(ns, kind, name=""):
    return f"/apis/{GROUPS[kind]}/namespaces/{ns.name}/{PLURALS[kind]}/{name}".rstrip("/")


def put(ns, *objects):
    for o in objects:
        ns.cluster.ask("POST", path_of(ns, o["kind"]), o)
