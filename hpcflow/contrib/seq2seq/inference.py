"""Inference with arbitrary outputs as the next inputs, and the one-hot argmax of scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.seq2seq.helpers import Helper
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn_steps import batch_size_of
from hpcflow.shapes import TensorShape


class InferenceHelper(Helper):
    """Gives a decoder what a function makes of its outputs.

    Args:
        sample_fn: ``f(outputs)`` returns the samples of a step.
        sample_shape: shape of one sample, without the batch.
        sample_dtype: of the samples.
        start_inputs: the first inputs, ``[batch, ...]``.
        end_fn: ``f(samples)`` returns which sequences end, a bool vector ``[batch]``.
        next_inputs_fn: ``f(samples)`` returns the next inputs; None for the samples themselves.
    """

    def __init__(self, sample_fn: Callable, sample_shape: Any, sample_dtype: Any,
                 start_inputs: TensorLike, end_fn: Callable,
                 next_inputs_fn: Callable | None = None) -> None:
        self._sample_fn, self._end_fn, self._next_inputs_fn = sample_fn, end_fn, next_inputs_fn
        self.sample_ids_shape = TensorShape(sample_shape)
        self.sample_ids_dtype = dtypes.as_dtype(sample_dtype)
        self._start_inputs = convert_to_tensor(start_inputs, name="start_inputs")

    @property
    def batch_size(self) -> Any:
        """The number of sequences."""
        return batch_size_of(self._start_inputs)

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """The first inputs; no sequence has ended."""
        size = raw_ops.Reshape(convert_to_tensor(self.batch_size, dtypes.int32),
                               np.array([1], np.int32))
        return raw_ops.Fill(size, np.array(False)), self._start_inputs

    def sample(self, time: TensorLike, outputs: TensorLike, state: Nest,
               name: str | None = None) -> Any:
        """Return the samples that `sample_fn` draws from the outputs."""
        return self._sample_fn(outputs)

    def next_inputs(self, time: TensorLike, outputs: TensorLike, state: Nest,
                    sample_ids: TensorLike, name: str | None = None) -> tuple[Any, Any, Any]:
        """Return the next inputs: the samples, or `next_inputs_fn` applied to them."""
        following = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), following, state


def hardmax(logits: TensorLike, name: str | None = None) -> Tensor:
    """Return 1 where `logits` are the largest along the last dimension, the first such, else 0.

    The type is that of `logits`, whose last dimension has a known size or any.
    """
    with name_scope(name, "Hardmax", [logits]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        number = logits.dtype.base_dtype.np.type
        depth = logits.shape.as_list()[-1] if logits._dims else None
        if depth is None:
            depth = raw_ops.Shape(logits)[-1]
        return raw_ops.OneHot(raw_ops.ArgMax(logits, np.int32(-1)), depth, number(1), number(0),
                              name=scope)
