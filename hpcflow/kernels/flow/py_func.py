"""Kernels that call Python functions."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from hpcflow import errors
from hpcflow.base import callbacks, held_signals
from hpcflow.dtypes import DType
from hpcflow.errors import FailedPreconditionError, OpError
from hpcflow.host.fp_mode import call_outside
from hpcflow.kernels.common.background import in_own_thread
from hpcflow.kernels.registry import ASYNC, KernelNode, invalid, kernel

held_signals.open_in(__name__)

_C_NAMES = {"float32": "float", "float64": "double", "float16": "half"}
_CLASSES: tuple[tuple[Any, type[OpError]], ...] = (
    ((TypeError, ValueError), errors.InvalidArgumentError),
    (StopIteration, errors.OutOfRangeError),
    (MemoryError, errors.ResourceExhaustedError),
    (NotImplementedError, errors.UnimplementedError),
)


@kernel("PyFunc", "PyFuncStateless", device="CPU", fresh=True)
def py_func(node: KernelNode) -> Callable:
    """A call of the function that the token names."""
    token, types = node.attr("token").decode(), node.output_dtypes

    def run(*inputs: Any) -> Any:
        callback = callbacks.find(token)
        if callback is None:
            raise FailedPreconditionError(
                None, None, f"no Python function '{token}' in this process: it can only be called "
                "in the process that made its graph, and while that graph is in use")
        # The function may keep its arguments or write into them.
        arguments = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
        return _outputs(_call(callback.function, arguments), token, types)

    return run


@kernel("_PyFuncInThread", device="CPU", mode=ASYNC, fresh=True)
def py_func_in_thread(node: KernelNode) -> Callable:
    """Kernel of Python functions that runs each call in a thread of its own."""
    return in_own_thread(py_func(node))


def _call(function: Callable, arguments: list) -> Any:
    try:
        return call_outside(function, arguments)
    except Exception as e:  # it becomes an error of the step
        trace = "".join(traceback.format_exception(type(e), e, _inside(e.__traceback__)))
        message = f"{type(e).__name__}: {e}\n{trace}"
        if isinstance(e, OpError):
            raise errors.make(e.error_code, message) from e
        kind: Any = next((k for classes, k in _CLASSES if isinstance(e, classes)),
                         errors.UnknownError)
        raise kind(None, None, message) from e


def _inside(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without its first two entries, those of the call itself."""
    for _ in range(2):
        trace = trace.tb_next if trace is not None else None
    return trace


def _outputs(result: Any, token: str, types: list[DType]) -> Any:
    """Check the function's return value, and convert it to the outputs of the op."""
    if isinstance(result, (list, tuple)):
        values = list(result)
    else:
        values = [] if result is None else [result]
    if len(values) != len(types):
        raise invalid(f"{token} returns {len(values)} values, but expects to see {len(types)} "
                      "values.")
    arrays = [_converted(v, i, token, t) for i, (v, t) in enumerate(zip(values, types,
                                                                        strict=True))]
    if not types:
        return None
    return arrays[0] if len(arrays) == 1 else tuple(arrays)


def _converted(value: Any, index: int, token: str, dtype: DType) -> Any:
    if isinstance(value, str):
        value = value.encode()
    is_string = dtype.name == "string"
    if isinstance(value, bytes):
        array = np.asarray(value, object)
    else:
        try:
            array = np.asarray(value)
        except ValueError as e:
            raise invalid(f"{index}-th value returned by {token}: {e}") from None
        if array.dtype == object:
            _check_text(array)
        if array.dtype.kind == "V":
            raise errors.InternalError(None, None, f"Unsupported numpy data type {array.dtype}")
        if array.dtype.kind in "SU" or is_string and array.dtype == object:
            array = _as_bytes(array)
    if is_string != (array.dtype == object) or not is_string and array.dtype != dtype.np:
        raise invalid(f"{index}-th value returned by {token} is {_type_name(array.dtype)}, but "
                      f"expects {_type_name(dtype.np)}")
    if array.ndim == 0:
        return array[()]
    return array.copy() if array is value or array.base is not None else array


def _as_bytes(array: np.ndarray) -> np.ndarray:
    result = np.empty(array.shape, object)
    for at, item in np.ndenumerate(array):
        if isinstance(item, str):
            item = item.encode()
        result[at] = bytes(item)
    return result


def _check_text(array: np.ndarray) -> None:
    for item in array.flat:
        if not isinstance(item, (str, bytes)):
            raise errors.InternalError(
                None, None, f"Unsupported object type {type(item).__name__}")


def _type_name(dtype: np.dtype) -> str:
    """The name of a type in messages, which for some numbers is that of C."""
    name = "string" if dtype.kind == "O" else dtype.name
    return _C_NAMES.get(name, name)
