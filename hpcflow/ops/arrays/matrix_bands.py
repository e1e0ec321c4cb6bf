"""Bands of diagonals, as newer graphs have them: MatrixDiagV3, MatrixDiagPartV3, MatrixSetDiagV3.

A band is the diagonals ``k[0]`` to ``k[1]`` (one if `k` is a scalar; 0 is the main one, positive
ones are above it). Several are stored as the rows of a matrix, the uppermost first; `align` says
where the shorter ones begin: those above the main diagonal by its first word, those below by the
second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.base.geometry.diagonals import band_of, longest_diagonal, matrix_size
from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, known_number, show, with_rank_at_least

__all__: list[str] = []

# Op type without its version -> inputs and output.
BANDS = {
    "MatrixDiag": ("diagonal: T; k: int32; num_rows: int32; num_cols: int32; padding_value: T",
                   "output: T"),
    "MatrixDiagPart": ("input: T; k: int32; padding_value: T", "diagonal: T"),
    "MatrixSetDiag": ("input: T; diagonal: T; k: int32", "output: T"),
}
_ATTRS = ("T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = "
          "'RIGHT_LEFT'")

# ---------------------------------------------------------------- shapes


def _known_band(op: Operation, index: int) -> tuple[int, int] | None:
    value = constant_value(op.inputs[index])
    return None if value is None else band_of(value)


def _diag_shape(op: Operation) -> list[Dims]:
    dims, band = with_rank_at_least(op.input_dims(0), 1, "diagonal"), _known_band(op, 1)
    if dims is None or band is None:
        return [None]
    low, high = band
    batch = dims[:-1]
    if low != high:
        if len(dims) < 2 or dims[-2] not in (None, high - low + 1):
            raise ValueError(f"diagonal of shape {show(dims)} does not have the {high - low + 1} "
                             f"diagonals of k = [{low}, {high}]")
        batch = dims[:-2]
    sizes = [known_number(op, i) for i in (2, 3)]
    if dims[-1] is None or any(s is None for s in sizes):
        return [(*batch, None, None)]
    rows, columns = (int(s) for s in sizes)  # type: ignore[arg-type]
    return [(*batch, *matrix_size(dims[-1], low, high, rows, columns))]


def _diag_part_shape(op: Operation) -> list[Dims]:
    dims, band = with_rank_at_least(op.input_dims(0), 2, "input"), _known_band(op, 1)
    if dims is None or band is None:
        return [None]
    low, high = band
    rows, columns = dims[-2:]
    length = None
    if rows is not None and columns is not None:
        length = longest_diagonal(rows, columns, low, high)
    return [(*dims[:-2], *(() if low == high else (high - low + 1,)), length)]


register_op("MatrixDiagV3", *BANDS["MatrixDiag"], _ATTRS, shape=_diag_shape)
register_op("MatrixDiagPartV3", *BANDS["MatrixDiagPart"], _ATTRS, shape=_diag_part_shape)
register_op("MatrixSetDiagV3", *BANDS["MatrixSetDiag"], _ATTRS,
            shape=lambda op: [with_rank_at_least(op.input_dims(0), 2, "input")])

# ---------------------------------------------------------------- gradients


def _zero(tensor: Tensor) -> Any:
    return np.zeros((), tensor.dtype.base_dtype.np)


@RegisterGradient("MatrixDiagV3")
def _diag_grad(op: Operation, grad: Tensor) -> tuple:
    part = raw_ops.MatrixDiagPartV3(grad, op.inputs[1], _zero(grad), align=op.attr("align"))
    return part, None, None, None, None


@RegisterGradient("MatrixDiagPartV3")
def _diag_part_grad(op: Operation, grad: Tensor) -> tuple:
    zeros = raw_ops.ZerosLike(op.inputs[0])
    return (raw_ops.MatrixSetDiagV3(zeros, grad, op.inputs[1], align=op.attr("align")), None,
            None)


@RegisterGradient("MatrixSetDiagV3")
def _set_diag_grad(op: Operation, grad: Tensor) -> tuple:
    _, diagonal, k = op.inputs
    align = op.attr("align")
    kept = raw_ops.MatrixSetDiagV3(grad, raw_ops.ZerosLike(diagonal), k, align=align)
    return kept, raw_ops.MatrixDiagPartV3(grad, k, _zero(grad), align=align), None
