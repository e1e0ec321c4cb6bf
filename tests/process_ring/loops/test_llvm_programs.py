"""Programs of the form as machine code: they give what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_programs import RandomProgram
from thresholds import lower, use_pool

from hpcflow.host import threads
from hpcflow.loops import compiling, form, form_numpy, llvm_plan, objects
from hpcflow.loops.form import DENSE, ONE, PER_COLUMN, PER_ROW, Builder, Map
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import FLOATS

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="Numba is not installed")
COUNT = iter(range(1 << 30))


def compiled(program: form.Program) -> compiling.Compiled:
    """The code of a program, made here and now."""
    loop = compiling.FormLoop.of(program)
    found = compiling.Compiled(loop)
    found.function, found.entry = objects.functions_of(loop.code(f"test{next(COUNT)}"))
    return found


def run(program: form.Program, rows: int, arrays: list, arguments: Any = ()) -> None:
    FormLoop(program).run(compiled(program), rows, arrays, arguments)


def check(made: RandomProgram, found: list, expected: list) -> None:
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not made.is_loose or theirs.dtype.name not in FLOATS:
            np.testing.assert_array_equal(ours, theirs, f"array {i} of {made.program}")
            continue
        digits = {2: 3e-2, 4: 1e-4, 8: 1e-11}[theirs.dtype.itemsize]
        np.testing.assert_allclose(np.asarray(ours, np.float64), np.asarray(theirs, np.float64),
                                   digits, digits, err_msg=f"array {i} of {made.program}")


DTYPES = [("float32",), ("float64", "int64", "bool"), ("float32", "int32", "bool", "uint8"),
          ("float16", "float32", "bool"), ("bfloat16", "float32", "int32"),
          ("int8", "uint16", "uint32", "int16", "uint64")]


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("rows, columns", [(7, 1), (5, 37), (0, 4), (1, 3)])
@pytest.mark.parametrize("is_special", [False, True])
def test_random_programs(dtypes: tuple, rows: int, columns: int, is_special: bool) -> None:
    for seed in range(4):
        made = RandomProgram(seed, 14, dtypes, rows, columns, is_special)
        if is_special and made.is_loose or not llvm_plan.supports(made.program):
            continue
        expected, found = made.copies(), made.copies()
        form_numpy.run(made.program, rows, expected, made.arguments)
        run(made.program, rows, found, made.arguments)
        check(made, found, expected)
