"""The thresholds at which hpcflow goes another way: sizes, counts and seconds that tests lower.

What is done with large arrays, long loops or slow links is tested with small ones. All constants
are in `hpcflow.host.tuning`; this table says to what tests lower them.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hpcflow.host import threads, tuning
from hpcflow.loops import compiling

# Subject -> constant -> a value that small tests reach.
SMALL: dict[ModuleType, dict[str, float]] = {
    tuning.loops: {
        # When a loop is compiled, and for what sizes it runs.
        "COMPILE_WORTH_SECONDS": 0.0,
        "COPY_LARGE_BYTES": 1, "COPY_SHARED_BYTES": 1,
        # What several threads do.
        "PARALLEL_LARGE_BYTES": 1, "PARALLEL_LEAST_BYTES": 256, "PARALLEL_SUM_LEAST": 64,
    },
    tuning.kernels: {
        # For what sizes loops run, and in what blocks.
        "ARRAY_LOOP_LARGE": 1,
        "BLOCK_BYTES": 1 << 12,
        "GATHER_LARGE_BYTES": 1,
        "INDICES_LARGE_BYTES": 1,
        "REDUCTION_LARGE_BYTES": 1, "REDUCTION_BLOCK_BYTES": 1 << 12, "REDUCTION_LONG": 600,
        "RELU_LARGE_BYTES": 1, "RELU_BLOCK_BYTES": 1 << 8,
        "RULE_WORKING_SET_BYTES": 4096, "RULE_LEAST_PART": 256,
        "SPARSE_BLOCK_BYTES": 64,
    },
    tuning.compiler: {
        # What is fused, and in what blocks it runs.
        "LINES_FEWEST": 1, "LINES_LARGE": 1, "LINES_FLAT_CALL": 0, "LINES_CALL": 0,
        # Which loops run as one call, and which products they make together.
        "LOOP_LEAST_SECONDS": 0.0, "LOOP_CHUNK_SECONDS": 0.0, "LOOP_CHUNK_STEPS": 3,
        "ACCUMULATE_BLOCK_FLOPS": 1.0, "CONCURRENT_LARGE": 1,
        # What goes over the network, and when.
        "LATE_LEAST_BYTES": 1, "LATE_LEAST_GAIN": -9.0, "LATE_MESSAGE_SECONDS": 0.0,
        "LATE_BYTES_PER_SECOND": 1e15,
    },
    tuning.comm: {"REDUCE_SEGMENT_BYTES": 1 << 10},
    tuning.runtime: {"SHAPES_FEWEST_RUNS": 1, "SHAPES_WORTH": 0.0, "SHAPES_MOST_STEPS": 2},
}
_PLACES = {name: (subject, value) for subject, names in SMALL.items()
           for name, value in names.items()}
# Compiling whatever runs takes seconds a loop; a test says so where it wants that.
_SLOW = {"COMPILE_WORTH_SECONDS"}


def lower(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Set these thresholds to the values of the table."""
    for name in names:
        subject, value = _PLACES[name]
        patch.setattr(subject, name, value)


def set_threshold(patch: pytest.MonkeyPatch, name: str, value: Any) -> None:
    """Set a threshold to another value."""
    patch.setattr(_PLACES[name][0], name, value)


def lower_all(patch: pytest.MonkeyPatch) -> None:
    """Set every threshold to the value of the table, but what has all loops compiled."""
    lower(patch, *(name for name in _PLACES if name not in _SLOW))


def forget_loops(patch: pytest.MonkeyPatch) -> None:
    """Let the process know of no compiled loop, so that a test sees its own being made."""
    patch.setattr(compiling, "_programs", {})


def use_pool(patch: pytest.MonkeyPatch, pool: threads.Pool) -> None:
    """Let `pool` be the threads that compute."""
    patch.setattr(threads, "_pool", pool)
