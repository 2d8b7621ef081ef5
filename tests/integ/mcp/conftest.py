import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mcp_rig  # noqa: E402


@pytest.fixture
def probe():
    p = mcp_rig.Probe()
    yield p
    p.end()


@pytest.fixture
def sdk():
    """sdk(flag...): a server made with the SDK."""
    made = []

    def make(*flags, **kw):
        made.append(mcp_rig.SdkServer(*flags, **kw))
        return made[-1]

    yield make
    for s in made:
        s.stop()


@pytest.fixture
def scripted():
    made = []

    def make(*a, **kw):
        made.append(mcp_rig.Scripted(*a, **kw))
        return made[-1]

    yield make
    for s in made:
        s.close()
