"""native_memory: the places of a loop's values while it runs outside of the interpreter.

What outlives its iteration lies in one array for all iterations, a variable's next value beside the
one before, everything else in one place that the next iteration uses again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.host import memory
from hpcflow.host.memory import address_of
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops.meanings import numpy_dtype
from hpcflow.loops.over_time import FIXED, GIVEN, KEPT, SCRATCH, TWO, Slot
from hpcflow.loops.packed_gemm import pack

if TYPE_CHECKING:
    from hpcflow.compiler.native.native_layout import Layout


class Packed(NamedTuple):
    """The source of a FIXED slot with a packed matrix: the name of the matrix, whether its
    transpose is meant, and the width of its panels in registers."""

    name: str
    is_flipped: bool
    vectors: int


def new_scratch(layout: Layout) -> dict[Any, np.ndarray]:
    """Arrays for what need not be kept when a run is over: by the number of the slot, or by the
    name of a variable's next value."""
    return {_key(number, slot): memory.empty((2,) * (slot.kind == TWO) + slot.shape,
                                             numpy_dtype(slot.dtype), least=0)
            for number, slot in enumerate(layout.slots) if slot.kind in (SCRATCH, TWO)}


def _key(number: int, slot: Slot) -> Any:
    return slot.source if slot.kind in (TWO, KEPT) else number


class Memory:
    """The places of values in a run; `value` gives those from outside by their names.

    What is kept only for sums lies the other way round, as they take it.
    """

    def __init__(self, layout: Layout, value: Callable[[str], Any]) -> None:
        self.layout = layout
        try:
            self._scratch = layout.spare.pop()
        except IndexError:
            self._scratch = new_scratch(layout)
        self._fixed = {number: _fixed_array(slot, value)
                       for number, slot in enumerate(layout.slots) if slot.kind == FIXED}

    def places(self, count: int, given: Mapping[str, Any],
               variables: Mapping[str, Any]) -> np.ndarray:
        """Per slot and iteration the address, for the compiled function; `given` are the values of
        these iterations, `variables` those before."""
        self.count, self.given = count, given
        self.arrays = {**self._scratch, **self._fixed}
        found = np.empty((len(self.layout.slots), count), np.int64)
        numbers = np.arange(count)
        for number, slot in enumerate(self.layout.slots):
            if slot.kind == GIVEN:
                array = given[slot.source]
            elif slot.kind == KEPT and slot.source not in self.arrays:
                array = self.arrays[slot.source] = self._kept(slot)
            else:
                array = self.arrays[_key(number, slot)]
            if type(array) is not np.ndarray:
                found[number] = [address_of(v) for v in array]
            elif slot.kind in (FIXED, SCRATCH):
                found[number] = address_of(array)
            else:
                places = (numbers + slot.shift) % 2 if slot.kind == TWO else numbers + slot.shift
                found[number] = address_of(array) + places * array.strides[0]
        for variable, name in self.layout.loop.following.items():
            self.arrays[name][0] = variables[variable]
        return found

    def _kept(self, slot: Slot) -> np.ndarray:
        array = memory.empty((self.count + 1, *slot.shape), numpy_dtype(slot.dtype), least=0)
        return array[::-1] if slot.source in self.layout.loop.summed else array

    def each(self, name: str) -> Any:
        """The values that a kept value had in the iterations: a list, or the rows of an array."""
        if name in self.given:
            return self.given[name]
        following = self.layout.loop.following.get(name)
        return self.arrays[name][1:] if following is None else self.arrays[following][:-1]

    def following(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The variables after the iterations."""
        found = dict(variables)
        for variable, name in self.layout.loop.following.items():
            array = self.arrays[name]
            found[variable] = array[self.count % len(array)].copy()
        return found

    def give_back(self) -> None:
        """Hand the scratch back for later runs, which may overwrite it."""
        if sum([a.nbytes for a in self._scratch.values()]) <= tuning.MEMORY_MOST_HELD_BYTES:
            self.layout.spare.append(self._scratch)


def _fixed_array(slot: Slot, value: Callable[[str], Any]) -> np.ndarray:
    if isinstance(slot.source, Packed):
        matrix = value(slot.source.name)
        return pack(matrix.T if slot.source.is_flipped else matrix, slot.source.vectors)
    if isinstance(slot.source, tuple):  # what adds rows up has their sum from then on
        name, term = slot.source
        return value(name).rows_of(term, slot.shape, numpy_dtype(slot.dtype))
    return np.asarray(value(slot.source))
