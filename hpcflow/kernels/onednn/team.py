"""The threads of oneDNN's products: one for small ones, else all."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from hpcflow.host import blas, openmp


class Team:
    """The threads of a library; the number is each caller's own.

    Args:
        read, write: functions that tell and set the number.
    """

    def __init__(self, read: Callable[[], int], write: Callable[[int], Any]) -> None:
        self._read = read
        self._write = write

    @classmethod
    def of(cls, path: str) -> Team | None:
        """Return the team of the OpenMP that the library at `path` is linked with, or None."""
        try:
            library = ctypes.PyDLL(path)  # the calls are too short to give up the interpreter for
            made = cls(library.omp_get_max_threads, library.omp_set_num_threads)
        except (AttributeError, OSError):
            return None
        openmp.end_threads_before_fork(library)
        return made

    def run(self, size: int, alone: Callable[..., None], together: Callable[..., None],
            addresses: tuple[int, ...]) -> None:
        """Make a product by one of two functions that give the same but for the threads they use.

        Args:
            size: its multiplications.
            alone, together: the functions; `alone` is called while the caller has one thread.
            addresses: their arguments.
        """
        usual = self._read() if blas.is_small(size) else 1
        if usual < 2:
            together(*addresses)
            return
        self._write(1)
        try:
            alone(*addresses)
        finally:
            self._write(usual)
