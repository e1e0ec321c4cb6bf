"""Windows: weights of the samples of a frame."""

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
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.flow.cond import cond


def hann_window(window_length: TensorLike, periodic: bool = True, dtype: DTypeLike = dtypes.float32,
                name: str | None = None) -> Tensor:
    """Return half a wave of a cosine, raised above zero, as weights.

    Args:
        window_length: the number of samples, a scalar integer.
        periodic: an even window is one period, to be repeated; else it is symmetric.
        dtype: floating-point.
        name: name of the scope.

    Raises:
        ValueError: for a `dtype` that is not floating-point.
    """
    return _raised_cosine(name, "hann_window", window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(window_length: TensorLike, periodic: bool = True,
                   dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Return Hamming's window, ``0.54 - 0.46 cos``; see :func:`hann_window`."""
    return _raised_cosine(name, "hamming_window", window_length, periodic, dtype, 0.54, 0.46)


def _raised_cosine(name: str | None, default: str, length: TensorLike, periodic: bool,
                   dtype: DTypeLike, middle: float, height: float) -> Tensor:
    dtype = _floating(dtype)
    with name_scope(name, default, [length, periodic]):
        length = _scalar(length)
        even = raw_ops.Sub(np.int32(1), raw_ops.FloorMod(length, np.int32(2)))
        whole = cast(convert_to_tensor(periodic), dtypes.int32)
        period = raw_ops.Sub(raw_ops.Add(length, raw_ops.Mul(whole, even)), np.int32(1))

        def ones() -> Tensor:
            return raw_ops.Fill(raw_ops.ExpandDims(length, np.int32(0)), _number(1, dtype))

        def wave() -> Tensor:
            turn = raw_ops.RealDiv(cast(_range(length), dtype), cast(period, dtype))
            cosine = raw_ops.Cos(raw_ops.Mul(turn, _number(2 * math.pi, dtype)))
            return raw_ops.Sub(_number(middle, dtype),
                               raw_ops.Mul(cosine, _number(height, dtype)))

        return cond(raw_ops.Equal(length, np.int32(1)), ones, wave)


def kaiser_window(window_length: TensorLike, beta: TensorLike = 12.0,
                  dtype: DTypeLike = dtypes.float32, name: str | None = None) -> Tensor:
    """Return Kaiser's window of a modified Bessel function of order 0.

    Args:
        window_length: the number of samples, a scalar integer.
        beta: the wider the main lobe, the lower the others.
        dtype: floating-point.
        name: name of the scope.
    """
    dtype = _floating(dtype)
    with name_scope(name, "kaiser_window", [window_length, beta]):
        length, beta = _scalar(window_length), convert_to_tensor(beta, dtype)
        half = raw_ops.Mul(cast(raw_ops.Sub(length, np.int32(1)), dtype), _number(0.5, dtype))
        place = raw_ops.Sub(cast(_range(length), dtype), half)
        part = raw_ops.DivNoNan(place, half)
        inside = raw_ops.Sub(_number(1, dtype), raw_ops.Mul(part, part))
        root = raw_ops.Mul(beta, raw_ops.Sqrt(raw_ops.Maximum(inside, _number(0, dtype))))
        # The scaled functions never overflow.
        scale = raw_ops.Exp(raw_ops.Sub(root, beta))
        return raw_ops.Mul(scale, raw_ops.RealDiv(raw_ops.BesselI0e(root),
                                                  raw_ops.BesselI0e(beta)))


def kaiser_bessel_derived_window(window_length: TensorLike, beta: TensorLike = 12.0,
                                 dtype: DTypeLike = dtypes.float32,
                                 name: str | None = None) -> Tensor:
    """Return the window whose squares, shifted by half of it, sum to one; for :func:`mdct`.

    See :func:`kaiser_window`; `window_length` is even.
    """
    with name_scope(name, "kaiser_bessel_derived_window", [window_length, beta]):
        half = raw_ops.FloorDiv(_scalar(window_length), np.int32(2))
        sums = raw_ops.Cumsum(kaiser_window(raw_ops.Add(half, np.int32(1)), beta, dtype),
                              np.int32(0))
        rising = raw_ops.Sqrt(raw_ops.RealDiv(sums[:-1], sums[-1]))
        return raw_ops.ConcatV2([rising, raw_ops.ReverseV2(rising, np.array([0], np.int32))],
                                np.int32(0))


def vorbis_window(window_length: TensorLike, dtype: DTypeLike = dtypes.float32,
                  name: str | None = None) -> Tensor:
    """Return the power-complementary window of the Vorbis codec; see :func:`hann_window`."""
    dtype = _floating(dtype)
    with name_scope(name, "vorbis_window", [window_length]):
        length = _scalar(window_length)
        place = raw_ops.Add(cast(_range(length), dtype), _number(0.5, dtype))
        turn = raw_ops.RealDiv(raw_ops.Mul(place, _number(math.pi, dtype)), cast(length, dtype))
        return raw_ops.Sin(raw_ops.Mul(raw_ops.Square(raw_ops.Sin(turn)),
                                       _number(math.pi / 2, dtype)))


def _floating(dtype: DTypeLike) -> dtypes.DType:
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"A window is of floating-point numbers, not of {dtype.name}")
    return dtype


def _scalar(length: Any) -> Tensor:
    length = cast(convert_to_tensor(length, name="window_length"), dtypes.int32)
    length.get_shape().assert_has_rank(0)
    return length


def _range(length: Tensor) -> Tensor:
    return raw_ops.Range(np.int32(0), length, np.int32(1))


def _number(value: float, dtype: dtypes.DType) -> Any:
    return np.asarray(value, dtype.np)
