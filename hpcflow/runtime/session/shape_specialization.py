"""Steps for feeds of any shapes that are compiled again for the shapes that come often."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from hpcflow.graph.operation import Dims, Tensor
from hpcflow.host.tuning import runtime as tuning

Run = Callable[..., list]


class ByShapes:
    """A step that runs, for feeds of some shapes, as a step compiled for just these shapes where
    there is one: ``run(feeds)``.

    Args:
        general: runs the step for any shapes.
        feeds: what is fed.
        seconds: what it took to compile it.
        compile_for: makes the run of a step for feeds of the shapes that it is given.
    """

    def __init__(self, general: Run, feeds: list[Tensor], seconds: float,
                 compile_for: Callable[[tuple[Dims, ...]], Run]) -> None:
        self._general = general
        self._dims = [t._dims for t in feeds]
        self._open = [i for i, dims in enumerate(self._dims) if dims is None or None in dims]
        self._enough = tuning.SHAPES_WORTH * seconds
        self._compile_for = compile_for
        self._runs: dict[tuple, Run] = {}
        self._spent: dict[tuple, tuple[int, float]] = {}
        self._lock = threading.Lock()

    @staticmethod
    def serves(feeds: list[Tensor]) -> bool:
        """True if some shape is open."""
        return any(t._dims is None or None in t._dims for t in feeds)

    def __call__(self, feeds: Any, timeout: float | None = None) -> list:
        """See the class."""
        key = tuple([getattr(feeds[i], "shape", ()) for i in self._open])
        run = self._runs.get(key)
        if run is not None:
            return run(feeds, timeout)
        if len(self._runs) >= tuning.SHAPES_MOST_STEPS:
            return self._general(feeds, timeout)
        start = time.perf_counter()
        values = self._general(feeds, timeout)
        self._note(key, time.perf_counter() - start)
        return values

    def _note(self, key: tuple, seconds: float) -> None:
        with self._lock:
            if key not in self._spent and len(self._spent) >= tuning.SHAPES_MOST_KEPT:
                self._spent.clear()
            count, spent = self._spent.get(key, (0, 0.0))
            self._spent[key] = count + 1, spent + seconds
            if (count + 1 < tuning.SHAPES_FEWEST_RUNS or spent + seconds < self._enough
                    or key in self._runs):
                return
            self._runs[key] = self._general  # for whoever runs it meanwhile
        dims = list(self._dims)
        for i, shape in zip(self._open, key, strict=True):
            dims[i] = shape
        with contextlib.suppress(Exception):  # the general step serves as before
            self._runs[key] = self._compile_for(tuple(dims))
