"""lib/kube against a real API server: who asks, writing, conflicts, refusals, being told to wait."""

import contextlib
import http.client
import http.server
import json
import socket
import subprocess
import threading
import time

import pytest
import rig
from rig import MAPS

pytestmark = pytest.mark.kube

REVIEW = {"group": "authentication.k8s.io", "version": "v1", "plural": "selfsubjectreviews", "kind": "SelfSubjectReview", "cluster": True}
READ_MAPS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]


def config_map(name, **members):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **members.pop("metadata", {})}, **members}


def who(p, id="who"):
    answer = p.ask("create", id, body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, **REVIEW)
    return answer["body"]["status"]["userInfo"]["username"] if "body" in answer else answer["code"]


class Conflict(dict):
    """The causes of a 409 by their field."""

    def __init__(self, answer):
        assert (answer["http"], answer["reason"]) == (409, "Conflict"), answer
        super().__init__({c["field"]: c["message"] for c in answer["details"]["causes"]})


def test_apply_owns_what_it_says(probe, ns):
    p = probe()
    own = {**MAPS, "ns": ns.name, "name": "a"}
    hostile = "\x01\t\x7f\x85\u2028\u2029\ufeff\U0001f600 \\\" {{ }} # - ' \u4e2d\ufffe\ud7ff"
    made = p.ask("apply", body=config_map("a", data={"x": "1", "y": hostile}), **own)
    assert (made["http"], made["body"]["data"]) == (201, {"x": "1", "y": hostile})
    assert made["body"]["metadata"]["managedFields"][0]["manager"] == "kelpie-operator"
    # What is left out goes; what another manager wrote stays, and is a conflict to write.
    ns.cluster.ask("PATCH", f"{ns.maps}/a?fieldManager=other", {"data": {"z": "2"}}, "application/merge-patch+json")
    assert p.ask("apply", body=config_map("a", data={"x": "1"}), **own)["body"]["data"] == {"x": "1", "z": "2"}
    refused = p.ask("apply", body=config_map("a", data={"x": "1", "z": "3"}), **own)
    assert Conflict(refused) == {".data.z": 'conflict with "other" using v1'}
    assert p.ask("apply", body=config_map("a", data={"x": "1", "z": "3"}), force=True, **own)["body"]["data"] == {"x": "1", "z": "3"}
    # Nothing new is no write.
    before = p.ask("get", **own)["body"]["metadata"]["resourceVersion"]
    assert p.ask("apply", body=config_map("a", data={"x": "1", "z": "3"}), force=True, **own)["body"]["metadata"]["resourceVersion"] == before


def test_create_replace_patch_delete(probe, ns):
    p = probe()
    own = {**MAPS, "ns": ns.name, "name": "a"}
    made = p.ask("create", body=config_map("a", data={"x": "1"}), **own)
    assert made["http"] == 201
    again = p.ask("create", body=config_map("a"), **own)
    assert (again["code"], again["reason"], again["details"]["name"]) == ("ALREADY_EXISTS", "AlreadyExists", "a")
    assert p.ask("json_patch", body=[{"op": "replace", "path": "/data/x", "value": "2"}], **own)["body"]["data"] == {"x": "2"}
    bad = p.ask("json_patch", body=[{"op": "test", "path": "/data/x", "value": "7"}], **own)
    assert (bad["http"], bad["code"]) == (422, "INVALID_ARGUMENT")
    assert p.ask("merge_patch", body={"data": {"x": None, "y": "3"}}, **own)["body"]["data"] == {"y": "3"}
    stale = p.ask("replace", body={**made["body"], "data": {"x": "9"}}, **own)
    assert (stale["code"], stale["reason"]) == ("CONFLICT", "Conflict")
    assert p.ask("merge_patch", body={"data": {"dry": "1"}}, dry_run=True, **own)["body"]["data"] == {"y": "3", "dry": "1"}
    now = p.ask("get", **own)["body"]
    assert now["data"] == {"y": "3"}
    assert p.ask("delete", uid="not-it", **own)["code"] == "CONFLICT"
    assert p.ask("delete", uid=now["metadata"]["uid"], if_version="1", **own)["code"] == "CONFLICT"
    assert p.ask("delete", uid=now["metadata"]["uid"], if_version=now["metadata"]["resourceVersion"], **own)["http"] == 200
    gone = p.ask("get", **own)
    assert (gone["http"], gone["code"], gone["message"]) == (
        404,
        "NOT_FOUND",
        f'GET /api/v1/namespaces/{ns.name}/configmaps/a: configmaps "a" not found (404 NotFound)',
    )
    assert p.ask("get", **{**own, "name": ".."})["http"] == 400  # and not the list of what is above it


def test_scale_status_and_foreground_delete(probe, ns):
    p = probe()
    kind = {"group": "apps", "version": "v1", "plural": "deployments", "kind": "Deployment", "ns": ns.name, "name": "d"}
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": pod}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    assert p.ask("create", body=body, **kind)["http"] == 201
    scaled = p.ask("scale", replicas=0, **kind)["body"]
    assert (scaled["kind"], scaled["spec"].get("replicas", 0)) == ("Scale", 0)
    condition = {"type": "Test", "status": "True", "reason": "R", "message": "m"}
    status = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"conditions": [condition]}}
    answer = p.ask("apply", subresource="status", body=status, **kind)
    assert [c["type"] for c in answer["body"]["status"]["conditions"] if c["type"] == "Test"] == ["Test"]
    deleted = p.ask("delete", propagation="Foreground", **kind)
    assert deleted["body"]["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert p.ask("delete", propagation="Sideways", **kind)["code"] == "INVALID_ARGUMENT"


def test_token_files_are_read_again(cluster, probe, ns, tmp_path):
    for name in ("one", "two"):
        ns.account(name, READ_MAPS)
    token = tmp_path / "token"
    token.write_text(cluster.token(ns.name, "one"))
    config = cluster.kubeconfig(tmp_path / "config", {"tokenFile": "token", "token": "old"})
    p = probe(config)
    assert who(p) == f"system:serviceaccount:{ns.name}:one"
    token.write_text("nonsense")
    time.sleep(1.1)  # files are looked at once a second
    assert who(p) == "UNAUTHENTICATED"
    # At once: the refusal itself makes it look.
    token.write_text(cluster.token(ns.name, "two"))
    assert who(p) == f"system:serviceaccount:{ns.name}:two"
    token.unlink()
    time.sleep(1.1)
    assert who(p) == f"system:serviceaccount:{ns.name}:two"
    forbidden = p.ask("delete", ns=ns.name, name="x", **MAPS)
    assert (forbidden["code"], forbidden["reason"]) == ("PERMISSION_DENIED", "Forbidden")


def test_inside_a_pod(cluster, probe, ns, tmp_path):
    ns.account("one", READ_MAPS)
    (tmp_path / "token").write_text(cluster.token(ns.name, "one"))
    (tmp_path / "ca.crt").write_bytes((cluster.pki / "ca.crt").read_bytes())
    (tmp_path / "namespace").write_text(ns.name)
    p = probe("--pod", tmp_path, "127.0.0.1", str(cluster.port))
    assert who(p) == f"system:serviceaccount:{ns.name}:one"


def test_token_review(cluster, probe, ns):
    ns.account("one", READ_MAPS)
    p = probe()
    token = cluster.token(ns.name, "one", audiences=["kelpie"])
    assert p.ask("review", token=token, audience="kelpie")["user"] == f"system:serviceaccount:{ns.name}:one"
    for wrong in ({"token": token}, {"token": token, "audience": "other"}, {"token": token[:-9] + "x", "audience": "kelpie"}, {"token": "\0"}):
        answer = p.ask("review", **wrong)
        assert (answer["user"], answer["code"]) == ("", "UNAUTHENTICATED"), answer


class Tunnel(http.server.BaseHTTPRequestHandler):
    seen = []

    def do_CONNECT(self):
        self.seen.append(self.path)
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as there:
            self.send_response(200)
            self.end_headers()
            here = self.connection
            pump = threading.Thread(target=copy, args=(there, here), daemon=True)
            pump.start()
            copy(here, there)

    def log_message(self, *_):
        pass


def copy(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
    except OSError:
        pass


def test_certificates_names_and_proxies(cluster, probe, tmp_path):
    user = {"client-certificate": str(cluster.pki / "admin.crt"), "client-key": str(cluster.pki / "admin.key")}

    def ask(**members):
        p = probe(cluster.kubeconfig(tmp_path / "config", user, **members))
        answer = p.ask("get", ns="default", name="kubernetes", group="", version="v1", plural="services", kind="Service", once=True)
        return answer["http"], answer["message"]

    assert ask()[0] == 200
    assert ask(**{"tls-server-name": "kubernetes.default.svc"})[0] == 200
    status, message = ask(**{"tls-server-name": "other.example"})
    assert status == 0 and "subject name" in message
    status, message = ask(**{"certificate-authority": None})
    assert status == 0 and "certificate" in message
    assert ask(**{"certificate-authority": None, "insecure-skip-tls-verify": True})[0] == 200
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tunnel) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        assert ask(**{"proxy-url": f"http://127.0.0.1:{proxy.server_port}"})[0] == 200
        proxy.shutdown()
    assert Tunnel.seen == [f"127.0.0.1:{cluster.port}"]


@contextlib.contextmanager
def busy_seat(cluster, ns, token):
    """Priority and fairness gives the account "one" a single seat, and a request whose body never comes sits on it."""
    flow = "/apis/flowcontrol.apiserver.k8s.io/v1"
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    subject = {"kind": "ServiceAccount", "serviceAccount": {"namespace": ns.name, "name": "one"}}
    schema = {
        "priorityLevelConfiguration": {"name": "one-seat"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    level = {"metadata": {"name": "one-seat"}, "spec": {"type": "Limited", "limited": limited}}
    cluster.ask("POST", f"{flow}/prioritylevelconfigurations", level)
    cluster.ask("POST", f"{flow}/flowschemas", {"metadata": {"name": "one-seat"}, "spec": schema})
    sitting = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=cluster.tls_without_certificate())

    def sit():
        sitting.close()
        sitting.putrequest("POST", ns.maps)
        sitting.putheader("Authorization", f"Bearer {token}")
        sitting.putheader("Content-Type", "application/json")
        sitting.putheader("Content-Length", "100")
        sitting.endheaders(b"{")

    yield sit, sitting.close
    sitting.close()
    cluster.ask("DELETE", f"{flow}/flowschemas/one-seat")
    cluster.ask("DELETE", f"{flow}/prioritylevelconfigurations/one-seat")


def test_being_told_to_wait(cluster, probe, ns, tmp_path):
    """429 with Retry-After: it waits as it is told, and then is served."""
    ns.account("one", [{**READ_MAPS[0], "verbs": ["get", "list", "watch", "create"]}])
    ns.make("a")
    token = cluster.token(ns.name, "one")
    p = probe(cluster.kubeconfig(tmp_path / "config", {"token": token}))
    own = {**MAPS, "ns": ns.name, "name": "a"}
    with busy_seat(cluster, ns, token) as (sit, stand_up):
        deadline = time.monotonic() + rig.PATIENCE
        sit()
        while (answer := p.ask("get", once=True, **own))["http"] != 429:  # the server takes a moment to know its rules
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)
            sit()
        assert (answer["code"], answer["retry_after_ms"]) == ("RESOURCE_EXHAUSTED", 1000), answer
        assert p.ask("get", timeout_ms=900, **own)["http"] == 429  # no time to wait: the refusal is told at once
        p.do("get", "waits", **own)
        p.store("s", ns)
        lost = p.expect(event="state", id="s")
        assert (lost["connected"], lost["code"]) == (False, "RESOURCE_EXHAUSTED")
        time.sleep(2)
        assert 1 <= p.metric("kelpie_kube_retries_total") <= 3
        assert p.metric("kelpie_kube_watches_total") <= 4
        stand_up()
        assert p.expect(event="answer", id="waits")["http"] == 200
        if not p.keys("s")["connected"]:
            p.expect(event="state", id="s", connected=True)
        assert p.keys("s")["keys"] == ["a"]


def events_of(ns):
    return ns.cluster.ask("GET", f"/apis/events.k8s.io/v1/namespaces/{ns.name}/events")["items"]


def test_events_become_a_series(probe, ns):
    p = probe()
    of = ns.make("a")["metadata"]
    about = {**MAPS, "ns": ns.name, "name": "a", "uid": of["uid"]}
    p.do("recorder", "r", series_ms=400)
    p.do("say", "r", reason="Tested", note="once upon a time " + "\u00e9" * 1000, **about)
    p.do("say", "r", reason="Failed", warning=True, note="x", times=40, **about)
    for i in range(40):
        p.do("say", "r", reason=f"Many{i}", note="x", **about)
    deadline = time.monotonic() + rig.PATIENCE
    while True:
        found = {e["reason"]: e for e in events_of(ns)}
        if found.get("Failed", {}).get("series", {}).get("count") == 40 or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert found["Failed"]["series"]["count"] == 40
    assert (found["Failed"]["type"], found["Failed"]["regarding"]["uid"]) == ("Warning", of["uid"])
    assert "series" not in found["Tested"] and found["Tested"]["note"].startswith("once upon a time \u00e9")
    assert len(found["Tested"]["note"].encode()) in (1023, 1024)
    assert len(found) == 10  # of one object at once
    assert p.metric('kelpie_kube_events_said_total{result="dropped"}') == 32
    assert p.metric('kelpie_kube_events_said_total{result="failed"}') == 0


def test_kubectl_shows_them(cluster, probe, ns):
    p = probe()
    of = ns.make("a")["metadata"]
    p.do("recorder", "r")
    p.do("say", "r", reason="Tested", note="a note", ns=ns.name, name="a", uid=of["uid"], **MAPS)
    deadline = time.monotonic() + rig.PATIENCE
    while not events_of(ns) and time.monotonic() < deadline:
        time.sleep(0.05)
    argv = [rig.BINARIES / "kubectl", "--kubeconfig", cluster.admin, "-n", ns.name, "events", "--for", "configmap/a", "-o", "json"]
    shown = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    items = shown["items"] if "items" in shown else [shown]
    assert [(e["reason"], e["message"]) for e in items] == [("Tested", "a note")]


@pytest.mark.parametrize("what", ["nobody", "nothing"])
def test_no_server(cluster, probe, tmp_path, what):
    """Refused at once, or a host that takes the connection and says nothing: an error that names it, in time."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        if what == "nothing":
            s.listen()
        server = f"https://127.0.0.1:{s.getsockname()[1]}"
        p = probe(cluster.kubeconfig(tmp_path / "config", {}, server=server), "1000", "1000", "300")
        began = time.monotonic()
        answer = p.ask("get", ns="default", name="a", timeout_ms=1000, **MAPS)
        assert time.monotonic() - began < 5
        assert answer["http"] == 0
        if what == "nobody":
            assert answer["code"] == "UNAVAILABLE" and "Failed to connect" in answer["message"], answer
        else:
            assert answer["code"] == "DEADLINE_EXCEEDED" and "no answer within 1000 ms: GET " in answer["message"], answer
            assert "timeout" in answer["message"]
        assert p.metric("kelpie_kube_retries_total") <= 5
