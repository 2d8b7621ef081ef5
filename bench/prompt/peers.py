"""Microseconds of other programs for the same prompts: peers.py jinja2 FILE, peers.py fastokens TOKENIZER.json FILE. Best and median over the texts, CPU time of this thread.
FILE is what prompt-bench reads, with "source" (the template), "vars" and "texts" (what it renders `messages` and each of `next` to)."""

import json
import os
import statistics
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"


def timed(fn, values):
    out = []
    for value in values:
        start = time.thread_time_ns()
        fn(value)
        out.append((time.thread_time_ns() - start) / 1000)
    print("%.2f %.2f" % (min(out), statistics.median(out)))


def main():
    data = json.load(open(sys.argv[-1]))
    if sys.argv[1] == "jinja2":
        from transformers.utils import chat_template_utils

        template = chat_template_utils._compile_jinja_template(data["source"])
        chats = [data["messages"] + [{"role": "user", "content": text}] for text in data["next"]]
        variables = {"tools": None, "documents": None, "add_generation_prompt": True, **data["vars"]}
        assert template.render(messages=chats[0], **variables) == data["texts"][0]
        timed(lambda chat: template.render(messages=chat, **variables), chats)
    else:
        from fastokens._native import Tokenizer

        encode = Tokenizer.from_file(sys.argv[2]).encode_batch_flat
        for text in data["texts"][:20]:
            encode([text])
        timed(lambda text: encode([text]), data["texts"][20:])


main()
