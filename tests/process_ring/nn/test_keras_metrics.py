"""Metrics of Keras that accumulate: values that 1.15 gives."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as tf

metrics = tf.keras.metrics


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as own:
        yield own


def after(session, metric, *given):
    """The result after an update, and the variables."""
    result = metric(*given)
    session.run([v.initializer for v in metric.variables])
    return session.run(result), session.run(metric.variables)


def test_values_are_reduced_to_the_dimensions_of_their_weights(session):
    values = [[[1.0, 2.0], [3.0, 2.0], [0.5, 4.0]]]
    found, (total, count) = after(session, metrics.Mean(), values, [0.5])
    np.testing.assert_allclose([found, total, count], [12.5 / 6, 12.5 / 12, 0.5], rtol=1e-6)
    assert after(session, metrics.Sum(), values, [0.5])[0] == 6.25
    pair = [[1], [1]], [[[1]], [[0]]]
    assert after(session, metrics.BinaryAccuracy(), *pair) == (0.5, [1.0, 2.0])


def test_metrics_of_classes_and_of_normalized_differences(session):
    labels, predicted = [0.0, 1.0, 1.0, 0.0], [0.2, 0.3, 0.8, 0.6]
    assert after(session, metrics.MeanIoU(3), [0, 1, 1], [0, 0, 1])[0] == 0.5
    relative = metrics.MeanRelativeError([1.0, 3.0, 2.0, 3.0])
    assert after(session, relative, [1.0, 3.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0])[0] == 1.25
    assert after(session, metrics.MeanTensor(), [1.0, 3.0], [1.0, 0.0])[0].tolist() == [1.0, 0.0]
    assert after(session, metrics.SensitivityAtSpecificity(0.9), labels, predicted)[0] == 0.5
    assert after(session, metrics.SpecificityAtSensitivity(0.5), labels, predicted)[0] == 0.5
    rows = [[0.0, 1.0, 1.0]], [[0.2, 0.3, 0.6]]
    assert after(session, metrics.Precision(top_k=1), *rows)[0] == 1.0
    assert after(session, metrics.Recall(0.1, class_id=0), *rows)[0] == 0.0
    with pytest.raises(ValueError, match="must be in"):
        metrics.Precision([0.5, 2.0])


class Largest(metrics.Metric):
    def __init__(self, name="largest", **keywords):
        super().__init__(name, **keywords)
        self.kept = self.add_weight("kept")

    def update_state(self, values, sample_weight=None):
        self.kept.assign(tf.maximum(self.kept, tf.reduce_max(values)))

    def result(self):
        return self.kept


def test_an_update_that_returns_nothing_is_run(session):
    assert after(session, Largest(), [1.0, 5.0, 2.0]) == (5.0, [5.0])


def test_models_report_what_metrics_of_layers_give():
    x = tf.keras.Input((2,))
    model = tf.keras.Model(x, tf.keras.layers.Dense(1, kernel_initializer="ones")(x))
    model.add_metric(Largest()(model.output))
    model.compile("sgd", "mse")
    data = np.array([[1.0, 2.0], [4.0, 0.0], [0.0, 1.0]]), np.zeros((3, 1))
    assert dict(zip(model.metrics_names, model.evaluate(*data, batch_size=1, verbose=0)))[
        "largest"] == 4.0


def test_weighted_metrics_of_masked_steps_have_both_weights():
    steps = tf.keras.Input((2, 1))
    model = tf.keras.Model(steps, tf.keras.layers.Masking()(steps))
    model.compile("sgd", "mse", weighted_metrics=["mae"])
    x = np.array([[[1.0], [0.0]], [[3.0], [5.0]]])
    found = model.evaluate(x, np.zeros_like(x), sample_weight=np.array([1.0, 3.0]), verbose=0)
    assert found[1] == pytest.approx((1 + 3 * 3 + 3 * 5) / (1 + 3 + 3))
