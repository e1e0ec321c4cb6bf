"""The fully connected layer in its older form."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.layers.building import bias_normalize_activate, collect, layer_variable
from hpcflow.contrib.layers.initializers import xavier_initializer
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.activations import elu, relu, relu6
from hpcflow.ops.linalg.matmul import tensordot
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope

_XAVIER, _ZEROS = xavier_initializer(), Zeros()


@add_arg_scope
def fully_connected(inputs: TensorLike, num_outputs: int, activation_fn: Callable | None = relu,
                    normalizer_fn: Callable | None = None, normalizer_params: dict | None = None,
                    weights_initializer: InitializerLike = _XAVIER,
                    weights_regularizer: Callable | None = None,
                    biases_initializer: InitializerLike = _ZEROS,
                    biases_regularizer: Callable | None = None, reuse: bool | None = None,
                    variables_collections: Collections | None = None,
                    outputs_collections: Collections | None = None, trainable: bool = True,
                    scope: str | VariableScope | None = None) -> Tensor:
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
    inputs = _of_known_size(inputs, "inputs")
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse) as entered:
        outputs = _weighted(inputs, num_outputs, weights_initializer, weights_regularizer,
                            variables_collections, trainable, "kernel")
        outputs = bias_normalize_activate(
            outputs, activation_fn, normalizer_fn, normalizer_params, biases_initializer,
            biases_regularizer, variables_collections, trainable)
        return collect(outputs_collections, entered, outputs)


def _of_known_size(x: TensorLike, what: str) -> Tensor:
    """Return `x` as a tensor; ``ValueError`` unless it is ``[..., size]``, the size known."""
    x = convert_to_tensor(x)
    dims = x._dims
    if dims is not None and len(dims) < 2:
        raise ValueError(f"rank of {what} must be at least 2 not: {len(dims)}")
    if dims is None or dims[-1] is None:
        raise ValueError(f"last dimension of {what} must be known but is None")
    return x


def _weighted(x: Tensor, units: int, initializer: InitializerLike,
              regularizer: Callable | None, collections: Collections | None,
              trainable: bool, called: str | None = None) -> Any:
    """Return ``x @ weights``, of a new variable of shape ``[size, units]``."""
    dims = x._dims or ()
    weights = layer_variable("weights", [dims[-1], units], x.dtype.base_dtype, initializer,
                             regularizer, collections, trainable, called)
    if len(dims) == 2:
        return raw_ops.MatMul(x, weights)
    return tensordot(x, weights, np.array([[len(dims) - 1], [0]]))


linear = functools.partial(fully_connected, activation_fn=None)
relu_layer = functools.partial(fully_connected, activation_fn=relu)
relu6_layer = functools.partial(fully_connected, activation_fn=relu6)
elu_layer = functools.partial(fully_connected, activation_fn=elu)


def legacy_fully_connected(x: TensorLike, num_output_units: int,
                           activation_fn: Callable | None = None,
                           weight_init: InitializerLike = _XAVIER,
                           bias_init: InitializerLike | None = _ZEROS, name: str | None = None,
                           weight_collections: Collections = (GraphKeys.WEIGHTS,),
                           bias_collections: Collections = (GraphKeys.BIASES,),
                           output_collections: Collections = (GraphKeys.ACTIVATIONS,),
                           trainable: bool = True, weight_regularizer: Callable | None = None,
                           bias_regularizer: Callable | None = None) -> Tensor:
    """Return activation_fn(x @ weights + bias), the older form of :func:`fully_connected`.

    The variables are ``weights`` and ``bias`` in the scope `name`, "fully_connected" if None;
    collections are lists of names. Raises ``ValueError`` for fewer than two dimensions.
    """
    x = _of_known_size(x, "x")
    with variable_scope(name, "fully_connected", [x]):
        outputs = _weighted(x, num_output_units, weight_init, weight_regularizer,
                            weight_collections, trainable)
        if bias_init is not None:
            bias = layer_variable("bias", [num_output_units], x.dtype.base_dtype, bias_init,
                                  bias_regularizer, bias_collections, trainable)
            outputs = raw_ops.BiasAdd(outputs, bias)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        for collection in output_collections:
            add_to_collection(collection, outputs)
        return outputs


legacy_linear = functools.partial(legacy_fully_connected, activation_fn=None)
legacy_relu = functools.partial(legacy_fully_connected, activation_fn=relu)
