"""Sorted string tables: the files of keys and values in which 1.x checkpoints keep their index.

The layout is that of LevelDB's tables (its `table_format.md`): blocks of entries whose keys share
prefixes, an index of the blocks, and a footer that says where the index is.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from hpcflow.storage import snappy
from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.raw_files import opened
from hpcflow.storage.varints import read_varint

MAGIC = 0xDB4775248B80FB57
_PLAIN, _SNAPPY = 0, 1  # compressions of a block
_FOOTER = struct.Struct("<40xQ")
FOOTER_BYTES = _FOOTER.size
_UINT32 = struct.Struct("<I")
_TRAILER = 5  # a byte for the compression, four for the checksum


def ends_as_table(path: str) -> bool:
    """True if there is a file at `path` that ends as a sorted table does."""
    try:
        with opened(path) as descriptor:
            os.lseek(descriptor, -_FOOTER.size, os.SEEK_END)
            return _is_footer(os.read(descriptor, _FOOTER.size))
    except OSError:
        return False


def _is_footer(data: bytes) -> bool:
    return len(data) == _FOOTER.size and _FOOTER.unpack(data)[0] == MAGIC


def read_table(data: bytes) -> dict[bytes, bytes]:
    """All entries of a table.

    Raises ValueError if it is damaged.
    """
    footer = data[-_FOOTER.size:]
    if not _is_footer(footer):
        raise Damage("it does not end as a table")
    at = 0
    for _ in range(2):  # the handle of the metaindex
        _, at = read_varint(footer, at)
    index = _block(data, *_handle(footer, at))
    entries: dict[bytes, bytes] = {}
    for _, handle in _entries(index):
        entries.update(_entries(_block(data, *_handle(handle, 0))))
    return entries


def _handle(data: bytes, at: int) -> tuple[int, int]:
    offset, at = read_varint(data, at)
    size, _ = read_varint(data, at)
    return offset, size


def _block(data: bytes, offset: int, size: int) -> bytes:
    if offset + size + _TRAILER > len(data):
        raise Damage("a block lies beyond the end")
    end = offset + size
    (expected,) = _UINT32.unpack_from(data, end + 1)
    if masked_crc32c(data[offset:end + 1]) != expected:
        raise Damage("the checksum of a block is wrong")
    if data[end] == _PLAIN:
        return data[offset:end]
    if data[end] == _SNAPPY:
        return snappy.decompress(data[offset:end])
    raise Damage(f"a block has the unknown compression {data[end]}")


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < _UINT32.size:
        raise Damage("a block is too short")
    (restarts,) = _UINT32.unpack_from(block, len(block) - _UINT32.size)
    end = len(block) - _UINT32.size * (restarts + 1)
    key, at = b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        rest, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key) or at + rest + length > end:
            raise Damage("an entry lies beyond its block")
        key = key[:shared] + block[at:at + rest]
        at += rest
        yield key, block[at:at + length]
        at += length
