"""Optimizers with matrices of several gradients: names and numbers of TensorFlow 1.15.5."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import opt


@pytest.mark.parametrize(("make", "names", "wanted"), [
    (lambda: opt.GGTOptimizer(0.1), {"global_step", "grad_buffer", "moment1", "flat_grad"},
     ([[0.9787292, 1.9149166], [2.9680929, -0.9787292]], [0.4893646, -0.4893646])),
    (lambda: opt.ShampooOptimizer(learning_rate=0.1),
     {"a/Shampoo", "a/Shampoo_1", "a/Shampoo_2", "b/Shampoo", "b/Shampoo_1"},
     ([[0.9516705, 1.8670933], [2.8670943, -0.9516705]], [0.400005, -0.400005])),
    (lambda: opt.AdaMaxOptimizer(0.1),
     {"beta1_power", "a/AdaMax", "a/AdaMax_1", "b/AdaMax", "b/AdaMax_1"},
     ([[0.9, 1.9], [2.9, -0.9]], [0.4, -0.4]))])
def test_a_step(session, make, names, wanted):
    a = hf.get_variable("a", initializer=[[1.0, 2.0], [3.0, -1.0]])
    b = hf.get_variable("b", initializer=[0.5, -0.5])
    loss = hf.reduce_sum(a * a * [[1.0, 2.0], [0.5, 1.0]]) + hf.reduce_sum(b * b)
    step = make().minimize(loss)
    assert {v.op.name for v in hf.global_variables()} == {"a", "b", *names}
    session.run(hf.global_variables_initializer())
    session.run(step)
    for found, expected in zip(session.run([a, b]), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)
