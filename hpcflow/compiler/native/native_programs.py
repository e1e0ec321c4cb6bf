"""native_programs: runs of ufuncs that a loop calls without the interpreter become programs.

Each call of a ufunc is a pass over memory; a program (``loops.form``) goes over it once, and keeps
what only its own lines read in registers. Until its machine code is there, the calls are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hpcflow.compiler.native.native_memory import FIXED, SCRATCH, Slot
from hpcflow.loops import call_list, llvm_functions, llvm_plan
from hpcflow.loops.call_list import Call, Operand
from hpcflow.loops.form import Builder, Map, Program
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import SYNONYMS

_NOTHING = Operand(0, 0, 0)


class Fused:
    """The calls of an iteration, with programs in the place of runs of ufuncs."""

    def __init__(self, made: Sequence[Call], slots: Sequence[Slot]) -> None:
        self._pieces = [_fused(run, made, slots) for run in _runs(made)]
        loops = [piece.loop.compiled() for piece in self._pieces if isinstance(piece, _Piece)]
        self._loops = [found for found in loops if found is not None]
        self._is_wanted = bool(loops) and len(self._loops) == len(loops)
        self._words: np.ndarray | None = None

    def calls(self) -> np.ndarray | None:
        """The calls for the compiled function; None until all programs are compiled."""
        if self._words is None and self._is_wanted and all([f.function for f in self._loops]):
            calls = [call for piece in self._pieces for call in (
                piece.calls() if isinstance(piece, _Piece) else piece)]
            self._words = np.array([call.words() for call in calls], np.int64)
        return self._words

    def spent(self, seconds: float) -> None:
        """Note the time of a run without the programs."""
        if self._is_wanted:
            for found in self._loops:
                found.spent(seconds)


class _Piece:
    """A run as a program; `arrays` are its arrays."""

    def __init__(self, program: Program, arrays: Sequence[Operand]) -> None:
        self.loop = FormLoop(program)
        self.arrays = arrays

    def calls(self) -> list[Call]:
        """Those that let the compiled program run."""
        found, columns = self.loop.compiled(), self.loop.program.columns
        assert found is not None
        given = [Call(call_list.ARRAY, 0, 0, columns, k, a, _NOTHING, _NOTHING)
                 for k, a in enumerate(self.arrays)]
        return [*given, Call(call_list.PROGRAM, found.table, 0, columns, 0, _NOTHING, _NOTHING,
                             _NOTHING)]


def _runs(made: Sequence[Call]) -> Iterator[list[Call]]:
    """The calls in pieces: ufuncs over as many columns each that programs have and that do not
    overlap, or others."""
    run: list[Call] = []
    for call in made:
        if run and not (_has_text(run[0]) and _has_text(call) and _fits(call, run)):
            yield run
            run = []
        run.append(call)
    if run:
        yield run


def _has_text(call: Call) -> bool:
    if call.ufunc is None:
        return False
    name, dtype = call.ufunc
    return llvm_functions.supports(SYNONYMS.get(name, name), dtype)


def _fits(call: Call, run: list[Call]) -> bool:
    operands = {o for c in (*run, call) for o in (*_read(c), c.made)}
    written = {c.made for c in (*run, call)}
    return (call.columns == run[0].columns and call.ufunc[1] == run[0].ufunc[1]  # type: ignore[index]
            and len(operands) <= call_list.TABLE_WORDS
            and all(_are_apart(a, b, call.columns) for a in written for b in operands))


def _read(call: Call) -> list[Operand]:
    return [call.first] if call.kind == call_list.UNARY else [call.first, call.second]


def _are_apart(a: Operand, b: Operand, columns: int) -> bool:
    """True if two operands are the same, or have no element in common."""
    if a == b or a.slot != b.slot:
        return True
    first, last = sorted([a.offset, b.offset])
    return (a.row, a.column) == (b.row, b.column) and last - first >= columns * a.column and (
        last - first + columns * a.column <= a.row)


def _fused(run: list[Call], made: Sequence[Call], slots: Sequence[Slot]) -> _Piece | list[Call]:
    """A run as a program, if it is worth one."""
    if len(run) < 2 or not _has_text(run[0]):
        return run
    b, dtype = Builder(run[0].columns), run[0].ufunc[1]  # type: ignore[index]
    size = np.dtype(dtype).itemsize
    arrays: dict[Operand, int] = {}
    values: dict[Operand, int] = {}

    def array(o: Operand) -> tuple[int, Map]:
        if o not in arrays:
            arrays[o] = b.array(dtype)
        return arrays[o], Map(o.row // size, o.column // size)

    for call in run:
        for o in _read(call):
            if o not in values:
                number = _number(slots[o.slot])
                values[o] = b.load(*array(o)) if number is None else b.constant(number, dtype)
        values[call.made] = b.apply(call.ufunc[0], *[values[o] for o in _read(call)])  # type: ignore[index]
    for o in dict.fromkeys(call.made for call in run):
        if slots[o.slot].kind != SCRATCH or _is_read(o.slot, run, made):
            b.store(*array(o), values[o])
    program = b.program()
    return _Piece(program, list(arrays)) if llvm_plan.supports(program) else run


def _number(slot: Slot) -> float | None:
    """The constant in a slot."""
    is_one = slot.kind == FIXED and isinstance(slot.source, np.ndarray) and slot.source.size == 1
    return slot.source.item() if is_one else None


def _is_read(slot: int, run: list[Call], made: Sequence[Call]) -> bool:
    """True if a call that is not in the run reads the slot."""
    inside = {id(call) for call in run}
    return any(o is not None and o.slot == slot for call in made if id(call) not in inside
               for o in (call.first, call.second, call.addend))
