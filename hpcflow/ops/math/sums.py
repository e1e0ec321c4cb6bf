"""Sums of many tensors of one shape: AddN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims
from hpcflow.ops.common.type_sets import SUMMED
from hpcflow.shapes import ShapeLike, as_shape

__all__ = ["accumulate_n", "add_n"]


def _merged_shape(op: Operation) -> list[Dims]:
    dims: Dims = None
    for tensor in op._inputs:
        dims = merge_dims(dims, tensor._dims)
    return [dims]


register_op("AddN", "inputs: N * T", "sum: T", f"N: int >= 1; T: {SUMMED[:-1]}, variant}}",
            shape=_merged_shape, commutative=True, aggregate=True)


@RegisterGradient("AddN")
def _add_n_grad(op: Operation, grad: Tensor) -> list:
    return [grad] * len(op.inputs)


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """Add all `inputs`, a list of tensors or IndexedSlices of one shape and type.

    Raises ``ValueError`` if the list is empty or the shapes differ.
    """
    values = _values(inputs)
    if len(values) == 1:
        return raw_ops.Identity(values[0], name=name) if name else values[0]
    return raw_ops.AddN(values, name=name)


def _values(inputs: Any) -> list[Tensor]:
    if isinstance(inputs, Iterable) and not isinstance(inputs, (Tensor, np.ndarray)):
        inputs = list(inputs)
    if not isinstance(inputs, list) or not inputs:
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and "
                         f"shape, got {inputs!r}")
    first = next((x for x in inputs if isinstance(x, (Tensor, IndexedSlices))), None)
    wanted = None if first is None else first.dtype.base_dtype
    return [convert_to_tensor(x, None if isinstance(x, Tensor) else wanted) for x in inputs]


def accumulate_n(inputs: TensorLike, shape: ShapeLike | None = None, tensor_dtype: Any = None,
                 name: str | None = None) -> Tensor:
    """Add all `inputs`, a list of tensors of one shape and type.

    `shape` and `tensor_dtype` state what the inputs must be. Raises ``ValueError`` for inputs of
    another shape or of several types, ``TypeError`` if `tensor_dtype` is not theirs.
    """
    values = _values(inputs)
    wanted = values[0].dtype
    stated = wanted if tensor_dtype is None else dtypes.as_dtype(tensor_dtype)
    if stated.base_dtype is not wanted.base_dtype:
        raise TypeError(f"tensor_dtype is {tensor_dtype}, but the inputs are of type {wanted.name}")
    wrong = [v for v in values if v.dtype.base_dtype is not wanted.base_dtype]
    if wrong:
        raise ValueError(f"inputs must be tensors of type {wanted.base_dtype.name}, but "
                         f"{wrong[0].name} is of type {wrong[0].dtype.base_dtype.name}")
    if shape is not None:
        for value in values:
            as_shape(shape).assert_is_compatible_with(value.shape)
    result = add_n(values, name)
    if shape is not None:
        result.set_shape(shape)
    return result
