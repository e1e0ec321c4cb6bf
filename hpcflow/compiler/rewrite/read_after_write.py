"""read_after_write: a reader that follows an update of a variable sees the updated value.

A variable stands for its value by an Identity that is made with it (``NAME/read``), before any
update and outside every loop. A reader of that copy which an update comes before, by any path,
those round a loop included, gets a read of its own, made when everything else that it waits for is
there. So ``with control_dependencies([v.assign_add(1)]): v * 2`` doubles the new value, and a loop
that counts in a variable sees the count. All other reads stay the one that is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hpcflow.compiler.ir.effects import is_state, state_of
from hpcflow.compiler.ir.step_graph import (
    ENTER_TYPES,
    MERGE_TYPES,
    SWITCH_TYPES,
    Node,
    Port,
    StepGraph,
    new_node,
    writes_state,
)

_BY_REFERENCE = {"Switch": "RefSwitch", "Enter": "RefEnter"}


def read_later(graph: StepGraph) -> None:
    """Give the readers of variables' copies that follow an update a read of their own."""
    copies = {n: state_of(n.inputs[0]) for n in graph.nodes if _is_copy(n)}
    updates = _updates(graph.nodes, set(copies.values())) if copies else {}
    if not updates:
        return
    consumers = graph.consumers()
    followers = {state: _descendants(nodes, consumers) for state, nodes in updates.items()}
    routes = _Routes(graph)
    for copy, state in copies.items():
        for reader, position in list(_readers(copy, consumers)) if state in updates else ():
            if reader in followers[state] and copy not in followers[state]:
                routes.read(reader, position)
    routes.insert()


def _is_copy(node: Node) -> bool:
    """True for the copy that stands for a variable, kept where the variable is."""
    if node.type != "Identity":
        return False
    source, index = node.inputs[0]
    return source.dtypes[index]._is_ref_dtype and node.name == f"{source.name}/read" and (
        node.device == source.device or "_class" in node.attrs)


def _updates(nodes: Iterable[Node], states: set[Any]) -> dict[Any, list[Node]]:
    found: dict[Any, list[Node]] = {}
    for node in nodes:
        if writes_state(node):
            for state in {state_of(p) for p in node.inputs if is_state(p)} & states:
                found.setdefault(state, []).append(node)
    return found


def _descendants(nodes: list[Node], consumers: dict[Node, list[Node]]) -> set[Node]:
    found: set[Node] = set()
    stack = list(nodes)
    while stack:
        for reader in consumers[stack.pop()]:
            if reader not in found:
                found.add(reader)
                stack.append(reader)
    return found


def _passes_on(node: Node, position: int) -> bool:
    """True for a Switch or a constant Enter, by which a branch or a loop reads a value from
    outside."""
    return position == 0 and (node.type in SWITCH_TYPES or (
        node.type in ENTER_TYPES and bool(node.attrs.get("is_constant"))))


def _readers(copy: Node, consumers: dict[Node, list[Node]]) -> Iterator[tuple[Node, int]]:
    """Yield the nodes that read the value, in branches and loops too, each with the input that
    does."""
    for reader in dict.fromkeys(consumers[copy]):
        for position, (source, _) in enumerate(reader.inputs):
            if source is copy:
                if _passes_on(reader, position):
                    yield from _readers(reader, consumers)
                else:
                    yield reader, position


class _Routes:
    """References brought to where values are read, as the values are."""

    def __init__(self, graph: StepGraph) -> None:
        self._graph = graph
        self._brought: dict[Node, Node] = {}  # a Switch or Enter of values -> that of references
        self._reads: dict[Node, list[Node]] = {}  # reader -> reads that come before it

    def read(self, reader: Node, position: int) -> None:
        """Let `reader` take this input from a new read, after everything else that it waits for."""
        port = self._reference(reader.inputs[position])
        others = [] if reader.type in MERGE_TYPES else [
            s for s, _ in reader.inputs if s is not reader.inputs[position][0]]
        source, index = port
        node = new_node("Identity", f"{reader.name}/_read_later_{position}",
                        {"T": source.dtypes[index].base_dtype}, [port],
                        list(dict.fromkeys([*reader.controls, *others])), source.device,
                        [source.dims[index]], reader.order - 0.5)
        node.op, node.site = reader.op, reader.site
        reader.inputs[position] = (node, 0)
        self._reads.setdefault(reader, []).append(node)

    def _reference(self, port: Port) -> Port:
        node, index = port
        if node.type == "Identity":
            return node.inputs[0]
        found = self._brought.get(node)
        if found is None:
            found = self._brought[node] = self._by_reference(node)
        return found, index

    def _by_reference(self, node: Node) -> Node:
        first = self._reference(node.inputs[0])
        found = new_node(_BY_REFERENCE[node.type], f"{node.name}/_reference", dict(node.attrs),
                         [first, *node.inputs[1:]], list(node.controls), node.device,
                         list(node.dims), node.order)
        found.op, found.site = node.op, node.site
        return found

    def insert(self) -> None:
        """Put the new nodes among the others, producers first."""
        nodes: list[Node] = []
        for node in self._graph.nodes:
            nodes += self._reads.get(node, [])
            nodes.append(node)
            if node in self._brought:
                nodes.append(self._brought[node])
        self._graph.nodes = nodes
