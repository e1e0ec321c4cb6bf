"""Rows of tables that may be split over several tensors: embedding_lookup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.ops.arrays.indexing import gather

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

__all__ = ["embedding_lookup"]


def embedding_lookup(params: TensorLike, ids: TensorLike, partition_strategy: str = "mod",
                     name: str | None = None, validate_indices: bool = True,
                     max_norm: float | None = None) -> Tensor:
    """Return the rows `ids` of a table: shape ``ids.shape + row shape``.

    `params` is one table, a list of tensors that together are the table, or a partitioned
    variable. Row i of P parts is row ``i // P`` of part ``i % P`` with the strategy ``"mod"``; with
    ``"div"`` each part holds consecutive rows, the first parts one more where it does not divide.
    The parts are read where they live. Rows longer than `max_norm` (their 2-norm) are shortened to
    it.

    Raises ``ValueError`` for no parameters or an unknown strategy.
    """
    return embedding_lookup_and_transform(params, ids, partition_strategy, name, max_norm, None,
                                          validate_indices)


def embedding_lookup_and_transform(params: TensorLike, ids: TensorLike,
                                   partition_strategy: str = "mod", name: str | None = None,
                                   max_norm: float | None = None,
                                   transform_fn: Callable[[Tensor], Any] | None = None,
                                   validate_indices: bool = True) -> Tensor:
    """As :func:`embedding_lookup`, with a function of the rows, which runs where the rows live.

    `transform_fn` takes the rows of one part, ``[n, ...]``, behind `max_norm`, and returns n rows,
    of any shape.
    """
    parts = parts_of(params)
    with name_scope(name, "embedding_lookup", [*parts, ids]) as scope:
        ids = convert_to_tensor(ids, name="ids")
        if transform_fn is not None:
            return _transformed(parts, ids, partition_strategy, validate_indices, scope,
                                lambda rows, flat: transform_fn(
                                    _limited(rows, flat, max_norm) if max_norm else rows))
        if len(parts) == 1:
            known = ids._dims and parts[0].get_shape().ndims
            count = 3 if not max_norm else 20 if known else 23
            with colocate_with(parts[0]), counted_as(get_default_graph(), count):
                rows = _gather(parts[0], ids, validate_indices, None if max_norm else scope)
                return _limited(rows, ids, max_norm, scope) if max_norm else rows
        flat = raw_ops.Reshape(ids, np.array([-1], np.int32))
        rows = _from_parts(parts, flat, partition_strategy, validate_indices)
        rows = raw_ops.Reshape(rows, _result_shape(parts, ids, rows),
                               name=None if max_norm else scope)
        _set_static_shape(rows, parts, ids)
        return _limited(rows, ids, max_norm, scope) if max_norm else rows


def _transformed(parts: list, ids: Tensor, strategy: str, validate: bool, scope: str,
                 change: Callable[[Tensor, Tensor], Any]) -> Tensor:
    """The rows `ids`, each part's changed by ``change(rows, their numbers)`` where the part is."""
    flat = raw_ops.Reshape(ids, np.array([-1], np.int32))
    rows = convert_to_tensor(_from_parts(parts, flat, strategy, validate, change))
    behind = raw_ops.Slice(raw_ops.Shape(rows), np.array([1], np.int32), np.array([-1], np.int32))
    result = raw_ops.Reshape(rows, raw_ops.ConcatV2([raw_ops.Shape(ids), behind], 0), name=scope)
    if rows._dims is not None and ids._dims is not None:
        result.set_shape(ids._dims + rows._dims[1:])
    return result


def parts_of(params: TensorLike) -> list:
    """The parts of the table; a partitioned variable lists its own."""
    if params is None or isinstance(params, (list, tuple)) and not params:
        raise ValueError("Need at least one param")
    if hasattr(params, "_get_variable_list"):
        return list(params._get_variable_list())
    parts = params if isinstance(params, (list, tuple)) else [params]
    return [p if hasattr(p, "get_shape") else convert_to_tensor(p, name="params") for p in parts]


def _gather(part: Tensor | Variable, ids: Tensor, validate: bool,
            name: str | None = None) -> Tensor:
    return gather(part, ids, validate_indices=validate, name=name)


def _from_parts(parts: list, flat: Tensor, strategy: str, validate: bool,
                change: Callable[[Tensor, Tensor], Any] | None = None) -> Tensor:
    """The rows `flat` (1-D), gathered (and changed) part by part and put in order."""
    assigned, local = assign_to_parts(parts, flat, strategy)
    if assigned.dtype.base_dtype is not dtypes.int32:
        assigned = raw_ops.Cast(assigned, DstT="int32")
    count = len(parts)
    ids = raw_ops.DynamicPartition(local, assigned, num_partitions=count)
    positions = raw_ops.DynamicPartition(
        raw_ops.Range(np.int32(0), raw_ops.Size(flat), np.int32(1)), assigned,
        num_partitions=count)
    rows = []
    for part, wanted in zip(parts, ids, strict=True):
        with colocate_with(part):
            found = _gather(part, wanted, validate)
            rows.append(change(found, wanted) if change else found)
    return raw_ops.DynamicStitch(positions, rows)


def assign_to_parts(parts: list, flat: Tensor, strategy: str) -> tuple[Tensor, Tensor]:
    """For each id of a 1-D tensor the part that has it, and its row there."""
    number = flat.dtype.base_dtype.np.type
    count = number(len(parts))
    if strategy == "mod":
        return raw_ops.FloorMod(flat, count), raw_ops.FloorDiv(flat, count)
    if strategy != "div":
        raise ValueError(f"Unrecognized partition strategy: {strategy!r}; use 'mod' or 'div'")
    total = total_rows(parts, flat.dtype.base_dtype)
    # The first `extra` parts have one row more than the others.
    each, extra = raw_ops.FloorDiv(total, count), raw_ops.FloorMod(total, count)
    more = raw_ops.Add(each, number(1))
    border = raw_ops.Mul(extra, more)
    beyond = raw_ops.Sub(flat, border)
    each = raw_ops.Maximum(each, number(1))  # with fewer rows than parts nothing is beyond
    early = raw_ops.Less(flat, border)
    assigned = raw_ops.Select(early, raw_ops.FloorDiv(flat, more),
                              raw_ops.Add(raw_ops.FloorDiv(beyond, each), extra))
    local = raw_ops.Select(early, raw_ops.FloorMod(flat, more), raw_ops.FloorMod(beyond, each))
    return assigned, local


def total_rows(parts: list, dtype: DType) -> Any:
    """The number of rows of all parts, known or summed at run time."""
    known = [_dims(p)[0] for p in parts if _dims(p) and _dims(p)[0] is not None]
    if len(known) == len(parts):
        return convert_to_tensor(dtype.np.type(sum(known)))
    sizes = []
    for part in parts:
        with colocate_with(part):
            sizes.append(raw_ops.Gather(raw_ops.Shape(part), np.int32(0)))
    return raw_ops.Cast(raw_ops.AddN(sizes), DstT=dtype)


def _dims(part: Variable) -> Any:
    return part.get_shape().dims_tuple


def _result_shape(parts: list, ids: Tensor, rows: Tensor) -> Any:
    row = _dims(parts[0])
    if row is not None and None not in row[1:] and ids._dims is not None and (
            None not in ids._dims):
        return np.array(ids._dims + row[1:], np.int32)
    row_shape = raw_ops.Slice(raw_ops.Shape(rows), np.array([1], np.int32),
                              np.array([-1], np.int32))
    return raw_ops.ConcatV2([raw_ops.Shape(ids), row_shape], 0)


def _set_static_shape(rows: Tensor, parts: list, ids: Tensor) -> None:
    row = _dims(parts[0])
    if row is not None and ids._dims is not None:
        rows.set_shape(ids._dims + row[1:])


def _limited(rows: Tensor, ids: Tensor, max_norm: float, name: str | None = None) -> Tensor:
    """Rows scaled down to `max_norm` where their norm is above it."""
    number = rows.dtype.base_dtype.np.type
    if rows._dims is not None and ids._dims is not None:
        axes: Any = np.arange(len(ids._dims), len(rows._dims), dtype=np.int32)
    else:
        axes = raw_ops.Range(raw_ops.Rank(ids), raw_ops.Rank(rows), np.int32(1))
    square = raw_ops.Sum(raw_ops.Square(rows), axes, keep_dims=True)
    # Limited before the root is taken, so that rows of zeros have a gradient.
    inverse = raw_ops.Rsqrt(raw_ops.Maximum(square, number(max_norm) ** 2))
    return raw_ops.Mul(rows, raw_ops.Mul(inverse, number(max_norm)), name=name)
