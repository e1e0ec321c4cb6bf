"""Gradients of tensors that nothing depends on, and the types that have a gradient at all."""

from __future__ import annotations

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.graph.convert import constant_array
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.control_flow_context import loop_of
from hpcflow.ops.state.resource_variables import variable_shape


def is_trainable(dtype: DType) -> bool:
    """True for the dtypes that gradients flow through."""
    base = dtype.base_dtype
    return base.is_floating or base.is_complex or base.name == "variant"  # a list of tensors


def variable_type(tensor: Tensor) -> DType | None:
    """The element type of the variable whose handle `tensor` is, as far as it is known; None for
    other tensors."""
    is_handle = tensor.dtype.base_dtype.name == "resource" and tensor._handle_data is not None
    return tensor._handle_data[0] if is_handle else None


def has_gradient(tensor: Tensor) -> bool:
    """True for what gradients flow to: numbers, and handles of variables of numbers."""
    behind = variable_type(tensor)
    return is_trainable(tensor.dtype if behind is None else behind)


def dims_of_gradient(tensor: Tensor) -> Dims:
    """Return the shape of a gradient by `tensor`: by the handle of a variable, that of its
    value."""
    if tensor.dtype.base_dtype.name == "resource":
        return (tensor._handle_data or (None, None))[1]
    return tensor._dims


def shape_of_gradient(tensor: Tensor, out_type: DType | None = None) -> Tensor:
    """The shape of `tensor`, or of the variable behind it, when it runs."""
    if variable_type(tensor) is not None:
        return variable_shape(tensor, out_type)
    return raw_ops.Shape(tensor, out_type=out_type)


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of the shape of `tensor`, to be used as its gradient.

    In the backward pass of a loop the shape is kept for every iteration, never the value.
    """
    behind = variable_type(tensor)
    if behind is not None:
        return raw_ops.Fill(variable_shape(tensor), np.zeros((), behind.np), name="zeros")
    is_list = tensor.dtype.base_dtype.name == "variant"
    if is_list or loop_of(tensor.graph._control_flow_context) is None:
        return raw_ops.ZerosLike(tensor)
    zero = np.zeros((), tensor.dtype.base_dtype.np)
    dims = tensor._dims
    if dims == ():
        return constant_array(zero, name="zeros")
    if dims is None or None in dims:
        return raw_ops.Fill(raw_ops.Shape(tensor), zero, name="zeros")
    return raw_ops.Fill(np.array(dims, np.int32), zero, name="zeros")
