"""Random schemas and instances beside Python's jsonschema: the same verdict. Numbers are read as decimals on its side, so that its arithmetic is exact as ours; the helper
feeds each text whole, byte by byte, in two parts, and as a value."""

import decimal
import json
import pathlib
import random
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import golang  # noqa: E402

import jsonschema  # noqa: E402

SEED = 20261130
NAMES = ["a", "b", "ab", "c d", "é", ""]
PATTERNS = ["^a", "b$", "^[a-c]+$", "é", ".", "^.{2,3}$"]
NUMBERS = ["0", "1", "2", "1.0", "-1", "2.5", "0.1", "1e2", "100", "3", "12345678901234567890", "0.30"]


def instance(rng, depth=0):
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 2:
        return rng.choice(["null", "true", "false"])
    if kind < 4:
        return rng.choice(NUMBERS)
    if kind < 6:
        return json.dumps(rng.choice(["", "a", "ab", "abc", "é", "x" * 5, "b€b", "😀"]), ensure_ascii=rng.random() < 0.5)
    if kind < 8:
        names = rng.sample(NAMES, rng.randrange(len(NAMES)))
        return "{" + ",".join(json.dumps(n) + ":" + instance(rng, depth + 1) for n in names) + "}"
    return "[" + ", ".join(instance(rng, depth + 1) for _ in range(rng.randrange(4))) + "]"


class Schemas:
    """Texts of schemas of one draft."""

    def __init__(self, rng, draft):
        self.rng, self.new = rng, draft == "2020-12"

    def list(self, depth):
        return "[" + ",".join(self.one(depth) for _ in range(self.rng.randrange(1, 4))) + "]"

    def map(self, keys, depth):
        return "{" + ",".join(json.dumps(k) + ":" + self.one(depth) for k in self.rng.sample(keys, self.rng.randrange(4))) + "}"

    def names(self):
        return json.dumps(self.rng.sample(NAMES, self.rng.randrange(3)))

    def keyword(self, depth):
        rng, n = self.rng, str(self.rng.randrange(4))
        simple = [
            lambda: ("type", json.dumps(rng.choice(["null", "boolean", "integer", "number", "string", "array", "object", ["string", "array"], ["object", "integer"]]))),
            lambda: ("enum", "[" + ",".join(instance(rng, 2) for _ in range(rng.randrange(1, 5))) + "]"),
            lambda: ("const", instance(rng, 2)),
            lambda: (rng.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), rng.choice(NUMBERS)),
            lambda: ("multipleOf", rng.choice(["1", "2", "0.1", "0.01", "2.5", "3e1"])),
            lambda: (rng.choice(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"]), n),
            lambda: ("pattern", json.dumps(rng.choice(PATTERNS))),
            lambda: ("uniqueItems", rng.choice(["true", "false"])),
            lambda: ("required", self.names()),
            lambda: ("$ref", json.dumps(rng.choice(["#/definitions/x", "#/definitions/y"]))),
        ]
        deep = [
            lambda: ("properties", self.map(NAMES, depth)),
            lambda: ("patternProperties", self.map(PATTERNS, depth)),
            lambda: ("additionalProperties", self.one(depth)),
            lambda: ("propertyNames", self.one(depth)),
            lambda: ("contains", self.one(depth)),
            lambda: (rng.choice(["allOf", "anyOf", "oneOf"]), self.list(depth)),
            lambda: ("not", self.one(depth)),
            lambda: (rng.choice(["if", "then", "else"]), self.one(depth)),
            lambda: ("items", self.one(depth) if self.new else rng.choice([self.list(depth), "{" + '"not":' + self.one(depth) + "}"])),  # of draft 7 Python's fails on a boolean beside additionalItems
        ]
        if self.new:
            simple += [lambda: (rng.choice(["minContains", "maxContains"]), n), lambda: ("dependentRequired", "{" + json.dumps(rng.choice(NAMES)) + ":" + self.names() + "}")]
            deep += [
                lambda: ("prefixItems", self.list(depth)),
                lambda: ("dependentSchemas", self.map(NAMES, depth)),
                lambda: (rng.choice(["unevaluatedProperties", "unevaluatedItems"]), self.one(depth)),
            ]
        else:
            deep += [lambda: ("additionalItems", self.one(depth)), lambda: ("dependencies", "{" + json.dumps(rng.choice(NAMES)) + ":" + rng.choice([self.names(), self.one(depth)]) + "}")]
        return rng.choice(simple + deep * 2 if depth > 0 else simple)()

    def one(self, depth):
        if self.rng.random() < 0.12:
            return self.rng.choice(["true", "false"])
        members = dict(self.keyword(depth - 1) for _ in range(self.rng.randrange(1, 4 if depth > 0 else 2)))
        return "{" + ",".join(json.dumps(k) + ":" + v for k, v in members.items()) + "}"

    def whole(self):
        members = dict(self.keyword(2) for _ in range(self.rng.randrange(1, 5)))
        # $ref of these leads to schemas without $ref: no loops
        plain = ['{"type":"string"}', '{"minimum":1}', '{"properties":{"a":{"type":"integer"}},"required":["b"]}', '{"items":{"type":"null"}}', "false"]
        members["definitions"] = '{"x":' + self.rng.choice(plain) + ',"y":' + self.rng.choice(plain) + "}"
        return "{" + ",".join(json.dumps(k) + ":" + v for k, v in members.items()) + "}"


def loads(text):
    return json.loads(text, parse_float=decimal.Decimal)


def is_integer(_, v):
    return not isinstance(v, bool) and (isinstance(v, int) or (isinstance(v, decimal.Decimal) and v == v.to_integral_value()))


def validator(draft):
    cls = jsonschema.Draft202012Validator if draft == "2020-12" else jsonschema.Draft7Validator
    return jsonschema.validators.extend(cls, type_checker=cls.TYPE_CHECKER.redefine("integer", is_integer))


@pytest.mark.parametrize("draft", ["2020-12", "7"])
def test_same_verdict(draft):
    decimal.getcontext().prec = 100
    rng, frames, cases = random.Random(SEED + len(draft)), [], []
    schemas, cls = Schemas(rng, draft), validator(draft)
    for _ in range(700):
        schema = schemas.whole()
        texts = [instance(rng) for _ in range(8)]
        frames += [("s" if draft == "2020-12" else "7", schema.encode()), *(("v", t.encode()) for t in texts)]
        cases.append((schema, texts))
    answers = map(json.loads, golang.Framed(golang.helper("jsonschema", "check")).ask(frames))
    valid = total = 0
    for schema, texts in cases:
        theirs = cls(loads(schema))
        said = next(answers)
        assert said == {"ok": True}, (schema, said)
        for text in texts:
            total += 1
            said, want = next(answers), theirs.is_valid(loads(text))
            valid += want
            assert said.get("valid") is want, (schema, text, want, said)
    print(f"{total} texts, {valid} of them valid")
    assert total * 0.1 < valid < total * 0.9
