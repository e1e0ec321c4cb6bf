"""``contrib.losses.metric_learning`` against plain loops over pairs and triples of rows."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.losses import metric_learning


def given(seed=0, rows=9, classes=3):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(0, classes, rows - classes)])
    return labels, rng.normal(size=(rows, 4)).astype(np.float32)


def distances(rows):
    return np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1, dtype=np.float64))


def pairs(labels):
    return [(i, j) for i in range(len(labels)) for j in range(len(labels))
            if i != j and labels[i] == labels[j]]


def evaluate(session, build, rows):
    """The loss, and its derivative by the rows, which must be finite."""
    fed = hf.constant(rows)
    loss = build(fed)
    value, gradient = session.run([loss, hf.gradients(loss, fed)[0]])
    assert np.isfinite(gradient).all() and np.abs(gradient).max() > 0
    return value


def test_distances_of_rows(session):
    _, rows = given()
    rows[1] = rows[0]
    got = session.run(metric_learning.pairwise_distance(rows))
    np.testing.assert_allclose(got, distances(rows), atol=1e-4)
    x = hf.constant(rows)
    gradient = session.run(hf.gradients(metric_learning.pairwise_distance(x), x)[0])
    assert np.isfinite(gradient).all()


def test_contrastive_loss(session):
    labels, rows = given()
    others = rows[::-1].copy() + 0.5
    d = np.sqrt(((rows - others) ** 2).sum(1))
    wanted = np.where(labels % 2, d**2, np.maximum(2.5 - d, 0) ** 2).mean()
    got = evaluate(session, lambda x: metric_learning.contrastive_loss(
        labels % 2, x, others, margin=2.5), rows)
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("margin", [1.0, 0.1])
def test_triplet_semihard_loss(session, margin):
    labels, rows = given()
    squares = distances(rows) ** 2
    costs = []
    for anchor, positive in pairs(labels):
        negatives = squares[anchor][labels != labels[anchor]]
        farther = negatives[negatives > squares[anchor, positive]]
        negative = farther.min() if farther.size else negatives.max()
        costs.append(max(squares[anchor, positive] + margin - negative, 0))
    got = evaluate(session, lambda x: metric_learning.triplet_semihard_loss(labels, x, margin),
                   rows)
    np.testing.assert_allclose(got, np.mean(costs), rtol=1e-4)


def test_npairs_loss(session):
    labels, rows = given()
    positives = rows[::-1].copy()
    logits = rows.astype(np.float64) @ positives.T
    targets = (labels[:, None] == labels[None]) / (labels[:, None] == labels[None]).sum(1)[:, None]
    entropy = np.log(np.exp(logits).sum(1)) - (targets * logits).sum(1)
    penalty = 0.25 * 0.1 * ((rows**2).sum(1).mean() + (positives**2).sum(1).mean())
    got = evaluate(session, lambda x: metric_learning.npairs_loss(
        labels, x, positives, reg_lambda=0.1), rows)
    np.testing.assert_allclose(got, entropy.mean() + penalty, rtol=1e-5)


def test_npairs_loss_of_several_labels(session):
    _, rows = given(rows=4)
    positives = rows[::-1].copy()
    dense = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
    sparse = [hf.SparseTensor(np.argwhere(row == 1), np.ones(row.sum()), [3]) for row in dense]
    shared = dense @ dense.T
    logits = rows.astype(np.float64) @ positives.T
    entropy = np.log(np.exp(logits).sum(1)) - (shared / shared.sum(1)[:, None] * logits).sum(1)
    got = evaluate(session, lambda x: metric_learning.npairs_loss_multilabel(
        sparse, x, positives, reg_lambda=0.0), rows)
    np.testing.assert_allclose(got, entropy.mean(), rtol=1e-5)
    with pytest.raises(TypeError, match="SparseTensors"):
        metric_learning.npairs_loss_multilabel([dense], rows, positives)


def test_lifted_struct_loss(session):
    labels, rows = given()
    d = distances(rows)
    terms = np.exp(1.0 - d) * (labels[:, None] != labels[None])
    costs = [max(np.log(terms[i].sum() + terms[j].sum()) + d[i, j], 0) ** 2
             for i, j in pairs(labels)]
    got = evaluate(session, lambda x: metric_learning.lifted_struct_loss(labels, x), rows)
    np.testing.assert_allclose(got, np.mean(costs) / 2, rtol=1e-4)


def test_labels_are_a_vector():
    with pytest.raises(ValueError, match="rank 1"):
        metric_learning.triplet_semihard_loss(np.zeros((3, 1)), np.zeros((3, 2), np.float32))
