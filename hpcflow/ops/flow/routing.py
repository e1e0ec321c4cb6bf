"""Switch, Merge and the primitives of loops for whatever a tensor may be: a value, a variable by
reference, IndexedSlices or a sparse tensor, of which every part goes the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

__all__: list[str] = []


def switch(data: TensorLike, pred: TensorLike, dtype: DTypeLike | None = None,
           name: str | None = None) -> tuple[Any, Any]:
    """Return (false output, true output): `data` leaves through the one that `pred` chooses.

    `dtype` is that of data which is no tensor yet.
    """
    with name_scope(name, "Switch", [data, pred]) as scope:
        data = _converted(data, dtype)
        pred = convert_to_tensor(pred, name="pred")
        if not nest.is_composite(data):
            false, true = raw_ops.Switch(data=data, pred=pred, name=scope)
            return false, true
        sides = [raw_ops.Switch(data=part, pred=pred) for part in nest.expand(data)]
        return (nest.rebuild(data, [s[0] for s in sides]),
                nest.rebuild(data, [s[1] for s in sides]))


def switch_ref_or_tensor(data: Any, pred: Tensor, name: str = "Switch") -> tuple[Any, Any]:
    """As :func:`switch`, but a variable leaves by reference. Runs where `data` is."""
    data = _converted(data, as_ref=True)
    if nest.is_composite(data) or not data.dtype._is_ref_dtype:
        with colocate_with(nest.expand(data)[0].op, ignore_existing=True):
            return switch(data, pred, name=name)
    with colocate_with(data.op, ignore_existing=True):
        false, true = raw_ops.RefSwitch(data=data, pred=pred, name=name)
    return false, true


def merge(inputs: Sequence[Any], name: str | None = None) -> tuple[Any, Any]:
    """Return (the value of `inputs` that is alive, its position).

    Where some inputs are IndexedSlices, tensors among the others become such. Raises
    ``ValueError`` for a None among the inputs.
    """
    if any(v is None for v in inputs):
        raise ValueError(f"At least one of the merge inputs is None: {inputs}")
    with name_scope(name, "Merge", list(inputs)) as scope:
        values = [_converted(v, as_ref=True) for v in inputs]
        if not any(nest.is_composite(v) for v in values):
            by_reference = all(v.dtype._is_ref_dtype for v in values)
            op_type: Any = raw_ops.RefMerge if by_reference else raw_ops.Merge
            return op_type(inputs=values, name=scope)
        if any(isinstance(v, IndexedSlices) for v in values):
            values = alike_slices(values)
        parts = [raw_ops.Merge(inputs=list(column))
                 for column in zip(*map(nest.expand, values), strict=True)]
        return nest.rebuild(values[0], [p[0] for p in parts]), parts[0][1]


def alike_slices(values: Sequence[Any]) -> list[IndexedSlices]:
    """`values`, tensors and IndexedSlices, as IndexedSlices with indices of one type, and all with
    a dense shape or none with one."""
    slices = [v if isinstance(v, IndexedSlices) else _all_rows(v) for v in values]
    types = {s.indices.dtype.base_dtype.name for s in slices}
    has_shape = all(s.dense_shape is not None for s in slices)
    result = []
    for s in slices:
        indices, shape = s.indices, s.dense_shape if has_shape else None
        if len(types) > 1:
            indices = raw_ops.Cast(indices, DstT="int64")
        if shape is not None and shape.dtype.base_dtype.name != "int64":
            shape = raw_ops.Cast(shape, DstT="int64")
        result.append(IndexedSlices(s.values, indices, shape))
    return result


def _all_rows(tensor: Tensor) -> IndexedSlices:
    shape = raw_ops.Shape(tensor)
    rows = raw_ops.Range(0, raw_ops.Reshape(raw_ops.Slice(shape, [0], [1]), []), 1)
    return IndexedSlices(tensor, rows, shape)


def _each_part(value: Callable, reference: Callable, data: Any, name: str | None,
               **keywords: Any) -> Any:
    data = _converted(data, as_ref=True)
    if nest.is_composite(data):
        return nest.rebuild(data, [value(part, **keywords) for part in nest.expand(data)])
    op_type = reference if data.dtype._is_ref_dtype else value
    return op_type(data, name=name, **keywords)


def enter(data: TensorLike, frame_name: str, is_constant: bool = False,
          parallel_iterations: int = 10, name: str | None = None) -> Any:
    """Bring `data` into the loop `frame_name`; with `is_constant` into all its iterations."""
    return _each_part(raw_ops.Enter, raw_ops.RefEnter, data, name, frame_name=frame_name,
                      is_constant=is_constant, parallel_iterations=parallel_iterations)


def exit(data: TensorLike, name: str | None = None) -> Any:
    """Take `data` out of the loop that it is in."""
    return _each_part(raw_ops.Exit, raw_ops.RefExit, data, name)


def next_iteration(data: TensorLike, name: str | None = None) -> Any:
    """Take `data` into the next iteration of the loop that it is in."""
    return _each_part(raw_ops.NextIteration, raw_ops.RefNextIteration, data, name)


def identity(data: TensorLike, name: str | None = None) -> Any:
    """`data` under another name; of a variable, by reference."""
    return _each_part(raw_ops.Identity, raw_ops.RefIdentity, data, name)


def _converted(data: TensorLike, dtype: DTypeLike | None = None, as_ref: bool = False) -> Any:
    """`data` as a tensor, unless it stands for several."""
    return data if nest.is_composite(data) else convert_to_tensor(data, dtype, as_ref=as_ref)
