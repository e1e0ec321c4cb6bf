"""Op types that look at values for a debugger: counts of NaN, a summary of numbers."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import (
    scalar,
)

_ATTRS = "T: type; tensor_name: string = ''; debug_urls: list(string) = []"
_SUMMARY = 12


def _one(op: Operation) -> list[Dims]:
    return [(1,)]


def _summary(op: Operation) -> list[Dims]:
    return [(_SUMMARY,)]


register_op("DebugNanCount", "input: T", "output: int64", _ATTRS, shape=_one,
            allows_uninitialized_input=True)
register_op("DebugNumericSummary", "input: T", "output: double", _ATTRS, shape=_summary,
            allows_uninitialized_input=True)
not_differentiable("DebugNanCount", "DebugNumericSummary")

register_op("Timestamp", outputs="ts: double", stateful=True, shape=scalar)
not_differentiable("Timestamp")
