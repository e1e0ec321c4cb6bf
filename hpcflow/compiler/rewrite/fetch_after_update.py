"""fetch_after_update: a fetched variable has the value that the step leaves in it.

What fetches a variable, or an Identity of one, sees its memory, which updates change in place:
``session.run([train_op, global_step])`` gives the new count. So the read for the client waits for
all updates of the variable in the step, unless one of them depends on it. All other reads that are
free to come before an update do; the result of an update is what that update made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.compiler.ir.effects import is_state, state_of
from hpcflow.compiler.ir.step_graph import FETCH, Node, Port, StepGraph, new_node, writes_state
from hpcflow.compiler.regions.structure import always_alive
from hpcflow.graph.operation import Operation
from hpcflow.graph.traversal import ancestors


def read_last(graph: StepGraph) -> None:
    """Give every fetched variable a read of its own, after the updates.

    Not in a step whose feeds come one by one: there a client may ask for a value before what
    updates need is there.
    """
    if graph.incremental:
        return
    fetched = {f: port for f in graph.fetches
               if f.type == FETCH and (port := _reference(f)) is not None}
    updates = _updates(graph.nodes, {state_of(port) for port in fetched.values()})
    if not updates:
        return
    ends = _Ends(graph)
    for fetch, port in fetched.items():
        mine = updates.get(state_of(port), [])
        if mine and not _needed(_reads(fetch.op), mine):
            waited = [end for update in mine for end in ends.of(update)]
            _insert(graph, fetch, port, [*(c for n in _copies(fetch) for c in n.controls), *waited])


def _copies(fetch: Node) -> list[Node]:
    """The Identity nodes between a reference and what fetches it, where they share its memory."""
    found = []
    node, index = fetch.inputs[0]
    while node.type == "Identity" and not node.dtypes[index]._is_ref_dtype and (
            node.device == node.inputs[0][0].device):
        found.append(node)
        node, index = node.inputs[0]
    return found


def _reads(op: Any) -> list[Operation]:
    """The operations of the program that stand for the nodes between: passes make equal ones one,
    and copies of what is none."""
    found = [op]
    while op.type == "Identity":
        op = op.inputs[0].op
        found.append(op)
    return found


def _reference(fetch: Node) -> Port | None:
    """The reference whose value is fetched; None if it is no variable's."""
    copies = _copies(fetch)
    source, index = copies[-1].inputs[0] if copies else fetch.inputs[0]
    if source.inputs or not source.dtypes[index]._is_ref_dtype:
        return None
    is_shown = any(t.dtype._is_ref_dtype for t in _reads(fetch.op)[-1].outputs)
    return (source, index) if is_shown else None


def _needed(reads: list[Operation], updates: list[Node]) -> bool:
    """True if an update depends on one of the operations `reads`, which then must come before it.
    The copy of its value that every variable has (``NAME/read``) stands for the variable itself."""
    chosen = {op for op in reads if op.inputs and op.name != f"{op.inputs[0].op.name}/read"}
    return bool(chosen) and any(
        chosen & ancestors(_sources(n.op)) for n in updates if n.op is not None)


def _sources(op: Operation) -> list[Operation]:
    return [*(t.op for t in op.inputs), *op.control_inputs]


def _updates(nodes: Iterable[Node], states: set[Any]) -> dict[Any, list[Node]]:
    """State -> the updates of it."""
    found: dict[Any, list[Node]] = {}
    for node in nodes if states else ():
        if writes_state(node):
            for state in {state_of(p) for p in node.inputs if is_state(p)} & states:
                found.setdefault(state, []).append(node)
    return found


class _Ends:
    """A search for the nodes that are alive in every step when an update, perhaps in a branch or in
    a loop, is done."""

    def __init__(self, graph: StepGraph) -> None:
        self._alive = always_alive(graph)
        self._readers = graph.consumers()

    def of(self, update: Node) -> list[Node]:
        found, seen, stack = [], {update}, [update]
        while stack:
            node = stack.pop()
            if node in self._alive:
                found.append(node)
                continue
            for reader in self._readers[node]:
                if reader not in seen and reader.type not in (FETCH, "_FetchOp"):
                    seen.add(reader)
                    stack.append(reader)
        return found


def _insert(graph: StepGraph, fetch: Node, port: Port, controls: list[Node]) -> None:
    source, index = port
    attrs = {"T": source.dtypes[index].base_dtype}
    controls = [c for c in dict.fromkeys(controls) if c is not source]
    read = new_node("Identity", f"{fetch.name}/_read", attrs, [port], controls, source.device,
                    [source.dims[index]], fetch.order)
    read.op, read.site = fetch.op, fetch.site
    fetch.inputs = [(read, 0)]
    graph.nodes.insert(graph.nodes.index(fetch), read)
