"""The number of threads that NumPy's BLAS uses for a product.

OpenBLAS gives every product of more than about 64x64x64 all its threads, and these wait for each
other busily. For small products that gains little on an idle machine; where the cores have other
work, a product waits for a thread that is not running, for a hundred times its own duration. So
small products of a step are computed by the thread that runs it. The setting is one of the process:
it is changed for the time of the product, and put back for whoever else uses NumPy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hpcflow.base.hooks import Hook
from hpcflow.base.once import once
from hpcflow.host import threads
from hpcflow.host.tuning import host as tuning

_PTHREADS = 1  # what openblas_get_parallel says of builds with threads of their own


def openblas_names(name: str) -> list[str]:
    """The names a symbol has in the builds of OpenBLAS: bare, 64-bit, and SciPy's."""
    return [prefix + name + suffix for prefix in ("", "scipy_") for suffix in ("", "64_", "_64")]


def loaded_libraries(part: str) -> list[str]:
    """Paths of the shared libraries of this process whose file name holds `part`."""
    try:
        text = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    lines = (line.split() for line in text.splitlines())
    paths = {fields[-1] for fields in lines if len(fields) > 5}
    return sorted(path for path in paths if part in Path(path).name)


def find_function(library: Any, name: str) -> Any:
    """The function `name` of an OpenBLAS, whatever the build calls it; None if it has none."""
    return next((getattr(library, n) for n in openblas_names(name) if hasattr(library, n)), None)


class _Threads:
    """The number of threads of an OpenBLAS: lowered to one while somebody is in ``with``.

    A product has little time for it: less than a microsecond, where ``threadpoolctl.limit`` takes
    four to six. And steps run in several threads, of which that (from 3.8 on) lets only one set the
    number, while the calls of the others do nothing.
    """

    def __init__(self, read: Callable[[], int], write: Callable[[int], Any]) -> None:
        self._read = read
        self._write = write
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = 1

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = self._read()
                if self._usual > 1:
                    self._write(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._usual > 1:
                self._write(self._usual)

    def limit(self, count: int) -> None:
        """Use at most `count` from now on."""
        with self._lock:
            if self._inside:
                self._usual = min(self._usual, count)
            elif self._read() > count:
                self._write(count)

    def after_fork(self) -> None:
        """The threads that were inside do not exist in the child."""
        self._lock = threading.Lock()
        if self._inside and self._usual > 1:
            self._write(self._usual)
        self._inside = 0


def _libraries() -> Iterator[Any]:
    """The OpenBLAS of NumPy, and not SciPy's own."""
    for path in loaded_libraries("openblas"):
        if "scipy.libs" not in path:
            yield ctypes.PyDLL(path)  # these calls are too short to give up the interpreter for


# Processors for which OpenBLAS has kernels with AVX-512.
_WIDE = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")


def has_avx512() -> bool | None:
    """Return whether NumPy's OpenBLAS has chosen kernels with AVX-512; None without an OpenBLAS."""
    for library in _libraries():
        name = find_function(library, "openblas_get_corename")
        if name is not None:
            name.restype = ctypes.c_char_p
            return name() in _WIDE
    return None


@once
def _threads() -> _Threads | None:
    """NumPy's OpenBLAS, if it has threads of its own whose number can be set."""
    for library in _libraries():
        kind, read, write = [find_function(library, f"openblas_{name}") for name in
                             ("get_parallel", "get_num_threads", "set_num_threads")]
        if kind is not None and read is not None and write is not None and kind() == _PTHREADS:
            found = _Threads(read, write)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=found.after_fork)
            return found
    return None


def share_cores() -> None:
    """More ranks than there are cores compute beside this one: unless the user says otherwise,
    products and all other work have one thread. Others would wait busily for a core."""
    if threads.default_to_one() and (setting := _threads()) is not None:
        setting.limit(1)


# ---------------------------------------------------------------- products


def is_small(multiplications: int) -> bool:
    """True for products that one thread computes, whichever library makes them."""
    return multiplications <= tuning.BLAS_SMALL


def alone() -> contextlib.AbstractContextManager[None]:
    """A context in which products of NumPy have one thread each.

    What is computed in blocks over the threads of the process needs no others; and threads of BLAS
    that have been used wait busily for more, for tens of milliseconds in which they take the cores
    from whatever a step computes next.
    """
    return _threads() or contextlib.nullcontext()


#: ``large_together(a, b)``: the product of two matrices by all threads; None for those that NumPy
#: makes.
large_together = Hook("the large product by all threads")


def dot_together(a: Any, b: Any) -> Any:
    """The product of two large matrices by all threads; None where that is not possible, or the
    threads have other work."""
    if threads.pool().size == 1:
        return large_together(a, b)
    if not threads.has_idle_cores() or not threads.may_spin() or not threads.pool().take():
        return None
    try:
        return large_together(a, b)
    finally:
        threads.pool().give_back()


def dot(a: np.ndarray, b: np.ndarray, out: Any = None) -> Any:
    """``np.dot`` of two matrices; see the module for how many threads small ones have.

    Raises ValueError as ``np.dot`` does.
    """
    size = a.size * b.shape[1]
    setting = None
    if size > tuning.BLAS_ALONE and is_small(size):
        setting = _threads()
    if setting is None:
        return np.dot(a, b, out=out)
    with setting:
        return np.dot(a, b, out=out)
