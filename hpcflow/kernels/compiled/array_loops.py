"""Loops given as source text, compiled where that is possible.

They do in one pass what NumPy does in several, with the same results. A text defines
``loop(*given, *made, *numbers)`` over arrays in C order, and serves all their dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops import compiling, parallel_for


def run_rows(source: str, given: Sequence[np.ndarray], made: Sequence[tuple[tuple, Any]],
             compute: Callable[[], Any], whole: Sequence[np.ndarray] = (),
             numbers: Sequence[int] = (), least: int | None = None) -> Any:
    """Run a compiled loop over blocks of rows on all cores; call ``compute()`` while there is none.

    Args:
        source: the text.
        given: arrays of as many rows as what is made, at least one.
        made: (dims, dtype) of each result.
        compute: makes the same, a tuple if there are several.
        whole: arrays that are given as they are, after the others that are given.
        numbers: further arguments.
        least: as that of `find`.
    """
    found = find(source, [*given, *whole], [(len(dims), dtype) for dims, dtype in made],
                 len(numbers), least)
    if found is None or found.function is None:
        return compiling.timed(found, compute)
    results = [memory.empty(dims, dtype) for dims, dtype in made]
    rows, row_bytes = len(given[0]), sum([a[:1].nbytes for a in (*given, *results)])
    uses = "".join([use * len(some) for use, some in (
        (parallel_for.ROWS, given), (parallel_for.WHOLE, whole), (parallel_for.ROWS, results),
        (parallel_for.WHOLE, numbers))])
    parallel_for.run(found, rows, parallel_for.block_rows(rows, row_bytes), uses,
               [*given, *whole, *results, *numbers])
    return tuple(results) if len(results) > 1 else results[0]


def find(source: str, given: Sequence[np.ndarray], made: Sequence[tuple[int, Any]],
         numbers: int = 0, least: int | None = None) -> compiling.Compiled | None:
    """The loop, which may yet have to be compiled; None if there is none for these arrays.

    Args:
        source: the text.
        given: what it reads.
        made: (rank, dtype) of the arrays that it writes.
        numbers: how many integers follow.
        least: elements of the first from which on it is worth it; None: `tuning.ARRAY_LOOP_LARGE`.
    """
    least = tuning.ARRAY_LOOP_LARGE if least is None else least
    if given[0].size < least or not compiling.enabled() or not all(
            [a.flags.c_contiguous and a.flags.aligned for a in given]):
        return None
    kinds = tuple([(a.ndim, compiling.name_of(a.dtype)) for a in given])
    more = tuple([(rank, compiling.name_of(np.dtype(dtype))) for rank, dtype in made])
    if not all([name in _NAMES for _, name in (*kinds, *more)]):
        return None
    return compiling.compiled(_loop(source, kinds, more, numbers))


def words(x: np.ndarray) -> np.ndarray:
    """Return a view of the bits of `x` as unsigned integers."""
    return x.view(f"uint{8 * x.itemsize}")


_NAMES = frozenset({"bool", "float32", "float64", *(
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})


@functools.lru_cache(maxsize=1024)
def _loop(source: str, given: tuple, made: tuple, numbers: int) -> compiling.Loop:
    arrays = [(name, rank, is_written) for kinds, is_written in ((given, False), (made, True))
              for rank, name in kinds]
    return compiling.TextLoop(source, tuple(arrays), numbers)
