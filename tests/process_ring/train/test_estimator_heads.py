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


def test_all_modes_are_exported_over_one_set_of_variables(tmp_path):
    def model(features, labels, mode):
        logits = hf.layers.dense(features["x"], 1, name="out")
        return heads.regression_head(name="size").create_estimator_spec(
            features, mode, logits, labels, optimizer=hf.train.AdamOptimizer())

    inputs = hf.estimator.inputs.numpy_input_fn({"x": LOGITS}, LOGITS[:, :1], 3, 2, shuffle=False)
    estimator = hf.estimator.Estimator(model, str(tmp_path / "model")).train(inputs)
    supervised = heads.build_supervised_input_receiver_fn_from_input_fn(inputs)
    serving = hf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"x": hf.FixedLenFeature([3], hf.float32)})
    path = heads.export_all_saved_models(estimator, str(tmp_path), {
        "train": supervised, "eval": supervised, "infer": serving}).decode()
    feeds = {"x:0": LOGITS[:2], "label:0": LOGITS[:2, :1]}
    kernel = estimator.get_variable_value("out/kernel")
    for tag, key, method in (("train", "train", "training"), ("eval", "eval", "eval"),
                             ("serve", "serving_default", "regress")):
        with hf.Graph().as_default(), hf.Session() as session:
            graph = hf.saved_model.loader.load(session, [tag], path)
            signature = graph.signature_def[key]
            assert signature.method_name.endswith(method)
            np.testing.assert_array_equal(session.run("out/kernel:0"), kernel)
            if tag != "serve":
                assert {"x", "label"} == set(signature.inputs)
                predicted, loss = session.run(
                    [signature.outputs[name].name for name in ("predictions", "loss")], feeds)
                np.testing.assert_allclose(loss, ((predicted - LOGITS[:2, :1]) ** 2).mean(),
                                           rtol=1e-5)
    with pytest.raises(ValueError, match="No valid modes"):
        heads.export_all_saved_models(estimator, str(tmp_path), {"other": serving})
    with pytest.raises(ValueError, match="distinct keys"):
        heads.build_raw_supervised_input_receiver_fn({"label": hf.constant([1])}, hf.constant([1]))


def test_features_of_examples_with_labels_and_weights():
    columns = [hf.feature_column.numeric_column("a", 2)]
    spec = hf.estimator.classifier_parse_example_spec(columns, "y", weight_column="w")
    assert spec == {"a": hf.FixedLenFeature((2,), hf.float32),
                    "w": hf.FixedLenFeature((1,), hf.float32),
                    "y": hf.FixedLenFeature((1,), hf.int64)}
    spec = hf.estimator.regressor_parse_example_spec(columns, "y", label_dimension=3,
                                                     label_default=[0.0, 1.0, 2.0])
    assert spec["y"] == hf.FixedLenFeature((3,), hf.float32, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="label should not be used"):
        hf.estimator.classifier_parse_example_spec(columns, "a")
    with pytest.raises(ValueError, match="weight_column should not be used"):
        hf.estimator.classifier_parse_example_spec(columns, "y", weight_column="a")
