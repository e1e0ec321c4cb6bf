"""Normalization of each example by itself: of every channel, or of groups of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.layers.building import collect, format_of_layers, layer_variable
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn import normalization
from hpcflow.ops.math.reductions import reduce_mean
from hpcflow.ops.state.initializers import Ones, Zeros
from hpcflow.ops.state.variable_scope import variable_scope

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope


@add_arg_scope
def instance_norm(inputs: TensorLike, center: bool = True, scale: bool = True,
                  epsilon: float = 1e-6, activation_fn: Callable | None = None,
                  param_initializers: dict | None = None, reuse: bool | None = None,
                  variables_collections: Collections | None = None,
                  outputs_collections: Collections | None = None, trainable: bool = True,
                  data_format: str = "NHWC", scope: str | VariableScope | None = None) -> Tensor:
    """Return each channel of each example normalized over its space (arXiv:1607.08022).

    Args:
        inputs: ``[batch, ..., channels]``, or ``[batch, channels, ...]`` for ``"NCHW"``; the
            number of channels is known.
        center, scale: whether there is a ``beta``, and a ``gamma``; both ``[channels]``.
        epsilon: added to the variance.
        activation_fn: a function of the result, or None.
        param_initializers: of ``beta`` and ``gamma``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        scope: variable scope; "InstanceNorm" made unique if None.

    The other arguments are those of ``convolution``. Raises ``ValueError`` for an unknown rank,
    number of channels or format.
    """
    inputs = convert_to_tensor(inputs)
    dims = _dims_of(inputs, "instance_norm")
    axis = 1 if format_of_layers(data_format) == "channels_first" else len(dims) - 1
    channels = _channels_of(inputs, axis, "instance_norm: undefined channels dimension in")
    with variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as entered:
        shape = [channels if i == axis else 1 for i in range(len(dims))]
        beta, gamma = _parameters(inputs, channels, center, scale, param_initializers,
                                  variables_collections, trainable, shape)
        space = [i for i in range(1, len(dims)) if i != axis]
        mean, variance = normalization.moments(inputs, space, keep_dims=True)
        outputs = normalization.batch_normalization(inputs, mean, variance, beta, gamma, epsilon,
                                                    name="instancenorm")
        outputs.set_shape(inputs.shape)
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        return collect(outputs_collections, entered, outputs)


@add_arg_scope
def group_norm(inputs: TensorLike, groups: int = 32, channels_axis: int = -1,
               reduction_axes: Sequence[int] = (-3, -2), center: bool = True, scale: bool = True,
               epsilon: float = 1e-6, activation_fn: Callable | None = None,
               param_initializers: dict | None = None, reuse: bool | None = None,
               variables_collections: Collections | None = None,
               outputs_collections: Collections | None = None, trainable: bool = True,
               scope: str | VariableScope | None = None,
               mean_close_to_zero: bool = False) -> Tensor:
    """Return groups of channels normalized over `reduction_axes` and the group (arXiv:1803.08494).

    Args:
        inputs: any shape of known rank, the number of channels known.
        groups: number of groups, a divisor of the number of channels.
        channels_axis: the dimension of the channels.
        reduction_axes: the dimensions of the statistics, besides the channels of a group.
        center, scale: whether there is a ``beta``, and a ``gamma``; both ``[channels]``.
        epsilon: added to the variance.
        activation_fn: a function of the result, or None.
        param_initializers: of ``beta`` and ``gamma``.
        scope: variable scope; "GroupNorm" made unique if None.
        mean_close_to_zero: compute the variance as the mean of squares less the square of the mean.

    The other arguments are those of ``convolution``. Raises ``ValueError`` for an unknown rank or
    number of channels, `groups` that do not divide it, or axes that are no dimensions or overlap.
    """
    inputs = convert_to_tensor(inputs)
    dims = _dims_of(inputs, "group_norm")
    axis = _axis(channels_axis, len(dims), "channels_axis")
    reduced = [_axis(a, len(dims), "reduction_axes") for a in reduction_axes]
    if axis in reduced:
        raise ValueError(f"group_norm: channels_axis {channels_axis} and reduction_axes "
                         f"{tuple(reduction_axes)} must be mutually exclusive")
    channels = _channels_of(inputs, axis, "group_norm: undefined channel dimension in")
    if groups < 1 or groups > channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(f"{channels} channels is not commensurate with {groups} groups.")
    with variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as entered:
        split = [groups, channels // groups]
        shape = [1] * axis + split + [1] * (len(dims) - axis - 1)
        beta, gamma = _parameters(inputs, channels, center, scale, param_initializers,
                                  variables_collections, trainable, shape)
        whole = raw_ops.Shape(inputs)
        grouped = raw_ops.Reshape(inputs, raw_ops.ConcatV2(
            [whole[:axis], np.array(split, np.int32), whole[axis + 1:]], 0))
        grouped.set_shape([*dims[:axis], *split, *dims[axis + 1:]])
        # Dimensions behind that of the channels are one further on in the groups.
        over = sorted([a + (a > axis) for a in reduced] + [axis + 1])
        mean, variance = _statistics(grouped, over, mean_close_to_zero)
        outputs = raw_ops.Reshape(normalization.batch_normalization(
            grouped, mean, variance, beta, gamma, epsilon), whole)
        outputs.set_shape(inputs.shape)
        outputs = outputs if activation_fn is None else activation_fn(outputs)
        return collect(outputs_collections, entered, outputs)


def _statistics(x: Tensor, axes: list[int], by_squares: bool) -> tuple[Tensor, Tensor]:
    if not by_squares:
        return normalization.moments(x, axes, keep_dims=True)
    mean = reduce_mean(x, axes, True)
    squares = reduce_mean(raw_ops.Square(x), axes, True)
    return mean, raw_ops.Sub(squares, raw_ops.Square(mean))


def _dims_of(inputs: Tensor, what: str) -> tuple:
    if inputs._dims is None:
        raise ValueError(f"{what}: the inputs have an undefined rank")
    return inputs._dims


def _axis(axis: int, rank: int, what: str) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"group_norm: Axis is out of bounds. {what} has {axis}, but the inputs "
                         f"have {rank} dimensions")
    return axis % rank


def _channels_of(inputs: Tensor, axis: int, what: str) -> int:
    dims = inputs._dims or ()
    if axis >= len(dims) or dims[axis] is None:
        raise ValueError(f"{what} the shape {inputs.shape}")
    return dims[axis]


def _parameters(inputs: Tensor, channels: int, center: bool, scale: bool,
                initializers: dict | None, collections: Collections | None, trainable: bool,
                shape: list[int]) -> list[Tensor | None]:
    """beta and gamma where they are wanted, in a `shape` that fits the inputs."""
    made: list[Tensor | None] = []
    for name, wanted, initializer in (("beta", center, Zeros()), ("gamma", scale, Ones())):
        if not wanted:
            made.append(None)
            continue
        initializer = (initializers or {}).get(name, initializer)
        value = layer_variable(name, [channels], inputs.dtype.base_dtype, initializer, None,
                               collections, trainable)
        made.append(raw_ops.Reshape(value, np.array(shape, np.int32)))
    return made
