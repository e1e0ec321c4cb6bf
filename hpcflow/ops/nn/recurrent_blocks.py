"""Recurrent cells, and whole sequences of them, as one op: LSTMBlockCell, BlockLSTM, GRUBlockCell.

Sources: Zaremba et al. (arXiv:1409.2329) and Cho et al. (arXiv:1406.1078).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, with_rank

_HALVES = "T: {half, float}"
_PEEPHOLE = "use_peephole: bool"
_WEIGHTS = "w: T; wci: T; wcf: T; wco: T; b: T"
_STATE = "cs_prev: T; h_prev: T"
_PARTS = "i: T; cs: T; f: T; o: T; ci: T; co: T"
_INPUTS = f"x: T; {_STATE}; {_WEIGHTS}"
_LONG_INPUTS = f"seq_len_max: int64; {_INPUTS}"
_BY_WEIGHTS = "wci_grad: T; wcf_grad: T; wco_grad: T"


def _state_dims(op: Operation, rows: int | None, *names: str) -> tuple:
    """(rows, units) that the matrices called `names` agree on."""
    units = None
    for name in names:
        dims = with_rank(_dims(op, name), 2, name)
        rows, units = merge_dim(rows, dims[0]), merge_dim(units, dims[1])
    return rows, units


def _dims(op: Operation, name: str) -> Dims:
    return op.input_dims([i.name for i in op.op_def.inputs].index(name))


# ---------------------------------------------------------------- one step of an LSTM


def _cell_shape(op: Operation) -> list[Dims]:
    x = with_rank(_dims(op, "x"), 2, "x")
    return [_state_dims(op, x[0], "cs_prev", "h_prev")] * 7


def _cell_grad_shape(op: Operation) -> list[Dims]:
    x = with_rank(_dims(op, "x"), 2, "x")
    rows, units = _state_dims(op, x[0], "cs_prev", "h_prev")
    gates = None if units is None else 4 * units
    return [(rows, units), (rows, gates), *[(units,)] * 3]


register_op("LSTMBlockCell", _INPUTS, f"{_PARTS}; h: T",
            "forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; "
            f"{_HALVES}", shape=_cell_shape)
register_op("LSTMBlockCellGrad", f"{_INPUTS}; {_PARTS}; cs_grad: T; h_grad: T",
            f"cs_prev_grad: T; dicfo: T; {_BY_WEIGHTS}", f"{_PEEPHOLE}; {_HALVES}",
            shape=_cell_grad_shape)


@RegisterGradient("LSTMBlockCell")
def _cell_grad(op: Operation, *grads: Any) -> tuple:
    """By memory and output; the gates are taken for constants."""
    x, _, h_prev, w = op.inputs[:4]
    by_memory, by_gates, *by_peepholes = raw_ops.LSTMBlockCellGrad(
        *op.inputs, *op.outputs[:6], grads[1], grads[6], use_peephole=op.attr("use_peephole"))
    by_x, by_h, by_w = _through_product(x, h_prev, w, by_gates)
    return (by_x, by_memory, by_h, by_w, *by_peepholes, raw_ops.BiasAddGrad(by_gates))


def _through_product(x: Tensor, h: Tensor, w: Tensor, grad: Tensor) -> tuple:
    """The gradients of ``[x, h] @ w`` by its three factors."""
    joined = raw_ops.ConcatV2([x, h], np.int32(1))
    return (*_split_like(raw_ops.MatMul(grad, w, transpose_b=True), x, h),
            raw_ops.MatMul(joined, grad, transpose_a=True))


def _split_like(joined: Tensor, x: Tensor, h: Tensor) -> tuple:
    """The parts of ``[x, h]``."""
    start = raw_ops.ConcatOffset(np.int32(1), [raw_ops.Shape(x), raw_ops.Shape(h)])
    return tuple(raw_ops.Slice(joined, begin, raw_ops.Shape(part))
                 for begin, part in zip(start, (x, h), strict=True))


# ---------------------------------------------------------------- a sequence of an LSTM


def _sequence_shape(op: Operation) -> list[Dims]:
    with_rank(_dims(op, "seq_len_max"), 0, "seq_len_max")
    steps, rows, _ = with_rank(_dims(op, "x"), 3, "x")
    gates = with_rank(_dims(op, "b"), 1, "b")[0]
    rows, units = _state_dims(op, rows, "cs_prev", "h_prev")
    units = merge_dim(units, None if gates is None else gates // 4)
    return [(steps, rows, units)] * 7


def _sequence_grad_shape(op: Operation) -> list[Dims]:
    names = "x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b"
    ranks = 3, 2, 2, 2, 1, 1, 1, 1
    return [with_rank(_dims(op, name), rank, name) for name, rank in zip(names, ranks)]


_BY_SEQUENCE = ("x_grad: T; cs_prev_grad: T; h_prev_grad: T; w_grad: T; "
                f"{_BY_WEIGHTS}; b_grad: T")
for _version, _attrs in (("", "forget_bias: float = 1.0; cell_clip: float = 3.0"),
                         ("V2", "cell_clip: float = 0.0")):
    register_op(f"BlockLSTM{_version}", _LONG_INPUTS, f"{_PARTS}; h: T",
                f"{_attrs}; {_PEEPHOLE} = false; {_HALVES}", shape=_sequence_shape)
    register_op(f"BlockLSTMGrad{_version}",
                f"{_LONG_INPUTS}; {_PARTS}; h: T; cs_grad: T; h_grad: T", _BY_SEQUENCE,
                f"{_PEEPHOLE}; {_HALVES}", shape=_sequence_grad_shape)


@RegisterGradient("BlockLSTM")
@RegisterGradient("BlockLSTMV2")
def _sequence_grad(op: Operation, *grads: Any) -> tuple:
    """By memories and outputs; the gates are taken for constants."""
    build = getattr(raw_ops, op.type.replace("LSTM", "LSTMGrad"))
    found = build(*op.inputs, *op.outputs, grads[1], grads[6],
                  use_peephole=op.attr("use_peephole"))
    return (None, *found)


# ---------------------------------------------------------------- one step of a GRU

_GRU_INPUTS = "x: T; h_prev: T; w_ru: T; w_c: T; b_ru: T; b_c: T"


def _gru_shape(op: Operation) -> list[Dims]:
    x = with_rank(_dims(op, "x"), 2, "x")
    return [_state_dims(op, x[0], "h_prev")] * 4


def _gru_grad_shape(op: Operation) -> list[Dims]:
    x = with_rank(_dims(op, "x"), 2, "x")
    rows, units = _state_dims(op, x[0], "h_prev")
    return [(rows, x[1]), (rows, units), (rows, units),
            (rows, None if units is None else 2 * units)]


register_op("GRUBlockCell", _GRU_INPUTS, "r: T; u: T; c: T; h: T", "T: {float}", shape=_gru_shape)
register_op("GRUBlockCellGrad", f"{_GRU_INPUTS}; r: T; u: T; c: T; d_h: T",
            "d_x: T; d_h_prev: T; d_c_bar: T; d_r_bar_u_bar: T", "T: {float}",
            shape=_gru_grad_shape)


@RegisterGradient("GRUBlockCell")
def _gru_grad(op: Operation, *grads: Any) -> tuple:
    """By the output; the gates are taken for constants."""
    x, h_prev = op.inputs[:2]
    r, u, c, _ = op.outputs
    by_x, by_h, by_c, by_gates = raw_ops.GRUBlockCellGrad(*op.inputs, r, u, c, grads[3])
    joined = raw_ops.ConcatV2([x, h_prev], np.int32(1))
    reset = raw_ops.ConcatV2([x, raw_ops.Mul(h_prev, r)], np.int32(1))
    return (by_x, by_h, raw_ops.MatMul(joined, by_gates, transpose_a=True),
            raw_ops.MatMul(reset, by_c, transpose_a=True),
            raw_ops.BiasAddGrad(by_gates), raw_ops.BiasAddGrad(by_c))


not_differentiable("LSTMBlockCellGrad", "BlockLSTMGrad", "BlockLSTMGradV2", "GRUBlockCellGrad")
