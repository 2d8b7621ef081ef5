"""The JSON-Schema-Test-Suite, as PyPI's source distribution of jsonschema has it."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import pypi  # noqa: E402

NAME, VERSION, SHA256 = "jsonschema", "4.26.0", "0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326"
FOLDERS = {"2020-12": "draft2020-12", "7": "draft7"}
HOST = "http://localhost:1234/"  # where the suite's remote documents are said to be


def _place(path):
    return pathlib.Path(*path.parts[2:]) if path.parts[1:2] == ("json",) and path.suffix == ".json" else None


def folder():
    return pypi.unpacked(NAME, VERSION, SHA256, _place)


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
