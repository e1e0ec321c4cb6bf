"""``hpcflow.contrib.layers``: initializers, regularizers, the fully connected layer."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import layers


@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3)], ids=str)
def test_fully_connected(session, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = layers.fully_connected(x, 2, weights_regularizer=layers.l2_regularizer(0.5),
                               biases_initializer=hf.ones_initializer(),
                               outputs_collections="outputs", scope="fc")
    session.run(hf.global_variables_initializer())
    weights, biases = session.run(hf.trainable_variables())
    assert [v.name for v in hf.model_variables()] == ["fc/weights:0", "fc/biases:0"]
    np.testing.assert_allclose(session.run(y), np.maximum(x @ weights + biases, 0), rtol=1e-5,
                               atol=1e-5)
    np.testing.assert_allclose(session.run(hf.losses.get_regularization_loss()),
                               (weights**2).sum() / 4, rtol=1e-5)
    assert hf.get_collection("outputs") == [y]


def test_normalizers_replace_biases(session):
    y = layers.fully_connected(hf.ones([4, 3]), 2, None, lambda v, factor: v * factor,
                               {"factor": 0.0})
    session.run(hf.global_variables_initializer())
    assert (session.run(y) == 0).all() and len(hf.global_variables()) == 1
    with pytest.raises(ValueError, match="must be known"):
        layers.fully_connected(hf.placeholder(hf.float32, [2, None]), 2)


def test_regularizers(session):
    w = np.float32([[1, -2], [3, 0]])
    assert session.run(layers.l1_regularizer(0.5)(w)) == 3
    assert session.run(layers.l2_regularizer(0.5)(w)) == 3.5
    assert session.run(layers.l1_l2_regularizer(0.5, 0.5)(w)) == 6.5
    assert layers.l2_regularizer(0.0)(w) is None
    with pytest.raises(ValueError, match="negative"):
        layers.l1_regularizer(-1.0)
    with pytest.raises(ValueError, match="number"):
        layers.l2_regularizer("1")


def test_initializers(session):
    for uniform in (True, False):
        drawn = session.run(layers.xavier_initializer(uniform, seed=1)([100, 300]))
        np.testing.assert_allclose(drawn.var(), 1 / 200, rtol=0.3)
    drawn = session.run(layers.variance_scaling_initializer(seed=1)([100, 300]))
    np.testing.assert_allclose(drawn.var(), 2 / 100, rtol=0.3)
    with pytest.raises(ValueError, match="FAN_IN"):
        layers.variance_scaling_initializer(mode="fan")
