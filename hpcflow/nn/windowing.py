"""What convolutions and poolings share: lists per dimension, and holes through batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, show
from hpcflow.ops.blocks import (
    batch_to_space_nd,
    required_space_to_batch_paddings,
    space_to_batch_nd,
)


def positive_list(values: Any, length: int, what: str) -> list[int]:
    """`values` as a list of `length` positive numbers; ones for None."""
    if values is None:
        return [1] * length
    value = constant_value(values) if isinstance(values, Tensor) else np.asarray(values)
    if value is None or value.shape != (length,) or (value < 1).any():
        raise ValueError(f"{what} must be {length} known positive numbers but is {values}")
    return [int(v) for v in value]


def format_with_default(data_format: str | None, allowed: Sequence[str]) -> str:
    """`data_format`, or the first one allowed; ``ValueError`` for any other."""
    chosen = data_format or allowed[0]
    if chosen not in allowed:
        raise ValueError(f"data_format has to be either {' or '.join(allowed)} but is "
                         f"{chosen!r}")
    return chosen


def with_space_to_batch(x: Tensor, plain: Callable, window: Any, rates: Sequence[int],
                        strides: Sequence[int], padding: str, first: bool, name: str) -> Tensor:
    """An op with holes of `rates` in its window, from one without: ``plain(x, padding, name)``.

    Every rate-th element of a dimension goes to a batch of its own, where neighbours are what the
    window with holes sees together.

    Args:
        x: the input, channels last or `first`.
        plain: builds the op without holes.
        window: the sizes of the window, a list or a tensor.
        rates: distances of the window's elements.
        strides: of `plain`; ones where there are holes.
        padding: ``"SAME"`` or ``"VALID"``.
        first: whether the channels come before the space.
        name: of the result.
    """
    if all(r == 1 for r in rates):
        return plain(x, padding, name)
    if any(s > 1 for s in strides):
        raise ValueError(f"strides > 1 not supported in conjunction with dilation_rate > 1: "
                         f"strides {list(strides)}, dilation_rate {list(rates)}")
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be SAME or VALID but is {padding!r}")
    if first:
        x = _moved(x, len(rates), True)
    base = None if padding == "VALID" else _same_paddings(window, rates)
    pads, crops = required_space_to_batch_paddings(_space(x, len(rates)),
                                                   np.array(rates, np.int32), base)
    apart = space_to_batch_nd(x, np.array(rates, np.int32), pads)
    result = plain(_moved(apart, len(rates), False) if first else apart, "VALID", None)
    if first:
        result = _moved(result, len(rates), True)
    joined = batch_to_space_nd(result, np.array(rates, np.int32), crops,
                               name=None if first else name)
    return _moved(joined, len(rates), False, name) if first else joined


def _moved(x: Tensor, rank: int, to_last: bool, name: str | None = None) -> Tensor:
    """`x` with the channels moved behind the space, or back."""
    space = range(2, rank + 2)
    order = [0, *space, 1] if to_last else [0, rank + 1, *range(1, rank + 1)]
    return raw_ops.Transpose(x, np.array(order, np.int32), name=name)


def _space(x: Tensor, rank: int) -> Any:
    """The sizes of the dimensions of space."""
    dims = x._dims
    if dims is not None and len(dims) != rank + 2:
        raise ValueError(f"input must be rank {rank + 2} but is {show(dims)}")
    if dims is not None and None not in dims[1:-1]:
        return np.array(dims[1:-1], np.int32)
    return raw_ops.Slice(raw_ops.Shape(x), np.array([1], np.int32), np.array([rank], np.int32))


def _same_paddings(window: Any, rates: Sequence[int]) -> Any:
    """[rank, 2] zeros that a window with holes needs around the input: the odd one after it."""
    if not isinstance(window, Tensor):
        missing = (np.array(window) - 1) * np.array(rates)
        return np.stack([missing // 2, missing - missing // 2], axis=1).astype(np.int32)
    reach = raw_ops.Mul(raw_ops.Sub(window, np.int32(1)), np.array(rates, np.int32))
    before = raw_ops.FloorDiv(reach, np.int32(2))
    return raw_ops.Pack([before, raw_ops.Sub(reach, before)], axis=1)
