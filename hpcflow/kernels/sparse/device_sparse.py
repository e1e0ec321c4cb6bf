"""Arithmetic of sparse and dense tensors, on devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels import late_errors
from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import flat_positions, stable_order
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_math import _kept_dimensions
from hpcflow.kernels.sparse.sparse_places import check_parts


def _sizes(indices: Any, values: Any, shape: Any, prefix: str) -> tuple[int, ...]:
    """The dense shape as Python numbers, once the parts of a sparse tensor fit together."""
    check_parts(indices, values, shape, prefix)
    return tuple(shape.tolist())


@kernel("SparseTensorDenseMatMul", fresh=True, host_inputs=(2,))
def _matmul(node: KernelNode) -> Callable:
    xp, adjoint_a, adjoint_b = node.xp, node.attr("adjoint_a"), node.attr("adjoint_b")

    def run(indices: Any, values: Any, shape: Any, b: Any) -> Any:
        sizes = _sizes(indices, values, shape, "a_")
        if len(sizes) != 2 or b.ndim != 2:
            raise invalid(f"a and b must be matrices, but have shapes {list(sizes)} and "
                          f"{shown(b)}")
        flat_positions(xp, indices, sizes)  # which checks them
        rows, columns = indices[:, 0], indices[:, 1]
        if adjoint_a:
            rows, columns, sizes, values = columns, rows, sizes[::-1], xp.conj(values)
        if adjoint_b:
            b = xp.conj(b).T
        if sizes[1] != b.shape[0]:
            raise invalid(f"inner dimensions differ: {list(sizes)} x {shown(b)}")
        out = xp.zeros((sizes[0], b.shape[1]), values.dtype)
        if len(values) and b.shape[1]:
            repeated_rows.combine(xp, "add", out, rows, values[:, None] * b[columns])
        return out

    return run


@kernel("SparseTensorDenseAdd", fresh=True, host_inputs=(2,))
def _dense_add(node: KernelNode) -> Callable:
    xp = node.xp

    def run(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        sizes = _sizes(indices, values, shape, "a_")
        if dense.shape != sizes:
            raise invalid(f"b has shape {shown(dense)}, a {list(sizes)}")
        out = xp.array(dense).reshape(-1)
        repeated_rows.combine(xp, "add", out, flat_positions(xp, indices, sizes), values)
        return out.reshape(sizes)

    return run


def _divide(xp: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        return xp.true_divide(x, y)
    late_errors.note(xp, (y == 0).any(), lambda: invalid("Integer division by zero"))
    return ((x - xp.fmod(x, y)) // y).astype(x.dtype)


_CWISE = {"Add": lambda xp, x, y: x + y, "Mul": lambda xp, x, y: x * y, "Div": _divide}


@kernel(*[f"SparseDenseCwise{name}" for name in _CWISE], fresh=True, host_inputs=(2,))
def _cwise(node: KernelNode) -> Callable:
    xp, operate = node.xp, _CWISE[node.op_type.removeprefix("SparseDenseCwise")]

    def run(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        sizes = _sizes(indices, values, shape, "sp_")
        wide = (1,) * (len(sizes) - dense.ndim) + dense.shape
        if len(wide) > len(sizes) or any(d not in (1, s) for d, s in zip(wide, sizes)):
            raise invalid("SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
                          f"incompatible shapes: {shown(sizes)} vs. {shown(dense)}")
        if not len(values):
            return values.copy()
        flat_positions(xp, indices, sizes)
        met = xp.broadcast_to(dense, sizes)[tuple(indices[:, i] for i in range(len(sizes)))]
        return operate(xp, values, met)

    return run


def _groups(xp: Any, keys: Any) -> tuple[Any, Any]:
    """An order that sorts the keys, and for each in that order the number of its group."""
    order = stable_order(xp, keys)
    ordered = keys[order]
    begins = xp.zeros(len(keys), np.int64)
    begins[1:] = ordered[1:] != ordered[:-1]
    return order, xp.cumsum(begins)


@kernel("SparseSoftmax", fresh=True, host_inputs=(2,))
def _softmax(node: KernelNode) -> Callable:
    xp = node.xp

    def run(indices: Any, values: Any, shape: Any) -> Any:
        sizes = _sizes(indices, values, shape, "sp_")
        if len(sizes) < 2:
            raise invalid(f"Input should have rank >= 2, got {len(sizes)}")
        if not len(values):
            return values.copy()
        rows = flat_positions(xp, indices, sizes) // sizes[-1]
        order, group = _groups(xp, rows)
        x = values[order]
        largest = xp.full(len(x), -np.inf, x.dtype)
        repeated_rows.combine(xp, "maximum", largest, group, x)
        y = xp.exp(x - largest[group])
        sums = xp.zeros(len(x), x.dtype)
        repeated_rows.combine(xp, "add", sums, group, y)
        out = xp.empty_like(y)
        out[order] = y / sums[group]
        return out

    return run


@kernel("SparseReduceSum", "SparseReduceMax", fresh=True, host_inputs=(2, 3))
def _reduce(node: KernelNode) -> Callable:
    xp, keep = node.xp, node.attr("keep_dims")
    is_sum = node.op_type == "SparseReduceSum"

    def run(indices: Any, values: Any, shape: Any, axes: Any) -> Any:
        sizes = _sizes(indices, values, shape, "input_")
        kept = _kept_dimensions(shape, axes)
        dims = tuple(sizes[i] for i in kept)
        flat_positions(xp, indices, sizes)
        places = xp.zeros(len(values), np.int64)
        for i in kept:
            places = places * sizes[i] + indices[:, i]
        out = xp.zeros(math.prod(dims), values.dtype)
        if is_sum:
            repeated_rows.combine(xp, "add", out, places, values)
        else:  # what no element is added to is zero, not the least number
            repeated_rows.put(xp, out, places, values)
            repeated_rows.combine(xp, "maximum", out, places, values)
        return out.reshape([s if i in kept else 1 for i, s in enumerate(sizes)] if keep else dims)

    return run


@kernel("SparseReorder", fresh=True, host_inputs=(2,))
def _reorder(node: KernelNode) -> Callable:
    xp = node.xp

    def run(indices: Any, values: Any, shape: Any) -> tuple:
        sizes = _sizes(indices, values, shape, "input_")
        if not len(values):
            return indices.copy(), values.copy()
        order = stable_order(xp, flat_positions(xp, indices, sizes))
        return indices[order], values[order]

    return run
