"""One whole life of the gateway under valgrind: start, a streamed and a whole answer, an error, SIGTERM. No bad access, no leak, no
descriptor left open."""

import pathlib
import re
import shutil

import pytest
from oracles import ask_engine
from programs import ASAN, Gateway, Sim, engine, manifest
from wire import CHAT, COMPLETIONS, both, call

pytestmark = pytest.mark.alone

FOUND = 99  # exit status


@pytest.mark.skipif(
    ASAN, reason="a program built with AddressSanitizer checks itself and does not run under valgrind"
)
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed: hack/deps test")
def test_valgrind(start, smollm2_zip, llama):
    sim = start(Sim, "--vocab", 49152, "--tokenizer-zip", smollm2_zip)
    valgrind = (
        "valgrind",
        "--leak-check=full",
        "--show-leak-kinds=all",
        f"--suppressions={pathlib.Path(__file__).parent / 'valgrind.supp'}",
        "--num-callers=30",
        "--errors-for-leak-kinds=definite,indirect,possible",
        f"--error-exitcode={FOUND}",
        "--track-fds=yes",
    )
    gateway = start(Gateway, manifest(engine("sim", sim.port)), wrapper=valgrind, loops=1)
    prompt = llama("/tokenize", content="A prompt: é 🚀", parse_special=True, add_special=True)["tokens"]
    answer = both(
        gateway.port,
        COMPLETIONS,
        {"model": "m", "prompt": "A prompt: é 🚀", "max_tokens": 30, "seed": 4, "logprobs": 2},
    )
    expected = ask_engine(sim.address, prompt, max_tokens=30, seed=4, logprobs=2)
    assert answer["usage"]["prompt_tokens"] == len(prompt)
    assert len(answer["choices"][0]["logprobs"]["tokens"]) == len(expected.ids) == 30
    chat = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 20,
        "n": 2,
        "stop": ["qqqqq"],
    }
    assert len(both(gateway.port, CHAT, chat)["choices"]) == 2
    assert call(gateway.port, CHAT, b'{"model":').status == 400
    assert call(gateway.port, CHAT, {**chat, "model": "nobody"}).status == 404
    assert call(gateway.port, "/v1/models").status == 200
    gateway.ask("/metrics")
    gateway.terminate()
    status, report = gateway.wait(), gateway.text()
    complaints = "\n".join(line for line in report.splitlines() if re.match(r"==\d+==", line))
    assert status == 0, complaints[-6000:]
    assert "ERROR SUMMARY: 0 errors" in complaints, complaints[-6000:]
    for kind in ("definitely lost", "indirectly lost", "possibly lost", "still reachable"):
        assert f"{kind}: 0 bytes in 0 blocks" in complaints, complaints[-6000:]
    assert "FILE DESCRIPTORS: 3 open (3 std) at exit" in complaints, complaints[-6000:]
