"""Looking into checkpoints without a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import storage
from hpcflow.dtypes import DType, c_name
from hpcflow.errors import NotFoundError


class CheckpointReader:
    """The variables of a checkpoint as arrays.

    Raises ``NotFoundError`` if there is no checkpoint at `path`, ``DataLossError`` if it is
    damaged.
    """

    def __init__(self, path: str) -> None:
        try:
            self._reader = storage.open_checkpoint(path)
        except NotFoundError as error:
            raise NotFoundError(
                None, None, "Unsuccessful TensorSliceReader constructor: Failed to find any "
                f"matching files for {path}: {error.message}") from error

    def has_tensor(self, name: str) -> bool:
        """True if there is a variable of this name."""
        return self._reader.has(name)

    def get_tensor(self, name: str) -> Any:
        """Return the value of a variable: an array, or a NumPy scalar (bytes for a string).

        Raises ``NotFoundError`` with similar names if there is none, ``DataLossError`` if its data
        are damaged.
        """
        value: np.ndarray = self._reader.read(name)
        return value if value.ndim else value[()]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shape of every variable, by name."""
        return {name: list(self._reader.shape(name)) for name in self._reader.names()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the element type of every variable, by name."""
        return {name: self._reader.dtype(name) for name in self._reader.names()}

    def debug_string(self) -> bytes:
        """Return one line per variable: name, element type, shape, as ``w (DT_FLOAT) [2,3]``."""
        return "\n".join(map(self._described, self._reader.names())).encode()

    def _described(self, name: str) -> str:
        dims = ",".join(map(str, self._reader.shape(name)))
        return f"{name} (DT_{c_name(self._reader.dtype(name)).upper()}) [{dims}]"


def NewCheckpointReader(filepattern: str) -> CheckpointReader:
    """Return a reader of the checkpoint `filepattern`, a path as ``Saver.save`` returns it."""
    return CheckpointReader(filepattern)
