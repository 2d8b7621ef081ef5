"""The cluster of hack/check-cluster: what is asked of it, and the load."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KUBE = pathlib.Path(os.environ.get("KELPIE_KUBE_DIR") or ROOT / "build/kube")
MODE = os.environ.get("KELPIE_CHECK_MODE", "")
RATE, TOKENS = 20, 50  # streams a second; tokens of 100 ms each
PATIENCE_S = 180
OUTCOMES = ("whole", "refused", "lost", "error", "cut", "wrong")


def run(*words, stdin=None, check=True):
    done = subprocess.run([str(w) for w in words], input=stdin, capture_output=True, text=True, timeout=600)
    assert not check or done.returncode == 0, f"{words}: {done.stderr[-2000:]}"
    return done.stdout


def kubectl(*words, **kw):
    return run("kubectl", *words, **kw)


def ask(*words):
    return json.loads(kubectl(*words, "-o", "json"))


def wait_until(condition, what, timeout=PATIENCE_S):
    until = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < until, f"{what}: not within {timeout} s"
        time.sleep(0.2)
    return found


def is_ready(pod):
    conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def pods(selector="part=engine", namespace="default"):
    return ask("get", "pods", "-n", namespace, "-l", selector)["items"]


def containers(pod):
    """The status of each container of a pod, init containers among them."""
    status = ask("get", "pod", pod)["status"]
    return {c["name"]: c for c in status.get("initContainerStatuses", []) + status.get("containerStatuses", [])}


def leader():
    return ask("get", "lease", "-n", "kelpie-system", "kelpie-operator")["spec"]["holderIdentity"].split("_")[0]


def process(pod, program):
    """The process of a pod, by its cgroup, as the machine sees it."""
    uid = pod["metadata"]["uid"]
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if uid in (p / "cgroup").read_text() and (p / "comm").read_text().strip() == program:
                return int(p.name)
        except OSError:
            pass  # it ended meanwhile
    raise AssertionError(f"no {program} in {pod['metadata']['name']}")


def settle():
    """Everything is as it should be: three engines and their gateways ready, the engine Ready, two operators."""

    def is_well():
        engines, operators = pods(), pods("app.kubernetes.io/component=operator", "kelpie-system")
        return len(engines) == 3 and len(operators) == 2 and all(map(is_ready, engines + operators))

    wait_until(is_well, "three engines and two operators that are ready")
    kubectl("wait", "--for=condition=Ready", "ie/demo", f"--timeout={PATIENCE_S}s")


class Streams:
    """The load: four processes, half of them in the network of a pod."""

    def __init__(self, address):
        inside = ["nsenter", f"--net=/proc/{process(ask('get', 'pod', 'client'), 'sleep')}/ns/net"]
        self.processes = []  # (process, the file of what it says: a pipe would fill up)
        for where in ([], inside):
            for keep in ([], ["keep"]):
                argv = [*where, sys.executable, HERE / "stream_load.py", address, RATE / 4, TOKENS, *keep]
                said = tempfile.TemporaryFile("w+")
                self.processes.append((subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=said), said))

    def end(self):
        """All of them, once the last one has ended."""
        ended = []
        for p, said in self.processes:
            p.stdin.close()
        for p, said in self.processes:
            assert p.wait(PATIENCE_S) == 0
            said.seek(0)
            ended += map(json.loads, said)
        return ended

    def stop(self):
        for p, said in self.processes:
            p.kill()
            p.wait()
            said.close()
