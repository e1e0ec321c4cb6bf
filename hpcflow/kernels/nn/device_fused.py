"""Convolutions with bias and relu on a device: these are added to the result in one launch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hpcflow.kernels.common.device_windows import programs_of
from hpcflow.kernels.nn import convolution
from hpcflow.kernels.nn.fused import check_bias
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops.elements import ElementKernel, typed

TYPES = {"T": ("float16", "float32")}


@functools.cache
def _finishing(dtype: str, relu: bool, is_first: bool) -> ElementKernel:
    """(y, bias, channels, size): y of images of `size` elements, with the bias of each channel; the
    channels come last, or first in each image."""
    place = "i / size % channels" if is_first else "i % channels"
    result = "v < 0 ? (value)0 : v" if relu else "v"
    body = f"""
const value v = get(y[i]) + get(bias[{place}]);
y[i] = put({result});"""
    return ElementKernel(("stored* y", "const stored* bias", "position channels", "position size"),
                         body, typed(dtype))


def finishing(node: KernelNode) -> Callable[[Any, Any], Any]:
    """``finish(y, bias)``: y in the layout of the op, with bias and relu, in its place."""
    relu, is_first = bool(node.attr("relu")), node.attr("data_format") == b"NCHW"
    programs, xp = programs_of(node.device), node.xp
    if programs is None:
        def plain(y: Any, bias: Any) -> Any:
            y += bias[:, None, None] if is_first else bias
            return xp.maximum(y, y.dtype.type(0), out=y) if relu else y

        return plain
    run = programs.elements(_finishing(node.np_dtype().name, relu, is_first))

    def finish(y: Any, bias: Any) -> Any:
        run(y.size, y, programs.dense(bias), len(bias), y.shape[-1] * y.shape[-2])
        return y

    return finish


@kernel("_ConvBias", device="GPU", types=TYPES, fresh=True)
def conv_bias(node: KernelNode) -> Callable:
    """A convolution, plus a bias, without what is negative."""
    convolve, finish = convolution.forward(node), finishing(node)

    def run(x: Any, w: Any, bias: Any) -> Any:
        check_bias(bias, w.shape[-1])
        return finish(convolve(x, w), bias)

    return run
