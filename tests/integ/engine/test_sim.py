"""The sim engine, asked by grpcio with the engines' own messages (PyPI smg-grpc-proto)."""

import hashlib
import io
import time
import zipfile

import grpc
import pytest
from smg_grpc_proto.generated import common_pb2

import engines
from engines import pb

PROMPT = [1, 5, 7, 900]


def request(prompt=PROMPT, stream=True, request_id="r", text="", **params):
    params.setdefault("max_tokens", 8)
    return pb.GenerateRequest(
        request_id=request_id, stream=stream, tokenized=pb.TokenizedInput(input_ids=prompt, original_text=text),
        sampling_params=pb.SamplingParams(**params),
    )


def ids_of(messages, choice=0):
    return [i for m in messages if m.HasField("chunk") and m.chunk.index == choice for i in m.chunk.token_ids]


def run(sim, req, **more):
    return list(sim.stub.Generate(req, timeout=engines.PATIENCE, **more))


def test_the_same_request_gives_the_same_ids(sim):
    first = ids_of(run(sim, request()))
    assert len(first) == 8 and all(0 <= i < 32000 for i in first)
    assert ids_of(run(sim, request())) == first
    assert ids_of(run(sim, request(seed=7))) != first
    assert ids_of(run(sim, request(prompt=[1, 5, 7, 901]))) != first
    (whole,) = run(sim, request(stream=False))
    assert list(whole.complete.output_ids) == first
    assert whole.complete.completion_tokens == 8 and whole.complete.prompt_tokens == 4


def test_a_stream_is_chunks_and_a_complete_that_repeats_the_last(sim):
    messages = run(sim, request())
    assert [m.WhichOneof("response") for m in messages] == ["chunk"] * 8 + ["complete"]
    assert all(m.chunk.completion_tokens == len(m.chunk.token_ids) and m.chunk.prompt_tokens == 4 for m in messages[:-1])
    last = messages[-1].complete
    assert list(last.output_ids) == list(messages[-2].chunk.token_ids)
    assert last.finish_reason == "length" and last.WhichOneof("matched_stop") is None


def test_choices_interleave_and_end_one_by_one(sim):
    messages = run(sim, request(n=3, seed=5))
    ids = [ids_of(messages, choice) for choice in range(3)]
    assert [len(i) for i in ids] == [8, 8, 8] and len(set(map(tuple, ids))) == 3
    assert [m.chunk.index for m in messages[:6]] == [0, 1, 2, 0, 1, 2]
    for k, message in enumerate(messages):
        if message.HasField("complete"):
            assert messages[k - 1].chunk.index == message.complete.index
    whole = run(sim, request(n=3, seed=5, stream=False))
    assert [list(m.complete.output_ids) for m in whole] == ids


def test_log_probabilities(sim):
    messages = run(sim, request(logprobs=3, prompt_logprobs=2))
    for m in messages[:-1]:
        lp = m.chunk.output_logprobs
        assert list(lp.token_ids) == list(m.chunk.token_ids) and len(lp.token_logprobs) == 1
        assert lp.top_logprobs[0].token_ids[0] == lp.token_ids[0] and len(lp.top_logprobs[0].token_ids) == 3
        assert lp.top_logprobs[0].values[0] == lp.token_logprobs[0]
    prompt = messages[0].chunk.input_logprobs
    assert list(prompt.token_ids) == PROMPT
    assert [t.HasField("value") for t in prompt.token_logprobs] == [False, True, True, True]
    assert [len(t.token_ids) for t in prompt.top_logprobs] == [0, 2, 2, 2]
    assert not messages[1].chunk.HasField("input_logprobs")
    bare = run(sim, request(logprobs=0))[0].chunk.output_logprobs
    assert len(bare.token_logprobs) == 1 and len(bare.top_logprobs) == 0


def test_stop_ids_and_the_models_own_end(make_sim):
    sim = make_sim("--stop-after", 5, "--eos", "77,78")
    messages = run(sim, request())
    assert ids_of(messages)[-1] == 77 and len(ids_of(messages)) == 5
    assert messages[-1].complete.finish_reason == "stop" and messages[-1].complete.WhichOneof("matched_stop") is None
    ids = ids_of(run(sim, request(ignore_eos=True)))
    assert len(ids) == 8 and not {77, 78} & set(ids)
    assert len(ids_of(run(sim, request(min_tokens=6)))) == 7
    stopped = run(sim, request(stop_token_ids=[ids[2]], ignore_eos=True))
    assert ids_of(stopped) == ids[:3]
    assert stopped[-1].complete.finish_reason == "stop" and stopped[-1].complete.matched_token_id == ids[2]
    assert ids_of(run(sim, request(stop_token_ids=[ids[2]], min_tokens=3, ignore_eos=True))) == ids


def test_given_tokens_go_in_a_circle(make_sim, tmp_path):
    (tmp_path / "ids").write_text("10 11\n12\t13 14\n")
    sim = make_sim("--tokens", tmp_path / "ids")
    assert ids_of(run(sim, request())) == [10, 11, 12, 13, 14, 10, 11, 12]


def status_of(sim, req, **more):
    """(messages before the end, code, details)"""
    seen = 0
    try:
        for _ in sim.stub.Generate(req, timeout=more.pop("timeout", engines.PATIENCE), **more):
            seen += 1
        return seen, grpc.StatusCode.OK, ""
    except grpc.RpcError as e:
        return seen, e.code(), e.details()


def test_what_vllm_refuses(make_sim):
    sim = make_sim("--vocab", 1000, "--max-context", 100)
    for req, words in [
        (request(prompt=[]), "empty"),
        (request(prompt=[1000]), "Token id 1000 is out of vocabulary"),
        (request(prompt=[1] * 100), "length 100"),
        (request(max_tokens=0), "max_tokens"),
        (request(temperature=0, n=2), "greedy"),
        (request(temperature=-1), "temperature"),
        (request(top_p=1.5), "top_p"),
        (request(logprobs=21), "logprobs"),
        (pb.GenerateRequest(text="hello"), "tokenized"),
    ]:
        seen, code, details = status_of(sim, req)
        assert (seen, code) == (0, grpc.StatusCode.INVALID_ARGUMENT) and words in details
    # The context is what remains for the answer.
    assert len(ids_of(run(sim, request(prompt=[1] * 95)))) == 5
    call = sim.channel.unary_stream("/vllm.grpc.engine.VllmEngine/Generate")(b"\xff\xff\xff", timeout=5)
    with pytest.raises(grpc.RpcError) as e:
        next(call)
    assert e.value.code() == grpc.StatusCode.INTERNAL


def test_one_step_for_all_streams(make_sim):
    sim = make_sim("--ttft-ms", 120, "--itl-ms", 30)
    began = time.monotonic()
    calls = [sim.stub.Generate(request(prompt=[k + 1], max_tokens=6), timeout=engines.PATIENCE) for k in range(8)]
    first = [next(call) for call in calls]
    assert time.monotonic() - began >= 0.12 and all(m.HasField("chunk") for m in first)
    for call, message in zip(calls, first):
        assert len(ids_of([message, *call])) == 6
    assert time.monotonic() - began >= 0.12 + 4 * 0.03  # an idle engine makes its first step at once


def test_a_slow_client_gets_the_tokens_of_several_steps_in_one_chunk(make_sim):
    sim = make_sim("--itl-ms", 1)
    narrow = grpc.insecure_channel(sim.address, options=[("grpc.http2.lookahead_bytes", 65535), ("grpc.http2.bdp_probe", 0)])
    method = narrow.unary_stream("/vllm.grpc.engine.VllmEngine/Generate", lambda r: r.SerializeToString(), pb.GenerateResponse.FromString)
    call = method(request(max_tokens=3000, logprobs=20), timeout=engines.PATIENCE)
    next(call)
    time.sleep(2)  # 20 alternatives are 200 bytes a token: the window of 64 KiB fills up
    chunks = [m.chunk for m in call if m.HasField("chunk")]
    assert max(len(c.token_ids) for c in chunks) > 1
    assert sum(len(c.token_ids) for c in chunks) == 2999


def test_cancellation_is_logged_with_what_was_sent(make_sim):
    sim = make_sim("--itl-ms", 5)
    call = sim.stub.Generate(request(request_id="gone", max_tokens=10000))
    for _ in range(3):
        next(call)
    began = time.monotonic()
    call.cancel()
    line = sim.logged(event="cancelled", request_id="gone")
    assert 3 <= line["after"] < 1000 and line["t"] - began < 1
    assert run(sim, request())


def test_abort_ends_a_request_with_what_it_has(make_sim):
    sim = make_sim("--itl-ms", 5)
    call = sim.stub.Generate(request(request_id="stop me", max_tokens=10000), timeout=engines.PATIENCE)
    next(call)
    sim.stub.Abort(pb.AbortRequest(request_ids=["nobody", "stop me"]), timeout=5)
    assert list(call)[-1].complete.finish_reason == "abort"


def test_info_health_and_loads(make_sim):
    sim = make_sim("--model", "/m/q", "--served-name", "q", "--model-type", "qwen3", "--architecture", "Q3", "--vocab", 151936,
                   "--max-context", 4096, "--eos", "5,6", "--bos", 9, "--defaults", '{"top_k":20}', "--itl-ms", 5)
    info = sim.stub.GetModelInfo(pb.GetModelInfoRequest(), timeout=5)
    assert (info.model_path, info.served_model_name, info.model_type, list(info.architectures)) == ("/m/q", "q", "qwen3", ["Q3"])
    assert (info.vocab_size, info.max_context_length, list(info.eos_token_ids), info.bos_token_id) == (151936, 4096, [5, 6], 9)
    assert info.default_sampling_params_json == '{"top_k":20}' and info.is_generation
    assert sim.stub.HealthCheck(pb.HealthCheckRequest(), timeout=5).healthy
    assert sim.stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=5).max_num_seqs == 1024
    call = sim.stub.Generate(request(max_tokens=10000))
    next(call)
    (load,) = sim.stub.GetLoads(pb.GetLoadsRequest(), timeout=5).loads
    assert load.num_running_reqs == 1 and load.num_waiting_reqs == 0 and load.num_used_tokens >= 5
    call.cancel()
    sim.logged(event="cancelled")
    (load,) = sim.stub.GetLoads(pb.GetLoadsRequest(), timeout=5).loads
    assert load.num_total_reqs == 0 and load.num_used_tokens == 0
    sim.control.write_text("unhealthy\n")
    assert not sim.stub.HealthCheck(pb.HealthCheckRequest(), timeout=5).healthy
    with pytest.raises(grpc.RpcError) as e:
        sim.channel.unary_unary("/vllm.grpc.engine.VllmEngine/Embed")(b"", timeout=5)
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_tokenizer_is_a_zip_in_pieces(make_sim, tmp_path):
    big = tmp_path / "tokenizer.json"
    big.write_bytes(bytes(range(256)) * 1000)
    sim = make_sim("--tokenizer-file", big, "--tokenizer-file", engines.ROOT / "Makefile")
    chunks = list(sim.stub.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=5))
    data = b"".join(c.data for c in chunks)
    assert len(chunks) == 4 and [bool(c.sha256) for c in chunks] == [False] * 3 + [True]
    assert chunks[-1].sha256 == hashlib.sha256(data).hexdigest()
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None and archive.namelist() == ["tokenizer.json", "Makefile"]
    assert archive.read("tokenizer.json") == big.read_bytes()
    (tmp_path / "given.zip").write_bytes(data)
    again = make_sim("--tokenizer-zip", tmp_path / "given.zip")
    assert b"".join(c.data for c in again.stub.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=5)) == data


FAULTS = [
    ("refuse", 0, grpc.StatusCode.UNAVAILABLE),
    ("exhausted", 0, grpc.StatusCode.RESOURCE_EXHAUSTED),
    ("invalid", 0, grpc.StatusCode.INVALID_ARGUMENT),
    ("hang", 0, grpc.StatusCode.DEADLINE_EXCEEDED),
    ("hang:3", 3, grpc.StatusCode.DEADLINE_EXCEEDED),
    ("unavailable:2", 2, grpc.StatusCode.UNAVAILABLE),
    ("internal:2", 2, grpc.StatusCode.INTERNAL),
    ("no-finish:2", 2, grpc.StatusCode.OK),
    ("wrong-proto:2", 2, grpc.StatusCode.INTERNAL),
    ("empty:2", 10, grpc.StatusCode.OK),
    ("extra", 10, grpc.StatusCode.OK),
    ("slow-drip:20", 9, grpc.StatusCode.OK),
]


@pytest.mark.parametrize("fault,messages,code", FAULTS)
def test_faults(sim, fault, messages, code):
    timeout = 1 if fault.startswith("hang") else engines.PATIENCE
    assert status_of(sim, request(), metadata=[("x-sim-fault", fault)], timeout=timeout)[:2] == (messages, code)
    # The other requests do not notice.
    assert status_of(sim, request())[:2] == (9, grpc.StatusCode.OK)


def test_the_ways_to_choose_a_fault(make_sim):
    sim = make_sim("--fault", "garbage-ids:2@33", "--fault", "unavailable:1@34")
    assert ids_of(run(sim, request(max_tokens=33)))[2] == 32005
    assert max(ids_of(run(sim, request(max_tokens=32)))) < 32000
    assert status_of(sim, request(max_tokens=34))[1] == grpc.StatusCode.UNAVAILABLE
    assert status_of(sim, request(request_id="x-sim-fault.unavailable.3-y"))[0] == 3
    assert status_of(sim, request(text="please sim-fault.refuse"))[1] == grpc.StatusCode.UNAVAILABLE
    sim.control.write_text("internal:4\n")
    assert status_of(sim, request())[:2] == (4, grpc.StatusCode.INTERNAL)
    sim.control.write_text("bad-choice:2\nitl-ms=1\n")
    assert [m.chunk.index for m in run(sim, request())][:4] == [0, 0, 1, 1]
    sim.control.write_text("")
    assert status_of(sim, request())[1] == grpc.StatusCode.OK


def test_dying_is_dying(make_sim):
    sim = make_sim()
    make_sim.made.remove(sim)
    assert status_of(sim, request(), metadata=[("x-sim-fault", "die:3")])[:2] == (3, grpc.StatusCode.UNAVAILABLE)
    assert sim.process.wait(5) == 70
    assert sim.log(event="die")[0]["after"] == 3


def test_a_bad_command_line_is_refused():
    import subprocess

    for args, words in [
        (["--fault", "nonsense"], "parse fault"),
        (["--vocab", "x"], "--vocab"),
        (["--listen", "nonsense"], "listen on `nonsense`"),
        (["--tokens", "/nonexistent"], "/nonexistent"),
        (["more"], "no such argument"),
    ]:
        done = subprocess.run([engines.program("sim-engine"), *args], capture_output=True, text=True, timeout=10)
        assert done.returncode == 1 and words in done.stderr
