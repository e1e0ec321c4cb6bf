"""The tensors of a graph whose values can be compared, and why others cannot."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from hpcflow import dtypes
from hpcflow.graph.graph import Graph
from hpcflow.graph.operation import Operation

RANDOM = frozenset((
    "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson",
    "RandomPoissonV2", "RandomShuffle", "RandomStandardNormal", "RandomUniform",
    "RandomUniformInt", "TruncatedNormal"))
_INPUTS = frozenset(("Placeholder", "PlaceholderV2"))
_WITHOUT_VALUES = (dtypes.resource, dtypes.variant)
_READERS = frozenset(("Identity", "RefIdentity", "IsVariableInitialized", "Shape", "Size", "Rank"))
#: What writes, moves or removes files, or holds what others do.
_FILES = frozenset((
    "_CheckpointCreate", "_CheckpointWrite", "_CheckpointWriteHeld", "_CheckpointCommit",
    "_CheckpointHold", "_CheckpointRelease", "Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints",
    "WriteFile"))


class Choice(NamedTuple):
    """What of a graph is compared."""

    names: list[str]  # of tensors, in the order of the graph
    random: list[str]  # those of them that are drawn
    unfed: list[str]  # inputs without a value
    writers: list[str]  # operations that change variables or files
    left_out: list[str]  # tensors that need one of these, or are inside of loops and conditionals


def choose(graph: Graph, fed: Collection[str]) -> Choice:
    """Return the tensors of `graph` that have a value where those named `fed` are fed."""
    choice = Choice([], [], [], [], [])
    blocked: set[Operation] = set()
    depth: dict[Operation, int] = {}  # of loops around
    for op in in_order(graph):
        depth[op] = _depth(op, depth)
        if _is_blocked(op, blocked, fed, choice):
            blocked.add(op)
        names = [t.name for t in op.outputs
                 if t.dtype.base_dtype not in _WITHOUT_VALUES and t.name not in fed]
        if op in blocked or depth[op] or not graph.is_fetchable(op):
            choice.left_out.extend(names)
            continue
        choice.names.extend(names)
        if op.type in RANDOM:
            choice.random.extend(names)
    return choice


def _is_blocked(op: Operation, blocked: set[Operation], fed: Collection[str],
                choice: Choice) -> bool:
    """True for an operation that cannot run, or must not; notes why."""
    if op.outputs and all(t.name in fed for t in op.outputs):
        return False
    if op.type in _INPUTS:
        choice.unfed.append(op.name)
        return True
    if _writes(op):
        choice.writers.append(op.name)
        return True
    return any(t.op in blocked and t.name not in fed for t in op.inputs) or any(
        o in blocked for o in op.control_inputs)


def _depth(op: Operation, known: dict[Operation, int]) -> int:
    inside = max((known.get(o, 0) for o in _before(op)), default=0)
    if op.type in ("Enter", "RefEnter"):
        return inside + 1
    return max(0, inside - 1) if op.type in ("Exit", "RefExit") else inside


def in_order(graph: Graph) -> list[Operation]:
    """Return the operations, each behind those that it needs, but for the ways back in loops."""
    done: dict[Operation, None] = {}
    for op in graph.get_operations():
        waiting = [op]
        while waiting:
            last = waiting[-1]
            needed = [] if last.type == "NextIteration" else [
                o for o in _before(last) if o not in done and o not in waiting]
            if needed:
                waiting.append(needed[0])
            else:
                done[waiting.pop()] = None
    return list(done)


def _before(op: Operation) -> list[Operation]:
    return [*(t.op for t in op.inputs), *op.control_inputs]


def _writes(op: Operation) -> bool:
    if op.type in _READERS:
        return False
    return op.type in _FILES or op.type.startswith((
        "Assign", "Scatter", "ResourceScatter", "ResourceApply", "ResourceSparseApply", "Apply",
        "SparseApply", "Queue", "Stack", "Barrier")) and any(
        t.dtype._is_ref_dtype or t.dtype.base_dtype == dtypes.resource for t in op.inputs)
