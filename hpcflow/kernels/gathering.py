"""Kernels of elements by index: Gather, GatherNd, ScatterNd, Where and OneHot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.indices import check_rows
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.strings import also_strings

# ---------------------------------------------------------------- Gather


@kernel("Gather", fresh=True)
@also_strings("Gather", type_attr="Tparams")
def gather(node: KernelNode) -> Callable:
    """Rows, copied."""
    return _gather_rows(node.xp)


def _gather_rows(xp: Any) -> Callable:
    if xp is not np:

        def run_anywhere(params: Any, indices: Any) -> Any:
            check_rows(xp, indices, params.shape[0])
            return params[indices]

        return run_anywhere
    any_bits = np.bitwise_or.reduce

    def run(params: Any, indices: Any) -> Any:
        # The sign bit of the union says whether any is negative; take() checks the upper bound.
        if any_bits(indices, None) < 0:
            check_rows(np, indices, len(params))
        try:
            # take() would first copy parameters that do not lie in order.
            if params.flags.c_contiguous:
                return params.take(indices, 0)
            return params[indices].copy()
        except IndexError:
            check_rows(np, indices, len(params))
            raise

    return run


@kernel("GatherV2", fresh=True, host_inputs=(2,))
@also_strings("GatherV2", type_attr="Tparams")
def gather_v2(node: KernelNode) -> Callable:
    """As Gather, along any axis, and by batches."""
    xp, batch, axis = node.xp, node.attr("batch_dims"), node.constant(2)
    if axis is not None and int(axis) == 0 and batch == 0:
        rows = _gather_rows(xp)
        return lambda params, indices, _: rows(params, indices)

    def run(params: Any, indices: Any, axis: Any) -> Any:
        position = int(axis) % params.ndim
        check_rows(xp, indices, params.shape[position])
        shared = batch + indices.ndim if batch < 0 else batch
        if not shared:
            return xp.take(params, indices, axis=position)
        return _gather_in_batches(xp, params, indices, position, shared)

    return run


def _gather_in_batches(xp: Any, params: Any, indices: Any, axis: int, batch: int) -> Any:
    """One gather for each place in the first `batch` dimensions, in one indexing."""
    moved = xp.moveaxis(params, axis, batch)
    grids = [xp.arange(n).reshape((-1,) + (1,) * (indices.ndim - 1 - i))
             for i, n in enumerate(indices.shape[:batch])]
    taken = moved[tuple(grids) + (indices,)]
    if axis == batch:
        return taken
    # The dimensions between the batch and the axis belong before those of the indices.
    first = indices.ndim
    between = tuple(range(first, first + axis - batch))
    return xp.moveaxis(taken, between, tuple(range(batch, batch + len(between))))


# ---------------------------------------------------------------- GatherNd, ScatterNd


def _coordinates(xp: Any, indices: Any, dims: tuple, what: str) -> tuple:
    """The columns of `indices` as an index, checked against `dims`."""
    depth = indices.shape[-1]
    if depth > len(dims):
        raise invalid(f"index innermost dimension length must be <= {what} rank; saw: {depth} vs. "
                      f"{len(dims)}")
    columns = tuple([indices[..., i] for i in range(depth)])
    for column, size in zip(columns, dims):
        outside = (column < 0) | (column >= size)
        if outside.any():
            raise _not_in(xp, indices, dims, what)
    return columns


def _not_in(xp: Any, indices: Any, dims: tuple, what: str) -> Exception:
    rows = indices.reshape(-1, indices.shape[-1])
    limits = xp.asarray(dims[: indices.shape[-1]])
    bad = int(xp.flatnonzero(((rows < 0) | (rows >= limits)).any(axis=1))[0])
    place = [int(i) for i in np.unravel_index(bad, indices.shape[:-1] or (1,))]
    return invalid(f"indices{place} = {rows[bad].tolist()} does not index into {what} shape "
                   f"{list(dims)}")


@kernel("GatherNd", fresh=True)
@also_strings("GatherNd", type_attr="Tparams")
def gather_nd(node: KernelNode) -> Callable:
    """Elements or slices at coordinates, copied."""
    xp = node.xp

    def run(params: Any, indices: Any) -> Any:
        if not indices.shape[-1]:  # no coordinates: the whole, once for each
            return xp.broadcast_to(params, indices.shape[:-1] + params.shape).copy()
        taken = params[_coordinates(xp, indices, params.shape, "param")]
        # A single slice is a view, everything else a copy already.
        return taken.copy() if indices.ndim == 1 and len(indices) < params.ndim else taken

    return run


@kernel("ScatterNd", fresh=True, host_inputs=(2,))
def scatter_nd(node: KernelNode) -> Callable:
    """Updates added up at coordinates in an array of zeros."""
    xp, dtype, known = node.xp, node.np_dtype(), node.constant(2)

    def run(indices: Any, updates: Any, dims: Any) -> Any:
        shape = tuple((dims if known is None else known).tolist())
        depth = indices.shape[-1]
        _check_updates(indices, updates, shape)
        out = xp.zeros(shape, dtype)
        if not depth:
            out += updates.reshape(-1, *shape).sum(0, dtype)
            return out
        columns = _coordinates(xp, indices, shape, "output")
        rows = out.reshape((math.prod(shape[:depth]), *shape[depth:]))
        number = np.ravel_multi_index if xp is np else _number
        xp.add.at(rows, number(columns, shape[:depth]), updates)
        return out

    return run


def _number(columns: tuple, dims: tuple) -> Any:
    """The row-major number of each place."""
    number = 0
    for column, size in zip(columns, dims):
        number = number * size + column
    return number


def _check_updates(indices: Any, updates: Any, shape: tuple) -> None:
    wanted = indices.shape[:-1] + shape[indices.shape[-1] :]
    if updates.shape != wanted:
        raise invalid(f"Must have updates.shape = indices.shape[:-1] + shape[indices.shape[-1]:], "
                      f"got updates.shape: {list(updates.shape)}, indices.shape: "
                      f"{list(indices.shape)}, shape: {list(shape)}")


# ---------------------------------------------------------------- Where, OneHot


@kernel("Where", fresh=True)
def where(node: KernelNode) -> Callable:
    """The coordinates of the true elements, one row each."""
    argwhere = node.xp.argwhere

    def run(x: Any) -> Any:
        if not x.ndim:
            raise invalid("WhereOp : Unhandled input dimensions: 0")
        return argwhere(x)

    return run


@kernel("OneHot", fresh=True, host_inputs=(1,))
@also_strings("OneHot")
def one_hot(node: KernelNode) -> Callable:
    """A comparison with 0, 1, ..., depth-1 along the new axis."""
    xp, axis, dtype = node.xp, node.attr("axis"), node.np_dtype()
    depth, on, off = (node.constant(i) for i in (1, 2, 3))
    plain = dtype.kind in "fiu" and on is not None and off is not None and on == 1 and off == 0
    dims = node.input_dims[0]
    fixed = None if depth is None or dims is None else _steps(xp, int(depth), len(dims), axis)

    def run(indices: Any, depth: Any, on_value: Any, off_value: Any) -> Any:
        steps, shape = fixed or _steps(xp, int(depth), indices.ndim, axis)
        hit = indices.reshape(shape(indices.shape)) == steps
        return hit.astype(dtype) if plain else xp.where(hit, on_value, off_value)

    return run


def _steps(xp: Any, depth: int, rank: int, axis: int) -> tuple[Any, Callable]:
    """0, 1, ..., depth-1 along the new axis, and the function that inserts a 1 there."""
    if depth < 0:
        raise invalid(f"depth must be non-negative, got: {depth}")
    position = axis % (rank + 1)
    steps = xp.arange(depth).reshape((-1,) + (1,) * (rank - position))
    return steps, lambda dims: dims[:position] + (1,) + dims[position:]
