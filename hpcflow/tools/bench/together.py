"""Contestants that run on all ranks at once: rank 0 times, and the others do as it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpcflow.runtime.executor.event_loop import event_loop
from hpcflow.tools.bench.contestants import Contestant

if TYPE_CHECKING:
    from mpi4py import MPI


class Turn:
    """A contestant as rank 0 sees it: every block runs on all ranks."""

    def __init__(self, team: Team, number: int) -> None:
        self._team = team
        self._number = number
        self.name = team.contestants[number].name

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps on all ranks; the seconds of rank 0."""
        return self._team.run(self._number, samples, batch)


class Team:
    """The same contestants on every rank of `comm`."""

    def __init__(self, comm: MPI.Comm, contestants: Sequence[Contestant]) -> None:
        self._comm = comm
        self.contestants = list(contestants)

    @property
    def turns(self) -> list[Turn]:
        """The turns of the contestants, which rank 0 measures."""
        return [Turn(self, i) for i in range(len(self.contestants))]

    def run(self, number: int, samples: int, batch: int) -> list[float]:
        """Let all ranks run a block."""
        self._command(number, samples, batch)
        return self.contestants[number].block(samples, batch)

    def end(self) -> None:
        """Let the other ranks go on with the program."""
        self._command(-1, 0, 0)

    def _command(self, *words: int) -> None:
        for rank in range(1, self._comm.size):
            self._comm.Send(np.array(words, np.int64), rank)

    def follow(self) -> None:
        """Do what rank 0 says, until it ends."""
        command = np.zeros(3, np.int64)
        while True:
            request = self._comm.Irecv(command, 0)
            event_loop().run_until(request.Test)
            number, samples, batch = map(int, command)
            if number < 0:
                return
            self.contestants[number].block(samples, batch)
