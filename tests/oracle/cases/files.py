"""Cases of image files: formats, channels, depths, damage."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from arrays import strings
from case import Type
from PIL import Image
from table import Table, family

# Start and step of the rows and columns of the passes of an interlaced PNG image.
ADAM7 = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2),
         (1, 2, 0, 1))  # fmt: skip


def _file(image: np.ndarray, kind: str, mode: str | None = None, **options: Any) -> bytes:
    target = io.BytesIO()
    picture = Image.fromarray(image)
    (picture if mode is None else picture.convert(mode)).save(target, kind, **options)
    return target.getvalue()


def _data(contents: bytes) -> np.ndarray:
    return strings([contents]).reshape(())


def _smooth(table: Table, height: int, width: int, channels: int) -> np.ndarray:
    """An image such as a JPEG file can hold."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(y / (3 + i) + table.rng.random()) + np.cos(x / (5 + i)) for i in range(
        channels)]
    values = ((np.stack(waves, -1) + 2) * 63).astype("uint8")
    return values if channels > 1 else values[..., 0]


@family
def jpeg_files(table: Table) -> None:
    color, grey = _smooth(table, 37, 50, 3), _smooth(table, 37, 50, 1)
    files = [_file(color, "JPEG", quality=90), _file(grey, "JPEG"),
             _file(color, "JPEG", quality=60, progressive=True),
             _file(color, "JPEG", subsampling=0)]
    for data in files:
        for channels in (0, 1, 3):
            for ratio in (1, 2, 4, 8):
                # Without this the reference computes with less precision.
                table.add("DecodeJpeg", {"contents": _data(data)}, {
                    "channels": channels, "ratio": ratio, "dct_method": "INTEGER_ACCURATE"})
            table.add("DecodeImage", {"contents": _data(data)}, {"channels": channels},
                      check="shapes")
        table.bad("DecodeJpeg", {"contents": _data(data)}, {"channels": 4}, label="channels")
        table.bad("DecodeJpeg", {"contents": _data(data)}, {"ratio": 3}, label="ratio")
        for size in (0, 3, 30, len(data) // 2, len(data) - 40):
            table.bad("DecodeJpeg", {"contents": _data(data[:size])}, label=f"first {size} bytes")
    table.bad("DecodeJpeg", {"contents": strings([files[0]])}, label="rank")
    for attrs in ({}, {"format": "rgb"}, {"quality": 30}, {"progressive": True}, {
            "chroma_downsampling": False}, {"optimize_size": True}):
        # Files of the same kind, not the same files: their contents are not specified.
        table.add("EncodeJpeg", {"image": color}, attrs, check="shapes")
    table.add("EncodeJpeg", {"image": grey[..., None]}, {"format": "grayscale"}, check="shapes")
    for image, attrs, label in ((grey, {}, "rank"), (color[..., :2], {}, "channels"),
                                (color, {"format": "grayscale"}, "format"),
                                (color, {"quality": 101}, "quality")):
        table.bad("EncodeJpeg", {"image": image}, attrs, label=label)


def _png16(table: Table, color: int, interlaced: int) -> bytes:
    """A file of 16-bit samples, of rows with all kinds of filters (their bytes are random)."""
    step = {0: 2, 2: 6, 4: 4, 6: 8}[color]
    rows = b""
    passes = ADAM7 if interlaced else ((0, 1, 0, 1),)
    for top, down, left, right in passes:
        height, width = len(range(top, 9, down)), len(range(left, 11, right))
        for row in range(height if width else 0):
            rows += bytes([row % 5]) + table.integers(256, (width * step,), "uint8").tobytes()
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 11, 9, 16, color, 0, 0, interlaced)),
              (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks)


@family
def png_files(table: Table) -> None:
    byte = table.integers(256, (9, 11, 4), "uint8")
    files = [_file(byte, "PNG"), _file(byte[..., :3].copy(), "PNG"),
             _file(byte[..., 0].copy(), "PNG"), _file(byte[..., :2].copy(), "PNG"),
             _file(byte[..., :3].copy(), "PNG", "P"), _file(byte[..., 0].copy(), "PNG", "1"),
             _file(byte[..., :3].copy(), "PNG", transparency=tuple(map(int, byte[0, 0, :3]))),
             _file(byte[..., 0].copy(), "PNG", transparency=int(byte[0, 0, 0])),
             _file(table.integers(65536, (9, 11), "uint16"), "PNG")]
    files += [_png16(table, color, interlaced) for color in (0, 2, 4, 6) for interlaced in (0, 1)]
    for data in files:
        for channels in (0, 1, 3, 4):
            for dtype in ("uint8", "uint16"):
                table.add("DecodePng", {"contents": _data(data)}, {"channels": channels,
                                                                   "dtype": Type(dtype)})
            table.add("DecodeImage", {"contents": _data(data)}, {"channels": channels})
        for size in (0, 8, 20, len(data) - 30):
            table.bad("DecodePng", {"contents": _data(data[:size])}, label=f"first {size} bytes")
    table.bad("DecodePng", {"contents": _data(files[0])}, {"channels": 2}, label="channels")
    table.add("DecodePng", {"contents": _data(_file(byte[..., :3].copy(), "JPEG"))},
              check="shapes")
    table.add("DecodeJpeg", {"contents": _data(files[1])})
    for dtype in ("uint8", "uint16"):
        for channels in (1, 2, 3, 4):
            image = table.integers(np.iinfo(dtype).max + 1, (6, 5, channels), dtype)
            for level in (-1, 0, 9):
                table.add("EncodePng", {"image": image}, {"compression": level}, check="shapes")
        table.bad("EncodePng", {"image": image[0]}, label="rank")
        table.bad("EncodePng", {"image": np.zeros((2, 2, 5), dtype)}, label="channels")
        table.bad("EncodePng", {"image": image}, {"compression": 10}, label="compression")


@family
def gif_files(table: Table) -> None:
    frames = [Image.fromarray(_smooth(table, 12, 10, 3)).quantize(16) for _ in range(3)]
    for count in (1, 3):
        target = io.BytesIO()
        frames[0].save(target, "GIF", save_all=True, append_images=frames[1:count])
        data = target.getvalue()
        table.add("DecodeGif", {"contents": _data(data)})
        for channels in (0, 3):
            table.add("DecodeImage", {"contents": _data(data)}, {"channels": channels})
        table.add("DecodeImage", {"contents": _data(data)}, {"expand_animations": False})
        table.bad("DecodeImage", {"contents": _data(data)}, {"channels": 1}, label="channels")
        if count == 1:
            table.add("DecodePng", {"contents": _data(data)})
        else:
            table.bad("DecodePng", {"contents": _data(data)}, label="animation")
        for size in (0, 6, 20, len(data) // 2):
            table.bad("DecodeGif", {"contents": _data(data[:size])}, label=f"first {size} bytes")
    table.bad("DecodeImage", {"contents": _data(b"neither")}, label="format")
    table.bad("DecodeGif", {"contents": _data(b"neither")}, label="format")
    table.add("DecodeGif", {"contents": _data(_file(_smooth(table, 5, 6, 3), "PNG"))})
