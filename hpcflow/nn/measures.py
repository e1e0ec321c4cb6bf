"""Measures of scores and activations: top_k, in_top_k, zero_fraction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.shape_ops import size
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.reductions import reduce_sum

__all__ = ["in_top_k", "top_k", "zero_fraction"]


class TopKV2(NamedTuple):
    """The largest elements and their positions."""

    values: Tensor
    indices: Tensor


def top_k(input: TensorLike, k: TensorLike = 1, sorted: bool = True,
          name: str | None = None) -> TopKV2:
    """Return the `k` largest elements of each row (last dimension), and their positions (int32).

    Of equal elements the one at the lower position goes first. Raises ``ValueError`` for rows
    shorter than `k`, where it is known.
    """
    return TopKV2(*raw_ops.TopKV2(input, k, sorted=sorted, name=name))


def in_top_k(predictions: TensorLike, targets: TensorLike, k: TensorLike,
             name: str | None = None) -> Tensor:
    """Return whether the target class of each row is among the `k` with the highest predictions.

    Classes with equal predictions at the border all count. `predictions` is float32
    [batch, classes], `targets` the class numbers [batch], `k` a number or a tensor of their type.
    """
    if isinstance(k, Tensor):
        return raw_ops.InTopKV2(predictions, targets, k, name=name)
    return raw_ops.InTopK(predictions, targets, k=k, name=name)


def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """Return the fraction of elements that are zero, a float32 scalar; NaN for none at all."""
    with name_scope(name, "zero_fraction", [value]):
        value = convert_to_tensor(value, name="value")
        elements = size(value, out_type=dtypes.int64)
        # In 32 bits where they do, as in 1.x: seeds follow from the number of operations.
        count = cond(
            elements <= np.int64(dtypes.int32.max),
            lambda: raw_ops.Cast(_nonzero(value, dtypes.int32), DstT=dtypes.int64),
            lambda: _nonzero(value, dtypes.int64))
        with name_scope("counts_to_fraction"):
            zeros = raw_ops.Cast(elements - count, DstT=dtypes.float32)
            fraction = zeros / raw_ops.Cast(elements, DstT=dtypes.float32)
        return identity(fraction, "fraction")


def _nonzero(value: Tensor, dtype: dtypes.DType) -> Tensor:
    with name_scope("count_nonzero"):
        zero = np.zeros((), value.dtype.base_dtype.np)
        found = raw_ops.Cast(raw_ops.NotEqual(value, zero), DstT=dtype)
        return reduce_sum(found, name="nonzero_count")
