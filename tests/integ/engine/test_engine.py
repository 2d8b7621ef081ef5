"""kp_engine over gRPC (lib/engine/remote.h), driven by tests/tools/engine_probe.c, against two engines that are not ours on the wire: the sim engine
(gRPC core and protobuf-c) and one of grpcio and the engines' own messages, which says what the test wants. Everything here holds in each protocol, and is
run in each; what one protocol says in its own way is in test_vllm.py and test_sglang.py."""

import socket
import time
import zipfile

import grpc
import pytest
from smg_grpc_proto.generated import common_pb2

import engines
PROMPT = "ids=1,5,7,900"


def ids_of(deltas, choice=0):
    return [i for d in deltas if d["choice"] == choice for i in d["ids"]]


def finish_of(deltas, choice=0):
    return [d["finish"] for d in deltas if d["choice"] == choice and "finish" in d]


# --- what arrives --------------------------------------------------------------------------------------------------


def test_streamed_and_whole_answers_are_the_same_ids(protocol, sim, probe):
    deltas, end = probe.generate("a", f"{PROMPT} max_tokens=9")
    assert end["code"] == "OK" and end["tokens"] == 9 and not end["retryable"]
    assert finish_of(deltas) == ["length"] and deltas[-1]["ids"] == []
    assert all(d["prompt_tokens"] == 4 for d in deltas)
    whole, end = probe.generate("b", f"{PROMPT} max_tokens=9 stream=0")
    assert end["code"] == "OK" and len(whole) == 1 and ids_of(whole) == ids_of(deltas) and finish_of(whole) == ["length"]
    request = protocol.request([1, 5, 7, 900], stream=False, max_tokens=9)
    (theirs,) = sim.stubs[protocol.name].Generate(request, timeout=engines.PATIENCE)
    assert list(theirs.complete.output_ids) == ids_of(deltas)


def test_choices(probe):
    deltas, end = probe.generate("a", f"{PROMPT} max_tokens=5 n=4")
    assert end["code"] == "OK" and end["tokens"] == 20
    assert all(len(ids_of(deltas, c)) == 5 and finish_of(deltas, c) == ["length"] for c in range(4))
    whole, _ = probe.generate("b", f"{PROMPT} max_tokens=5 n=4 stream=0")
    assert [ids_of(whole, c) for c in range(4)] == [ids_of(deltas, c) for c in range(4)]


def test_stop_ids_say_what_matched(sim, probe):
    ids = ids_of(probe.generate("a", f"{PROMPT} max_tokens=6")[0])
    deltas, _ = probe.generate("b", f"{PROMPT} max_tokens=6 stop_ids={ids[3]},1")
    assert ids_of(deltas) == ids[:4]
    assert deltas[-1]["finish"] == "stop" and deltas[-1]["matched"] == ids[3]


def test_log_probabilities_are_what_was_sent(protocol, sim, probe):
    deltas, _ = probe.generate("a", f"{PROMPT} max_tokens=4 logprobs=3 prompt_logprobs=2")
    request = protocol.request([1, 5, 7, 900], max_tokens=4, logprobs=3, prompt_logprobs=2)
    chunks = [m.chunk for m in sim.stubs[protocol.name].Generate(request, timeout=engines.PATIENCE) if m.HasField("chunk")]
    theirs = [
        {"id": lp.token_ids[k], "logprob": lp.token_logprobs[k], "top": list(zip(lp.top_logprobs[k].token_ids, lp.top_logprobs[k].values))}
        for lp in (c.output_logprobs for c in chunks) for k in range(len(lp.token_ids))
    ]
    ours = [lp for d in deltas for lp in d.get("logprobs", [])]
    assert [(o["id"], pytest.approx(o["logprob"]), [tuple(t) for t in o["top"]]) for o in ours] == [
        (t["id"], t["logprob"], [(i, pytest.approx(v)) for i, v in t["top"]]) for t in theirs
    ]
    (prompt,) = [d["prompt_logprobs"] for d in deltas if "prompt_logprobs" in d]
    assert [p["id"] for p in prompt] == [1, 5, 7, 900] and prompt[0]["logprob"] is None and prompt[0]["top"] == []
    assert [p["logprob"] for p in prompt[1:]] == pytest.approx([t.value for t in chunks[0].input_logprobs.token_logprobs[1:]])
    assert [len(p["top"]) for p in prompt[1:]] == [2, 2, 2]


def test_what_nobody_asked_for_is_not_passed_on(protocol, scripted, make_probe):
    pb = protocol.pb
    output = pb.OutputLogProbs(token_ids=[5], token_logprobs=[-1], top_logprobs=[pb.TopLogProbs(token_ids=[5, 6, 7], values=[-1, -2, -3])])
    prompt = pb.InputLogProbs(token_ids=[1, 2, 3], token_logprobs=[pb.InputTokenLogProb()] * 3)
    scripted.responses = [protocol.chunk([5], output_logprobs=output, input_logprobs=prompt), protocol.complete([5], matched_token_id=5)]
    probe = make_probe(scripted.address)
    deltas, end = probe.generate("a", "ids=1,2,3")
    assert end["code"] == "OK" and not {"logprobs", "prompt_logprobs", "matched"} & set().union(*deltas)
    deltas, _ = probe.generate("b", "ids=1,2,3 logprobs=2 stop_ids=4,5")
    assert deltas[0]["logprobs"] == [{"id": 5, "logprob": -1, "top": [[5, -1], [6, -2]]}]
    assert "prompt_logprobs" not in deltas[0] and deltas[1]["matched"] == 5
    deltas, _ = probe.generate("c", "ids=1,2,3 logprobs=0 prompt_logprobs=1")
    assert deltas[0]["logprobs"][0]["top"] == [] and [p["id"] for p in deltas[0]["prompt_logprobs"]] == [1, 2, 3]


def test_many_at_once_over_one_connection(make_sim, make_probe):
    sim = make_sim("--max-streams", 50)
    probe = make_probe(sim.address)
    for k in range(300):
        probe.do(f"start {k} prompt=20 max_tokens=30 show=0")
    ends = [probe.expect(event="end") for _ in range(300)]
    assert {e["id"] for e in ends} == {str(k) for k in range(300)}
    assert all(e["code"] == "OK" and e["tokens"] == 30 for e in ends)


def test_long_prompts_arrive_whole(make_sim, make_probe):
    sim = make_sim("--log-ids")
    probe = make_probe(sim.address)
    assert probe.generate("a", "prompt=60000 max_tokens=1")[1]["code"] == "OK"
    assert sim.log(event="start")[0]["ids"] == [(i * 7919) % 30000 + 3 for i in range(60000)]


# --- ends ----------------------------------------------------------------------------------------------------------

# fault, code, words in the message, tokens before
FAULTS = [
    ("refuse", "UNAVAILABLE", "refused on demand", 0),
    ("exhausted", "RESOURCE_EXHAUSTED", "exhausted on demand", 0),
    ("invalid", "INVALID_ARGUMENT", "invalid on demand", 0),
    ("unavailable.2", "UNAVAILABLE", "unavailable on demand", 2),
    ("internal.2", "INTERNAL", "internal error on demand", 2),
    ("no-finish.2", "DATA_LOSS", "ended the stream without a finish", 2),
    ("garbage-ids.2", "INTERNAL", "sent token id 32005, but its vocabulary has 32000", 2),
    ("bad-choice.2", "INTERNAL", "sent choice 1, but 1 were asked for", 2),
    ("wrong-proto.2", "INTERNAL", "not valid protobuf", 2),
    ("empty.2", "INTERNAL", "neither chunk nor complete", 2),
    ("extra", "INTERNAL", "sent more for choice 0 after its end", 4),
    ("error.2", "INTERNAL", "says that it failed at choice 0", 2),
    ("hang.2", "DEADLINE_EXCEEDED", "", 2),
]
CLIENTS = ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED")


@pytest.mark.parametrize("fault,code,words,tokens", FAULTS)
def test_engines_that_misbehave(sim, make_probe, fault, code, words, tokens):
    probe = make_probe(sim.address, "vocab=32000")
    _, end = probe.generate("a", f"{PROMPT} max_tokens=4 request_id=sim-fault.{fault}" + (" deadline_ms=800" if "hang" in fault else ""))
    assert (end["code"], end["tokens"], end["retryable"]) == (code, tokens, False)
    assert words in end["message"]
    # Who is to blame is named; the client is not told where its requests go.
    assert (sim.address in end["message"]) == (code not in CLIENTS)
    assert probe.generate("b", f"{PROMPT} max_tokens=4")[1]["code"] == "OK"
    # The engine is told to stop where it would have gone on.
    if code == "DEADLINE_EXCEEDED" or fault.startswith("wrong-proto"):
        sim.logged(event="cancelled", request_id=f"sim-fault.{fault}")


@pytest.mark.parametrize("theirs,ours,named", [
    ("CANCELLED", "UNAVAILABLE", True), ("UNKNOWN", "INTERNAL", True), ("INVALID_ARGUMENT", "INVALID_ARGUMENT", False),
    ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", False), ("NOT_FOUND", "NOT_FOUND", False), ("ALREADY_EXISTS", "INTERNAL", True),
    ("PERMISSION_DENIED", "INTERNAL", True), ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", False),
    ("FAILED_PRECONDITION", "FAILED_PRECONDITION", False), ("ABORTED", "UNAVAILABLE", True), ("OUT_OF_RANGE", "OUT_OF_RANGE", False),
    ("UNIMPLEMENTED", "UNIMPLEMENTED", True), ("INTERNAL", "INTERNAL", True), ("UNAVAILABLE", "UNAVAILABLE", True),
    ("DATA_LOSS", "DATA_LOSS", True), ("UNAUTHENTICATED", "INTERNAL", True),
])
def test_statuses_by_whose_fault_they_are(protocol, scripted, make_probe, theirs, ours, named):
    scripted.responses = [protocol.chunk([5]), grpc.StatusCode[theirs]]
    _, end = make_probe(scripted.address).generate("a", "ids=1,2,3")
    assert (end["code"], end["tokens"], end["retryable"]) == (ours, 1, False)
    assert "as the test says" in end["message"] and (scripted.address in end["message"]) == named


def test_a_request_larger_than_the_engine_takes_is_too_large(scripted, make_probe):
    _, end = make_probe(scripted.address).generate("a", "ids=1 text=" + "x" * (5 << 20))  # grpcio's own limit is 4 MiB
    assert end["code"] == "TOO_LARGE" and "larger than max" in end["message"]


def output(p, ids, values, **more):
    return p.pb.OutputLogProbs(token_ids=ids, token_logprobs=values, **more)


LIES = [
    (lambda p: [p.chunk([5]), p.chunk([6]), p.complete([6]), p.chunk([7])], "sent more for choice 0 after its end"),
    (lambda p: [p.chunk([5]), p.complete([5]), p.complete([5])], "sent more for choice 0 after its end"),
    (lambda p: [p.chunk([5], choice=7)], "sent choice 7, but 1 were asked for"),
    (lambda p: [p.chunk([999]), p.chunk([1000])], "sent token id 1000, but its vocabulary has 1000"),
    (lambda p: [p.complete([4000000000])], "sent token id 4000000000"),
    (lambda p: [b"\x0a\x7f"], "not valid protobuf"),
    (lambda p: [b"\x0a\x02\x08"], "not valid protobuf"),
    (lambda p: [b""], "neither chunk nor complete"),
    (lambda p: [b"\xa2\x06\x02ab"], "neither chunk nor complete"),
    (lambda p: [p.chunk([5], output_logprobs=output(p, [5, 6], [-1, -1]))], "log-probabilities of 2 tokens with 1"),
    (lambda p: [p.chunk([5], output_logprobs=output(p, [6], [-1]))], "log-probability of token id 6 with token id 5"),
    (lambda p: [p.chunk([5], output_logprobs=output(p, [5], []))], "0 values and 0 lists for 1 ids"),
    (lambda p: [p.chunk([5], output_logprobs=output(p, [5], [-1], top_logprobs=[p.pb.TopLogProbs(token_ids=[1001], values=[-1])]))],
     "sent token id 1001"),
    (lambda p: [p.chunk([5], input_logprobs=p.pb.InputLogProbs(token_ids=[1, 2], token_logprobs=[p.pb.InputTokenLogProb()] * 2))],
     "prompt log-probabilities of 2 tokens for a prompt of 3"),
]


@pytest.mark.parametrize("responses,words", LIES, ids=[str(k) for k in range(len(LIES))])
def test_lies(protocol, scripted, make_probe, responses, words):
    """The engine goes on for ever after the lie; it is cancelled."""
    def forever():
        yield from responses(protocol)
        while not scripted.cancelled.wait(0.01):
            pass

    scripted.responses = forever()
    _, end = make_probe(scripted.address, "vocab=1000").generate("a", "ids=1,2,3")
    assert end["code"] == "INTERNAL" and words in end["message"] and scripted.address in end["message"] and not end["retryable"]
    if "more for choice 0" not in words:
        assert scripted.cancelled.wait(5)


def test_what_a_complete_repeats_is_not_looked_at(protocol, scripted, make_probe):
    """It may be the last chunk once more, or, as the text of SGLang's protocol has it, everything: nothing of it is used."""
    scripted.responses = [protocol.chunk([5]), protocol.chunk([6]), protocol.complete([5, 6, 4000], output_logprobs=output(protocol, [7], [-1]))]
    deltas, end = make_probe(scripted.address, "vocab=1000").generate("a", "ids=1,2,3 logprobs=0")
    assert end["code"] == "OK" and ids_of(deltas) == [5, 6]


def test_what_a_newer_engine_adds_does_no_harm(protocol, scripted, make_probe):
    newer = protocol.chunk([5]).SerializeToString() + b"\xa2\x06\x03abc"  # field 100
    scripted.responses = [newer, protocol.complete([5], reason="repetition")]
    deltas, end = make_probe(scripted.address).generate("a", "ids=1,2,3")
    assert end["code"] == "OK" and ids_of(deltas) == [5] and finish_of(deltas) == ["stop"]


def test_a_stream_that_is_answered_whole(protocol, scripted, make_probe):
    """An engine that does not stream: its `complete` is the first thing said of a choice, so its ids are new."""
    scripted.responses = [protocol.complete([5, 6, 7], reason="length")]
    deltas, end = make_probe(scripted.address).generate("a", "ids=1,2,3")
    assert end["code"] == "OK" and ids_of(deltas) == [5, 6, 7] and finish_of(deltas) == ["length"]


def test_after_every_finish_the_status_no_longer_matters(protocol, scripted, make_probe):
    scripted.responses = [protocol.chunk([5]), protocol.complete([5]), grpc.StatusCode.INTERNAL]
    assert make_probe(scripted.address).generate("a", "ids=1,2,3")[1]["code"] == "OK"


def test_too_many_choices_are_refused_here(probe):
    _, end = probe.generate("a", f"{PROMPT} n=1025")
    assert (end["code"], end["message"]) == ("INVALID_ARGUMENT", "n is 1025, at most 1024")


# --- connections ---------------------------------------------------------------------------------------------------


def test_an_engine_that_is_not_there_may_be_tried_again_elsewhere(make_probe, make_sim):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % s.getsockname()[1]
    probe = make_probe(address)
    _, end = probe.generate("a", PROMPT)
    assert end["code"] == "UNAVAILABLE" and end["retryable"] and address in end["message"]
    assert probe.ask("health")["code"] == "UNAVAILABLE"
    make_sim(listen=address)
    deadline = time.monotonic() + engines.PATIENCE
    while probe.generate("b", f"{PROMPT} max_tokens=3")[1]["code"] != "OK":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_engine_that_dies_ends_its_calls_and_comes_back(make_sim, make_probe):
    sim = make_sim("--itl-ms", 5)
    probe = make_probe(sim.address)
    for k in range(5):
        probe.do(f"start other{k} {PROMPT} show=0 max_tokens=100000")
    _, end = probe.generate("a", f"{PROMPT} request_id=sim-fault.die.3")
    assert (end["code"], end["tokens"], end["retryable"]) == ("UNAVAILABLE", 3, False)
    assert all(probe.end(f"other{k}")["code"] == "UNAVAILABLE" for k in range(5))
    assert sim.process.wait(5) == 70
    make_sim.made.remove(sim)
    make_sim(listen=sim.address)
    deadline = time.monotonic() + engines.PATIENCE
    while probe.generate("b", f"{PROMPT} max_tokens=3")[1]["code"] != "OK":
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- cancelling, holding back ----------------------------------------------------------------------------------------


def test_the_engine_sees_a_cancellation_at_once(protocol, make_sim, make_probe):
    sim = make_sim("--itl-ms", 5)
    probe = make_probe(sim.address)
    probe.do(f"start a {PROMPT} max_tokens=100000 cancel_after=4 show=0")
    cancelled = probe.expect(event="cancelled", id="a")
    seen = sim.logged(event="cancelled", request_id="a")
    assert seen["t"] - cancelled["t"] < 1 and 4 <= seen["after"] < 300
    probe.do(f"start b {PROMPT} max_tokens=100000 show=0")
    sim.logged(event="start", request_id="b")
    probe.do("cancel b")
    sim.logged(event="cancelled", request_id="b")
    if protocol is engines.Sglang:  # cancelling alone is not enough for it
        sim.logged(event="abort", request_id="a")
        sim.logged(event="abort", request_id="b")
    # No callback follows a cancellation.
    assert probe.generate("c", f"{PROMPT} max_tokens=2")[1]["code"] == "OK"
    assert not [line for line in probe.seen if line["event"] == "end" and line["id"] in "ab"]
    assert len(sim.log(event="abort")) == (2 if protocol is engines.Sglang else 0)


def test_a_paused_call_holds_the_engine_back(make_sim, make_probe):
    sim = make_sim("--max-context", 1000000)
    probe = make_probe(sim.address)
    probe.do(f"start a {PROMPT} max_tokens=400000 pause_after=10 show=0")
    assert probe.generate("b", f"{PROMPT} max_tokens=1000 show=0")[1]["tokens"] == 1000  # the others go on
    time.sleep(0.5)
    assert not sim.log(event="end", request_id="a")
    probe.do("resume a")
    assert probe.expect(event="end", id="a", timeout=60)["tokens"] == 400000


def test_destroying_ends_everything(make_sim, make_probe):
    sim = make_sim("--itl-ms", 2)
    probe = make_probe(sim.address)
    for k in range(4):
        probe.do(f"start {k} {PROMPT} max_tokens=100000 show=0")
    for k in range(4):
        sim.logged(event="start", request_id=str(k))
    probe.do(f"start last {PROMPT} max_tokens=100000 destroy_after=3 show=0")
    codes = {probe.expect(event="end")["code"] for _ in range(5)}
    assert codes == {"CANCELLED"}
    sim.logged(event="cancelled", request_id="last")


# --- questions -----------------------------------------------------------------------------------------------------


def test_info(make_sim, make_probe):
    sim = make_sim("--model", "/m/q", "--served-name", "q", "--model-type", "qwen3", "--architecture", "Q3", "--vocab", 151936,
                   "--max-context", 4096, "--eos", "5,6", "--bos", 9)
    info = make_probe(sim.address).ask("info")
    assert info | {"event": 0} == {
        "event": 0, "code": "OK", "message": "", "model": "/m/q", "served_name": "q", "model_type": "qwen3", "architecture": "Q3",
        "version": "sim-engine", "max_context": 4096, "vocab_size": 151936, "max_running": 1024, "eos": [5, 6], "bos": 9,
        "default_temperature": -1,
    }


def test_info_teaches_the_vocabulary(protocol, scripted, make_probe):
    scripted.responses = [protocol.chunk([1000])]
    probe = make_probe(scripted.address)
    assert probe.generate("a", "ids=1")[1]["code"] == "DATA_LOSS"  # not known yet, so not checked
    assert probe.ask("info")["vocab_size"] == 1000
    assert "its vocabulary has 1000" in probe.generate("b", "ids=1")[1]["message"]


def test_info_does_without_what_an_engine_does_not_have(scripted, make_probe):
    scripted.loads = grpc.StatusCode.UNIMPLEMENTED
    probe = make_probe(scripted.address)
    info = probe.ask("info")
    assert (info["code"], info["model"], info["version"], info["max_running"]) == ("OK", "scripted", "", 0)
    scripted.server_info = grpc.StatusCode.INTERNAL
    assert probe.ask("info")["code"] == "INTERNAL"
    scripted.server_info = b"\xff"
    assert "not valid protobuf" in probe.ask("info")["message"]
    scripted.model_info, scripted.server_info = grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.UNIMPLEMENTED
    assert probe.ask("info")["code"] == "UNIMPLEMENTED"


def test_health_and_loads(protocol, make_sim, make_probe):
    sim = make_sim("--itl-ms", 5)
    probe = make_probe(sim.address)
    assert probe.ask("health")["code"] == "OK"
    for k in range(3):
        probe.do(f"start {k} {PROMPT} max_tokens=100000 show=0")
        sim.logged(event="start", request_id=str(k))
    loads = probe.ask("loads")
    assert loads["code"] == "OK" and loads["running"] + loads["waiting"] == 3 and loads["total_tokens"] >= 12 and 0 < loads["kv_usage"] < 1
    sim.control.write_text("unhealthy\n")
    health = probe.ask("health")
    assert health["code"] == "UNAVAILABLE" and health["message"] == f"engine `{sim.address}`: the engine says it is not healthy: {protocol.not_healthy}"


def test_the_tokenizer(sim, probe, tmp_path):
    answer = probe.ask(f"tokenizer {tmp_path / 'z.zip'}")
    assert answer["code"] == "OK"
    archive = zipfile.ZipFile(tmp_path / "z.zip")
    assert archive.testzip() is None and archive.namelist() == ["Makefile", "tokenizer.json"]
    assert archive.read("Makefile") == (engines.ROOT / "Makefile").read_bytes()
    for fault, words in [("bad-digest", "announced 0000"), ("no-digest", "without a digest")]:
        sim.control.write_text(fault + "\n")
        answer = probe.ask("tokenizer")
        assert (answer["code"], answer["bytes"]) == ("DATA_LOSS", 0) and words in answer["message"] and sim.address in answer["message"]


def test_an_engine_without_a_tokenizer(make_sim, make_probe):
    answer = make_probe(make_sim().address).ask("tokenizer")
    assert answer["code"] == "FAILED_PRECONDITION" and "not configured" in answer["message"]


@pytest.mark.parametrize("chunks,code,words", [
    ([common_pb2.GetTokenizerChunk(data=b"x", sha256="0" * 64)] * 2, "INTERNAL", "more of the tokenizer after its digest"),
    ([common_pb2.GetTokenizerChunk(data=b"x", sha256="abc")], "INTERNAL", "3 characters, not 64"),
    ([b"\x08\x01"], "INTERNAL", "not valid protobuf"),
    ([], "DATA_LOSS", "gave no answer"),
])
def test_tokenizers_that_are_none(scripted, make_probe, chunks, code, words):
    scripted.chunks = [c if isinstance(c, bytes) else c.SerializeToString() for c in chunks]
    answer = make_probe(scripted.address).ask("tokenizer")
    assert answer["code"] == code and words in answer["message"]


def test_a_tokenizer_beyond_the_limit(scripted, make_probe):
    piece = common_pb2.GetTokenizerChunk(data=b"\0" * ((4 << 20) - 100)).SerializeToString()
    scripted.chunks = (piece for _ in range(100))
    answer = make_probe(scripted.address).ask("tokenizer")
    assert answer["code"] == "RESOURCE_EXHAUSTED" and "268435456" in answer["message"]
