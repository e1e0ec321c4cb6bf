"""A step of synchronous replicas as a bare mpi4py program.

The parameters are one array, and so are their gradients: a worker computes gradients from what it
has received last, and sends them; the server adds up those of all workers, takes the mean off the
parameters, and sends these to all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hpcflow.tools.bench.programs.sync_step import BATCH, CLASSES, HIDDEN, INPUTS, RATE, WORKERS

if TYPE_CHECKING:
    from mpi4py import MPI

GRADIENTS, PARAMETERS = range(2)
_SHAPES = ((INPUTS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
_SIZE = sum(int(np.prod(shape)) for shape in _SHAPES)


def _views(flat: np.ndarray) -> list[np.ndarray]:
    """The arrays that lie in `flat` one behind the other."""
    ends = np.cumsum([int(np.prod(shape)) for shape in _SHAPES])
    return [flat[end - int(np.prod(shape)) : end].reshape(shape)
            for shape, end in zip(_SHAPES, ends, strict=True)]


class Server:
    """The server of the workers at ranks 1, 2, ..."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        self.parameters = np.random.RandomState(1).normal(0, 0.05, _SIZE).astype(np.float32)
        self._gradients = np.empty(_SIZE, np.float32)
        self._sum = np.empty(_SIZE, np.float32)

    def serve(self, steps: int) -> None:
        """Take part in so many steps."""
        comm, total, gradients = self.comm, self._sum, self._gradients
        for _ in range(steps):
            comm.Recv(total, 1, GRADIENTS)
            for worker in range(2, 1 + WORKERS):
                comm.Recv(gradients, worker, GRADIENTS)
                total += gradients
            total *= np.float32(RATE / WORKERS)
            self.parameters -= total
            for worker in range(1, 1 + WORKERS):
                comm.Send(self.parameters, worker, PARAMETERS)


class Worker:
    """A worker; the server is rank 0."""

    def __init__(self, comm: MPI.Comm) -> None:
        self.comm = comm
        random = np.random.RandomState(comm.rank)
        self.x = random.standard_normal((BATCH, INPUTS)).astype(np.float32)
        self.labels = random.randint(0, CLASSES, BATCH)
        self._parameters = np.zeros(_SIZE, np.float32)
        self._gradients = np.empty(_SIZE, np.float32)
        self.of_parameters = _views(self._parameters)
        self.of_gradients = _views(self._gradients)

    def step(self) -> None:
        """One step."""
        self.compute()
        self.comm.Send(self._gradients, 0, GRADIENTS)
        self.comm.Recv(self._parameters, 0, PARAMETERS)

    def compute(self) -> None:
        """The gradients of the mean cross entropy of a batch."""
        w1, b1, w2, b2 = self.of_parameters
        d_w1, d_b1, d_w2, d_b2 = self.of_gradients
        hidden = self.x @ w1
        hidden += b1
        np.maximum(hidden, 0, out=hidden)
        d = hidden @ w2
        d += b2
        d -= d.max(1, keepdims=True)
        np.exp(d, out=d)
        d /= d.sum(1, keepdims=True)
        d[np.arange(BATCH), self.labels] -= 1
        d *= np.float32(1 / BATCH)
        np.matmul(hidden.T, d, out=d_w2)
        d.sum(0, out=d_b2)
        d_hidden = d @ w2.T
        d_hidden *= hidden > 0
        np.matmul(self.x.T, d_hidden, out=d_w1)
        d_hidden.sum(0, out=d_b1)
