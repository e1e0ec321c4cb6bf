"""Programs of the form as machine code: they give what the reference gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pairs import pairs
from random_forms import RandomProgram
from thresholds import lower, use_pool

from hpcflow.host import threads
from hpcflow.loops import compiling, form, form_numpy, llvm_plan, objects
from hpcflow.loops.form import DENSE, ONE, PER_COLUMN, PER_ROW, Builder, Map
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import FLOATS

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
COUNT = iter(range(1 << 30))


def compiled(program: form.Program) -> compiling.Compiled:
    """The code of a program, made here and now."""
    loop = compiling.Loop("llvm_code", program)
    found = compiling.Compiled(loop)
    made = objects.functions_of(loop.code(f"test{next(COUNT)}"))
    found.function = made.call
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


@pairs(("dtypes", DTYPES), ("size", [(7, 1), (5, 37), (0, 4), (1, 3)]),
       ("is_special", [False, True]))
def test_random_programs(dtypes: tuple, size: tuple[int, int], is_special: bool) -> None:
    for seed in range(3):
        made = RandomProgram(seed, 14, dtypes, *size, is_special)
        if is_special and made.is_loose or not llvm_plan.supports(made.program):
            continue
        expected, found = made.copies(), made.copies()
        form_numpy.run(made.program, made.rows, expected, made.arguments)
        run(made.program, made.rows, found, made.arguments)
        check(made, found, expected)


def layer_norm(columns: int) -> form.Program:
    """A normalized row times a number for each column, and the sum of each column."""
    b = Builder(columns)
    x, gain = b.load(b.array("float32"), DENSE), b.load(b.array("float32"), PER_COLUMN)
    count = b.constant(columns, "float32")
    centred = b.apply("subtract", x, b.apply("divide", b.reduce_row("sum", x), count))
    spread = b.apply("divide", b.reduce_row("sum", b.apply("square", centred)), count)
    y = b.apply("multiply", b.apply("divide", centred, b.apply("sqrt", spread)), gain)
    b.store(b.array("float32"), DENSE, y)
    b.store(b.array("float32"), PER_COLUMN, b.reduce_columns("sum", y))
    return b.program()


def mixed_sum(columns: int) -> form.Program:
    """The sum of all where another array is not negative, and the largest of all."""
    b = Builder(columns)
    x, k = b.load(b.array("float64"), DENSE), b.load(b.array("int32"), DENSE)
    kept = b.select(b.apply("greater_equal", k, b.constant(0, "int32")), x,
                    b.constant(0.0, "float64"))
    b.store(b.array("float64"), PER_COLUMN, b.reduce_columns("sum", kept))
    b.store(b.array("float64"), PER_COLUMN, b.reduce_columns("max", x))
    return b.program()


@pytest.mark.parametrize("make, columns", [(layer_norm, 24), (mixed_sum, 1), (mixed_sum, 19)])
def test_the_bits_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, make: Any,
                                           columns: int) -> None:
    lower(monkeypatch, "PARALLEL_LARGE_BYTES", "PARALLEL_SUM_LEAST")
    program, rows = make(columns), 5003 // columns
    loop, drawn = compiled(program), np.random.default_rng(0)
    stored, results = program.stored(), []
    given = [np.zeros(rows * columns, t) if i in stored else
             (10 * drawn.standard_normal(rows * columns)).astype(t)
             for i, t in enumerate(program.arrays)]
    for size in (1, 2, 3):
        pool = threads.Pool(size)
        use_pool(monkeypatch, pool)
        results.append([a.copy() for a in given])
        FormLoop(program).run(loop, rows, results[-1])
        pool.close()
    form_numpy.run(program, rows, given)
    for one, two, three, expected in zip(*results, given, strict=True):
        assert one.tobytes() == two.tobytes() == three.tobytes()
        np.testing.assert_allclose(one, expected, 1e-4, 1e-4)


def test_what_is_written_in_its_place() -> None:
    """A row that is normalized in the array that it is read from."""
    b = Builder(9)
    a = b.array("float64")
    x = b.load(a, DENSE)
    b.store(a, DENSE, b.apply("divide", x, b.reduce_row("sum", x)))
    b.store(b.array("float64"), PER_ROW, b.reduce_row("max", x))
    given = np.random.default_rng(0).random((4, 9)) + 1
    largest, expected = np.zeros(4), given / given.sum(1, keepdims=True)
    most = given.max(1)
    run(b.program(), 4, [given, largest])
    np.testing.assert_allclose(given, expected, 1e-14)
    np.testing.assert_array_equal(largest, most)


def test_what_overlaps_is_refused() -> None:
    b = Builder(4)
    a = b.array("float32")
    b.store(a, Map(4, 1, 1), b.load(a, Map(4, 1)))
    assert not llvm_plan.supports(b.program())


def test_arrays_that_do_not_fit_are_refused() -> None:
    b = Builder(1)
    b.store(b.array("float32"), DENSE, b.load(b.array("float32"), ONE))
    program = b.program()
    loop, target = compiled(program), np.zeros(4, np.float32)
    for bad in (np.ones(1), np.ones(2, np.float32)[::-1], [1.0]):
        with pytest.raises(TypeError):
            FormLoop(program).run(loop, 4, [target, bad])
    assert not target.any()
