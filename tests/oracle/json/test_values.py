"""The pull reader and the writer beside Python's json: the same verdict and the same value for thousands of texts, and float's repr.

Known differences, all on purpose: Python takes NaN and Infinity, lone surrogate escapes and (from bytes) a byte order mark; we refuse them. We refuse nesting beyond 128.
"""

import json
import pathlib
import random
import struct
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import golang  # noqa: E402

SEED = 20261129


@pytest.fixture(scope="module")
def ours():
    return golang.Framed(golang.helper("json", "values"))


def refuse(name):
    raise ValueError(name)


def has_surrogate(value):
    if isinstance(value, str):
        return any(0xD800 <= ord(c) <= 0xDFFF for c in value)
    if isinstance(value, list):
        return any(map(has_surrogate, value))
    if isinstance(value, dict):
        return any(has_surrogate(k) or has_surrogate(v) for k, v in value.items())
    return False


def theirs(data):
    """(True, value) or (False, None)"""
    try:
        if data.startswith(b"\xef\xbb\xbf"):
            return False, None
        value = json.loads(data.decode("utf-8"), parse_constant=refuse, parse_int=str, parse_float=str)
        return (False, None) if has_surrogate(value) else (True, value)
    except (ValueError, RecursionError):
        return False, None


def check(ours, texts):
    """The number of texts both accept."""
    accepted = 0
    for data, line in zip(texts, ours.ask([("v", t) for t in texts])):
        answer = json.loads(line, parse_int=str, parse_float=str)
        ok, value = theirs(data)
        assert ("ok" in answer) == ok, (data, answer)
        if ok:
            accepted += 1
            assert answer["ok"] == value, data
            if isinstance(value, dict):
                assert list(answer["ok"]) == list(value), data  # order
    return accepted


def random_string(rng):
    alphabet = ["a", "Z", " ", '\\"', "\\\\", "\\/", "\\n", "\\u0000", "\\u00e9", "\\ud83d\\ude00", "é", "€", "😀", "\x7f", "\u2028", "0" * 40]
    return '"' + "".join(rng.choice(alphabet) for _ in range(rng.randrange(12))) + '"'


def random_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 5 else 6)
    if kind == 0:
        return rng.choice(["null", "true", "false"])
    if kind in (1, 2):
        return rng.choice(["0", "-0", "1", "-17", "3.25", "1e5", "1E-7", "-2.5e+10", "123456789012345678901234567890", "0.1", "5e-324"])
    if kind in (3, 4, 5):
        return random_string(rng)
    space = rng.choice(["", " ", "\n\t "])
    n = rng.randrange(5)
    if kind == 6:
        return "[" + space + ("," + space).join(random_value(rng, depth + 1) for _ in range(n)) + space + "]"
    return "{" + space + ",".join(random_string(rng) + space + ":" + random_value(rng, depth + 1) for _ in range(n)) + space + "}"


def test_generated_values(ours):
    rng = random.Random(SEED)
    assert check(ours, [random_value(rng).encode() for _ in range(4000)]) == 4000


def test_mutated_texts(ours):
    rng = random.Random(SEED + 1)
    texts = []
    for _ in range(12000):
        data = bytearray(random_value(rng).encode())
        for _ in range(rng.randrange(1, 3)):
            at = rng.randrange(len(data) + 1)
            what = rng.randrange(3)
            if what == 0 and data:
                data[at - 1] = rng.randrange(256)
            elif what == 1:
                data.insert(at, rng.choice(b'{}[],:"\\0123456789eE+-. \x00\x1f\xc3\xed\xf0truefalsn'))
            elif data:
                del data[at - 1]
        texts.append(bytes(data))
    assert 500 < check(ours, texts) < 11500  # the mutations go both ways


def test_long_strings_at_every_border(ours):
    """Specials at every position around the 16-byte steps of the scanner."""
    good, bad = [], []
    for n in range(70):
        for mark in ["", "\\n", "€", "\\u20ac", "😀"]:
            good.append(('"' + "x" * n + mark + "y" * 33 + '"').encode())
        bad.append(('"' + "x" * n + "\x1f" + "y" * 33 + '"').encode())
        bad.append(b'"' + b"x" * n + b"\xff" + b"y" * 33 + b'"')
    assert check(ours, good) == len(good)
    assert check(ours, bad) == 0


def is_finite(v):
    return v == v and abs(v) != float("inf")


def test_floats_print_as_python_does(ours):
    rng = random.Random(SEED + 2)
    values = [0.0, -0.0, 1.0, 0.1, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 9.999e22, 1e23, 5e-324, 1.7976931348623157e308, -2.5, 1 / 3]
    values += [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(20000)]
    values += [round(rng.uniform(-20, 0), rng.randrange(1, 12)) for _ in range(5000)]
    values = list(filter(is_finite, values))
    assert [a.decode() for a in ours.ask([("d", struct.pack("<d", v)) for v in values])] == list(map(repr, values))


def test_single_floats_read_back(ours):
    rng = random.Random(SEED + 3)
    raws = [raw for raw in (rng.randbytes(4) for _ in range(20000)) if is_finite(struct.unpack("<f", raw)[0])]
    for raw, text in zip(raws, ours.ask([("f", raw) for raw in raws])):
        assert struct.pack("<f", float(text)) == raw, text
        assert len(text) <= len(repr(struct.unpack("<f", raw)[0]))
