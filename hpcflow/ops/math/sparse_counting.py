"""Counts of numbers by rows: SparseBincount, RaggedBincount, and counts as sparse tensors."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import known_number, merge_dim, with_rank, with_rank_at_most
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []


def _size(op: Operation, index: int) -> int | None:
    size = known_number(op, index)
    if size is not None and size < 0:
        raise ValueError(f"size ({int(size)}) must be non-negative")
    return None if size is None else int(size)


def _sparse_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 2, "indices")
    with_rank(op.input_dims(1), 1, "values")
    rank = with_rank(op.input_dims(2), 1, "dense_shape")[0]
    size = _size(op, 3)
    return [None if rank is None else (size,) if rank == 1 else (None, size)]


def _ragged_shape(op: Operation) -> list[Dims]:
    splits = with_rank(op.input_dims(0), 1, "splits")[0]
    return [(None if splits is None else splits - 1, _size(op, 2))]


def _counted_shape(op: Operation) -> list[Dims]:
    rank: int | None
    if op.type == "DenseCountSparseOutput":
        values = with_rank_at_most(op.input_dims(0), 2, "values")
        rank = None if values is None else len(values)
    elif op.type == "SparseCountSparseOutput":
        rank = with_rank(op.input_dims(2), 1, "dense_shape")[0]
        rank = merge_dim(rank, with_rank(op.input_dims(0), 2, "indices")[1])
    else:
        rank = 2
    return [(None, rank), (None,), (rank,)]


_NUMBERS = "{int32, int64, float, double}"
_BINS = f"Tidx: {INDEX}; T: {_NUMBERS}; binary_output: bool = false"
register_op("SparseBincount", "indices: int64; values: Tidx; dense_shape: int64; size: Tidx; "
            "weights: T", "output: T", _BINS, shape=_sparse_shape)
register_op("RaggedBincount", "splits: int64; values: Tidx; size: Tidx; weights: T", "output: T",
            _BINS, shape=_ragged_shape)
for _form, _inputs in (("Dense", "values: T"), ("Ragged", "splits: int64; values: T"),
                       ("Sparse", "indices: int64; values: T; dense_shape: int64")):
    register_op(f"{_form}CountSparseOutput", f"{_inputs}; weights: output_type",
                "output_indices: int64; output_values: output_type; output_dense_shape: int64",
                f"T: {INDEX}; minlength: int >= -1 = -1; maxlength: int >= -1 = -1; "
                f"binary_output: bool; output_type: {_NUMBERS}", shape=_counted_shape)
    not_differentiable(f"{_form}CountSparseOutput")
not_differentiable("SparseBincount", "RaggedBincount")
