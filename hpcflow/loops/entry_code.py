"""The function that Python calls for every compiled loop: see `entries`."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from hpcflow.loops import entries, llvm_math
from hpcflow.loops.direct_code import compiled_module
from hpcflow.loops.text_code import Text


def code_of(name: str) -> entries.Code:
    """The code of the function, which has this name."""
    def fill(module: Any) -> None:
        word = llvm_math.ir().IntType(64)
        for source, called in ((_PART, "hpcflow_part"), (_ENTRY, name)):
            (text,) = ast.parse(source).body
            assert isinstance(text, ast.FunctionDef)
            kind = llvm_math.ir().FunctionType(word, [word] * len(text.args.args))
            Text(llvm_math.ir().Function(module, kind, called), text).write()

    return compiled_module(name, fill)


# Numbers by their names in the text: where CPython's ``Py_buffer`` has what, and others.
_NUMBERS = {
    "RANK": 36, "FORMAT": 40, "DIMS": 48, "BUFFER_WORDS": 10,
    "MINUS_ONE": int(np.float64(-1).view(np.int64)),
    **{name: getattr(entries, name) for name in ("INTEGER", "ARRAY", "REAL")}}

# What each thread of a team does: blocks until there are no more. Each word of the loop's table is
# the sum of one that is the same for all blocks, of its first row and of its end, times others.
_PART = """
def part(team):
    if take(team + 8, 1) >= word_at(team + 16):
        return 0
    rows, step, loop = word_at(team + 24), word_at(team + 32), word_at(team + 40)
    words, size = word_at(team + 48), 8 * word_at(team + 56)
    table = stack(word_at(team + 56))
    while True:
        first = take(team, step)
        if first >= rows:
            return 0
        end = min(first + step, rows)
        for k in range(0, size, 8):
            place = words + k
            put(table + k, word_at(place) + first * word_at(place + size)
                + end * word_at(place + size + size))
        invoke(loop, table)
"""

# ``entry(plan, arguments, count)``, as ``METH_FASTCALL`` wants it. Before the arguments of the loop
# there may be these of a team: OpenMP's function, threads, how many of them may work, rows, rows of
# a block, and a bit for each argument that begins with the first row of a block, or is it, and for
# each that is the end. They become what `_PART` reads.
_ENTRY = """
def entry(given, arguments, count):
    plan = PyLong_AsLongLong(given)
    number, size = word_at(plan + 8), 8 * word_at(plan + 16)
    before = count - number
    if before != 0 and before != 7:
        PyErr_SetString(hpcflow_type_error, word_at(plan + 32))
        return 0
    words, team, buffer = stack(3 * word_at(plan + 16)), stack(8), stack(BUFFER_WORDS)
    place, firsts, ends = 0, 0, 0
    for i in range(count):
        thing, argument, kind = word_at(arguments + 8 * i), plan + 40 + 56 * (i - before), INTEGER
        first, end, more, value = 0, 0, 0, 0
        if i >= before:
            kind = word_at(argument)
            first, end = (firsts >> (i - before)) & 1, (ends >> (i - before)) & 1
        if kind == ARRAY:
            rank, more = word_at(argument + 32), word_at(argument + 40)
            if PyObject_GetBuffer(thing, buffer, word_at(argument + 24)) & 1 != 0:
                PyErr_SetString(hpcflow_type_error, word_at(argument + 48))
                return 0
            value, dims, format = word_at(buffer), word_at(buffer + DIMS), word_at(buffer + FORMAT)
            its, fits = byte_at(format), byte_at(format + 1) == 0 and value & (more - 1) == 0 and (
                rank < 0 or half_at(buffer + RANK) == rank)
            if not fits or (its != word_at(argument + 8) and its != word_at(argument + 16)):
                PyBuffer_Release(buffer)
                PyErr_SetString(hpcflow_type_error, word_at(argument + 48))
                return 0
            for d in range(1, rank):
                dim = word_at(dims + 8 * d)
                put(words + place + 8 * d + 8, dim)
                put(words + place + 8 * d + 8 + size, 0)
                put(words + place + 8 * d + 8 + size + size, 0)
                more *= dim
            put(words + place, value)
            put(words + place + size, first * more)
            put(words + place + size + size, 0)
            if rank > 0:
                put(words + place + 8, word_at(dims) * (1 - first))
                put(words + place + 8 + size, -first)
                put(words + place + 8 + size + size, first)
                place += 8 * rank
            PyBuffer_Release(buffer)
        else:
            if kind == REAL:
                value = bits(PyFloat_AsDouble(thing))
            else:
                value = PyLong_AsLongLong(thing)
            if (value == -1 or value == MINUS_ONE) and PyErr_Occurred() != 0:
                return 0
            if i < before:
                put(team + 8 * i, value)
                firsts, ends, place = word_at(team + 40), value, -8
            else:
                put(words + place, value * (1 - first - end))
                put(words + place + size, first)
                put(words + place + size + size, end)
        place += 8
    loop, found, state = word_at(plan), 0, PyEval_SaveThread()
    if before == 0:
        found = invoke(loop, words)
    else:
        spread, threads = word_at(team), word_at(team + 8)
        put(team, 0)
        put(team + 8, 0)
        put(team + 40, loop)
        put(team + 48, words)
        put(team + 56, word_at(plan + 16))
        invoke(spread, hpcflow_part, team, threads, 0)
    PyEval_RestoreThread(state)
    if before == 0 and word_at(plan + 24) != 0:
        return PyLong_FromLongLong(found)
    Py_IncRef(hpcflow_none)
    return hpcflow_none
"""
for _name, _value in _NUMBERS.items():
    _ENTRY = _ENTRY.replace(_name, str(_value))
