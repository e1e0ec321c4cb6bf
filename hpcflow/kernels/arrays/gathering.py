"""Kernels of elements by index: Gather, GatherNd, ScatterNd, Where and OneHot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels import late_errors
from hpcflow.kernels.common.indices import check_rows, take_rows
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.math.segments import add_rows
from hpcflow.kernels.math.selection import where_of
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

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

    def run(params: Any, indices: Any) -> Any:
        if not params.ndim:
            raise invalid("params must be at least 1 dimensional")
        if not indices.ndim and 0 <= (place := int(indices)) < len(params):
            return params[place].copy() if params.ndim > 1 else params[place]
        try:
            places = _without_negatives(indices)
            # take() would first copy parameters that do not lie in order.
            if params.flags.c_contiguous:
                if indices.size * params.strides[0] >= tuning.GATHER_LARGE_BYTES:
                    return _take_rows(params, indices, places)
                return params.take(places, 0)
            return params[places].copy()
        except IndexError:
            check_rows(np, indices, len(params))
            raise

    return run


def _take_rows(params: Any, indices: Any, places: Any) -> Any:
    """``params.take(places, 0)`` in blocks, side by side; IndexError for what is out of range."""
    if int(places.max()) >= len(params):
        raise IndexError
    rows = take_rows(params, indices.reshape(-1))
    return rows.reshape(*indices.shape, *params.shape[1:])


_UNSIGNED = np.dtype(np.uint32)
_any_bits = np.bitwise_or.reduce


def _without_negatives(indices: Any) -> Any:
    """`indices` in a form in which no negative number passes for one that counts from the end.

    ``IndexError`` for negative ones. Those of int32 become too large when read as unsigned, which
    NumPy's own check finds.
    """
    if indices.itemsize == 4:
        return indices.view(_UNSIGNED)
    if (_any_bits(indices, None) if indices.ndim else indices) < 0:  # the sign bit of any
        raise IndexError
    return indices


@kernel("GatherV2", fresh=True, host_inputs=(2,))
@also_strings("GatherV2", type_attr="Tparams")
def gather_v2(node: KernelNode) -> Callable:
    """As Gather, along any axis, and by batches."""
    xp, batch, axis = node.xp, node.attr("batch_dims"), node.constant(2)
    if axis is not None and int(axis) == 0 and batch == 0:
        rows = _gather_rows(xp)
        return lambda params, indices, _: rows(params, indices)

    def run(params: Any, indices: Any, axis: Any) -> Any:
        if not -params.ndim <= axis < params.ndim:
            raise invalid(f"Expected axis in the range [{-params.ndim}, {params.ndim}), but got "
                          f"{int(axis)}")
        position = int(axis) % params.ndim
        shared = batch + indices.ndim if batch < 0 else batch
        if shared:
            _check_batch(params, indices, position, shared)
        check_rows(xp, indices, params.shape[position])
        if not shared:
            return xp.take(params, indices, axis=position)
        return _gather_in_batches(xp, params, indices, position, shared)

    return run


def _check_batch(params: Any, indices: Any, axis: int, batch: int) -> None:
    """InvalidArgumentError unless both have the same first `batch` dimensions, before the axis."""
    if not 0 <= batch <= min(axis, indices.ndim):
        raise invalid(f"batch_dims must be in the range [0, {min(axis, indices.ndim)}], of axis "
                      f"{axis} and indices of rank {indices.ndim}, but is {batch}")
    if params.shape[:batch] != indices.shape[:batch]:
        raise invalid(f"The first {batch} dimensions of params of shape {shown(params)} should be "
                      f"equal to those of indices of shape {shown(indices)}")


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


def _columns(indices: Any, rank: int, what: str) -> tuple:
    """The coordinates along each of the first dimensions of an array of `rank`."""
    depth = indices.shape[-1]
    if depth > rank:
        raise invalid(f"index innermost dimension length must be <= {what} rank; saw: {depth} vs. "
                      f"{rank}")
    return tuple([indices[..., i] for i in range(depth)])


def _check_coordinates(xp: Any, indices: Any, dims: tuple, what: str) -> None:
    """Raise for the first coordinates that do not lie within `dims`."""
    depth = indices.shape[-1]
    # As unsigned numbers the negative ones are the largest.
    unsigned = indices.view(np.dtype(f"u{indices.itemsize}"))
    if not indices.size:
        return

    def error() -> InvalidArgumentError:
        rows = indices.reshape(-1, depth)
        outside = ((rows < 0) | (rows >= xp.asarray(dims[:depth]))).any(axis=1)
        bad = int(xp.flatnonzero(outside)[0])
        place = [int(i) for i in np.unravel_index(bad, indices.shape[:-1] or (1,))]
        return invalid(f"indices{shown(place)} = {shown(rows[bad].tolist())} does not index into "
                       f"{what} shape {shown(dims)}")

    if xp is not np and all(dims[:depth]):
        late_errors.note(xp, (unsigned >= xp.asarray(dims[:depth])).any(), error)
    elif any(unsigned[..., i].max() >= dims[i] for i in range(depth)):
        raise error()


def _at(params: Any, columns: tuple) -> Any:
    """``params[columns]``: many elements, or rows, by one number each; IndexError where one is out
    of range."""
    depth = len(columns)
    if (depth < 2 or columns[0].size < tuning.GATHER_MANY or not params.flags.c_contiguous
            or not params.size):
        return params[columns]
    dims = params.shape[:depth]
    numbers = columns[0].astype(np.intp)
    for column, size in zip(columns, dims):
        if int(column.max()) >= size:
            raise IndexError
    for column, size in zip(columns[1:], dims[1:]):
        numbers *= size
        numbers += column
    return take_rows(params.reshape(math.prod(dims), *params.shape[depth:]), numbers.reshape(-1)
                     ).reshape(numbers.shape + params.shape[depth:])


@kernel("GatherNd", fresh=True)
@also_strings("GatherNd", type_attr="Tparams")
def gather_nd(node: KernelNode) -> Callable:
    """Elements or slices at coordinates, copied."""
    xp = node.xp

    def run(params: Any, indices: Any) -> Any:
        if not params.size and math.prod(indices.shape[:-1]):
            raise invalid(f"Requested more than 0 entries, but params is empty. Params shape: "
                          f"{shown(params)}")
        if not indices.shape[-1]:  # no coordinates: the whole, once for each
            return xp.broadcast_to(params, indices.shape[:-1] + params.shape).copy()
        columns = _columns(indices, params.ndim, "param")
        try:
            if xp is not np or _any_bits(indices, None) < 0:
                _check_coordinates(xp, indices, params.shape, "param")
            taken = _at(params, columns) if xp is np else params[columns]
        except IndexError:
            _check_coordinates(xp, indices, params.shape, "param")
            raise
        # A single slice is a view, everything else a copy already.
        return taken.copy() if indices.ndim == 1 and len(indices) < params.ndim else taken

    return run


@kernel("ScatterNd", fresh=True, host_inputs=(2,))
def scatter_nd(node: KernelNode) -> Callable:
    """Updates added up at coordinates in an array of zeros (strings: joined to empty ones)."""
    xp, dtype, known = node.xp, node.np_dtype(), node.constant(2)

    def run(indices: Any, updates: Any, dims: Any) -> Any:
        shape = tuple((dims if known is None else known).tolist())
        if dtype.kind == "O":
            updates = _as_strings(updates)
        if 0 in shape and indices.size and updates.size:
            raise invalid("Indices and updates specified for empty output. indices shape: "
                          f"{shown(indices)}")
        _check_updates(indices, updates, shape)
        depth = indices.shape[-1]
        size = (math.prod(shape[:depth]), math.prod(shape[depth:]))
        out = xp.full(size, b"", object) if dtype.kind == "O" else xp.zeros(size, dtype)
        _check_coordinates(xp, indices, shape, "output")
        numbers = _row_numbers(xp, indices, shape[:depth])
        rows = updates.reshape(numbers.size, out.shape[1])
        add_rows(xp, "add", out, numbers, rows)
        return out.reshape(shape)

    return run


def _as_strings(value: Any) -> np.ndarray:
    """An array of strings; a single one comes as it is."""
    if isinstance(value, np.ndarray):
        return value
    array = np.empty((), object)
    array[()] = value
    return array


def _row_numbers(xp: Any, indices: Any, dims: tuple) -> Any:
    """The row-major number of each place in an array of shape `dims`."""
    numbers = xp.zeros(math.prod(indices.shape[:-1]), np.int64)
    for i, size in enumerate(dims):
        numbers = numbers * size + indices[..., i].reshape(-1)
    return numbers


def _check_updates(indices: Any, updates: Any, shape: tuple) -> None:
    depth = indices.shape[-1]
    if depth > len(shape):
        raise invalid(f"index innermost dimension length must be <= output rank; saw: {depth} vs. "
                      f"{len(shape)}")
    if updates.shape != indices.shape[:-1] + shape[depth:]:
        raise invalid("Must have updates.shape = indices.shape[:-1] + shape[indices.shape[-1]:]: "
                      f"the outer {indices.ndim - 1} dimensions of indices.shape={shown(indices)} "
                      f"must match the outer {indices.ndim - 1} dimensions of updates.shape="
                      f"{shown(updates)}; got updates.shape: {shown(updates)}, indices.shape: "
                      f"{shown(indices)}, shape: {shown(shape)}")


# ---------------------------------------------------------------- Where, OneHot


@kernel("Where", fresh=True)
def where(node: KernelNode) -> Callable:
    """The coordinates of the true elements, one row each."""
    xp = node.xp

    def run(x: Any) -> Any:
        if not x.ndim:
            raise invalid("WhereOp : Unhandled input dimensions: 0")
        rest = xp.flatnonzero(x)
        out = xp.empty((len(rest), x.ndim), np.int64)
        for axis in range(x.ndim - 1, 0, -1):
            quotient = rest // x.shape[axis]
            out[:, axis] = rest - quotient * x.shape[axis]
            rest = quotient
        out[:, 0] = rest
        return out

    return run


@kernel("OneHot", fresh=True, host_inputs=(1,))
@also_strings("OneHot")
def one_hot(node: KernelNode) -> Callable:
    """A comparison with 0, 1, ..., depth-1 along the new axis; large results are filled instead."""
    xp, axis, dtype = node.xp, node.attr("axis"), node.np_dtype()
    depth, on, off = (node.constant(i) for i in (1, 2, 3))
    where = where_of(xp, dtype)
    plain = dtype.kind in "fiu" and on is not None and off is not None and on == 1 and off == 0
    dims, index_type = node.input_dims[0], node.input_dtypes[0].np
    fixed = None if depth is None or dims is None or depth > tuning.ONE_HOT_MOST_STEPS else (
        _steps(xp, int(depth), len(dims), axis, index_type))

    def run(indices: Any, depth: Any, on_value: Any, off_value: Any) -> Any:
        if xp is np and dtype.kind in "fiub" and -1 <= axis <= indices.ndim and (
                indices.size * int(depth) * dtype.itemsize >= tuning.GATHER_LARGE_BYTES):
            if axis in (-1, indices.ndim):
                return _marked(indices, int(depth), on_value, off_value, dtype)
            return _marked_inside(indices, int(depth), axis, on_value, off_value, dtype)
        steps, place = fixed or _steps(xp, int(depth), indices.ndim, axis, index_type)
        hit = indices[place] == steps
        if dtype.kind == "O":  # where() would take final zeros off a string
            out = np.empty(hit.shape, object)
            out[...] = off_value
            out[hit] = on_value
            return out
        return hit.astype(dtype) if plain else where(hit, on_value, off_value)

    return run


def _marked(indices: Any, depth: int, on_value: Any, off_value: Any, dtype: np.dtype) -> Any:
    """Rows of `depth` times `off_value`, with `on_value` where each of `indices` says."""
    numbers = indices.reshape(-1)
    values = array_loops.words(np.array([off_value, on_value], dtype))
    return array_loops.run_rows(
        _ONE_HOT, [numbers], [((numbers.size, depth), values.dtype)],
        lambda: array_loops.words(_marked_by_arrays(numbers, depth, on_value, off_value, dtype)),
        [values], least=0).view(dtype).reshape(*indices.shape, depth)


# Short rows are cleared many at a time, and marked while they are in the cache.
_ONE_HOT = """
def loop(numbers, values, rows):
    off, on = values[0], values[1]
    cells, count, depth = flat(rows), numbers.size, rows.shape[1]
    for first in range(0, count, 64):
        end = min(first + 64, count)
        for j in range(first * depth, end * depth):
            cells[j] = off
        for i in range(first, end):
            number = np.int64(numbers[i])
            if 0 <= number < depth:
                cells[i * depth + number] = on
"""


def _marked_by_arrays(numbers: Any, depth: int, on_value: Any, off_value: Any,
                      dtype: np.dtype) -> Any:
    out = np.empty((numbers.size, depth), dtype)

    def work(block: slice) -> None:
        rows, mine = out[block], numbers[block]
        rows[...] = off_value
        inside = np.flatnonzero((mine >= 0) & (mine < depth))
        rows[inside, mine[inside]] = on_value

    over_rows(numbers.size, depth * dtype.itemsize, work)
    return out


def _marked_inside(indices: Any, depth: int, axis: int, on_value: Any, off_value: Any,
                   dtype: np.dtype) -> Any:
    """As :func:`_marked`, with the new axis before others."""
    dims = indices.shape
    numbers = indices.reshape(-1, math.prod(dims[axis:]))
    out = memory.empty((len(numbers), depth, numbers.shape[1]), dtype)
    flat = out.reshape(-1)

    def clear(block: slice) -> None:
        flat[block] = off_value

    over_rows(flat.size, dtype.itemsize, clear)
    row, column = np.nonzero((numbers >= 0) & (numbers < depth))
    out[row, numbers[row, column], column] = on_value
    return out.reshape(*dims[:axis], depth, *dims[axis:])


def _steps(xp: Any, depth: int, rank: int, axis: int, dtype: Any) -> tuple[Any, tuple]:
    """0, 1, ..., depth-1 along the new axis, and the index that inserts a 1 there."""
    if depth < 0:
        raise invalid(f"depth must be non-negative, got: {depth}")
    fits = depth - 1 <= np.iinfo(dtype).max  # comparing equal types is quicker
    if not -1 <= axis <= rank:
        raise invalid(f"Expected axis to be -1 or between [0, {rank + 1}).  But received: {axis}")
    position = axis % (rank + 1)
    steps = xp.arange(depth, dtype=dtype if fits else np.int64)
    place = (slice(None),) * position + (None,)
    return steps.reshape((-1,) + (1,) * (rank - position)), place
