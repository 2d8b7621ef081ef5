"""The cases of bench.c on one other tokenizer: peers.py ENGINE TOKENIZER.json CORPUS. Engines: hf (tokenizers 0.23), hf1 (tokenizers 1.0),
fastokens. Calls that return buffers where the engine has them; one thread; CPU time of the process."""
import os
import random
import resource
import struct
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
PROMPT, MESSAGE, WARM, RUN = 32 << 10, 800, 2 << 20, 256 << 10


def load(engine, path):
    if engine == "fastokens":
        from fastokens._native import Tokenizer
        return lambda t=Tokenizer.from_file(path): (lambda s: t.encode_batch_flat([s]))
    from tokenizers import Tokenizer
    if engine == "hf1":
        return lambda t=Tokenizer.from_file(path): (lambda s: t.encode(s, add_special_tokens=False).ids_array)
    return lambda t=Tokenizer.from_file(path): (lambda s: t.encode(s, add_special_tokens=False))


def documents(path):
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        kind, n = struct.unpack_from("=cI", data, at)
        yield kind.decode(), data[at + 5:at + 5 + n].decode()
        at += 5 + n


def cut(docs, kind, n, limit):
    """As bench.c: the documents of a kind joined, warm-up off the front, then pieces of n bytes at character borders."""
    b = b"".join(t.encode() for k, t in docs if k == kind)
    at = min(WARM, len(b) // 2)
    while at < len(b) and b[at] & 0xC0 == 0x80:
        at += 1
    warm, out = b[:at].decode(), []
    while len(out) < limit and at + n + 4 < len(b):
        end = at + n
        while b[end] & 0xC0 == 0x80:
            end += 1
        out.append(b[at:end].decode())
        at = end
    return warm, out


def size(texts):
    return sum(len(t.encode()) for t in texts) / 1e6


def main():
    engine, path, corpus = sys.argv[1:4]
    docs = list(documents(corpus))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    t = time.process_time()
    fresh = load(engine, path)
    encode = fresh()
    print("load %.1f ms" % ((time.process_time() - t) * 1e3))
    print("load-rss %.1f MB" % ((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024))
    texts = [t for _, t in docs]
    mb = size(texts)
    for name in ("corpus-cold", "corpus-second"):
        t = time.process_time()
        for s in texts:
            encode(s)
        print("%s %.1f MB/s" % (name, mb / (time.process_time() - t)))
    for kind, name in (("e", "english"), ("c", "code"), ("m", "multi")):
        # A fresh process for each would be fairer still; a fresh tokenizer forgets what it has seen.
        encode = load(engine, path)()
        warm, prompts = cut(docs, kind, PROMPT, 64)
        encode(warm)
        t = time.process_time()
        for s in prompts:
            encode(s)
        print("prompt-new-%s %.1f MB/s" % (name, size(prompts) / (time.process_time() - t)))
        best = 1e9
        for _ in range(3):
            t = time.process_time()
            for _ in range(8):
                encode(prompts[0])
            best = min(best, (time.process_time() - t) / 8)
        print("prompt-again-%s %.1f MB/s" % (name, size(prompts[:1]) / best))
        encode = load(engine, path)()
        warm, messages = cut(docs, kind, MESSAGE, 4096)
        encode(warm)
        us = []
        for s in messages:
            t = time.perf_counter()
            encode(s)
            us.append((time.perf_counter() - t) * 1e6)
        us.sort()
        print("message-p50-%s %.1f us\nmessage-p99-%s %.1f us" % (name, us[len(us) // 2], name, us[len(us) * 99 // 100]))
    r = random.Random(7)
    for name, s in (("a", "a" * RUN), ("space", " " * RUN), ("equals", "=" * RUN), ("digits", "".join(r.choices("0123456789", k=RUN))),
                    ("letters", "".join(r.choices("abcdefghijklmnopqrstuvwxyz", k=RUN))),
                    ("han", "".join(chr(r.randrange(0x4E00, 0x9E00)) for _ in range(RUN // 3)))):
        best = 1e9
        for _ in range(3):
            encode = load(engine, path)()
            t = time.process_time()
            encode(s)
            best = min(best, time.process_time() - t)
        print("run-%s %.1f MB/s" % (name, size([s]) / best))
    print("version " + __import__("importlib.metadata").metadata.version("fastokens" if engine == "fastokens" else "tokenizers"))


main()
