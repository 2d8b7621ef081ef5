"""Random chains of components (chains.py) beside Hugging Face tokenizers 0.23.3: ids, decoded text, the same in pieces. A chain that is refused must be so for a reason
in REFUSED."""
import pathlib
import sys

import pytest
import tokenizers

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import chains  # noqa: E402
import texts  # noqa: E402
from probe import Probe, ProbeError  # noqa: E402

assert tokenizers.__version__ == "0.23.3"
# Chains of decoders that cannot be decoded as tokens come, processors that the reference applies to parts, added tokens that normalization empties or
# changes while they are tokens of the vocabulary.
REFUSED = ["decoder `", "behind ByteFallback", "behind what joins the tokens", "post-processor `", "nothing is left of it when normalized", "decoder behind CTC",
           "load decoder: text ``", "a token of the vocabulary that normalization changes", "the library would give it",
           "load vocabulary: `0` tokens"]


def theirs(call, *args, **kw):
    """None where the library raises or panics."""
    try:
        return call(*args, **kw)
    except BaseException as e:  # pyo3's PanicException is no Exception
        if isinstance(e, KeyboardInterrupt):
            raise
        return None


def batch_of(r, contents):
    batch = ["", " ", "a", "  a b", "▁a ▁b", "The quick brown fox's tail, 1234 times.\n\n  Next \u4e2d\u6587\u30ab\u30bf\u30ab\u30ca x\u0301"]
    batch += list(texts.mixes(r, 60, contents or ["x"])) + list(texts.specials(r, contents or ["<x>"], 40)) + texts.ordinary(r, 6)
    batch += r.sample(list(texts.runs(texts.seed("chain runs"))), 15)
    return [t[:3000] for t in batch]


def equals(t):
    """Ids of added tokens that normalization makes equal to another one: the library takes one or the other, by the order of a hash table that is new in each process."""
    made = {}
    for i, x in t.get_added_tokens_decoder().items():
        if x.normalized:
            made.setdefault(t.normalizer.normalize_str(x.content) if t.normalizer else x.content, []).append(i)
    return {i for ids in made.values() if len(ids) > 1 for i in ids}


def check(path, t, r):
    """Compares; the reason for a refusal, or None."""
    by_chance = equals(t)
    contents = [x.content for x in t.get_added_tokens_decoder().values()]
    batch = batch_of(r, contents)
    status, said = Probe(path).close()
    if status == 1:
        return said
    with Probe(path) as ours:
        for special in (False, True):
            want = [theirs(t.encode, x, add_special_tokens=special) for x in batch]
            for text, a, b in zip(batch, ours.encode(batch, special, file_limits=True), want):
                if b is None:
                    continue
                if isinstance(a, ProbeError):
                    raise a
                if by_chance & {*a, *b.ids}:
                    continue
                assert a == b.ids, "%r special %d" % (text, special)
        size = max(t.get_vocab(True).values()) + 1
        known = [i for i in range(size) if t.id_to_token(i) is not None]
        lists = [w.ids for w in want if w is not None][:40] + [[r.choice(known) for _ in range(r.randrange(1, 20))] for _ in range(150)]
        lists = [x for x in lists if set(x) <= set(known)]
        for skip in (False, True):
            want = [theirs(t.decode, x, skip_special_tokens=skip) for x in lists]
            whole, pieces = ours.decode(lists, skip), ours.decode(lists, skip, incremental=True)
            fallback = "ByteFallback" in t.to_str().split('"decoder"')[1].split('"model"')[0]
            for ids, a, b, c in zip(lists, whole, pieces, want):
                if c is not None:
                    tokens = [t.id_to_token(i) for i in ids]
                    assert a.decode() == c, tokens
                    assert b == a or (fallback and "\ufffd" in c), tokens
    return None


def run(tmp_path, name):
    t = chains.make(name)
    if t is None:
        pytest.skip("the library cannot make it")
    t.save(str(tmp_path / "tokenizer.json"))
    reason = check(tmp_path, t, texts.seed("texts of chain " + name))
    if reason is not None:
        assert any(x in reason for x in REFUSED), reason
        pytest.skip("refused: " + reason.strip())


@pytest.mark.parametrize("case", range(162))
def test_chain(tmp_path, case):
    run(tmp_path, str(case))


def test_dt_ctc_in_front_of_byte_tokens(tmp_path):
    """What CTC leaves out (repeated tokens, its pad) does not stand between two bytes."""
    vocab = {t: i for i, t in enumerate(["<0x41>", "<0xC3>", "<0xA9>", "<0x82>", "<0xE4>", "<0xB8>", "<0xAD>", "a", "aa", "xa", "|", "y"])}
    t = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="y"))
    t.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.CTC("a", "|", False), tokenizers.decoders.ByteFallback()])
    t.save(str(tmp_path / "tokenizer.json"))
    r = texts.seed("ctc")
    lists = [[0, 7, 3], [1, 7, 2], [1, 2, 2], [4, 4, 5, 8, 7, 6], [1, 9, 2]] + [r.choices(range(len(vocab)), k=r.randrange(1, 12)) for _ in range(4000)]
    with Probe(tmp_path) as ours:
        want = [t.decode(x, skip_special_tokens=False) for x in lists]
        for ids, a, b, c in zip(lists, ours.decode(lists, False), ours.decode(lists, False, incremental=True), want):
            assert a.decode() == c, ids
            assert b == a or "\ufffd" in c, ids


@pytest.mark.slow
@pytest.mark.parametrize("case", range(162, 2160))
def test_more_chains(tmp_path, case, record_property):
    run(tmp_path, str(case))
    record_property("trained tokenizers", 1)
