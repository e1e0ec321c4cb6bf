"""Kernels of element-wise functions of one input, and of the gradient ops of some of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.math.selection import placed
from hpcflow.kernels.registry import KernelNode, kernel, ufunc

_FLOATS = ("float16", "float32", "float64", "bfloat16")
_COMPLEX = ("complex64", "complex128")
_ELEMENTWISE: dict[str, Any] = {"fresh": True, "accepts_out": True, "elementwise": True}

for _op_type, _name in (
        ("Abs", "absolute"), ("Neg", "negative"), ("Square", "square"), ("Sqrt", "sqrt"),
        ("Exp", "exp"), ("Expm1", "expm1"), ("Log", "log"), ("Log1p", "log1p"), ("Tanh", "tanh"),
        ("Sin", "sin"), ("Cos", "cos"), ("IsNan", "isnan"), ("IsInf", "isinf"),
        ("IsFinite", "isfinite"), ("Floor", "floor"), ("Ceil", "ceil"), ("Rint", "rint"),
        ("Conj", "conjugate"), ("ComplexAbs", "absolute")):
    ufunc(_op_type, _name)
for _op_type, _name in (("Tan", "tan"), ("Asin", "arcsin"), ("Acos", "arccos"),
                        ("Atan", "arctan"), ("Reciprocal", "reciprocal"),
                        ("Inv", "reciprocal")):
    ufunc(_op_type, _name, types={"T": _FLOATS + _COMPLEX})
ufunc("Sign", "sign", types={"T": (*_FLOATS, "int8", "int16", "int32", "int64")})
ufunc("Round", "rint", types={"T": _FLOATS})
ufunc("Round", "positive", types={"T": ("int32", "int64")})


@kernel("Sign", types={"T": _COMPLEX}, fresh=True)
def _sign_complex(node: KernelNode) -> Any:
    """x / |x|, and 0 at 0."""
    xp, dtype = node.xp, node.np_dtype()
    zero = dtype.type(0)

    def run(x: Any) -> Any:
        return xp.where(x == zero, zero, x / xp.absolute(x)).astype(dtype)

    return run


@kernel("Rsqrt", **_ELEMENTWISE)
def _rsqrt(node: KernelNode) -> Any:
    root, reciprocal = node.xp.sqrt, node.xp.reciprocal

    def run(x: Any, out: Any = None) -> Any:
        y = root(x, out=out)
        return reciprocal(y, out=y) if y.ndim else reciprocal(y)

    return run


@kernel("Sigmoid", **_ELEMENTWISE)
def _sigmoid(node: KernelNode) -> Any:
    """1 / (1 + exp(-x)); an overflow of exp gives the right limit 0."""
    xp, one = node.xp, node.np_dtype().type(1)
    negative, exp, add, reciprocal = xp.negative, xp.exp, xp.add, xp.reciprocal

    def run(x: Any, out: Any = None) -> Any:
        y = negative(x, out=out)
        if not y.ndim:
            return reciprocal(one + exp(y))
        exp(y, out=y)
        add(y, one, out=y)
        return reciprocal(y, out=y)

    return run


# ---------------------------------------------------------------- gradients: f(output, gradient)


@kernel("TanhGrad", **_ELEMENTWISE)
def _tanh_grad(node: KernelNode) -> Any:
    """dy (1 - y²)."""
    xp, one = node.xp, node.np_dtype().type(1)
    square, subtract, multiply = xp.square, xp.subtract, xp.multiply

    def run(y: Any, dy: Any, out: Any = None) -> Any:
        t = square(y)
        if not t.ndim:
            return dy * (one - t)
        subtract(one, t, out=t)
        return multiply(t, dy, out=t if out is None else out)

    return run


@kernel("SigmoidGrad", **_ELEMENTWISE)
def _sigmoid_grad(node: KernelNode) -> Any:
    """dy y (1 - y)."""
    xp, one = node.xp, node.np_dtype().type(1)
    subtract, multiply = xp.subtract, xp.multiply

    def run(y: Any, dy: Any, out: Any = None) -> Any:
        t = subtract(one, y)
        if not t.ndim:
            return dy * (t * y)
        multiply(t, y, out=t)
        return multiply(t, dy, out=t if out is None else out)

    return run


# These three conjugate the output of a complex function themselves.


def _conjugating(node: KernelNode, run: Any) -> Any:
    """`run` over the conjugate of its first input if that is complex."""
    if not node.output_dtypes[0].is_complex:
        return run
    return lambda y, dy, out=None: run(y.conj(), dy, out=out)


@kernel("ReciprocalGrad", "InvGrad", **_ELEMENTWISE)
def _reciprocal_grad(node: KernelNode) -> Any:
    """-dy y²."""
    xp = node.xp
    square, negative, multiply = xp.square, xp.negative, xp.multiply

    def run(y: Any, dy: Any, out: Any = None) -> Any:
        t = square(y)
        if not t.ndim:
            return -(dy * t)
        multiply(t, dy, out=t)
        return negative(t, out=t if out is None else out)

    return _conjugating(node, run)


@kernel("SqrtGrad", **_ELEMENTWISE)
def _sqrt_grad(node: KernelNode) -> Any:
    """dy / (2 y); zero where dy is, also at y = 0."""
    xp, half, zero = node.xp, *map(node.np_dtype().type, (0.5, 0))
    divide, multiply = xp.true_divide, xp.multiply

    def run(y: Any, dy: Any, out: Any = None) -> Any:
        t = multiply(dy, half)
        if xp is not np:
            found = xp.where(t == zero, zero, divide(t, y))
            return placed(found.astype(t.dtype, copy=False), out)  # CuPy's makes it float32
        if not t.ndim:
            return divide(t, y) if t != 0 else t
        still = None if y.all() else t == 0
        result = divide(t, y, out=t if out is None else out)
        if still is not None:
            result[still] = 0
        return result

    return _conjugating(node, run)


@kernel("RsqrtGrad", **_ELEMENTWISE)
def _rsqrt_grad(node: KernelNode) -> Any:
    """-dy y³ / 2."""
    xp, half = node.xp, node.np_dtype().type(-0.5)
    square, multiply = xp.square, xp.multiply

    def run(y: Any, dy: Any, out: Any = None) -> Any:
        t = square(y)
        if not t.ndim:
            return half * dy * (t * y)
        multiply(t, y, out=t)
        multiply(t, half, out=t)
        return multiply(t, dy, out=t if out is None else out)

    return _conjugating(node, run)


# ---------------------------------------------------------------- complex numbers


@kernel("Complex", fresh=True)
def _complex(node: KernelNode) -> Any:
    xp, dtype = node.xp, node.np_dtype()

    def run(real: Any, imag: Any) -> Any:
        out = xp.empty(xp.broadcast(real, imag).shape, dtype)
        out.real = real
        out.imag = imag
        return out if out.ndim else out[()]

    return run


@kernel("Real")
def _real(node: KernelNode) -> Any:
    return node.xp.real


@kernel("Imag")
def _imag(node: KernelNode) -> Any:
    return node.xp.imag
