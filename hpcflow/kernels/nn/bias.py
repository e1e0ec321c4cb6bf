"""Kernels of BiasAdd, its gradient, and L2Loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.math.device_sums import Reducer, reducer
from hpcflow.kernels.math.reductions import ColumnSums
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NARROW


def _axis(node: KernelNode, rank: int) -> int:
    """The axis of the channels; mirrors the shape function."""
    return 1 if node.attr("data_format") == b"NCHW" and rank >= 3 else rank - 1


@kernel("BiasAdd", "BiasAddV1", fresh=True, accepts_out=True, elementwise=True)
def _bias_add(node: KernelNode) -> Any:
    add, static = node.xp.add, node.static_dims(0)
    if node.attr("data_format") != b"NCHW" and static is not None and (
            node.static_dims(1) == static[-1:]):
        return add

    def run(x: Any, bias: Any, out: Any = None) -> Any:
        axis = _axis(node, x.ndim)
        if x.ndim < 2 or bias.shape != (x.shape[axis],):
            raise invalid(f"bias of shape {shown(bias)} does not fit axis {axis} of "
                          f"{shown(x)}")
        if axis != x.ndim - 1:
            bias = bias.reshape((-1,) + (1,) * (x.ndim - axis - 1))
        return add(x, bias, out=out)

    return run


@kernel("BiasAddGrad", fresh=True)
def _bias_add_grad(node: KernelNode) -> Any:
    """The sum over everything but the channels."""
    dtype = node.np_dtype()
    if node.xp is np and dtype in (np.float32, np.float64):
        return _by_blas(node, dtype)
    wide = np.dtype(np.float32) if node.output_dtypes[0] in NARROW else dtype
    total = _sums if node.xp is np else reducer(node.device, "sum")

    def run(grad: Any) -> Any:
        if grad.ndim < 2:
            raise invalid(f"out_backprop must have at least 2 dimensions: {shown(grad)}")
        axis = _axis(node, grad.ndim)
        others = tuple(i for i in range(grad.ndim) if i != axis)
        return total(grad, others, wide).astype(dtype, copy=False)

    return run


def _sums(x: Any, axes: tuple[int, ...], dtype: np.dtype) -> Any:
    return x.sum(axis=axes, dtype=dtype)


def _by_blas(node: KernelNode, dtype: np.dtype) -> Callable:
    column_sums, row_sums = ColumnSums(dtype), ColumnSums(dtype)

    def run(grad: Any) -> Any:
        if grad.ndim < 2:
            raise invalid(f"out_backprop must have at least 2 dimensions: {shown(grad)}")
        axis = _axis(node, grad.ndim)
        if not grad.size:
            return np.zeros(grad.shape[axis], dtype)
        if axis == grad.ndim - 1:
            return column_sums(grad if grad.ndim == 2 else grad.reshape(-1, grad.shape[-1]))
        planes = grad.reshape(-1, grad[0, 0].size)
        return row_sums(planes.T).reshape(-1, grad.shape[axis]).sum(axis=0)

    return run


@kernel("L2Loss", fresh=True)
def _l2_loss(node: KernelNode) -> Any:
    """Half the sum of the squares."""
    xp, dtype = node.xp, node.np_dtype()
    if dtype.kind in "iu":
        return lambda t: dtype.type(int((t * t).sum(dtype=dtype)) // 2)
    half = dtype.type(0.5)
    if xp is not np and dtype.kind != "c":
        squares = Reducer(node.device, "sum", squares=True)
        wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        return lambda t: (squares(t, None, wide) * wide.type(0.5)).astype(dtype, copy=False)
    if node.output_dtypes[0] in NARROW:
        return lambda t: (xp.square(t.astype(np.float32)).sum() * np.float32(0.5)).astype(dtype)
    if dtype.kind == "c":
        return lambda t: (t * t).sum() * half

    def run(t: Any) -> Any:
        flat = t.reshape(-1)
        return dtype.type(flat.dot(flat)) * half

    return run
