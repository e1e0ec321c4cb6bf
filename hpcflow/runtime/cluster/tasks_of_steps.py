"""The tasks of a cluster that the parts of a step ask for."""

from __future__ import annotations

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.device_spec import DeviceSpec
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX, Operation
from hpcflow.kernels.registry import is_collective


def together_in(parts: dict[str, list[Node]], ranks: dict[str, int]) -> dict[str, list[int]]:
    """Op type -> rank of every op of the types whose kernels meet for collective work."""
    found: dict[str, list[int]] = {}
    for task, nodes in parts.items():
        for node in nodes:
            if is_collective(node.type):
                found.setdefault(node.type, []).append(ranks[task])
    return {t: sorted(r) for t, r in found.items()}


def tasks_in(elements: list) -> set[str]:
    """The device strings that the operations behind `elements` ask for."""
    found: set[str] = set()
    seen: set[Operation] = set()
    stack = [e if isinstance(e, Operation) else e.op for e in elements]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        found.add(op.device)
        stack.extend(t.op for t in op.inputs)
        stack.extend(op.control_inputs)
        for group in op._attrs.get(COLOCATION_ATTR, ()):
            other = op.graph._nodes_by_name.get(group[len(COLOCATION_PREFIX):].decode())
            if other is not None:
                found.add(other.device)
    return found


def names_task(device: str, task: str) -> bool:
    """True if the device string asks for `task`, alone or among others."""
    if not device:
        return False
    want, have = DeviceSpec.from_string(device), DeviceSpec.from_string(task)
    if want.job is None:
        return False
    return want.job == have.job and want.task in (None, have.task)
