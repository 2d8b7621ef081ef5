"""What long runs need: --done FILE goes on where the last run stopped, and the numbers that tests recorded are added up in one line."""

import collections
import pathlib

import pytest


def pytest_addoption(parser):
    parser.addoption("--done", metavar="FILE", help="the tests that passed are written to FILE and not run again")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    name = config.getoption("--done")
    if name and pathlib.Path(name).exists():
        done = set(pathlib.Path(name).read_text().splitlines())
        config.hook.pytest_deselected(items=[i for i in items if i.nodeid in done])
        items[:] = [i for i in items if i.nodeid not in done]


class Numbers:
    """Adds up what tests gave to record_property."""

    def __init__(self, config):
        self.sums = collections.Counter()
        self.done = config.getoption("--done")

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.sums.update({name: n for name, n in report.user_properties if isinstance(n, int)})
            if self.done and report.passed:
                with open(self.done, "a") as f:
                    f.write(report.nodeid + "\n")

    def pytest_terminal_summary(self, terminalreporter):
        if self.sums:
            terminalreporter.write_line("compared: " + ", ".join(f"{n:,} {name}" for name, n in sorted(self.sums.items())))


def pytest_configure(config):
    if not hasattr(config, "workerinput"):  # of xdist's processes only the first one counts
        config.pluginmanager.register(Numbers(config), "numbers")
