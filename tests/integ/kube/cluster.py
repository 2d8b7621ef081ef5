"""kelpie-operator beside a real API server, and our resources there, for the tests of both."""

import contextlib
import queue
import re
import socket
import subprocess
import sys
import threading
import time

import rig

sys.path.insert(0, str(rig.ROOT / "tests/integ/operator"))
from fakes import ENDPOINT, message, programs, wait_until  # noqa: E402

GROUPS = {"InferencePool": "inference.networking.k8s.io/v1", "InferenceEngine": "kelpie.dev/v1alpha1", "ToolServer": "kelpie.dev/v1alpha1"}
PLURALS = {"InferencePool": "inferencepools", "InferenceEngine": "inferenceengines", "ToolServer": "toolservers"}


class Operator(programs.Operator):
    def __init__(self, kubeconfig, *options, env=None):
        argv = [programs.BUILD / "bin/kelpie-operator", "--kubeconfig", kubeconfig, "--control-listen", "127.0.0.1:0"]
        programs.Service.__init__(self, "operator", [*argv, "--admin-listen", "127.0.0.1:0", "--log-format", "json", *options], env)
        self.port = int(self.wait_for(r'"msg":"control listening".*?"port":(\d+)')[1])
        self.admin = int(self.wait_for(r'"msg":"admin listening","port":(\d+)')[1])

    def errors(self):
        return self.told()["manifests"].get("errors", [])

    def total(self, name):
        """Of a metric with labels, whatever they are."""
        values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.ask("/metrics")[1], re.M)
        assert values, f"no metric {name}"
        return sum(map(float, values))

    def signal(self, number):
        self.process.send_signal(number)


class Late:
    """The API server behind a network on which what it says takes a while."""

    def __init__(self, cluster, delay_s):
        self.to, self.delay_s = cluster.port, delay_s
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.server = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.to))
                for a, b, delay_s in ((client, server, 0), (server, client, self.delay_s)):
                    pieces = queue.Queue()
                    threading.Thread(target=self._read, args=(a, pieces), daemon=True).start()
                    threading.Thread(target=self._write, args=(b, pieces, delay_s), daemon=True).start()

    def _read(self, a, pieces):
        piece = b"x"
        while piece:
            try:
                piece = a.recv(65536)
            except OSError:
                piece = b""
            pieces.put((time.monotonic(), piece))

    def _write(self, b, pieces, delay_s):
        with contextlib.suppress(OSError), b:
            while (at_and_piece := pieces.get())[1]:
                time.sleep(max(0, at_and_piece[0] + delay_s - time.monotonic()))
                b.sendall(at_and_piece[1])
            b.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()


def kubectl(cluster, *words):
    subprocess.run([rig.BINARIES / "kubectl", "--kubeconfig", cluster.admin, *words], check=True, stdout=sys.stderr)


def install(cluster):
    """Our kinds, and the standard pool's."""
    for file in sorted((rig.ROOT / "crds").glob("*.yaml")):
        kubectl(cluster, "apply", "--server-side", "-f", file)
    wait_for_kinds(cluster)


def wait_for_kinds(cluster):
    """kubectl wait gives up on a definition that has no conditions yet."""
    wait_until(lambda: all(is_established(cluster, plural, group) for plural, group in zip(PLURALS.values(), GROUPS.values())), "our kinds")


def is_established(cluster, plural, version):
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{version.split('/')[0]}"
    conditions = cluster.ask("GET", path).get("status", {}).get("conditions") or []
    return ("Established", "True") in [(c["type"], c["status"]) for c in conditions]


def uninstall(cluster):
    for file in sorted((rig.ROOT / "crds").glob("*.yaml")):
        kubectl(cluster, "delete", "--ignore-not-found", "-f", file)


def path_of(ns, kind, name=""):
    return f"/apis/{GROUPS[kind]}/namespaces/{ns.name}/{PLURALS[kind]}/{name}".rstrip("/")


def put(ns, *objects):
    for o in objects:
        ns.cluster.ask("POST", path_of(ns, o["kind"]), o)


def change(ns, kind, name, spec):
    ns.cluster.ask("PATCH", path_of(ns, kind, name), {"spec": spec}, "application/merge-patch+json")


PODS = "/api/v1/namespaces/{}/pods"


def post_pod(cluster, namespace, pod, query=""):
    """A new namespace gets its ServiceAccount from a controller: in a moment, or when that has started."""

    def post():
        try:
            return cluster.ask("POST", PODS.format(namespace) + query, pod)
        except rig.Refused as e:
            if e.status == 403 and "serviceaccount" in str(e):
                return None
            raise

    return wait_until(post, "the namespace's ServiceAccount", 60)


def make_pod(ns, name, engine, node="node-1", labels=None, spec=None, **more):
    """A pod as a kubelet would find it; nobody runs it, so the test says how it is."""
    containers = [{"name": "engine", "image": "example/engine:1"}]
    meta = {"name": name, "labels": {"kelpie.dev/engine": engine, "app": "demo", **(labels or {})}, **more}
    pod = {"metadata": meta, "spec": {"containers": containers, "nodeName": node, **(spec or {})}}
    return post_pod(ns.cluster, ns.name, pod)


def set_status(ns, name, ip, restarts=0, ready=True, **status):
    yes = "True" if ready else "False"
    full = {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": yes}],
        "containerStatuses": [
            {"name": "engine", "restartCount": restarts, "ready": ready, "image": "x", "imageID": "x", "state": {"running": {}}, "started": True}
        ],
        **status,
    }
    path = PODS.format(ns.name) + f"/{name}/status"
    return ns.cluster.ask("PATCH", path, {"status": full}, "application/strategic-merge-patch+json")


def in_pods(engine, port=50051, **spec):
    """An engine whose pods somebody else makes."""
    del engine["spec"]["endpoints"]
    engine["spec"]["engine"]["port"] = port
    engine["spec"].update({"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x"}, **spec})
    return engine


def endpoints(gateway):
    """{address: Endpoint} of what a gateway runs."""
    found = [message("Endpoint").FromString(value) for (kind, key), value in gateway.items.items() if kind == ENDPOINT]
    return {e.address: e for e in found}
