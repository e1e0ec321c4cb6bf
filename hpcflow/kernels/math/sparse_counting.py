"""Kernels that count numbers by rows: into rows of bins, or into sparse tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


def _rows_of_splits(splits: Any, values: Any) -> tuple[np.ndarray, int]:
    """The row of every value of a ragged tensor, and how many rows there are."""
    if np.ndim(splits) != 1 or not len(splits):
        raise invalid("splits must be a vector with an element at least, got shape "
                      f"{shown(np.shape(splits))}")
    if splits[0] != 0:
        raise invalid(f"Splits must start with 0, not with {splits[0]}")
    if splits[-1] != len(values):
        raise invalid(f"Splits must end with the number of values, got {splits[-1]} instead of "
                      f"{len(values)}")
    lengths = np.diff(splits)
    if (lengths < 0).any():
        raise invalid("Splits must not decrease")
    return np.repeat(np.arange(len(lengths)), lengths), len(lengths)


def _rows_of_places(indices: Any, values: Any, shape: Any) -> tuple[np.ndarray, int, int]:
    """The row of every value of a sparse tensor, how many there are, and the tensor's rank."""
    if np.ndim(indices) != 2 or np.ndim(values) != 1 or np.ndim(shape) != 1:
        raise invalid("a sparse tensor has a matrix of indices and vectors of values and sizes, "
                      f"got {shown(indices)}, {shown(values)} and {shown(shape)}")
    if len(indices) != len(values) or indices.shape[1] != len(shape):
        raise invalid(f"indices {shown(indices)} do not fit {len(values)} values and "
                      f"{len(shape)} dimensions")
    if not 1 <= len(shape) <= 2:
        raise invalid(f"the rank must be 1 or 2, got {len(shape)}")
    if (indices < 0).any() or (indices >= shape).any():
        raise invalid(f"an index lies outside of the shape {np.asarray(shape).tolist()}")
    if len(shape) == 1:
        return np.zeros(len(values), np.int64), 1, 1
    return indices[:, 0], int(shape[0]), 2


def _check(values: Any, weights: Any) -> None:
    if np.size(weights) and np.shape(weights) != np.shape(values):
        raise invalid(f"Weights and values must have the same shape. Weight shape: "
                      f"{shown(weights)}; values shape: {shown(values)}")
    if (values < 0).any():
        raise invalid("Input values must all be non-negative")


def _binned(rows: np.ndarray, count: int, values: Any, size: Any, weights: Any, binary: bool,
            dtype: Any) -> np.ndarray:
    """Rows of `size` bins: how many (or the sum of the weights) of the values fall in each."""
    if np.ndim(size):
        raise invalid(f"size must be a scalar, got shape {shown(np.shape(size))}")
    if size < 0:
        raise invalid(f"size ({size}) must be non-negative")
    _check(values, weights)
    out, kept = np.zeros((count, int(size)), dtype), values < size
    places = (rows[kept], values[kept])
    if binary:
        out[places] = 1
    else:
        np.add.at(out, places, weights[kept] if np.size(weights) else dtype.type(1))
    return out


@kernel("SparseBincount", device="CPU", fresh=True)
def _sparse_bincount(node: KernelNode) -> Callable:
    binary, dtype = bool(node.attr("binary_output")), node.np_dtype()

    def run(indices: Any, values: Any, shape: Any, size: Any, weights: Any) -> Any:
        rows, count, rank = _rows_of_places(indices, values, shape)
        if rank == 2 and np.size(weights) in (0, np.size(values)):  # as the reference: left out
            kept = values >= 0
            rows, values = rows[kept], values[kept]
            weights = weights[kept] if np.size(weights) else weights
        out = _binned(rows, count, values, size, weights, binary, dtype)
        return out if rank == 2 else out[0]

    return run


@kernel("RaggedBincount", device="CPU", fresh=True)
def _ragged_bincount(node: KernelNode) -> Callable:
    binary, dtype = bool(node.attr("binary_output")), node.np_dtype()

    def run(splits: Any, values: Any, size: Any, weights: Any) -> Any:
        rows, count = _rows_of_splits(splits, values)
        return _binned(rows, count, values, size, weights, binary, dtype)

    return run


# ---------------------------------------------------------------- as sparse tensors


def _counter(node: KernelNode) -> Callable:
    """``count(rows, number of rows, rank, values, weights)``: a sparse tensor by row and value."""
    least, most = node.attr("minlength"), node.attr("maxlength")
    binary, dtype = bool(node.attr("binary_output")), node.np_dtype(1)

    def count(rows: np.ndarray, height: int, rank: int, values: Any, weights: Any) -> tuple:
        _check(values, weights)
        kept = values < most if most >= 0 else np.ones(len(values), bool)
        places = np.stack([rows[kept], values[kept]], 1).astype(np.int64)
        found, which = np.unique(places, axis=0, return_inverse=True)
        totals = np.zeros(len(found), dtype)
        if binary:
            totals[:] = 1
        else:
            np.add.at(totals, which.reshape(-1),
                      weights[kept] if np.size(weights) else dtype.type(1))
        width = most if most >= 0 else max(int(found[:, 1].max(initial=0)) + 1, least)
        shape = np.array([height, width], np.int64)
        return found[:, 2 - rank :], totals, shape[2 - rank :]

    return count


@kernel("DenseCountSparseOutput", device="CPU", fresh=True)
def _dense_counts(node: KernelNode) -> Callable:
    count = _counter(node)

    def run(values: Any, weights: Any) -> tuple:
        rank = np.ndim(values)
        if not 1 <= rank <= 2:
            raise invalid(f"Input must be a 1 or 2-dimensional tensor. Got: {rank}")
        _check(values, weights)
        height, width = (1, len(values)) if rank == 1 else values.shape
        return count(np.repeat(np.arange(height), width), height, rank, np.ravel(values),
                     np.ravel(weights))

    return run


@kernel("SparseCountSparseOutput", device="CPU", fresh=True)
def _sparse_counts(node: KernelNode) -> Callable:
    count = _counter(node)

    def run(indices: Any, values: Any, shape: Any, weights: Any) -> tuple:
        return count(*_rows_of_places(indices, values, shape), values, weights)

    return run


@kernel("RaggedCountSparseOutput", device="CPU", fresh=True)
def _ragged_counts(node: KernelNode) -> Callable:
    count = _counter(node)

    def run(splits: Any, values: Any, weights: Any) -> tuple:
        return count(*_rows_of_splits(splits, values), 2, values, weights)

    return run
