"""The JSON-Schema-Test-Suite: all required tests of both drafts, and the optional ones but for those listed. Each instance goes in whole, byte by byte and cut at every
place, and as a value; the helper says when they do not agree."""

import json
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import golang  # noqa: E402
import suite  # noqa: E402

# Groups of optional tests that do not pass (docs/structured-output.md says why).
FORMATS = {
    ("idn-email", "validation of an internationalized e-mail addresses"),
    ("idn-hostname", "validation of internationalized host names"),
    ("idn-hostname", "validation of separators in internationalized host names"),
    ("iri", "validation of IRIs"),
    ("iri-reference", "validation of IRI References"),
    ("uri-template", "format: uri-template"),
}
OPTIONAL_NOT = {
    "2020-12": FORMATS | {("cross-draft", "refs to historic drafts are processed as historic drafts")},
    "7": FORMATS
    | {
        ("content", "validation of string-encoded content based on media type"),
        ("content", "validation of binary string-encoding"),
        ("content", "validation of binary-encoded media type documents"),
        ("cross-draft", "refs to future drafts are processed as future drafts"),
    },
}
DOCUMENTS = "{" + ",".join(json.dumps(uri) + ":" + text.decode() for uri, text in suite.documents().items()) + "}"


@pytest.fixture(scope="module")
def ours():
    return golang.Framed(golang.helper("jsonschema", "check"))


def failures(ours, draft, under, kind):
    """{(file, group): [what]} and the number of tests."""
    groups, frames, found, n = list(suite.groups(draft, under)), [("d", DOCUMENTS.encode())], {}, 0
    for _, group in groups:
        frames += [(kind, suite.dumps(group["schema"]).encode()), *(("v", suite.dumps(t["data"]).encode()) for t in group["tests"])]
    answers = map(json.loads, ours.ask(frames))
    assert next(answers) == {"ok": True}
    for file, group in groups:
        schema, bad = next(answers), []
        if "error" in schema:
            bad.append(schema["error"])
        for test in group["tests"]:
            n += 1
            answer = next(answers)
            if answer.get("valid") is not test["valid"]:
                bad.append((test["description"], test["valid"], answer))
        if bad:
            found[file, group["description"]] = bad
    return found, n


@pytest.mark.parametrize("draft", ["2020-12", "7"])
def test_required(ours, draft):
    found, n = failures(ours, draft, "", "s" if draft == "2020-12" else "7")
    print(f"{n} required tests of draft {draft}")
    assert not found, "\n".join(f"{k} {v}" for k, v in found.items())
    assert n > (1100 if draft == "2020-12" else 800)


@pytest.mark.parametrize("draft", ["2020-12", "7"])
def test_optional(ours, draft):
    found, n = failures(ours, draft, "optional", "s" if draft == "2020-12" else "7")
    formats, n_formats = failures(ours, draft, "optional/format", "F")
    found |= formats
    print(f"{n} + {n_formats} optional tests of draft {draft}")
    assert set(found) == OPTIONAL_NOT[draft], "\n".join(f"{k} {v}" for k, v in found.items())
