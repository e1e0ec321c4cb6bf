"""Turns of programs over ranks: one rank measures, and tells the others what they are to run next.

Until they are told, the others serve sessions.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hpcflow.runtime.executor.event_loop import event_loop

if TYPE_CHECKING:
    from mpi4py import MPI

_TAG = 9


def tell(comm: MPI.Comm, ranks: Iterable[int], *numbers: int) -> None:
    """Tell `ranks` that their next turn is that of these `numbers`."""
    for rank in ranks:
        comm.Send(np.array(numbers, np.int64), rank, _TAG)


def next_turn(comm: MPI.Comm, source: int, count: int) -> list[int]:
    """Serve until rank `source` tells something: `count` numbers."""
    numbers = np.zeros(count, np.int64)
    request = comm.Irecv(numbers, source, _TAG)
    event_loop().run_until(partial(_has_come, request, [0.0]))
    return numbers.tolist()


def _has_come(request: MPI.Request, look_at: list[float]) -> bool:
    """True once `request` is complete; looks a thousand times a second, `look_at` says when, as a
    test of MPI that finds nothing gives the core away where ranks share it."""
    now = time.monotonic()
    if now < look_at[0]:
        return False
    came = request.Test()
    look_at[0] = now if came else now + 1e-3
    return came
