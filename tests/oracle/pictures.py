"""Pictures in every format, mode and option that Pillow writes, what Pillow reads of them, and lib/image as a program beside it."""

import io
import json
import struct
import subprocess

import golang
import numpy as np
from PIL import Image, ImageOps

WHITE = (255, 255, 255)


class Probe:
    def __init__(self):
        self.process = subprocess.Popen([golang.helper("image", "probe")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, letter, *parts):
        data = b"".join(parts)
        self.process.stdin.write(letter.encode() + struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer, self.process.stdout.read(answer["bytes"])

    def pixels(self, letter, *parts):
        answer, data = self.ask(letter, *parts)
        assert "error" not in answer, answer
        return np.frombuffer(data, np.uint8).reshape(answer["height"], answer["width"], 3)


def picture(random_, width, height, channels=3):
    """Smooth, with edges and noise: what compresses badly and shows every rounding."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        (x * random_.randrange(1, 6) + y * random_.randrange(1, 6) + 127 * np.sin((x + y) / random_.uniform(2, 40))) % 256 for _ in range(channels)
    ]
    noise = np.frombuffer(random_.randbytes(width * height * channels), np.uint8).reshape(height, width, channels) % 24
    array = np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)
    return Image.fromarray(array if channels > 1 else array[:, :, 0])


def file_of(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def opened(data):
    """Decoded, upright, over white: what a server makes of an image before its processor sees it."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        below = Image.new("RGB", image.size, WHITE)
        below.paste(image, mask=image.getchannel("A"))
        return below
    return image.convert("RGB")


def oriented(value):
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def with_alpha(rgb, alpha, mode):
    image = rgb.convert(mode)
    image.putalpha(alpha)
    return image


def _variants():
    """name: how a file is made of a picture and of how opaque it is."""
    yield from ((f"jpeg q{q}", lambda rgb, _, q=q, s=s: file_of(rgb, "JPEG", quality=q, subsampling=s)) for q, s in ((30, 2), (75, 1), (95, 0)))
    yield "jpeg progressive", lambda rgb, _: file_of(rgb, "JPEG", progressive=True)
    yield "jpeg optimized, restarts", lambda rgb, _: file_of(rgb, "JPEG", optimize=True, restart_marker_blocks=1)
    yield "jpeg grey", lambda rgb, _: file_of(rgb.convert("L"), "JPEG")
    yield "jpeg cmyk", lambda rgb, _: file_of(rgb.convert("CMYK"), "JPEG")
    yield from ((f"png {m}", lambda rgb, _, m=m: file_of(rgb.convert(m), "PNG")) for m in ("1", "L", "P", "RGB"))
    yield from ((f"png {m}", lambda rgb, alpha, m=m: file_of(with_alpha(rgb, alpha, m), "PNG")) for m in ("RGBA", "LA"))
    yield from ((f"png palette of {n} bits", lambda rgb, _, n=n: file_of(rgb.quantize(2**n), "PNG", bits=n)) for n in (1, 2, 4))
    yield "png palette, opacities", lambda rgb, _: file_of(rgb.convert("P"), "PNG", transparency=bytes(range(256)))
    yield "png palette, one clear", lambda rgb, _: file_of(rgb.convert("P"), "PNG", transparency=3)
    yield "png grey, one clear", lambda rgb, _: file_of(rgb.convert("L"), "PNG", transparency=100)
    yield "png RGB, one clear", lambda rgb, _: file_of(rgb, "PNG", transparency=rgb.getpixel((0, 0)))
    for lossless in (False, True):
        yield f"webp, lossless {lossless}", lambda rgb, _, way=lossless: file_of(rgb, "WEBP", lossless=way)
        yield f"webp alpha, lossless {lossless}", lambda rgb, alpha, way=lossless: file_of(with_alpha(rgb, alpha, "RGBA"), "WEBP", lossless=way)
    yield "webp animated", lambda rgb, alpha: file_of(with_alpha(rgb, alpha, "RGBA"), "WEBP", save_all=True, append_images=[rgb.convert("RGBA").rotate(90)])
    for value in range(1, 9):
        for kind in ("JPEG", "PNG", "WEBP"):
            yield f"{kind} turned {value}", lambda rgb, _, k=kind, v=value: file_of(rgb, k, exif=oriented(v))


VARIANTS = dict(_variants())
