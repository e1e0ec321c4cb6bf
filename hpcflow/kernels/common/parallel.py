"""Work on the rows of large arrays: in blocks that stay in cache, over the cores of the process.

NumPy computes one ufunc after the other over whole arrays, with one core. Here a kernel's ufuncs
run on a block of rows, then on the next, and every core takes the next block when it is done with
one: a thread that the machine lets wait holds up nobody for longer than a block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.host import memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning


def block_of_copies(row_count: int, row_bytes: int) -> int:
    """The bytes of a block of rows that are copied once.

    Short work has one block more for the calling thread than for the others, which first have to
    wake up: then it does not have to wait for them, and be woken in its turn.
    """
    if row_count * row_bytes > tuning.BLOCK_SHORT_BYTES:
        return tuning.BLOCK_ONCE_BYTES
    return -(-row_count // (2 * threads.pool().size - 1)) * row_bytes


def over_rows(rows: int, row_bytes: int, work: Callable[[slice], object],
              block_bytes: int | None = None) -> None:
    """Call ``work(slice)`` for blocks that cover `rows` rows; returns when all are done.

    Args:
        rows: how many there are.
        row_bytes: what `work` reads and writes per row, which decides the size of a block.
        work: computes the rows of a slice. Several run at once, so they must write to different
            places. What it raises is raised here.
        block_bytes: of a block; about half of the second-level cache if None.
    """
    step = max(1, (block_bytes or tuning.BLOCK_BYTES) // max(row_bytes, 1))
    if rows <= step:
        work(slice(0, rows))
        return
    starts = range(0, rows, step)

    def block(number: int) -> None:
        start = starts[number]
        work(slice(start, min(start + step, rows)))

    if rows * row_bytes >= loops_tuning.PARALLEL_LARGE_BYTES:
        threads.pool().run(block, len(starts))
    else:
        for number in range(len(starts)):
            block(number)


def in_blocks(run: Callable, dtype: Any = None) -> Callable:
    """An element-wise function ``run(*inputs, out=None)`` of arrays and numbers, over large arrays
    block by block. Results have the type of `dtype`, or that of the inputs."""

    def blocked(*inputs: Any, out: Any = None) -> Any:
        like = max(inputs, key=_rank)
        nbytes = (len(inputs) + 1) * getattr(like, "nbytes", 0)
        if not _rank(like) or nbytes < loops_tuning.PARALLEL_LARGE_BYTES or not all(
                [not _rank(x) or x.shape == like.shape and x.flags.c_contiguous for x in inputs]):
            return run(*inputs, out=out)
        result = memory.empty(like.shape, dtype or like.dtype) if out is None else out
        if not result.flags.c_contiguous or result.shape != like.shape:
            return run(*inputs, out=out)
        *given, flat = [x.reshape(-1) if _rank(x) else x for x in (*inputs, result)]
        over_rows(like.size, nbytes // like.size, lambda part: run(
            *[x[part] if _rank(x) else x for x in given], out=flat[part]))
        return result

    return blocked


def _rank(x: Any) -> int:
    return getattr(x, "ndim", 0)
