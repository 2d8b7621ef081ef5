"""llama.cpp by ctypes: the C functions of llama.h inside PyPI xllamacpp's extension module.

Why not xllamacpp's own Python API or its HTTP server: a streamed answer there leaves out the ids of
tokens that end inside a UTF-8 character (an emoji takes three or four), and ids are all we deal in.
The module exports the whole of llama.h, so we run llama_decode ourselves and see every token, every
logit, and can stop between any two steps.

The version of xllamacpp is pinned (hack/requirements-demo.txt). Of the two big parameter structs
only the leading fields are named; the rest is padding filled by llama.cpp's own defaults, and after
loading we ask llama.cpp back what it understood. decode, logits and truncate belong to one thread;
the rest only reads the model.
"""

import ctypes
import importlib.util
import pathlib
import sys
import threading

import numpy as np

c_int32_p = ctypes.POINTER(ctypes.c_int32)
LOG_ERROR = 4
MAX_PIECE = 4096


class ModelParams(ctypes.Structure):
    # Never looked into, only carried from llama_model_default_params to llama_model_load_from_file.
    _fields_ = [("opaque", ctypes.c_uint8 * 512)]
    _align_ = 8


class ContextParams(ctypes.Structure):
    _fields_ = [
        ("n_ctx", ctypes.c_uint32),
        ("n_batch", ctypes.c_uint32),
        ("n_ubatch", ctypes.c_uint32),
        ("n_seq_max", ctypes.c_uint32),
        ("n_rs_seq", ctypes.c_uint32),
        ("n_outputs_max", ctypes.c_uint32),
        ("n_outputs_max_per_seq", ctypes.c_uint32),
        ("n_threads", ctypes.c_int32),
        ("n_threads_batch", ctypes.c_int32),
        ("opaque", ctypes.c_uint8 * 476),
    ]
    _align_ = 8


class CBatch(ctypes.Structure):
    _fields_ = [
        ("n_tokens", ctypes.c_int32),
        ("token", c_int32_p),
        ("embd", ctypes.c_void_p),
        ("pos", c_int32_p),
        ("n_seq_id", c_int32_p),
        ("seq_id", ctypes.POINTER(c_int32_p)),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


class TokenDataArray(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    ]


LOG_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


@LOG_CALLBACK
def log_errors(level, text, _):
    if level == LOG_ERROR and text:
        sys.stderr.write("llama.cpp: " + text.decode("utf-8", "replace"))


def load_library():
    spec = importlib.util.find_spec("xllamacpp")
    if spec is None:
        raise ImportError("PyPI xllamacpp is not installed (hack/venv demo installs it)")
    files = sorted(pathlib.Path(spec.origin).parent.glob("xllamacpp*.so"))
    if not files:
        raise ImportError(f"no xllamacpp*.so beside {spec.origin}")
    lib = ctypes.CDLL(str(files[0]))
    ptr, i32, boolean, string = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_char_p
    u32, size = ctypes.c_uint32, ctypes.c_size_t
    signatures = {
        "llama_backend_init": (None,),
        "llama_log_set": (None, LOG_CALLBACK, ptr),
        "llama_model_default_params": (ModelParams,),
        "llama_model_load_from_file": (ptr, string, ModelParams),
        "llama_model_free": (None, ptr),
        "llama_model_get_vocab": (ptr, ptr),
        "llama_model_n_ctx_train": (i32, ptr),
        "llama_model_desc": (i32, ptr, string, size),
        "llama_model_meta_val_str": (i32, ptr, string, string, size),
        "llama_context_default_params": (ContextParams,),
        "llama_init_from_model": (ptr, ptr, ContextParams),
        "llama_free": (None, ptr),
        "llama_n_ctx_seq": (u32, ptr),
        "llama_n_batch": (u32, ptr),
        "llama_n_ubatch": (u32, ptr),
        "llama_n_seq_max": (u32, ptr),
        "llama_n_threads": (i32, ptr),
        "llama_n_threads_batch": (i32, ptr),
        "llama_get_memory": (ptr, ptr),
        "llama_memory_seq_rm": (boolean, ptr, i32, i32, i32),
        "llama_decode": (i32, ptr, CBatch),
        "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), ptr, i32),
        "llama_vocab_n_tokens": (i32, ptr),
        "llama_vocab_bos": (i32, ptr),
        "llama_vocab_eos": (i32, ptr),
        "llama_vocab_pad": (i32, ptr),
        "llama_vocab_is_eog": (boolean, ptr, i32),
        "llama_token_to_piece": (i32, ptr, i32, string, i32, i32, boolean),
        # constraint.py: llama.cpp's grammars, and llguidance, which this build of it has inside
        "llama_sampler_init_grammar": (ptr, ptr, string, string),
        "llama_sampler_apply": (None, ptr, ctypes.POINTER(TokenDataArray)),
        "llama_sampler_accept": (None, ptr, i32),
        "llama_sampler_free": (None, ptr),
        "llg_new_tokenizer": (ptr, ptr, string, size),
        "llg_constraint_init_set_defaults": (None, ptr, ptr),
        "llg_new_matcher": (ptr, ptr, string, string),
        "llg_free_matcher": (None, ptr),
        "llg_matcher_get_error": (string, ptr),
        "llg_matcher_compute_mask_into": (i32, ptr, ptr, size),
        "llg_matcher_consume_token": (i32, ptr, u32),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.llama_log_set(log_errors, None)
    lib.llama_backend_init()
    return lib


class Batch:
    """What one llama_decode call works on: up to `size` tokens, each with its sequence and its
    position in it. `wants[i]` says whether the logits after token i are needed."""

    def __init__(self, size):
        self.size = size
        self.token = np.zeros(size, np.int32)
        self.pos = np.zeros(size, np.int32)
        self.wants = np.zeros(size, np.int8)
        self.sequence = np.zeros(size, np.int32)
        self.one = np.ones(size, np.int32)
        address = self.sequence.ctypes.data
        self.pointers = (c_int32_p * size)(
            *(ctypes.cast(address + 4 * i, c_int32_p) for i in range(size))
        )
        self.n = 0

    def add(self, sequence, position, tokens, wants):
        """Appends consecutive tokens of one sequence; returns the index of the first."""
        first, end = self.n, self.n + len(tokens)
        self.token[first:end] = tokens
        self.pos[first:end] = np.arange(position, position + len(tokens))
        self.sequence[first:end] = sequence
        self.wants[first:end] = wants
        self.n = end
        return first

    def as_c(self):
        return CBatch(
            self.n,
            self.token.ctypes.data_as(c_int32_p),
            None,
            self.pos.ctypes.data_as(c_int32_p),
            self.one.ctypes.data_as(c_int32_p),
            self.pointers,
            self.wants.ctypes.data_as(ctypes.POINTER(ctypes.c_int8)),
        )


class Llama:
    """A model and one context with room for `n_seq` sequences of `n_ctx` tokens each."""

    def __init__(self, path, n_ctx, n_seq, n_batch, n_threads):
        self.lib = load_library()
        params = self.lib.llama_model_default_params()
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise ValueError(f"{path}: llama.cpp cannot load this model")
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.n_vocab = self.lib.llama_vocab_n_tokens(self.vocab)
        trained = self.lib.llama_model_n_ctx_train(self.model)
        if n_ctx > trained:
            raise ValueError(f"--ctx {n_ctx}: {path} was trained for {trained} tokens")
        self.n_ctx = n_ctx
        self.context = self._new_context(n_ctx, n_seq, n_batch, n_threads)
        self.memory = self.lib.llama_get_memory(self.context)
        self.pieces = {}
        self.guidance = None  # constraint.py's tokenizer
        self.guidance_lock = threading.Lock()

    def _new_context(self, n_ctx, n_seq, n_batch, n_threads):
        params = self.lib.llama_context_default_params()
        # llama.cpp rounds a sequence's room up to a multiple of 256; we hold it to n_ctx ourselves.
        params.n_ctx = n_seq * ((n_ctx + 255) // 256 * 256)
        params.n_batch = params.n_ubatch = n_batch
        params.n_seq_max = n_seq
        params.n_threads = params.n_threads_batch = n_threads
        context = self.lib.llama_init_from_model(self.model, params)
        if not context:
            raise ValueError(f"llama.cpp has no room for {n_seq} sequences of {n_ctx} tokens")
        understood = [
            self.lib.llama_n_ctx_seq(context) >= n_ctx,
            self.lib.llama_n_batch(context) == n_batch,
            self.lib.llama_n_ubatch(context) == n_batch,
            self.lib.llama_n_seq_max(context) == n_seq,
            self.lib.llama_n_threads(context) == n_threads,
            self.lib.llama_n_threads_batch(context) == n_threads,
        ]
        if not all(understood):
            raise RuntimeError(f"this xllamacpp has another llama_context_params ({understood})")
        return context

    def close(self):
        self.lib.llama_free(self.context)
        self.lib.llama_model_free(self.model)

    def decode(self, batch):
        """Runs the batch. Raises RuntimeError; the sequences in it are then in an unknown state."""
        code = self.lib.llama_decode(self.context, batch.as_c())
        if code != 0:
            raise RuntimeError(f"llama_decode failed with {code}")

    def logits(self, index):
        """The logits after batch token `index`; valid until the next decode, not to be changed."""
        address = self.lib.llama_get_logits_ith(self.context, index)
        if not address:
            raise RuntimeError(f"llama.cpp has no logits for token {index} of the batch")
        return np.ctypeslib.as_array(address, (self.n_vocab,))

    def truncate(self, sequence, length):
        """Forgets what is cached of a sequence from position `length` on. False: this kind of model
        cannot, and nothing has changed."""
        return self.lib.llama_memory_seq_rm(self.memory, sequence, length, -1)

    def piece(self, token, special):
        """The bytes of a token; those of control tokens only if `special`."""
        key = (token, special)
        if key not in self.pieces:
            room = ctypes.create_string_buffer(MAX_PIECE)
            n = self.lib.llama_token_to_piece(self.vocab, token, room, MAX_PIECE, 0, special)
            self.pieces[key] = room.raw[: max(n, 0)]
        return self.pieces[key]

    def metadata(self, key):
        room = ctypes.create_string_buffer(MAX_PIECE)
        n = self.lib.llama_model_meta_val_str(self.model, key.encode(), room, MAX_PIECE)
        return room.value.decode("utf-8", "replace") if n >= 0 else None

    def description(self):
        room = ctypes.create_string_buffer(MAX_PIECE)
        self.lib.llama_model_desc(self.model, room, MAX_PIECE)
        return room.value.decode("utf-8", "replace")

    def end_tokens(self):
        """The ids that end a generation, the model's end-of-sequence token first."""
        first = self.lib.llama_vocab_eos(self.vocab)
        others = [t for t in range(self.n_vocab) if self.lib.llama_vocab_is_eog(self.vocab, t)]
        return [first] * (first >= 0) + [t for t in others if t != first]
