import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import fakes  # noqa: E402
from fakes import programs  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def built():
    assert (programs.BUILD / "bin/kelpie-operator").exists(), f"build it first: make V={programs.BUILD.name} {programs.BUILD.name}/bin/kelpie-operator"


@pytest.fixture
def run():
    """run(text, option...): an operator with that manifest. It must end with status 0 when it is told to."""
    running = []

    def make(text, *options, **kw):
        running.append(programs.Operator(text, *options, **kw))
        running[-1].wait_ready()
        return running[-1]

    yield make
    for operator in reversed(running):
        operator.stop()


@pytest.fixture
def join():
    """join(operator, **of fakes.Gateway): a gateway with a stream to it."""
    joined = []

    def make(operator, *args, **kw):
        joined.append(fakes.Gateway(f"127.0.0.1:{operator.port}", *args, **kw))
        return joined[-1]

    yield make
    for gateway in joined:
        gateway.close()


@pytest.fixture
def certificates(tmp_path):
    """certificates(name, ...): folders by hack/certs, of one authority."""

    def make(*names, folder="pki", days=2, ns=""):
        command = [fakes.ROOT / "hack/certs", "-d", str(days), "-n", ns, tmp_path / folder, *names]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return [tmp_path / folder / name.partition(",")[0] for name in names]

    return make
