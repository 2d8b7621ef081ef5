"""The same objects to us and to kube-apiserver's own packages: the verdict, every field and every text must be equal.

Left out of the comparison, on purpose: their `<path> in body` before "should"; the type name they show where a CEL rule
refuses a scalar (we show the scalar); "must be an object for an array of list-type map", which only repeats a type error.
"""

import copy
import json
import pathlib
import random
import re
import sys

import pytest
import yaml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import golang  # noqa: E402

CORPUS = golang.ROOT / "tests/corpus/manifests"


@pytest.fixture(scope="module")
def ours():
    return golang.Framed(golang.helper("api", "check"))


@pytest.fixture(scope="module")
def theirs():
    return golang.Framed(golang.build(HERE / "go", "validate"), *sorted((golang.ROOT / "crds").glob("*.yaml")))


def their_errors(verdict):
    """(field, text) pairs; None: refused before validation, with other words than ours."""
    if verdict["parse"]:
        return None
    out = set()
    for text in verdict["strict"]:
        field = re.fullmatch(r'unknown field "(.*)"', text)[1]
        out.add((field, "unknown field"))
    for e in verdict["errors"]:
        text = e["text"].replace(f"{e['field']} in body ", "")
        if "must be an object for an array of list-type map" not in text:
            out.add((e["field"], normal(cut(text))))
    return out


def our_errors(answer):
    out = set()
    for p in answer["problems"]:
        if not p["warning"]:
            assert p["line"] > 0 and p["column"] > 0 or p["field"] == "", p
            text = re.sub(r'^(Invalid value): ".*"(?:\.\.\.)?(: must be an IP address or a DNS name|: must begin with https)', r'\1: "string"\2', p["message"])
            out.add((p["field"], normal(text)))
    return out


def normal(text):
    """Numbers by value; a value of a wrong type without what the API server pruned from it."""
    text = re.sub(r"^(\w+ value: )(-?[0-9][-+0-9.e]*): ", lambda m: f"{m[1]}{float(m[2])}: ", text)
    return re.sub(r"^(Unsupported value: )([{\[].*): supported", r"\1{}: supported", text)


def cut(text):
    """Values longer than 100 bytes are cut in ours, at a character."""
    found = re.match(r"(Duplicate value: )(\{.*)$", text)
    if found and len(found[2]) > 100:
        return f"{found[1]}{found[2].encode()[:100].decode(errors='ignore')}..."
    found = re.match(r'([A-Z][a-z]+ value: )"((?:[^"\\]|\\.)*)"(.*)', text, flags=re.S)
    if not found or len(found[2].encode()) <= 100:
        return text
    return f'{found[1]}"{found[2].encode()[:100].decode(errors="ignore")}"...{found[3]}'


def compare(ours, theirs, texts):
    """Returns how many were valid, invalid and refused before validation."""
    bodies = [t.encode() for t in texts]
    counts = [0, 0, 0]
    wrong = []
    for text, a, b in zip(texts, ours.ask([("m", t) for t in bodies]), theirs.ask([("o", t) for t in bodies])):
        got, want = our_errors(json.loads(a)), their_errors(json.loads(b))
        counts[2 if want is None else 1 if want else 0] += 1
        if want is not None and len(want) > 100:  # ours are cut there
            wrong += [text] if not got <= want or len(got) != 100 else []
            continue
        if (not got) if want is None else (got != want):
            wrong.append(f"{text}\n  only ours   {sorted(got - (want or set()))}\n  only theirs {sorted(want - got) if want is not None else json.loads(b)['parse']}")
    assert not wrong, f"{len(wrong)} of {len(texts)} differ:\n" + "\n".join(wrong[:5])
    return counts


def documents(path):
    return [d for d in re.split(r"^---.*$", path.read_text(), flags=re.M) if yaml.safe_load(d) is not None]


def test_good_corpus(ours, theirs):
    """What the corpus calls good, the API server takes (foreign kinds and lists apart: it knows no List)."""
    texts = [d for p in sorted((CORPUS / "good").glob("*.y*ml")) for d in documents(p) if yaml.safe_load(d).get("kind") in ("InferencePool", "InferenceEngine", "ToolServer")]
    valid, invalid, refused = compare(ours, theirs, texts)
    assert valid == len(texts) > 10 and not invalid and not refused


def test_bad_corpus(ours, theirs):
    """Every object of the bad corpus that reaches validation gets the same errors from both."""
    texts = []
    for path in sorted((CORPUS / "bad").glob("*.y*ml")):
        if "# only files:" in path.read_text():  # what an API server does not see: two files, positions, kinds of others
            continue
        texts.append(path.read_text())
    valid, invalid, refused = compare(ours, theirs, texts)
    assert valid == 0 and invalid > 40


# --- mutations ---------------------------------------------------------------------------------------------------------

POOL = {
    "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
    "metadata": {"name": "demo", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"x.y/z": "w"}},
    "spec": {"selector": {"matchLabels": {"app": "demo", "b.c/d": "e"}}, "targetPorts": [{"number": 8080}, {"number": 8081}], "appProtocol": "http",
             "endpointPickerRef": {"group": "", "kind": "Service", "name": "epp", "port": {"number": 9002}, "failureMode": "FailOpen"}},
}
ENGINE = {
    "apiVersion": "kelpie.dev/v1alpha1", "kind": "InferenceEngine",
    "metadata": {"name": "demo", "generation": 1, "finalizers": ["a.b/c"], "creationTimestamp": None},
    "spec": {"poolRef": {"name": "demo"}, "model": {"name": "org/model:tag", "aliases": ["a", "b"]}, "engine": {"type": "vllm", "protocol": "grpc"},
             "tokenizer": {"source": "Path", "path": "/models/x"}, "endpoints": [{"address": "127.0.0.1", "port": 50051}, {"address": "::1", "port": 50051}, {"address": "h.example", "port": 1}]},
}
OWNED = {
    "apiVersion": "kelpie.dev/v1alpha1", "kind": "InferenceEngine", "metadata": {"name": "demo"},
    "spec": {"poolRef": {"name": "demo"}, "model": {"name": "m"}, "engine": {"type": "sglang", "port": 50052, "container": "engine"}, "replicas": 3, "drain": {"budgetSeconds": 60},
             "gateway": {"mode": "Node", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1.5Gi"}}, "node": {"labels": {"app": "demo"}}},
             "template": {"metadata": {"labels": {"app": "demo"}}, "spec": {"containers": [{"name": "engine", "image": "a", "args": ["b", None]}, {"name": "other"}], "x": None}}},
}
WATCHED = {
    "apiVersion": "kelpie.dev/v1alpha1", "kind": "InferenceEngine", "metadata": {"name": "demo"},
    "spec": {"poolRef": {"name": "demo"}, "model": {"name": "m"}, "engine": {"type": "vllm"}, "workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "demo"}},
}
TOOL = {
    "apiVersion": "kelpie.dev/v1alpha1", "kind": "ToolServer", "metadata": {"name": "demo"},
    "spec": {"label": "demo", "url": "http://tools.default.svc:8000/mcp", "network": "Private", "forwardHeaders": ["X-User", "X-Team"], "allowedTools": ["a", "b"],
             "headers": [{"name": "X", "value": "y"}, {"name": "Authorization", "secretKeyRef": {"name": "demo", "key": "token"}}],
             "approval": {"policy": "Never", "except": ["b"]}, "timeouts": {"connectSeconds": 1, "callTotalSeconds": 86400}},
}
SCALARS = [0, 1, -1, 70000, 65535, 65536, 1.5, 1e20, True, False, None, "", "a", "A", "a b", "-a", "a-", "a.b", "a..b", "a_b", "x" * 63, "x" * 64, "x" * 253, "x" * 254, "é" * 64, "é",
           "127.0.0.1", "1.2.3", "1.2.3.4.5", "::", "fe80::1%eth0", "::ffff:1.2.3.4", "01.2.3.4", "host", "Host", "host.", "a.1", "1.a", "/", "/a", "a/b", "a/b/c", "vllm", "VLLM", "Engine", "Path", "grpc",
           "1Gi", "100m", "1.5M", "1.", ".5", ".", "Ki", "1e3", "1E", "1Ei", "Node", "http", "FailOpen", "Service", "b", "1", "\"q\"\n\\", "\t", "\u2028", "/x\x00", "☃", [], {}, [1], ["a"], ["a", "a"], [None], {"a": 1}, {"a": "b"}, {"name": "demo"}, {"number": 1}, {"address": "a", "port": 1}]


def places(value, path=()):
    yield path
    if isinstance(value, dict):
        for k, v in value.items():
            yield from places(v, path + (k,))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from places(v, path + (i,))


def at(value, path):
    for step in path:
        value = value[step]
    return value


def mutate(rng, obj):
    path = rng.choice([p for p in places(obj) if p and p[0] not in ("apiVersion", "kind")] or [("spec",)])
    parent = at(obj, path[:-1])
    action = rng.random()
    if action < 0.2:
        del parent[path[-1]]
    elif action < 0.3 and isinstance(parent, dict):
        parent[rng.choice(["foo", "name", "path", "port", "Name", "metadata", "kind", "aliases", "x.y/z", "-x", "status", "generateName", "uid"])] = copy.deepcopy(rng.choice(SCALARS))
    elif action < 0.45 and isinstance(at(obj, path), list):
        items = at(obj, path)
        items.append(copy.deepcopy(rng.choice(items + SCALARS)))
    elif action < 0.5 and isinstance(at(obj, path), list):
        items = at(obj, path)
        items.extend(copy.deepcopy(rng.choice(items or [1])) for _ in range(rng.choice((8, 16, 300))))
    elif action < 0.55 and isinstance(at(obj, path), dict):
        at(obj, path).update({f"k{i}": rng.choice(("v", "-", 1)) for i in range(rng.choice((1, 64, 70)))})
    else:
        parent[path[-1]] = copy.deepcopy(rng.choice(SCALARS))


def test_mutations(ours, theirs):
    rng = random.Random(7)
    texts = []
    while len(texts) < 9000:
        obj = copy.deepcopy(rng.choice((POOL, ENGINE, OWNED, WATCHED, TOOL)))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            try:
                mutate(rng, obj)
            except (KeyError, IndexError, TypeError):
                pass
        text = json.dumps(obj, ensure_ascii=rng.random() < 0.5)
        if skipped(obj):
            continue
        texts.append(text)
    valid, invalid, refused = compare(ours, theirs, texts)
    assert valid > 500 and invalid > 3000


def skipped(obj):
    """Metadata that means nothing in files is not checked further than its type."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict):
        return False
    return meta.get("finalizers", ["a.b/c"]) != ["a.b/c"] or meta.get("generation", 1) != 1 or "generateName" in meta or meta.get("creationTimestamp") is not None


# --- names, patterns, rules --------------------------------------------------------------------------------------------

def words(rng, alphabet, n):
    out = ["", ".", "-", "a", "a.b", "a-b", "a/b", "x" * 63, "x" * 64, "x" * 253, "x" * 254, "é", "a\n", "\n", "a\x00", "/", "//", "a/", "/a"]
    out += [w for w in SCALARS if isinstance(w, str)]
    for _ in range(n):
        out.append("".join(rng.choice(alphabet) for _ in range(rng.randint(0, rng.choice((3, 6, 12))))))
    return out


def same(ours, theirs, letter, question, our_question=None):
    mine = json.loads(ours.ask([(letter, json.dumps(our_question or question).encode())])[0])
    want = json.loads(theirs.ask([(letter, json.dumps(question).encode())])[0])
    wrong = [(t, a, b) for t, a, b in zip(question["texts"], mine, want) if a != b]
    assert len(mine) == len(want) and not wrong, wrong[:10]
    return mine


def load_def(path, macro):
    text = re.sub(r"/\*.*?\*/", "", (golang.ROOT / path).read_text(), flags=re.S)
    for name, parts in re.findall(macro + r'\(\s*(\w+)\s*,\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)', text):
        yield name, re.sub(r"\\(.)", r"\1", "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', parts)))


@pytest.mark.parametrize("name,pattern", list(load_def("lib/schema/patterns.def", "KP_PATTERN")))
def test_patterns(ours, theirs, name, pattern):
    answers = same(ours, theirs, "r", {"pattern": pattern, "texts": words(random.Random(8), "abzAZ09-._/!~ \n\x00émKGiEe+", 8000)})
    assert True in answers and False in answers


@pytest.mark.parametrize("kind", ["subdomain", "label", "qualified", "labelvalue"])
def test_names(ours, theirs, kind):
    question = {"kind": kind, "texts": words(random.Random(9), "abzAZ09-._/ é", 5000)}
    mine = json.loads(ours.ask([("n", json.dumps(question).encode())])[0])
    want = json.loads(theirs.ask([("n", json.dumps(question).encode())])[0])
    for text, a, b in zip(question["texts"], mine, want):
        assert len(a) == len(b) and all(x.endswith(": " + y) for x, y in zip(a, b)), (text, a, b)
    assert [] in mine and any(mine)


def test_addresses(ours, theirs):
    rng = random.Random(10)
    texts = words(rng, "0123456789abcdef.:", 20000) + words(rng, "019.", 5000) + words(rng, "01f:", 5000)
    texts += [":".join(rng.choice(("0", "1", "ffff", "00001", "", "1.2.3.4", "g")) for _ in range(rng.randint(2, 9))) for _ in range(5000)]
    rule = dict(load_def("lib/api/rules.def", "KP_RULE"))["address"]
    answers = same(ours, theirs, "c", {"rule": rule, "texts": texts}, {"rule": "address", "texts": texts})
    assert answers.count(True) > 1000
