"""Variables in place: the state behind VariableV2, updated without disturbing its readers."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from hpcflow.dtypes import DType


class VariableState:
    """One variable's value on one device.

    Readers hold the array itself and may go on doing so: an update happens in place only when
    nobody but the variable refers to the array (``exclusive``), otherwise the array is replaced.
    So a value never changes under a reader, and costs a copy only where a reader outlives a write.

    Attributes:
        name: the name in its container.
        dtype: element type.
        value: the array, or None before the first assignment.
        lock: held by updates that ask for locking, and by those of other threads.
    """

    __slots__ = ("name", "dtype", "value", "lock", "device", "__weakref__")

    def __init__(self, name: str, dtype: DType, device: Any = None) -> None:
        self.name = name
        self.dtype = dtype
        self.value: Any = None
        self.lock = threading.RLock()
        self.device = device

    @property
    def initialized(self) -> bool:
        """True once a value was assigned."""
        return self.value is not None

    def exclusive(self) -> bool:
        """True if the variable's array is owned, writable and referenced by nobody else."""
        value = self.value
        return (getattrefs(value) <= _OWN_REFERENCES and value.base is None
                and value.flags.writeable)

    def writable(self) -> Any:
        """The array to update in place: the variable's own, or a fresh copy that replaces it."""
        if not self.exclusive():
            self.value = self.value.copy()
        return self.value

    def assign(self, value: Any) -> None:
        """Replace the value; the array is copied unless it can be taken over."""
        if not isinstance(value, np.ndarray) and not hasattr(value, "__cuda_array_interface__"):
            value = np.asarray(value, dtype=self.dtype.np)
        mine = self.value
        if mine is not None and mine.shape == value.shape and mine is not value:
            del mine
            if self.exclusive():
                self.value[...] = value
                return
        self.value = value.copy()

    def clear(self) -> None:
        """Forget the value: the variable is uninitialized again."""
        self.value = None


getattrefs = sys.getrefcount


def _measure_own_references() -> int:
    """The reference count that :meth:`VariableState.exclusive` sees when nobody else refers.

    Interpreters differ in what their own stack holds, so it is measured, not assumed.
    """
    counts: list[int] = []

    class Probe(VariableState):
        __slots__ = ()

        def exclusive(self) -> bool:
            value = self.value
            counts.append(getattrefs(value))
            return True

    from hpcflow import dtypes

    probe = Probe("probe", dtypes.float32)
    probe.value = np.zeros(1)
    probe.exclusive()
    return counts[0]


_OWN_REFERENCES = _measure_own_references()
