"""The JSON-Schema-Test-Suite, as PyPI's source distribution of jsonschema has it.

Fetched once into build/cache, by name, version and hash; only unpacked, nothing of it is run.
"""

import fcntl
import functools
import hashlib
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

CACHE = pathlib.Path(__file__).resolve().parents[3] / "build" / "cache"
NAME, VERSION = "jsonschema", "4.26.0"
SHA256 = "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
FOLDERS = {"2020-12": "draft2020-12", "7": "draft7"}
HOST = "http://localhost:1234/"  # where the suite's remote documents are said to be


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
        out = pathlib.Path(work) / "suite"
        with tarfile.open(archive) as tar:
            for member in tar:
                path = pathlib.PurePosixPath(member.name)
                if member.isfile() and path.parts[1:2] == ("json",) and path.suffix == ".json":
                    target = out.joinpath(*path.parts[2:])
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(tar.extractfile(member).read())
        out.rename(folder)


@functools.cache
def folder():
    path = CACHE / f"json-schema-test-suite-{VERSION}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "json-schema-test-suite.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _fetch(path)
    return path


def documents():
    """URI -> the suite's remote document, as bytes; those of other drafts left out."""
    remotes = folder() / "remotes"
    others = {"draft3", "draft4", "draft6", "draft2019-09", "draft-next"}
    files = [f for f in remotes.rglob("*.json") if f.relative_to(remotes).parts[0] not in others]
    return {HOST + f.relative_to(remotes).as_posix(): f.read_bytes() for f in files}


def groups(draft, under=""):
    """(file, group) of a draft's tests, straight in that folder. Texts of JSON stay as they were written."""
    for f in sorted((folder() / "tests" / FOLDERS[draft] / under).glob("*.json")):
        for group in json.loads(f.read_text(), parse_float=Number, parse_int=Number):
            yield f.stem, group


class Number(float):
    """A number that is written as it was read."""

    def __new__(cls, text):
        n = super().__new__(cls, text)
        n.text = text
        return n

    def __repr__(self):
        return self.text


def dumps(value):
    if isinstance(value, Number):
        return value.text
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + dumps(v) for k, v in value.items()) + "}"
    return json.dumps(value)
