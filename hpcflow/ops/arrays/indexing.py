"""Elements by index: Gather, GatherNd, ScatterNd, Where, OneHot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    known_number,
    merge_dims,
    register_constant_shape,
    show,
    with_rank_at_least,
)
from hpcflow.ops.common.static_shape import normalize_axis, shape_of
from hpcflow.ops.common.type_sets import INDEX

__all__ = ["batch_gather", "gather", "gather_nd", "one_hot", "scatter_nd", "where", "where_v2"]

# ---------------------------------------------------------------- Gather


def _gather_shape(op: Operation) -> list[Dims]:
    params, indices = with_rank_at_least(op.input_dims(0), 1, "params"), op.input_dims(1)
    if params is None or indices is None:
        return [None]
    return [indices + params[1:]]


def _gather_v2_shape(op: Operation) -> list[Dims]:
    params, indices = with_rank_at_least(op.input_dims(0), 1, "params"), op.input_dims(1)
    axis, batch = known_number(op, 2), op._attrs["batch_dims"]
    if params is None or indices is None:
        return [None]
    batch = batch + len(indices) if batch < 0 else batch
    rank = len(params) + len(indices) - 1 - batch
    if axis is None:
        return [(None,) * rank]
    axis = int(axis)
    with_rank_at_least(params, axis + 1 if axis >= 0 else -axis, "params")
    position = normalize_axis(axis, len(params))
    if not 0 <= batch <= min(position, len(indices)):
        raise ValueError(f"batch_dims = {batch} must not exceed axis = {position} or the rank of "
                         f"indices {show(indices)}")
    shared = merge_dims(params[:batch], indices[:batch]) or ()
    return [shared + params[batch:position] + indices[batch:] + params[position + 1 :]]


register_op("Gather", "params: Tparams; indices: Tindices", "output: Tparams",
            f"validate_indices: bool = true; Tparams: type; Tindices: {INDEX}",
            shape=_gather_shape)
register_op("GatherV2", "params: Tparams; indices: Tindices; axis: Taxis", "output: Tparams",
            f"batch_dims: int = 0; Tparams: type; Tindices: {INDEX}; Taxis: {INDEX}",
            shape=_gather_v2_shape)


@register_constant_shape("Gather")
@register_constant_shape("GatherV2")
def _gathered_dims(op: Operation) -> Dims:
    """Entries of a shape, as of one that is permuted."""
    which = constant_value(op.inputs[1])
    if which is None or which.ndim != 1 or len(op.input_dims(0) or ()) != 1:
        return None
    dims = constant_value_as_dims(op.inputs[0])
    if dims is None or not all(-1 < i < len(dims) for i in which.tolist()):
        return None
    return tuple(dims[i] for i in which.tolist())


@RegisterGradient("Gather")
def _gather_grad(op: Operation, grad: Tensor) -> list:
    """The rows of the gradient with their row numbers: the dense form is never made."""
    return [_rows(op.inputs[0], op.inputs[1], grad), None]


def _rows(params: Tensor, indices: Tensor, grad: Tensor | IndexedSlices) -> IndexedSlices:
    grad = convert_to_tensor(grad)  # that of another gather is sparse itself
    with colocate_with(params):
        dense_shape = convert_to_tensor(shape_of(params))
    if indices._dims is not None and len(indices._dims) == 1:
        return IndexedSlices(grad, indices, dense_shape)
    flat = raw_ops.Reshape(indices, [-1])
    row = None if params._dims is None else params._dims[1:]
    if row is not None and None not in row:
        shape: Any = np.array([-1, *row], np.int32)
    else:
        one = np.array([1], np.int32)
        rest = raw_ops.StridedSlice(dense_shape, one, np.zeros(1, np.int32), one, end_mask=1)
        shape = raw_ops.ConcatV2([np.array([-1], np.int32), rest], 0)
    return IndexedSlices(raw_ops.Reshape(grad, shape), flat, dense_shape)


@RegisterGradient("GatherV2")
def _gather_v2_grad(op: Operation, grad: Tensor) -> list:
    params, indices, axis_tensor = op.inputs
    axis = constant_value(axis_tensor)
    if axis is not None and axis == 0 and not op._attrs["batch_dims"]:
        return [_rows(params, indices, grad), None, None]
    return [_gather_v2_sums(params, indices, axis_tensor, op._attrs["batch_dims"], grad), None,
            None]


def _gather_v2_sums(params: Tensor, indices: Tensor, axis: Tensor, batch_dims: int,
                    grad: Tensor) -> Tensor:
    """The gradient in the shape of `params`, which need not be known.

    Seen as [batch, outer, n, inner] the parameters have their rows in the third dimension; these
    are summed up as segments once they are the first.
    """
    shape, rank = convert_to_tensor(shape_of(params)), raw_ops.Rank(params)
    place = raw_ops.FloorMod(raw_ops.Cast(axis, DstT=dtypes.int32), rank)
    first = raw_ops.Add(raw_ops.Rank(indices), batch_dims) if batch_dims < 0 else batch_dims
    after = raw_ops.Add(place, 1)
    batch = _volume(shape, 0, first)
    outer, inner = _volume(shape, first, raw_ops.Sub(place, first)), _volume(shape, after, -1)
    size = raw_ops.Gather(shape, place)
    count = _volume(raw_ops.Shape(indices), first, -1)
    flat = raw_ops.Reshape(indices, raw_ops.Pack([batch, count]))
    offsets = raw_ops.Mul(raw_ops.Range(0, batch, 1), size)
    numbers = raw_ops.Add(flat, raw_ops.Cast(raw_ops.ExpandDims(offsets, 1), DstT=indices.dtype))
    parts = raw_ops.Reshape(grad, raw_ops.Pack([batch, outer, count, inner]))
    sums = raw_ops.UnsortedSegmentSum(raw_ops.Transpose(parts, [0, 2, 1, 3]), numbers,
                                      raw_ops.Mul(batch, size))
    whole = raw_ops.Reshape(sums, raw_ops.Pack([batch, size, outer, inner]))
    return raw_ops.Reshape(raw_ops.Transpose(whole, [0, 2, 1, 3]), shape)


def _volume(shape: Tensor, begin: Tensor | int, size: Tensor | int) -> Tensor:
    """The number of elements in `size` dimensions (-1: in all) from `begin` on."""
    part = raw_ops.Slice(shape, raw_ops.Reshape(begin, [1]), raw_ops.Reshape(size, [1]))
    return raw_ops.Prod(part, 0)


def gather(params: Any, indices: Any, validate_indices: bool | None = None,
           name: str | None = None, axis: TensorLike | None = None, batch_dims: int = 0) -> Tensor:
    """Return the rows of `params` that `indices` number, or the slices along `axis`.

    Args:
        params: a tensor of rank 1 or more.
        indices: int32 or int64 of any shape, each in ``[0, params.shape[0])``.
        validate_indices: no longer of any effect: on CPUs indices are always checked.
        name: name of the operation.
        axis: the dimension of `params` that `indices` number, an integer or a scalar tensor;
            `batch_dims` when None.
        batch_dims: how many first dimensions `params` and `indices` have in common; in each of
            these places there is a gather of its own.

    Returns a tensor of shape ``params.shape[:axis] + indices.shape[batch_dims:] +
    params.shape[axis+1:]``. For axis 0 its gradient is an :class:`IndexedSlices`. Raises
    ``InvalidArgumentError`` when run for an index out of range.
    """
    axis = batch_dims if axis is None else axis
    if getattr(params, "_is_by_handle", False) and batch_dims == 0 and type(axis) is int and (
            axis == 0):
        return params.sparse_read(indices, name=name)
    if batch_dims != 0 or isinstance(axis, Tensor) or axis != 0:
        return raw_ops.GatherV2(params=params, indices=indices, axis=axis, batch_dims=batch_dims,
                                name=name)
    validate = True if validate_indices is None else validate_indices
    return raw_ops.Gather(params=params, indices=indices, validate_indices=validate, name=name)


def batch_gather(params: Any, indices: TensorHandle, name: str | None = None) -> Tensor:
    """Gather along the last dimension of `indices`; the dimensions before it are batches."""
    with name_scope(name, "BatchGather", [params, indices]):
        indices = convert_to_tensor(indices, name="indices")
        if indices._dims is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        return gather(params, indices, batch_dims=len(indices._dims) - 1)


# ---------------------------------------------------------------- GatherNd, ScatterNd


def _gather_nd_shape(op: Operation) -> list[Dims]:
    params, indices = op.input_dims(0), with_rank_at_least(op.input_dims(1), 1, "indices")
    if params is None or indices is None or indices[-1] is None:
        return [None]
    depth = indices[-1]
    if depth > len(params):
        raise ValueError(f"indices of shape {show(indices)} have {depth} coordinates, but params "
                         f"has the shape {show(params)}")
    return [indices[:-1] + params[depth:]]


def _scatter_nd_shape(op: Operation) -> list[Dims]:
    indices, updates = op.input_dims(0), op.input_dims(1)
    with_rank_at_least(indices, 1, "indices")
    shape = constant_value_as_dims(op.inputs[2])
    _check_not_empty(indices, updates, shape)
    if shape is not None and indices is not None and indices[-1] is not None:
        if indices[-1] > len(shape):
            return [shape]  # the kernel says so
        _check_updates(indices, updates, shape)
    return [shape]


def scattered_shape(op: Operation) -> list[Dims]:
    """The shape of the first input, a tensor or variable of which other inputs are new slices:
    ``updates.shape = indices.shape[:-1] + shape[indices.shape[-1]:]``."""
    shape, indices, updates = (op.input_dims(i) for i in range(3))
    if not shape or not indices:  # a scalar is refused when it runs
        return [shape]
    _check_not_empty(indices, updates, shape)
    if indices[-1] is not None:
        if indices[-1] > len(shape):
            raise ValueError(f"indices of {indices[-1]} coordinates (the last dimension of "
                             f"{show(indices)}) do not fit input of shape {show(shape)}")
        _check_updates(indices, updates, shape, "input")
    return [shape]


def _check_not_empty(indices: Dims, updates: Dims, shape: Dims) -> None:
    if shape is not None and 0 in shape and _has_elements(indices) and _has_elements(updates):
        raise ValueError(f"Indices and updates specified for empty output shape {show(shape)}")


def _has_elements(dims: Dims) -> bool:
    """True if it is known that a tensor of this shape is not empty."""
    return dims is not None and all(dims)


def _check_updates(indices: tuple, updates: Dims, shape: tuple, what_has: str = "output") -> None:
    """ValueError unless `updates` are slices of `shape`, that of `what_has`, one for each of
    `indices`."""
    if updates is None:
        return
    outer, depth = len(indices) - 1, indices[-1]
    for what, given, wanted in (("outer", updates[:outer], indices[:-1]),
                                ("inner", updates[outer:], shape[depth:])):
        try:
            merge_dims(given, wanted)
        except ValueError as e:
            source = (f"indices.shape={show(indices)}" if what == "outer" else
                      f"{what_has}.shape={show(shape)}")
            raise ValueError(f"The {what} {len(wanted)} dimensions of {source} must match the "
                             f"{what} {len(given)} dimensions of updates.shape={show(updates)}: "
                             f"{e}") from None


register_op("GatherNd", "params: Tparams; indices: Tindices", "output: Tparams",
            f"Tparams: type; Tindices: {INDEX}", shape=_gather_nd_shape)
register_op("ScatterNd", "indices: Tindices; updates: T; shape: Tindices", "output: T",
            f"T: type; Tindices: {INDEX}", shape=_scatter_nd_shape)


@RegisterGradient("GatherNd")
def _gather_nd_grad(op: Operation, grad: Tensor) -> list:
    """Rows with their numbers where each index is one of a row, else the dense sum."""
    params, indices = op.inputs
    if indices._dims is not None and len(indices._dims) == 2 and indices._dims[1] == 1:
        return [_rows(params, raw_ops.Squeeze(indices, squeeze_dims=[-1]), grad), None]
    return [raw_ops.ScatterNd(indices, grad, shape_of(params, indices.dtype.base_dtype)), None]


@RegisterGradient("ScatterNd")
def _scatter_nd_grad(op: Operation, grad: Tensor) -> list:
    return [None, raw_ops.GatherNd(grad, op.inputs[0]), None]


def gather_nd(params: Any, indices: TensorLike, name: str | None = None,
              batch_dims: int = 0) -> Tensor:
    """Return the elements or slices of `params` at the coordinates in `indices`.

    Args:
        params: any tensor.
        indices: int32 or int64 of shape ``[..., K]``, K coordinates into the first K dimensions
            behind the batch.
        name: name of the operation.
        batch_dims: how many first dimensions `params` and `indices` have in common; in each of
            these places there is a gather of its own.

    Returns a tensor of shape ``indices.shape[:-1] + params.shape[batch_dims+K:]``. Raises
    ``InvalidArgumentError`` when run for coordinates out of range.
    """
    batch_dims = _static_number(batch_dims, "batch_dims")
    if batch_dims:
        with name_scope(name, "BatchGatherND", [params, indices]):
            indices = with_batch(convert_to_tensor(indices, name="indices"), batch_dims)
            return raw_ops.GatherNd(params=params, indices=indices)
    if getattr(params, "_is_by_handle", False):  # reads what is asked for alone
        return raw_ops.Identity(params.gather_nd(indices), name=name)
    return raw_ops.GatherNd(params=params, indices=indices, name=name)


def _static_number(value: int, name: str) -> int:
    """The integer that `value` is; of a tensor with one element its constant value.

    Raises ``TypeError`` for anything else.
    """
    known = constant_value(value) if isinstance(value, Tensor) else np.asarray(value)
    if known is None or known.size != 1 or not np.issubdtype(known.dtype, np.integer):
        raise TypeError(f"{name} must be an integer known when the graph is built, got {value!r}")
    return int(known.item())


def with_batch(indices: Tensor, batch_dims: int) -> Tensor:
    """Coordinates with those of the batch before them: its places are counted.

    Raises ``ValueError`` for indices that have not more dimensions than the batch.
    """
    rank: Any = raw_ops.Rank(indices) if indices._dims is None else len(indices._dims)
    if isinstance(rank, int) and not 0 < batch_dims < rank:
        raise ValueError(f"batch_dims = {batch_dims} must be less than rank(indices) = {rank}")
    shape = raw_ops.Shape(indices, out_type=indices.dtype)
    last = _padded([], rank, 1, -1, [1])
    blank = raw_ops.ZerosLike(raw_ops.Slice(indices, _padded([], rank, 0, 0), last))
    zero, one = (convert_to_tensor(n, indices.dtype) for n in (0, 1))
    columns = []
    for place in range(batch_dims):
        count = raw_ops.Reshape(raw_ops.Slice(shape, [place], [1]), np.zeros(0, np.int32))
        sizes = _padded([-1 if i == place else 1 for i in range(batch_dims + 1)], rank,
                        batch_dims + 1, 1)
        column = raw_ops.Reshape(raw_ops.Range(zero, count, one), sizes)
        columns.append(raw_ops.Add(column, blank))
    return raw_ops.ConcatV2([*columns, indices], rank - 1)


def _padded(first: list[int], rank: int | Tensor, others: int, value: int,
            last: Sequence[int] = ()) -> Any:
    """The sizes `first`, ``rank - others`` times `value`, then `last`; int32."""
    if isinstance(rank, int):
        return np.array([*first, *[value] * (rank - others), *last], np.int32)
    middle = raw_ops.Fill(raw_ops.Reshape(raw_ops.Sub(rank, np.int32(others)), [1]),
                          np.int32(value))
    ends = [np.array(end, np.int32) for end in (first, last)]
    return raw_ops.ConcatV2([ends[0], middle, ends[1]], 0)


def scatter_nd(indices: TensorLike, updates: TensorLike, shape: TensorLike,
               name: str | None = None) -> Tensor:
    """Return zeros of `shape` with `updates` added at the coordinates in `indices`.

    The reverse of :func:`gather_nd`: `updates` has the shape
    ``indices.shape[:-1] + shape[K:]``, and updates of the same place add up.
    """
    return raw_ops.ScatterNd(indices=indices, updates=updates, shape=shape, name=name)


# ---------------------------------------------------------------- Where, OneHot


def _where_shape(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    return [(None, None if dims is None else len(dims))]


def _one_hot_shape(op: Operation) -> list[Dims]:
    dims, depth = op.input_dims(0), constant_value(op.inputs[1])
    for i in (1, 2, 3):
        if op.input_dims(i):
            raise ValueError(f"{op.op_def.inputs[i].name} must be a scalar, but has shape "
                             f"{show(op.input_dims(i))}")
    if depth is not None and depth < 0:
        raise ValueError(f"depth must not be negative: {depth}")
    if dims is None:
        return [None]
    axis = normalize_axis(op._attrs["axis"], len(dims) + 1)
    return [dims[:axis] + (None if depth is None else int(depth),) + dims[axis:]]


register_op("Where", "input: T", "index: int64",
            "T: {float, double, int32, uint8, int16, int8, complex64, int64, bool} = bool",
            shape=_where_shape)
register_op("OneHot", "indices: TI; depth: int32; on_value: T; off_value: T", "output: T",
            "axis: int = -1; T: type; TI: {uint8, int32, int64} = int64", shape=_one_hot_shape)
not_differentiable("Where", "OneHot")


def where(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None,
          name: str | None = None) -> Tensor:
    """Return `x` where `condition` is true and `y` elsewhere, or the coordinates of what is true.

    Args:
        condition: booleans: of the shape of `x`; or a vector that picks whole rows. Without `x`
            numbers too, which are true where they are not zero.
        x: a tensor, or None.
        y: a tensor of the shape and type of `x`, or None.
        name: name of the operation.

    Without `x` and `y` the result is int64 of shape ``[number of true elements, rank]``, in
    row-major order. Raises ``ValueError`` if only one of the two is given.
    """
    if x is None and y is None:
        condition = convert_to_tensor(condition, preferred_dtype=dtypes.bool)
        return raw_ops.Where(input=condition, name=name)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return raw_ops.Select(condition=condition, t=x, e=y, name=name)


def where_v2(condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None,
             name: str | None = None) -> Tensor:
    """As :func:`where`, but `condition`, `x` and `y` are broadcast to one shape."""
    if x is None or y is None:
        return where(condition, x, y, name)
    return raw_ops.SelectV2(condition=condition, t=x, e=y, name=name)


def one_hot(indices: TensorLike, depth: TensorLike, on_value: TensorLike | None = None,
            off_value: TensorLike | None = None, axis: int | None = None,
            dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Return a tensor that is `on_value` where its position along `axis` is the index.

    Args:
        indices: integers of any shape; one outside of ``[0, depth)`` gives no `on_value`.
        depth: the size of the new dimension.
        on_value: a scalar, 1 if left out.
        off_value: a scalar, 0 if left out.
        axis: where the new dimension goes; the last place if left out.
        dtype: element type; that of the values (float32 without any) if left out.
        name: name of the operation.

    Raises ``TypeError`` if `dtype` and the types of the values disagree.
    """
    with name_scope(name, "one_hot", [indices, depth, on_value, off_value]) as scope:
        wanted = _one_hot_dtype(dtype, on_value, off_value)
        on, off = (convert_to_tensor(default if v is None else v, wanted, n) for v, default, n in
                   ((on_value, True if wanted is dtypes.bool else 1, "on_value"),
                    (off_value, False if wanted is dtypes.bool else 0, "off_value")))
        return raw_ops.OneHot(indices, depth, on, off, axis=-1 if axis is None else axis,
                              name=scope)


def _one_hot_dtype(dtype: DTypeLike | None, on_value: TensorLike | None,
                   off_value: TensorLike | None) -> dtypes.DType:
    given = [(n, convert_to_tensor(v).dtype.base_dtype if not isinstance(v, (int, float)) else None)
             for n, v in (("on_value", on_value), ("off_value", off_value)) if v is not None]
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    for name, found in given:
        if found is not None and wanted is not None and found is not wanted:
            raise TypeError(f"dtype {found.name} of {name} does not match {wanted.name}")
        wanted = wanted or found
    if wanted is not None:
        return wanted
    numbers = [v for v in (on_value, off_value) if v is not None]
    if len({type(v) for v in numbers}) > 1:
        raise TypeError(f"dtype of on_value {on_value!r} does not match dtype of off_value "
                        f"{off_value!r}")
    return convert_to_tensor(numbers).dtype if numbers else dtypes.float32
