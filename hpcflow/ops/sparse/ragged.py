"""Ragged op types of later writers: rows of different lengths, as values and where rows end."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, show, with_rank
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []

_SPLITS = f"Tsplits: {INDEX} = int64"


def _range_shape(op: Operation) -> list[Dims]:
    for i, name in enumerate(("starts", "limits", "deltas")):
        if len(op.input_dims(i) or ()) > 1:
            raise ValueError(f"{name} must be a scalar or a vector, got {show(op.input_dims(i))}")
    sizes = [dims for i in range(3) if (dims := op.input_dims(i))]
    rows = next((d[0] for d in sizes if d[0] is not None), None)
    if not sizes and all(op.input_dims(i) == () for i in range(3)):
        rows = 1
    return [(None if rows is None else rows + 1,), (None,)]


def _gather_shape(op: Operation) -> list[Dims]:
    values = op.input_dims(len(op.inputs) - 2)
    splits: list[Dims] = [(None,)] * op.attr("OUTPUT_RAGGED_RANK")
    return [*splits, None if not values else (None, *values[1:])]


def _sparse_shape(op: Operation) -> list[Dims]:
    values, levels = op.input_dims(len(op.inputs) - 1), op.attr("RAGGED_RANK")
    rank = None if values is None else levels + len(values)
    return [(None, rank), (None,), (rank,)]


def _dense_shape(op: Operation) -> list[Dims]:
    wanted = constant_value_as_dims(op.inputs[0])
    if op.input_dims(0) == () or wanted is None:
        return [None]
    values = op.input_dims(1)
    ragged = sum(kind != b"FIRST_DIM_SIZE" for kind in op.attr("row_partition_types"))
    if values is None or len(wanted) != ragged + len(values):
        return [wanted]
    inner = [w if v is None else v for w, v in zip(wanted[ragged + 1:], values[1:])]
    return [(*wanted[: ragged + 1], *inner)]


register_op("RaggedRange", "starts: T; limits: T; deltas: T",
            "rt_nested_splits: Tsplits; rt_dense_values: T",
            f"T: {{bfloat16, float, double, int32, int64}} = int32; {_SPLITS}", shape=_range_shape)
register_op("RaggedGather", "params_nested_splits: PARAMS_RAGGED_RANK * Tsplits; "
            "params_dense_values: Tvalues; indices: Tindices",
            "output_nested_splits: OUTPUT_RAGGED_RANK * Tsplits; output_dense_values: Tvalues",
            f"Tvalues: type; Tindices: {INDEX}; {_SPLITS}; PARAMS_RAGGED_RANK: int >= 1; "
            "OUTPUT_RAGGED_RANK: int >= 0", shape=_gather_shape)
register_op("RaggedTensorToSparse", "rt_nested_splits: RAGGED_RANK * Tsplits; rt_dense_values: T",
            "sparse_indices: int64; sparse_values: T; sparse_dense_shape: int64",
            f"RAGGED_RANK: int >= 1; T: type; {_SPLITS}", shape=_sparse_shape)
register_op("RaggedTensorToTensor", "shape: Tshape; values: T; default_value: T; "
            "row_partition_tensors: num_row_partition_tensors * Tindex", "result: T",
            f"T: type; Tindex: {INDEX}; Tshape: {INDEX}; num_row_partition_tensors: int >= 1; "
            "row_partition_types: list(string)", shape=_dense_shape)
not_differentiable("RaggedRange")


def _places(values: Tensor) -> Tensor:
    """The number of each element."""
    numbers = raw_ops.Range(np.int64(0), raw_ops.Size(values, out_type=dtypes.int64), np.int64(1))
    return raw_ops.Reshape(numbers, raw_ops.Shape(values))


def _sent_back(grad: Tensor, places: Tensor, values: Tensor) -> Tensor:
    """Each element of the gradient added to that of `values` at its place, if that is one."""
    flat = np.array([-1], np.int32)
    sums = raw_ops.UnsortedSegmentSum(raw_ops.Reshape(grad, flat), raw_ops.Reshape(places, flat),
                                      raw_ops.Size(values))
    return raw_ops.Reshape(sums, raw_ops.Shape(values))


@RegisterGradient("RaggedGather")
def _gather_grad(op: Operation, *grads: Any) -> list:
    """The places of elements are gathered as the elements are."""
    *splits, values, indices = op.inputs
    found: Any = raw_ops.RaggedGather(splits, _places(values), indices,
                                      OUTPUT_RAGGED_RANK=op.attr("OUTPUT_RAGGED_RANK"))
    places = found.output_dense_values
    return [*[None] * len(splits), _sent_back(grads[-1], places, values), None]


@RegisterGradient("RaggedTensorToTensor")
def _dense_grad(op: Operation, grad: Tensor) -> list:
    """As of a gather; what no value fills comes from the default."""
    shape, values, default, *partitions = op.inputs
    places = raw_ops.RaggedTensorToTensor(shape, _places(values), np.int64(-1), partitions,
                                          row_partition_types=op.attr("row_partition_types"))
    filled = raw_ops.Select(raw_ops.Less(places, np.int64(0)), grad, raw_ops.ZerosLike(grad))
    size = raw_ops.Shape(default)
    axes, _ = raw_ops.BroadcastGradientArgs(size, raw_ops.Shape(filled))
    by_default = raw_ops.Reshape(raw_ops.Sum(filled, axes), size)
    return [None, _sent_back(grad, places, values), by_default, *[None] * len(partitions)]


@RegisterGradient("RaggedTensorToSparse")
def _sparse_grad(op: Operation, _: object, grad: Tensor, __: object) -> list:
    values = op.inputs[-1]
    return [*[None] * op.attr("RAGGED_RANK"), raw_ops.Reshape(grad, raw_ops.Shape(values))]


# ---------------------------------------------------------------- rows of sparse matrices


def _filled_shape(op: Operation) -> list[Dims]:
    rank = with_rank(op.input_dims(0), 2, "indices")[1]
    count = with_rank(op.input_dims(1), 1, "values")[0]
    shape = constant_value_as_dims(op.inputs[2])
    return [(None, rank), (None,), (shape[0] if shape else None,), (count,)]


def _filled_grad_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 1, "grad_values")
    return [with_rank(op.input_dims(0), 1, "reverse_index_map"), ()]


register_op("SparseFillEmptyRows", "indices: int64; values: T; dense_shape: int64; "
            "default_value: T", "output_indices: int64; output_values: T; "
            "empty_row_indicator: bool; reverse_index_map: int64", "T: type", shape=_filled_shape)
register_op("SparseFillEmptyRowsGrad", "reverse_index_map: int64; grad_values: T",
            "d_values: T; d_default_value: T", "T: type",
            shape=_filled_grad_shape)
not_differentiable("SparseFillEmptyRowsGrad")


@RegisterGradient("SparseFillEmptyRows")
def _filled_grad(op: Operation, _: object, grad: Tensor, *__: object) -> tuple:
    values, default = raw_ops.SparseFillEmptyRowsGrad(op.outputs[3], grad)
    return None, values, None, default
