"""The messages and the arithmetic of a null step as a bare mpi4py program.

A start message to every server, the parameter back, the update to be added, and a done message:
what a step over servers cannot do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hpcflow.tools.bench.programs.null_step import COLUMNS, FACTOR, ROWS

if TYPE_CHECKING:
    from mpi4py import MPI

START, PARAMETER, UPDATE, DONE = range(4)
_signal = np.zeros(1, np.int32)


def serve(comm: MPI.Comm, worker: int, parameter: np.ndarray, steps: int) -> None:
    """The server's side of `steps` steps; `parameter` is updated in place."""
    signal, update = _signal, np.empty_like(parameter)
    for _ in range(steps):
        comm.Recv(signal, worker, START)
        comm.Send(parameter, worker, PARAMETER)
        comm.Recv(update, worker, UPDATE)
        parameter += update
        comm.Send(signal, worker, DONE)


def serve_rows(comm: MPI.Comm, worker: int, parameter: np.ndarray, steps: int) -> None:
    """As `serve`, for the rows of `parameter` whose numbers are in the start message."""
    table, signal = parameter.reshape(-1, COLUMNS), _signal
    rows = np.empty(ROWS // (comm.size - 1), np.int32)
    update = np.empty((rows.size, COLUMNS), np.float32)
    for _ in range(steps):
        comm.Recv(rows, worker, START)
        comm.Send(table[rows], worker, PARAMETER)
        comm.Recv(update, worker, UPDATE)
        table[rows] += update
        comm.Send(signal, worker, DONE)


class Worker:
    """The worker's side, with a buffer for each server (ranks 0, 1, ...).

    `rows` are the numbers that the start message carries, if only rows are exchanged.
    """

    def __init__(self, comm: MPI.Comm, servers: int, elements: int,
                 rows: np.ndarray | None = None) -> None:
        self.comm = comm
        self.start = _signal if rows is None else rows
        self.buffers = [np.empty(elements, np.float32) for _ in range(servers)]

    def step(self) -> None:
        """One step."""
        comm, signal, start = self.comm, _signal, self.start
        factor = np.float32(FACTOR)
        for server in range(len(self.buffers)):
            comm.Send(start, server, START)
        for server, buffer in enumerate(self.buffers):
            comm.Recv(buffer, server, PARAMETER)
            np.multiply(buffer, factor, out=buffer)
            comm.Send(buffer, server, UPDATE)
        for server in range(len(self.buffers)):
            comm.Recv(signal, server, DONE)
