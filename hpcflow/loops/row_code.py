"""Copies and updates of rows by their numbers, as texts.

No other part of the machine than such a loop can know which rows come next, so it fetches them
some rows ahead.
"""

from __future__ import annotations

import functools

import numpy as np

from hpcflow.loops.form import Argument, Constant, Elementwise, Instruction, Load, Program, Store
from hpcflow.loops.meanings import SELECT
from hpcflow.loops.programs import Loop, TextLoop

_LINE = 64  # bytes

_COPIES = f"""
def loop(target, source, rows):
    last, width = rows.size - 1, target.shape[1]
    for i in range(rows.size):
        there, k = target[i], min(i + 8, last)
        of, coming, later = source[rows[i]], source[rows[k]], target[k]
        for c in range(0, width - 7, 8):
            fetch(coming, c)
            fetch(later, c)
            {", ".join([f"there[c + {k}]" for k in range(8)])} = {
                ", ".join([f"of[c + {k}]" for k in range(8)])}
        for c in range(width & -8, width):
            fetch(coming, c)
            fetch(later, c)
            there[c] = of[c]
"""

# The product spreads rows over the parts even if their numbers have a common factor; what follows
# is a remainder without a division.
_IS_OURS = "((np.uint64(ROW) * 40503 >> 7 & 65535) * np.uint64(parts) >> 16) == part"
_UPDATES = f"""
def loop(STATES, rows, updates, NUMBERSpart, parts):
    last, width = rows.size - 1, updates.shape[1]
    for i in range(rows.size):
        row, coming = rows[i], rows[min(i + 8, last)]
        if {_IS_OURS.replace("ROW", "coming")}:
            for c in range(0, width, LINE):
                FETCHES
        if {_IS_OURS.replace("ROW", "row")}:
            PLACES
            for c in apart(width):
                VALUES
"""


@functools.lru_cache(maxsize=8)
def copies(row_dtype: str) -> Loop:
    """The loop of ``target[i] = source[rows[i]]`` for every i: called with (target, source, rows),
    the first two contiguous matrices of whole words of eight bytes, the third a vector."""
    return TextLoop(_COPIES, (("uint64", 2, True), ("uint64", 2, False), (row_dtype, 1, False)), 0)


def updates(row_dtype: str, program: Program) -> Loop:
    """The loop of a program over the elements of ``state[rows[i]]``, of one matrix or several, and
    of ``updates[i]``: for every i, in that order, where ``rows[i]`` falls to one of several parts.

    It is called with (*states, rows, updates, *arguments, part, parts): contiguous matrices of one
    dtype, but the rows are a vector. The program is one of elements, of one column; the updates are
    the array after the states.
    """
    dtype, count = program.arrays[0], len(program.arrays) - 1
    numbers = [f"s{i}" for i in range(len(program.arguments))]
    text = _UPDATES.replace("STATES", ", ".join([f"x{k}" for k in range(count)]))
    text = text.replace("NUMBERS", "".join([f"{n}, " for n in numbers]))
    text = text.replace("LINE", str(_LINE // np.dtype(dtype).itemsize))
    for word, lines in (
            ("FETCHES", [f"fetch(x{k}[coming], c)" for k in range(count)]),
            ("PLACES", [*[f"a{k} = x{k}[row]" for k in range(count)], f"a{count} = updates[i]"]),
            ("VALUES", [_line(i, step) for i, step in enumerate(program.instructions)])):
        text = text.replace(word, "; ".join(lines))
    stored = program.stored()
    arrays = [(dtype, 2, k in stored) for k in range(count)]
    return TextLoop(text, (*arrays, (row_dtype, 1, False), (dtype, 2, False)),
                    (*program.arguments, "int64", "int64"))


def _line(i: int, step: Instruction) -> str:
    """An instruction as a line."""
    if isinstance(step, Store):
        return f"a{step.array}[c] = v{step.operand}"
    return f"v{i} = {_value(step)}"


def _value(step: Instruction) -> str:
    if isinstance(step, Load):
        return f"a{step.array}[c]"
    if isinstance(step, Argument):
        return f"s{step.number}"
    if isinstance(step, Constant):
        return _constant(step)
    assert isinstance(step, Elementwise)
    given = [f"v{o}" for o in step.operands]
    if step.function == SELECT:
        return f"{given[1]} if {given[0]} else {given[2]}"
    return f"np.{step.function}({', '.join(given)})"


def _constant(step: Constant) -> str:
    value = _SPECIAL.get(repr(step.value), repr(step.value))
    return f"np.{step.dtype}({value})" if isinstance(step.value, float) else value


_SPECIAL = {"inf": "1e999", "-inf": "-1e999", "nan": "1e999 - 1e999"}
