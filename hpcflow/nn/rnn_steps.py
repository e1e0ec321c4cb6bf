"""Shared parts of all unrolled recurrent networks: initial states, and rows that have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.flow.tensor_array import TensorArray
from hpcflow.ops.math.reductions import reduce_all
from hpcflow.shapes import as_shape


def check_cell(cell: Any) -> None:
    """``TypeError`` unless `cell` can be called and says its sizes, as RNN cells do."""
    if not (callable(cell) and hasattr(cell, "output_size") and hasattr(cell, "state_size")):
        raise TypeError(f"cell must be an instance of RNNCell, got {cell!r}")


def size_dims(size: TensorLike) -> list:
    """The dimensions after the batch that a cell's size (a number or a shape) stands for."""
    return [size] if isinstance(size, (int, np.integer)) else as_shape(size).as_list()


def batch_size_of(tensor: Tensor, axis: int = 0) -> Any:
    """The number of rows: a Python int if it is known, else a scalar tensor."""
    known = None if tensor._dims is None else tensor._dims[axis]
    if known is not None:
        return known
    with counted_as(get_default_graph(), 5):
        return raw_ops.Gather(raw_ops.Shape(tensor), np.int32(axis))


def static_batch(batch_size: Any) -> int | None:
    """The number of rows if it is known while the graph is built."""
    known = constant_value(batch_size) if isinstance(batch_size, Tensor) else batch_size
    return None if known is None else int(known)


def zero_rows(example: Tensor, batch_size: Any) -> Tensor:
    """Zeros of shape ``[batch_size, *example.shape]``, of which dimensions may be unknown."""
    dims = example._dims
    if dims is not None and None not in dims:
        return zeros_of(example.shape, batch_size, example.dtype.base_dtype)
    shape = raw_ops.ConcatV2([raw_ops.Pack([batch_size]), raw_ops.Shape(example)], np.int32(0))
    zeros = raw_ops.Fill(shape, convert_to_tensor(0, example.dtype.base_dtype))
    if dims is not None:
        zeros.set_shape([static_batch(batch_size), *dims])
    return zeros


def zeros_of(size: TensorLike, batch_size: Any, dtype: DTypeLike) -> Tensor:
    """Zeros of shape ``[batch_size, *size]``."""
    dims = size_dims(size)
    zero = convert_to_tensor(0, dtype)
    if isinstance(batch_size, Tensor):
        shape = raw_ops.Pack([batch_size, *[np.int32(d) for d in dims]])
    else:
        shape = convert_to_tensor([int(batch_size), *dims], dtypes.int32)
    zeros = raw_ops.Fill(shape, zero)
    zeros.set_shape([static_batch(batch_size), *dims])
    return zeros


def initial_state_of(cell: Any, initial_state: Nest | None, batch_size: TensorLike,
                     dtype: DTypeLike | None) -> Any:
    """The state given, as tensors, or the cell's zero state of `dtype`."""
    if initial_state is not None:
        leaves = [convert_to_tensor(s) for s in nest.flatten(initial_state)]
        return nest.pack_as(initial_state, leaves)
    if dtype is None:
        raise ValueError("If no initial_state is provided, dtype must be.")
    if _takes_lists(cell):
        return cell.get_initial_state(batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def _takes_lists(cell: Any) -> bool:
    """Whether this is a cell of Keras, which takes and gives its states as a list."""
    return not hasattr(cell, "zero_state") and hasattr(cell, "get_initial_state")


def _step(cell: Any, inputs: TensorLike, state: Nest) -> tuple:
    if not _takes_lists(cell):
        return cell(inputs, state)
    output, following = cell(inputs, state if nest.is_nested(state) else [state])
    return output, nest.pack_as(state, nest.flatten(following))


def as_lengths(sequence_length: TensorLike | None) -> Tensor | None:
    """The lengths as an int32 vector, or None. ``ValueError`` for another rank."""
    if sequence_length is None:
        return None
    lengths = convert_to_tensor(sequence_length)
    if lengths.dtype.base_dtype is not dtypes.int32:
        lengths = raw_ops.Cast(lengths, DstT=dtypes.int32)
    if lengths._dims is not None and len(lengths._dims) != 1:
        raise ValueError(f"sequence_length must be a vector of length batch_size, but has shape "
                         f"{list(lengths._dims)}")
    return lengths


def select_rows(condition: Tensor, chosen: Any, other: Any) -> Any:
    """In a nest of tensors, the rows of `chosen` where the vector `condition` is true.

    A scalar, which has no rows, is that of `chosen` where the condition is true everywhere. A
    TensorArray is that of `other`: its writes cannot be taken back.
    """
    leaves: list[Any] = []
    for a, b in zip(nest.flatten(chosen), nest.flatten(other), strict=True):
        if isinstance(b, TensorArray):
            leaves.append(b)
            continue
        row = raw_ops.Select(reduce_all(condition) if b._dims == () else condition, a, b)
        row.set_shape(b.shape)
        leaves.append(row)
    return nest.pack_as(other, leaves)


def step_until(time: TensorLike, lengths: Tensor | None, cell: Any, inputs: TensorLike, state: Nest,
               zero_output: TensorLike | None, called: Callable[[], None] | None = None) -> tuple:
    """One step of `cell`; rows past their length give zeros and keep their state. ``called()`` is
    called behind the cell."""
    output, following = _step(cell, inputs, state)
    if called is not None:
        called()
    nest.check_same(state, following, "The state before and after a step")
    if lengths is None:
        return output, following
    ended = raw_ops.GreaterEqual(time, lengths)
    return select_rows(ended, zero_output, output), select_rows(ended, state, following)
