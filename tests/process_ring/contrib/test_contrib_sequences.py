"""Layers of ``contrib.layers`` over sequences, sparse ids and planes of images."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import layers


def test_spatial_softmax_finds_a_peak(session):
    images = np.zeros((2, 5, 3, 2), np.float32)
    images[0, 4, 0, 0] = images[0, 2, 1, 1] = images[1, 0, 2, 0] = 100
    points = layers.spatial_softmax(hf.constant(images))
    turned = layers.spatial_softmax(hf.constant(images.transpose(0, 3, 1, 2)), 2.0,
                                    data_format="NCHW")
    session.run(hf.global_variables_initializer())
    for found in (points, turned):
        assert found.shape.as_list() == [2, 4]
        np.testing.assert_allclose(session.run(found), [[1, -1, 0, 0], [-1, 1, 0, 0]], atol=1e-6)
    assert [v.op.name for v in hf.trainable_variables()] == [
        "spatial_softmax/temperature", "spatial_softmax_1/temperature"]
    with pytest.raises(ValueError, match="data_format"):
        layers.spatial_softmax(hf.constant(images), data_format="NWHC")
    with pytest.raises(ValueError, match="num_channels"):
        layers.spatial_softmax(hf.placeholder(hf.float32, [2, 5, 3, None]))


def test_images_as_sequences(session):
    images = np.arange(2 * 3 * 4 * 2, dtype=np.float32).reshape(2, 3, 4, 2)
    sequence = layers.images_to_sequence(hf.constant(images))
    assert sequence.shape.as_list() == [4, 6, 2]
    np.testing.assert_array_equal(session.run(sequence)[1, 3:], images[1, :, 1])
    np.testing.assert_array_equal(session.run(layers.sequence_to_images(sequence, 3)), images)
    first = hf.constant(images.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(session.run(layers.images_to_sequence(first, "NCHW")),
                                  session.run(sequence))
    np.testing.assert_array_equal(
        session.run(layers.sequence_to_images(sequence, 3, "channels_first")),
        images.transpose(0, 3, 1, 2))


def test_bags_of_words(session):
    ids = np.array([[1, 2, 0], [3, 0, 0], [0, 0, 0]])
    table = np.arange(8, dtype=np.float32).reshape(4, 2)
    start = hf.constant_initializer(table)
    sparse = layers.bow_encoder(ids, 4, 2, initializer=start)
    dense = layers.bow_encoder(ids, 4, 2, sparse_lookup=False, initializer=start)
    session.run(hf.global_variables_initializer())
    assert sparse.shape.as_list() == dense.shape.as_list() == [3, 2]
    np.testing.assert_allclose(session.run(sparse), [table[1:3].mean(0), table[3], table[0]])
    np.testing.assert_allclose(session.run(dense), table[ids].mean(1))
    np.testing.assert_allclose(session.run(layers.embedding_lookup_unique(table, ids)), table[ids])
    as_sparse = layers.dense_to_sparse(ids, eos_token=2)
    assert session.run(hf.sparse_tensor_to_dense(as_sparse, 9)).tolist() == [
        [1, 9, 0], [3, 0, 0], [0, 0, 0]]
    with pytest.raises(TypeError, match="dense"):
        layers.bow_encoder(as_sparse, 4, 2, sparse_lookup=False)


def test_one_filter_for_all_channels(session):
    x = np.random.default_rng(0).normal(size=(1, 4, 5, 3)).astype(np.float32)
    y = layers.conv2d_in_plane(x, [1, 2], padding="VALID", activation_fn=None,
                               weights_initializer=hf.constant_initializer([[[[1.0]], [[-2.0]]]]))
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run(y), x[:, :, :-1] - 2 * x[:, :, 1:], rtol=1e-5, atol=1e-6)


def test_transposed_volumes(session):
    y = layers.conv3d_transpose(hf.ones([1, 2, 2, 2, 3]), 4, 2, 2, scope="up",
                                weights_initializer=hf.ones_initializer())
    session.run(hf.global_variables_initializer())
    assert [v.name for v in hf.model_variables()] == ["up/weights:0", "up/biases:0"]
    np.testing.assert_array_equal(session.run(y), np.full((1, 4, 4, 4, 4), 3))


def test_legacy_fully_connected(session):
    y = layers.legacy_relu(hf.constant([[[1.0, -3.0]]]), 2, weight_init=hf.ones_initializer(),
                           bias_init=hf.constant_initializer([1.0, 3.0]))
    session.run(hf.global_variables_initializer())
    assert session.run(y).tolist() == [[[0, 1]]]
    assert [v.op.name for v in hf.get_collection("biases")] == ["fully_connected/bias"]
    assert hf.get_collection("activations") == [y]
