"""Tokenizers of Hugging Face's library with random components, trained on the spot; the same seed gives the same one."""
import functools
import io
import json
import pathlib
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import texts  # noqa: E402

BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
REGEXES = [r"\s+", r"\p{L}+", r"[^\p{L}\s]", r"\d{2,3}", r"(?i:'s|'t|'re)|\w+|[^\w\s]+", r"(?<=[a-z])(?=[A-Z])", r"\p{Lu}\p{Ll}*", r"[一-龥ぁ-ゟ゠-ヿ]+",
           r"\p{Han}|\p{Hiragana}+", r"[\p{P}\p{S}]", r"x*", r"^\s|\s$", r"[[a-f]&&[^c]]+|\p{^L}{2}", r"(?:ab|a)(?!c)", r".", r"[\r\n/]+", r"\h\h", r"[^a-z]+?e",
           r"\p{N}{1,3}(?=(?:\p{N}{3})*$)", r"(\s+)|(?>[\p{M}]+)", r"\x{1F600}|\u00e9|\t", r"[\]\-\\^]", r" ?[^\s\p{L}\p{N}]+[\r\n]*"]
STRINGS = [" ", "a", "ab", "\n", "▁", "é", "the", "  ", "中", "'", "\u0301"]


@functools.cache
def corpus():
    r = texts.seed("chains corpus")
    out = texts.ordinary(r, 25)
    return [t[:1500] for t in out] + list(texts.mixes(r, 200)) + [w for w in texts.WORDS for _ in range(3)]


@functools.cache
def charsmap():
    """SentencePiece's nmt_nfkc map, out of a model that it trains."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["the quick brown fox"] * 20), model_writer=out, vocab_size=20, hard_vocab_limit=False, model_type="char",
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    m = sentencepiece_model_pb2.ModelProto()
    m.ParseFromString(out.getvalue())
    return m.normalizer_spec.precompiled_charsmap


def precompiled():
    return normalizers.Precompiled(charsmap())


def pattern(r):
    return Regex(r.choice(REGEXES)) if r.random() < 0.6 else r.choice(STRINGS)


def one_normalizer(r):
    return r.choice([
        normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase, normalizers.StripAccents, normalizers.Nmt, precompiled,
        lambda: normalizers.Strip(r.random() < 0.7, r.random() < 0.7),
        lambda: normalizers.Prepend(r.choice(["▁", "ab", "x"])),
        lambda: normalizers.Replace(pattern(r), r.choice(["", "▁", " ", "xy", "é"])),
        lambda: normalizers.Replace(" ", "▁"),
        lambda: normalizers.BertNormalizer(r.random() < 0.8, r.random() < 0.8, r.choice([None, True, False]), r.random() < 0.7),
        lambda: normalizers.ByteLevel(),
    ])()


def normalizer(r):
    if r.random() < 0.25:
        return None
    if r.random() < 0.5:
        return one_normalizer(r)
    return normalizers.Sequence([one_normalizer(r) for _ in range(r.randrange(1, 4))])


def one_pre_tokenizer(r):
    return r.choice([
        pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, pre_tokenizers.BertPreTokenizer, pre_tokenizers.UnicodeScripts,
        lambda: pre_tokenizers.ByteLevel(r.random() < 0.5, use_regex=r.random() < 0.6),
        lambda: pre_tokenizers.Split(pattern(r), r.choice(BEHAVIORS), r.random() < 0.3),
        lambda: pre_tokenizers.Metaspace("▁", r.choice(["always", "first", "never"]), r.random() < 0.6),
        lambda: pre_tokenizers.Digits(r.random() < 0.5),
        lambda: pre_tokenizers.Punctuation(r.choice(BEHAVIORS)),
        lambda: pre_tokenizers.CharDelimiterSplit(r.choice("a -▁")),
        lambda: pre_tokenizers.FixedLength(r.randrange(1, 8)),
    ])()


def pre_tokenizer(r):
    if r.random() < 0.15:
        return None
    if r.random() < 0.5:
        return one_pre_tokenizer(r)
    return pre_tokenizers.Sequence([one_pre_tokenizer(r) for _ in range(r.randrange(1, 4))])


def bytes_of(vocab):
    return ["<0x%02X>" % b for b in range(256)] if vocab else []


def model(r, norm, pre):
    """A trained model; a tokenizer with these two in front."""
    kind = r.choice(["bpe", "bpe", "unigram", "wordpiece", "wordlevel"])
    unk = r.choice(["<unk>", "<unk>", None])
    special = [unk] if unk else []
    if kind == "bpe":
        fallback = r.random() < 0.4
        prefix, suffix = r.choice([(None, None), (None, None), (None, "</w>"), ("##", None), ("@@", "_")])
        options = {k: v for k, v in (("continuing_subword_prefix", prefix), ("end_of_word_suffix", suffix)) if v is not None}
        named = {"unk_token": unk} if unk else {}
        t = Tokenizer(models.BPE(byte_fallback=fallback, fuse_unk=r.random() < 0.5, ignore_merges=r.random() < 0.2, **named, **options))
        trainer = trainers.BpeTrainer(vocab_size=r.choice([300, 600, 1200]), special_tokens=special + bytes_of(fallback), show_progress=False, limit_alphabet=r.choice([80, 400]), **options)
    elif kind == "unigram":
        fallback = r.random() < 0.4
        t = Tokenizer(models.Unigram())
        trainer = trainers.UnigramTrainer(vocab_size=r.choice([300, 700]), special_tokens=["<unk>"] + bytes_of(fallback), unk_token="<unk>", show_progress=False)
    elif kind == "wordpiece":
        t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=r.choice([100, 20, 5])))
        trainer = trainers.WordPieceTrainer(vocab_size=r.choice([300, 900]), special_tokens=["[UNK]"], show_progress=False)
    else:
        t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
        trainer = trainers.WordLevelTrainer(vocab_size=500, special_tokens=["[UNK]"], show_progress=False)
    if norm is not None:
        t.normalizer = norm
    if pre is not None:
        t.pre_tokenizer = pre
    t.train_from_iterator(corpus(), trainer)
    if kind == "unigram":
        d = json.loads(t.to_str())
        d["model"]["byte_fallback"] = fallback
        if r.random() < 0.15:
            d["model"]["unk_id"] = None
        t = Tokenizer.from_str(json.dumps(d))
    return t


CONTENTS = ["<x>", "<s>", "</s>", "ab", "the", "The", "é", "e\u0301", "中文", " <m>", "<m> ", "Ⅷ", "ﬁ", "\n\n", "▁", "İ"]


def add_tokens(r, t):
    for content in r.sample(CONTENTS, r.randrange(0, 6)):
        flags = {k: r.random() < 0.3 for k in ("single_word", "lstrip", "rstrip", "normalized")}
        token = AddedToken(content, special=(special := r.random() < 0.4), **flags)
        (t.add_special_tokens if special else t.add_tokens)([token])


def one_decoder(r):
    return r.choice([
        decoders.ByteFallback, decoders.Fuse, decoders.ByteLevel,
        lambda: decoders.Replace(pattern(r), r.choice([" ", "", "xy"])),
        lambda: decoders.Replace("▁", " "),
        lambda: decoders.Strip(r.choice(" ▁a"), r.randrange(3), 0),
        lambda: decoders.Metaspace("▁", r.choice(["always", "first", "never"])),
        lambda: decoders.WordPiece("##", r.random() < 0.5),
        lambda: decoders.BPEDecoder(r.choice(["</w>", "_"])),
        lambda: decoders.CTC("a", "|", r.random() < 0.5),
    ])()


CHAINS = [
    lambda: [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)],
    lambda: [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()],
    lambda: [decoders.ByteFallback(), decoders.Fuse(), decoders.Replace("▁", " "), decoders.Strip(" ", 1, 1)],
    lambda: [decoders.Fuse(), decoders.WordPiece("##", True)],
    lambda: [decoders.WordPiece("##", True)],
    lambda: [decoders.ByteLevel(), decoders.Replace("ab", "b"), decoders.Strip("a", 2, 2)],
]


def decoder(r):
    roll = r.random()
    if roll < 0.2:
        return None
    if roll < 0.5:
        return one_decoder(r)
    if roll < 0.8:
        return decoders.Sequence(r.choice(CHAINS)())
    return decoders.Sequence([one_decoder(r) for _ in range(r.randrange(1, 4))])


def post_processor(r, t):
    names = [n for n in ("<unk>", "[UNK]", "<s>", "</s>", "ab") if t.token_to_id(n) is not None]
    if not names or r.random() < 0.5:
        return r.choice([None, processors.ByteLevel()])
    a, b = r.choice(names), r.choice(names)
    pair_a, pair_b = (a, t.token_to_id(a)), (b, t.token_to_id(b))
    template = processors.TemplateProcessing(single=r.choice(["%s $A", "%s $A %s" % ("%s", b), "$A %s", "%s %s $A" % (b, "%s")]) % a, pair="$A $B", special_tokens=[pair_a, pair_b] if a != b else [pair_a])
    one = r.choice([lambda: template, lambda: processors.BertProcessing(pair_a, pair_b), lambda: processors.RobertaProcessing(pair_a, pair_b)])()
    return r.choice([one, processors.Sequence([processors.ByteLevel(), one]), processors.Sequence([processors.BertProcessing(pair_a, pair_b), template])])


def make(name):
    """A tokenizer, or None where the library itself cannot train or reload it."""
    r = texts.seed("chain " + name)
    try:
        t = model(r, normalizer(r), pre_tokenizer(r))
        add_tokens(r, t)
        if (d := decoder(r)) is not None:
            t.decoder = d
        if (p := post_processor(r, t)) is not None:
            t.post_processor = p
        if r.random() < 0.2:
            t.enable_truncation(r.choice([5, 20]), direction=r.choice(["left", "right"]))
        if r.random() < 0.2:
            t.enable_padding(direction=r.choice(["left", "right"]), pad_id=1, pad_token="a", length=r.choice([None, 12]), pad_to_multiple_of=r.choice([None, 4]))
        return Tokenizer.from_str(t.to_str())
    except BaseException as e:  # pyo3's PanicException is no Exception
        if isinstance(e, KeyboardInterrupt):
            raise
        return None
