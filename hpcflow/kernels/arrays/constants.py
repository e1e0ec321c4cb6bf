"""Kernels of Const, the placeholders, Fill, ZerosLike, OnesLike, Range and LinSpace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.base.formats.array_protos import is_uniform
from hpcflow.dtypes import c_name
from hpcflow.kernels.common.sizes import check_count
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.shapes import TensorShape


@kernel("Const")
def const(node: KernelNode) -> Callable:
    """The value itself, moved to the device once."""
    value = node.attr("value")
    value = value.copy() if is_uniform(value) else value
    value = value[()] if value.dtype == object else node.xp.asarray(value)[()]
    return lambda: value


@kernel("Placeholder", "PlaceholderV2")
def placeholder(node: KernelNode) -> Callable:
    """Runs only when no value was fed, and says so."""
    dims = node.output_dims[0]
    shape = "" if dims is None else f" and shape {_show(dims)}"
    message = (f"You must feed a value for placeholder tensor '{node.name}' with dtype "
               f"{c_name(node.output_dtypes[0])}{shape}")

    def unfed() -> Any:
        raise invalid(message)

    return unfed


def _show(dims: tuple) -> str:
    return "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


# ---------------------------------------------------------------- filled tensors


@kernel("Fill", fresh=True, host_inputs=(0, 1))
@also_strings("Fill")
def fill(node: KernelNode) -> Callable:
    """``full(dims, value)``."""
    full, dtype, dims = node.xp.full, node.np_dtype(), node.constant(0)
    itemsize = dtype.itemsize if node.xp is np else 0
    if dims is not None:
        shape = _fill_shape(dims, 0)
        return lambda _, value: full(shape, _scalar(value), dtype)
    return lambda dims, value: full(_fill_shape(dims, itemsize), _scalar(value), dtype)


def _scalar(value: Any) -> Any:
    if value.ndim and value.shape != (1,):  # which the reference takes
        raise invalid(f"value must be a scalar, got shape {shown(value.shape)}")
    return value


def _fill_shape(dims: np.ndarray, itemsize: int) -> tuple[int, ...]:
    if dims.ndim != 1:
        raise invalid(f"dims must be a vector of int32, got shape {TensorShape(dims.shape)}")
    shape = tuple(dims.tolist())
    if shape and min(shape) < 0:
        raise invalid(f"Fill dimensions must be >= 0, but are {shown(shape)}")
    check_count(shape, itemsize)
    return shape


@kernel("ZerosLike", fresh=True)
def zeros_like(node: KernelNode) -> Callable:
    """Zeros of the input's shape, in row-major order whatever the input's."""
    zeros, dtype = node.xp.zeros, node.np_dtype()
    return lambda x: zeros(x.shape, dtype)


@kernel("ZerosLike", device="CPU", types={"T": ["string"]}, fresh=True)
def zeros_like_strings(node: KernelNode) -> Callable:
    """Empty strings."""
    return lambda x: np.full(x.shape, b"", object) if isinstance(x, np.ndarray) else b""


@kernel("OnesLike", fresh=True)
def ones_like(node: KernelNode) -> Callable:
    """Ones of the input's shape."""
    ones, dtype = node.xp.ones, node.np_dtype()
    return lambda x: ones(x.shape, dtype)


# ---------------------------------------------------------------- sequences


@kernel("Range", fresh=True, host_inputs=(0, 1, 2))
def range_(node: KernelNode) -> Callable:
    """``start + i * delta``, with the number of elements counted as the shape function does."""
    xp, dtype = node.xp, node.np_dtype()

    def run(start: Any, limit: Any, delta: Any) -> Any:
        for what, given in (("start", start), ("limit", limit), ("delta", delta)):
            if np.ndim(given):
                raise invalid(f"{what} must be a scalar, not shape {shown(np.shape(given))}")
        first, step = start.item(), delta.item()
        count = _range_length(first, limit.item(), step)
        check_count((count,), dtype.itemsize * (xp is np))
        if isinstance(first, int):
            return xp.arange(first, first + count * step, step, dtype=dtype)
        return start + delta * xp.arange(count, dtype=dtype)

    return run


def _range_length(start: Any, limit: Any, delta: Any) -> int:
    if delta == 0:
        raise invalid(f"Requires delta != 0: {delta}")
    if not (limit - start if delta > 0 else start - limit) >= 0:  # one of them may be NaN
        relation, sign = ("<=", ">") if delta > 0 else (">=", "<")
        raise invalid(f"Requires start {relation} limit when delta {sign} 0: {start}/{limit}")
    is_exact = isinstance(start, int)
    length = -((start - limit) // delta) if is_exact else np.ceil(abs((limit - start) / delta))
    if not length < 2 ** 63:
        raise invalid(f"Requires ((limit - start) / delta) <= {2 ** 63 - 1}: ({limit} - {start}) "
                      f"/ {delta}")
    if length >= 1 << 60:  # more than any memory holds; NumPy would count them in float64
        raise MemoryError(f"a range of {int(length)} elements")
    return int(length)


@kernel("LinSpace", fresh=True, host_inputs=(0, 1, 2))
def lin_space(node: KernelNode) -> Callable:
    """``start + i * (stop - start) / (num - 1)``; `start` alone for one element."""
    xp, dtype = node.xp, node.np_dtype()

    def run(start: Any, stop: Any, num: Any) -> Any:
        count = int(num)
        if count <= 0:
            raise invalid(f"Requires num > 0: {count}")
        if count == 1:
            return xp.full(1, start, dtype)
        return xp.linspace(start, stop, count, dtype=dtype)

    return run


@kernel("FakeParam", fresh=True, host_outputs=(0,))
def _fake_param(node: KernelNode) -> Callable:
    """Zeros, which nobody reads: where only one branch of a conditional has a value."""
    dims = tuple(d or 0 for d in node.attr("shape")._dims or ())
    dtype = node.output_dtypes[0]
    if dtype.name == "string":
        return lambda: np.full(dims, b"", object)[()]
    return lambda: np.zeros(dims, dtype.np)[()]
