"""The thresholds at which hpcflow goes another way: sizes, counts and seconds that tests lower.

What is done with large arrays, long loops or slow links is tested with small ones. This table is
the only place of the tests that knows where the constants are and what they are called. A test
names one as ``module.CONSTANT``, without a leading underscore.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hpcflow.comm import patterns
from hpcflow.compiler.distribute import late_receives
from hpcflow.compiler.native import (
    accumulate_gemm,
    batch_iterations,
    concurrent_gemm,
    fusion,
    hoist_input_gemm,
    native_loops,
    native_multiplications,
    row_blocks,
    row_programs,
)
from hpcflow.host import threads
from hpcflow.kernels.arrays import gathering
from hpcflow.kernels.common import indices, parallel
from hpcflow.kernels.compiled import array_loops, batch_norm_loops, pooling_loops
from hpcflow.kernels.math import large_reductions
from hpcflow.kernels.nn import relu_gradients
from hpcflow.kernels.sparse import sparse_math
from hpcflow.kernels.training import block_rules
from hpcflow.loops import compiling, parallel_for, strided_copy
from hpcflow.runtime.session import shape_specialization

# Module -> constant -> a value that small tests reach.
SMALL: dict[ModuleType, dict[str, float]] = {
    # When a loop is compiled, and for what sizes it runs.
    compiling: {"WORTH_SECONDS": 0.0},
    array_loops: {"LARGE": 1},
    batch_norm_loops: {"_LARGE_BYTES": 1, "_BLOCK_BYTES": 1 << 8},
    gathering: {"_LARGE": 1},
    indices: {"_LARGE": 1},
    pooling_loops: {"LARGE_BYTES": 1, "_LARGE": 1, "_MOST_UNROLLED": 5},
    relu_gradients: {"_LARGE_BYTES": 1, "_BLOCK_BYTES": 1 << 8},
    native_loops: {"_LEAST_SECONDS": 0.0, "_CHUNK_SECONDS": 0.0, "_CHUNK_STEPS": 3},
    native_multiplications: {"_MOST_ADDED": 0},
    shape_specialization: {"_FEWEST_RUNS": 1, "_WORTH": 0.0, "_MOST_STEPS": 2},
    # What is fused, and in what blocks it runs.
    fusion: {"_FEWEST": 1, "_PARALLEL": 1, "_LARGE": 1, "_FUSED_SECONDS": 0.0,
             "_ROWS_SECONDS": 0.0},
    row_blocks: {"FEWEST": 1, "LARGE": 1, "BLOCK_BYTES": 4096},
    row_programs: {"_PIECE": 64},
    block_rules: {"WORKING_SET_BYTES": 4096, "_LEAST_PART": 256},
    sparse_math: {"_BLOCK": 64},
    # What several threads do.
    strided_copy: {"LARGE_BYTES": 1, "_LEAST_ROWS": 2, "_SHARED_BYTES": 1},
    parallel_for: {"LARGE_BYTES": 1},
    parallel: {"LARGE_BYTES": 0, "_BLOCK_BYTES": 1 << 12},
    large_reductions: {"_LARGE_BYTES": 1, "_BLOCK_BYTES": 1 << 12, "_LONG": 600},
    batch_iterations: {"_LARGE": 1, "_FEWEST_COLUMNS": 1},
    hoist_input_gemm: {"_BLOCK_FLOPS": 1.0},
    accumulate_gemm: {"_BLOCK_FLOPS": 1.0},
    concurrent_gemm: {"_LARGE": 1},
    # What goes over the network, and when.
    late_receives: {"LEAST_BYTES": 1, "_LEAST_GAIN": -9.0, "_MESSAGE_SECONDS": 0.0,
                    "_BYTES_PER_SECOND": 1e15},
    patterns: {"SEGMENT_BYTES": 1 << 10},
}
_PLACES = {f"{module.__name__.rpartition('.')[2]}.{name.lstrip('_')}": (module, name, value)
           for module, names in SMALL.items() for name, value in names.items()}
# Compiling whatever runs takes seconds a loop; a test says so where it wants that.
_SLOW = {"compiling.WORTH_SECONDS"}


def lower(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Set these thresholds to the values of the table."""
    for name in names:
        patch.setattr(*_PLACES[name])


def set_threshold(patch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """Set a threshold to another value."""
    module, constant, _ = _PLACES[name]
    patch.setattr(module, constant, value)


def lower_all(patch: pytest.MonkeyPatch) -> None:
    """Set every threshold to the value of the table, but what has all loops compiled."""
    lower(patch, *(name for name in _PLACES if name not in _SLOW))


def forget_loops(patch: pytest.MonkeyPatch) -> None:
    """Let the process know of no compiled loop, so that a test sees its own being made."""
    patch.setattr(compiling, "_programs", {})


def use_pool(patch: pytest.MonkeyPatch, pool: threads.Pool) -> None:
    """Let `pool` be the threads that compute."""
    patch.setattr(threads, "_pool", pool)
