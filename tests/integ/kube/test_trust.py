"""The operator as an authority, beside a real API server: its Secret, who is told, the certificates that gateways get by their pods' tokens."""

import base64
import concurrent.futures
import contextlib
import faulthandler
import http.client
import json
import re
import ssl
import subprocess
import sys
import threading
import time

import grpc
import pytest
import rig
from cluster import in_pods, path_of, put, set_status

sys.path.insert(0, str(rig.ROOT / "tests/integ/operator"))
from fakes import programs, wait_until  # noqa: E402
from trust_rig import (  # noqa: E402
    CORE,
    WEBHOOKS,
    Operator,
    Pod,
    account_of_operator,
    bundle,
    ca_bundle,
    certificates,
    client,
    is_signed,
    key,
    metrics_written,
    openssl,
    own_token,
    request,
    secret,
    told,
    webhook,
)

pytestmark = pytest.mark.kube


def engine(ns, name="e"):
    """With the pool that it names."""
    groups = {"InferencePool": ("inference.networking.k8s.io/v1", "inferencepools"), "InferenceEngine": ("kelpie.dev/v1alpha1", "inferenceengines")}
    for o in programs.pool(), programs.engine(name, 1):
        group, plural = groups[o["kind"]]
        try:
            ns.cluster.ask("POST", f"/apis/{group}/namespaces/{ns.name}/{plural}", o)
        except rig.Refused as e:
            assert e.status == 409


@pytest.fixture
def system(cluster, ns):
    """A namespace of the operator's, of this test alone; nothing of others' is left."""
    yield ns.name
    try:
        cluster.ask("DELETE", f"{WEBHOOKS}/kelpie")
    except rig.Refused as e:
        assert e.status == 404


@pytest.fixture
def other(cluster, ns):
    """A namespace with engines, in which pods may be made: a controller makes the account for them."""
    made = cluster.namespace(f"{ns.name}-engines")

    def has_account():
        with contextlib.suppress(rig.Refused):
            return cluster.ask("GET", f"{CORE}/{made.name}/serviceaccounts/default")
        return None

    wait_until(has_account, "the default account")
    return made


@pytest.fixture
def run(cluster, system, other, crds):
    running = []

    def make(*options, kubeconfig=None, watch=True):
        only = ("--watch-namespace", other.name) if watch else ()
        running.append(Operator(kubeconfig or cluster.admin, *only, *options, namespace=system))
        return running[-1]

    yield make
    for operator in reversed(running):
        operator.stop()


def ready(operator, cluster, system):
    """The bundle, once the operator shows a certificate of it."""
    wait_until(lambda: secret(cluster, system), "the Secret")
    ca = bundle(cluster, system)

    def is_believed():
        try:
            return operator.call("GET", "/readyz", ca)[0] == 200
        except ssl.SSLError:
            return False

    wait_until(is_believed, "a certificate of the authority")
    return ca


def test_secret_and_who_is_told(cluster, run, system, other, tmp_path):
    """With nothing but the rights that it says it needs."""
    webhook(cluster)
    config = cluster.kubeconfig(tmp_path / "config", {"token": account_of_operator(cluster, system, [other.name])})
    operator = run(kubeconfig=config)
    ca = ready(operator, cluster, system)
    assert len(certificates(ca)) == 1
    assert sorted(secret(cluster, system)) == ["authorities.json", "ca.crt", "tls.crt", "tls.key"]
    # Both listeners show one certificate, which openssl believes for both sides, by all the Service's names.
    shown = operator.shown()
    assert shown == operator.shown(operator.port) == secret(cluster, system)["tls.crt"].decode()
    assert is_signed(shown, ca, tmp_path, "sslserver") and is_signed(shown, ca, tmp_path, "sslclient")
    names = openssl("x509", "-noout", "-ext", "subjectAltName", data=shown.encode()).decode()
    for name in ("kelpie-operator", f"kelpie-operator.{system}", f"kelpie-operator.{system}.svc", f"kelpie-operator.{system}.svc.cluster.local"):
        assert re.search(rf"DNS:{re.escape(name)}(,|\n)", names), names
    assert "IP Address:127.0.0.1" in names
    # Nobody is told before there is somebody to tell; then the namespace is, by an engine or by a pod that opts in.
    assert told(cluster, other.name) is None
    engine(other)
    wait_until(lambda: told(cluster, other.name) == ca, "the ConfigMap")
    wait_until(lambda: ca_bundle(cluster) == ca, "the webhook's bundle")
    labels = cluster.ask("GET", f"{CORE}/{other.name}/configmaps/kelpie-ca")["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/managed-by": "kelpie-operator"}
    # What others change is put right.
    maps = f"{CORE}/{other.name}/configmaps/kelpie-ca"
    cluster.ask("PATCH", maps, {"data": {"ca.crt": "mine"}}, "application/merge-patch+json")
    wait_until(lambda: told(cluster, other.name) == ca, "the ConfigMap as it was")
    cluster.ask("DELETE", maps)
    wait_until(lambda: told(cluster, other.name) == ca, "a new ConfigMap")
    wipe = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    cluster.ask("PATCH", f"{WEBHOOKS}/kelpie", wipe, "application/json-patch+json")
    wait_until(lambda: ca_bundle(cluster) == ca, "the webhook's bundle as it was")
    cluster.ask("DELETE", f"{WEBHOOKS}/kelpie")
    webhook(cluster)
    wait_until(lambda: ca_bundle(cluster) == ca, "the new webhook's bundle")
    # A Secret that goes is another authority, and nothing else is believed.
    cluster.ask("DELETE", f"{CORE}/{system}/secrets/kelpie-operator-tls")
    wait_until(lambda: (secret(cluster, system) or {}).get("ca.crt", ca.encode()) != ca.encode(), "another authority")
    now = ready(operator, cluster, system)
    wait_until(lambda: told(cluster, other.name) == now and ca_bundle(cluster) == now, "the other authority everywhere")
    assert "PRIVATE KEY" not in operator.text()
    # Nothing more to do: nothing is written.
    wait_until(lambda: operator.metric("kelpie_operator_authorities_untold") == 0, "everybody told")
    writes = lambda: len(operator.lines("certificates written")) + len(operator.lines("authorities told"))
    before = writes()
    time.sleep(2)
    assert writes() == before >= 7


def test_a_pod_that_opts_in_is_told(cluster, run, system, other):
    operator = run()
    ca = ready(operator, cluster, system)
    Pod(cluster, other.name, "p", {"kelpie.dev/engine": "later"})
    wait_until(lambda: told(cluster, other.name) == ca, "the ConfigMap")


def test_several_operators_have_one_authority(cluster, run, system, other, tmp_path):
    """Started together, each believes that it leads: one makes the Secret, all use it, also when it is deleted under them."""
    engine(other)
    operators = [run() for _ in range(3)]
    for _ in range(3):
        wait_until(lambda: secret(cluster, system), "the Secret")
        wait_until(
            lambda: len({o.shown() for o in operators} | {o.shown(o.port) for o in operators} | {secret(cluster, system)["tls.crt"].decode()}) == 1,
            "one certificate",
        )
        ca = bundle(cluster, system)
        assert len(certificates(ca)) == 1
        wait_until(lambda: told(cluster, other.name) == ca, "the ConfigMap")
        cluster.ask("DELETE", f"{CORE}/{system}/secrets/kelpie-operator-tls")
        was = ca
        wait_until(lambda: (secret(cluster, system) or {}).get("ca.crt", was.encode()) != was.encode(), "another authority")


def test_only_the_leader_writes(cluster, run, system, other):
    """A standby shows what the leader wrote, and goes on where it stopped."""
    options = ("--leader-elect", "--ca-rotate", "4", "--ca-overlap", "1", "--certificate-lifetime", "6")
    first, second = run(*options), run(*options)
    for o in first, second:
        ready(o, cluster, system)
        wait_until(lambda: o.ask("/readyz")[0] == 200, "readiness")  # noqa: B023
    leader, standby = (first, second) if first.metric("kelpie_operator_leader") else (second, first)
    wait_until(lambda: leader.metric("kelpie_operator_authority_changes_total") >= 2, "a rotation")
    wait_until(lambda: standby.shown() == leader.shown(), "the same certificate")
    assert leader.lines("certificates written") and not standby.lines("certificates written")
    leader.stop()
    wait_until(lambda: standby.metric("kelpie_operator_authority_changes_total") >= 1, "the next rotation")
    ready(standby, cluster, system)


def notes(cluster, system, reason="CertificatesUnusable"):
    """What Events say of the Secret."""
    found = cluster.ask("GET", f"/apis/events.k8s.io/v1/namespaces/{system}/events")["items"]
    return [e["note"] for e in found if e["regarding"]["name"] == "kelpie-operator-tls" and e["reason"] == reason]


def test_a_secret_that_makes_no_sense(cluster, run, system, other):
    """It is said, the listeners go on with what they have, and that is written back; one of a newer version is left alone."""
    operator = run()
    ca = ready(operator, cluster, system)
    path = f"{CORE}/{system}/secrets/kelpie-operator-tls"
    good = secret(cluster, system)
    cluster.ask("PATCH", path, {"data": {"authorities.json": "e30=", "tls.key": "e30="}}, "application/merge-patch+json")
    operator.wait_for(r"cannot use the certificates, the last ones stay")
    assert operator.call("GET", "/readyz", ca)[0] == 200
    wait_until(lambda: secret(cluster, system) == good, "the Secret as it was")
    wait_until(lambda: any("writes them back" in n for n in notes(cluster, system)), "an Event")
    newer = base64.b64encode(b'{"version": 2}').decode()
    cluster.ask("PATCH", path, {"data": {"authorities.json": newer}}, "application/merge-patch+json")
    wait_until(lambda: any("is of version 2" in n for n in notes(cluster, system, "CertificatesNewer")), "another Event")
    time.sleep(0.5)
    assert cluster.ask("GET", path)["data"]["authorities.json"] == newer
    cluster.ask("DELETE", path)
    wait_until(lambda: (secret(cluster, system) or {}).get("ca.crt", ca.encode()) != ca.encode(), "another authority")


def test_a_secret_that_makes_no_sense_while_nobody_runs(cluster, run, system, other):
    """Nobody knows what it said: operators are not ready, and say why and what helps."""
    operator = run()
    ready(operator, cluster, system)
    operator.stop()
    path = f"{CORE}/{system}/secrets/kelpie-operator-tls"
    cluster.ask("PATCH", path, {"data": {"authorities.json": "e30="}}, "application/merge-patch+json")
    again = run()
    wait_until(lambda: any("or deleted: then a new authority is made" in n for n in notes(cluster, system)), "an Event")
    assert again.ask("/readyz")[0] == 503
    cluster.ask("DELETE", path)
    wait_until(lambda: again.ask("/readyz")[0] == 200, "readiness")


def test_a_gateway_that_is_refused_a_certificate(cluster, run, system, other, tmp_path):
    """Its engine says why nobody owns the endpoint, until it gets one."""
    operator = run()
    ca = ready(operator, cluster, system)
    put(other, programs.pool(), in_pods(programs.engine("in-pods", 1)))
    pod = Pod(cluster, other.name, "gateway-0", {"kelpie.dev/engine": "in-pods", "app": "pool"})
    set_status(other, pod.name, "10.9.0.1")

    def says():
        found = cluster.ask("GET", path_of(other, "InferenceEngine", "in-pods")).get("status", {}).get("conditions", [])
        return next((c["message"] for c in found if c["type"] == "Ready"), "")

    operator.certificate(ca, request(tmp_path, "DNS:somebody-else"), pod.token(), 403)
    wait_until(lambda: "its gateway was refused a certificate: " in says() and "not the pod's UID" in says(), "the cause")
    operator.certificate(ca, request(tmp_path, f"DNS:{pod.uid}"), pod.token())
    wait_until(lambda: "refused" not in says(), "no cause any more")


def test_a_certificate_for_a_pod(cluster, run, system, other, tmp_path):
    operator = run()
    ca = ready(operator, cluster, system)
    pod = Pod(cluster, other.name, "gateway-0")
    got = operator.certificate(ca, request(tmp_path, f"DNS:{pod.uid}"), pod.token())
    cert = got["certificate"]
    assert got["authorities"] == ca
    assert is_signed(cert, ca, tmp_path, "sslclient") and is_signed(cert, ca, tmp_path, "sslserver")
    text = openssl("x509", "-noout", "-text", data=cert.encode()).decode()
    names = re.search(r"Subject Alternative Name:.*\n\s*(.*)", text)[1]
    assert names == f"DNS:{pod.uid}, URI:spiffe://kelpie.dev/ns/{other.name}/sa/default"
    assert "CA:FALSE" in text and "ASN1 OID: prime256v1" in text
    # The key is the one of the request, and a day is what it lasts.
    assert openssl("x509", "-noout", "-pubkey", data=cert.encode()) == openssl("pkey", "-in", tmp_path / "key.key", "-pubout")
    assert lasts(cert, 86300) and not lasts(cert, 86500)
    line = json.loads(operator.wait_for(r'.*"msg":"certificate signed".*')[0])
    assert line["pod"] == "gateway-0" and line["uid"] == pod.uid and line["namespace"] == other.name
    serial = openssl("x509", "-noout", "-serial", data=cert.encode()).decode().strip()
    assert serial == f"serial={line['serial']}"
    assert line["token"].startswith("JTI=")
    # The control port takes it, for this pod's name in its namespace.
    credentials = grpc.ssl_channel_credentials(ca.encode(), (tmp_path / "key.key").read_bytes(), cert.encode())
    with grpc.secure_channel(f"localhost:{operator.port}", credentials) as channel:
        grpc.channel_ready_future(channel).result(timeout=10)
    assert pod.token() not in operator.text()


def lasts(cert, seconds):
    return subprocess.run(["openssl", "x509", "-noout", "-checkend", str(seconds)], input=cert.encode(), capture_output=True).returncode == 0


def test_what_is_refused(cluster, run, system, other, tmp_path):
    operator = run()
    ca = ready(operator, cluster, system)
    pod, gone = Pod(cluster, other.name, "here"), Pod(cluster, other.name, "gone")
    token, san = pod.token(), f"DNS:{pod.uid}"
    good = request(tmp_path, san)
    ask = lambda csr, token, expect: operator.certificate(ca, csr, token, expect)

    # Tokens.
    assert "Bearer" in ask(good, None, 401)
    ask(good, "garbage", 401)
    ask(good, "a" * 20000, 401)
    ask(good, token[:-5] + "AAAAA", 401)
    ask(good, pod.token("https://kubernetes.default.svc.cluster.local"), 401)
    ask(good, pod.token("vault"), 401)
    unbound = cluster.token(other.name, "default", audiences=["kelpie.dev"])
    assert "not bound to a pod" in ask(good, unbound, 403)
    late = gone.token()
    gone.delete()
    ask(request(tmp_path, f"DNS:{gone.uid}"), late, 401)
    account = cluster.ask("GET", f"{CORE}/{other.name}/serviceaccounts/default")["metadata"]["uid"]
    bound = {"namespace": other.name, "pod": {"name": "here", "uid": pod.uid}, "serviceaccount": {"name": "default", "uid": account}}
    claims = {"sub": f"system:serviceaccount:{other.name}:default", "kubernetes.io": bound}
    now = int(time.time())
    ask(good, own_token(cluster, exp=now + 600, **claims), 200)  # so it is the time alone that is wrong next
    ask(good, own_token(cluster, exp=now - 60, **claims), 401)
    bound["pod"]["uid"] = gone.uid  # a pod of another UID by the same name
    ask(request(tmp_path, f"DNS:{gone.uid}"), own_token(cluster, exp=now + 600, **claims), 401)
    assert ask(good, cluster.token(system, "default", audiences=["kelpie.dev"]), 403)

    # Requests: it may ask for the pod's UID and nothing else.
    assert "not the pod's UID" in ask(request(tmp_path, f"DNS:{gone.uid}"), token, 403)
    assert "not the pod's UID" in ask(request(tmp_path, san, "/CN=kelpie-operator"), token, 403)
    for csr in (
        request(tmp_path, None),
        request(tmp_path, f"{san},DNS:kelpie-operator"),
        request(tmp_path, f"{san},URI:spiffe://kelpie.dev/ns/default/sa/x"),
        request(tmp_path, f"IP:127.0.0.1,{san}"),
        request(tmp_path, f"email:{pod.uid}"),
        request(tmp_path, san, "/O=system:masters"),
        request(tmp_path, san, extra=["-addext", "basicConstraints=critical,CA:TRUE"]),
        request(tmp_path, san, extra=["-addext", "extendedKeyUsage=codeSigning"]),
        request(tmp_path, san, key_file=key(tmp_path, "rsa", "rsa_keygen_bits:2048")),
        request(tmp_path, san, key_file=key(tmp_path, "p384", "ec_paramgen_curve:P-384")),
        good.replace(b"\n", b"\nA", 1),
        good + good,
        good[: len(good) // 2],
        b"",
        b"{}",
    ):
        ask(csr, token, 400)
    assert operator.call("POST", "/certificates", ca, b"x" * 20000, token)[0] == 413
    assert operator.call("GET", "/certificates", ca)[0] == 405
    assert operator.call("POST", "/nothing", ca, b"")[0] == 404
    assert operator.metric("kelpie_operator_certificates_refused_total") >= 20
    for secret_text in (token, unbound, late):
        assert secret_text not in operator.text()


def test_too_often(cluster, run, system, other, tmp_path):
    operator = run()
    ca = ready(operator, cluster, system)
    pod, quiet = Pod(cluster, other.name, "loud"), Pod(cluster, other.name, "quiet")
    token, csr = pod.token(), request(tmp_path, f"DNS:{pod.uid}")
    statuses = [operator.call("POST", "/certificates", ca, csr, token)[0] for _ in range(14)]
    assert statuses[:10] == [200] * 10 and statuses[-1] == 429, statuses
    operator.certificate(ca, request(tmp_path, f"DNS:{quiet.uid}"), quiet.token())  # another pod's budget is its own
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        many = []
        while len(many) < 1000 and all(status == 401 for status, _ in many):  # 100, and ten more each second, however slow this machine is
            many += pool.map(lambda _: operator.call("POST", "/certificates", ca, b"", None), range(40))
    assert {status for status, _ in many} == {401, 429}
    assert any("this address asks for certificates too often" in text for _, text in many)


def test_an_end_in_the_middle_of_requests(cluster, run, system, other):
    """What the listener has yet to tell the rest of the operator comes when the listener is gone."""
    for _ in range(5):
        operator = run()
        ca = ready(operator, cluster, system)
        ended = threading.Event()

        def ask(operator=operator, ca=ca, ended=ended):
            n = 0
            while not ended.is_set():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    n += operator.call("POST", "/certificates", ca, b"", None)[0] == 401
            return n

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(ask) for _ in range(4)]
            try:
                time.sleep(0.1)
                operator.stop()
            finally:
                ended.set()
        assert sum(one.result() for one in asked) > 0


def test_without_the_api_server(cluster, run, system, other, tmp_path):
    """The listener goes on with what it has; a certificate needs the API server, and comes once it is back."""
    operator = run()
    ca = ready(operator, cluster, system)
    pod = Pod(cluster, other.name, "p")
    token, csr = pod.token(), request(tmp_path, f"DNS:{pod.uid}")
    cluster.kill_api_server()
    try:
        assert operator.call("GET", "/readyz", ca)[0] == 200
        assert operator.call("GET", "/livez", ca)[0] == 200
        assert "ask the API server whose the token is" in operator.certificate(ca, csr, token, 503)
    finally:
        cluster.up()
    wait_until(lambda: operator.call("POST", "/certificates", ca, csr, token)[0] == 200, "a certificate")
    assert bundle(cluster, system) == ca


def test_rights_that_are_taken_away(cluster, run, system, other, tmp_path):
    """Nothing of it ends anything: it is said, and put right once it may."""
    config = cluster.kubeconfig(tmp_path / "config", {"token": account_of_operator(cluster, system, [other.name])})
    operator = run(kubeconfig=config)
    ca = ready(operator, cluster, system)
    binding = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{other.name}/rolebindings/operator-{system}-watched"
    saved = cluster.ask("GET", binding)
    cluster.ask("DELETE", binding)
    engine(other)
    time.sleep(0.5)
    assert told(cluster, other.name) is None
    for name in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        saved["metadata"].pop(name, None)
    cluster.ask("POST", binding.rsplit("/", 1)[0], saved)
    wait_until(lambda: told(cluster, other.name) == ca, "the ConfigMap")


class Creation(threading.Thread):
    """Pods that opt in, one after the other, for as long as it lasts; the webhook looks at each."""

    def __init__(self, cluster, ns, pause=0.05):
        super().__init__(daemon=True)
        self.client, self.ns, self.pause = client(cluster), ns, pause
        self.n, self.failures, self.longest, self.ended = 0, [], 0.0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(self.pause):
            name = f"made-{self.n}"
            body = {
                "metadata": {"name": name, "labels": {"kelpie.dev/engine": "e"}},
                "spec": {"containers": [{"name": "engine", "image": "i", "ports": [{"containerPort": 50051}]}]},
            }
            began = time.monotonic()
            try:
                pod = self.client.ask("POST", f"{CORE}/{self.ns}/pods", body)
                injected = any(c["name"] == "kelpie-gateway" for c in pod["spec"].get("initContainers", []))
                self.failures += [] if injected else [f"{name}: not injected"]
                self.client.ask("DELETE", f"{CORE}/{self.ns}/pods/{name}?gracePeriodSeconds=0")
            except rig.Refused as e:
                self.failures.append(str(e))
            self.longest = max(self.longest, time.monotonic() - began)
            self.n += 1

    def end(self):
        self.ended.set()
        self.join()
        assert not self.failures, (len(self.failures), self.n, self.failures[:3])


def rotate(cluster, run, system, other, folder, seconds, rotation, overlap, lifetime, pause):
    """Every moment: no pod's creation fails; whoever believed what they were told a moment ago believes the certificate that is shown now, and what
    was signed for a gateway is believed by everybody who was told until it is over. Returns how many pods were made, and authorities seen."""
    engine(other)
    options = ("--ca-rotate", rotation, "--ca-overlap", overlap, "--certificate-lifetime", lifetime)
    operators = [run(*options) for _ in range(2)]
    for o in operators:
        ready(o, cluster, system)
    webhook(cluster, f"https://127.0.0.1:{operators[0].https}/inject")
    wait_until(lambda: ca_bundle(cluster), "the webhook's bundle")
    time.sleep(1)  # until the API server has seen it
    pod = Pod(cluster, other.name, "p")
    csr, token = request(folder, f"DNS:{pod.uid}"), pod.token()
    creation = Creation(cluster, other.name)
    seen, before, held = set(), None, []  # held: (until, certificate)
    ended = time.monotonic() + seconds
    turn, ask_at = 0, 0
    while time.monotonic() < ended:
        now = wait_until(lambda: told(cluster, other.name), "the ConfigMap")
        for ca in (before or now, now):
            operators[turn % 2].call("GET", "/livez", ca)  # the handshake is the test
        if time.monotonic() >= ask_at:  # a budget of ten, and one each 6 s
            ask_at = time.monotonic() + max(lifetime / 4, 2 if seconds < 30 else 6)
            held.append((time.monotonic() + lifetime - 1, operators[turn % 2].certificate(now, csr, token)["certificate"]))
        held = [(until, cert) for until, cert in held if until > time.monotonic()]
        assert all(is_signed(cert, now, folder) for _, cert in held)
        seen.update(certificates(now))
        before = now
        turn += 1
        time.sleep(pause)
    creation.end()
    keys = [a.get("key") for a in json.loads(secret(cluster, system)["authorities.json"])["authorities"]]
    assert sum(k is not None for k in keys) <= 2, "who does not sign any more has no key"
    there = set(re.findall(r"# TYPE (kelpie_operator_(?:https|inject|certif|authorit)\w+)", operators[0].ask("/metrics")[1]))
    assert there == metrics_written("The operator's HTTPS listener")
    assert sum(o.metric("kelpie_operator_authority_changes_total") for o in operators) >= len(seen) - 2
    return creation, len(seen)


def test_row_20_rotation_under_constant_creation(cluster, run, system, other, tmp_path):
    creation, authorities = rotate(cluster, run, system, other, tmp_path, 16, 4, 2, 6, 0.3)
    assert authorities >= 4 and creation.n >= 30


@pytest.mark.slow
def test_row_20_rotation_long(cluster, run, system, other, tmp_path):
    """Every 30 s for 5 minutes."""
    faulthandler.cancel_dump_traceback_later()  # it takes longer than tests may
    creation, authorities = rotate(cluster, run, system, other, tmp_path, 300, 30, 10, 60, 1)
    print(f"{creation.n} pods made, none failed, the slowest {creation.longest:.3f} s; {authorities} authorities")
    assert authorities >= 10 and creation.n >= 1000
