"""Newer op types that are imported as older ones which compute the same.

What such a node stands for is built in its place; the import keeps an operation of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, unknown
from hpcflow.ops.einsum import einsum

__all__: list[str] = []


def _stands_for(op_type: str, inputs: str, outputs: str, attrs: str,
                build: Callable[[dict[str, Any], list[Tensor]], Any]) -> None:
    """Register `op_type`, and ``build(attrs, inputs)``, which makes its output."""

    def lower(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor],
              types: list) -> list[Tensor]:
        return [build(attrs, inputs)]

    register_op(op_type, inputs, outputs, attrs, shape=unknown)
    not_differentiable(op_type)
    LOWERED[op_type] = lower


# ---------------------------------------------------------------- diagonals


def _main_diagonal(inputs: list[Tensor], what: str) -> None:
    """Raise ``ValueError`` unless only the main diagonal is meant."""
    value = constant_value(inputs[0])
    if value is None or value.any():
        raise ValueError(f"{what}: only the main diagonal (k = 0) is supported, got k = "
                         f"{'an unknown value' if value is None else value.tolist()}")


def _matrix_diag(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    """Sizes of -1 stand for the length of the diagonal."""
    diagonal = inputs[0]
    _main_diagonal(inputs[1:2], "MatrixDiag")
    sizes = [constant_value(t) for t in inputs[2:4]]
    if all(s is not None and int(s) == -1 for s in sizes):
        return raw_ops.MatrixDiag(diagonal)
    shape = raw_ops.Shape(diagonal)
    batch = raw_ops.Slice(shape, [0], raw_ops.Sub(raw_ops.Shape(shape), [1]))
    length = raw_ops.Slice(shape, raw_ops.Shape(batch), [1])
    last = [length if s is not None and int(s) == -1 else raw_ops.Reshape(t, [1])
            for s, t in zip(sizes, inputs[2:4], strict=True)]
    zeros = raw_ops.Fill(raw_ops.ConcatV2([batch, *last], 0),
                         np.zeros((), diagonal.dtype.base_dtype.np))
    return raw_ops.MatrixSetDiag(zeros, diagonal)


def _matrix_diag_part(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    _main_diagonal(inputs[1:2], "MatrixDiagPart")
    return raw_ops.MatrixDiagPart(inputs[0])


def _matrix_set_diag(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    _main_diagonal(inputs[2:3], "MatrixSetDiag")
    return raw_ops.MatrixSetDiag(inputs[0], inputs[1])


_ALIGN = 'T: type; align: string = "RIGHT_LEFT"'
for _version, _attrs in (("V2", "T: type"), ("V3", _ALIGN)):
    _stands_for(f"MatrixDiag{_version}",
                "diagonal: T; k: int32; num_rows: int32; num_cols: int32; padding_value: T",
                "output: T", _attrs, _matrix_diag)
    _stands_for(f"MatrixDiagPart{_version}", "input: T; k: int32; padding_value: T",
                "diagonal: T", _attrs, _matrix_diag_part)
    _stands_for(f"MatrixSetDiag{_version}", "input: T; diagonal: T; k: int32", "output: T", _attrs,
                _matrix_set_diag)

# ---------------------------------------------------------------- others

_stands_for("Einsum", "inputs: N * T", "output: T", "equation: string; N: int >= 1; T: type",
            lambda attrs, inputs: einsum(attrs["equation"].decode(), *inputs))
_stands_for("ParallelDynamicStitch", "indices: N * int32; data: N * T", "merged: T",
            "N: int >= 1; T: type",
            lambda attrs, inputs: raw_ops.DynamicStitch(inputs[: attrs["N"]], inputs[attrs["N"]:]))
_stands_for("ClipByValue", "t: T; clip_value_min: T; clip_value_max: T", "output: T", "T: type",
            lambda attrs, inputs: raw_ops.Maximum(raw_ops.Minimum(inputs[0], inputs[2]),
                                                  inputs[1]))
_stands_for("Snapshot", "input: T", "output: T", "T: type",
            lambda attrs, inputs: raw_ops.Identity(inputs[0]))
