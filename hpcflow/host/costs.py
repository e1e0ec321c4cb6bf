"""The cost model: what calls, elements and products take on this machine, about.

It is measured when it is first needed, in a few milliseconds, and kept in a file for later
processes of the user on such a processor. The least of many measurements counts, so that other work
on the machine does not. What depends on it is how a line is computed, never what it gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcflow.base.once import once
from hpcflow.host import blas, user_cache
from hpcflow.host.tuning import host as tuning

_TINY = 1e-13  # no processor is so fast, but a clock may be coarse


class Costs(NamedTuple):
    """Costs on one machine.

    Attributes:
        call_seconds: of a NumPy function of two arrays that makes a third, however small.
        element_seconds: of such a function for each element of float32.
        operations_per_second: of one core in products of float32 matrices.
    """

    call_seconds: float
    element_seconds: float
    operations_per_second: float


@once
def costs() -> Costs:
    """The costs on this machine, from the file or measured."""
    folder = user_cache.directory()
    path = None if folder is None else folder / f"costs-{_machine()}.json"
    found = None if path is None else _read(path)
    if found is None:
        found = measure()
        if path is not None:
            _write(path, found)
    return found


def seconds(lines: int, size: int, calls: int = 1) -> float:
    """Estimate the seconds that `lines` functions take one by one over arrays of `size` elements,
    where to call one takes as long as `calls` calls of NumPy."""
    found = costs()
    return lines * (calls * found.call_seconds + size * found.element_seconds)


def least_size(lines: int, calls: int) -> int:
    """The number of elements from which on `lines` functions, one by one, take longer than `calls`
    calls of NumPy."""
    found = costs()
    return max(0, math.ceil((calls / lines - 1) * found.call_seconds / found.element_seconds))


def measure() -> Costs:
    """Measure the costs now."""
    few, many = np.ones((2, 1), np.float32), np.ones((2, tuning.COSTS_ELEMENTS), np.float32)
    call = _least(partial(np.add, *few))
    element = (_least(partial(np.add, *many)) - call) / tuning.COSTS_ELEMENTS
    matrix = np.ones((tuning.COSTS_ROWS, tuning.COSTS_ROWS), np.float32)
    made = np.empty_like(matrix)
    with blas.alone():
        product = _least(partial(np.dot, matrix, matrix, made))
    return Costs(call, max(element, _TINY), 2 * tuning.COSTS_ROWS**3 / product)


def _least(call: Callable[[], object]) -> float:
    """The least seconds of a call: of a few in a row, many times."""
    found = math.inf
    for _ in range(tuning.COSTS_TIMES):
        began = time.perf_counter()
        for _ in range(tuning.COSTS_CALLS):
            call()
        found = min(found, time.perf_counter() - began)
    return found / tuning.COSTS_CALLS


def _machine() -> str:
    """A short name of the processor and the NumPy that were measured."""
    model = platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model += "".join(sorted({x for x in lines if x.startswith(("model name", "CPU part"))}))
    return hashlib.sha256(f"{model} {np.__version__}".encode()).hexdigest()[:16]


def _read(path: Path) -> Costs | None:
    """The costs in a file; None if it is not there, or damaged."""
    try:
        found = Costs(**json.loads(path.read_text()))
        is_right = all(isinstance(x, float) and 0 < x < math.inf for x in found)
    except (OSError, ValueError, TypeError):
        return None
    return found if is_right else None


def _write(path: Path, found: Costs) -> None:
    """Keep the costs, if that is possible: whole, whatever other processes do."""
    other = path.with_suffix(f".{os.getpid()}")
    try:
        other.write_text(json.dumps(found._asdict()))
        other.replace(path)
    except OSError:  # a full disk, say
        with contextlib.suppress(OSError):
            other.unlink()
