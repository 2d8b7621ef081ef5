"""Random Jinja programs. Most are valid, many fail while rendering; what they print is the same everywhere but for object addresses.

program(seed): large ones, 2,500 bytes as a mean. mixed(seed): small ones among which some are as large, and the written snippets with words
exchanged; jinja2 takes 5 us to compile a byte, so that of these 20 times as many can be compared."""

import random
import re

import template_snippets as snippets

NAMES = ["s", "e", "u", "w", "i", "neg", "zero", "f", "h", "t", "n", "l", "ls", "mixed", "el", "d", "ed", "nested", "users", "undefd", "x", "y", "z", "ns"]
STRINGS = ["''", "'a'", "'b'", "' '", "'Hello'", "'é👍'", "'a,b,c'", "'%s'", "'{}'", "'x\\ny'", "'<|im_end|>'", "'0'", "'12'", "'A b'", "'name'", "'k'"]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "2.5", "0.1", "1e16", "1.0", "100"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "and", "or", "==", "!=", "<", ">", "<=", ">=", "in", "not in"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "reverse", "sort", "unique", "string", "int", "float", "abs", "round",
           "join", "join(',')", "join('-', attribute='name')", "default('D')", "default('D', true)", "tojson", "tojson(indent=2)", "tojson(sort_keys=true)",
           "replace('a', 'b')", "replace('', '.')", "sum", "min", "max", "dictsort", "items", "map('upper')", "map('string')", "map(attribute='name')",
           "map(attribute='age', default=0)", "select", "select('string')", "select('odd')", "reject('none')", "selectattr('age')", "selectattr('age', '>', 26)",
           "rejectattr('name', 'equalto', 'Bob')", "batch(2)", "slice(2)", "groupby('age')", "indent", "indent(2, true)", "truncate(5)", "wordcount", "center(9)",
           "escape", "safe", "e", "format(1)", "urlencode", "sort(reverse=true)", "sort(attribute='name')", "unique(true)", "attr('name')", "int(base=16)", "round(1)",
           "filesizeformat", "wordwrap(5)", "striptags", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "count", "d('q')", "forceescape"]
TESTS = ["defined", "undefined", "none", "string", "number", "mapping", "iterable", "sequence", "boolean", "true", "false", "integer", "float", "odd", "even", "lower",
         "upper", "callable", "escaped", "divisibleby(2)", "divisibleby 3", "in l", "in [1, 'a']", "eq 1", "equalto('a')", "sameas none", "gt 1", "lessthan(5)", "ne 2"]
METHODS = ["upper()", "lower()", "strip()", "strip('a')", "lstrip()", "rstrip('o')", "split()", "split('a')", "split(',', 1)", "rsplit(none, 1)", "splitlines()",
           "startswith('H')", "endswith('b')", "replace('a', 'bb')", "replace('l', '', 1)", "find('o')", "rfind('l')", "count('l')", "index('e')", "title()", "capitalize()",
           "swapcase()", "partition('l')", "rpartition('o')", "zfill(7)", "center(8, '*')", "ljust(4)", "rjust(12)", "isalpha()", "isdigit()", "isupper()", "islower()",
           "istitle()", "isspace()", "isalnum()", "format(1, 'a')", "join(ls)", "join('xyz')", "expandtabs(4)", "casefold()", "removeprefix('H')", "removesuffix('d')", "items()",
           "keys()", "values()", "get('a')", "get('zz', 3)", "copy()", "append(1)", "pop()", "nope()", "encode", "isidentifier()", "isprintable()", "real", "grouper"]


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.depth = 3  # of expressions in statements

    def pick(self, *choices):
        return self.r.choice(choices)

    def atom(self):
        k = self.r.randrange(12)
        if k < 5:
            return self.r.choice(NAMES)
        if k < 8:
            return self.r.choice(STRINGS)
        if k < 10:
            return self.r.choice(NUMBERS)
        return self.pick("true", "false", "none", "[]", "{}", "()", "range(3)", "loop.index", "loop.last", "namespace(a=1)", "dict(a=1)")

    # Expressions of a known type mostly evaluate; one in eight operands is anything, so that errors are met too.

    def text(self, depth):
        e = lambda t: self.typed(t, depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick("s", "u", "w", "e", "'a'", *STRINGS)
        k = self.r.randrange(14)
        if k < 3:
            return f"({e('text')} {self.pick('+', '~')} {e('text')})"
        if k < 6:
            return f"({e('text')}).{self.r.choice(METHODS[:30])}"
        if k < 9:
            return f"({e('text')})|{self.pick(*FILTERS[:5], 'string', 'replace(x, y)', 'e', 'safe', 'indent(2)', 'truncate(6)', 'wordwrap(6)', 'center(9)', 'urlencode', 'reverse')}"
        if k == 9:
            return f"({e('any')})|{self.pick('string', 'tojson', 'tojson(indent=1)', 'e', 'default(s)')}"
        if k == 10:
            return f"({e('list')})|join{self.pick('', '(s)', repr('(sep)')[1:-1].replace('sep', repr('-')))}"
        if k == 11:
            return f"({e('text')} * {self.pick('2', '3', '0', e('number'))})"
        if k == 12:
            return self.formatted(depth)
        return f"(s ~ {e('text')})[{self.bounds(depth)}]"

    def formatted(self, depth):
        e = lambda t: self.typed(t, depth - 1)  # noqa: E731
        k = self.r.randrange(4)
        if k == 0:
            return f"({self.pick(repr('%s'), repr('%5s|'), repr('%-4s|'), repr('%r'), repr('%.2s'))} % ({e('text')},))"
        if k == 1:
            return f"({self.pick(repr('%d'), repr('%5.1f'), repr('%+d'), repr('%05d'), repr('%e'), repr('%g'), repr('%s'))} % ({e('number')},))"
        if k == 2:
            return f"({self.pick(repr('{}'), repr('{:>6}'), repr('{:*^7}'), repr('{!r}'), repr('{:.2}'), repr('{0}{0}'))}.format({e('text')}))"
        return f"({self.pick(repr('{}'), repr('{:6}'), repr('{:+}'), repr('{:,}'), repr('{:.2f}'), repr('{:.3}'), repr('{:e}'), repr('{:05}'), repr('{:%}'))}.format({e('number')}))"

    def bounds(self, depth):
        part = lambda: self.pick("", "", "1", "-1", "2", "-3", "0", self.typed("number", depth - 1))  # noqa: E731
        return f"{part()}:{part()}{self.pick('', ':' + self.pick('', '2', '-1', '-2'))}"

    def number(self, depth):
        e = lambda t: self.typed(t, depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick("i", "neg", "zero", "f", "h", "t", *NUMBERS)
        k = self.r.randrange(10)
        if k < 4:
            return f"({e('number')} {self.pick('+', '-', '*', '/', '//', '%')} {e('number')})"
        if k == 4:
            return f"({e('text')})|{self.pick('length', 'wordcount', 'int', 'float')}"
        if k == 5:
            return f"({e('list')})|length"
        if k == 6:
            return f"({e('number')})|{self.pick('abs', 'int', 'float', 'round', 'round(1)', 'string|length')}"
        if k == 7:
            return f"({e('text')}).{self.pick('find(s)', 'count(' + repr('l') + ')', 'rfind(' + repr('a') + ')')}"
        if k == 8:
            return self.pick("-", "+") + f"({e('number')})"
        return f"({self.pick('l', 'range(4)', '[2, 1.5]')})|{self.pick('sum', 'min', 'max', 'first', 'last')}"

    def list(self, depth):
        e = lambda t: self.typed(t, depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick("l", "ls", "users", "el", "mixed", "[1, 2]", "('a', 'b')", "range(3)|list", "d.items()|list", "nested.x.y")
        k = self.r.randrange(9)
        if k < 2:
            return f"({e('list')})|{self.pick('list', 'reverse|list', 'unique|list', 'batch(2)|list', 'slice(2)|list', 'select|list', 'map(' + repr('string') + ')|list')}"
        if k == 2:
            return f"({e('text')}).{self.pick('split()', 'splitlines()', 'partition(' + repr('o') + ')', 'split(' + repr(',') + ')')}"
        if k == 3:
            return f"({e('list')})|{self.pick('sort', 'sort(reverse=true)', 'select(' + repr('string') + ')|list', 'reject(' + repr('none') + ')|list')}"
        if k == 4:
            return f"(l + {e('list')})"
        if k == 5:
            return "[" + ", ".join(e("any") for _ in range(self.r.randrange(4))) + "]"
        if k == 6:
            return f"(ls or {e('list')})[{self.bounds(depth)}]"
        if k == 7:
            return f"({e('text')})|list"
        return self.pick("users|map(attribute='name')|list", "users|selectattr('age', '>', 26)|list", "users|groupby('age')|list", "d|dictsort", "d|items|list",
                         "users|sort(attribute='age,name')", "users|rejectattr('tags')|map(attribute='age')|list")

    def truth(self, depth):
        e = lambda t: self.typed(t, depth - 1)  # noqa: E731
        if depth <= 0:
            return self.pick("true", "false", "t", "n", "i", "e", "undefd", "el", "loop.last")
        k = self.r.randrange(8)
        if k < 2:
            t = self.pick("number", "text", "list")
            return f"({e(t)} {self.pick('==', '!=', '<', '>=', '>', '<=')} {e(t)})"
        if k == 2:
            return f"({e('text')} in {e('text')})"
        if k == 3:
            return f"({e('any')} {self.pick('in', 'not in')} {e('list')})"
        if k == 4:
            return f"(({e('any')}) is {self.pick('', 'not ')}{self.r.choice(TESTS[:12])})"
        if k == 5:
            return f"({e('truth')} {self.pick('and', 'or')} {e('truth')})"
        if k == 6:
            return f"(not {e('truth')})"
        return f"({e('text')}).{self.pick('startswith(s)', 'endswith(' + repr('a') + ')', 'isalpha()', 'islower()', 'isdigit()', 'istitle()', 'isspace()', 'isupper()')}"

    def typed(self, type, depth):
        if self.r.random() < 0.06:
            return self.expr(depth)
        if type == "any":
            type = self.pick("text", "text", "number", "list", "truth", "anything")
        if self.r.random() < 0.08:
            return f"({self.typed(type, depth - 1)} if {self.typed('truth', depth - 1)} else {self.typed(type, depth - 1)})"
        return {"text": self.text, "number": self.number, "list": self.list, "truth": self.truth, "anything": self.expr}[type](depth)

    def expr(self, depth):
        if depth <= 0:
            return self.atom()
        k = self.r.randrange(26)
        e = lambda: self.typed("any", depth - 1)  # noqa: E731
        if k < 4:
            return self.atom()
        if k < 8:
            return f"({e()} {self.r.choice(BINARY)} {e()})"
        if k < 11:
            return f"({e()})|{self.r.choice(FILTERS)}"
        if k == 11:
            return f"({e()}) is {self.pick('', 'not ')}{self.r.choice(TESTS)}"
        if k < 15:
            return f"({e()}).{self.r.choice(METHODS)}"
        if k == 15:
            return f"({e()})[{e()}]"
        if k == 16:  # never of a constant: jinja2 folds that, and has other rules then
            return f"({self.r.choice(NAMES)} or {e()})[{self.bounds(depth)}]"
        if k == 17:
            return f"({e()} if {e()}{self.pick('', ' else ' + e())})"
        if k == 18:
            return "[" + ", ".join(e() for _ in range(self.r.randrange(4))) + "]"
        if k == 19:
            return "{" + ", ".join(f"{self.pick(*STRINGS, *NUMBERS, 'x', 's', 'true')}: {e()}" for _ in range(self.r.randrange(3))) + "}"
        if k == 20:
            return "(" + ", ".join(e() for _ in range(self.r.randrange(1, 4))) + ",)"
        if k == 21:
            return self.pick("not ", "-", "+") + f"({e()})"
        if k == 22:
            name = self.pick("m", "m", "caller", "loop", "loop.cycle", "loop.changed", "range", "dict", "nope", "q")
            return f"{name}({', '.join(self.argument(depth) for _ in range(self.r.randrange(3)))})"
        if k == 23:
            return f"({e()} {self.r.choice(BINARY[9:])} {e()} {self.r.choice(BINARY[9:])} {e()})"
        if k == 24:
            fmt = self.pick("'%s'", "'%d|%s'", "'%5.1f'", "'%r'", "'%(a)s'", "'%x'", "'%-5s|'")
            return f"({fmt} % ({e()}))"
        spec = self.pick("'{}'", "'{:>6}'", "'{!r}'", "'{:.2f}'", "'{0}{0}'", "'{:d}'", "'{:,}'", "'{0.a}'", "'{a}'", "'{:^7}|'", "'{:+}'", "'{:05}'", "'{:.3}'")
        return f"({spec}.format({e()}))"

    def argument(self, depth):
        return self.pick("", "", "", "a=", "b=") + self.typed("any", depth - 1)

    def target(self):
        return self.pick("x", "y", "z", "x", "y", "ns.a", "ns.b", "x, y", "s", "i", "(x, y)")

    def statement(self, depth):
        e = lambda depth: self.typed("any", min(depth, self.depth))  # noqa: E731
        body = lambda: self.body(depth - 1)  # noqa: E731
        o, c = self.pick("{%", "{%", "{%-", "{%+"), self.pick("%}", "%}", "-%}", "+%}")
        k = self.r.randrange(18 if depth > 0 else 5)
        if k < 3:
            return self.pick("{{", "{{-") + " " + e(3) + " " + self.pick("}}", "-}}")
        if k == 3:
            return f"{o} set {self.target()} = {e(3)} {c}"
        if k == 4:
            return self.pick("text", "\n", "  ", " x ", "{# c #}", "{#- c -#}", "\n  ", "{% raw %}{{ r }}{% endraw %}", "é")
        if k < 8:
            other = self.pick("", f"{o} elif {self.typed('truth', min(2, self.depth))} {c}{body()}", f"{o} else {c}{body()}")
            return f"{o} if {self.typed('truth', min(2, self.depth))} {c}{body()}{other}{o} endif {c}"
        if k < 12:
            names, iterable = self.pick(("x", "l"), ("x", "ls"), ("y", "range(4)"), ("k, v", "d.items()"), ("x", self.typed("list", min(2, self.depth))), ("s", "users"), (self.pick("x", "x, y"), self.iterable()))
            cond = self.pick("", "", f" if {self.typed('truth', 1)}")
            rec = self.pick("", "", "", " recursive")
            other = self.pick("", "", f"{o} else {c}{body()}")
            jump = self.pick("", "", "", "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if x %}{% continue %}{% endif %}", "{% break %}")
            return f"{o} for {names} in {iterable}{cond}{rec} {c}{body()}{jump}{body()}{other}{o} endfor {c}"
        if k == 12:
            return f"{o} set {self.pick('x', 'y', 'ns.a')}{self.pick('', '|upper', '|trim|length')} {c}{body()}{o} endset {c}"
        if k == 13:
            params = self.pick("", "a", "a, b=1", "a=x", "x", "a, b=a", "caller=none")
            return f"{o} macro {self.pick('m', 'q')}({params}) {c}{body()}{self.pick('', '{{ a }}', '{{ caller() }}', '{{ varargs }}{{ kwargs }}')}{o} endmacro {c}"
        if k == 14:
            return f"{o} with {self.pick('x = ' + e(2), 'x = 1, y = x', '')} {c}{body()}{o} endwith {c}"
        if k == 15:
            return f"{o} filter {self.pick('upper', 'trim', 'indent(2)', 'replace(x, y)', 'length')} {c}{body()}{o} endfilter {c}"
        if k == 16:
            return f"{o} call{self.pick('', '(a)')} {self.pick('m', 'q')}({self.pick('', e(1))}) {c}{body()}{o} endcall {c}"
        return f"{o} generation {c}{body()}{o} endgeneration {c}"

    def iterable(self):
        return self.pick("l", "ls", "users", "d", "d.items()", "range(3)", "s", "el", "tree", "mixed", "nested.x.y", "l|reverse", "l|map('string')", "users|groupby('age')", "[]",
                         self.expr(min(2, self.depth)), "[(1, 2), (3, 4)]")

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.r.randrange(1, 4)))

    def program(self):
        head = self.pick("", "{% set ns = namespace(a=1, b='x') %}", "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{% set ns = namespace(a=[]) %}")
        return head + "".join(self.statement(3) for _ in range(self.r.randrange(1, 6)))

    def small(self, depth, statements):
        head = self.pick("", "", "", "{% set ns = namespace(a=1, b='x') %}", "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}")
        return head + "".join(self.statement(depth) for _ in range(self.r.randrange(1, statements + 1)))

    def exchanged(self):
        """A written expression with up to three of its words made others."""
        words = re.findall(r"\w+|'[^']*'|\s+|[^\w\s]", self.r.choice(WRITTEN))
        places = [i for i, w in enumerate(words) if w[0].isalnum() or w[0] in "'+-*/%<>"]
        for i in self.r.sample(places, min(len(places), self.r.randrange(1, 4))):
            w = words[i]
            others = STRINGS if w[0] == "'" else NUMBERS + NAMES if w[0].isdigit() else BINARY[:6] if w[0] in "+-*/%" else ["<", ">"]
            if w[0].isalpha():
                before = "".join(words[:i]).rstrip()[-1:]
                others = METHODS if before == "." else FILTERS if before == "|" else NAMES + STRINGS
            words[i] = self.r.choice(others)
        return "{{ " + "".join(words) + " }}"


def program(seed):
    g = Generator(seed)
    return "{{ " + g.typed("any", 4) + " }}" if seed % 3 == 0 else g.program()


WRITTEN = [e for e in (x.strip() for x in snippets.EXPRESSIONS.splitlines()) if 0 < len(e) < 120]


def turned(names, by):
    """The variables with the values of these names given to one another."""
    return {a: snippets.VARS[names[(i + by) % len(names)]] for i, a in enumerate(names)}


LIKE = [["s", "u", "w", "html", "csv", "e", "lines"], ["i", "neg", "zero", "big", "t"], ["f", "g", "h"], ["l", "ls", "mixed", "el"], ["d", "ed", "nested"]]
VARIABLES = [{k: v for names in LIKE for k, v in turned(names, by).items()} for by in range(4)]
VARIABLES = [{**snippets.VARS, **v} for v in VARIABLES]


def mixed(seed):
    """(source, variables)"""
    g = Generator(f"mixed {seed}")
    g.depth = g.pick(1, 1, 2)
    kind = g.r.randrange(300)
    if kind < 130:
        source = "{{ " + g.typed("any", g.pick(2, 2, 3)) + " }}"
    elif kind < 180:
        source = g.exchanged()
    elif kind < 255:
        source = g.small(1, 2)
    elif kind < 280:
        source = "{{ " + g.expr(g.pick(2, 3, 4)) + " }}"
    elif kind < 299:
        source = g.small(2, 2)
    else:
        source = program(g.r.randrange(1 << 40))
    return source, g.r.choice(VARIABLES)
