"""``hpcflow.layers``: values, variables, regularization, reuse, training."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf

RNG = np.random.default_rng(7)


def values_of(session):
    """Random values for all variables, by name."""
    found = {}
    for variable in hf.global_variables():
        value = RNG.uniform(0.5, 1.5, variable.shape.as_list()).astype(np.float32)
        session.run(hf.assign(variable, value))
        found[variable.name[:-2]] = value
    return found


@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown"])
@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 3)], ids=str)
def test_dense(session, shape, known):
    x = RNG.normal(size=shape).astype(np.float32)
    given = hf.placeholder(hf.float32, shape if known else [*[None] * (len(shape) - 1), 3])
    y = hf.layers.dense(given, 2, activation=hf.nn.relu)
    assert y.shape.as_list()[-1] == 2
    w = values_of(session)
    expected = np.maximum(x @ w["dense/kernel"] + w["dense/bias"], 0)
    np.testing.assert_allclose(session.run(y, {given: x}), expected, rtol=1e-5, atol=1e-5)


def test_names_reuse_and_regularizers(session):
    x = hf.ones([4, 3])

    def square(v):
        return hf.reduce_sum(v * v)

    hf.layers.dense(x, 2)
    hf.layers.dense(x, 2, use_bias=False)
    first = hf.layers.dense(x, 2, name="named", kernel_regularizer=square,
                            bias_regularizer=square, activity_regularizer=square)
    second = hf.layers.dense(x, 2, name="named", reuse=True, kernel_regularizer=square)
    assert [v.name for v in hf.trainable_variables()] == [
        "dense/kernel:0", "dense/bias:0", "dense_1/kernel:0", "named/kernel:0", "named/bias:0"]
    assert len(hf.losses.get_regularization_losses()) == 3
    w = values_of(session)
    np.testing.assert_array_equal(*session.run([first, second]))
    expected = sum((v**2).sum() for v in (w["named/kernel"], w["named/bias"]))
    expected += (session.run(first) ** 2).sum() / 4  # of an example
    np.testing.assert_allclose(session.run(hf.losses.get_regularization_loss()), expected,
                               rtol=1e-5)
    with pytest.raises(ValueError, match="reuse=True"):
        hf.layers.dense(x, 2, reuse=True)
    with pytest.raises(ValueError, match="should be defined"):
        hf.layers.dense(hf.placeholder(hf.float32, [2, None]), 2)


def test_untrainable(graph):
    hf.layers.dense(hf.ones([4, 3]), 2, trainable=False)
    assert not hf.trainable_variables() and len(hf.global_variables()) == 2


def test_dropout(session):
    x, training = hf.ones([50, 40]), hf.placeholder(hf.bool, [])
    y = hf.layers.dropout(x, 0.25, seed=3, training=training)
    found = session.run(y, {training: True})
    np.testing.assert_allclose(np.unique(found), [0, 4 / 3], rtol=1e-6)
    assert 0.2 < (found == 0).mean() < 0.3
    assert (session.run(y, {training: False}) == 1).all()
    assert (session.run(hf.layers.dropout(x)) == 1).all()
    assert (session.run(hf.layers.dropout(x, training=True)) == 0).any()


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("form", ["known", "fed"])
def test_batch_normalization(session, axis, form):
    x = RNG.normal(2, 3, size=(8, 5, 5)).astype(np.float32)
    training = hf.placeholder(hf.bool, []) if form == "fed" else True
    y = hf.layers.batch_normalization(hf.constant(x), axis, momentum=0.9, training=training)
    w = values_of(session)
    updates = hf.get_collection(hf.GraphKeys.UPDATE_OPS)
    shape, others = ((1, 1, -1), (0, 1)) if axis == -1 else ((1, -1, 1), (0, 2))

    def normalized(mean, variance):
        gamma, beta, mean, variance = (v.reshape(shape) for v in (
            w["batch_normalization/gamma"], w["batch_normalization/beta"], mean, variance))
        return gamma * (x - mean) / np.sqrt(variance + 1e-3) + beta

    feeds = {training: True} if form == "fed" else {}
    mean, variance = x.mean(others), x.var(others)
    moving = [w["batch_normalization/moving_mean"], w["batch_normalization/moving_variance"]]
    np.testing.assert_allclose(session.run(y, feeds), normalized(mean, variance), atol=1e-4)
    if form == "fed":
        plain = session.run([y, updates], {training: False})[0]
        np.testing.assert_allclose(plain, normalized(*moving), atol=1e-4)
    session.run(updates, feeds)
    kept = session.run([v for v in hf.global_variables() if "moving" in v.name])
    for found, old, new in zip(kept, moving, (mean, variance)):
        np.testing.assert_allclose(found, 0.9 * old + 0.1 * new, rtol=1e-4)
    assert len(hf.trainable_variables()) == 2


@pairs(
    ("axis", [-1, 1]),
    ("training", [True, False, "fed"]),
    ("center", [True, False]),
)
def test_batch_normalization_of_images_by_one_op(session, axis, training, center):
    value = RNG.normal(2, 3, size=(4, 5, 3, 5)).astype(np.float32)
    x, feeds = hf.placeholder(hf.float32, value.shape), {}
    if training == "fed":
        training = hf.placeholder(hf.bool, [])
        feeds[training] = True
    feeds[x] = value
    weights, found = RNG.normal(size=value.shape).astype(np.float32), []
    for fused in (None, False):
        with hf.variable_scope("images", reuse=bool(found)):
            y = hf.layers.batch_normalization(x, axis, training=training, fused=fused,
                                              center=center, scale=center, name="norm")
        first, = hf.gradients(hf.reduce_sum(y * y * weights), x)
        second, = hf.gradients(hf.reduce_sum(first * first), x)
        found.append([y, first, second])
    session.run(hf.global_variables_initializer())
    for one, other in zip(*session.run(found, feeds), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4 * np.abs(other).max())
    assert "FusedBatchNorm" in {op.type for op in hf.get_default_graph().get_operations()}
    assert len(hf.get_collection(hf.GraphKeys.UPDATE_OPS)) == (0 if training is False else 4)


def correlate(x, kernel, strides=1):
    """A valid convolution of [batch, *space, in] with [*window, in, out], by definition."""
    rank, window = x.ndim - 2, kernel.shape[:x.ndim - 2]
    sizes = [(n - w) // strides + 1 for n, w in zip(x.shape[1:], window)]
    result = np.zeros((x.shape[0], *sizes, kernel.shape[-1]))
    for at in np.ndindex(*sizes):
        part = x[(slice(None), *[slice(i * strides, i * strides + w)
                                 for i, w in zip(at, window)])]
        result[(slice(None), *at)] = np.tensordot(part, kernel, rank + 1)
    return result


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(session, rank, data_format):
    x = RNG.normal(size=(2, *(5, 6, 4)[:rank], 3)).astype(np.float32)
    first = data_format == "channels_first"
    given = np.moveaxis(x, -1, 1) if first else x
    layer = getattr(hf.layers, f"conv{rank}d")
    y = layer(hf.constant(given), 4, 2, strides=2, data_format=data_format)
    w = values_of(session)
    expected = correlate(x, w[f"conv{rank}d/kernel"], 2) + w[f"conv{rank}d/bias"]
    found = session.run(y)
    np.testing.assert_allclose(np.moveaxis(found, 1, -1) if first else found, expected, rtol=1e-4,
                               atol=1e-4)


def test_separable_convolution(session):
    x = RNG.normal(size=(2, 5, 6, 3)).astype(np.float32)
    y = hf.layers.separable_conv2d(hf.constant(x), 4, (2, 3), depth_multiplier=2)
    w = values_of(session)
    deep, flat = (w[f"separable_conv2d/{k}_kernel"] for k in ("depthwise", "pointwise"))
    parts = [correlate(x[..., c:c + 1], deep[:, :, c:c + 1]) for c in range(3)]
    expected = np.concatenate(parts, -1) @ flat[0, 0] + w["separable_conv2d/bias"]
    np.testing.assert_allclose(session.run(y), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_separable_convolution_of_rows(session, data_format):
    x = RNG.normal(size=(2, 9, 3)).astype(np.float32)
    given = np.moveaxis(x, -1, 1) if data_format == "channels_first" else x
    y = hf.layers.separable_conv1d(hf.constant(given), 4, 3, 2, depth_multiplier=2,
                                   data_format=data_format)
    w = values_of(session)
    deep, flat = (w[f"separable_conv1d/{k}_kernel"] for k in ("depthwise", "pointwise"))
    parts = [correlate(x[..., c:c + 1], deep[:, c:c + 1], 2) for c in range(3)]
    expected = np.concatenate(parts, -1) @ flat[0] + w["separable_conv1d/bias"]
    found = session.run(y)
    found = np.moveaxis(found, 1, -1) if data_format == "channels_first" else found
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown"])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_transposed_convolution_of_volumes(session, padding, known):
    x = RNG.normal(size=(1, 2, 3, 2, 3)).astype(np.float32)
    given = hf.placeholder(hf.float32, x.shape if known else [None, None, None, None, 3])
    y = hf.layers.conv3d_transpose(given, 2, 3, strides=2, padding=padding)
    w = values_of(session)
    whole = np.zeros((1, 5, 7, 5, 2))
    for at in np.ndindex(2, 3, 2):
        block = np.tensordot(x[(slice(None), *at)], w["conv3d_transpose/kernel"], [[1], [4]])
        whole[(slice(None), *(slice(2 * i, 2 * i + 3) for i in at))] += block
    expected = whole if padding == "valid" else whole[:, :4, :6, :4]
    np.testing.assert_allclose(session.run(y, {given: x}), expected + w["conv3d_transpose/bias"],
                               rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown"])
@pytest.mark.parametrize("padding", ["valid", "same"])
def test_transposed_convolution(session, padding, known):
    x = RNG.normal(size=(2, 3, 4, 3)).astype(np.float32)
    given = hf.placeholder(hf.float32, x.shape if known else [None, None, None, 3])
    y = hf.layers.conv2d_transpose(given, 5, 3, strides=2, padding=padding)
    w = values_of(session)
    whole = np.zeros((2, 7, 9, 5))
    for i, j in np.ndindex(3, 4):
        block = np.tensordot(x[:, i, j], w["conv2d_transpose/kernel"], [[1], [3]])
        whole[:, 2 * i:2 * i + 3, 2 * j:2 * j + 3] += block
    expected = whole if padding == "valid" else whole[:, :6, :8]
    np.testing.assert_allclose(session.run(y, {given: x}), expected + w["conv2d_transpose/bias"],
                               rtol=1e-4, atol=1e-4)
    if known:
        assert y.shape.as_list() == list(expected.shape)


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pooling(session, rank, data_format):
    x = RNG.normal(size=(2, *(4, 6, 4)[:rank], 3)).astype(np.float32)
    split = x.reshape(2, *[n for s in x.shape[1:-1] for n in (s // 2, 2)], 3)
    axes = tuple(range(2, 2 * rank + 1, 2))
    first = data_format == "channels_first"
    given = hf.constant(np.moveaxis(x, -1, 1) if first else x)
    for name, expected in (("max", split.max(axes)), ("average", split.mean(axes))):
        layer = getattr(hf.layers, f"{name}_pooling{rank}d")
        found = session.run(layer(given, 2, 2, data_format=data_format))
        np.testing.assert_allclose(np.moveaxis(found, 1, -1) if first else found, expected,
                                   rtol=1e-5, atol=1e-6)


def test_bad_arguments(graph):
    x = hf.ones([2, 5, 5, 3])
    with pytest.raises(ValueError, match="data_format"):
        hf.layers.conv2d(x, 2, 3, data_format="NHWC")
    with pytest.raises(ValueError, match="padding"):
        hf.layers.conv2d(x, 2, 3, padding="full")
    with pytest.raises(ValueError, match="kernel_size"):
        hf.layers.conv2d(x, 2, (3, 3, 3))
    with pytest.raises(ValueError, match="rank 4"):
        hf.layers.conv2d(hf.ones([2, 5, 3]), 2, 3)


def test_training_of_a_network(session):
    """A small convolutional network learns which half of an image is brighter."""
    x = hf.placeholder(hf.float32, [None, 8, 8, 1])
    labels = hf.placeholder(hf.int32, [None])
    hf.set_random_seed(4)
    y = hf.layers.conv2d(x, 4, 3, padding="same", activation=hf.nn.relu)
    y = hf.layers.max_pooling2d(hf.layers.batch_normalization(y, training=True), 2, 2)
    logits = hf.layers.dense(hf.reshape(y, [-1, 64]), 2)
    loss = hf.losses.sparse_softmax_cross_entropy(labels, logits)
    with hf.control_dependencies(hf.get_collection(hf.GraphKeys.UPDATE_OPS)):
        train = hf.train.AdamOptimizer(0.02).minimize(loss)
    session.run(hf.global_variables_initializer())
    rng = np.random.default_rng(0)
    losses = []
    for _ in range(40):
        sides, images = rng.integers(0, 2, 32), rng.normal(size=(32, 8, 8, 1))
        images[np.arange(32)[sides == 1], :, :4] += 1
        losses.append(session.run([loss, train], {x: images, labels: sides})[0])
    assert np.mean(losses[-5:]) < 0.3 < 0.5 < losses[0]


def test_a_custom_getter_decides_what_is_trained(graph):
    def fixed(getter, name, *arguments, **keywords):
        return getter(name, *arguments, **keywords | {"trainable": False})

    with hf.variable_scope("fixed", custom_getter=fixed):
        layer = hf.layers.Dense(2)
        layer(hf.zeros([1, 3]))
    assert layer.trainable_variables == []
    assert len(layer.non_trainable_variables) == 2
