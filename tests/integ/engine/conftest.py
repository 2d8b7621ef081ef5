import pathlib
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import engines  # noqa: E402


@pytest.fixture(params=engines.PROTOCOLS)
def protocol(request):
    """Whoever asks for it, or for an engine or a probe, runs once in each protocol."""
    return engines.PROTOCOLS[request.param]


@pytest.fixture
def make_sim(tmp_path):
    """make_sim(option...): a sim engine of the test's own. It has to end with status 0, unless the test takes it off `made`."""
    made = []

    def make(*args, **more):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="sim", dir=tmp_path))
        made.append(engines.Sim(folder, *args, **more))
        return made[-1]

    make.made = made
    yield make
    assert [sim.stop() for sim in made] == [0] * len(made)


@pytest.fixture
def sim(make_sim, tmp_path):
    big = tmp_path / "tokenizer.json"  # more than one piece
    big.write_bytes(bytes(range(256)) * 1000)
    return make_sim("--tokenizer-file", engines.ROOT / "Makefile", "--tokenizer-file", big)


@pytest.fixture
def make_probe(protocol):
    with engines.probes() as make:
        yield lambda address, *args: make(address, *args, protocol=protocol.name)


@pytest.fixture
def probe(make_probe, sim):
    return make_probe(sim.address)


@pytest.fixture
def scripted(protocol):
    engine = engines.Scripted(protocol)
    yield engine
    engine.stop()
