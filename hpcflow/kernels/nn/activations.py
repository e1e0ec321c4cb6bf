"""Kernels of activation functions and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.common.parallel import in_blocks
from hpcflow.kernels.math.selection import placed
from hpcflow.kernels.registry import KernelNode, kernel

_FLOATS = {"T": ("float16", "float32", "float64")}
_ELEMENTWISE: dict[str, Any] = {"fresh": True, "accepts_out": True, "elementwise": True}


@kernel("Relu", **_ELEMENTWISE)
def _relu(node: KernelNode) -> Any:
    maximum, zero = node.xp.maximum, node.np_dtype().type(0)

    def run(x: Any, out: Any = None) -> Any:
        return maximum(x, zero, out=out)

    return run


@kernel("ReluGrad", **_ELEMENTWISE)
def _relu_grad(node: KernelNode) -> Any:
    """A product with the mask: twice as fast as where()."""
    multiply, greater, zero = node.xp.multiply, node.xp.greater, node.np_dtype().type(0)

    def run(dy: Any, x: Any, out: Any = None) -> Any:
        return multiply(dy, greater(x, zero), out=out)

    return in_blocks(run) if node.xp is np else run


@kernel("Relu6", **_ELEMENTWISE)
def _relu6(node: KernelNode) -> Any:
    maximum, minimum, number = node.xp.maximum, node.xp.minimum, node.np_dtype().type
    zero, six = number(0), number(6)

    def run(x: Any, out: Any = None) -> Any:
        y = maximum(x, zero, out=out)
        return minimum(y, six, out=y if y.ndim else None)

    return run


@kernel("Relu6Grad", **_ELEMENTWISE)
def _relu6_grad(node: KernelNode) -> Any:
    xp, number = node.xp, node.np_dtype().type
    zero, six = number(0), number(6)

    def run(dy: Any, x: Any, out: Any = None) -> Any:
        return xp.multiply(dy, xp.greater(x, zero) & xp.less(x, six), out=out)

    return run


@kernel("Elu", types=_FLOATS, **_ELEMENTWISE)
def _elu(node: KernelNode) -> Any:
    """x, or expm1(x) where x is below zero."""
    xp, zero = node.xp, node.np_dtype().type(0)

    def run(x: Any, out: Any = None) -> Any:
        below = xp.expm1(xp.minimum(x, zero))
        return xp.positive(xp.where(x < zero, below, x), out=out)

    return run


@kernel("EluGrad", types=_FLOATS, **_ELEMENTWISE)
def _elu_grad(node: KernelNode) -> Any:
    """dy where the output y is positive, else dy (y + 1)."""
    xp, number = node.xp, node.np_dtype().type
    zero, one = number(0), number(1)

    def run(dy: Any, y: Any, out: Any = None) -> Any:
        return xp.multiply(dy, xp.minimum(y, zero) + one, out=out)

    return run


@kernel("Softplus", types=_FLOATS, **_ELEMENTWISE)
def _softplus(node: KernelNode) -> Any:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), which never overflows."""
    xp, zero = node.xp, node.np_dtype().type(0)

    def run(x: Any, out: Any = None) -> Any:
        rest = xp.log1p(xp.exp(-xp.absolute(x)))
        return xp.add(xp.maximum(x, zero), rest, out=out)

    return run


@kernel("SoftplusGrad", types=_FLOATS, **_ELEMENTWISE)
def _softplus_grad(node: KernelNode) -> Any:
    """dy sigmoid(x)."""
    xp, one = node.xp, node.np_dtype().type(1)

    def run(dy: Any, x: Any, out: Any = None) -> Any:
        return xp.true_divide(dy, xp.exp(-x) + one, out=out)

    return run


@kernel("Softsign", types=_FLOATS, **_ELEMENTWISE)
def _softsign(node: KernelNode) -> Any:
    """x / (1 + |x|)."""
    xp, one = node.xp, node.np_dtype().type(1)

    def run(x: Any, out: Any = None) -> Any:
        return xp.true_divide(x, xp.absolute(x) + one, out=out)

    return run


@kernel("SoftsignGrad", types=_FLOATS, **_ELEMENTWISE)
def _softsign_grad(node: KernelNode) -> Any:
    """dy / (1 + |x|)²."""
    xp, one = node.xp, node.np_dtype().type(1)

    def run(dy: Any, x: Any, out: Any = None) -> Any:
        return xp.true_divide(dy, xp.square(xp.absolute(x) + one), out=out)

    return run


# ---------------------------------------------------------------- leaky and scaled units

# Of "Self-normalizing neural networks" (Klambauer et al., 2017).
_SCALE, _SCALE_ALPHA = 1.0507009873554804934193349852946, 1.7580993408473768599402175208123


def _alpha(node: KernelNode) -> Any:
    """The slope below zero; attributes are float32, whatever the op computes in."""
    return node.np_dtype().type(np.float32(node.attr("alpha")))


@kernel("LeakyRelu", types=_FLOATS, **_ELEMENTWISE)
def _leaky_relu(node: KernelNode) -> Any:
    xp, zero, alpha = node.xp, node.np_dtype().type(0), _alpha(node)

    def run(x: Any, out: Any = None) -> Any:
        return placed(xp.where(x > zero, x, x * alpha), out)

    return run


@kernel("LeakyReluGrad", types=_FLOATS, **_ELEMENTWISE)
def _leaky_relu_grad(node: KernelNode) -> Any:
    xp, zero, alpha = node.xp, node.np_dtype().type(0), _alpha(node)

    def run(grad: Any, x: Any, out: Any = None) -> Any:
        return placed(xp.where(x > zero, grad, grad * alpha), out)

    return run


@kernel("Selu", types=_FLOATS, **_ELEMENTWISE)
def _selu(node: KernelNode) -> Any:
    xp, number = node.xp, node.np_dtype().type
    zero, scale, below = number(0), number(_SCALE), number(_SCALE_ALPHA)

    def run(x: Any, out: Any = None) -> Any:
        negative = below * xp.expm1(xp.minimum(x, zero))
        return xp.positive(xp.where(x < zero, negative, scale * x), out=out)

    return run


@kernel("SeluGrad", types=_FLOATS, **_ELEMENTWISE)
def _selu_grad(node: KernelNode) -> Any:
    xp, number = node.xp, node.np_dtype().type
    zero, scale, below = number(0), number(_SCALE), number(_SCALE_ALPHA)

    def run(grad: Any, y: Any, out: Any = None) -> Any:
        return xp.multiply(grad, xp.where(y < zero, y + below, scale), out=out)

    return run
