"""The sim engine, asked by grpcio with the engines' own messages (PyPI smg-grpc-proto), in each of the engines' protocols."""

import hashlib
import io
import time
import zipfile

import grpc
import pytest
from smg_grpc_proto.generated import common_pb2

import engines

PROMPT = [1, 5, 7, 900]


class Asker:
    """A sim engine and the protocol to ask it in."""

    def __init__(self, sim, protocol):
        self.sim, self.pb, self.protocol = sim, protocol.pb, protocol
        self.stub = sim.stubs[protocol.name]

    def request(self, prompt=PROMPT, **more):
        more.setdefault("max_tokens", 8)
        return self.protocol.request(prompt, **more)

    def run(self, metadata=None, **more):
        return list(self.stub.Generate(self.request(**more), timeout=engines.PATIENCE, metadata=metadata))

    def status(self, metadata=None, timeout=engines.PATIENCE, request=None, **more):
        """(messages before the end, code, details)"""
        seen = 0
        try:
            for _ in self.stub.Generate(request or self.request(**more), timeout=timeout, metadata=metadata):
                seen += 1
            return seen, grpc.StatusCode.OK, ""
        except grpc.RpcError as e:
            return seen, e.code(), e.details()


@pytest.fixture
def make_asker(make_sim, protocol):
    return lambda *args: Asker(make_sim(*args), protocol)


@pytest.fixture
def ask(make_asker):
    return make_asker()


def ids_of(messages, choice=0):
    return [i for m in messages if m.HasField("chunk") and m.chunk.index == choice for i in m.chunk.token_ids]


def test_the_same_request_gives_the_same_ids_in_each_protocol(make_sim):
    sim = make_sim()
    ask, other = (Asker(sim, p) for p in engines.PROTOCOLS.values())
    first = ids_of(ask.run())
    assert len(first) == 8 and all(0 <= i < 32000 for i in first)
    assert ids_of(ask.run()) == ids_of(other.run()) == first
    assert ids_of(ask.run(seed=7)) != first
    assert ids_of(ask.run(prompt=[1, 5, 7, 901])) != first
    for whole in (*ask.run(stream=False), *other.run(stream=False)):
        assert list(whole.complete.output_ids) == first
        assert whole.complete.completion_tokens == 8 and whole.complete.prompt_tokens == 4


def test_it_speaks_what_it_is_told(make_sim):
    for name in engines.PROTOCOLS:
        sim = make_sim("--protocol", name)
        for other, protocol in engines.PROTOCOLS.items():
            assert Asker(sim, protocol).status()[1] == (grpc.StatusCode.OK if other == name else grpc.StatusCode.UNIMPLEMENTED)
        assert sim.log(event="start")[0]["protocol"] == name


def test_a_stream_is_chunks_and_a_complete_that_repeats_the_last(ask, protocol):
    messages = ask.run()
    assert [m.WhichOneof("response") for m in messages] == ["chunk"] * 8 + ["complete"]
    counts = [m.chunk.completion_tokens for m in messages[:-1]]
    assert counts == ([1] * 8 if protocol is engines.Vllm else [1, 2, 3, 4, 5, 6, 7, 8])
    assert all(m.chunk.prompt_tokens == 4 for m in messages[:-1])
    last = messages[-1].complete
    assert list(last.output_ids) == list(messages[-2].chunk.token_ids)
    assert last.completion_tokens == (1 if protocol is engines.Vllm else 8)
    assert last.finish_reason == "length" and last.WhichOneof("matched_stop") is None


def test_choices_interleave_and_end_one_by_one(ask, protocol):
    messages = ask.run(n=3)
    ids = [ids_of(messages, choice) for choice in range(3)]
    assert [len(i) for i in ids] == [8, 8, 8] and len(set(map(tuple, ids))) == 3
    assert [m.chunk.index for m in messages[:6]] == [0, 1, 2, 0, 1, 2]
    for k, message in enumerate(messages):
        if message.HasField("complete"):
            assert messages[k - 1].chunk.index == message.complete.index
    whole = ask.run(n=3, stream=False)
    assert [list(m.complete.output_ids) for m in whole] == ids
    # SGLang's servicer does not say which is which.
    assert [m.complete.index for m in whole] == ([0, 1, 2] if protocol is engines.Vllm else [0, 0, 0])


def test_log_probabilities(ask):
    messages = ask.run(logprobs=2, prompt_logprobs=2)
    for m in messages[:-1]:
        lp = m.chunk.output_logprobs
        assert list(lp.token_ids) == list(m.chunk.token_ids) and len(lp.token_logprobs) == 1
        assert lp.top_logprobs[0].token_ids[0] == lp.token_ids[0] and len(lp.top_logprobs[0].token_ids) == 2
        assert lp.top_logprobs[0].values[0] == lp.token_logprobs[0]
    prompt = messages[0].chunk.input_logprobs
    assert list(prompt.token_ids) == PROMPT
    assert [t.HasField("value") for t in prompt.token_logprobs] == [False, True, True, True]
    assert [len(t.token_ids) for t in prompt.top_logprobs] == [0, 2, 2, 2]
    assert not messages[1].chunk.HasField("input_logprobs")
    bare = ask.run(logprobs=0)[0].chunk
    assert len(bare.output_logprobs.token_logprobs) == 1 and len(bare.output_logprobs.top_logprobs) == 0
    assert not bare.HasField("input_logprobs") and not ask.run()[0].chunk.HasField("output_logprobs")
    (whole,) = ask.run(logprobs=0, prompt_logprobs=0, stream=False)
    assert len(whole.complete.output_logprobs.token_ids) == 8 and list(whole.complete.input_logprobs.token_ids) == PROMPT


def test_stop_ids_and_the_models_own_end(make_asker, protocol):
    ask = make_asker("--stop-after", 5, "--eos", "77,78")
    messages = ask.run()
    assert ids_of(messages)[-1] == 77 and len(ids_of(messages)) == 5
    assert messages[-1].complete.finish_reason == "stop"
    assert messages[-1].complete.WhichOneof("matched_stop") == (None if protocol is engines.Vllm else "matched_token_id")
    assert messages[-1].complete.matched_token_id == (0 if protocol is engines.Vllm else 77)
    ids = ids_of(ask.run(ignore_eos=True))
    assert len(ids) == 8 and not {77, 78} & set(ids)
    assert len(ids_of(ask.run(min_tokens=6))) == 7
    stopped = ask.run(stop_token_ids=[ids[2]], ignore_eos=True)
    assert ids_of(stopped) == ids[:3]
    assert stopped[-1].complete.finish_reason == "stop" and stopped[-1].complete.matched_token_id == ids[2]
    assert ids_of(ask.run(stop_token_ids=[ids[2]], min_tokens=3, ignore_eos=True)) == ids


def test_given_tokens_go_in_a_circle(make_asker, tmp_path):
    (tmp_path / "ids").write_text("10 11\n12\t13 14\n")
    assert ids_of(make_asker("--tokens", tmp_path / "ids").run()) == [10, 11, 12, 13, 14, 10, 11, 12]


REFUSED = {
    "both": [({"prompt": [1000]}, "oken id 1000"), ({"prompt": []}, "empty"), ({"prompt": [1] * 100}, "100"), ({"temperature": -1}, "temperature"),
             ({"top_p": 1.5}, "top_p")],
    "vllm": [({"max_tokens": 0}, "max_tokens"), ({"temperature": 0, "n": 2}, "greedy"), ({"logprobs": 21}, "logprobs")],
    "sglang": [({"min_tokens": 9}, "min_new_tokens"), ({"top_k": -2}, "top_k"), ({"repetition_penalty": 2.5}, "repetition_penalty")],
}


def test_what_the_engine_refuses(make_asker, protocol):
    ask = make_asker("--vocab", 1000, "--max-context", 100)
    for params, words in REFUSED["both"] + REFUSED[protocol.name]:
        seen, code, details = ask.status(**params)
        assert (seen, code) == (0, grpc.StatusCode.INVALID_ARGUMENT) and words in details, params
    assert "okenized" in ask.status(request=ask.pb.GenerateRequest(request_id="r"))[2]
    # The context is what remains for the answer.
    assert len(ids_of(ask.run(prompt=[1] * 95))) == 5
    call = ask.sim.channel.unary_stream(f"/{protocol.service}/Generate")(b"\xff\xff\xff", timeout=5)
    with pytest.raises(grpc.RpcError) as e:
        next(call)
    assert e.value.code() == grpc.StatusCode.INTERNAL


def test_one_step_for_all_streams(make_asker):
    ask = make_asker("--ttft-ms", 120, "--itl-ms", 30)
    began = time.monotonic()
    calls = [ask.stub.Generate(ask.request(prompt=[k + 1], max_tokens=6), timeout=engines.PATIENCE) for k in range(8)]
    first = [next(call) for call in calls]
    assert time.monotonic() - began >= 0.12 and all(m.HasField("chunk") for m in first)
    for call, message in zip(calls, first):
        assert len(ids_of([message, *call])) == 6
    assert time.monotonic() - began >= 0.12 + 4 * 0.03  # an idle engine makes its first step at once


def test_a_slow_client_gets_the_tokens_of_several_steps_in_one_chunk(make_asker, protocol):
    ask = make_asker("--itl-ms", 1)
    narrow = grpc.insecure_channel(ask.sim.address, options=[("grpc.http2.lookahead_bytes", 65535), ("grpc.http2.bdp_probe", 0)])
    method = narrow.unary_stream(f"/{protocol.service}/Generate", lambda r: r.SerializeToString(), ask.pb.GenerateResponse.FromString)
    call = method(ask.request(max_tokens=3000, logprobs=20), timeout=engines.PATIENCE)
    next(call)
    time.sleep(2)  # 20 alternatives are 200 bytes a token: the window of 64 KiB fills up
    chunks = [m.chunk for m in call if m.HasField("chunk")]
    assert max(len(c.token_ids) for c in chunks) > 1
    assert sum(len(c.token_ids) for c in chunks) == 2999


def test_cancellation_is_logged_with_what_was_sent(make_asker):
    ask = make_asker("--itl-ms", 5)
    call = ask.stub.Generate(ask.request(request_id="gone", max_tokens=10000))
    for _ in range(3):
        next(call)
    began = time.monotonic()
    call.cancel()
    line = ask.sim.logged(event="cancelled", request_id="gone")
    assert 3 <= line["after"] < 1000 and line["t"] - began < 1
    assert ask.run()


def test_abort_ends_a_request_in_its_protocols_way(make_asker, protocol):
    ask = make_asker("--itl-ms", 5)
    call = ask.stub.Generate(ask.request(request_id="stop me", max_tokens=10000), timeout=engines.PATIENCE)
    next(call)
    ask.stub.Abort(protocol.abort("stop me"), timeout=5)
    if protocol is engines.Vllm:
        assert list(call)[-1].complete.finish_reason == "abort"
    else:
        with pytest.raises(grpc.RpcError) as e:
            list(call)
        assert (e.value.code(), e.value.details()) == (grpc.StatusCode.INTERNAL, "Request aborted")


def test_info_health_and_loads(make_asker, protocol):
    ask = make_asker("--model", "/m/q", "--served-name", "q", "--model-type", "qwen3", "--architecture", "Q3", "--vocab", 151936,
                     "--max-context", 4096, "--eos", "5,6", "--bos", 9, "--defaults", '{"top_k":20}', "--itl-ms", 5)
    pb, stub = ask.pb, ask.stub
    info = stub.GetModelInfo(pb.GetModelInfoRequest(), timeout=5)
    assert (info.model_path, info.served_model_name, info.model_type, list(info.architectures)) == ("/m/q", "q", "qwen3", ["Q3"])
    assert (info.vocab_size, info.max_context_length, list(info.eos_token_ids), info.bos_token_id) == (151936, 4096, [5, 6], 9)
    assert info.default_sampling_params_json == '{"top_k":20}' and info.is_generation
    assert stub.HealthCheck(pb.HealthCheckRequest(), timeout=5).healthy
    server = stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=5)
    assert server.max_num_seqs == 1024 if protocol is engines.Vllm else server.sglang_version == "sim-engine"
    call = stub.Generate(ask.request(max_tokens=10000))
    next(call)
    (load,) = stub.GetLoads(pb.GetLoadsRequest(), timeout=5).loads
    assert load.num_running_reqs == 1 and load.num_waiting_reqs == 0 and load.num_used_tokens >= 5 and load.max_running_requests == 1024
    call.cancel()
    ask.sim.logged(event="cancelled")
    (load,) = stub.GetLoads(pb.GetLoadsRequest(), timeout=5).loads
    assert load.num_total_reqs == 0 and load.num_used_tokens == 0
    ask.sim.control.write_text("unhealthy\n")
    answer = stub.HealthCheck(pb.HealthCheckRequest(), timeout=5)
    assert not answer.healthy and answer.message == protocol.not_healthy
    with pytest.raises(grpc.RpcError) as e:
        ask.sim.channel.unary_unary(f"/{protocol.service}/Embed")(b"", timeout=5)
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_tokenizer_is_a_zip_in_pieces(make_asker, tmp_path):
    big = tmp_path / "tokenizer.json"
    big.write_bytes(bytes(range(256)) * 1000)
    ask = make_asker("--tokenizer-file", big, "--tokenizer-file", engines.ROOT / "Makefile")
    chunks = list(ask.stub.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=5))
    data = b"".join(c.data for c in chunks)
    assert len(chunks) == 4 and [bool(c.sha256) for c in chunks] == [False] * 3 + [True]
    assert chunks[-1].sha256 == hashlib.sha256(data).hexdigest()
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert archive.testzip() is None and archive.namelist() == ["tokenizer.json", "Makefile"]
    assert archive.read("tokenizer.json") == big.read_bytes()
    (tmp_path / "given.zip").write_bytes(data)
    again = make_asker("--tokenizer-zip", tmp_path / "given.zip")
    assert b"".join(c.data for c in again.stub.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=5)) == data


CODE = grpc.StatusCode
FAULTS = [
    ("refuse", 0, CODE.UNAVAILABLE),
    ("exhausted", 0, {"vllm": CODE.RESOURCE_EXHAUSTED, "sglang": CODE.UNAVAILABLE}),
    ("invalid", 0, CODE.INVALID_ARGUMENT),
    ("hang", 0, CODE.DEADLINE_EXCEEDED),
    ("hang:3", 3, CODE.DEADLINE_EXCEEDED),
    ("unavailable:2", 2, CODE.UNAVAILABLE),
    ("internal:2", 2, CODE.INTERNAL),
    ("no-finish:2", 2, CODE.OK),
    ("wrong-proto:2", 2, CODE.INTERNAL),
    ("empty:2", 10, CODE.OK),
    ("extra", 10, CODE.OK),
    ("error:3", 4, CODE.OK),
    ("slow-drip:20", 9, CODE.OK),
]


@pytest.mark.parametrize("fault,messages,code", FAULTS, ids=[f[0] for f in FAULTS])
def test_faults(ask, protocol, fault, messages, code):
    code = code[protocol.name] if isinstance(code, dict) else code
    timeout = 1 if fault.startswith("hang") else engines.PATIENCE
    assert ask.status(metadata=[("x-sim-fault", fault)], timeout=timeout)[:2] == (messages, code)
    # The other requests do not notice.
    assert ask.status()[:2] == (9, CODE.OK)


def test_a_model_that_fails_is_said_in_the_protocols_way(ask, protocol):
    last = ask.run(metadata=[("x-sim-fault", "error:3")])[-1].complete
    assert (last.finish_reason, last.matched_stop_str) == (("error", "") if protocol is engines.Vllm else ("stop", "NaN happened"))


def test_the_ways_to_choose_a_fault(make_asker):
    ask = make_asker("--fault", "garbage-ids:2@33", "--fault", "unavailable:1@34")
    assert ids_of(ask.run(max_tokens=33))[2] == 32005
    assert max(ids_of(ask.run(max_tokens=32))) < 32000
    assert ask.status(max_tokens=34)[1] == CODE.UNAVAILABLE
    assert ask.status(request_id="x-sim-fault.unavailable.3-y")[0] == 3
    assert ask.status(text="please sim-fault.refuse")[1] == CODE.UNAVAILABLE
    ask.sim.control.write_text("internal:4\n")
    assert ask.status()[:2] == (4, CODE.INTERNAL)
    ask.sim.control.write_text("bad-choice:2\nitl-ms=1\n")
    assert [m.chunk.index for m in ask.run()][:4] == [0, 0, 1, 1]
    ask.sim.control.write_text("")
    assert ask.status()[1] == CODE.OK


def test_dying_is_dying(make_sim, protocol):
    sim = make_sim()
    make_sim.made.remove(sim)
    assert Asker(sim, protocol).status(metadata=[("x-sim-fault", "die:3")])[:2] == (3, CODE.UNAVAILABLE)
    assert sim.process.wait(5) == 70
    assert sim.log(event="die")[0]["after"] == 3


def test_a_bad_command_line_is_refused():
    import subprocess

    for args, words in [
        (["--fault", "nonsense"], "parse fault"),
        (["--vocab", "x"], "--vocab"),
        (["--protocol", "trtllm"], "read --protocol `trtllm`: not vllm, sglang or both"),
        (["--listen", "nonsense"], "listen on `nonsense`"),
        (["--tokens", "/nonexistent"], "/nonexistent"),
        (["more"], "no such argument"),
    ]:
        done = subprocess.run([engines.program("sim-engine"), *args], capture_output=True, text=True, timeout=10)
        assert done.returncode == 1 and words in done.stderr
