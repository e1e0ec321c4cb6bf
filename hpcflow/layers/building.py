"""Shared parts of all layers: the scope of their variables, biases and activations, arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from hpcflow.shapes import Dimension, TensorShape, as_shape


class OpenScope(str):
    """A name scope (with a slash at its end) that is open already, given as a layer's name."""


@contextmanager
def layer_scope(name: str | None, default: str, reuse: bool | None,
                inputs: Tensor) -> Iterator[Any]:
    """The variable scope of a layer: `name`, or `default` made unique."""
    if isinstance(name, OpenScope):
        yield get_variable_scope()
        return
    if name is None and reuse:
        raise ValueError(f"{default}: reuse=True needs the name of the layer that is reused")
    with variable_scope(name, default, [inputs], reuse=reuse) as scope:
        yield scope


def known_size(inputs: Tensor, axis: int, layer: str, rank: int | None = None) -> int:
    """The size of one dimension, which a layer must know; ``ValueError`` if it is unknown."""
    dims = inputs._dims
    if dims is None or (rank is not None and len(dims) != rank):
        got = "an undefined rank" if dims is None else f"shape {inputs.shape}"
        wanted = "a known rank" if rank is None else f"rank {rank}"
        raise ValueError(f"{layer}: the inputs must have {wanted}, got {got}")
    if not -len(dims) <= axis < len(dims) or dims[axis] is None:
        what = "channel dimension" if rank is not None else f"dimension {axis}"
        raise ValueError(f"The {what} of the inputs should be defined. Found `None`. ({layer}: "
                         f"undefined in the shape {inputs.shape} of the inputs)")
    return int(dims[axis])


def regularizer_below(name: str, regularizer: Callable) -> Callable:
    """The regularizer of a layer's variable, its operations named by what the layer calls the
    variable (`name`), although a custom getter may have given it another name."""

    def regularized(variable: Any) -> Any:
        with name_scope(None), name_scope(f"{name}/Regularizer"):
            return regularizer(variable)

    return regularized


class Bias(NamedTuple):
    """The settings of a layer's bias: its presence, initializer, regularizer and constraint."""

    use: bool
    initializer: Any
    regularizer: Callable | None
    trainable: bool
    constraint: Callable | None = None


def add_bias(outputs: Tensor, bias: Bias, channels_first: bool = False) -> Tensor:
    """`outputs` with one bias for each channel, the variable ``bias``."""
    if not bias.use:
        return outputs
    dims = outputs.shape.as_list()
    channels = dims[1 if channels_first else -1]
    values = convert_to_tensor(get_variable("bias", [channels], outputs.dtype.base_dtype,
                                            bias.initializer, bias.regularizer, bias.trainable,
                                            constraint=bias.constraint))
    if not channels_first:
        return raw_ops.BiasAdd(outputs, values)
    column = np.array([1, channels] + [1] * (len(dims) - 2), np.int32)
    return raw_ops.Add(outputs, raw_ops.Reshape(values, column))


def finish(outputs: Tensor, activation: Callable | None,
           activity_regularizer: Callable | None) -> Tensor:
    """The activation of `outputs`, whose regularization joins the losses."""
    if activation is not None:
        outputs = activation(outputs)
    if activity_regularizer is not None:
        for loss in activity_losses(activity_regularizer, [outputs]):
            add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return outputs


def activity_losses(regularizer: Callable, outputs: Iterable) -> list:
    """What a regularizer says of each output, for one example of the batch."""
    losses = []
    with name_scope("ActivityRegularizer"):
        for output in outputs:
            loss = regularizer(output)
            if loss is not None:
                loss, examples = convert_to_tensor(loss), raw_ops.Shape(output)[0]
                losses.append(loss / raw_ops.Cast(examples, DstT=loss.dtype))
    return losses


def numbers(value: Any, count: int, what: str) -> list[int]:
    """`count` positive integers, from as many or from one; dimensions may be given as such."""
    values = list(value) if isinstance(value, (Sequence, TensorShape)) else [value] * count
    values = [v.value if isinstance(v, Dimension) else v for v in values]
    if len(values) != count or not all(
            isinstance(v, (int, np.integer)) and v > 0 for v in values):
        raise ValueError(f"{what} must be a positive integer or {count} of them, got {value!r}")
    return [int(v) for v in values]


def is_channels_first(data_format: str) -> bool:
    """True if channels come before space; ``ValueError`` for an unknown format."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError("data_format must be channels_last or channels_first, got "
                         f"{data_format!r}")
    return data_format == "channels_first"


def format_name(channels_first: bool, rank: int) -> str:
    """The name that operations give to the format, such as ``NHWC``."""
    space = {1: "W", 2: "HW", 3: "DHW"}[rank]
    return f"NC{space}" if channels_first else f"N{space}C"


def padding_name(padding: str) -> str:
    """``SAME`` or ``VALID``; ``ValueError`` for something else."""
    if not isinstance(padding, str) or padding.upper() not in ("SAME", "VALID"):
        raise ValueError(f"padding must be 'valid' or 'same', got {padding!r}")
    return padding.upper()


def if_training(training: TensorLike, yes: Callable, no: Callable) -> Any:
    """``yes()`` or ``no()``, chosen now where `training` is known, else at run time."""
    if isinstance(training, (bool, np.bool_, int)):
        return yes() if training else no()
    training = convert_to_tensor(training, dtypes.bool)
    known = constant_value(training)
    if known is not None:
        return yes() if known else no()
    return cond(training, yes, no)


def set_shape(tensor: Tensor, dims: TensorLike) -> Tensor:
    """`tensor`, known to have a shape."""
    tensor.set_shape(as_shape(dims))
    return tensor
