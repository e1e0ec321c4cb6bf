"""native_programs: what a loop computes without the interpreter, as a list of calls.

The functions between two products become programs (``loops.form``): each goes over memory once, and
keeps what only its own lines read in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hpcflow.compiler.native.native_memory import FIXED, SCRATCH, Slot
from hpcflow.compiler.native.native_values import Apply, Unfit
from hpcflow.loops import call_list, llvm_plan
from hpcflow.loops.call_list import Operand, Product
from hpcflow.loops.compiling import Compiled
from hpcflow.loops.form import Builder, Map
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import SELECT


class Calls:
    """The calls of an iteration; raises Unfit where a program cannot be compiled.

    Attributes:
        loops: the programs in them, which may yet have to be compiled.
    """

    def __init__(self, made: Sequence[Apply | Product], slots: Sequence[Slot]) -> None:
        self._pieces = [run[0] if isinstance(run[0], Product) else _Piece(run, made, slots)
                        for run in _runs(made)]
        found = [piece.loop.compiled() for piece in self._pieces if isinstance(piece, _Piece)]
        self.loops: list[Compiled] = [loop for loop in found if loop is not None]
        if len(self.loops) < len(found):
            raise Unfit
        self._words: np.ndarray | None = None

    def words(self) -> np.ndarray | None:
        """The calls for the compiled function; None until all programs are compiled."""
        if self._words is None and all([loop.function for loop in self.loops]):
            self._words = np.array([words for piece in self._pieces for words in (
                piece.words() if isinstance(piece, _Piece) else [piece.words()])], np.int64)
        return self._words


class _Piece:
    """A run of functions as a program."""

    def __init__(self, run: Sequence, made: Sequence[Apply | Product],
                 slots: Sequence[Slot]) -> None:
        self._builder = b = Builder(run[0].columns)
        self._arrays: dict[Operand, tuple[int, Map]] = {}
        values: dict[Operand, int] = {}
        for call in run:
            for k, o in enumerate(call.inputs):
                if o not in values:
                    dtype = "bool" if call.function == SELECT and not k else call.dtype
                    number = _number(slots[o.slot])
                    values[o] = b.load(*self._place(o, dtype)) if number is None else (
                        b.constant(number, dtype))
            given = [values[o] for o in call.inputs]
            values[call.made] = (b.select(*given) if call.function == SELECT
                                 else b.apply(call.function, *given))
        for call in {c.made: c for c in run}.values():
            o = call.made
            if slots[o.slot].kind != SCRATCH or _is_read(o.slot, run, made):
                b.store(*self._place(o, call.dtype), values[o])
        program = b.program()
        if not llvm_plan.supports(program) or len(self._arrays) > call_list.TABLE_WORDS:
            raise Unfit
        self.loop = FormLoop(program)

    def _place(self, o: Operand, dtype: str) -> tuple[int, Map]:
        """The array, and where in it the elements of an operand lie."""
        if o not in self._arrays:
            size = np.dtype(dtype).itemsize
            self._arrays[o] = self._builder.array(dtype), Map(o.row // size, o.column // size)
        return self._arrays[o]

    def words(self) -> list[list[int]]:
        """The calls that let the compiled program run."""
        found = self.loop.compiled()
        assert found is not None
        return call_list.program_words(found.table, list(self._arrays))


def _runs(made: Sequence[Apply | Product]) -> Iterator[list]:
    """Products, and between them functions over as many columns each that do not overlap."""
    run: list = []
    for call in made:
        if run and not (isinstance(call, Apply) and isinstance(run[0], Apply)
                        and _fits(call, run)):
            yield run
            run = []
        run.append(call)
    if run:
        yield run


def _fits(call: Apply, run: list[Apply]) -> bool:
    operands = {o for c in (*run, call) for o in (*c.inputs, c.made)}
    written = {c.made for c in (*run, call)}
    return (call.columns == run[0].columns and call.dtype == run[0].dtype
            and len(operands) <= call_list.TABLE_WORDS
            and all(_are_apart(a, b, call.columns) for a in written for b in operands))


def _are_apart(a: Operand, b: Operand, columns: int) -> bool:
    """True if two operands are the same, or have no element in common."""
    if a == b or a.slot != b.slot:
        return True
    first, last = sorted([a.offset, b.offset])
    return (a.row, a.column) == (b.row, b.column) and last - first >= columns * a.column and (
        last - first + columns * a.column <= a.row)


def _number(slot: Slot) -> float | None:
    """The constant in a slot."""
    is_one = slot.kind == FIXED and isinstance(slot.source, np.ndarray) and slot.source.size == 1
    return slot.source.item() if is_one else None


def _is_read(slot: int, run: Sequence[Apply], made: Sequence[Apply | Product]) -> bool:
    """True if something that is not in the run reads the slot."""
    inside = {id(call) for call in run}
    return any(o.slot == slot for call in made if id(call) not in inside
               for o in ([call.first] if isinstance(call, Product) else call.inputs))
