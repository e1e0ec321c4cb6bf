"""Fractional pooling, and convolutions behind a resizing and a padding."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from gradcheck import check_gradient
from pairs import pairs

import hpcflow as hf
from hpcflow import image, raw_ops

RNG = np.random.default_rng(6)
RATIOS = [1.0, 1.44, 1.73, 1.0]
POOLS = {"FractionalMaxPool": np.max, "FractionalAvgPool": np.mean}


def pooled(x, rows, columns, overlapping, reduce):
    """By loops over the windows."""
    parts = [[x[:, a:b + overlapping, c:d + overlapping] for c, d in pairwise(columns)]
             for a, b in pairwise(rows)]
    return np.stack([np.stack([reduce(p, (1, 2)) for p in row], 1) for row in parts], 1)


@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("pseudo", [False, True])
@pytest.mark.parametrize("overlapping", [False, True])
def test_values(session, op, pseudo, overlapping):
    x = RNG.normal(size=(2, 13, 17, 3)).astype("float32")
    build = {"FractionalMaxPool": hf.nn.fractional_max_pool,
             "FractionalAvgPool": hf.nn.fractional_avg_pool}[op]
    outputs = build(x, RATIOS, pseudo, overlapping)
    assert [t.shape.as_list() for t in outputs] == [[2, 9, 9, 3], [10], [10]]
    y, rows, columns = session.run(outputs)
    for cuts, size in ((rows, 13), (columns, 17)):
        assert cuts.dtype == np.int64 and cuts[0] == 0 and cuts[-1] == size
        assert set(np.diff(cuts)) <= {size // 9, size // 9 + 1}
    np.testing.assert_allclose(y, pooled(x, rows, columns, overlapping, POOLS[op]), rtol=1e-4,
                               atol=1e-6)


@pytest.mark.parametrize("op", POOLS)
def test_integers(session, op):
    x = RNG.integers(-50, 50, (1, 9, 9, 1)).astype("int32")
    y, rows, columns = session.run(getattr(raw_ops, op)(value=x, pooling_ratio=RATIOS))
    expected = pooled(x, rows, columns, False, POOLS[op])
    np.testing.assert_array_equal(y, np.trunc(expected))


def test_sequences(session):
    """New windows in every step; the same ones if they are deterministic; whole ratios too."""
    x = np.ones((1, 40, 40, 1), "float32")
    _, rows, _ = hf.nn.fractional_max_pool(x, RATIOS)
    assert any(not np.array_equal(session.run(rows), session.run(rows)) for _ in range(3))
    for seed in (0, 5):
        _, rows, _ = hf.nn.fractional_max_pool(x, RATIOS, deterministic=True, seed=seed)
        np.testing.assert_array_equal(session.run(rows), session.run(rows))
    for pseudo in (False, True):
        _, rows, columns = hf.nn.fractional_max_pool(x, [1.0, 2.0, 1.0, 1.0], pseudo)
        np.testing.assert_array_equal(session.run(rows), np.arange(0, 41, 2))
        np.testing.assert_array_equal(session.run(columns), np.arange(41))


@pytest.mark.parametrize("build", [hf.nn.fractional_max_pool, hf.nn.fractional_avg_pool])
@pytest.mark.parametrize("overlapping", [False, True])
def test_gradients(build, overlapping):
    x = RNG.permutation(70).reshape(1, 7, 5, 2) / 7.0
    check_gradient(lambda x: build(x, [1.0, 1.5, 1.3, 1.0], overlapping=overlapping,
                                   deterministic=True, seed=3)[0], x, second=False)


def test_errors(session):
    x = np.ones((1, 6, 6, 1), "float32")
    with pytest.raises(ValueError, match="smaller than 1"):
        hf.nn.fractional_max_pool(x, [1.0, 0.5, 1.0, 1.0])
    with pytest.raises(hf.errors.UnimplementedError, match="batch nor channel"):
        session.run(hf.nn.fractional_max_pool(x, [2.0, 1.5, 1.0, 1.0])[0])
    with pytest.raises(hf.errors.InvalidArgumentError, match="deterministic is false"):
        session.run(hf.nn.fractional_max_pool(x, RATIOS, seed=3)[0])
    y = np.ones((1, 2, 2, 1), "float32")
    for cuts in ([0, 3, 7], [0, 3, 3], [-1, 3, 6], [0]):
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"increasing|shape"):
            session.run(raw_ops.FractionalMaxPoolGrad(
                orig_input=x, orig_output=y, out_backprop=y,
                row_pooling_sequence=np.array(cuts, np.int64),
                col_pooling_sequence=np.array([0, 3, 6], np.int64)))


# ---------------------------------------------------------------- fused convolutions


@pairs(
    ("mode", ["REFLECT", "SYMMETRIC"]),
    ("padding", ["SAME", "VALID"]),
    ("dtype", ["float16", "float32", "float64"]),
)
def test_fused_convolutions(session, mode, padding, dtype):
    x = RNG.normal(size=(2, 6, 7, 3)).astype(dtype)
    w = RNG.normal(size=(3, 2, 3, 4)).astype(dtype)
    around = np.array([[0, 0], [2, 1], [1, 3], [0, 0]], "int32")
    options = {"strides": [1, 2, 2, 1], "padding": padding}

    def apart(x):
        return hf.nn.conv2d(hf.pad(x, around, mode), w, **options)

    fused = raw_ops.FusedPadConv2D(input=x, paddings=around, filter=w, mode=mode, **options)
    resized = raw_ops.FusedResizeAndPadConv2D(input=x, size=[9, 5], paddings=around, filter=w,
                                              mode=mode, **options)
    limit = 0.05 if dtype == "float16" else 1e-4
    for y, expected in ((fused, apart(hf.constant(x))),
                        (resized, apart(hf.cast(image.resize_bilinear(x, [9, 5]), dtype)))):
        assert y.shape == expected.shape
        a, b = session.run([y, expected])
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=limit, atol=limit)


def test_errors_of_fused_convolutions(session):
    x, w = np.ones((1, 4, 4, 2), "float32"), np.ones((3, 3, 2, 1), "float32")
    paddings = hf.placeholder(hf.int32)
    y = raw_ops.FusedPadConv2D(input=x, paddings=paddings, filter=w, mode="REFLECT",
                               strides=[1, 1, 1, 1], padding="SAME")
    for value, message in ((np.zeros((3, 2)), r"\[4, 2\]"), (np.full((4, 2), 9), "less than")):
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(y, {paddings: value})
    with pytest.raises(ValueError):
        raw_ops.FusedPadConv2D(input=x, paddings=np.zeros((4, 2), np.int32), filter=w[:, :, :1],
                               mode="REFLECT", strides=[1, 1, 1, 1], padding="SAME")
