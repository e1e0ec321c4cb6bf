"""The common parts of readers of checkpoints, whichever format the file has."""

from __future__ import annotations

import difflib
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.errors import (
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    describe_value,
)
from hpcflow.storage.slices import Region, as_region
from hpcflow.storage.system_errors import op_error_of

#: Name, slice, dtype and shape of what is read; see `CheckpointFile.read`.
Wanted = tuple[str, Any, Any, Any]


class Damage(ValueError):
    """The error of a file that is not what its index says."""


class StoredVariable(Protocol):
    """A variable in a checkpoint, as every format describes it."""

    @property
    def dtype(self) -> DType:
        """The element type."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole variable."""


class CheckpointFile(ABC):
    """An open checkpoint; a context manager.

    Every element that `read` returns has been verified by checksums.
    """

    path: str
    _variables: Mapping[str, Any]

    @abstractmethod
    def close(self) -> None:
        """Close the files."""

    def _read(self, variable: Any, region: Region) -> np.ndarray:
        """A region of a variable, as a new array. Raises NotImplementedError: formats say how."""
        raise NotImplementedError("a format says how a variable is read")

    def _read_all(self, wanted: Sequence[tuple[str, Any, Region]]) -> list[np.ndarray]:
        """Regions of variables, each with its name, as new arrays."""
        values = []
        for name, variable, region in wanted:
            with self._damage_of(name):
                values.append(self._read(variable, region))
        return values

    def __enter__(self) -> CheckpointFile:
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
        """True if there is a variable of this name."""
        return name in self._variables

    def shape(self, name: str) -> tuple[int, ...]:
        """The full shape of a variable. Raises NotFoundError."""
        shape: tuple[int, ...] = self._find(name).shape
        return shape

    def dtype(self, name: str) -> DType:
        """The element type of a variable. Raises NotFoundError."""
        dtype: DType = self._find(name).dtype
        return dtype

    def read(
        self, name: str, slice_spec: str | None = None, dtype: Any = None, shape: Any = None
    ) -> np.ndarray:
        """Read a variable, or the slice that a `shape_and_slice` string or Region selects.

        The result is a new array (of rank 0 for a scalar; of bytes objects for strings).
        `dtype` and `shape`, where given, are what the result is expected to be.

        Raises NotFoundError for an unknown name (with similar ones), InvalidArgumentError for
        an unexpected dtype or shape, DataLossError if the data are damaged.
        """
        return self.read_many([(name, slice_spec, dtype, shape)])[0]

    def read_many(self, wanted: Iterable[Wanted]) -> list[np.ndarray]:
        """Read several variables or slices, together if the format can: as `read`, whose
        arguments each of them has, and raising the same."""
        return self._read_all([self._asked(*item) for item in wanted])

    def _asked(self, name: str, slice_spec: Any, dtype: Any,
               shape: Any) -> tuple[str, Any, Region]:
        """A variable and the region of it that is wanted, both as expected."""
        variable = self._find(name)
        region = as_region(slice_spec, variable.shape, name)
        self._check_expected(name, variable, region, dtype, shape)
        return name, variable, region

    def _find(self, name: str) -> Any:
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
        self, name: str, variable: StoredVariable, region: Region, dtype: DType | None, shape: Any
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
                + ("" if wanted is variable.dtype else
                   f": the expected dtype {wanted.name} does not equal original dtype "
                   f"{variable.dtype.name}")
                + ("" if extent == region.extent else
                   ". Assign requires shapes of both tensors to match."),
            )

    def _damage_of(self, name: str) -> AbstractContextManager[None]:
        """Do as `_damage_reported`, naming a variable."""
        return self._damage_reported(f", variable '{name}'")

    @contextmanager
    def _damage_reported(self, where: str = "") -> Iterator[None]:
        """Turn what is raised on missing and on damaged files into OpErrors."""
        what = f"checkpoint '{self.path}'{where}"
        try:
            yield
        except MemoryError as error:
            raise ResourceExhaustedError(None, None, f"{what} does not fit into memory") from error
        except (ArithmeticError, EOFError, OSError, LookupError, ValueError, TypeError,
                RuntimeError, struct.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise op_error_of(error, what) from error
            raise DataLossError(None, None, f"{what} is damaged: {error}") from error
