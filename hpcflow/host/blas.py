"""The number of threads that NumPy's BLAS uses for a product.

OpenBLAS gives every product of more than about 64x64x64 all its threads, and these wait for each
other busily. For small products that gains little on an idle machine; where the cores have other
work, a product waits for a thread that is not running, for a hundred times its own duration. So
small products of a step are computed by the thread that runs it. The setting is one of the
process: it is changed for the time of the product, and put back for whoever else uses NumPy.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hpcflow import config
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

    def same_bits(self, sample: Callable[[], Callable[[], Any]]) -> bool | None:
        """True if what ``sample()`` returns gives the same bits with one thread and with all; None
        if that cannot be told now, as somebody is inside."""
        with self._lock:
            usual = self._read()
            if self._inside or usual < 2:
                return None if self._inside else False
            compute = sample()
            with_all = compute()
            self._write(1)
            try:
                return bool(with_all.tobytes() == compute().tobytes())
            finally:
                self._write(usual)

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


# ---------------------------------------------------------------- all threads, where they pay

_NEVER = float("inf")


class _Shape:
    """A record of how the products of one shape are computed.

    Threads that have been used wait busily for more, and are in the way of whatever else a step
    computes at the same time. So all are used only while little else is done: as long as no more
    time passes between two products than one of them takes.

    Attributes:
        same_bits: whether one thread and all give the same bits; None if not known yet.
        all: whether all threads compute them now.
    """

    __slots__ = ("same_bits", "all", "_key", "_dense", "_alone", "_ended", "_faults", "_good",
                 "_wait", "_retry")

    busy_until = 0.0  # on the clock of time.perf_counter; for all shapes

    def __init__(self, key: tuple) -> None:
        self.same_bits: bool | None = None
        self.all = False
        self._key = key
        self._dense = self._good = 0
        self._alone = _NEVER  # the least that one thread took, in seconds
        self._ended = self._faults = self._retry = 0.0
        self._wait = tuning.BLAS_WAIT_SECONDS

    def dot(self, a: np.ndarray, b: np.ndarray, out: Any, setting: _Threads) -> Any:
        """``np.dot``, by one thread or by all."""
        began = time.perf_counter()
        is_late = began - self._ended > self._alone
        if (self.all or (self._dense >= tuning.BLAS_DENSE and began >= self._retry and not is_late
                         and self._begin(setting))) and (
                not np.may_share_memory(a, b)):  # of a matrix with itself, half is computed
            began = time.perf_counter()
            result = np.dot(a, b, out=out)
            self._ended = time.perf_counter()
            self._judge(self._ended - began, is_late)
            return result
        with setting:
            result = np.dot(a, b, out=out)
        self._ended = time.perf_counter()
        self._alone = min(self._alone, self._ended - began)
        self._dense = 0 if is_late else self._dense + 1
        return result

    def _begin(self, setting: _Threads) -> bool:
        """Begin a trial, if the bits are the same."""
        if self.same_bits is None:
            self.same_bits = setting.same_bits(lambda: _sample(self._key))
            if self.same_bits is False:
                self._retry = _NEVER
        self._faults, self._good, self._dense = 0.0, 0, 0
        self.all = self.same_bits is True
        return self.all

    def _judge(self, seconds: float, is_late: bool) -> None:
        """Judge a trial: all threads took `seconds`, for a product that came late or not."""
        if seconds < tuning.BLAS_GAIN * self._alone and not is_late:
            self._faults = max(0.0, self._faults - tuning.BLAS_FORGIVEN)
            self._good += 1
            if self._good == tuning.BLAS_KEPT:
                self._wait = tuning.BLAS_WAIT_SECONDS
            return
        stuck = seconds > tuning.BLAS_STUCK * self._alone
        self._faults += 2.0 if stuck else 1.0
        if self._faults > tuning.BLAS_FAULTS:
            self.all = False
            self._retry = self._ended + self._wait
            if stuck:
                _Shape.busy_until = self._retry
            self._wait = min(2 * self._wait, tuning.BLAS_LONGEST_WAIT_SECONDS)


def _sample(key: tuple) -> Callable[[], Any]:
    """A function that computes a product of random matrices as those of `key`."""
    (m, k), n, flip_a, flip_b, kind = key
    random, dtype = np.random.default_rng(0), np.dtype(kind).type
    a = random.standard_normal((k, m) if flip_a else (m, k), dtype)
    b = random.standard_normal((n, k) if flip_b else (k, n), dtype)
    return lambda: np.dot(a.T if flip_a else a, b.T if flip_b else b)


_shapes: dict[tuple, _Shape] = {}
_TYPES = ("f", "d")


def may_try() -> bool:
    """True if this process may use all its threads where they are measured to be faster."""
    return not (threads.is_rank() or config.flags.deterministic or threads.limited_to_one())


def _shape_of(a: np.ndarray, b: np.ndarray) -> _Shape | None:
    """Return what is known of products like that of `a` and `b`; None if all threads are not
    tried."""
    if not may_try():
        return None
    shape, columns, kind = a.shape, b.shape[1], a.dtype.char
    if (shape[0] == 1 or columns == 1 or shape[1] != b.shape[0] or kind not in _TYPES
            or kind != b.dtype.char):
        return None
    flags_a, flags_b = a.flags, b.flags
    flip_a, flip_b = not flags_a.c_contiguous, not flags_b.c_contiguous
    if (flip_a and not flags_a.f_contiguous) or (flip_b and not flags_b.f_contiguous):
        return None
    key = (shape, columns, flip_a, flip_b, kind)
    found = _shapes.get(key)
    if found is None:
        if len(_shapes) >= tuning.BLAS_MOST_SHAPES:
            _shapes.clear()
        found = _shapes.setdefault(key, _Shape(key))
    return found


# ---------------------------------------------------------------- products


def idle_pool(multiplications: int) -> threads.Pool | None:
    """Threads for products that can be put off, while the caller goes on with others; or None.

    Each of these has one thread meanwhile: where that leaves cores idle, the products must be so
    small (`multiplications` of one of them) that they would have no more anyway.
    """
    if not _fills_the_cores(multiplications):
        return None
    _Shape.busy_until = max(_Shape.busy_until, time.perf_counter() + tuning.BLAS_PUT_OFF_SECONDS)
    return threads.pool()


def _fills_the_cores(multiplications: int) -> bool:
    """True if one thread for such products, and the others of the pool, are all that is wanted."""
    return threads.has_idle_cores() and (threads.pool().size == 2 or is_small(multiplications))


def beside(a: Any, b: Any) -> Any:
    """The product of two matrices by one thread, while others compute what was put off; None if
    it is too large for that, or other threads would be idle."""
    size = a.size * b.shape[1]
    if not tuning.BLAS_SMALL < size <= tuning.BLAS_LARGEST_BESIDE or not _fills_the_cores(size):
        return None
    with alone():
        return np.dot(a, b)


def is_small(multiplications: int) -> bool:
    """True for products that one thread computes best."""
    return multiplications <= tuning.BLAS_SMALL


def has_one_thread(multiplications: int) -> bool:
    """True for products that `dot` computes by one thread at any time."""
    return multiplications <= tuning.BLAS_ALONE or is_small(multiplications) and not may_try()


def alone() -> contextlib.AbstractContextManager[None]:
    """A context in which products of NumPy have one thread each.

    What is computed in blocks over the threads of the process needs no others; and threads of BLAS
    that have been used wait busily for more, for tens of milliseconds in which they take the cores
    from whatever a step computes next.
    """
    return _threads() or contextlib.nullcontext()


_large_alone: Callable[[Any, Any], Any] = lambda a, b: None  # noqa: E731


def multiply_alone_by(function: Callable[[Any, Any], Any]) -> None:
    """Let ``function(a, b)``, by one thread, make the products for which it does not return
    None."""
    global _large_alone
    _large_alone = function


_large_together: Callable[[Any, Any], Any] = lambda a, b: None  # noqa: E731


def multiply_together_by(function: Callable[[Any, Any], Any]) -> None:
    """Let ``function(a, b)``, by all threads, make the products for which it does not return
    None, with the bits of `dot_alone`."""
    global _large_together
    _large_together = function


def dot_together(a: Any, b: Any) -> Any:
    """The product of two large matrices by all threads, with the bits of `dot_alone`; None where
    that is not known to be possible, or the threads have other work."""
    if not threads.has_idle_cores() or not threads.may_spin() or not threads.pool().take():
        return None
    try:
        return _large_together(a, b)
    finally:
        threads.pool().give_back()


def dot_alone(a: Any, b: Any) -> Any:
    """The product of two matrices, or of a vector and a matrix, by one thread."""
    found = _large_alone(a, b) if a.ndim == 2 else None
    if found is not None:
        return found
    with alone():
        return np.dot(a, b)


def dot(a: np.ndarray, b: np.ndarray, out: Any = None) -> Any:
    """``np.dot`` of two matrices; see the module for how many threads small ones have.

    Raises ValueError as ``np.dot`` does.
    """
    size = a.size * b.shape[1]
    if size <= tuning.BLAS_ALONE or size > tuning.BLAS_SMALL:
        return np.dot(a, b, out=out)
    setting = _threads()
    if setting is None:
        return np.dot(a, b, out=out)
    if time.perf_counter() >= _Shape.busy_until:
        shape = _shape_of(a, b)
        if shape is not None:
            return shape.dot(a, b, out, setting)
    with setting:
        return np.dot(a, b, out=out)
