"""Kernels of the fused op types by NumPy: the ops one after the other, in place where they may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import blas, memory
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.nn import convolution, pooling
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops.strided_copy import contiguous
from hpcflow.resources.variables import VariableState


def check_bias(bias: Any, channels: int) -> None:
    """InvalidArgumentError unless `bias` is a vector with one number per channel."""
    if bias.shape != (channels,):
        raise invalid(f"bias of shape {shown(bias)} does not fit {channels} channels")


@kernel("_ConvBias", device="CPU", fresh=True)
def conv_bias(node: KernelNode) -> Callable:
    """A convolution, plus a bias, without what is negative."""
    convolve, relu = convolution.forward(node), node.attr("relu")
    first = node.attr("data_format") == b"NCHW"

    def run(x: Any, w: Any, bias: Any) -> Any:
        check_bias(bias, w.shape[-1])
        y = convolve(x, w)
        y += bias[:, None, None] if first else bias
        return np.maximum(y, np.float32(0), out=y) if relu else y

    return run


@kernel("_Conv2DBackpropInputSum", device="CPU", fresh=True, takes_over=0)
def gradient_sum(node: KernelNode) -> Callable:
    """A sum plus the gradient of a convolution by its input; in place where nobody needs the sum
    without it."""
    compute = convolution.backprop_input(node)

    def run(total: Any, sizes: Any, w: Any, dy: Any, own: bool = False) -> Any:
        dx = compute(sizes, w, dy)
        check_sum(total, dx.shape)
        return np.add(total, dx, out=total if own and total.flags.writeable else dx)

    return run


def check_sum(total: Any, dims: tuple) -> None:
    """InvalidArgumentError unless a gradient of shape `dims` can be added to `total`."""
    if total.shape != dims:
        raise invalid("inputs must have the same size and shape, got "
                      f"{shown(total)} and {shown(dims)}")


@kernel("_MaxPool", device="CPU", fresh=True)
def max_pool(node: KernelNode) -> Callable:
    """The largest of each window, without saying where it is."""
    plain = pooling.max_pool(node)
    return lambda x: (plain(x), np.zeros(0, np.uint8))


@kernel("_MaxPoolGrad", device="CPU", fresh=True)
def max_pool_grad(node: KernelNode) -> Callable:
    """The gradient, from the input and the output."""
    plain = pooling.max_pool_grad(node)
    return lambda x, y, dy, _: plain(x, y, dy)


def factors(node: KernelNode) -> Callable:
    """A function of two matrices: the two as they are multiplied; checks that they fit."""
    flip_a, flip_b = node.attr("transpose_a"), node.attr("transpose_b")

    def oriented(a: Any, b: Any) -> tuple:
        if a.ndim != 2 or b.ndim != 2:
            raise invalid(f"the factors must be matrices: {shown(a)} x {shown(b)}")
        left, right = a.T if flip_a else a, b.T if flip_b else b
        if left.shape[1] != right.shape[0]:
            raise invalid(f"inner dimensions differ: {shown(left)} x {shown(right)}")
        return left, right

    return oriented


@kernel("_MatMulBias", device="CPU", fresh=True)
def layer(node: KernelNode) -> Callable:
    """A product, plus a bias, without what is negative."""
    return layer_by(node, lambda a, b, out: blas.dot(a, b, out=out))


def layer_by(node: KernelNode, multiply: Callable[[Any, Any, Any], object]) -> Callable:
    """The kernel of _MatMulBias with ``multiply(a, b, out)`` for the product."""
    oriented, relu, zero = factors(node), node.attr("relu"), np.float32(0)

    def run(a: Any, b: Any, bias: Any) -> Any:
        left, right = oriented(a, b)
        check_bias(bias, right.shape[1])
        y = memory.empty((left.shape[0], right.shape[1]), np.float32)
        multiply(left, right, y)

        def finish(block: slice) -> None:
            rows = y[block]
            np.add(rows, bias, out=rows)
            if relu:
                np.maximum(rows, zero, out=rows)

        over_rows(len(y), y[:1].nbytes, finish)
        return y

    return run


@kernel("_Transposed", device="CPU", fresh=True)
def transposed(node: KernelNode) -> Callable:
    """A copy: products read its rows."""
    return lambda x: contiguous(x.T)


def targeted_factors(node: KernelNode) -> Callable:
    """As `factors`, also of a third matrix with the shape of the product."""
    factors_of = factors(node)

    def oriented(a: Any, b: Any, target: Any) -> tuple:
        left, right = factors_of(a, b)
        if target.shape != (left.shape[0], right.shape[1]):
            raise invalid(f"the variable {shown(target)} and its gradient "
                          f"{[left.shape[0], right.shape[1]]} must have the same shape")
        return left, right

    return oriented


@kernel("_MatMulGradientDescent", device="CPU")
def descend(node: KernelNode) -> Callable:
    """var -= alpha * a @ b."""
    oriented = targeted_factors(node)

    def run(state: VariableState, alpha: Any, a: Any, b: Any) -> VariableState:
        with state.lock:
            left, right = oriented(a, b, state.read())
            step = blas.dot(left, right)
            step *= alpha
            target = state.writable()
            np.subtract(target, step, out=target)
        return state

    return run
