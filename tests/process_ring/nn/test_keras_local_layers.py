"""Layers of images over time, of positions, and dropout for selu, with values of 1.15."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as tf

keras, layers = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _new_session():
    with tf.Graph().as_default(), tf.Session():
        yield


def result(layer, *shape):
    """The output for three random examples, with random weights."""
    model = keras.Sequential([layers.InputLayer(shape), layer])
    numbers = np.random.RandomState(1)
    model.set_weights([(numbers.randn(*w.shape) * 0.3).astype(w.dtype)
                       for w in model.get_weights()])
    inputs = np.random.RandomState(2).randn(3, *shape).astype("float32")
    found = model.predict(inputs)
    assert model.output_shape[1:] == found.shape[1:]
    return round(float(found.sum()), 4), round(float(abs(found).max()), 4)


def test_convolutional_memory():
    layer = layers.ConvLSTM2D(2, 3, padding="same")
    assert result(layer, 4, 5, 5, 2) == (-1.1515, 0.5082)
    assert [v.name for v in layer.weights] == [
        "conv_lst_m2d/kernel:0", "conv_lst_m2d/recurrent_kernel:0", "conv_lst_m2d/bias:0"]


def test_convolutional_memory_passes_over_masked_steps():
    images = np.random.RandomState(0).randn(2, 3, 4, 4, 1).astype("float32")
    start = layers.Input((3, 4, 4, 1))
    memory = layers.ConvLSTM2D(2, 2, return_sequences=True)
    given = tf.constant([[True, True, False]] * 2)
    outputs = memory(start, mask=given)
    found = tf.keras.backend.function([start], [outputs])([images])[0]
    np.testing.assert_array_equal(found[:, 2], found[:, 1])


def test_locally_connected_layers():
    assert result(layers.LocallyConnected1D(2, 2), 5, 2) == (-0.6965, 1.0602)
    assert result(layers.LocallyConnected2D(2, 2), 4, 4, 1) == (3.4757, 1.8462)
    with pytest.raises(ValueError, match="valid"):
        layers.LocallyConnected1D(2, 2, padding="same")


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_forms_of_locally_connected_kernels(data_format):
    """Kernels of all forms with the same numbers give the same."""
    x = np.random.RandomState(0).rand(2, 4, 4, 4).astype("float32")
    found = []
    for implementation in (2, 3):
        layer = layers.LocallyConnected2D(3, 2, padding="same", data_format=data_format,
                                          implementation=implementation)
        start = layers.Input((4, 4, 4))
        model = keras.Model(start, layer(start))
        kernel = np.random.RandomState(1).rand(64, 48)
        values = kernel.T[layer._links.T] if implementation == 3 else kernel.reshape(
            layer.kernel.shape.as_list())
        layer.set_weights([values, np.ones(layer.bias.shape.as_list())])
        found.append(model.predict(x))
    np.testing.assert_allclose(*found, rtol=1e-5)


def test_larger_images_with_an_output_padding():
    start = layers.Input((4, 4, 1))
    assert layers.Conv2DTranspose(2, 3, strides=2, output_padding=1)(start).shape.as_list() == [
        None, 10, 10, 2]
    assert layers.Conv2DTranspose(2, 3, strides=2, padding="same", output_padding=0)(
        start).shape.as_list() == [None, 7, 7, 2]
    with pytest.raises(ValueError, match="greater than output padding"):
        layers.Conv2DTranspose(2, 3, strides=2, output_padding=2)


def test_dropout_for_selu_keeps_mean_and_variance():
    rows = np.random.RandomState(0).randn(200, 100).astype("float32")
    dropped = layers.AlphaDropout(0.2, seed=3)(tf.constant(rows), training=True)
    found = tf.get_default_session().run(dropped)
    assert abs(found.mean()) < 0.02 and abs(found.std() - 1) < 0.02
    assert 0.15 < np.mean(np.isclose(found, -1.2361598, atol=1e-6)) < 0.25


def test_pairs_and_windows_of_sequences():
    sequence = keras.preprocessing.sequence
    assert sequence.skipgrams([1, 2, 3], 4, 1, 0.0, seed=1)[1] == [1] * 4
    np.testing.assert_allclose(sequence.make_sampling_table(5).sum(), 0.0283242, rtol=1e-5)
    windows = sequence.TimeseriesGenerator(np.arange(10), np.arange(10), 3, batch_size=2)
    assert len(windows) == 4
    assert [v.tolist() for v in windows[0]] == [[[0, 1, 2], [1, 2, 3]], [3, 4]]
    with pytest.raises(ValueError, match="disallowed"):
        sequence.TimeseriesGenerator(np.arange(3), np.arange(3), 3)
