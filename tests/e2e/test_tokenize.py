"""Text to ids and back at the surface: /v1/tokenize and /v1/detokenize as vLLM's clients use them, kubectl-kelpie by path and by gateway, metrics, and the images that
a gateway keeps of tokenizers. The truth is Hugging Face's libraries."""

import json
import os
import random
import re
import subprocess
import time

import pytest
from programs import ASAN, BUILD, QWEN3_TOKENS, Gateway, Operator, Sim, engine, manifest, wait_until
from wire import CHAT, call

TOOLS = [{"type": "function", "function": {"name": "now", "description": "d", "parameters": {"type": "object", "properties": {}}}}]
MESSAGES = [{"role": "user", "content": "What time is it? <|im_end|>"}]


@pytest.fixture(scope="module")
def sim(start_shared):
    return start_shared(Sim, "--vocab", QWEN3_TOKENS, "--log-ids")


@pytest.fixture(scope="module")
def gateway(start_shared, sim, qwen3_path):
    return start_shared(
        Gateway,
        manifest(engine("e", sim.port, path=qwen3_path, aliases=("m-alias",))),
        "--request-templates",
        "trust",
    )


def kelpie(*words, text=None, expect=0):
    done = subprocess.run(
        [BUILD / "bin/kubectl-kelpie", *(str(w) for w in words)], input=text, capture_output=True, timeout=60,
        env={**os.environ, "http_proxy": "http://127.0.0.1:1"},
    )  # fmt: skip
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout.decode(), done.stderr.decode()


def test_what_vllm_takes(gateway, qwen3):
    """The bodies of vLLM 0.32's TokenizeCompletionRequest, TokenizeChatRequest and DetokenizeRequest."""
    ask = lambda body: call(gateway.port, "/tokenize", body)  # noqa: E731
    assert ask({"prompt": "é🚀"}).json() == {  # the model may be left out where there is only one
        "count": len(qwen3.encode("é🚀")),
        "max_model_len": 131072,
        "tokens": qwen3.encode("é🚀"),
        "token_strs": None,
    }
    for options, variables in [
        ({}, {}),
        ({"add_generation_prompt": False}, {"add_generation_prompt": False}),
        ({"tools": TOOLS}, {"tools": TOOLS}),
        ({"tools": TOOLS, "tool_choice": "none"}, {}),
        ({"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False}),
        ({"chat_template": "{{ messages[0].role }}!"}, {"chat_template": "{{ messages[0].role }}!"}),
        ({"media_io_kwargs": None, "mm_processor_kwargs": None, "add_special_tokens": None}, {}),
    ]:
        messages = [{"role": "user", "content": "What time is it?"}]
        expected = qwen3.chat_ids(messages, **{"add_generation_prompt": True, **variables})
        answer = ask({"model": "m", "messages": messages, "return_token_strs": True, **options}).json()
        assert answer["tokens"] == expected, options
        assert answer["token_strs"] == qwen3.fast.convert_ids_to_tokens(expected), options
    ids = list(range(0, QWEN3_TOKENS, 97))
    answer = call(gateway.port, "/detokenize", {"tokens": ids}).json()
    assert answer == {"prompt": qwen3.decode(ids, skip_special=False)}


def test_what_is_refused(gateway, start, sim, qwen3_path):
    for path, body, param, message in [
        ("/v1/tokenize", {"model": "m", "messages": MESSAGES, "mm_processor_kwargs": {}}, "mm_processor_kwargs", "text only"),
        ("/v1/tokenize", {"model": "m", "prompt": "x", "frob": 1}, "frob", "unknown parameter"),
        ("/v1/tokenize", {"model": "m", "messages": MESSAGES, "tool_choice": "auto"}, "tool_choice", "`tools`"),
        ("/v1/tokenize", {"model": "m", "messages": MESSAGES, "tools": [{}]}, "tools[0].type", "tools[0]"),
        ("/v1/tokenize", {"model": "m", "messages": MESSAGES, "continue_final_message": True, "add_generation_prompt": True},
         "continue_final_message", "excludes"),
        ("/v1/detokenize", {"tokens": [QWEN3_TOKENS]}, "tokens", "no such id"),
        ("/v1/detokenize", {"tokens": [2**63]}, "tokens[0]", "tokens[0]"),
    ]:  # fmt: skip
        answer = call(gateway.port, path, body)
        assert (answer.status, answer.error["param"]) == (400, param), (body, answer.body)
        assert message in answer.error["message"], answer.error
    assert call(gateway.port, "/v1/tokenize", {"model": "other", "prompt": "x"}).status == 404
    two = start(Gateway, manifest(engine("a", sim.port, path=qwen3_path), engine("b", sim.port, path=qwen3_path, model="n")))
    answer = call(two.port, "/v1/tokenize", {"prompt": "x"})
    assert answer.status == 400 and answer.error["message"] == "`model`: missing, and this gateway serves 2"


def test_answers_have_limits(gateway):
    """What is too much is said, and the connection lives."""
    for path, body, param, message in [
        ("/v1/tokenize", {"prompt": " a" * 70000, "explain": True}, "explain", "at most 65536 tokens, the text has 70000"),
        ("/v1/tokenize", {"prompt": " a" * 4_194_304 + "b c"}, None, "more than `4194304` tokens"),
        ("/v1/detokenize", {"tokens": [66207] * 500_000}, None, "more than 50331648 bytes"),
    ]:
        answer = call(gateway.port, path, body)
        assert answer.status == 400 and message in answer.error["message"], (path, answer.status, answer.body[:200])
        assert answer.error["param"] == param or param is None
    answer = call(gateway.port, "/v1/tokenize", {"prompt": " a" * 1_000_000, "return_token_strs": True}).json()
    assert answer["count"] == 1_000_000 and answer["token_strs"][-1] == "Ġa"


def test_explained(gateway, qwen3):
    """Who wrote what: the template its control tokens, a client what looks like them."""
    answer = call(gateway.port, "/v1/tokenize", {"messages": MESSAGES, "explain": True}).json()
    explain = answer["explain"]
    assert explain["tokenizer"] == "hf:bpe" and 0 < explain["seconds"] < 5
    assert [p["id"] for p in explain["pieces"]] == answer["tokens"]
    assert [bytes(p["bytes"]) for p in explain["pieces"]] == [qwen3.token_bytes(t) for t in answer["tokens"]]
    assert [p["token"] for p in explain["pieces"]] == qwen3.fast.convert_ids_to_tokens(answer["tokens"])
    text = b"".join(bytes(p["bytes"]) for p in explain["pieces"])
    assert len(text) == explain["bytes"]
    by = lambda who: b"".join(bytes(p["bytes"]) for p in explain["pieces"] if p["origin"] == who)  # noqa: E731
    assert by("client") == b"user" + MESSAGES[0]["content"].encode()
    assert by("trusted") == b"<|im_start|>\n<|im_end|>\n<|im_start|>assistant\n"
    assert {p["special"] for p in explain["pieces"] if p["origin"] == "client"} == {False}


def test_the_same_at_the_terminal(gateway, qwen3, qwen3_path, tmp_path):
    pick = random.Random(3)
    alphabet = "abc ABC 012 \n\t.,'é中文🚀 <|im_end|>"
    ways = [("--path", qwen3_path), ("--gateway", gateway.url), ("--gateway", gateway.url, "-m", "m-alias")]
    for text in ["", "x", *("".join(pick.choices(alphabet, k=40)) for _ in range(6))]:
        expected = " ".join(map(str, qwen3.encode(text)))
        for way in ways:
            assert kelpie("tokenize", *way, text=text.encode())[0] == expected + "\n"
            (tmp_path / "f").write_text(text)
            assert kelpie("tokenize", "--file", tmp_path / "f", *way)[0] == expected + "\n"
            assert kelpie("detokenize", *way, text=expected.encode())[0] == qwen3.decode(qwen3.encode(text), skip_special=False)
    for way in ways[:2]:
        assert kelpie("tokenize", "a b", *way)[0].split() == [str(t) for t in qwen3.encode("a b")]
        assert kelpie("tokenize", *way, "--", "-x")[0].split() == [str(t) for t in qwen3.encode("-x")]
        assert kelpie("detokenize", "64", "293", *way)[0] == qwen3.decode([64, 293])
        shown = kelpie("tokenize", "é <|im_end|>", "--explain", *way)[0].splitlines()
        assert shown[0].split() == ["ID", "TOKEN", "BYTES", "KIND", "ORIGIN"]
        cells = [re.split(" {2,}", line) for line in shown]
        assert ["151645", "<|im_end|>", "3c 7c 69 6d 5f 65 6e 64 7c 3e", "special", "trusted"] in cells
        assert any(line.startswith("Tokens:") and " of 13 bytes" in line for line in shown), shown
        assert any(line.startswith("Time:") for line in shown)
        answer = kelpie("tokenize", "é", "-o", "json", *way)[0]
        assert '"count": 1' in answer and '"explain"' not in answer


@pytest.mark.parametrize("words, text, status, message", [
    (("--gateway", "GATEWAY", "-m", "nobody"), b"x", 3, "the model `nobody` does not exist"),
    (("--gateway", "GATEWAY"), b"\xff", 1, "invalid UTF-8 at byte `0`"),
    (("--path", "PATH"), b"ab\xff", 1, "invalid UTF-8 at byte `2`"),
    (("--path", "/nowhere"), b"x", 3, "load tokenizer `/nowhere`"),
    (("--path", "FILE"), b"x", 1, "neither GGUF nor .tiktoken; of other models give the folder with their files"),
    (("--path", "PATH", "--file", "/nowhere"), b"", 3, "open `/nowhere`"),
    (("--path", "PATH", "--gateway", "x"), b"", 2, "`--path` reads files here"),
    (("--path", "PATH", "--file", "x", "y"), b"", 2, "both TEXT and `--file`"),
    (("--path", "PATH", "x", "y"), b"", 2, "`tokenize`: what is `y`?"),
    (("--path", "PATH", "--explain=1"), b"", 2, "`--explain`: takes no value"),
    (("--path", "PATH", "-s", "x"), b"", 2, "`tokenize` has no option `--server`"),
])  # fmt: skip
def test_what_the_terminal_refuses(gateway, qwen3_path, words, text, status, message):
    known = {"GATEWAY": gateway.url, "PATH": qwen3_path, "FILE": f"{qwen3_path}/tokenizer.json"}
    assert message in kelpie("tokenize", *(known.get(w, w) for w in words), text=text, expect=status)[1]


def test_ids_that_are_none(gateway, qwen3_path):
    for way, status in [(("--gateway", gateway.url), 1), (("--path", qwen3_path), 1)]:
        assert f"`{QWEN3_TOKENS}`" in kelpie("detokenize", QWEN3_TOKENS, *way, expect=status)[1]
        assert "`x` is no token id" in kelpie("detokenize", "1 x", *way, expect=1)[1]
        assert "is no token id" in kelpie("detokenize", 2**32, *way, expect=1)[1]


def test_the_time_it_takes_is_counted(gateway):
    times = gateway.metric("kelpie_tokenize_seconds_count", model="m")
    call(gateway.port, "/v1/tokenize", {"prompt": "some text " * 50})
    assert call(gateway.port, CHAT, {"model": "m", "messages": MESSAGES, "max_tokens": 1}).status == 200
    assert gateway.metric("kelpie_tokenize_seconds_count", model="m") == times + 2
    assert 0 < gateway.metric("kelpie_tokenize_seconds_sum", model="m") < 60


def loads(gateway, n):
    """Tokenizers loaded from images and from files, once n of them are there."""
    counts = lambda: _loads(gateway)  # noqa: E731
    wait_until(lambda: sum(counts()) >= n, f"{n} tokenizers")
    return counts()


def _loads(gateway):
    return [gateway.metric("kelpie_tokenizer_loads_total", **{"from": f}) for f in ("image", "files")]


def test_a_gateway_keeps_images(start, sim, smollm2_zip, qwen3, qwen3_path, tmp_path):
    """Built once, mapped by the next gateway, refused and built anew when it is damaged; a path and an engine's archive alike."""
    cache = tmp_path / "cache"
    archive = start(Sim, "--vocab", 49152, "--tokenizer-zip", smollm2_zip)
    text = manifest(engine("e", sim.port, path=qwen3_path), engine("a", archive.port, model="s"))
    expected = qwen3.encode("Hello, 世界")

    def ids(gateway, model="m"):
        """A loop may have the model a moment later than the counters of what was loaded."""
        ask = lambda: call(gateway.port, "/v1/tokenize", {"model": model, "prompt": "Hello, 世界"})  # noqa: E731
        return wait_until(lambda: (a := ask()).status == 200 and a.json()["tokens"], f"model {model}")

    first = start(Gateway, text, "--cache-dir", cache)
    assert loads(first, 2) == [0, 2] and ids(first) == expected
    assert cache.stat().st_mode & 0o777 == 0o700
    images = sorted(cache.glob("*.tokenizer"))
    assert len(images) == 2 and all(i.stat().st_mode & 0o777 == 0o600 for i in images)
    second = start(Gateway, text, "--cache-dir", cache)
    assert loads(second, 2) == [2, 0] and ids(second) == expected
    assert ids(first, "s") == ids(second, "s")
    mapped = f"/proc/{second.process.pid}/maps"
    assert sum(str(images[0]) in line for line in open(mapped)) == 1, "one copy for all loops"
    for image in images:
        data = bytearray(image.read_bytes())
        data[len(data) // 2] ^= 1
        image.with_suffix(".new").write_bytes(data)
        image.with_suffix(".new").rename(image)
    third = start(Gateway, text, "--cache-dir", cache)
    assert loads(third, 2) == [0, 2] and ids(third) == expected
    wait_until(lambda: third.metric("kelpie_tokenizer_images_failed_total") == 2, "both counted")
    said = wait_until(lambda: len(found := third.lines("image of a tokenizer not used")) == 2 and found, "both said")
    assert [line["error"] for line in said] == ["read image of a tokenizer: `checksum`"] * 2
    assert ids(second) == expected  # what it has mapped is the old file


def test_images_beside_the_last_good_program(start, sim, qwen3_path, tmp_path):
    operator = start(Operator, manifest(engine("e", sim.port, path=qwen3_path)))
    options = ("--control", f"127.0.0.1:{operator.port}", "--own", "default/e", "--peer-listen", "127.0.0.1:0")
    for expected in ([0, 1], [1, 0]):
        gateway = start(Gateway, None, *options, "--id", "gw-a", "--state-dir", tmp_path)
        assert loads(gateway, 1) == expected
        assert len(list((tmp_path / "tokenizers").glob("*.tokenizer"))) == 1
        gateway.stop()


def test_a_tokenizer_that_makes_every_character_expensive(start, sim, tmp_path):
    """One piece agrees with the text for 60,000 bytes at each place: whoever sends such a text gets an error, soon, and the loop goes on."""
    model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["a" * 60000 + "b", -2]]}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"model": model}))
    gateway = start(Gateway, manifest(engine("e", sim.port, path=tmp_path)))
    begin = time.monotonic()
    answer = call(gateway.port, "/v1/tokenize", {"prompt": "a" * 100_000})
    assert answer.status == 400, answer.body
    error = answer.json()["error"]
    assert error["message"] == "encode text: tokenizer `hf:unigram`: the text takes more than 155 ms of computing" or ASAN
    assert (error["type"], error["code"]) == ("invalid_request_error", "request_too_large")
    assert time.monotonic() - begin < 20  # 0.2 s of computing, 43 s without the limit
    assert call(gateway.port, "/v1/tokenize", {"prompt": "aa"}).json()["count"] == 2


def test_a_cache_directory_that_fails_harms_nothing(start, sim, qwen3_path, tmp_path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o700)
    open_to_all.chmod(0o777)
    for directory in (open_to_all, tmp_path / "no" / "such"):
        gateway = start(Gateway, manifest(engine("e", sim.port, path=qwen3_path)), "--cache-dir", directory)
        assert loads(gateway, 1) == [0, 1]
        wait_until(lambda g=gateway: g.lines("no images of tokenizers"), "a warning")
    small = ("prlimit", "--fsize=500000")  # whoever writes more gets a signal that ends most programs
    gateway = start(Gateway, manifest(engine("e", sim.port, path=qwen3_path)), "--cache-dir", tmp_path / "small", wrapper=small)
    assert loads(gateway, 1) == [0, 1]
    (warning,) = wait_until(lambda: gateway.lines("image of a tokenizer not used"), "a warning")
    assert "File too large" in warning["error"], warning
    assert [f.name for f in (tmp_path / "small").iterdir()] == ["key"]
