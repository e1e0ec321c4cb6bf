"""Who owns which memory: fetched values, feeds, constants, variables, and reuse inside a region."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config, raw_ops

START = [[1.0, 2.0], [3.0, 4.0]]


@pytest.fixture
def x(graph):
    return hf.placeholder(hf.float32, [2, 2], name="x")


@pytest.fixture
def v(graph):
    return hf.Variable(START, name="v")


@pytest.fixture
def source(monkeypatch, capfd, graph):
    """A function of (fetches, feeds) that returns the generated code."""
    monkeypatch.setattr(config.flags, "print_source", True)

    def generate(fetches, feeds=None):
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            capfd.readouterr()
            session.run(fetches, feeds)
        return capfd.readouterr().err

    return generate


# ---------------------------------------------------------------- what comes out


def spoil(value):
    """Change every array in `value`."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, np.ndarray) and item.ndim:
            item[...] = -77


def test_fetched_values_belong_to_the_client(form, x, v, session):
    session.run(v.initializer)
    constant = hf.constant(START)
    fetches = [
        x, v, constant, hf.identity(x), hf.identity(constant), v.value(), v.read_value(),
        hf.reshape(v, [4]), hf.transpose(x), hf.reshape(constant, [1, 4]), x + 1.0,
        hf.identity(x + 1.0), x[0], constant[:, 1], hf.unstack(x + 2.0)[0],
        raw_ops.StopGradient(input=v.value()), hf.shape(x), v.assign(START),
    ]  # fmt: skip
    feed = np.array(START, np.float32)
    expected = None
    for _ in range(3):
        got = session.run(fetches, {x: feed})
        copies = [np.array(g) for g in got]
        expected = expected or copies
        for a, b in zip(got, expected):
            np.testing.assert_array_equal(a, b)
        for i, a in enumerate(got):
            assert not np.shares_memory(a, feed)
            assert not any(np.shares_memory(a, b) for b in got[:i])
            assert a.flags.writeable
        spoil(got)
        assert feed.tolist() == START
    assert session.run(v).tolist() == START


def test_results_of_one_operation_are_not_copied_for_the_client(graph, session):
    x, channels = hf.random_normal([2, 4, 4, 8]), hf.ones([8])
    results = hf.nn.fused_batch_norm(x, channels, channels)
    top = hf.nn.top_k(hf.reshape(x, [-1, 8]), 3)
    for _ in range(2):
        got = session.run([*results, *top])
        assert all(g.base is None and g.flags.writeable for g in got)
        assert not any(np.shares_memory(a, b) for i, a in enumerate(got) for b in got[:i])
        spoil(got)


@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_a_normalization_are_not_those_that_came_in(graph, session, training):
    given = [] if training else hf.Variable(hf.ones([8]))
    results = raw_ops.FusedBatchNorm(
        x=hf.ones([2, 4, 4, 8]), scale=hf.ones([8]), offset=hf.zeros([8]), mean=given,
        variance=given, is_training=training)
    session.run(hf.global_variables_initializer())
    first = session.run(list(results))
    spoil(session.run(list(results)))
    for a, b in zip(first, session.run(list(results))):
        np.testing.assert_array_equal(a, b)


def test_feeds_are_not_written(form, x, v, session):
    session.run(v.initializer)
    feed = np.array(START, np.float32)
    feed.flags.writeable = False
    updates = hf.group(v.assign(x), v.assign_add(x))
    with hf.control_dependencies([updates]):
        results = [x * 2.0 + 1.0, hf.negative(x), hf.nn.relu(x) + x, v.read_value()]
    session.run(results, {x: feed})
    assert feed.tolist() == START


def test_a_feed_changed_after_the_step(form, x, v, session):
    feed = np.array(START, np.float32)
    session.run(v.assign(x).op, {x: feed})
    feed[...] = 9
    assert session.run(v).tolist() == START
    session.run(v.assign_add(x).op, {x: np.ones((2, 2))})
    assert feed.tolist() == [[9, 9], [9, 9]]


def test_constants_are_not_written(form, v, session):
    c = hf.constant(START)
    first = v.assign(c)
    session.run(first)
    session.run(v.assign_add(c))
    session.run(raw_ops.ApplyGradientDescent(var=v._ref(), alpha=1.0, delta=c))
    assert session.run(v).tolist() == START
    assert session.run(c + 0.0).tolist() == START
    session.run(first)
    session.run(hf.scatter_update(v, [0], [[7.0, 7.0]]))
    assert session.run(c).tolist() == START


# ---------------------------------------------------------------- snapshots


def test_a_value_read_before_an_update_keeps_its_value(form, v, session):
    session.run(v.initializer)
    before = v.read_value()
    view = hf.reshape(before, [4])
    column = before[:, 0]
    with hf.control_dependencies([before, view, column]):
        update = v.assign_add([[10.0, 10.0], [10.0, 10.0]])
    with hf.control_dependencies([update]):
        after = v.read_value() + 0.0
        difference = after - before
        with hf.control_dependencies([v.assign_sub([[1.0, 1.0], [1.0, 1.0]])]):
            last = hf.identity(after)
    for step in range(3):
        base = np.array(START) + 9 * step
        got = session.run([before, view, column, after, difference, last])
        np.testing.assert_array_equal(got[0], base)
        np.testing.assert_array_equal(got[1], base.reshape(4))
        np.testing.assert_array_equal(got[2], base[:, 0])
        np.testing.assert_array_equal(got[3], base + 10)
        np.testing.assert_array_equal(got[4], np.full((2, 2), 10))
        np.testing.assert_array_equal(got[5], base + 10)


def test_free_reads_come_before_updates(form, v, session):
    """Unordered reads see the value that the step began with, wherever they were built; what is
    fetched of the variable itself is the new one."""
    session.run(v.initializer)
    update = v.assign_add(START)
    read = v + 0.0
    total = hf.reduce_sum(v * 2.0)
    values = session.run([update.op, read, total, v])
    assert values[1].tolist() == START
    assert values[2] == 20
    assert values[3].tolist() == [[2 * x for x in row] for row in START]


def test_gradients_see_the_values_that_the_update_replaces(form, v, session):
    """The shape of every optimizer: the update uses what was computed from the old value."""
    session.run(v.initializer)
    loss = hf.reduce_sum(hf.square(v))
    grad = 2.0 * v
    update = raw_ops.ApplyGradientDescent(var=v._ref(), alpha=0.25, delta=grad)
    values = [session.run([loss, update.op])[0] for _ in range(3)]
    assert values == [30, 7.5, 1.875]


def test_results_of_earlier_runs_do_not_change(form, v, session):
    session.run(v.initializer)
    update = v.assign_add(START)
    kept = [session.run(v)]
    for _ in range(3):
        kept.append(session.run(update))
    for i, value in enumerate(kept):
        np.testing.assert_array_equal(value, np.array(START) * (i + 1))


def test_scalars(form, graph, session):
    v = hf.Variable(1.0)
    session.run(v.initializer)
    before = v.read_value()
    with hf.control_dependencies([before]):
        update = v.assign_add(1.0)
    with hf.control_dependencies([update]):
        total = before + v.read_value()
    assert session.run([total, before]) == [3, 1]
    assert type(session.run(v)) is np.float32


def test_updates_are_in_place_where_nobody_looks(form, v, session):
    """No copy is made in the usual course of training."""
    session.run(v.initializer)
    grad = v * 0.5
    update = raw_ops.ApplyGradientDescent(var=v._ref(), alpha=0.1, delta=grad)
    session.run(update.op)
    (state,) = [r for _, _, r in session._engine.task.resources.items("variable")]
    address = state.value.ctypes.data
    for _ in range(3):
        session.run(update.op)
        session.run(v)
        session.run(v.assign_add(START).op)
    assert state.value.ctypes.data == address


# ---------------------------------------------------------------- reuse


def test_temporaries_are_reused(x, source):
    y = hf.sqrt(hf.square(x) + 1.0) * x - 3.0
    code = source(y, {x: np.ones((2, 2))})
    assert code.count("out=") == 4, code


def test_what_is_needed_later_is_not_reused(form, x, session):
    a = x + 1.0
    b = a * 2.0
    c = b - a
    d = hf.exp(a * 0.0)
    e = hf.identity(a) + d
    feed = np.array(START, np.float32)
    got = session.run([c, e, b, a], {x: feed})
    np.testing.assert_array_equal(got[3], feed + 1)
    np.testing.assert_array_equal(got[2], 2 * (feed + 1))
    np.testing.assert_array_equal(got[0], feed + 1)
    np.testing.assert_array_equal(got[1], feed + 2)


def test_views_are_not_overwritten(form, x, session):
    a = x + 1.0
    view = hf.reshape(a, [4])
    turned = hf.transpose(a)
    b = a * 2.0  # the last use of `a`, but its views live on
    c = view + 1.0
    got = session.run([b, c, turned, view], {x: START})
    np.testing.assert_array_equal(got[0], [[4, 6], [8, 10]])
    np.testing.assert_array_equal(got[1], [3, 4, 5, 6])
    np.testing.assert_array_equal(got[2], [[2, 4], [3, 5]])
    np.testing.assert_array_equal(got[3], [2, 3, 4, 5])


def test_no_reuse_across_broadcasts_and_types(form, graph, session):
    x = hf.placeholder(hf.float32, [None, 2])
    y = hf.placeholder(hf.float32, [None, 2])
    total = (x + 1.0) * (y + 2.0)  # one of them may have one row
    less = (x + 0.0) < (y + 0.0)
    for a, b in [((1, 2), (3, 2)), ((3, 2), (1, 2)), ((3, 2), (3, 2))]:
        one, two = np.ones(a, np.float32), np.ones(b, np.float32)
        got = session.run([total, less], {x: one, y: two})
        np.testing.assert_array_equal(got[0], np.full((max(a[0], b[0]), 2), 6))
        assert got[1].dtype == bool


def test_the_same_operand_twice(form, x, session):
    a = x + 1.0
    assert session.run(a * a, {x: START}).tolist() == [[4, 9], [16, 25]]
    assert session.run((a - a) + (a + a) * 0.5, {x: START}).tolist() == [[2, 3], [4, 5]]


def test_large_regions(form, graph, session):
    x = hf.placeholder(hf.float32, [3])
    y = x
    for i in range(1500):
        y = y + 1.0 if i % 3 else y * 1.0
    np.testing.assert_array_equal(session.run(y, {x: [1, 2, 3]}), [1001, 1002, 1003])


def test_many_inputs_and_outputs(form, graph, session):
    xs = [hf.placeholder(hf.float32, [2]) for _ in range(300)]
    total = hf.add_n(xs)
    with hf.device("/cpu:0"):
        ys = [x + float(i) for i, x in enumerate(xs)]
    values = session.run([total, *ys], {x: [i, i] for i, x in enumerate(xs)})
    assert values[0][0] == sum(range(300))
    assert [v[0] for v in values[1:]] == [2 * i for i in range(300)]


def test_values_are_dropped_after_their_last_use(x, source):
    code = source(hf.matmul(hf.matmul(hf.matmul(x, x), x), x), {x: START})
    assert "del v" in code, code


# ---------------------------------------------------------------- what assignments take over


def test_an_assignment_keeps_what_nobody_else_has(x, v, source):
    assert "own=True" in source(v.assign(x + 1.0).op, {x: START})


def test_an_assignment_copies_what_others_have(x, v, source):
    w, total = hf.Variable(START), x + 1.0
    with hf.control_dependencies([v.assign(total).op, w.assign(total).op]):
        after = hf.matmul(total, total)
    for fetches in (v.assign(x).op, v.assign(hf.transpose(x + 1.0)).op, [total, v.assign(total).op],
                    after, v.assign(hf.identity(w.read_value())).op, v.assign(START).op):
        assert "own=True" not in source(fetches, {x: START})


def test_assigned_values_stay_apart(form, x, v, session):
    w = hf.Variable(START)
    total = x + 1.0
    with hf.control_dependencies([v.assign(total), w.assign(total)]):
        changed = [v.assign_add(total), w.assign_sub(total)]
    session.run([v.initializer, w.initializer])
    for _ in range(2):
        got = session.run([total, *changed], {x: START})
        assert [g.tolist() for g in got] == [[[2, 3], [4, 5]], [[4, 6], [8, 10]], [[0, 0], [0, 0]]]
        spoil(got)
        assert session.run(v).tolist() == [[4, 6], [8, 10]]
        assert session.run(w).tolist() == [[0, 0], [0, 0]]


def test_initial_values_are_made_once(graph, monkeypatch):
    monkeypatch.setattr(config.flags, "compile", True)
    weights = hf.Variable(hf.truncated_normal([1000, 2000], stddev=0.1))
    with hf.Session() as session:
        tracemalloc.start()
        session.run(weights.initializer)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 1.5 * 8e6
