"""Variables by resource handle, as newer graphs use them: VarHandleOp, ReadVariableOp, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.graph.convert import constant_array
from hpcflow.graph.graph import colocate_with
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    merge_dims,
    no_outputs,
    scalar,
    show,
    with_rank_at_least,
)
from hpcflow.ops.common.type_sets import BAD_INDICES
from hpcflow.ops.state.state import NUMBERS

__all__: list[str] = []


def _handle_shape(op: Operation) -> list[Dims]:
    """The handle is a scalar; what it stands for travels beside it."""
    op.outputs[0]._handle_data = (op.attr("dtype"), op._attrs["shape"]._dims)
    return [()]


def _handle_data(op: Operation) -> tuple[DType | None, Dims]:
    """The dtype and dims of the variable behind the first input, as far as they are known."""
    return op.inputs[0]._handle_data or (None, None)


def _read_shape(op: Operation) -> list[Dims]:
    dtype, dims = _handle_data(op)
    wanted = op.attr("dtype")
    if dtype is not None and dtype is not wanted:
        raise ValueError(f"the variable holds {dtype.name}, but {wanted.name} is to be read")
    return [dims]


def _assign_shape(op: Operation) -> list[Dims]:
    dtype, given = _handle_data(op)[0], op.inputs[1].dtype.base_dtype
    if dtype is not None and dtype is not given:
        raise ValueError(f"the variable holds {dtype.name}, but {given.name} is to be written")
    merge_dims(_handle_data(op)[1], op.input_dims(1))
    return []


def _shape_of_shape(op: Operation) -> list[Dims]:
    dims = _handle_data(op)[1]
    return [(None if dims is None else len(dims),)]


def _gather_shape(op: Operation) -> list[Dims]:
    dims, indices = _handle_data(op)[1], op.input_dims(1)
    batch = op.attr("batch_dims")
    if dims is None or indices is None or not 0 <= batch <= len(indices):
        return [None]
    rows = with_rank_at_least(dims, batch + 1, "the variable") or ()
    return [(*merge_dims(indices[:batch], rows[:batch]), *indices[batch:],  # type: ignore[misc]
             *rows[batch + 1:])]


def _scatter_shape(op: Operation) -> list[Dims]:
    """No output; the updates are rows, one for each index, or a scalar."""
    dims, indices, updates = _handle_data(op)[1], op.input_dims(1), op.input_dims(2)
    rows = with_rank_at_least(dims, 1, "the variable")
    if rows is not None and indices is not None and updates != ():
        merge_dims(updates, (*indices, *rows[1:]))
    return []


_VALUE = "resource: resource; value: dtype"
register_op("VarHandleOp", outputs="resource: resource",
            attrs='container: string = ""; shared_name: string = ""; debug_name: string = ""; '
                  "dtype: type; shape: shape; allowed_devices: list(string) = []",
            stateful=True, shape=_handle_shape)
register_op("ReadVariableOp", "resource: resource", "value: dtype", "dtype: type", stateful=True,
            shape=_read_shape)
register_op("AssignVariableOp", _VALUE, "", "dtype: type; validate_shape: bool = false",
            stateful=True, shape=_assign_shape)
register_op("AssignAddVariableOp", _VALUE, "", "dtype: type", stateful=True, shape=_assign_shape)
register_op("AssignSubVariableOp", _VALUE, "", "dtype: type", stateful=True, shape=_assign_shape)
register_op("VarIsInitializedOp", "resource: resource", "is_initialized: bool", stateful=True,
            shape=scalar)
register_op("DestroyResourceOp", "resource: resource", "", "ignore_lookup_error: bool = true",
            stateful=True, shape=no_outputs)
register_op("DisableCopyOnRead", "resource: resource", "", stateful=True, shape=no_outputs)
register_op("VariableShape", "input: resource", "output: out_type",
            "out_type: {int32, int64} = int32", stateful=True, shape=_shape_of_shape)
register_op("ResourceGather", "resource: resource; indices: Tindices", "output: dtype",
            "batch_dims: int = 0; validate_indices: bool = true; dtype: type; "
            "Tindices: {int32, int64}", stateful=True, shape=_gather_shape)
for _op_type in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    register_op(f"ResourceScatter{_op_type}",
                "resource: resource; indices: Tindices; updates: dtype", "",
                f"dtype: {NUMBERS}; Tindices: {{int32, int64}}", stateful=True,
                shape=_scatter_shape)
register_op("ResourceScatterUpdate", "resource: resource; indices: Tindices; updates: dtype", "",
            "dtype: type; Tindices: {int32, int64}", stateful=True, shape=_scatter_shape)
not_differentiable("VarHandleOp", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
                   "VarIsInitializedOp", "VariableShape", "DisableCopyOnRead",
                   "ResourceScatterUpdate",
                   *(f"ResourceScatter{n}" for n in ("Add", "Sub", "Mul", "Div", "Max", "Min")))

# ---------------------------------------------------------------- parts by coordinates


def _gather_nd_shape(op: Operation) -> list[Dims]:
    dims, indices = _handle_data(op)[1], op.input_dims(1)
    if dims is None or not indices or indices[-1] is None:
        return [None]
    if indices[-1] > len(dims):
        raise ValueError(f"indices of {indices[-1]} coordinates (the last dimension of "
                         f"{show(indices)}) do not fit a variable of shape {show(dims)}")
    return [(*indices[:-1], *dims[indices[-1]:])]


register_op("ResourceGatherNd", "resource: resource; indices: Tindices", "output: dtype",
            "dtype: type; Tindices: {int32, int64}", stateful=True, shape=_gather_nd_shape)
register_op("ResourceCountUpTo", "resource: resource", "output: T",
            "limit: int; T: {int32, int64}", stateful=True, shape=scalar)
for _op_type in ("Update", "Add", "Sub", "Max", "Min"):
    register_op(f"ResourceScatterNd{_op_type}",
                "ref: resource; indices: Tindices; updates: T", "",
                "T: type; Tindices: {int32, int64}; use_locking: bool = true; " + BAD_INDICES,
                stateful=True, shape=no_outputs)
    not_differentiable(f"ResourceScatterNd{_op_type}")
not_differentiable("ResourceCountUpTo")


def variable_shape(handle: Tensor, out_type: DType | None = None) -> Tensor:
    """The shape of the variable behind `handle`: a constant if it is known, else measured where the
    variable is."""
    dims = (handle._handle_data or (None, None))[1]
    if dims is not None and None not in dims:
        return constant_array(np.array(dims, np.int32 if out_type is None else out_type.np))
    with colocate_with(handle.op, ignore_existing=True):
        return raw_ops.VariableShape(handle, out_type=out_type)


@RegisterGradient("ResourceGather")
def _gather_grad(op: Operation, grad: Tensor) -> tuple:
    """The rows of the gradient with their row numbers."""
    if op.attr("batch_dims"):
        raise ValueError("ResourceGather has no gradient with batch_dims")
    handle, indices = op.inputs
    shape = variable_shape(handle)
    flat = raw_ops.Reshape(indices, [-1])
    rows = raw_ops.ConcatV2([raw_ops.Shape(flat), raw_ops.Slice(shape, [1], [-1])], 0)
    return IndexedSlices(raw_ops.Reshape(grad, rows), flat, shape), None


@RegisterGradient("ResourceGatherNd")
def _gather_nd_grad(op: Operation, grad: Tensor) -> tuple:
    handle, indices = op.inputs
    shape = variable_shape(handle, indices.dtype.base_dtype)
    return raw_ops.ScatterNd(indices, grad, shape), None


@RegisterGradient("ReadVariableOp")
def _read_grad(op: Operation, grad: Tensor) -> Any:
    return grad
