"""What only SGLang's protocol says, against a stand-in for SGLang that looks at every field (sglang_standin.py)."""

import hashlib
import io
import time
import zipfile

import pytest
from engines import Sglang
from sglang_standin import Finish, Plan, Standin
from smg_grpc_proto.generated import sglang_scheduler_pb2 as pb


@pytest.fixture
def protocol():
    return Sglang


@pytest.fixture
def engine():
    standin = Standin()
    yield standin
    standin.stop()
    assert standin.complaints == []


@pytest.fixture
def probe(make_probe, engine):
    return make_probe(engine.address)


def ids_of(deltas, choice=0):
    return [i for d in deltas if d["choice"] == choice for i in d["ids"]]


# --- what is sent --------------------------------------------------------------------------------------------------


def expected(ids=(1, 2, 3), **more):
    """The whole request; `more` changes fields, those of SamplingParams too."""
    sampling = {"temperature": 1, "top_p": 1, "top_k": -1, "repetition_penalty": 1, "n": 1}
    known = pb.SamplingParams.DESCRIPTOR.fields_by_name
    sampling.update({k: v for k, v in more.items() if k in known})
    more = {k: v for k, v in more.items() if k not in known}
    return pb.GenerateRequest(**{
        "request_id": "a", "tokenized": pb.TokenizedInput(input_ids=ids), "sampling_params": pb.SamplingParams(**sampling), "logprob_start_len": -1,
        "stream": True, **more,
    })


@pytest.mark.parametrize("asked,sent", [
    ("ids=1,2,3", {}),
    ("ids=1,2,3 stream=0", {"stream": False}),
    ("ids=3,200,70000 request_id=req-1 text=hello",
     {"ids": [3, 200, 70000], "request_id": "req-1", "tokenized": pb.TokenizedInput(input_ids=[3, 200, 70000], original_text="hello")}),
    ("ids=1,2,3 temperature=0 seed=7", {"temperature": 0}),
    ("ids=1,2,3 temperature=0.25 top_p=0.5 top_k=20 min_p=0.125", {"temperature": 0.25, "top_p": 0.5, "top_k": 20, "min_p": 0.125}),
    ("ids=1,2,3 top_k=0", {}),
    ("ids=1,2,3 frequency_penalty=-0.5 presence_penalty=1.5 repetition_penalty=1.25",
     {"frequency_penalty": -0.5, "presence_penalty": 1.5, "repetition_penalty": 1.25}),
    ("ids=1,2,3 max_tokens=5 min_tokens=2 stop_ids=9,10 ignore_eos=1",
     {"max_new_tokens": 5, "min_new_tokens": 2, "stop_token_ids": [9, 10], "ignore_eos": True}),
    ("ids=1,2,3 bias=5:-1.5 bias=151935:2", {"logit_bias": {"5": -1.5, "151935": 2}}),
    ("ids=1,2,3 logprobs=0", {"return_logprob": True}),
    ("ids=1,2,3 logprobs=4", {"return_logprob": True, "top_logprobs_num": 4}),
    ("ids=1,2,3 prompt_logprobs=0", {"return_logprob": True, "logprob_start_len": 0}),
    ("ids=1,2,3 logprobs=1 prompt_logprobs=3", {"return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 3}),
    ("ids=1,2,3 n=3 stream=0", {"n": 3}),
])
def test_a_request_says_what_was_asked_and_nothing_else(engine, probe, asked, sent):
    assert probe.generate("a", asked)[1]["code"] == "OK"
    assert engine.requests == [expected(**sent)]


@pytest.mark.parametrize("asked,param", [
    ("seed=1", "seed"), ("seed=1 temperature=0.5", "seed"), ("logprobs=-1", "logprobs"), ("prompt_logprobs=-1", "logprobs"),
])
def test_what_the_protocol_has_no_field_for_is_refused_by_name(engine, probe, asked, param):
    deltas, end = probe.generate("a", f"ids=1,2,3 {asked}")
    assert (end["code"], end["param"], end["retryable"], deltas) == ("INVALID_ARGUMENT", param, False, [])
    assert f"`{param}`" in end["message"] and "SGLang" in end["message"]
    assert engine.requests == []


# --- what arrives --------------------------------------------------------------------------------------------------


def test_several_tokens_a_chunk_and_the_last_chunk_once_more(engine, probe):
    engine.plan = lambda r, k: Plan([[5], [6, 7, 8], [9]], Finish("length"))
    deltas, end = probe.generate("a", "ids=1,2,3")
    assert end["code"] == "OK" and [d["ids"] for d in deltas] == [[5], [6, 7, 8], [9], []]
    assert [d.get("finish") for d in deltas] == [None, None, None, "length"]
    assert all((d["prompt_tokens"], d["cached_tokens"]) == (3, 1) for d in deltas)
    whole, _ = probe.generate("b", "ids=1,2,3 stream=0")
    assert [(d["ids"], d["finish"]) for d in whole] == [([5, 6, 7, 8, 9], "length")]


def test_choices_end_one_by_one(engine, probe):
    engine.plan = lambda r, k: Plan([[10 * k + j] for j in range(k + 1)], Finish("stop", matched=2))
    deltas, end = probe.generate("a", "ids=1,2,3 n=3")
    assert end["code"] == "OK" and [ids_of(deltas, k) for k in range(3)] == [[0], [10, 11], [20, 21, 22]]
    assert [[d["finish"] for d in deltas if d["choice"] == k and "finish" in d] for k in range(3)] == [["stop"]] * 3


def test_only_an_id_that_was_asked_for_is_a_matched_one(engine, probe):
    engine.plan = lambda r, k: Plan([[5], [2]], Finish("stop", matched=2))
    assert "matched" not in probe.generate("a", "ids=1,2,3")[0][-1]  # the model's own end
    assert "matched" not in probe.generate("b", "ids=1,2,3 stop_ids=9")[0][-1]
    assert probe.generate("c", "ids=1,2,3 stop_ids=9,2")[0][-1]["matched"] == 2


def test_log_probabilities_of_output_and_prompt(engine, probe):
    deltas, _ = probe.generate("a", "ids=1,2,90 logprobs=1 prompt_logprobs=2")
    output = [lp for d in deltas for lp in d.get("logprobs", [])]
    assert output == [{"id": i, "logprob": -i / 8, "top": [[i + 1, -0.125]]} for i in (5, 6, 7)]
    (prompt,) = [d["prompt_logprobs"] for d in deltas if "prompt_logprobs" in d]
    assert prompt[0] == {"id": 1, "logprob": None, "top": []}
    assert prompt[1:] == [{"id": i, "logprob": -i / 8, "top": [[i + 1, -0.125], [i + 2, -0.25]]} for i in (2, 90)]
    whole, _ = probe.generate("b", "ids=1,2,90 logprobs=1 prompt_logprobs=2 stream=0")
    assert whole[0]["logprobs"] == output and whole[0]["prompt_logprobs"] == prompt
    only, _ = probe.generate("c", "ids=1,2,90 prompt_logprobs=0")
    assert not any("logprobs" in d for d in only) and [p["top"] for p in only[0]["prompt_logprobs"]] == [[], [], []]


@pytest.mark.parametrize("finish,says", [
    (Finish("abort"), "abort"),
    (Finish("stop"), "stop"),
])
def test_ends(engine, probe, finish, says):
    engine.plan = lambda r, k: Plan([[5], [6]], finish)
    deltas, end = probe.generate("a", "ids=1,2,3")
    assert end["code"] == "OK" and deltas[-1]["finish"] == says and ids_of(deltas) == [5, 6]


def test_a_model_that_makes_nonsense_is_a_failure(engine, probe):
    engine.plan = lambda r, k: Plan([[5], [2]], Finish("stop", matched="NaN happened"))
    deltas, end = probe.generate("a", "ids=1,2,3")
    assert (end["code"], end["tokens"]) == ("INTERNAL", 2) and not any("finish" in d for d in deltas)
    assert end["message"] == f"engine `{engine.address}`: says that it failed at choice 0"


# The scheduler's status, its words, our code, whether the engine is to blame.
ABORTS = [
    (400, "Multimodal prompt is too long", "INVALID_ARGUMENT", False),
    (408, "timeout", "DEADLINE_EXCEEDED", False),
    (429, "The request queue of this key is full.", "RESOURCE_EXHAUSTED", False),
    (503, "The request queue is full.", "RESOURCE_EXHAUSTED", False),
    (503, "Request queue timeout reached.", "RESOURCE_EXHAUSTED", False),
    (503, "The request is aborted by a higher priority request.", "RESOURCE_EXHAUSTED", False),
    (503, "Request running timeout reached.", "UNAVAILABLE", True),
    (500, "Request aborted", "INTERNAL", True),
]


@pytest.mark.parametrize("status,words,code,blamed", ABORTS)
@pytest.mark.parametrize("before", [0, 2])
def test_what_the_scheduler_gives_up(engine, probe, status, words, code, blamed, before):
    engine.plan = lambda r, k: Plan([[5], [6]][:before] + [[9]], Finish("abort", status=status, message=words))
    deltas, end = probe.generate("a", "ids=1,2,3")
    assert (end["code"], end["tokens"], end["retryable"]) == (code, before, False)
    assert words in end["message"] and (engine.address in end["message"]) == blamed


def test_a_prompt_beyond_the_context_is_the_clients_fault(engine, probe):
    _, end = probe.generate("a", "prompt=4090")
    assert end["code"] == "INVALID_ARGUMENT" and "4090 tokens" in end["message"]
    assert probe.generate("b", "prompt=4089")[1]["code"] == "OK"


def wait_for(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


LIE = pb.GenerateResponse(chunk=pb.GenerateStreamChunk(token_ids=[5], index=9))


@pytest.mark.parametrize("options,event", [
    ("cancel_after=1", "cancelled"), ("deadline_ms=500", "end"), ("n=2 deadline_ms=500", "end"), ("stream=0 deadline_ms=500", "end"),
])
def test_a_request_that_nobody_waits_for_is_aborted(engine, probe, options, event):
    engine.plan = lambda r, k: Plan([[5]], None)
    probe.do(f"start a ids=1,2,3 {options}")
    probe.expect(event=event, id="a")
    wait_for(lambda: engine.aborts)
    assert engine.aborts == ["a"] and not engine.running and engine.cancelled.is_set()
    engine.plan = lambda r, k: Plan([[5]], Finish())
    assert probe.generate("b", "ids=1,2,3 request_id=a")[1]["code"] == "OK"  # the same id once more


def test_so_is_one_whose_engine_lies(engine, probe):
    engine.plan = lambda r, k: Plan([[5], [6]], None)
    engine.chunk = lambda *a, **k: LIE
    assert "sent choice 9" in probe.generate("a", "ids=1,2,3")[1]["message"]
    wait_for(lambda: engine.aborts)
    assert engine.aborts == ["a"] and not engine.running


def test_what_has_ended_is_not_aborted(engine, probe):
    probe.generate("a", "ids=1,2,3")
    engine.plan = lambda r, k: Plan([[5], [9]], Finish("abort", status=500, message="gone"))
    probe.generate("b", "ids=1,2,3")
    probe.generate("c", "ids=1,2,3 seed=1")  # never sent
    probe.ask("health")
    assert engine.aborts == []


# --- questions -----------------------------------------------------------------------------------------------------


def test_what_the_python_servicer_makes_up_is_not_believed(engine, probe):
    info = probe.ask("info")
    assert info == {
        "event": "info", "code": "OK", "message": "", "model": "/models/q", "served_name": "q", "model_type": "qwen3", "architecture": "Qwen3ForCausalLM",
        "version": "0.5.20", "max_context": 4096, "vocab_size": 0, "max_running": 48, "eos": [], "default_temperature": -1,
    }
    engine.plan = lambda r, k: Plan([[151935]], Finish())  # beyond the 128256 it spoke of
    assert probe.generate("a", "ids=1,2,3")[1]["code"] == "OK"


def test_what_the_rust_servicer_knows_is(engine, probe):
    engine.facts |= {"max_context_length": 4096, "max_req_input_len": 4096, "vocab_size": 151936, "eos_token_ids": [7, 8], "bos_token_id": 9}
    engine.loads.append(pb.SchedulerLoad(dp_rank=1, max_running_requests=48))
    info = probe.ask("info")
    assert (info["max_context"], info["vocab_size"], info["eos"], info["bos"], info["max_running"]) == (4096, 151936, [7, 8], 9, 96)
    engine.plan = lambda r, k: Plan([[151936]], Finish())
    assert "its vocabulary has 151936" in probe.generate("a", "ids=1,2,3")[1]["message"]


def test_health_loads_and_tokenizer(engine, probe, tmp_path):
    assert probe.ask("health")["code"] == "OK"
    engine.healthy = False
    answer = probe.ask("health")
    assert answer["code"] == "UNAVAILABLE" and answer["message"].endswith("the engine says it is not healthy: Health check timeout after 20s")
    engine.loads = [pb.SchedulerLoad(num_running_reqs=2, num_waiting_reqs=1, num_used_tokens=50, token_usage=0.5), pb.SchedulerLoad(num_running_reqs=1)]
    loads = probe.ask("loads")
    assert (loads["running"], loads["waiting"], loads["total_tokens"], loads["kv_usage"]) == (3, 1, 50, 0.25)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tokenizer.json", bytes(range(256)) * 1000)
    engine.archive = packed.getvalue() + b"\0" * 70000  # more than one piece
    engine.digest = hashlib.sha256(engine.archive).hexdigest()
    assert probe.ask(f"tokenizer {tmp_path / 'z.zip'}")["code"] == "OK"
    assert (tmp_path / "z.zip").read_bytes() == engine.archive
    engine.digest = "0" * 64
    assert probe.ask("tokenizer")["code"] == "DATA_LOSS"
