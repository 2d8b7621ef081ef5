"""The pages keep their promises: tagged code blocks run, links lead somewhere, examples shown are the files they name.

A block of shell has one of the tags of docs/HACKING.md. A `test` block runs with `sh -e` in a fresh copy of the checkout, with the
programs of $KP_BUILD/bin in PATH. The ports 8080, 9090, 9091, 9443 and 50051 are replaced by free ones in the block and in the copied
examples. What it starts in the background is ended with its process group. A ```text output``` block behind it holds lines that must
be in its output.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("KP_BUILD", "build/release")
SHELLS = {"sh", "bash", "shell", "console", "zsh"}
TAGS = {"test", "cluster", "by-hand"}
PORTS = ["8080", "8081", "8082", "8443", "8444", "9090", "9091", "9092", "9093", "9443", "50051", "50052"]


def tracked(*patterns):
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


PAGES = tracked("*.md")


def blocks_of(page):
    """(line number, words behind the fence, text) of each fenced block; an open fence at the end is an error."""
    opened, lines, found = None, [], []
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"(```+)(.*)$", line)
        if not fence:
            lines.append(line)
        elif opened is None:
            opened, lines = (number, fence[2].split()), []
        else:
            assert not fence[2].strip(), f"{page}:{number}: a block opens inside a block"
            found.append((*opened, "\n".join(lines) + "\n"))
            opened = None
    assert opened is None, f"{page}:{opened[0]}: a block without an end"
    return found


def runnable():
    for page in PAGES:
        blocks = blocks_of(page)
        for i, (line, info, text) in enumerate(blocks):
            if info[:1] and info[0] in SHELLS and "test" in info[1:]:
                follows = blocks[i + 1] if i + 1 < len(blocks) else (0, [], "")
                expected = follows[2].splitlines() if follows[1] == ["text", "output"] else []
                yield pytest.param(text, expected, id=f"{page}:{line}")


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_tagged(page):
    for line, info, _ in blocks_of(page):
        assert info, f"{page}:{line}: say what language the block is"
        if info[0] in SHELLS:
            assert len(TAGS & set(info[1:])) == 1, f"{page}:{line}: tag it with one of {sorted(TAGS)}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        assert there.exists(), f"{page}: {target}"
        if anchor:
            heads = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), flags=re.M)
            slugs = [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads]
            assert anchor in slugs, f"{page}: {target}"


def test_the_readme_shows_the_demo_s_manifest():
    def plain(text):
        return [re.sub(r"\s*#.*", "", line) for line in text.splitlines() if re.sub(r"\s*#.*", "", line)]

    shown = [text for _, info, text in blocks_of("README.md") if info[:1] == ["yaml"]]
    assert plain((ROOT / "docs/examples/demo.yaml").read_text(encoding="utf-8")) in [plain(text) for text in shown]


def test_the_changelog_knows_this_version():
    version = (ROOT / "VERSION").read_text().strip()
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [str(s.getsockname()[1]) for s in sockets]
    for s in sockets:
        s.close()
    return ports


@pytest.fixture
def copy(tmp_path):
    """A fresh copy of the checkout, with the Python environments but nothing built."""
    for name in tracked():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    (tmp_path / "build").mkdir()
    for venv in ROOT.glob("build/venv*"):
        (tmp_path / "build" / venv.name).symlink_to(venv)
    return tmp_path


@pytest.mark.parametrize("block,expected", list(runnable()))
def test_block_runs(block, expected, copy):
    ports = dict(zip(PORTS, free_ports(len(PORTS))))

    def moved(text):
        return re.sub(rf"(?<!\d)({'|'.join(PORTS)})(?!\d)", lambda m: ports[m[0]], text)

    for example in copy.glob("docs/examples/*.yaml"):
        example.write_text(moved(example.read_text(encoding="utf-8")), encoding="utf-8")
    env = dict(os.environ, PATH=f"{BUILD / 'bin'}:{os.environ['PATH']}")
    env.pop("MAKEFLAGS", None)
    env.pop("MAKELEVEL", None)
    with open(copy / "block.log", "w") as log:
        shell = subprocess.Popen(["sh", "-e", "-c", moved(block)], cwd=copy, env=env, stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = shell.wait(timeout=300)
        finally:
            # The block's own session: whatever it left running ends with it.
            for sig in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(shell.pid, sig)
                except ProcessLookupError:
                    break
            shell.wait()
    output = (copy / "block.log").read_text(encoding="utf-8", errors="replace")
    assert status == 0, output[-4000:]
    for line in expected:
        assert line.strip() in output, output[-4000:]


def test_every_page_is_reachable_from_the_readme():
    seen, todo = set(), ["README.md"]
    while todo:
        page = todo.pop()
        if page in seen or not (ROOT / page).is_file():
            continue
        seen.add(page)
        for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", (ROOT / page).read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:", target):
                todo.append(os.path.relpath(((ROOT / page).parent / target).resolve(), ROOT))
    lost = {p for p in PAGES if p.startswith("docs/")} - seen
    assert not lost
