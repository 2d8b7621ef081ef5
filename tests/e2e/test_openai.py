"""The OpenAI API as clients see it. With a real model: the text is llama.cpp's own for the same ids. With the sim engine, whose tokens
can be asked for without a gateway: text, ids and log-probabilities are exactly what Hugging Face's libraries and the engine say.
Every answer is asked for whole and streamed, and both must be the same."""

import concurrent.futures
import itertools
import random
import struct
import urllib.parse

import openai
import pytest
from oracles import ask_engine
from programs import QWEN3_TOKENS, Gateway, Sim, engine, manifest
from wire import CHAT, COMPLETIONS, Joined, both, call, stream

EOS, CONTEXT = 151645, 4096

CONVERSATIONS = [
    [{"role": "user", "content": "What is 2+2?"}],
    [{"role": "user", "content": "What is the capital of France? One sentence."}],
    [
        {"role": "system", "content": "You answer in one short line."},
        {"role": "user", "content": "Why is the sky blue?"},
    ],
    [
        {"role": "user", "content": "Count from one to five."},
        {"role": "assistant", "content": "1, 2, 3, 4, 5"},
        {"role": "user", "content": "Now backwards, please."},
    ],
    [{"role": "user", "content": "Übersetze: 猫, кошка, 🐈\u200d⬛, naïve café.\n\n\tTabs and  spaces."}],
    [{"role": "user", "content": "Write a line with the emoji 😀 and 🚀 and the word café."}],
]
PROMPTS = ["The capital of France is", "A, B, C, D, E,", "1 2 3 4", " café 🚀, café 🚀, café 🚀, café"]


# --- a real model ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(demo, start_shared):
    return start_shared(Gateway, manifest(engine("demo", demo.port, model="smollm2-135m", aliases=["small"])))


@pytest.fixture(scope="module")
def client(real):
    with openai.OpenAI(base_url=real.url + "/v1", api_key="none", max_retries=0, timeout=120) as c:
        yield c


def greedy(llama, ids, n):
    """llama.cpp's own greedy answer to ids: as many tokens, at most n, as it is sure of. Where two tokens are as good as equal, the
    size of a batch decides, and so it may say one thing today and another tomorrow."""
    ask = {"prompt": ids, "temperature": 0, "return_tokens": True, "cache_prompt": False}
    whole = llama("/completion", n_predict=n, n_probs=2, **ask)
    tops = [p["top_logprobs"] for p in whole["completion_probabilities"]]
    sure = [a["logprob"] - b["logprob"] > 0.1 for a, b in tops]
    if all(sure):
        return n, whole
    n = sure.index(False)
    assert n >= 4, "choose another prompt"
    return n, llama("/completion", n_predict=n, **ask)


def as_openai(theirs):
    return {"eos": "stop", "limit": "length"}[theirs["stop_type"]]


@pytest.mark.parametrize("number", range(len(CONVERSATIONS)))
def test_chat_is_llama_cpps_own_text(client, real, llama, number):
    messages = CONVERSATIONS[number]
    text = llama("/apply-template", messages=messages)["prompt"]
    ids = llama("/tokenize", content=text, parse_special=True)["tokens"]
    ours = call(real.port, "/v1/tokenize", {"model": "smollm2-135m", "messages": messages}).json()
    assert ours["tokens"] == ids and ours["count"] == len(ids) and ours["max_model_len"] == 1024

    n, theirs = greedy(llama, ids, 32)
    ask = {"model": "smollm2-135m", "messages": messages, "temperature": 0, "max_tokens": n}
    whole = client.chat.completions.create(**ask)
    assert whole.object == "chat.completion" and whole.model == "smollm2-135m" and len(whole.choices) == 1
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].message.content == theirs["content"]
    assert whole.choices[0].finish_reason == as_openai(theirs)
    assert whole.usage.prompt_tokens == theirs["tokens_evaluated"] == len(ids)
    assert whole.usage.completion_tokens == theirs["tokens_predicted"]
    assert whole.usage.total_tokens == len(ids) + theirs["tokens_predicted"]

    chunks = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    pieces = [c.choices[0].delta.content or "" for c in chunks[:-1]]
    assert "".join(pieces) == theirs["content"]
    assert [c.choices[0].finish_reason for c in chunks[-2:-1]] == [as_openai(theirs)]
    assert chunks[-1].choices == [] and chunks[-1].usage.prompt_tokens == len(ids)
    assert chunks[-1].usage.completion_tokens == theirs["tokens_predicted"]
    assert {(c.id, c.model, c.created) for c in chunks} == {(chunks[0].id, "smollm2-135m", chunks[0].created)}
    assert chunks[0].id != whole.id
    assert max(map(len, pieces)) < len(theirs["content"]), "it did not come token by token"


@pytest.mark.parametrize("number", range(len(PROMPTS)))
def test_completion_is_llama_cpps_own_text(client, llama, number):
    prompt = PROMPTS[number]
    ids = llama("/tokenize", content=prompt, parse_special=True, add_special=True)["tokens"]
    n, theirs = greedy(llama, ids, 20)
    for sent in (prompt, ids, [prompt], [ids]):
        ask = {"model": "smollm2-135m", "prompt": sent, "temperature": 0, "max_tokens": n}
        whole = client.completions.create(**ask)
        assert whole.object == "text_completion" and len(whole.choices) == 1
        assert whole.choices[0].text == theirs["content"]
        assert whole.choices[0].finish_reason == as_openai(theirs)
        assert whole.usage.prompt_tokens == len(ids)
        assert whole.usage.completion_tokens == theirs["tokens_predicted"]
    chunks = list(client.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks[:-1]) == theirs["content"]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == theirs["tokens_predicted"]


def test_chat_logprobs_of_a_real_model(client, demo, llama):
    """The engine's own, exactly; llama.cpp's, as far as two runs of it agree."""
    messages = CONVERSATIONS[3]
    text = llama("/apply-template", messages=messages)["prompt"]
    ids = llama("/tokenize", content=text, parse_special=True)["tokens"]
    theirs = llama(
        "/completion",
        prompt=ids,
        n_predict=8,
        temperature=0,
        n_probs=3,
        cache_prompt=False,
        return_tokens=True,
    )["completion_probabilities"]
    ask = {"model": "smollm2-135m", "messages": messages, "temperature": 0, "max_tokens": 8}
    whole = lambda: (
        client.chat.completions.create(**ask, logprobs=True, top_logprobs=3).choices[0].logprobs.content
    )
    whole()  # from now on the engine has the prompt in its cache
    ours = whole()
    engines = ask_engine(demo.address, ids, temperature=0, max_tokens=8, logprobs=3)
    assert [bytes(p.bytes) for p in ours] == [bytes(p["bytes"]) for p in theirs]
    assert [p.token for p in ours] == [p["token"] for p in theirs]
    assert [p.logprob for p in ours] == pytest.approx([p["logprob"] for p in theirs], abs=0.1)
    assert [p.logprob for p in ours] == pytest.approx(engines.logprobs, abs=0.001)
    for mine, others in zip(ours, engines.top, strict=True):
        assert [t.logprob for t in mine.top_logprobs] == pytest.approx([v for _, v in others], abs=0.001)
        tokens = [llama("/detokenize", tokens=[t])["content"] for t, _ in others]
        assert [t.token for t in mine.top_logprobs] == tokens


def test_sampling_follows_the_seed(client):
    ask = {"model": "small", "messages": CONVERSATIONS[0], "temperature": 1.5, "max_tokens": 6}
    text = lambda seed: client.chat.completions.create(**ask, seed=seed).choices[0].message.content
    assert len({text(seed) for seed in range(6)}) > 1
    assert client.chat.completions.create(**ask, seed=1).model == "small", "the name that was asked for"


def test_the_sdk_understands_models_and_errors(client):
    listed = {m.id: m for m in client.models.list()}
    assert set(listed) == {"smollm2-135m", "small"}
    assert {m.object for m in listed.values()} == {"model"}
    assert client.models.retrieve("small").id == "small"
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="nobody", messages=CONVERSATIONS[0])
    assert e.value.code == "model_not_found" and e.value.param == "model" and "nobody" in e.value.message
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="small", messages=[{"role": "user", "content": "word " * 1200}])
    assert e.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model="small", messages=CONVERSATIONS[0], temperature=9)
    assert e.value.param == "temperature"


# --- the sim engine -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sim(start_shared):
    return start_shared(
        Sim,
        "--vocab",
        QWEN3_TOKENS,
        "--max-context",
        CONTEXT,
        "--eos",
        f"{EOS},151643",
        "--log-ids",
        "--model",
        "qwen3",
    )


@pytest.fixture(scope="module")
def gateway(sim, start_shared, qwen3_path):
    return start_shared(
        Gateway, manifest(engine("sim", sim.port, path=qwen3_path, aliases=["group/other-name"]))
    )


@pytest.fixture
def scripted(start, qwen3_path, token_file):
    """scripted(ids, ...) -> port of a gateway whose engine answers with these ids in a circle."""

    def make(ids, *options):
        sim = start(
            Sim,
            "--vocab",
            QWEN3_TOKENS,
            "--max-context",
            CONTEXT,
            "--eos",
            f"{EOS},151643",
            "--tokens",
            token_file(ids),
            *options,
        )
        gateway = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)))
        gateway.sim = sim
        return gateway

    return make


def ids_sent(sim, request_id):
    """The prompts the engine got for an answer, by choice."""
    started = {e["request_id"]: e["ids"] for e in sim.events("start", request_id)}
    return [started[i] for i in sorted(started, key=lambda i: int(i.split("-")[-2]))]


QWEN3_CONVERSATIONS = [
    *CONVERSATIONS,
    [{"role": "system", "content": "Be brief.\n"}, {"role": "user", "content": ""}],
    [{"role": "user", "content": "l'été 1234567 ’’ it's I'LL \r\n\r\n  x\u00a0y\u3000z e\u0301 ﬁ ＡＢＣ  "}],
    [
        {"role": "user", "content": "What is 2+2?"},
        {"role": "assistant", "content": "<think>\nSimple.\n</think>\n\n4"},
        {"role": "user", "content": "And 3+3?"},
    ],
    [{"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}],
]


def as_strings(messages):
    """Lists of text parts joined, as templates that take strings get them."""
    join = lambda c: "\n".join(p["text"] for p in c) if isinstance(c, list) else c
    return [{**m, "content": join(m["content"])} for m in messages]


@pytest.mark.parametrize("number", range(len(QWEN3_CONVERSATIONS)))
def test_qwen3_ids_are_hugging_faces(gateway, sim, qwen3, number):
    messages = QWEN3_CONVERSATIONS[number]
    for extra in ({}, {"chat_template_kwargs": {"enable_thinking": False}}, {"add_generation_prompt": False}):
        kwargs = {**extra.get("chat_template_kwargs", {}), **{k: v for k, v in extra.items() if k[0] == "a"}}
        expected = qwen3.chat_ids(as_strings(messages), **kwargs)
        ours = call(gateway.port, "/v1/tokenize", {"model": "m", "messages": messages, **extra})
        assert ours.status == 200 and ours.json()["tokens"] == expected, extra
        answer = call(
            gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 1, **extra}
        ).json()
        assert ids_sent(sim, answer["id"]) == [expected]
        assert answer["usage"]["prompt_tokens"] == len(expected)


def test_smollm2_ids_from_the_engines_own_tokenizer(start, smollm2_zip, llama):
    sim = start(Sim, "--vocab", 49152, "--tokenizer-zip", smollm2_zip, "--log-ids")
    gateway = start(Gateway, manifest(engine("sim", sim.port)))
    for messages in CONVERSATIONS:
        text = llama("/apply-template", messages=messages)["prompt"]
        ids = llama("/tokenize", content=text, parse_special=True)["tokens"]
        answer = call(gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 1}).json()
        assert ids_sent(sim, answer["id"]) == [ids]
    for prompt in PROMPTS:
        ids = llama("/tokenize", content=prompt, parse_special=True, add_special=True)["tokens"]
        answer = call(gateway.port, COMPLETIONS, {"model": "m", "prompt": prompt, "max_tokens": 1}).json()
        assert ids_sent(sim, answer["id"]) == [ids]


def test_text_of_any_tokens_is_hugging_faces(gateway, sim, qwen3):
    """Tokens drawn from the whole vocabulary: halves of characters, special tokens, invalid bytes."""
    broken = 0
    for seed in range(60):
        prompt = qwen3.encode(f"seed {seed}")
        tokens = ask_engine(sim.address, prompt, max_tokens=40, seed=seed)
        for skip in (True, False):
            answer = both(
                gateway.port,
                COMPLETIONS,
                {"model": "m", "prompt": prompt, "max_tokens": 40, "seed": seed, "skip_special_tokens": skip},
            )
            expected = qwen3.decode(tokens.ids, skip)
            assert answer["choices"][0]["text"] == expected, (seed, tokens.ids)
            assert answer["usage"] == {
                "prompt_tokens": len(prompt),
                "completion_tokens": 40,
                "total_tokens": len(prompt) + 40,
                "prompt_tokens_details": {"cached_tokens": 0},
            }
        broken += "\ufffd" in expected
        messages = [{"role": "user", "content": f"seed {seed}"}]
        tokens = ask_engine(sim.address, qwen3.chat_ids(messages), max_tokens=40, seed=seed)
        answer = both(
            gateway.port, CHAT, {"model": "m", "messages": messages, "max_tokens": 40, "seed": seed}
        )
        assert answer["choices"][0]["message"]["content"] == qwen3.decode(tokens.ids)
        assert answer["choices"][0]["finish_reason"] == "length"
    assert broken > 10


def byte_tokens(qwen3, text):
    """One token per byte."""
    of = {qwen3.token_bytes(i): i for i in range(256)}
    assert len(of) == 256
    return [of[bytes([b])] for b in text.encode()]


def test_tk10_ids_that_only_pad_the_vocabulary(start, qwen3, qwen3_path, token_file):
    """Qwen3's model has more rows than its tokenizer has tokens: no text, as in the reference, also in the middle of a character."""
    ids = [151700, *byte_tokens(qwen3, "a é"), 151935, *byte_tokens(qwen3, "b")]
    ids.insert(4, 151800)  # between the two bytes of é
    sim = start(Sim, "--vocab", 151936, "--tokens", token_file(ids))
    gateway = start(Gateway, manifest(engine("sim", sim.port, path=qwen3_path)))
    body = {"model": "m", "prompt": "x", "max_tokens": len(ids), "logprobs": 1}
    answer = both(gateway.port, COMPLETIONS, body)
    assert answer["choices"][0]["text"] == qwen3.decode(ids) == "a éb"
    assert answer["usage"]["completion_tokens"] == len(ids)


TEXT = "Él año 🚀 ends, ends 👩\u200d🚀 naïve."


def test_dt01_characters_split_over_tokens(scripted, qwen3):
    ids = byte_tokens(qwen3, TEXT)
    gateway = scripted(ids)
    for n in range(1, len(ids) + 1):
        body = {"model": "m", "prompt": "x", "max_tokens": n}
        assert both(gateway.port, COMPLETIONS, body)["choices"][0]["text"] == qwen3.decode(ids[:n])
    with stream(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", "max_tokens": len(ids)}) as s:
        pieces = [c["choices"][0]["text"] for c in s]
    assert [p for p in pieces if p] == list(TEXT), "each character as soon as it is whole"


def test_dt07_an_answer_begins_with_its_first_token(scripted, qwen3):
    """A prompt that ends inside a character leaves nothing in the answer, whether the answer goes on with it or not."""
    prompt = byte_tokens(qwen3, "long prompt é")[:-1]
    for text, shown in ((b"ok \xc3\xa9", "ok é"), (b"\xa9 ok", "\ufffd ok")):
        ids = [next(i for i in range(256) if qwen3.token_bytes(i) == bytes([b])) for b in text]
        gateway = scripted(ids)
        answer = both(gateway.port, COMPLETIONS, {"model": "m", "prompt": prompt, "max_tokens": len(ids)})
        assert answer["choices"][0]["text"] == qwen3.decode(ids) == shown


def test_dt08_special_tokens_are_told_by_their_ids(scripted, qwen3):
    """What is skipped is a token, not a text: one that looks the same, made of ordinary tokens, stays; added tokens that are not special stay."""
    (start,), (think,) = qwen3.encode("<|im_start|>"), qwen3.encode("</think>")
    ids = [*byte_tokens(qwen3, "a"), start, *byte_tokens(qwen3, "<|im_start|>b"), think, *byte_tokens(qwen3, "c")]
    gateway = scripted(ids)
    for skip in (True, False):
        body = {"model": "m", "prompt": "x", "max_tokens": len(ids), "skip_special_tokens": skip}
        assert both(gateway.port, COMPLETIONS, body)["choices"][0]["text"] == qwen3.decode(ids, skip_special=skip)
        assert both(gateway.port, CHAT, {"messages": [{"role": "user", "content": "x"}], **{k: v for k, v in body.items() if k != "prompt"}})


def first_stop(text, stops):
    """(where the match begins, where it ends, its text), of the match that ends first; None."""
    for end in range(len(text) + 1):
        matches = [s for s in stops if text[:end].endswith(s)]
        if matches:
            longest = max(matches, key=len)
            return end - len(longest), end, longest
    return None


@pytest.mark.parametrize("pieces", ["tokens", "bytes"])
def test_st01_st03_st06_stop_strings_at_every_place(scripted, qwen3, pieces):
    ids = byte_tokens(qwen3, TEXT) if pieces == "bytes" else qwen3.encode(TEXT)
    sizes = list(itertools.accumulate(len(qwen3.token_bytes(i)) for i in ids))
    gateway = scripted(ids)

    def check(stops, include):
        body = {
            "model": "m",
            "prompt": "x",
            "max_tokens": len(ids),
            "stop": stops if len(stops) > 1 else stops[0],
        }
        body |= {"include_stop_str_in_output": True} if include else {}
        answer = both(gateway.port, COMPLETIONS, body)
        choice, used = answer["choices"][0], answer["usage"]["completion_tokens"]
        if found := first_stop(TEXT, stops):
            begin, end, match = found
            assert choice["text"] == TEXT[: end if include else begin]
            assert choice["finish_reason"] == "stop" and choice["stop_reason"] == match
            assert used == 1 + sum(size < len(TEXT[:end].encode()) for size in sizes)
        else:
            assert choice["text"] == TEXT and choice["finish_reason"] == "length" and used == len(ids)
            assert "stop_reason" not in choice

    substrings = {TEXT[i:j] for i in range(len(TEXT)) for j in range(i + 1, min(i + 4, len(TEXT)) + 1)}
    for stop in sorted(substrings):
        check([stop], include=False)
    pick = random.Random(1)
    absent = ["end.", "🚀x", "Éz", "naïv ", "\u200d👩", "s, e s"]
    for _ in range(60):
        stops = pick.sample(sorted(substrings), pick.randint(0, 3)) + pick.sample(absent, pick.randint(1, 3))
        check(stops, include=pick.random() < 0.5)


def test_st07_stop_strings_in_chat_and_in_each_choice(scripted, qwen3):
    """Each choice of the sim engine begins where its index says; stops are looked for in each."""
    ids = byte_tokens(qwen3, TEXT)
    gateway = scripted(ids)
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": len(ids),
        "stop": ["ends"],
    }
    answer = both(gateway.port, CHAT, body)
    assert answer["choices"][0]["message"]["content"] == TEXT[: TEXT.index("ends")]
    assert answer["choices"][0]["stop_reason"] == "ends"
    answer = both(gateway.port, CHAT, {**body, "n": 3})
    assert [c["message"]["content"] for c in answer["choices"]] == [TEXT[: TEXT.index("ends")]] * 3
    assert [c["finish_reason"] for c in answer["choices"]] == ["stop"] * 3


def test_st03_a_matched_stop_string_stops_the_engine(scripted, qwen3):
    gateway = scripted(byte_tokens(qwen3, TEXT), "--itl-ms", 5)
    for body in ({}, {"stream": True}):
        answer = call(
            gateway.port,
            COMPLETIONS,
            {"model": "m", "prompt": "x", "max_tokens": 3000, "stop": "año", **body},
        )
        assert answer.status == 200
    cancelled = gateway.sim.wait_event("cancelled", count=2)
    assert all(e["after"] < 60 for e in cancelled)


def test_stop_token_ids(scripted, qwen3):
    """As in vLLM: the token counts, its text is shown only with include_stop_str_in_output."""
    ids = qwen3.encode(TEXT)
    gateway = scripted(ids)
    for at in (0, 3, len(ids) - 1):
        at = ids.index(ids[at])
        body = {"model": "m", "prompt": "x", "max_tokens": len(ids), "stop_token_ids": [7, ids[at]]}
        answer = both(gateway.port, COMPLETIONS, body)
        choice = answer["choices"][0]
        assert choice["text"] == qwen3.decode(ids[:at])
        assert choice["finish_reason"] == "stop" and choice["stop_reason"] == ids[at]
        assert answer["usage"]["completion_tokens"] == at + 1
        answer = both(gateway.port, COMPLETIONS, {**body, "include_stop_str_in_output": True})
        assert answer["choices"][0]["text"] == qwen3.decode(ids[: at + 1])


def test_end_of_sequence(scripted, qwen3):
    ids = qwen3.encode(TEXT)
    gateway = scripted(ids, "--stop-after", 6)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 12}
    for skip in (True, False):
        answer = both(gateway.port, CHAT, {**body, "skip_special_tokens": skip})
        assert answer["choices"][0]["message"]["content"] == qwen3.decode(ids[:5])
        assert answer["choices"][0]["finish_reason"] == "stop" and "stop_reason" not in answer["choices"][0]
        assert answer["usage"]["completion_tokens"] == 6
    answer = both(gateway.port, CHAT, {**body, "ignore_eos": True})
    assert answer["choices"][0]["message"]["content"] == qwen3.decode(ids[:12])
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 12
    answer = both(gateway.port, CHAT, {**body, "min_tokens": 9})
    assert answer["usage"]["completion_tokens"] == 10


def test_max_tokens(gateway, sim, qwen3):
    messages = [{"role": "user", "content": "How long?"}]
    prompt = len(qwen3.chat_ids(messages))
    body = {"model": "m", "messages": messages}
    for extra, expected in (
        ({"max_tokens": 1}, 1),
        ({"max_completion_tokens": 2}, 2),
        ({"max_completion_tokens": 3, "max_tokens": 9}, 3),
        ({"max_tokens": 9, "max_completion_tokens": 3}, 3),
        ({"max_tokens": None}, CONTEXT - prompt),
        ({"max_tokens": CONTEXT - prompt}, CONTEXT - prompt),
    ):
        answer = both(gateway.port, CHAT, {**body, **extra})
        assert (
            answer["usage"]["completion_tokens"] == expected
            and answer["choices"][0]["finish_reason"] == "length"
        )
    refused = call(gateway.port, CHAT, {**body, "max_tokens": CONTEXT - prompt + 1})
    assert refused.status == 400 and refused.error["code"] == "context_length_exceeded"
    # OpenAI's default for the older API.
    assert both(gateway.port, COMPLETIONS, {"model": "m", "prompt": "x"})["usage"]["completion_tokens"] == 16


def test_choices_have_seeds_that_count_up(gateway, sim, qwen3):
    messages = [{"role": "user", "content": "Several"}]
    ids = qwen3.chat_ids(messages)
    answer = both(
        gateway.port, CHAT, {"model": "m", "messages": messages, "n": 4, "seed": 40, "max_tokens": 20}
    )
    texts = [c["message"]["content"] for c in answer["choices"]]
    assert texts == [
        qwen3.decode(ask_engine(sim.address, ids, seed=40 + i, max_tokens=20).ids) for i in range(4)
    ]
    assert len(set(texts)) == 4
    # The prompt counts once.
    assert answer["usage"]["prompt_tokens"] == len(ids) and answer["usage"]["completion_tokens"] == 80
    # Seeds beyond 32 bits and below zero are taken, and tell apart.
    seeds = [-1, -(2**40), 2**40, 2**63 - 1, -(2**63), 12345678901234567]
    seen = {
        both(gateway.port, COMPLETIONS, {"model": "m", "prompt": "s", "seed": s})["choices"][0]["text"]
        for s in seeds
    }
    assert len(seen) == len(seeds)


def test_prompt_arrays(gateway, sim, qwen3):
    texts = ["first", "second one", "third: é 🚀"]
    ids = [qwen3.encode(t) for t in texts]
    alone = [qwen3.decode(ask_engine(sim.address, i, seed=5, max_tokens=8).ids) for i in ids]
    second = [qwen3.decode(ask_engine(sim.address, i, seed=6, max_tokens=8).ids) for i in ids]
    body = {"model": "m", "seed": 5, "max_tokens": 8}
    for prompt, expected in (
        (texts[0], alone[:1]),
        (texts, alone),
        (ids[1], alone[1:2]),
        (ids, alone),
        ([texts[2]], alone[2:]),
        ([texts[0], ids[1]], alone[:2]),
    ):
        answer = both(gateway.port, COMPLETIONS, {**body, "prompt": prompt})
        assert [c["text"] for c in answer["choices"]] == expected
        assert answer["usage"]["completion_tokens"] == 8 * len(expected)
    answer = both(gateway.port, COMPLETIONS, {**body, "prompt": texts, "n": 2})
    assert [c["text"] for c in answer["choices"]] == [
        t for pair in zip(alone, second, strict=True) for t in pair
    ]
    assert answer["usage"]["prompt_tokens"] == sum(map(len, ids))
    many = [f"number {i}" for i in range(128)]
    answer = both(gateway.port, COMPLETIONS, {**body, "prompt": many, "max_tokens": 2})
    assert len({c["text"] for c in answer["choices"]}) > 100 and len(ids_sent(sim, answer["id"])) == 128


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def shown(data):
    return data.decode("utf-8", "replace")


@pytest.mark.parametrize("top", [0, 1, 5, 20])
def test_chat_logprobs_are_the_engines(gateway, sim, qwen3, top):
    messages = [{"role": "user", "content": f"likely {top}"}]
    tokens = ask_engine(sim.address, qwen3.chat_ids(messages), seed=3, max_tokens=24, logprobs=top)
    body = {"model": "m", "messages": messages, "seed": 3, "max_tokens": 24, "logprobs": True}
    answer = both(gateway.port, CHAT, {**body, "top_logprobs": top} if top else body)
    got = answer["choices"][0]["logprobs"]
    assert set(got) == {"content", "refusal"} and got["refusal"] is None and len(got["content"]) == 24

    def entry(token, logprob):
        data = qwen3.token_bytes(token)
        return {"token": shown(data), "logprob": logprob, "bytes": list(data)}

    for i, mine in enumerate(got["content"]):
        mine["logprob"] = f32(mine["logprob"])
        for t in mine["top_logprobs"]:
            t["logprob"] = f32(t["logprob"])
        expected = entry(tokens.ids[i], tokens.logprobs[i])
        expected["top_logprobs"] = [entry(t, v) for t, v in tokens.top[i]] if top else []
        assert mine == expected
    # Not asked for: not there.
    body["logprobs"] = False
    assert both(gateway.port, CHAT, body)["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("top", [0, 1, 5, 20])
def test_completion_logprobs_are_the_engines(gateway, sim, qwen3, top):
    prompt = qwen3.encode(f"likely {top}")
    tokens = ask_engine(sim.address, prompt, seed=3, max_tokens=24, logprobs=top)
    answer = both(
        gateway.port,
        COMPLETIONS,
        {"model": "m", "prompt": prompt, "seed": 3, "max_tokens": 24, "logprobs": top},
    )
    got = answer["choices"][0]["logprobs"]
    assert list(got) == ["tokens", "token_logprobs", "top_logprobs", "text_offset"]
    text = lambda token: shown(qwen3.token_bytes(token))
    assert got["tokens"] == [text(t) for t in tokens.ids]
    assert [f32(v) for v in got["token_logprobs"]] == tokens.logprobs
    assert len(got["top_logprobs"]) == len(got["text_offset"]) == 24
    for i, mine in enumerate(got["top_logprobs"]):
        expected = {}
        for t, v in [*(tokens.top[i] if top else ()), (tokens.ids[i], tokens.logprobs[i])]:
            expected.setdefault(text(t), v)
        assert {t: f32(v) for t, v in mine.items()} == expected
    assert both(gateway.port, COMPLETIONS, {"model": "m", "prompt": prompt})["choices"][0]["logprobs"] is None


def test_text_offsets_count_characters(scripted, qwen3):
    text = "One two, three: naïve café."
    ids = qwen3.encode(text)
    gateway = scripted(ids)
    answer = both(
        gateway.port, COMPLETIONS, {"model": "m", "prompt": "x", "max_tokens": len(ids), "logprobs": 0}
    )
    got = answer["choices"][0]["logprobs"]
    assert "".join(got["tokens"]) == text
    assert got["text_offset"] == [len("".join(got["tokens"][:i])) for i in range(len(ids))]


def test_usage_in_the_stream_only_when_asked_for(gateway):
    for path, body in (
        (CHAT, {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 3}),
        (COMPLETIONS, {"model": "m", "prompt": "x", "max_tokens": 3}),
    ):
        for options in (None, {}, {"include_usage": False}):
            with stream(gateway.port, path, {**body, "stream_options": options}) as s:
                chunks = list(s)
            assert not any("usage" in c for c in chunks) and all(c["choices"] for c in chunks)
        with stream(gateway.port, path, {**body, "stream_options": {"include_usage": True}}) as s:
            chunks = list(s)
        assert all(c["usage"] is None and len(c["choices"]) == 1 for c in chunks[:-1])
        assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 3


def test_models(gateway):
    answer = call(gateway.port, "/v1/models").json()
    assert answer["object"] == "list"
    models = {m["id"]: m for m in answer["data"]}
    assert set(models) == {"m", "group/other-name"}
    for name, model in models.items():
        assert (
            model["object"] == "model" and isinstance(model["created"], int) and model["owned_by"] == "kelpie"
        )
        assert model["max_model_len"] == CONTEXT and model["root"] == "m"
        assert model["parent"] == (None if name == "m" else "m")
        for path in {urllib.parse.quote(name, safe=""), urllib.parse.quote(name)}:
            assert call(gateway.port, f"/v1/models/{path}").json() == model
    for path in ("nobody", "m/", "%6D%", "%zz"):
        answer = call(gateway.port, f"/v1/models/{path}")
        assert answer.status == 404 and answer.error["code"] == "model_not_found", path
    assert call(gateway.port, "/v1/models/%6D").json()["id"] == "m"


def test_tokenize_and_back(gateway, qwen3):
    pick = random.Random(7)
    alphabet = (
        "abc ABC 012 \n\t.,'’é ñ ß 中文 日本 한글 🚀 👩\u200d🚀 \u0301 \u200b \u00a0 <|im_end|> <think>"
    )
    texts = ["", " ", "\n\n\n", TEXT, "<|im_start|>user", "\u0000nul", "a" * 3000]
    texts += ["".join(pick.choices(alphabet, k=pick.randint(1, 60))) for _ in range(60)]
    for text in texts:
        for path in ("/v1/tokenize", "/tokenize"):
            answer = call(gateway.port, path, {"model": "m", "prompt": text}).json()
        expected = qwen3.encode(text)
        assert answer["tokens"] == expected and answer["count"] == len(expected), text
        assert answer["max_model_len"] == CONTEXT
        for path in ("/v1/detokenize", "/detokenize"):
            back = call(gateway.port, path, {"model": "m", "tokens": expected}).json()
        assert back == {"prompt": qwen3.decode(expected, skip_special=False)}
    answer = call(
        gateway.port, "/v1/tokenize", {"model": "m", "prompt": "é🚀", "return_token_strs": True}
    ).json()
    assert answer["token_strs"] == qwen3.fast.convert_ids_to_tokens(answer["tokens"])


def test_lm10_names_and_nulls(gateway):
    """An alias is answered with the name that was asked for; null is the same as nothing."""
    nulls = dict.fromkeys(
        [
            "temperature",
            "top_p",
            "n",
            "stop",
            "seed",
            "max_tokens",
            "logit_bias",
            "logprobs",
            "stream_options",
            "user",
            "tools",
            "response_format",
            "presence_penalty",
            "stream",
        ]
    )
    body = {"messages": [{"role": "user", "content": "x", "name": None}], "max_completion_tokens": 2}
    answer = call(gateway.port, CHAT, {"model": "group/other-name", **body, **nulls})
    assert answer.status == 200 and answer.json()["model"] == "group/other-name"
    with_id = call(gateway.port, CHAT, {"model": "m", **body}, headers=[("X-Request-Id", "abc-1.2:3_4")])
    assert with_id.headers["x-request-id"] == "abc-1.2:3_4"
    without = call(gateway.port, CHAT, {"model": "m", **body}, headers=[("X-Request-Id", "not one")])
    assert without.headers["x-request-id"] == without.json()["id"]
    early = call(gateway.port, "/v1/nothing", {}, headers=[("X-Request-Id", "abc-1")])
    assert early.status == 404 and early.headers["x-request-id"] == "abc-1"


def test_many_streams_at_once(start, sim, qwen3, qwen3_path):
    paced = start(Sim, "--vocab", QWEN3_TOKENS, "--eos", f"{EOS},151643", "--itl-ms", 2)
    gateway = start(Gateway, manifest(engine("sim", paced.port, path=qwen3_path)))

    def one(number):
        prompt = qwen3.encode(f"stream {number}")
        with stream(
            gateway.port, COMPLETIONS, {"model": "m", "prompt": prompt, "max_tokens": 50, "seed": number}
        ) as s:
            joined = Joined(s, chat=False)
            assert s.done
        return joined.text[0], prompt

    with concurrent.futures.ThreadPoolExecutor(48) as threads:
        answers = list(threads.map(one, range(96)))
    for number, (text, prompt) in enumerate(answers):
        assert text == qwen3.decode(ask_engine(sim.address, prompt, max_tokens=50, seed=number).ids), number
