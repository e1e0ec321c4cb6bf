"""Runs of element-wise ops: line by line, and compiled, on several threads."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from speed import patience
from thresholds import forget_loops, lower, set_threshold, use_pool

import hpcflow as hf
from hpcflow import config
from hpcflow.host import threads, tuning
from hpcflow.kernels.training import block_rules, ftrl_rules, moment_rules, update_rules
from hpcflow.loops import compiling

COMPILER = pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler")
DTYPES = {"f": hf.float32, "d": hf.float64, "i": hf.int32, "l": hf.int64}


@pytest.fixture
def eager(monkeypatch):
    """Programs are compiled at once, and used from the second call on."""
    lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    forget_loops(monkeypatch)


def small_parts(monkeypatch):
    for name, value in (("LINES_LARGE", 1), ("LINES_FLAT_CALL", 0)):
        monkeypatch.setattr(tuning.compiler, name, value)


def random_program(random, kind, shape, compiles):
    """Placeholders, values for them, and some results of 3 to 20 element-wise ops."""
    dtype = DTYPES[kind]
    inputs = [hf.placeholder(dtype, shape) for _ in range(3)] + [hf.placeholder(dtype, [])]
    binary = [hf.add, hf.subtract, hf.multiply, hf.maximum, hf.minimum]
    unary = [hf.negative, hf.square]
    if kind in "fd":
        binary.append(hf.divide)
        unary += [hf.sqrt, hf.abs, hf.sign]
        if not compiles:
            unary += [hf.exp, hf.tanh, hf.sigmoid, hf.log, hf.nn.softplus, hf.sin]
    values = inputs[:3]
    for _ in range(random.randint(3, 21)):
        x = values[random.randint(len(values))]
        if random.rand() < 0.3:
            values.append(unary[random.randint(len(unary))](x))
        else:
            pool = [*values, inputs[3]]
            values.append(binary[random.randint(len(binary))](x, pool[random.randint(len(pool))]))
    picked = [values[-1]] + [values[i] for i in random.choice(len(values), 2)]
    return inputs, picked


def data(random, dtype, shape):
    if dtype.kind == "i":
        return random.randint(-2**31, 2**31 - 1, shape).astype(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -1.5], dtype)
    array = random.standard_normal(shape).astype(dtype)
    return np.where(random.random_sample(shape) < 0.1, random.choice(special, shape), array).astype(
        dtype)[()]


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("seed", range(3))
def test_every_way_gives_the_same(monkeypatch, eager, pool, kind, seed):
    random = np.random.RandomState(seed)
    static = (7, 211) if seed % 2 else (None, 211)
    with hf.Graph().as_default():
        inputs, fetches = random_program(random, kind, static, seed % 3 > 0)
        feeds = {t: data(random, t.dtype.np, (7, 211) if t is not inputs[3] else ())
                 for t in inputs}
        monkeypatch.setattr(config.flags, "compile", False)
        with hf.Session() as session:
            expected = session.run(fetches, feeds)
        monkeypatch.setattr(config.flags, "compile", True)
        found = {}
        with hf.Session() as session:
            lower(monkeypatch, "LINES_FLAT_CALL")
            found["lines"] = session.run(fetches, feeds)
            small_parts(monkeypatch)
            found["asked for"] = session.run(fetches, feeds)
            compiling.wait()
            found["compiled"] = session.run(fetches, feeds)
            found["again"] = session.run(fetches, feeds)
    for way, values in found.items():
        for a, b in zip(values, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=f"{way}, seed {seed}")


@COMPILER
def test_a_first_run_compiles_nothing(graph, monkeypatch):
    monkeypatch.setattr(config.flags, "compile", True)
    monkeypatch.setattr(config.flags, "loop_cache", "0")
    forget_loops(monkeypatch)
    x = hf.placeholder(hf.float32, [1000])
    y = x
    for _ in range(10):
        y = y * 1.5 + x
    with hf.Session() as session:
        session.run(y, {x: np.ones(1000)})
        compiling.wait()
        (found,) = compiling._programs.values()
        assert found.function is None
        for _ in range(40_000):
            session.run(y, {x: np.ones(1000, np.float32)})
            if found.is_wanted:
                break
        compiling.wait()
        assert found.function is not None


def test_shapes_that_differ_after_all(graph, eager, monkeypatch):
    """Broadcasting, and an error that names its op."""
    monkeypatch.setattr(config.flags, "compile", True)
    small_parts(monkeypatch)
    x, y = hf.placeholder(hf.float32, [None]), hf.placeholder(hf.float32, [None])
    z = hf.add(hf.negative(x * 2) + 1, y, name="the_sum")
    with hf.Session() as session:
        for _ in range(2):
            np.testing.assert_array_equal(session.run(z, {x: [1, 2], y: [5]}), [4, 2])
            with pytest.raises(hf.errors.InvalidArgumentError, match="the_sum"):
                session.run(z, {x: [1, 2], y: [5, 6, 7]})
            compiling.wait()


def test_a_kernel_that_fails_in_a_block(graph, monkeypatch):
    """The error names the op, and what was there before is still there."""
    monkeypatch.setattr(config.flags, "compile", True)
    small_parts(monkeypatch)
    x, y = hf.placeholder(hf.int32, [500]), hf.placeholder(hf.int32, [500])
    z = hf.floordiv(x + 1, y * 2 - 2, name="the_quotient") + 1
    feeds = {x: np.arange(500), y: np.arange(500) + 2}
    with hf.Session() as session:
        expected = (np.arange(500) + 1) // (np.arange(500) * 2 + 2) + 1
        np.testing.assert_array_equal(session.run(z, feeds), expected)
        feeds[y] = np.arange(500)
        with pytest.raises(hf.errors.InvalidArgumentError, match="the_quotient"):
            session.run(z, feeds)


def test_dead_values_are_overwritten(graph, monkeypatch):
    """Blocks go into the memory of a value that ends there; a value that lives on stays."""
    monkeypatch.setattr(config.flags, "compile", True)
    small_parts(monkeypatch)
    x = hf.placeholder(hf.float32, [64, 64])
    product = hf.matmul(x, x)
    y = hf.tanh(product * 2) + 1
    _, looped = hf.while_loop(lambda i, t: i < 3, lambda i, t: [i + 1, t + hf.tanh(product * 2)],
                              [0, product])
    value = np.random.RandomState(0).standard_normal((64, 64)).astype(np.float32)
    with hf.Session() as session:
        p = value @ value
        np.testing.assert_array_equal(session.run(y, {x: value}), np.tanh(p * 2) + 1)
        expected = ((p + np.tanh(p * 2)) + np.tanh(p * 2)) + np.tanh(p * 2)
        np.testing.assert_array_equal(session.run(looped, {x: value}), expected)
        both = session.run([y, product, looped], {x: value})
        np.testing.assert_array_equal(both[1], p)
        np.testing.assert_array_equal(both[2], expected)


def test_vectors_with_gaps(graph, eager, monkeypatch):
    """A matrix whose columns are every second of another's is a vector with gaps; and one that lies
    at an odd address."""
    monkeypatch.setattr(config.flags, "compile", True)
    small_parts(monkeypatch)
    x = hf.placeholder(hf.float32, [30, 40])
    even, odd_columns = x[:, ::2], x[:, 1::2]
    y = (even + 1.0) * 2.0 - odd_columns
    values = np.random.RandomState(0).rand(30, 40).astype(np.float32)
    odd = np.empty(values.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(30, 40)
    odd[...] = values
    expected = (values[:, ::2] + np.float32(1)) * np.float32(2) - values[:, 1::2]
    with hf.Session() as session:
        for fed in (values, values, odd):
            np.testing.assert_array_equal(session.run(y, {x: fed}), expected)
            compiling.wait()


def test_inputs_stay_as_they_are(graph, eager, monkeypatch):
    monkeypatch.setattr(config.flags, "compile", True)
    small_parts(monkeypatch)
    v = hf.Variable(hf.ones([300]))
    y = (v * 2 + 1) * 3
    with hf.Session() as session:
        session.run(v.initializer)
        first = session.run([y, v])
        compiling.wait()
        second = session.run([y, v])
        assert first[0].tolist() == second[0].tolist() == [9.0] * 300
        assert session.run(v).tolist() == [1.0] * 300
        assert not np.shares_memory(first[0], second[0])


# ---------------------------------------------------------------- training updates

RULES = {
    "gradient_descent": (2, 1, 1), "momentum": (3, 2, 1), "nesterov_momentum": (3, 2, 1),
    "adagrad": (3, 1, 1), "adagrad_da": (4, 4, 2), "proximal_gradient_descent": (2, 3, 2),
    "proximal_adagrad": (3, 3, 3), "adam": (4, 4, 2), "rms_prop": (4, 4, 2),
    "centered_rms_prop": (5, 4, 2), "adadelta": (4, 3, 2), "ftrl": (4, 4, 2),
}  # fmt: skip


def _rule(name):
    """The arithmetic of that name, from the module that has it."""
    modules = (update_rules, moment_rules, ftrl_rules)
    return next(getattr(m, name) for m in modules if hasattr(m, name))


@pytest.mark.parametrize("name", RULES)
def test_rules_in_blocks_and_compiled(monkeypatch, eager, pool, name):
    set_threshold(monkeypatch, "RULE_WORKING_SET_BYTES", 8192)
    lower(monkeypatch, "RULE_LEAST_PART")
    count, scalar_count, scratch = RULES[name]
    rule = _rule(name)
    random = np.random.RandomState(1)
    start = [random.uniform(0.1, 1, 5000).astype(np.float32) for _ in range(count)]
    scalars = tuple(np.float32(s) for s in (0.05, 0.2, 0.3, 0.4)[:scalar_count])
    if name == "ftrl":
        scalars = (*scalars[:3], np.float32(-0.5))
        rule = ftrl_rules.for_scalars(rule, scalars)
    expected = [a.copy() for a in start]
    rule(np, expected, scalars, [np.empty_like(start[0]) for _ in range(scratch)])
    for _ in range(2):
        arrays = [a.copy() for a in start]
        block_rules.run_rule(np, rule, arrays, scalars, scratch)
        for a, b in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        compiling.wait()
    if compiling.enabled():
        (found,) = compiling._programs.values()
        assert found.function is not None


@pytest.mark.parametrize(("name", "dtype"), [*[(name, np.float32) for name in RULES],
                                             ("adagrad", np.float64)])
def test_rules_of_small_arrays_compiled(eager, name, dtype):
    """By the loop as without it, also for other scalars than those of the first time."""
    count, scalar_count, scratch = RULES[name]
    rule = _rule(name)
    random = np.random.RandomState(1)
    shapes = ((7, 30), (3,), (0, 4), (1, 1, 1))
    for numbers in ((0.05, 0.2, 0.3, -0.5), (0.5, 0.1, 0.7, -0.25), (0.5, 0.1, 0.7, -0.5)):
        scalars = tuple(dtype(s) for s in numbers[:scalar_count])
        for shape in shapes:
            start = [random.uniform(0.1, 1, shape).astype(dtype) for _ in range(count)]
            expected = [a.copy() for a in start]
            rule(np, expected, scalars, [np.empty(shape, dtype) for _ in range(scratch)])
            block_rules.run_rule(np, rule, start, scalars, scratch)
            for a, b in zip(start, expected, strict=True):
                np.testing.assert_array_equal(a, b)
        compiling.wait()
    if compiling.enabled() and name != "ftrl":  # whose power decides what it does
        (found,) = compiling._programs.values()
        assert found.function is not None


@pytest.mark.parametrize("name", ["momentum", "rms_prop"])
def test_a_rule_is_traced_once(monkeypatch, eager, pool, name):
    """The loop of a large array is known in later steps, with whatever numbers."""
    if not compiling.enabled():
        pytest.skip("there is no compiler")
    set_threshold(monkeypatch, "RULE_WORKING_SET_BYTES", 8192)
    count, scalar_count, scratch = RULES[name]
    rule, calls = _rule(name), []

    def counted(*arguments):
        calls.append(arguments)
        rule(*arguments)

    for k in range(4):
        arrays = [np.full(5000, 0.5, np.float32) for _ in range(count)]
        expected = [a.copy() for a in arrays]
        scalars = tuple(np.float32(s + 0.01 * k) for s in (0.05, 0.2, 0.3, 0.4)[:scalar_count])
        rule(np, expected, scalars, [np.empty_like(arrays[0]) for _ in range(scratch)])
        block_rules.run_rule(np, counted, arrays, scalars, scratch)
        for a, b in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(a, b)
        compiling.wait()
        if k == 1:
            calls.clear()  # from now on there is the loop
    assert not calls


def test_a_compiled_rule_takes_only_what_it_is_for(eager):
    """A gradient that does not lie in order, and rates that are not numbers of its type."""
    rule, random = update_rules.gradient_descent, np.random.RandomState(1)
    start = random.uniform(size=(3, 4)).astype(np.float32)
    for grad in (start * 2, (start * 2).T.copy().T):
        for rate in (np.float32(0.1), np.asarray(np.float32(0.1)), np.float64(0.1)):
            var, expected = start.copy(), start.copy()
            rule(np, [expected, grad], (rate,), [np.empty_like(start)])
            block_rules.run_rule(np, rule, [var, grad], (rate,), 1)
            np.testing.assert_array_equal(var, expected)
            compiling.wait()


# ---------------------------------------------------------------- threads


def test_a_pool_does_every_part_once(pool):
    done = []
    pool.run(done.append, 50)
    assert sorted(done) == list(range(50))


def test_a_pool_raises_what_a_part_raises(pool):
    def part(k):
        if k == 7:
            raise ValueError("seven")

    with pytest.raises(ValueError, match="seven"):
        pool.run(part, 20)
    pool.run(lambda k: None, 20)


def test_a_busy_pool_leaves_the_work_to_its_caller(pool):
    inside, go_on = threading.Event(), threading.Event()

    def part(k):
        inside.set()
        go_on.wait(patience())

    other = threading.Thread(target=lambda: pool.run(part, 3))
    other.start()
    inside.wait(patience())
    names = []
    pool.run(lambda k: names.append(threading.current_thread().name), 4)
    go_on.set()
    other.join(patience())
    assert set(names) == {threading.current_thread().name}


def test_a_session_limits_the_threads(graph, monkeypatch):
    use_pool(monkeypatch, threads.Pool(2))
    before = threads.pool()
    with hf.Session(config=hf.ConfigProto(intra_op_parallelism_threads=1)):
        assert threads.pool().size == 1
    done = []
    before.run(done.append, 3)  # somebody may still hold the pool of before
    assert sorted(done) == [0, 1, 2]


def test_parts_cover_everything():
    for size in (1, 15, 16, 17, 1000, 12345):
        for parts in (1, 2, 3, 7):
            found = threads.bounds(size, parts)
            assert found[0][0] == 0 and found[-1][1] == size and len(found) <= parts
            assert all(a[1] == b[0] for a, b in itertools.pairwise(found))
