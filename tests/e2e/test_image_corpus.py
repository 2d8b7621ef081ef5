"""Many images, each on its whole way: a file in a chat, ids, ranges, grid and floats at the engine, which are transformers' to the bit; and the pixels of the file, which are
Pillow's. From 1 by 1 to 6000 by 8000, every format, mode and turn, shapes beyond what a model takes."""

import itertools
import random

import numpy as np
import pytest
import vision
from pictures import VARIANTS, Probe, file_of, opened, picture
from programs import Gateway, Sim, engine, manifest
from test_images import VOCAB, ask, same
from vision import part, text

N = 300
LARGE = {  # quick enough for tens of megapixels
    "jpeg": lambda rgb, _: file_of(rgb, "JPEG", quality=80),
    "jpeg progressive": VARIANTS["jpeg progressive"],
    "jpeg grey": VARIANTS["jpeg grey"],
    "jpeg cmyk": VARIANTS["jpeg cmyk"],
    "jpeg turned": VARIANTS["JPEG turned 6"],
    "png": lambda rgb, _: file_of(rgb, "PNG", compress_level=1),
    "png palette": lambda rgb, _: file_of(rgb.convert("P"), "PNG", compress_level=1),
    "png alpha": lambda rgb, _: file_of(rgb.convert("RGBA"), "PNG", compress_level=1),
    "webp": lambda rgb, _: file_of(rgb, "WEBP", method=0),
}
EXTREME = [(1, 1), (1, 2), (2, 1), (1, 200), (200, 1), (1, 201), (201, 1), (14, 2800), (2800, 14), (14, 2801), (40, 8000), (1, 8000), (6000, 1), (28, 28), (27, 29)]
HUGE = [(6000, 8000), (8000, 6000), (4000, 3000), (3000, 4000), (7999, 5), (6000, 500), (1023, 8000)]


def corpus(n):
    """(what it is, file): the first ones are the worst."""
    random_ = random.Random(20261130)
    names, large = itertools.cycle(VARIANTS), itertools.cycle(LARGE)
    sizes = EXTREME + [(int(2 ** random_.uniform(0, 11)), int(2 ** random_.uniform(0, 11))) for _ in range(N - len(EXTREME) - 5 * len(HUGE))]
    for width, height in sizes[:n]:
        name = next(names)
        yield f"{name}, {width} by {height}", VARIANTS[name](picture(random_, width, height), picture(random_, width, height, 1))
    for width, height in (HUGE * 5)[: max(0, n - len(sizes))]:
        name = next(large)
        small = picture(random_, width // 8 + 1, height // 8 + 1)
        yield f"{name}, {width} by {height}", LARGE[name](small.resize((width, height), 0), None)


def compare(sim, gateway, models, ours, n):
    """How many images were sent, and how many of them a model refused, as transformers does."""
    refused = 0
    for i, (name, data) in enumerate(corpus(n)):
        image = opened(data)
        got = ours.pixels("d", data)
        assert got.shape == (image.height, image.width, 3) and (got == np.asarray(image)).all(), name
        messages = [{"role": "user", "content": [text("What is "), part(data), text("?")]}]
        for model in models.values():
            type_ = ("vllm", "sglang")[i % 2] if model.type != "llava" else "vllm"
            status, answer = ask(gateway, f"{model.name}-{type_}", messages)
            if model.type == "llava" and max(image.size) * 336 // min(image.size) > 65535:
                assert status == 400 and "too narrow" in answer["error"]["message"], (name, answer)
                continue
            if model.type != "llava" and max(image.size) > 200 * min(image.size):
                with pytest.raises(ValueError, match="absolute aspect ratio"):
                    model.want(vision.bare(messages), [image])
                assert status == 400 and "200 times" in answer["error"]["message"], (name, answer)
                refused += 1
                continue
            assert status == 200, (name, model.name, answer)
            same(model, type_, sim, answer, messages, [image])
    return i + 1, refused


@pytest.fixture
def rig(start, qwen3_path, tmp_path):
    models = {name: vision.Model(name, qwen3_path, tmp_path) for name in ("qwen25", "qwen3", "llava")}
    sim = start(Sim, "--vocab", VOCAB, "--log-ids", "--max-context", 100000)
    engines = [engine(f"{n}-{t}", sim.port, model=f"{n}-{t}", path=m.folder, type=t) for n, m in models.items() for t in ("vllm", "sglang")]
    return sim, start(Gateway, manifest(*engines), "--max-image-bytes", 128 << 20, "--max-body", 256 << 20), models, Probe()


def test_what_becomes_of_images_is_what_transformers_makes_of_them(rig):
    assert compare(*rig, 50)[0] == 50


@pytest.mark.slow
def test_what_becomes_of_300_images_is_what_transformers_makes_of_them(rig):
    sent, refused = compare(*rig, N)
    assert sent == N
    print(f"{sent} images for three models each: equal; {refused} refused by both")
