"""Kernels of ragged tensors: values, and for each level of rows where they begin and end."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.indices import check_rows
from hpcflow.kernels.common.strings import box, unbox
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_places import check_sparse

# ---------------------------------------------------------------- rows


def checked_splits(splits: Any, count: int) -> Any:
    """`splits`, which must rise from 0 to `count`."""
    if splits.ndim != 1 or not len(splits) or splits[0] != 0 or splits[-1] != count or (
            np.diff(splits) < 0).any():
        raise invalid(f"row splits must rise from 0 to {count}, got {splits.tolist()}")
    return splits


def _concatenated(starts: Any, lengths: Any) -> Any:
    """The positions ``start, start + 1, ...`` of all rows, one row after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - lengths), lengths)


def splits_of(lengths: Any, dtype: Any) -> Any:
    """Where rows of such lengths begin and end."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)


_MOST = 2**31 - 1  # elements of a row that is counted in floats


@kernel("RaggedRange", device="CPU", fresh=True)
def _range(node: KernelNode) -> Callable:
    dtype = node.np_dtype()

    def run(*bounds: Any) -> tuple:
        if any(np.ndim(b) > 1 for b in bounds):
            raise invalid("starts, limits and deltas must be scalars or vectors, got shapes "
                          + ", ".join(shown(np.shape(b)) for b in bounds))
        sizes = {len(b) for b in bounds if np.ndim(b)}
        if len(sizes) > 1:
            raise invalid("starts, limits, and deltas must have the same shape")
        count = sizes.pop() if sizes else 1
        starts, limits, deltas = (np.broadcast_to(b, (count,)) for b in bounds)
        if not np.all(deltas):
            raise invalid("Requires delta != 0")
        rows = [_arithmetic(*row) for row in zip(starts, limits, deltas, strict=True)]
        values = np.concatenate(rows) if rows else np.zeros(0, starts.dtype)
        return splits_of(list(map(len, rows)), dtype), values

    return run


def _arithmetic(start: Any, limit: Any, delta: Any) -> np.ndarray:
    """start, start + delta, ... up to the limit, each of the one before."""
    if start.dtype.kind == "i":
        return np.arange(int(start), int(limit), int(delta), dtype=start.dtype)
    size = np.ceil(max((float(limit) - float(start)) / float(delta), 0.0))
    if not size < _MOST:  # also of a bound that is no number
        raise invalid(f"Requires ((limit - start) / delta) <= {_MOST}: ({limit} - {start}) / "
                      f"{delta}")
    steps = np.full(int(size), delta, start.dtype)
    steps[:1] = start
    return np.add.accumulate(steps, dtype=start.dtype)


@kernel("RaggedGather", device="CPU", fresh=True)
def _gather(node: KernelNode) -> Callable:
    levels, depth = node.attr("PARAMS_RAGGED_RANK"), node.attr("OUTPUT_RAGGED_RANK")
    dtype = node.output_dtypes[0].base_dtype.np if len(node.output_dtypes) > 1 else np.int64

    def run(*inputs: Any) -> Any:
        splits, values, indices = inputs[:levels], inputs[levels], np.asarray(inputs[-1])
        for level, below in zip(splits, [*(len(s) - 1 for s in splits[1:]), len(values)],
                                strict=True):
            checked_splits(level, below)
        check_rows(np, indices, len(splits[0]) - 1)
        if indices.ndim + levels - 1 != depth:
            raise invalid(f"indices of rank {indices.ndim} give {indices.ndim + levels - 1} "
                          f"splits, not OUTPUT_RAGGED_RANK = {depth}")
        rows, found = indices.reshape(-1), _outer_splits(indices.shape, dtype)
        for level in splits:
            lengths = (level[1:] - level[:-1])[rows]
            found.append(splits_of(lengths, dtype))
            rows = _concatenated(level[:-1][rows], lengths)
        outputs = (*found[1:], values[rows]) if not indices.ndim else (*found, values[rows])
        return outputs if len(outputs) > 1 else outputs[0]

    return run


def _outer_splits(dims: tuple, dtype: Any) -> list:
    """The splits of rows of one length each, for all dimensions of indices but the last."""
    found, rows = [], 1
    for size, width in itertools.pairwise(dims):
        rows *= size
        found.append((np.arange(rows + 1) * width).astype(dtype))
    return found


# ---------------------------------------------------------------- other forms


@kernel("RaggedTensorToSparse", device="CPU")
def _to_sparse(node: KernelNode) -> Callable:
    def run(*inputs: Any) -> tuple:
        *splits, values = inputs
        rows = [_row_numbers(level) for level in splits]
        for level, below in zip(splits, [*(len(s) - 1 for s in splits[1:]), len(values)],
                                strict=True):
            checked_splits(level, below)
        places = _places(rows, len(splits[0]) - 1)
        inner = values.shape[1:]
        size = int(np.prod(inner))
        tail = np.indices(inner).reshape(len(inner), size).T
        indices = np.concatenate([np.repeat(places, size, 0), np.tile(tail, (len(places), 1))], 1)
        longest = [int(np.diff(level).max(initial=0)) for level in splits]
        shape = [len(splits[0]) - 1, *longest, *inner]
        return indices.astype(np.int64), values.reshape(-1), np.array(shape, np.int64)

    return run


def _row_numbers(splits: Any) -> Any:
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))


def _places(rows: list, count: int) -> Any:
    """For each value its coordinates, from the number of its row at each level."""
    places = np.arange(count)[:, None]
    for numbers in rows:
        sizes = np.bincount(numbers, minlength=len(places)) if len(numbers) else np.zeros(
            len(places), np.int64)
        within = np.arange(len(numbers)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = np.concatenate([places[numbers], within[:, None]], 1)
    return places


@kernel("RaggedTensorToTensor", device="CPU", fresh=True)
def _to_tensor(node: KernelNode) -> Callable:
    kinds = [kind.decode() for kind in node.attr("row_partition_types")]

    def run(shape: Any, values: Any, default: Any, *partitions: Any) -> Any:
        values, default = box(values), np.asarray(box(default))
        count, rows = _partitions(kinds, partitions)
        if rows and len(rows[-1]) != len(values):
            raise invalid(f"the innermost row partition is of {len(rows[-1])} values, but there "
                          f"are {len(values)}")
        places = _places(rows, count)
        dims = _dense_dims(shape, count, places, values.shape[1:])
        try:
            filler = np.broadcast_to(default, dims[places.shape[1]:])
        except ValueError:
            raise invalid(f"default_value of shape {shown(default)} does not broadcast to values "
                          f"of shape {shown(values.shape[1:])}") from None
        out = np.empty(dims, values.dtype)
        out[...] = filler
        kept = (places < np.array(dims[: places.shape[1]])).all(1)
        out[tuple(places[kept].T)] = values[kept]
        return unbox(out)

    return run


def _partitions(kinds: list[str], partitions: tuple) -> tuple[int, list]:
    """The number of outer rows, and for each level the row of each of its parts."""
    if len(kinds) != len(partitions):
        raise invalid(f"{len(kinds)} row_partition_types for {len(partitions)} tensors")
    count = int(partitions[0]) if kinds[0] == "FIRST_DIM_SIZE" else len(partitions[0]) - 1
    rows, parts = [], count
    for kind, tensor in zip(kinds, partitions, strict=True):
        if kind == "FIRST_DIM_SIZE":
            continue
        if kind == "ROW_SPLITS":
            if tensor.ndim != 1 or not len(tensor) or tensor[0] or (np.diff(tensor) < 0).any():
                raise invalid(f"row splits must rise from 0, got {np.ravel(tensor).tolist()}")
            if len(tensor) - 1 != parts:
                raise invalid(f"{len(tensor)} row splits for {parts} rows")
            rows.append(_row_numbers(tensor))
        elif kind == "VALUE_ROWIDS":
            if (np.diff(tensor) < 0).any():
                raise invalid(f"row numbers must be in order, got {np.ravel(tensor).tolist()}")
            check_rows(np, tensor, parts)
            rows.append(np.asarray(tensor))
        else:
            raise invalid(f"unknown row partition type {kind}")
        parts = len(rows[-1])
    return count, rows


def _dense_dims(shape: Any, count: int, places: Any, inner: tuple) -> tuple:
    """The shape of the result: as wanted, or as large as the values need."""
    needed = [count, *(int(c.max(initial=-1)) + 1 for c in places.T[1:]), *inner]
    if not np.ndim(shape):
        if shape != -1:
            raise invalid(f"a scalar shape must be -1, got {int(shape)}")
        return tuple(needed)
    wanted = tuple(shape[places.shape[1]:].tolist())
    if (shape < -1).any():
        raise invalid(f"sizes must be at least -1, got {shape.tolist()}")
    if len(shape) != len(needed) or any(w not in (-1, n) for w, n in zip(wanted, inner)):
        raise invalid(f"the shape {shape.tolist()} does not fit values of shape {list(inner)} at "
                      f"{places.shape[1]} levels")
    return tuple(n if w < 0 else int(w) for w, n in zip(shape, needed, strict=True))


# ---------------------------------------------------------------- rows of sparse matrices


@kernel("SparseFillEmptyRows", device="CPU", fresh=True)
def _fill_empty_rows(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any, default: Any) -> tuple:
        if np.ndim(default):
            raise invalid(f"default_value must be a scalar, got shape {shown(default)}")
        check_sparse(indices, values, shape)
        if not len(shape):
            raise invalid("the dense shape must have at least one dimension")
        rows = int(shape[0])
        empty = np.ones(rows, bool)
        empty[indices[:, 0]] = False
        added = np.flatnonzero(empty)
        keys = np.concatenate([indices[:, 0], added])
        order = np.argsort(keys, kind="stable")
        new = np.zeros((len(added), indices.shape[1]), np.int64)
        new[:, 0] = added
        fill = np.empty(len(added), values.dtype)
        fill[...] = default  # np.full would take final zeros off a string
        filled = np.concatenate([values, fill])
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        return (np.concatenate([indices, new])[order], filled[order], empty,
                places[: len(values)])

    return run


@kernel("SparseFillEmptyRowsGrad", device="CPU", fresh=True)
def _fill_empty_rows_grad(node: KernelNode) -> Callable:
    def run(places: Any, grad: Any) -> tuple:
        if places.ndim != 1 or grad.ndim != 1:
            raise invalid(f"expected two vectors, got {shown(places)} and {shown(grad)}")
        if np.any((places < 0) | (places >= len(grad))):
            raise invalid(f"Elements in reverse index must be in [0, {len(grad)}), got {places}")
        rest = np.ones(len(grad), bool)
        rest[places] = False
        return grad[places], grad[rest].sum(dtype=grad.dtype)

    return run
