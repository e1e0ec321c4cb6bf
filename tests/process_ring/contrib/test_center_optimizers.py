"""Optimizers of contrib.opt around others: exchanges with centers, gradients that are left out."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

opt = hf.contrib.opt


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def _trained(getter, make, steps, form=None):
    """The local variable, its center and the global step, after each step."""
    step = hf.train.get_or_create_global_step()
    with hf.variable_scope("", custom_getter=getter):
        w = hf.get_variable("w", initializer=1.0)
    optimizer = make(hf.train.GradientDescentOptimizer(0.1))
    train = optimizer.minimize(hf.square(w), global_step=step)
    hook = (optimizer.make_session_run_hook() if isinstance(optimizer, opt.ModelAverageOptimizer)
            else optimizer.make_session_run_hook(True, 0))
    hook.begin()
    center = next(v for v in hf.global_variables() if v.op.name == "global_center_variable/w")
    with hf.Session() as session:
        session.run([hf.global_variables_initializer(), hf.local_variables_initializer()])
        hook.after_create_session(session, None)
        found = []
        for _ in range(steps):
            session.run(train)
            found.append(session.run([w, center, step]))
    return found


def test_elastic_averages(form):
    getter = opt.ElasticAverageCustomGetter("/cpu:0")
    found = _trained(getter, lambda inner: opt.ElasticAverageOptimizer(
        inner, 1, getter, communication_period=2, moving_rate=0.25), 4)
    w, center, seen, expected = 1.0, 1.0, 1.0, []
    for i in range(4):
        w -= 0.1 * (2 * w + 2.5 * (w - seen))
        if i % 2:
            seen = center
            step = 0.25 * (w - seen)
            w, center = w - step, center + step
        expected.append([w, center, (i + 1) // 2])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_accumulated_gradients(form):
    getter = opt.AGNCustomGetter("/cpu:0")
    found = _trained(getter, lambda inner: opt.AGNOptimizer(
        inner, 1, getter, communication_period=2), 4)
    np.testing.assert_allclose(found, [
        [0.8, 1, 0], [0.82, 0.82, 1], [0.656, 0.82, 1], [0.6724, 0.6724, 2]], rtol=1e-6)


def test_averages_of_models(form):
    getter = opt.ModelAverageCustomGetter("/cpu:0")
    found = _trained(getter, lambda inner: opt.ModelAverageOptimizer(
        inner, 1, True, getter, interval_steps=2), 3)
    np.testing.assert_allclose(found, [[0.8, 1, 0], [0.64, 0.64, 1], [0.512, 0.64, 1]], rtol=1e-6)


def test_gradients_of_zeros_leave_slots_alone(form):
    x = hf.placeholder(hf.float32, [])
    w = hf.get_variable("w", initializer=1.0)
    optimizer = opt.MultitaskOptimizerWrapper(hf.train.MomentumOptimizer(0.1, 0.5))
    train = optimizer.minimize(w * x)
    pairs, norm = opt.clip_gradients_by_global_norm(
        [(hf.constant([3.0, 4.0]), w), (hf.zeros([2]), w)], 2.5)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        for value in (1.0, 0.0, 2.0):
            session.run(train, {x: value})
        np.testing.assert_allclose(session.run([w, optimizer.get_slot(w, "momentum")]),
                                   [1 - 0.1 - 0.25, 2.5], rtol=1e-6)
        assert session.run([pairs[0][0], norm])[0].tolist() == [1.5, 2.0]


def test_old_gradients_are_dropped(form):
    step = hf.train.get_or_create_global_step()
    w = hf.get_variable("w", initializer=1.0)
    optimizer = opt.DropStaleGradientOptimizer(hf.train.GradientDescentOptimizer(0.1), 1)
    grads = optimizer.compute_gradients(w * 1.0)
    with hf.control_dependencies([g for g, _ in grads]):
        hurried = step.assign_add(hf.placeholder_with_default(np.int64(0), [], name="hurry"))
    with hf.control_dependencies([hurried]):
        grads = [(hf.identity(g), v) for g, v in grads]
    train = optimizer.apply_gradients(grads, global_step=step)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        assert [session.run(train, {"hurry:0": n}) for n in (0, 1, 2, 0)] == [0, 0, 1, 1]
        assert session.run(w) == pytest.approx(0.7)


def test_adagrad_without_its_slots():
    w = hf.get_variable("w", initializer=np.float32([1, 2]))
    optimizer = opt.RegAdagradOptimizer(0.1, initial_accumulator_value=0.25)
    with optimizer.avoid_updating_slots():
        dense = optimizer.minimize(hf.reduce_sum(w))
        sparse = optimizer.minimize(hf.reduce_sum(hf.gather(w, [0, 0])))
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(dense)
        session.run(sparse)
        np.testing.assert_allclose(session.run(w), [1 - 0.2 - 0.4, 1.8], rtol=1e-6)
        assert session.run(optimizer.get_slot(w, "accumulator")).tolist() == [0.25, 0.25]


@pytest.mark.parametrize("kinds", [("AdamOptimizer", "AdamGSOptimizer"),
                                   ("LazyAdamOptimizer", "LazyAdamGSOptimizer")])
def test_adam_by_the_global_step(kinds):
    plain, by_step = ((getattr(opt, kind, None) or getattr(hf.train, kind)) for kind in kinds)
    step = hf.train.get_or_create_global_step()
    values = []
    with hf.Session() as session:
        for i, optimizer in enumerate((plain(0.1), by_step(step, 0.1))):
            w = hf.get_variable(f"w{i}", initializer=np.float32([1, 2, 3]))
            loss = hf.reduce_sum(hf.square(hf.gather(w, [0, 2])))
            values.append((w, optimizer.minimize(loss, global_step=step if i else None)))
        session.run(hf.global_variables_initializer())
        for _ in range(3):
            session.run([train for _, train in values])
        np.testing.assert_allclose(*session.run([w for w, _ in values]), rtol=1e-5)
