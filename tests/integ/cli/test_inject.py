"""kubectl kelpie inject: manifests of real engines against what stands beside them in tests/corpus/pods, and manifests that make no sense. What an API server says of
them: tests/integ/kube/test_injection.py."""

import json
import os
import pathlib
import sys

import pytest
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from test_cli import ROOT, fails, run  # noqa: E402

PODS = ROOT / "tests/corpus/pods"
MANIFESTS = sorted(p for p in PODS.glob("*") if p.suffix in (".yaml", ".json") and ".injected" not in p.name)


def inject(*words, **options):
    done = run("inject", *words, **options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def documents(text):
    """As Kubernetes' YAML reads it: PyYAML agrees with it on all that is written here."""
    return list(yaml.safe_load_all(text))


def same(path, got):
    if os.environ.get("KP_UPDATE"):
        path.write_text(got) if got else path.unlink(missing_ok=True)
    assert got == (path.read_text() if path.exists() else "")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda p: p.stem)
def test_what_is_made_of_it(manifest):
    made, notes = inject("-f", manifest)
    same(manifest.with_name(f"{manifest.stem}.injected.yaml"), made.replace(version(), "VERSION"))
    same(manifest.with_name(f"{manifest.stem}.notes"), notes)
    # The second time changes nothing, and says what it said.
    with open(manifest) as f:
        assert inject(stdin=f)[0] == made
    assert inject("-f", "-", input=made.encode())[0] == made
    whole = json.loads(inject("-f", manifest, "-o", "json")[0])
    found = documents(made)
    assert whole == (found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": found})


def version():
    return (ROOT / "VERSION").read_text().strip()


def pod(**members):
    spec = {"containers": [{"name": "engine", "image": "e"}], **members.pop("spec", {})}
    meta = {"name": "p", "labels": {"kelpie.dev/engine": "demo"}, **members.pop("metadata", {})}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, **members})


def gateway_of(text):
    return documents(text)[0]["spec"]["initContainers"][-1]


def test_everything_else_passes_through():
    text = (PODS / "others.yaml").read_text()
    made, notes = inject(input=text.encode())
    assert documents(made) == documents(text)
    assert notes == "kubectl-kelpie: nothing to inject: no pod here has the label `kelpie.dev/engine`\n"


def test_settings():
    made, _ = inject("--gateway-image", "registry.example/g:1", "--operator-namespace", "ops", input=pod().encode())
    gateway = gateway_of(made)
    assert gateway["image"] == "registry.example/g:1"
    assert gateway["args"][:2] == ["--control=kelpie-operator.ops.svc:9090", "--bootstrap=https://kelpie-operator.ops.svc:443"]


def test_engines_and_pools_of_the_same_text_count():
    engine = {
        "apiVersion": "kelpie.dev/v1alpha1",
        "kind": "InferenceEngine",
        "metadata": {"name": "demo", "namespace": "prod"},
        "spec": {"poolRef": {"name": "p"}, "model": {"name": "m"}, "engine": {"type": "vllm"}, "drain": {"budgetSeconds": 100}},
    }
    pool = {
        "apiVersion": "inference.networking.k8s.io/v1",
        "kind": "InferencePool",
        "metadata": {"name": "p", "namespace": "prod"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 8123}]},
    }
    text = "\n---\n".join([pod(metadata={"namespace": "prod"}), json.dumps(engine), json.dumps(pool)])
    made, notes = inject(input=text.encode())
    assert notes == "" and "--drain-timeout=100" in gateway_of(made)["args"]
    assert gateway_of(made)["ports"][0]["containerPort"] == 8123
    assert documents(made)[1:] == [engine, pool]  # no default is written into them
    other, notes = inject(input=text.replace('"namespace": "prod"', '"namespace": "dev"', 1).encode())
    assert "no InferenceEngine `demo` yet" in notes and "--drain-timeout=30" in gateway_of(other)["args"]
    del engine["spec"]["model"]
    bad = fails(1, "inject", input="\n---\n".join([pod(), json.dumps(engine)]).encode())
    assert "InferenceEngine `demo`: spec.model: Required value" in bad


def test_manifests_that_make_no_sense():
    no = lambda text, want, *words: want in fails(1, "inject", *words, input=text.encode())
    assert no(pod(metadata={"annotations": {"kelpie.dev/shm": "x"}}), "Pod `p`: annotation `kelpie.dev/shm`: expected Share or None, got `x`")
    assert no(pod(spec={"containers": {}}), "Pod `p`: `spec.containers`: expected a list")
    assert no("a: [", "parse `-`: line 2 column 1")
    assert no("{" * 200, "parse")
    assert no("x" * (17 << 20), "parse")
    assert "no such file" in fails(3, "inject", "-f", "/nowhere.yaml").lower()
    assert "unknown format `wide`: yaml or json" in fails(2, "inject", "-o", "wide")
    assert "has no option `--server`" in fails(2, "inject", "--server", "x")
    assert "`--gateway-image`: expected a name" in fails(2, "inject", "--gateway-image", "a b")
    assert "`--operator-namespace`: expected a name" in fails(2, "inject", "--operator-namespace", "\udcff")
    assert "what is `x`?" in fails(2, "inject", "x")
    assert "has no option `--gateway-image`" in fails(2, "status", "--gateway-image", "x")


def test_names_that_would_move_a_cursor_are_shown_clean():
    text = pod(metadata={"name": "\u001b[2Jp\n", "annotations": {"kelpie.dev/\u001b[2J": "1"}})
    made, notes = inject(input=text.encode())
    assert "\u001b" not in notes and documents(made)[0]["metadata"]["name"] == "\u001b[2Jp\n"


HARD = [
    "", " ", "a ", " a", "a\n", "\na", "a\nb", "a\n\n b\n", "a\n b\n\n", "a \nb", "\t", "a\tb", "x: y", "x #y", "#", "- a", "-", "--", "---", "...", "? a",
    "y", "Yes", "no", "on", "NULL", "~", "null", "true", "0", "012", "0x1f", "1_000", "1e3", "1.0", "-1", "+1", ".5", ".inf", "12:30", "2001-01-01",
    "=", "<<", "!x", "&a", "*a", "|", ">", "%x", "@x", "`x`", "'", '"', "a'b", 'a"b', "\\", "a\\nb", "{a}", "[a]", "a, b", "é", "日本", "\u0085", "\u2028",
    "\ufeff", "\U0001f600", "a\u0000b", "\u007f", "\u001b[2J", "--flag=x", "--x: y", "-x", "/p: q", "$(A)", "_", "a:", ":a", "a" * 300, "a b " * 100, "\r\n", "a\r\nb",
]  # fmt: skip


def test_text_of_every_kind_comes_back():
    data = {"values": HARD, **{f"k{i}": v for i, v in enumerate(HARD)}, "keys": {v: i for i, v in enumerate(HARD) if "\u0000" not in v}}
    data["other"] = [0, -1, 1 << 62, 1.5, 1.5e-9, -0.25, 1.25e300, True, False, None, [], {}, [[]], [{}], {"a": {}}, [[1, [2]], {"b": [{"c": 3}]}]]
    object = {"apiVersion": "example.com/v1", "kind": "Odd", "data": data}
    made, _ = inject(input=json.dumps(object).encode())
    assert documents(made) == [object]
    again, _ = inject(input=made.encode())  # our own reader
    assert again == made
