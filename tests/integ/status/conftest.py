import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[2] / os.environ.get("KP_BUILD", "build/release")
sys.path.insert(0, str(HERE))
import browser as chromium  # noqa: E402


class StatusServer:
    """tests/tools/status_server: the operator's status listener with a status that the test makes up."""

    def __init__(self, port=0):
        program = BUILD / "tests/tools/status_server"
        assert program.exists(), f"build it first: make V={BUILD.name} {program.relative_to(HERE.parents[2])}"
        self.process = subprocess.Popen(
            [program, f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def set(self, word, text):
        self.process.stdin.write(f"{word} {text}\n".encode())
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"published\n"

    def stop(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        assert self.process.wait(30) == 0, self.process.stderr.read().decode()


@pytest.fixture
def serve():
    made = []

    def make(port=0):
        made.append(StatusServer(port))
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(serve):
    return serve()


@pytest.fixture(scope="session")
def browser():
    program = chromium.Browser()
    yield program
    program.stop()


@pytest.fixture
def open_page(browser):
    """open_page(url, script=, dark=, width=): a tab with that page."""
    pages = []

    def make(url, **options):
        page = chromium.Page(browser, **options)
        pages.append(page)
        page.open(url)
        return page

    yield make
    for page in pages:
        page.close()
    browser.events.clear()
