"""Megabytes of text for the tests, the same ones each time on one machine: source code and licences, other languages (the messages of the machine's
programs, and tokens of a vocabulary in random order), Unicode's own test files, hostile texts, and all of these with places changed."""
import bz2
import functools
import gettext
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
import texts  # noqa: E402

UNICODE = pathlib.Path("/usr/share/unicode")  # of the package unicode-data
CHUNK = 2000                                  # characters of a text, about


@functools.cache
def messages():
    """Translations that the machine has; a minimal system has none."""
    out = []
    for language in "ja ko zh_CN zh_TW ru uk el ar he fa hi bn ta te ml th km ka vi tr pl cs hu de fr es pt_BR it fi".split():
        found = []
        for path in sorted(pathlib.Path("/usr/share/locale").glob(language + "/LC_MESSAGES/*.mo"))[:40]:
            try:
                with open(path, "rb") as f:
                    catalog = gettext.GNUTranslations(f)._catalog
            except (OSError, UnicodeDecodeError, ValueError):
                continue
            found += [v for k, v in catalog.items() if isinstance(v, str) and v and k != v]
            if sum(map(len, found)) > 60_000:
                break
        out.append("\n".join(found)[:60_000])
    return [t for t in out if t]


@functools.cache
def unicode_tests():
    """Strings of Unicode's tests of normalization and of cuts."""
    out = []
    for name in ("NormalizationTest.txt.bz2", "auxiliary/GraphemeBreakTest.txt", "auxiliary/WordBreakTest.txt", "emoji/emoji-test.txt", "auxiliary/SentenceBreakTest.txt"):
        path = UNICODE / name
        if not path.exists():
            raise RuntimeError(f"{path} is missing: hack/deps installs unicode-data")
        data = bz2.decompress(path.read_bytes()) if name.endswith(".bz2") else path.read_bytes()
        lines = []
        for line in data.decode().splitlines():
            for field in line.split("#")[0].split(";")[:5]:
                points = [int(x, 16) for x in re.findall(r"\b[0-9A-F]{4,6}\b", field)]
                if points and not any(0xD800 <= p < 0xE000 for p in points):
                    lines.append("".join(map(chr, points)))
        out.append(" ".join(lines))
    return out


def chunks(r, sources, n_bytes):
    """Stretches of the sources, so many bytes of them."""
    left = n_bytes
    while left > 0:
        text = r.choice(sources)
        at = r.randrange(max(1, len(text)))
        part = text[at:at + r.randrange(100, 2 * CHUNK)]
        if part:
            left -= len(part.encode())
            yield part


@functools.cache
def ordinary():
    return texts.ordinary(texts.seed("corpus"), 800)


def walks(r, tokens, n_bytes):
    """Tokens as they come, joined: words of all languages that the vocabulary knows, in wrong places."""
    left = n_bytes
    while left > 0:
        start, step = r.randrange(len(tokens)), r.choice([1, 1, 7, 0])
        text = "".join(tokens[(start + k * step) % len(tokens)] if step else r.choice(tokens) for k in range(CHUNK // 4))
        left -= len(text.encode())
        yield text


def mutated(r, sources, n_bytes):
    """Stretches with characters and pieces left out, doubled, swapped, put in."""
    pieces = [w for g in texts.GRAMMARS for w in g]
    for text in chunks(r, sources, n_bytes):
        for _ in range(r.randrange(1, 30)):
            at, n = r.randrange(len(text) + 1), r.choice([1, 1, 2, 5, 40])
            cut = text[at:at + n]
            text = text[:at] + r.choice(["", cut + cut, cut[::-1], r.choice(pieces), r.choice(pieces) + cut, cut.upper()]) + text[at + n:]
        yield text


def hostile(r, n_bytes, tokens):
    left = n_bytes
    runs = [t for t in texts.runs(r)]
    while left > 0:
        for text in [*texts.mixes(r, 60, tokens), *texts.specials(r, tokens or ["<x>"], 30), *r.sample(runs, 4)]:
            left -= len(text.encode())
            yield text


def batch(name, n_bytes, tokens=(), added=()):
    """At least n_bytes of text. tokens: texts of a vocabulary; added: of its added tokens."""
    r = texts.seed("corpus for " + name)
    n_bytes += n_bytes // 25  # changing places makes some texts shorter
    languages = messages() or ["".join(texts.WORDS)]
    sources = ordinary() + languages
    parts = [chunks(r, ordinary(), n_bytes * 35 // 100), chunks(r, languages, n_bytes * 20 // 100), chunks(r, unicode_tests(), n_bytes * 5 // 100),
             walks(r, tokens or ["a "], n_bytes * 10 // 100), mutated(r, sources, n_bytes * 15 // 100), hostile(r, n_bytes * 15 // 100, list(added)[:40])]
    out = [t for p in parts for t in p]
    r.shuffle(out)
    return out
