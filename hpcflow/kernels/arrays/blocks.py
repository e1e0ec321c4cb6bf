"""Kernels that move blocks of space into the batch or the depth, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.loops import strided_copy

# ---------------------------------------------------------------- batch


@kernel("SpaceToBatchND", fresh=True, host_inputs=(1, 2))
def space_to_batch_nd(node: KernelNode) -> Callable:
    """Padding, then a transposition of the blocks."""
    xp = node.xp
    return lambda x, block, paddings: _to_batch(xp, x, block.tolist(), paddings.tolist())


@kernel("SpaceToBatch", fresh=True, host_inputs=(1,))
def space_to_batch(node: KernelNode) -> Callable:
    """As SpaceToBatchND with square blocks."""
    xp, block = node.xp, [node.attr("block_size")] * 2
    return lambda x, paddings: _to_batch(xp, x, block, paddings.tolist())


@kernel("BatchToSpaceND", fresh=True, host_inputs=(1, 2))
@also_strings("BatchToSpaceND")
def batch_to_space_nd(node: KernelNode) -> Callable:
    """A transposition of the blocks, then a view of the middle."""
    return lambda x, block, crops: _from_batch(x, block.tolist(), crops.tolist())


@kernel("BatchToSpace", fresh=True, host_inputs=(1,))
@also_strings("BatchToSpace")
def batch_to_space(node: KernelNode) -> Callable:
    """As BatchToSpaceND with square blocks."""
    block = [node.attr("block_size")] * 2
    return lambda x, crops: _from_batch(x, block, crops.tolist())


def _rearranged(blocks: Any, dims: tuple) -> Any:
    """A copy of transposed blocks, in another shape."""
    whole = strided_copy.contiguous(blocks) if isinstance(blocks, np.ndarray) else blocks.copy()
    return whole.reshape(dims)


def _to_batch(xp: Any, x: Any, block: list[int], paddings: list) -> Any:
    count = len(block)
    _check(x, block, paddings, "paddings")
    if any(map(any, paddings)):
        x = _padded(xp, x, [[0, 0], *paddings] + [[0, 0]] * (x.ndim - count - 1))
    batch, sizes, rest = x.shape[0], x.shape[1 : count + 1], x.shape[count + 1 :]
    split: list[int] = []
    for i, (size, b) in enumerate(zip(sizes, block)):
        if size % b:
            raise invalid(f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={b}")
        split += [size // b, b]
    blocks = x.reshape((batch, *split, *rest))
    inner = [2 + 2 * i for i in range(count)]
    outer = [1 + 2 * i for i in range(count)]
    last = list(range(1 + 2 * count, blocks.ndim))
    shape = (batch * math.prod(block), *split[::2], *rest)
    return _rearranged(blocks.transpose([*inner, 0, *outer, *last]), shape)


def _padded(xp: Any, x: Any, rows: list) -> Any:
    out = xp.zeros([b + d + a for d, (b, a) in zip(x.shape, rows)], x.dtype)
    out[tuple([slice(b, b + d) for d, (b, _) in zip(x.shape, rows)])] = x
    return out


def _from_batch(x: Any, block: list[int], crops: list) -> Any:
    count, total = len(block), math.prod(block)
    _check(x, block, crops, "crops")
    batch, rest = x.shape[0], x.shape[count + 1 :]
    if batch % total:
        raise invalid(f"Input batch dimension ({batch}) is not divisible by product of block sizes "
                      f"({total})")
    blocks = x.reshape((*block, batch // total, *x.shape[1:]))
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    sizes = [size * b for size, b in zip(x.shape[1:], block)]
    last = list(range(2 * count + 1, blocks.ndim))
    out = _rearranged(blocks.transpose([count, *pairs, *last]), (batch // total, *sizes, *rest))
    for i, (size, (before, after)) in enumerate(zip(sizes, crops)):
        if before + after > size:
            raise invalid(f"cropped_shape[{i}]={size - before - after} must be non-negative")
    middle = (slice(None), *[slice(b, s - a) for s, (b, a) in zip(sizes, crops)])
    return out[middle]


def _check(x: Any, block: list[int], margins: list, what: str) -> None:
    if x.ndim < len(block) + 1 or len(margins) != len(block):
        raise invalid(f"input of rank {x.ndim}, {len(block)} block sizes and {len(margins)} rows "
                      f"of {what} do not fit together")
    if any(b < 1 for b in block):
        raise invalid(f"All values in block_shape must be positive, got {block}")
    if any(min(row) < 0 for row in margins):
        raise invalid(f"All {what} must be non-negative, got {margins}")


# ---------------------------------------------------------------- depth


def _image_sizes(x: Any, channels_first: bool) -> tuple:
    if x.ndim != 4:
        raise invalid(f"Input rank should be: 4 instead of: {x.ndim}")
    return (x.shape[0], *x.shape[2:], x.shape[1]) if channels_first else x.shape


@kernel("SpaceToDepth", fresh=True)
@also_strings("SpaceToDepth")
def space_to_depth(node: KernelNode) -> Callable:
    """A transposition of [h, bh, w, bw] to [h, w, bh, bw]."""
    b = node.attr("block_size")
    channels_first = node.attr("data_format") == b"NCHW"

    def run(x: Any) -> Any:
        n, h, w, c = _image_sizes(x, channels_first)
        if h % b or w % b:
            raise invalid(f"Image height {h} and width {w} should be divisible by block_size: {b}")
        if channels_first:
            blocks = x.reshape((n, c, h // b, b, w // b, b)).transpose((0, 3, 5, 1, 2, 4))
            return _rearranged(blocks, (n, b * b * c, h // b, w // b))
        blocks = x.reshape((n, h // b, b, w // b, b, c)).transpose((0, 1, 3, 2, 4, 5))
        return _rearranged(blocks, (n, h // b, w // b, b * b * c))

    return run


@kernel("DepthToSpace", fresh=True)
@also_strings("DepthToSpace")
def depth_to_space(node: KernelNode) -> Callable:
    """The reverse transposition."""
    b = node.attr("block_size")
    channels_first = node.attr("data_format") == b"NCHW"

    def run(x: Any) -> Any:
        n, h, w, c = _image_sizes(x, channels_first)
        if c % (b * b):
            raise invalid(f"Input depth dimension {c} should be divisible by: {b * b}")
        c //= b * b
        if channels_first:
            blocks = x.reshape((n, b, b, c, h, w)).transpose((0, 3, 4, 1, 5, 2))
            return _rearranged(blocks, (n, c, h * b, w * b))
        blocks = x.reshape((n, h, w, b, b, c)).transpose((0, 1, 3, 2, 4, 5))
        return _rearranged(blocks, (n, h * b, w * b, c))

    return run
