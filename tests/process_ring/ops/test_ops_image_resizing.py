"""Resizing: values against loops over pixels, gradients, shapes, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from gradcheck import check_gradient
from pairs import pairs

import hpcflow as hf
from hpcflow import image, raw_ops

RNG = np.random.default_rng(11)
SIZES = [((4, 5), (8, 10)), ((7, 6), (3, 4)), ((5, 5), (1, 1)), ((1, 1), (3, 2)), ((9, 40), (4, 7))]


def scale(old, new, align):
    return (old - 1) / (new - 1) if align and new > 1 and old > 1 else old / new


def bilinear(size, at):
    low = min(int(at), size - 1)
    return [(low, 1 - (at - low)), (min(low + 1, size - 1), at - low)]


def cubic(size, at):
    a, low = -0.75, int(at)
    part = round((at - low) * 1024) / 1024
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    weights = far(1 + part), near(part), near(1 - part), far(2 - part)
    return [(min(max(low + k - 1, 0), size - 1), w) for k, w in enumerate(weights)]


def area(size, at, step):
    pixels = range(int(at), math.ceil(at + step - 1e-9))
    return [(min(p, size - 1), (min(p + 1, at + step) - max(p, at)) / step) for p in pixels]


def weights(method, old, new, align):
    """The matrix [new, old] of a way of resizing."""
    step, result = scale(old, new, align), np.zeros((new, old))
    for i in range(new):
        at = i * step
        if method == "nearest_neighbor":
            taps = [(min(math.floor(at + 0.5) if align else int(at + 1e-6), old - 1), 1.0)]
        elif method == "area":
            taps = area(old, at, step)
        else:
            taps = {"bilinear": bilinear, "bicubic": cubic}[method](old, at)
        for source, weight in taps:
            result[i, source] += weight
    return result


@pairs(
    ("method", ["bilinear", "nearest_neighbor", "bicubic", "area"]),
    ("align", [False, True]),
    ("old, new", SIZES),
)
def test_values(session, method, align, old, new):
    x = RNG.integers(0, 200, (2, *old, 3)).astype("float32")
    y = getattr(image, f"resize_{method}")(x, new, align)
    assert y.shape == (2, *new, 3)
    rows, columns = (weights(method, o, n, align) for o, n in zip(old, new))
    expected = np.einsum("yi,xj,bijc->byxc", rows, columns, x)
    np.testing.assert_allclose(session.run(y), expected, rtol=1e-4, atol=0.05)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int64", "float16", "float64"])
def test_dtypes(session, dtype):
    x = np.arange(24).reshape(1, 4, 3, 2).astype(dtype)
    for method in ("bilinear", "bicubic", "area"):
        y = session.run(getattr(image, f"resize_{method}")(x, [2, 2]))
        assert y.dtype == np.float32
    np.testing.assert_array_equal(session.run(image.resize_nearest_neighbor(x, [2, 3])), x[:, ::2])
    assert image.resize_nearest_neighbor(x, [2, 2]).dtype == dtype


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("old, new", SIZES[:4])
def test_gradients(align, old, new):
    """Linear, so that a large step of the quotients keeps the errors of float32 small."""
    x = RNG.normal(size=(1, *old, 1))
    options = {"delta": 0.5, "tolerance": 2e-4, "second": False}
    for method in ("bilinear", "bicubic"):
        build = getattr(image, f"resize_{method}")
        check_gradient(lambda x: build(x, new, align), x, **options)
    check_gradient(lambda x: image.resize_nearest_neighbor(x, new, align), x)


def test_gradients_of_gradients(session):
    """The gradient is the transpose; its own gradient is the resizing again."""
    original = np.ones((1, 3, 4, 2))
    for back in (raw_ops.ResizeBilinearGrad, raw_ops.ResizeBicubicGrad):
        check_gradient(lambda dy: back(grads=hf.cast(dy, hf.float32), original_image=original),
                       RNG.normal(size=(1, 5, 2, 2)), delta=0.5, tolerance=2e-4, second=False,
                       forms=["static"])
    x = hf.constant(RNG.normal(size=(1, 3, 4, 2)), hf.float32)
    for method in ("Bilinear", "Bicubic"):
        resize, back = (getattr(raw_ops, f"Resize{method}{s}") for s in ("", "Grad"))
        dy = hf.constant(RNG.normal(size=(1, 6, 5, 2)), hf.float32)
        v = hf.constant(RNG.normal(size=(1, 3, 4, 2)), hf.float32)
        second = hf.gradients(back(grads=dy, original_image=x), dy, v)[0]
        np.testing.assert_allclose(*session.run([second, resize(images=v, size=[6, 5])]), 1e-5)


def test_no_gradient_of_integers(graph):
    x = hf.constant(np.ones((1, 2, 2, 1), "uint8"))
    assert hf.gradients(image.resize_bilinear(x, [3, 3]), x) == [None]


@pytest.mark.parametrize("op", ["ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic",
                                "ResizeArea"])
def test_errors(session, op):
    build = getattr(raw_ops, op)
    x = np.ones((1, 2, 2, 1), "float32")
    with pytest.raises(ValueError, match="rank 4"):
        build(images=x[0], size=[2, 2])
    with pytest.raises(ValueError, match="positive"):
        build(images=x, size=[0, 2])
    images, size = hf.placeholder(hf.float32), hf.placeholder(hf.int32)
    y = build(images=images, size=size)
    for value, new, message in ((x[0], [2, 2], "4-dimensional"), (x, [2], "two numbers"),
                                (x, [2, -1], "positive"), (x[:, :0], [2, 2], "non-zero size")):
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(y, {images: value, size: new})
    assert session.run(y, {images: x[:0], size: [3, 4]}).shape == (0, 3, 4, 1)


# ---------------------------------------------------------------- crops

BOXES = np.array([[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [0.8, 0.7, 0.1, 0.2], [-0.3, 0.2, 1.4, 0.8]])


def naive_crop(x, box, size, outside):
    result = np.full((*size, x.shape[2]), outside, float)
    ends = [(box[0], box[2]), (box[1], box[3])]
    where = [[(a + b) / 2 * (n - 1)] if k == 1 else [
        (a + (b - a) * i / (k - 1)) * (n - 1) for i in range(k)]
        for (a, b), k, n in zip(ends, size, x.shape)]
    for i, y in enumerate(where[0]):
        for j, z in enumerate(where[1]):
            if 0 <= y <= x.shape[0] - 1 and 0 <= z <= x.shape[1] - 1:
                result[i, j] = sum(u * v * x[p, q] for p, u in bilinear(x.shape[0], y)
                                   for q, v in bilinear(x.shape[1], z))
    return result


@pytest.mark.parametrize("size", [(3, 4), (1, 3), (2, 1)])
def test_crop_and_resize(session, size):
    x = RNG.normal(size=(2, 5, 6, 2)).astype("float32")
    y = image.crop_and_resize(x, BOXES, [0, 1, 1, 0], size, extrapolation_value=7)
    assert y.shape == (4, *size, 2)
    expected = [naive_crop(x[i], b, size, 7) for i, b in zip((0, 1, 1, 0), BOXES)]
    np.testing.assert_allclose(session.run(y), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [(3, 2), (1, 1)])
def test_gradients_of_crops(size):
    x = RNG.normal(size=(2, 4, 5, 1))
    boxes = hf.constant
    check_gradient(lambda x: image.crop_and_resize(x, boxes(BOXES, hf.float32), [0, 1, 1, 0], size),
                   x, delta=0.5, tolerance=2e-4, second=False, forms=["static"])


@pytest.mark.parametrize("size", [(3, 2), (1, 1)])
def test_gradient_by_the_boxes(session, size):
    """Samples that stay between the same pixels: a plane, of which the gradient is exact."""
    y, x = np.mgrid[:8, :9]
    plane = (2.0 * y + 3.0 * x)[None, :, :, None].astype("float32")
    boxes = hf.constant([[0.2, 0.3, 0.6, 0.9]], hf.float32)
    crops = image.crop_and_resize(plane, boxes, [0], size)
    weight = RNG.normal(size=(1, *size, 1)).astype("float32")
    got = session.run(hf.gradients(crops, boxes, hf.constant(weight))[0])[0]
    along = [np.linspace(0, 1, n) if n > 1 else np.array([0.5]) for n in size]
    w = weight[0, :, :, 0]
    by_y, by_x = 2 * 7 * w.sum(1), 3 * 8 * w.sum(0)
    expected = [(by_y * (1 - along[0])).sum(), (by_x * (1 - along[1])).sum(),
                (by_y * along[0]).sum(), (by_x * along[1]).sum()]
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_errors_of_crops(session):
    x = np.ones((2, 3, 3, 1), "float32")
    for indices, error in (([0, 2], hf.errors.OutOfRangeError),
                           ([0, -1], hf.errors.OutOfRangeError)):
        with pytest.raises(error, match="box_ind"):
            session.run(image.crop_and_resize(x, BOXES[:2], indices, [2, 2]))
    fed = hf.placeholder(hf.int32)
    with pytest.raises(hf.errors.InvalidArgumentError, match="one element per box"):
        session.run(image.crop_and_resize(x, BOXES[:2], fed, [2, 2]), {fed: [0]})
    with pytest.raises(ValueError):
        image.crop_and_resize(x, BOXES[:2], [0], [2, 2])


def test_images_of_another_graph_than_the_default_one():
    with hf.Graph().as_default() as other:
        images = hf.ones([1, 2, 3, 1])
    assert image.resize_images(images, [4, 4]).graph is other


def test_crops_of_nearest_pixels(session):
    plane = hf.constant(np.arange(16, dtype="f").reshape(1, 4, 4, 1))
    crops = image.crop_and_resize(plane, [[0.0, 0.0, 1.0, 0.5], [0.5, 0.0, 2.0, 0.2]], [0, 0],
                                  [3, 2], "nearest", -1)
    first, second, grad = session.run([crops[0, ..., 0], crops[1, ..., 0],
                                       hf.gradients(crops[0], plane)[0][0, ..., 0]])
    np.testing.assert_array_equal(first, [[0, 2], [8, 10], [12, 14]])
    np.testing.assert_array_equal(second, [[8, 9], [-1, -1], [-1, -1]])
    wanted = np.zeros((4, 4))
    wanted[[0, 0, 2, 2, 3, 3], [0, 2, 0, 2, 0, 2]] = 1
    np.testing.assert_array_equal(grad, wanted)
