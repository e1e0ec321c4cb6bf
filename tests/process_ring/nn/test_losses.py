"""``hpcflow.losses`` against their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RNG = np.random.default_rng(5)
LABELS = RNG.integers(0, 2, (3, 4)).astype(np.float32)
PREDICTIONS = RNG.uniform(0.1, 0.9, (3, 4)).astype(np.float32)
LOGITS = RNG.normal(size=(3, 4)).astype(np.float32)
WEIGHTS = [1.0, 0.0, np.float32([[1], [0], [2]]), RNG.integers(0, 3, (3, 4)).astype(np.float32)]


def weighted_mean(losses, weights):
    weights = np.broadcast_to(np.asarray(weights, np.float64), losses.shape)
    present = np.count_nonzero(weights)
    return (losses * weights).sum() / present if present else 0.0


def sigmoid_losses(labels, logits):
    return np.maximum(logits, 0) - logits * labels + np.log1p(np.exp(-abs(logits)))


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


ELEMENTWISE = {
    "absolute_difference": (PREDICTIONS, lambda y, p: abs(p - y)),
    "mean_squared_error": (PREDICTIONS, lambda y, p: (p - y) ** 2),
    "log_loss": (PREDICTIONS, lambda y, p: -y * np.log(p + 1e-7) - (1 - y) * np.log1p(1e-7 - p)),
    "hinge_loss": (LOGITS, lambda y, p: np.maximum(0, 1 - (2 * y - 1) * p)),
    "sigmoid_cross_entropy": (LOGITS, sigmoid_losses),
}


@pytest.mark.parametrize("weights", WEIGHTS, ids=["one", "zero", "rows", "elements"])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_weighted_mean_of_elements(session, name, weights):
    given, definition = ELEMENTWISE[name]
    loss = getattr(hf.losses, name)(LABELS, given, weights)
    expected = weighted_mean(definition(LABELS.astype(float), given.astype(float)), weights)
    assert loss.shape.as_list() == []
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-5)
    assert hf.losses.get_losses() == [loss]


def test_softmax_cross_entropies(session):
    classes, weights = np.array([0, 2, 3]), np.float32([1, 0, 3])
    losses = -log_softmax(LOGITS.astype(float))[np.arange(3), classes]
    onehot = np.eye(4, dtype=np.float32)[classes]
    found = session.run([
        hf.losses.softmax_cross_entropy(onehot, LOGITS, weights),
        hf.losses.sparse_softmax_cross_entropy(classes, LOGITS, weights),
        hf.losses.sparse_softmax_cross_entropy(classes[:, None], LOGITS, weights[:, None]),
    ])
    np.testing.assert_allclose(found, [weighted_mean(losses, weights)] * 3, rtol=1e-5)


@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown"])
def test_label_smoothing(session, known):
    onehot = hf.placeholder(hf.float32, (3, 4) if known else None)
    value = np.eye(4, dtype=np.float32)[[0, 2, 3]]
    loss = hf.losses.softmax_cross_entropy(onehot, LOGITS, label_smoothing=0.1)
    expected = -((value * 0.9 + 0.025) * log_softmax(LOGITS.astype(float))).sum(-1).mean()
    np.testing.assert_allclose(session.run(loss, {onehot: value}), expected, rtol=1e-5)
    loss = hf.losses.sigmoid_cross_entropy(LABELS, LOGITS, label_smoothing=0.2)
    expected = sigmoid_losses(LABELS * 0.8 + 0.1, LOGITS.astype(float)).mean()
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-5)


def test_cosine_distance(session):
    weights = np.float32([[1], [0], [2]])
    loss = hf.losses.cosine_distance(LABELS, PREDICTIONS, dim=1, weights=weights)
    expected = weighted_mean(1 - (LABELS * PREDICTIONS).sum(1, keepdims=True), weights)
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-5)


@pytest.mark.parametrize("weights", [1.0, np.float32([1, 0, 2])], ids=["one", "entries"])
def test_pairwise_error_is_that_of_all_pairs(session, weights):
    loss = hf.losses.mean_pairwise_squared_error(LABELS, PREDICTIONS, weights)
    difference = (PREDICTIONS - LABELS).astype(float)
    pairs = (difference[:, :, None] - difference[:, None, :]) ** 2
    expected = (pairs.sum((1, 2)) / (4 * 3) * np.broadcast_to(weights, 3)).sum()
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-5)


def test_weights_that_do_not_broadcast(session):
    with pytest.raises(ValueError, match="weights can not be broadcast to values"):
        hf.losses.mean_squared_error(LABELS, PREDICTIONS, np.ones(4, np.float32))
    weights = hf.placeholder(hf.float32)
    loss = hf.losses.mean_squared_error(LABELS, PREDICTIONS, weights)
    expected = ((PREDICTIONS - LABELS) ** 2).mean()
    np.testing.assert_allclose(session.run(loss, {weights: 1.0}), expected, rtol=1e-5)
    for shape in ((3,), (2,), (1, 3), (3, 4, 1), (2, 4)):
        with pytest.raises(hf.errors.InvalidArgumentError,
                           match="weights can not be broadcast to values"):
            session.run(loss, {weights: np.ones(shape)})


def test_columns_of_unknown_rank(session):
    logits, labels, weights = (hf.placeholder(t) for t in (hf.float32, hf.int32, hf.float32))
    loss = hf.losses.sparse_softmax_cross_entropy(labels, logits, weights)
    scores = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    chosen, factors = np.array([2, 0, 3]), np.array([1.0, 2.0, 0.5], np.float32)
    each = np.log(np.exp(scores).sum(1)) - scores[np.arange(3), chosen]
    for columns in (False, True):
        feeds = {logits: scores, labels: chosen[:, None] if columns else chosen,
                 weights: factors[:, None] if columns else factors}
        np.testing.assert_allclose(session.run(loss, feeds), (each * factors).mean(), rtol=1e-5)
    np.testing.assert_allclose(
        session.run(loss, {logits: scores, labels: chosen, weights: 2.0}), 2 * each.mean(),
        rtol=1e-5)


def test_shapes_that_differ(graph):
    with pytest.raises(ValueError, match="same shape"):
        hf.losses.mean_squared_error(LABELS, PREDICTIONS[:2])


def test_no_gradient_of_absent_elements_is_nan(session):
    logits = hf.constant(LOGITS)
    loss = hf.losses.sigmoid_cross_entropy(LABELS, logits, 0.0)
    gradient = hf.gradients(loss, logits)[0]
    np.testing.assert_array_equal(session.run(gradient), np.zeros_like(LOGITS))


def test_collections(session):
    with hf.name_scope("first"):
        one = hf.losses.compute_weighted_loss([1.0, 3.0])
    hf.losses.compute_weighted_loss([5.0], loss_collection=None)
    two = hf.losses.compute_weighted_loss(hf.constant([4.0], hf.float64), weights=2.0)
    assert two.dtype == hf.float64
    assert hf.losses.get_losses("first") == [one]
    hf.add_to_collection(hf.GraphKeys.REGULARIZATION_LOSSES, hf.constant(0.5))
    assert session.run(hf.losses.get_regularization_loss()) == 0.5
    hf.get_collection_ref("losses").remove(two)
    assert session.run(hf.losses.get_total_loss()) == 2.5
    assert session.run(hf.losses.get_total_loss(add_regularization_losses=False)) == 2.0


@pytest.mark.parametrize("reduction, expected", [
    ("NONE", [[0.0, 4.0], [9.0, 0.0]]), ("SUM", 13.0), ("MEAN", 13 / 2.0),
    ("SUM_OVER_BATCH_SIZE", 13 / 4.0), ("SUM_BY_NONZERO_WEIGHTS", 13 / 3.0),
    ("SUM_OVER_NONZERO_WEIGHTS", 13 / 3.0)])
def test_reductions(reduction, expected):
    losses = hf.losses
    with hf.Graph().as_default(), hf.Session() as session:
        loss = losses.absolute_difference(
            [[1.0, 2.0], [3.0, 4.0]], [[1.0, 6.0], [-15.0, 0.0]], [[0.5, 1.0], [0.5, 0.0]],
            reduction=getattr(losses.Reduction, reduction))
        np.testing.assert_allclose(session.run(loss), expected, rtol=1e-6)
        assert losses.get_losses() == [loss]
        with pytest.raises(ValueError, match="Invalid Reduction Key mean"):
            losses.huber_loss([1.0], [1.0], reduction="mean")
