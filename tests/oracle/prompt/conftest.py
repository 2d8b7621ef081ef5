"""The programs that the tests of this folder ask, each run once per module."""

import contextlib
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "template")]
import template_reference as reference  # noqa: E402
from parse_ours import Ours  # noqa: E402
from test_native import Code  # noqa: E402


@contextlib.contextmanager
def run(program):
    yield program
    assert program.close() == 0


@pytest.fixture(scope="module")
def ours():
    with run(Ours()) as o:
        yield o


@pytest.fixture(scope="module")
def renderer():
    with run(reference.Renderer()) as r:
        yield r


@pytest.fixture(scope="module")
def code():
    """What models without a chat template are rendered by."""
    with run(Code()) as c:
        yield c
