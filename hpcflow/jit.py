"""Element-wise programs and updates of rows as one loop, compiled by Numba where it is installed.

A program is compiled in a background thread, and only when the time spent on it without has shown
that it is worth it: never in a first run. In programs only operations are compiled whose result the
standard fixes to the last bit; the loop does them in the same order, without contraction, so that
compiled and interpreted programs give the same bits. Kernels with loops of their own may differ
from NumPy in the last bits where :func:`approximates` says so.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np

from hpcflow import config, spread

# Seconds spent on a program before it is compiled.
WORTH_SECONDS = 0.1
_MOST_PROGRAMS = 4096  # that are remembered

_BOTH = {"add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}",
         "negative": "-{0}", "square": "{0} * {0}",
         "maximum": "{0} if {0} >= {1} or {0} != {0} else {1}",
         "minimum": "{0} if {0} <= {1} or {0} != {0} else {1}"}
_FLOATS = {**_BOTH, "true_divide": "{0} / {1}", "divide": "{0} / {1}", "sqrt": "np.sqrt({0})",
           "absolute": "abs({0})", "reciprocal": "one / {0}",
           "sign": "one if {0} > zero else (-one if {0} < zero else "
                   "(zero if {0} == zero else {0}))"}
_INTEGERS = _BOTH
_TYPES = {"float32": _FLOATS, "float64": _FLOATS, "int32": _INTEGERS, "int64": _INTEGERS}


@functools.lru_cache(maxsize=64)
def name_of(dtype: np.dtype) -> str:
    """``dtype.name``, which NumPy puts together each time."""
    return dtype.name


def supports(name: str, dtype: str) -> bool:
    """True if NumPy's ufunc `name` on `dtype` (of inputs and output) may be part of a program."""
    return name in _TYPES.get(dtype, ())


class Loop(Protocol):
    """What can be compiled: one function for all of the same key."""

    key: tuple[str, str]

    def compile(self) -> Callable:
        """The function, by Numba; whatever it raises means that there is none."""


class Program:
    """A loop over the elements of arrays of one shape and dtype.

    ``steps`` are (target, ufunc, arguments) over names: ``a0, a1, ...`` arrays, ``s0, s1, ...``
    scalars, anything else values of the same element; ``stores`` are (array, value) pairs.
    """

    def __init__(self, dtype: str, arrays: int, scalars: int,
                 steps: Sequence[tuple[str, str, tuple[str, ...]]],
                 stores: Sequence[tuple[str, str]]) -> None:
        self.dtype = dtype
        self.arrays = arrays
        self.scalars = scalars
        self.stored = {array for array, _ in stores}
        self.source = _source(dtype, arrays, scalars, steps, stores)
        self.key = dtype, self.source

    def signature(self, types: Any) -> tuple:
        """The types of the arguments, of the module `types`."""
        kind = getattr(types, self.dtype)
        arrays = [types.Array(kind, 1, "C", readonly=f"a{i}" not in self.stored)
                  for i in range(self.arrays)]
        return (*arrays, *[kind] * self.scalars)

    def compile(self) -> Callable:
        """See `Loop`."""
        return compile_text(self.source, self.signature)


def _source(dtype: str, arrays: int, scalars: int, steps: Sequence, stores: Sequence) -> str:
    templates = _TYPES[dtype]
    parameters = [*(f"a{i}" for i in range(arrays)), *(f"s{i}" for i in range(scalars))]
    # From 0, so that no index can be negative: only then is the loop vectorized.
    lines = [f"def loop({', '.join(parameters)}):",
             f"    one, zero = np.{dtype}(1), np.{dtype}(0)",
             "    for i in range(a0.size):"]
    loaded = {name for _, _, arguments in steps for name in arguments if name[0] == "a"}
    lines += [f"        e{name} = {name}[i]" for name in sorted(loaded)]
    for target, ufunc, arguments in steps:
        values = [f"e{a}" if a[0] == "a" else a for a in arguments]
        lines.append(f"        {target} = np.{dtype}({templates[ufunc].format(*values)})")
    lines += [f"        {array}[i] = {f'e{value}' if value[0] == 'a' else value}"
              for array, value in stores]
    return "\n".join(lines) + "\n"


class RowProgram:
    """``target[row[i]] = ufunc(target[row[i]], updates[i])`` for every i, in that order, where
    ``row[i]`` falls to one of several parts.

    The function is called with (target, row, updates, part, parts), the first and the third
    contiguous matrices of `dtype`, the second a vector of `row_dtype`.
    """

    def __init__(self, ufunc: str, dtype: str, row_dtype: str) -> None:
        self.dtype = dtype
        self.row_dtype = row_dtype
        result = _TYPES[dtype][ufunc].format("a", "b")
        # The product spreads rows over the parts even if their numbers have a common factor; the
        # second one is a remainder without a division.
        self.source = f"""def loop(target, rows, updates, part, parts):
    for i in range(rows.size):
        row = np.int64(rows[i])
        if ((((row * 40503) >> 7) & 0xffff) * parts) >> 16 == part:
            for j in range(target.shape[1]):
                a, b = target[row, j], updates[i, j]
                target[row, j] = np.{dtype}({result})
"""
        self.key = f"{dtype} {row_dtype}", self.source

    def signature(self, types: Any) -> tuple:
        """The types of the arguments, of the module `types`."""
        kind, row = getattr(types, self.dtype), getattr(types, self.row_dtype)
        return (types.Array(kind, 2, "C"), types.Array(row, 1, "C", readonly=True),
                types.Array(kind, 2, "C", readonly=True), types.int64, types.int64)

    def compile(self) -> Callable:
        """See `Loop`."""
        return compile_text(self.source, self.signature)


class RowCopies:
    """``target[i] = source[rows[i]]`` for every i: called with (target, source, rows), the first
    two contiguous matrices of whole words of eight bytes, the third a vector of `row_dtype`."""

    # No other part of the machine can know which rows come next; the lines that are written it
    # would fetch only when their turn has come, too.
    source = """def loop(target, source, rows):
    start, to, row_bytes = source.ctypes.data, target.ctypes.data, 8 * source.shape[1]
    for i in range(rows.size):
        coming = start + row_bytes * np.int64(rows[min(i + 8, rows.size - 1)])
        for line in range(0, row_bytes, 64):
            prefetch(coming + line)
            prefetch(to + row_bytes * (i + 8) + line)
        row = np.int64(rows[i])
        for j in range(target.shape[1]):
            target[i, j] = source[row, j]
"""

    def __init__(self, row_dtype: str) -> None:
        self.row_dtype = row_dtype
        self.key = row_dtype, self.source

    def signature(self, types: Any) -> tuple:
        """The types of the arguments, of the module `types`."""
        return (types.Array(types.uint64, 2, "C"), types.Array(types.uint64, 2, "C", readonly=True),
                types.Array(getattr(types, self.row_dtype), 1, "C", readonly=True))

    def compile(self) -> Callable:
        """See `Loop`."""
        return compile_text(self.source, self.signature, prefetch=_prefetch())


@functools.lru_cache(maxsize=1)
def _prefetch() -> Callable:
    """For compiled loops: ``prefetch(address)`` brings the line of memory into cache."""
    import numba

    ir = importlib.import_module("llvmlite.ir")
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = builder.inttoptr(arguments[0], byte)
        reading, everywhere, data = number(0), number(3), number(1)
        builder.call(function, [place, reading, everywhere, data])
        return context.get_dummy_value()

    signature = numba.types.void(numba.types.int64)
    return numba.extending.intrinsic(lambda _, address: (signature, generate))


def compile_text(source: str, signature: Callable[[Any], tuple], **names: Any) -> Callable:
    """The function ``loop`` of a text, for one signature, with `names` to use."""
    import numba

    scope: dict[str, Any] = {"np": np, **names}
    exec(compile(source, "<hpcflow loop>", "exec"), scope)
    return numba.njit(signature(numba.types), nogil=True, error_model="numpy")(scope["loop"])


class Compiled:
    """A program's function when there is one: ``function(*arrays, *scalars)``.

    ``spent(seconds)`` tells how long the program took without it. ``entry`` runs the function in
    a team of threads, once ``spread()`` has asked for it (see :mod:`hpcflow.spread`).
    """

    __slots__ = ("program", "function", "entry", "_seconds", "_asked", "_spread")

    def __init__(self, program: Loop) -> None:
        self.program = program
        self.function: Callable | None = None
        self.entry: Callable | None = None
        self._seconds = 0.0
        self._asked = not enabled()
        self._spread = False

    def spent(self, seconds: float) -> None:
        """The program ran without being compiled."""
        self._seconds += seconds
        if self._seconds > WORTH_SECONDS and not self._asked:
            self._asked = True
            _ask(self)

    def spread(self) -> None:
        """The program, which has a function, runs in several threads."""
        if not self._spread:
            self._spread = True
            _ask(self)

    def compile(self) -> None:
        """What is asked for."""
        if self.function is None:
            self.function = self.program.compile()
        else:
            self.entry = spread.entry_of(self.function)


_programs: dict[tuple[str, str], Compiled] = {}
_lock = threading.Lock()
_queue: SimpleQueue[Compiled] = SimpleQueue()
_thread: threading.Thread | None = None


def compiled(program: Loop) -> Compiled:
    """The one :class:`Compiled` of all programs with this text."""
    key = program.key
    found = _programs.get(key)
    if found is None:
        if len(_programs) >= _MOST_PROGRAMS:
            _programs.clear()
        found = _programs.setdefault(key, Compiled(program))
    return found


def enabled() -> bool:
    """True if there is Numba, and HPCFLOW_JIT lets it be used."""
    return config.flags.jit and _installed()


def approximates() -> bool:
    """True if loops may be used whose last bits differ from NumPy's: not in the deterministic mode,
    since it depends on time from which run on they are there."""
    return enabled() and not config.flags.deterministic


@functools.lru_cache(maxsize=1)
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def wait() -> None:
    """Until everything that was asked for is compiled (for tests and measurements)."""
    done = threading.Event()
    _ask(done)  # type: ignore[arg-type]
    done.wait()


def _ask(item: Compiled) -> None:
    global _thread
    with _lock:
        _queue.put(item)
        if _thread is None:
            _thread = threading.Thread(target=_serve, daemon=True, name="hpcflow-compiler")
            _thread.start()


def _serve() -> None:
    while True:
        item = _queue.get()
        if isinstance(item, threading.Event):
            item.set()
        else:
            with contextlib.suppress(Exception):  # it runs without
                item.compile()
