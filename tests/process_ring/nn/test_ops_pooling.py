"""Poolings against their definition, and their gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gradcheck import check_gradient
from op_forms import evaluate, failing
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.base.geometry.windows import spans

RNG = np.random.default_rng(43)


def apart(*shape):
    """Numbers that keep away from each other, so that maxima are far from ties."""
    count = int(np.prod(shape))
    return RNG.permutation(np.linspace(-1, 1, max(count, 1))[:count]).reshape(shape)


def definition(x, window, strides, padding, combine):
    """`combine` of what each window sees, position by position."""
    over = spans(x.shape[1:-1], window, strides, padding.encode())
    y = np.zeros((x.shape[0], *(s.out for s in over), x.shape[-1]))
    for out in itertools.product(*(range(s.out) for s in over)):
        starts = [o * s.stride - s.before for o, s in zip(out, over)]
        seen = tuple(slice(max(a, 0), a + s.window) for a, s in zip(starts, over))
        part = x[(slice(None), *seen)].astype(float)
        y[(slice(None), *out)] = combine(part, axis=tuple(range(1, x.ndim - 1)))
    return y


def first(x):
    return np.moveaxis(x, -1, 1)


KINDS = {"MAX": (hf.nn.max_pool, np.max), "AVG": (hf.nn.avg_pool, np.mean)}
CASES = [((2, 7, 6, 3), (3, 2), (2, 2)), ((1, 5, 5, 2), (2, 2), (2, 2)),
         ((2, 4, 9, 1), (1, 4), (1, 3)), ((1, 6, 5, 2), (2, 2), (3, 3)),
         ((0, 4, 4, 2), (2, 2), (1, 1)), ((2, 3, 3, 2), (1, 1), (1, 1))]  # fmt: skip


@pairs(
    ("padding", ["SAME", "VALID"]),
    ("kind", KINDS),
    ("case", CASES),
    ("dtype", [np.float16, np.float32, np.float64]),
)
def test_pool2d(case, kind, padding, dtype):
    (dims, window, strides), (build, combine) = case, KINDS[kind]
    x = apart(*dims).astype(dtype)
    expected = definition(x, window, strides, padding, combine)
    limit = {2: 2e-3, 4: 1e-6, 8: 1e-14}[x.itemsize]
    got = evaluate(lambda v: build(v, [1, *window, 1], [1, *strides, 1], padding), x)
    np.testing.assert_allclose(got, expected, atol=limit)
    got = evaluate(lambda v: build(v, [1, 1, *window], [1, 1, *strides], padding, "NCHW"),
                   np.ascontiguousarray(first(x)))
    np.testing.assert_allclose(got, first(expected), atol=limit)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", KINDS)
def test_pools_of_other_dimensions(kind, padding):
    combine = KINDS[kind][1]
    for dims, window, strides in (((2, 5, 4, 6, 2), (2, 3, 2), (2, 1, 2)), ((2, 9, 3), (3,), (2,)),
                                  ((2, 5, 6, 3), (2, 3), (1, 2))):
        x = apart(*dims)
        expected = definition(x, window, strides, padding, combine)
        got = evaluate(lambda v: hf.nn.pool(v, window, kind, padding, strides=strides), x,
                       forms=("constant", "static"))
        np.testing.assert_allclose(got, expected, atol=1e-14)
        layout = {1: "NCW", 2: "NCHW", 3: "NCDHW"}[len(window)]
        got = evaluate(lambda v: hf.nn.pool(v, window, kind, padding, strides=strides,
                                            data_format=layout), first(x),
                       forms=("constant", "static"))
        np.testing.assert_allclose(got, first(expected), atol=1e-14)


def test_pool_with_holes():
    x = apart(1, 9, 8, 2)
    got = evaluate(lambda v: hf.nn.pool(v, [2, 3], "MAX", "VALID", dilation_rate=[2, 3]), x,
                   forms=("constant", "static"))
    seen = [x[:, i : i + 7, j : j + 2] for i in (0, 2) for j in (0, 3, 6)]
    np.testing.assert_array_equal(got, np.max(seen, axis=0))


def test_windows_over_channels():
    x = apart(2, 3, 3, 6)
    got = evaluate(lambda v: hf.nn.max_pool(v, [1, 1, 1, 2], [1, 1, 1, 2], "VALID"), x)
    np.testing.assert_array_equal(got, x.reshape(2, 3, 3, 3, 2).max(-1))


def test_maxima_of_integers_and_infinities():
    x = np.array([[-5, -7], [-6, -8]], np.int32).reshape(1, 2, 2, 1)
    got = evaluate(lambda v: hf.nn.max_pool(v, [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), x)
    np.testing.assert_array_equal(got.reshape(2, 2), [[-5, -7], [-6, -8]])
    low = np.full((1, 2, 2, 1), -np.inf, np.float32)
    got = evaluate(lambda v: hf.nn.max_pool(v, [1, 3, 3, 1], [1, 1, 1, 1], "SAME"), low)
    # The library for the CPU starts from the lowest number, not from minus infinity.
    assert (got <= np.finfo(np.float32).min).all()


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("dtype", [hf.int32, hf.int64])
def test_argmax(padding, dtype):
    x = apart(2, 5, 6, 3).astype(np.float32)
    y, argmax = evaluate(lambda v: list(hf.nn.max_pool_with_argmax(
        v, [1, 3, 2, 1], [1, 2, 2, 1], padding, dtype)), x)
    np.testing.assert_allclose(y, definition(x, (3, 2), (2, 2), padding, np.max))
    images = x.reshape(2, -1)
    np.testing.assert_array_equal(images[np.arange(2)[:, None, None, None], argmax], y)


def test_a_tie_goes_to_the_first():
    x = np.ones((1, 2, 2, 1), np.float32)
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    grad = evaluate(lambda v, y: raw_ops.MaxPoolGrad(v, y, y, **options), x, x[:, :1, :1])
    np.testing.assert_array_equal(grad.reshape(-1), [1, 0, 0, 0])


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind, padding):
    build = KINDS[kind][0]
    x = apart(1, 4, 5, 2)
    check_gradient(lambda v: build(v, [1, 2, 3, 1], [1, 2, 1, 1], padding), x)
    check_gradient(lambda v: build(v, [1, 1, 2, 2], [1, 1, 3, 2], padding, "NCHW"), first(x))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients_in_three_dimensions(padding):
    x = apart(1, 3, 3, 4, 1)
    for build in (hf.nn.max_pool3d, hf.nn.avg_pool3d):
        check_gradient(lambda v: build(v, [1, 2, 2, 2, 1], [1, 1, 2, 2, 1], padding), x)


def test_gradients_of_gradients():
    x, ddx = apart(1, 3, 4, 1), apart(1, 3, 4, 1)
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    y = definition(x, (2, 2), (1, 1), "VALID", np.max)
    check_gradient(lambda v: raw_ops.MaxPoolGradGrad(x, y, v, **options), ddx)
    volume = {"ksize": [1, 1, 2, 2, 1], "strides": [1] * 5, "padding": "VALID"}
    check_gradient(lambda v: raw_ops.MaxPool3DGradGrad(x[None], y[None], v, **volume), ddx[None])


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients_with_argmax(padding):
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 1, 1], "padding": padding}
    x = apart(2, 3, 4, 2)
    check_gradient(lambda v: raw_ops.MaxPoolWithArgmax(v, **options)[0], x)
    argmax = evaluate(lambda v: raw_ops.MaxPoolWithArgmax(v, **options)[1], x)
    check_gradient(lambda v: raw_ops.MaxPoolGradGradWithArgmax(x, v, argmax, **options), x)


# ---------------------------------------------------------------- errors


def test_windows_that_do_not_fit():
    x = np.zeros((1, 2, 2, 1), np.float32)
    for build in (hf.nn.max_pool, hf.nn.avg_pool):
        for message in failing(lambda v: build(v, [1, 3, 3, 1], [1, 1, 1, 1], "VALID"), x):
            assert "does not fit" in message
    for message in failing(lambda v: hf.nn.max_pool(v, [1, 1, 1, 1], [1, 1, 1, 1], "SAME"), x[0]):
        assert "rank" in message


def test_bad_attributes():
    x = np.zeros((1, 4, 4, 1), np.float32)
    with pytest.raises(ValueError, match="ksize"):
        hf.nn.max_pool(x, [2, 2, 2, 1], [1, 1, 1, 1], "SAME")
    with pytest.raises(ValueError, match="strides"):
        hf.nn.max_pool(x, [1, 2, 2, 1], [1, 0, 1, 1], "SAME")
    with pytest.raises(ValueError, match="pooling_type"):
        hf.nn.pool(x, [2, 2], "MIN", "SAME")
    with pytest.raises(ValueError, match="strides"):
        hf.nn.pool(x, [2, 2], "MAX", "SAME", strides=[3, 3])


def test_positions_out_of_range():
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
    x, dy = np.zeros((1, 2, 2, 1), np.float32), np.ones((1, 1, 1, 1), np.float32)
    bad = np.full((1, 1, 1, 1), 4, np.int64)
    for message in failing(lambda *t: raw_ops.MaxPoolGradWithArgmax(*t, **options), x, dy, bad):
        assert "argmax" in message


@pytest.mark.parametrize("images, rows", [(hf.nn.max_pool, hf.nn.max_pool1d),
                                          (hf.nn.avg_pool, hf.nn.avg_pool1d)])
def test_windows_in_short(images, rows):
    """One number for all dimensions of space, or one each; other names; rows."""
    x = np.random.default_rng(1).normal(size=(2, 5, 6, 3))
    full = evaluate(lambda t: images(t, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"), x)
    for build in (lambda t: images(t, 2, [2], "SAME"),
                  lambda t: images(input=t, ksize=[2, 2], strides=(2, 2), padding="SAME")):
        np.testing.assert_array_equal(evaluate(build, x), full)
    first = np.moveaxis(x, -1, 1)
    got = evaluate(lambda t: images(t, 2, 2, "SAME", "NCHW"), first)
    np.testing.assert_array_equal(got, np.moveaxis(full, -1, 1))
    line = x[:, 0]
    expected = evaluate(lambda t: images(t, [1, 1, 3, 1], [1, 1, 2, 1], "VALID"), x[:, :1])[:, 0]
    np.testing.assert_array_equal(evaluate(lambda t: rows(t, 3, 2, "VALID"), line), expected)
    got = evaluate(lambda t: rows(t, [1, 1, 3], [2], "VALID", "NCW"), np.moveaxis(line, -1, 1))
    np.testing.assert_array_equal(got, np.moveaxis(expected, -1, 1))
    with pytest.raises(ValueError, match="ksize must be of length 1, 2 or 4"):
        images(x, [2, 2, 2], 1, "SAME")
    with pytest.raises(ValueError, match="ksize must be of length 1 or 3"):
        rows(line, [2, 2], 1, "SAME")


@pytest.mark.parametrize("build", [hf.nn.max_pool3d, hf.nn.avg_pool3d])
def test_volumes_in_short(build):
    x = np.random.default_rng(1).normal(size=(1, 4, 3, 5, 2))
    np.testing.assert_array_equal(evaluate(lambda t: build(t, 2, [1, 1, 2], "SAME"), x),
                                  evaluate(lambda t: build(t, [1, 2, 2, 2, 1], [1, 1, 1, 2, 1],
                                                           "SAME"), x))


def test_gradients_that_are_no_numbers_stay_in_their_place(graph):
    x = np.arange(16.0).reshape(1, 4, 4, 1)
    dy = np.array([np.inf, np.nan, 1.0, 2.0]).reshape(1, 2, 2, 1)
    options = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    dx = raw_ops.MaxPoolGrad(orig_input=x, orig_output=x[:, 1::2, 1::2], grad=dy, **options)
    expected = np.zeros_like(x)
    expected[:, 1::2, 1::2] = dy
    with hf.Session() as session:
        np.testing.assert_array_equal(session.run(dx), expected)


def test_a_window_of_nans_gives_its_gradient_to_the_first(graph):
    x = np.full((1, 2, 2, 1), np.nan)
    x[0, 0, 0, 0] = 1.0
    options = {"ksize": [1, 1, 2, 1], "strides": [1, 1, 2, 1], "padding": "VALID"}
    y = raw_ops.MaxPool(input=x, **options)
    dx = raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=[[[[3.0]], [[5.0]]]], **options)
    with hf.Session() as session:
        assert session.run(dx).ravel().tolist() == [0.0, 3.0, 5.0, 0.0]
