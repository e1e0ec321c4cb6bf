"""Newer op types on arrays and strings: BatchMatMulV2, Roll, EnsureShape, StringLength, ..."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    broadcast_dims,
    constant_value,
    merge_dims,
    unchanged,
    with_rank,
)
from hpcflow.ops.matmul import batch_product_shape, product_grads

__all__: list[str] = []

_INDEX = "{int32, int64}"

# ---------------------------------------------------------------- products


_HINTS = "grad_x: bool = false; grad_y: bool = false"
register_op("BatchMatMulV2", "x: T; y: T", "output: T",
            "T: {bfloat16, half, float, double, int16, int32, int64, uint8, complex64, complex128};"
            f"adj_x: bool = false; adj_y: bool = false; {_HINTS}",
            shape=batch_product_shape(broadcast_dims))
register_op("BatchMatMulV3", "x: Ta; y: Tb", "output: Tout",
            "Ta: type; Tb: type; Tout: type; adj_x: bool = false; adj_y: bool = false; " + _HINTS,
            shape=batch_product_shape(broadcast_dims))


@RegisterGradient("BatchMatMulV2")
def _batch_matmul_grad(op: Operation, grad: Tensor) -> tuple:
    def multiply(x: Any, y: Any, adj_x: bool, adj_y: bool) -> Tensor:
        return raw_ops.BatchMatMulV2(x, y, adj_x=adj_x, adj_y=adj_y)

    x, y = op.inputs
    grads = product_grads(multiply, x, y, grad, op.attr("adj_x"), op.attr("adj_y"))
    return tuple(_summed(g, t) for g, t in zip(grads, (x, y), strict=True))


def _summed(grad: Tensor, factor: Tensor) -> Tensor:
    """`grad` summed over the batch dimensions along which `factor` was repeated."""
    dims = factor._dims
    if dims is not None and None not in dims and grad._dims == dims:
        return grad
    shape = raw_ops.Shape(factor)
    axes, _ = raw_ops.BroadcastGradientArgs(shape, raw_ops.Shape(grad))
    return raw_ops.Reshape(raw_ops.Sum(grad, axes), shape)


# ---------------------------------------------------------------- shapes and places

register_op("EnsureShape", "input: T", "output: T", "shape: shape; T: type",
            shape=lambda op: [merge_dims(op.input_dims(0), op._attrs["shape"]._dims)])
register_op("Roll", "input: T; shift: Tshift; axis: Taxis", "output: T",
            f"T: type; Tshift: {_INDEX}; Taxis: {_INDEX}", shape=unchanged)


@RegisterGradient("EnsureShape")
def _ensure_shape_grad(op: Operation, grad: Tensor) -> Tensor:
    return grad


@RegisterGradient("Roll")
def _roll_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.Roll(grad, raw_ops.Neg(op.inputs[1]), op.inputs[2]), None, None


for _name in ("Update", "Add", "Sub", "Max", "Min"):
    register_op(f"TensorScatter{_name}", "tensor: T; indices: Tindices; updates: T", "output: T",
                f"T: type; Tindices: {_INDEX}", shape=unchanged)


@RegisterGradient("TensorScatterUpdate")
def _scatter_update_grad(op: Operation, grad: Tensor) -> tuple:
    indices, updates = op.inputs[1:]
    kept = raw_ops.TensorScatterUpdate(grad, indices, raw_ops.ZerosLike(updates))
    return kept, None, raw_ops.GatherNd(grad, indices)


register_op("ScatterNdNonAliasingAdd", "input: T; indices: Tindices; updates: T", "output: T",
            f'T: type; Tindices: {_INDEX}; bad_indices_policy: string = ""', shape=unchanged)


@RegisterGradient("ScatterNdNonAliasingAdd")
@RegisterGradient("TensorScatterAdd")
def _scatter_add_grad(op: Operation, grad: Tensor) -> tuple:
    return grad, None, raw_ops.GatherNd(grad, op.inputs[1])


@RegisterGradient("TensorScatterSub")
def _scatter_sub_grad(op: Operation, grad: Tensor) -> tuple:
    return grad, None, raw_ops.Neg(raw_ops.GatherNd(grad, op.inputs[1]))


def _winners_grad(op: Operation, grad: Tensor) -> tuple:
    """An extreme shares its gradient among all the values that reach it."""
    tensor, indices, updates = op.inputs
    result, dtype = op.outputs[0], grad.dtype.base_dtype
    kept = raw_ops.Cast(raw_ops.Equal(tensor, result), DstT=dtype)
    taken = raw_ops.Cast(raw_ops.Equal(updates, raw_ops.GatherNd(result, indices)), DstT=dtype)
    share = grad / raw_ops.TensorScatterAdd(kept, indices, taken)
    return share * kept, None, raw_ops.GatherNd(share, indices) * taken


RegisterGradient("TensorScatterMax")(_winners_grad)
RegisterGradient("TensorScatterMin")(_winners_grad)


# ---------------------------------------------------------------- counting and searching


def _bound_shape(op: Operation) -> list[Dims]:
    rows, values = with_rank(op.input_dims(0), 2), with_rank(op.input_dims(1), 2)
    return [(merge_dims(rows[:1], values[:1]) or ()) + values[1:]]


def _histogram_shape(op: Operation) -> list[Dims]:
    count = constant_value(op.inputs[2])
    return [(None if count is None else int(count),)]


def _bincount_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "size")
    dims, size = op.input_dims(0), constant_value(op.inputs[1])
    count = None if size is None else int(size)
    if count is not None and count < 0:
        raise ValueError(f"size must be non-negative, got {count}")
    if op.type == "Bincount":
        return [(count,)]
    if dims is not None and not 1 <= len(dims) <= 2:
        raise ValueError(f"Shape must be at most rank 2 but is rank {len(dims)}")
    return [None if dims is None else (*dims[:-1], count) if len(dims) == 2 else (count,)]


for _op_type in ("LowerBound", "UpperBound"):
    register_op(_op_type, "sorted_inputs: T; values: T", "output: out_type",
                f"T: type; out_type: {_INDEX} = int32", shape=_bound_shape)
register_op("HistogramFixedWidth", "values: T; value_range: T; nbins: int32", "out: dtype",
            f"T: {{int32, int64, float, double}}; dtype: {_INDEX} = int32", shape=_histogram_shape)
register_op("DenseBincount", "input: Tidx; size: Tidx; weights: T", "output: T",
            f"Tidx: {_INDEX}; T: {{int32, int64, float, double}}; binary_output: bool = false",
            shape=_bincount_shape)
register_op("Bincount", "arr: int32; size: int32; weights: T", "bins: T",
            "T: {int32, int64, float, double}", shape=_bincount_shape)
register_op("InTopKV2", "predictions: float; targets: T; k: T", "precision: bool",
            f"T: {_INDEX} = int32", shape=lambda op: [op.input_dims(1)])
register_op("Bucketize", "input: T", "output: int32",
            "T: {int32, int64, float, double}; boundaries: list(float)", shape=unchanged)
not_differentiable("LowerBound", "UpperBound", "HistogramFixedWidth", "DenseBincount", "Bincount",
                   "InTopKV2", "Bucketize", "BatchMatMulV3")

# ---------------------------------------------------------------- strings

_UNIT = "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'"
_ENCODING = 'encoding: string = ""'
register_op("StringLength", "input: string", "output: int32", _UNIT, shape=unchanged)
register_op("StringStrip", "input: string", "output: string", shape=unchanged)
for _op_type in ("StringLower", "StringUpper"):
    register_op(_op_type, "input: string", "output: string", _ENCODING, shape=unchanged)
register_op("StaticRegexReplace", "input: string", "output: string",
            "pattern: string; rewrite: string; replace_global: bool = true", shape=unchanged)
register_op("RegexReplace", "input: string; pattern: string; rewrite: string", "output: string",
            "replace_global: bool = true", shape=unchanged)
register_op("RegexFullMatch", "input: string; pattern: string", "output: bool", shape=unchanged)
not_differentiable("StringLength", "StringStrip", "StringLower", "StringUpper",
                   "StaticRegexReplace", "RegexReplace", "RegexFullMatch")
