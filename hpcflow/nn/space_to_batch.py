"""Holes in the window of any op that slides one: ``with_space_to_batch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Sizes, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, show
from hpcflow.ops.arrays.blocks import (
    batch_to_space_nd,
    required_space_to_batch_paddings,
    space_to_batch_nd,
)

__all__ = ["with_space_to_batch"]


def with_space_to_batch(input: TensorLike, dilation_rate: Sizes, padding: str, op: Callable,
                        filter_shape: Any = None, spatial_dims: Sequence[int] | None = None,
                        data_format: str | None = None) -> Tensor:
    """Return what `op` gives with holes in its window.

    Every rate-th element along a dimension goes to a batch of its own, where neighbours are what
    the window with holes sees together.

    Args:
        input: of a rank above the last of `spatial_dims`.
        dilation_rate: distances of the window's elements: one positive integer per dimension of
            space.
        padding: ``"SAME"`` or ``"VALID"``.
        op: ``op(input, number of dimensions of space, padding)``, without holes.
        filter_shape: the sizes of the window, which ``SAME`` needs.
        spatial_dims: which dimensions are space, in increasing order and from 1; the first ones
            behind the batch by default, or behind the channels.
        data_format: the channels come before the space if it starts with ``NC``.

    Raises:
        ValueError: for arguments that do not fit each other.
    """
    x = convert_to_tensor(input, name="input")
    rates = convert_to_tensor(dilation_rate, dtypes.int32, name="dilation_rate")
    count = _count(rates)
    known = constant_value(rates)
    if known is not None and (known < 1).any():
        raise ValueError(f"dilation_rate must be positive but is {known.tolist()}")
    if known is not None and (known == 1).all():
        return op(x, count, padding)
    space = _checked_dims(x, spatial_dims, count, data_format)
    sizes = _sizes(x, space)
    pads, crops = required_space_to_batch_paddings(
        sizes, rates if known is None else known.astype(np.int32), _base(padding, filter_shape,
                                                                         rates))
    blocks = _spread(rates, space, 1)
    apart = space_to_batch_nd(x, blocks, _spread(pads, space, 0))
    _keep_sizes(apart, x, space, None)
    found = op(apart, count, "VALID")
    result = batch_to_space_nd(found, blocks, _spread(crops, space, 0))
    _keep_sizes(result, found, space, x)
    return result


def _keep_sizes(result: Tensor, source: Tensor, space: list[int], batch: Tensor | None) -> None:
    """Let `result` have the sizes of `source` outside of its space, and the batch of `batch`."""
    if source._dims is None:
        return
    others = [None if d in space else n for d, n in enumerate(source._dims)][1:]
    result.set_shape([batch._dims[0] if batch is not None and batch._dims else None, *others])


def _count(rates: Tensor) -> int:
    dims = rates._dims
    if dims is None or len(dims) != 1 or dims[0] is None:
        raise ValueError(f"dilation_rate must be a vector of known length but has shape "
                         f"{show(dims)}")
    return dims[0]


def _checked_dims(x: Tensor, spatial_dims: Sequence[int] | None, count: int,
                  data_format: str | None) -> list[int]:
    first = 2 if data_format is not None and str(data_format).startswith("NC") else 1
    space = list(range(first, first + count)) if spatial_dims is None else [
        int(d) for d in spatial_dims]
    if len(space) != count or space[0] < 1 or sorted(set(space)) != space:
        raise ValueError(f"spatial_dims must be {count} increasing positive integers but is "
                         f"{space}")
    if x._dims is not None and len(x._dims) <= space[-1]:
        raise ValueError(f"input must have rank {space[-1] + 1} at least but has shape "
                         f"{show(x._dims)}")
    return space


def _sizes(x: Tensor, space: list[int]) -> Any:
    if x._dims is not None and all(x._dims[d] is not None for d in space):
        return np.array([x._dims[d] for d in space], np.int32)
    return raw_ops.Gather(raw_ops.Shape(x), np.array(space, np.int32))


def _base(padding: str, filter_shape: TensorLike, rates: Tensor) -> Any:
    """The zeros around the input that the window with holes needs: the odd one behind."""
    if padding == "VALID":
        return None
    if padding != "SAME":
        raise ValueError(f"padding must be SAME or VALID but is {padding!r}")
    if filter_shape is None:
        raise ValueError("filter_shape must be specified for SAME padding")
    window = convert_to_tensor(filter_shape, dtypes.int32, name="filter_shape")
    sizes, known = constant_value(window), constant_value(rates)
    if sizes is not None and known is not None:
        reach = (sizes[:len(known)] - 1) * known
        return np.stack([reach // 2, reach - reach // 2], axis=1).astype(np.int32)
    space = raw_ops.Slice(window, np.array([0], np.int32), raw_ops.Shape(rates))
    far = raw_ops.Mul(raw_ops.Sub(space, np.int32(1)), rates)
    before = raw_ops.FloorDiv(far, np.int32(2))
    return raw_ops.Pack([before, raw_ops.Sub(far, before)], axis=1)


def _spread(rows: Tensor, space: list[int], fill: int) -> Any:
    """One row per dimension from 1 to the last of `space`; `fill` where there is no space."""
    if space[0] == 1 and space[-1] == len(space):
        return rows
    index = np.array([space.index(d) if d in space else len(space)
                      for d in range(1, space[-1] + 1)], np.int32)
    tensor = convert_to_tensor(rows, dtypes.int32)
    last = np.full([1, 2] if tensor.shape.ndims == 2 else [1], fill, np.int32)
    known = constant_value(tensor)
    if known is not None:
        return np.concatenate([known, last])[index]
    return raw_ops.Gather(raw_ops.ConcatV2([tensor, last], np.int32(0)), index)
