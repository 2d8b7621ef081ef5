"""kp_engine against SGLang's own servicer over a scheduler of ours (sglang_servicer.py): what the stand-in of test_sglang.py imitates. By hand, with
`make check-sglang`: the package is in the environment of `make check-vllm`, $KP_VLLM_VENV."""

import os
import pathlib
import subprocess

import engines
import peers
import pytest

pytestmark = pytest.mark.heavy


class Servicer(peers.Child):
    def __init__(self, folder, step_ms):
        (folder / "tokenizer.json").write_text("{}")
        python = pathlib.Path(os.environ["KP_VLLM_VENV"]) / "bin/python"
        script = pathlib.Path(__file__).with_name("sglang_servicer.py")
        super().__init__([python, script, folder, step_ms], stderr=subprocess.DEVNULL)

    def _read(self):
        first = self.process.stdout.readline()
        self.lines.put({"event": "ready", "address": first.split()[2]} if first.startswith("ready on ") else None)
        super()._read()


@pytest.fixture
def protocol():
    return engines.Sglang


@pytest.fixture
def servicer(tmp_path, request):
    made = Servicer(tmp_path, getattr(request, "param", 1))
    made.address = made.expect(event="ready", timeout=120)["address"]
    yield made
    made.process.kill()
    made.process.wait()


def ids_of(deltas, choice=0):
    return [i for d in deltas if d["choice"] == choice for i in d["ids"]]


def test_answers(servicer, make_probe):
    probe = make_probe(servicer.address)
    expected = [186 + 7 * k for k in range(5)]
    deltas, end = probe.generate("a", "ids=1,2,3 max_tokens=5")
    assert end["code"] == "OK" and ids_of(deltas) == expected and deltas[-1]["finish"] == "length"
    whole, _ = probe.generate("b", "ids=1,2,3 max_tokens=5 stream=0")
    assert [(d["ids"], d["finish"]) for d in whole] == [(expected, "length")]
    for stream in (1, 0):
        deltas, end = probe.generate(f"c{stream}", f"ids=1,2,3 max_tokens=5 n=3 stream={stream}")
        assert end["code"] == "OK" and [ids_of(deltas, c) for c in range(3)] == [expected] * 3
    deltas, _ = probe.generate("d", "ids=1,2,3 max_tokens=9 stop_ids=200,1")
    assert ids_of(deltas) == expected[:3] and deltas[-1]["matched"] == 200
    _, end = probe.generate("e", "ids=1,2,3 text=full")
    assert (end["code"], end["message"]) == ("RESOURCE_EXHAUSTED", "The request queue is full.")


@pytest.mark.parametrize("stream", [1, 0])
def test_log_probabilities(servicer, make_probe, stream):
    probe = make_probe(servicer.address)
    deltas, _ = probe.generate("a", f"ids=1,2,90 max_tokens=3 logprobs=1 prompt_logprobs=2 stream={stream}")
    output = [lp for d in deltas for lp in d.get("logprobs", [])]
    assert output == [{"id": i, "logprob": -(i % 97) / 8, "top": [[i + 1, -0.125]]} for i in ids_of(deltas)] and len(output) == 3
    (prompt,) = [d["prompt_logprobs"] for d in deltas if "prompt_logprobs" in d]
    assert prompt[0] == {"id": 1, "logprob": None, "top": []}
    assert [(p["id"], p["top"]) for p in prompt[1:]] == [(i, [[i + 1, -0.125], [i + 2, -0.25]]) for i in (2, 90)]
    only, _ = probe.generate("b", f"ids=1,2,90 max_tokens=3 logprobs=0 stream={stream}")
    assert not any("prompt_logprobs" in d for d in only)


def test_questions(servicer, make_probe):
    probe = make_probe(servicer.address)
    info = probe.ask("info")
    assert (info["code"], info["version"], info["max_context"], info["vocab_size"], info["eos"], info["max_running"], info["default_temperature"]) == (
        "OK", "0.5.20", 4096, 0, [], 48, 0.5)
    assert probe.ask("health")["code"] == "OK"
    loads = probe.ask("loads")
    assert (loads["running"], loads["waiting"], loads["total_tokens"], loads["kv_usage"]) == (2, 1, 50, 0.25)
    assert probe.ask("tokenizer")["bytes"] > 100


@pytest.mark.parametrize("servicer", [0, 20], indirect=True)
def test_nothing_runs_on_after_a_cancellation(servicer, make_probe):
    """Right after a chunk, as a stop string does it: the moment when the servicer does not notice."""
    probe = make_probe(servicer.address)
    for k in range(9):
        probe.do(f"start r{k} ids=1,2,{k + 1} max_tokens=1000000 cancel_after={20 + k} show=0")
    for _ in range(9):
        probe.expect(event="cancelled")
    while servicer.expect(event="working")["rids"]:
        pass
