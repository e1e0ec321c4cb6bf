"""PNG files with 16 bits a sample, which Pillow reads and writes for single channels only.

The format is that of the PNG specification (ISO/IEC 15948): chunks, of which IDAT hold one zlib
stream of rows, each behind the number of its filter.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: Channels by colour type, without the palette: grey, RGB, grey and alpha, RGBA.
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
# Start and step of the rows and columns of the seven passes of an interlaced image.
_ADAM7 = ((0, 8, 0, 8), (0, 8, 4, 8), (4, 8, 0, 4), (0, 4, 2, 4), (2, 4, 0, 2), (0, 2, 1, 2),
          (1, 2, 0, 1))  # fmt: skip
_LIMIT = 1 << 31  # bytes of an image
_COMPRESSION = 1100  # deflate does at best 1032 to 1
_PART = 1 << 20  # that are looked at once


class Header(NamedTuple):
    """The IHDR chunk."""

    width: int
    height: int
    depth: int
    color: int
    compression: int
    filtering: int
    interlaced: int


def read_header(data: bytes) -> Header:
    """The header of a PNG file; ``ValueError`` if there is none."""
    if len(data) < 33 or data[:8] != SIGNATURE or data[12:16] != b"IHDR":
        raise ValueError("no PNG header")
    return Header(*struct.unpack(">IIBBBBB", data[16:29]))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Type and contents of the undamaged chunks up to IEND; ``ValueError`` if one is missing."""
    at = len(SIGNATURE)
    while True:
        if at + 12 > len(data):
            raise ValueError("the file ends early")
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body, end = data[at + 8:at + 8 + size], at + 12 + size
        if end > len(data):
            raise ValueError(f"chunk {kind!r} ends after the file")
        whole = zlib.crc32(kind + body) == int.from_bytes(data[end - 4:end], "big")
        if not whole and kind[:1].isupper():  # other chunks can be left out
            raise ValueError(f"chunk {kind!r} is damaged")
        if kind == b"IEND":
            return
        if whole:
            yield kind, body
        at = end


def check(data: bytes) -> None:
    """Raise ``ValueError`` unless all chunks that an image needs are there and undamaged, and may
    be enough for its size."""
    kinds = {kind for kind, _ in _chunks(data)}
    if not {b"IHDR", b"IDAT"} <= kinds:
        raise ValueError("the file has no image")
    _check_size(read_header(data), data)


def _check_size(header: Header, data: bytes) -> None:
    """Raise ``ValueError`` if the file cannot have as many pixels as it says."""
    if _row_bytes(header) * header.height > _COMPRESSION * len(data):
        raise ValueError(f"the file is too short for {header.height} x {header.width} pixels")


def check_rows(data: bytes) -> None:
    """Raise ``ValueError`` unless the rows of a file of up to 8 bits a sample are all there.

    Pillow takes those that are missing for zeros.
    """
    header, inflate = read_header(data), zlib.decompressobj()
    missing = (_row_bytes(header) * header.height if not header.interlaced else
               sum([_row_bytes(header._replace(width=w)) * h for h, w in _pass_sizes(header)]))
    for kind, body in _chunks(data):
        while kind == b"IDAT" and body and missing > 0:
            try:
                missing -= len(inflate.decompress(body, _PART))
            except zlib.error as e:
                raise ValueError(str(e)) from None
            body = inflate.unconsumed_tail
    if missing > 0:
        raise ValueError("the file has too few rows")


def _row_bytes(header: Header) -> int:
    """The bytes of a row, with that of its filter."""
    return 1 + (header.width * header.depth * CHANNELS.get(header.color, 1) + 7) // 8


def _pass_sizes(header: Header) -> list[tuple[int, int]]:
    """Rows and columns of the passes of an interlaced image that have any."""
    sizes = [(len(range(top, header.height, down)), len(range(left, header.width, right)))
             for top, down, left, right in _ADAM7]
    return [size for size in sizes if min(size)]


def decode16(data: bytes) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """The samples [height, width, channels] of a file with 16 bits each, and the transparent
    colour if one is named; ``ValueError`` if the file is damaged."""
    header = read_header(data)
    channels = CHANNELS.get(header.color)
    if header.depth != 16 or channels is None or header.interlaced > 1:
        raise ValueError(f"not a file of 16-bit samples: {header}")
    size = header.height * header.width * channels * 2
    if not 0 < size < _LIMIT:
        raise ValueError(f"the image has {header.height} x {header.width} pixels")
    _check_size(header, data)
    stream, transparent = b"", None
    parts = []
    for kind, body in _chunks(data):
        if kind == b"IDAT":
            parts.append(body)
        elif kind == b"tRNS" and len(body) == 2 * channels:
            transparent = struct.unpack(f">{channels}H", body)
    try:
        # Rows have a filter byte each; the passes of an interlaced image have up to 15/8 as many.
        stream = zlib.decompressobj().decompress(b"".join(parts), size + 2 * header.height + 8)
    except zlib.error as e:
        raise ValueError(str(e)) from None
    image = np.empty((header.height, header.width, channels), np.uint16)
    for part in _passes(image, bool(header.interlaced)):
        rows = part.shape[0] * (1 + part.shape[1] * channels * 2)
        if len(stream) < rows:
            raise ValueError("the file has too few rows")
        values = _unfiltered(stream[:rows], part.shape[0], part.shape[1], channels * 2)
        part[...] = values.view(">u2").reshape(part.shape)
        stream = stream[rows:]
    return image, transparent


def _passes(image: np.ndarray, interlaced: bool) -> Iterator[np.ndarray]:
    """Views of the parts of an image in the order of the file."""
    if not interlaced:
        yield image
        return
    for top, down, left, right in _ADAM7:
        part = image[top::down, left::right]
        if part.size:
            yield part


def _unfiltered(stream: bytes, height: int, width: int, step: int) -> np.ndarray:
    """The bytes [height, width, step] of filtered rows.

    A byte is predicted from those to the left, above, and above left. All pixels of a diagonal
    have these behind them, so whole diagonals are reconstructed at once.
    """
    rows = np.frombuffer(stream, np.uint8).reshape(height, 1 + width * step)
    filters = rows[:, 0]
    if filters.max(initial=0) > 4:
        raise ValueError(f"unknown filter {filters.max()}")
    # A column of zeros to the left and a row above; in the flat array a diagonal has one stride.
    padded = np.zeros((height + 1, width + 1, step), np.uint8)
    padded[1:, 1:] = rows[:, 1:].reshape(height, width, step)
    if not filters.any():
        return np.ascontiguousarray(padded[1:, 1:])
    flat = padded.reshape(-1, step)
    kinds = [np.flatnonzero(filters == k) for k in range(5)]
    for diagonal in range(height + width - 1):
        first = max(0, diagonal - width + 1)
        last = min(height - 1, diagonal)
        pixels = slice((first + 1) * (width + 1) + diagonal - first + 1,
                       (last + 1) * (width + 1) + diagonal - last + 2, width)
        _add_predictions(flat, pixels, width, first, last, kinds)
    return np.ascontiguousarray(padded[1:, 1:])


def _add_predictions(flat: np.ndarray, pixels: slice, width: int, first: int, last: int,
                     kinds: list[np.ndarray]) -> None:
    """Complete the pixels of a diagonal, which belong to the rows `first` to `last`."""
    start = pixels.start
    for kind in range(1, 5):
        rows = kinds[kind]
        rows = rows[np.searchsorted(rows, first):np.searchsorted(rows, last, "right")] - first
        if not rows.size:
            continue
        at = start + rows * width
        flat[at] += predicted(kind, flat[at - 1], flat[at - width - 1], flat[at - width - 2])


def predicted(kind: int, left: np.ndarray, up: np.ndarray, corner: np.ndarray) -> np.ndarray:
    """The prediction of a filter (0 to 4) from three neighbours."""
    if kind == 0:
        return np.zeros_like(left)
    if kind < 3:
        return left if kind == 1 else up
    a, b = left.astype(np.int16), up.astype(np.int16)
    if kind == 3:
        return ((a + b) >> 1).astype(np.uint8)
    c = corner.astype(np.int16)
    to_a, to_b, to_c = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    nearest = np.where((to_a <= to_b) & (to_a <= to_c), a, np.where(to_b <= to_c, b, c))
    return nearest.astype(np.uint8)


def encode16(image: np.ndarray, compression: int) -> bytes:
    """A PNG file of uint16 samples [height, width, channels], without losses.

    Each row has the filter after which its bytes are smallest, as signed numbers.
    """
    height, width, channels = image.shape
    color = next(c for c, n in CHANNELS.items() if n == channels)
    values = np.ascontiguousarray(image.astype(">u2")).view(np.uint8)
    padded = np.zeros((height + 1, width + 1, channels * 2), np.uint8)
    padded[1:, 1:] = values.reshape(height, width, channels * 2)
    best = np.full(height, np.iinfo(np.int64).max)
    rows = np.empty((height, 1 + width * channels * 2), np.uint8)
    for kind in range(5):
        residue = padded[1:, 1:] - predicted(kind, padded[1:, :-1], padded[:-1, 1:],
                                             padded[:-1, :-1])
        cost = abs(residue.view(np.int8).astype(np.int16)).sum((1, 2), dtype=np.int64)
        better = cost < best
        best[better] = cost[better]
        rows[better, 0] = kind
        rows[better, 1:] = residue.reshape(height, -1)[better]
    header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    stream = zlib.compress(rows.tobytes(), compression)
    return SIGNATURE + b"".join(map(_chunk, (b"IHDR", b"IDAT", b"IEND"), (header, stream, b"")))


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
