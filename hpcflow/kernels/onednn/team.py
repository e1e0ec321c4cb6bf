"""The threads of oneDNN's products: one or all for those of middle size, as timing decides."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable
from typing import Any

from hpcflow.host import blas
from hpcflow.host.trials import Trials
from hpcflow.host.tuning import kernels as tuning


class Team:
    """The threads of a library; the number is each caller's own.

    Args:
        read, write: functions that tell and set the number.
    """

    def __init__(self, read: Callable[[], int], write: Callable[[int], Any]) -> None:
        self._read = read
        self._write = write
        self._trials = Trials()

    @classmethod
    def of(cls, path: str) -> Team | None:
        """Return the team of the OpenMP that the library at `path` is linked with, or None."""
        try:
            library = ctypes.PyDLL(path)  # the calls are too short to give up the interpreter for
            return cls(library.omp_get_max_threads, library.omp_set_num_threads)
        except (AttributeError, OSError):
            return None

    def run(self, key: Hashable, size: int, alone: Callable[..., None],
            together: Callable[..., None], addresses: tuple[int, ...]) -> None:
        """Make a product by one of two functions that give the same but for the threads they use.

        Args:
            key: what the product is like.
            size: its multiplications.
            alone, together: the functions; `alone` is called while the caller has one thread.
            addresses: their arguments.
        """
        usual = self._read() if size <= tuning.TEAM_LARGEST and blas.may_try() else 1
        if usual < 2 or self._trials.take_second(key):
            together(*addresses)
        else:
            self.alone(alone, addresses, usual)

    def alone(self, function: Callable[..., Any], addresses: tuple[int, ...],
              usual: int = 0) -> None:
        """Call `function` while the caller has one thread, of `usual` ones."""
        usual = usual or self._read()
        self._write(1)
        try:
            function(*addresses)
        finally:
            self._write(usual)
