"""How fast this machine is, in whose seconds the limits of the tests are given."""

from __future__ import annotations

import os
import time

# Handed on to the processes that a run starts, so that one run measures once.
VARIABLE = "TESTS_SLOWNESS"
# Processor seconds of one pass of the work below on the machine for which limits are written.
REFERENCE_SECONDS = 0.0120
PASSES = 7
# A limit in processor seconds is reached by work, one on the clock also by waiting for a core.
CLOCK_FACTOR = 4.0


def slowness() -> float:
    """How many times longer than the reference machine this one computes, at least 1."""
    known = os.environ.get(VARIABLE)
    if known is None:
        measured = min(_pass_seconds() for _ in range(PASSES))
        known = os.environ[VARIABLE] = f"{max(1.0, measured / REFERENCE_SECONDS):.2f}"
    return float(known)


def _pass_seconds() -> float:
    """Processor seconds of some work of the kind that tests do: names, calls, small objects."""
    start = time.process_time()
    table: dict[str, list[int]] = {}
    for i in range(80_000):
        table.setdefault(f"name_{i % 997}", []).append(i)
    sum(len(found) for found in sorted(table.values()))
    return time.process_time() - start
