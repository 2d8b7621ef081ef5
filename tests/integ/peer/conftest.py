import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import owners  # noqa: E402


@pytest.fixture
def owner():
    it = owners.Owner()
    yield it
    it.stop()


@pytest.fixture(scope="session")
def tls(tmp_path_factory):
    return owners.Tls(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="session")
def other_tls(tmp_path_factory):
    return owners.Tls(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture
def make_probe():
    """make_probe(address of a peer port, option...): a gateway's side of the protocol; it has to end clean."""
    with owners.engines.probes() as make:
        yield lambda address, *args, endpoint=(owners.ENGINE, owners.ADDRESS), ident="gw-b": make(
            address, f"id={ident}", f"endpoint={','.join(endpoint)}", *args
        )


@pytest.fixture
def cable():
    made = []

    def make(address):
        made.append(owners.Cable(address))
        return made[-1]

    yield make
    for it in made:
        it.close()
