"""Parts of tensors: Slice, StridedSlice and its gradient, and ``tensor[...]``."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.base.geometry.strided import (
    ELLIPSIS,
    NEW_AXIS,
    SHRINK,
    SLICE,
    Masks,
    strided_entry,
    strided_index,
)
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    merge_dim,
    no_outputs,
    register_constant_shape,
    register_constant_value,
    show,
    unchanged,
    with_rank,
)
from hpcflow.ops.arrays.masks import boolean_mask
from hpcflow.ops.common.static_shape import known_dims, known_elements, known_values, shape_of
from hpcflow.ops.common.type_sets import INDEX
from hpcflow.shapes import Dimension

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

__all__ = ["newaxis", "slice", "strided_slice"]

newaxis = None

_MASKS = ("begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "
          "new_axis_mask: int = 0; shrink_axis_mask: int = 0")

# ---------------------------------------------------------------- Slice


def _slice_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    rank = _vector_length(op, (1, 2))
    if dims is None:
        dims = None if rank is None else (None,) * rank
    elif rank is not None:
        with_rank(dims, rank, "input")
    if dims is None:
        return [None]
    begin, size = constant_value(op.inputs[1]), constant_value(op.inputs[2])
    if begin is None or size is None:
        return [_sizes_alone(op, len(dims))]
    return [tuple(_slice_dim(i, dims[i], int(begin[i]), int(size[i])) for i in range(len(dims)))]


def _vector_length(op: Operation, inputs: tuple[int, ...]) -> int | None:
    """The length that the 1-D inputs at these positions agree on, if it is known."""
    length = None
    for i in inputs:
        length = merge_dim(length, with_rank(op.input_dims(i), 1, op.op_def.inputs[i].name)[0])
    return length


def _sizes_alone(op: Operation, rank: int) -> Dims:
    sizes = constant_value_as_dims(op.inputs[2])
    return (None,) * rank if sizes is None else sizes


def _slice_dim(i: int, dim: int | None, begin: int, size: int) -> int | None:
    if begin < 0 or size < -1 or (size == -1 and dim is not None and begin > dim):
        raise ValueError(f"begin[{i}] = {begin} and size[{i}] = {size} do not lie within dimension "
                         f"{i} of size {'?' if dim is None else dim}")
    if size >= 0:
        return size
    return None if dim is None else dim - begin


register_op("Slice", "input: T; begin: Index; size: Index", "output: T",
            f"T: type; Index: {INDEX}", shape=_slice_shape)


def _slice_index(op: Operation) -> tuple | None:
    """The index of a Slice whose position is known."""
    values = known_values(op.inputs[1:])
    if values is None:
        return None
    begin, size = values
    ends = [None if s < 0 else b + s for b, s in zip(begin.tolist(), size.tolist())]
    return tuple(builtins.slice(b, e) for b, e in zip(begin.tolist(), ends))


@RegisterGradient("Slice")
def _slice_grad(op: Operation, grad: Tensor) -> list:
    """Gradient of Slice: the gradient of the part, padded with zeros."""
    x, begin = op.inputs[:2]
    dims, part = known_dims(x), known_dims(op.outputs[0])
    start = constant_value(begin)
    if dims is not None and part is not None and start is not None:
        before = start.reshape(-1).astype(np.int32)
        after: Any = np.array(dims, np.int32) - np.array(part, np.int32) - before
        paddings: Any = np.stack([before, after], 1)
    else:
        index = begin.dtype.base_dtype
        after = raw_ops.Sub(raw_ops.Sub(shape_of(x, index), shape_of(op.outputs[0], index)), begin)
        paddings = raw_ops.Pack([begin, after], axis=1)
    return [raw_ops.Pad(grad, paddings), None, None]


def slice(input_: TensorLike, begin: TensorLike, size: TensorLike,
          name: str | None = None) -> Tensor:
    """Return the part of `input_` that starts at `begin` and has the shape `size`.

    Args:
        input_: a tensor of rank R.
        begin: R integers, the position of the first element, each at least 0.
        size: R integers; -1 stands for all that follows in that dimension.
        name: name of the operation.

    Raises ``ValueError`` (``InvalidArgumentError`` when run) for a part outside of the tensor.
    """
    return raw_ops.Slice(input=input_, begin=begin, size=size, name=name)


# ---------------------------------------------------------------- StridedSlice


def _strided_slice_shape(op: Operation) -> list[Dims]:
    length = _vector_length(op, (1, 2, 3))
    dims = op.input_dims(0)
    if length is None or dims is None:
        return [None]
    masks = Masks.of(op._attrs)
    begin, end, strides = (known_elements(op.inputs[i]) or [None] * length for i in (1, 2, 3))
    entries = [_known_entry(masks, i, kind, begin[i], end[i], strides[i])
               for i, kind in enumerate(masks.kinds(length))]
    return [_strided_dims(dims, masks.kinds(length), entries)]


def _known_entry(masks: Masks, i: int, kind: str, begin: int | None, end: int | None,
                 stride: int | None) -> Any:
    """The index at position i, or None if it is unknown (or none is needed)."""
    begin = 0 if masks.begin >> i & 1 and kind == SLICE else begin
    end = 0 if masks.end >> i & 1 or kind == SHRINK else end
    if kind not in (SLICE, SHRINK) or begin is None or end is None or stride is None:
        return None
    return strided_entry(masks, i, kind, begin, end, stride)


def _strided_dims(dims: tuple, kinds: list[str], entries: list) -> Dims:
    used = sum(kind in (SLICE, SHRINK) for kind in kinds)
    if used and not dims:
        raise ValueError("Attempting to slice scalar input: slice index 0 of dimension 0 out of "
                         "range.")
    if used > len(dims):
        raise ValueError(f"Index out of range using input dim {len(dims)}; input has only "
                         f"{len(dims)} dims: {show(dims)}")
    rest = len(dims) - used
    out: list[int | None] = []
    axis = 0
    for kind, entry in zip(kinds, entries):
        if kind == NEW_AXIS:
            out.append(1)
        elif kind == ELLIPSIS:
            out.extend(dims[axis : axis + rest])
            axis += rest
        else:
            out.extend(_strided_dim(axis, dims[axis], kind, entry))
            axis += 1
    return tuple(out) + dims[axis:]


def _strided_dim(axis: int, dim: int | None, kind: str, entry: Any) -> list[int | None]:
    """Return a list with the size that is left of a dimension, empty for a single element."""
    if kind == SHRINK:
        if entry is not None and dim is not None and not -dim <= entry < dim:
            raise ValueError(f"slice index {entry} of dimension {axis} out of bounds. Its size is "
                             f"{dim}")
        return []
    if dim is None or entry is None:
        return [None]
    return [len(range(*entry.indices(dim)))]


def _strided_slice_grad_shape(op: Operation) -> list[Dims]:
    return [constant_value_as_dims(op.inputs[0])]


def _strided_slice_assign_shape(op: Operation) -> list[Dims]:
    return [op.input_dims(0)]


register_op("StridedSlice", "input: T; begin: Index; end: Index; strides: Index", "output: T",
            f"T: type; Index: {INDEX}; {_MASKS}", shape=_strided_slice_shape)
register_op("StridedSliceGrad",
            "shape: Index; begin: Index; end: Index; strides: Index; dy: T", "output: T",
            f"T: type; Index: {INDEX}; {_MASKS}", shape=_strided_slice_grad_shape)
register_op("StridedSliceAssign",
            "ref: Ref(T); begin: Index; end: Index; strides: Index; value: T", "output_ref: Ref(T)",
            f"T: type; Index: {INDEX}; {_MASKS}", shape=_strided_slice_assign_shape)
register_op("ResourceStridedSliceAssign",
            "ref: resource; begin: Index; end: Index; strides: Index; value: T", "",
            f"T: type; Index: {INDEX}; {_MASKS}", stateful=True, shape=no_outputs)
register_op("TensorStridedSliceUpdate",
            "input: T; begin: Index; end: Index; strides: Index; value: T", "output: T",
            f"T: type; Index: {INDEX}; {_MASKS}", shape=unchanged)
not_differentiable("ResourceStridedSliceAssign")


@RegisterGradient("TensorStridedSliceUpdate")
def _slice_update_grad(op: Operation, grad: Tensor) -> list:
    begin, end, strides, value = op.inputs[1:]
    part = raw_ops.StridedSlice(grad, begin, end, strides, **_masks(op))
    zeros = raw_ops.ZerosLike(value)
    kept = raw_ops.TensorStridedSliceUpdate(grad, begin, end, strides, zeros, **_masks(op))
    return [kept, None, None, None, part]


def _masks(op: Operation) -> dict[str, int]:
    return {f"{name}_mask": op._attrs[f"{name}_mask"] for name in Masks._fields}


@RegisterGradient("StridedSlice")
def _strided_slice_grad(op: Operation, grad: Tensor) -> list:
    x, begin, end, strides = op.inputs
    shape = shape_of(x, begin.dtype.base_dtype)
    return [raw_ops.StridedSliceGrad(shape, begin, end, strides, grad, **_masks(op)),
            None, None, None]


@RegisterGradient("StridedSliceGrad")
def _strided_slice_grad_grad(op: Operation, grad: Tensor) -> list:
    _, begin, end, strides, _ = op.inputs
    return [None] * 4 + [raw_ops.StridedSlice(grad, begin, end, strides, **_masks(op))]


def _strided_slice_index(op: Operation) -> tuple | None:
    values = known_values(op.inputs[1:4])
    if values is None:
        return None
    return strided_index(Masks.of(op._attrs), *(v.tolist() for v in values))


# ---------------------------------------------------------------- known parts of known values

_INDEX_OF = {"Slice": _slice_index, "StridedSlice": _strided_slice_index}


def _known_part(op: Operation) -> np.ndarray | None:
    """Return the constant value of a slice of a constant, or of a partly known shape."""
    index = _INDEX_OF[op.type](op)
    if index is None:
        return None
    value = constant_value(op.inputs[0])
    if value is not None:
        return np.asarray(value[index])
    dims = _part_of_dims(op, index)
    if dims is None or (isinstance(dims, np.ndarray) and None in dims.tolist()):
        return None
    return np.asarray(dims, dtype=op._attrs["T"].np)


def _part_of_dims(op: Operation, index: tuple) -> Any:
    """`index` applied to the partly known shape that the input is; None if it is no such."""
    if not op._attrs["T"].is_integer or len(op.input_dims(0) or ()) != 1:
        return None
    dims = constant_value_as_dims(op.inputs[0])
    return None if dims is None else np.array(dims, dtype=object)[index]


def _known_dims_part(op: Operation) -> Dims:
    index = _INDEX_OF[op.type](op)
    dims = None if index is None else _part_of_dims(op, index)
    return tuple(dims) if isinstance(dims, np.ndarray) and dims.ndim == 1 else None


for _op_type in _INDEX_OF:
    register_constant_value(_op_type)(_known_part)
    register_constant_shape(_op_type)(_known_dims_part)


# ---------------------------------------------------------------- building


def strided_slice(input_: Any, begin: Any, end: Any, strides: Any = None, begin_mask: int = 0,
                  end_mask: int = 0, ellipsis_mask: int = 0, new_axis_mask: int = 0,
                  shrink_axis_mask: int = 0, var: Any = None, name: str | None = None) -> Tensor:
    """Return ``input_[begin:end:strides]``, position by position.

    Args:
        input_: any tensor.
        begin: 1-D integers: the first index taken; negative ones count from the end.
        end: 1-D integers: the first index not taken.
        strides: 1-D integers, not 0; 1 if left out.
        begin_mask: bit i set: ``begin[i]`` is ignored, the range starts at the border.
        end_mask: bit i set: ``end[i]`` is ignored.
        ellipsis_mask: bit i set (one at most): position i stands for all other dimensions.
        new_axis_mask: bit i set: position i inserts a dimension of size 1.
        shrink_axis_mask: bit i set: ``begin[i]`` alone is taken and the dimension dropped.
        var: the variable behind `input_`, if the result's ``assign`` is wanted.
        name: name of the operation.

    Raises ``ValueError`` (``InvalidArgumentError`` when run) for a single index out of range.
    """
    if strides is None:
        begin = convert_to_tensor(begin, name="begin")
        strides = raw_ops.OnesLike(begin) if known_dims(begin) is None else np.ones(
            known_dims(begin), begin.dtype.np)
    result = raw_ops.StridedSlice(
        input=input_, begin=begin, end=end, strides=strides, begin_mask=begin_mask,
        end_mask=end_mask, ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
        shrink_axis_mask=shrink_axis_mask, name=name)
    return result if var is None else VariableSlice.replacing(result, var)


class VariableSlice(Tensor):
    """A slice of a variable's value: a tensor that can also be assigned to."""

    __slots__ = ("_variable",)
    _variable: Any

    @classmethod
    def replacing(cls, tensor: Tensor, variable: Variable) -> VariableSlice:
        """Make this the output of the new StridedSlice op in the place of `tensor`."""
        result = cls(tensor.op, 0, tensor.dtype)
        result._dims = tensor._dims
        result._variable = variable
        tensor.op._outputs[0] = result
        return result

    def assign(self, value: TensorLike, name: str | None = None) -> Any:
        """Return an op that assigns `value` to this part of the variable."""
        ref = self._variable
        _, begin, end, strides = self.op.inputs
        name = name or f"{self.op.name}/_assign"
        if getattr(ref, "_is_by_handle", False):
            value = convert_to_tensor(value, ref.dtype)
            return ref._changed("StridedSliceAssign", begin, end, strides, value, name=name,
                                **_masks(self.op))
        ref = ref if isinstance(ref, Tensor) else ref._ref()
        return raw_ops.StridedSliceAssign(ref=ref, begin=begin, end=end, strides=strides,
                                          value=value, name=name, **_masks(self.op))


class _Spec:
    """The vectors and masks of a StridedSlice op, collected entry by entry."""

    def __init__(self) -> None:
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks = dict.fromkeys((f"{name}_mask" for name in Masks._fields), 0)

    def add(self, entry: Any) -> None:
        """Add one entry of an index: an ellipsis, a new axis, a range or a single position."""
        bit = 1 << len(self.begin)
        if entry is Ellipsis:
            self._position(0, 0, 1, bit, "ellipsis")
        elif entry is newaxis:
            self._position(0, 0, 1, bit, "new_axis")
        elif isinstance(entry, builtins.slice):
            self._range(entry, bit)
        else:
            entry = _checked_position(entry)
            # The end is only for readers: a single position has none.
            end = entry if isinstance(entry, Tensor) else entry + 1
            self._position(entry, end, 1, bit, "shrink_axis")

    def _range(self, entry: builtins.slice, bit: int) -> None:
        start, stop, step = (_known(v) for v in (entry.start, entry.stop, entry.step))
        self._position(0 if start is None else _checked_position(start),
                       0 if stop is None else _checked_position(stop),
                       1 if step is None else _checked_position(step), bit)
        if start is None:
            self.masks["begin_mask"] |= bit
        if stop is None:
            self.masks["end_mask"] |= bit

    def _position(self, begin: Tensor | int, end: Tensor | int, stride: int, bit: int,
                  mask: str = "") -> None:
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(stride)
        if mask:
            self.masks[f"{mask}_mask"] |= bit

    def vectors(self) -> list:
        """begin, end and strides, all of one integer type."""
        parts = (self.begin, self.end, self.strides)
        tensors = [v for part in parts for v in part if hasattr(v, "graph")]
        wide = any(v.dtype.base_dtype.name == "int64" for v in tensors)
        dtype = np.int64 if wide else np.int32
        return [_vector(part, dtype) for part in parts]


def _vector(values: list, dtype: Any) -> Any:
    if not any(hasattr(v, "graph") for v in values):
        return convert_to_tensor(np.array(values, dtype), name="stack")
    items = [convert_to_tensor(v) if hasattr(v, "graph") else np.array(v, dtype) for v in values]
    return raw_ops.Pack([raw_ops.Cast(v, DstT=dtype) if isinstance(v, Tensor)
                         and v.dtype.base_dtype.np != dtype else v for v in items], name="stack")


def _known(bound: Tensor | int | None) -> Any:
    """`bound`; None for an unknown Dimension, which bounds nothing."""
    return None if isinstance(bound, Dimension) and bound.value is None else bound


def _checked_position(entry: Tensor | int) -> Any:
    if hasattr(entry, "graph"):
        tensor = convert_to_tensor(entry)
        if not tensor.dtype.base_dtype.is_integer or tensor._dims not in ((), None):
            raise TypeError(_bad_index(entry))
        return tensor
    try:
        if isinstance(entry, (bool, np.bool_)):
            raise TypeError
        return int(entry.__index__())
    except (AttributeError, TypeError):
        raise TypeError(_bad_index(entry)) from None


INDEX_KINDS = ("Only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and scalar "
               "int32/int64 tensors are valid indices")


def _bad_index(entry: Any) -> str:
    return f"Bad slice index {entry!r} of type {type(entry)}. {INDEX_KINDS}"


def _is_mask(index: Any) -> bool:
    """True if `index` is an array, a list or a tensor of booleans."""
    if hasattr(index, "graph"):
        return index.dtype.base_dtype.name == "bool"
    if isinstance(index, (list, tuple)):
        return bool(index) and all(isinstance(i, (bool, np.bool_)) for i in index)
    return isinstance(index, np.ndarray) and index.dtype == np.bool_


def slice_tensor(tensor: TensorLike, index: Any, var: Any = None) -> Tensor:
    """``tensor[index]``: ranges, single positions, ``...`` and ``newaxis``, in any combination.

    Positions and bounds may be scalar tensors. With `var` the result can be assigned to.
    """
    if _is_mask(index):
        return boolean_mask(tensor, index)
    spec = _Spec()
    for entry in index if isinstance(index, (list, tuple)) else (index,):
        spec.add(entry)
    with name_scope(None, "strided_slice", [tensor]) as scope:
        begin, end, strides = spec.vectors()
        return strided_slice(tensor, begin, end, strides, var=var, name=scope, **spec.masks)


def _getitem(self: Tensor, index: Any) -> Tensor:
    """Return a part of this tensor; see :func:`slice_tensor`."""
    return slice_tensor(self, index)


Tensor._override_operator("__getitem__", _getitem)
