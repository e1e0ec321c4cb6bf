"""Variables in place: the state behind VariableV2, updated without disturbing its readers."""

from __future__ import annotations

import itertools
import threading
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import FailedPreconditionError, InvalidArgumentError
from hpcflow.host import memory
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.runtime.executor.device import Device


_numbers = itertools.count(1)
_last_move = 0


def moved() -> None:
    """Note that the array of some variable has been replaced by another."""
    global _last_move
    _last_move = next(_numbers)  # no two threads get one number


def last_move() -> int:
    """Return a number that differs from those before whenever an array has been replaced since."""
    return _last_move


class VariableState:
    """One variable's value on one device.

    Readers hold the array itself and may go on doing so: an update happens in place only when
    nobody but the variable refers to the array (``exclusive``), otherwise the array is replaced.
    So a value never changes under a reader, and costs a copy only where a reader outlives a write.
    A scalar is held as an immutable NumPy scalar (a string as bytes), which is replaced always.

    Attributes:
        name: the name in its container.
        dtype: element type.
        dims: the declared dims, some perhaps unknown; None for an unknown rank.
        value: the array or scalar, or None before the first assignment.
        lock: held by updates.
    """

    __slots__ = ("name", "dtype", "dims", "value", "lock", "device", "__weakref__")

    def __init__(self, name: str, dtype: DType, device: Device | None = None,
                 dims: tuple[int | None, ...] | None = None) -> None:
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self.value: Any = None
        self.lock = threading.RLock()
        self.device = device

    @property
    def initialized(self) -> bool:
        """True once a value was assigned."""
        return self.value is not None

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The dims of the value, before the first assignment the declared ones."""
        if self.value is None:
            return self.dims
        return getattr(self.value, "shape", ())  # bytes, a string scalar, have none

    def read(self) -> Any:
        """The value, which the reader must not change; ``FailedPreconditionError`` without one."""
        if self.value is None:
            raise self.uninitialized()
        return self.value

    def uninitialized(self) -> FailedPreconditionError:
        """The error of using the variable before its first assignment."""
        return FailedPreconditionError(
            None, None, f"Attempting to use uninitialized value {self.name}")

    def exclusive(self) -> bool:
        """True if the variable's array is owned, writable and referenced by nobody else."""
        return _references(self) <= _OWN_REFERENCES and _owned(self.value)

    def writable(self) -> Any:
        """The array to update in place: the variable's own, or a fresh copy that replaces it.

        The caller must not hold a reference to ``value`` already. A scalar comes as it is: it is
        updated by assigning ``value``. Raises ``FailedPreconditionError`` without a value.
        """
        # As exclusive(), written out: this is called for every variable in every training step.
        if (getrefcount(self.value) <= _OWN_REFERENCES and type(self.value) is np.ndarray
                and memory.owns_memory(self.value) and self.value.flags.carray):
            return self.value
        if self.value is None:
            raise self.uninitialized()
        if not isinstance(self.value, _SCALARS) and not self.exclusive():
            self.value = _copied(self.value)
            moved()
        return self.value

    def assign(self, value: Any, validate_shape: bool = False, own: bool = False) -> None:
        """Replace the value; the array is copied unless nobody can change it, or it was made for
        the variable.

        With `validate_shape`, ``InvalidArgumentError`` unless the shape is the present one (the
        declared one before the first assignment). With `own` nobody else refers to the array's
        memory, nor will: so it becomes the variable's.
        """
        if not isinstance(value, (np.ndarray, bytes)) and not hasattr(value, "__array_priority__"):
            value = np.asarray(value, dtype=self.dtype.np)
        dims = getattr(value, "shape", ())
        if validate_shape and dims != self.shape:
            self._check_fits(dims)
        if not dims and (isinstance(value, (np.ndarray, np.generic, bytes))):
            self.value = value[()] if isinstance(value, np.ndarray) else value
        elif (own and _owned(value)) or memory.take(value):
            self.value = value
            moved()
        elif getattr(self.value, "shape", ()) == dims and self.value is not value and (
                self.exclusive()):
            self.value[...] = value
        elif (type(value) is np.ndarray and memory.owns_memory(value)
              and not value.flags.writeable):
            self.value = value  # a constant: the first update in place copies it
            moved()
        else:
            self.value = _copied(value)
            moved()

    def _check_fits(self, dims: tuple[int, ...]) -> None:
        mine = TensorShape(self.shape)
        if self.value is not None or not mine.is_compatible_with(dims):
            raise InvalidArgumentError(
                None, None, f"Assign requires shapes of both tensors to match: variable "
                f"'{self.name}' has shape {_show(self.shape)}, the value {_show(dims)}")

    def clear(self) -> None:
        """Forget the value: the variable is uninitialized again."""
        self.value = None
        moved()


_SCALARS = (np.generic, bytes)


def _copied(value: TensorLike) -> Any:
    if type(value) is np.ndarray:
        return memory.copy(value)
    copy = getattr(value, "copy", None)
    return value if copy is None else copy()


def _show(dims: tuple[int | None, ...] | None) -> str:
    if dims is None:
        return "<unknown>"
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def _owned(value: Any) -> bool:
    """True for an array that owns its memory, may be written and is in C order."""
    if type(value) is np.ndarray:
        return memory.owns_memory(value) and value.flags.carray
    return value is not None and not isinstance(value, _SCALARS) and value.base is None


def _references(state: VariableState) -> int:
    """The reference count of the value as this very function sees it.

    What the interpreter's own stack adds differs between versions, so the count that means
    "nobody else" is measured with the same function, not assumed.
    """
    return getrefcount(state.value)


def _measure_own_references() -> int:
    from hpcflow import dtypes

    probe = VariableState("probe", dtypes.float32)
    probe.value = np.zeros(1)
    return _references(probe)


_OWN_REFERENCES = _measure_own_references()
