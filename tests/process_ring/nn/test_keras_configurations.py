"""Configurations of Keras layers and models are those of 1.15, so that files go both ways."""

from __future__ import annotations

import json

import numpy as np
import pytest

import hpcflow as tf

keras, layers = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _new_session():
    with tf.Graph().as_default(), tf.Session():
        yield


GLOROT = {"class_name": "GlorotUniform", "config": {"seed": None, "dtype": "float32"}}
ZEROS = {"class_name": "Zeros", "config": {"dtype": "float32"}}


def of(layer, *left_out):
    return {k: v for k, v in layer.get_config().items()
            if k not in ("name", "trainable", "dtype", "data_format", *left_out)}


def test_configurations_have_the_entries_of_1_x():
    kernel = {"kernel_initializer": GLOROT, "bias_initializer": ZEROS, "use_bias": True,
              "kernel_regularizer": None, "bias_regularizer": None, "activity_regularizer": None,
              "kernel_constraint": None, "bias_constraint": None}
    assert of(layers.Dense(4)) == {"units": 4, "activation": "linear", **kernel}
    assert of(layers.Conv1D(3, 2, padding="causal")) == {
        "filters": 3, "kernel_size": (2,), "strides": (1,), "padding": "causal",
        "dilation_rate": (1,), "activation": "linear", **kernel}
    assert of(layers.Conv2DTranspose(3, 3, strides=2)) == {
        "filters": 3, "kernel_size": (3, 3), "strides": (2, 2), "padding": "valid",
        "dilation_rate": (1, 1), "output_padding": None, "activation": "linear", **kernel}
    assert of(layers.MaxPooling2D()) == {
        "pool_size": (2, 2), "strides": (2, 2), "padding": "valid"}
    lstm = of(layers.LSTM(4))
    assert lstm["implementation"] == 1 and lstm["recurrent_activation"] == "hard_sigmoid"
    assert lstm["time_major"] is False and "activity_regularizer" in lstm
    assert set(of(layers.SpatialDropout2D(0.2))) == {"rate", "noise_shape", "seed"}
    norm = layers.BatchNormalization()
    norm(layers.Input((4, 4, 3)))
    assert norm.get_config()["axis"] == [3] and "fused" not in norm.get_config()
    assert keras.losses.Huber().get_config()["delta"] == 1.0
    assert set(keras.losses.SparseCategoricalCrossentropy().get_config()) == {
        "reduction", "name", "from_logits"}
    assert keras.losses.get({"class_name": "Huber", "config": {"delta": 2.0}}).get_config()[
        "delta"] == 2.0


def test_configurations_of_1_x_make_layers():
    for name, config in (
            ("InputLayer", {"batch_input_shape": [None, 4], "dtype": "float32", "sparse": False,
                            "ragged": False, "name": "a"}),
            ("SeparableConv2D", {"filters": 2, "kernel_size": [3, 3], "kernel_initializer": GLOROT,
                                 "kernel_regularizer": None, "kernel_constraint": None}),
            ("DepthwiseConv2D", {"kernel_size": [3, 3], "dilation_rate": [1, 1]}),
            ("Conv3DTranspose", {"filters": 2, "kernel_size": [3, 3, 3], "output_padding": None}),
            ("SpatialDropout1D", {"rate": 0.1, "noise_shape": None, "seed": None})):
        layer = layers.deserialize({"class_name": name, "config": config})
        assert type(layer).__name__ == name
    with pytest.raises(NotImplementedError, match="ragged"):
        layers.InputLayer((4,), ragged=True)


def test_calls_of_nested_models_are_counted_as_in_1_x():
    first = layers.Input((4,), name="first")
    inner = keras.Model(first, layers.add([layers.Dense(4, name="d")(first), first], name="s"),
                        name="inner")
    start = layers.Input((4,), name="start")
    model = keras.Model(start, layers.Flatten(name="flat")(inner(inner(start))))
    told = json.loads(model.to_json())["config"]
    calls = {v["name"]: v["inbound_nodes"] for v in told["layers"]}
    assert calls["inner"] == [[["start", 0, 0, {}]], [["inner", 1, 0, {}]]]
    assert calls["flat"] == [[["inner", 2, 0, {}]]]
    again = keras.models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    rows = np.random.RandomState(0).randn(3, 4)
    np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-6)


def test_updates_of_a_nested_model_are_those_of_the_outer_inputs():
    inner = keras.Sequential([layers.Dense(3, input_shape=(4,), activity_regularizer="l1"),
                              layers.BatchNormalization()])
    start = layers.Input((4,))
    model = keras.Model(start, inner(start))
    assert (len(inner.updates), len(model.updates)) == (4, 2)
    assert (len(inner.losses), len(model.losses)) == (2, 1)
    model.compile("sgd", "mse")
    assert np.isfinite(model.train_on_batch(np.ones((2, 4)), np.ones((2, 3))))


def test_summaries_say_what_layers_are_connected_to():
    a, b = layers.Input((4,), name="a"), layers.Input((4,), name="b")
    both = layers.concatenate([layers.Dense(2, name="p")(a), layers.Dense(2, name="q")(b)])
    model = keras.Model([a, b], layers.add([both, both]), name="m")
    lines: list[str] = []
    model.summary(print_fn=lines.append)
    assert {len(v) for v in lines if v[0] in "_="} == {98}
    assert lines[4] == f"{'a (InputLayer)':32}{'[(None, 4)]':21}{'0':12}".ljust(98)
    assert lines[-9:-6] == [
        f"{'':65}{'q[0][0]'}".ljust(98), "_" * 98,
        f"{'add (Add)':32}{'(None, 4)':21}{'0':12}{'concatenate[0][0]'}".ljust(98)]
    lines.clear()
    keras.Sequential([layers.Dense(2, input_shape=(4,)), layers.BatchNormalization()]).summary(
        print_fn=lines.append)
    assert lines[-6].startswith("batch_normalization (BatchNo (None, 2) ")
