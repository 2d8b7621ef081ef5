"""kp_engine for an endpoint of another gateway (lib/engine/peer.h), driven by tests/tools/engine_probe.c, against an owner of grpcio's and protobuf's Python that
says what the test wants, the truth or not."""

import socket
import threading
import time

import grpc
import pytest

import owners
from owners import ADDRESS, ENGINE, message, response

DONE = response(finish=1)


def events(probe, kind):
    return [line for line in probe.seen if line["event"] == kind]


# --- what is sent, what arrives ------------------------------------------------------------------------------------


def test_a_request_says_what_was_asked(owner, make_probe):
    owner.responses = [DONE]
    make_probe(owner.address).generate(
        "a", "ids=3,200,70000 request_id=req-1 text=hello max_tokens=5 min_tokens=2 temperature=0.25 top_k=-1 seed=-9000000000 "
             "stop_ids=9,10 logprobs=0 prompt_logprobs=1 ignore_eos=1 bias=5:-1.5 bias=6:2 deadline_ms=9000")
    what, r, metadata, left = owner.asked()
    assert what == "responses" and (r.request_id, r.engine, r.address) == ("req-1", ENGINE, ADDRESS)
    assert list(r.ids) == [3, 200, 70000] and 5 < left <= 9
    s = r.sampling
    assert (s.max_tokens, s.min_tokens, s.temperature, s.top_k, s.seed, s.logprobs, s.prompt_logprobs) == (5, 2, 0.25, -1, -9000000000, 0, 1)
    assert s.ignore_eos and list(s.stop_ids) == [9, 10] and list(s.bias_ids) == [5, 6] and list(s.bias) == [-1.5, 2]
    assert s.set == 0x1 | 0x4 | 0x80 | 0x100 | 0x200 | 0x400
    assert b"hello" not in r.SerializeToString() and metadata["user-agent"].startswith("grpc-kelpie/")


def test_what_arrives_is_what_was_sent(owner, make_probe):
    logprob = message("TokenLogprob")
    owner.responses = [
        response([5, 6], prompt_tokens=3, cached_tokens=2, prompt_logprobs=[logprob(id=1, is_absent=True), logprob(id=2, logprob=-0.5), logprob(id=3)]),
        response([7], logprobs=[logprob(id=7, logprob=-0.25, top_ids=[7, 8], top_logprobs=[-0.25, -2])]),
        response(finish=1, has_matched_id=True, matched_id=9, prompt_tokens=3),
    ]
    deltas, end = make_probe(owner.address).generate(
        "a", "ids=1,2,3 max_tokens=8 stop_ids=8,9 logprobs=2 prompt_logprobs=0")
    assert [d["ids"] for d in deltas] == [[5, 6], [7], []] and [d.get("finish") for d in deltas] == [None, None, "stop"]
    assert deltas[0]["prompt_tokens"] == 3 and deltas[0]["cached_tokens"] == 2
    assert [(p["id"], p["logprob"]) for p in deltas[0]["prompt_logprobs"]] == [(1, None), (2, -0.5), (3, 0)]
    assert deltas[1]["logprobs"] == [{"id": 7, "logprob": -0.25, "top": [[7, -0.25], [8, -2]]}]
    assert deltas[2]["matched"] == 9
    assert (end["code"], end["tokens"], end["retryable"]) == ("OK", 3, False)


@pytest.mark.parametrize("asked, tops", [("", None), ("logprobs=1 prompt_logprobs=0 stop_ids=8", 1)])
def test_what_nobody_asked_for_is_left_out(owner, make_probe, asked, tops):
    logprob = message("TokenLogprob")
    prompt = [logprob(id=i, top_ids=[1, 2], top_logprobs=[-1, -2]) for i in (1, 2, 3)]
    owner.responses = [
        response([7], cached_tokens=4000000000, logprobs=[logprob(id=7, top_ids=[7, 8], top_logprobs=[-1, -2])], prompt_logprobs=prompt),
        response(finish=1, has_matched_id=True, matched_id=9),
    ]
    deltas, end = make_probe(owner.address).generate("a", f"ids=1,2,3 max_tokens=8 {asked}".strip())
    assert end["code"] == "OK" and deltas[0]["cached_tokens"] == 3
    assert deltas[1]["finish"] == "stop" and deltas[1].get("matched") is None
    if tops is None:
        assert not deltas[0].get("logprobs") and not deltas[0].get("prompt_logprobs")
    else:
        assert [len(p["top"]) for p in deltas[0]["logprobs"]] == [tops]
        assert [len(p.get("top", [])) for p in deltas[0]["prompt_logprobs"]] == [0, 0, 0]


def test_the_load_comes_with_the_end(owner, make_probe):
    owner.responses = [DONE]
    probe = make_probe(owner.address)
    probe.generate("a", "ids=1")
    assert events(probe, "load") == [{"event": "load", "in_flight": 3, "running": 2, "waiting": 1, "kv_usage": 0.5}]
    assert [line["event"] for line in probe.seen][-2:] == ["load", "end"]
    owner.trailers["kelpie-load"] = "in_flight=7 gpus=8"  # what a newer owner adds is skipped
    probe.generate("b", "ids=1")
    assert events(probe, "load")[-1]["in_flight"] == 7


@pytest.mark.parametrize("load", [None, "in_flight", "in_flight=-1", "kv=x"])
def test_a_load_that_cannot_be_read_harms_nothing(owner, make_probe, load):
    owner.responses = [response([5]), DONE]
    owner.trailers = {} if load is None else {"kelpie-load": load}
    probe = make_probe(owner.address)
    assert probe.generate("a", "ids=1")[1]["code"] == "OK"
    assert events(probe, "load") == []
    answer = probe.ask("loads")
    assert answer["code"] == "INTERNAL" and "said no load that can be read" in answer["message"] and "gateway `gw-b`" in answer["message"]


# --- turned away ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word,reason", [(w, w) for w in ("draining", "not_owner", "down", "stale_tokenizer", "overloaded", "unsupported")]
                         + [("gone_fishing", "refused")])
@pytest.mark.parametrize("status", ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "UNIMPLEMENTED", "INTERNAL"])
def test_what_the_engine_never_saw_may_be_tried_elsewhere(owner, make_probe, word, reason, status):
    owner.status, owner.trailers["kelpie-reason"] = grpc.StatusCode[status], word
    probe = make_probe(owner.address)
    _, end = probe.generate("a", "ids=1")
    assert (end["retryable"], end["reason"]) == (True, reason)
    assert end["code"] == ("RESOURCE_EXHAUSTED" if status == "RESOURCE_EXHAUSTED" else "UNAVAILABLE")
    assert end["message"] == f"gateway `gw-b`, engine `{ADDRESS}`: as the test says"
    assert len(events(probe, "load")) == 1


@pytest.mark.parametrize("status", ["PERMISSION_DENIED", "UNAUTHENTICATED"])
def test_an_owner_that_does_not_let_us_in_never_asked_its_engine(owner, make_probe, status):
    owner.status = grpc.StatusCode[status]
    _, end = make_probe(owner.address).generate("a", "ids=1")
    assert (end["code"], end["retryable"], end["reason"]) == ("UNAVAILABLE", True, "refused")


@pytest.mark.parametrize("theirs,ours,named", [
    ("CANCELLED", "UNAVAILABLE", True), ("UNKNOWN", "INTERNAL", True), ("INVALID_ARGUMENT", "INVALID_ARGUMENT", False),
    ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", False), ("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", False),
    ("FAILED_PRECONDITION", "FAILED_PRECONDITION", False), ("ABORTED", "UNAVAILABLE", True), ("OUT_OF_RANGE", "OUT_OF_RANGE", False),
    ("UNIMPLEMENTED", "UNIMPLEMENTED", True), ("INTERNAL", "INTERNAL", True), ("UNAVAILABLE", "UNAVAILABLE", True), ("DATA_LOSS", "DATA_LOSS", True),
])
def test_other_statuses_are_the_engines(owner, make_probe, theirs, ours, named):
    owner.responses, owner.status = [response([5])], grpc.StatusCode[theirs]
    _, end = make_probe(owner.address).generate("a", "ids=1,2,3")
    assert (end["code"], end["tokens"], end["retryable"], end.get("reason")) == (ours, 1, False, None)
    assert ("gateway `gw-b`" in end["message"]) == named


def test_nobody_is_there(make_probe):
    with socket.create_server(("127.0.0.1", 0)) as s:
        address = "127.0.0.1:%d" % s.getsockname()[1]
    _, end = make_probe(address).generate("a", "ids=1")
    assert (end["code"], end["retryable"]) == ("UNAVAILABLE", True)
    assert "gateway `gw-b`" in end["message"] and ADDRESS in end["message"] and address in end["message"]


# --- lies ----------------------------------------------------------------------------------------------------------


def logprob(i, **more):
    return message("TokenLogprob")(id=i, **more)


@pytest.mark.parametrize("responses,words", [
    ([response([5], finish=1), response([6])], "sent more after the end"),
    ([response([5], finish=4)], "called a failure an answer"),
    ([DONE, DONE], "sent more after the end"),
    ([DONE, b""], "sent more after the end"),
    ([response([999]), response([1000])], "sent token id 1000, but its vocabulary has 1000"),
    ([response([4000000000])], "sent token id 4000000000"),
    ([response([1] * 9)], "sent more tokens than were asked for"),
    ([response([1] * 5), response([1] * 4)], "sent more tokens than were asked for"),
    ([b"\x0a\x7f"], "not valid protobuf"),
    ([b"\x0a\x01\x80"], "read `ids`: not valid protobuf"),
    ([b"\x0d\x01\x02\x03\x04"], "read `ids`: not valid protobuf"),
    ([b"GET / HTTP/1.1\r\n"], "not valid protobuf"),
    ([response([5], logprobs=[logprob(5), logprob(6)])], "read `logprobs`: 2 for 1 ids"),
    ([response([5], logprobs=[logprob(6)])], "sent the log-probability of token id 6 with token id 5"),
    ([response([5], logprobs=[logprob(5, top_ids=[1001], top_logprobs=[-1])])], "sent token id 1001"),
    ([response([5], logprobs=[logprob(5, top_ids=[1, 2], top_logprobs=[-1])])], "read `logprobs.top_logprobs`: 1 values for 2 ids"),
    ([response([5], prompt_logprobs=[logprob(1)])], "prompt log-probabilities of 1 tokens for a prompt of 3"),
    ([response([5], prompt_logprobs=[logprob(1), logprob(2), logprob(5000)])], "sent token id 5000"),
])
def test_an_owner_that_lies_loses_the_call(owner, make_probe, responses, words):
    owner.responses = responses
    probe = make_probe(owner.address, "vocab=1000")
    _, end = probe.generate("a", "ids=1,2,3 max_tokens=8")
    assert (end["code"], end["retryable"]) == ("INTERNAL", False)
    assert words in end["message"] and end["message"].startswith(f"gateway `gw-b`, engine `{ADDRESS}`: ")
    owner.responses = [response([5]), DONE]  # and only that call
    assert probe.generate("b", "ids=1,2,3 max_tokens=8")[1]["code"] == "OK"


def test_the_vocabulary_is_known_once_it_was_asked_for(owner, make_probe):
    owner.responses = [response([1000]), DONE]
    probe = make_probe(owner.address)
    assert probe.generate("a", "ids=1")[1]["code"] == "OK"
    assert probe.ask("info")["vocab_size"] == 1000
    assert "its vocabulary has 1000" in probe.generate("b", "ids=1")[1]["message"]


@pytest.mark.parametrize("responses", [[], [response([5])], [response([5]), b""]])
def test_an_ok_end_without_a_finish_is_a_loss(owner, make_probe, responses):
    owner.responses = responses
    _, end = make_probe(owner.address).generate("a", "ids=1")
    assert (end["code"], end["retryable"]) == ("DATA_LOSS", False)
    assert "ended the stream without a finish" in end["message"]


@pytest.mark.parametrize("status", ["INTERNAL", "UNAVAILABLE"])
def test_what_comes_after_the_finish_does_not_take_it_back(owner, make_probe, status):
    owner.responses, owner.status, owner.trailers["kelpie-reason"] = [response([5]), DONE], grpc.StatusCode[status], "down"
    probe = make_probe(owner.address)
    _, end = probe.generate("a", "ids=1")
    assert (end["code"], end["tokens"], end["retryable"]) == ("OK", 1, False)


def test_an_endless_stream_ends_with_the_tokens_that_were_asked_for(owner, make_probe):
    owner.responses = lambda r: iter(lambda: response([5]), None)
    _, end = make_probe(owner.address).generate("a", "ids=1 max_tokens=2000 show=0")
    assert end["code"] == "INTERNAL" and end["tokens"] == 2000
    assert owner.cancelled.wait(owners.PATIENCE)


def test_an_endless_stream_of_nothing_ends_with_the_deadline(owner, make_probe):
    owner.responses = lambda r: iter(lambda: b"", None)
    _, end = make_probe(owner.address).generate("a", "ids=1 max_tokens=5 show=0 deadline_ms=700")
    assert end["code"] == "DEADLINE_EXCEEDED"
    assert owner.cancelled.wait(owners.PATIENCE)


def test_a_huge_message_is_refused(owner, make_probe):
    owner.responses = [response([1 << 20] * (1 << 20)), response([1]), DONE]
    probe = make_probe(owner.address)
    assert probe.generate("a", "ids=1 show=0")[1]["tokens"] == (1 << 20) + 1
    owner.responses = [response([1] * ((1 << 20) + 1))]
    _, end = probe.generate("b", "ids=1 show=0")
    assert (end["code"], end["retryable"]) == ("INTERNAL", False)
    assert "read `ids`: more than 1048576 entries" in end["message"]


# --- connections ---------------------------------------------------------------------------------------------------


def started(owner, probe, ident="a"):
    """A generation that has its first token and waits for more."""
    go = threading.Event()

    def answer(request):
        yield response([5])
        go.wait(owners.PATIENCE)
        yield DONE

    owner.responses = answer
    probe.do(f"start {ident} ids=1")
    probe.expect(event="delta", id=ident)
    return go


def test_a_frozen_owner_is_given_up_soon(owner, make_probe, cable):
    line = cable(owner.address)
    probe = make_probe(line.address)
    go = started(owner, probe)
    line.freeze()
    begun = time.monotonic()
    end = probe.end("a")
    assert (end["code"], end["retryable"]) == ("UNAVAILABLE", False)
    assert 1 < time.monotonic() - begun < 3  # half a second of silence, a second for the answer to the PING
    go.set()


def test_an_owner_that_thinks_is_not_given_up(owner, make_probe):
    probe = make_probe(owner.address)
    go = started(owner, probe)
    assert not [e for e in probe.drain(4) if e["event"] == "end"]
    go.set()
    assert probe.end("a")["code"] == "OK"


def test_an_owner_that_never_says_a_word_is_given_up_soon(make_probe):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        _, end = make_probe("127.0.0.1:%d" % silent.getsockname()[1]).generate("a", "ids=1")
        assert (end["code"], end["retryable"]) == ("UNAVAILABLE", True)
        assert time.monotonic() - begun < 3


@pytest.mark.parametrize("garbage", [b"\xff" * 64, b"HTTP/1.1 200 OK\r\n\r\n", b"\0\0\0\x04\x01\0\0\0\0", b"\x7f\xff\xff\0\0\0\0\0\1"])
def test_garbage_instead_of_frames_ends_the_connection(owner, make_probe, cable, garbage):
    line = cable(owner.address)
    probe = make_probe(line.address)
    go = started(owner, probe)
    line.inject(garbage)
    end = probe.end("a")
    assert (end["code"], end["retryable"], end["tokens"]) == ("UNAVAILABLE", False, 1)
    assert "gateway `gw-b`" in end["message"]
    go.set()
    owner.responses = [DONE]  # the next one has a connection of its own
    assert probe.generate("b", "ids=1")[1]["code"] == "OK"


def test_a_cut_connection(owner, make_probe, cable):
    line = cable(owner.address)
    probe = make_probe(line.address)
    go = started(owner, probe)
    line.cut()
    end = probe.end("a")
    assert (end["code"], end["retryable"]) == ("UNAVAILABLE", False)
    go.set()


def test_cancel_and_destroy_reach_the_owner(owner, make_probe):
    for word in ("cancel_after=1", "destroy_after=1"):
        probe = make_probe(owner.address)
        owner.cancelled.clear()
        owner.responses = lambda r: iter(lambda: (time.sleep(0.01), response([5]))[1], None)
        probe.do(f"start a ids=1 {word}")
        assert owner.cancelled.wait(owners.PATIENCE), word


def test_a_paused_call_holds_the_owner_back(owner, make_probe):
    sent = []

    def answer(request):
        for _ in range(300):
            sent.append(1)
            yield response([1 << 20] * 10000)
        yield DONE

    owner.responses = answer
    probe = make_probe(owner.address)
    probe.do("start a ids=1 show=0 pause_after=1")
    time.sleep(1)
    before = len(sent)
    time.sleep(0.5)
    assert len(sent) == before < 150  # some MiB of 9, in buffers on the way
    probe.do("resume a")
    assert probe.end("a")["tokens"] == 3000000


# --- trust ---------------------------------------------------------------------------------------------------------


def test_tls_with_the_right_name(tls, make_probe):
    owner = owners.Owner(tls.gateway("gw-b"))
    owner.responses = [response([5]), DONE]
    try:
        probe = make_probe(owner.address, f"tls={tls.gateway('gw-a')}")
        assert probe.generate("a", "ids=1")[1]["code"] == "OK"
        assert probe.ask("health")["code"] == "OK"
    finally:
        owner.stop()


def test_tls_refusals(tls, other_tls, make_probe):
    strangers = other_tls.gateway("gw-b", ca=tls)  # it knows us, we do not know it
    cases = [
        (tls.gateway("gw-c"), tls.gateway("gw-a"), "gw-b"),  # another gateway of ours, in its place
        (tls.gateway("gw-b", ns="other"), tls.gateway("gw-a"), "gw-b"),  # of that name, in another namespace
        (tls.gateway(None), tls.gateway("gw-a"), "gw-b"),  # of our CA, without a name
        (strangers, tls.gateway("gw-a"), "gw-b"),
        (tls.gateway("gw-b"), other_tls.gateway("gw-a", ca=tls), "gw-b"),  # it does not know us
    ]
    for theirs, ours, ident in cases:
        owner = owners.Owner(theirs)
        try:
            _, end = make_probe(owner.address, f"tls={ours}", ident=ident).generate("a", "ids=1")
            assert (end["code"], end["retryable"]) == ("UNAVAILABLE", True), (theirs, end)
            assert f"gateway `{ident}`" in end["message"] and owner.requests.empty(), (theirs, end)
        finally:
            owner.stop()


# --- questions -----------------------------------------------------------------------------------------------------


def test_questions(owner, make_probe):
    probe = make_probe(owner.address)
    assert probe.ask("health")["code"] == "OK"
    what, request, *_ = owner.asked()
    assert what == "description" and (request.engine, request.address) == (ENGINE, ADDRESS)
    owner.description.MergeFrom(message("DescribeResponse")(
        served_name="s", model_type="t", architecture="A", version="1.2", eos=[2, 3], has_bos=True, bos=1, max_running=9,
        defaults={"set": 1, "temperature": 0.5}))
    info = probe.ask("info")
    assert info["code"] == "OK" and info["text_fingerprint"] == 2**63 + 1
    assert [info[k] for k in ("model", "served_name", "model_type", "architecture", "version")] == ["scripted", "s", "t", "A", "1.2"]
    assert (info["max_context"], info["vocab_size"], info["max_running"], info["eos"], info["bos"], info["default_temperature"]) == (500, 1000, 9, [2, 3], 1, 0.5)
    loads = probe.ask("loads")
    assert (loads["code"], loads["in_flight"], loads["running"], loads["waiting"], loads["kv_usage"]) == ("OK", 3, 2, 1, 0.5)
    assert len(events(probe, "load")) == 3


@pytest.mark.parametrize("state,reason", [("down", "down"), ("draining", "draining"), ("answering", "down"), ("on holiday", "down")])
def test_an_endpoint_that_is_not_routable_is_not_healthy(owner, make_probe, state, reason):
    owner.description = message("DescribeResponse")(state=state, reason="too hot")
    answer = make_probe(owner.address).ask("health")
    assert (answer["code"], answer["reason"]) == ("UNAVAILABLE", reason)
    assert answer["message"] == f"gateway `gw-b`, engine `{ADDRESS}`: says that it is {state}: too hot"


def test_questions_turned_away(owner, make_probe):
    owner.status, owner.trailers["kelpie-reason"] = grpc.StatusCode.UNAVAILABLE, "not_owner"
    owner.description = []
    probe = make_probe(owner.address)
    for question in ("health", "info", "loads", "tokenizer"):
        answer = probe.ask(question)
        assert (answer["code"], answer["reason"]) == ("UNAVAILABLE", "not_owner"), answer


@pytest.mark.parametrize("question", ["health", "info", "loads"])
@pytest.mark.parametrize("answers,code,words", [
    ([], "DATA_LOSS", "gave no answer"),
    ([message("DescribeResponse")(state="routable")] * 2, "INTERNAL", "answered twice"),
    ([b"\xff\xff"], "INTERNAL", "not valid protobuf"),
    ([b""], "INTERNAL", "read `state`: missing"),
])
def test_wrong_answers(owner, make_probe, question, answers, code, words):
    owner.description = answers
    answer = make_probe(owner.address).ask(question)
    assert answer["code"] == code and words in answer["message"] and "gateway `gw-b`" in answer["message"]


def test_the_tokenizer(owner, make_probe, tmp_path):
    pieces = [bytes([i]) * 70000 for i in range(40)]
    owner.chunks = [message("TokenizerChunk")(data=p) for p in pieces]
    probe = make_probe(owner.address)
    probe.do(f"tokenizer {tmp_path / 'zip'}")
    assert probe.expect(event="tokenizer")["bytes"] == 2800000
    assert (tmp_path / "zip").read_bytes() == b"".join(pieces)


def test_a_tokenizer_is_whole_or_not_there(owner, make_probe):
    owner.chunks, owner.status = [message("TokenizerChunk")(data=b"PK")], grpc.StatusCode.UNAVAILABLE
    probe = make_probe(owner.address)
    assert probe.ask("tokenizer")["code"] == "UNAVAILABLE"
    owner.status = grpc.StatusCode.FAILED_PRECONDITION  # it comes from a path there
    assert probe.ask("tokenizer")["code"] == "FAILED_PRECONDITION"
    owner.chunks, owner.status = [], grpc.StatusCode.OK
    assert probe.ask("tokenizer")["code"] == "DATA_LOSS"
    owner.chunks = [b"\x08\x01"]
    assert "read `data`" in probe.ask("tokenizer")["message"]
    owner.chunks = lambda r: iter(lambda: message("TokenizerChunk")(data=bytes(4 << 20)), None)
    answer = probe.ask("tokenizer")
    assert answer["code"] == "RESOURCE_EXHAUSTED" and "tokenizer archive" in answer["message"]
    assert owner.cancelled.wait(owners.PATIENCE)
