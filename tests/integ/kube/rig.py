"""A real API server and etcd by hack/kube, of these tests alone; requests to it that are not ours; and tests/tools/kube_probe."""

import base64
import contextlib
import http.client
import json
import os
import pathlib
import queue
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests/integ/grpc"))
import peers  # noqa: E402

BINARIES = ROOT / "build/kube/bin"
PATIENCE = 20


def free_ports(n):
    """The first of n ports in a row that nobody listens on; processes side by side look at others."""
    for base in range(20000 + os.getpid() * n % 8000, 32000, n):
        try:
            for port in range(base, base + n):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
    raise AssertionError("no free ports")


def wait_until(condition, what, timeout=PATIENCE):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited {timeout} s in vain: {what}"
        time.sleep(0.02)


def is_gone(pid):
    """Also of processes that are not our children; as hack/kube/lib.sh has it."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z" and threads == [str(pid)]


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:500]}")
        self.status, self.body = status, body


class Cluster:
    def __init__(self, folder):
        self.dir = folder
        self.port = free_ports(5)
        self.env = dict(os.environ, KELPIE_KUBE_DIR=str(folder), KELPIE_KUBE_PORT=str(self.port))
        self.env.pop("KELPIE_KUBECONFIG", None)
        self.pki = folder / "pki"
        self.admin = self.pki / "admin.kubeconfig"
        self.server = f"https://127.0.0.1:{self.port}"
        self.up()
        self.tls = ssl.create_default_context(cafile=self.pki / "ca.crt")
        self.tls.load_cert_chain(self.pki / "admin.crt", self.pki / "admin.key")
        self._connection = None

    def up(self, api_flags=""):
        flags = "--feature-gates=ListFromCacheSnapshot=false " + api_flags  # pages are read from etcd, so compacting it ends them
        keep_pods = "--controllers=-pod-garbage-collector-controller"  # it ends pods whose node nobody has heard of, like those of these tests
        env = dict(self.env, KELPIE_KUBE_API_FLAGS=flags, KELPIE_KUBE_CONTROLLER_FLAGS=keep_pods)
        subprocess.run([ROOT / "hack/kube/up", "-c"], env=env, check=True, stdout=sys.stderr, timeout=120)
        self._connection = None

    def down(self):
        """Only what is of this cluster: another one, with nodes, may run beside it. Controllers end by themselves when the API server was away for long."""
        for file in sorted(self.dir.glob("run/*.pid"), reverse=True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text().split()[0]), signal.SIGKILL)

    def pid(self, name):
        return int((self.dir / f"run/{name}.pid").read_text().split()[0])

    def signal(self, name, number):
        os.kill(self.pid(name), number)

    def kill_api_server(self):
        """Returns when its port is free: its memory goes, and its first thread is a zombie, before that. The controllers, which do nothing without
        it, go too: they would look for it again after up to half a minute, new ones do at once."""
        pids = [self.pid(name) for name in ("kube-apiserver", "kube-controller-manager")]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: all(map(is_gone, pids)), "the API server's end")

    def ask(self, method, path, body=None, content_type="application/json"):
        """A request by Python's own client, as the administrator."""
        data = None if body is None else json.dumps(body)
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=PATIENCE)
            try:
                self._connection.request(method, path, data, {"Content-Type": content_type})
                answer = self._connection.getresponse()
                text = answer.read().decode()
                break
            except (http.client.HTTPException, OSError):
                self._connection = None
                if attempt == 2:
                    raise
        if answer.status >= 300:
            raise Refused(answer.status, text)
        return json.loads(text)

    def tls_without_certificate(self):
        return ssl.create_default_context(cafile=self.pki / "ca.crt")

    def namespace(self, name):
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        return Namespace(self, name)

    def etcd(self, what, **body):
        """A request to etcd itself, as its gateway for JSON takes it."""
        url = f"http://127.0.0.1:{self.port + 1}/v3/kv/{what}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def compact(self):
        """What etcd does every five minutes: old versions go."""
        revision = self.etcd("range", key=base64.b64encode(b"x").decode())["header"]["revision"]
        self.etcd("compaction", revision=revision, physical=True)

    def put_raw(self, objects):
        """Writes objects into etcd as an API server would, many at a time, also while there is none: {key: object}."""

        def put(key, value):
            encoded = (base64.b64encode(z.encode()).decode() for z in (f"/registry/{key}", json.dumps(value)))
            return dict(zip(("key", "value"), encoded))

        puts = [put(key, value) for key, value in objects.items()]
        for i in range(0, len(puts), 100):
            self.etcd("txn", success=[{"requestPut": p} for p in puts[i : i + 100]])
        self.etcd("put", **puts[-1])  # a version of its own: the API server takes a version to be one object

    def delete_raw(self, key):
        self.etcd("deleterange", key=base64.b64encode(f"/registry/{key}".encode()).decode())

    def token(self, ns, account, **spec):
        path = f"/api/v1/namespaces/{ns}/serviceaccounts/{account}/token"
        return self.ask("POST", path, {"spec": {"expirationSeconds": 600, **spec}})["status"]["token"]

    def kubeconfig(self, path, user, **cluster):
        members = {"server": self.server, "certificate-authority": str(self.pki / "ca.crt"), **cluster}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {k: v for k, v in members.items() if v is not None}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path.write_text(json.dumps(config))
        return path


class Namespace:
    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.maps = f"/api/v1/namespaces/{name}/configmaps"

    def make(self, name, **data):
        return self.cluster.ask("POST", self.maps, {"metadata": {"name": name, "labels": {"k": "v"}}, "data": data})

    def change(self, name, **data):
        return self.cluster.ask("PATCH", f"{self.maps}/{name}", {"data": data}, "application/merge-patch+json")

    def delete(self, name):
        return self.cluster.ask("DELETE", f"{self.maps}/{name}")

    def account(self, name, rules):
        """A ServiceAccount that may do so much."""
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.name}"
        self.cluster.ask("POST", f"/api/v1/namespaces/{self.name}/serviceaccounts", {"metadata": {"name": name}})
        self.cluster.ask("POST", f"{base}/roles", {"metadata": {"name": name}, "rules": rules})
        self.bind(name)

    def bind(self, name):
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.name}"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.name}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.cluster.ask("POST", f"{base}/rolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})

    def unbind(self, name):
        self.cluster.ask("DELETE", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.name}/rolebindings/{name}")


MAPS = {"group": "", "version": "v1", "plural": "configmaps", "kind": "ConfigMap"}


class Probe(peers.Child):
    """kube_probe; its end with status 0 and nothing on standard error is part of every test."""

    def __init__(self, *argv):
        super().__init__([peers.tool("kube_probe"), *argv], stderr=subprocess.PIPE)
        self.kept = []  # lines that nobody waited for yet
        self.expect(event="ready")

    def expect(self, timeout=peers.PATIENCE, **fields):
        """As of every child, but lines of other ids are kept for whoever waits for them."""
        deadline = time.monotonic() + timeout
        at = 0
        while True:
            while at < len(self.kept):
                line = self.kept[at]
                if all(line.get(name) == value for name, value in fields.items()):
                    self.kept = [x for i, x in enumerate(self.kept) if i > at or (i < at and x.get("id") != line.get("id"))]
                    return line
                at += 1
            try:
                line = self.next(max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {fields} within {timeout} s; seen: {self.seen[-10:]}") from None
            assert line is not None, f"the program ended without a line with {fields}; seen: {self.seen[-10:]}"
            self.kept.append(line)

    def do(self, op, id, **members):
        self.process.stdin.write(json.dumps({"op": op, "id": id, **members}) + "\n")
        self.process.stdin.flush()

    def ask(self, op, id="q", **members):
        self.do(op, id, **members)
        return self.expect(timeout=40, id=id, event="answer")

    def store(self, id, ns, **members):
        """Of the objects that the tests make: every namespace has ConfigMaps of Kubernetes' own."""
        self.do("store", id, **{**MAPS, "ns": ns.name, "labels": "k", **members})

    def keys(self, id):
        self.do("keys", id)
        return self.expect(id=id, event="keys")

    def metric(self, name):
        self.do("metrics", "metrics")
        text = self.expect(event="metrics")["text"]
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith((name + " ", name + "{")))

    def end(self):
        self.signal(signal.SIGCONT)
        self.process.stdin.close()
        text = self.process.stderr.read()
        assert self.process.wait(PATIENCE) == 0, text
        for line in text.splitlines():
            assert " level=warn " in f" {line} ", text  # it says what it lost; nothing else
