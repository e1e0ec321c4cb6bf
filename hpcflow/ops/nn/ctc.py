"""Connectionist temporal classification: op types of the loss and of the decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, with_rank

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor


def _inputs(op: Operation, lengths: int) -> tuple[tuple, int | None]:
    """The dims of the inputs ``[time, batch, classes]``, and the batch size."""
    dims = with_rank(op.input_dims(0), 3, "inputs")
    length = with_rank(op.input_dims(lengths), 1, "sequence_length")
    return dims, merge_dim(dims[1], length[0])


def _loss_shape(op: Operation) -> list[Dims]:
    dims, batch = _inputs(op, 3)
    indices = with_rank(op.input_dims(1), 2, "labels_indices")
    labels = with_rank(op.input_dims(2), 1, "labels_values")
    merge_dim(indices[0], labels[0])
    return [(batch,), (dims[0], batch, dims[2])]


def _greedy_shape(op: Operation) -> list[Dims]:
    return [(None, 2), (None,), (2,), (_inputs(op, 1)[1], 1)]


def _beam_shape(op: Operation) -> list[Dims]:
    paths = op.attr("top_paths")
    indices, values, shape = (None, 2), (None,), (2,)
    return [*[indices] * paths, *[values] * paths, *[shape] * paths, (_inputs(op, 1)[1], paths)]


_EITHER = "; T: {float, double} = float"
for _op_type, _type, _types in (("CTCLoss", "T", _EITHER), ("CTCLossV2", "float", "")):
    register_op(
        _op_type,
        f"inputs: {_type}; labels_indices: int64; labels_values: int32; sequence_length: int32",
        f"loss: {_type}; gradient: {_type}",
        "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; "
        f"ignore_longer_outputs_than_inputs: bool = false{_types}",
        shape=_loss_shape)
register_op("CTCGreedyDecoder", "inputs: T; sequence_length: int32",
            "decoded_indices: int64; decoded_values: int64; decoded_shape: int64; "
            "log_probability: T", f"merge_repeated: bool = false; blank_index: int = -1{_EITHER}",
            shape=_greedy_shape)
register_op("CTCBeamSearchDecoder", "inputs: T; sequence_length: int32",
            "decoded_indices: top_paths * int64; decoded_values: top_paths * int64; "
            "decoded_shape: top_paths * int64; log_probability: T",
            f"beam_width: int >= 1; top_paths: int >= 1; merge_repeated: bool = true{_EITHER}",
            shape=_beam_shape)
not_differentiable("CTCGreedyDecoder", "CTCBeamSearchDecoder")


@RegisterGradient("CTCLoss")
@RegisterGradient("CTCLossV2")
def _loss_grad(op: Operation, grad: Tensor, _: object) -> tuple:
    """The op computes its gradient along with the loss; it has none of second order."""
    found = raw_ops.PreventGradient(
        op.outputs[1], message="Currently there is no way to take the second derivative of "
                               "ctc_loss due to the fused implementation's interaction with "
                               "gradients()")
    column = raw_ops.ExpandDims(raw_ops.ExpandDims(grad, 0), -1)
    return raw_ops.Mul(column, found), None, None, None
