"""kp_engine against hack/demo-engine: a real model behind the same protocol, with Python's own gRPC."""

import subprocess
import sys
import time
import zipfile

import pytest

import engines

PROMPT = "ids=504,3575,282,4649,314"  # "The capital of France is", SmolLM2


@pytest.fixture
def protocol():
    return engines.Vllm


@pytest.fixture(scope="module")
def demo():
    pytest.importorskip("xllamacpp", reason="no xllamacpp in this environment")
    env = {"KELPIE_PYTHON": sys.executable, "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        [engines.ROOT / "hack/demo-engine", "--listen", "127.0.0.1:0", "--ctx", "512", "--parallel", "2"],
        stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=env,
    )
    line = process.stdout.readline()
    assert line.startswith("ready on "), line
    yield line.split()[2]
    process.terminate()
    assert process.wait(engines.PATIENCE) == 0


def ids_of(deltas, choice=0):
    return [i for d in deltas if d["choice"] == choice for i in d["ids"]]


def test_it_says_what_it_serves(demo, make_probe, tmp_path):
    probe = make_probe(demo)
    assert probe.ask("health")["code"] == "OK"
    info = probe.ask("info")
    assert (info["code"], info["vocab_size"], info["max_context"]) == ("OK", 49152, 512) and info["eos"]
    assert probe.ask(f"tokenizer {tmp_path / 'z.zip'}")["code"] == "OK"
    (name,) = [n for n in zipfile.ZipFile(tmp_path / "z.zip").namelist() if n.endswith(".gguf")]
    assert zipfile.ZipFile(tmp_path / "z.zip").read(name)[:4] == b"GGUF"


def test_greedy_answers_are_the_same_streamed_and_whole(demo, make_probe):
    probe = make_probe(demo)
    probe.ask("info")
    deltas, end = probe.generate("a", f"{PROMPT} max_tokens=12 temperature=0 logprobs=2")
    assert end["code"] == "OK" and end["tokens"] == 12 and deltas[0]["prompt_tokens"] == 5
    for d in deltas:
        for i, lp in zip(d["ids"], d.get("logprobs", [])):
            assert lp["id"] == i and lp["logprob"] <= 0 and lp["top"][0][0] == i
    whole, _ = probe.generate("b", f"{PROMPT} max_tokens=12 temperature=0 stream=0")
    assert ids_of(whole) == ids_of(deltas)
    stopped, _ = probe.generate("c", f"{PROMPT} max_tokens=12 temperature=0 stop_ids={ids_of(deltas)[4]}")
    assert ids_of(stopped) == ids_of(deltas)[: ids_of(deltas).index(ids_of(deltas)[4]) + 1] and stopped[-1]["finish"] == "stop"


def test_a_seed_repeats_and_choices_differ(demo, make_probe):
    probe = make_probe(demo)
    one, end = probe.generate("a", f"{PROMPT} max_tokens=8 temperature=1 seed=11 n=2")
    assert end["code"] == "OK"
    two, _ = probe.generate("b", f"{PROMPT} max_tokens=8 temperature=1 seed=11 n=2")
    assert [ids_of(one, c) for c in (0, 1)] == [ids_of(two, c) for c in (0, 1)] and ids_of(one, 0) != ids_of(one, 1)


def test_a_prompt_longer_than_the_context_is_the_clients_fault(demo, make_probe):
    _, end = make_probe(demo).generate("a", "prompt=513 max_tokens=4")
    assert end["code"] == "INVALID_ARGUMENT" and demo not in end["message"]


def test_cancelling_frees_the_engine(demo, make_probe):
    probe = make_probe(demo)
    probe.do(f"start a {PROMPT} max_tokens=400 temperature=1 ignore_eos=1 cancel_after=3 show=0")
    probe.expect(event="cancelled", id="a")
    deadline = time.monotonic() + 5
    while (loads := probe.ask("loads"))["running"] + loads["waiting"]:
        assert time.monotonic() < deadline, loads
        time.sleep(0.05)
    assert probe.generate("b", f"{PROMPT} max_tokens=2 temperature=0")[1]["code"] == "OK"
