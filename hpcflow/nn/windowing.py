"""Helpers of convolutions and poolings: one number per dimension, and dilation through batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.nn.space_to_batch import with_space_to_batch
from hpcflow.shapes import TensorShape


def positive_list(values: Sequence[TensorLike] | None, length: int, what: str) -> list[int]:
    """`values` as a list of `length` positive numbers; ones for None."""
    if values is None:
        return [1] * length
    value = constant_value(values) if isinstance(values, Tensor) else np.asarray(values)
    if value is None or value.shape != (length,) or (value < 1).any():
        raise ValueError(f"{what} must be {length} known positive numbers but is {values}")
    return [int(v) for v in value]


def numbers_per_dimension(values: Any, space: int, data_format: str | None,
                          what: str) -> list[int]:
    """A list for batch, space and channels, from such a list, one for the space, or one number.

    None stands for ones. Raises ``ValueError`` for a list of another length.
    """
    numbers = [1] if values is None else np.atleast_1d(values).tolist()
    if len(numbers) == space + 2:
        return numbers
    if len(numbers) not in (1, space):
        lengths = f"1, {space} or {space + 2}" if space > 1 else "1 or 3"
        raise ValueError(f"{what} must be of length {lengths} but is {values}")
    inner = numbers * (space // len(numbers))
    first = bool(data_format) and str(data_format).startswith("NC")
    return [1, 1, *inner] if first else [1, *inner, 1]


def over_batches(x: TensorLike, rank: int, name: str | None, default: str,
                 build: Callable) -> Tensor:
    """``build(x, name)`` of `rank` dimensions; more dimensions before them are of the batch."""
    dims = np.shape(x) if isinstance(x, (np.ndarray, list, tuple)) else getattr(x, "shape", None)
    if dims is None or dims == TensorShape(None) or len(dims) <= rank:
        return build(x, name)
    with name_scope(name, default, [x]) as scope:
        shape = raw_ops.Shape(x)
        split = len(dims) - rank + 1
        rows = raw_ops.ConcatV2([np.array([-1], np.int32), shape[split:]], np.int32(0))
        flat = raw_ops.Reshape(x, rows)
        flat.set_shape([None, *dims[split:]])
        found = build(flat, None)
        whole = raw_ops.ConcatV2([shape[:split], raw_ops.Shape(found)[1:]], np.int32(0))
        result = raw_ops.Reshape(found, whole, name=scope)
        result.set_shape([*dims[:split], *found.shape[1:]])
        return result


def padding_attrs(padding: str | Sequence[Any]) -> dict[str, Any]:
    """The attributes that say the padding: a name, or a pair of numbers per dimension."""
    if isinstance(padding, (str, bytes)):
        return {"padding": padding}
    pairs = np.asarray(padding)
    if pairs.shape != (4, 2):
        raise ValueError("padding must be a name or four pairs of numbers, one per dimension, but "
                         f"is {padding}")
    return {"padding": "EXPLICIT", "explicit_paddings": pairs.reshape(-1).tolist()}


def format_with_default(data_format: str | None, allowed: Sequence[str]) -> str:
    """`data_format`, or the first one allowed; ``ValueError`` for any other."""
    chosen = data_format or allowed[0]
    if chosen not in allowed:
        raise ValueError(f"data_format has to be either {' or '.join(allowed)} but is "
                         f"{chosen!r}")
    return chosen


def format_1d(data_format: str | None) -> str:
    """Return the 2-D format of 1-D data, which is treated as images one row high."""
    named = {"NWC": "NHWC", "NCW": "NCHW"}.get(data_format or "", data_format)
    return format_with_default(named, ("NHWC", "NCHW"))


def of_rows(numbers: Any, data_format: str, what: str) -> list[int]:
    """Convert the strides or rates of a 1-D convolution to those of a 2-D one, one row high."""
    every = numbers_per_dimension(numbers, 1, data_format, what)
    axis = 1 if data_format == "NHWC" else 2
    return [*every[:axis], 1, *every[axis:]]


def with_holes(x: Tensor, plain: Callable, window: TensorLike, rates: Sequence[int],
               strides: Sequence[int], padding: str, first: bool, name: str) -> Tensor:
    """An op with holes of `rates` in its window, from one without: ``plain(x, padding, name)``.

    Args:
        x: the input, channels last or `first`.
        plain: builds the op without holes.
        window: the sizes of the window, a list or a tensor.
        rates: distances of the window's elements.
        strides: of `plain`; ones where there are holes.
        padding: ``"SAME"`` or ``"VALID"``.
        first: whether the channels come before the space.
        name: of the result, if there are no holes.
    """
    if all(r == 1 for r in rates):
        # 1.x makes this node too. Seeds that count operations are the same with it.
        convert_to_tensor(np.array(rates, np.int32), name="dilation_rate")
        return plain(x, padding, name)
    if any(s > 1 for s in strides):
        raise ValueError(f"strides > 1 not supported in conjunction with dilation_rate > 1: "
                         f"strides {list(strides)}, dilation_rate {list(rates)}")
    return with_space_to_batch(x, rates, padding, lambda x, _, padding: plain(x, padding, None),
                               window, data_format="NC" if first else None)
