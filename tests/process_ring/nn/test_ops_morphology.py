"""Dilation, erosion and image patches against their definitions, and their gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gradcheck import check_gradient
from op_forms import evaluate, failing
from pairs import pairs

import hpcflow as hf
from hpcflow.base.geometry.windows import spans

RNG = np.random.default_rng(53)


def seen(x, window, strides, rates, padding):
    """(output position, window position, input position or None) of every pair."""
    over = spans(x.shape[1:3], window, strides, padding.encode(), rates)
    for out in itertools.product(*(range(s.out) for s in over)):
        for k in itertools.product(*(range(s.window) for s in over)):
            at = tuple(o * s.stride + i * s.rate - s.before for o, i, s in zip(out, k, over))
            yield out, k, at if all(0 <= a < s.size for a, s in zip(at, over)) else None


def sizes(x, window, strides, rates, padding):
    return tuple(s.out for s in spans(x.shape[1:3], window, strides, padding.encode(), rates))


CASES = [((2, 6, 7, 3), (3, 2), (2, 1), (1, 1)), ((1, 7, 6, 2), (2, 2), (1, 2), (2, 3)),
         ((0, 4, 4, 1), (2, 2), (1, 1), (1, 1)), ((1, 3, 3, 2), (1, 1), (2, 2), (1, 1))]


def wide(pair):
    return [1, *pair, 1]


@pairs(
    ("padding", ["SAME", "VALID"]),
    ("case", CASES),
    ("dtype", [np.float32, np.float64, np.int32, np.uint8]),
)
def test_dilation(case, padding, dtype):
    dims, window, strides, rates = case
    x = RNG.integers(0, 99, dims).astype(dtype)
    w = RNG.integers(0, 99, (*window, dims[3])).astype(dtype)
    expected = np.full((dims[0], *sizes(x, window, strides, rates, padding), dims[3]), -1.0)
    for out, k, at in seen(x, window, strides, rates, padding):
        if at is not None:
            here = (slice(None), *out)
            expected[here] = np.maximum(expected[here], x[(slice(None), *at)] + w[k])
    got = evaluate(lambda a, b: hf.nn.dilation2d(a, b, wide(strides), wide(rates), padding), x, w)
    np.testing.assert_array_equal(got, expected)


def test_erosion_is_the_dual():
    x, w = RNG.normal(size=(2, 6, 5, 2)), RNG.normal(size=(3, 2, 2))
    got = evaluate(lambda a, b: hf.nn.erosion2d(a, b, [1, 1, 1, 1], [1, 1, 1, 1], "VALID"), x, w)
    parts = [x[:, i : i + 4, j : j + 4] - w[2 - i, 1 - j] for i in range(3) for j in range(2)]
    np.testing.assert_allclose(got, np.min(parts, axis=0), atol=1e-12)


@pairs(
    ("padding", ["SAME", "VALID"]),
    ("case", CASES),
    ("dtype", [np.float32, np.int64]),
)
def test_patches(case, padding, dtype):
    dims, window, strides, rates = case
    x = RNG.integers(1, 99, dims).astype(dtype)
    expected = np.zeros((dims[0], *sizes(x, window, strides, rates, padding), *window, dims[3]))
    for out, k, at in seen(x, window, strides, rates, padding):
        if at is not None:
            expected[(slice(None), *out, *k)] = x[(slice(None), *at)]
    got = evaluate(lambda v: hf.extract_image_patches(v, wide(window), wide(strides), wide(rates),
                                                      padding), x)
    np.testing.assert_array_equal(got, expected.reshape(got.shape))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_patches_of_volumes(padding):
    x = RNG.integers(1, 99, (2, 4, 5, 6, 3)).astype(np.float32)
    window, strides = (2, 3, 1), (1, 2, 3)
    over = spans(x.shape[1:4], window, strides, padding.encode(), (1, 1, 1))
    expected = np.zeros((2, *(s.out for s in over), *window, 3))
    for index in np.ndindex(expected.shape[1:7]):
        at = [o * s.stride + i - s.before for o, i, s in zip(index[:3], index[3:], over)]
        if all(0 <= a < s.size for a, s in zip(at, over)):
            expected[(slice(None), *index)] = x[(slice(None), *at)]
    got = evaluate(lambda v: hf.extract_volume_patches(v, wide(window), wide(strides), padding), x)
    np.testing.assert_array_equal(got, expected.reshape((*expected.shape[:4], -1)))


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_gradients(padding):
    x, w = RNG.normal(size=(1, 4, 5, 2)), RNG.normal(size=(2, 2, 2))
    check_gradient(lambda a, b: hf.nn.dilation2d(a, b, [1, 2, 1, 1], [1, 1, 2, 1], padding), x, w,
                   second=False)
    check_gradient(lambda v: hf.extract_image_patches(
        v, [1, 2, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], padding), x)
    check_gradient(lambda v: hf.extract_volume_patches(
        v, [1, 2, 1, 2, 1], [1, 1, 2, 1, 1], padding), RNG.normal(size=(2, 3, 3, 2, 2)))


def test_operands_that_do_not_fit():
    x, w = np.zeros((1, 3, 3, 2), np.float32), np.zeros((2, 2, 3), np.float32)
    ones = [1, 1, 1, 1]
    for message in failing(lambda a, b: hf.nn.dilation2d(a, b, ones, ones, "SAME"), x, w):
        assert "depth" in message
    for message in failing(lambda v: hf.extract_image_patches(v, [1, 4, 4, 1], ones, ones,
                                                              "VALID"), x):
        assert "does not fit" in message
