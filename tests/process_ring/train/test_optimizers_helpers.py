"""Learning rates, moving averages and clipping."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import optimizers as train
from hpcflow.optimizers import moving_averages


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def evaluate(fetches, feeds=None):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(fetches, feeds)


# ---------------------------------------------------------------- learning rates

STEPS = [0, 1, 5, 9, 10, 11, 25]


@pytest.mark.parametrize("staircase", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_decays(staircase, dtype):
    step = hf.placeholder(dtype, [])
    rates = [decay(0.5, step, 10, 0.8, staircase) for decay in (
        train.exponential_decay, train.natural_exp_decay, train.inverse_time_decay)]
    for x in STEPS:
        p = x // 10 if staircase else x / 10
        expected = [0.5 * 0.8**p, 0.5 * np.exp(-0.8 * p), 0.5 / (1 + 0.8 * p)]
        np.testing.assert_allclose(evaluate(rates, {step: x}), expected, rtol=1e-6)


@pytest.mark.parametrize("cycle", [False, True])
def test_polynomial_decay(cycle):
    step = hf.placeholder(hf.int32, [])
    rate = train.polynomial_decay(0.5, step, 10, 0.1, 2.0, cycle)
    for x in STEPS:
        limit = 10 * max(1, np.ceil(x / 10)) if cycle else 10
        expected = 0.4 * (1 - min(x, limit) / limit) ** 2 + 0.1
        np.testing.assert_allclose(evaluate(rate, {step: x}), expected, rtol=1e-6)


def test_piecewise_constant():
    for dtype, boundaries in (("int32", [2, 5]), ("int64", [2, 5]), ("float32", [2.0, 5.0])):
        x = hf.placeholder(dtype, [])
        rate = train.piecewise_constant(x, boundaries, [1.0, 0.5, 0.1])
        for value, expected in ((0, 1.0), (2, 1.0), (3, 0.5), (5, 0.5), (6, 0.1)):
            np.testing.assert_allclose(evaluate(rate, {x: value}), expected)
    x = hf.placeholder(hf.int32, [])
    with pytest.raises(ValueError, match="one value more"):
        train.piecewise_constant(x, [1], [1.0])
    with pytest.raises(ValueError, match="same type"):
        train.piecewise_constant(x, [1], [1.0, 1])
    with pytest.raises(ValueError, match="type of x"):
        train.piecewise_constant(x, [1.5], [1.0, 2.0])


def test_decay_needs_a_step():
    with pytest.raises(ValueError, match="global_step"):
        train.exponential_decay(0.1, None, 1, 0.5)
    with pytest.raises(ValueError, match="global_step"):
        train.polynomial_decay(0.1, None, 1)


def test_decay_follows_a_variable():
    step = train.create_global_step()
    rate = train.exponential_decay(1.0, step, 1, 0.5)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        assert session.run(rate) == 1
        session.run(step.assign_add(2))
        assert session.run(rate) == 0.25


# ---------------------------------------------------------------- moving averages


@pytest.mark.parametrize("num_updates", [None, 3])
def test_moving_average_of_variables(num_updates):
    v, w = hf.Variable([1.0, 2.0], name="v"), hf.Variable(5.0, name="w")
    average = train.ExponentialMovingAverage(0.9, num_updates)
    update = average.apply([v, w])
    decay = 0.9 if num_updates is None else min(0.9, 4 / 13)
    assert average.average(v).op.name == "v/ExponentialMovingAverage" == average.average_name(v)
    assert hf.moving_average_variables() == [v, w]
    assert average.average(hf.Variable(1.0)) is None
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(average.average(v)), [1, 2])
        expected = np.array([1.0, 2.0])
        for _ in range(3):
            session.run(v.assign_add([1.0, 2.0]))
            session.run(update)
            expected = decay * expected + (1 - decay) * session.run(v)
            np.testing.assert_allclose(session.run(average.average(v)), expected, rtol=1e-6)
        assert session.run(average.average(w)) == 5


def test_averages_of_one_variable_have_raw_values_of_their_own():
    with hf.variable_scope("scope"):
        v = hf.get_variable("v", [])
        for _ in range(2):
            moving_averages.assign_moving_average(v, hf.constant(1.0), 0.9)
    names = [w.op.name for w in hf.global_variables() if "biased" in w.op.name]
    assert names == ["scope/scope/v/biased", "scope/scope/v/biased_1"]


@pytest.mark.parametrize("zero_debias", [False, True])
def test_moving_average_of_tensors(zero_debias):
    x = hf.placeholder(hf.float32, [2], name="x")
    average = train.ExponentialMovingAverage(0.9, zero_debias=zero_debias)
    update = average.apply([x])
    expected = np.zeros(2)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for step in range(1, 5):
            value = np.array([step, 2.0 * step])
            session.run(update, {x: value})
            expected = 0.9 * expected + 0.1 * value
            shown = expected / (1 - 0.9**step) if zero_debias else expected
            np.testing.assert_allclose(session.run(average.average(x)), shown, rtol=1e-5)


def test_moving_average_names_and_errors():
    v, w = hf.Variable([1.0], name="v"), hf.Variable([1.0], trainable=False, name="w")
    average = train.ExponentialMovingAverage(0.9, name="avg")
    assert average.average_name(v) == "v/avg"
    average.apply()
    assert average.average(w) is None
    names = average.variables_to_restore()
    assert sorted(names) == ["v/avg", "w"] and names["v/avg"] is v and names["w"] is w
    kept = average.average(v)
    average.apply([v])  # another update of the same average, as in 1.15
    assert average.average(v) is kept
    with pytest.raises(TypeError, match="half, float"):
        average.apply([hf.Variable(1)])


# ---------------------------------------------------------------- clipping


def test_clip_by_value():
    x = np.array([[-5.0, -1.0], [0.5, 7.0]])
    np.testing.assert_array_equal(evaluate(hf.clip_by_value(x, -2.0, 3.0)), np.clip(x, -2, 3))
    limits = np.array([1.0, 0.1])
    np.testing.assert_array_equal(evaluate(hf.clip_by_value(x, -limits, limits)),
                                  np.clip(x, -limits, limits))


def test_clip_by_norm():
    x = np.array([[-3.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    np.testing.assert_allclose(evaluate(hf.clip_by_norm(x, 10.0)), x)
    np.testing.assert_allclose(evaluate(hf.clip_by_norm(x, 4.0)), x * 4 / 5)
    np.testing.assert_allclose(evaluate(hf.clip_by_norm(x, 3.5, axes=[1])),
                               [[-3, 0, 0], [3.5, 0, 0]])
    np.testing.assert_array_equal(evaluate(hf.clip_by_norm(np.zeros(3), 1.0)), np.zeros(3))
    t = hf.placeholder(hf.float64)
    np.testing.assert_allclose(evaluate(hf.clip_by_norm(t, 4.0), {t: x}), x * 4 / 5)


def test_clip_by_norm_of_zero_has_a_gradient():
    x = hf.constant(np.zeros(3))
    [grad] = hf.gradients(hf.clip_by_norm(x, 1.0), [x])
    np.testing.assert_array_equal(evaluate(grad), np.ones(3))


def test_clip_by_average_norm():
    x = np.array([[-3.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
    average = 5 / 6
    np.testing.assert_allclose(evaluate(hf.clip_by_average_norm(x, 0.8)), x * 0.8 / average)
    np.testing.assert_allclose(evaluate(hf.clip_by_average_norm(x, 0.9)), x)


def test_global_norm():
    a, b = hf.constant([3.0, 0.0]), hf.constant([[4.0]])
    slices = hf.IndexedSlices(hf.constant([[12.0]]), hf.constant([0]))
    np.testing.assert_allclose(evaluate(hf.global_norm([a, None, b])), 5)
    np.testing.assert_allclose(evaluate(hf.global_norm([a, b, slices])), 13)
    clipped, norm = hf.clip_by_global_norm([a, None, b, slices], 6.5)
    assert clipped[1] is None and isinstance(clipped[3], hf.IndexedSlices)
    values = evaluate([clipped[0], clipped[2], clipped[3].values, norm])
    for got, expected in zip(values, ([1.5, 0], [[2.0]], [[6.0]], 13)):
        np.testing.assert_allclose(got, expected)
    same, _ = hf.clip_by_global_norm([a], 100.0)
    np.testing.assert_allclose(evaluate(same[0]), [3, 0])
    half, _ = hf.clip_by_global_norm([a], 1.0, use_norm=hf.constant(2.0))
    np.testing.assert_allclose(evaluate(half[0]), [1.5, 0])
    infinite, _ = hf.clip_by_global_norm([hf.constant([np.inf, 1.0])], 1.0)
    assert np.isnan(evaluate(infinite[0])).all()
    with pytest.raises(TypeError, match="sequence"):
        hf.global_norm(3.0)
    nothing, norm = hf.clip_by_global_norm([None, None], 1.0)
    assert nothing == [None, None] and evaluate(norm) == 0 and norm.dtype == hf.float32


# ---------------------------------------------------------------- slots, tensors for variables


def test_slots_of_programs():
    from hpcflow.python.training import slot_creator

    v = hf.Variable([1.0, 2.5], name="v")
    zeros = slot_creator.create_zeros_slot(v, name="zeros", dtype=hf.float64)
    filled = slot_creator.create_slot_with_initializer(
        v, hf.constant_initializer(3.0), [3], hf.float32, name="filled")
    assert [s.op.name for s in (zeros, filled)] == ["v/zeros", "v/filled"]
    assert [s.tolist() for s in evaluate([zeros, filled])] == [[0, 0], [3, 3, 3]]


def test_gradients_of_tensors():
    x = hf.constant(3.0)
    optimizer = train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(x * x, [x])
    assert pairs[0][1] is x and evaluate(pairs[0][0]) == 6
    with pytest.raises(NotImplementedError, match="update a Tensor"):
        optimizer.apply_gradients(pairs)


def test_constraints_hold_after_updates():
    v = hf.Variable([3.0, -2.0], constraint=lambda x: hf.maximum(x, 0.0))
    train = hf.train.GradientDescentOptimizer(1.0).minimize(hf.reduce_sum(v))
    rows = hf.reduce_sum(hf.gather(v, [0]))
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(train)
        np.testing.assert_array_equal(session.run(v), [2, 0])
    with pytest.raises(RuntimeError, match="constraint"):
        hf.train.GradientDescentOptimizer(1.0).minimize(rows)
