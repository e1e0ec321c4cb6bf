"""Execution of the update rules of training: block by block, on all cores, or compiled.

A rule is a sequence of ufuncs over whole arrays. Block by block its passes run in cache; where
there is a compiler the sequence becomes one loop (`loops.compiling`), also for small arrays, whose
ufuncs take less time than their calls. What that loop computes is found by running the rule once on
arrays, and if it can on scalars, that only take down what is done with them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import costs, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops import compiling, llvm_plan, row_code
from hpcflow.loops.form import DENSE, Builder, Elementwise, Program
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import CAST
from hpcflow.loops.tracing import Traced, Tracer, UntraceableError


def run_rule(xp: Any, rule: Callable, arrays: list, scalars: tuple, scratch_count: int) -> None:
    """Apply `rule` to arrays of one shape; block by block where they are large.

    All but the last (the gradient) are contiguous and written.
    """
    first, grad = arrays[0], arrays[-1]
    block_bytes = tuning.RULE_WORKING_SET_BYTES // (len(arrays) + scratch_count)
    is_small = first.nbytes <= block_bytes or xp is not np
    if is_small:
        if xp is np and _run_compiled(rule, arrays, scalars, scratch_count):
            return
        empty = xp.empty
        rule(xp, [*arrays[:-1], grad], scalars,
             [empty(first.shape, first.dtype) for _ in range(scratch_count)])
        return
    work = _Work(rule, arrays, scalars, scratch_count)
    made = work.loop()
    found = None if made is None else made[0].compiled()
    if made is not None and found is not None and found.function is not None:
        made[0].run(found, first.size, work.arrays, made[1])
        return
    parts = threads.bounds(first.size, _parts(first.size))
    compiling.timed(found, lambda: threads.pool().run(
        lambda k: work.run_blocks(*parts[k]), len(parts)))


def _run_compiled(rule: Callable, arrays: list, scalars: tuple, scratch_count: int) -> bool:
    """Apply `rule` to small arrays by its loop; False if there is none (yet)."""
    first = arrays[0]
    found = _known_loop(rule, first.dtype, len(arrays) - 1, scratch_count, len(scalars))
    if found is None:
        return False
    compiled = found.loop.compiled()
    if compiled is None:
        return False
    if compiled.function is None:
        compiled.spent(costs.seconds(found.calls, first.size))
        return False
    kind = first.dtype.type
    if not all([type(scalar) is kind for scalar in scalars]):
        return False  # it would round them first
    try:
        found.loop.run(compiled, first.size, arrays, found.numbers(scalars))
    except TypeError:  # an array of another type, or that does not lie in order
        return False
    return True


def _parts(size: int) -> int:
    count = threads.pool().size
    most = count * tuning.RULE_PARTS_PER_THREAD if count > 1 else 1
    return max(1, min(most, size // tuning.RULE_LEAST_PART))


class _Work:
    """A rule with all it is applied to, as vectors: the states, then the gradient."""

    def __init__(self, rule: Callable, arrays: list, scalars: tuple, scratch_count: int) -> None:
        self.rule = rule
        self.scalars = scalars
        self.scratch_count = scratch_count
        self.arrays = [a.reshape(-1) for a in arrays]

    def run_blocks(self, start: int, stop: int) -> None:
        """Apply the rule to the elements from `start` to `stop`, block by block."""
        count, dtype = self.scratch_count, self.arrays[0].dtype
        step = tuning.RULE_WORKING_SET_BYTES // (len(self.arrays) + count) // dtype.itemsize
        scratch = [np.empty(min(step, stop - start), dtype) for _ in range(count)]
        for begin in range(start, stop, step):
            end = min(begin + step, stop)
            blocks = [a[begin:end] for a in self.arrays]
            self.rule(np, blocks, self.scalars, [s[: end - begin] for s in scratch])

    def loop(self) -> tuple[FormLoop, list] | None:
        """Return the loop of the rule and its scalars; None if there is none."""
        dtype = self.arrays[0].dtype
        if not compiling.enabled() or any([a.dtype != dtype or not a.flags.c_contiguous
                                     or not a.flags.aligned for a in self.arrays]):
            return None
        states = len(self.arrays) - 1
        known = _known_loop(self.rule, dtype, states, self.scratch_count, len(self.scalars))
        if known is not None and all([type(number) is dtype.type for number in self.scalars]):
            return known.loop, list(known.numbers(self.scalars))
        try:  # if it depends on the scalars' values
            program, found = _traced(self.rule, dtype, states, self.scratch_count, self.scalars)
        except UntraceableError:
            return None
        return _loop_of(program), found


# ---------------------------------------------------------------- the loop of a rule


class _Known(NamedTuple):
    """A rule's loop, whatever its scalars are.

    Attributes:
        loop: over elements.
        calls: how many ufuncs it stands for.
        sources: what its numbers are: functions of the scalars, or constants of the rule.
    """

    loop: FormLoop
    calls: int
    sources: tuple[Any, ...]

    def numbers(self, scalars: tuple) -> tuple:
        """The numbers of the loop for these scalars."""
        return _numbers(self.sources, scalars)


def _numbers(sources: tuple, scalars: tuple) -> tuple:
    return tuple([s.of(scalars) if type(s) is _Scalar else s for s in sources])


@functools.lru_cache(maxsize=256)
def _known_loop(rule: Callable, dtype: np.dtype, states: int, scratch_count: int,
                scalar_count: int) -> _Known | None:
    """The loop of `rule` over arrays of `dtype`, if no scalar's value decides what it is."""
    scalars = tuple([_Scalar(operator.itemgetter(i), dtype) for i in range(scalar_count)])
    try:
        program, numbers = _traced(rule, dtype, states, scratch_count, scalars)
    except (UntraceableError, TypeError, AttributeError):  # it does more than pass them on
        return None
    return _Known(FormLoop(program), _calls(program), tuple(numbers))


def _calls(program: Program) -> int:
    return sum(isinstance(s, Elementwise) for s in program.instructions)


@functools.lru_cache(maxsize=256)
def known_row_loop(rule: Callable, dtype: np.dtype, states: int, scratch_count: int,
                   scalar_count: int, row_dtype: str) -> KnownRows | None:
    """The loop of `rule` over rows of so many states by their numbers, which are of `row_dtype`;
    None if a scalar's value decides what it is, or it has no code for that type."""
    if not row_code.takes(compiling.name_of(dtype)):
        return None
    scalars = tuple([_Scalar(operator.itemgetter(i), dtype) for i in range(scalar_count)])
    try:
        program, numbers = _traced(rule, dtype, states, scratch_count, scalars)
    except (UntraceableError, TypeError, AttributeError):
        return None
    if any(isinstance(s, Elementwise) and s.function == CAST for s in program.instructions):
        return None
    return KnownRows(row_code.updates(row_dtype, program), _calls(program), tuple(numbers))


_loop_of = functools.lru_cache(maxsize=256)(FormLoop)


class KnownRows(NamedTuple):
    """As `_Known`, of a loop over rows."""

    program: compiling.Loop
    calls: int
    sources: tuple[Any, ...]

    def numbers(self, scalars: tuple) -> tuple:
        """The numbers of the loop for these scalars."""
        return _numbers(self.sources, scalars)


def _traced(rule: Callable, dtype: np.dtype, states: int, scratch_count: int,
            scalars: tuple) -> tuple[Program, list]:
    """The program of `rule` on `states` and a gradient, which is the array after them, and what its
    arguments are."""
    b = Builder(1)
    tracer = _RuleTracer(b, dtype)
    places = [b.array(compiling.name_of(dtype)) for _ in range(states + 1)]
    loaded = [b.load(place, DENSE) for place in places]
    blocks = [tracer.of(value) for value in loaded[:states]]
    scratch = [tracer.empty_like(blocks[0]) for _ in range(scratch_count)]
    rule(tracer, [*blocks, tracer.of(loaded[states])], scalars, scratch)
    for place, block, value in zip(places, blocks, loaded):
        if block.number() != value:
            b.store(place, DENSE, block.number())
    program = b.program()
    if not llvm_plan.supports(program) or not llvm_plan.is_exact(program):
        raise UntraceableError("computes what there is no code for with the same bits")
    return program, tracer.sources


class _RuleTracer(Tracer):
    """An array module whose numbers become arguments of the program.

    Attributes:
        sources: of each argument, the number, or a `_Scalar`.
    """

    def __init__(self, builder: Builder, dtype: np.dtype) -> None:
        super().__init__(builder)
        self.kind = dtype
        self.sources: list[Any] = []

    def argument(self, number: Any) -> int:
        """One more argument, which is this number."""
        if getattr(number, "dtype", None) != self.kind:
            raise UntraceableError("a number of another type")
        self.sources.append(number)
        return self.builder.argument(compiling.name_of(self.kind))

    def _alike(self, operands: tuple) -> list[int]:
        return [o.number() if isinstance(o, Traced) else self.argument(o) for o in operands]


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
        raise UntraceableError("the value of a scalar")

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
