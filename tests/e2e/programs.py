"""The programs of the end to end tests, each a child process on a free port of the loopback interface. What they print goes to
a file of build/test/e2e ($KP_LOGS); they are stopped by their process id."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("KP_BUILD", "build/release")


def logs(folder):
    """The part of it that belongs to this process, when several run tests side by side."""
    return ROOT / folder / os.environ.get("PYTEST_XDIST_WORKER", "")


LOGS = logs(os.environ.get("KP_LOGS", "build/test/e2e"))
QWEN3_TOKENS = 151669  # ids of its tokenizer
ASAN = BUILD.name == "asan"
PATIENCE = 60.0  # seconds until something that must happen counts as missing; the machine may be busy


def wait_until(condition, what, timeout=PATIENCE):
    """Polls until the condition gives something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not within {timeout} s"
        time.sleep(0.005)


class Program:
    count = 0

    def __init__(self, name, argv, env=None):
        Program.count += 1
        self.name = name
        self.stem = f"{Program.count:03}-{name}"
        LOGS.mkdir(parents=True, exist_ok=True)
        self.log = LOGS / f"{self.stem}.log"
        # A test run that is killed leaves nothing running.
        self.argv = ["setpriv", "--pdeathsig", "KILL", *(str(a) for a in argv)]
        self.env = {**os.environ, **(env or {})}
        self.status = None
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env
            )
        self.pid = self.process.pid

    def text(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern, timeout=PATIENCE):
        """The match of the pattern in what the program has printed."""

        def look():
            found = re.search(pattern, self.text())
            assert found or self.process.poll() is None, (
                f"{self.name} ended ({self.process.poll()}):\n{self.text()[-3000:]}"
            )
            return found

        return wait_until(look, f"`{pattern}` in {self.log}", timeout)

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def kill(self):
        self.process.kill()
        self.status = self.process.wait()

    def wait(self, timeout=PATIENCE):
        self.status = self.process.wait(timeout)
        return self.status

    def stop(self, expect=0):
        """Ends it politely; it must do so by itself and with this status."""
        if self.status is not None:
            return
        self.terminate()
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} does not end after SIGTERM: {self.log}") from None
        assert self.status == expect, (
            f"{self.name} ended with {self.status}, not {expect}:\n{self.text()[-3000:]}"
        )

    def rss(self):
        """Resident memory in KiB."""
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.pid}/status").read_text())[1])

    def cpu(self):
        """Seconds that its threads ran."""
        return sum(int(p.read_text().split()[0]) for p in pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat")) / 1e9

    def assert_rss_below(self, mib):
        """AddressSanitizer keeps freed memory, so there it says nothing."""
        assert ASAN or self.rss() < mib << 10, f"{self.name} holds {self.rss() >> 10} MiB"

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


class Sim(Program):
    """bench/sim-engine. `events` are the lines of its log, their `t` is time.monotonic()."""

    def __init__(self, *options, port=0, log=None, wrapper=()):
        self.events_file = log or LOGS / f"{Program.count + 1:03}-sim.jsonl"
        LOGS.mkdir(parents=True, exist_ok=True)
        if log is None:
            self.events_file.unlink(missing_ok=True)
        self.options = options
        super().__init__(
            "sim",
            [*wrapper, BUILD / "bin/sim-engine", "--listen", f"127.0.0.1:{port}", "--log", self.events_file, *options],
        )
        self.port = int(self.wait_for(r"ready on 127\.0\.0\.1:(\d+)\n")[1])
        self.address = f"127.0.0.1:{self.port}"

    def again(self):
        """A new process at the same address."""
        return Sim(*self.options, port=self.port, log=self.events_file)

    def events(self, event=None, request_id=None):
        """Those of one kind, of a client's request: the engine's ids begin with the answer's."""
        if not self.events_file.exists():
            return []
        text = self.events_file.read_text()
        found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        return [
            e
            for e in found
            if (event is None or e["event"] == event)
            and (request_id is None or e["request_id"].startswith(request_id))
        ]

    def wait_event(self, event, request_id=None, count=1, timeout=PATIENCE):
        """The first `count` such events."""
        enough = lambda: found if len(found := self.events(event, request_id)) >= count else None
        return wait_until(
            enough, f"{count} events {event!r} of {request_id!r} in {self.events_file}", timeout
        )


class Demo(Program):
    """hack/demo-engine: a real model."""

    def __init__(self, *options):
        super().__init__(
            "demo",
            [ROOT / "hack/demo-engine", "--listen", "127.0.0.1:0", *options],
            env={"KELPIE_PYTHON": sys.executable},
        )
        self.port = int(self.wait_for(r"ready on 127\.0\.0\.1:(\d+)\n")[1])
        self.address = f"127.0.0.1:{self.port}"


class Llama:
    """llama.cpp's own HTTP server."""

    def __init__(self, model, context):
        script = ROOT / "tests/oracle/engine/llama_server.py"
        LOGS.mkdir(parents=True, exist_ok=True)
        with open(LOGS / "llama.log", "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, script, str(model), str(context)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.address = self.process.stdout.readline().strip()

    def __call__(self, path, **body):
        request = urllib.request.Request(
            self.address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0
        self.process.stdout.close()


def engine(name, *ports, model="m", aliases=(), path=None, pool="pool", type="vllm"):
    """The manifest of an InferenceEngine."""
    source = {"source": "Path", "path": str(path)} if path else {"source": "Engine"}
    return {
        "apiVersion": "kelpie.dev/v1alpha1",
        "kind": "InferenceEngine",
        "metadata": {"name": name},
        "spec": {
            "poolRef": {"name": pool},
            "model": {"name": model, **({"aliases": list(aliases)} if aliases else {})},
            "engine": {"type": type, "protocol": "grpc"},
            "tokenizer": source,
            "endpoints": [{"address": "127.0.0.1", "port": port} for port in ports],
        },
    }


def pool(name="pool", ports=(8080,)):
    """The manifest of an InferencePool."""
    return {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "targetPorts": [{"number": p} for p in ports]},
    }


def manifest(*engines, pools=("pool",), ports=(8080,)):
    """The text of a manifest file. JSON is YAML, one value a line."""
    return "---\n".join(json.dumps(o, indent=1) + "\n" for o in [*(pool(p, ports) for p in pools), *engines])


class Service(Program):
    """A program of ours with an admin listener and a log of JSON lines."""

    def lines(self, msg=None):
        found = [json.loads(line) for line in self.text().rpartition("\n")[0].splitlines() if line.startswith("{")]
        return [line for line in found if msg is None or line["msg"] == msg]

    def ask(self, path):
        """(status, body) of a page of the admin listener."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            with e:
                return e.code, e.read().decode()

    def wait_ready(self, timeout=PATIENCE):
        def ready():
            assert self.process.poll() is None, (
                f"{self.name} ended ({self.process.poll()}):\n{self.text()[-3000:]}"
            )
            return self.ask("/readyz")[0] == 200

        wait_until(ready, f"readiness of {self.name}: {self.log}", timeout)

    def metric(self, name, **labels):
        """The value of a series, 0 when there is none."""
        for line in self.ask("/metrics")[1].splitlines():
            found = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})? (\S+)", line)
            if found and dict(re.findall(r'(\w+)="([^"]*)"', found[1] or "")) == labels:
                return float(found[2])
        return 0.0

    def manifest_file(self, text):
        """A file with the text, or the folder that `text` is."""
        LOGS.mkdir(parents=True, exist_ok=True)
        if not isinstance(text, str):
            return text
        path = LOGS / f"{Program.count + 1:03}-{type(self).__name__.lower()}.yaml"
        path.write_text(text)
        return path

    def write(self, text):
        """Replaces the manifest in one step, as editors do."""
        new = self.manifest.with_suffix(".new")
        new.write_text(text)
        new.rename(self.manifest)

    def write_and_wait(self, text, msg="manifests accepted"):
        """Replaces the manifest and waits until it was read."""
        before = len(self.lines(msg))
        self.write(text)
        wait_until(lambda: len(self.lines(msg)) > before, f"{msg!r} in {self.log}")


class Gateway(Service):
    """kelpie-sidecar with a manifest of its own, or (text None, --control among the options) an operator's."""

    def __init__(self, text, *options, wrapper=(), ready=True, loops=2, listen=("127.0.0.1:0",)):
        """text: a manifest's, or a folder of manifests."""
        self.manifest = text and self.manifest_file(text)
        super().__init__(
            "gateway",
            [
                *wrapper,
                BUILD / "bin/kelpie-sidecar",
                *(("--manifests", self.manifest) if self.manifest else ()),
                "--admin-listen",
                "127.0.0.1:0",
                "--log-format",
                "json",
                "--loops",
                loops,
                *(w for a in listen for w in ("--listen", a)),
                *options,
            ],
        )
        self.admin = int(self.wait_for(r'"msg":"admin listening","port":(\d+)')[1])
        self.ports = [
            int(p) for p in re.findall(r'"msg":"listening","address":"127\.0\.0\.1:(\d+)"', self.text())
        ]
        self.port = self.ports[0] if self.ports else None
        self.url = f"http://127.0.0.1:{self.port}"
        if ready:
            self.wait_ready()


class Operator(Service):
    """kelpie-operator with a manifest of its own."""

    def __init__(self, text, *options, host="127.0.0.1", port=0, admin=0):
        self.manifest = self.manifest_file(text)
        self.options = options
        super().__init__(
            "operator",
            [
                BUILD / "bin/kelpie-operator",
                "--manifests",
                self.manifest,
                "--control-listen",
                f"{host}:{port}",
                "--admin-listen",
                f"127.0.0.1:{admin}",
                "--log-format",
                "json",
                *options,
            ],
        )
        self.port = int(self.wait_for(r'"msg":"control listening".*?"port":(\d+)')[1])
        self.admin = int(self.wait_for(r'"msg":"admin listening","port":(\d+)')[1])

    def again(self, *options):
        """A new process at the same addresses with the same manifest."""
        return Operator(self.manifest, *self.options, *options, port=self.port, admin=self.admin)

    def told(self):
        """GET /status."""
        return json.loads(self.ask("/status")[1])
