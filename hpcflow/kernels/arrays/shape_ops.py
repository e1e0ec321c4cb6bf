"""Kernels of shapes as values and of changes of shape alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.registry import EVERY, KernelNode, invalid, kernel, shown
from hpcflow.loops import compiling
from hpcflow.shapes import TensorShape, format_shape

# ---------------------------------------------------------------- Shape, ShapeN, Rank, Size


@kernel("Shape", host_outputs=(0,))
@also_strings("Shape")
def shape(node: KernelNode) -> Callable:
    """The dims as an array; one constant array where they are static."""
    dims, dtype, array = node.static_dims(0), node.np_dtype(), np.array
    if dims is not None:
        value = array(dims, dtype)
        value.flags.writeable = False
        return lambda x: value
    return lambda x: array(x.shape, dtype)


@kernel("ShapeN", host_outputs=EVERY)
@also_strings("ShapeN")
def shape_n(node: KernelNode) -> Callable:
    """The dims of each input."""
    dtype, array = node.np_dtype(), np.array
    if len(node.output_dtypes) == 1:
        return lambda x: array(x.shape, dtype)
    return lambda *inputs: tuple([array(x.shape, dtype) for x in inputs])


@kernel("Rank", host_outputs=(0,))
@also_strings("Rank")
def rank(node: KernelNode) -> Callable:
    """The number of dimensions."""
    return lambda x: np.int32(x.ndim)


@kernel("Size", host_outputs=(0,))
@also_strings("Size")
def size(node: KernelNode) -> Callable:
    """The number of elements."""
    number = node.np_dtype().type
    return lambda x: number(x.size)


# ---------------------------------------------------------------- Reshape, ExpandDims, Squeeze


@kernel("Reshape", host_inputs=(1,))
@also_strings("Reshape")
def reshape(node: KernelNode) -> Callable:
    """A view where the elements lie in order, else a copy."""
    target = node.constant(1)
    if target is None:
        return lambda x, shape: _reshape(x, _requested(shape.tolist()))
    dims = tuple(_requested(target.tolist()))
    if not dims:
        return lambda x, _: _reshape(x, [])[()]

    def run(x: Any, _: Any) -> Any:
        try:
            return x.reshape(dims)
        except ValueError:
            return _reshape(x, list(dims))

    return run


def _requested(dims: Any) -> list:
    """`dims` checked: NumPy would take any negative number for a -1."""
    if not isinstance(dims, list) or dims and isinstance(dims[0], list):
        raise invalid(f"sizes input must be 1-D, not {shown(np.array(dims))}")
    if dims and min(dims) < -1:
        raise invalid(f"the sizes may hold one -1 and otherwise no negative number, got {dims}")
    return dims


def _reshape(x: Any, dims: list) -> Any:
    try:
        return x.reshape(dims)
    except ValueError:
        return x.reshape(_corrected(x, dims))


def _corrected(x: Any, dims: list) -> list:
    """`dims` with the -1 that NumPy does not infer for an empty array; raises where none fits."""
    if dims.count(-1) > 1:
        raise invalid(f"Only one input size may be -1, got {dims}")
    count = math.prod(d for d in dims if d >= 0)
    if x.size == 0 and count == 0:
        # Zeros on both sides left out, the missing size is what makes the rest equal.
        known = math.prod(d for d in dims if d > 0)
        missing, rest = divmod(math.prod(d for d in x.shape if d > 0), known)
        if not rest:
            return [missing if d == -1 else d for d in dims]
    what = "requires a multiple of" if -1 in dims else "has"
    raise invalid(f"Input to reshape is a tensor with {x.size} values, but the requested shape "
                  f"{what} {count}: {dims}")


@kernel("ExpandDims", host_inputs=(1,))
@also_strings("ExpandDims")
def expand_dims(node: KernelNode) -> Callable:
    """A view with one more dimension."""
    axis, dims, xp = node.constant(1), node.input_dims[0], node.xp
    if axis is None or dims is None:
        return lambda x, axis: _expand(x, _only_number(axis))
    position = _only_number(axis)
    if not -len(dims) - 1 <= position <= len(dims):
        return lambda x, _: _expand(x, position)  # which says so
    index = (slice(None),) * (position % (len(dims) + 1)) + (None,)
    if not dims:  # a NumPy scalar has no such index
        return lambda x, _: xp.asarray(x)[index]
    return lambda x, _: x[index]


def _only_number(axis: Any) -> int:
    if axis.size != 1:
        raise invalid(f"'dim' must be a tensor with a single value, got shape {shown(axis)}")
    return int(axis.item())


def _expand(x: Any, axis: int) -> Any:
    rank = x.ndim
    if not -rank - 1 <= axis <= rank:
        raise invalid(f"Tried to expand dim index {axis} for tensor with {rank} dimensions.")
    position = axis % (rank + 1)
    return x.reshape(x.shape[:position] + (1,) + x.shape[position:])


@kernel("Squeeze")
@also_strings("Squeeze")
def squeeze(node: KernelNode) -> Callable:
    """A view without dimensions of size 1."""
    axes, target = node.attr("squeeze_dims"), node.output_dims[0]
    if target is not None and None not in target and node.static_dims(0) is not None:
        return (lambda x: x.reshape(target)) if target else (lambda x: x.reshape(target)[()])
    if not axes:
        return lambda x: x.squeeze()
    axes = tuple(axes)
    return lambda x: _squeeze(x, axes)


def _squeeze(x: Any, axes: tuple) -> Any:
    for axis in axes:
        if not -x.ndim <= axis < x.ndim:
            raise invalid(f"Tried to squeeze dim index {axis} for tensor with {x.ndim} dimensions.")
        if x.shape[axis] != 1:
            raise invalid(f"Can not squeeze dim[{axis % x.ndim}], expected a dimension of 1, got "
                          f"{x.shape[axis]}")
    return x.squeeze(tuple({a % x.ndim for a in axes}))


# ---------------------------------------------------------------- Bitcast


@kernel("Bitcast")
def bitcast(node: KernelNode) -> Callable:
    """A view of the same bytes."""
    xp, new = node.xp, node.np_dtype()

    def run(x: Any) -> Any:
        old = x.dtype.itemsize
        if old < new.itemsize:
            if not x.ndim or x.shape[-1] * old != new.itemsize:
                raise invalid(f"Cannot bitcast {x.dtype} of shape {shown(x)} to {new}")
            return xp.ascontiguousarray(x).view(new).reshape(x.shape[:-1])
        # A new last dimension holds the parts of each element.
        parts = x.shape if old == new.itemsize else (*x.shape, old // new.itemsize)
        return xp.ascontiguousarray(x).view(new).reshape(parts)

    return run


# ---------------------------------------------------------------- shapes of broadcasts


@kernel("BroadcastArgs", host_inputs=(0, 1), host_outputs=(0,))
def broadcast_args(node: KernelNode) -> Callable:
    """The shape of an element-wise result."""
    dtype = node.np_dtype()

    def run(a: Any, b: Any) -> Any:
        x, y = a.tolist(), b.tolist()
        try:
            return np.array(np.broadcast_shapes(tuple(x), tuple(y)), dtype)
        except ValueError:
            raise _incompatible(x, y) from None

    return run


def _incompatible(x: list, y: list) -> Exception:
    return invalid(f"Incompatible shapes: {shown(x)} vs. {shown(y)}")


@kernel("BroadcastGradientArgs", fresh=True, host_inputs=(0, 1), host_outputs=(0, 1))
def broadcast_gradient_args(node: KernelNode) -> Callable:
    """For each operand the dimensions along which it was repeated."""
    dtype = node.np_dtype()

    def run(a: Any, b: Any) -> tuple:
        x, y = _reductions(a.tolist(), b.tolist())
        return np.array(x, dtype), np.array(y, dtype)

    return run


def _reductions(x: list, y: list) -> tuple[list, list]:
    """The axes (of the broadcast shape) along which `x` and `y` are repeated.

    A dimension that is 1 in both is listed for both: its sum is the same, and the reshape that
    follows restores it.
    """
    if x == y:
        return [], []
    rank = max(len(x), len(y))
    a = [1] * (rank - len(x)) + x
    b = [1] * (rank - len(y)) + y
    reduce_a, reduce_b = [], []
    for axis, (p, q) in enumerate(zip(a, b)):
        if p != q and p != 1 and q != 1:
            raise _incompatible(x, y)
        if p == 1:
            reduce_a.append(axis)
        if q == 1:
            reduce_b.append(axis)
    return reduce_a, reduce_b


@kernel("InvertPermutation", fresh=True, host_inputs=(0,), host_outputs=(0,))
def invert_permutation(node: KernelNode) -> Callable:
    """``y[x[i]] = i``, after a check that `x` is a permutation."""
    dtype = node.np_dtype()

    def run(x: Any) -> Any:
        if x.ndim != 1:
            raise invalid(f"invert_permutation expects a 1D vector, got shape {shown(x)}")
        found = array_loops.find(_INVERSE, [x], [(1, dtype)])
        if found is not None and found.function is not None:
            y = np.full(len(x), -1, dtype)
            if found.function(x, y):
                return y
        return compiling.timed(found, lambda: by_arrays(x))

    def by_arrays(x: Any) -> Any:
        count = len(x)
        outside = (x < 0) | (x >= count)
        if outside.any():
            raise invalid(f"{x[outside][0]} is not between 0 and {count}")
        y = np.full(count, -1, dtype)
        y[x] = np.arange(count, dtype=dtype)
        if (y < 0).any():
            twice = np.flatnonzero(np.bincount(x, minlength=count) > 1)[0]
            raise invalid(f"{twice} is duplicated in the input.")
        return y

    return run


# False where a number is out of range, or comes twice.
_INVERSE = """
def loop(x, y):
    for i in range(x.size):
        place = np.int64(x[i])
        if place < 0 or place >= y.size or y[np.uint64(place)] != -1:
            return False
        y[np.uint64(place)] = i
    return True
"""


@kernel("EnsureShape")
def _ensure_shape(node: KernelNode) -> Any:
    wanted = node.attr("shape")
    name = "" if node.op is None else f"{node.op.inputs[0].op.name} "

    def run(x: Any) -> Any:
        shape = getattr(x, "shape", ())
        if not wanted.is_compatible_with(TensorShape(shape)):
            raise invalid(f"Shape of tensor {name}{shown(shape)} is not compatible with expected "
                          f"shape {format_shape(wanted)}.")
        return x

    return run
