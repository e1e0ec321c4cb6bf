"""The list of passes that turn a graph, fetches and feeds into parts ready to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow import config
from hpcflow.compiler import checks
from hpcflow.compiler.cse import eliminate_common_subexpressions
from hpcflow.compiler.fold import fold_constants
from hpcflow.compiler.frames import refuse_loops_over_tasks
from hpcflow.compiler.ir import Node, StepGraph
from hpcflow.compiler.partition import partition
from hpcflow.compiler.place import Placer
from hpcflow.compiler.prune import prune
from hpcflow.compiler.reads import split_reads
from hpcflow.compiler.regions import assign_regions
from hpcflow.compiler.unused import drop_unread
from hpcflow.graph.operation import Operation, Tensor


class PassContext(NamedTuple):
    """What passes may use: the placer, the session's memory of placements, CPU kernels."""

    placer: Placer
    remembered: dict[str, str]
    instantiate: Callable[[Node, list], Any]


def _fold(graph: StepGraph, context: PassContext) -> None:
    fold_constants(graph, context.instantiate)


def _cse(graph: StepGraph, context: PassContext) -> None:
    eliminate_common_subexpressions(graph)


def _unused(graph: StepGraph, context: PassContext) -> None:
    drop_unread(graph)


def _place(graph: StepGraph, context: PassContext) -> None:
    context.placer.place(graph, context.remembered)


def _loops(graph: StepGraph, context: PassContext) -> None:
    refuse_loops_over_tasks(graph)


def _reads(graph: StepGraph, context: PassContext) -> None:
    split_reads(graph)


def _regions(graph: StepGraph, context: PassContext) -> None:
    assign_regions(graph)


# Name, pass, and whether it only makes the step faster. In this order; nothing else runs.
PASSES: list[tuple[str, Callable[[StepGraph, PassContext], None], bool]] = [
    ("fold", _fold, True),
    ("cse", _cse, True),
    ("unused", _unused, True),
    ("place", _place, False),
    ("loops", _loops, False),
    ("reads", _reads, False),
    ("regions", _regions, False),
]


def compile_parts(fetches: list[Tensor | Operation], feeds: list[Tensor], client_device: str,
                  context: PassContext, optimize: bool = True) -> dict[str, list[Node]]:
    """Run prune, every pass of the list, then partition; returns task -> nodes.

    Raises ``InvalidArgumentError`` where a node cannot be placed.
    """
    graph = prune(fetches, feeds, client_device)
    for name, run, optional in PASSES:
        if optional and not optimize:
            continue
        run(graph, context)
        if config.flags.check_stages:
            checks.check(graph, name)
    return partition(graph)
