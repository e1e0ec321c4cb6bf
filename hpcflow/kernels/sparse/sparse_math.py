"""Kernels of arithmetic on sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_places import (
    check_parts,
    check_sparse,
    check_within,
    dense_size,
    flat_places,
    group_starts,
    joint_keys,
    keys_of,
    keys_of_any,
    order_of,
)

# ---------------------------------------------------------------- two sparse tensors


def _check_two(a: tuple, b: tuple) -> None:
    check_parts(a[0], a[1], a[2], "a_")
    check_parts(b[0], b[1], b[2], "b_")
    if len(a[2]) != len(b[2]):
        raise invalid("Operands do not have the same ranks; got shapes: "
                      f"{a[2].tolist()} and {b[2].tolist()}")
    if not np.array_equal(a[2], b[2]):
        raise invalid(f"Operands' shapes do not match: {a[2].tolist()} and {b[2].tolist()}")


@kernel("SparseAdd", device="CPU", fresh=True)
def _add(node: KernelNode) -> Callable:
    def run(*arguments: Any) -> tuple:
        a, b, thresh = arguments[:3], arguments[3:6], arguments[6]
        _check_two(a, b)
        if np.ndim(thresh):
            raise invalid(f"thresh must be a scalar, but has shape {shown(thresh)}")
        indices, values = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
        keys = keys_of_any(indices, a[2])
        order = np.argsort(keys, kind="stable")
        starts = group_starts(keys[order])
        sums = np.add.reduceat(values[order], starts, dtype=values.dtype) if len(starts) else values
        places = indices[order[starts]]
        # An element that only one of them has stays, however small it is.
        alone = np.diff(starts, append=len(keys)) == 1
        kept = alone | (np.abs(sums) >= thresh)
        return (places, sums, a[2].copy()) if kept.all() else (
            places[kept], sums[kept], a[2].copy())

    return run


@kernel("SparseAddGrad", device="CPU", fresh=True)
def _add_grad(node: KernelNode) -> Callable:
    def run(grad: Any, a: Any, b: Any, total: Any) -> tuple:
        for what, table in (("a_indices", a), ("b_indices", b), ("sum_indices", total)):
            if table.ndim != 2 or table.shape[1] != total.shape[-1]:
                raise invalid(f"{what} must be a matrix of {total.shape[-1]} columns, but has "
                              f"shape {shown(table)}")
        if grad.shape != total.shape[:1]:
            raise invalid(f"backprop_val_grad of shape {shown(grad)} does not fit "
                          f"{len(total)} sums")
        tables = [a, b, total]
        # Negative indices are of no element of the sum; their keys are not to be those of others.
        lowest = np.min([t.min(axis=0, initial=0) for t in tables], axis=0)
        if lowest.any():
            tables = [t - lowest for t in tables]
        top = np.max([t.max(axis=0, initial=0) for t in tables], axis=0) + 1
        a_keys, b_keys, keys = joint_keys(tables, top)
        order = order_of(keys)
        if order is not None:
            keys, grad = keys[order], grad[order]
        return _found(keys, grad, a_keys), _found(keys, grad, b_keys)

    return run


def _found(keys: Any, values: Any, wanted: Any) -> Any:
    """The value of each wanted key, zero for those that are not among the sorted `keys`."""
    out = np.zeros(len(wanted), values.dtype)
    if len(keys):
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = keys[at] == wanted
        out[hit] = values[at[hit]]
    return out


def _extremum(name: str) -> Callable:
    def factory(node: KernelNode) -> Callable:
        choose = getattr(np, name)

        def run(*arguments: Any) -> tuple:
            a, b = arguments[:3], arguments[3:]
            _check_two(a, b)
            check_within(a[0], a[2], "a_")
            check_within(b[0], b[2], "b_")
            indices = np.concatenate([a[0], b[0]])
            keys = keys_of(indices, a[2])
            order = np.argsort(keys, kind="stable")
            starts = group_starts(keys[order])
            count = len(starts)
            group = np.zeros(len(keys), np.intp)
            group[starts[1:]] = 1
            group[order] = np.cumsum(group)
            left, right = np.zeros(count, a[1].dtype), np.zeros(count, a[1].dtype)
            left[group[:len(a[1])]] = a[1]
            right[group[len(a[1]):]] = b[1]
            return indices[order[starts]], choose(left, right)

        return run

    return factory


kernel("SparseSparseMaximum", device="CPU", fresh=True)(_extremum("maximum"))
kernel("SparseSparseMinimum", device="CPU", fresh=True)(_extremum("minimum"))

# ---------------------------------------------------------------- sparse and dense


@kernel("SparseTensorDenseAdd", device="CPU", fresh=True)
def _dense_add(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        check_parts(indices, values, shape, "a_")
        if list(np.shape(dense)) != shape.tolist():
            raise invalid(f"b has shape {shown(np.shape(dense))}, a {shape.tolist()}")
        check_within(indices, shape, "invalid index of a: a_")
        out = np.array(dense, order="C")
        np.add.at(out.reshape(-1), flat_places(indices, shape), values)
        return out

    return run


def _cwise(operate: Callable) -> Callable:
    def factory(node: KernelNode) -> Callable:
        def run(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
            check_parts(indices, values, shape, "sp_")
            dense = np.asarray(dense)
            sizes, wide = shape.tolist(), [1] * (len(shape) - dense.ndim) + list(dense.shape)
            if len(wide) > len(sizes) or any(d not in (1, s) for d, s in zip(wide, sizes)):
                raise invalid("SparseDenseBinaryOpShared broadcasts dense to sparse only; got "
                              f"incompatible shapes: [{','.join(map(str, sizes))}] vs. "
                              f"{shown(dense)}")
            check_within(indices, shape, "sp_")
            met = np.broadcast_to(dense, sizes)[tuple(indices.T)] if len(values) else values
            return operate(values, met)

        return run

    return factory


def _divide(x: Any, y: Any) -> Any:
    if x.dtype.kind not in "iu":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.true_divide(x, y)
    if (y == 0).any():
        raise invalid("Integer division by zero")
    return ((x - np.fmod(x, y)) // y).astype(x.dtype, copy=False)


for _op_type, _operate in (("SparseDenseCwiseAdd", np.add), ("SparseDenseCwiseMul", np.multiply),
                           ("SparseDenseCwiseDiv", _divide)):
    kernel(_op_type, device="CPU", fresh=True)(_cwise(_operate))


@kernel("SparseTensorDenseMatMul", device="CPU", fresh=True)
def _matmul(node: KernelNode) -> Callable:
    adjoint_a, adjoint_b = node.attr("adjoint_a"), node.attr("adjoint_b")

    def run(indices: Any, values: Any, shape: Any, b: Any) -> Any:
        check_parts(indices, values, shape, "a_")
        if len(shape) != 2 or b.ndim != 2:
            raise invalid(f"a and b must be matrices, but have shapes {shape.tolist()} and "
                          f"{shown(b)}")
        rows, columns, sizes = indices[:, 0], indices[:, 1], shape.tolist()
        if adjoint_a:
            rows, columns, sizes = columns, rows, sizes[::-1]
            values = np.conj(values)
        if adjoint_b:
            b = np.conj(b).T
        if sizes[1] != b.shape[0]:
            raise invalid(f"inner dimensions differ: {sizes} x {shown(b)}")
        _check_below(columns, sizes[1], "k", 1 - adjoint_a)
        _check_below(rows, sizes[0], "m", int(adjoint_a))
        return _product(rows, columns, values, sizes[0], b)

    return run


def _check_below(places: Any, size: int, what: str, column: int) -> None:
    outside = np.flatnonzero((places < 0) | (places >= size))
    if len(outside):
        row = int(outside[0])
        raise invalid(f"{what} ({places[row]}) from index[{row},{column}] out of bounds "
                      f"(>={size})")


def _product(rows: Any, columns: Any, values: Any, count: int, b: Any) -> Any:
    """Rows of b, scaled and added up by the rows of the result, a block of elements at a time."""
    out = np.zeros((count, b.shape[1]), values.dtype)
    if not len(values) or not b.shape[1]:
        return out
    order = order_of(rows)
    if order is not None:
        rows, columns, values = rows[order], columns[order], values[order]
    step = max(1, tuning.SPARSE_BLOCK_BYTES // (b.shape[1] * b.dtype.itemsize))
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        products = b.take(columns[part], axis=0)
        products *= values[part, None]
        starts = group_starts(rows[part])
        # A row may go on in the next block; within a block every row occurs once.
        out[rows[part][starts]] += np.add.reduceat(products, starts, axis=0, dtype=values.dtype)
    return out


# ---------------------------------------------------------------- softmax, reductions


@kernel("SparseSoftmax", device="CPU", fresh=True)
def _softmax(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any) -> Any:
        check_parts(indices, values, shape, "sp_")
        if len(shape) < 2:
            raise invalid(f"Input should have rank >= 2, got {len(shape)}")
        check_within(indices, shape, "sp_")
        if not len(values):
            return values.copy()
        keys = keys_of(indices[:, :-1], shape[:-1])
        order = order_of(keys)
        keys, x = (keys, values) if order is None else (keys[order], values[order])
        starts = group_starts(keys)
        lengths = np.diff(starts, append=len(keys))
        y = np.exp(x - np.repeat(np.maximum.reduceat(x, starts), lengths))
        y /= np.repeat(np.add.reduceat(y, starts), lengths)
        if order is None:
            return y
        out = np.empty_like(y)
        out[order] = y
        return out

    return run


def _kept_dimensions(shape: Any, axes: Any) -> list[int]:
    """The dimensions that stay."""
    if np.ndim(axes) > 1:
        raise invalid(f"reduction_axes must be a scalar or a vector, got {list(np.shape(axes))}")
    if np.any(shape < 0):
        raise invalid(f"the shape must not be negative, got {shape.tolist()}")
    axes, rank = np.asarray(axes).reshape(-1).tolist(), len(shape)
    wrong = [a for a in axes if not -rank <= a < rank]
    if wrong:
        raise invalid(f"Invalid reduction dimension {wrong[0]}, for input with {rank} dimensions.")
    chosen = {a % rank for a in axes}
    return [i for i in range(rank) if i not in chosen]


_REDUCTIONS = {"Sum": np.add, "Max": np.maximum}


@kernel(*[f"SparseReduce{name}" for name in _REDUCTIONS], device="CPU", fresh=True)
def _reduce(node: KernelNode) -> Callable:
    keep, ufunc = node.attr("keep_dims"), _REDUCTIONS[node.op_type.removeprefix("SparseReduce")]

    def run(indices: Any, values: Any, shape: Any, axes: Any) -> Any:
        check_sparse(indices, values, shape, "input_")
        kept = _kept_dimensions(shape, axes)
        sizes = dense_size(shape[kept])
        out = np.zeros(sizes, values.dtype)
        keys, reduced = _groups(ufunc, indices, values, shape, kept)[1:]
        out.reshape(-1)[keys] = reduced
        if keep:
            out = out.reshape([s if i in kept else 1 for i, s in enumerate(shape.tolist())])
        return out if out.ndim else out[()]

    return run


def _groups(ufunc: Any, indices: Any, values: Any, shape: Any, kept: list[int]) -> tuple:
    """(first element of each group, its key, its reduction) by places along the kept dimensions.
    """
    keys = keys_of(indices[:, kept], shape[kept]) if kept else np.zeros(len(values), np.int64)
    order = order_of(keys)
    if order is None:
        order = np.arange(len(keys))
    keys, ordered = keys[order], values[order]
    starts = group_starts(keys)
    reduced = ufunc.reduceat(ordered, starts, dtype=values.dtype) if len(starts) else ordered
    return order[starts], keys[starts], reduced


@kernel(*[f"SparseReduce{name}Sparse" for name in _REDUCTIONS], device="CPU", fresh=True)
def _reduce_sparse(node: KernelNode) -> Callable:
    keep = node.attr("keep_dims")
    ufunc = _REDUCTIONS[node.op_type.removeprefix("SparseReduce").removesuffix("Sparse")]

    def run(indices: Any, values: Any, shape: Any, axes: Any) -> tuple:
        check_sparse(indices, values, shape, "input_")
        kept = _kept_dimensions(shape, axes)
        first, _, reduced = _groups(ufunc, indices, values, shape, kept)
        places = indices[first]
        if not keep:
            return places[:, kept], reduced, shape[kept]
        gone = [i for i in range(len(shape)) if i not in kept]
        places[:, gone] = 0
        sizes = shape.copy()
        sizes[gone] = 1
        return places, reduced, sizes

    return run
