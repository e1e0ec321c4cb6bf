"""native_memory: the places of a loop's values while it runs outside of the interpreter.

What outlives its iteration lies in one array for all iterations, a variable's next value beside the
one before, everything else in one place that the next iteration uses again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.host import memory
from hpcflow.host.memory import LINE, address_of
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops.packed_gemm import pack

if TYPE_CHECKING:
    from hpcflow.compiler.native.native_layout import Layout


# How the places of a slot follow from the iteration: what comes from outside, an element or what
# was popped, a variable, a value that is dropped, one that is the next of a variable, one that is
# kept, and a sum over time.
FIXED, GIVEN, VARIABLE, SCRATCH, TWO, KEPT, SUM = range(7)
KINDS = 7


class Packed(NamedTuple):
    """The packed matrix in a FIXED slot: the name of the matrix, whether its transpose is meant,
    and the width of its panels in registers."""

    name: str
    is_flipped: bool
    vectors: int


class Slot:
    """A place that calls read or write: its kind, the name (or the array) that it has, and the
    form of the value in an iteration."""

    __slots__ = ("kind", "source", "shape", "dtype")

    def __init__(self, kind: int, source: Any, shape: tuple = (), dtype: Any = None) -> None:
        self.kind = kind
        self.source = source
        self.shape = shape
        self.dtype = dtype

    def nbytes(self) -> int:
        """Return the bytes of the value in an iteration."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


class Arena:
    """The places of what need not be kept when a run is over: a run at a time."""

    def __init__(self, slots: list[Slot]) -> None:
        self.values: dict[Any, np.ndarray] = {}
        self.offsets: dict[int, int] = {}
        size = 0
        for number, slot in enumerate(slots):
            if slot.kind in (SCRATCH, TWO):
                self.offsets[number] = size
                size += -(-slot.nbytes() * (2 if slot.kind == TWO else 1) // LINE) * LINE
        self.nbytes = size
        whole = memory.empty((size,), np.uint8, least=0)
        self.address = address_of(whole)
        for number, start in self.offsets.items():
            slot = slots[number]
            if slot.kind == TWO:
                self.values[slot.source] = whole[start : start + 2 * slot.nbytes()].view(
                    slot.dtype).reshape(2, *slot.shape)
        self._whole = whole


class Plan:
    """The places of values in `count` iterations, relative to where their arrays begin.

    Attributes:
        steps: per slot and iteration, the bytes from there.
        kept, given, variables, sums: which slots have arrays of these kinds.
        fixed: those whose values are the same in all iterations.
    """

    def __init__(self, layout: Layout, count: int) -> None:
        self.steps = np.zeros((len(layout.slots), count), np.int64)
        numbers = np.arange(1, count + 1)
        of_kind: list[list[int]] = [[] for _ in range(KINDS)]
        for number, slot in enumerate(layout.slots):
            of_kind[slot.kind].append(number)
            if slot.kind == TWO:
                self.steps[number] = numbers % 2 * slot.nbytes()
            elif slot.kind == KEPT:
                is_summed = slot.source in layout.loop.summed  # as sums take it
                self.steps[number] = (count - numbers if is_summed else numbers) * slot.nbytes()
        self.fixed, self.given, self.variables = (of_kind[k] for k in (FIXED, GIVEN, VARIABLE))
        self.kept, self.sums = of_kind[KEPT], of_kind[SUM]
        self.numbers = numbers - 1


class Memory:
    """The arrays of some iterations.

    Attributes:
        slots: per slot and iteration the address, for the compiled function.
    """

    def __init__(self, layout: Layout, count: int, fixed: dict[str, Any],
                 given: dict[str, Any], variables: dict[str, Any]) -> None:
        self.layout = layout
        self.count = count
        self.given = given
        self.variables = variables
        self.arrays: dict[str, np.ndarray] = {}
        self._alive: list[Any] = []
        self.arena = layout.take_arena()
        plan, places = layout.plan(count), [0] * len(layout.slots)
        for number, start in self.arena.offsets.items():
            places[number] = self.arena.address + start
        self.arrays.update(self.arena.values)
        for number in plan.fixed:
            places[number] = self._fixed(number, fixed)
        for number in plan.sums:
            places[number] = self._sum(layout.slots[number], fixed)
        for number in plan.kept:
            places[number] = self._keep(layout.slots[number])
        self.slots = plan.steps + np.array(places, np.int64)[:, np.newaxis]
        for number in plan.given:
            self.slots[number] = self._addresses(given[layout.slots[number].source], plan.numbers)
        for number in plan.variables:
            variable, row = layout.slots[number].source, self.slots[number]
            row[0] = self._address(variables[variable])
            row[1:] = self.slots[layout.values[layout.loop.following[variable]].slot, :-1]

    def _address(self, array: np.ndarray) -> int:
        self._alive.append(array)
        return address_of(array)

    def _fixed(self, number: int, fixed: dict[str, Any]) -> int:
        source = self.layout.slots[number].source
        if isinstance(source, Packed):
            matrix = fixed[source.name]
            return self._address(pack(matrix.T if source.is_flipped else matrix, source.vectors))
        array = source if isinstance(source, np.ndarray) else fixed[source]
        return self._address(np.asarray(array))

    def _sum(self, slot: Slot, fixed: dict[str, Any]) -> int:
        """Where a sum over time of rows is; what adds it up has it from then on."""
        name, term = slot.source
        return self._address(fixed[name].rows_of(term, slot.shape, slot.dtype))

    def _addresses(self, values: Any, numbers: np.ndarray) -> Any:
        if type(values) is np.ndarray:
            return self._address(values) + numbers * values.strides[0]
        return [address_of(v) for v in values]

    def _keep(self, slot: Slot) -> int:
        array = memory.empty((self.count + 1, *slot.shape), slot.dtype, least=0)
        address = address_of(array)
        self.arrays[slot.source] = (
            array[::-1] if slot.source in self.layout.loop.summed else array)
        return address

    def each(self, name: str) -> Any:
        """Return the values that a kept value had in the iterations: a list, or the rows of an
        array."""
        if name in self.given:
            return self.given[name]
        loop = self.layout.loop
        if name in loop.entering:
            array = self.arrays[loop.following[name]]
            array[0] = self.variables[name]
            return array[:-1]
        return self.arrays[name][1:]

    def following(self) -> dict[str, Any]:
        """Return the variables after the iterations."""
        found = dict(self.variables)
        for variable, name in self.layout.loop.following.items():
            array = self.arrays[name]
            found[variable] = array[self.count % len(array)].copy()
        return found

    def give_back(self) -> None:
        """Hand the memory back for later runs, which may overwrite what is not kept."""
        if self.arena.nbytes <= tuning.MEMORY_MOST_HELD_BYTES:
            self.layout.arenas.append(self.arena)
