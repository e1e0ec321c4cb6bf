"""contrib.nn: losses over resampled classes, and derivatives in forward mode."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import nn


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def test_forward_gradients():
    x = hf.constant([1.0, 2.0, 3.0])
    y = hf.stack([x[0] * x[1], hf.sin(x[2])])
    direction = [1.0, 0.5, 2.0]
    (found,) = nn.fwd_gradients([y], [x], [direction], assert_unused=True)
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(found), [2 + 0.5, 2 * np.cos(3)], rtol=1e-6)


def test_rank_sampled_softmax_loss_keeps_the_highest_classes():
    rng = np.random.default_rng(3)
    weights, biases = rng.normal(size=(6, 4)).astype("f4"), rng.normal(size=6).astype("f4")
    inputs, labels = rng.normal(size=(3, 4)).astype("f4"), np.int64([[0], [5], [2]])
    sampled = np.int64([1, 3, 4, 0])
    values = (hf.constant(sampled), hf.ones([3, 1]), hf.ones([4]))
    options = {"num_classes": 6, "num_true": 1, "remove_accidental_hits": True,
               "partition_strategy": "div"}
    loss = nn.rank_sampled_softmax_loss(
        weights, biases, labels, inputs, num_sampled=4, num_resampled=2, sampled_values=values,
        resampling_temperature=0.7, **options)
    logits = (inputs @ weights[sampled].T + biases[sampled]) / 0.7
    kept = sampled[np.argsort(-np.log(np.exp(logits).sum(axis=0)))[:2]]
    expected = hf.nn.sampled_softmax_loss(
        weights, biases, labels, inputs, num_sampled=2,
        sampled_values=(hf.constant(kept), hf.ones([3, 1]), hf.ones([2])), **options)
    with hf.Session() as session:
        found, wanted = session.run([loss, expected])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    for sizes, message in (((7, 2), "greater than num_classes"), ((2, 2), "less than num_sampled")):
        with pytest.raises(ValueError, match=message):
            nn.rank_sampled_softmax_loss(weights, biases, labels, inputs, *sizes, 6, 1, None, 1.0,
                                         True, "div")


def test_sampled_sparse_softmax_loss():
    rng = np.random.default_rng(4)
    weights, biases = rng.normal(size=(6, 4)).astype("f4"), rng.normal(size=6).astype("f4")
    inputs, labels = rng.normal(size=(3, 4)).astype("f4"), np.int64([[0], [5], [2]])
    values = (hf.constant(np.int64([1, 3])), hf.ones([3, 1]), hf.ones([2]))
    with hf.Session() as session:
        sparse, dense = session.run([
            f(weights, biases, labels, inputs, 2, 6, sampled_values=values)
            for f in (nn.sampled_sparse_softmax_loss, hf.nn.sampled_softmax_loss)])
    np.testing.assert_allclose(sparse, dense, rtol=1e-5)


def test_hyperparameters_as_a_message():
    given = hf.contrib.training.HParams(rate=0.5, layers=[3, 4], name="x", on=True, kinds=["a"])
    message = given.to_proto()
    again = hf.contrib.training.HParams(hparam_def=type(message).FromString(
        message.SerializeToString()))
    assert again.values() == given.values() and type(again.on) is bool
    with pytest.raises(TypeError, match="HParamDef"):
        hf.contrib.training.HParams(hparam_def="rate=1")
