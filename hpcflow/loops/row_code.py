"""Copies and updates of rows by their numbers, as texts.

No other part of the machine than such a loop can know which rows come next, so it fetches them
some rows ahead.
"""

from __future__ import annotations

import functools

import numpy as np

from hpcflow.loops.form import Program
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
def loop(PARAMETERS):
    last, width = rows.size - 1, updates.shape[1]
    for i in range(rows.size):
        row, coming = rows[i], rows[min(i + 8, last)]
        if {_IS_OURS.replace("ROW", "coming")}:
            for c in range(0, width, LINE):
                FETCHES
        if {_IS_OURS.replace("ROW", "row")}:
            for c in apart(width):
                elements(c, GIVEN)
"""


@functools.lru_cache(maxsize=8)
def copies(row_dtype: str) -> Loop:
    """The loop of ``target[i] = source[rows[i]]`` for every i: called with (target, source, rows),
    the first two contiguous matrices of whole words of eight bytes, the third a vector."""
    return TextLoop(_COPIES, (("uint64", 2, True), ("uint64", 2, False), (row_dtype, 1, False)), 0)


def takes(dtype: str) -> bool:
    """True if :func:`updates` has a loop for states of `dtype`: not for halves and truth values,
    which are computed with in another form than they have in memory."""
    return dtype in ("float32", "float64") or dtype.removeprefix("u").startswith("int")


def updates(row_dtype: str, program: Program) -> Loop:
    """The loop of a program over the elements of ``state[rows[i]]``, of one matrix or several, and
    of ``updates[i]``: for every i, in that order, where ``rows[i]`` falls to one of several parts.

    It is called with (*states, rows, updates, *arguments, part, parts): contiguous matrices of one
    dtype, but the rows are a vector. The program is one of elements, of one column; the updates are
    the array after the states.
    """
    dtype, count = program.arrays[0], len(program.arrays) - 1
    numbers = [f"s{i}" for i in range(len(program.arguments))]
    states = [f"x{k}" for k in range(count)]
    text = _UPDATES.replace("LINE", str(_LINE // np.dtype(dtype).itemsize))
    for word, there in (
            ("PARAMETERS", ", ".join([*states, "rows", "updates", *numbers, "part", "parts"])),
            ("GIVEN", ", ".join([*[f"{x}[row]" for x in states], "updates[i]", *numbers])),
            ("FETCHES", "; ".join([f"fetch({x}[coming], c)" for x in states]))):
        text = text.replace(word, there)
    stored = program.stored()
    arrays = [(dtype, 2, k in stored) for k in range(count)]
    return TextLoop(text, (*arrays, (row_dtype, 1, False), (dtype, 2, False)),
                    (*program.arguments, "int64", "int64"), program)
