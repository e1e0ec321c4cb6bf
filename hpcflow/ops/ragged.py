"""Ragged op types of later writers: rows of different lengths, as values and where rows end."""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, show, with_rank
from hpcflow.ops.type_sets import INDEX

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
not_differentiable("RaggedRange", "RaggedGather", "RaggedTensorToTensor")


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


register_op("SparseFillEmptyRows", "indices: int64; values: T; dense_shape: int64; "
            "default_value: T", "output_indices: int64; output_values: T; "
            "empty_row_indicator: bool; reverse_index_map: int64", "T: type", shape=_filled_shape)
register_op("SparseFillEmptyRowsGrad", "reverse_index_map: int64; grad_values: T",
            "d_values: T; d_default_value: T", "T: type",
            shape=lambda op: [op.input_dims(0), ()])
not_differentiable("SparseFillEmptyRowsGrad")


@RegisterGradient("SparseFillEmptyRows")
def _filled_grad(op: Operation, _: object, grad: Tensor, *__: object) -> tuple:
    values, default = raw_ops.SparseFillEmptyRowsGrad(op.outputs[3], grad)
    return None, values, None, default
