import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import netwire as wire  # noqa: E402


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return wire.Tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def make_server():
    """make_server(option=value...): a server of the test's own. It has to end with status 0."""
    made = []

    def make(**options):
        made.append(wire.Server(**options))
        return made[-1]

    yield make
    assert [server.stop() for server in made] == [0] * len(made)


@pytest.fixture
def server(make_server):
    return make_server()


@pytest.fixture(params=["cleartext", "tls"])
def either(request, make_server, certificate):
    """A server in cleartext, and the same over TLS."""
    return make_server(tls=certificate if request.param == "tls" else None)
