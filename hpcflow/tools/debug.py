"""Counterparts of the debugger of 1.x (``python.debug``), for programs that use it.

There is no debugger that stops in steps: tensors can be fetched by name, ``Print`` and ``Assert``
are operations, and a ``Timeline`` shows what ran when. The filter that finds
numbers that are none works on any value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.errors import UnimplementedError

__all__ = ["DumpingDebugHook", "DumpingDebugWrapperSession", "LocalCLIDebugHook",
           "LocalCLIDebugWrapperSession", "TensorBoardDebugHook", "TensorBoardDebugWrapperSession",
           "has_inf_or_nan"]


def has_inf_or_nan(datum: object, tensor: Any) -> bool:
    """Return whether a value has an infinity or a NaN; values that are no numbers have none.

    `datum`, the description of the value, is not looked at.
    """
    if tensor is None or not hasattr(tensor, "dtype"):
        return False
    values = np.asarray(tensor)
    if not (np.issubdtype(values.dtype, np.inexact) or values.dtype.kind == "V"):
        return False
    return bool(np.any(~np.isfinite(values)))


class _Debugger:
    """Raises ``UnimplementedError`` when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnimplementedError(None, None, f"{type(self).__name__}: there is no debugger; fetch "
                                             "tensors by name, or use Print and Assert")


class LocalCLIDebugWrapperSession(_Debugger):
    """A session that asks on the terminal before each step: not there."""


class LocalCLIDebugHook(_Debugger):
    """A hook that asks on the terminal before each step: not there."""


class DumpingDebugWrapperSession(_Debugger):
    """A session that writes all values to files: not there."""


class DumpingDebugHook(_Debugger):
    """A hook that writes all values to files: not there."""


class TensorBoardDebugWrapperSession(_Debugger):
    """A session that is stopped from TensorBoard: not there."""


class TensorBoardDebugHook(_Debugger):
    """A hook that is stopped from TensorBoard: not there."""
