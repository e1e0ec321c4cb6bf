"""``hpcflow.contrib.layers``: layers, initializers, regularizers, training operations."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import layers


@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3)], ids=str)
def test_fully_connected(session, shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    y = layers.fully_connected(x, 2, weights_regularizer=layers.l2_regularizer(0.5),
                               biases_initializer=hf.ones_initializer(),
                               outputs_collections="outputs", scope="fc")
    session.run(hf.global_variables_initializer())
    weights, biases = session.run(hf.trainable_variables())
    assert [v.name for v in hf.model_variables()] == ["fc/weights:0", "fc/biases:0"]
    np.testing.assert_allclose(session.run(y), np.maximum(x @ weights + biases, 0), rtol=1e-5,
                               atol=1e-5)
    np.testing.assert_allclose(session.run(hf.losses.get_regularization_loss()),
                               (weights**2).sum() / 4, rtol=1e-5)
    assert hf.get_collection("outputs") == [y]


def test_normalizers_replace_biases(session):
    y = layers.fully_connected(hf.ones([4, 3]), 2, None, lambda v, factor: v * factor,
                               {"factor": 0.0})
    session.run(hf.global_variables_initializer())
    assert (session.run(y) == 0).all() and len(hf.global_variables()) == 1
    with pytest.raises(ValueError, match="must be known"):
        layers.fully_connected(hf.placeholder(hf.float32, [2, None]), 2)


def test_regularizers(session):
    w = np.float32([[1, -2], [3, 0]])
    assert session.run(layers.l1_regularizer(0.5)(w)) == 3
    assert session.run(layers.l2_regularizer(0.5)(w)) == 3.5
    assert session.run(layers.l2_regularizer(np.float32(0.5))(w)) == 3.5
    scale = hf.placeholder(hf.float32)
    both = layers.l1_l2_regularizer(scale, scale)(w)
    assert session.run(both, {scale: 0.5}) == 6.5
    assert session.run(layers.l1_l2_regularizer(0.5, 0.5)(w)) == 6.5
    assert layers.l2_regularizer(0.0)(w) is None
    with pytest.raises(ValueError, match="negative"):
        layers.l1_regularizer(-1.0)
    with pytest.raises(ValueError, match="number"):
        layers.l2_regularizer("1")


def test_initializers(session):
    for uniform in (True, False):
        drawn = session.run(layers.xavier_initializer(uniform, seed=1)([100, 300]))
        np.testing.assert_allclose(drawn.var(), 1 / 200, rtol=0.3)
    drawn = session.run(layers.variance_scaling_initializer(seed=1)([100, 300]))
    np.testing.assert_allclose(drawn.var(), 2 / 100, rtol=0.3)
    with pytest.raises(TypeError, match="FAN_IN"):
        layers.variance_scaling_initializer(mode="fan")


# ---------------------------------------------------------------- the other layers


def _names(variables):
    return [v.op.name for v in variables]


def test_convolutions_normalize_and_name_their_variables(session):
    x = hf.ones([2, 8, 8, 3])
    with hf.contrib.framework.arg_scope([layers.conv2d], normalizer_fn=layers.batch_norm,
                                        weights_regularizer=layers.l2_regularizer(0.1)):
        y = layers.conv2d(x, 4, [3, 3], stride=2, scope="one", outputs_collections="ends")
        y = layers.conv2d(y, 5, 1, normalizer_fn=None, activation_fn=None, scope="two",
                          variables_collections={"biases": ["of_biases"]})
    assert y.shape.as_list() == [2, 4, 4, 5]
    assert _names(hf.model_variables()) == [
        "one/weights", "one/BatchNorm/beta", "one/BatchNorm/moving_mean",
        "one/BatchNorm/moving_variance", "two/weights", "two/biases"]
    assert _names(hf.trainable_variables()) == ["one/weights", "one/BatchNorm/beta", "two/weights",
                                                "two/biases"]
    assert _names(hf.get_collection("of_biases")) == ["two/biases"]
    assert len(hf.losses.get_regularization_losses()) == 2
    assert len(hf.get_collection(hf.GraphKeys.UPDATE_OPS)) == 2
    assert list(hf.contrib.slim.utils.convert_collection_to_dict("ends")) == ["one"]
    again = layers.conv2d(x, 4, [3, 3], 2, normalizer_fn=layers.batch_norm, scope="one",
                          reuse=True)
    assert len(hf.global_variables()) == 6 and again.shape.as_list() == [2, 4, 4, 4]
    session.run(hf.global_variables_initializer())
    session.run([y, again])


def test_convolutions_compute_what_nn_computes(session):
    images = np.random.default_rng(0).normal(size=(1, 5, 6, 2)).astype(np.float32)
    y = layers.conv2d(images, 3, 3, padding="VALID", rate=2, biases_initializer=None)
    z = layers.separable_conv2d(images, 4, 3, 2)
    deep = layers.separable_conv2d(images, None, 3, 2, activation_fn=None)
    t = layers.conv2d_transpose(images, 3, [3, 3], 2, activation_fn=None)
    line = layers.convolution(images[0], 3, 3)
    session.run(hf.global_variables_initializer())
    w = {v.op.name: v for v in hf.global_variables()}
    assert set(w) == {"Conv/weights", "SeparableConv2d/depthwise_weights",
                      "SeparableConv2d/pointwise_weights", "SeparableConv2d/biases",
                      "SeparableConv2d_1/depthwise_weights", "SeparableConv2d_1/biases",
                      "Conv2d_transpose/weights", "Conv2d_transpose/biases", "Conv_1/weights",
                      "Conv_1/biases"}
    expected = hf.nn.relu(hf.nn.convolution(images, w["Conv/weights"], "VALID",
                                            dilation_rate=[2, 2]))
    np.testing.assert_array_equal(*session.run([y, expected]))
    expected = hf.nn.relu(hf.nn.separable_conv2d(
        images, w["SeparableConv2d/depthwise_weights"], w["SeparableConv2d/pointwise_weights"],
        [1, 1, 1, 1], "SAME"))
    np.testing.assert_array_equal(*session.run([z, expected]))
    shapes = [v.shape.as_list() for v in (deep, t, line)]
    assert shapes == [[1, 5, 6, 4], [1, 10, 12, 3], [5, 6, 3]]
    with pytest.raises(ValueError, match="rank 4, got 2"):
        layers.conv2d(images[0, 0], 3, 3)
    with pytest.raises(ValueError, match="NCHW"):
        layers.conv2d(images, 3, 3, data_format="HWC")


@pytest.mark.parametrize("in_place", [False, True], ids=["collected", "in place"])
def test_batch_norm_moves_its_statistics(session, in_place):
    x = np.float32([[1, 2], [3, 6]])
    where = {"updates_collections": None} if in_place else {}
    training = hf.placeholder_with_default(True, [])
    y = layers.batch_norm(x, 0.5, scale=True, is_training=training, epsilon=0.0, **where)
    updates = hf.get_collection(hf.GraphKeys.UPDATE_OPS)
    assert len(updates) == (0 if in_place else 2)
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run([y, updates])[0], [[-1, -1], [1, 1]], rtol=1e-5)
    mean, variance = session.run(hf.global_variables()[-2:])
    # As 1.x, which normalizes rows as images of one pixel: the variance is over n - 1.
    np.testing.assert_allclose([mean, variance], [[1, 2], [1.5, 4.5]], rtol=1e-5)
    np.testing.assert_allclose(session.run(y, {training: False}), (x - mean) / np.sqrt(variance),
                               rtol=1e-5)


def test_norms_of_rows(session):
    x = np.random.default_rng(1).normal(3, 2, size=(4, 5, 3)).astype(np.float32)
    y = layers.layer_norm(x)
    session.run(hf.global_variables_initializer())
    found = session.run(y).reshape(4, -1)
    np.testing.assert_allclose([found.mean(1), found.std(1)], [[0] * 4, [1] * 4], atol=1e-5)
    assert [v.shape.as_list() for v in hf.global_variables()] == [[3], [3]]
    lengths = np.linalg.norm(session.run(layers.unit_norm(x, 1)), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)


def test_layers_without_variables(session):
    x = np.arange(32, dtype=np.float32).reshape(2, 4, 4, 1)
    assert session.run(layers.max_pool2d(x, 2)).shape == (2, 2, 2, 1)
    assert session.run(layers.avg_pool2d(x, [4, 4], scope="p")).ravel().tolist() == [7.5, 23.5]
    assert layers.pool(x, 2, "AVG", dilation_rate=2).shape.as_list() == [2, 2, 2, 1]
    assert layers.flatten(x).shape.as_list() == [2, 16]
    assert layers.flatten(hf.ones([3])).shape.as_list() == [3, 1]
    assert session.run(layers.one_hot_encoding([1, 0], 2)).tolist() == [[0, 1], [1, 0]]
    assert session.run(layers.dropout(x, 0.3, is_training=False)).sum() == x.sum()
    assert 0 < (session.run(layers.dropout(x + 1, 0.5)) == 0).sum() < 32
    assert session.run(layers.maxout(np.float32([[1, 5, 3, 2]]), 2)).tolist() == [[5, 3]]
    np.testing.assert_allclose(session.run(layers.softmax(x)).ravel(), 1)


def test_repeated_and_stacked_layers(session):
    y = layers.repeat(hf.ones([2, 4, 4, 1]), 2, layers.conv2d, 3, [3, 3], scope="conv")
    y = layers.stack(layers.flatten(y), layers.fully_connected, [5, [6, None]], scope="fc")
    assert y.shape.as_list() == [2, 6]
    assert _names(hf.trainable_variables())[::2] == [
        "conv/conv_1/weights", "conv/conv_2/weights", "fc/fc_1/weights", "fc/fc_2/weights"]


def test_embeddings(session):
    y = layers.embed_sequence([[1, 2], [0, 1]], 4, 3, scope="words")
    again = layers.embed_sequence([[3]], 4, 3, scope="words", reuse=True)
    assert y.shape.as_list() == [2, 2, 3] and again.shape.as_list() == [1, 1, 3]
    assert _names(hf.global_variables()) == ["words/embeddings"]
    table = np.float32([[1, 2], [3, 4], [5, 6]])
    ids = hf.SparseTensor([[0, 0], [0, 1], [2, 0]], hf.constant([1, 2, -1], hf.int64), [4, 2])
    found = layers.safe_embedding_lookup_sparse(hf.constant(table), ids)
    assert session.run(found).tolist() == [[4, 5], [0, 0], [0, 0], [0, 0]]
    found = layers.safe_embedding_lookup_sparse(hf.constant(table), ids, default_id=1)
    assert session.run(found).tolist() == [[4, 5], [3, 4], [3, 4], [3, 4]]
    weights = hf.SparseTensor(ids.indices, [1.0, 3.0, 1.0], ids.dense_shape)
    found = layers.safe_embedding_lookup_sparse(hf.constant(table), ids, weights, "sum")
    assert session.run(found)[0].tolist() == [18, 22]
    with pytest.raises(ValueError, match="Must specify"):
        layers.embed_sequence([[1]])


@pytest.mark.parametrize("optimizer", ["SGD", hf.train.GradientDescentOptimizer,
                                       lambda rate: hf.train.GradientDescentOptimizer(rate)],
                         ids=["name", "class", "function"])
def test_optimize_loss(session, optimizer):
    v = hf.Variable(3.0)
    step = hf.train.get_or_create_global_step()
    moved = hf.Variable(0.0, trainable=False)
    hf.add_to_collection(hf.GraphKeys.UPDATE_OPS, moved.assign_add(1.0))
    train = layers.optimize_loss(v * v, step, 0.5, optimizer, gradient_multipliers={v: 4.0},
                                 clip_gradients=2.0,
                                 learning_rate_decay_fn=lambda rate, step: rate / 2)
    session.run(hf.global_variables_initializer())
    assert session.run(train) == 9
    assert session.run([v, step, moved]) == [2.5, 1, 1]
    assert len(hf.get_collection(hf.GraphKeys.SUMMARIES)) == 4


def test_optimize_loss_summarizes_gradients(session):
    v, step = hf.Variable(3.0, name="v"), hf.train.get_or_create_global_step()
    layers.optimize_loss(v * v, step, 0.5, "SGD", clip_gradients=2.0,
                         summaries=["gradients", "gradient_norm"])
    session.run(hf.global_variables_initializer())
    written = hf.Summary.FromString(session.run(hf.summary.merge_all()))
    values = {value.tag.removeprefix("OptimizeLoss/"): value for value in written.value}
    assert {*values} == {"global_norm/gradient_norm", "gradients/v_0", "gradient_norm/v_0",
                         "global_norm/clipped_gradient_norm"}
    assert values["global_norm/gradient_norm"].simple_value == 6
    assert values["gradient_norm/v_0"].simple_value == 2
    assert values["gradients/v_0"].histo.num == 1


def test_optimize_loss_refuses(session):
    loss, step = hf.Variable(3.0) * 2, hf.train.get_or_create_global_step()
    for rate, optimizer in ((None, "SGD"), (-1.0, "SGD"), (0.1, "Newton"), (0.1, 3),
                            ([0.1], "SGD"), (0.1, lambda rate: 3)):
        with pytest.raises(ValueError, match=r"[Oo]ptimizer|rate"):
            layers.optimize_loss(loss, step, rate, optimizer)


def test_regularizers_of_many_weights(session):
    assert layers.sum_regularizer([None, None]) is None
    both = layers.sum_regularizer([layers.l1_regularizer(1.0), None, layers.l2_regularizer(1.0)])
    hf.add_to_collection(hf.GraphKeys.WEIGHTS, hf.constant([1.0, 2.0]))
    total = layers.apply_regularization(both)
    assert session.run(total) == 5.5
    assert hf.losses.get_regularization_losses() == [total]
    assert len(layers.summarize_weights()) == 1
    with pytest.raises(ValueError, match="scalar"):
        layers.apply_regularization(lambda w: w)


def test_windows_may_be_shapes_and_scopes_name_the_operation(session):
    images = hf.ones([1, 4, 6, 2])
    whole = layers.avg_pool2d(images, images.shape[1:3], stride=1, scope="all")
    assert whole.op.name == "all/AvgPool"
    assert whole.shape.as_list() == [1, 1, 1, 2]
    assert layers.pool(images, [2, 3], "AVG", scope="some").op.name == "some"
    with pytest.raises(ValueError, match="either NCDHW or NDHWC"):
        layers.max_pool3d(hf.ones([1, 2, 2, 2, 1]), 2, data_format="CDHWN")


@pytest.mark.parametrize("fused", [None, True, False])
def test_moving_variance_of_batch_norm(session, fused):
    x = np.random.default_rng(0).normal(size=(2, 3, 3, 2)).astype(np.float32)
    layers.batch_norm(x, decay=0.0, fused=fused, scope="norm")
    session.run(hf.global_variables_initializer())
    session.run(hf.get_collection(hf.GraphKeys.UPDATE_OPS))
    variance = session.run(hf.get_collection(hf.GraphKeys.GLOBAL_VARIABLES, "norm/moving_v")[0])
    expected = x.reshape(-1, 2).var(axis=0, ddof=0 if fused is False else 1)
    np.testing.assert_allclose(variance, expected, rtol=1e-5)


def test_losses_take_weights_of_the_first_dimensions(session):
    from hpcflow.contrib import losses

    predictions = np.array([[4, 8, 12], [8, 1, 3]], np.float32)
    labels = np.array([[1, 9, 2], [-5, -5, 7]], np.float32)
    loss = losses.absolute_difference(predictions, labels, hf.constant([1.2, 0.0]))
    expected = 1.2 * np.abs(predictions[0] - labels[0]).mean()
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-6)


def test_collections_of_variables_hold_what_a_custom_getter_returns():
    def doubled(getter, *args, **keywords):
        return 2.0 * getter(*args, **keywords)

    with hf.Graph().as_default(), hf.Session() as session:
        with hf.variable_scope("scope", custom_getter=doubled, reuse=hf.AUTO_REUSE):
            for _ in range(2):
                hf.contrib.layers.fully_connected(
                    hf.ones([1, 2]), 3, weights_initializer=hf.ones_initializer(), scope="layer",
                    variables_collections={"weights": ["found"]})
            hf.contrib.layers.conv2d(
                hf.ones([1, 2, 2, 2]), 3, 1, weights_initializer=hf.ones_initializer(),
                scope="other", variables_collections={"weights": ["found"]})
        session.run(hf.global_variables_initializer())
        found = session.run(hf.get_collection("found"))
        assert found[-1].shape == (1, 1, 2, 3)
        for value in found:
            np.testing.assert_array_equal(value, 2 * np.ones(value.shape))
