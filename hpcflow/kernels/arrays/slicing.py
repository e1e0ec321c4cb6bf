"""Kernels of Slice, StridedSlice, its gradient and its assignment: views by index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.base.geometry.strided import SHRINK, Masks, strided_index
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.resources.variables import VariableState

# ---------------------------------------------------------------- Slice


@kernel("Slice", host_inputs=(1, 2))
@also_strings("Slice")
def slice_(node: KernelNode) -> Callable:
    """A view; where all is known there is nothing left to check."""
    begin, size, dims = node.constant(1), node.constant(2), node.static_dims(0)
    if begin is None or size is None:
        return lambda x, begin, size: x[_slice_index(x.shape, begin.tolist(), size.tolist())]
    first, count = begin.tolist(), size.tolist()
    if dims is not None:
        index = _slice_index(dims, first, count)
        return lambda x, *_: x[index]
    return lambda x, *_: x[_slice_index(x.shape, first, count)]


def _slice_index(dims: tuple, begin: list, size: list) -> tuple:
    if not len(begin) == len(size) == len(dims):
        raise invalid(f"Expected begin and size arguments to be 1-D tensors of size {len(dims)}, "
                      f"but got shapes [{len(begin)}] and [{len(size)}] instead.")
    index = []
    for i, (dim, first, count) in enumerate(zip(dims, begin, size)):
        end = dim if count == -1 else first + count
        if not 0 <= first <= dim:
            raise invalid(f"Expected begin[{i}] in [0, {dim}], but got {first}")
        if not first <= end <= dim:
            raise invalid(f"Expected size[{i}] in [0, {dim - first}], but got {count}")
        index.append(slice(first, end))
    return tuple(index)


# ---------------------------------------------------------------- StridedSlice


def _index_maker(node: KernelNode, first: int) -> Callable:
    """A function of begin, end and strides (inputs `first`, ...) that returns the index.

    It is computed once where the three are known.
    """
    masks = Masks.of(node.attrs)
    known = [node.constant(first + i) for i in range(3)]
    if all(v is not None for v in known):
        index = strided_index(masks, *(v.tolist() for v in known))  # type: ignore[union-attr]
        return lambda begin, end, strides: index

    def make(begin: Any, end: Any, strides: Any) -> tuple:
        try:
            return strided_index(masks, begin.tolist(), end.tolist(), strides.tolist())
        except ValueError as e:
            raise invalid(str(e)) from None

    if node.input_dims[first] == (1,) and masks.kinds(1) == [SHRINK]:
        # The common x[i]; what does not fit is left to the general rule.
        return lambda begin, end, strides: (
            (begin.item(),) if begin.size == 1 and strides.item() > 0 else
            make(begin, end, strides))
    return make


def _fixed_index(node: KernelNode, first: int) -> tuple | None:
    """The index if it is the same in every step, else None."""
    known = [node.constant(first + i) for i in range(3)]
    return None if any(v is None for v in known) else _index_maker(node, first)(*known)


@kernel("StridedSlice", host_inputs=(1, 2, 3))
@also_strings("StridedSlice")
def strided_slice(node: KernelNode) -> Callable:
    """A view, or a scalar where every dimension is dropped."""
    masks, index, make_index = Masks.of(node.attrs), _fixed_index(node, 1), _index_maker(node, 1)
    if index is None:
        return lambda x, *spec: _take(x, make_index(*spec), masks)
    if node.static_dims(0) is not None:
        return lambda x, *_: x[index]  # the shape function has checked it
    return lambda x, *_: _take(x, index, masks)


def _take(x: Any, index: tuple, masks: Masks) -> Any:
    try:
        return x[index]
    except IndexError:
        raise _out_of_bounds(x.shape, index, masks) from None


def _out_of_bounds(dims: tuple, index: tuple, masks: Masks) -> Exception:
    """The error for an index that does not fit an array of shape `dims`."""
    axis = 0
    used = sum(entry is not None and entry is not Ellipsis for entry in index)
    for entry, kind in zip(index, masks.kinds(len(index))):
        if entry is Ellipsis:
            axis += len(dims) - used
        elif entry is not None:
            if axis >= len(dims):
                break
            if kind == SHRINK and not -dims[axis] <= entry < dims[axis]:
                return invalid(f"slice index {entry} of dimension {axis} out of bounds: its size "
                               f"is {dims[axis]}")
            axis += 1
    if not dims:
        return invalid("Attempting to slice scalar input: slice index 0 of dimension 0 out of "
                       "range.")
    return invalid(f"Index out of range using input dim {len(dims)}; input has only {len(dims)} "
                   "dims")


@kernel("StridedSliceGrad", fresh=True, host_inputs=(0, 1, 2, 3))
def strided_slice_grad(node: KernelNode) -> Callable:
    """Zeros of the given shape with `dy` at the place of the slice."""
    zeros, dtype, make_index = node.xp.zeros, node.np_dtype(), _index_maker(node, 1)
    masks, dims = Masks.of(node.attrs), node.constant(0)
    shape = None if dims is None else tuple(dims.tolist())

    def run(dims: Any, begin: Any, end: Any, strides: Any, dy: Any) -> Any:
        out = zeros(dims.tolist() if shape is None else shape, dtype)
        _put(out, make_index(begin, end, strides), dy, masks)
        return out

    return run


def _put(target: Any, index: tuple, value: Any, masks: Masks, what: str = "dy") -> None:
    wanted = _dims(_take(target, index, masks))
    if _dims(value) != wanted:
        raise invalid(f"shape of {what} was {shown(_dims(value))} instead of {shown(wanted)}")
    target[index] = value


def _replace(target: Any, index: tuple, value: Any, masks: Masks) -> None:
    """As :func:`_put`, but for an empty part any value will do: nothing changes."""
    if 0 not in _dims(_take(target, index, masks)):
        _put(target, index, value, masks, "value")


def _dims(value: Any) -> tuple:
    return getattr(value, "shape", ())  # bytes, a string scalar, have none


@kernel("StridedSliceAssign", "ResourceStridedSliceAssign", host_inputs=(1, 2, 3))
def strided_slice_assign(node: KernelNode) -> Callable:
    """Assignment to a part of a variable; returns the variable if it is a reference."""
    masks, make_index = Masks.of(node.attrs), _index_maker(node, 1)
    returns_state = bool(node.output_dtypes)

    def run(state: VariableState, begin: Any, end: Any, strides: Any,
            value: Any) -> VariableState | None:
        index = make_index(begin, end, strides)
        with state.lock:
            if state.shape:
                _replace(state.writable(), index, value, masks)
            else:  # a scalar is replaced
                wanted = _dims(_take(state.read(), index, masks))
                if _dims(value) != wanted:
                    raise invalid(f"shape of value was {shown(_dims(value))} instead of "
                                  f"{shown(wanted)}")
                state.assign(value.reshape(())[()] if wanted else value, validate_shape=True)
        return state if returns_state else None

    return run


@kernel("TensorStridedSliceUpdate", fresh=True, host_inputs=(1, 2, 3))
@also_strings("TensorStridedSliceUpdate")
def tensor_strided_slice_update(node: KernelNode) -> Callable:
    """A copy with another value in a part of it."""
    masks, make_index = Masks.of(node.attrs), _index_maker(node, 1)

    def run(x: Any, begin: Any, end: Any, strides: Any, value: Any) -> Any:
        out = x.copy()
        _replace(out, make_index(begin, end, strides), value, masks)
        return out

    return run
