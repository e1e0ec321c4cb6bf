"""``contrib.tfprof.model_analyzer``: profiles with options as dicts."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.graph import Graph
from hpcflow.profiler import profiling
from hpcflow.profiler.options import ProfileOptionBuilder
from hpcflow.profiler.tree import ProfileNode

#: Options that count the elements of variables that are trained.
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = ProfileOptionBuilder.trainable_variables_parameter()

#: Options that count float operations.
FLOAT_OPS_OPTIONS = ProfileOptionBuilder.float_operation()

#: Options that show time and memory, which need the ``RunMetadata`` of a step.
PRINT_ALL_TIMING_MEMORY = ProfileOptionBuilder.time_and_memory()


def print_model_analysis(graph: Graph, run_meta: Any = None, op_log: object = None,
                         tfprof_cmd: str = "scope",
                         tfprof_options: dict | None = None) -> ProfileNode:
    """Print a profile of `graph`, and return it: ``profiler.profile`` with other names of its
    arguments. `tfprof_options` 0 or None are the usual ones.

    Raises ``ValueError`` for another view.
    """
    return profiling.profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options or None)


def advise(graph: Graph, run_meta: Any = None, tfprof_options: Any = None) -> Any:
    """Print advice about the graph and a step of it, and return it."""
    return profiling.advise(graph, run_meta, *([tfprof_options] if tfprof_options else []))
