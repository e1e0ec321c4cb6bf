"""Heads of ``contrib.estimator``: losses, predictions, metrics, exports and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

heads = hf.contrib.estimator
LOGITS = np.random.RandomState(0).randn(6, 3).astype(np.float32)
WEIGHTS = np.random.RandomState(1).rand(6, 1).astype(np.float32)
HALF = (LOGITS[:, :1] > 0.2).astype(np.int64)


def mean(losses, weights=1.0):
    return (losses * weights).sum() / np.broadcast_to(weights, losses.shape).sum()


def logistic(labels, logits=LOGITS):
    return np.log1p(np.exp(logits)) - labels * logits


def crossed(labels):
    return (np.log(np.exp(LOGITS).sum(1)) - LOGITS[np.arange(6), labels])[:, None]


COUNTS = np.arange(6)[:, None].astype(np.float32)
STIRLING = np.where(COUNTS > 1, COUNTS * np.log(np.maximum(COUNTS, 1)) - COUNTS
                    + 0.5 * np.log(2 * np.pi * np.maximum(COUNTS, 1)), 0)
MANY = (np.random.RandomState(2).rand(6, 3) > 0.5).astype(np.int64)
CLASSES = np.arange(6) % 3

# A head, the number of logits, labels, and the loss.
HEADS = {
    "binary": (lambda: heads.binary_classification_head(), 1, HALF,
               mean(logistic(HALF, LOGITS[:, :1]))),
    "weighted": (lambda: heads.binary_classification_head("w", loss_reduction="weighted_sum"), 1,
                 HALF, (logistic(HALF, LOGITS[:, :1]) * WEIGHTS).sum()),
    "own loss": (lambda: heads.binary_classification_head(
        loss_fn=lambda labels, logits: hf.square(labels - logits)), 1, HALF,
        mean((HALF - LOGITS[:, :1]) ** 2)),
    "classes": (lambda: heads.multi_class_head(3), 3, CLASSES[:, None], mean(crossed(CLASSES))),
    "names": (lambda: heads.multi_class_head(3, label_vocabulary=["a", "b", "c"]), 3,
              np.array(list("abcabc"))[:, None], mean(crossed(CLASSES))),
    "numbers": (lambda: heads.regression_head(label_dimension=3), 3, 2 * LOGITS,
                mean(LOGITS ** 2)),
    "counts": (lambda: heads.poisson_regression_head(), 1, COUNTS,
               mean(np.exp(LOGITS[:, :1]) - COUNTS * LOGITS[:, :1] + STIRLING)),
    "shares": (lambda: heads.logistic_regression_head(), 1, WEIGHTS,
               mean(logistic(WEIGHTS, LOGITS[:, :1]))),
    "labels": (lambda: heads.multi_label_head(3), 3, MANY, mean(logistic(MANY))),
}  # fmt: skip


@pytest.fixture
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        hf.train.create_global_step()
        yield session


def spec_of(head, mode, logits, labels, **keywords):
    return head.create_estimator_spec(
        {"w": hf.constant(WEIGHTS)}, mode, logits, labels, **keywords)


@pytest.mark.parametrize("name", HEADS)
def test_losses(session, name):
    make, count, labels, loss = HEADS[name]
    factor = hf.Variable(1.0)
    spec = spec_of(make(), "train", hf.constant(LOGITS[:, :count]) * factor, hf.constant(labels),
                   optimizer=hf.train.GradientDescentOptimizer(0.1),
                   regularization_losses=[2.0 * factor])
    session.run([hf.global_variables_initializer(), hf.tables_initializer()])
    np.testing.assert_allclose(session.run(spec.loss), loss + 2, rtol=1e-5)
    session.run(spec.train_op)
    assert session.run(factor) != 1 and session.run(hf.train.get_global_step()) == 1


def test_metrics_have_the_name_and_the_thresholds(session):
    head = heads.binary_classification_head(thresholds=[0.3, 0.6], name="kind")
    spec = spec_of(head, "eval", hf.constant(LOGITS[:, :1]), hf.constant(HALF))
    session.run([hf.local_variables_initializer(), hf.global_variables_initializer()])
    session.run([update for _, update in spec.eval_metric_ops.values()])
    found = session.run({k: value for k, (value, _) in spec.eval_metric_ops.items()})
    over = 1 / (1 + np.exp(-LOGITS[:, :1])) > 0.6
    np.testing.assert_allclose(found["accuracy/positive_threshold_0.6/kind"],
                               (over == HALF).mean(), rtol=1e-6)
    np.testing.assert_allclose(found["recall/positive_threshold_0.6/kind"],
                               over[HALF == 1].mean(), rtol=1e-6)
    assert {"average_loss/kind", "auc/kind", "precision/positive_threshold_0.3/kind"} < set(found)


def test_sparse_labels_are_sets_of_classes(session):
    indices = np.argwhere(MANY)
    for values, more in ((indices[:, 1], {}),
                         (np.array(list("abc"))[indices[:, 1]], {"label_vocabulary": list("abc")})):
        labels = hf.SparseTensor(indices, values, MANY.shape)
        head = heads.multi_label_head(3, **more)
        made = head.create_loss({}, "train", hf.constant(LOGITS), labels)
        session.run(hf.tables_initializer())
        np.testing.assert_allclose(session.run(made.training_loss), mean(logistic(MANY)), rtol=1e-5)
        assert (session.run(made.processed_labels) == MANY).all()


def test_several_heads(session):
    head = heads.multi_head([heads.binary_classification_head(name="kind"),
                             heads.regression_head(label_dimension=2, name="size")], [1.0, 0.5])
    labels = {"kind": hf.constant(HALF), "size": hf.constant(2 * LOGITS[:, 1:])}
    assert head.logits_dimension == 3 and head.name == "kind_size"
    spec = spec_of(head, "eval", hf.constant(LOGITS), labels)
    kind, size = mean(logistic(HALF, LOGITS[:, :1])), mean(LOGITS[:, 1:] ** 2)
    session.run([hf.local_variables_initializer(), hf.global_variables_initializer()])
    np.testing.assert_allclose(session.run(spec.loss), kind + 0.5 * size, rtol=1e-5)
    session.run([update for _, update in spec.eval_metric_ops.values()])
    np.testing.assert_allclose(session.run(spec.eval_metric_ops["loss/size"][0]), size, rtol=1e-5)
    spec = spec_of(head, "infer", hf.constant(LOGITS), None)
    assert ("size", "predictions") in spec.predictions
    assert {"serving_default", "kind", "kind/classification", "size", "predict"} < set(
        spec.export_outputs)
    assert "size/predictions" in spec.export_outputs["predict"].outputs


@pytest.mark.parametrize("make, error", [
    (lambda: heads.multi_head([]), "Must specify heads"),
    (lambda: heads.multi_head([heads.regression_head()]), "must have name"),
    (lambda: heads.multi_head([heads.regression_head(name="a")] * 2), "different names"),
    (lambda: heads.multi_head([heads.regression_head(name="a")], [1, 2]), "same size"),
    (lambda: heads.multi_class_head(2), "must be > 2"),
    (lambda: heads.multi_label_head(1), "must be > 1"),
    (lambda: heads.binary_classification_head(thresholds=[2.0]), "not in"),
    (lambda: spec_of(heads.regression_head(), "train", LOGITS, LOGITS), "logits shape"),
    (lambda: spec_of(heads.regression_head(), "train", LOGITS[:, :1], None), "labels Tensor"),
    (lambda: spec_of(heads.regression_head(), "train", LOGITS[:, :1], LOGITS[:, :1]),
     "cannot both be None"),
])
def test_refusals(session, make, error):
    with pytest.raises(ValueError, match=error):
        make()
