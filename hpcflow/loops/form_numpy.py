"""The reference back end of the form: a program run by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hpcflow.loops.form import (
    Argument,
    Column,
    ColumnReduce,
    Constant,
    Elementwise,
    Load,
    Map,
    Program,
    RowReduce,
    Store,
)
from hpcflow.loops.meanings import (
    CAST,
    MEANINGS,
    REDUCTIONS,
    SELECT,
    numpy_dtype,
    start_of,
    wide_dtype,
)


def run(program: Program, rows: int, arrays: Sequence[np.ndarray],
        arguments: Sequence[Any] = ()) -> None:
    """Run over so many rows of `arrays`, which are in C order; those stored to are changed."""
    values: list[Any] = []
    stored = program.stored()
    with np.errstate(all="ignore"):
        for step in program.instructions:
            if isinstance(step, Store):
                place = _view(arrays[step.array], step.map, rows, program.columns)
                place[...] = values[step.operand]
                values.append(None)
                continue
            value = _value(program, step, rows, arrays, arguments, values)
            if isinstance(step, Load) and step.array in stored:
                value = value.copy()
            values.append(value)


def _value(program: Program, step: Any, rows: int, arrays: Sequence[np.ndarray],
           arguments: Sequence[Any], values: list[Any]) -> Any:
    if isinstance(step, Load):
        return _view(arrays[step.array], step.map, rows, program.columns)
    if isinstance(step, Constant):
        return np.full((1, 1), step.value, numpy_dtype(step.dtype))
    if isinstance(step, Argument):
        return np.full((1, 1), arguments[step.number], numpy_dtype(step.dtype))
    if isinstance(step, Column):
        return np.arange(program.columns, dtype=step.dtype)[None]
    if isinstance(step, Elementwise):
        return _apply(step, [values[o] for o in step.operands])
    assert isinstance(step, (RowReduce, ColumnReduce))
    axis, count = (1, program.columns) if isinstance(step, RowReduce) else (0, rows)
    return _reduced(step, values[step.operand], axis, count)


def _apply(step: Elementwise, operands: list[np.ndarray]) -> np.ndarray:
    if step.function == SELECT:
        return np.where(*operands)
    if step.function == CAST:
        return operands[0].astype(numpy_dtype(step.dtype))
    return np.asarray(MEANINGS[step.function].numpy(*operands))


def _reduced(step: RowReduce | ColumnReduce, value: np.ndarray, axis: int,
             count: int) -> np.ndarray:
    """Over an axis along which the value may be the same everywhere."""
    dtype = numpy_dtype(step.dtype)
    shape = list(value.shape)
    shape[axis] = count
    value = np.broadcast_to(value, shape)
    wide = numpy_dtype(wide_dtype(step.dtype))
    start = start_of(step.function, step.dtype)
    found = REDUCTIONS[step.function].numpy.reduce(
        value.astype(wide, copy=False), axis, keepdims=True, initial=wide.type(start))
    return np.asarray(found).astype(dtype, copy=False)


def _view(array: np.ndarray, where: Map, rows: int, columns: int) -> np.ndarray:
    """The elements of a map as a matrix, of one row or column where it has none."""
    flat = array.reshape(-1)
    row = columns if where.row is None else where.row
    size = array.itemsize
    shape = (rows if row else 1, columns if where.column else 1)
    if 0 in shape:
        return np.empty(shape, array.dtype)
    return as_strided(flat[where.offset:], shape, (row * size, where.column * size))
