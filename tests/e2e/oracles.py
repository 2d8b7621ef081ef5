"""The truth: Hugging Face's libraries for ids and text, the sim engine asked without a gateway for tokens and log-probabilities."""

import functools
import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import grpc  # noqa: E402
import tokenizers  # noqa: E402
import transformers  # noqa: E402
from smg_grpc_proto.generated import vllm_engine_pb2 as pb  # noqa: E402
from smg_grpc_proto.generated import vllm_engine_pb2_grpc  # noqa: E402


class Hf:
    """A tokenizer and chat template of a folder with tokenizer.json and tokenizer_config.json."""

    def __init__(self, folder):
        self.folder = folder
        self.fast = transformers.AutoTokenizer.from_pretrained(folder)
        self.raw = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.added = {i: str(t) for i, t in self.fast.added_tokens_decoder.items()}
        self.special = [str(t) for t in self.fast.added_tokens_decoder.values() if t.special]

    def encode(self, text):
        return self.raw.encode(text, add_special_tokens=True).ids

    @functools.cached_property
    def _without_added(self):
        value = json.loads((self.folder / "tokenizer.json").read_text())
        value["added_tokens"] = []
        return tokenizers.Tokenizer.from_str(json.dumps(value))

    def encode_plain(self, text):
        """Ids when no added token is matched."""
        return self._without_added.encode(text, add_special_tokens=False).ids

    def decode(self, ids, skip_special=True):
        return self.raw.decode(list(ids), skip_special_tokens=skip_special)

    def chat_ids(self, messages, **kw):
        kw.setdefault("add_generation_prompt", True)
        found = self.fast.apply_chat_template(messages, tokenize=True, return_dict=True, **kw)
        return list(found["input_ids"])

    def token_bytes(self, token):
        """A token's own bytes. Ordinary tokens are written in the byte-level alphabet."""
        if token in self.added:
            return self.added[token].encode()
        text = self.raw.id_to_token(token)  # None: a row that only pads the vocabulary
        return bytes(BYTE_OF[c] for c in text or "")


def _byte_level():
    """GPT-2's alphabet: printable bytes are themselves, the others follow from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


BYTE_OF = _byte_level()


class Tokens:
    """What an engine answers to ids, asked directly over gRPC: ids, log-probabilities, how it ended."""

    def __init__(self, complete):
        self.ids = list(complete.output_ids)
        self.finish = complete.finish_reason
        self.logprobs = list(complete.output_logprobs.token_logprobs)
        self.top = [
            list(zip(t.token_ids, t.values, strict=True)) for t in complete.output_logprobs.top_logprobs
        ]


def ask_engine(address, ids, **sampling):
    """One choice of the engine at the address."""
    sampling.setdefault("n", 1)
    with grpc.insecure_channel(address) as channel:
        stub = vllm_engine_pb2_grpc.VllmEngineStub(channel)
        request = pb.GenerateRequest(
            request_id="oracle",
            tokenized=pb.TokenizedInput(input_ids=ids),
            sampling_params=pb.SamplingParams(**sampling),
        )
        (answer,) = stub.Generate(request, timeout=60)
        return Tokens(answer.complete)


def engine_load(address):
    """(running, waiting) of the engine at the address."""
    with grpc.insecure_channel(address) as channel:
        (load,) = (
            vllm_engine_pb2_grpc.VllmEngineStub(channel).GetLoads(pb.GetLoadsRequest(), timeout=60).loads
        )
        return load.num_running_reqs, load.num_waiting_reqs
