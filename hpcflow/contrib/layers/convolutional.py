"""Convolution layers in their older form: ``weights`` and ``biases``, with normalizers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import layers
from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.layers.building import (
    bias_normalize_activate,
    collect,
    format_of_layers,
    layer_variable,
    older_variables,
)
from hpcflow.contrib.layers.initializers import xavier_initializer
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, InitializerLike, Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.layers.building import known_size, numbers
from hpcflow.nn.activations import relu
from hpcflow.nn.convolution import depthwise_conv2d
from hpcflow.ops.arrays.layout import tile
from hpcflow.ops.state.initializers import Zeros
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    import numpy as np

    from hpcflow.ops.state.variable_scope import VariableScope

_XAVIER, _ZEROS = xavier_initializer(), Zeros()


def _named(function: Callable, name: str, rank: int | None = None) -> Callable:
    """`function` under another name, and for inputs of that many dimensions of space only."""

    @functools.wraps(function)
    def layer(inputs: Any, *args: Any, **kwargs: Any) -> Tensor:
        if rank is not None:
            inputs = convert_to_tensor(inputs)
            if inputs._dims is not None and len(inputs._dims) != rank + 2:
                raise ValueError(f"Convolution expects input with rank {rank + 2}, got "
                                 f"{len(inputs._dims)}")
        return function(inputs, *args, **kwargs)

    layer.__name__ = layer.__qualname__ = name
    return layer


def _convolution(inputs: Tensor | np.ndarray, num_outputs: int, kernel_size: Sequence[int] | int,
                 stride: int = 1, padding: str = "SAME", data_format: str | None = None,
                 rate: int = 1, activation_fn: Callable | None = relu,
                 normalizer_fn: Callable | None = None, normalizer_params: dict | None = None,
                 weights_initializer: Callable[..., Any] = _XAVIER,
                 weights_regularizer: Callable | None = None,
                 biases_initializer: Callable[..., Any] | None = _ZEROS,
                 biases_regularizer: Callable | None = None, reuse: bool | None = None,
                 variables_collections: Mapping[str, Any] | None = None,
                 outputs_collections: str | None = None, trainable: bool = True,
                 scope: str | None = None) -> Tensor:
    """Return activation_fn(inputs * weights + biases) over 1, 2 or 3 dimensions of space.

    Args:
        inputs: ``[batch, *space, channels]``, or channels first for a format such as ``NCHW``.
        num_outputs: channels of the result.
        kernel_size, stride, rate: numbers for all dimensions of space, or one each; `rate` is the
            distance between the elements of the window.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"`` (None) or ``"NCHW"``, or the like for other ranks.
        activation_fn: a function of tensors, or None.
        normalizer_fn: called instead of adding biases, with `normalizer_params`.
        weights_initializer, weights_regularizer: of ``weights``.
        biases_initializer, biases_regularizer: of ``biases``; no initializer, no biases.
        reuse: whether variables are those of an earlier layer in `scope`.
        variables_collections: names of collections for the variables, or a dict of such lists by
            variable.
        outputs_collections: names of collections for the result.
        trainable: whether optimizers change the variables.
        scope: variable scope; "Conv" made unique if None.
    """
    inputs = convert_to_tensor(inputs)
    rank = len(inputs._dims or ()) - 2
    if rank not in _CONVOLUTIONS:
        raise ValueError(f"Convolution not supported for input with rank {rank + 2}")
    with variable_scope(scope, "Conv", [inputs], reuse=reuse) as entered:
        with older_variables(variables_collections) as name:
            outputs = _CONVOLUTIONS[rank](
                inputs, num_outputs, kernel_size, stride, padding, format_of_layers(data_format),
                rate, None, False, kernel_initializer=weights_initializer,
                kernel_regularizer=weights_regularizer, trainable=trainable, name=name)
        outputs = bias_normalize_activate(
            outputs, activation_fn, normalizer_fn, normalizer_params, biases_initializer,
            biases_regularizer, variables_collections, trainable, data_format or "NHWC")
        return collect(outputs_collections, entered, outputs)


_CONVOLUTIONS: dict[int, Any] = {1: layers.conv1d, 2: layers.conv2d, 3: layers.conv3d}
# Layers are named after their functions where many are stacked or repeated.
convolution = add_arg_scope(_named(_convolution, "convolution"))
convolution1d = conv1d = add_arg_scope(_named(_convolution, "convolution1d", 1))
convolution2d = conv2d = add_arg_scope(_named(_convolution, "convolution2d", 2))
convolution3d = conv3d = add_arg_scope(_named(_convolution, "convolution3d", 3))


@add_arg_scope
def separable_convolution2d(inputs: TensorLike, num_outputs: int | None, kernel_size: Sizes,
                            depth_multiplier: int = 1, stride: Sizes = 1, padding: str = "SAME",
                            rate: TensorLike = 1, activation_fn: Callable | None = relu,
                            normalizer_fn: Callable | None = None,
                            normalizer_params: dict | None = None,
                            weights_initializer: InitializerLike = _XAVIER,
                            weights_regularizer: Callable | None = None,
                            biases_initializer: InitializerLike = _ZEROS,
                            biases_regularizer: Callable | None = None, reuse: bool | None = None,
                            variables_collections: Collections | None = None,
                            outputs_collections: Collections | None = None, trainable: bool = True,
                            scope: str | VariableScope | None = None, data_format: str = "NHWC",
                            pointwise_initializer: InitializerLike | None = None) -> Tensor:
    """Return a convolution of each channel by itself, followed by one that mixes them.

    Without `num_outputs` the second is left out. The variables are ``depthwise_weights``,
    ``pointwise_weights`` (which begin as the others unless `pointwise_initializer` is given) and
    ``biases``; arguments otherwise as of :func:`convolution`.
    """
    inputs = convert_to_tensor(inputs)
    channels_first = format_of_layers(data_format) == "channels_first"
    with variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse) as entered:
        if num_outputs is None:
            channels = known_size(inputs, 1 if channels_first else -1, "separable_conv2d", 4)
            strides = numbers(stride, 2, "stride")
            weights = layer_variable(
                "depthwise_weights", [*numbers(kernel_size, 2, "kernel_size"), channels,
                                      depth_multiplier], inputs.dtype.base_dtype,
                weights_initializer, weights_regularizer, variables_collections, trainable)
            outputs = depthwise_conv2d(
                inputs, weights, [1, 1, *strides] if channels_first else [1, *strides, 1],
                padding, numbers(rate, 2, "rate"), data_format=data_format)
        else:
            with older_variables(variables_collections) as name:
                outputs = layers.separable_conv2d(
                    inputs, num_outputs, kernel_size, stride, padding,
                    format_of_layers(data_format), rate, depth_multiplier, use_bias=False,
                    depthwise_initializer=weights_initializer,
                    pointwise_initializer=pointwise_initializer or weights_initializer,
                    depthwise_regularizer=weights_regularizer,
                    pointwise_regularizer=weights_regularizer, trainable=trainable, name=name)
        outputs = bias_normalize_activate(
            outputs, activation_fn, normalizer_fn, normalizer_params, biases_initializer,
            biases_regularizer, variables_collections, trainable, data_format)
        return collect(outputs_collections, entered, outputs)


separable_conv2d = separable_convolution2d


def _transposed(rank: int, transposed: Callable, last: str) -> Callable:
    """The layer of transposed convolutions of that many dimensions of space."""

    def layer(inputs: TensorLike, num_outputs: int, kernel_size: Sizes, stride: Sizes = 1,
              padding: str = "SAME", data_format: str = last,
              activation_fn: Callable | None = relu, normalizer_fn: Callable | None = None,
              normalizer_params: dict | None = None,
              weights_initializer: InitializerLike = _XAVIER,
              weights_regularizer: Callable | None = None,
              biases_initializer: InitializerLike = _ZEROS,
              biases_regularizer: Callable | None = None, reuse: bool | None = None,
              variables_collections: Collections | None = None,
              outputs_collections: Collections | None = None, trainable: bool = True,
              scope: str | VariableScope | None = None) -> Tensor:
        inputs = convert_to_tensor(inputs)
        with variable_scope(scope, f"Conv{rank}d_transpose", [inputs], reuse=reuse) as entered:
            with older_variables(variables_collections) as name:
                outputs = transposed(
                    inputs, num_outputs, kernel_size, stride, padding,
                    format_of_layers(data_format, rank), None, False,
                    kernel_initializer=weights_initializer, kernel_regularizer=weights_regularizer,
                    trainable=trainable, name=name)
            outputs = bias_normalize_activate(
                outputs, activation_fn, normalizer_fn, normalizer_params, biases_initializer,
                biases_regularizer, variables_collections, trainable, data_format)
            return collect(outputs_collections, entered, outputs)

    layer.__doc__ = f"""Return a transposed {rank}-D convolution: larger by the strides.

    Arguments as of :func:`convolution`; the scope is "Conv{rank}d_transpose".
    """
    return _named(layer, f"convolution{rank}d_transpose")


convolution2d_transpose = conv2d_transpose = add_arg_scope(
    _transposed(2, layers.conv2d_transpose, "NHWC"))
convolution3d_transpose = conv3d_transpose = add_arg_scope(
    _transposed(3, layers.conv3d_transpose, "NDHWC"))


@add_arg_scope
def convolution2d_in_plane(inputs: TensorLike, kernel_size: Sizes, stride: Sizes = 1,
                           padding: str = "SAME", activation_fn: Callable | None = relu,
                           normalizer_fn: Callable | None = None,
                           normalizer_params: dict | None = None,
                           weights_initializer: InitializerLike = _XAVIER,
                           weights_regularizer: Callable | None = None,
                           biases_initializer: InitializerLike = _ZEROS,
                           biases_regularizer: Callable | None = None, reuse: bool | None = None,
                           variables_collections: Collections | None = None,
                           outputs_collections: Collections | None = None, trainable: bool = True,
                           scope: str | VariableScope | None = None) -> Tensor:
    """Return every channel convolved with one and the same filter.

    The variables are ``weights`` ``[height, width, 1, 1]`` and ``biases``; arguments otherwise as
    of :func:`convolution`. The scope is "ConvInPlane".
    """
    inputs = convert_to_tensor(inputs)
    with variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as entered:
        channels = known_size(inputs, -1, "conv2d_in_plane", 4)
        weights = layer_variable(
            "weights", [*numbers(kernel_size, 2, "kernel_size"), 1, 1], inputs.dtype.base_dtype,
            weights_initializer, weights_regularizer, variables_collections, trainable)
        outputs = depthwise_conv2d(inputs, tile(weights, [1, 1, channels, 1]),
                                   [1, *numbers(stride, 2, "stride"), 1], padding)
        outputs = bias_normalize_activate(
            outputs, activation_fn, normalizer_fn, normalizer_params, biases_initializer,
            biases_regularizer, variables_collections, trainable)
        return collect(outputs_collections, entered, outputs)


conv2d_in_plane = convolution2d_in_plane


@add_arg_scope
def bias_add(inputs: TensorLike, activation_fn: Callable | None = None,
             initializer: InitializerLike = _ZEROS, regularizer: Callable | None = None,
             reuse: bool | None = None, variables_collections: Collections | None = None,
             outputs_collections: Collections | None = None, trainable: bool = True,
             data_format: str = "NHWC", scope: str | VariableScope | None = None) -> Tensor:
    """Return `inputs` with one bias for each channel; the scope is "BiasAdd"."""
    inputs = convert_to_tensor(inputs)
    format_of_layers(data_format)
    with variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as entered:
        outputs = bias_normalize_activate(
            inputs, activation_fn, None, None, initializer, regularizer, variables_collections,
            trainable, data_format)
        return collect(outputs_collections, entered, outputs)
