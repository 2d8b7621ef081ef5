"""What PyPI's source distribution of llama-cpp-python has of llama.cpp's `models` folder: chat templates of real models, and vocabularies.

Fetched once into build/cache, by name, version and hash; only unpacked, nothing of it is run.
"""

import fcntl
import functools
import hashlib
import pathlib
import subprocess
import sys
import tarfile
import tempfile

CACHE = pathlib.Path(__file__).resolve().parents[2] / "build" / "cache"
NAME, VERSION = "llama-cpp-python", "0.3.36"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"


def _wanted(path):
    return path.parent.name == "models" and path.name.startswith("ggml-vocab-") or (
        path.suffix == ".jinja" and path.parts[-3:-1] == ("models", "templates")
    )


def _fetch(folder):
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", NAME, "-d", work,
             f"{NAME}=={VERSION}"], check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        (archive,) = pathlib.Path(work).glob("*.tar.gz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            raise RuntimeError(f"{archive.name}: SHA-256 {found}, expected {SHA256}")
        out = pathlib.Path(work) / "models"
        out.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if member.isfile() and _wanted(path):
                    (out / path.name).write_bytes(tar.extractfile(member).read())
        out.rename(folder)


@functools.cache
def models():
    """The folder with them: *.jinja, and ggml-vocab-*.gguf with `.inp` and `.out` beside some."""
    folder = CACHE / f"{NAME}-{VERSION}-models"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "llama-cpp-python.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _fetch(folder)
    return folder
