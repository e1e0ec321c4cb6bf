"""Newer op types that are imported as older ones which compute the same.

What such a node stands for is built in its place; the import keeps an operation of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import LOWERED
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, unknown
from hpcflow.ops.einsum import einsum
from hpcflow.ops.matrix_bands import BANDS

__all__: list[str] = []


def _stands_for(op_type: str, inputs: str, outputs: str, attrs: str,
                build: Callable[[dict[str, Any], list[Tensor]], Any]) -> None:
    """Register `op_type`, and ``build(attrs, inputs)``, which makes its output."""

    register_op(op_type, inputs, outputs, attrs, shape=unknown)
    not_differentiable(op_type)
    _imported_as(op_type, build)


def _imported_as(op_type: str, build: Callable[[dict[str, Any], list[Tensor]], Any]) -> None:
    """Let the import build ``build(attrs, inputs)`` instead of an operation of that type."""

    def lower(graph: Graph, attrs: dict[str, Any], inputs: list[Tensor],
              types: list) -> list[Tensor]:
        return [build(attrs, inputs)]

    LOWERED[op_type] = lower


# ---------------------------------------------------------------- diagonals


def _is_main(k: Tensor) -> bool:
    """True if the number of a diagonal is known to be that of the main one."""
    value = constant_value(k)
    return value is not None and not value.any()


def _align(attrs: dict[str, Any]) -> str:
    """How the second version aligned the diagonals of a band, or what the third one says."""
    return attrs.get("align", b"LEFT_LEFT").decode()


def _matrix_diag(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    """Sizes of -1 stand for the length of the diagonal."""
    diagonal, k, *sizes = inputs[:4]
    known = [constant_value(t) for t in sizes]
    if _is_main(k) and all(s is not None and int(s) == -1 for s in known):
        return raw_ops.MatrixDiag(diagonal)
    return raw_ops.MatrixDiagV3(*inputs, align=_align(attrs))


def _matrix_diag_part(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    if _is_main(inputs[1]):
        return raw_ops.MatrixDiagPart(inputs[0])
    return raw_ops.MatrixDiagPartV3(*inputs, align=_align(attrs))


def _matrix_set_diag(attrs: dict[str, Any], inputs: list[Tensor]) -> Tensor:
    if _is_main(inputs[2]) and inputs[2]._dims == ():
        return raw_ops.MatrixSetDiag(inputs[0], inputs[1])
    return raw_ops.MatrixSetDiagV3(*inputs, align=_align(attrs))


for _name, _build in (("MatrixDiag", _matrix_diag), ("MatrixDiagPart", _matrix_diag_part),
                      ("MatrixSetDiag", _matrix_set_diag)):
    _inputs, _outputs = BANDS[_name]
    _stands_for(f"{_name}V2", _inputs, _outputs, "T: type", _build)
    _imported_as(f"{_name}V3", _build)

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
