"""Compiled loops over rows, spread over the cores without the interpreter.

To hand a part to a thread of the interpreter's takes as long as a pass over a megabyte: it has to
wake up, and to get the interpreter's lock. Where there is OpenMP (``openmp``), the function of all
loops (:mod:`hpcflow.loops.entries`) lets a team of threads take blocks of rows from a counter.
Without it the parts are handed to ``threads``; the results are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.host import openmp, signals, threads
from hpcflow.host.tuning import loops as tuning

if TYPE_CHECKING:
    from hpcflow.loops import compiling

#: What becomes of an argument: its rows of the block, all of it, or the numbers of the first row of
#: the block and of the first after it.
ROWS, WHOLE, START, STOP = "rwst"


def block_rows(rows: int, row_bytes: int) -> int:
    """Return the number of rows of a block, each of which takes `row_bytes`: all if they are
    few."""
    total = rows * row_bytes
    if total < tuning.PARALLEL_LARGE_BYTES or threads.pool().size == 1:
        return rows
    size = total // (tuning.PARALLEL_BLOCKS_PER_THREAD * threads.pool().size)
    size = min(max(size, tuning.PARALLEL_LEAST_BYTES), tuning.PARALLEL_MOST_BYTES)
    step = max(1, size // row_bytes)
    return step - step % 16 if step >= 64 else step


def run(found: compiling.Compiled, rows: int, step: int, uses: str, arguments: Sequence) -> None:
    """Call ``found.function`` for blocks that cover `rows` rows; returns when all are done.

    Args:
        found: a loop that is compiled and returns nothing.
        rows: how many there are.
        step: the rows of a block; where START is used, of just these blocks.
        uses: a character for each of the arguments; see above.
        arguments: of the loop. In the place of START and STOP is any number.
    """
    pool, function = threads.pool(), found.function
    assert function is not None
    if rows > step and pool.size > 1:
        team = openmp.team() if threads.may_spin() else None
        if team is not None and pool.take():
            try:
                # The team is oneDNN's too, so its threads must be made without signals.
                signals.call_undisturbed(
                    function, team.address, max(team.threads, pool.size), pool.size, rows, step,
                    *_masks(uses), *arguments)
            finally:
                pool.give_back()
            return
    if START not in uses:
        step *= max(1, rows // step // (4 * pool.size))  # fewer blocks, where each costs more
    pool.run(lambda k: _run_block(function, k * step, min(k * step + step, rows), uses,
                                  arguments), -(-rows // step))


def _run_block(loop: Any, start: int, stop: int, uses: str, arguments: Sequence) -> None:
    loop(*[a[start:stop] if use == ROWS else a if use == WHOLE else start if use == START else stop
           for use, a in zip(uses, arguments)])


@functools.lru_cache(maxsize=1024)
def _masks(uses: str) -> tuple[int, int]:
    """A bit for each argument that is ROWS or START, and for each that is STOP."""
    return (sum(1 << i for i, use in enumerate(uses) if use in (ROWS, START)),
            sum(1 << i for i, use in enumerate(uses) if use == STOP))
