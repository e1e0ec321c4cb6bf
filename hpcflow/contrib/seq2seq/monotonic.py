"""Attention that only moves forward through a memory (Raffel et al., 2017, arXiv:1704.00784)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.seq2seq.attention import BahdanauMechanism, LuongMechanism
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.flow.functional import scan
from hpcflow.ops.math.cumulative import cumprod, cumsum
from hpcflow.ops.math.elementwise import sigmoid
from hpcflow.ops.random.random_ops import random_normal
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable

_MODES = ("recursive", "parallel", "hard")


def safe_cumprod(x: TensorLike, axis: int = 0, exclusive: bool = False,
                 reverse: bool = False) -> Any:
    """Return the running products of numbers from 0 to 1, as exponentials of sums of logarithms."""
    x = convert_to_tensor(x, name="x")
    number = x.dtype.base_dtype.np
    inside = raw_ops.Minimum(raw_ops.Maximum(x, np.array(np.finfo(number).tiny, number)),
                             np.array(1, number))
    return raw_ops.Exp(cumsum(raw_ops.Log(inside), axis, exclusive, reverse))


def monotonic_attention(p_choose_i: TensorLike, previous_attention: TensorLike, mode: str) -> Any:
    """Return the weights ``[batch, steps]`` of elements that are chosen from left to right.

    Args:
        p_choose_i: probabilities ``[batch, steps]`` of choosing each element.
        previous_attention: the weights of the step before.
        mode: "recursive", one element after the other; "parallel", which is less exact where
            probabilities are near 1; "hard" for probabilities that are all 0 or 1.

    Raises ``ValueError`` for another mode.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of {_MODES}, got {mode!r}")
    p: Any = convert_to_tensor(p_choose_i, name="p_choose_i")
    before: Any = convert_to_tensor(previous_attention, name="previous_attention")
    one = np.ones((), p.dtype.base_dtype.np)
    if mode == "recursive":
        left = raw_ops.ConcatV2([raw_ops.OnesLike(p[:, :1]), one - p[:, :-1]], np.int32(1))
        turned = [raw_ops.Transpose(x, np.array([1, 0], np.int32)) for x in (left, before)]
        found = scan(lambda x, yz: raw_ops.Add(raw_ops.Mul(yz[0], x), yz[1]), tuple(turned),
                     raw_ops.ZerosLike(before[:, 0]))
        return p * raw_ops.Transpose(found, np.array([1, 0], np.int32))
    if mode == "parallel":
        left = safe_cumprod(one - p, axis=1, exclusive=True)
        floor = raw_ops.Minimum(raw_ops.Maximum(left, np.array(1e-10, one.dtype)), one)
        return p * left * cumsum(before / floor, axis=1)
    p = p * cumsum(before, axis=1)
    return p * cumprod(one - p, axis=1, exclusive=True)


def _probabilities(noise: float, mode: str, seed: int | None) -> Callable[[Any, Any], Any]:
    """The function of scores and last weights that returns the weights."""
    def weights(scores: Any, before: Any) -> Any:
        if noise > 0:
            scores = scores + random_normal(raw_ops.Shape(scores), stddev=noise,
                                            dtype=scores.dtype, seed=seed)
        if mode == "hard":
            chosen = raw_ops.Cast(scores > 0, DstT=scores.dtype.base_dtype)
        else:
            chosen = sigmoid(scores)
        return monotonic_attention(chosen, before, mode)
    return weights


class _Monotonic:
    """What begins at the first element, and adds ``attention_score_bias`` to the scores."""

    _bias_start = 0.0
    _dtype: Any
    batch_size: Any
    alignments_size: Any

    def initial_alignments(self, batch_size: TensorLike, dtype: DTypeLike) -> Any:
        """All attention at the first element."""
        first = raw_ops.Fill(raw_ops.Pack([convert_to_tensor(batch_size, dtypes.int32)]),
                             np.int32(0))
        return one_hot(first, self.alignments_size, dtype=dtype)

    def _more(self, scores: Any) -> Any:
        bias = get_variable("attention_score_bias", [], self._dtype,
                            initializer=Constant(self._bias_start))
        return raw_ops.Add(scores, convert_to_tensor(bias))


class BahdanauMonotonicAttention(_Monotonic, BahdanauMechanism):
    """Attention with the scores of ``BahdanauAttention`` that only moves forward.

    Args:
        num_units, memory, memory_sequence_length, normalize, score_mask_value, dtype, name: as of
            ``BahdanauAttention``.
        sigmoid_noise: deviation of the noise that is added to the scores; 0 outside of training.
        sigmoid_noise_seed: of the noise.
        score_bias_init: what the bias of the scores begins at; below 0 for slow moves.
        mode: as of :func:`monotonic_attention`.
    """

    _scope = "bahdanau_monotonic_attention"

    def __init__(self, num_units: int, memory: TensorLike,
                 memory_sequence_length: TensorLike | None = None, normalize: bool = False,
                 score_mask_value: float | None = None, sigmoid_noise: float = 0.0,
                 sigmoid_noise_seed: int | None = None, score_bias_init: float = 0.0,
                 mode: str = "parallel", dtype: DTypeLike | None = None,
                 name: str = "BahdanauMonotonicAttention") -> None:
        self._bias_start = score_bias_init
        super().__init__(num_units, memory, memory_sequence_length, normalize,
                         _probabilities(sigmoid_noise, mode, sigmoid_noise_seed),
                         score_mask_value, dtype, name)


class LuongMonotonicAttention(_Monotonic, LuongMechanism):
    """Attention with the scores of ``LuongAttention`` that only moves forward.

    Arguments as of :class:`BahdanauMonotonicAttention`, `scale` as of ``LuongAttention``.
    """

    _scope = "luong_monotonic_attention"

    def __init__(self, num_units: int, memory: TensorLike,
                 memory_sequence_length: TensorLike | None = None, scale: bool = False,
                 score_mask_value: float | None = None, sigmoid_noise: float = 0.0,
                 sigmoid_noise_seed: int | None = None, score_bias_init: float = 0.0,
                 mode: str = "parallel", dtype: DTypeLike | None = None,
                 name: str = "LuongMonotonicAttention") -> None:
        self._bias_start = score_bias_init
        super().__init__(num_units, memory, memory_sequence_length, scale,
                         _probabilities(sigmoid_noise, mode, sigmoid_noise_seed),
                         score_mask_value, dtype, name)
