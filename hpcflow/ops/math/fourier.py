"""Fourier transforms: FFT, IFFT, RFFT and IRFFT over the last one, two or three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value_as_dims,
    unchanged,
    with_rank,
    with_rank_at_least,
)

__all__ = ["fft", "fft2d", "fft3d", "ifft", "ifft2d", "ifft3d"]

_SUFFIX = {1: "", 2: "2D", 3: "3D"}


def transformed_axes(op: Operation) -> int:
    """Return the number of last dimensions that an op transforms."""
    return int(op.type[-2]) if op.type[-1] == "D" else 1


# ---------------------------------------------------------------- shapes


def _complex_shape(op: Operation) -> list[Dims]:
    with_rank_at_least(op.input_dims(0), transformed_axes(op), "input")
    return unchanged(op)


def _lengths(op: Operation) -> tuple[Dims, Dims]:
    """The input's shape, and the lengths of the transforms as far as they are known."""
    real, whole = op.get_attr("Treal"), op.get_attr("Tcomplex")
    if real.size * 2 != whole.size:
        raise ValueError(f"{real.name} goes with complex{16 * real.size}, got {whole.name}")
    rank = transformed_axes(op)
    dims = with_rank_at_least(op.input_dims(0), rank, "input")
    with_rank(op.input_dims(1), 1, "fft_length")
    return dims, with_rank(constant_value_as_dims(op.inputs[1]), rank, "fft_length")


def _rfft_shape(op: Operation) -> list[Dims]:
    dims, lengths = _lengths(op)
    if dims is None or lengths is None:
        return [None]
    last = lengths[-1]
    half = last if last is None else (last // 2 + 1 if last else 0)
    return [(*dims[: len(dims) - len(lengths)], *lengths[:-1], half)]


def _irfft_shape(op: Operation) -> list[Dims]:
    dims, lengths = _lengths(op)
    if dims is None or lengths is None:
        return [None]
    return [(*dims[: len(dims) - len(lengths)], *lengths)]


# ---------------------------------------------------------------- op types

for _axes in _SUFFIX.values():
    for _name in ("FFT", "IFFT"):
        register_op(f"{_name}{_axes}", "input: Tcomplex", "output: Tcomplex",
                    "Tcomplex: {complex64, complex128} = complex64", shape=_complex_shape)
        register_op(f"Batch{_name}{_axes}", "input: complex64", "output: complex64",
                    shape=_complex_shape, deprecated="use the type without Batch in its name")
    _types = ("Treal: {float, double} = float; "
              "Tcomplex: {complex64, complex128} = complex64")
    register_op(f"RFFT{_axes}", "input: Treal; fft_length: int32", "output: Tcomplex", _types,
                shape=_rfft_shape)
    register_op(f"IRFFT{_axes}", "input: Tcomplex; fft_length: int32", "output: Treal", _types,
                shape=_irfft_shape)

# ---------------------------------------------------------------- gradients


def _count(shape: TensorLike, x: Tensor) -> Tensor:
    """The product of `shape` as a complex scalar of the type of `x`."""
    return raw_ops.Cast(raw_ops.Prod(shape, np.array([0], np.int32)), DstT=x.dtype.base_dtype)


def last_sizes(x: Tensor, rank: int) -> Any:
    """The last `rank` sizes of `x`; an array where they are known."""
    dims = None if x._dims is None else x._dims[len(x._dims) - rank:]
    if dims is not None and None not in dims:
        return np.array(dims, np.int32)
    shape = raw_ops.Shape(x)
    start = raw_ops.Reshape(raw_ops.Sub(raw_ops.Rank(x), np.int32(rank)), np.array([1], np.int32))
    return raw_ops.Slice(shape, start, np.array([rank], np.int32))


def _register_complex(rank: int) -> None:
    suffix = _SUFFIX[rank]

    @RegisterGradient(f"BatchFFT{suffix}")
    @RegisterGradient(f"FFT{suffix}")
    def _forward_grad(op: Operation, grad: Tensor) -> Tensor:
        back = getattr(raw_ops, f"IFFT{suffix}")(grad)
        return raw_ops.Mul(back, _count(last_sizes(grad, rank), grad))

    @RegisterGradient(f"BatchIFFT{suffix}")
    @RegisterGradient(f"IFFT{suffix}")
    def _inverse_grad(op: Operation, grad: Tensor) -> Tensor:
        forward = getattr(raw_ops, f"FFT{suffix}")(grad)
        return raw_ops.RealDiv(forward, _count(last_sizes(grad, rank), grad))


def padded(x: Tensor, sizes: TensorLike, rank: int) -> Tensor:
    """`x` with zeros behind its last `rank` dimensions up to the given sizes at least."""
    have = last_sizes(x, rank)
    if isinstance(have, np.ndarray) and isinstance(sizes, np.ndarray):
        assert x._dims is not None
        pairs = [(0, 0)] * (len(x._dims) - rank) + [(0, max(0, n)) for n in sizes - have]
        return raw_ops.Pad(x, np.array(pairs, np.int32))
    missing = raw_ops.Maximum(raw_ops.Sub(sizes, have), np.int32(0))
    outer = raw_ops.Sub(raw_ops.Rank(x), np.int32(rank))
    before = raw_ops.Fill(raw_ops.Pack([outer, np.int32(2)]), np.int32(0))
    behind = raw_ops.Pack([raw_ops.ZerosLike(missing), missing], axis=1)
    return raw_ops.Pad(x, raw_ops.ConcatV2([before, behind], np.int32(0)))


def _resized(x: Tensor, sizes: TensorLike, rank: int) -> Tensor:
    """`x` with its last `rank` dimensions cut, or followed by zeros, to the given sizes."""
    outer = raw_ops.Reshape(raw_ops.Sub(raw_ops.Rank(x), np.int32(rank)), np.array([1], np.int32))
    every = raw_ops.Fill(outer, np.int32(-1))
    start = raw_ops.ZerosLike(raw_ops.Shape(x))
    return raw_ops.Slice(padded(x, sizes, rank), start,
                         raw_ops.ConcatV2([every, sizes], np.int32(0)))


def _register_real(rank: int) -> None:
    """Register gradients of real transforms, whose half spectra stand for the conjugates too."""
    suffix = _SUFFIX[rank]

    @RegisterGradient(f"RFFT{suffix}")
    def _rfft_grad(op: Operation, grad: Tensor) -> tuple:
        x, lengths = op.inputs
        back = getattr(raw_ops, f"IFFT{suffix}")(_resized(grad, lengths, rank))
        whole = raw_ops.Mul(back, _count(lengths, grad))
        real = raw_ops.Real(whole, Tout=x.dtype.base_dtype)
        return _shaped(_resized(real, last_sizes(x, rank), rank), x), None

    @RegisterGradient(f"IRFFT{suffix}")
    def _irfft_grad(op: Operation, grad: Tensor) -> tuple:
        x, lengths = op.inputs
        half = getattr(raw_ops, f"RFFT{suffix}")(grad, lengths, Tcomplex=x.dtype.base_dtype)
        weights = raw_ops.RealDiv(_multiplicity(lengths, x), _count(lengths, x))
        return _shaped(_resized(raw_ops.Mul(half, weights), last_sizes(x, rank), rank), x), None


def _shaped(grad: Tensor, like: Tensor) -> Tensor:
    grad.set_shape(like.shape)
    return grad


def _multiplicity(lengths: TensorLike, like: Tensor) -> Tensor:
    """Return the multiplicity of each column of half a spectrum in the whole: 1, 2, ..., 2 and, if
    the length is even, 1."""
    backwards = raw_ops.ReverseV2(lengths, np.array([0], np.int32))
    last = raw_ops.Reshape(raw_ops.Slice(backwards, [0], [1]), np.array([], np.int32))
    count = raw_ops.Add(raw_ops.FloorDiv(last, np.int32(2)), np.int32(1))
    columns = raw_ops.Range(np.int32(0), count, np.int32(1))
    once = raw_ops.LogicalOr(raw_ops.Equal(columns, np.int32(0)),
                             raw_ops.Equal(raw_ops.Mul(columns, np.int32(2)), last))
    dtype = like.dtype.base_dtype
    return raw_ops.Sub(np.asarray(2, dtype.np), raw_ops.Cast(once, DstT=dtype))


for _rank in _SUFFIX:
    _register_complex(_rank)
    _register_real(_rank)


# ---------------------------------------------------------------- building


def _complex_builder(op_type: str, name: str, what: str) -> Callable:
    def build(input: TensorLike, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input, name="input")
        if not x.dtype.is_complex:
            x = convert_to_tensor(input, dtypes.complex64, name="input")
        return getattr(raw_ops, op_type)(x, name=name)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"""Return the {what} of complex numbers.

    Raises:
        ValueError: if `input` has too few dimensions.
        TypeError: if `input` is not complex64 or complex128.
    """
    return build


_OVER = {1: "last dimension", 2: "last two dimensions", 3: "last three dimensions"}


def _forward(rank: int) -> Callable:
    suffix = _SUFFIX[rank]
    return _complex_builder(f"FFT{suffix}", f"fft{suffix.lower()}",
                            f"discrete Fourier transform over the {_OVER[rank]}")


def _inverse(rank: int) -> Callable:
    suffix = _SUFFIX[rank]
    return _complex_builder(f"IFFT{suffix}", f"ifft{suffix.lower()}",
                            f"inverse discrete Fourier transform over the {_OVER[rank]}")


fft, fft2d, fft3d = map(_forward, _SUFFIX)
ifft, ifft2d, ifft3d = map(_inverse, _SUFFIX)
