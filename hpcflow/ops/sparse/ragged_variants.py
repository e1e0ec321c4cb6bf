"""Ragged tensors as elements of lists: encoded as variants, and decoded again."""

from __future__ import annotations

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value_as_dims, with_rank
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []


def _encoded_shape(op: Operation) -> list[Dims]:
    if not op.attr("batched_input"):
        return [()]
    rows = op.input_dims(0)
    if not rows:
        return [(None,)]
    ragged = op.attr("RAGGED_RANK") > 0
    return [(None if rows[0] is None else rows[0] - ragged,)]


def _decoded_shape(op: Operation) -> list[Dims]:
    return [*[(None,)] * op.attr("output_ragged_rank"), None]


def _gradient_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(2), 1, "dense_values_shape")
    return [constant_value_as_dims(op.inputs[2])]


register_op("RaggedTensorToVariant",
            "rt_nested_splits: RAGGED_RANK * Tsplits; rt_dense_values: Tvalues",
            "encoded_ragged: variant",
            f"RAGGED_RANK: int >= 0; Tvalues: type; Tsplits: {INDEX} = int64; batched_input: bool",
            shape=_encoded_shape)
register_op("RaggedTensorFromVariant", "encoded_ragged: variant",
            "output_nested_splits: output_ragged_rank * Tsplits; output_dense_values: Tvalues",
            "input_ragged_rank: int >= -1; output_ragged_rank: int >= 0; Tvalues: type; "
            f"Tsplits: {INDEX} = int64", shape=_decoded_shape)
register_op("RaggedTensorToVariantGradient",
            "encoded_ragged_grad: variant; row_splits: Tsplits; dense_values_shape: int32",
            "dense_values_grad: Tvalues", f"Tvalues: type; Tsplits: {INDEX} = int64",
            shape=_gradient_shape)
not_differentiable("RaggedTensorToVariantGradient")


@RegisterGradient("RaggedTensorToVariant")
def _encoded_grad(op: Operation, grad: Tensor) -> list:
    *splits, values = op.inputs
    kind = op.attr("Tsplits")
    rows = splits[0] if splits else raw_ops.Const(value=np.array(0, kind.np), dtype=kind)
    return [*[None] * len(splits), raw_ops.RaggedTensorToVariantGradient(
        grad, rows, raw_ops.Shape(values), Tvalues=values.dtype.base_dtype)]


@RegisterGradient("RaggedTensorFromVariant")
def _decoded_grad(op: Operation, *grads: Tensor) -> Tensor:
    dims = op.input_dims(0)
    if dims is None or len(dims) > 1:
        raise ValueError("Unable to compute gradient: RaggedTensorFromVariant of a variant that is "
                         "neither a scalar nor a vector")
    return raw_ops.RaggedTensorToVariant(op.outputs[:-1], grads[-1], batched_input=len(dims) == 1,
                                         Tsplits=op.attr("Tsplits"))
