"""Estimators without features, with heads of one's own, over sequences, and made of others."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("graph")

X = np.random.RandomState(0).rand(48, 2).astype(np.float32)
LABELS = (X.sum(1) > 1).astype(np.int64)
COLUMN = hf.feature_column.numeric_column("x", [2])


def inputs(labels=LABELS, repeat=None):
    def input_fn():
        features = {"x": X, "id": np.arange(48)}
        return hf.data.Dataset.from_tensor_slices((features, labels)).repeat(repeat).batch(16)

    return input_fn


def trained(estimator, labels=LABELS, steps=40):
    estimator.train(inputs(labels), steps=steps)
    return estimator.evaluate(inputs(labels, 1))


def test_baselines_learn_how_frequent_labels_are(tmp_path):
    labels = np.repeat([0, 1, 1, 2], 12)
    classifier = hf.estimator.BaselineClassifier(
        f"{tmp_path}/c", n_classes=3, optimizer=hf.train.AdagradOptimizer(0.5))
    classifier.train(hf.estimator.inputs.numpy_input_fn(
        {"x": X}, labels, 48, num_epochs=None, shuffle=False), steps=100)
    chances = next(classifier.predict(inputs(repeat=1)))["probabilities"]
    np.testing.assert_allclose(chances, [0.25, 0.5, 0.25], atol=0.02)
    assert "baseline/bias" in classifier.get_variable_names()


def test_baseline_regressor_learns_the_mean(tmp_path):
    regressor = hf.estimator.BaselineRegressor(
        f"{tmp_path}/r", optimizer=lambda: hf.train.GradientDescentOptimizer(0.01))
    trained(regressor, X[:, 0], 200)
    found = next(regressor.predict(inputs(repeat=1)))["predictions"]
    assert found[0] == pytest.approx(X[:, 0].mean(), abs=0.1)


@pytest.mark.parametrize("make", [
    lambda head: hf.estimator.LinearEstimator(head, [COLUMN]),
    lambda head: hf.estimator.DNNEstimator(head, [4], [COLUMN]),
    lambda head: hf.estimator.DNNLinearCombinedEstimator(
        head, linear_feature_columns=[COLUMN], dnn_feature_columns=[COLUMN],
        dnn_hidden_units=[4])])
def test_the_head_is_ones_own(make):
    estimator = make(hf.contrib.estimator.multi_label_head(2, name="both"))
    found = trained(estimator, np.stack([LABELS, 1 - LABELS], 1), 5)
    assert "auc/both" in found and found["global_step"] == 5


def test_area_under_precision_and_recall_is_of_trapezoids(tmp_path):
    # All examples have one chance: the curve falls from precision 1 straight to their share.
    found = trained(hf.estimator.BaselineClassifier(str(tmp_path)), steps=1)
    assert found["auc_precision_recall"] == pytest.approx((1 + LABELS.mean()) / 2, abs=1e-3)


def test_metrics_and_features_are_added(tmp_path):
    estimator = hf.estimator.LinearClassifier([COLUMN], str(tmp_path))
    estimator = hf.contrib.estimator.add_metrics(
        estimator, lambda features, predictions: {"own": hf.metrics.mean(features["x"])})
    estimator = hf.contrib.estimator.forward_features(estimator, "id")
    assert trained(estimator, steps=2)["own"] == pytest.approx(X.mean(), abs=1e-4)
    assert [p["id"] for p in estimator.predict(inputs(repeat=1))] == list(range(48))


def test_what_cannot_be_added_is_refused():
    estimator = hf.estimator.LinearClassifier([COLUMN])
    with pytest.raises(ValueError, match="not expected args: \\['wrong'\\]"):
        hf.estimator.add_metrics(estimator, lambda wrong: {})
    with pytest.raises(TypeError, match="string or a list"):
        hf.contrib.estimator.forward_features(estimator, [1])
    with pytest.raises(ValueError, match="is not in features"):
        trained(hf.contrib.estimator.forward_features(estimator, "absent"), steps=1)


def test_gradients_are_clipped_together():
    x = hf.get_variable("x", initializer=[3.0, 4.0])
    optimizer = hf.contrib.estimator.clip_gradients_by_norm(
        hf.train.GradientDescentOptimizer(1.0), 1.0)
    step = optimizer.minimize(hf.reduce_sum(x * x) / 2)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run(step)
        np.testing.assert_allclose(session.run(x), [3 - 0.6, 4 - 0.8], rtol=1e-6)


SENTENCES = [" ".join(np.random.RandomState(i).choice(list("abcd"), 1 + i % 5)) for i in range(48)]
HAS_A = np.array(["a" in s for s in SENTENCES]).astype(np.int64)


def sentences(repeat=None):
    def input_fn():
        data = hf.data.Dataset.from_tensor_slices(({"s": SENTENCES, "k": X[:, 0]}, HAS_A))
        return data.repeat(repeat).batch(16).map(
            lambda f, y: ({"s": hf.string_split(f["s"]), "k": f["k"]}, y))

    return input_fn


@pytest.mark.parametrize("cells", [
    {"num_units": [5]}, {"num_units": [5, 4], "cell_type": "lstm"},
    {"rnn_cell_fn": lambda mode: hf.nn.rnn_cell.GRUCell(4)}])
def test_recurrent_classifier(cells):
    column = hf.contrib.feature_column.sequence_categorical_column_with_vocabulary_list(
        "s", list("abcd"))
    classifier = hf.contrib.estimator.RNNClassifier(
        [hf.feature_column.embedding_column(column, 3)],
        [hf.feature_column.numeric_column("k")], optimizer=hf.train.AdamOptimizer(0.05),
        config=hf.estimator.RunConfig(tf_random_seed=1), **cells)
    classifier.train(sentences(), steps=100)
    assert classifier.evaluate(sentences(1))["accuracy"] > 0.8
    assert "rnn/logits/dense/kernel" in classifier.get_variable_names()


@pytest.mark.parametrize(("cells", "message"), [
    ({}, "num_units must be given"),
    ({"num_units": [3], "cell_type": "tree"}, "supported cell types"),
    ({"num_units": [3], "rnn_cell_fn": lambda mode: None}, "must not be specified")])
def test_recurrent_classifier_needs_cells(cells, message):
    with pytest.raises(ValueError, match=message):
        hf.contrib.estimator.RNNClassifier([], **cells)


@pytest.mark.parametrize(("make", "expected"), [
    (lambda d: hf.estimator.LinearClassifier([COLUMN], d),
     {"linear/linear_model/bias_weights/part_0/Ftrl", "linear/linear_model/x/weights/part_0/Ftrl"}),
    (lambda d: hf.estimator.DNNClassifier(
        [2], [COLUMN], d, batch_norm=True, optimizer=lambda: hf.train.AdamOptimizer(0.1)),
     {"dnn/head/beta1_power", "dnn/hiddenlayer_0/batchnorm_0/gamma/t_0/Adam",
      "dnn/hiddenlayer_0/kernel/t_0/Adam_1", "dnn/hiddenlayer_0/kernel"}),
    (lambda d: hf.estimator.DNNLinearCombinedClassifier(
        d, [COLUMN], dnn_feature_columns=[COLUMN], dnn_hidden_units=[2]),
     {"dnn/logits/kernel/Adagrad", "linear/linear_model/x/weights/Ftrl_1"}),
])
def test_checkpoints_have_the_names_of_tensorflow(tmp_path, make, expected):
    made = make(str(tmp_path))
    made.train(inputs(), steps=1)
    assert expected <= {name for name, _ in hf.train.list_variables(str(tmp_path))}


def test_combined_models_have_learning_rates_of_their_own(tmp_path):
    made = hf.estimator.DNNLinearCombinedClassifier(
        str(tmp_path), [COLUMN], dnn_feature_columns=[COLUMN], dnn_hidden_units=[2])
    made.train(inputs(np.ones(48, np.int64)), steps=1)
    # The gradient is that of a bias which begins with 0; Adagrad moves it by almost the rate.
    assert 0.0009 < made.get_variable_value("dnn/logits/bias")[0] < 0.001


def test_training_goes_on_behind_the_last_element(tmp_path):
    seen = []

    def model_fn(features, labels, mode):
        step = hf.train.get_or_create_global_step()
        look = hf.py_func(lambda v: seen.append(int(v)), [features], [])
        return hf.estimator.EstimatorSpec(mode, loss=hf.constant(1.0),
                                          train_op=hf.group(step.assign_add(1), look))

    estimator = hf.estimator.Estimator(model_fn, str(tmp_path))
    hook = hf.data.experimental.CheckpointInputPipelineHook
    for hooks in ([hook(estimator)], [hook(estimator)], []):
        estimator.train(lambda: hf.data.Dataset.range(10), steps=2, hooks=hooks)
    estimator.train(lambda: hf.data.Dataset.range(10).make_one_shot_iterator().get_next(), steps=1)
    assert seen == [0, 1, 2, 3, 0, 1, 0]
    assert hf.train.latest_checkpoint(str(tmp_path), "checkpoint_input").endswith("input.ckpt-4")
    with pytest.raises(ValueError, match="no iterators"):
        estimator.train(lambda: hf.constant(1), steps=1, hooks=[hook(estimator)])
