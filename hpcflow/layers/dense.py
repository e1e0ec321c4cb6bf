"""The fully connected layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_more
from hpcflow.layers.building import Bias, add_bias, finish, known_size, layer_scope, set_shape
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.variable_scope import get_variable

_ZEROS = Zeros()


def dense(inputs: TensorLike, units: int, activation: Callable | None = None, use_bias: bool = True,
          kernel_initializer: InitializerLike | None = None,
          bias_initializer: InitializerLike = _ZEROS, kernel_regularizer: Callable | None = None,
          bias_regularizer: Callable | None = None, activity_regularizer: Callable | None = None,
          trainable: bool = True, name: str | None = None, reuse: bool | None = None,
          kernel_constraint: Callable | None = None,
          bias_constraint: Callable | None = None) -> Tensor:
    """Return activation(inputs @ kernel + bias).

    Args:
        inputs: shape ``[..., size]``, the size known.
        units: size of the last dimension of the result.
        activation: a function of tensors, or None.
        use_bias: whether there is a bias.
        kernel_initializer: of ``kernel``, shape ``[size, units]``; the variable scope's if None.
        bias_initializer: of ``bias``, shape ``[units]``.
        kernel_regularizer: function of the kernel whose result joins the regularization losses.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the result.
        trainable: whether optimizers change the variables.
        name: variable scope; "dense" made unique if None.
        reuse: whether the layer's variables are those of an earlier one.
        kernel_constraint: function that optimizers apply to the kernel after an update.
        bias_constraint: the same for the bias.

    Returns: shape ``[..., units]``.

    Raises: ``ValueError`` if the size of the last dimension or the rank is unknown.
    """
    inputs, units = convert_to_tensor(inputs), int(units)
    with layer_scope(name, "dense", reuse, inputs):
        size = known_size(inputs, -1, "dense")
        kernel = convert_to_tensor(get_variable(
            "kernel", [size, units], inputs.dtype.base_dtype, kernel_initializer,
            kernel_regularizer, trainable, constraint=kernel_constraint))
        outputs = _product(inputs, kernel, units)
        bias = Bias(use_bias, bias_initializer, bias_regularizer, trainable, bias_constraint)
        outputs = add_bias(outputs, bias)
        return finish(outputs, activation, activity_regularizer)


def _product(inputs: Tensor, kernel: Tensor, units: int) -> Tensor:
    """inputs @ kernel over the last dimension of inputs of any rank."""
    dims = inputs.shape.as_list()
    if len(dims) == 2:
        return raw_ops.MatMul(inputs, kernel)
    if len(dims) < 2:
        raise ValueError(f"dense: the inputs must have at least 2 dimensions, got {dims}")
    if None in dims:
        count_more(get_default_graph(), 14)
    rows = raw_ops.Reshape(inputs, np.array([-1, dims[-1]], np.int32))
    outer = raw_ops.Slice(raw_ops.Shape(inputs), np.array([0], np.int32),
                          np.array([len(dims) - 1], np.int32))
    shape = raw_ops.ConcatV2([outer, np.array([units], np.int32)], 0)
    return set_shape(raw_ops.Reshape(raw_ops.MatMul(rows, kernel), shape), [*dims[:-1], units])
