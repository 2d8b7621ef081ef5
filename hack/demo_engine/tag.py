"""xgrammar's structural tags, as far as Kelpie writes them, to llguidance's Lark."""

import itertools
import json

MAX_DEPTH = 64
COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Lark:
    """Rules and terminals; each format becomes an expression."""

    def __init__(self, n_vocab):
        self.n_vocab, self.terminals = n_vocab, []

    def translate(self, text):
        try:
            tag = json.loads(text)
            start = self.expression(tag["format"], 0)
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise ValueError(f"structural_tag: cannot be read: {e!r}") from None
        return "\n".join([f"start: {start}", *self.terminals])

    def expression(self, f, depth):
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} deep")
        make = getattr(self, "make_" + f["type"], None)
        if make is None:
            raise ValueError(f"the demo engine has no {f['type']}")
        return make(f, depth + 1)

    def literal(self, text):
        return json.dumps(text) if text else '""'

    def make_const_string(self, f, depth):
        return self.literal(f["value"])

    def make_token(self, f, depth):
        return f"<[{int(f['token'])}]>"

    def make_regex(self, f, depth):
        return "/" + f["pattern"].replace("/", "\\/").replace("\n", "\\n") + "/"

    def make_json_schema(self, f, depth):
        if f.get("style", "json") != "json":
            raise ValueError(f"the demo engine has no json_schema of style {f['style']}")
        schema = f["json_schema"]
        if isinstance(schema, dict):
            schema = {"x-guidance": COMPACT, **schema}
        return f"%json {json.dumps(schema)}"

    def make_sequence(self, f, depth):
        return "( " + (" ".join(self.expression(e, depth) for e in f["elements"]) or '""') + " )"

    def make_or(self, f, depth):
        return "( " + " | ".join(self.expression(e, depth) for e in f["elements"]) + " )"

    def make_optional(self, f, depth):
        return f"( {self.expression(f['content'], depth)} )?"

    def make_star(self, f, depth):
        return f"( {self.expression(f['content'], depth)} )*"

    def make_tag(self, f, depth):
        return f"( {self.literal(f['begin'])} {self.expression(f['content'], depth)} {self.literal(f['end'])} )"

    def make_tags_with_separator(self, f, depth):
        one = "( " + " | ".join(self.expression(t, depth) for t in f["tags"]) + " )"
        if not f.get("at_least_one"):
            raise ValueError("tags_with_separator: the demo engine needs at_least_one")
        return one if f.get("stop_after_first") else f"( {one} ( {self.literal(f['separator'])} {one} )* )"

    def make_any_tokens(self, f, depth):
        edges = [-1, *sorted(int(i) for i in f.get("exclude_tokens", [])), self.n_vocab]
        ranges = [f"{a + 1}-{b - 1}" for a, b in itertools.pairwise(edges) if b - a > 1]
        return f"( <[{','.join(ranges)}]> )*"

    def make_any_text(self, f, depth):
        name = f"TEXT{len(self.terminals)}"
        body = "/(.|\\n)*/"
        for word in f.get("excludes", []):
            escaped = "".join(c if c.isalnum() or ord(c) > 127 else f"\\x{ord(c):02x}" for c in word)
            body += f" & ~/(.|\\n)*{escaped}(.|\\n)*/"
        self.terminals.append(f"{name}: {body}")
        return name


def lark(text, n_vocab):
    return Lark(n_vocab).translate(text)
