"""Images: parts, colours, boxes; static and fed shapes alike."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import image, raw_ops

RNG = np.random.default_rng(4)
BYTES = RNG.integers(0, 256, (7, 9, 3)).astype("uint8")
FLOATS = RNG.random((7, 9, 3)).astype("float32")


def both(session, build, x):
    """The value of ``build(x)``, the same for a fed image of unknown size."""
    constant = build(hf.constant(x))
    fed = hf.placeholder(x.dtype, [None] * (x.ndim - 1) + [x.shape[-1]])
    variable = build(fed)
    value, again = session.run([constant, variable], {fed: x})
    np.testing.assert_array_equal(value, again)
    assert constant.shape == value.shape and variable.shape.is_compatible_with(value.shape)
    assert value.dtype == constant.dtype.as_numpy_dtype
    return value


# ---------------------------------------------------------------- positions


@pytest.mark.parametrize("x", [BYTES, FLOATS, np.stack([BYTES, BYTES[::-1]])])
def test_flips_and_turns(session, x):
    np.testing.assert_array_equal(both(session, image.flip_left_right, x), x[..., ::-1, :])
    np.testing.assert_array_equal(both(session, image.flip_up_down, x), x[..., ::-1, :, :])
    np.testing.assert_array_equal(both(session, image.transpose_image, x), x.swapaxes(-3, -2))
    for k in (-1, 0, 1, 2, 3, 5):
        expected = np.rot90(x, k, (-3, -2))
        np.testing.assert_array_equal(both(session, lambda x: image.rot90(x, k), x), expected)
        turns = hf.placeholder(hf.int32, [])
        np.testing.assert_array_equal(session.run(image.rot90(x, turns), {turns: k}), expected)


@pytest.mark.parametrize("flip, axis", [(image.random_flip_left_right, 1),
                                        (image.random_flip_up_down, 0)])
def test_random_flips(session, flip, axis):
    y = flip(BYTES, seed=3)
    drawn = [session.run(y) for _ in range(40)]
    flipped = [np.array_equal(d, np.flip(BYTES, axis)) for d in drawn]
    assert all(f or np.array_equal(d, BYTES) for f, d in zip(flipped, drawn))
    assert 8 < sum(flipped) < 32


def test_crops_and_paddings(session):
    np.testing.assert_array_equal(
        both(session, lambda x: image.crop_to_bounding_box(x, 1, 2, 3, 4), BYTES), BYTES[1:4, 2:6])
    padded = both(session, lambda x: image.pad_to_bounding_box(x, 1, 2, 10, 12), BYTES)
    np.testing.assert_array_equal(padded, np.pad(BYTES, ((1, 2), (2, 1), (0, 0))))
    for size in ((7, 9), (5, 4), (10, 14), (3, 12), (8, 8)):
        y = both(session, lambda x: image.resize_image_with_crop_or_pad(x, *size), BYTES)
        assert y.shape == (*size, 3)
        top, left = max(0, (7 - size[0]) // 2), max(0, (9 - size[1]) // 2)
        part = BYTES[top:top + size[0], left:left + size[1]]
        above, before = max(0, (size[0] - 7) // 2), max(0, (size[1] - 9) // 2)
        inner = y[above:above + part.shape[0], before:before + part.shape[1]]
        np.testing.assert_array_equal(inner, part)
        assert y.sum(dtype=int) == part.sum(dtype=int)
    np.testing.assert_array_equal(both(session, lambda x: image.central_crop(x, 0.5), BYTES),
                                  BYTES[1:6, 2:7])
    np.testing.assert_array_equal(both(session, lambda x: image.central_crop(x, 1.0), BYTES), BYTES)


def test_parts_that_do_not_fit(session):
    fed = hf.placeholder(hf.uint8, [None, None, 3])
    for build in (lambda x: image.crop_to_bounding_box(x, 5, 0, 3, 3),
                  lambda x: image.crop_to_bounding_box(x, 0, 0, 3, 10),
                  lambda x: image.pad_to_bounding_box(x, 1, 0, 7, 9),
                  lambda x: image.pad_to_bounding_box(x, 0, 1, 7, 9)):
        with pytest.raises(ValueError, match="must be"):
            build(hf.constant(BYTES))
        with pytest.raises(hf.errors.InvalidArgumentError, match="must be"):
            session.run(build(fed), {fed: BYTES})
    with pytest.raises(ValueError, match="either 3 or 4 dimensions"):
        image.random_flip_up_down(BYTES[0])
    with pytest.raises(ValueError, match="3 or 4 dimensions"):
        image.flip_left_right(BYTES[0])
    with pytest.raises(ValueError, match="> 0"):
        image.flip_left_right(BYTES[:0])
    with pytest.raises(ValueError, match="central_fraction"):
        image.central_crop(BYTES, 0.0)


def test_resize_images(session):
    for method in range(4):
        y = both(session, lambda x: image.resize_images(x, [3, 4], method), FLOATS)
        batch = both(session, lambda x: image.resize_images(x, [3, 4], method), FLOATS[None])
        np.testing.assert_array_equal(y, batch[0])
    assert session.run(image.resize_images(BYTES, [7, 9])).dtype == np.uint8  # as it is
    with pytest.raises(ValueError, match="method"):
        image.resize_images(BYTES, [3, 3], 4)
    with pytest.raises(ValueError, match="3 or 4 dimensions"):
        image.resize_images(BYTES[0], [3, 3])
    with pytest.raises(ValueError, match="2 elements"):
        image.resize_images(BYTES, [3])


# ---------------------------------------------------------------- colours


def test_colour_spaces(session):
    expected = [[colorsys.rgb_to_hsv(*map(float, p)) for p in row] for row in FLOATS]
    hsv = both(session, image.rgb_to_hsv, FLOATS)
    np.testing.assert_allclose(hsv, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(both(session, image.hsv_to_rgb, hsv), FLOATS, rtol=1e-4, atol=1e-5)
    grey = both(session, image.rgb_to_grayscale, FLOATS)
    np.testing.assert_allclose(grey[..., 0], FLOATS @ [0.2989, 0.587, 0.114], rtol=1e-5)
    np.testing.assert_array_equal(both(session, image.grayscale_to_rgb, BYTES[..., :1]),
                                  np.repeat(BYTES[..., :1], 3, -1))
    assert both(session, image.rgb_to_grayscale, BYTES).dtype == np.uint8


def test_adjustments(session):
    brighter = both(session, lambda x: image.adjust_brightness(x, 0.2), FLOATS)
    np.testing.assert_allclose(brighter, FLOATS + 0.2, rtol=1e-5)
    clipped = both(session, lambda x: image.adjust_brightness(x, 0.2), BYTES)
    assert np.abs(clipped - np.minimum(BYTES + 51.0, 255)).max() <= 1
    mean = FLOATS.mean((0, 1))
    contrast = both(session, lambda x: image.adjust_contrast(x, 1.5), FLOATS)
    np.testing.assert_allclose(contrast, (FLOATS - mean) * 1.5 + mean, rtol=1e-4, atol=1e-5)
    hsv = session.run(image.rgb_to_hsv(FLOATS))
    turned = session.run(image.rgb_to_hsv(image.adjust_hue(FLOATS, 0.3)))
    difference = (turned - hsv - [0.3, 0, 0] + 0.5) % 1 - 0.5
    np.testing.assert_allclose(difference, np.zeros_like(hsv), atol=1e-4)
    pale = session.run(image.rgb_to_hsv(image.adjust_saturation(FLOATS, 0.5)))
    np.testing.assert_allclose(pale[..., 1], hsv[..., 1] / 2, atol=1e-4)
    np.testing.assert_allclose(both(session, lambda x: image.adjust_gamma(x, 2, 3), FLOATS),
                               3 * FLOATS**2, rtol=1e-4)
    brighter = both(session, lambda x: image.adjust_gamma(x, 0.5), BYTES)
    assert brighter.dtype == np.uint8
    np.testing.assert_array_equal(brighter, ((BYTES / 255) ** 0.5 * 255.5).astype(np.uint8))
    with pytest.raises(hf.errors.InvalidArgumentError, match="Gamma should be a non-negative"):
        session.run(image.adjust_gamma(FLOATS, hf.constant(-1.0)))
    old = raw_ops.AdjustContrast(images=BYTES, contrast_factor=2.0, min_value=10.0, max_value=90.0)
    mean = BYTES.mean((0, 1))
    np.testing.assert_allclose(session.run(old), np.clip((BYTES - mean) * 2 + mean, 10, 90),
                               rtol=1e-4)


@pytest.mark.parametrize("build, arguments", [
    (image.random_brightness, (0.3,)), (image.random_hue, (0.3,)),
    (image.random_contrast, (0.2, 1.8)), (image.random_saturation, (0.2, 1.8)),
])  # fmt: skip
def test_random_adjustments(graph, build, arguments):
    y = build(FLOATS, *arguments, seed=9)
    drawn = []
    for _ in range(2):
        with hf.Session() as session:
            drawn.append([session.run(y), session.run(y)])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0][0], drawn[0][1])
    with pytest.raises(ValueError, match=r"max_delta|upper"):
        build(FLOATS, *[-a for a in arguments])


@pytest.mark.parametrize("source", ["uint8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("target", ["uint8", "int16", "int32", "float32", "float64"])
def test_convert_image_dtype(session, source, target):
    """There and back gives the same image where the dtype between has room for it."""
    x = FLOATS.astype(source) if source[0] == "f" else (BYTES if source == "uint8" else (
        FLOATS * np.iinfo(source).max).astype(source))
    y = session.run(image.convert_image_dtype(x, target))
    assert y.dtype == target
    top = 1.0 if target[0] == "f" else np.iinfo(target).max
    np.testing.assert_allclose(y / top, x / (1.0 if source[0] == "f" else np.iinfo(source).max),
                               atol=0.01)
    if np.dtype(target).itemsize > np.dtype(source).itemsize:
        back = session.run(image.convert_image_dtype(y, source))
        np.testing.assert_allclose(back, x, rtol=1e-6, atol=1 if source == "int32" else 0)


def test_convert_image_dtype_saturates(session):
    x = np.array([-0.5, 0.5, 1.5], "float32")
    np.testing.assert_array_equal(session.run(image.convert_image_dtype(x, "uint8", saturate=True)),
                                  [0, 127, 255])
    x = np.array([-300, 5, 32000], "int16")
    np.testing.assert_array_equal(session.run(image.convert_image_dtype(x, "uint8", saturate=True)),
                                  [0, 0, 250])


def test_statistics(session):
    y = both(session, image.per_image_standardization, BYTES)
    np.testing.assert_allclose([y.mean(), y.std()], [0, 1], atol=1e-4)
    batch = both(session, image.per_image_standardization, np.stack([FLOATS, FLOATS[::-1] * 2]))
    np.testing.assert_allclose(batch.std((1, 2, 3)), [1, 1], rtol=1e-4)
    even = session.run(image.per_image_standardization(np.full((3, 3, 1), 7.0, "float32")))
    np.testing.assert_array_equal(even, np.zeros((3, 3, 1)))
    x = np.stack([FLOATS, 2 * FLOATS])
    expected = [np.abs(np.diff(v, axis=0)).sum() + np.abs(np.diff(v, axis=1)).sum() for v in x]
    np.testing.assert_allclose(both(session, image.total_variation, x), expected, rtol=1e-4)
    np.testing.assert_allclose(both(session, image.total_variation, FLOATS), expected[0], rtol=1e-4)


# ---------------------------------------------------------------- boxes


def test_draw_bounding_boxes(session):
    x = np.zeros((1, 6, 8, 3), "float32")
    y = session.run(image.draw_bounding_boxes(x, [[[0.2, 0.0, 0.8, 1.0], [-1.0, 0.5, 2.0, 0.5]]]))
    expected = np.zeros((6, 8), bool)
    expected[1:5] = True
    expected[2:4, 1:7] = False
    blue = np.zeros_like(expected)
    blue[:, 3] = True
    np.testing.assert_array_equal(y[0, ..., 0] == 1, expected & ~blue)  # yellow
    np.testing.assert_array_equal(y[0, ..., 2] == 1, blue)
    assert not x.any()


def test_non_max_suppression(session):
    boxes = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11],
                      [1, 11.1, 0, 10.1], [0, 100, 1, 101]], "float32")
    scores = np.array([0.9, 0.75, 0.6, 0.95, 0.5, 0.3], "float32")
    limit = hf.placeholder(hf.int32, [])
    y = image.non_max_suppression(boxes, scores, limit, 0.5)
    for count, expected in ((3, [3, 0, 5]), (2, [3, 0]), (30, [3, 0, 5]), (0, [])):
        np.testing.assert_array_equal(session.run(y, {limit: count}), expected)
    with pytest.raises(hf.errors.InvalidArgumentError, match="not negative"):
        session.run(y, {limit: -1})


def test_sample_distorted_bounding_box(session):
    boxes = np.array([[[0.3, 0.4, 0.6, 0.8]]], "float32")
    begin, size, box = image.sample_distorted_bounding_box(
        [60, 80, 3], boxes, seed=5, min_object_covered=0.4, aspect_ratio_range=(0.8, 1.25),
        area_range=(0.2, 0.9))
    part = hf.slice(hf.zeros([60, 80, 3]), begin, size)
    areas = []
    for _ in range(50):
        b, s, p, shown = session.run([begin, size, box, hf.shape(part)])
        assert b[2] == 0 and s[2] == -1 and list(shown) == [s[0], s[1], 3]
        np.testing.assert_allclose(p[0, 0], [b[0] / 60, b[1] / 80, (b[0] + s[0]) / 60,
                                             (b[1] + s[1]) / 80], rtol=1e-5)
        areas.append(s[0] * s[1] / 4800)
        assert 0.75 < s[1] / s[0] < 1.33 and 0.2 <= areas[-1] <= 0.9
        sides = np.minimum(b[:2] + s[:2], [36, 64]) - np.maximum(b[:2], [18, 32])
        assert sides.min() > 0 and sides.prod() >= 0.4 * 18 * 32
    assert len(set(areas)) > 20
    with pytest.raises(hf.errors.InvalidArgumentError, match="No bounding boxes"):
        session.run(image.sample_distorted_bounding_box([6, 8, 3], boxes[:, :0]))
    whole = image.sample_distorted_bounding_box([6, 8, 3], boxes[:, :0], area_range=(0.999, 1.0),
                                                use_image_if_no_bounding_boxes=True, max_attempts=3)
    np.testing.assert_array_equal(session.run(whole[1])[:2], [6, 8])


def test_extract_glimpse(session):
    x = np.arange(2 * 5 * 6, dtype="float32").reshape(2, 5, 6, 1)
    y = image.extract_glimpse(x, [2, 3], [[0.0, 0.0], [0.2, -0.3]])
    np.testing.assert_array_equal(session.run(y)[..., 0], [x[0, 1:3, 1:4, 0], x[1, 2:4, 0:3, 0]])
    y = image.extract_glimpse(x, [2, 2], [[1.0, 1.0], [3.0, 4.0]], centered=False,
                              normalized=False)
    np.testing.assert_array_equal(session.run(y)[..., 0], [x[0, :2, :2, 0], x[1, 2:4, 3:5, 0]])
    for uniform in (True, False):
        y = image.extract_glimpse(x, [9, 10], [[0.0, 0.0], [9.0, 9.0]], uniform_noise=uniform)
        first, second = session.run(y), session.run(y)
        np.testing.assert_array_equal(first[0, 2:7, 2:8], x[0])
        assert not np.array_equal(first, second)
        assert first[1].min() >= 30 and first[1].max() <= 59
    outside = hf.compat.v2.image.extract_glimpse(x, [7, 6], [[0.0, 0.0], [0.0, 0.0]], noise="zero")
    np.testing.assert_array_equal(session.run(outside), np.pad(x, [[0, 0], [1, 1], [0, 0], [0, 0]]))
    drawn = image.extract_glimpse(x, [40, 40], [[0.0, 0.0], [0.0, 0.0]], noise="gaussian")
    assert (session.run(drawn)[0] == 0).sum() > 20  # what is drawn below the lowest pixel


def test_images_without_a_known_rank_are_single_images(session):
    image = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    x = hf.placeholder(hf.float32)
    cropped = hf.image.resize_image_with_crop_or_pad(x, 4, 2)
    assert cropped.shape.as_list() == [4, 2, None]
    found = session.run([cropped, hf.image.flip_left_right(x), hf.image.rot90(x)], {x: image})
    np.testing.assert_array_equal(found[0], np.pad(image[:, 1:3], [[1, 1], [0, 0], [0, 0]]))
    np.testing.assert_array_equal(found[1], image[:, ::-1])
    np.testing.assert_array_equal(found[2], np.rot90(image))
    with pytest.raises(hf.errors.InvalidArgumentError, match="three-dimensional"):
        session.run(cropped, {x: image[0]})


@pytest.mark.parametrize("dims, room, expected", [
    ([50, 100, 3], [20, 20], [10, 20]), ([100, 50, 3], [20, 30], [20, 10]),
    ([2, 7, 9, 1], [14, 100], [14, 18]), ([5, 3, 1], [3, 3], [3, 2])])  # fmt: skip
def test_resize_images_in_proportion(session, dims, room, expected):
    x, size = np.zeros(dims, "f"), hf.placeholder(hf.int32, [2])
    fed = hf.placeholder(hf.float32, [None] * len(dims))
    static = image.resize_images(x, room, preserve_aspect_ratio=True)
    assert static.shape.as_list()[-3:-1] == expected
    for y, feeds in ((image.resize_images(x, size, preserve_aspect_ratio=True), {size: room}),
                     (image.resize_images(fed, room, preserve_aspect_ratio=True), {fed: x})):
        assert session.run(y, feeds).shape == tuple(static.shape.as_list())


def test_boxes_by_thresholds_that_are_fed(session):
    boxes = np.float32([[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 0, 0.2, 0.2], [2, 2, 3, 3]])
    scores, overlap = np.float32([0.9, 0.8, 0.7, 0.1]), hf.placeholder(hf.float32, [])
    found = [image.non_max_suppression(boxes, scores, 4, overlap),
             image.non_max_suppression(boxes, scores, 4, score_threshold=0.3)]
    for given, expected in ((0.5, [0, 2, 3]), (0.95, [0, 1, 2, 3])):
        np.testing.assert_array_equal(session.run(found[0], {overlap: given}), expected)
    np.testing.assert_array_equal(session.run(found[1]), [0, 2])


@pytest.mark.parametrize(("flip", "axis"), [(hf.image.random_flip_left_right, 2),
                                            (hf.image.random_flip_up_down, 1)])
def test_random_flips_of_a_batch(graph, flip, axis):
    images = np.arange(64 * 2 * 3, dtype=np.float32).reshape(64, 2, 3, 1)
    flipped = flip(hf.placeholder_with_default(images, [None, 2, 3, 1]), seed=3)
    assert flipped.shape.as_list() == [None, 2, 3, 1]
    with hf.Session() as session:
        got = session.run(flipped)
    turned = [np.array_equal(g, np.flip(i, axis - 1)) for g, i in zip(got, images, strict=True)]
    same = [np.array_equal(g, i) for g, i in zip(got, images, strict=True)]
    assert all(a != b for a, b in zip(turned, same, strict=True))
    assert 16 < sum(turned) < 48


def test_what_is_known_of_the_shapes_of_cropped_and_padded_images(graph):
    """The channels above all: a layer that follows needs them."""
    def fitted(shape):
        image = hf.placeholder(hf.float32, shape)
        return hf.image.resize_image_with_crop_or_pad(image, 5, 6).shape.as_list()

    assert fitted([None, None, 3]) == [5, 6, 3]
    assert fitted([None, 9, 3]) == [5, 6, 3]
    assert fitted([7, 4, None]) == [5, 6, None]
    assert fitted([None, None, None, 3]) == [None, 5, 6, 3]
    image, n = hf.placeholder(hf.float32, [None, 8, 3]), hf.placeholder(hf.int32, [])
    assert hf.image.crop_to_bounding_box(image, 1, n, n, 4).shape.as_list() == [None, 4, 3]
    with hf.Session() as session:
        got = session.run(hf.image.crop_to_bounding_box(image, 1, n, n, 4),
                          {image: np.arange(72.0).reshape(3, 8, 3), n: 2})
    np.testing.assert_array_equal(got, np.arange(72.0).reshape(3, 8, 3)[1:3, 2:6])


@pytest.mark.parametrize(("size", "text"), [([6, 4.5], "got 4.5 of type 'float'"),
                                            ([6, None], "1-D int32")])
def test_a_wrong_size_is_named(graph, size, text):
    with pytest.raises(ValueError, match=f"'size' must be a 1-D int32 Tensor: .*{text}"
                       if text.startswith("got") else text):
        hf.image.resize_images(hf.zeros([5, 5, 3]), size)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_soft_suppression_follows_the_turns_of_a_queue(session, dtype):
    boxes = np.array([[0, 0, 1, 1], [5, 5, 6, 6], [0, 0, 1, 1]], dtype)

    def select(scores, threshold):
        return session.run(raw_ops.NonMaxSuppressionV5(
            boxes=boxes, scores=np.array(scores, dtype), max_output_size=3,
            iou_threshold=dtype(0.5), score_threshold=dtype(threshold), soft_nms_sigma=dtype(0.5)))

    # The last box is the first one again: its score is raised, but its turn comes last.
    found, scores, count = select([0.5, -0.2, -0.3], -1)
    assert found.tolist() == [0, 1, 2] and count == 3 and scores.dtype == dtype
    np.testing.assert_allclose(scores, [0.5, -0.2, -0.3 * np.exp(-1)], rtol=2e-3)
    found, scores, _ = select([0.5, 0.25, 0.5], 0.2)  # here it is lowered too far
    assert found.tolist() == [0, 1]
    found, scores, _ = select([0.5, 0.25, 0.5], 0.1)
    assert found.tolist() == [0, 1, 2]


def test_the_second_derivative_of_saturation_takes_the_first_of_equal_channels(session):
    red, blue = 0.8, 0.2
    x = hf.constant([[[red, red, blue]]], hf.float64)
    first = hf.gradients(image.rgb_to_hsv(x)[..., 1], x)[0]
    np.testing.assert_allclose(session.run(first)[0, 0], [blue / red**2, 0, -1 / red])
    second = hf.gradients(first[..., 0], x)[0]
    np.testing.assert_allclose(session.run(second)[0, 0], [-2 * blue / red**3, 0, 1 / red**2])


@pytest.mark.parametrize(("seed", "rank", "expected"), [
    (3, 4, [0, 3, 0, 3, 0, 3]), (3, 3, [3, 3, 0, 3, 0, 3]), (None, 4, [0, 0, 3, 0, 0, 3]),
    (None, 3, [3, 0, 3, 3, 0, 0])])
def test_seeds_flip_what_the_reference_does(seed, rank, expected):
    value = np.arange(48, dtype=np.float32).reshape(4, 2, 2, 3)
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(5)
        x = hf.constant(value if rank == 4 else value[0])
        flipped = hf.image.random_flip_left_right(x, seed=seed)
        assert [session.run(flipped).ravel()[0] for _ in range(6)] == expected


def test_the_seed_of_a_graph_crops_what_the_reference_does():
    value = np.arange(48).reshape(4, 4, 3)
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(5)
        cropped = hf.random_crop(hf.constant(value.astype(np.float32)), [2, 2, 3])
        assert [session.run(cropped).ravel()[1] for _ in range(4)] == [16, 28, 16, 7]
