"""Runs of a compiled program of the form over arrays, spread over the cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host.tuning import loops as tuning
from hpcflow.loops import compiling, llvm_plan, parallel_for, strided_copy
from hpcflow.loops.form import ColumnReduce, Load, Program, Store, extents
from hpcflow.loops.meanings import NARROW, numpy_dtype, start_of, wide_dtype


class _Sums(NamedTuple):
    """Parts of a reduction of columns: their dtype, with what they begin, and how many columns
    there are."""

    dtype: np.dtype
    start: float | int
    width: int


class FormLoop:
    """A program as a loop that is compiled when that is worth it.

    Attributes:
        program: what it runs.
        is_exact: its results have the bits of NumPy.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.is_exact = llvm_plan.is_exact(program)
        self._loop = compiling.Loop("llvm_code", program)
        self._sums = [
            _Sums(numpy_dtype(wide_dtype(s.dtype)), start_of(s.function, s.dtype),
                  program.columns if extent.columns else 1)
            for s, extent in zip(program.instructions, extents(program))
            if isinstance(s, ColumnReduce)]
        self._row_bytes = max(1, _row_bytes(program))
        self._narrow = [i for i, t in enumerate(program.arrays) if t in NARROW]
        self._truths = [len(program.arrays) + i for i, t in enumerate(program.arguments)
                        if t == "bool"]
        self._are_special = bool(self._narrow or self._truths)
        given = len(program.arrays) + len(program.arguments) + len(self._sums)
        self._uses = parallel_for.WHOLE * given + (
            parallel_for.START + parallel_for.STOP + parallel_for.WHOLE * 2)

    def compiled(self) -> compiling.Compiled | None:
        """The loop, which may yet have to be compiled; None where there shall be none."""
        if not (compiling.enabled() if self.is_exact else compiling.approximates()):
            return None
        return compiling.compiled(self._loop)

    def apply(self, rows: int, given: Sequence[np.ndarray], empty: Callable[[], np.ndarray],
              compute: Callable[[], Any]) -> Any:
        """``compute()``, or the array that ``empty()`` makes after a run over it and those `given`:
        where there is code, and their elements are at the addresses where they should be."""
        found = self.compiled()
        if found is None or found.function is None:
            return compiling.timed(found, compute)
        try:
            made = empty()
            self.run(found, rows, [*map(strided_copy.in_order, given), made])
            return made
        except TypeError:
            return compute()

    def run(self, found: compiling.Compiled, rows: int, arrays: Sequence[np.ndarray],
            arguments: Sequence[Any] = ()) -> None:
        """Run over so many rows of `arrays`; see ``form_numpy.run``.

        Raises:
            TypeError: before anything is written, if an array is not one in C order of its dtype.
        """
        given = [*arrays, *arguments]
        if self._are_special:
            self._convert(given)
        if self._sums:
            self._run_with_sums(found, rows, given)
        elif rows * self._row_bytes < tuning.PARALLEL_LARGE_BYTES:
            found.function(*given, 0, rows, 1, 0)  # type: ignore[misc]
        else:
            step = parallel_for.block_rows(rows, self._row_bytes)
            parallel_for.run(found, rows, step, self._uses, [*given, 0, 0, 1, 0])

    def _convert(self, given: list) -> None:
        """Put in what the loop takes for some of NumPy's types."""
        for i in self._narrow:
            given[i] = given[i].view(np.uint16)
        for i in self._truths:  # NumPy's are no whole numbers
            given[i] = int(given[i])

    def _run_with_sums(self, found: compiling.Compiled, rows: int, given: list) -> None:
        """In blocks of which each is reduced by itself, however many threads there are."""
        columns, blocks = self.program.columns, tuning.PARALLEL_SUM_BLOCKS
        block = max(1, rows if rows * columns < tuning.PARALLEL_SUM_LEAST else -(-rows // blocks))
        blocks = max(1, -(-rows // block))
        given += [np.full(blocks * sums.width, sums.start, sums.dtype) for sums in self._sums]
        if blocks == 1 or rows * self._row_bytes < tuning.PARALLEL_LARGE_BYTES:
            found.function(*given, 0, rows, block, blocks)  # type: ignore[misc]
            return
        parallel_for.run(found, rows, block, self._uses, [*given, 0, 0, block, 0])
        found.function(*given, rows, rows, block, blocks)  # type: ignore[misc]


def _row_bytes(program: Program) -> int:
    """The bytes of a row in all arrays that have one."""
    found: dict[int, int] = {}
    for step in program.instructions:
        if isinstance(step, (Load, Store)) and step.map.row != 0:
            width = program.columns if step.map.row is None else step.map.row
            item = numpy_dtype(step.dtype).itemsize
            found[step.array] = max(found.get(step.array, 0), width * item)
    return sum(found.values())
