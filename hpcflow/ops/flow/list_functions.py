"""Functions that make operations on lists of tensors, by the names of ``python.ops.list_ops``.

A shape of elements may be None where it is not known, or have None for single dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

ElementShape: TypeAlias = "ShapeLike | TensorLike | None"


def empty_tensor_list(element_shape: ElementShape, element_dtype: DTypeLike,
                      max_num_elements: TensorLike | None = None,
                      name: str | None = None) -> Tensor:
    """Return a list without elements, for at most `max_num_elements` of them if that is given."""
    most = np.int32(-1) if max_num_elements is None else max_num_elements
    return raw_ops.EmptyTensorList(element_shape=_sizes(element_shape), max_num_elements=most,
                                   element_dtype=element_dtype, name=name)


def tensor_list_reserve(element_shape: ElementShape, num_elements: TensorLike,
                        element_dtype: DTypeLike, name: str | None = None) -> Tensor:
    """Return a list of `num_elements` elements that have no value yet."""
    return raw_ops.TensorListReserve(element_shape=_sizes(element_shape),
                                     num_elements=num_elements, element_dtype=element_dtype,
                                     name=name)


def tensor_list_from_tensor(tensor: TensorLike, element_shape: ElementShape,
                            name: str | None = None) -> Tensor:
    """Return the list of the rows of `tensor`."""
    return raw_ops.TensorListFromTensor(tensor=tensor, element_shape=_sizes(element_shape),
                                        name=name)


def tensor_list_get_item(input_handle: Tensor, index: TensorLike, element_dtype: DTypeLike,
                         element_shape: ElementShape = None, name: str | None = None) -> Tensor:
    """Return the element at `index`."""
    return raw_ops.TensorListGetItem(input_handle=input_handle, index=index,
                                     element_shape=_sizes(element_shape),
                                     element_dtype=element_dtype, name=name)


def tensor_list_set_item(input_handle: Tensor, index: TensorLike, item: TensorLike,
                         resize_if_index_out_of_bounds: bool = False,
                         name: str | None = None) -> Tensor:
    """Return the list with `item` at `index`, longer if that is wanted and needed."""
    return raw_ops.TensorListSetItem(
        input_handle=input_handle, index=index, item=item,
        resize_if_index_out_of_bounds=resize_if_index_out_of_bounds, name=name)


def tensor_list_pop_back(input_handle: Tensor, element_dtype: DTypeLike,
                         element_shape: ElementShape = None,
                         name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the list without its last element, and that element."""
    return raw_ops.TensorListPopBack(input_handle=input_handle, element_shape=_sizes(element_shape),
                                     element_dtype=element_dtype, name=name)


def tensor_list_gather(input_handle: Tensor, indices: TensorLike, element_dtype: DTypeLike,
                       element_shape: ElementShape = None, name: str | None = None) -> Tensor:
    """Return the elements at `indices`, stacked."""
    return raw_ops.TensorListGather(input_handle=input_handle, indices=indices,
                                    element_shape=_sizes(element_shape),
                                    element_dtype=element_dtype, name=name)


def tensor_list_scatter(tensor: TensorLike, indices: TensorLike,
                        element_shape: ElementShape = None, input_handle: Tensor | None = None,
                        name: str | None = None) -> Tensor:
    """Return a list, or `input_handle`, with the rows of `tensor` at `indices`."""
    if input_handle is not None:
        return raw_ops.TensorListScatterIntoExistingList(
            input_handle=input_handle, tensor=tensor, indices=indices, name=name)
    return raw_ops.TensorListScatterV2(tensor=tensor, indices=indices,
                                       element_shape=_sizes(element_shape),
                                       num_elements=np.int32(-1), name=name)


def tensor_list_stack(input_handle: Tensor, element_dtype: DTypeLike, num_elements: int = -1,
                      element_shape: ElementShape = None, name: str | None = None) -> Tensor:
    """Return all elements, stacked; there must be `num_elements` of them unless that is -1."""
    return raw_ops.TensorListStack(input_handle=input_handle, element_shape=_sizes(element_shape),
                                   element_dtype=element_dtype, num_elements=num_elements,
                                   name=name)


def tensor_list_concat(input_handle: Tensor, element_dtype: DTypeLike,
                       element_shape: ElementShape = None, name: str | None = None) -> Tensor:
    """Return all elements, joined along their first dimension."""
    return raw_ops.TensorListConcatV2(input_handle=input_handle,
                                      element_shape=_sizes(element_shape),
                                      leading_dims=np.zeros(0, np.int64),
                                      element_dtype=element_dtype, name=name)[0]


def tensor_list_split(tensor: TensorLike, element_shape: ElementShape, lengths: TensorLike,
                      name: str | None = None) -> Tensor:
    """Return the list of successive parts of `tensor`, of `lengths` rows."""
    return raw_ops.TensorListSplit(tensor=tensor, element_shape=_sizes(element_shape),
                                   lengths=convert_to_tensor(lengths, "int64"), name=name)


def _sizes(shape: Any) -> Any:
    """A shape as the operations take it: the scalar -1, or a vector with -1 for what is open."""
    if isinstance(shape, (Tensor, np.ndarray, np.integer, int)):
        return shape
    if isinstance(shape, Sequence) and any(isinstance(s, (Tensor, Operation)) for s in shape):
        return raw_ops.Pack([np.int32(-1) if s is None else s for s in shape])
    known = shape if isinstance(shape, TensorShape) else as_shape(shape)
    if known.ndims is None:
        return np.int32(-1)
    return np.array([-1 if s is None else s for s in known.as_list()], np.int32)
