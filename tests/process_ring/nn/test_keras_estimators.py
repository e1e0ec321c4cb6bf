"""Keras models as estimators, clones of models on tensors: values of 1.15."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as tf

keras, layers = tf.keras, tf.keras.layers
NUMBERS = np.arange(24.0).reshape(8, 3).astype("float32") / 10


@pytest.fixture(autouse=True)
def _new_session():
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def rows(features, labels):
    return lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(4).repeat(2)


@pytest.mark.parametrize(("optimizer", "loss", "prediction"), [
    (lambda: "adam", 0.97508, 0.0038),
    (lambda: keras.optimizers.SGD(0.1, momentum=0.9), 2.00792, 0.7865),
    (lambda: tf.train.AdamOptimizer(0.01), 0.76733, 0.0384)])
def test_a_model_as_estimator(tmp_path, optimizer, loss, prediction):
    model = keras.Sequential([layers.Dense(1, kernel_initializer="zeros", input_shape=(3,),
                                           name="dd")])
    model.compile(optimizer(), "mse", metrics=["mae"])
    estimator = keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    given = rows({"dd_input": NUMBERS}, np.ones((8, 1), "float32"))
    estimator.train(given, steps=3)
    found = estimator.evaluate(given)
    assert round(float(found["loss"]), 5) == loss and found["global_step"] == 3
    assert set(found) == {"loss", "mean_absolute_error", "global_step"}
    assert {"dd/kernel", "dd/bias"} <= set(estimator.get_variable_names())
    assert round(float(next(estimator.predict(given))["dd"][0]), 4) == prediction
    with pytest.raises(KeyError, match="does not have the expected"):
        estimator.train(rows({"x": NUMBERS}, np.ones((8, 1), "float32")), steps=1)


def test_an_estimator_of_several_outputs(tmp_path):
    a, b = layers.Input((3,), name="a"), layers.Input((2,), name="b")
    both = layers.BatchNormalization()(layers.concatenate([a, b]))
    model = keras.Model([a, b], [
        layers.Dense(1, name="p", kernel_initializer="ones")(both),
        layers.Dense(2, "softmax", name="q", kernel_initializer="zeros")(both)])
    model.compile(tf.train.GradientDescentOptimizer(0.1),
                  {"p": "mse", "q": "sparse_categorical_crossentropy"},
                  metrics={"p": "mae", "q": "accuracy"})
    estimator = keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    given = rows({"a": NUMBERS, "b": np.arange(16.0).reshape(8, 2).astype("float32") / 10},
                 {"p": np.ones((8, 1), "float32"), "q": np.array([[0], [1]] * 4)})
    estimator.train(given, steps=3)
    found = {k: round(float(v), 5) for k, v in estimator.evaluate(given).items()}
    assert found == {"global_step": 3, "loss": 0.89297, "p_mean_absolute_error": 0.44696,
                     "q_acc": 0.5}


def test_estimators_begin_with_the_weights_of_the_model_and_weigh_examples(tmp_path):
    model = keras.Sequential([layers.Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    model.set_weights([np.ones((3, 1)), np.zeros(1)])
    estimator = keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    given = rows({"features": NUMBERS, "sample_weights": np.zeros(8, "float32")},
                 np.ones((8, 1), "float32"))
    estimator.train(given, steps=1)
    assert float(estimator.evaluate(given)["loss"]) == 0.0
    np.testing.assert_array_equal(estimator.get_variable_value("dense/kernel"), np.ones((3, 1)))


class Largest(layers.Layer):
    def call(self, x):
        self.add_metric(tf.reduce_max(x), "mean", "largest")
        return x


def test_metrics_and_losses_of_layers_in_estimators(tmp_path):
    model = keras.Sequential([
        layers.Dense(1, kernel_initializer="ones", activity_regularizer=keras.regularizers.l1(1.0),
                     input_shape=(3,)), Largest()])
    model.compile("sgd", "mse")
    estimator = keras.estimator.model_to_estimator(
        model, custom_objects={"Largest": Largest}, model_dir=str(tmp_path))
    rows = np.ones((4, 3), "float32")
    batch = tf.data.Dataset.from_tensors
    estimator.train(lambda: batch((rows * 0, np.zeros((4, 1), "float32"))), steps=1)
    found = estimator.evaluate(lambda: batch((rows, np.full((4, 1), 2, "float32"))))
    assert found["loss"] == pytest.approx(1 + 3) and found["largest"] == pytest.approx(3)


def test_clones_on_tensors_with_layers_of_a_function():
    start = layers.Input((3,))
    model = keras.Model(start, layers.Dense(2, use_bias=False)(start))
    given = tf.constant(NUMBERS)
    seen = []

    def copied(layer):
        seen.append(layer.name)
        return layers.Dense(2, use_bias=False, kernel_initializer="ones", name=layer.name)

    clone = keras.models.clone_model(model, given, copied)
    assert seen == ["dense"]
    found = keras.backend.get_session().run(clone.output)
    np.testing.assert_allclose(found, NUMBERS.sum(1, keepdims=True).repeat(2, 1), rtol=1e-6)
