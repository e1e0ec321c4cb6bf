"""Fused batch normalization and local response normalization, and their gradients."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient
from op_forms import evaluate, failing

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(47)
EPSILON = 0.01


def normal(*shape):
    return RNG.normal(size=shape)


def first(x):
    return np.ascontiguousarray(np.moveaxis(x, -1, 1))


def normalized(x, scale, offset, mean, variance):
    return (x - mean) / np.sqrt(variance + EPSILON) * scale + offset


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_training(data_format, dtype):
    x, scale, offset = normal(3, 4, 5, 2).astype(dtype), normal(2), normal(2)
    scale, offset = scale.astype(dtype), offset.astype(dtype)
    wide = x.astype(float)
    mean, variance = wide.mean((0, 1, 2)), wide.var((0, 1, 2))
    expected = normalized(wide, scale, offset, mean, variance)
    fed = x
    if data_format == "NCHW":
        fed, expected = first(x), first(expected)
    y, m, v = evaluate(lambda *t: list(hf.nn.fused_batch_norm(
        *t, epsilon=EPSILON, data_format=data_format)), fed, scale, offset)
    limit = {2: 4e-3, 4: 1e-5, 8: 1e-12}[x.itemsize]
    np.testing.assert_allclose(y, expected, rtol=limit, atol=limit)
    np.testing.assert_allclose(m, mean, rtol=limit, atol=limit)
    np.testing.assert_allclose(v, variance * 60 / 59, rtol=limit, atol=limit)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_inference(data_format):
    x, scale, offset, mean = normal(2, 3, 3, 4), normal(4), normal(4), normal(4)
    variance = normal(4) ** 2
    expected = normalized(x, scale, offset, mean, variance)
    fed = x
    if data_format == "NCHW":
        fed, expected = first(x), first(expected)
    y, m, v = evaluate(lambda *t: list(hf.nn.fused_batch_norm(
        *t, epsilon=EPSILON, data_format=data_format, is_training=False)),
        fed, scale, offset, mean, variance)
    np.testing.assert_allclose(y, expected, atol=1e-12)
    np.testing.assert_array_equal([m, v], [mean, variance])


def test_half_precision_with_statistics_in_single():
    x, scale, offset = normal(2, 3, 3, 2).astype(np.float16), *normal(2, 2).astype(np.float32)
    empty = np.zeros(0, np.float32)
    old = evaluate(lambda *t: list(hf.nn.fused_batch_norm(*t)), x.astype(np.float32), scale,
                   offset)[0]
    for version in ("V2", "V3"):
        build = getattr(raw_ops, f"FusedBatchNorm{version}")
        y = evaluate(lambda *t: list(build(*t, epsilon=0.001)), x, scale, offset, empty, empty)[0]
        np.testing.assert_allclose(y, old, atol=4e-3)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("training", [True, False])
def test_gradients(training, data_format):
    x, scale, offset = normal(2, 2, 3, 2), normal(2), normal(2)
    x = x if data_format == "NHWC" else first(x)
    statistics = {} if training else {"mean": normal(2), "variance": normal(2) ** 2}
    check_gradient(lambda *t: hf.nn.fused_batch_norm(
        *t, **statistics, epsilon=0.1, data_format=data_format, is_training=training)[0],
        x, scale, offset, tolerance=1e-5)


@pytest.mark.parametrize("version", ["V2", "V3"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_gradients_of_newer_forms(version, training, data_format):
    build = getattr(raw_ops, f"FusedBatchNorm{version}")
    x = normal(2, 2, 3, 2) if data_format == "NHWC" else first(normal(2, 2, 3, 2))
    statistics = [np.zeros(0)] * 2 if training else [normal(2), normal(2) ** 2]
    vectors = normal(2, 2).astype(np.float32).astype(np.float64)  # theirs is in single precision
    check_gradient(lambda x: build(x, *vectors, *statistics, epsilon=0.1, is_training=training,
                                   data_format=data_format)[0],
                   x, tolerance=1e-5, forms=["static"])


@pytest.mark.parametrize("version", ["V2", "V3"])
def test_second_gradients_are_those_of_the_first_form(version):
    vectors, empty = normal(2, 2).astype(np.float32), np.zeros(0, np.float32)
    x = normal(2, 2, 2, 2).astype(np.float32)

    def second(version, *tensors):
        build = getattr(raw_ops, f"FusedBatchNorm{version}")
        y = build(*tensors, empty, empty, epsilon=0.1)[0]
        return hf.gradients([g ** 2 for g in hf.gradients(y * y, tensors)], tensors)

    wanted = evaluate(lambda *t: second("", *t), x, *vectors)
    found = evaluate(lambda *t: second(version, *t), x, *vectors)
    half = evaluate(lambda *t: second(version, *t), x.astype(np.float16), *vectors)
    assert half[0].dtype == np.float16
    for a, b, c in zip(wanted, found, half, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5 * np.abs(a).max())
        np.testing.assert_allclose(c, a, atol=0.02 * np.abs(a).max())


@pytest.mark.parametrize("scaled", [True, False])
def test_with_global_normalization(scaled):
    t, m, v, beta, gamma = normal(2, 2, 3, 2), normal(2), normal(2) ** 2, normal(2), normal(2)
    options = {"variance_epsilon": EPSILON, "scale_after_normalization": scaled}

    def build(*tensors):
        return raw_ops.BatchNormWithGlobalNormalization(*tensors, **options)

    expected = normalized(t, gamma if scaled else 1, beta, m, v)
    np.testing.assert_allclose(evaluate(build, t, m, v, beta, gamma), expected, atol=1e-12)
    check_gradient(build, t, m, v, beta, gamma, second=False)


def lrn(x, radius, bias, alpha, beta):
    squares = np.stack([(x[..., max(c - radius, 0) : c + radius + 1] ** 2).sum(-1)
                        for c in range(x.shape[-1])], axis=-1)
    return x * (bias + alpha * squares) ** -beta


@pytest.mark.parametrize("radius", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_lrn(radius, dtype):
    x = normal(2, 3, 2, 7).astype(dtype)
    got = evaluate(lambda v: hf.nn.lrn(v, radius, 1.5, 0.3, 0.75), x)
    limit = 1e-6 if dtype == np.float32 else 2e-3
    np.testing.assert_allclose(got, lrn(x.astype(float), radius, 1.5, 0.3, 0.75), rtol=limit,
                               atol=limit)
    defaults = evaluate(hf.nn.local_response_normalization, x)
    np.testing.assert_allclose(defaults, lrn(x.astype(float), 5, 1, 1, 0.5), rtol=limit,
                               atol=limit)


def test_gradient_of_lrn():
    def build(x):
        return hf.cast(hf.nn.lrn(hf.cast(x, hf.float32), 2, 1.5, 0.3, 0.75), hf.float64)

    check_gradient(build, normal(1, 2, 2, 6), delta=1e-2, tolerance=2e-3, second=False)


def test_operands_that_do_not_fit():
    x, two, three = (np.ones(s, np.float32) for s in ((1, 2, 2, 3), (2,), (3,)))
    for message in failing(lambda *t: hf.nn.fused_batch_norm(*t)[0], x, two, three):
        assert "channels" in message
    for message in failing(hf.nn.lrn, x[0]):
        assert "rank" in message
    with pytest.raises(ValueError, match="is_training"):
        hf.nn.fused_batch_norm(x, three, three, three, three)
    with pytest.raises(ValueError, match="is_training"):
        hf.nn.fused_batch_norm(x, three, three, is_training=False)


def test_empty_batches():
    x = np.zeros((0, 2, 2, 3), np.float32)
    assert evaluate(hf.nn.lrn, x).shape == x.shape
    ones = np.ones(3, np.float32)
    y = evaluate(lambda *t: hf.nn.fused_batch_norm(*t)[0], x, ones, ones)
    assert y.shape == x.shape


@pytest.mark.parametrize("training", [True, False])
def test_halves_have_statistics_in_single_precision(session, training):
    x = np.random.default_rng(1).normal(size=(2, 3, 4, 5)).astype("float16")
    scale, offset, mean, variance = np.random.default_rng(2).random((4, 5)).astype("f") + 1
    given = {} if training else {"mean": mean, "variance": variance}
    y, *statistics = hf.nn.fused_batch_norm(x, scale, offset, is_training=training, **given)
    gradients = hf.gradients(y, [hf.get_default_graph().get_tensor_by_name(n.name)
                                 for n in y.op.inputs[:3]])
    assert [t.dtype for t in (y, *statistics)] == [hf.float16, hf.float32, hf.float32]
    assert [g.dtype for g in gradients] == [hf.float16, hf.float32, hf.float32]
    wide = hf.nn.fused_batch_norm(x.astype("f"), scale, offset, is_training=training, **given)[0]
    found, expected = session.run([y, wide])
    np.testing.assert_allclose(found, expected, atol=0.02)
