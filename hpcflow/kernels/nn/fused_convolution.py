"""Kernels of convolutions behind a resizing and a padding: the kernels of the parts, in a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.arrays.layout import mirror_pad
from hpcflow.kernels.image.image_resizing import (
    Grid,
    bilinear_taps,
    check_images,
    checked_size,
    resize,
)
from hpcflow.kernels.nn.convolution import check_same_depth
from hpcflow.kernels.registry import KernelNode, find_kernel, invalid, kernel, shown


def _padded_convolution(node: KernelNode) -> Callable:
    """``f(input, paddings, filter)``, with the best kernel of Conv2D that the device has."""
    attrs = {"T": node.attr("T"), "strides": node.attr("strides"),
             "padding": node.attr("padding"), "data_format": b"NHWC"}
    found = find_kernel("Conv2D", node.device.type, attrs)
    if found is None:
        raise invalid(f"no kernel of Conv2D for {node.attr('T')} on {node.device.type}")
    unknown: list = [None, None]
    convolve = found.factory(KernelNode(
        node.name, "Conv2D", attrs, node.device, [node.attr("T")] * 2, node.output_dtypes,
        unknown, node.output_dims, unknown, node.context, node.op))
    pad = mirror_pad(node)

    def run(x: Any, paddings: Any, filter: Any) -> Any:
        if np.shape(paddings) != (4, 2):
            raise invalid(f"paddings must have shape [4, 2], got {shown(np.shape(paddings))}")
        if filter.ndim == 4:
            check_same_depth(x.shape, filter.shape)
        return convolve(pad(x, paddings), filter)

    return run


@kernel("FusedPadConv2D", fresh=True, host_inputs=(1,))
def _pad_conv(node: KernelNode) -> Callable:
    convolve = _padded_convolution(node)

    def run(x: Any, paddings: Any, filter: Any) -> Any:
        if x.ndim != 4:
            raise invalid(f"input must be 4-dimensional, got shape {shown(x)}")
        return convolve(x, paddings, filter)

    return run


@kernel("FusedResizeAndPadConv2D", fresh=True, host_inputs=(1, 2))
def _resize_pad_conv(node: KernelNode) -> Callable:
    xp, dtype, grid = node.xp, node.np_dtype(), Grid(node.attr("resize_align_corners"))
    convolve = _padded_convolution(node)

    def run(x: Any, size: Any, paddings: Any, filter: Any) -> Any:
        check_images(x, "input")
        resized = resize(xp, x, checked_size(size), bilinear_taps, grid)
        return convolve(resized.astype(dtype, copy=False), paddings, filter)

    return run
