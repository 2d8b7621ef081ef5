"""The cases of bench.c on one other tokenizer: peers.py ENGINE TOKENIZER.json CORPUS [IDS]. Calls that return buffers where the engine has them; one
thread; CPU time of the process. IDS: a file for the checksum of each document's ids. An engine of SLOW sees every eighth document and fewer prompts, unless
IDS is given."""
import array
import importlib.metadata
import json
import os
import random
import resource
import struct
import sys
import time
import zlib

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
PROMPT, MESSAGE, WARM, RUN, MAX_PROMPTS, MAX_MESSAGES = 32 << 10, 800, 2 << 20, 256 << 10, 40, 1500
SLOW = ("hf",)


def load_hf(path):
    from tokenizers import Tokenizer
    t = Tokenizer.from_file(path)
    return lambda s: t.encode(s, add_special_tokens=False), lambda e: array.array("I", e.ids).tobytes()


def load_hf1(path):
    from tokenizers import Tokenizer
    t = Tokenizer.from_file(path)
    return lambda s: t.encode(s, add_special_tokens=False).ids_array, bytes


def load_fastokens(path):
    from fastokens._native import Tokenizer
    t = Tokenizer.from_file(path)
    return lambda s: t.encode_batch_flat([s])[0], bytes


def load_snaptokens(path):
    from snaptokens import Tokenizer
    t = Tokenizer.from_file(path)
    return lambda s: t.encode_batch_flat([s])[0], bytes


def load_gigatoken(path):
    import gigatoken
    with open(path, "rb") as f:
        t = gigatoken.Tokenizer.from_json(f.read()).backend
    return t.encode, lambda a: a.tobytes()


def load_splintr(path):
    import splintr
    t = splintr.from_json(path)
    extra = len(t.encode_flat("")) # what its post-processor always adds in front
    return t.encode_flat, lambda b: b[extra:]


def load_kitoken(path):
    from kitoken import Kitoken
    t = Kitoken.from_file(path)
    return lambda s: t.encode(s, True), lambda ids: array.array("I", ids).tobytes()


def load_tiktoken(path):
    """tiktoken reads no tokenizer.json: one pattern and byte-level ranks are taken out of it, where that is all there is."""
    import tiktoken
    with open(path, encoding="utf-8") as f:
        j = json.load(f)
    patterns = [s["pattern"]["Regex"] for s in j["pre_tokenizer"].get("pretokenizers", []) if s["type"] == "Split"]
    if len(patterns) != 1:
        raise ValueError("not one pattern")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    alphabet = {chr(c): c for c in printable} | {chr(256 + i): c for i, c in enumerate(c for c in range(256) if c not in printable)}
    added = {t["content"]: t["id"] for t in j["added_tokens"]}
    ranks = {bytes(alphabet[c] for c in text): i for text, i in j["model"]["vocab"].items() if text not in added}
    t = tiktoken.Encoding("file", pat_str=patterns[0], mergeable_ranks=ranks, special_tokens=added)
    return lambda s: t.encode_to_numpy(s, allowed_special="all"), lambda a: a.tobytes()


PACKAGE = {"hf": "tokenizers", "hf1": "tokenizers", "splintr": "splintr-rs"}


def documents(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, n = struct.unpack_from("=cI", data, at)
        yield kind.decode(), data[at + 5:at + 5 + n].decode()
        at += 5 + n


def cut(docs, kind):
    """As bench.c: the documents of a kind joined; warm-up, then prompts, then messages."""
    b, at = b"".join(t.encode() for k, t in docs if k == kind), 0

    def some(n, limit):
        nonlocal at
        out = []
        while len(out) < limit and at + n + 4 < len(b):
            end = at + n
            while b[end] & 0xC0 == 0x80:
                end += 1
            out.append(b[at:end].decode())
            at = end
        return out

    return some(min(WARM, len(b) // 2), 1), some(PROMPT, MAX_PROMPTS), some(MESSAGE, MAX_MESSAGES)


def megabytes(texts):
    return sum(len(t.encode()) for t in texts) / 1e6


def timed(encode, texts):
    t = time.process_time()
    for s in texts:
        encode(s)
    return time.process_time() - t


def main():
    engine, path, corpus = sys.argv[1:4]
    docs = list(documents(corpus))
    slow = engine in SLOW and len(sys.argv) < 5
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    t = time.process_time()
    encode, ids = globals()["load_" + engine](path)
    print("load %.1f ms" % ((time.process_time() - t) * 1e3))
    print("load-rss %.1f MB" % ((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))
    texts, seconds, sums = [t for _, t in docs][::8 if slow else 1], 0, []
    for s in texts:
        t = time.process_time()
        result = encode(s)
        seconds += time.process_time() - t
        if len(sys.argv) > 4:
            sums.append("%d\n" % zlib.crc32(ids(result)))
    print("corpus-cold %.1f MB/s" % (megabytes(texts) / seconds))
    if len(sys.argv) > 4:
        with open(sys.argv[4], "w") as f:
            f.writelines(sums)
    encode, _ = globals()["load_" + engine](path)  # a fresh tokenizer has seen nothing
    for kind, name in (("e", "english"), ("c", "code"), ("m", "multi")):
        warm, prompts, messages = cut(docs, kind)
        if slow:
            warm, prompts, messages = [], prompts[:8], messages[:200]
        timed(encode, warm)
        print("new-%s %.1f MB/s" % (name, megabytes(prompts) / timed(encode, prompts)))
        print("again-%s %.1f MB/s" % (name, megabytes(prompts[:1]) / min(timed(encode, prompts[:1] * (1 if slow else 8)) for _ in range(3)) * (1 if slow else 8)))
        us = []
        for s in messages:
            t = time.thread_time()
            encode(s)
            us.append((time.thread_time() - t) * 1e6)
        us.sort()
        print("p50-%s %.1f us\np99-%s %.1f us" % (name, us[len(us) // 2], name, us[len(us) * 99 // 100]))
    r = random.Random(7)
    for name, s in (("a", "a" * RUN), ("space", " " * RUN), ("equals", "=" * RUN), ("letters", "".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=RUN))),
                    ("han", "".join(chr(r.randrange(0x4E00, 0x9E00)) for _ in range(RUN // 3)))):
        print("run-%s %.1f MB/s" % (name, megabytes([s]) / timed(encode, [s])))
    print("version", importlib.metadata.version(PACKAGE.get(engine, engine)))


main()
