"""The measured cost of each node of a step: the ``CostGraphDef`` of ``RunMetadata``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow.graph.importer import split_input

if TYPE_CHECKING:
    from google.protobuf.message import Message

# Nodes whose values stay between steps.
_PERSISTENT = ("Const", "Variable", "VariableV2", "VarHandleOp")


class CostSteps:
    """The runs of a session whose costs are measured, by ``graph_options.build_cost_model``: of
    the runs of one structure the n-th, the 2n-th, ..., after the first `after`."""

    def __init__(self, graph_options: Any = None) -> None:
        self.every = max(graph_options.build_cost_model, 0) if graph_options is not None else 0
        self._after = graph_options.build_cost_model_after if graph_options is not None else 0
        self._runs: Counter[Any] = Counter()

    def is_due(self, structure: Any) -> bool:
        """Count a run; True if its costs are to be measured."""
        if not self.every:
            return False
        self._runs[structure] += 1
        counted = self._runs[structure] - self._after
        return counted > 0 and counted % self.every == 0


def cost_graph(graphs: Iterable[Any], step_stats: Any) -> Message:
    """The ``CostGraphDef`` of a step: `graphs` are the ``GraphDef`` of its devices, `step_stats`
    are what it measured."""
    from tensorboard.compat.proto import cost_graph_pb2

    nodes = [node for graph in graphs for node in graph.node]
    ids = {node.name: number for number, node in enumerate(nodes)}
    stats = {s.node_name: s for device in step_stats.dev_stats for s in device.node_stats}
    costs = cost_graph_pb2.CostGraphDef()
    for number, node in enumerate(nodes):
        cost = costs.node.add(name=node.name, device=node.device, id=number)
        _add_inputs(cost, node, ids)
        if node.name in stats:
            _add_measures(cost, node, stats[node.name])
    return costs


def _add_inputs(cost: Any, node: Any, ids: dict[str, int]) -> None:
    for text in node.input:
        name, port = split_input(text)
        if name in ids and port < 0:
            cost.control_input.append(ids[name])
        elif name in ids:
            cost.input_info.add(preceding_node=ids[name], preceding_port=port)


def _add_measures(cost: Any, node: Any, stats: Any) -> None:
    """Add the time in microseconds, and size and shape of each output."""
    cost.compute_cost = stats.op_end_rel_micros
    for output in stats.output:
        described = output.tensor_description
        size = described.allocation_description.allocated_bytes
        info = cost.output_info.add(size=size, alias_input_port=-1, dtype=described.dtype)
        info.shape.CopyFrom(described.shape)
        if node.op in _PERSISTENT:
            cost.persistent_memory_size += size
