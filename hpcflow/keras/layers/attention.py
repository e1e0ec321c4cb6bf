"""Attention of queries to values by the likeness of their keys."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.keras import initializers
from hpcflow.keras.engine.layer import Layer
from hpcflow.shapes import ShapeLike


class _Attention(Layer):
    """Means of values, weighted by the softmax of scores that a derived class defines."""

    supports_masking = True

    def __init__(self, use_scale: bool = False, causal: bool = False, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.use_scale, self.causal = use_scale, causal
        self.scale: Any = None

    def _scores(self, query: Any, key: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its scores")

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Return the means, shape ``[batch, queries, size]``."""
        self._check(inputs)
        query, value, key = (*inputs, inputs[1])[:3]
        seen, there = mask if mask else (None, None)
        scores = self._scores(query, key)
        hidden = None if there is None else hf.expand_dims(hf.logical_not(there), -2)
        if self.causal:
            queries, values = hf.unstack(hf.shape(scores)[-2:])
            later = hf.range(values)[None, None, :] > hf.range(queries)[None, :, None]
            hidden = later if hidden is None else hf.logical_or(hidden, later)
        if hidden is not None:
            scores = scores - 1e9 * hf.cast(hidden, scores.dtype.base_dtype)
        result = hf.matmul(hf.nn.softmax(scores), value)
        if seen is not None:
            result = result * hf.cast(hf.expand_dims(seen, -1), result.dtype.base_dtype)
        return result

    def _check(self, inputs: Any) -> None:
        name = type(self).__name__
        if not isinstance(inputs, list) or not 2 <= len(inputs) <= 3:
            raise ValueError(f"{name} layer must be called on a list of inputs, namely [query, "
                             f"value] or [query, value, key], got {inputs}")

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Return the mask of the queries."""
        return mask[0] if mask else None

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "causal": self.causal, "use_scale": self.use_scale}


class Attention(_Attention):
    """Means of values, weighted by the softmax of the products of queries and keys.

    It is called on a list ``[query, value]`` or ``[query, value, key]``, of shapes
    ``[batch, queries, size]`` and ``[batch, values, size]``; keys are the values where there are
    none. Masks, a list of two, say which queries and values there are.

    Args:
        use_scale: whether scores are multiplied by a weight that is learned, a number.
        causal: whether query n sees the values up to n alone.

    Raises ``ValueError`` for other inputs.
    """

    def build(self, input_shape: ShapeLike) -> None:
        """Make the variable ``scale``, a number."""
        if self.use_scale:
            self.scale = self.add_weight("scale", (), initializer="ones")
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        scores = hf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale


class AdditiveAttention(_Attention):
    """:class:`Attention` whose scores are the sums of tanh(query + key), times a scale of each
    feature that is learned unless `use_scale` is False.
    """

    def __init__(self, use_scale: bool = True, causal: bool = False, **keywords: Any) -> None:
        super().__init__(use_scale, causal, **keywords)

    def build(self, input_shape: Any) -> None:
        """Make the variable ``scale``, of the size of the values."""
        if self.use_scale:
            size = hf.TensorShape(input_shape[1])[-1].value
            self.scale = self.add_weight("scale", [size],
                                         initializer=initializers.GlorotUniform())
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        sums = hf.tanh(hf.expand_dims(query, -2) + hf.expand_dims(key, -3))
        return hf.reduce_sum(sums if self.scale is None else sums * self.scale, -1)
