"""What must hold between passes (HPCFLOW_CHECK_STAGES=1): a broken pass is found where it breaks."""

from __future__ import annotations

from hpcflow.compiler.ir import BACK_EDGE_TYPES, StepGraph
from hpcflow.errors import InternalError


def check(graph: StepGraph, stage: str) -> None:
    """Raise ``InternalError`` naming `stage` when the step's graph is not well formed."""
    position = {n: i for i, n in enumerate(graph.nodes)}
    for node in graph.nodes:
        for source, index in node.inputs:
            _check_source(source, node, position, stage)
            if index >= len(source.dtypes):
                raise InternalError(None, None, f"After {stage}: {node.name} reads output {index} of "
                                    f"{source.name}, which has {len(source.dtypes)}")
        for source in node.controls:
            _check_source(source, node, position, stage)
        if stage in ("place", "regions") and "/device:" not in node.device:
            raise InternalError(None, None, f"After {stage}: {node.name} has no device")


def _check_source(source: object, node: object, position: dict, stage: str) -> None:
    if source not in position:
        raise InternalError(None, None, f"After {stage}: {node} depends on {source}, which is not "
                            "part of the step")
    if position[source] >= position[node] and source.type not in BACK_EDGE_TYPES:  # type: ignore[attr-defined]
        raise InternalError(None, None, f"After {stage}: {node} comes before {source}")
