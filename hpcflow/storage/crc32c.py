"""CRC-32C (Castagnoli): the checksum of TFRecord files, event files and tensor bundles."""

from __future__ import annotations

try:
    from google_crc32c import value as _crc32c
except ImportError:  # TensorBoard has it in Python alone, which takes far longer
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c as _crc32c

_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def masked_crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of `data` as these files store it: rotated, plus a constant."""
    crc = _crc32c(data if type(data) is bytes else bytes(data))
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES
