"""Arguments of data sets as tensors: what may be left out, partial shapes, seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.random import random_ops
from hpcflow.shapes import Dimension, TensorShape


def optional_param_to_tensor(argument_name: str, argument_value: Any, argument_default: Any = 0,
                             argument_dtype: DType = dtypes.int64) -> Tensor:
    """The tensor of an argument, or of its default if it is None."""
    value = argument_default if argument_value is None else argument_value
    return convert_to_tensor(value, argument_dtype, argument_name)


def partial_shape_to_tensor(shape_like: Any) -> Tensor:
    """A shape as an int64 vector, in which -1 stands for what is not known.

    Raises ``TypeError`` for a scalar or another element type, ``ValueError`` for another rank.
    """
    if isinstance(shape_like, (Dimension, int, np.integer)):
        raise TypeError(f"The given shape {shape_like} must be a 1-D tensor of `tf.int64` values.")
    tensor = shape_like if isinstance(shape_like, Tensor) else _as_vector(shape_like)
    if not tensor.get_shape().is_compatible_with(TensorShape([None])):
        raise ValueError(f"The given shape {shape_like} must be a 1-D tensor of `tf.int64` values, "
                         f"but the shape was {tensor.get_shape()}.")
    if tensor.dtype is not dtypes.int64:
        raise TypeError(f"The given shape {shape_like} must be a 1-D tensor of `tf.int64` values, "
                        f"but the element type was {tensor.dtype.name}.")
    return tensor


def _as_vector(shape: Any) -> Tensor:
    """A shape, or numbers that may be of any type, as a tensor."""
    if isinstance(shape, TensorShape) or all(
            d is None or isinstance(d, (int, np.integer, Dimension)) for d in shape):
        dims = [d.value if isinstance(d, Dimension) else d for d in shape]
        shape = np.array([-1 if d is None else d for d in dims], np.int64)
    return convert_to_tensor(shape, name="padded_shapes")


def get_seed(seed: Any) -> tuple[Tensor, Tensor]:
    """The two int64 seeds of a data set, from the graph's seed and its own: a number, a tensor or
    None. They are (0, 0), no seeds, only if neither is given."""
    first, second = random_ops.get_seed(seed)
    graph_seed = convert_to_tensor(first or 0, dtypes.int64, "seed")
    own = convert_to_tensor(0 if second is None else second, dtypes.int64, "seed2")
    if isinstance(second, Tensor):
        none = raw_ops.LogicalAnd(raw_ops.Equal(graph_seed, np.int64(0)),
                                  raw_ops.Equal(own, np.int64(0)))
        own = raw_ops.Select(none, np.int64(2**31 - 1), own)
    return graph_seed, own
