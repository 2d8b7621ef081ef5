"""What the output has to look like: which tokens may come next.

Two machines inside xllamacpp's module: llama.cpp's grammar sampler for `grammar` (GBNF), and
llguidance, which llama.cpp itself uses in this build, for JSON schemas, regular expressions,
choices and structural tags (tag.py). A constraint is made per choice, follows it token by token, and
says end-of-sequence is allowed only where the text is complete.
"""

import ctypes
import itertools
import json
import re

import numpy as np

from . import tag
from .llama import TokenDataArray

MAX_TEXT = 65536  # characters in a constraint
MAX_DEPTH = 500
TOKEN_DATA = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Gbnf:
    """llama.cpp's own grammar notation; the start rule is `root`."""

    def __init__(self, llama, text):
        self.lib = llama.lib
        self.candidates = np.zeros(llama.n_vocab, TOKEN_DATA)
        self.candidates["id"] = np.arange(llama.n_vocab)
        self.sampler = None
        # llama.cpp's parser calls itself for each parenthesis and would overflow the stack.
        depths = itertools.accumulate((c == "(") - (c == ")") for c in text)
        if max(depths, default=0) > MAX_DEPTH:
            raise ValueError(f"grammar: more than {MAX_DEPTH} open parentheses")
        # Refused by returning NULL; an empty text would be a sampler that allows everything.
        if text.strip() and "\0" not in text:
            self.sampler = self.lib.llama_sampler_init_grammar(llama.vocab, text.encode(), b"root")
        if not self.sampler:
            raise ValueError("grammar: llama.cpp cannot read it (GBNF with a rule named root)")

    def forbid(self, logits):
        """Sets the logits of what may not come next to minus infinity."""
        self.candidates["logit"] = logits
        array = TokenDataArray(self.candidates.ctypes.data, len(self.candidates), -1, False)
        self.lib.llama_sampler_apply(self.sampler, ctypes.byref(array))
        logits[:] = self.candidates["logit"]

    def accept(self, token):
        """The choice goes on with `token`, which the last `forbid` left allowed."""
        self.lib.llama_sampler_accept(self.sampler, token)

    def __del__(self):
        if self.sampler:
            self.lib.llama_sampler_free(self.sampler)


class LlgTokenizerInit(ctypes.Structure):
    _fields_ = [
        ("vocab_size", ctypes.c_uint32),
        ("tok_eos", ctypes.c_uint32),
        ("token_lens", ctypes.c_void_p),
        ("token_bytes", ctypes.c_void_p),
        ("tokenizer_json", ctypes.c_char_p),
        ("tokenize_assumes_string", ctypes.c_bool),
        ("tokenize_fn", ctypes.c_void_p),
        ("use_approximate_greedy_tokenize_fn", ctypes.c_bool),
        ("tokenize_user_data", ctypes.c_void_p),
        ("slices", ctypes.c_void_p),
        ("opaque", ctypes.c_uint8 * 192),
    ]


class LlgConstraintInit(ctypes.Structure):
    _fields_ = [
        ("tokenizer", ctypes.c_void_p),
        ("log_buffer_level", ctypes.c_uint32),
        ("log_stderr_level", ctypes.c_uint32),
        ("opaque", ctypes.c_uint8 * 240),
    ]


def guidance_tokenizer(llama):
    """llguidance's view of the vocabulary: the bytes of each token, 0xff before a control token's
    name. Made at the first use (0.2 s) and kept with the model."""
    with llama.guidance_lock:
        if not llama.guidance:
            llama.guidance = new_guidance_tokenizer(llama)
        return llama.guidance


def new_guidance_tokenizer(llama):
    pieces = []
    for token in range(llama.n_vocab):
        text = llama.piece(token, False)
        pieces.append(text or b"\xff" + llama.piece(token, True))
    lengths = np.array([len(p) for p in pieces], np.uint32)
    text = np.frombuffer(b"".join(pieces), np.uint8)
    init = LlgTokenizerInit(
        vocab_size=llama.n_vocab,
        tok_eos=llama.end_tokens()[0],
        token_lens=lengths.ctypes.data,
        token_bytes=text.ctypes.data,
        use_approximate_greedy_tokenize_fn=True,
    )
    error = ctypes.create_string_buffer(1024)
    tokenizer = llama.lib.llg_new_tokenizer(ctypes.byref(init), error, len(error))
    if not tokenizer:
        raise RuntimeError("llguidance: " + error.value.decode("utf-8", "replace"))
    return tokenizer


class Guidance:
    def __init__(self, llama, field, kind, data):
        self.lib = llama.lib
        init = LlgConstraintInit()
        self.lib.llg_constraint_init_set_defaults(ctypes.byref(init), guidance_tokenizer(llama))
        init.log_stderr_level = 0
        self.matcher = self.lib.llg_new_matcher(ctypes.byref(init), kind.encode(), data.encode())
        self.mask = np.zeros((llama.n_vocab + 31) // 32, np.uint32)
        try:
            self._check()
        except RuntimeError as e:
            raise ValueError(f"{field}: {e}") from None

    def _check(self):
        error = self.lib.llg_matcher_get_error(self.matcher)
        if error:
            raise RuntimeError(error.decode("utf-8", "replace").strip())

    def forbid(self, logits):
        mask = self.mask
        self.lib.llg_matcher_compute_mask_into(self.matcher, mask.ctypes.data, mask.nbytes)
        self._check()
        allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[: len(logits)]
        logits[allowed == 0] = -np.inf

    def accept(self, token):
        self.lib.llg_matcher_consume_token(self.matcher, token)
        self._check()

    def __del__(self):
        self.lib.llg_free_matcher(self.matcher)


def json_schema(text):
    """The schema as llguidance takes it. Between JSON's tokens we allow one form of white space: a
    small model left free to choose can write blank lines until max_tokens."""
    try:
        schema = json.loads(text)
    except ValueError as e:
        raise ValueError(f"json_schema: not JSON: {e}") from None
    if isinstance(schema, dict):
        compact = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
        schema = {"x-guidance": compact, **schema}
    elif not isinstance(schema, bool):
        raise ValueError("json_schema: neither an object nor a boolean")
    return json.dumps(schema)


def make(llama, field, value):
    """The constraint for the field of SamplingParams that is set; ValueError says what is wrong."""
    if len(str(value)) > MAX_TEXT:
        raise ValueError(f"{field}: longer than {MAX_TEXT} characters")
    if field == "grammar":
        return Gbnf(llama, value)
    if "\0" in str(value):
        raise ValueError(f"{field}: contains a NUL")
    if field == "json_schema":
        return Guidance(llama, field, "json", json_schema(value))
    if field == "json_object":
        return Guidance(llama, field, "json", json_schema('{"type": "object"}')) if value else None
    if field == "regex":
        return Guidance(llama, field, "regex", value)
    if field == "structural_tag":
        return Guidance(llama, field, "lark", tag.lark(value, llama.n_vocab))
    if field == "choice":
        choices = list(value.choices)
        if not choices or not all(choices):
            raise ValueError("choice: needs at least one choice and no empty one")
        return Guidance(llama, field, "regex", "|".join(map(regex_literal, choices)))
    raise ValueError(f"{field}: the demo engine has no such constraint")


def regex_literal(text):
    return re.sub(r"[^A-Za-z0-9 _\u0080-\U0010ffff]", lambda m: f"\\x{ord(m[0]):02x}", text)
