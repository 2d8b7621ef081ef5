"""Texts that tokenizers get wrong, made from a seed, and ordinary ones from the machine."""
import os
import pathlib
import random
import sys
import sysconfig
import unicodedata

SEED = int(os.environ.get("KP_SEED", "20261129"))


def seed(name):
    print("KP_SEED=%d (%s)" % (SEED, name), file=sys.stderr)
    return random.Random("%d %s" % (SEED, name))


def code_points():
    """Every assigned code point, and some that are not."""
    some = set(random.Random(SEED).sample(range(0x110000), 4000))
    return [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (unicodedata.category(chr(c)) not in ("Cn", "Co") or c in some)]


def in_contexts(group=16):
    """Each code point between letters, digits, blanks, line ends, quotes and marks; some of them to a text."""
    cps = code_points()
    for k in range(0, len(cps), group):
        yield "".join("A%cb %c%c  %cx 1%c2 '%cs \n%c\n %c's!%c\n\n%ce\u0301\u0323" % ((c,) * 10) for c in map(chr, cps[k:k + group]))


SPACES = [" ", "  ", "   ", "\t", "\n", "\r", "\r\n", "\n\n", " \n", "\n ", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u3000", "\u200b", "\ufeff"]
QUOTES = ["'s", "'S", "'t", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'LL", "'d", "'", "''", "'x", "'\u017f", "\u2019s", "'r", "'l", "'v", "'\u212a"]
DIGITS = ["0", "7", "42", "123", "1234", "98765", "\u00b2", "\u00bd", "\u0663", "\u2167", "\u4e00", "\u0967", "\U00011de5", "\U00010d40", "1,000.5"]
WORDS = ["a", "I", "the", "Hello", "world", "HTTPServer", "camelCase", "_x", "na\u00efve", "\u0421\u043b\u043e\u0432\u043e", "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\ud55c\uad6d\uc5b4",
         "\u0e20\u0e32\u0e29\u0e32", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0639\u0631\u0628\u064a", "\u05e2\u05d1\u05e8", "\u10e5\u10d0\u10e0\u10d7", "\u01c5", "\u00df", "\u0130", "\ufb01", "\U00010400", "\U00020000"]
MARKS = ["\u0301", "\u0323", "\u0327", "\u0308", "\u3099", "\u0338", "\u0345", "\u1ab0", "\u1dfa", "\u07fd", "\u0898", "\U0001e8d0", "\u1161", "\u11a8", "\u1100", "\u09be", "\u0344", "\u0340", "\u212b", "\u2126"]
OTHER = list("!?.,;:-_/\\()[]{}<>|@#$%^&*+=~`\"") + ["...", "->", "//", "\u201c", "\u201d", "\u2014", "\u2026", "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea",
         "\u2764\ufe0f", "\u00a9", "\u20ac", "\x00", "\x01", "\x04", "\x7f", "\u00ad", "\ue000", "\U000e0041", "\U000f0000", "\U0003ffff", "\U00042019"]
GRAMMARS = [SPACES, QUOTES, DIGITS, WORDS, MARKS, OTHER]


def mixes(r, n, extra=()):
    """Random texts of all grammars, some with most of one."""
    extra = list(extra)
    for _ in range(n):
        grammars = GRAMMARS + ([extra] if extra else [])
        weights = [r.choice([0, 1, 1, 1, 5]) for _ in grammars]
        weights[r.randrange(len(grammars))] += 1
        yield "".join(r.choice(r.choices(grammars, weights)[0]) for _ in range(r.choice([1, 2, 3, 5, 10, 30, 100, 400])))


def runs(r):
    """Long pieces: one character, one unit, or none that repeats."""
    units = ["a", " ", "=", "\n", "-", "_", ".", "!", "7", "\u4e2d", "\u00e9", "\u0301", "ab", "aA", " a", "a ", "\r\n", "\t", "\u3000", "\U0001f600", "\u1100\u1161", "'s", "\u0e01\u0e33", "//", "</", "a\u0301"]
    for u in units:
        for n in (1, 2, 3, 7, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 500, 1000, 5000):
            yield (u * n)[:n]
    for alphabet in ("abcdefghijklmnopqrstuvwxyz", "ACGT", "0123456789abcdef", "".join(chr(c) for c in range(0x4E00, 0x5600)),
                     "".join(chr(c) for c in range(0x430, 0x450)), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "-=", "aeiou"):
        for n in (10, 14, 15, 16, 17, 40, 100, 255, 256, 257, 600, 3000, 20000):
            yield "".join(r.choices(alphabet, k=n))


def specials(r, tokens, n):
    """Special tokens whole, cut, doubled, nested, beside white space and letters."""
    pieces = list(tokens) + [t[:k] for t in tokens for k in (1, 2, len(t) - 1)] + [t[1:] for t in tokens] + [" ", "\n", "a", "A ", "\u3000", "<", ">", "|", "user", "\n\n"]
    for _ in range(n):
        yield "".join(r.choice(pieces) for _ in range(r.choice([1, 2, 3, 4, 8, 20])))


def ordinary(r, n):
    """Paragraphs of source code, licences and manuals."""
    stdlib = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(stdlib.glob("*.py")) + sorted(pathlib.Path("/usr/share/common-licenses").glob("*")) + sorted(pathlib.Path("/usr/include").glob("*.h"))
    files += sorted(stdlib.glob("pydoc_data/*.py")) + sorted(stdlib.glob("encodings/*.py"))
    out = []
    while len(out) < n:
        try:
            text = r.choice(files).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        at = r.randrange(max(1, len(text)))
        out.append(text[at:at + r.choice([50, 300, 1500, 6000])])
    return out
