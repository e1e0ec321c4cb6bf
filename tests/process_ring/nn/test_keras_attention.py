"""Attention, and functions of ``keras.backend`` of images and sequences: values of 1.15."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as tf

keras, layers, backend = tf.keras, tf.keras.layers, tf.keras.backend


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as found:
        yield found


def sums(values):
    """The sum and the greatest absolute value of an array or of several."""
    if isinstance(values, (list, tuple)):
        return [sums(v) for v in values]
    return round(float(np.sum(values)), 3), round(float(np.abs(values).max()), 4)


@pytest.mark.parametrize(("make", "expected"), [
    (lambda: layers.Attention(), (-0.042, 2.097)),
    (lambda: layers.Attention(use_scale=True, causal=True), (-7.418, 2.2883)),
    (lambda: layers.AdditiveAttention(), (2.828, 1.1416))])
def test_attention_with_masks(make, expected):
    query, value = layers.Input((3, 4)), layers.Input((5, 4))
    masks = [tf.constant([[True, True, False]] * 2),
             tf.constant([[True, True, False, True, True]] * 2)]
    model = keras.Model([query, value], make()([query, value], mask=masks))
    model.set_weights([np.full(w.shape, 0.7, "float32") for w in model.get_weights()])
    assert sums(model.predict(NUMBERS)) == expected


def _numbers():
    drawn = np.random.RandomState(7)
    return [drawn.randn(2, n, 4).astype("float32") for n in (3, 5)]


NUMBERS = _numbers()


def test_functions_of_images(session):
    drawn = np.random.RandomState(0)

    def numbers(*shape):
        return tf.constant(drawn.randn(*shape).astype("float32"))

    assert sums(session.run(backend.conv1d(numbers(2, 7, 3), numbers(2, 3, 4), 1, "causal",
                                           dilation_rate=2))) == (-10.972, 6.602)
    assert sums(session.run(backend.conv3d(numbers(2, 4, 4, 4, 2), numbers(2, 2, 2, 2, 3),
                                           padding="same"))) == (-0.707, 13.0447)
    assert sums(session.run(backend.conv2d_transpose(
        numbers(2, 4, 4, 2), numbers(3, 3, 5, 2), (None, 8, 8, 5), (2, 2), "same"))) == (
            5.658, 9.1732)
    normed = backend.normalize_batch_in_training(
        tf.constant(np.arange(24.0).reshape(2, 2, 2, 3)), None, None, [0, 1, 2])
    assert sums(session.run(normed)[1:]) == [(34.5, 12.5), (162.0, 54.0)]
    doubled = backend.resize_volumes(tf.ones([1, 2, 2, 2, 1]), 1, 2, 3, "channels_last")
    assert doubled.shape.as_list() == [1, 2, 4, 6, 1]


def test_labels_of_sequences(session, capfd):
    sparse = backend.ctc_label_dense_to_sparse(tf.constant([[1, 2, 3], [4, 5, 6]]),
                                               tf.constant([2, 3]))
    assert session.run(tf.sparse_tensor_to_dense(sparse)).tolist() == [[1, 2, 0], [4, 5, 6]]
    steps = tf.constant([[[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]])
    (best,), _ = backend.ctc_decode(steps, tf.constant([3]))
    assert session.run(best).tolist() == [[0, 1]]
    session.run(backend.print_tensor(tf.constant([1.0, 2.0]), "m:"))
    assert capfd.readouterr().out == "m: [1 2]\n"


def test_kernels_that_depend_on_the_distance(session):
    radial = keras.constraints.get("radial_constraint")
    for size, expected in ((3, [[4, 4, 4], [4, 0, 4], [4, 4, 4]]),
                           (4, [[15, 15, 15, 15], [15, 5, 5, 15], [15, 5, 5, 15],
                                [15, 15, 15, 15]])):
        kernel = np.arange(size * size, dtype="float32").reshape(size, size, 1, 1)
        assert session.run(radial(tf.constant(kernel)))[:, :, 0, 0].tolist() == expected
    with backend.learning_phase_scope(1):
        assert backend.learning_phase() == 1
    start = layers.Input((2,))
    assert keras.utils.get_source_inputs(layers.Dense(1)(layers.Dense(1)(start))) == [start]
