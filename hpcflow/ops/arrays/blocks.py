"""Blocks of space moved to another dimension and back: SpaceToBatch, SpaceToDepth, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    merge_dims,
    show,
    with_rank,
    with_rank_at_least,
)
from hpcflow.ops.common.type_sets import INDEX

__all__ = [
    "batch_to_space",
    "batch_to_space_nd",
    "depth_to_space",
    "required_space_to_batch_paddings",
    "space_to_batch",
    "space_to_batch_nd",
    "space_to_depth",
]

# ---------------------------------------------------------------- shapes


def _block_arguments(op: Operation) -> tuple[Dims, Any, Any]:
    """The input's shape, the block shape and the paddings or crops; None for what is unknown."""
    if "block_size" in op._attrs:
        merge_dims(op.input_dims(1), (2, 2))
        return (with_rank(op.input_dims(0), 4, "input"), np.array([op._attrs["block_size"]] * 2),
                constant_value(op.inputs[1]))
    blocks = with_rank(op.input_dims(1), 1, "block_shape")
    margins = with_rank(op.input_dims(2), 2, op.op_def.inputs[2].name)
    merge_dims(margins, (blocks[0], 2))
    return op.input_dims(0), constant_value(op.inputs[1]), constant_value(op.inputs[2])


def _beside_space(op: Operation, dims: Dims) -> list[Dims]:
    """The shape of the result where the sizes of the blocks are not known, but their number may
    be: what lies behind space stays as it is."""
    if dims is None:
        return [None]
    blocks = op.input_dims(1)
    if not blocks or blocks[0] is None:
        return [(None,) * len(dims)]
    return [(*[None] * (blocks[0] + 1), *dims[blocks[0] + 1 :])]


def _to_batch_shape(op: Operation) -> list[Dims]:
    dims, block, paddings = _block_arguments(op)
    if dims is None or block is None:
        return _beside_space(op, dims)
    count = len(block)
    with_rank_at_least(dims, count + 1, "input")
    sizes = [_divided(dims[i + 1], block[i], None if paddings is None else paddings[i])
             for i in range(count)]
    batch = None if dims[0] is None else dims[0] * int(np.prod(block))
    return [(batch, *sizes, *dims[count + 1 :])]


def _divided(size: int | None, block: int, padding: Any) -> int | None:
    if block < 1:
        raise ValueError(f"block_shape must be positive, got {block}")
    if padding is not None and min(padding) < 0:
        raise ValueError(f"paddings must be non-negative, got {padding}")
    if size is None or padding is None:
        return None
    quotient, rest = divmod(size + int(sum(padding)), int(block))
    if rest:
        raise ValueError(f"padded size {size + int(sum(padding))} is not divisible by the block "
                         f"size {block}")
    return quotient


def _from_batch_shape(op: Operation) -> list[Dims]:
    dims, block, crops = _block_arguments(op)
    if dims is None or block is None:
        return _beside_space(op, dims)
    count = len(block)
    with_rank_at_least(dims, count + 1, "input")
    batch, total = dims[0], int(np.prod(block))
    if total < 1 or (batch is not None and batch % total):
        raise ValueError(f"batch size {batch} is not divisible by the blocks of {block.tolist()}")
    sizes = [_cropped(dims[i + 1], block[i], None if crops is None else crops[i])
             for i in range(count)]
    return [(None if batch is None else batch // total, *sizes, *dims[count + 1 :])]


def _cropped(size: int | None, block: int, crop: Any) -> int | None:
    if size is None or crop is None:
        return None
    left = size * int(block) - int(sum(crop))
    if left < 0 or min(crop) < 0:
        raise ValueError(f"crops {list(crop)} do not fit size {size * int(block)}")
    return left


def _image_dims(op: Operation) -> tuple[tuple, bool]:
    """Batch, height, width and depth of the images, and whether the depth comes before space."""
    channels_first = op._attrs["data_format"] == b"NCHW"
    dims = with_rank(op.input_dims(0), 4, "input")
    return (dims[0], *dims[2:], dims[1]) if channels_first else tuple(dims), channels_first


def _image(channels_first: bool, n: int | None, *space: int | None) -> list[Dims]:
    *sizes, depth = space
    return [(n, depth, *sizes) if channels_first else (n, *sizes, depth)]


def _to_depth_shape(op: Operation) -> list[Dims]:
    b = op._attrs["block_size"]
    (n, h, w, c), channels_first = _image_dims(op)
    for size in (h, w):
        if size is not None and size % b:
            raise ValueError(f"height and width of {show(op.input_dims(0))} must be divisible by "
                             f"block_size = {b}")
    return _image(channels_first, n, None if h is None else h // b, None if w is None else w // b,
                  None if c is None else c * b * b)


def _from_depth_shape(op: Operation) -> list[Dims]:
    b = op._attrs["block_size"]
    (n, h, w, c), channels_first = _image_dims(op)
    if c is not None and c % (b * b):
        raise ValueError(f"depth of {show(op.input_dims(0))} must be divisible by block_size "
                         f"squared = {b * b}")
    return _image(channels_first, n, None if h is None else h * b, None if w is None else w * b,
                  None if c is None else c // (b * b))


# ---------------------------------------------------------------- op types

_BLOCK = f"Tblock_shape: {INDEX} = int32"
register_op("SpaceToBatchND", "input: T; block_shape: Tblock_shape; paddings: Tpaddings",
            "output: T", f"T: type; {_BLOCK}; Tpaddings: {INDEX} = int32", shape=_to_batch_shape)
register_op("BatchToSpaceND", "input: T; block_shape: Tblock_shape; crops: Tcrops", "output: T",
            f"T: type; {_BLOCK}; Tcrops: {INDEX} = int32", shape=_from_batch_shape)
register_op("SpaceToBatch", "input: T; paddings: Tpaddings", "output: T",
            f"T: type; Tpaddings: {INDEX} = int32; block_size: int >= 2", shape=_to_batch_shape)
register_op("BatchToSpace", "input: T; crops: Tidx", "output: T",
            f"T: type; block_size: int >= 2; Tidx: {INDEX} = int32", shape=_from_batch_shape)
_DEPTH = "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW'} = 'NHWC'"
register_op("SpaceToDepth", "input: T", "output: T", _DEPTH, shape=_to_depth_shape)
register_op("DepthToSpace", "input: T", "output: T", _DEPTH, shape=_from_depth_shape)

# ---------------------------------------------------------------- gradients


@RegisterGradient("SpaceToBatchND")
def _space_to_batch_nd_grad(op: Operation, grad: Tensor) -> list:
    return [raw_ops.BatchToSpaceND(grad, op.inputs[1], op.inputs[2]), None, None]


@RegisterGradient("BatchToSpaceND")
def _batch_to_space_nd_grad(op: Operation, grad: Tensor) -> list:
    return [raw_ops.SpaceToBatchND(grad, op.inputs[1], op.inputs[2]), None, None]


@RegisterGradient("SpaceToBatch")
def _space_to_batch_grad(op: Operation, grad: Tensor) -> list:
    size = op._attrs["block_size"]
    return [raw_ops.BatchToSpace(grad, op.inputs[1], block_size=size), None]


@RegisterGradient("BatchToSpace")
def _batch_to_space_grad(op: Operation, grad: Tensor) -> list:
    size = op._attrs["block_size"]
    return [raw_ops.SpaceToBatch(grad, op.inputs[1], block_size=size), None]


def _format(op: Operation) -> dict:
    return {"block_size": op._attrs["block_size"], "data_format": op._attrs["data_format"]}


@RegisterGradient("SpaceToDepth")
def _space_to_depth_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.DepthToSpace(grad, **_format(op))


@RegisterGradient("DepthToSpace")
def _depth_to_space_grad(op: Operation, grad: Tensor) -> Tensor:
    return raw_ops.SpaceToDepth(grad, **_format(op))


# ---------------------------------------------------------------- building


def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any,
                      name: str | None = None) -> Tensor:
    """Return `input` padded with zeros and its blocks of space interleaved in the batch.

    Args:
        input: shape ``[batch] + space + rest``, with M dimensions of space.
        block_shape: M integers, each at least 1.
        paddings: ``[M, 2]`` integers; each padded size must be divisible by its block size.
        name: name of the operation.

    Returns a tensor of shape ``[batch * prod(block_shape)] + padded / block_shape + rest``.
    """
    return raw_ops.SpaceToBatchND(input=input, block_shape=block_shape, paddings=paddings,
                                  name=name)


def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Return blocks of the batch interleaved in space, then cropped: undoes
    :func:`space_to_batch_nd` with `crops` for its paddings."""
    return raw_ops.BatchToSpaceND(input=input, block_shape=block_shape, crops=crops, name=name)


@also_called(block_shape="block_size")
def space_to_batch(input: Any, paddings: Any, block_size: int, name: str | None = None) -> Tensor:
    """As :func:`space_to_batch_nd` for ``[batch, height, width, depth]`` and square blocks."""
    return raw_ops.SpaceToBatch(input=input, paddings=paddings, block_size=block_size, name=name)


@also_called(block_shape="block_size")
def batch_to_space(input: Any, crops: Any, block_size: int, name: str | None = None) -> Tensor:
    """As :func:`batch_to_space_nd` for ``[batch, height, width, depth]`` and square blocks."""
    return raw_ops.BatchToSpace(input=input, crops=crops, block_size=block_size, name=name)


def space_to_depth(input: Any, block_size: int, name: str | None = None,
                   data_format: str = "NHWC") -> Tensor:
    """Return ``[batch, height, width, depth]`` with square blocks of space moved into the depth.

    The result has the shape ``[batch, height/b, width/b, depth*b*b]``. With the format ``NCHW`` the
    depth comes before the height in both.
    """
    return raw_ops.SpaceToDepth(input=input, block_size=block_size, data_format=data_format,
                                name=name)


def depth_to_space(input: Any, block_size: int, name: str | None = None,
                   data_format: str = "NHWC") -> Tensor:
    """Return ``[batch, height, width, depth]`` with depth moved into square blocks of space.

    The result has the shape ``[batch, height*b, width*b, depth/(b*b)]``. With the format ``NCHW``
    the depth comes before the height in both.
    """
    return raw_ops.DepthToSpace(input=input, block_size=block_size, data_format=data_format,
                                name=name)


def required_space_to_batch_paddings(input_shape: Any, block_shape: Any, base_paddings: Any = None,
                                     name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (paddings, crops) that make `block_shape` divide the padded `input_shape`.

    Args:
        input_shape: N integers.
        block_shape: N integers.
        base_paddings: ``[N, 2]`` integers that the paddings shall contain; zeros if left out.
        name: name of the scope.

    ``paddings[i, 0]`` is the base's; as little as possible is added at the end. The crops are that
    surplus. All are constants if the arguments are.
    """
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        tensors = [convert_to_tensor(v, np.int32) for v in (input_shape, block_shape)]
        block_rank = with_rank(tensors[1]._dims, 1, "block_shape")[0]
        if block_rank is None:
            raise ValueError("the length of block_shape must be known")
        merge_dims(tensors[0]._dims, (block_rank,))
        if not block_rank:
            empty = convert_to_tensor(np.zeros((0, 2), np.int32))
            return empty, empty
        if base_paddings is None:
            base_paddings = np.zeros((block_rank, 2), np.int32)
        tensors.append(convert_to_tensor(base_paddings, np.int32))
        merge_dims(tensors[2]._dims, (block_rank, 2))
        known = [constant_value(t) for t in tensors]
        if all(v is not None for v in known):
            return _known_paddings(*known)
        return _computed_paddings(*tensors)


def _known_paddings(shape: Any, block: Any, base: Any) -> tuple[Tensor, Tensor]:
    surplus = -(shape + base.sum(axis=1)) % block
    before = np.zeros_like(surplus)
    paddings = base + np.stack([before, surplus], axis=1)
    return (convert_to_tensor(paddings.astype(np.int32), name="paddings"),
            convert_to_tensor(np.stack([before, surplus], axis=1).astype(np.int32), name="crops"))


def _computed_paddings(shape: Tensor, block: Tensor, base: Tensor) -> tuple[Tensor, Tensor]:
    start, end = raw_ops.Unpack(base, num=2, axis=1)
    full = raw_ops.Add(raw_ops.Add(shape, start), end)
    surplus = raw_ops.FloorMod(raw_ops.Sub(block, raw_ops.FloorMod(full, block)), block)
    paddings = raw_ops.Pack([start, raw_ops.Add(end, surplus)], axis=1, name="paddings")
    return paddings, raw_ops.Pack([raw_ops.ZerosLike(surplus), surplus], axis=1, name="crops")
