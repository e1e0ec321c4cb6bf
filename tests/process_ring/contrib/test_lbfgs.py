"""L-BFGS with a line search."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.opt import LBFGSOptimizer


@pytest.mark.parametrize("dtype", [hf.float32, hf.float64])
def test_a_curved_valley_is_followed_to_its_end(dtype):
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.Variable([-1.2] * 10, dtype=dtype)
        loss = hf.reduce_sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
        optimizer = LBFGSOptimizer(loss, max_iterations=300)
        session.run(hf.global_variables_initializer())
        steps = []
        optimizer.minimize(session, step_callback=steps.append)
        np.testing.assert_allclose(session.run(x), 1, atol=1e-3)
    assert len(steps) == optimizer.iterations < 120
    assert optimizer.evaluations < 2 * optimizer.iterations


def test_a_fit_of_several_variables_solves_the_normal_equations():
    rng = np.random.RandomState(0)
    points, targets = rng.randn(40, 5), rng.randn(40, 1)
    with hf.Graph().as_default(), hf.Session() as session:
        data = hf.placeholder(hf.float64, [None, 5])
        w = hf.Variable(np.zeros([5, 1]))
        b = hf.Variable(0.0, dtype=hf.float64)
        loss = hf.reduce_mean((hf.matmul(data, w) + b - targets) ** 2)
        session.run(hf.global_variables_initializer())
        LBFGSOptimizer(loss, [w, b], gradient_tolerance=1e-9, loss_tolerance=0).minimize(
            session, {data: points})
        found = np.append(session.run(w), session.run(b))
    whole = np.concatenate([points, np.ones([40, 1])], 1)
    np.testing.assert_allclose(found, np.linalg.lstsq(whole, targets, rcond=None)[0][:, 0],
                               atol=1e-7)


def test_a_loss_that_leaves_the_numbers_is_stepped_back_from():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.Variable(8.0, dtype=hf.float64)
        session.run(x.initializer)
        LBFGSOptimizer(x - hf.log(x)).minimize(session)
        assert session.run(x) == pytest.approx(1, abs=1e-4)


def test_wrong_numbers_are_refused():
    with hf.Graph().as_default():
        x = hf.Variable(1.0)
        with pytest.raises(ValueError, match="must be positive"):
            LBFGSOptimizer(x * x, history=0)
        with pytest.raises(ValueError, match="reduction"):
            LBFGSOptimizer(x * x, reduction="max")
