"""Kernels of networks on quantized integers.

Products are sums of integer products, computed exactly: in float64, where a product of 8-bit
integers and a sum of 2**37 of them have no rounding, and then taken as 32-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, spans, taps
from hpcflow.kernels.common.quantized_numbers import (
    number,
    product_range,
    requantized,
    rounded_to_float,
    to_float,
    to_quantized,
    zero_point,
)
from hpcflow.kernels.common.windows import check_rank, window_of
from hpcflow.kernels.nn.convolution import check_same_depth, checked_spans, convolve
from hpcflow.kernels.nn.pooling import max_pool
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_EVERY = slice(None)


def _range(low: Any, high: Any, what: str) -> tuple[float, float]:
    return number(low, f"min_{what}"), number(high, f"max_{what}")


def _wrapped(values: Any, dtype: Any) -> Any:
    """Exact integers as the low bits of `dtype`."""
    return values.astype(np.int64).astype(dtype)


# ---------------------------------------------------------------- products


def exact_product(a: Any, b: Any, zeros: tuple[int, int], out: Any) -> Any:
    """``(a - zeros[0]) @ (b - zeros[1])`` of matrices of integers, as the low bits of `out`."""
    return _wrapped(_shifted(a, zeros[0]) @ _shifted(b, zeros[1]), out)


def exact_convolution(x: Any, w: Any, zeros: tuple[int, int], over: Sequence[Span],
                      out: Any) -> Any:
    """The convolution of ``x - zeros[0]`` with ``w - zeros[1]``, as the low bits of `out`.

    What the padding stands for is 0, so it adds nothing.
    """
    return _wrapped(convolve(np, _shifted(x, zeros[0]), _shifted(w, zeros[1]), over), out)


def _shifted(values: Any, zero: int) -> Any:
    return values.astype(np.float64) - zero


def matmul_by(node: KernelNode, product: Callable) -> Callable:
    """The kernel of QuantizedMatMul with the function that multiplies, as `exact_product`."""
    out = node.output_dtypes[0].np
    turn_a, turn_b = node.attr("transpose_a"), node.attr("transpose_b")

    def run(a: Any, b: Any, low_a: Any, high_a: Any, low_b: Any, high_b: Any) -> tuple:
        if a.ndim != 2 or b.ndim != 2:
            raise invalid(f"the inputs must be matrices: {shown(a)}, {shown(b)}")
        range_a, range_b = _range(low_a, high_a, "a"), _range(low_b, high_b, "b")
        zeros = zero_point(*range_a, a.dtype), zero_point(*range_b, b.dtype)
        x, y = a.T if turn_a else a, b.T if turn_b else b
        if x.shape[1] != y.shape[0]:
            raise invalid(f"Matrix size-incompatible: {shown(a)} x {shown(b)}")
        return (product(x, y, zeros, out),
                *product_range((a.dtype, *range_a), (b.dtype, *range_b), out))

    return run


def conv2d_by(node: KernelNode, convolution: Callable) -> Callable:
    """The kernel of QuantizedConv2D with the function that computes, as `exact_convolution`."""
    out, window = node.output_dtypes[0].np, window_of(node, "")

    def run(x: Any, w: Any, low_x: Any, high_x: Any, low_w: Any, high_w: Any) -> tuple:
        check_rank("input", x, 4)
        check_rank("filter", w, 4)
        check_same_depth(x.shape, w.shape)
        range_x, range_w = _range(low_x, high_x, "input"), _range(low_w, high_w, "filter")
        zeros = zero_point(*range_x, x.dtype), zero_point(*range_w, w.dtype)
        y = convolution(x, w, zeros, checked_spans(window, x.shape, w.shape), out)
        return (y, *product_range((x.dtype, *range_x), (w.dtype, *range_w), out))

    return run


@kernel("QuantizedMatMul", device="CPU", fresh=True)
def _matmul(node: KernelNode) -> Callable:
    return matmul_by(node, exact_product)


@kernel("QuantizedConv2D", device="CPU", fresh=True)
def _conv2d(node: KernelNode) -> Callable:
    return conv2d_by(node, exact_convolution)


@kernel("QuantizedBiasAdd", device="CPU", fresh=True)
def _bias_add(node: KernelNode) -> Callable:
    out = node.output_dtypes[0].np

    def run(x: Any, bias: Any, low_x: Any, high_x: Any, low_b: Any, high_b: Any) -> tuple:
        if bias.ndim != 1 or x.ndim < 1 or x.shape[-1] != bias.shape[0]:
            raise invalid(f"the last dimension of input {shown(x)} must be that of the vector "
                          f"bias {shown(bias)}")
        range_x, range_b = _range(low_x, high_x, "input"), _range(low_b, high_b, "bias")
        return _sum((x, bias), (range_x, range_b), 17, out)

    return run


def _sum(values: tuple, ranges: tuple[tuple[float, float], ...], room: int, out: Any) -> tuple:
    """The sum of two and its range: so many bits more than the larger one of theirs."""
    reach = _reach(ranges, room)
    total = sum(to_quantized(to_float(v, *pair), -reach, reach, out).astype(np.int64)
                for v, pair in zip(values, ranges, strict=True))
    return _wrapped(total, out), np.float32(-reach), np.float32(reach)


def _reach(ranges: tuple[tuple[float, float], ...], room: int) -> float:
    return max(abs(limit) for pair in ranges for limit in pair) * (1 << room)


@kernel("QuantizedAdd", device="CPU", fresh=True)
def _add(node: KernelNode) -> Callable:
    out = node.output_dtypes[0].np

    def run(x: Any, y: Any, *limits: Any) -> tuple:
        ranges = _checked(x, y, limits)
        if not x.dtype == y.dtype == np.uint8:
            return _sum((x, y), ranges, 14, out)
        reach = _reach(ranges, 14)
        total = sum(_in_steps(v, pair, reach, out)
                    for v, pair in zip((x, y), ranges, strict=True))
        return _wrapped(total, out), np.float32(-reach), np.float32(reach)

    return run


def _in_steps(values: Any, limits: tuple[float, float], reach: float, out: Any) -> Any:
    """8-bit integers as those of a wider range. Other runtimes round the step between two, and add
    it up, but for scalars."""
    known = values if values.size == 1 else np.array([0, 1], np.uint8)
    found = to_quantized(to_float(known, *limits), -reach, reach, out).astype(np.int64)
    return found if known is values else (
        found[0] + values.astype(np.int64) * (found[1] - found[0]))


@kernel("QuantizedMul", device="CPU", fresh=True)
def _mul(node: KernelNode) -> Callable:
    out = node.output_dtypes[0].np

    def run(x: Any, y: Any, *limits: Any) -> tuple:
        a, b = _checked(x, y, limits)
        product = (_shifted(x, zero_point(*a, x.dtype)) * _shifted(y, zero_point(*b, y.dtype)))
        return (_wrapped(product, out),
                *product_range((x.dtype, *a), (y.dtype, *b), out))

    return run


def _checked(x: Any, y: Any, limits: tuple) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of two values, whose shapes must broadcast."""
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        raise invalid(f"Incompatible shapes: {shown(x)} vs. {shown(y)}") from None
    low_x, high_x, low_y, high_y = limits
    return _range(low_x, high_x, "x"), _range(low_y, high_y, "y")


# ---------------------------------------------------------------- activations and pooling


def _clamped(node: KernelNode, top: Callable[[tuple], float | None]) -> Callable:
    def run(x: Any, *rest: Any) -> tuple:
        low, high = rest[-2:]
        limits = _range(low, high, "features")
        highest = top(rest)
        y = np.maximum(x, to_quantized(0.0, *limits, x.dtype))
        if highest is not None:
            y = np.minimum(y, to_quantized(highest, *limits, x.dtype))
        return y, np.float32(limits[0]), np.float32(limits[1])

    return run


@kernel("QuantizedRelu", device="CPU", fresh=True)
def _relu(node: KernelNode) -> Callable:
    return _clamped(node, lambda rest: None)


@kernel("QuantizedRelu6", device="CPU", fresh=True)
def _relu6(node: KernelNode) -> Callable:
    return _clamped(node, lambda rest: 6.0)


@kernel("QuantizedReluX", device="CPU", fresh=True)
def _relu_x(node: KernelNode) -> Callable:
    return _clamped(node, lambda rest: number(rest[0], "max_value"))


@kernel("QuantizedMaxPool", device="CPU", fresh=True)
def _max_pool(node: KernelNode) -> Callable:
    pool = max_pool(node)

    def run(x: Any, low: Any, high: Any) -> tuple:
        return pool(x), np.float32(number(low, "min_input")), np.float32(number(high, "max_input"))

    return run


@kernel("QuantizedAvgPool", device="CPU", fresh=True)
def _avg_pool(node: KernelNode) -> Callable:
    windows, strides = node.attr("ksize")[1:], node.attr("strides")[1:]
    padding = node.attr("padding")

    def run(x: Any, low: Any, high: Any) -> tuple:
        check_rank("input", x, 4)
        try:
            over = spans(x.shape[1:], windows, strides, padding)
        except ValueError as e:
            raise invalid(str(e)) from None
        shape = (x.shape[0], *(s.out for s in over))
        total, count = np.zeros(shape, np.int64), np.zeros(shape[1:], np.int64)
        for _, inside, outside in taps(over):
            here, there = (_EVERY, *inside), (_EVERY, *outside)
            total[there] += x[here]
            count[tuple(outside)] += 1
        y = (total // np.maximum(count, 1)).astype(x.dtype)
        return y, np.float32(number(low, "min_input")), np.float32(number(high, "max_input"))

    return run


# ---------------------------------------------------------------- normalization


@kernel("QuantizedBatchNormWithGlobalNormalization", device="CPU", fresh=True)
def _batch_norm(node: KernelNode) -> Callable:
    out, epsilon = node.output_dtypes[0].np, node.attr("variance_epsilon")
    scaled = node.attr("scale_after_normalization")
    reach = float(1 << 20)

    def run(*values: Any) -> tuple:
        x, mean, variance, beta, gamma = (
            to_float(values[i], *_range(values[i + 1], values[i + 2], "value"))
            for i in range(0, 15, 3))
        if values[0].ndim != 4:
            raise invalid(f"input must be 4-dimensional, but has shape {shown(values[0])}")
        factor = 1.0 / np.sqrt(variance + epsilon)
        if scaled:
            factor = factor * gamma
        y = (x - mean) * factor + beta
        return to_quantized(y, -reach, reach, out), np.float32(-reach), np.float32(reach)

    return run


@kernel("QuantizedInstanceNorm", device="CPU", fresh=True)
def _instance_norm(node: KernelNode) -> Callable:
    epsilon, separation = node.attr("variance_epsilon"), node.attr("min_separation")
    given = node.attr("output_range_given")
    limits = node.attr("given_y_min"), node.attr("given_y_max")
    if given and not limits[0] < limits[1]:
        raise invalid("given_y_min must be less than given_y_max, but they are "
                      f"{limits[0]} and {limits[1]}")

    def run(x: Any, low: Any, high: Any) -> tuple:
        check_rank("x", x, 4)
        first, last = _range(low, high, "x")
        if not first < last:
            raise invalid(f"x_min must be less than x_max, but they are {first} and {last}")
        values = to_float(x, first, last)
        mean = values.mean((1, 2), keepdims=True)
        variance = np.square(values - mean).mean((1, 2), keepdims=True)
        y = (values - mean) / np.sqrt(variance + epsilon)
        if given:
            least, most = limits
        else:
            least = min(float(y.min()), 0.0)
            most = max(float(y.max()), least + separation)
        return to_quantized(y, least, most, x.dtype), np.float32(least), np.float32(most)

    return run


# ---------------------------------------------------------------- ranges


def _used_range(x: Any, low: Any, high: Any) -> tuple[float, float]:
    """The range of the values that are there, with 0 in it."""
    limits = _range(low, high, "input")
    if not x.size:
        return limits
    ends = np.stack([x.min(), x.max()])
    least, most = rounded_to_float(ends, *limits).tolist()
    return min(0.0, least), most


@kernel("RequantizationRange", device="CPU", fresh=True)
def _requantization_range(node: KernelNode) -> Callable:
    return lambda x, low, high: tuple(map(np.float32, _used_range(x, low, high)))


@kernel("QuantizeDownAndShrinkRange", device="CPU", fresh=True)
def _shrink(node: KernelNode) -> Callable:
    out = node.output_dtypes[0].np

    def run(x: Any, low: Any, high: Any) -> tuple:
        least, most = _used_range(x, low, high)
        found = requantized(x, _range(low, high, "input"), (least, most), out)
        return found, np.float32(least), np.float32(most)

    return run


@kernel("Requantize", device="CPU", fresh=True)
def _requantize(node: KernelNode) -> Callable:
    out = node.output_dtypes[0].np

    def run(x: Any, low: Any, high: Any, to_low: Any, to_high: Any) -> tuple:
        least, most = _range(to_low, to_high, "requested_output")
        if least > 0 or most < 0 or least == most:
            raise invalid("requested_output_min must be <= 0, and requested_output_max larger and "
                          f">= 0, but they are {least} and {most}")
        found = requantized(x, _range(low, high, "input"), (least, most), out)
        return found, np.float32(least), np.float32(most)

    return run


@kernel("QuantizedConcat", device="CPU", fresh=True)
def _concat(node: KernelNode) -> Callable:
    count = node.attr("N")
    dtype = node.output_dtypes[0].np

    def run(axis: Any, *values: Any) -> tuple:
        arrays, lows, highs = (values[i * count : (i + 1) * count] for i in range(3))
        dim = int(number(axis, "concat_dim"))
        rank = arrays[0].ndim
        if not -rank <= dim < rank:
            raise invalid(f"concat_dim must be in [{-rank}, {rank}), but is {dim}")
        ranges = [_range(a, b, "input") for a, b in zip(lows, highs, strict=True)]
        least = min(0.0, *(r[0] for r in ranges))
        most = max(r[1] for r in ranges)
        moved = [a if r == (least, most) else to_quantized(to_float(a, *r), least, most, dtype)
                 for a, r in zip(arrays, ranges, strict=True)]
        try:
            return np.concatenate(moved, dim), np.float32(least), np.float32(most)
        except ValueError as e:
            raise invalid(f"the shapes do not fit together: {e}") from None

    return run


@kernel("QuantizedReshape", device="CPU")
def _reshape(node: KernelNode) -> Callable:
    def run(x: Any, shape: Any, low: Any, high: Any) -> tuple:
        try:
            y = x.reshape(np.asarray(shape).tolist())
        except ValueError:
            raise invalid(f"cannot reshape {shown(x)} to {np.asarray(shape).tolist()}"
                          ) from None
        return y, np.float32(number(low, "input_min")), np.float32(number(high, "input_max"))

    return run


