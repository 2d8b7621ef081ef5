"""Images by hack/images: twice the same bytes; nothing in them but a program and what it needs; they run as nobody on a root they cannot write."""

import hashlib
import io
import json
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import tempfile

import pytest
import rig

NAMES = ("operator", "sidecar")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Two builds, the second under another mask, language, time zone and folder."""
    subprocess.run(["make", "-s", "build/release/bin/kelpie-operator", "build/release/bin/kelpie-sidecar"], cwd=rig.ROOT, check=True, stdout=sys.stderr)
    made = []
    for changed, mask in ({}, 0o022), ({"LC_ALL": "C", "TZ": "Asia/Tokyo"}, 0o077):
        out = tmp_path_factory.mktemp("images")
        env = dict(os.environ, KELPIE_IMAGES=str(out), TMPDIR=str(out), **changed)
        subprocess.run([rig.ROOT / "hack/images", *NAMES], env=env, umask=mask, check=True, stdout=sys.stderr)
        made.append(out)
    return made


def read(archive):
    """(configuration, [layer as a tar], its digests) of an image archive."""
    with tarfile.open(archive) as tar:
        content = {m.name.removeprefix("./"): tar.extractfile(m).read() for m in tar.getmembers() if m.isfile()}
    manifest = json.loads(content["manifest.json"])[0]
    layers = [content[name] for name in manifest["Layers"]]
    return manifest, json.loads(content[manifest["Config"]]), layers


def members(archive):
    for layer in read(archive)[2]:
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            yield from tar.getmembers()


@pytest.mark.parametrize("name", NAMES)
def test_twice_the_same(images, name):
    one, two = ((folder / f"{name}.tar").read_bytes() for folder in images)
    assert hashlib.sha256(one).digest() == hashlib.sha256(two).digest()


@pytest.mark.parametrize("name", NAMES)
def test_what_it_says(images, name):
    manifest, config, layers = read(images[0] / f"{name}.tar")
    version = (rig.ROOT / "VERSION").read_text().strip()
    assert manifest["RepoTags"] == [f"kelpie.dev/{name}:{version}"]
    assert config["config"]["User"] == "65532:65532" and config["config"]["Entrypoint"] == [f"/usr/bin/kelpie-{name}"]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    assert {m.mtime for m in members(images[0] / f"{name}.tar")} == {0}


def test_the_common_layer_is_one(images):
    common = {read(images[0] / f"{name}.tar")[1]["rootfs"]["diff_ids"][0] for name in NAMES}
    assert len(common) == 1


@pytest.mark.parametrize("name", NAMES)
def test_nothing_else_is_in_it(images, name):
    files = [m for m in members(images[0] / f"{name}.tar") if not m.isdir()]
    programs = {m.name for m in files if m.isfile() and m.mode & 0o111 and ".so" not in m.name}
    assert programs == {f"./usr/bin/kelpie-{name}"}
    assert not [m.name for m in files if m.mode & (stat.S_ISUID | stat.S_ISGID) or (m.isfile() and m.mode & 0o022)]
    packages = {pathlib.Path(m.name).name for m in files if "/status.d/" in m.name}
    licences = {pathlib.Path(m.name).parent.name for m in files if m.name.endswith("/copyright")}
    assert packages == licences and {"libc6", "libssl3", "libgrpc29"} <= packages


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_as_nobody(images, name):
    with tempfile.TemporaryDirectory() as root:  # pytest's own folders are closed to others
        for layer in read(images[0] / f"{name}.tar")[2]:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(root, filter="tar")
        argv = ["chroot", "--userspec=65532:65532", root, f"/usr/bin/kelpie-{name}", "--version"]
        done = subprocess.run(argv, capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0 and done.stdout.startswith(f"kelpie-{name} "), done.stderr
