"""Writing sorted tables; `sorted_table` describes and reads them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hpcflow.host.tuning import files as tuning
from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.sorted_table import FOOTER_BYTES, MAGIC
from hpcflow.storage.varints import write_varint

_UINT32 = struct.Struct("<I")


def encode_table(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A table of entries whose keys rise; uncompressed."""
    table, index = bytearray(), []
    block: list[tuple[bytes, bytes]] = []
    size, most = 0, tuning.TABLE_BLOCK_BYTES
    for key, value in entries:
        block.append((key, value))
        size += len(key) + len(value)
        if size >= most:
            index.append((key, _add_block(table, block)))
            block, size = [], 0
    if block:
        index.append((block[-1][0], _add_block(table, block)))
    handles = _add_block(table, []) + _add_block(table, index)
    return bytes(table) + handles.ljust(FOOTER_BYTES - 8, b"\0") + MAGIC.to_bytes(8, "little")


def _add_block(table: bytearray, entries: list[tuple[bytes, bytes]]) -> bytes:
    """Append a block to a table; returns the handle that says where it is."""
    block, restarts, distance = bytearray(), [0], tuning.TABLE_RESTARTS
    for number, (key, value) in enumerate(entries):
        if number and number % distance == 0:
            restarts.append(len(block))
        block += write_varint(0) + write_varint(len(key)) + write_varint(len(value)) + key + value
    for number in (*restarts, len(restarts)):
        block += _UINT32.pack(number)
    handle = write_varint(len(table)) + write_varint(len(block))
    block += b"\0"  # not compressed
    table += block + _UINT32.pack(masked_crc32c(block))
    return handle
