"""CRC-32C (Castagnoli), the checksum of TFRecord files, without a compiled extension.

A checksum is linear, so that of a block is the XOR of one table entry per byte, chosen by the
byte's value and its position. NumPy looks them up for many blocks at once.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.host.tuning import files as tuning

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

_POLYNOMIAL = 0x82F63B78
_ALL_ONES = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8


def crc32c(data: Any) -> int:
    """The CRC-32C of `data`, bytes or an array of them."""
    crc, view = _ALL_ONES, memoryview(data)
    for at in range(0, len(view), tuning.CRC_PART_BYTES):
        part = view[at:at + tuning.CRC_PART_BYTES]
        crc = _bytewise(crc, part) if len(part) < tuning.CRC_SHORT_BYTES else _blockwise(crc, part)
    return crc ^ _ALL_ONES


def masked_crc32c(data: TensorLike) -> int:
    """The CRC-32C of `data` as TFRecord files store it: rotated, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ALL_ONES


@cache
def _byte_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table.astype(np.uint32)


@cache
def _byte_list() -> list[int]:
    return _byte_table().tolist()


def _bytewise(crc: int, data: memoryview) -> int:
    """The register after `data`, where it held `crc` before."""
    table = _byte_list()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


@cache
def _tables() -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Return the tables of checksums: what each byte of a block adds, by position and value; where
    the values of each position start; and the same for the checksum of what came before the
    block."""
    table = _byte_table()
    rows = [table]
    for _ in range(tuning.CRC_BLOCK_BYTES - 1):
        rows.append(table[rows[-1] & 0xFF] ^ rows[-1] >> 8)
    rows.reverse()
    starts = np.arange(tuning.CRC_BLOCK_BYTES, dtype=np.intp) * 256
    return np.concatenate(rows), starts, [rows[i].tolist() for i in range(4)]


def _blockwise(crc: int, data: memoryview) -> int:
    table, starts, (first, second, third, fourth) = _tables()
    blocks = -(-len(data) // tuning.CRC_BLOCK_BYTES)
    # Leading zeros change nothing in a register of zero; what it held is added to the first bytes.
    padded = np.zeros((blocks, tuning.CRC_BLOCK_BYTES), np.uint8)
    flat, start = padded.reshape(-1), padded.size - len(data)
    flat[start:] = np.frombuffer(data, np.uint8)
    flat[start:start + 4] ^= np.frombuffer(crc.to_bytes(4, "little"), np.uint8)
    crc = 0
    for at in range(0, blocks, tuning.CRC_TOGETHER):
        entries = table.take(padded[at:at + tuning.CRC_TOGETHER] + starts, mode="clip")
        for block in np.bitwise_xor.reduce(entries, axis=1).tolist():
            crc = (first[crc & 0xFF] ^ second[crc >> 8 & 0xFF] ^ third[crc >> 16 & 0xFF]
                   ^ fourth[crc >> 24] ^ block)
    return crc
