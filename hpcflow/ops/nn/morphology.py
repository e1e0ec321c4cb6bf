"""Dilation2D (grayscale morphology) and patches of images and volumes: windows over them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from hpcflow.base.keywords import also_called
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, show, with_rank
from hpcflow.ops.common.type_sets import ORDERED
from hpcflow.ops.common.window_shapes import PADDING, agreeing, in_space, slid

__all__ = ["extract_image_patches", "extract_volume_patches"]

# ---------------------------------------------------------------- Dilation2D


def _dilated(op: Operation) -> Dims:
    x = with_rank(op.input_dims(0), 4, "input")
    window = with_rank(op.input_dims(1), 3, "filter")
    try:
        depth = merge_dim(x[3], window[2])
    except ValueError:
        raise ValueError(f"depth of the input {show(x)} and of the filter {show(window)} must be "
                         "equal") from None
    sizes = slid(op, x, window[:2], in_space(op, "strides", 4), in_space(op, "rates", 4))
    return (x[0], *sizes, depth)


def _dilation_shape(op: Operation) -> list[Dims]:
    return [_dilated(op)]


def _dilation_grad_shape(op: Operation) -> list[Dims]:
    agreeing(op, _dilated(op), 2, "out_backprop")
    if op.type.endswith("Input"):
        return [with_rank(op.input_dims(0), 4, "input")]
    return [with_rank(op.input_dims(1), 3, "filter")]


_DILATION = f"T: {ORDERED}; strides: list(int) >= 4; rates: list(int) >= 4; {PADDING}"

register_op("Dilation2D", "input: T; filter: T", "output: T", _DILATION, shape=_dilation_shape)
register_op("Dilation2DBackpropInput", "input: T; filter: T; out_backprop: T", "in_backprop: T",
            _DILATION, shape=_dilation_grad_shape)
register_op("Dilation2DBackpropFilter", "input: T; filter: T; out_backprop: T",
            "filter_backprop: T", _DILATION, shape=_dilation_grad_shape)


@RegisterGradient("Dilation2D")
def _dilation_grad(op: Operation, grad: Tensor) -> tuple:
    x, window = op.inputs
    attrs = {name: op.attr(name) for name in ("strides", "rates", "padding")}
    return (raw_ops.Dilation2DBackpropInput(x, window, grad, **attrs),
            raw_ops.Dilation2DBackpropFilter(x, window, grad, **attrs))


not_differentiable("Dilation2DBackpropInput", "Dilation2DBackpropFilter")

# ---------------------------------------------------------------- patches


def _patches_shape(op: Operation) -> list[Dims]:
    rank = len(op.attr("ksizes"))
    x = with_rank(op.input_dims(0), rank, "images" if rank == 4 else "volumes")
    window = in_space(op, "ksizes", rank)
    rates = in_space(op, "rates", rank) if op.attr("rates") else None
    sizes = slid(op, x, window, in_space(op, "strides", rank), rates)
    return [(x[0], *sizes, None if x[-1] is None else math.prod(window) * x[-1])]


register_op("ExtractImagePatches", "images: T", "patches: T",
            "ksizes: list(int) >= 4; strides: list(int) >= 4; rates: list(int) >= 4; "
            f"T: {ORDERED}; {PADDING}", shape=_patches_shape)
register_op("ExtractVolumePatches", "input: T", "patches: T",
            f"ksizes: list(int) >= 5; strides: list(int) >= 5; T: {ORDERED}; {PADDING}",
            shape=_patches_shape)


@RegisterGradient("ExtractImagePatches")
@RegisterGradient("ExtractVolumePatches")
def _patches_grad(op: Operation, grad: Tensor) -> Tensor:
    """The sum of what went to each pixel: patches of the pixels' numbers say where from.

    Pixels are numbered from one; zero is padding.
    """
    attrs = {name: op.attr(name) for name in ("ksizes", "strides", "rates", "padding")
             if op.attr(name) is not None}
    shape = raw_ops.Shape(op.inputs[0])
    batch, *space, depth = raw_ops.Unpack(shape, num=len(op.attr("ksizes")))
    pixels = functools.reduce(raw_ops.Mul, space)
    one = np.int32(1)
    numbers = raw_ops.Reshape(raw_ops.Range(one, raw_ops.Add(pixels, one), one),
                              raw_ops.Pack([one, *space, one]))
    sources = raw_ops.Reshape(getattr(raw_ops, op.type)(numbers, **attrs),
                              np.array([-1], np.int32))
    rows = raw_ops.Pack([batch, raw_ops.Size(sources), depth])
    by_source = raw_ops.Transpose(raw_ops.Reshape(grad, rows), np.array([1, 0, 2], np.int32))
    sums = raw_ops.UnsortedSegmentSum(by_source, sources, raw_ops.Add(pixels, one))
    inside = raw_ops.Slice(sums, np.array([1, 0, 0], np.int32), np.full(3, -1, np.int32))
    return raw_ops.Reshape(raw_ops.Transpose(inside, np.array([1, 0, 2], np.int32)), shape)


@also_called(sizes="ksizes")
def extract_image_patches(images: TensorLike, ksizes: Sequence[int], strides: Sequence[int],
                          rates: Sequence[int], padding: str, name: str | None = None) -> Tensor:
    """Return the windows of NHWC images, each flattened into the last dimension.

    Args:
        images: [batch, height, width, depth].
        ksizes: [1, rows, columns, 1] of a window.
        strides: [1, rows, columns, 1] between windows.
        rates: [1, rows, columns, 1] between the elements of a window.
        padding: ``"SAME"`` (with zeros) or ``"VALID"``.
        name: of the op.

    Returns:
        [batch, rows, columns, window rows · window columns · depth].

    Raises:
        ValueError: if the window does not fit.
    """
    return raw_ops.ExtractImagePatches(images=images, ksizes=ksizes, strides=strides, rates=rates,
                                       padding=padding, name=name)


def extract_volume_patches(input: TensorLike, ksizes: Sequence[int], strides: Sequence[int],
                           padding: str, name: str | None = None) -> Tensor:
    """Return the windows of NDHWC volumes, each flattened into the last dimension.

    Args:
        input: [batch, planes, rows, columns, depth].
        ksizes: [1, planes, rows, columns, 1] of a window.
        strides: [1, planes, rows, columns, 1] between windows.
        padding: ``"SAME"`` (with zeros) or ``"VALID"``.
        name: of the op.

    Returns:
        [batch, planes, rows, columns, window planes · window rows · window columns · depth].

    Raises:
        ValueError: if the window does not fit.
    """
    return raw_ops.ExtractVolumePatches(input=input, ksizes=ksizes, strides=strides,
                                        padding=padding, name=name)
