"""Kernels of element-wise op types that the format got after its first version."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.function_loops import with_loop
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown, ufunc
from hpcflow.kernels.selection import chooser

_ELEMENTWISE: dict[str, Any] = {"fresh": True, "accepts_out": True, "elementwise": True}

for _op_type, _name in (
        ("Sinh", "sinh"), ("Cosh", "cosh"), ("Asinh", "arcsinh"), ("Acosh", "arccosh"),
        ("Atanh", "arctanh"), ("Invert", "invert"), ("BitwiseAnd", "bitwise_and"),
        ("BitwiseOr", "bitwise_or"), ("BitwiseXor", "bitwise_xor"), ("Atan2", "arctan2")):
    ufunc(_op_type, _name)


@kernel("LeftShift", "RightShift", fresh=True, elementwise=True)
def _shift(node: KernelNode) -> Any:
    """By at most the width less one, as shifts by more are not defined."""
    xp, dtype = node.xp, node.np_dtype()
    shift = xp.left_shift if node.op_type == "LeftShift" else xp.right_shift
    largest = dtype.type(dtype.itemsize * 8 - 1)
    return lambda x, y: shift(x, xp.clip(y, dtype.type(0), largest))


def _safe(op_type: str, function: Any) -> None:
    """Where the factor (of a quotient: the divisor) is 0 the result is 0, whatever the other is."""

    @kernel(op_type, **_ELEMENTWISE)
    def factory(node: KernelNode) -> Any:
        xp, zero = node.xp, node.np_dtype().type(0)

        def run(x: Any, y: Any, out: Any = None) -> Any:
            drop = (y if op_type in ("DivNoNan", "MulNoNan") else x) == zero
            with np.errstate(all="ignore"):
                result = xp.where(drop, zero, function(xp, x, y))
            return _chosen(result, out)

        return with_loop(node, run)


_safe("DivNoNan", lambda xp, x, y: xp.true_divide(x, y))
_safe("MulNoNan", lambda xp, x, y: x * y)
_safe("Xdivy", lambda xp, x, y: xp.true_divide(x, y))
_safe("Xlogy", lambda xp, x, y: x * xp.log(y))
_safe("Xlog1py", lambda xp, x, y: x * xp.log1p(y))

# ---------------------------------------------------------------- activations

# Of "Self-normalizing neural networks" (Klambauer et al., 2017).
_SCALE, _SCALE_ALPHA = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123


def _alpha(node: KernelNode) -> Any:
    """The slope below zero; attributes are float32, whatever the op computes in."""
    return node.np_dtype().type(np.float32(node.attr("alpha")))


@kernel("LeakyRelu", **_ELEMENTWISE)
def _leaky_relu(node: KernelNode) -> Any:
    xp, zero, alpha = node.xp, node.np_dtype().type(0), _alpha(node)

    def run(x: Any, out: Any = None) -> Any:
        return _chosen(xp.where(x > zero, x, x * alpha), out)

    return with_loop(node, run, alpha=alpha)


@kernel("LeakyReluGrad", **_ELEMENTWISE)
def _leaky_relu_grad(node: KernelNode) -> Any:
    xp, zero, alpha = node.xp, node.np_dtype().type(0), _alpha(node)

    def run(grad: Any, x: Any, out: Any = None) -> Any:
        return _chosen(xp.where(x > zero, grad, grad * alpha), out)

    return with_loop(node, run, alpha=alpha)


def _chosen(result: Any, out: Any) -> Any:
    """`result`, in `out` if that is given."""
    if out is None:
        return result[()]
    out[...] = result
    return out


@kernel("Selu", **_ELEMENTWISE)
def _selu(node: KernelNode) -> Any:
    """One of the two summands is zero."""
    xp, number = node.xp, node.np_dtype().type
    zero, scale, below = number(0), number(_SCALE), number(_SCALE_ALPHA)

    def run(x: Any, out: Any = None) -> Any:
        negative = below * xp.expm1(xp.minimum(x, zero))
        return xp.add(scale * xp.maximum(x, zero), negative, out=out)

    return with_loop(node, run, scale=scale, below=below)


@kernel("SeluGrad", **_ELEMENTWISE)
def _selu_grad(node: KernelNode) -> Any:
    xp, number = node.xp, node.np_dtype().type
    zero, scale, below = number(0), number(_SCALE), number(_SCALE_ALPHA)

    def run(grad: Any, y: Any, out: Any = None) -> Any:
        return xp.multiply(grad, xp.where(y < zero, y + below, scale), out=out)

    return with_loop(node, run, scale=scale, below=below)


@kernel("SelectV2", fresh=True, elementwise=True)
def _select(node: KernelNode) -> Any:
    where, choose = node.xp.where, chooser(node.xp, node.np_dtype())

    def run(condition: Any, t: Any, e: Any) -> Any:
        if condition.shape == t.shape == e.shape:
            return choose(condition, t, e)
        try:
            return where(condition, t, e)[()]
        except ValueError:
            raise invalid("the condition and the values do not broadcast: "
                          f"{shown(condition)}, {shown(t)}, {shown(e)}") from None

    return run


@kernel("SelectV2", device="CPU", types={"T": ["string"]})
def _select_strings(node: KernelNode) -> Any:
    def run(condition: Any, t: Any, e: Any) -> Any:
        values = [v if isinstance(v, np.ndarray) else np.array(v, object) for v in (t, e)]
        return np.where(condition, *values)[()]

    return run
