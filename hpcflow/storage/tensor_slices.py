"""Checkpoints in the first form of 1.x (`SaverDef.V1`): one sorted table, values included.

The entry of the empty key lists the variables with their slices; every slice has an entry of its
own, whose TensorProto holds the values. Sharded checkpoints are several such files, which a
pattern (`PREFIX-?????-of-00002`) names. Source: `saved_tensor_slice.proto` of the reference
runtime.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass

import numpy as np

from hpcflow.base.formats import array_protos
from hpcflow.dtypes import DType
from hpcflow.storage.checkpoint_file import CheckpointFile, Damage
from hpcflow.storage.saved_slices import (
    SavedSlice,
    assemble,
    known_dtype,
    parse_entry,
    saved_slice,
)
from hpcflow.storage.slices import Region
from hpcflow.storage.sorted_table import ends_as_table, read_table


@dataclass(frozen=True)
class _Variable:
    dtype: DType
    shape: tuple[int, ...]
    slices: tuple[SavedSlice, ...]


class SlicesReader(CheckpointFile):
    """A checkpoint of the first form, in memory; verified block by block when it is opened.

    Raises NotFoundError if there is no file, DataLossError if one is damaged.
    """

    def __init__(self, pattern: str) -> None:
        self.path = pattern
        self._entries: dict[bytes, bytes] = {}
        self._variables: dict[str, _Variable] = {}
        for path in matching_tables(pattern):
            with self._damage_reported(), open(path, "rb") as file:
                entries = read_table(file.read())
                self._add(parse_entry("SavedTensorSlices", entries.pop(b"")).meta.tensor)
                self._entries.update(entries)

    def close(self) -> None:
        """Forget the values."""
        self._entries.clear()

    def _add(self, tensors: list) -> None:
        for tensor in tensors:
            shape = tuple([int(dim.size) for dim in tensor.shape.dim])
            slices = [saved_slice(tensor.name, shape, item) for item in tensor.slice]
            earlier = self._variables.get(tensor.name)
            if earlier is not None:  # in another shard
                slices = [*earlier.slices, *slices]
            dtype = known_dtype(tensor.type, tensor.name, self.path)
            self._variables[tensor.name] = _Variable(dtype, shape, tuple(slices))

    def _read(self, variable: _Variable, region: Region) -> np.ndarray:
        def read_slice(part: SavedSlice, wanted: Region) -> np.ndarray:
            proto = parse_entry("SavedTensorSlices", self._entries[part.key]).data.data
            values = array_protos.typed_values(proto, variable.dtype)
            if values.size != part.region.size:
                raise Damage("a slice has another number of values than its shape")
            return values.reshape(part.region.extent)[wanted.selector_within(part.region)]

        return assemble(variable.dtype, variable.slices, region, read_slice)


def matching_tables(pattern: str) -> list[str]:
    """The files of the first form that a path or pattern names, sorted."""
    names = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern))
    return [path for path in names if ends_as_table(path)]
