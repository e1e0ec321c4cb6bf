"""CRC-32C (Castagnoli): the checksum of TFRecord files, event files and tensor bundles."""

from __future__ import annotations

import google_crc32c

_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of `data` as these files store it: rotated, plus a constant."""
    crc = google_crc32c.value(data if type(data) is bytes else bytes(data))
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES
