"""hack/demo as a person meets it: in a terminal until Ctrl-C, and where there is no terminal."""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = str(ROOT / "hack/demo")
PATIENCE = 600  # seconds; it may have to build, on a busy machine


def left_of(session):
    """The processes of a session that are still there."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, sid = rest.split()[:4]
        if int(sid) == session and state != "Z":
            found.append(name)
    return found


def assert_it_answered(text):
    assert re.search(r"^> .*sea.*\n(.{20,}\n)+", text, flags=re.M), text
    assert "curl http://127.0.0.1:" in text and "from openai import OpenAI" in text, text


class Terminal:
    """A program with a terminal of its own, as leader of its session."""

    def __init__(self, program):
        env = {**os.environ, "TERM": "dumb"}
        env.pop("CI", None)
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(program, [program], env)

    def read_until(self, words):
        """None as words: until it ends."""
        deadline = time.monotonic() + PATIENCE
        while words is None or words not in self.text:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.fd], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:  # the last process that had the terminal open is gone
                data = b""
            if not data:
                assert words is None, f"ended without {words!r}:\n{self.text}"
                return
            self.text += data.decode(errors="replace").replace("\r\n", "\n")

    def end(self):
        if self.pid:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture
def terminal():
    terminal = Terminal(DEMO)
    yield terminal
    terminal.end()


def test_in_a_terminal_it_serves_until_ctrl_c(terminal):
    terminal.read_until("Ctrl-C ends it.")
    assert_it_answered(terminal.text)
    url = re.search(r"curl (http://\S+)/chat/completions", terminal.text)[1]
    with urllib.request.urlopen(url + "/models", timeout=60) as answer:
        assert b"smollm2-135m" in answer.read()
    os.write(terminal.fd, b"\x03")
    terminal.read_until(None)
    session = terminal.pid
    _, status = os.waitpid(terminal.pid, 0)
    terminal.pid = 0
    assert os.waitstatus_to_exitcode(status) == 130, terminal.text
    assert not left_of(session)


def test_without_a_terminal_it_answers_once_and_ends():
    """With a tool, too."""
    done = subprocess.Popen([DEMO, "--tools"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            start_new_session=True)
    try:
        text, _ = done.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(done.pid, signal.SIGTERM)
        raise
    assert done.returncode == 0, text
    assert_it_answered(text)
    assert re.search(r'^tides: tide\{"time": "morning"\} -> low, 0.4 m$', text, re.M), text
    assert not left_of(done.pid)
