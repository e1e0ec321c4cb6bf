"""Images as PNG and audio as WAV, in the plainest form of each format."""

from __future__ import annotations

import struct
import zlib

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> gray, gray and alpha, RGB, RGBA
_PCM = 1


def png(pixels: np.ndarray) -> bytes:
    """The PNG file of uint8 pixels ``[height, width, channels]`` (W3C PNG, 8 bits, no filter)."""
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0)
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = pixels.reshape(height, width * channels)  # before them the filter: none
    data = zlib.compress(rows.tobytes())
    return b"".join([_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"IDAT", data),
                     _chunk(b"IEND", b"")])


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def wav(samples: np.ndarray, rate: int) -> bytes:
    """The WAV file (RIFF, 16-bit PCM) of samples ``[frames, channels]`` in ``[-1, 1]``."""
    channels = samples.shape[1]
    scaled = samples.astype(np.float64) * 32768
    scaled = np.clip(np.trunc(scaled + np.copysign(0.5, scaled)), -32768, 32767)
    data = scaled.astype("<i2").tobytes()
    form = struct.pack("<HHIIHH", _PCM, channels, rate, rate * channels * 2, channels * 2, 16)
    chunks = b"WAVE" + _riff(b"fmt ", form) + _riff(b"data", data)
    return _riff(b"RIFF", chunks)


def _riff(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data
