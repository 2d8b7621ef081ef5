"""lib/image beside Pillow and the image processors of transformers (their PIL backend, without torch): the same bytes of pixels, the same floats.

From 12.2 on Pillow resizes some tall images vertically first, from 13 on more of them, which rounds differently; the reference is Pillow before that, which is
what the models' own code was run with (docs/images.md).
"""

import io
import json
import os
import pathlib
import random
import re
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from pictures import VARIANTS, Probe, file_of, opened, picture  # noqa: E402

SEED = 20261130


@pytest.fixture(scope="module")
def ours():
    return Probe()


SIZES = [(1, 1), (1, 2), (3, 1), (17, 9), (64, 64), (250, 3), (5, 199), (131, 97)]


@pytest.mark.parametrize("size", SIZES)
def test_pixels_are_pillows(ours, size):
    """MM-01, MM-02, MM-03, MM-17, MM-18."""
    random_ = random.Random(SEED + size[0])
    rgb, alpha = picture(random_, *size), picture(random_, *size, 1)
    for name, make in VARIANTS.items():
        data = make(rgb, alpha)
        want = np.array(opened(data))
        got = ours.pixels("d", data)
        assert got.shape == want.shape, name
        assert (got == want).all(), (name, int(np.abs(got.astype(int) - want).max()))
        head, _ = ours.ask("h", data)
        assert (head["height"], head["width"]) == want.shape[:2], name


def test_sixteen_bits_keep_their_upper_byte(ours):
    """MM-17: Pillow shows everything above 255 of a grey 16-bit PNG as white."""
    array = np.array([[0, 255, 256, 0x7FFF, 0x8000, 0xFFFF]], np.uint16)
    got = ours.pixels("d", file_of(Image.fromarray(array), "PNG"))
    assert got[0, :, 0].tolist() == [0, 0, 1, 0x7F, 0x80, 0xFF]


def test_a_clear_grey_of_two_bits_is_found_before_it_is_spread(ours):
    """MM-02; Pillow compares the tRNS of 2 and 4 bits with values of 8."""
    data = file_of(Image.new("L", (4, 1)), "PNG")
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))  # noqa: E731
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 1, 2, 0, 0, 0, 0))
    data = data[:8] + head + chunk(b"tRNS", b"\0\2") + chunk(b"IDAT", zlib.compress(b"\0\x1b")) + chunk(b"IEND", b"")
    assert ours.pixels("d", data)[0, :, 0].tolist() == [0, 85, 255, 255]


def test_scans_without_end_are_refused(ours):
    """A progressive JPEG may repeat its last scan for ever, at little cost of bytes."""
    data = file_of(picture(random.Random(SEED), 64, 64), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    scans = data.count(b"\xff\xda")
    repeated = lambda n: data[:-2] + data[last:-2] * n + data[-2:]  # noqa: E731
    assert ours.pixels("d", repeated(100 - scans)).shape == (64, 64, 3)
    answer, _ = ours.ask("d", repeated(101 - scans))
    assert answer["error"] == "decode the JPEG image: more than 100 scans"


def high_water(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {k: int(re.search(rf"{k}:\s+(\d+)", status)[1]) << 10 for k in ("VmHWM", "VmRSS")}


@pytest.mark.skipif("asan" in os.environ.get("KP_BUILD", ""), reason="a sanitizer's memory says nothing")
@pytest.mark.parametrize("name", ["baseline", "progressive", "progressive, subsampled", "progressive, grey", "progressive, CMYK", "PNG", "PNG with alpha",
                                  "WebP", "WebP with alpha", "lossless WebP", "lossless WebP with alpha"])  # fmt: skip
def test_what_a_decoder_holds_is_what_the_head_says(name):
    """Beside file and picture: the peak of a process's memory while it decodes. --media-memory counts by it."""
    width, height = 1600, 1200
    rgb = picture(random.Random(SEED), 100, 75).resize((width, height))
    alpha = rgb.convert("L")
    rgba = rgb.convert("RGBA")
    rgba.putalpha(alpha)
    data = {
        "baseline": lambda: file_of(rgb, "JPEG"),
        "progressive": lambda: file_of(rgb, "JPEG", progressive=True, subsampling=0),
        "progressive, subsampled": lambda: file_of(rgb, "JPEG", progressive=True, subsampling=2),
        "progressive, grey": lambda: file_of(alpha, "JPEG", progressive=True),
        "progressive, CMYK": lambda: file_of(rgb.convert("CMYK"), "JPEG", progressive=True),
        "PNG": lambda: file_of(rgb, "PNG"),
        "PNG with alpha": lambda: file_of(rgba, "PNG"),
        "WebP": lambda: file_of(rgb, "WEBP", method=0),
        "WebP with alpha": lambda: file_of(rgba, "WEBP", method=0),
        "lossless WebP": lambda: file_of(rgb, "WEBP", lossless=True, method=0),
        "lossless WebP with alpha": lambda: file_of(rgba, "WEBP", lossless=True, method=0),
    }[name]()
    probe = Probe()
    said = probe.ask("h", data)[0]["decoder"]
    pathlib.Path(f"/proc/{probe.process.pid}/clear_refs").write_text("5")  # the peak begins anew
    before = high_water(probe.process.pid)["VmRSS"]
    assert probe.pixels("d", data).shape == (height, width, 3)
    held = high_water(probe.process.pid)["VmHWM"] - before - 3 * width * height
    unused = width * height if name == "PNG" else 0  # its head is not asked whether anything is transparent
    assert said * 0.7 - (1 << 20) <= held + unused and held <= said + (2 << 20), (name, said, held)


@pytest.mark.slow
def test_large_pictures_have_fewer_scans(ours):
    data = file_of(Image.new("RGB", (8000, 8000)), "JPEG", progressive=True)
    last, scans = data.rindex(b"\xff\xda"), data.count(b"\xff\xda")
    for n, error in ((62, None), (63, "decode the JPEG image: more than 62 scans")):
        answer, _ = ours.ask("d", data[:-2] + data[last:-2] * (n - scans) + data[-2:])
        assert answer.get("error") == error


def test_resizing_is_pillows(ours):
    """MM-12: bilinear, bicubic and Lanczos, without SIMD, with AVX2 and with AVX-512 where this machine has it."""
    random_ = random.Random(SEED)
    for round_ in range(300):
        width, height, to_width, to_height = (random_.randrange(1, 220) for _ in range(4))
        if round_ % 10 == 0:
            to_width = width
        elif round_ % 10 == 1:
            to_height = height
        elif round_ % 10 == 2:  # less than what is made at once
            to_width = random_.randrange(1, 36)
        elif round_ % 10 == 3:  # wider than that, from less than a filter takes
            width, height = random_.randrange(1, 8), random_.randrange(1, 8)
        elif round_ % 10 == 4:  # nearly the same
            to_width, to_height = max(1, width + random_.randrange(-3, 4)), max(1, height + random_.randrange(-3, 4))
        image, number = picture(random_, width, height), random_.choice([1, 2, 3])
        want = np.array(image.resize((to_width, to_height), resample=number))
        for limit in (0, 1, 2):  # all that the processor has, nothing, AVX2
            got = ours.pixels("r", f"{width} {height} {to_width} {to_height} {number} {limit}\n".encode(), image.tobytes())
            assert (got == want).all(), (width, height, to_width, to_height, number, limit)


def processors():
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    half = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    return [
        (Qwen2VLImageProcessorPil, {"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 3136, "max_pixels": 401408}),
        (
            Qwen2VLImageProcessorPil,
            {"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 16, "size": {"shortest_edge": 65536, "longest_edge": 16777216}} | half,
        ),
        (Qwen2VLImageProcessorPil, {"image_processor_type": "Qwen2VLImageProcessor", "size": {"shortest_edge": 3136, "longest_edge": 20000}}),
        (CLIPImageProcessorPil, {"image_processor_type": "CLIPImageProcessor"}),
        (CLIPImageProcessorPil, {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 30}, "crop_size": {"height": 37, "width": 50}}),
        (
            CLIPImageProcessorPil,
            {"image_processor_type": "CLIPImageProcessor", "size": {"height": 61, "width": 40}, "do_center_crop": False, "resample": 2, "do_normalize": False},
        ),
        (
            LlavaImageProcessorPil,
            {"image_processor_type": "LlavaImageProcessor", "size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}, "do_pad": True},
        ),
    ]


@pytest.mark.parametrize("number", range(7))
def test_floats_are_transformers(ours, number):
    """Grids and floats, to the bit; sides of 1 and extreme shapes among them (MM-11, MM-13, MM-14)."""
    processor, config = processors()[number]
    theirs = processor(**{k: v for k, v in config.items() if k != "image_processor_type"})
    text = json.dumps(config).encode()
    random_ = random.Random(SEED + number)
    sizes = [(1, 1), (1, 200), (200, 1), (1, 201), (14, 2800), (500, 400), (28, 28)] + [(random_.randrange(1, 400), random_.randrange(1, 400)) for _ in range(15)]
    for width, height in sizes:
        image = picture(random_, width, height)
        answer, data = ours.ask("x", f"{len(text)}\n".encode(), text, file_of(image, "PNG"))
        try:
            want = theirs([image])
        except ValueError as refused:
            assert "absolute aspect ratio" in str(refused) and "200 times" in answer["error"], (width, height, answer)
            continue
        assert "error" not in answer, (width, height, answer)
        if "image_grid_thw" in want:
            assert [1] + answer["grid"] == list(np.asarray(want["image_grid_thw"])[0])
            assert answer["tokens"] == answer["grid"][0] * answer["grid"][1] // 4
        floats = np.asarray(want["pixel_values"], np.float32).reshape(-1)
        got = np.frombuffer(data, np.float32)
        assert got.size == floats.size and (got == floats).all(), (width, height)


def test_processors_that_are_not_known_are_refused_by_name(ours):
    for config, word in (
        ({"image_processor_type": "PixtralImageProcessor"}, "PixtralImageProcessor"),
        ({}, "image_processor_type"),
        ({"image_processor_type": "CLIPImageProcessor", "image_std": [0, 1, 1]}, "image_std"),
        ({"image_processor_type": "CLIPImageProcessor", "resample": 0}, "resample"),
        ({"image_processor_type": "CLIPImageProcessor", "size": {"longest_edge": 4}}, "size"),
        ({"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 0}, "patch_size"),
        ({"image_processor_type": "Qwen2VLImageProcessor", "min_pixels": 9, "max_pixels": 8}, "size"),
    ):
        text = json.dumps(config).encode()
        answer, _ = ours.ask("x", f"{len(text)}\n".encode(), text, b"")
        assert word in answer.get("error", ""), (config, answer)


def test_bombs_are_refused_by_their_head(ours):
    """MM-04: a few bytes that declare a huge image."""
    bomb = bytearray(file_of(Image.new("L", (1, 1)), "PNG"))
    bomb[16:24] = struct.pack(">II", 60000, 60000)
    bomb[29:33] = struct.pack(">I", zlib.crc32(bytes(bomb[12:29])))
    answer, _ = ours.ask("d", bytes(bomb))
    assert answer["code"] == "RESOURCE_EXHAUSTED" and "60000 by 60000" in answer["error"]
    answer, _ = ours.ask("h", bytes(bomb))
    assert answer["code"] == "RESOURCE_EXHAUSTED"


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def test_interlaced_pixels_are_pillows(ours):
    random_ = random.Random(SEED)
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))  # noqa: E731
    for width, height in [(w, h) for w in range(1, 10) for h in range(1, 10)] + [(100, 61), (33, 900)]:
        array = np.array(picture(random_, width, height))
        parts = [array[y::dy, x::dx] for x, y, dx, dy in ADAM7]
        raw = b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)
        data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 1)) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
        assert (np.array(opened(data)) == array).all() and (ours.pixels("d", data) == array).all(), (width, height)


def png_of_a_pixel(before=b"", data=zlib.compress(b"\0\1\2\3"), behind=b""):
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))  # noqa: E731
    before, behind = (b"".join(chunk(*c) for c in chunks) for chunks in (before or [], behind or []))
    head = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return head + before + chunk(b"IDAT", data) + behind + chunk(b"IEND", b"")


def test_what_is_no_pixel_costs_nothing(ours):
    """MM-04: texts and profiles that are a thousand times their size, and data behind the last pixel."""
    text = (b"zTXt", b"x\0\0" + zlib.compress(b"a" * ((8 << 20) - 100)))
    profile = (b"iCCP", b"x\0\0" + zlib.compress(bytes(8 << 20)))
    begin = memory(ours)
    for data in (png_of_a_pixel(before=[text] * 300), png_of_a_pixel(behind=[text] * 300), png_of_a_pixel(before=[profile])):
        assert ours.pixels("d", data).tolist() == [[[1, 2, 3]]]
    packer = zlib.compressobj()
    bomb = packer.compress(b"\0\1\2\3") + b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
    answer, _ = ours.ask("d", png_of_a_pixel(data=bomb))
    assert answer["error"] == "decode the PNG image: it has more data than pixels"
    assert memory(ours) - begin < 64 << 10
    assert ours.pixels("d", png_of_a_pixel(data=zlib.compress(b"\0\1\2\3" + bytes(60000)))).tolist() == [[[1, 2, 3]]]


def memory(ours):
    """The most it ever had, in KiB."""
    return int(pathlib.Path(f"/proc/{ours.process.pid}/status").read_text().split("VmHWM:")[1].split()[0])


def test_cut_files_are_errors(ours):
    """MM-07, MM-20: each prefix gives an error or, where Pillow takes it too, the picture; never bytes of the file in the message."""
    random_ = random.Random(SEED)
    image = picture(random_, 23, 17)
    for kind in ("JPEG", "PNG", "WEBP"):
        data = file_of(image, kind)
        for end in range(0, len(data), max(1, len(data) // 60)):
            answer, _ = ours.ask("d", data[:end])
            if "error" not in answer:
                Image.open(io.BytesIO(data[:end])).load()
            else:
                assert answer["code"] == "INVALID_ARGUMENT" and len(answer["error"]) < 120, answer
