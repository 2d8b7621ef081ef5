"""The peer port of a gateway, asked by protobuf's Python over grpcio: what is forwarded, what is turned away and with which word, what is told."""

import pathlib
import sys
import time

import grpc
import pytest
from programs import PATIENCE, QWEN3_TOKENS, Operator, Sim, engine, manifest, wait_until
from smg_grpc_proto.generated import vllm_engine_pb2, vllm_engine_pb2_grpc
from test_control import controlled
from wire import COMPLETIONS, call

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/integ/peer"))
import owners  # noqa: E402
from owners import message  # noqa: E402

PEER = "/kelpie.peer.v1.Peer/"
ENGINE = "default/e"
GREEDY = {"set": 0x101, "max_tokens": 6}


class Port:
    """A client of a gateway's peer port."""

    def __init__(self, gateway, credentials=None):
        self.gateway = gateway
        port = gateway.wait_for(r'"msg":"peers listening","address":"127\.0\.0\.1:(\d+)"')[1]
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        if credentials:
            ssl, name = credentials
            self.channel = grpc.secure_channel(f"127.0.0.1:{port}", ssl, [*options, ("grpc.ssl_target_name_override", name)])
        else:
            self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options)

    def call(self, method, request, answer, timeout=PATIENCE):
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        return self.channel.unary_stream(PEER + method, response_deserializer=message(answer).FromString)(raw, timeout=timeout)

    def generate(self, sim, ids=(1, 5, 7), engine=ENGINE, request_id="r", sampling=GREEDY, timeout=PATIENCE, **more):
        request = message("GenerateRequest")(
            request_id=request_id, engine=engine, address=getattr(sim, "address", sim), ids=ids, sampling=sampling, **more
        )
        return self.call("Generate", request, "GenerateResponse", timeout)

    def describe(self, sim, engine=ENGINE):
        return self.call("Describe", message("DescribeRequest")(engine=engine, address=sim.address), "DescribeResponse")


def end(stream):
    """(messages, status, its text, the trailers) of a call."""
    messages = []
    try:
        for m in stream:
            messages.append(m)
    except grpc.RpcError:
        pass
    return messages, stream.code(), stream.details(), dict(stream.trailing_metadata())


def refused(stream):
    """A call turned away before its engine saw it: (status, reason)."""
    messages, code, _, trailers = end(stream)
    assert messages == [] and code is not grpc.StatusCode.OK
    return code.name, trailers.get("kelpie-reason")


def load(trailers):
    return dict(entry.split("=") for entry in trailers["kelpie-load"].split())


def ids(messages):
    return [i for m in messages for i in m.ids]


def results(gateway):
    return {r: n for r in ("ok", "draining", "not_owner", "down", "stale_tokenizer", "overloaded", "unsupported", "error", "gone")
            if (n := gateway.metric("kelpie_peer_generations_total", result=r))}


@pytest.fixture
def make_port(start, qwen3_path):
    """make_port(sim options, gateway options): an engine, the gateway that owns it, a client of its peer port."""

    def make(*sim_options, gateway=(), path=qwen3_path, vocab=QWEN3_TOKENS, sims=1):
        made = [start(Sim, "--vocab", vocab, *sim_options) for _ in range(sims)]
        operator = start(Operator, manifest(engine("e", *(s.port for s in made), path=path)))
        port = Port(controlled(start, operator, "gw-a", *gateway, own=["default/e/0"]))
        wait_until(lambda: [m.state for m in end(port.describe(made[0]))[0]] == ["routable"], "the engine is routable")
        return (*made, port)

    return make


def idle(port):
    wait_until(lambda: port.gateway.metric("kelpie_requests_in_flight") == 0, "no request in flight")


# --- what is forwarded ---------------------------------------------------------------------------------------------


def test_what_comes_back_is_what_the_engine_says(make_port):
    sim, port = make_port("--log-ids")
    with grpc.insecure_channel(sim.address) as channel:
        theirs = [m.chunk for m in vllm_engine_pb2_grpc.VllmEngineStub(channel).Generate(vllm_engine_pb2.GenerateRequest(
            request_id="direct", stream=True, tokenized=vllm_engine_pb2.TokenizedInput(input_ids=[1, 5, 7]),
            sampling_params=vllm_engine_pb2.SamplingParams(temperature=0, max_tokens=6, logprobs=2, prompt_logprobs=1)), timeout=PATIENCE)
            if m.HasField("chunk")]
    asked = {"set": 0x701, "max_tokens": 6, "logprobs": 2, "prompt_logprobs": 1}
    messages, code, _, trailers = end(port.generate(sim, request_id="forwarded-1", sampling=asked))
    assert code is grpc.StatusCode.OK and "kelpie-reason" not in trailers
    assert ids(messages) == [i for c in theirs for i in c.token_ids] and len(ids(messages)) == 6
    assert [m.finish for m in messages if m.finish] == [2] and messages[-1].finish == 2 and messages[-1].prompt_tokens == 3
    ours = [p for m in messages for p in m.logprobs]
    assert [(p.id, p.logprob, list(p.top_ids), list(p.top_logprobs)) for p in ours] == [
        (lp.token_ids[k], lp.token_logprobs[k], list(lp.top_logprobs[k].token_ids), list(lp.top_logprobs[k].values))
        for lp in (c.output_logprobs for c in theirs) for k in range(len(lp.token_ids))]
    (prompt,) = [list(m.prompt_logprobs) for m in messages if m.prompt_logprobs]
    assert [p.id for p in prompt] == [1, 5, 7] and prompt[0].is_absent and not prompt[1].is_absent
    started = sim.wait_event("start", "forwarded-1")[0]
    assert started["ids"] == [1, 5, 7]
    # A stop id says that it matched.
    third = ids(messages)[2]
    messages, *_ = end(port.generate(sim, sampling={**GREEDY, "stop_ids": [third]}))
    assert ids(messages)[-1] == third and messages[-1].finish == 1 and (messages[-1].has_matched_id, messages[-1].matched_id) == (True, third)
    idle(port)


def test_the_load_is_told_with_every_end(make_port):
    sim, port = make_port("--itl-ms", 20)
    running = [port.generate(sim, request_id=f"long-{k}", sampling={**GREEDY, "max_tokens": 100000}) for k in range(3)]
    for stream in running:
        next(stream)
    _, code, _, trailers = end(port.generate(sim))
    assert code is grpc.StatusCode.OK and load(trailers)["in_flight"] == "3"
    wait_until(lambda: load(end(port.describe(sim))[3])["running"] == "3", "the engine's own figure, which is asked for now and then")
    for stream in running:
        stream.cancel()
    wait_until(lambda: load(end(port.describe(sim))[3])["in_flight"] == "0", "they are gone")
    assert results(port.gateway) == {"ok": 1, "gone": 3}
    idle(port)


def test_a_cancelled_call_is_cancelled_on_the_engine(make_port):
    sim, port = make_port("--itl-ms", 5)
    stream = port.generate(sim, request_id="cancel-me", sampling={**GREEDY, "max_tokens": 100000})
    next(stream)
    stream.cancel()
    sim.wait_event("cancelled", "cancel-me")
    with_deadline = port.generate(sim, request_id="too-late", sampling={**GREEDY, "max_tokens": 100000}, timeout=0.4)
    assert end(with_deadline)[1] is grpc.StatusCode.DEADLINE_EXCEEDED
    sim.wait_event("cancelled", "too-late")
    lost = port.generate(sim, request_id="lost", sampling={**GREEDY, "max_tokens": 100000})
    next(lost)
    port.channel.close()
    sim.wait_event("cancelled", "lost")
    idle(port)


def test_one_that_takes_nothing_holds_the_engine_back(make_port):
    sim, port = make_port("--max-context", 1 << 20)
    end(port.generate(sim))
    before, count = port.gateway.rss(), 100_000  # some 25 MB
    stream = port.generate(sim, request_id="slow", sampling={"set": 0x301, "max_tokens": count, "logprobs": 20})
    next(stream)
    seen, deadline = -1, time.monotonic() + 20
    while seen != (seen := port.gateway.rss()) and time.monotonic() < deadline:
        time.sleep(0.3)  # until it has taken what it takes
    port.gateway.assert_rss_below((before >> 10) + 8)
    assert not sim.events("end", "slow")
    assert len(ids(end(port.generate(sim, request_id="other"))[0])) == 6, "others go on"
    messages, code, _, _ = end(stream)
    assert code is grpc.StatusCode.OK and len(ids(messages)) > count - 100
    port.gateway.assert_rss_below((before >> 10) + 16)
    idle(port)


def test_many_at_once(make_port):
    sim, port = make_port()
    streams = [port.generate(sim, request_id=f"many-{k}", sampling={**GREEDY, "max_tokens": 50}) for k in range(1500)]
    for stream in streams:
        messages, code, text, _ = end(stream)
        assert code is grpc.StatusCode.OK, text
        assert len(ids(messages)) == 50
    assert results(port.gateway) == {"ok": 1500}
    idle(port)


def test_a_long_prompt(make_port):
    sim, port = make_port("--max-context", 8 << 20, "--log-ids")
    prompt = [(i * 7919) % QWEN3_TOKENS for i in range(1_000_000)]
    messages, code, text, _ = end(port.generate(sim, ids=prompt, request_id="long"))
    assert code is grpc.StatusCode.OK, text
    assert sim.wait_event("start", "long")[0]["ids"] == prompt


# --- what is turned away -------------------------------------------------------------------------------------------


def test_an_engine_of_another_gateway_is_not_forwarded_further(make_port):
    sim, other, port = make_port(sims=2)
    assert refused(port.generate(other)) == ("UNAVAILABLE", "not_owner")
    assert refused(port.generate(sim, engine="default/f")) == ("UNAVAILABLE", "not_owner")
    assert refused(port.generate("127.0.0.1:1")) == ("UNAVAILABLE", "not_owner")
    _, _, text, trailers = end(port.generate(other))
    assert f"engine `{ENGINE}` at `{other.address}` is not this gateway's" in text and "kelpie-load" not in trailers
    assert refused(port.describe(other)) == ("UNAVAILABLE", "not_owner")
    assert not other.events("start") and results(port.gateway) == {"not_owner": 4}


def test_a_draining_gateway_turns_away_and_keeps_what_it_has(make_port):
    sim, port = make_port("--itl-ms", 10)
    running = port.generate(sim, sampling={**GREEDY, "max_tokens": 200})
    next(running)
    assert port.gateway.ask("/drain")[0] == 200
    # For a second it goes on, so that the operator can name another owner.
    assert end(port.generate(sim, sampling={**GREEDY, "max_tokens": 1}))[1] is grpc.StatusCode.OK
    time.sleep(1.1)
    assert refused(port.generate(sim)) == ("UNAVAILABLE", "draining")
    assert "kelpie-load" in end(port.generate(sim))[3]
    assert [m.state for m in end(port.describe(sim))[0]] == ["draining"]
    messages, code, *_ = end(running)
    assert code is grpc.StatusCode.OK and len(ids(messages)) == 199
    assert results(port.gateway) == {"ok": 2, "draining": 2}


def test_a_gateway_that_ends_finishes_what_it_forwards(make_port):
    sim, port = make_port("--itl-ms", 10)
    running = port.generate(sim, sampling={**GREEDY, "max_tokens": 150})
    next(running)
    port.gateway.terminate()
    messages, code, *_ = end(running)
    assert code is grpc.StatusCode.OK and len(ids(messages)) == 149
    assert port.gateway.wait() == 0


def test_a_gateway_out_of_patience_ends_what_it_forwards(make_port):
    sim, port = make_port("--itl-ms", 10, gateway=("--drain-timeout", 1))
    running = port.generate(sim, request_id="endless", sampling={**GREEDY, "max_tokens": 100000})
    next(running)
    port.gateway.terminate()
    _, code, text, trailers = end(running)
    assert code is grpc.StatusCode.UNAVAILABLE and "shutting down" in text and "kelpie-reason" not in trailers
    sim.wait_event("cancelled", "endless")
    assert port.gateway.wait() == 0


def test_an_engine_that_is_gone(make_port):
    sim, port = make_port("--itl-ms", 5)
    running = port.generate(sim, sampling={**GREEDY, "max_tokens": 100000})
    next(running)
    sim.kill()
    _, code, text, trailers = end(running)  # it may have been at it: no word for trying elsewhere
    assert code is grpc.StatusCode.UNAVAILABLE and sim.address in text and "kelpie-reason" not in trailers
    for _ in range(20):  # before and after the gateway has found out
        assert refused(port.generate(sim)) == ("UNAVAILABLE", "down")
        time.sleep(0.05)
    wait_until(lambda: [m.state for m in end(port.describe(sim))[0]] == ["down"], "it is down")
    (description,), *_ = end(port.describe(sim))
    assert sim.address in description.reason
    idle(port)


def test_ids_of_another_tokenizer(make_port):
    sim, port = make_port()
    (description,), *_ = end(port.describe(sim))
    assert description.text_fingerprint
    assert refused(port.generate(sim, text_fingerprint=description.text_fingerprint ^ 1)) == ("UNAVAILABLE", "stale_tokenizer")
    assert end(port.generate(sim, text_fingerprint=description.text_fingerprint))[1] is grpc.StatusCode.OK
    assert end(port.generate(sim))[1] is grpc.StatusCode.OK
    assert len(sim.events("start")) == 2


def test_a_gateway_that_is_full(make_port):
    sim, port = make_port("--itl-ms", 10, gateway=("--max-requests", 2, "--loops", 1))
    running = [port.generate(sim, sampling={**GREEDY, "max_tokens": 100000}) for _ in range(2)]
    for stream in running:
        next(stream)
    assert refused(port.generate(sim)) == ("RESOURCE_EXHAUSTED", "overloaded")
    assert call(port.gateway.port, COMPLETIONS, {"model": "m", "prompt": "Hello", "max_tokens": 2}).status == 429, "they count as its own"
    running[0].cancel()
    wait_until(lambda: end(port.generate(sim))[1] is grpc.StatusCode.OK, "there is room again")
    running[1].cancel()
    idle(port)


def test_what_a_newer_gateway_asks_for(make_port):
    sim, port = make_port()
    assert refused(port.generate(sim, sampling={**GREEDY, "set": 0x101 | 1 << 20})) == ("UNIMPLEMENTED", "unsupported")
    assert refused(port.call("Embed", b"", "GenerateResponse")) == ("UNIMPLEMENTED", "unsupported")
    plain = message("GenerateRequest")(request_id="r", engine=ENGINE, address=sim.address, ids=[1], sampling=GREEDY).SerializeToString()
    assert end(port.call("Generate", plain + b"\xc2\x3e\x03new", "GenerateResponse"))[1] is grpc.StatusCode.OK  # a field that is not known


def test_bad_requests(make_port):
    sim, port = make_port()
    for raw, words in ((b"", "read `request_id`: missing"), (b"\x0a\x01", "read `GenerateRequest`: not valid protobuf"),
                       (b"\x0a\x01r\x12\x01e\x1a\x01a", "read `ids`: missing"), (b"\x0a\x01\xff", "read `request_id`: not UTF-8")):
        messages, code, text, trailers = end(port.call("Generate", raw, "GenerateResponse"))
        assert code is grpc.StatusCode.INVALID_ARGUMENT and words in text and "kelpie-reason" not in trailers, (raw, code, text)
    for ids_, words in (([1, 2**32 - 1], "token id 4294967295 is beyond the vocabulary"), ([QWEN3_TOKENS], "beyond the vocabulary")):
        _, code, text, _ = end(port.generate(sim, ids=ids_))
        assert code is grpc.StatusCode.INVALID_ARGUMENT and words in text
    for method in ("Describe", "GetTokenizer"):
        for raw in (b"", b"\x0a\x05x", b"\x08\x01"):
            assert end(port.call(method, raw, "DescribeResponse"))[1] is grpc.StatusCode.INVALID_ARGUMENT
    for n, words in (((4 << 20) + 1, "read `ids`: more than 4194304"), (29 << 20, "read request of 12163")):
        _, code, text, _ = end(port.generate(sim, ids=[1] * n))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and words in text
    _, code, text, _ = end(port.generate(sim, engine="e" * 3000))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "read `engine`: 3000 bytes" in text
    assert not sim.events("start")
    idle(port)


# fault, status, words, tokens before it
FAULTS = [
    ("refuse", "UNAVAILABLE", "refused on demand", 0),
    ("exhausted", "RESOURCE_EXHAUSTED", "exhausted on demand", 0),
    ("invalid", "INVALID_ARGUMENT", "invalid on demand", 0),
    ("unavailable.2", "UNAVAILABLE", "unavailable on demand", 2),
    ("internal.2", "INTERNAL", "internal error on demand", 2),
    ("no-finish.2", "DATA_LOSS", "ended the stream without a finish", 2),
    ("bad-choice.2", "INTERNAL", "sent choice 1", 2),
    ("wrong-proto.2", "INTERNAL", "not valid protobuf", 2),
    ("empty.2", "INTERNAL", "neither chunk nor complete", 2),
]


@pytest.mark.parametrize("fault,status,words,tokens", FAULTS)
def test_faults_of_the_engine_come_back_as_they_are(make_port, fault, status, words, tokens):
    sim, port = make_port()
    messages, code, text, trailers = end(port.generate(sim, request_id=f"sim-fault.{fault}"))
    assert (code.name, len(ids(messages))) == (status, tokens) and words in text
    assert "kelpie-reason" not in trailers, "the engine has seen it"
    assert load(trailers)["in_flight"] == "0"
    assert end(port.generate(sim))[1] is grpc.StatusCode.OK
    idle(port)


# --- what is told --------------------------------------------------------------------------------------------------


def test_describe(make_port, qwen3_path):
    sim, port = make_port("--max-context", 4096, "--eos", "151645,151643", "--bos", 151643, "--model", "/m/x", "--served-name", "x", "--model-type", "qwen3",
                          "--architecture", "Qwen3ForCausalLM", "--defaults", '{"temperature":0.25,"top_k":20}')
    (d,), code, _, trailers = end(port.describe(sim))
    assert code is grpc.StatusCode.OK and set(load(trailers)) == {"in_flight", "running", "waiting", "kv"}
    assert (d.state, d.reason, d.model, d.served_name, d.model_type, d.architecture) == ("routable", "", "/m/x", "x", "qwen3", "Qwen3ForCausalLM")
    assert (d.max_context, d.vocab_size, list(d.eos), d.has_bos, d.bos) == (4096, QWEN3_TOKENS, [151645, 151643], True, 151643)
    assert (d.defaults.set, d.defaults.temperature, d.defaults.top_k) == (0x5, 0.25, 20) and d.version


def test_the_tokenizer_of_the_engine(make_port, smollm2_zip):
    sim, port = make_port("--tokenizer-zip", smollm2_zip, path=None, vocab=49152)
    ask = lambda: port.call("GetTokenizer", message("DescribeRequest")(engine=ENGINE, address=sim.address), "TokenizerChunk")
    messages, code, _, _ = end(ask())
    assert code is grpc.StatusCode.OK and b"".join(m.data for m in messages) == smollm2_zip.read_bytes() and len(messages) > 1
    # Each holds an archive: few at once on a loop, the others come again.
    held = [ask() for _ in range(40)]
    time.sleep(1)
    ends = [end(stream) for stream in held]
    whole = [e for e in ends if e[1] is grpc.StatusCode.OK]
    assert whole and all(b"".join(m.data for m in e[0]) == smollm2_zip.read_bytes() for e in whole)
    assert {(e[1].name, e[3].get("kelpie-reason")) for e in ends} <= {("OK", None), ("RESOURCE_EXHAUSTED", "overloaded")}
    cancelled = ask()
    cancelled.cancel()
    idle(port)
    assert end(ask())[1] is grpc.StatusCode.OK


def test_a_tokenizer_from_a_path_is_each_gateways_own(make_port):
    sim, port = make_port()
    _, code, text, _ = end(port.call("GetTokenizer", message("DescribeRequest")(engine=ENGINE, address=sim.address), "TokenizerChunk"))
    assert code is grpc.StatusCode.FAILED_PRECONDITION and "comes from a path" in text


# --- both sides ours -----------------------------------------------------------------------------------------------


@pytest.fixture
def make_probe():
    with owners.engines.probes() as probe:

        def make(port, sim, *args, ident="gw-a"):
            address = port.gateway.wait_for(r'"msg":"peers listening","address":"([\d.:]+)"')[1]
            return probe(address, f"id={ident}", f"endpoint={ENGINE},{sim.address}", *args)

        yield make


def test_our_own_client(make_port, make_probe, smollm2_zip, tmp_path):
    sim, port = make_port("--tokenizer-zip", smollm2_zip, "--eos", "2", "--itl-ms", 2, path=None, vocab=49152)
    probe = make_probe(port, sim)
    assert probe.ask("health")["code"] == "OK"
    info = probe.ask("info")
    assert (info["code"], info["vocab_size"], info["eos"]) == ("OK", 49152, [2]) and info["text_fingerprint"]
    assert probe.ask("loads")["code"] == "OK"
    probe.do(f"tokenizer {tmp_path / 'zip'}")
    assert probe.expect(event="tokenizer")["code"] == "OK" and (tmp_path / "zip").read_bytes() == smollm2_zip.read_bytes()
    deltas, done = probe.generate("a", "ids=1,5,7 max_tokens=9 temperature=0 logprobs=2 prompt_logprobs=0 request_id=from-us")
    assert (done["code"], done["tokens"]) == ("OK", 9) and deltas[-1]["finish"] == "length"
    assert [len(p["top"]) for d in deltas for p in d.get("logprobs", ())] == [2] * 9
    probe.do("start b ids=1 max_tokens=100000 request_id=left cancel_after=3")
    sim.wait_event("cancelled", "left")
    probe.do("start c ids=1 max_tokens=100000 request_id=died")
    probe.expect(event="delta", id="c")
    sim.kill()
    assert probe.end("c")["code"] == "UNAVAILABLE"
    _, done = probe.generate("d", "ids=1")
    assert (done["code"], done["retryable"], done["reason"]) == ("UNAVAILABLE", True, "down")
    assert done["message"].startswith("gateway `gw-a`: ") and sim.address in done["message"]
    wait_until(lambda: probe.ask("health")["code"] == "UNAVAILABLE", "the owner has found out")
    idle(port)


def test_our_own_client_with_certificates(start, qwen3_path, tls, make_probe):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    operator = start(Operator, manifest(engine("e", sim.port, path=qwen3_path)), "--tls-dir", tls.gateway("127.0.0.1"))
    port = Port(controlled(start, operator, "gw-a", "--tls-dir", tls.gateway("gw-a"), own=["default/e"]))
    mine = f"tls={tls.gateway('gw-b')}"
    assert make_probe(port, sim, mine).generate("a", "ids=1 max_tokens=5")[1]["tokens"] == 5
    _, done = make_probe(port, sim, mine, ident="gw-c").generate("a", "ids=1")  # the one that is there has another name
    assert (done["code"], done["retryable"]) == ("UNAVAILABLE", True) and "gw-c" in done["message"]
    _, done = make_probe(port, sim).generate("a", "ids=1")
    assert (done["code"], done["retryable"]) == ("UNAVAILABLE", True)
    assert len(sim.events("start")) == 1


# --- who may call --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    return owners.Tls(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def other_tls(tmp_path_factory):
    return owners.Tls(tmp_path_factory.mktemp("tls") / "other")


def credentials(trusted, folder=None):
    pair = ((folder / "tls.key").read_bytes(), (folder / "tls.crt").read_bytes()) if folder else (None, None)
    return grpc.ssl_channel_credentials((trusted / "ca.crt").read_bytes(), *pair), "gw-a"


def test_only_gateways_of_our_authority_may_call(start, qwen3_path, tls, other_tls):
    sim = start(Sim, "--vocab", QWEN3_TOKENS)
    operator = start(Operator, manifest(engine("e", sim.port, path=qwen3_path)), "--tls-dir", tls.gateway("127.0.0.1"))
    gateway = controlled(start, operator, "gw-a", "--tls-dir", tls.gateway("gw-a"), own=["default/e"])
    ours = tls.gateway("gw-a")
    good = Port(gateway, credentials(ours, tls.gateway("gw-b")))
    assert end(good.generate(sim))[1] is grpc.StatusCode.OK
    nameless = Port(gateway, credentials(ours, tls.gateway(None)))
    _, code, text, _ = end(nameless.generate(sim))
    assert code is grpc.StatusCode.PERMISSION_DENIED and "names no gateway" in text
    other = Port(gateway, credentials(ours, tls.gateway("gw-b", ns="other")))
    _, code, text, _ = end(other.generate(sim))
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "the certificate is of `spiffe://cluster.local/ns/other/sa/gateway`, not of namespace `default`" in text
    same = Port(gateway, credentials(ours, tls.gateway("gw-b", ns="default")))
    assert end(same.generate(sim))[1] is grpc.StatusCode.OK
    for stranger in (credentials(ours), credentials(ours, other_tls.gateway("gw-b"))):
        assert end(Port(gateway, stranger).generate(sim))[1] is grpc.StatusCode.UNAVAILABLE
    assert end(Port(gateway).generate(sim))[1] is grpc.StatusCode.UNAVAILABLE  # cleartext
    assert len(sim.events("start")) == 2
    assert gateway.lines("peer port: handshake failed")
    idle(good)
