"""The operator with its HTTPS listener beside a real API server; certificates by the openssl program, tokens by the API server, requests by
Python's own client."""

import base64
import http.client
import json
import re
import socket
import ssl
import subprocess
import time

import rig
from cluster import post_pod
from fakes import programs, wait_until

CORE = "/api/v1/namespaces"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
AUDIENCE = "kelpie.dev"


def openssl(*words, data=None, check=True):
    done = subprocess.run(["openssl", *words], input=data, capture_output=True)
    assert done.returncode == 0 or not check, done.stderr.decode()
    return done.stdout


def key(folder, name="key", *kind):
    file = folder / f"{name}.key"
    kind = kind or ("ec_paramgen_curve:P-256",)
    if kind[0].startswith("rsa"):
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", kind[0], "-out", file)
    else:
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", kind[0], "-out", file)
    return file


def request(folder, san, subject="/", key_file=None, extra=()):
    """A certificate request by openssl."""
    names = ["-addext", f"subjectAltName={san}"] if san else []
    file = key_file or key(folder)
    return openssl("req", "-new", "-key", file, "-subj", subject, *names, *extra)


class Operator(programs.Service):
    def __init__(self, kubeconfig, *options, namespace="kelpie-system", port=0, https=0):
        self.started_with = (kubeconfig, *options), namespace
        argv = [programs.BUILD / "bin/kelpie-operator", "--kubeconfig", kubeconfig, "--control-listen", f"127.0.0.1:{port}"]
        argv += ["--https-listen", f"127.0.0.1:{https}", "--serving-name", "127.0.0.1", "--serving-name", "localhost"]
        argv += ["--admin-listen", "127.0.0.1:0", "--log-format", "json", *options]
        super().__init__("operator", argv, env={"POD_NAMESPACE": namespace})
        self.port = int(self.wait_for(r'"msg":"control listening".*?"port":(\d+)')[1])
        self.https = int(self.wait_for(r'"msg":"https listening".*?"port":(\d+)')[1])
        self.admin = int(self.wait_for(r'"msg":"admin listening","port":(\d+)')[1])

    def again(self):
        """A new process at the same addresses."""
        words, namespace = self.started_with
        return Operator(*words, namespace=namespace, port=self.port, https=self.https)

    def told(self):
        """GET /status."""
        return json.loads(self.ask("/status")[1])

    def shown(self, port=None):
        """PEM of the certificate that a listener shows now."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", port or self.https), timeout=10) as s:
            with context.wrap_socket(s, server_hostname="localhost") as t:
                return ssl.DER_cert_to_PEM_cert(t.getpeercert(binary_form=True))

    def call(self, method, path, ca, body=None, token=None, headers=()):
        """(status, answer), believing only `ca`."""
        context = ssl.create_default_context(cadata=ca)
        connection = http.client.HTTPSConnection("localhost", self.https, context=context, timeout=20)
        sent = dict(headers)
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def certificate(self, ca, csr, token, expect=200):
        status, text = self.call("POST", "/certificates", ca, csr, token)
        assert status == expect, (status, text)
        return json.loads(text) if status == 200 else json.loads(text)["error"]["message"]


def client(cluster):
    """Another connection to the API server, for another thread."""

    class Client:
        ask, tls, port = rig.Cluster.ask, cluster.tls, cluster.port
        _connection = None

    return Client()


def metrics_written(heading):
    """Names of the metrics in a section of docs/metrics.md."""
    text = (rig.ROOT / "docs/metrics.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"`(kelpie_\w+)`", text))


def secret(cluster, ns="kelpie-system"):
    """{name: bytes} of the operator's Secret, None: it is not there."""
    try:
        data = cluster.ask("GET", f"{CORE}/{ns}/secrets/kelpie-operator-tls")["data"]
    except rig.Refused as e:
        assert e.status == 404
        return None
    return {name: base64.b64decode(value) for name, value in data.items()}


def bundle(cluster, ns="kelpie-system"):
    return secret(cluster, ns)["ca.crt"].decode()


def told(cluster, ns):
    """What the ConfigMap of a namespace says; None: there is none."""
    try:
        return cluster.ask("GET", f"{CORE}/{ns}/configmaps/kelpie-ca")["data"].get("ca.crt")
    except rig.Refused as e:
        assert e.status == 404
        return None


def certificates(pem):
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", pem, re.S)


def is_signed(cert, ca, folder, purpose="any"):
    (folder / "leaf.pem").write_text(cert)
    (folder / "roots.pem").write_text(ca)
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", folder / "roots.pem", folder / "leaf.pem"],
        capture_output=True,
    )
    return done.returncode == 0


class Pod:
    """One that waits to be scheduled for ever: there is no node. The API server gives tokens for it all the same."""

    def __init__(self, cluster, ns, name, labels=(), account="default"):
        self.cluster, self.ns, self.name, self.account = cluster, ns, name, account
        body = {
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]},
        }
        self.uid = post_pod(cluster, ns, body)["metadata"]["uid"]

    def token(self, audience=AUDIENCE):
        bound = {"kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}
        return self.cluster.token(self.ns, self.account, audiences=[audience], boundObjectRef=bound)

    def delete(self):
        self.cluster.ask("DELETE", f"{CORE}/{self.ns}/pods/{self.name}?gracePeriodSeconds=0")


def own_token(cluster, **claims):
    """A token that says whatever we like, signed by the cluster's own key."""

    def text(v):
        return base64.urlsafe_b64encode(v if isinstance(v, bytes) else json.dumps(v).encode()).rstrip(b"=")

    now = int(time.time())
    payload = {"iss": "https://kubernetes.default.svc.cluster.local", "aud": [AUDIENCE], "iat": now - 7200, "nbf": now - 7200, **claims}
    data = text({"alg": "RS256", "typ": "JWT"}) + b"." + text(payload)
    return (data + b"." + text(openssl("dgst", "-sha256", "-sign", cluster.pki / "sa.key", data=data))).decode()


def account_of_operator(cluster, ns, namespaces):
    """A ServiceAccount with just what operator/trust/trust.h and operator/source need: its token."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    name = f"operator-{ns}"
    own = [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["kelpie-operator-tls"], "verbs": ["get", "list", "watch", "update"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    watched = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["kelpie-ca"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["kelpie.dev"], "resources": ["inferenceengines"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["inference.networking.k8s.io"], "resources": ["inferencepools"], "verbs": ["get", "list", "watch"]},
    ]
    everywhere = [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["kelpie"],
            "verbs": ["get", "list", "watch", "patch"],
        },
    ]
    cluster.ask("POST", f"{CORE}/{ns}/serviceaccounts", {"metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": ns}
    for where, rules in [(ns, own), *((n, watched) for n in namespaces)]:
        role = f"{name}-{'own' if rules is own else 'watched'}"
        cluster.ask("POST", f"{rbac}/namespaces/{where}/roles", {"metadata": {"name": role}, "rules": rules})
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}
        cluster.ask("POST", f"{rbac}/namespaces/{where}/rolebindings", {"metadata": {"name": role}, "subjects": [subject], "roleRef": ref})
    cluster.ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": everywhere})
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    cluster.ask("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": ref})
    return cluster.token(ns, name)


def webhook(cluster, url=None, name="kelpie"):
    """The configuration as a chart makes it, without a caBundle. It looks at pods that opt in."""
    client = {"url": url} if url else {"service": {"namespace": "kelpie-system", "name": "kelpie-operator", "path": "/inject"}}
    body = {
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "inject.kelpie.dev",
                "clientConfig": client,
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "objectSelector": {"matchExpressions": [{"key": "kelpie.dev/engine", "operator": "Exists"}]},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 5,
            }
        ],
    }
    cluster.ask("POST", WEBHOOKS, body)


def ca_bundle(cluster, name="kelpie"):
    config = cluster.ask("GET", f"{WEBHOOKS}/{name}")["webhooks"][0]["clientConfig"]
    return base64.b64decode(config.get("caBundle", "")).decode()
