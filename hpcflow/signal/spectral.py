"""``hpcflow.signal.spectral``: discrete Fourier transforms of complex and of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.late_names import named_otherwise
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.math.fourier import fft, fft2d, fft3d, ifft, ifft2d, ifft3d, last_sizes, padded

__all__ = ["fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d", "irfft", "irfft2d", "irfft3d",
           "rfft", "rfft2d", "rfft3d"]  # fmt: skip


def rfft(input_tensor: Tensor, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Return the first half of the spectra of real numbers, over the last dimension.

    The other half are the complex conjugates of this one.

    Args:
        input_tensor: float32 or float64, of rank 1 at least.
        fft_length: one length: the input is cut or followed by zeros to it; its own by default.
        name: name of the scope.

    Returns:
        Complex numbers; the last dimension is ``fft_length // 2 + 1``.
    """
    return _forward(input_tensor, fft_length, "RFFT", 1, name)


def rfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Return half the spectra over the last two dimensions; `fft_length` are two numbers.

    See :func:`rfft`.
    """
    return _forward(input_tensor, fft_length, "RFFT2D", 2, name)


def rfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Return half the spectra over the last three dimensions; `fft_length` are three numbers.

    See :func:`rfft`.
    """
    return _forward(input_tensor, fft_length, "RFFT3D", 3, name)


def irfft(input_tensor: Tensor, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Return the real numbers whose spectra, over the last dimension, begin with the input.

    Args:
        input_tensor: complex64 or complex128, of rank 1 at least.
        fft_length: one length, that of the result; the input's, which is ``length // 2 + 1``, is
            cut or followed by zeros for it. By default the even one: ``2 * (last - 1)``.
        name: name of the scope.
    """
    return _backward(input_tensor, fft_length, "IRFFT", 1, name)


def irfft2d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Return real numbers from half their spectra over the last two dimensions.

    See :func:`irfft`; `fft_length` are two numbers.
    """
    return _backward(input_tensor, fft_length, "IRFFT2D", 2, name)


def irfft3d(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
    """Return real numbers from half their spectra over the last three dimensions.

    See :func:`irfft`; `fft_length` are three numbers.
    """
    return _backward(input_tensor, fft_length, "IRFFT3D", 3, name)


def _forward(input: TensorLike, fft_length: TensorLike, op_type: str, rank: int,
             name: str | None) -> Tensor:
    with name_scope(name, op_type.lower(), [input, fft_length]) as scope:
        x = _as_tensor(input, dtypes.float32, dtypes.float64)
        if fft_length is None:
            lengths = convert_to_tensor(last_sizes(x, rank))
        else:
            lengths = _as_lengths(fft_length, rank)
            x = _filled(x, lengths, rank)
        kind = dtypes.complex128 if x.dtype.base_dtype is dtypes.float64 else dtypes.complex64
        return getattr(raw_ops, op_type)(x, lengths, Tcomplex=kind, name=scope)


def _backward(input: TensorLike, fft_length: TensorLike, op_type: str, rank: int,
              name: str | None) -> Tensor:
    with name_scope(name, op_type.lower(), [input, fft_length]) as scope:
        x = _as_tensor(input, dtypes.complex64, dtypes.complex128)
        if fft_length is None:
            lengths = _whole(last_sizes(x, rank), rank)
        else:
            lengths = _as_lengths(fft_length, rank)
            x = _filled(x, _halved(lengths, rank), rank)
        return getattr(raw_ops, op_type)(x, lengths, Treal=x.dtype.base_dtype.real_dtype,
                                         name=scope)


def _as_tensor(value: TensorLike, single: DType, double: DType) -> Tensor:
    """`value` in double precision if it has that already, else in single."""
    dtype = getattr(value, "dtype", None)
    is_double = dtype is not None and dtypes.as_dtype(dtype).base_dtype is double
    return convert_to_tensor(value, double if is_double else single, name="input")


def _as_lengths(fft_length: TensorLike, rank: int) -> Tensor:
    lengths = convert_to_tensor(fft_length, dtypes.int32, name="fft_length")
    if lengths._dims is not None and lengths._dims != (rank,):
        raise ValueError(f"fft_length must be {rank} numbers but has shape {lengths.shape}")
    return lengths


def _whole(sizes: TensorLike, rank: int) -> Tensor:
    """The lengths of the real numbers whose half spectra have these sizes, the last one even."""
    ones = np.array([*[0] * (rank - 1), 1], np.int32)
    if isinstance(sizes, np.ndarray):
        return convert_to_tensor(np.maximum(0, (sizes - ones) * (ones + 1)))
    return raw_ops.Maximum(raw_ops.Mul(raw_ops.Sub(sizes, ones), ones + 1), np.int32(0))


def _halved(lengths: Tensor, rank: int) -> Any:
    """The sizes of half the spectra of real numbers of these lengths."""
    ones = np.array([*[0] * (rank - 1), 1], np.int32)
    value = constant_value(lengths)
    if value is not None:
        return value // (ones + 1) + ones
    return raw_ops.Add(raw_ops.FloorDiv(lengths, ones + 1), ones)


def _filled(x: Tensor, sizes: Tensor | np.ndarray, rank: int) -> Tensor:
    """`x`, followed by zeros up to `sizes` unless it is known to reach that far."""
    have = last_sizes(x, rank)
    wanted = constant_value(sizes) if isinstance(sizes, Tensor) else sizes
    if wanted is None or isinstance(have, Tensor):
        return padded(x, sizes, rank)
    return x if (have >= wanted).all() else padded(x, wanted, rank)


__getattr__ = named_otherwise(__name__)
