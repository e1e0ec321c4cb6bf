"""recordable: what a device has to know of a region to launch its kernels as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hpcflow.compiler.ir.step_graph import Node, Port, ref_inputs
from hpcflow.compiler.regions.lines import Bound
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import EVERY, SYNC

# Op types that take the handle of a variable and only read it.
_READING = frozenset({"ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather",
                      "ResourceGatherNd", "IsVariableInitialized"})
# Op types of random numbers that are drawn, or begin, anew for each launch.
_DRAWING = frozenset({"RandomUniform", "RandomStandardNormal", "TruncatedNormal",
                      "RandomUniformInt", "Multinomial"})


class Parts(NamedTuple):
    """A region as a device sees it.

    Attributes:
        name: of its first op, and how many there are.
        obstacle: why its kernels cannot be recorded; empty if they can, as far as is known.
        states: the variables that it reads or writes.
        written: those that it writes.
        uploads: positions of the inputs that may be in host memory, and are moved to the device.
        is_long: it has more kernels than inputs, each of which a graph copies to a place of its
            own, or many; so that it pays to launch them as one.
    """

    name: str
    obstacle: str = ""
    states: tuple[Any, ...] = ()
    written: tuple[Any, ...] = ()
    uploads: frozenset[int] = frozenset()
    is_long: bool = True


def parts_of(group: list[Bound], known: Mapping[Port, Any], inputs: Sequence[Port],
             to_device: Any) -> Parts:
    """The parts of a region with these `inputs`; `to_device` is the function that brings values of
    the host to its device."""
    states: dict[int, Any] = {}
    written: dict[int, Any] = {}
    for b in group:
        refs = ref_inputs(b.node)
        for i, (source, index) in enumerate(b.node.inputs):
            state = known.get((source, index))
            if not _is_variable(state):
                continue
            states[id(state)] = state
            if (i < len(refs) and refs[i]) or (
                    source.dtypes[index].name == "resource" and b.node.type not in _READING):
                written[id(state)] = state
    uploads = _uploads(group, inputs, to_device)
    inside = {b.node for b in group}
    obstacle = next((f"op '{b.node.name}' of type {b.node.type} {why}" for b in group
                     if (why := _obstacle(b, known, uploads, inside))), "")
    first = group[0].node.name
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    return Parts(f"'{first}'{more}", obstacle, tuple(states.values()), tuple(written.values()),
                 frozenset(i for i, port in enumerate(inputs) if port in uploads),
                 sum(b.kernel is not None for b in group) >= min(
                     tuning.RECORDED_FEWEST, 1 + len(inputs)))


def split(group: list[Bound], known: Mapping[Port, Any], to_device: Any) -> list[list[Bound]]:
    """The region in two, where only ops stand in the way of recording it that wait for none of the
    others: what draws random numbers or computes on the host runs first."""
    if any(b.node.absorbed for b in group):
        return [group]
    first: set[Node] = set()
    inside = {b.node for b in group}
    for b in group:
        waits = [*(s for s, _ in b.node.inputs), *b.node.controls]
        if all(w in first for w in waits if w in inside) and _may_go_first(b, known):
            first.add(b.node)
    before = [b for b in group if b.node in first]
    rest = [b for b in group if b.node not in first]
    if not any(b.function is not None for b in before) or len(rest) < tuning.RECORDED_FEWEST:
        return [group]
    left = {b.node for b in rest}
    inputs = [p for b in rest for p in b.node.inputs if p not in known and p[0] not in left]
    uploads = _uploads(rest, inputs, to_device)
    return [group] if any(_obstacle(b, known, uploads, left) for b in rest) else [before, rest]


def _may_go_first(b: Bound, known: Mapping[Port, Any]) -> bool:
    if _has_variable(b.node, known) or any(d._is_ref_dtype for d in b.node.dtypes):
        return False
    return b.function is None or b.kernel is not None and b.kernel.mode == SYNC and bool(
        _obstacle(b, known, set(b.node.inputs), set()))


def _uploads(group: list[Bound], inputs: Sequence[Port], to_device: Any) -> set[Port]:
    """The inputs that all readers in the region want on the device."""
    from_outside = set(inputs)
    found: set[Port] = set()
    on_host: set[Port] = set()
    for b in group:
        for i, port in enumerate(b.node.inputs):
            if port in from_outside:
                moved = i < len(b.moves) and b.moves[i] == to_device
                (found if moved else on_host).add(port)
    return found - on_host


def _is_variable(state: Any) -> bool:
    return hasattr(state, "exclusive")


def _obstacle(b: Bound, known: Mapping[Port, Any], uploads: set[Port], inside: set[Node]) -> str:
    """Why the kernel of a node may be given something else, or do something else, in each step.

    Values of the host that are made inside of the region follow from shapes and constants.
    """
    kernel, node = b.kernel, b.node
    if b.is_constant or b.function is None or node.type == "Const":
        return ""
    if kernel is None:
        return "moves values between devices"
    if kernel.mode != SYNC:
        return "needs the running step"
    for i, port in enumerate(node.inputs):
        if port in known or port[0] in inside:
            continue
        if kernel.host_outputs == EVERY:
            return "computes on the host"
        if i in kernel.host_inputs:
            return "reads a value on the host"
        if i < len(b.moves) and b.moves[i] is not None and (
                port not in uploads) and port[0].type != "Const":
            return "is given a value of the host"
    if node.type not in _DRAWING and node.op_def.is_stateful and not _has_variable(node, known):
        return "keeps state on the host"
    return ""


def _has_variable(node: Node, known: Mapping[Port, Any]) -> bool:
    return any(_is_variable(known.get(port)) for port in node.inputs)
