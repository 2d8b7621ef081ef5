"""xgrammar, the library that vLLM and SGLang constrain with, over a vocabulary of single bytes and a few control tokens. Its own package imports PyTorch, for the masks
that engines want as tensors; a matcher needs none, so the package's front door is left out and its modules are imported one by one."""

import importlib.util
import sys
import types

if "xgrammar" not in sys.modules:
    spec = importlib.util.find_spec("xgrammar")
    package = types.ModuleType("xgrammar")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["xgrammar"] = package

import xgrammar.load_binding  # noqa: E402, F401
from xgrammar.base import _core  # noqa: E402
from xgrammar.compiler import GrammarCompiler  # noqa: E402
from xgrammar.tokenizer_info import TokenizerInfo, VocabType  # noqa: E402


class Vocabulary:
    """Ids below 256 are bytes, then the controls, then the end of the answer."""

    def __init__(self, controls):
        self.controls = list(controls)
        self.end = 256 + len(self.controls)
        words = [bytes([i]) for i in range(256)] + [c.encode() for c in self.controls] + [b"<end of it>"]
        info = TokenizerInfo(words, vocab_type=VocabType.RAW, vocab_size=len(words), stop_token_ids=[self.end])
        self.compiler = GrammarCompiler(info, max_threads=1)
        self.longest = sorted(range(len(self.controls)), key=lambda i: -len(self.controls[i]))

    def encode(self, text):
        """Controls where the text has them, bytes between."""
        ids, i = [], 0
        while i < len(text):
            k = next((k for k in self.longest if text.startswith(self.controls[k], i)), None)
            if k is None:
                ids += text[i].encode()
                i += 1
            else:
                ids.append(256 + k)
                i += len(self.controls[k])
        return ids

    def decode(self, ids):
        return b"".join(bytes([i]) if i < 256 else self.controls[i - 256].encode() for i in ids).decode("utf-8", "replace")

    def matcher(self, tag):
        _core.Grammar.from_structural_tag(tag)  # what vLLM does before it has a tokenizer
        return Matcher(self, self.compiler.compile_structural_tag(tag))

    def schema_matcher(self, schema):
        return Matcher(self, self.compiler.compile_json_schema(schema))


class Matcher:
    def __init__(self, vocabulary, compiled):
        self.end = vocabulary.end
        self.core = _core.GrammarMatcher(compiled._handle, None, False, -1, None)

    def accept(self, token):
        return self.core.accept_token(token, False)

    def stops_at(self, ids):
        """How many of the ids are accepted; len(ids) + 1: all, and the answer may end there."""
        self.core.reset()
        for n, token in enumerate(ids):
            if not self.accept(token):
                return n
        return len(ids) + self.accept(self.end)

    def takes(self, ids):
        return self.stops_at(ids) == len(ids) + 1

    def word(self, ids):
        """All of the ids, or none."""
        for n, token in enumerate(ids):
            if not self.accept(token):
                if n:
                    self.core.rollback(n)
                return False
        return True

    def walk(self, rng, words=(), most=400):
        """A random output: what may come next is tried out, the words and what ends JSON more often; None: it did not end in time."""
        self.core.reset()
        ids = []
        common = list(b'"}],:{[ \n<>/=0157abe.-tf\\u')
        while len(ids) < most:
            n = len(ids)
            if (n > 30 or rng.random() < 0.3) and self.accept(self.end):
                return ids
            word = rng.choice(words) if words and rng.random() < 0.2 + n / most else None
            if word and self.word(word):
                ids += word
                continue
            closers = list(b'"}]') if rng.random() < 0.3 + n / most else []
            controls = list(range(256, self.end)) if rng.random() < 0.1 else []
            tries = controls + closers + rng.sample(common, len(common)) + list(range(self.end))
            token = next((t for t in tries if self.accept(t)), None)
            if token is None:
                return ids if self.accept(self.end) else ("stuck", ids)
            ids.append(token)
        return None
