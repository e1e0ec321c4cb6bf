"""The fully connected layer in its older form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.contrib.layers.initializers import xavier_initializer
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.activations import relu
from hpcflow.ops.initializers import Zeros
from hpcflow.ops.matmul import tensordot
from hpcflow.ops.variable_scope import get_variable, variable_scope

_XAVIER, _ZEROS = xavier_initializer(), Zeros()


def fully_connected(inputs: Any, num_outputs: int, activation_fn: Callable | None = relu,
                    normalizer_fn: Callable | None = None, normalizer_params: dict | None = None,
                    weights_initializer: Any = _XAVIER,
                    weights_regularizer: Callable | None = None,
                    biases_initializer: Any = _ZEROS, biases_regularizer: Callable | None = None,
                    reuse: bool | None = None, variables_collections: Any = None,
                    outputs_collections: Any = None, trainable: bool = True,
                    scope: Any = None) -> Tensor:
    """Return activation_fn(inputs @ weights + biases).

    Args:
        inputs: ``[..., size]``, the size known.
        num_outputs: size of the last dimension of the result.
        activation_fn: a function of tensors, or None.
        normalizer_fn: called on the product instead of adding biases, with `normalizer_params`.
        normalizer_params: keyword arguments of `normalizer_fn`.
        weights_initializer: of ``weights``, shape ``[size, num_outputs]``.
        weights_regularizer: function of the weights whose result joins the regularization losses.
        biases_initializer: of ``biases``; None for no biases.
        biases_regularizer: the same for the biases.
        reuse: whether variables are those of an earlier layer in `scope`.
        variables_collections: names of collections for the variables, or a dict of such lists by
            variable.
        outputs_collections: names of collections for the result.
        trainable: whether optimizers change the variables.
        scope: variable scope; "fully_connected" made unique if None.

    Raises: ``ValueError`` if the size of the last dimension is unknown.
    """
    inputs = convert_to_tensor(inputs)
    dims = inputs._dims
    if not dims or len(dims) < 2 or dims[-1] is None:
        raise ValueError(f"fully_connected: the last of two or more dimensions of the inputs must "
                         f"be known, got shape {inputs.shape}")

    def variable(name: str, shape: list[int], initializer: Any, regularizer: Any) -> Tensor:
        names = _collections(variables_collections, name)
        names += [GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
        return convert_to_tensor(get_variable(
            name, shape, inputs.dtype.base_dtype, initializer, regularizer, trainable, names))

    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse):
        weights = variable("weights", [dims[-1], num_outputs], weights_initializer,
                           weights_regularizer)
        outputs: Any = raw_ops.MatMul(inputs, weights) if len(dims) == 2 else tensordot(
            inputs, weights, np.array([[len(dims) - 1], [0]]))
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biases_initializer is not None:
            outputs = raw_ops.BiasAdd(outputs, variable("biases", [num_outputs],
                                                        biases_initializer, biases_regularizer))
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        for name in _collections(outputs_collections, ""):
            add_to_collection(name, outputs)
        return outputs


def _collections(given: Any, variable: str) -> list:
    """The names of collections for a variable, from one name, a list, or a dict of these."""
    if isinstance(given, dict):
        given = given.get(variable)
    return [given] if isinstance(given, str) else list(given or ())
