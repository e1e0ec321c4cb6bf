"""Lists of tensors as values: what loops of newer graphs keep for their gradients.

A list is one value of type variant, which no operation changes: each makes another list. There are
no functions for them here, where TensorArrays and stacks serve; graphs of later writers have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, merge_dims, scalar

__all__: list[str] = []


def _handle(op: Operation) -> list[Dims]:
    return [()]


def _element(op: Operation) -> list[Dims]:
    """An element, after the list if there is one: its shape is the last input."""
    dims = _element_dims(op)
    return [dims] if len(op.outputs) == 1 else [(), dims]


def _element_dims(op: Operation) -> Dims:
    """What the operation says of the shape of elements, or else what the list was made with."""
    found, known = _described(op.inputs[-1]), _made_with(op.inputs[0])
    if op.type == "TensorListGetItem":
        return merge_dims(found, known)
    return known if found is None else found


def _described(shape: Tensor) -> Dims:
    """A scalar -1 stands for an unknown shape."""
    return None if shape._dims in ((), None) else constant_value_as_dims(shape)


def _made_with(items: Tensor) -> Dims:
    """The shape of elements that the operation says that made the list of which this one is."""
    op = items.op
    while op.type in _CHANGES:
        op = op.inputs[0].op
    return _described(op.inputs[_MAKERS[op.type]]) if op.type in _MAKERS else None


def _stacked(op: Operation) -> list[Dims]:
    dims, count = _element_dims(op), op.attr("num_elements", -1)
    return [None if dims is None else (None if count < 0 else count, *dims)]


def _gathered(op: Operation) -> list[Dims]:
    dims, indices = _element_dims(op), op.input_dims(1)
    return [None if dims is None or indices is None else (*indices, *dims)]


def _element_shape(op: Operation) -> list[Dims]:
    """A vector, or the scalar -1."""
    return [None]


def _concatenated(op: Operation) -> list[Dims]:
    dims = merge_dims(_described(op.inputs[1]), _made_with(op.inputs[0]))
    return [(None, *dims[1:]) if dims else None, (None,)]


def _split(op: Operation) -> list[Dims]:
    """The parts must fit the shape of elements but for their lengths."""
    dims, wanted = op.input_dims(0), _described(op.inputs[1])
    if dims and wanted is not None:
        merge_dims((None, *dims[1:]), (None, *wanted[1:]) if wanted else ())
    return [()]


# The operations that make a list, with the input that is the shape of its elements, and those
# whose first output is their first input with other elements.
_MAKERS = {"EmptyTensorList": 0, "TensorListReserve": 0, "TensorListFromTensor": 1,
           "TensorListScatterV2": 2}
_CHANGES = {"TensorListPushBack", "TensorListPopBack", "TensorListSetItem", "TensorListResize",
            "TensorListScatterIntoExistingList", "ZerosLike", "Identity"}

_TYPE = "element_dtype: type"
_SHAPED = f"{_TYPE}; shape_type: {{int32, int64}}"
_SHAPE = "element_shape: shape_type"
_LIST = "input_handle: variant"

for _name, _inputs, _outputs, _attrs, _shape in (
        ("EmptyTensorList", f"{_SHAPE}; max_num_elements: int32", "handle: variant", _SHAPED,
         _handle),
        ("TensorListReserve", f"{_SHAPE}; num_elements: int32", "handle: variant", _SHAPED,
         _handle),
        ("TensorListPushBack", f"{_LIST}; tensor: element_dtype", "output_handle: variant", _TYPE,
         _handle),
        ("TensorListPopBack", f"{_LIST}; element_shape: int32",
         "output_handle: variant; tensor: element_dtype", _TYPE, _element),
        ("TensorListLength", _LIST, "length: int32", "", scalar),
        ("TensorListElementShape", _LIST, "element_shape: shape_type",
         "shape_type: {int32, int64}", _element_shape),
        ("TensorListGetItem", f"{_LIST}; index: int32; element_shape: int32",
         "item: element_dtype", _TYPE, _element),
        ("TensorListSetItem", f"{_LIST}; index: int32; item: element_dtype",
         "output_handle: variant", f"{_TYPE}; resize_if_index_out_of_bounds: bool = false",
         _handle),
        ("TensorListResize", f"{_LIST}; size: int32", "output_handle: variant", "", _handle),
        ("TensorListFromTensor", f"tensor: element_dtype; {_SHAPE}", "output_handle: variant",
         _SHAPED, _handle),
        ("TensorListStack", f"{_LIST}; element_shape: int32", "tensor: element_dtype",
         f"{_TYPE}; num_elements: int = -1", _stacked),
        ("TensorListGather", f"{_LIST}; indices: int32; element_shape: int32",
         "values: element_dtype", _TYPE, _gathered),
        ("TensorListScatterV2",
         f"tensor: element_dtype; indices: int32; {_SHAPE}; num_elements: int32",
         "output_handle: variant", _SHAPED, _handle),
        ("TensorListScatterIntoExistingList",
         f"{_LIST}; tensor: element_dtype; indices: int32", "output_handle: variant", _TYPE,
         _handle),
        ("TensorListConcatV2", f"{_LIST}; {_SHAPE}; leading_dims: int64",
         "tensor: element_dtype; lengths: int64", _SHAPED, _concatenated),
        ("TensorListSplit", f"tensor: element_dtype; {_SHAPE}; lengths: int64",
         "output_handle: variant", _SHAPED, _split)):
    register_op(_name, _inputs, _outputs, _attrs, shape=_shape)
not_differentiable("EmptyTensorList", "TensorListReserve", "TensorListLength",
                   "TensorListElementShape")

# ---------------------------------------------------------------- gradients
# The gradient of a list is a list of the gradients of its elements.


def _dtype(op: Operation) -> Any:
    return op.attr("element_dtype")


def _zeros(tensor: Tensor) -> Tensor:
    if tensor.dtype.base_dtype is dtypes.variant:
        return raw_ops.ZerosLike(tensor)
    return raw_ops.Fill(raw_ops.Shape(tensor), np.zeros((), tensor.dtype.base_dtype.np))


def _row_shape(tensor: Tensor) -> Tensor:
    """The shape of the rows of `tensor`."""
    return raw_ops.Slice(raw_ops.Shape(tensor), [1], [-1])


def _kind(items: Tensor) -> Tensor:
    return raw_ops.TensorListElementShape(input_handle=items, shape_type="int32")


@RegisterGradient("TensorListPushBack")
def _push_grad(op: Operation, grad: Tensor) -> Any:
    return raw_ops.TensorListPopBack(input_handle=grad, element_shape=raw_ops.Shape(op.inputs[1]),
                                     element_dtype=_dtype(op))


@RegisterGradient("TensorListPopBack")
def _pop_grad(op: Operation, rest: TensorLike, grad: Tensor) -> tuple:
    rest = raw_ops.ZerosLike(op.outputs[0]) if rest is None else rest
    return raw_ops.TensorListPushBack(input_handle=rest, tensor=grad), None


@RegisterGradient("TensorListGetItem")
def _get_grad(op: Operation, grad: Tensor) -> tuple:
    items, index, _ = op.inputs
    empty = raw_ops.TensorListReserve(
        element_shape=_kind(items), num_elements=raw_ops.TensorListLength(input_handle=items),
        element_dtype=_dtype(op))
    return raw_ops.TensorListSetItem(input_handle=empty, index=index, item=grad), None, None


@RegisterGradient("TensorListSetItem")
def _set_grad(op: Operation, grad: Tensor) -> tuple:
    items, index, item = op.inputs
    kept = raw_ops.TensorListSetItem(input_handle=grad, index=index, item=_zeros(item))
    if op.attr("resize_if_index_out_of_bounds"):
        kept = raw_ops.TensorListResize(input_handle=kept,
                                        size=raw_ops.TensorListLength(input_handle=items))
    return kept, None, raw_ops.TensorListGetItem(
        input_handle=grad, index=index, element_shape=raw_ops.Shape(item),
        element_dtype=_dtype(op))


@RegisterGradient("TensorListResize")
def _resize_grad(op: Operation, grad: Tensor) -> tuple:
    length = raw_ops.TensorListLength(input_handle=op.inputs[0])
    return raw_ops.TensorListResize(input_handle=grad, size=length), None


@RegisterGradient("TensorListStack")
def _stack_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.TensorListFromTensor(tensor=grad, element_shape=_kind(op.inputs[0])), None


@RegisterGradient("TensorListFromTensor")
def _from_tensor_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.TensorListStack(input_handle=grad, element_shape=_row_shape(op.inputs[0]),
                                   element_dtype=_dtype(op)), None


@RegisterGradient("TensorListGather")
def _gather_grad(op: Operation, grad: Tensor) -> tuple:
    items, indices, _ = op.inputs
    rows = raw_ops.UnsortedSegmentSum(grad, indices, raw_ops.TensorListLength(input_handle=items))
    return raw_ops.TensorListFromTensor(tensor=rows, element_shape=_kind(items)), None, None


@RegisterGradient("TensorListScatterV2")
def _scatter_grad(op: Operation, grad: Tensor) -> tuple:
    return _gathered_rows(op, grad, op.inputs[0], op.inputs[1]), None, None, None


@RegisterGradient("TensorListScatterIntoExistingList")
def _scatter_into_grad(op: Operation, grad: Tensor) -> tuple:
    _, tensor, indices = op.inputs
    kept = raw_ops.TensorListScatterIntoExistingList(input_handle=grad, tensor=_zeros(tensor),
                                                     indices=indices)
    return kept, _gathered_rows(op, grad, tensor, indices), None


def _gathered_rows(op: Operation, grad: Tensor, tensor: Tensor, indices: Tensor) -> Tensor:
    return raw_ops.TensorListGather(input_handle=grad, indices=indices,
                                    element_shape=_row_shape(tensor), element_dtype=_dtype(op))


@RegisterGradient("TensorListConcatV2")
def _concat_grad(op: Operation, grad: Tensor, _: object) -> tuple:
    return raw_ops.TensorListSplit(tensor=grad, element_shape=_kind(op.inputs[0]),
                                   lengths=op.outputs[1]), None, None


@RegisterGradient("TensorListSplit")
def _split_grad(op: Operation, grad: Tensor) -> tuple:
    tensor, _, lengths = op.inputs
    shape = raw_ops.ConcatV2([[-1], _row_shape(tensor)], 0)
    whole, _ = raw_ops.TensorListConcatV2(input_handle=grad, element_shape=shape,
                                          leading_dims=lengths, element_dtype=_dtype(op))
    return whole, None, None
