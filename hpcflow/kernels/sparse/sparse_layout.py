"""Kernels that give sparse tensors another form: dense, in order, reshaped, joined, split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels import late_errors
from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import flat_positions
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.sparse_places import (
    check_parts,
    check_within,
    dense_size,
    element_count,
    flat_places,
    keys_of,
    keys_of_any,
    order_of,
    strides_of,
)
from hpcflow.kernels.widening import NATIVE


@kernel("SparseToDense", device="CPU", fresh=True)
def _to_dense(node: KernelNode) -> Callable:
    validate = node.attr("validate_indices", True)

    def run(indices: Any, shape: Any, values: Any, default: Any) -> Any:
        places, values = _matrix(indices, shape), np.asarray(values, node.np_dtype())
        dims = _dense_dims(shape, places, values, default)
        check_within(places, shape, "sparse_")
        keys = flat_places(places, shape)
        if validate:
            _check_order(keys, places)
        out = np.empty(dims, node.np_dtype())
        out[...] = default
        out.reshape(-1)[keys] = values
        return out

    return run


def _dense_dims(shape: Any, places: Any, values: Any, default: Any) -> tuple[int, ...]:
    """The dims of the result, if the inputs fit together."""
    if values.ndim > 1 or (values.ndim == 1 and len(values) != len(places)):
        raise invalid(f"sparse_values has incorrect shape {shown(values)}, should be [] or "
                      f"[{len(places)}]")
    if np.ndim(default):
        raise invalid(f"default_value should be a scalar, but has the shape {shown(default)}")
    return dense_size(shape)


@kernel("SparseToDense", device="GPU", fresh=True, host_inputs=(1,),
        types={"T": [*NATIVE, "bfloat16"]})
def _to_dense_there(node: KernelNode) -> Callable:
    """On the device, which notes places that are wrong."""
    xp, dtype, validate = node.xp, node.np_dtype(), node.attr("validate_indices", True)

    def run(indices: Any, shape: Any, values: Any, default: Any) -> Any:
        places = _matrix(indices, shape)
        dims = _dense_dims(shape, places, values, default)
        keys = flat_positions(xp, places, dims)
        if validate and len(places) > 1:
            late_errors.note(xp, (keys[1:] <= keys[:-1]).any(), lambda: _order_error(
                node.device.to_host(keys), node.device.to_host(places)))
        out = xp.empty(dims, dtype)
        out[...] = default
        if out.size and len(places):
            repeated_rows.put(xp, out.reshape(-1), keys, xp.ascontiguousarray(
                xp.broadcast_to(values, keys.shape)))
        return out

    return run


def _matrix(indices: Any, shape: Any) -> Any:
    """Places as a matrix: a scalar or vector holds places of a vector."""
    if indices.ndim > 2:
        raise invalid("sparse_indices must be a scalar, vector or matrix, but have shape "
                      f"{shown(indices)}")
    if shape.ndim != 1:
        raise invalid(f"output_shape should be a vector, but has the shape {shown(shape)}")
    places = indices if indices.ndim == 2 else indices.reshape(-1, 1)
    if places.shape[1] != len(shape):
        raise invalid("output_shape has incorrect number of elements: "
                      f"{len(shape)} should be: {places.shape[1]}, as many as sparse_indices gives "
                      "for each place")
    return places.astype(np.int64, copy=False)


def _check_order(keys: Any, places: Any) -> None:
    if (keys[1:] <= keys[:-1]).any():
        raise _order_error(keys, places)


def _order_error(keys: Any, places: Any) -> InvalidArgumentError:
    row = int(np.flatnonzero(keys[1:] <= keys[:-1])[0]) + 1
    how = "is repeated" if keys[row] == keys[row - 1] else "is out of order"
    return invalid(f"indices[{row}] = {shown(places[row].tolist())} {how}")


@kernel("SparseReorder", device="CPU")
def _reorder(node: KernelNode) -> Callable:
    def run(indices: Any, values: Any, shape: Any) -> tuple:
        check_parts(indices, values, shape, "input_")
        order = order_of(keys_of_any(indices, shape))
        return (indices, values) if order is None else (indices[order], values[order])

    return run


@kernel("SparseReshape", device="CPU")
def _reshape(node: KernelNode) -> Callable:
    def run(indices: Any, shape: Any, new_shape: Any) -> tuple:
        if indices.ndim != 2 or shape.ndim != 1 or indices.shape[1] != len(shape):
            raise invalid(f"input_indices of shape {shown(indices)} do not fit input_shape "
                          f"of shape {shown(shape)}")
        if new_shape.ndim != 1:
            raise invalid(f"new_shape must be a vector, but has shape {shown(new_shape)}")
        target = _completed(shape, new_shape)
        check_within(indices, shape, "input_")
        if np.array_equal(shape, target):
            return indices, target
        rest = flat_places(indices, shape)
        out = np.empty((len(indices), len(target)), np.int64)
        for i, stride in enumerate(strides_of(target)):  # one pass for each dimension
            np.floor_divide(rest, stride, out=out[:, i])
            rest = rest - out[:, i] * stride
        return out, target

    return run


def _completed(shape: Any, wanted: Any) -> Any:
    """`wanted` with its -1 filled in, checked to have the size of `shape`."""
    target, size = wanted.astype(np.int64), element_count(shape)
    if size > np.iinfo(np.int64).max:
        raise invalid(f"a tensor of shape {shape.tolist()} has too many elements")
    unknown = np.flatnonzero(target == -1)
    if len(unknown) > 1:
        raise invalid("only one output dimension may be -1, not both "
                      f"{unknown[0]} and {unknown[1]}")
    if (target < -1).any():
        raise invalid(f"new_shape {wanted.tolist()} has a negative size")
    if len(unknown):
        known = element_count(np.delete(target, unknown[0]))
        if known == 0 or size % known:
            raise invalid(f"Input to reshape is a SparseTensor with {size} dense values, but the "
                          f"requested shape requires a multiple of {known}. input_shape="
                          f"{shown(shape.tolist())} output_shape={shown(wanted.tolist())}")
        target[unknown[0]] = size // known
    if element_count(target) != size:
        raise invalid(f"Input to reshape is a tensor with {size} dense values, but the requested "
                      f"shape has {element_count(target)}. input_shape={shown(shape.tolist())} "
                      f"output_shape={shown(wanted.tolist())}")
    return target


@kernel("SparseConcat", device="CPU", fresh=True)
def _concat(node: KernelNode) -> Callable:
    count, wanted = node.attr("N"), node.attr("concat_dim")

    def run(*parts: Any) -> tuple:
        tables, values, shapes = (parts[i * count:(i + 1) * count] for i in range(3))
        for i, (t, v, s) in enumerate(zip(tables, values, shapes)):
            check_parts(t, v, s, f"input {i}: ")
        axis = _checked_axis(wanted, shapes)
        for i, (t, s) in enumerate(zip(tables, shapes)):
            check_within(t, s, f"input {i}: ")
        shape = shapes[0].copy()
        shape[axis] = sum(int(s[axis]) for s in shapes)
        indices = np.concatenate(tables)
        starts = np.cumsum([0, *[int(s[axis]) for s in shapes[:-1]]])
        indices[:, axis] += np.repeat(starts, [len(t) for t in tables])
        joined = np.concatenate(values)
        order = order_of(keys_of(indices, shape))
        return (indices, joined, shape) if order is None else (
            indices[order], joined[order], shape)

    return run


def _checked_axis(wanted: int, shapes: Any) -> int:
    """The axis from the front; the shapes must agree in all others."""
    rank = len(shapes[0])
    if not -rank <= wanted < rank:
        raise invalid(f"concat_dim must be in [{-rank}, {rank}), got {wanted}")
    axis = wanted % rank
    first = np.delete(shapes[0], axis)
    for i, other in enumerate(shapes):
        if len(other) != rank or not np.array_equal(np.delete(other, axis), first):
            raise invalid(f"Input shapes must match except along dimension {axis}: "
                          f"{shown(shapes[0].tolist())} and {shown(other.tolist())} (input {i})")
    return axis


@kernel("SparseSplit", device="CPU", fresh=True)
def _split(node: KernelNode) -> Callable:
    count = node.attr("num_split")

    def run(axis: Any, indices: Any, values: Any, shape: Any) -> tuple:
        axis = int(axis)
        check_parts(indices, values, shape)
        if not -len(shape) <= axis < len(shape):
            raise invalid(f"Input split_dim should be between rank (-{len(shape)} and "
                          f"{len(shape)}), got {axis}")
        axis %= len(shape)
        size = int(shape[axis])
        if not 0 < count <= size:
            raise invalid(f"num_split must be in [1, {size}], got {count}")
        check_within(indices, shape)
        each, larger = divmod(size, count)
        sizes = np.full(count, each)
        sizes[:larger] += 1
        starts = np.concatenate([[0], np.cumsum(sizes)])
        owner = np.searchsorted(starts, indices[:, axis], side="right") - 1
        order = np.argsort(owner, kind="stable")
        cuts = np.cumsum(np.bincount(owner, minlength=count))[:-1]
        moved = indices[order]
        moved[:, axis] -= starts[owner[order]]
        shapes = np.repeat(shape[None], count, axis=0)
        shapes[:, axis] = sizes
        return (*np.split(moved, cuts), *np.split(values[order], cuts), *shapes)

    return run
