"""Checks of tensors' shapes and types, and small sums and variables of first programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, control_dependencies, graph_of, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.weighting import squeeze_to_match
from hpcflow.ops.flow.checks import assert_equal, assert_scalar
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.global_step import assert_global_step, get_global_step
from hpcflow.shapes import as_shape


def assert_scalar_int(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return the tensor. ``ValueError`` if it is no scalar of integers."""
    with name_scope(name, "assert_scalar_int", [tensor]) as scope:
        tensor = convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(f"Expected integer type for {tensor.name}, received type: "
                             f"{tensor.dtype}.")
        return assert_scalar(tensor, name=scope)


def reduce_sum_n(tensors: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """Return the sum of all elements of all tensors. ``ValueError`` without any."""
    if not tensors:
        raise ValueError("No tensors provided.")
    with name_scope(name, "reduce_sum_n", list(tensors)) as scope:
        sums = []
        for given in tensors:
            tensor = convert_to_tensor(given)
            axes = raw_ops.Range(np.int32(0), raw_ops.Rank(tensor), np.int32(1))
            sums.append(raw_ops.Sum(tensor, axes))
        return sums[0] if len(sums) == 1 else raw_ops.AddN(sums, name=scope)


def remove_squeezable_dimensions(predictions: TensorLike, labels: TensorLike,
                                 name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return both without the last dimension, of size 1, of the one that has one more."""
    with name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        labels, predictions = squeeze_to_match(convert_to_tensor(labels),
                                               convert_to_tensor(predictions))
        return predictions, labels


def with_shape(expected_shape: TensorLike, tensor: TensorLike) -> Tensor:
    """Return the tensor, of that shape: checked now, or when it runs where it is unknown.

    Raises ``ValueError`` for another static shape.
    """
    tensor = convert_to_tensor(tensor)
    if isinstance(expected_shape, Tensor):
        found = raw_ops.Shape(tensor, out_type=expected_shape.dtype.base_dtype)
        check = assert_equal(expected_shape, found, message=f"Wrong shape for {tensor.name}")
        with control_dependencies([check]):
            return raw_ops.Identity(tensor)
    shape = as_shape(expected_shape)
    if not tensor.shape.is_compatible_with(shape):
        raise ValueError(f"Invalid shape for {tensor.name}: expected {shape}, got {tensor.shape}.")
    if tensor.shape.is_fully_defined():
        return tensor
    checked = with_shape(convert_to_tensor(np.array(shape.as_list(), np.int32)), tensor)
    checked.set_shape(shape)
    return checked


def with_same_shape(expected_tensor: TensorLike, tensor: TensorLike) -> Tensor:
    """Return `tensor`, of the shape of the other: see :func:`with_shape`."""
    with name_scope(f"{convert_to_tensor(tensor).op.name}/", values=[expected_tensor, tensor]):
        expected = convert_to_tensor(expected_tensor)
        known = expected.shape.is_fully_defined()
        return with_shape(expected.shape if known else raw_ops.Shape(expected), tensor)


def zero_initializer(ref: Any, use_locking: bool = True,
                     name: str = "zero_initializer") -> Operation | Tensor:
    """Return what gives a variable zeros: an op that makes no copy of them in the graph."""
    with name_scope(name):
        return ref.assign(raw_ops.Fill(np.array(ref.get_shape().as_list(), np.int32),
                                       np.zeros((), ref.dtype.base_dtype.np)),
                          use_locking=use_locking)


def global_variable(initial_value: TensorLike, validate_shape: bool = True,
                    name: str | None = None, use_resource: bool | None = None) -> Variable:
    """Return a new variable that is saved, and not trained; arguments as of ``Variable``."""
    return Variable(initial_value, trainable=False, collections=[GraphKeys.GLOBAL_VARIABLES],
                    validate_shape=validate_shape, name=name, use_resource=use_resource)


def assert_or_get_global_step(graph: Graph | None = None,
                              global_step_tensor: Any = None) -> Any:
    """Return the tensor that is given, checked to be a global step, or the graph's own."""
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


def get_graph_from_inputs(op_input_list: list, graph: Graph | None = None) -> Graph:
    """Return the graph that all inputs belong to. ``ValueError`` if they do not."""
    return graph_of(list(op_input_list), graph)


def get_placeholders(graph: Graph) -> list[Tensor]:
    """Return the outputs of all placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
