"""The gradient of what nothing depends on, and which types have a gradient at all."""

from __future__ import annotations

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.graph.convert import constant_array
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.control_flow_context import loop_of


def is_trainable(dtype: DType) -> bool:
    """True for the dtypes that gradients flow through."""
    base = dtype.base_dtype
    return base.is_floating or base.is_complex or base.name == "variant"  # a list of tensors


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of the shape of `tensor`, to be used as its gradient.

    In the backward pass of a loop the shape is kept for every iteration, never the value.
    """
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
