"""The list of passes that turn a graph, fetches and feeds into parts ready to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow import config
from hpcflow.compiler.distribute.compress import Rule, compress_edges
from hpcflow.compiler.distribute.late_receives import delay_receives
from hpcflow.compiler.distribute.loops import spread_loops
from hpcflow.compiler.distribute.partition import partition
from hpcflow.compiler.distribute.place import Placer
from hpcflow.compiler.distribute.schedule import schedule
from hpcflow.compiler.fuse.batch_products import batch_products
from hpcflow.compiler.fuse.fuse_gradients import fuse_gradients
from hpcflow.compiler.fuse.fuse_layers import fuse_layers
from hpcflow.compiler.fuse.fuse_updates import fuse_updates
from hpcflow.compiler.fuse.sum_convolutions import sum_convolutions
from hpcflow.compiler.fuse.sum_products import sum_products
from hpcflow.compiler.ir import checks
from hpcflow.compiler.ir.step_graph import Node, StepGraph
from hpcflow.compiler.ir.withdrawable import mark_withdrawable
from hpcflow.compiler.regions.regions import assign_regions
from hpcflow.compiler.rewrite.cse import eliminate_common_subexpressions, merge_placed
from hpcflow.compiler.rewrite.dead_branches import remove_dead_branches
from hpcflow.compiler.rewrite.dead_code import drop_unread
from hpcflow.compiler.rewrite.deterministic import order_accesses
from hpcflow.compiler.rewrite.fetch_after_update import read_last
from hpcflow.compiler.rewrite.fold import fold_constants
from hpcflow.compiler.rewrite.inline import inline_functions
from hpcflow.compiler.rewrite.prune import prune
from hpcflow.compiler.rewrite.python_calls import separate_calls
from hpcflow.compiler.rewrite.read_after_write import read_later
from hpcflow.compiler.rewrite.reads import split_reads
from hpcflow.compiler.rewrite.recompute import recompute
from hpcflow.compiler.rewrite.references import read_references
from hpcflow.compiler.rewrite.refine_shapes import refine_shapes
from hpcflow.compiler.rewrite.simplify import simplify
from hpcflow.graph.operation import Dims, Operation, Tensor


class PassContext(NamedTuple):
    """The things that passes may use: the placer, the session's memory of placements, CPU kernels;
    whether forward values are computed again ("", "hinted" or "all"); which edges are compressed;
    the shapes of the feeds, if the step is for just these."""

    placer: Placer
    remembered: dict[str, str]
    instantiate: Callable[[Node, list], Any]
    recompute: str = ""
    compress: tuple[Rule, ...] = ()
    fed: tuple[Dims, ...] | None = None


def _functions(graph: StepGraph, context: PassContext) -> None:
    inline_functions(graph)


def _references(graph: StepGraph, context: PassContext) -> None:
    read_references(graph)


def _log(graph: StepGraph, context: PassContext) -> None:
    if context.placer.log:
        context.placer.note_all(graph, context.remembered)


def _later_reads(graph: StepGraph, context: PassContext) -> None:
    read_later(graph)


def _shapes(graph: StepGraph, context: PassContext) -> None:
    if context.fed is not None:
        refine_shapes(graph, context.fed, context.instantiate)


def _fold(graph: StepGraph, context: PassContext) -> None:
    fold_constants(graph, context.instantiate)


def _dead_branches(graph: StepGraph, context: PassContext) -> None:
    remove_dead_branches(graph)


def _simplify(graph: StepGraph, context: PassContext) -> None:
    simplify(graph)


def _cse(graph: StepGraph, context: PassContext) -> None:
    eliminate_common_subexpressions(graph)


def _placed_cse(graph: StepGraph, context: PassContext) -> None:
    merge_placed(graph)


def _unused(graph: StepGraph, context: PassContext) -> None:
    drop_unread(graph)


def _place(graph: StepGraph, context: PassContext) -> None:
    context.placer.place(graph, context.remembered)


def _withdrawable(graph: StepGraph, context: PassContext) -> None:
    mark_withdrawable(graph)


def _loops(graph: StepGraph, context: PassContext) -> None:
    spread_loops(graph)


def _last_reads(graph: StepGraph, context: PassContext) -> None:
    read_last(graph)


def _reads(graph: StepGraph, context: PassContext) -> None:
    split_reads(graph)


def _deterministic(graph: StepGraph, context: PassContext) -> None:
    if config.flags.deterministic:
        order_accesses(graph)


def _python_calls(graph: StepGraph, context: PassContext) -> None:
    if not config.flags.deterministic:
        separate_calls(graph)


def _recompute(graph: StepGraph, context: PassContext) -> None:
    if context.recompute:
        recompute(graph, context.recompute == "all")


def _fuse(graph: StepGraph, context: PassContext) -> None:
    batched = batch_products(graph)
    fuse_layers(graph)
    fuse_gradients(graph)
    sum_convolutions(graph)
    sum_products(graph)
    if batched:  # both may have put the same factors beside each other
        eliminate_common_subexpressions(graph)
    fuse_updates(graph)


def _regions(graph: StepGraph, context: PassContext) -> None:
    assign_regions(graph, not context.compress)  # compressed edges go one by one


# Name, pass, and whether it only makes the step faster. In this order; nothing else runs.
PASSES: list[tuple[str, Callable[[StepGraph, PassContext], None], bool]] = [
    ("functions", _functions, False),
    ("references", _references, False),
    ("log", _log, False),
    ("later reads", _later_reads, False),
    ("shapes", _shapes, True),
    ("fold", _fold, True),
    ("dead branches", _dead_branches, True),
    ("simplify", _simplify, True),
    ("cse", _cse, True),
    ("unused", _unused, True),
    ("place", _place, False),
    ("cse of placed", _placed_cse, True),
    ("last reads", _last_reads, False),
    ("reads", _reads, False),
    ("deterministic", _deterministic, False),
    ("python calls", _python_calls, False),
    ("recompute", _recompute, False),
    ("fuse", _fuse, True),
    ("withdrawable", _withdrawable, False),
    ("loops", _loops, False),
    ("regions", _regions, False),
]


def compile_parts(fetches: list[Tensor | Operation], feeds: list[Tensor], client_device: str,
                  context: PassContext, optimize: bool = True,
                  incremental: bool = False) -> dict[str, list[Node]]:
    """Run prune, every pass of the list, then partition, schedule and delay receives; returns
    task -> nodes.

    With `incremental` the feeds of a step arrive one by one, and the client may ask for a value
    before all have (partial runs). Raises ``InvalidArgumentError`` where a node cannot be placed.
    """
    graph = prune(fetches, feeds, client_device, incremental)
    for name, run, optional in PASSES:
        if optional and not optimize:
            continue
        run(graph, context)
        if config.flags.check_stages:
            checks.check(graph, name)
    parts = partition(graph)
    for task, nodes in parts.items():
        if context.compress:
            compress_edges(nodes, context.compress)
        peak = schedule(nodes)
        if config.flags.print_memory:
            peak.report(task)
        change = delay_receives(nodes) if optimize and config.flags.late_receives else None
        if change is not None and config.flags.print_memory:
            change.report(task)
    return parts
