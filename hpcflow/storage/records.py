"""Records of what an owner wrote: per piece its region and the checksums of its blocks.

A piece is checksummed in blocks of whole rows of about 8 MiB, so that a reader of a part
verifies what it reads without reading much more.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hpcflow.errors import InternalError
from hpcflow.host.tuning import files as tuning
from hpcflow.storage.slices import Region

try:  # the same function by the processor's own instructions, several times faster
    from isal.isal_zlib import crc32
except ImportError:  # there is none for this machine
    from zlib import crc32

_HEADER = struct.Struct("<Q")


@dataclass(frozen=True)
class PieceRecord:
    """A piece of a variable: its region, the rows per block and the CRC-32 of each block.

    Pieces of strings carry the encoded `strings` (offsets, then bytes) instead of being in
    the file already.
    """

    name: str
    region: Region
    rows: int
    checksums: tuple[int, ...]
    strings: bytes | None = None

    def blocks(self) -> list[tuple[Region, int]]:
        """The blocks with their checksums."""
        return list(zip(self.region.row_blocks(self.rows), self.checksums))


def rows_per_block(region: Region, itemsize: int) -> int:
    """Return the number of rows (indices of the first dimension) of a region that make up a
    block."""
    return _rows(region, itemsize, tuning.RECORD_BLOCK_BYTES)


def rows_per_part(region: Region, itemsize: int) -> int:
    """Return the number of rows that are written at once: a part of a block."""
    return _rows(region, itemsize, tuning.WRITE_PART_BYTES)


def _rows(region: Region, itemsize: int, size: int) -> int:
    return max(size // max(prod(region.extent[1:]) * itemsize, 1), 1)


def checksum(data: Any, value: int = 0) -> int:
    """The CRC-32 of a contiguous buffer, continuing from `value`."""
    return crc32(data, value)


def encode_records(records: Sequence[PieceRecord]) -> bytes:
    """Encode for another process: a JSON list, then the string pieces one after the other."""
    blobs = [record.strings for record in records if record.strings is not None]
    header = json.dumps([_to_item(record) for record in records]).encode()
    return b"".join([_HEADER.pack(len(header)), header, *blobs])


def decode_records(data: bytes) -> list[PieceRecord]:
    """Decode what `encode_records` encoded. Raises InternalError for anything else."""
    try:
        (length,) = _HEADER.unpack_from(data)
        at = _HEADER.size + length
        records = []
        for item in json.loads(data[_HEADER.size : at]):
            size = item["strings"]
            blob = None if size is None else data[at : at + size]
            at += size or 0
            records.append(_from_item(item, blob))
        return records
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise InternalError(None, None, f"this is no checkpoint record: {error}") from error


def _to_item(record: PieceRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "region": record.region,
        "rows": record.rows,
        "checksums": record.checksums,
        "strings": None if record.strings is None else len(record.strings),
    }


def _from_item(item: dict[str, Any], strings: bytes | None) -> PieceRecord:
    region = Region(*[tuple(part) for part in item["region"]])
    return PieceRecord(item["name"], region, item["rows"], tuple(item["checksums"]), strings)
