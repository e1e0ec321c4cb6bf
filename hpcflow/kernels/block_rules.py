"""How the rule of a training update runs over large arrays: in blocks, on all cores, or compiled.

A rule is a sequence of ufuncs over whole arrays. Block by block its passes run in cache; where
Numba is installed the sequence becomes one loop (``hpcflow.jit``). What that loop computes is found
by running the rule once on arrays that only take down what is done with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import jit, threads

# What one block of all arrays together may take: a little more than the second-level cache of a
# core, since the passes of a rule do not touch all arrays at once.
WORKING_SET_BYTES = 3 << 19
_LEAST_PART = 1 << 16  # elements that a thread should have at least


def run_rule(xp: Any, rule: Callable, arrays: list, scalars: tuple, scratch_count: int) -> None:
    """Apply `rule` to arrays of one shape; block by block where they are large.

    All but the last (the gradient) are contiguous and written.
    """
    first = arrays[0]
    block_bytes = WORKING_SET_BYTES // (len(arrays) + scratch_count)
    if first.nbytes <= block_bytes or xp is not np:
        empty = xp.empty
        rule(xp, arrays, scalars, [empty(first.shape, first.dtype) for _ in range(scratch_count)])
        return
    flat = [a.reshape(-1) for a in arrays]
    parts = threads.bounds(first.size, _parts(first.size))
    found = _loop_of(rule, flat, scalars, scratch_count)
    loop = found[0].function if found is not None else None
    if found is not None and loop is not None:
        numbers = found[1]
        threads.pool().run(lambda k: loop(*[a[slice(*parts[k])] for a in flat], *numbers),
                           len(parts))
        return
    began = time.perf_counter()
    threads.pool().run(lambda k: _run_blocks(rule, flat, scalars, scratch_count, *parts[k]),
                       len(parts))
    if found is not None:
        found[0].spent(time.perf_counter() - began)


def _parts(size: int) -> int:
    return max(1, min(threads.pool().size, size // _LEAST_PART))


def _run_blocks(rule: Callable, arrays: list, scalars: tuple, scratch_count: int, start: int,
                stop: int) -> None:
    dtype = arrays[0].dtype
    step = WORKING_SET_BYTES // (len(arrays) + scratch_count) // dtype.itemsize
    scratch = [np.empty(min(step, stop - start), dtype) for _ in range(scratch_count)]
    for begin in range(start, stop, step):
        end = min(begin + step, stop)
        rule(np, [a[begin:end] for a in arrays], scalars, [s[: end - begin] for s in scratch])


# ---------------------------------------------------------------- the loop of a rule


class _Untraceable(Exception):
    """The rule does something that has no place in a loop."""


class _Traced:
    """Stands for an array: its present value has a name."""

    def __init__(self, name: str, dtype: np.dtype) -> None:
        self.name = name
        self.dtype = dtype


class _Recorder:
    """Stands for the array module: its ufuncs take down what they are called with."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.steps: list[tuple[str, str, tuple[str, ...]]] = []
        self.scalars: list[Any] = []

    def __getattr__(self, name: str) -> Callable:
        if not jit.supports(name, self.dtype.name):
            raise _Untraceable(name)
        nin = getattr(np, name).nin
        return lambda *values, out=None: self._record(name, values[:nin], out or values[nin])

    def _record(self, name: str, values: tuple, out: _Traced) -> None:
        target = f"v{len(self.steps)}"
        self.steps.append((target, name, tuple([self._name(v) for v in values])))
        out.name = target

    def _name(self, value: Any) -> str:
        if isinstance(value, _Traced):
            return value.name
        if getattr(value, "dtype", None) != self.dtype:
            raise _Untraceable("a scalar of another type")
        self.scalars.append(value)
        return f"s{len(self.scalars) - 1}"


def _loop_of(rule: Callable, arrays: list, scalars: tuple,
             scratch_count: int) -> tuple[jit.Compiled, list] | None:
    """The loop that does what `rule` does, and its scalars; None if there is none."""
    dtype = arrays[0].dtype
    if not jit.enabled() or any(a.dtype != dtype or not a.flags.c_contiguous for a in arrays):
        return None
    recorder = _Recorder(dtype)
    traced = [_Traced(f"a{i}", dtype) for i in range(len(arrays))]
    scratch = [_Traced(f"t{i}", dtype) for i in range(scratch_count)]
    try:
        rule(recorder, traced, scalars, scratch)
    except _Untraceable:
        return None
    stores = [(f"a{i}", t.name) for i, t in enumerate(traced) if t.name != f"a{i}"]
    program = jit.Program(dtype.name, len(arrays), len(recorder.scalars), recorder.steps, stores)
    return jit.compiled(program), recorder.scalars
