"""What Keras in 1.15 does otherwise than in later versions; its values."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as tf

layers = tf.keras.layers


@pytest.fixture(autouse=True)
def _own_session():
    yield
    tf.keras.backend.clear_session()


def line(activation=None, units=1, **options):
    model = tf.keras.Sequential([layers.Dense(
        units, activation, kernel_initializer="zeros", input_shape=(3,))])
    model.compile("sgd", **{"loss": "mse", **options})
    return model


def test_metrics_are_called_by_their_functions():
    names = ["accuracy", "mae", "crossentropy", tf.keras.metrics.mse]
    model = line("sigmoid", loss="binary_crossentropy", metrics=names)
    assert model.metrics_names == ["loss", "acc", "mean_absolute_error", "ce",
                                   "mean_squared_error"]


def test_weighted_metrics_and_those_that_are_added_have_names_of_their_own():
    x = tf.keras.Input((3,))
    y = layers.Dense(1, kernel_initializer="ones")(x)
    model = tf.keras.Model(x, y)
    model.add_metric(tf.reduce_max(y), "mean", "largest")
    model.compile("sgd", "mse", metrics=["mae"], weighted_metrics=["mae"])
    data = np.ones((2, 3)), np.zeros((2, 1)), np.array([1.0, 0.0])
    found = dict(zip(model.metrics_names, model.evaluate(*data[:2], sample_weight=data[2],
                                                         verbose=0)))
    assert found == {"loss": 4.5, "mean_absolute_error": 3, "weighted_mean_absolute_error": 3,
                     "largest": 3}


def test_the_loss_of_masked_steps_is_a_mean_over_all():
    model = tf.keras.Sequential([layers.Masking(input_shape=(4, 1))])
    model.compile("sgd", "mse")
    x = np.array([[[1], [2], [0], [0]]])
    assert model.evaluate(x, x + 2, verbose=0) == (4 + 4) / 4


def test_inputs_are_called_by_the_first_layer_or_by_number():
    assert line().inputs[0].op.name == "dense_input"
    assert [tf.keras.Input((2,)).op.name for _ in range(2)] == ["input_1", "input_2"]


def test_regularization_of_outputs_is_that_of_an_example(session):
    x = tf.ones([4, 3])
    dense = layers.Dense(2, kernel_initializer="ones", activity_regularizer=tf.reduce_sum)
    dense(x)
    tf.layers.dense(x, 2, kernel_initializer=tf.ones_initializer(),
                    activity_regularizer=tf.reduce_sum)
    session.run(tf.global_variables_initializer())
    assert session.run([dense.losses, tf.losses.get_regularization_losses()]) == [[6], [6]]


def test_layers_are_seeded_by_the_operations_of_those_before(session):
    tf.set_random_seed(3)
    model = tf.keras.Sequential([layers.Dense(4, input_shape=(3,)), layers.Dense(2)])
    session.run(tf.global_variables_initializer())
    first, _, second, _ = (float(v.sum()) for v in session.run(model.weights))
    assert (first, second) == (pytest.approx(2.08137, abs=1e-5), pytest.approx(4.70385, abs=1e-5))


def test_a_generator_goes_on_from_one_evaluation_to_the_next():
    def batches():
        while True:
            yield np.ones((4, 3)), np.ones((4, 1))

    found = line().fit_generator(batches(), steps_per_epoch=1, epochs=3, verbose=0,
                                 validation_data=batches(), validation_steps=1)
    assert len(found.history["val_loss"]) == 3


def test_tensors_are_batches():
    pair = tf.data.Dataset.from_tensors((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32))
                                        ).repeat().make_one_shot_iterator().get_next()
    model = line()
    assert model.fit(*pair, steps_per_epoch=2, verbose=0).history["loss"] == [
        pytest.approx((1 + 0.92 ** 2) / 2)]
    assert model.evaluate(*pair, steps=1, verbose=0) == pytest.approx(0.92 ** 4)
    assert model.predict(pair[0], steps=3).shape == (12, 1)
    assert model.fit(*pair, steps_per_epoch=1, verbose=0, validation_data=pair, validation_steps=2
                     ).history["val_loss"] == [pytest.approx(0.92 ** 6)]
    for given in (pair, (pair,), (pair[0], np.ones((4, 1))), (np.ones((4, 3)), pair[1])):
        assert model.evaluate(*given, steps=1, verbose=0) == pytest.approx(0.92 ** 6)
        with pytest.raises(ValueError, match="steps_per_epoch"):
            model.fit(*given)
    with pytest.raises(ValueError, match="validation_steps"):
        model.fit(*pair, steps_per_epoch=1, validation_data=pair)


def test_what_is_said_of_evaluations():
    """The steps may be said of a part of the data; without any only they are an error."""
    arrays, model = (np.ones((4, 3)), np.ones((4, 1))), line()
    assert len(model.fit(*arrays, verbose=0, validation_split=0.5, validation_steps=1
                         ).history["val_loss"]) == 1
    model.fit(*arrays, verbose=0, validation_freq=0)
    with pytest.raises(ValueError, match="validation_steps"):
        model.fit(*arrays, verbose=0, validation_steps=1)
    with pytest.raises(ValueError, match="validation_freq"):
        model.fit(*arrays, verbose=0, validation_split=0.5, validation_freq=0)


def test_a_list_of_tensors_is_one_of_inputs():
    ends = [tf.keras.Input((2,)), tf.keras.Input((2,))]
    model = tf.keras.Model(ends, layers.add(ends))
    model.add_loss(tf.reduce_mean(model.output))
    model.compile("sgd")
    assert model.evaluate([tf.ones([3, 2]), 2 * tf.ones([3, 2])], steps=2, verbose=0) == 3
    assert model.predict([tf.ones([3, 2]), tf.ones([3, 2])], steps=2).shape == (6, 2)


def test_training_ends_with_the_data(caplog):
    data = tf.data.Dataset.from_tensors((np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)))
    found = line().fit(data, steps_per_epoch=1, epochs=3, verbose=0)
    assert len(found.epoch) == 1
    assert "ran out of data" in caplog.text


def test_labels_are_not_spread_over_outputs():
    with pytest.raises(ValueError, match=r"target array with shape \(4, 2\)"):
        line().fit(np.ones((4, 3)), np.ones((4, 2)), verbose=0)
    line(loss="mae").fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)


def test_optimizers_have_their_weights_slot_by_slot():
    model = line()
    model.compile("adam", "mse")
    model.fit(np.ones((4, 3)), np.ones((4, 1)), verbose=0)
    assert [v.op.name.removeprefix("training/Adam/") for v in model.optimizer.weights] == [
        "iter", "dense/kernel/m", "dense/bias/m", "dense/kernel/v", "dense/bias/v"]


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam", "nadam", "ftrl"])
def test_models_of_another_element_type(optimizer):
    tf.keras.backend.set_floatx("float64")
    tf.set_random_seed(1)
    try:
        model = tf.keras.Sequential([layers.Embedding(5, 3, input_length=2), layers.Flatten(),
                                     layers.Dense(1)])
        model.compile(optimizer, "mse")
        losses = model.fit(np.array([[0, 1], [2, 3]]), np.ones((2, 1)), epochs=3, verbose=0).history
        assert {w.dtype for w in model.get_weights()} == {np.dtype(np.float64)}
        assert losses["loss"][2] != losses["loss"][0]
    finally:
        tf.keras.backend.set_floatx("float32")
