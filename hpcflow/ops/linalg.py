"""Matrix decompositions: Qr."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank_at_least

__all__ = ["qr"]


def _qr_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 2, "input")
    if dims is None:
        return [None, None]
    *batch, rows, columns = dims
    if op.attr("full_matrices"):
        return [(*batch, rows, rows), (*batch, rows, columns)]
    inner = None if rows is None or columns is None else min(rows, columns)
    return [(*batch, rows, inner), (*batch, inner, columns)]


register_op("Qr", "input: T", "q: T; r: T",
            "full_matrices: bool = false; T: {double, float, complex64, complex128}",
            shape=_qr_shape)


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (q, r) with ``input = q @ r``: orthonormal columns and an upper triangle.

    Args:
        input: matrices, shape ``[..., M, N]``.
        full_matrices: make q square (``[..., M, M]``) instead of ``[..., M, min(M, N)]``.
        name: name of the operation.
    """
    q, r = raw_ops.Qr(input=input, full_matrices=full_matrices, name=name)
    return q, r
