"""The index of a checkpoint: every variable with its type, shape, pieces and their checksums.

It is a JSON text in the file. What is read is checked: an index that was damaged or made up never
describes less, or more, than every element once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.storage import encoding
from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.layout import Entry, link_name
from hpcflow.storage.records import PieceRecord
from hpcflow.storage.slices import Region, format_slice_spec

_MOST_DIMENSIONS = 64  # of an array
_LARGEST = 1 << 62


@dataclass(frozen=True)
class IndexedVariable:
    """A variable of a checkpoint; of strings with one checksum for all."""

    dtype: DType
    shape: tuple[int, ...]
    link: str
    pieces: tuple[PieceRecord, ...]
    string_checksum: int | None


def encode_index(described: Iterable[tuple[Entry, Sequence[PieceRecord], int | None]]) -> bytes:
    """The index of variables, each with its pieces, or the checksum of its strings."""
    return json.dumps({"variables": [_describe(*item) for item in described]}).encode()


def _describe(entry: Entry, pieces: Sequence[PieceRecord], strings: int | None) -> dict[str, Any]:
    item: dict[str, Any] = {"name": entry.name, "dtype": entry.dtype.name, "shape": entry.shape,
                            "link": entry.link}
    if entry.is_string:
        return {**item, "checksum": strings}
    return {**item, "pieces": [
        {"start": piece.region.start, "extent": piece.region.extent, "rows": piece.rows,
         "checksums": piece.checksums} for piece in pieces]}


def piece_table(described: Iterable[tuple[Entry, Sequence[PieceRecord], int | None]]
                ) -> np.ndarray:
    """The blocks of all pieces, for people: variable, slice as in `shape_and_slice`, CRC-32."""
    rows: list[tuple[bytes, bytes, int]] = []
    for entry, pieces, strings in described:
        name = entry.name.encode()
        if strings is not None:
            rows.append((name, b"", strings))
        rows += [(name, format_slice_spec(*block).strip().encode(), value)
                 for piece in pieces if strings is None for block, value in piece.blocks()]
    names = max([1, *[len(name) for name, _, _ in rows]])
    slices = max([1, *[len(spec) for _, spec, _ in rows]])
    return np.array(rows, [("variable", f"S{names}"), ("slice", f"S{slices}"),
                           ("crc32", "<u4")])


def parse_index(index: bytes) -> dict[str, IndexedVariable]:
    """The variables of an index by name. Raises Damage where it does not describe whole ones."""
    variables: dict[str, IndexedVariable] = {}
    for item in _field(json.loads(index), "variables", list):
        name = _field(item, "name", str)
        if name in variables:
            raise Damage(f"its index has '{name}' twice")
        variables[name] = _parse_variable(name, item)
    return variables


def _field(item: Mapping[str, Any], key: str, kind: type) -> Any:
    value = item.get(key) if isinstance(item, dict) else None
    if type(value) is not kind:
        raise Damage(f"its index has no {key}")
    return value


def _numbers(item: Mapping[str, Any], key: str, limit: int = _LARGEST) -> tuple[int, ...]:
    numbers = _field(item, key, list)
    if not all(type(n) is int and 0 <= n < limit for n in numbers):
        raise Damage(f"its index has a {key} that is none")
    return tuple(numbers)


def _parse_variable(name: str, item: Mapping[str, Any]) -> IndexedVariable:
    dtype = dtypes.as_dtype(_field(item, "dtype", str))
    shape = _numbers(item, "shape")
    link = _field(item, "link", str)
    if not encoding.is_storable(dtype) or dtype.base_dtype is not dtype:
        raise Damage(f"its index says that '{name}' is of type {dtype.name}")
    if link != link_name(name) or len(shape) > _MOST_DIMENSIONS or prod(shape) >= _LARGEST:
        raise Damage(f"its index says of '{name}' what cannot be")
    if dtype is dtypes.string:
        return IndexedVariable(dtype, shape, link, (), _field(item, "checksum", int))
    pieces = [_parse_piece(name, shape, piece) for piece in _field(item, "pieces", list)]
    check_coverage(shape, pieces)
    return IndexedVariable(dtype, shape, link, tuple(pieces), None)


def _parse_piece(name: str, shape: tuple[int, ...], item: Mapping[str, Any]) -> PieceRecord:
    region = Region(shape, _numbers(item, "start"), _numbers(item, "extent"))
    checksums = _numbers(item, "checksums", 1 << 32)
    rows = _field(item, "rows", int)
    inside = len(region.start) == len(region.extent) == len(shape) and all(
        start + extent <= dim for start, extent, dim in zip(region.start, region.extent, shape))
    blocks = -(-region.extent[0] // max(rows, 1)) if inside and shape else 1
    if not inside or rows < 1 or len(checksums) != blocks:
        raise Damage(f"its index has a piece of '{name}' that is none")
    return PieceRecord(name, region, rows, checksums)


def check_coverage(shape: Sequence[int], pieces: Sequence[PieceRecord]) -> None:
    """Raise Damage unless pieces make up a variable of this shape, every element once."""
    total, written = prod(shape), sum([piece.region.size for piece in pieces])
    # Disjoint pieces with as many elements as the variable cover it exactly once.
    if not pieces or written != total or _any_overlap(pieces):
        raise Damage(f"expected every element once, got {len(pieces)} pieces with {written} of "
                     f"{total} elements")


def _any_overlap(pieces: Sequence[PieceRecord]) -> bool:
    ordered = sorted([piece.region for piece in pieces if piece.region.size], key=lambda r: r.start)
    for number, region in enumerate(ordered):
        for later in ordered[number + 1 :]:
            if region.start and later.start[0] >= region.start[0] + region.extent[0]:
                break  # so are all that follow
            if region.overlaps(later):
                return True
    return False
