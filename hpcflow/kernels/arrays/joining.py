"""Kernels that join and split tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import loops as tuning
from hpcflow.kernels.arrays.device_joining import joiner_of
from hpcflow.kernels.common.strings import also_strings, box
from hpcflow.kernels.registry import EVERY, KernelNode, invalid, kernel, shown
from hpcflow.loops import strided_copy

# ---------------------------------------------------------------- Pack, Unpack


@kernel("Pack", fresh=True)
def pack(node: KernelNode) -> Callable:
    """The inputs along a new dimension."""
    axis = node.attr("axis")
    if node.xp is not np:
        return _stacked(node, axis)
    array, concatenate = np.array, _concatenate(node)
    dims = node.output_dims[0]
    if axis == 0 and not _may_be_large(node) or dims is not None and len(dims) == 1:
        return lambda *values: _pack(array, values)
    place = _new_axis(axis)

    def run(*values: Any) -> Any:
        try:
            return concatenate([x[place] for x in values], axis)
        except (ValueError, IndexError):
            _same_shapes(values)
            raise _no_axis(axis, values[0].ndim) from None

    return run


def _stacked(node: KernelNode, axis: int) -> Callable:
    """The inputs along a new dimension, on a device."""
    stack = joiner_of(node.device).stack

    def run(*values: Any) -> Any:
        try:
            return stack(values, axis)
        except ValueError:
            _same_shapes(values)
            raise _no_axis(axis, values[0].ndim) from None

    return run


def _no_axis(axis: int, rank: int) -> Exception:
    return invalid(f"axis = {axis} not in [{-rank - 1}, {rank}]")


def _concatenate(node: KernelNode) -> Callable:
    """The function ``concatenate(values, axis, out)`` of a device."""
    return strided_copy.concatenate if node.xp is np else joiner_of(node.device).concatenate


def _may_be_large(node: KernelNode) -> bool:
    dims = node.static_dims(0)
    return dims is None or (
        len(node.input_dims) * math.prod(dims) * node.np_dtype().itemsize
        >= tuning.COPY_LARGE_BYTES)


def _new_axis(axis: int) -> tuple:
    """The index that inserts a dimension at `axis`, whatever the rank."""
    if axis >= 0:
        return (slice(None),) * axis + (None,)
    return (Ellipsis, None) + (slice(None),) * (-axis - 1)


@kernel("Pack", device="CPU", types={"T": ["string"]}, fresh=True)
def pack_strings(node: KernelNode) -> Callable:
    """As :func:`pack` for object arrays."""
    axis = node.attr("axis")
    return lambda *values: np.stack(_same_shapes(tuple(map(box, values))), axis)


def _pack(array: Callable, values: tuple) -> Any:
    """Making one array of a list is the quickest way, but its error does not name the shapes."""
    try:
        return array(values)
    except ValueError:
        _same_shapes(values)
        raise


def _same_shapes(values: tuple) -> tuple:
    first = values[0].shape
    for i, value in enumerate(values):
        if value.shape != first:
            raise invalid("Shapes of all inputs must match: values[0].shape = "
                          f"{shown(first)} != values[{i}].shape = {shown(value)}")
    return values


@kernel("Unpack")
@also_strings("Unpack")
def unpack(node: KernelNode) -> Callable:
    """Views of the slices along a dimension."""
    number, axis = node.attr("num"), node.attr("axis")
    if axis >= 0:
        places = [(slice(None),) * axis + (i,) for i in range(number)]
    else:
        places = [(Ellipsis, i) + (slice(None),) * (-axis - 1) for i in range(number)]
    along_rows = axis == 0

    def run(x: Any) -> Any:
        _check_unpack(x, axis, number)
        parts = tuple(x) if along_rows else tuple([x[place] for place in places])
        return parts[0] if number == 1 else parts

    return run


def _check_unpack(x: Any, axis: int, number: int) -> None:
    if not -x.ndim <= axis < x.ndim:
        raise invalid(f"axis = {axis} not in [{-x.ndim}, {x.ndim})")
    if x.shape[axis] != number:
        raise invalid(f"Input shape axis {axis} must equal {number}, got shape {shown(x)}")


# ---------------------------------------------------------------- Concat, ConcatV2, ConcatOffset


@kernel("ConcatV2", fresh=True, accepts_out=True)
def concat_v2(node: KernelNode) -> Callable:
    """The values (all inputs but the last) along the axis (the last)."""
    axis, concatenate = node.constant(len(node.input_dims) - 1), _concatenate(node)
    if axis is None:
        return lambda *inputs, out=None: _concat(concatenate, inputs[:-1], _number(inputs[-1]), out)
    position = _number(axis)

    def run(*inputs: Any, out: Any = None) -> Any:
        try:
            return concatenate(inputs[:-1], position, out)
        except (ValueError, IndexError):
            raise _not_joinable(inputs[:-1], position) from None

    return run


@kernel("Concat", fresh=True, accepts_out=True, host_inputs=(0,))
def concat(node: KernelNode) -> Callable:
    """The values along the axis, which comes first."""
    concatenate = _concatenate(node)
    return lambda axis, *values, out=None: _concat(concatenate, values, _number(axis), out)


@kernel("ParallelConcat", fresh=True, accepts_out=True)
def parallel_concat(node: KernelNode) -> Callable:
    """The values along the first axis."""
    concatenate = _concatenate(node)
    return lambda *values, out=None: _concat(concatenate, values, 0, out)


for _op_type, _factory in (("ConcatV2", concat_v2), ("Concat", concat),
                           ("ParallelConcat", parallel_concat)):
    also_strings(_op_type)(_factory)


def _number(axis: Any) -> int:
    """An axis, which may also be a vector of one element."""
    if np.size(axis) != 1 or np.ndim(axis) > 1:
        raise invalid("axis tensor should be a scalar integer (must have exactly one element), "
                      f"but got shape {list(np.shape(axis))}")
    return int(np.reshape(axis, ()))


def _concat(concatenate: Callable, values: tuple, axis: int, out: Any) -> Any:
    try:
        return concatenate(values, axis, out)
    except (ValueError, IndexError):
        raise _not_joinable(values, axis) from None


def _not_joinable(values: tuple, axis: int) -> Exception:
    first = values[0].shape
    if not -len(first) <= axis < len(first):
        return invalid(f"ConcatOp : Expected concatenating dimensions in the range "
                       f"[{-len(first)}, {len(first)}), but got {axis}")
    for i, value in enumerate(values):
        if len(value.shape) != len(first):
            return invalid("ConcatOp : Ranks of all input tensors should match: shape[0] = "
                           f"{shown(first)} vs. shape[{i}] = {shown(value)}")
        if any(a != b for k, (a, b) in enumerate(zip(first, value.shape))
               if k != axis % len(first)):
            return invalid("ConcatOp : Dimensions of inputs should match: shape[0] = "
                           f"{shown(first)} vs. shape[{i}] = {shown(value)}")
    return invalid(f"ConcatOp : cannot join along dimension {axis}")


@kernel("ConcatOffset", fresh=True, host_inputs=EVERY, host_outputs=EVERY)
def concat_offset(node: KernelNode) -> Callable:
    """Where each input starts in the concatenation: zeros but for the axis."""

    def run(axis: Any, *shapes: Any) -> tuple:
        position, start, offsets = _offset_axis(shapes[0], int(axis)), 0, []
        for i, shape in enumerate(shapes):
            _check_offset(shapes[0], shape, i, position)
            offset = np.zeros_like(shapes[0])
            offset[position] = start
            start += int(shape[position])
            offsets.append(offset)
        return tuple(offsets)

    return run


def _offset_axis(first: Any, axis: int) -> int:
    if first.ndim != 1:
        raise invalid(f"input 0 should be a vector, but has shape {shown(first)}")
    if not -len(first) <= axis < len(first):
        raise invalid(f"Concat dim is out of range: {axis} vs. {len(first)}")
    return axis % len(first)


def _check_offset(first: Any, shape: Any, number: int, axis: int) -> None:
    """All inputs have the shape of the first but for the axis."""
    if shape.shape != first.shape:
        raise invalid(f"input {number} should contain {len(first)} elements, but has shape "
                      f"{shown(shape)}")
    if any(a != b for i, (a, b) in enumerate(zip(first, shape)) if i != axis):
        raise invalid(f"All dimensions except {axis} must match. Input {number} has shape "
                      f"{_words(shape)} and doesn't match input 0 with shape {_words(first)}.")


def _words(shape: Any) -> str:
    """A shape that is a value, as errors show it: [2 3 5]."""
    return f"[{' '.join(map(str, shape.tolist()))}]"


# ---------------------------------------------------------------- Split, SplitV


@kernel("Split", host_inputs=(0,))
@also_strings("Split")
def split(node: KernelNode) -> Callable:
    """Views of equal parts."""
    number, axis, dims = node.attr("num_split"), node.constant(0), node.static_dims(1)
    if number == 1:
        return lambda axis, x: x if _checked_axis(x.shape, int(axis)) >= 0 else None
    if axis is not None and dims is not None:
        indices = _equal_parts(dims, int(axis), number)
        return lambda _, x: tuple([x[index] for index in indices])
    return lambda axis, x: tuple([x[index] for index in _equal_parts(x.shape, int(axis), number)])


def _equal_parts(dims: tuple, axis: int, number: int) -> list[tuple]:
    position = _checked_axis(dims, axis)
    size, rest = divmod(dims[position], number)
    if rest:
        raise invalid("Number of ways to split should evenly divide the split dimension, but got "
                      f"split_dim {axis} (size = {dims[position]}) and num_split {number}")
    return _parts(position, [size] * number)


def _checked_axis(dims: tuple, axis: int) -> int:
    if not -len(dims) <= axis < len(dims):
        raise invalid(f"-input rank(-{len(dims)}) <= split_dim < input rank ({len(dims)}), but got "
                      f"{axis}")
    return axis % len(dims)


def _parts(axis: int, sizes: list[int]) -> list[tuple]:
    """The index of each part along `axis`."""
    before: tuple = (slice(None),) * axis
    start, indices = 0, []
    for size in sizes:
        indices.append((*before, slice(start, start + size)))
        start += size
    return indices


@kernel("SplitV", host_inputs=(1, 2))
@also_strings("SplitV")
def split_v(node: KernelNode) -> Callable:
    """Views of parts of the given sizes."""
    sizes, axis, dims = node.constant(1), node.constant(2), node.static_dims(0)
    if len(node.output_dtypes) == 1:
        return lambda x, sizes, axis: x[_sized_parts(x.shape, sizes.tolist(), _number(axis))[0]]
    if sizes is not None and axis is not None and dims is not None:
        indices = _sized_parts(dims, sizes.tolist(), _number(axis))
        return lambda x, *_: tuple([x[index] for index in indices])
    return lambda x, sizes, axis: tuple([
        x[index] for index in _sized_parts(x.shape, sizes.tolist(), _number(axis))])


def _sized_parts(dims: tuple, sizes: list[int], axis: int) -> list[tuple]:
    position = _checked_axis(dims, axis)
    total, rest = dims[position], sum(s for s in sizes if s >= 0)
    fits = rest <= total if sizes.count(-1) == 1 else rest == total
    if not fits or any(s < -1 for s in sizes) or sizes.count(-1) > 1:
        raise invalid("Determined shape must either match input shape along split_dim exactly if "
                      f"fully specified, or be less than it. Got sizes {sizes} for dimension "
                      f"{axis} of size {total}")
    return _parts(position, [total - rest if s == -1 else s for s in sizes])
