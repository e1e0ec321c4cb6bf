"""Execution of the update rules of training: block by block, on all cores, or compiled.

A rule is a sequence of ufuncs over whole arrays. Block by block its passes run in cache; where
Numba is installed the sequence becomes one loop (`loops.compiling`), also for small arrays, whose
ufuncs take less time than their calls. What that loop computes is found by running the rule once on
arrays, and if it can on scalars, that only take down what is done with them. A gradient that is
``Deferred`` is computed block by block too, or becomes the first steps of the loop.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import costs, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops import compiling, parallel_for
from hpcflow.loops.lazy_array import Deferred, Steps


def run_rule(xp: Any, rule: Callable, arrays: list, scalars: tuple, scratch_count: int) -> None:
    """Apply `rule` to arrays of one shape; block by block where they are large.

    All but the last (the gradient) are contiguous and written.
    """
    first, grad = arrays[0], arrays[-1]
    block_bytes = tuning.RULE_WORKING_SET_BYTES // (len(arrays) + scratch_count)
    is_small = first.nbytes <= block_bytes or xp is not np
    if type(grad) is Deferred and (is_small or not _joins(grad, len(arrays) - 1)):
        grad = grad.value()
    if is_small:
        if xp is np and _run_compiled(rule, arrays, scalars, scratch_count):
            return
        empty = xp.empty
        rule(xp, [*arrays[:-1], grad], scalars,
             [empty(first.shape, first.dtype) for _ in range(scratch_count)])
        return
    work = _Work(rule, arrays[:-1], grad, scalars, scratch_count)
    found = work.loop()
    if found is not None and found[0].function is not None:
        parallel_for.run_rows(found[0], work.arrays, found[1])
        return
    parts = threads.bounds(first.size, _parts(first.size))
    began = time.perf_counter()
    threads.pool().run(lambda k: work.run_blocks(*parts[k]), len(parts))
    if found is not None:
        found[0].spent(time.perf_counter() - began)


def _run_compiled(rule: Callable, arrays: list, scalars: tuple, scratch_count: int) -> bool:
    """Apply `rule` to small arrays by its loop; False if there is none (yet)."""
    first = arrays[0]
    found = _known_loop(rule, first.dtype, len(arrays) - 1, scratch_count, len(scalars),
                        len(arrays))
    if found is None or not compiling.enabled():
        return False
    compiled = compiling.compiled(found.program)
    loop = compiled.function
    if loop is None:
        compiled.spent(costs.seconds(found.calls, first.size))
        return False
    kind = first.dtype.type
    if not all([type(scalar) is kind for scalar in scalars]):
        return False  # it would round them first
    try:
        loop(*arrays, *found.numbers(scalars))
    except TypeError:  # an array of another type, or that does not lie in order
        return False
    return True


def _parts(size: int) -> int:
    count = threads.pool().size
    most = count * tuning.RULE_PARTS_PER_THREAD if count > 1 else 1
    return max(1, min(most, size // tuning.RULE_LEAST_PART))


def _joins(grad: Deferred, states: int) -> bool:
    """True if a loop over `states` written arrays may also compute `grad`."""
    pairs = states * (states - 1) // 2 + states * len(grad.arrays)
    return bool(grad.arrays) and pairs <= tuning.RULE_MOST_PAIRS


class _Work:
    """A rule with all it is applied to, as vectors: the states, then what the gradient is, or is
    made of."""

    def __init__(self, rule: Callable, states: list, grad: Any, scalars: tuple,
                 scratch_count: int) -> None:
        self.rule = rule
        self.scalars = scalars
        self.scratch_count = scratch_count
        self.deferred = grad if type(grad) is Deferred else None
        self.states = len(states)
        self.arrays = [a.reshape(-1) for a in states]
        self.arrays += [grad.reshape(-1)] if self.deferred is None else self.deferred.flat()

    def run_blocks(self, start: int, stop: int) -> None:
        """Apply the rule to the elements from `start` to `stop`, block by block."""
        deferred, dtype = self.deferred, self.arrays[0].dtype
        count = self.scratch_count + (deferred is not None)
        step = tuning.RULE_WORKING_SET_BYTES // (len(self.arrays) + count) // dtype.itemsize
        scratch = [np.empty(min(step, stop - start), dtype) for _ in range(count)]
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            blocks = [a[begin:end] for a in self.arrays]
            spare = [s[: end - begin] for s in scratch]
            if deferred is not None:
                grad = spare.pop()
                deferred.source.compute_into(grad, blocks[self.states:], deferred.numbers)
                blocks[self.states:] = [grad]
            self.rule(np, blocks, self.scalars, spare)

    def loop(self) -> tuple[compiling.Compiled, list] | None:
        """Return the compiled loop of the rule and its scalars; None if there is none."""
        dtype = self.arrays[0].dtype
        if not compiling.enabled() or any([a.dtype != dtype or not a.flags.c_contiguous
                                     or not a.flags.aligned for a in self.arrays]):
            return None
        steps = None if self.deferred is None else self.deferred.source.loop_steps
        if self.deferred is not None and steps is None:
            return None
        numbers = () if self.deferred is None else self.deferred.numbers
        known = _known_loop(self.rule, dtype, self.states, self.scratch_count, len(self.scalars),
                            len(self.arrays), steps, len(numbers))
        every = (*self.scalars, *numbers)
        if known is not None and all([type(number) is dtype.type for number in every]):
            return compiling.compiled(known.program), list(known.numbers(every))
        return self._traced_loop(steps, numbers)

    def _traced_loop(self, steps: Steps | None,
                     numbers: tuple) -> tuple[compiling.Compiled, list] | None:
        """Return the loop as :meth:`loop` does, if it depends on the scalars' values."""
        try:
            recorder, states = _traced(self.rule, self.arrays[0].dtype, self.states,
                                       self.scratch_count, self.scalars, steps, numbers)
        except _Untraceable:
            return None
        return compiling.compiled(_program(recorder, states, len(self.arrays))), recorder.scalars


# ---------------------------------------------------------------- the loop of a rule


class _Known(NamedTuple):
    """A rule's loop, whatever its scalars are.

    Attributes:
        program: the loop, over elements or over rows.
        calls: how many ufuncs it stands for.
        sources: what its numbers are: functions of the scalars, or constants of the rule.
    """

    program: compiling.Loop
    calls: int
    sources: tuple[Any, ...]

    def numbers(self, scalars: tuple) -> tuple:
        """The numbers of the loop for these scalars."""
        return tuple([s.of(scalars) if type(s) is _Scalar else s for s in self.sources])


@functools.lru_cache(maxsize=256)
def _known_loop(rule: Callable, dtype: np.dtype, states: int, scratch_count: int, scalar_count: int,
                arrays: int, steps: Steps | None = None, number_count: int = 0) -> _Known | None:
    """The loop of `rule` over so many `arrays` of `dtype`, if no scalar's value decides what it is.

    The last `number_count` scalars are the numbers of `steps`, which make the gradient.
    """
    scalars = tuple([_Scalar(operator.itemgetter(i), dtype)
                     for i in range(scalar_count + number_count)])
    try:
        recorder, traced = _traced(rule, dtype, states, scratch_count, scalars[:scalar_count],
                                   steps, scalars[scalar_count:])
    except (_Untraceable, TypeError, AttributeError):  # it does more with them than pass them on
        return None
    return _Known(_program(recorder, traced, arrays), len(recorder.steps),
                  tuple(recorder.scalars))


@functools.lru_cache(maxsize=256)
def known_row_loop(rule: Callable, dtype: np.dtype, states: int, scratch_count: int,
                   scalar_count: int, row_dtype: str) -> _Known | None:
    """The loop of `rule` over rows of so many states by their numbers, which are of `row_dtype`;
    None if a scalar's value decides what it is."""
    scalars = tuple([_Scalar(operator.itemgetter(i), dtype) for i in range(scalar_count)])
    try:
        recorder, traced = _traced(rule, dtype, states, scratch_count, scalars, None, ())
    except (_Untraceable, TypeError, AttributeError):
        return None
    program = compiling.RowUpdates(compiling.name_of(dtype), row_dtype, states,
                             len(recorder.scalars),
                             tuple(recorder.steps), _stores(traced))
    return _Known(program, len(recorder.steps), tuple(recorder.scalars))


def _traced(rule: Callable, dtype: np.dtype, states: int, scratch_count: int, scalars: tuple,
            steps: Steps | None, numbers: tuple) -> tuple[_Recorder, list[_Traced]]:
    """Record the operations of `rule` on `states` and a gradient; return the record and the new
    states. The gradient is the array after the states, or is computed by `steps` from the arrays
    after them and `numbers`."""
    recorder, grad = _Recorder(dtype), f"a{states}"
    if steps is not None:
        grad = recorder.take(steps, states, numbers)
    traced = [_Traced(f"a{i}", dtype) for i in range(states)]
    scratch = [_Traced(f"t{i}", dtype) for i in range(scratch_count)]
    rule(recorder, [*traced, _Traced(grad, dtype)], scalars, scratch)
    return recorder, traced


def _program(recorder: _Recorder, states: list[_Traced], arrays: int) -> compiling.Program:
    """Return the recorded operations as a loop over this number of `arrays`."""
    return _written(compiling.name_of(recorder.dtype), arrays, len(recorder.scalars),
                    tuple(recorder.steps), _stores(states))


def _stores(states: list[_Traced]) -> tuple[tuple[str, str], ...]:
    """Return the states that change, and the names of their new values."""
    return tuple([(f"a{i}", t.name) for i, t in enumerate(states) if t.name != f"a{i}"])


_written = functools.lru_cache(maxsize=256)(compiling.Program)


class _Untraceable(Exception):
    """An error: the rule does something that a loop cannot express."""


class _Traced:
    """A stand-in for an array, which names its present value."""

    def __init__(self, name: str, dtype: np.dtype) -> None:
        self.name = name
        self.dtype = dtype


class _Scalar:
    """A stand-in for any number: an operand of ufuncs and of arithmetic.

    ``of(scalars)`` is the number, once the scalars are known.
    """

    __slots__ = ("of", "dtype")
    __array_ufunc__ = None  # operators of NumPy's numbers leave it to those below

    def __init__(self, of: Callable[[tuple], Any], dtype: np.dtype) -> None:
        self.of = of
        self.dtype = dtype

    def _refuse(self, *_: Any) -> Any:
        raise _Untraceable("the value of a scalar")

    __bool__ = __eq__ = __ne__ = _refuse
    __hash__ = None  # type: ignore[assignment]

    def _with(self, operate: Callable, other: Any, swapped: bool = False) -> Any:
        kind = getattr(other, "dtype", None)
        if kind != self.dtype or getattr(other, "shape", ()) != ():
            return NotImplemented
        ours, theirs = self.of, other.of if type(other) is _Scalar else lambda _: other
        first, second = (theirs, ours) if swapped else (ours, theirs)
        return _Scalar(lambda scalars: operate(first(scalars), second(scalars)), self.dtype)

    def __neg__(self) -> _Scalar:
        return _Scalar(lambda scalars: -self.of(scalars), self.dtype)

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(operator.add, other, True)

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(operator.sub, other, True)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(operator.mul, other, True)


@functools.lru_cache(maxsize=256)
def _inputs(name: str, dtype: np.dtype) -> int:
    """Return the number of arrays that the ufunc takes."""
    if not compiling.supports(name, dtype.name):
        raise _Untraceable(name)
    return getattr(np, name).nin


class _Recorder:
    """A stand-in for the array module, which records its ufuncs and their operands."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.steps: list[tuple[str, str, tuple[str, ...]]] = []
        self.scalars: list[Any] = []

    def __getattr__(self, name: str) -> Callable:
        nin = _inputs(name, self.dtype)
        return lambda *values, out=None: self._record(name, values[:nin], out or values[nin])

    def take(self, program: Steps, first: int, numbers: tuple) -> str:
        """Begin with `program`, whose arrays are those from number `first` on; the name of its
        value."""
        arrays = {a for _, _, arguments in program.steps for a in arguments if a[0] == "a"}
        names = {a: f"a{first + int(a[1:])}" for a in {*arrays, program.result} if a[0] == "a"}
        self.steps += [(target, ufunc, tuple([names.get(a, a) for a in arguments]))
                       for target, ufunc, arguments in program.steps]
        self.scalars += numbers
        return names.get(program.result, program.result)

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
