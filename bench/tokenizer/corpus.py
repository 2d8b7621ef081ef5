"""The text that the tokenizer benchmark runs over, gathered from what a Debian machine with Python has: English prose and
manuals, source code, messages in other languages. Deterministic for one machine. Written as blocks: kind (one byte), length, UTF-8."""
import glob
import gettext
import os
import struct
import sys
import sysconfig

LIMITS = {"e": 4_600_000, "c": 7_800_000, "m": 11_400_000}  # English, code, other languages
DOCUMENT = 9_000                                            # about 9 KB each, as in real chats and files


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except (OSError, UnicodeDecodeError):
        return ""


def english():
    patterns = ["/usr/local/go/src/testdata/*.txt", "/root/go/pkg/mod/github.com/klauspost/compress@*/testdata/Mark*.txt",
                "/usr/share/vim/vim*/doc/*.txt", "/usr/share/common-licenses/*", "/usr/share/doc/**/*.txt", "/usr/share/doc/**/*.md",
                "/usr/share/doc/**/README*", "/usr/share/perl/*/**/*.pod", "/usr/share/perl/*/pod/*.pod"]
    for p in patterns:
        for path in sorted(glob.glob(p, recursive=True)):
            if os.path.isfile(path) and not path.endswith((".gz", ".html")):
                yield read(path)


def code():
    for p in [sysconfig.get_paths()["stdlib"] + "/*.py", "/usr/include/*.h", "/usr/include/linux/*.h", sysconfig.get_paths()["stdlib"] + "/**/*.py",
              "/usr/share/nodejs/**/*.js", "/usr/share/nodejs/**/*.json"]:
        for path in sorted(glob.glob(p, recursive=True)):
            if os.path.isfile(path):
                yield read(path)


def other_languages():
    by_language = {}
    for path in sorted(glob.glob("/usr/share/locale/*/LC_MESSAGES/*.mo")):
        language = path.split("/")[4]
        if not language.startswith("en"):
            by_language.setdefault(language, []).append(path)
    wanted = [x for x in ("zh_CN", "ja", "ko", "ru", "ar", "hi", "th", "el", "he", "uk", "vi", "fr", "de", "es", "pt_BR", "tr", "pl", "fa", "bn",
                          "ta", "zh_TW", "bg", "cs", "hu", "ka", "km", "ml", "te", "it") if x in by_language]
    share = LIMITS["m"] // max(1, len(wanted))
    for language in wanted:
        left = share
        for path in by_language[language]:
            try:
                with open(path, "rb") as f:
                    catalog = gettext.GNUTranslations(f)._catalog
            except (OSError, UnicodeDecodeError, ValueError):
                continue
            text = "\n".join(v for k, v in catalog.items() if isinstance(v, str) and v and k != v and any(ord(c) > 127 for c in v))[:left]
            left -= len(text.encode())
            yield text
            if left <= 0:
                break


def documents():
    for kind, source in (("e", english()), ("c", code()), ("m", other_languages())):
        left = LIMITS[kind]
        for text in source:
            for k in range(0, len(text), DOCUMENT):
                d = text[k:k + DOCUMENT].encode()
                if len(d) > 200 and left > 0:
                    left -= len(d)
                    yield kind, d


def main():
    total = {}
    with open(sys.argv[1], "wb") as f:
        for kind, d in documents():
            f.write(struct.pack("=cI", kind.encode(), len(d)) + d)
            total[kind] = total.get(kind, 0) + len(d)
    print("corpus: " + ", ".join("%s %.1f MB" % ({"e": "English", "c": "code", "m": "other languages"}[k], n / 1e6) for k, n in total.items()))


if __name__ == "__main__":
    main()
