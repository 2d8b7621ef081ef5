"""The peer codec beside protobuf's own Python: what it reads and writes again is the same message.

Messages are random ones of proto/kelpie/peer/v1/peer.proto, in protobuf's bytes and in other legal shapes, and those of tests/corpus/peer-v*: what
gateways of a released version send (NAME.bin, with its text in NAME.txtpb). Those files are never changed: a gateway reads what the one before it wrote.
"""

import pathlib
import random
import struct
import subprocess
import sys

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.protobuf.internal import encoder

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/oracle"))
import golang  # noqa: E402

KINDS = {"G": "GenerateRequest", "R": "GenerateResponse", "E": "DescribeRequest", "D": "DescribeResponse", "C": "TokenizerChunk"}
CORPUS = sorted((ROOT / "tests/corpus").glob("peer-v*/*.bin"))


@pytest.fixture(scope="module")
def recode():
    program = golang.Framed(golang.helper("engine", "peer_recode"))
    return lambda frames: [line.decode() for line in program.ask(frames)]


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    out = tmp_path_factory.mktemp("proto") / "peer.pb"
    proto = ROOT / "proto/kelpie/peer/v1/peer.proto"
    subprocess.run(["protoc", f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={out}", proto], check=True)
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file:
        pool.Add(file)
    return {kind: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"kelpie.peer.v1.{name}")) for kind, name in KINDS.items()}


# --- random messages -----------------------------------------------------------------------------------------------


def number(rng, bits):
    return rng.getrandbits(rng.randrange(bits + 1))


def logprobs(rng, to, ids):
    for i in ids:
        top = rng.randrange(4) if rng.random() < 0.5 else 0
        to.add(id=i, logprob=-rng.random(), top_ids=[number(rng, 32) for _ in range(top)], top_logprobs=[-rng.random() for _ in range(top)],
               is_absent=rng.random() < 0.1)


def sampling(rng, m, has_lists=True):
    m.set = number(rng, 11)
    for name in ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty"):
        setattr(m, name, rng.choice([0.0, -0.0, 1e300, rng.uniform(-2, 2)]))
    m.seed = rng.choice([0, -1, 2**63 - 1, -(2**63), number(rng, 40)])
    m.top_k, m.logprobs, m.prompt_logprobs = rng.choice([-1, 0, 50]), rng.choice([-1, 0, 20]), rng.choice([-1, 0, 2**31 - 1])
    m.max_tokens, m.min_tokens = number(rng, 32), number(rng, 32)
    m.ignore_eos, m.skip_special_tokens, m.spaces_between_special_tokens = (rng.random() < 0.5 for _ in range(3))
    if has_lists:
        m.stop_ids.extend(number(rng, 32) for _ in range(rng.choice([0, 1, 1024])))
        m.bias_ids.extend(number(rng, 32) for _ in range(rng.choice([0, 1, 300])))
        m.bias.extend(rng.uniform(-100, 100) for _ in m.bias_ids)


def text(rng):
    return rng.choice(["", "default/demo", "10.0.0.7:50051", "é" * 1024, "\n"])


def make(rng, kind, m):
    if kind == "G":
        m.request_id, m.engine, m.address = (text(rng) or "x" for _ in range(3))
        m.text_fingerprint = number(rng, 64)
        m.ids.extend(number(rng, 32) for _ in range(rng.choice([1, 2, 5000])))
        m.sampling.SetInParent()  # as we always do
        if rng.random() < 0.9:
            sampling(rng, m.sampling)
    elif kind == "R":
        m.ids.extend(number(rng, 32) for _ in range(rng.choice([0, 1, 1, 300])))
        if rng.random() < 0.5:
            logprobs(rng, m.logprobs, m.ids)
        logprobs(rng, m.prompt_logprobs, [number(rng, 32) for _ in range(rng.choice([0, 0, 30]))])
        m.finish, m.prompt_tokens, m.cached_tokens = rng.randrange(5), number(rng, 32), number(rng, 32)
        if rng.random() < 0.3:
            m.has_matched_id, m.matched_id = True, number(rng, 32)
    elif kind == "D":
        m.state = rng.choice(["routable", "down"])
        m.reason, m.model, m.served_name, m.model_type, m.architecture, m.version = (text(rng) for _ in range(6))
        m.text_fingerprint, m.max_context, m.vocab_size = number(rng, 64), number(rng, 32), number(rng, 32)
        m.eos.extend(number(rng, 32) for _ in range(rng.randrange(17)))
        m.has_bos, m.bos, m.max_running = rng.random() < 0.5, number(rng, 32), number(rng, 32)
        if rng.random() < 0.5:
            sampling(rng, m.defaults, has_lists=False)
            m.defaults.set |= 1  # none set: not worth sending
    elif kind == "E":
        m.engine, m.address = "default/demo", text(rng) or "x"
    else:
        m.data = rng.randbytes(rng.choice([0, 1, 70000]))
    return m


def same(classes, kind, message, line):
    assert not line.startswith("error"), line
    assert classes[kind].FromString(bytes.fromhex(line)) == message


def test_what_is_read_and_written_again_is_the_same(classes, recode):
    rng = random.Random(20)
    messages = [(kind, make(rng, kind, classes[kind]())) for kind in KINDS for _ in range(200)]
    for (kind, message), line in zip(messages, recode([(kind, m.SerializeToString()) for kind, m in messages])):
        same(classes, kind, message, line)


def test_messages_in_pieces_are_merged_as_protobuf_does_it(classes, recode):
    """The bytes of two messages behind each other are their merge: the later number counts, lists are joined, messages inside are merged."""
    rng = random.Random(21)
    frames = []
    for kind in ("G", "R", "D"):
        while len([k for k, _ in frames if k == kind]) < 100:
            a, b = (make(rng, kind, classes[kind]()) for _ in range(2))
            both = a.SerializeToString() + b.SerializeToString()
            m = classes[kind].FromString(both)
            inner = m.sampling if kind == "G" else None
            too_long = len(m.eos) > 16 if kind == "D" else kind == "G" and (len(inner.stop_ids) > 1024 or len(inner.bias_ids) > 4096)
            if not too_long and not (kind == "R" and m.logprobs and len(m.logprobs) != len(m.ids)):
                frames.append((kind, both))
    for (kind, both), line in zip(frames, recode(frames)):
        same(classes, kind, classes[kind].FromString(both), line)


def test_numbers_wider_than_their_field_are_cut_as_protobuf_cuts_them(classes, recode):
    wide = b"\x0a\x0a" + encoder._VarintBytes(2**63 + 7) + b"\x38" + encoder._VarintBytes(2**33 + 5) + b"\x28\x02"
    assert classes["R"].FromString(wide).ids[:] == [7]
    same(classes, "R", classes["R"].FromString(wide), recode([("R", wide)])[0])


def test_what_protobuf_refuses_is_refused(classes, recode):
    bad = [("G", b"\x0a\x01"), ("G", b"\x0a\x01\xff\x12\x01e\x1a\x01a\x2a\x01\x01"), ("R", b"\x0a\x01\x80"), ("R", b"\x07"), ("R", b"\0\0"),
           ("D", b"\x0a\x02\xc3\x28"), ("C", b"\x0a\x05abc"), ("E", b"\x0a"), ("R", b"\x38" + b"\xff" * 10 + b"\x01")]
    for (kind, data), line in zip(bad, recode(bad)):
        with pytest.raises(Exception):
            classes[kind].FromString(data)
        assert line.startswith("error: read `"), (kind, data, line)


# --- versions ------------------------------------------------------------------------------------------------------


def test_there_is_a_corpus():
    assert {p.name[0] for p in CORPUS} == set(KINDS)


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_what_released_gateways_send_is_read(classes, recode, path):
    kind, data = path.name[0], path.read_bytes()
    want = text_format.Parse(path.with_suffix(".txtpb").read_text(), classes[kind]())
    assert classes[kind].FromString(data) == want
    same(classes, kind, want, recode([(kind, data)])[0])


def test_what_a_newer_gateway_adds_is_skipped(classes, recode):
    """Every field number that this version does not know, of every type, in every message of the corpus, at its end."""
    extra = b"".join(encoder._VarintBytes(n << 3 | t) + body for n in (40, 1000) for t, body in
                     ((0, b"\x05"), (1, struct.pack("<d", 1.5)), (2, b"\x03new"), (5, struct.pack("<f", 1.5))))
    frames = [(p.name[0], p.read_bytes() + extra) for p in CORPUS]
    for (kind, data), path, line in zip(frames, CORPUS, recode(frames)):
        same(classes, kind, classes[kind].FromString(path.read_bytes()), line)
