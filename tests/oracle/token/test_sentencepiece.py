"""SentencePiece models beside SentencePiece 0.2.3 itself: trained on the spot with every option, and their pieces' types changed."""
import io
import pathlib
import sys

import pytest
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import chains  # noqa: E402
import texts  # noqa: E402
from probe import Probe  # noqa: E402

assert sentencepiece.__version__ == "0.2.3"
TYPES = sentencepiece_model_pb2.ModelProto.SentencePiece
SYMBOLS = ["<turn>", "\n\n", "[x]", "▁▁", "中文", "ab"]


def trained(r, kind):
    out = io.BytesIO()
    lines = [line for t in chains.corpus()[:80] for line in t.splitlines() if "\0" not in line][:1500]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, vocab_size=r.choice([600, 900]), model_type=kind, hard_vocab_limit=False, minloglevel=2, num_threads=2,
        byte_fallback=r.random() < 0.5, add_dummy_prefix=r.random() < 0.7, remove_extra_whitespaces=r.random() < 0.6, character_coverage=0.99,
        normalization_rule_name=r.choice(["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf"]), user_defined_symbols=r.sample(SYMBOLS, r.randrange(0, 4)),
        split_by_whitespace=r.random() < 0.7, allow_whitespace_only_pieces=r.random() < 0.5, split_digits=r.random() < 0.5, control_symbols=["<ctl>"], train_extremely_large_corpus=False,
        max_sentence_length=8000)
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(out.getvalue())
    if r.random() < 0.4:  # pieces that the model may not give
        for p in r.sample(list(m.pieces), 40):
            if p.type == TYPES.NORMAL:
                p.type = TYPES.UNUSED
    if r.random() < 0.3:  # scores that tie
        for p in m.pieces:
            p.score = round(p.score / 2) * 2
    return m.SerializeToString()


def check(tmp_path, blob, r):
    (tmp_path / "tokenizer.model").write_bytes(blob)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=blob)
    batch = ["", " ", "  a  b ", "▁a", "<turn>", " <turn> user\n\n", "ab<turn>ab  ", "\u00a0x\u3000y", "ﬁ ½ Ⅷ ｱﾞ"]
    batch += list(texts.mixes(r, 250, SYMBOLS + ["<unk>", "<0x41>"])) + texts.ordinary(r, 25) + [t[:2000] for t in list(texts.runs(texts.seed("spm runs")))[::4]]
    batch = [t for t in batch if "\0" not in t and "<s>" not in t and "</s>" not in t and "<ctl>" not in t]
    with Probe(tmp_path) as ours:
        want = [theirs.encode(t) for t in batch]
        for text, a, b in zip(batch, ours.encode(batch), want):
            assert a == b, repr(text)
        n = theirs.get_piece_size()
        lists = want + [[r.randrange(n) for _ in range(r.randrange(1, 25))] for _ in range(300)]
        lists += [[r.choice([i for i in range(n) if theirs.is_byte(i)] or [5]) for _ in range(6)] for _ in range(60)]
        for incremental in (False, True):
            for ids, got in zip(lists, ours.decode(lists, False, incremental)):
                assert got.decode() == theirs.decode(ids), [theirs.id_to_piece(i) for i in ids]


@pytest.mark.parametrize("case", range(8))
def test_tk11_trained(tmp_path, case):
    r = texts.seed("spm %d" % case)
    check(tmp_path, trained(r, "bpe" if case % 2 else "unigram"), r)


@pytest.mark.slow
@pytest.mark.parametrize("case", range(8, 150))
def test_more_trained(tmp_path, case):
    r = texts.seed("spm %d" % case)
    check(tmp_path, trained(r, "bpe" if case % 2 else "unigram"), r)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tk01_user_defined_symbols_of_a_client(tmp_path, kind):
    """A user-defined symbol that counts as a control token is plain text where a client wrote it."""
    r = texts.seed("spm symbols")
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(chains.corpus()[0].splitlines() * 3), model_writer=out, vocab_size=500, model_type=kind, hard_vocab_limit=False,
                                             user_defined_symbols=["<turn>"], byte_fallback=True, minloglevel=2)
    (tmp_path / "tokenizer.model").write_bytes(out.getvalue())
    symbol = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue()).piece_to_id("<turn>")
    with Probe(tmp_path) as ours:
        assert symbol in ours.encode_runs([("<turn>", 0), ("hi", 1)], control=[symbol])
        for parts in ([("a<turn>b", 1)], [("<tu", 0), ("rn>", 1)], [("<turn>", 2)]):
            assert symbol not in ours.encode_runs(parts, control=[symbol])
        assert r is not None


def test_refused(tmp_path):
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(trained(texts.seed("spm 1"), "bpe"))
    for change, message in ((lambda x: setattr(x.trainer_spec, "model_type", 3), "`model_type`"),
                            (lambda x: setattr(x.trainer_spec, "treat_whitespace_as_suffix", True), "`treat_whitespace_as_suffix`"),
                            (lambda x: setattr(x.normalizer_spec, "escape_whitespaces", False), "`escape_whitespaces`"),
                            (lambda x: setattr(x.denormalizer_spec, "precompiled_charsmap", b"x"), "`denormalizer_spec`"),
                            (lambda x: setattr(x.pieces[5], "piece", ""), "piece `5`"),
                            (lambda x: setattr(x.normalizer_spec, "precompiled_charsmap", b"\xff\xff\xff\xffabc"), "precompiled map")):
        other = sentencepiece_model_pb2.ModelProto()
        other.CopyFrom(m)
        change(other)
        (tmp_path / "tokenizer.model").write_bytes(other.SerializeToString())
        status, said = Probe(tmp_path).close()
        assert status == 1 and message in said, said
    blob = m.SerializeToString()
    for k in range(0, len(blob), len(blob) // 50):
        (tmp_path / "tokenizer.model").write_bytes(blob[:k])
        status, said = Probe(tmp_path).close()
        assert status in (0, 1)
