"""Groups of lines over rows as compiled loops: the values of the lines, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs
from thresholds import lower, set_threshold, use_pool

import hpcflow as hf
from hpcflow import config
from hpcflow.host import threads, tuning
from hpcflow.loops import compiling, form_loop

pytestmark = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
ROWS, COLUMNS = 37, 24
PROGRAMS: dict = {}  # other tests do not find these loops


@pytest.fixture
def loops(monkeypatch):
    """Loops are compiled after the first step, and run in three threads; those that have run."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    monkeypatch.setattr(compiling, "_programs", PROGRAMS)
    for name in ("LINES_FEWEST", "LINES_LARGE"):
        monkeypatch.setattr(tuning.compiler, name, 1)
    lower(monkeypatch, "LINES_CALL", "LINES_FLAT_CALL")
    lower(monkeypatch, "PARALLEL_SUM_LEAST", "PARALLEL_LARGE_BYTES")
    pool = threads.Pool(3)
    use_pool(monkeypatch, pool)
    found, run = [], form_loop.FormLoop.run

    def counted(self, *arguments):
        run(self, *arguments)
        found.append(self)

    monkeypatch.setattr(form_loop.FormLoop, "run", counted)
    yield found
    pool.close()


def both(monkeypatch, loops, fetches, feeds):
    """The fetches node by node, and by the loops."""
    monkeypatch.setattr(config.flags, "compile", False)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        expected = session.run(fetches, feeds)
    monkeypatch.setattr(config.flags, "compile", True)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for _ in range(3):
            loops.clear()
            found = session.run(fetches, feeds)
            compiling.wait()
    return expected, found


def data(seed, *shape):
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def layer_norm(x, gamma):
    mean, variance = hf.nn.moments(x, [-1], keep_dims=True)
    return (x - mean) * hf.rsqrt(variance + 1e-6) * gamma


def softmax(x, gamma):
    e = hf.exp(x - hf.reduce_max(x, -1, keep_dims=True))
    return e / hf.reduce_sum(e, -1, keep_dims=True) * gamma


def sum_of_rows(x, gamma):
    return hf.reduce_sum(hf.tanh(x) * gamma, -1) * 2.0 - hf.reduce_min(x, [-1])


def arithmetic(x, gamma):
    y = hf.squared_difference(x, gamma) / (hf.abs(x) + 1.5)
    return hf.add_n([y, x * gamma, hf.sqrt(hf.exp(-y))]) - hf.maximum(x, hf.minimum(y, 0.25))


def approximate(x, gamma):
    return hf.sigmoid(x + gamma) * hf.nn.elu(x) + hf.erf(x * gamma)


FORMULAS = [layer_norm, softmax, sum_of_rows, arithmetic, approximate]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("dims", [(ROWS, COLUMNS), (None, COLUMNS), (5, 7, COLUMNS)])
def test_formulas(graph, monkeypatch, loops, formula, dims):
    x = hf.placeholder(hf.float32, dims)
    gamma = hf.Variable(data(1, COLUMNS))
    value = data(0, *(d or ROWS for d in dims))
    (expected,), (found,) = both(monkeypatch, loops, [formula(x, gamma)], {x: value})
    assert len(loops) == 1
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, 2e-6, 2e-6)
    if loops[0].is_exact:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("formula", FORMULAS)
def test_gradients(graph, monkeypatch, loops, formula):
    x = hf.placeholder(hf.float32, [6, ROWS, COLUMNS])
    gamma, beta = hf.Variable(data(1, COLUMNS)), hf.Variable(data(2, COLUMNS))
    y = formula(x, gamma) + beta if formula is not sum_of_rows else formula(x, gamma)
    loss = hf.reduce_sum(y * y)
    wanted = [x, gamma] if formula is sum_of_rows else [x, gamma, beta]
    fetches = [loss, *hf.gradients(loss, wanted)]
    expected, found = both(monkeypatch, loops, fetches, {x: data(0, 6, ROWS, COLUMNS)})
    assert loops
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5 * np.abs(b).max())


@pairs(
    ("keep", [False, True]),
    ("axes", [None, [0, 1], 0]),
    ("kind", ["sum", "mean"]),
)
def test_reductions_at_the_end(graph, monkeypatch, loops, kind, axes, keep):
    reduce = getattr(hf, f"reduce_{kind}")
    x = hf.placeholder(hf.float32, [ROWS, 3, COLUMNS])
    y = hf.tanh(hf.abs(x) + 1.0) * 3.0
    fetches = [reduce(y, axes, keep_dims=keep), y]
    expected, found = both(monkeypatch, loops, fetches, {x: data(0, ROWS, 3, COLUMNS)})
    assert loops
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, 3e-6)


@pytest.mark.parametrize("dtype", [hf.float32, hf.float64])
@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_vectors(graph, monkeypatch, loops, dtype, size):
    x = hf.placeholder(dtype, [size])
    y = hf.tanh(hf.tanh(x * 1.1) * 1.1 + x)
    value = np.random.RandomState(0).standard_normal(size).astype(dtype.as_numpy_dtype)
    expected, found = both(monkeypatch, loops, [y, hf.reduce_sum(y)], {x: value})
    np.testing.assert_allclose(found[0], expected[0], 16 * np.finfo(value.dtype).eps)
    np.testing.assert_allclose(found[1], expected[1], 64 * np.finfo(value.dtype).eps,
                               1e-6 * size**0.5)
    assert loops


def test_numbers_that_are_none(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [ROWS, COLUMNS])
    value = data(0, ROWS, COLUMNS)
    value[3, 5], value[4, 6], value[5] = np.nan, np.inf, -np.inf
    (expected,), (found,) = both(monkeypatch, loops, [softmax(x, hf.constant(1.0))], {x: value})
    assert loops
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, 2e-6)


def test_sums_do_not_depend_on_threads(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [3000, COLUMNS])
    y = hf.tanh(x * x)
    fetches, value = [hf.reduce_sum(y * x, 0), hf.reduce_mean(y * x)], data(0, 3000, COLUMNS)
    _, found = both(monkeypatch, loops, fetches, {x: value})
    assert loops
    set_threshold(monkeypatch, "PARALLEL_LARGE_BYTES", 1 << 40)
    with hf.Session() as session:
        other = session.run(fetches, {x: value})
    for a, b in zip(found, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_do_not_lie_in_order(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [COLUMNS, COLUMNS])
    value = data(0, COLUMNS, COLUMNS)
    y = layer_norm(hf.transpose(x), hf.constant(data(1, COLUMNS)))
    (expected,), (found,) = both(monkeypatch, loops, [y], {x: value})
    np.testing.assert_allclose(found, expected, 2e-6, 2e-6)


def test_numbers_of_rows_that_are_repeated(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [5, 7, COLUMNS])
    mean = hf.reduce_mean(x, -1, keep_dims=True)
    repeated = hf.broadcast_to(mean, [5, 7, COLUMNS])
    fetches = [repeated * 0.5 + x, hf.broadcast_to(mean * 2.0, [5, 7, COLUMNS])]
    expected, found = both(monkeypatch, loops, fetches, {x: data(0, 5, 7, COLUMNS)})
    assert len(loops) == 1
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 2e-6, 2e-6)


@pytest.mark.parametrize("make", [
    lambda x: hf.cast(hf.greater(x * 2.0, 1.0), hf.float32) - x,
    lambda x: hf.cast(hf.cast(x, hf.float64) * 2.0, hf.float32) * x,
    lambda x: hf.where(hf.logical_or(x < -0.5, hf.is_nan(x)), x * 3.0, hf.nn.leaky_relu(x)),
    lambda x: hf.reduce_max(hf.cast(x * 10.0, hf.int32) * 3, [0, 1]),
])
def test_values_of_several_types(graph, monkeypatch, loops, make):
    x = hf.placeholder(hf.float32, [5, 3, COLUMNS])
    value = data(0, 5, 3, COLUMNS)
    value[0, 0, 0] = np.nan if "is_nan" in make.__code__.co_names else 1.0
    expected, found = both(monkeypatch, loops, [make(x)], {x: value})
    np.testing.assert_array_equal(found, expected)
    assert len(loops) == 1


@pytest.mark.parametrize("make", [
    lambda x: hf.reduce_sum(x * x + x, 1, keep_dims=True) * x,
    lambda x: (x + hf.constant(data(3, 1, 3, 1))) * 2.0,
])
def test_what_does_not_fit(graph, monkeypatch, loops, make):
    """Axes between others, and values for some of the axes: what is around them may be a loop."""
    x = hf.placeholder(hf.float32, [5, 3, COLUMNS])
    expected, found = both(monkeypatch, loops, [make(x)], {x: data(0, 5, 3, COLUMNS)})
    np.testing.assert_allclose(found, expected, 2e-6, 2e-6)
    assert all(len(loop.program.instructions) < 9 for loop in loops)


def test_the_deterministic_mode_keeps_to_the_order_of_numpy(graph, monkeypatch, loops):
    monkeypatch.setattr(config.flags, "deterministic", True)
    x = hf.placeholder(hf.float32, [ROWS, COLUMNS])
    y = layer_norm(x, hf.constant(data(1, COLUMNS)))
    (expected,), (found,) = both(monkeypatch, loops, [y], {x: data(0, ROWS, COLUMNS)})
    assert not loops
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(graph, monkeypatch, loops, seed):
    random = np.random.RandomState(seed)
    dims = [(ROWS, 2, COLUMNS), (ROWS, 2, COLUMNS), (ROWS, 2, 1), (COLUMNS,), (1, COLUMNS), ()]
    inputs = [hf.placeholder(hf.float32, d) for d in dims]
    values = list(inputs)
    for _ in range(random.randint(6, 20)):
        x, y = (values[random.randint(len(values))] for _ in range(2))
        kind = random.randint(6)
        if kind < 3:
            made = [hf.add, hf.multiply, hf.maximum, hf.subtract][random.randint(4)](x, y)
        elif kind < 5:
            made = [hf.nn.relu, hf.tanh, hf.negative, hf.square][random.randint(4)](
                hf.minimum(x, 3.0))
        elif x.shape.ndims == 3:
            reduce = [hf.reduce_sum, hf.reduce_mean, hf.reduce_max][random.randint(3)]
            made = reduce(x, -1, keep_dims=True) * 0.1
        else:
            continue
        values.append(made)
    wanted = [v for v in values[len(inputs):] if random.randint(3) == 0] + values[-1:]
    large = [v for v in values if v.shape.ndims == 3 and v not in inputs]
    wanted += [hf.reduce_sum(large[-1], [0, 1])] if large else []
    feeds = {x: data(seed + i, *d) for i, (x, d) in enumerate(zip(inputs, dims))}
    expected, found = both(monkeypatch, loops, wanted, feeds)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5 * max(1.0, np.abs(b).max()))


def test_arrays_that_are_not_aligned(graph, monkeypatch, loops):
    x = hf.placeholder(hf.float32, [ROWS, COLUMNS])
    value = np.frombuffer(b"-" + data(0, ROWS, COLUMNS).tobytes(), np.uint8)[1:].view(np.float32)
    y = layer_norm(x, hf.constant(data(1, COLUMNS)))
    (expected,), (found,) = both(monkeypatch, loops, [y], {x: value.reshape(ROWS, COLUMNS)})
    np.testing.assert_allclose(found, expected, 2e-6, 2e-6)
