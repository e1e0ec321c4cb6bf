"""recompute: cheap values of the forward pass are computed again instead of kept for the backward.

A value that the backward pass reads stays in memory from its computation to that read. Where it
follows cheaply from what the backward pass keeps anyway (or from variables and feeds), the backward
pass gets a second copy of the node, computed next to its reader, and the first value ends with the
forward pass. Off unless asked for: it trades time for memory.
"""

from __future__ import annotations

import re

from hpcflow.compiler.ir.effects import is_pure
from hpcflow.compiler.ir.sizes import bytes_of
from hpcflow.compiler.ir.step_graph import FEED, Node, Port, StepGraph

# Element by element or nearly so, of stateless ops.
CHEAP = frozenset({
    "Abs", "Add", "AddV2", "AddN", "BiasAdd", "Cast", "Ceil", "Elu", "Equal", "Exp", "ExpandDims",
    "Fill", "Floor", "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "Greater",
    "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "Maximum",
    "Minimum", "Mul", "Neg", "NotEqual", "OnesLike", "Pad", "RealDiv", "Reciprocal", "Relu",
    "Relu6", "Reshape", "Rsqrt", "Select", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign",
    "Sqrt", "Square", "SquaredDifference", "Squeeze", "Sub", "Tanh", "Tile", "Transpose",
    "ZerosLike",
})  # fmt: skip
HINT = "_recompute_hint"
_BACKWARD = re.compile(r"(^|/)gradients(_\d+)?/")


def recompute(graph: StepGraph, automatic: bool) -> None:
    """Give the backward pass its own copies of cheap forward nodes.

    With `automatic` those of the types in ``CHEAP``, wherever it saves memory; always those whose
    op has the attribute ``_recompute_hint``.
    """
    backward = {n for n in graph.nodes if _BACKWARD.search(n.name)}
    if backward:
        _Recomputer(graph, backward, automatic).run()


class _Recomputer:
    def __init__(self, graph: StepGraph, backward: set[Node], automatic: bool) -> None:
        self.graph = graph
        self.backward = backward
        self.automatic = automatic
        self.kept = {p for n in backward for p in n.inputs if p[0] not in backward}
        self.again = {n for n in graph.nodes if n not in backward and self._may_repeat(n)}
        self.copies: dict[Node, Node] = {}

    def _may_repeat(self, node: Node) -> bool:
        if not is_pure(node) or not node.inputs:
            return False
        return HINT in node.attrs or (self.automatic and node.type in CHEAP)

    def run(self) -> None:
        """Copy what follows from kept values; readers in the backward pass take the copies."""
        self._settle()
        result: list[Node] = []
        for node in self.graph.nodes:
            if node in self.backward:
                node.inputs = [self._copied(p, node, result) for p in node.inputs]
            result.append(node)
        self.graph.nodes = result
        self.graph.sweep()

    def _settle(self) -> None:
        """Leave in ``again`` the nodes that can be computed from values that exist in the backward
        pass.

        The first node of a chain starts from a value that is kept: one that the backward pass
        reads and that is not computed again itself, a variable, a feed or a constant. Or one that
        takes fewer bytes than what is computed from it.
        """
        for group in self._groups():
            inputs = {p for n in group for p in n.inputs
                      if p[0] not in group and not self._is_there(p)}
            outputs = {(n, i) for n in group for i in range(len(n.dtypes))}
            if sum(map(bytes_of, inputs)) < sum(map(bytes_of, outputs & self.kept)):
                self.kept |= inputs  # fewer bytes to keep than the values themselves
        for node in self.graph.nodes:  # producers come first
            if node in self.again and not all(self._is_there(p) for p in node.inputs):
                self.again.discard(node)

    def _groups(self) -> list[set[Node]]:
        """The nodes to repeat, joined where one reads another."""
        groups: dict[Node, set[Node]] = {}
        for node in self.graph.nodes:
            if node not in self.again:
                continue
            group = groups[node] = {node}
            for source, _ in node.inputs:
                other = groups.get(source)
                if other is not None and other is not group:
                    if len(other) > len(group):
                        group, other = other, group
                    group |= other
                    for member in other:
                        groups[member] = group
        return list({id(g): g for g in groups.values()}.values())

    def _is_there(self, port: Port) -> bool:
        source = port[0]
        if source in self.again or source.is_const or source.type == FEED:
            return True
        if any(t._is_ref_dtype for t in source.dtypes) or source.type == "ReadVariableOp":
            return True
        return port in self.kept or _is_read(source)

    def _copied(self, port: Port, reader: Node, result: list[Node]) -> Port:
        """The copy of `port` for the backward pass; made just before its first reader."""
        source, index = port
        if source not in self.again or source in self.backward:
            return port
        copy = self.copies.get(source)
        if copy is None:
            inputs = [self._copied(p, reader, result) for p in source.inputs]
            copy = Node(source.type, f"{source.name}/recomputed", source.op_def, source.attrs,
                        inputs, list(source.controls), source.device, list(source.dtypes),
                        list(source.dims), reader.order - 0.125, source.op)
            copy.site = source.site
            self.copies[source] = copy
            result.append(copy)
        return copy, index


def _is_read(node: Node) -> bool:
    """True for the value of a variable, which outlives the step."""
    if node.type != "Identity":
        return False
    source, index = node.inputs[0]
    return source.dtypes[index]._is_ref_dtype
