"""Formats of the fuzzer (`fuzz.py`): images as files, by all ops that read them."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from faults.damage import BIG, Case, damaged_bytes


def _pictures() -> list[Any]:
    from PIL import Image

    rng = np.random.RandomState(1)
    pixels = rng.randint(0, 256, [13, 9, 4]).astype(np.uint8)
    made = [Image.fromarray(pixels[..., 0]), Image.fromarray(pixels[..., :3]),
            Image.fromarray(pixels)]
    return [*made, made[1].quantize(16), made[1].convert("1")]


def _encoded(form: str, **options: Any) -> list[bytes]:
    found = []
    for picture in _pictures():
        if form == "JPEG" and picture.mode not in ("L", "RGB"):
            continue
        file = io.BytesIO()
        picture.save(file, form, **options)
        found.append(file.getvalue())
    return found


def _gifs() -> list[bytes]:
    file = io.BytesIO()
    first, *others = [p.convert("P") for p in _pictures()[:3]]
    first.save(file, "GIF", save_all=True, append_images=others)
    return [file.getvalue(), *_encoded("GIF")]


def _damaged_png(rng: random.Random, content: bytes) -> bytes:
    """A PNG file whose chunks are damaged but have checksums that fit."""
    at, parts = 8, [content[:8]]
    while at + 8 <= len(content):
        (size,) = struct.unpack_from(">I", content, at)
        kind, body = content[at + 4:at + 8], content[at + 8:at + 8 + size]
        if rng.random() < 0.3:
            body = _damaged_chunk(rng, kind, body)
        parts += [struct.pack(">I", len(body)), kind, body,
                  struct.pack(">I", zlib.crc32(kind + body))]
        at += 12 + size
    return b"".join(parts)


def _damaged_chunk(rng: random.Random, kind: bytes, body: bytes) -> bytes:
    if kind == b"IHDR" and rng.random() < 0.5:
        sizes = [rng.choice(BIG) % (1 << 32) for _ in range(2)]
        return struct.pack(">II", *sizes) + body[8:]
    if kind == b"IDAT" and rng.random() < 0.5:
        return zlib.compress(damaged_bytes(rng, zlib.decompress(body)))
    return damaged_bytes(rng, body)


def _format(contents: Callable[[], list[bytes]],
            damaged: Callable[[random.Random, bytes], bytes] = damaged_bytes
            ) -> Callable[[Any, Path], Case]:
    """A format whose cases decode damaged files by all ops; all have to answer any file."""

    def prepare(hf: Any, _: Path) -> Case:
        files = contents()
        with hf.Graph().as_default():
            one = hf.placeholder(hf.string, [])
            window = hf.placeholder(hf.int32, [4])
            image = hf.image
            ops = [image.decode_png(one, channels=c) for c in (0, 1, 2, 3, 4)]
            ops += [image.decode_png(one, dtype=hf.uint16)]
            ops += [image.decode_jpeg(one, channels=c, ratio=r)
                    for c, r in ((0, 1), (1, 2), (3, 8))]
            ops += [image.decode_image(one, channels=c) for c in (0, 1, 3, 4)]
            ops += [image.decode_gif(one), image.extract_jpeg_shape(one), image.is_jpeg(one)]
            ops += [image.decode_bmp(one, channels=c) for c in (0, 1, 3, 4)]
            crop = image.decode_and_crop_jpeg(one, window)
            session = hf.Session()

        def case(rng: random.Random) -> str:
            content = (damaged if rng.random() < 0.5 else damaged_bytes)(rng, rng.choice(files))
            if rng.random() < 0.1:
                sizes = [rng.choice((0, 1, 3, *BIG[:8])) for _ in range(4)]
                session.run(crop, {one: content, window: np.clip(
                    np.array(sizes, np.int64), -(1 << 31), (1 << 31) - 1)})
            else:
                session.run(rng.choice(ops), {one: content})
            return "decoded"

        return case

    return prepare


FORMATS = {
    "png": _format(lambda: _encoded("PNG"), _damaged_png),
    "jpeg": _format(lambda: [*_encoded("JPEG"), *_encoded("JPEG", progressive=True)]),
    "gif": _format(_gifs),
    "bmp": _format(lambda: _encoded("BMP")),
}
