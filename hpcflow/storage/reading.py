"""Reading checkpoints: any slice of any variable, verified."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import UnimplementedError
from hpcflow.storage import encoding, hdf5
from hpcflow.storage.checkpoint_file import CheckpointFile, Damage
from hpcflow.storage.records import PieceRecord, checksum
from hpcflow.storage.saving import FORMAT_VERSION
from hpcflow.storage.slices import Region


@dataclass(frozen=True)
class _Variable:
    dtype: DType
    shape: tuple[int, ...]
    link: str
    pieces: tuple[PieceRecord, ...]
    string_checksum: int | None


class Reader(CheckpointFile):
    """An open checkpoint of hpcflow.

    Every element that `read` returns has been verified: data carry a CRC-32 per block of rows
    of a written piece (about 8 MiB), and all blocks that a slice touches are read and
    checked. String variables are verified as wholes, the index when the file is opened.

    Raises NotFoundError if there is no file, DataLossError if it is truncated or damaged or
    no complete checkpoint, UnimplementedError if a later version of hpcflow wrote it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Any = None
        try:
            with self._damage_reported():
                self._file = hdf5.open_file(path, "r")
                version, index = hdf5.read_index(self._file)
                if version <= FORMAT_VERSION:
                    self._variables = _parse_index(index)
        except BaseException:
            self.close()
            raise
        if version > FORMAT_VERSION:
            self.close()
            raise UnimplementedError(
                None,
                None,
                f"checkpoint '{path}' has format version {version}; this hpcflow reads up to "
                f"{FORMAT_VERSION}",
            )

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, variable: _Variable, region: Region) -> np.ndarray:
        if variable.dtype is dtypes.string:
            return self._read_strings(variable)[region.selector()].copy()
        return self._read_numbers(variable, region)

    def _read_numbers(self, variable: _Variable, region: Region) -> np.ndarray:
        dataset = self._dataset(variable)
        data = _read_stored(dataset, variable.dtype, region)
        for piece in variable.pieces:
            for block, expected in piece.blocks():
                if not block.overlaps(region):
                    continue
                if region.contains(block):
                    part = data[block.selector_within(region)]
                else:
                    part = _read_stored(dataset, variable.dtype, block)
                if checksum(encoding.to_bytes(part)) != expected:
                    raise Damage("a checksum is wrong")
        return encoding.from_stored(data, variable.dtype, region.extent)

    def _dataset(self, variable: _Variable) -> Any:
        dataset = self._file[hdf5.VARIABLES][variable.link]
        shape = encoding.stored_shape(variable.dtype, variable.shape)
        if dataset.shape != shape or dataset.dtype != encoding.stored_dtype(variable.dtype):
            raise Damage("its dataset has another type or shape than the index says")
        return dataset

    def _read_strings(self, variable: _Variable) -> np.ndarray:
        group = self._file[hdf5.VARIABLES][variable.link]
        offsets, data = group["offsets"][()], group["bytes"][()]
        if checksum(data, checksum(offsets)) != variable.string_checksum:
            raise Damage("a checksum is wrong")
        return encoding.decode_strings(offsets, data, variable.shape)


def _read_stored(dataset: Any, dtype: DType, region: Region) -> np.ndarray:
    out = np.empty(encoding.stored_shape(dtype, region.extent), encoding.stored_dtype(dtype))
    hdf5.read_region(dataset, region, out)
    return out


def _parse_index(index: bytes) -> dict[str, _Variable]:
    return {item["name"]: _parse_variable(item) for item in json.loads(index)["variables"]}


def _parse_variable(item: dict[str, Any]) -> _Variable:
    shape = tuple(item["shape"])
    pieces: Sequence[dict[str, Any]] = item.get("pieces", ())
    return _Variable(
        dtypes.as_dtype(item["dtype"]),
        shape,
        item["link"],
        tuple([_parse_piece(item["name"], shape, piece) for piece in pieces]),
        item.get("checksum"),
    )


def _parse_piece(name: str, shape: tuple[int, ...], item: dict[str, Any]) -> PieceRecord:
    region = Region(shape, tuple(item["start"]), tuple(item["extent"]))
    return PieceRecord(name, region, item["rows"], tuple(item["checksums"]))
