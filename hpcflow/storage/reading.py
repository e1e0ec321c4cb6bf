"""Reading checkpoints: any slice of any variable, verified."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
    describe_value,
)
from hpcflow.storage import encoding, hdf5
from hpcflow.storage.records import PieceRecord, checksum
from hpcflow.storage.saving import FORMAT_VERSION
from hpcflow.storage.slices import Region, as_region
from hpcflow.storage.system_errors import op_error_of


class _Damage(ValueError):
    """Something in the file is not what the index says."""


@dataclass(frozen=True)
class _Variable:
    dtype: DType
    shape: tuple[int, ...]
    link: str
    pieces: tuple[PieceRecord, ...]
    string_checksum: int | None


class Reader:
    """An open checkpoint file; a context manager.

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

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def names(self) -> list[str]:
        """The names of all variables, sorted."""
        return sorted(self._variables)

    def has(self, name: str) -> bool:
        """Whether there is a variable of this name."""
        return name in self._variables

    def shape(self, name: str) -> tuple[int, ...]:
        """The full shape of a variable. Raises NotFoundError."""
        return self._find(name).shape

    def dtype(self, name: str) -> DType:
        """The element type of a variable. Raises NotFoundError."""
        return self._find(name).dtype

    def read(
        self, name: str, slice_spec: Any = None, dtype: Any = None, shape: Any = None
    ) -> np.ndarray:
        """Read a variable, or the slice that a `shape_and_slice` string or Region selects.

        The result is a new array (of rank 0 for a scalar; of bytes objects for strings).
        `dtype` and `shape`, where given, are what the result is expected to be.

        Raises NotFoundError for an unknown name (with similar ones), InvalidArgumentError for
        an unexpected dtype or shape, DataLossError if the data are damaged.
        """
        variable = self._find(name)
        region = as_region(slice_spec, variable.shape, name)
        self._check_expected(name, variable, region, dtype, shape)
        with self._damage_reported(f", variable '{name}'"):
            if variable.dtype is dtypes.string:
                return self._read_strings(variable)[region.selector()].copy()
            return self._read_numbers(variable, region)

    def _find(self, name: str) -> _Variable:
        found = self._variables.get(name)
        if found is None:
            similar = difflib.get_close_matches(name, self._variables, n=3)
            hint = f"; similar names: {', '.join(similar)}" if similar else ""
            raise NotFoundError(
                None,
                None,
                f"Key {name} not found in checkpoint '{self.path}', which holds "
                f"{len(self._variables)} variables{hint}",
            )
        return found

    def _check_expected(
        self, name: str, variable: _Variable, region: Region, dtype: Any, shape: Any
    ) -> None:
        wanted = variable.dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        extent = region.extent if shape is None else tuple([int(dim) for dim in shape])
        if wanted is not variable.dtype or extent != region.extent:
            raise InvalidArgumentError(
                None,
                None,
                f"restoring '{name}' from checkpoint '{self.path}': it is "
                f"{describe_value((variable.dtype, region.extent))}, expected "
                f"{describe_value((wanted, extent))}"
                + ("" if extent == region.extent else
                   ". Assign requires shapes of both tensors to match."),
            )

    @contextmanager
    def _damage_reported(self, where: str = "") -> Iterator[None]:
        """Turn what h5py raises on missing and on damaged files into OpErrors."""
        what = f"checkpoint '{self.path}'{where}"
        try:
            yield
        except (OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise op_error_of(error, what) from error
            raise DataLossError(None, None, f"{what} is damaged: {error}") from error

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
                    raise _Damage("a checksum is wrong")
        return encoding.from_stored(data, variable.dtype, region.extent)

    def _dataset(self, variable: _Variable) -> Any:
        dataset = self._file[hdf5.VARIABLES][variable.link]
        shape = encoding.stored_shape(variable.dtype, variable.shape)
        if dataset.shape != shape or dataset.dtype != encoding.stored_dtype(variable.dtype):
            raise _Damage("its dataset has another type or shape than the index says")
        return dataset

    def _read_strings(self, variable: _Variable) -> np.ndarray:
        group = self._file[hdf5.VARIABLES][variable.link]
        offsets, data = group["offsets"][()], group["bytes"][()]
        if checksum(data, checksum(offsets)) != variable.string_checksum:
            raise _Damage("a checksum is wrong")
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
