"""Convolutions against their definition, and their gradients by finite differences."""

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

RNG = np.random.default_rng(41)


def normal(*shape):
    return RNG.normal(size=shape)


def definition(x, w, strides, padding, rates=None):
    """The sum over the window, position by position, in double precision."""
    over = spans(x.shape[1:-1], w.shape[:-2], strides, padding.encode(), rates)
    y = np.zeros((x.shape[0], *(s.out for s in over), w.shape[-1]))
    for out in itertools.product(*(range(s.out) for s in over)):
        for k in itertools.product(*(range(s.window) for s in over)):
            at = tuple(o * s.stride + i * s.rate - s.before for o, i, s in zip(out, k, over))
            if all(0 <= a < s.size for a, s in zip(at, over)):
                y[(slice(None), *out)] += x[(slice(None), *at)].astype(float) @ w[k].astype(float)
    return y


def first(x):
    """Channels first."""
    return np.moveaxis(x, -1, 1)


CASES = [((2, 7, 6, 3), (3, 2, 3, 4), (2, 1)), ((1, 5, 5, 1), (5, 5, 1, 2), (1, 1)),
         ((3, 4, 9, 2), (1, 1, 2, 3), (1, 1)), ((3, 4, 9, 2), (1, 1, 2, 3), (3, 2)),
         ((0, 4, 4, 2), (2, 2, 2, 3), (1, 1)), ((2, 11, 8, 2), (4, 3, 2, 1), (4, 3)),
         ((1, 6, 6, 2), (2, 2, 2, 2), (3, 3))]  # fmt: skip


@pairs(
    ("padding", ["SAME", "VALID"]),
    ("case", CASES),
    ("dtype", [np.float16, np.float32, np.float64]),
)
def test_conv2d(case, padding, dtype):
    dims, window, strides = case
    x, w = normal(*dims).astype(dtype), normal(*window).astype(dtype)
    expected = definition(x, w, strides, padding)
    limit = {2: 3e-2, 4: 1e-5, 8: 1e-12}[x.itemsize]
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, [1, *strides, 1], padding), x, w)
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, [1, 1, *strides], padding,
                                             data_format="NCHW"), first(x), w)
    np.testing.assert_allclose(got, first(expected), rtol=limit, atol=limit)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_conv3d_and_conv1d(padding):
    x, w = normal(2, 5, 4, 6, 2), normal(2, 3, 1, 2, 3)
    expected = definition(x, w, (2, 1, 3), padding)
    got = evaluate(lambda a, b: hf.nn.conv3d(a, b, [1, 2, 1, 3, 1], padding), x, w)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    got = evaluate(lambda a, b: hf.nn.conv3d(a, b, [1, 1, 2, 1, 3], padding, "NCDHW"),
                   first(x), w)
    np.testing.assert_allclose(got, first(expected), atol=1e-12)
    x, w = normal(2, 9, 2), normal(3, 2, 4)
    expected = definition(x, w, (2,), padding)
    got = evaluate(lambda a, b: hf.nn.conv1d(a, b, 2, padding), x, w)
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rates", [(2, 2), (3, 1), (2, 4)])
def test_holes(padding, rates):
    x, w = normal(2, 10, 9, 2), normal(3, 2, 2, 3)
    expected = definition(x, w, (1, 1), padding, rates)
    forms = ("constant", "static")
    got = evaluate(lambda a, b: hf.nn.convolution(a, b, padding, dilation_rate=rates), x, w,
                   forms=forms)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    got = evaluate(lambda a, b: hf.nn.convolution(a, b, padding, dilation_rate=rates,
                                                  data_format="NCHW"), first(x), w, forms=forms)
    np.testing.assert_allclose(got, first(expected), atol=1e-12)
    if rates[0] == rates[1]:
        got = evaluate(lambda a, b: hf.nn.atrous_conv2d(a, b, rates[0], padding), x, w,
                       forms=forms)
        np.testing.assert_allclose(got, expected, atol=1e-12)


def by_channel(x, w, strides, padding, rates=None):
    parts = [definition(x[..., q : q + 1], w[:, :, q : q + 1], strides, padding, rates)
             for q in range(x.shape[-1])]
    return np.concatenate(parts, axis=-1)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("multiple", [1, 3])
def test_depthwise(padding, multiple):
    x, w = normal(2, 7, 6, 4), normal(3, 2, 4, multiple)
    expected = by_channel(x, w, (2, 2), padding)
    got = evaluate(lambda a, b: hf.nn.depthwise_conv2d_native(a, b, [1, 2, 2, 1], padding), x, w)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    got = evaluate(lambda a, b: hf.nn.depthwise_conv2d_native(a, b, [1, 1, 2, 2], padding, "NCHW"),
                   first(x), w)
    np.testing.assert_allclose(got, first(expected), atol=1e-12)
    expected = by_channel(x, w, (1, 1), padding, (2, 2))
    got = evaluate(lambda a, b: hf.nn.depthwise_conv2d(a, b, [1, 1, 1, 1], padding, [2, 2]), x, w,
                   forms=("constant", "static"))
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_separable():
    x, deep, flat = normal(2, 6, 6, 3), normal(3, 3, 3, 2), normal(1, 1, 6, 4)
    expected = by_channel(x, deep, (1, 1), "SAME") @ flat[0, 0]
    got = evaluate(lambda *t: hf.nn.separable_conv2d(*t, [1, 1, 1, 1], "SAME"), x, deep, flat)
    np.testing.assert_allclose(got, expected, atol=1e-12)
    with pytest.raises(ValueError, match="6 channels"):
        hf.nn.separable_conv2d(x, deep, normal(1, 1, 5, 4), [1, 1, 1, 1], "SAME")


# ---------------------------------------------------------------- transposed

@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("size", [7, 8])
def test_transposes_are_adjoint(padding, size):
    """<conv(x), y> = <x, transpose(y)>."""
    x, w = normal(2, size, size, 3), normal(3, 2, 3, 4)
    forward = definition(x, w, (2, 2), padding)
    y = normal(*forward.shape)
    got = evaluate(lambda v, f: hf.nn.conv2d_transpose(v, f, x.shape, [1, 2, 2, 1], padding), y, w)
    np.testing.assert_allclose(np.vdot(got, x), np.vdot(y, forward), rtol=1e-10)
    got = evaluate(lambda v, f: hf.nn.conv2d_transpose(v, f, first(x).shape, [1, 1, 2, 2], padding,
                                                       "NCHW"), first(y), w)
    np.testing.assert_allclose(np.vdot(got, first(x)), np.vdot(y, forward), rtol=1e-10)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_other_transposes_are_adjoint(padding):
    x, w = normal(1, 5, 4, 5, 2), normal(2, 2, 3, 2, 3)
    forward = definition(x, w, (2, 1, 2), padding)
    y = normal(*forward.shape)
    got = evaluate(lambda v, f: hf.nn.conv3d_transpose(v, f, x.shape, [1, 2, 1, 2, 1], padding),
                   y, w)
    np.testing.assert_allclose(np.vdot(got, x), np.vdot(y, forward), rtol=1e-10)
    x, w = normal(2, 9, 9, 2), normal(3, 2, 2, 3)
    forward = definition(x, w, (1, 1), padding, (2, 2))
    y = normal(*forward.shape)
    got = evaluate(lambda v, f: hf.nn.atrous_conv2d_transpose(v, f, x.shape, 2, padding), y, w,
                   forms=("constant", "static"))
    np.testing.assert_allclose(np.vdot(got, x), np.vdot(y, forward), rtol=1e-10)


# ---------------------------------------------------------------- gradients

@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_gradients_of_conv2d(padding, data_format):
    x, w, strides = normal(1, 4, 5, 2), normal(2, 3, 2, 2), [1, 2, 1, 1]
    if data_format == "NCHW":
        x, strides = first(x), [1, 1, 2, 1]
    check_gradient(lambda a, b: hf.nn.conv2d(a, b, strides, padding, data_format=data_format),
                   x, w)


def test_gradients_of_gradients_of_conv2d():
    x, w, dy = normal(1, 4, 4, 1), normal(2, 2, 1, 2), normal(1, 2, 2, 2)
    options = {"strides": [1, 2, 2, 1], "padding": "SAME"}
    check_gradient(lambda f, d: raw_ops.Conv2DBackpropInput(x.shape, f, d, **options), w, dy)
    check_gradient(lambda a, d: raw_ops.Conv2DBackpropFilter(a, w.shape, d, **options), x, dy)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients_of_conv3d(padding):
    x, w = normal(1, 3, 3, 2, 2), normal(2, 2, 1, 2, 1)
    check_gradient(lambda a, b: hf.nn.conv3d(a, b, [1, 2, 1, 1, 1], padding), x, w)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients_of_depthwise(padding):
    x, w = normal(1, 4, 3, 2), normal(2, 2, 2, 2)
    check_gradient(lambda a, b: hf.nn.depthwise_conv2d_native(a, b, [1, 2, 2, 1], padding), x, w)


def test_older_gradients_take_the_tensors_themselves():
    x, w = normal(1, 4, 3, 3, 2), normal(2, 2, 2, 2, 3)
    options = {"strides": [1, 1, 1, 1, 1], "padding": "VALID"}
    dy = normal(*definition(x, w, (1, 1, 1), "VALID").shape)
    old = evaluate(lambda a, b, d: raw_ops.Conv3DBackpropInput(a, b, d, **options), x, w, dy)
    new = evaluate(lambda b, d: raw_ops.Conv3DBackpropInputV2(x.shape, b, d, **options), w, dy)
    np.testing.assert_array_equal(old, new)
    old = evaluate(lambda a, b, d: raw_ops.Conv3DBackpropFilter(a, b, d, **options), x, w, dy)
    new = evaluate(lambda a, d: raw_ops.Conv3DBackpropFilterV2(a, w.shape, d, **options), x, dy)
    np.testing.assert_array_equal(old, new)


# ---------------------------------------------------------------- batches of batches

@pytest.mark.parametrize("rank", [1, 2, 3])
def test_batches_of_several_dimensions(rank):
    x, w = normal(2, 3, *(5, 4, 3)[:rank], 2), normal(*(2, 1, 2)[:rank], 2, 3)
    convolve = getattr(hf.nn, f"conv{rank}d")
    flat = definition(x.reshape(6, *x.shape[2:]), w, (1,) * rank, "VALID")
    with hf.Graph().as_default(), hf.Session() as session:
        for dims in (x.shape, [None, 3] + [None] * rank + [2]):
            images = hf.placeholder(hf.float64, dims)
            y = convolve(images, hf.constant(w), 1, "VALID")
            assert y.shape[1:2].as_list() == [3] and y.shape.ndims == x.ndim
            np.testing.assert_allclose(session.run(y, {images: x}),
                                       flat.reshape(2, 3, *flat.shape[1:]), rtol=1e-12)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposes_by_the_length_of_the_shape(rank):
    x, w = normal(2, *(3, 2, 2)[:rank], 4), normal(*(2, 3, 2)[:rank], 5, 4)
    shape = [2, *(6, 4, 4)[:rank], 5]
    of_rank = getattr(hf.nn, f"conv{rank}d_transpose")
    found, expected = (evaluate(lambda a, b, f=f: f(a, b, shape, 2), x, w)
                       for f in (hf.nn.conv_transpose, of_rank))
    np.testing.assert_array_equal(found, expected)
    with hf.Graph().as_default(), pytest.raises(ValueError, match="must have 3, 4 or 5"):
        hf.nn.conv_transpose(x, w, [1, 2], 2)


# ---------------------------------------------------------------- groups of channels

def in_groups(x, w, strides, padding):
    """Each group of channels convolved with its own filters."""
    count = x.shape[-1] // w.shape[-2]
    parts = zip(np.split(x, count, -1), np.split(w, count, -1))
    return np.concatenate([definition(a, b, strides, padding) for a, b in parts], -1)


GROUPED = [((2, 6, 5, 6), (3, 2, 2, 9), (1, 1)), ((1, 7, 7, 4), (3, 3, 1, 4), (2, 2)),
           ((2, 4, 4, 6), (1, 1, 3, 4), (1, 1)), ((0, 4, 4, 4), (2, 2, 2, 4), (1, 1))]


@pairs(
    ("padding", ["SAME", "VALID"]),
    ("case", GROUPED),
    ("dtype", [np.float32, np.float64]),
)
def test_filters_of_groups_of_channels(case, padding, dtype):
    dims, window, strides = case
    x, w = normal(*dims).astype(dtype), normal(*window).astype(dtype)
    expected = in_groups(x, w, strides, padding)
    limit = {4: 1e-5, 8: 1e-12}[x.itemsize]
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, [1, *strides, 1], padding), x, w)
    np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, [1, 1, *strides], padding,
                                             data_format="NCHW"), first(x), w)
    np.testing.assert_allclose(got, first(expected), rtol=limit, atol=limit)


def test_layers_of_groups_have_biases():
    x, w, bias = normal(2, 5, 5, 4), normal(3, 3, 2, 6), normal(6)
    got = evaluate(lambda a, b, c: hf.nn.relu(hf.nn.bias_add(
        hf.nn.conv2d(a, b, [1, 1, 1, 1], "SAME"), c)),
        *(v.astype(np.float32) for v in (x, w, bias)))
    expected = np.maximum(in_groups(x, w, (1, 1), "SAME") + bias, 0)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", [(2, 2, 2, 6), (1, 1, 2, 4)])
def test_gradients_of_filters_of_groups(window):
    x, w = normal(2, 4, 3, 4), normal(*window)
    check_gradient(lambda a, b: hf.nn.conv2d(a, b, [1, 1, 1, 1], "SAME"), x, w)


def test_sums_of_gradients_of_groups():
    """Pointwise convolutions of one image, whose gradients are added up."""
    x, wide, narrow = (normal(*dims).astype(np.float32) for dims in (
        (2, 4, 3, 4), (1, 1, 4, 4), (1, 1, 2, 4)))

    def gradient(a, b, c):
        ys = [hf.nn.conv2d(a, w, [1, 1, 1, 1], "VALID") for w in (b, c)]
        return hf.gradients(ys, a)[0]

    halves = np.concatenate([part.sum(1) for part in np.split(narrow[0, 0], 2, -1)])
    expected = np.broadcast_to(wide[0, 0].sum(1) + halves, x.shape)
    np.testing.assert_allclose(evaluate(gradient, x, wide, narrow), expected, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- errors

def test_groups_that_do_not_fit():
    def conv(x, w):
        return hf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID")

    x = np.zeros((1, 4, 4, 6), np.float32)
    for message in failing(conv, x, np.zeros((2, 2, 4, 2), np.float32)):
        assert "a multiple of" in message
    for message in failing(conv, x, np.zeros((2, 2, 2, 4), np.float32)):
        assert "groups" in message
    volume, w = np.zeros((1, 4, 4, 4, 4), np.float32), np.zeros((2, 2, 2, 2, 4), np.float32)
    for message in failing(lambda a, b: hf.nn.conv3d(a, b, [1, 1, 1, 1, 1], "VALID"), volume, w):
        assert "equal" in message


def test_operands_that_do_not_fit():
    def conv(x, w):
        return hf.nn.conv2d(x, w, [1, 1, 1, 1], "VALID")

    x = np.zeros((1, 4, 4, 3), np.float32)
    for message in failing(conv, x, np.zeros((2, 2, 4, 1), np.float32)):
        assert "depth" in message
    for message in failing(conv, x, np.zeros((5, 2, 3, 1), np.float32)):
        assert "does not fit" in message
    for message in failing(conv, x[0], np.zeros((2, 2, 3, 1), np.float32)):
        assert "rank" in message


def test_gradients_that_do_not_fit():
    def gradient(w, dy):
        return hf.nn.conv2d_backprop_input([1, 4, 4, 3], w, dy, [1, 1, 1, 1], "VALID")

    w = np.zeros((2, 2, 3, 1), np.float32)
    for message in failing(gradient, w, np.zeros((1, 4, 4, 1), np.float32)):
        assert "out_backprop must be" in message


def test_bad_attributes():
    x, w = np.zeros((1, 4, 4, 3), np.float32), np.zeros((2, 2, 3, 1), np.float32)
    with pytest.raises(ValueError, match="strides"):
        hf.nn.conv2d(x, w, [1, 1, 1], "SAME")
    with pytest.raises(ValueError, match="strides"):
        hf.nn.conv2d(x, w, [2, 1, 1, 1], "SAME")
    with pytest.raises(ValueError):
        hf.nn.conv2d(x, w, [1, 1, 1, 1], "FULL")
    with pytest.raises(ValueError, match="dilation_rate"):
        hf.nn.convolution(x, w, "SAME", [2, 2], [2, 2])
    with pytest.raises(ValueError, match="data_format"):
        hf.nn.conv2d_transpose(x, w, [1, 4, 4, 3], [1, 1, 1, 1], data_format="NWHC")


def test_static_shapes():
    x = hf.placeholder(hf.float32, [None, 28, None, 3])
    w = hf.placeholder(hf.float32, [5, 5, 3, 8])
    assert hf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME").shape.as_list() == [None, 14, None, 8]
    assert hf.nn.conv2d(x, w, [1, 2, 2, 1], "VALID").shape.as_list() == [None, 12, None, 8]
    y = hf.nn.conv2d_transpose(hf.placeholder(hf.float32, [4, 14, 14, 8]), w, [4, 28, 28, 3],
                               [1, 2, 2, 1])
    assert y.shape.as_list() == [4, 28, 28, 3]


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("rates", [[2, 3], [1, 2], [1, 1]])
def test_with_space_to_batch(session, padding, rates):
    """Holes in the window of a convolution, like zeros in its filter; known and fed rates."""
    x = np.random.default_rng(1).normal(size=(2, 9, 8, 3)).astype("float32")
    w = np.random.default_rng(2).normal(size=(3, 2, 3, 4)).astype("float32")
    wide = np.zeros((2 * rates[0] + 1, rates[1] + 1, 3, 4), "float32")
    wide[::rates[0], ::rates[1]] = w

    def conv(x, count, padding):
        assert count == 2
        return hf.nn.conv2d(x, w, [1, 1, 1, 1], padding)

    expected = hf.nn.conv2d(x, wide, [1, 1, 1, 1], padding)
    y = hf.nn.with_space_to_batch(x, rates, padding, conv, [3, 2])
    assert y.shape == expected.shape
    fed, given = hf.placeholder(hf.float32), hf.placeholder(hf.int32, [2])
    again = hf.nn.with_space_to_batch(fed, given, padding, conv, [3, 2], spatial_dims=[1, 2])
    values = session.run([expected, y, again], {fed: x, given: rates})
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=1e-4, atol=1e-4)


def test_with_space_to_batch_along_one_dimension(session):
    """Space need not begin behind the batch; the channels may come before it."""
    x = np.arange(24, dtype="float32").reshape(1, 2, 12)
    add = lambda x, count, padding: x[:, :, 1:] + x[:, :, :-1]
    expected = x[..., 3:] + x[..., :-3]
    for options in ({"spatial_dims": [2]}, {"data_format": "NCW"}):
        y = hf.nn.with_space_to_batch(x, [3], "VALID", add, **options)
        np.testing.assert_array_equal(session.run(y), expected)
    for rates, options in (([0], {}), ([3], {"spatial_dims": [0]}), ([3], {"spatial_dims": [3]}),
                           ([3, 2], {"spatial_dims": [2, 1]})):
        with pytest.raises(ValueError, match=r"dilation_rate|spatial_dims|rank"):
            hf.nn.with_space_to_batch(x, rates, "VALID", add, **options)
    with pytest.raises(ValueError, match="filter_shape"):
        hf.nn.with_space_to_batch(x, [3], "SAME", add, spatial_dims=[2])


# ---------------------------------------------------------------- distances, explicit paddings

PAIRS = [[0, 0], [2, 1], [0, 3], [0, 0]]


def padded(x):
    return np.pad(x, PAIRS)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("padding", ["SAME", "VALID", PAIRS], ids=str)
def test_conv2d_with_distances(padding, dtype):
    x, w = (4 * normal(2, 9, 8, 3)).astype(dtype), (4 * normal(3, 2, 3, 2)).astype(dtype)
    valid = padding is PAIRS
    expected = definition(padded(x) if valid else x, w, (2, 1), "VALID" if valid else padding,
                          (2, 3))
    limit = {"float16": 0.3, "float32": 1e-4, "float64": 1e-11, "int32": 0}[dtype]
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, [1, 2, 1, 1], padding,
                                             dilations=[1, 2, 3, 1]), x, w)
    np.testing.assert_allclose(got, expected, atol=limit)
    chosen = [PAIRS[0], PAIRS[3], PAIRS[1], PAIRS[2]] if valid else padding
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, [2, 1], chosen, data_format="NCHW",
                                             dilations=[2, 3]), first(x), w)
    np.testing.assert_allclose(got, first(expected), atol=limit)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_other_convolutions_with_distances(dtype):
    limit = {"float16": 0.1, "float32": 1e-4, "float64": 1e-11}[dtype]
    x, w = normal(2, 7, 8, 2).astype(dtype), normal(3, 2, 2, 2).astype(dtype)
    expected = by_channel(padded(x), w, (1, 1), "VALID", (2, 2))
    got = evaluate(lambda a, b: hf.nn.depthwise_conv2d_native(
        a, b, [1, 1, 1, 1], PAIRS, dilations=[1, 2, 2, 1]), x, w)
    np.testing.assert_allclose(got, expected, atol=limit)
    x, w = normal(1, 6, 5, 7, 2).astype(dtype), normal(2, 2, 3, 2, 3).astype(dtype)
    got = evaluate(lambda a, b: hf.nn.conv3d(a, b, 1, "SAME", dilations=[2, 1, 3]), x, w)
    np.testing.assert_allclose(got, definition(x, w, (1, 1, 1), "SAME", (2, 1, 3)), atol=limit)
    x, w = normal(2, 9, 2).astype(dtype), normal(3, 2, 4).astype(dtype)
    got = evaluate(lambda a, b: hf.nn.conv1d(a, b, 1, "VALID", data_format="NWC", dilations=2),
                   x, w)
    np.testing.assert_allclose(got, definition(x, w, (1,), "VALID", (2,)), atol=limit)


@pytest.mark.parametrize("padding", ["SAME", "VALID", PAIRS], ids=str)
def test_gradients_with_distances(padding):
    options = {"padding": padding, "dilations": [1, 2, 1, 1]}
    x, w = normal(1, 6, 5, 1), normal(2, 2, 1, 2)
    check_gradient(lambda a, b: hf.nn.conv2d(a, b, [1, 1, 2, 1], **options), x, w)
    check_gradient(lambda a, b: hf.nn.depthwise_conv2d_native(a, b, [1, 1, 1, 1], **options), x, w)


def test_transposes_with_distances_are_adjoint():
    x, w = normal(2, 9, 2), normal(3, 2, 3)
    forward = definition(x, w, (2,), "SAME", (2,))
    y = normal(*forward.shape)
    got = evaluate(lambda v, f: hf.nn.conv1d_transpose(v, f, x.shape, 2, dilations=2), y, w)
    np.testing.assert_allclose(np.vdot(got, x), np.vdot(y, forward), rtol=1e-10)
    got = evaluate(lambda v, f: hf.nn.conv1d_transpose(v, f, [2, 2, 9], 2, data_format="NCW",
                                                       dilations=2), first(y), w)
    np.testing.assert_allclose(np.vdot(got, first(x)), np.vdot(y, forward), rtol=1e-10)
    x, w = normal(2, 6, 5, 1), normal(2, 2, 1, 2)
    forward = definition(padded(x), w, (2, 2), "VALID", (2, 1))
    y = normal(*forward.shape)
    got = evaluate(lambda v, f: hf.nn.conv2d_transpose(
        input=v, filters=f, output_shape=x.shape, strides=2, padding=PAIRS, dilations=[2, 1]),
        y, w)
    np.testing.assert_allclose(np.vdot(got, x), np.vdot(y, forward), rtol=1e-10)


def test_a_bias_and_a_relu_join_them(session):
    x, w = normal(2, 9, 8, 3).astype("f"), normal(3, 3, 3, 4).astype("f")
    y = hf.nn.conv2d(x, hf.placeholder_with_default(w, w.shape), [1, 1, 1, 1], PAIRS,
                     dilations=[1, 2, 2, 1])
    got = session.run(hf.nn.relu(hf.nn.bias_add(y, np.ones(4, "f"))))
    expected = np.maximum(definition(padded(x), w, (1, 1), "VALID", (2, 2)) + 1, 0)
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_graphs_say_what_is_not_the_default(session):
    x, w = normal(1, 5, 5, 1), normal(2, 2, 1, 1)
    plain = hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME", name="plain")
    wide = hf.nn.conv2d(x, w, [1, 1, 1, 1], PAIRS, dilations=[1, 2, 1, 1], name="wide")
    shape = hf.constant([1, 3, 3, 3, 1], hf.int64)
    sizes = raw_ops.Conv3DBackpropInputV2(shape, normal(2, 2, 2, 1, 1),
                                          normal(1, 2, 2, 2, 1), strides=[1] * 5, padding="VALID",
                                          name="sizes")
    graph_def = hf.get_default_graph().as_graph_def()
    attrs = {node.name: set(node.attr) for node in graph_def.node}
    assert not attrs["plain"] & {"dilations", "explicit_paddings"}
    assert attrs["wide"] >= {"dilations", "explicit_paddings"}
    assert "Tshape" in attrs["sizes"]
    again = hf.import_graph_def(graph_def, return_elements=["wide:0", "sizes:0"], name="again")
    for a, b in zip(session.run(again), session.run([wide, sizes])):
        np.testing.assert_array_equal(a, b)
    assert plain.shape == (1, 5, 5, 1)


@pytest.mark.parametrize("options, message", [
    ({"dilations": [2, 1, 1, 1]}, "dilations in the batch and depth"),
    ({"dilations": [1, 0, 1, 1]}, "dilations must be positive"),
    ({"dilations": [1, 1, 1]}, "dilations must be of length 1, 2 or 4"),
    ({"strides": [1, 1, 1, 2]}, "strides in the batch and depth"),
    ({"padding": [[0, 0], [-1, 0], [0, 0], [0, 0]]}, "must be nonnegative"),
    ({"padding": [[1, 0], [1, 0], [0, 0], [0, 0]]}, "0 in the batch and depth"),
    ({"padding": [[1, 0]]}, "four pairs"),
    ({"padding": "EXPLICIT"}, "must have 8 elements"),
    ({"filters": 1, "filter": 2}, None),
])  # fmt: skip
def test_bad_distances_and_paddings(options, message):
    given = {"input": np.zeros((1, 4, 4, 3), "f"), "strides": [1, 1, 1, 1], "padding": "SAME",
             **({} if message is None else {"filter": np.zeros((2, 2, 3, 1), "f")}), **options}
    with pytest.raises(TypeError if message is None else ValueError, match=message):
        hf.nn.conv2d(**given)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_window_of_one_element_sees_the_padding(dtype):
    x, w = normal(2, 3, 4, 2).astype(dtype), normal(1, 1, 2, 3).astype(dtype)
    got = evaluate(lambda a, b: hf.nn.conv2d(a, b, 1, PAIRS), x, w)
    np.testing.assert_allclose(got, definition(padded(x), w, (1, 1), "VALID"), atol=1e-5)
    dy, options = normal(*got.shape).astype(dtype), {"strides": [1] * 4, "padding": PAIRS}
    by_input = evaluate(lambda b, d: hf.nn.conv2d_backprop_input(x.shape, b, d, **options), w, dy)
    by_filter = evaluate(lambda a, d: hf.nn.conv2d_backprop_filter(a, w.shape, d, **options),
                         x, dy)
    for gradient, array in ((by_input, x), (by_filter, w)):
        np.testing.assert_allclose(np.vdot(gradient, array), np.vdot(got, dy), rtol=1e-4)


def test_an_empty_filter():
    for message in failing(lambda x, w: hf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"),
                           np.zeros((1, 1, 1, 1), "f"), np.zeros((1, 0, 1, 1), "f")):
        assert "filter must not have zero elements" in message


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_static_shapes_with_distances_over_an_unknown_space(data_format):
    dims, expected = [1, None, None, 10], [1, None, None, 20]
    if data_format == "NCHW":
        dims, expected = [1, 10, None, None], [1, 20, None, None]
    y = hf.nn.convolution(hf.placeholder(hf.float32, dims), hf.zeros([3, 3, 10, 20]), "VALID",
                          dilation_rate=[2, 2], data_format=data_format)
    assert y.shape.as_list() == expected


def test_a_transposed_convolution_to_a_shape_that_does_not_fit_fails_in_a_step():
    y = hf.nn.conv2d_transpose(hf.zeros([1, 3, 3, 2]), hf.zeros([2, 2, 4, 2]), [1, 9, 9, 4],
                               [1, 2, 2, 1])
    assert y.shape == [1, 9, 9, 4] == y._shape
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError):
        session.run(y)
