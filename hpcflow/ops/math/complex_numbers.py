"""Complex numbers: made of real and imaginary parts, and taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import unchanged
from hpcflow.ops.common.broadcasting import broadcast_shape, unbroadcast

__all__ = ["angle", "complex", "conj", "imag", "real"]

_COMPLEX = "T: {complex64, complex128} = complex64"
_COMPLEX_TO_REAL = _COMPLEX + "; Tout: {float, double} = float"

register_op("Complex", "real: T; imag: T", "out: Tout",
            "T: {float, double} = float; Tout: {complex64, complex128} = complex64",
            shape=broadcast_shape)
register_op("Real", "input: T", "output: Tout", _COMPLEX_TO_REAL, shape=unchanged)
register_op("Imag", "input: T", "output: Tout", _COMPLEX_TO_REAL, shape=unchanged)
register_op("Conj", "input: T", "output: T", _COMPLEX, shape=unchanged)
register_op("ComplexAbs", "x: T", "y: Tout", _COMPLEX_TO_REAL, shape=unchanged)

# ---------------------------------------------------------------- gradients


def _zero(like: Tensor) -> Any:
    return like.dtype.base_dtype.np.type(0)


@RegisterGradient("Complex")
def _complex_grad(op: Operation, grad: Tensor) -> tuple:
    real, imag = op.inputs
    return unbroadcast(real, imag, raw_ops.Real(grad, Tout=real.dtype.base_dtype),
                       raw_ops.Imag(grad, Tout=imag.dtype.base_dtype))


def _as_complex(real: Tensor, imag: Tensor | np.generic, like: Tensor) -> Tensor:
    return raw_ops.Complex(real, imag, Tout=like.dtype.base_dtype)


@RegisterGradient("Real")
def _real_grad(op: Operation, grad: Tensor) -> Tensor:
    return _as_complex(grad, _zero(op.outputs[0]), op.inputs[0])


@RegisterGradient("Imag")
def _imag_grad(op: Operation, grad: Tensor) -> Tensor:
    """The gradient of the imaginary part y is i·grad in the (x + iy) plane."""
    return _as_complex(_zero(op.outputs[0]), grad, op.inputs[0])


@RegisterGradient("Conj")
def _conj_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.Conj(grad)


@RegisterGradient("ComplexAbs")
def _complex_abs_grad(op: Operation, grad: Tensor) -> Tensor:
    """The gradient points along x: grad · x / |x|, and is 0 at 0."""
    x, size = op.inputs[0], op.outputs[0]
    zero = _zero(size)
    ratio = raw_ops.DivNoNan(_as_complex(grad, zero, x), _as_complex(size, zero, x))
    return raw_ops.Mul(ratio, x)


# ---------------------------------------------------------------- public functions


def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """Return real + i·imag: complex64 of float32 parts, complex128 of float64 parts.

    Raises ``TypeError`` for parts of different or other types.
    """
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, None if isinstance(imag, Tensor) else real.dtype.base_dtype,
                             name="imag")
    made = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
    kind = made.get(real.dtype.base_dtype)
    if kind is None or imag.dtype.base_dtype is not real.dtype.base_dtype:
        raise TypeError(f"real and imag have incorrect types: {real.dtype.name} {imag.dtype.name}")
    return raw_ops.Complex(real, imag, Tout=kind, name=name)


def real(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the real part; a real tensor is returned as it is."""
    input = convert_to_tensor(input, name="input")
    if not input.dtype.is_complex:
        return input
    return raw_ops.Real(input, Tout=input.dtype.base_dtype.real_dtype, name=name)


def imag(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the imaginary part; that of a real tensor is zero."""
    input = convert_to_tensor(input, name="input")
    if not input.dtype.is_complex:
        return raw_ops.ZerosLike(input, name=name)
    return raw_ops.Imag(input, Tout=input.dtype.base_dtype.real_dtype, name=name)


def angle(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the argument of each number, between -π and π: 0 or π for real ones."""
    input = convert_to_tensor(input, name="input")
    dtype = input.dtype.base_dtype
    if dtype.is_complex:
        return raw_ops.Angle(input, Tout=dtype.real_dtype, name=name)
    return raw_ops.SelectV2(raw_ops.Less(input, np.zeros((), dtype.np)),
                            np.array(np.pi, dtype.np), np.zeros((), dtype.np), name=name)


def conj(x: TensorLike, name: str | None = None) -> Tensor:
    """Return the complex conjugate; a real numeric tensor is returned as it is.

    Raises ``TypeError`` for a tensor that is not numeric.
    """
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return raw_ops.Conj(x, name=name)
    if x.dtype.is_floating or x.dtype.is_integer:
        return x
    raise TypeError(f"Expected numeric or variant tensor, got dtype {x.dtype.name}")
