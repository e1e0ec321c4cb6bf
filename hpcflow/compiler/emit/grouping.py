"""grouping: which nodes of a task's part become one item of its executable.

Regions of plain kernels are one generated function each; asynchronous kernels, edges to other
tasks and the primitives of control flow are items of their own.
"""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.distribute.packs import ATTR as PACK
from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.distribute.schedule import leading_to_others
from hpcflow.compiler.emit.items import (
    CALL,
    CALL_ASYNC,
    ENTER,
    EXIT,
    GATE,
    MERGE,
    NEXT,
    RECEIVE,
    SOURCE,
    SWITCH,
)
from hpcflow.compiler.emit.recordable import split
from hpcflow.compiler.ir.step_graph import FEED, FETCH, LOOP_GATE, RECV, SEND, Node, Port
from hpcflow.compiler.regions.bind import Binder
from hpcflow.compiler.regions.lines import Bound
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import ASYNC, is_early

# Always alive, so never part of a region that can be dead.
_ALONE = frozenset({"ControlTrigger"})

_CONTROL_KINDS = {
    "Switch": SWITCH, "RefSwitch": SWITCH, "Merge": MERGE, "RefMerge": MERGE, "Enter": ENTER,
    "RefEnter": ENTER, "Exit": EXIT, "RefExit": EXIT, "NextIteration": NEXT,
    "RefNextIteration": NEXT, LOOP_GATE: GATE,
}  # fmt: skip


def is_remote(node: Node) -> bool:
    """True for a send to, or a receive from, another task."""
    if node.type not in (SEND, RECV, "_SendControl", "_RecvControl"):
        return False
    attrs = node.attrs
    return task_of(attrs["send_device"].decode()) != task_of(attrs["recv_device"].decode())


def kind_of(b: Bound) -> int:
    """The kind of the item that a node is part of."""
    node = b.node
    if node.absorbed:
        return CALL
    if node.type in _CONTROL_KINDS:
        return _CONTROL_KINDS[node.type]
    if node.type == FEED:
        return SOURCE
    if node.type in (RECV, "_RecvControl") and is_remote(node):
        return RECEIVE
    if b.kernel is not None and b.kernel.mode == ASYNC:
        return CALL_ASYNC
    return CALL


def groups_of(order: list[Node], bound: dict[Node, Bound], compiled: bool) -> list[list[Bound]]:
    """Regions in order of their first node; constants and variables belong to none."""
    groups: dict[Any, list[Bound]] = {}
    for node in order:
        b = bound[node]
        if b.is_constant:
            continue
        kind = kind_of(b)
        alone = not compiled or kind != CALL or node.type in _ALONE and not node.absorbed
        key: Any = ("alone", node) if alone else ("region", node.device, node.region)
        if kind == RECEIVE and PACK in node.attrs:
            key = ("pack", node.attrs[PACK])
        groups.setdefault(key, []).append(b)
    # What is ready runs in this order: what others wait for, what leads to it, the rest.
    leading = leading_to_others(order)
    return sorted(groups.values(), key=lambda group: (
        not is_early(group[0].node.type), not any(b.node in leading for b in group)))


def recordable(group: list[Bound], binder: Binder) -> list[list[Bound]]:
    """A region on a device, without what can go before it and would keep it from being recorded."""
    device = binder.devices[group[0].node.device]
    if not device.has_own_memory or len(group) < tuning.RECORDED_FEWEST or (
            kind_of(group[0]) != CALL):
        return [group]
    return split(group, binder.known, device.to_device)


def wanted_ports(groups: list[list[Bound]], known: dict) -> dict[int, list[Port | None]]:
    """id(group) -> the ports that other groups, or the client, read."""
    group_of = {b.node: g for g in groups for b in g}
    wanted: dict[int, dict[Port, bool]] = {id(g): {} for g in groups}
    for group in groups:
        for b in group:
            if b.node.type == FETCH:
                wanted[id(group)][(b.node, 0)] = True
            for port in b.node.inputs:
                source = group_of.get(port[0])
                if source is not None and source is not group and port not in known:
                    wanted[id(source)][port] = True
    return {k: list(v) for k, v in wanted.items()}


def fetched_ports(group: list[Bound]) -> list[Port | None]:
    """Per fetch its port; None for an operation, and for what another task has."""
    ports: dict[int, Port] = {b.node.attrs["index"]: (b.node, 0) for b in group
                              if b.node.type == FETCH}
    count = max((b.node.attrs["index"] + 1 for b in group
                 if b.node.type in (FETCH, "_FetchOp")), default=0)
    return [ports.get(i) for i in range(count)]
