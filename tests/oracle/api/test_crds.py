"""Our definitions: InferencePool equals the upstream one, both are accepted by the API server's own checks."""

import pathlib
import subprocess
import sys

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import golang  # noqa: E402

CRDS = sorted((golang.ROOT / "crds").glob("*.yaml"))
UPSTREAM = "sigs.k8s.io/gateway-api-inference-extension@v1.6.0"


def without_texts(value):
    """Without descriptions (of schemas, not of a property called so), lists of names in order."""
    if isinstance(value, list):
        return [without_texts(v) for v in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        if key == "description" and isinstance(inner, str):
            continue
        out[key] = sorted(inner) if key == "required" else without_texts(inner)
    return out


def differences(a, b, path=""):
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys(), key=str):
            yield from differences(a.get(key), b.get(key), f"{path}.{key}")
    elif a != b:
        yield f"{path}: ours {a!r}, upstream {b!r}"


def test_inference_pool_equals_upstream():
    theirs = yaml.safe_load((golang.module_dir(HERE / "go", UPSTREAM) / "config/crd/bases/inference.networking.k8s.io_inferencepools.yaml").read_text())
    ours = yaml.safe_load((golang.ROOT / "crds/inference.networking.k8s.io_inferencepools.yaml").read_text())
    theirs.pop("status")  # an empty one, left by its generator
    assert not list(differences(without_texts(ours), without_texts(theirs)))


@pytest.mark.parametrize("path", CRDS, ids=lambda p: p.name)
def test_api_server_accepts(path):
    """Structural, defaults valid, rules compile and cost less than the API server allows."""
    program = golang.build(HERE / "go", "validate")
    done = subprocess.run([program, path], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def schemas(node, where):
    yield where, node
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return  # what is in it is Kubernetes' to describe and to bound
    for key, child in node.get("properties", {}).items():
        yield from schemas(child, f"{where}.{key}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from schemas(node[key], f"{where}[]")


@pytest.mark.parametrize("path", CRDS, ids=lambda p: p.name)
def test_everything_is_described_and_bounded(path):
    crd = yaml.safe_load(path.read_text())
    for version in crd["spec"]["versions"]:
        for where, node in schemas(version["schema"]["openAPIV3Schema"], ""):
            if where == ".metadata":
                continue
            text = node.get("description", "")
            assert len(text) > 5 and text.rstrip().endswith("."), f"{where}: no description"
            kind = node["type"]
            if where in (".apiVersion", ".kind") or node.get("format") == "date-time":
                continue
            bounded = {"string": ("maxLength", "enum"), "array": ("maxItems",), "integer": ("minimum",)}.get(kind, ())
            assert not bounded or any(k in node for k in bounded), f"{where}: not bounded"
            assert "additionalProperties" not in node or "maxProperties" in node, f"{where}: not bounded"


def test_generated_files_are_current():
    subprocess.run([golang.ROOT / "hack/gen-crd", "--check"], check=True)
