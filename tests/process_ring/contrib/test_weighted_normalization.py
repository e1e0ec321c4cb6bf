"""Batch normalization whose examples have weights, and whose moving mean is free of its start."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

SHAPES = [(6, 3), (6, 5, 3), (6, 2, 2, 3)]
WEIGHTS = np.array([1, 2, 0, 1, 1, 3], np.float32)


def batch(shape, seed):
    return (np.random.RandomState(seed).rand(*shape) * 3 + seed).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("in_place", [True, False])
def test_a_debiased_mean_does_not_remember_that_it_began_at_zero(session, shape, in_place):
    x, training = hf.placeholder(hf.float32, shape), hf.placeholder(hf.bool, [])
    where = {"updates_collections": None} if in_place else {}
    y = hf.contrib.layers.batch_norm(x, 0.9, is_training=training, zero_debias_moving_mean=True,
                                     **where)
    updates = hf.get_collection(hf.GraphKeys.UPDATE_OPS)
    assert bool(updates) is not in_place
    [mean] = [v for v in hf.global_variables() if v.op.name == "BatchNorm/moving_mean"]
    session.run(hf.global_variables_initializer())
    axes, raw = tuple(range(len(shape) - 1)), 0
    for seed in range(3):
        given = batch(shape, seed)
        session.run([y, updates], {x: given, training: True})
        raw = 0.9 * raw + 0.1 * given.mean(axes)
        np.testing.assert_allclose(session.run(mean), raw / (1 - 0.9**(seed + 1)), rtol=1e-4)
    kept = session.run(mean)
    session.run([y, updates], {x: given, training: False})
    np.testing.assert_array_equal(session.run(mean), kept)


@pytest.mark.parametrize("shape", SHAPES)
def test_examples_count_as_their_weights_say(session, shape):
    given = batch(shape, 1)
    y = hf.contrib.layers.batch_norm(given, epsilon=0.0, batch_weights=WEIGHTS)
    session.run(hf.global_variables_initializer())
    repeated = np.repeat(given, WEIGHTS.astype(int), 0)
    axes = tuple(range(len(shape) - 1))
    expected = (given - repeated.mean(axes)) / repeated.std(axes)
    np.testing.assert_allclose(session.run(y), expected, rtol=1e-3, atol=1e-4)


def test_weights_go_with_no_other_correction():
    with pytest.raises(ValueError, match="neither renorm nor adjustment"):
        hf.contrib.layers.batch_norm(hf.zeros([2, 3]), renorm=True, zero_debias_moving_mean=True)
