"""Mel scale: spectra by how pitch is heard, and their cepstra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.arrays.casting import cast
from hpcflow.signal.cosine import dct
from hpcflow.signal.unknown_sizes import last_size

_BREAK, _HIGH = 700.0, 1127.0


def _mel(hertz: Any) -> Any:
    return _HIGH * np.log1p(hertz / _BREAK)


def linear_to_mel_weight_matrix(num_mel_bins: int = 20, num_spectrogram_bins: TensorLike = 129,
                                sample_rate: TensorLike = 8000, lower_edge_hertz: float = 125.0,
                                upper_edge_hertz: float = 3800.0, dtype: DTypeLike = dtypes.float32,
                                name: str | None = None) -> Tensor:
    """Return the matrix that makes mel spectra of linear ones: overlapping triangles.

    Args:
        num_mel_bins: columns.
        num_spectrogram_bins: rows: frequencies from 0 to half of `sample_rate`.
        sample_rate: samples per second; a number or a tensor.
        lower_edge_hertz: the lowest frequency that counts.
        upper_edge_hertz: the highest.
        dtype: floating-point.
        name: name of the scope.

    Raises:
        ValueError: for numbers that describe no spectrum.
    """
    with name_scope(name, "linear_to_mel_weight_matrix"):
        _check(num_mel_bins, sample_rate, lower_edge_hertz, upper_edge_hertz, dtype)
        kind = dtypes.as_dtype(dtype).np
        zero, half = np.asarray(0, kind), np.asarray(0.5, kind)
        nyquist = raw_ops.Mul(cast(convert_to_tensor(sample_rate), dtype), half)
        bins = cast(convert_to_tensor(num_spectrogram_bins), dtypes.int32)
        # The lowest frequency, zero, has no place on the scale.
        linear = raw_ops.LinSpace(zero, nyquist, bins)[1:]
        mels = raw_ops.ExpandDims(raw_ops.Mul(raw_ops.Log1p(raw_ops.RealDiv(
            linear, np.asarray(_BREAK, kind))), np.asarray(_HIGH, kind)), np.int32(1))
        edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
        edges = edges.astype(kind)
        low, middle, high = edges[None, :-2], edges[None, 1:-1], edges[None, 2:]
        rise = raw_ops.RealDiv(raw_ops.Sub(mels, low), middle - low)
        fall = raw_ops.RealDiv(raw_ops.Sub(high, mels), high - middle)
        weights = raw_ops.Maximum(zero, raw_ops.Minimum(rise, fall))
        weights = raw_ops.Pad(weights, np.array([[1, 0], [0, 0]], np.int32))
        weights.set_shape([constant_value(bins), num_mel_bins])
        return weights


def _check(bins: int, rate: Any, low: float, high: float, dtype: Any) -> None:
    if bins <= 0:
        raise ValueError(f"num_mel_bins must be positive but is {bins}")
    if low < 0:
        raise ValueError(f"lower_edge_hertz must not be negative but is {low}")
    if low >= high:
        raise ValueError(f"lower_edge_hertz {low:g} must be below upper_edge_hertz {high:g}")
    if not dtypes.as_dtype(dtype).is_floating:
        raise ValueError(f"dtype must be floating-point but is {dtypes.as_dtype(dtype).name}")
    known = constant_value(rate) if isinstance(rate, Tensor) else rate
    if known is None:
        return
    if known <= 0:
        raise ValueError(f"sample_rate must be positive but is {known}")
    if high > known / 2:
        raise ValueError(f"upper_edge_hertz {high:g} must not be above half of sample_rate {known}")


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: TensorLike,
                                    name: str | None = None) -> Tensor:
    """Return mel frequency cepstral coefficients, in the order and scale of HTK.

    Args:
        log_mel_spectrograms: ``[..., num_mel_bins]``, logarithms of mel spectra.
        name: name of the scope.
    """
    with name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        x = convert_to_tensor(log_mel_spectrograms)
        bins = last_size(x)
        if isinstance(bins, Tensor):
            wide = raw_ops.Cast(bins, DstT=x.dtype.base_dtype)
            return raw_ops.Mul(dct(x, type=2), raw_ops.Rsqrt(raw_ops.Mul(wide, _two(x))))
        if bins == 0:
            raise ValueError("num_mel_bins must be positive")
        scale = np.asarray(1 / math.sqrt(2 * bins), x.dtype.base_dtype.np)
        return raw_ops.Mul(dct(x, type=2), scale)


def _two(x: Tensor) -> np.ndarray:
    return np.asarray(2, x.dtype.base_dtype.np)
