"""Runs of lines whose rows are independent: line by line, and as loops on several threads."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs
from thresholds import forget_loops, lower, use_pool

import hpcflow as hf
from hpcflow import config
from hpcflow.compiler.native.group_call import GroupCall
from hpcflow.host import threads
from hpcflow.loops import compiling

ROWS, COLUMNS = 37, 24
pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")


@pytest.fixture
def loops(monkeypatch, pool):
    """Loops are compiled at once, in parts of few rows, also over small arrays; their calls."""
    lower(monkeypatch, "LINES_FEWEST", "LINES_LARGE", "LINES_FLAT_CALL", "LINES_CALL",
          "COMPILE_WORTH_SECONDS", "PARALLEL_LARGE_BYTES", "PARALLEL_LEAST_BYTES")
    forget_loops(monkeypatch)
    calls = []
    make = GroupCall._make

    def counted(self, *arguments):
        calls.append(self)
        return make(self, *arguments)

    monkeypatch.setattr(GroupCall, "_make", counted)
    return calls


def run_both(monkeypatch, calls, fetches, feeds):
    """The fetches node by node, and by loops once these are compiled; `calls` are the last ones."""
    found = []
    for is_compiled in (False, True):
        monkeypatch.setattr(config.flags, "compile", is_compiled)
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            if is_compiled:
                session.run(fetches, feeds)
                compiling.wait()
            calls.clear()
            found.append(session.run(fetches, feeds))
    return found


def same(found, expected):
    """Functions differ in the last bits, and sums are formed in another order."""
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=3e-6, atol=3e-6)


def data(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def layer_norm(x, gamma):
    centered = x - hf.reduce_mean(x, 1, keep_dims=True)
    variance = hf.reduce_mean(hf.square(centered), 1, keep_dims=True)
    return centered * hf.rsqrt(variance + 1e-6) * gamma


def softmax(x, gamma):
    e = hf.exp(x - hf.reduce_max(x, 1, keep_dims=True))
    return e / hf.reduce_sum(e, 1, keep_dims=True)


def batch_norm(x, gamma):
    return (x - gamma) * hf.rsqrt(hf.square(gamma) + 1e-3) * gamma + 1.0


def masked(x, gamma):
    mask = hf.logical_and(hf.greater(x, gamma), hf.logical_not(hf.less(x * x, 0.25)))
    return hf.where(hf.logical_or(mask, x > 1.0), x * 0.2, hf.cast(mask, hf.float32) - x)


def bytes_of(x, gamma):
    return (hf.cast(hf.cast(hf.abs(x) * 90.0, hf.uint8), hf.float32) - gamma) / 7.0


def rows_of_rank_1(x, gamma):
    return hf.reduce_sum(x * gamma, 1) * 2.0 - hf.reduce_max(x, [1])


FORMULAS = [layer_norm, softmax, batch_norm, masked, bytes_of, rows_of_rank_1]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("count", [ROWS, None])
def test_formulas(graph, monkeypatch, loops, formula, count):
    x = hf.placeholder(hf.float32, [count, COLUMNS])
    gamma = hf.Variable(data(1, COLUMNS))
    feeds = {x: data(0, ROWS, COLUMNS)}
    expected, found = run_both(monkeypatch, loops, formula(x, gamma), feeds)
    same(found, expected)
    assert len([b for b in loops if len(b.group.shape) == 2]) == 1


@pairs(
    ("keep", [False, True]),
    ("axes", [None, 0, [0, 1], [-2, 0]]),
    ("kind", ["sum", "mean", "max", "min"]),
)
def test_reductions_at_the_end(graph, monkeypatch, loops, kind, axes, keep):
    """Exact for integers; sums of floats are formed in another order."""
    reduce = getattr(hf, f"reduce_{kind}")
    for dtype in (hf.float32, hf.int32):
        x = hf.placeholder(dtype, [ROWS, 2, COLUMNS])
        y = reduce(hf.abs(x) + 1, axes, keep_dims=keep)
        value = (data(0, ROWS, 2, COLUMNS) * (1 if dtype is hf.float32 else 9)).astype(
            dtype.as_numpy_dtype)
        expected, found = run_both(monkeypatch, loops, [y, y * 2], {x: value})
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape and a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=3e-6 if dtype is hf.float32 else 0)
        assert loops


def random_program(random, count):
    """Placeholders, values for them, and some results of ops that may share rows."""
    dims = [(count, COLUMNS), (count, COLUMNS), (count, 1), (COLUMNS,), (1, COLUMNS), ()]
    inputs = [hf.placeholder(hf.float32, d) for d in dims]
    values = list(inputs)
    for _ in range(random.randint(4, 25)):
        x, y = (values[random.randint(len(values))] for _ in range(2))
        kind = random.randint(8)
        if kind < 3:
            made = [hf.add, hf.multiply, hf.maximum, hf.subtract][random.randint(4)](x, y)
        elif kind == 3:
            made = [hf.nn.relu6, hf.tanh, hf.nn.elu, hf.negative, hf.erf][random.randint(5)](x)
        elif kind == 4:
            made = hf.cast(hf.greater(x, y), hf.float32)
        elif kind == 5:
            made = hf.where(hf.less(x, 0.5), x, -x)
        elif kind == 6:
            made = hf.cast(hf.clip_by_value(hf.cast(x, hf.int32), -9, 9), hf.float32)
        elif x.shape.ndims == 2:
            made = hf.reduce_max(x, random.randint(2), keep_dims=True)
        else:
            made = x + 1
        values.append(made)
    picked = [values[-1]] + [values[i] for i in random.choice(len(values), 3)]
    feeds = {t: data(i, *[ROWS if d is None else d for d in dims[i]])
             for i, t in enumerate(inputs)}
    return picked, feeds


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(graph, monkeypatch, loops, seed):
    random = np.random.RandomState(seed)
    # As many rows as columns: then a vector may be taken for either.
    fetches, feeds = random_program(random, (None, ROWS, COLUMNS)[seed % 3])
    expected, found = run_both(monkeypatch, loops, fetches, feeds)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 3e-5, 3e-5, err_msg=f"seed {seed}")


def test_rows_that_differ_after_all(graph, monkeypatch, loops):
    """One row is broadcast to others; an error names its op."""
    x, y = (hf.placeholder(hf.float32, [None, COLUMNS]) for _ in range(2))
    z = hf.cast(hf.greater(hf.add(x * 2, y, name="the_sum"), 0.0), hf.float32)
    feeds = {x: data(0, ROWS, COLUMNS), y: data(1, 1, COLUMNS)}
    expected, found = run_both(monkeypatch, loops, z, feeds)
    np.testing.assert_array_equal(found, expected)
    assert not loops
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="the_sum"):
        session.run(z, {x: data(0, 3, COLUMNS), y: data(0, 2, COLUMNS)})


@pytest.mark.parametrize("count", [ROWS, None])
def test_numbers_that_are_repeated_in_rows(graph, monkeypatch, loops, count):
    x = hf.placeholder(hf.float32, [count, COLUMNS])
    largest = hf.reduce_max(x, 1, keep_dims=True)
    repeated = hf.broadcast_to(largest, hf.shape(x))
    fetches = [repeated - x, hf.cast(hf.broadcast_to(largest, hf.shape(x)), hf.int32)]
    expected, found = run_both(monkeypatch, loops, fetches, {x: data(0, ROWS, COLUMNS)})
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(loops) == 1 or count is None  # then rows may be repeated


def test_an_error_beside_loops_names_its_op(graph, monkeypatch, loops):
    x = hf.placeholder(hf.int32, [ROWS, COLUMNS])
    z = hf.cast(hf.floordiv(x, x - 5, name="the_quotient"), hf.float32)
    value = np.full((ROWS, COLUMNS), 7)
    expected, found = run_both(monkeypatch, loops, z, {x: value})
    np.testing.assert_array_equal(found, expected)
    value[ROWS - 1] = 5
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError,
                                                match="the_quotient"):
        session.run(z, {x: value})


def test_leading_axes_of_one_shape_are_taken_as_one(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [2, 30, 40])
    y = hf.cast(hf.greater(x, 0.5), hf.float32) * list(range(40))
    value = data(0, 2, 30, 40)
    for fed in (value, np.asfortranarray(value)):
        expected, found = run_both(monkeypatch, loops, y, {x: fed})
        np.testing.assert_array_equal(found, expected)
    assert loops[0]._split == 2


def test_only_what_ends_is_overwritten(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [ROWS, ROWS])
    product = hf.matmul(x, x)
    y = product - hf.reduce_max(x, 1, keep_dims=True) + hf.reduce_max(x, 1, keep_dims=True)
    variable = hf.Variable(data(1, ROWS, ROWS))
    z = (variable + [1.0] * ROWS) * 2.0
    value = data(0, ROWS, ROWS)
    expected, found = run_both(monkeypatch, loops, [y, z, variable], {x: value})
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], (data(1, ROWS, ROWS) + np.float32(1)) * np.float32(2))
    np.testing.assert_array_equal(found[2], data(1, ROWS, ROWS))
    both = run_both(monkeypatch, loops, [y, product], {x: value})[1]
    np.testing.assert_array_equal(both[1], value @ value)


def test_nothing_is_gained_by_reductions_alone(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [ROWS, COLUMNS])
    run_both(monkeypatch, loops, [hf.reduce_sum(x, 1), hf.reduce_max(x)],
             {x: data(0, ROWS, COLUMNS)})
    assert not loops


def test_sums_do_not_depend_on_the_threads(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [1000, COLUMNS])
    y = hf.reduce_sum(hf.square(x) * [1.5] * COLUMNS)
    monkeypatch.setattr(config.flags, "compile", True)
    found = set()
    with hf.Session() as session:
        session.run(y, {x: data(0, 1000, COLUMNS)})
        compiling.wait()
        for count in (1, 2, 3):
            pool = threads.Pool(count)
            use_pool(monkeypatch, pool)
            found.add(float(session.run(y, {x: data(0, 1000, COLUMNS)})))
            pool.close()
    assert len(found) == 1 and len(loops) == 3


def test_few_rows_still_run_as_compiled_loops(graph, monkeypatch):
    """Where the number of rows is not known, runs over one shape have calls inside."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)
    lower(monkeypatch, "LINES_FLAT_CALL", "LINES_CALL")
    x = hf.placeholder(hf.float32, [None, COLUMNS])
    y = hf.cast(hf.greater(((x + 1.0) * x - 2.0) * x, [0.1] * COLUMNS), hf.float32)
    value = data(0, ROWS, COLUMNS)
    one = np.float32(1)
    expected = (((value + one) * value - np.float32(2)) * value > np.float32(0.1)).astype("f")
    monkeypatch.setattr(config.flags, "compile", True)
    with hf.Session() as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run(y, {x: value}), expected)
            compiling.wait()
    assert not compiling.enabled() or [
        c for c in compiling._programs.values() if c.function is not None]
