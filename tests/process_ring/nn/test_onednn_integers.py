"""Products of bytes by oneDNN: the very integers of NumPy's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow import config, kernels, raw_ops
from hpcflow.kernels.onednn import integers, library
from hpcflow.kernels.quantized import quantized_nn as plain

kernels.load()
pytestmark = pytest.mark.skipif(
    library.load() is None or not integers._is_exact(library.load()),
    reason="no oneDNN library that adds products of bytes exactly was found")
RNG = np.random.default_rng(83)
KINDS = {"quint8": np.uint8, "qint8": np.int8}
# Around 0, on either side of it, and far away: the integers that stand for 0 are outside the bytes.
RANGES = [(-1.0, 1.0), (0.0, 3.0), (-2.0, -0.5), (5.0, 6.0)]
PAIRS = [(limits, RANGES[i - 3]) for i, limits in enumerate(RANGES)]


def numbers(kind, *shape):
    """Random bytes, with many of the largest and the least, whose sums are the longest."""
    info = np.iinfo(KINDS[kind])
    drawn = RNG.integers(info.min, info.max, shape, endpoint=True).astype(KINDS[kind])
    extreme = np.where(RNG.random(shape) < 0.5, info.min, info.max).astype(KINDS[kind])
    return np.where(RNG.random(shape) < 0.5, drawn, extreme)


def run(build, values, kinds):
    with hf.Graph().as_default(), hf.Session() as session:
        tensors = [hf.placeholder(hf.as_dtype(kind), None) for kind in kinds]
        return session.run(list(build(*tensors)), dict(zip(tensors, values)))


@pytest.fixture
def same(monkeypatch):
    """``check(build, shapes, kinds)``: both libraries give the same; the NumPy one is not asked
    where the other computes."""
    def check(build, shapes, kinds, by_library=True):
        values = [numbers(kind, *shape) for kind, shape in zip(kinds, shapes)]
        with monkeypatch.context() as patch:
            if by_library:
                for name in ("exact_product", "exact_convolution"):
                    patch.setattr(plain, name, None)
            found = run(build, values, kinds)
        with monkeypatch.context() as patch:
            patch.setattr(config.flags, "onednn", "0")
            expected = run(build, values, kinds)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    return check


def product(limits, flips=(False, False)):
    (low_a, high_a), (low_b, high_b) = limits
    return lambda a, b: raw_ops.QuantizedMatMul(
        a=a, b=b, min_a=low_a, max_a=high_a, min_b=low_b, max_b=high_b, transpose_a=flips[0],
        transpose_b=flips[1])


def convolution(limits, stride=1, padding="SAME"):
    (low_x, high_x), (low_w, high_w) = limits
    return lambda x, w: raw_ops.QuantizedConv2D(
        input=x, filter=w, min_input=low_x, max_input=high_x, min_filter=low_w, max_filter=high_w,
        strides=[1, stride, stride, 1], padding=padding)


@pairs(
    ("b", KINDS),
    ("a", KINDS),
    ("limits", PAIRS),
)
def test_products(limits, a, b, same):
    same(product(limits), [(7, 30), (30, 5)], [a, b])


@pytest.mark.parametrize("flips", [(False, True), (True, False), (True, True)])
def test_transposed_factors(flips, same):
    shapes = [dims[::-1] if flip else dims for dims, flip in zip([(6, 33), (33, 9)], flips)]
    same(product(RANGES[:2], flips), shapes, ["quint8", "qint8"])


def test_long_sums(same):
    """Beyond what float32 holds, and beyond 32 bits."""
    same(product(RANGES[:2]), [(3, 5000), (5000, 4)], ["quint8", "quint8"])
    same(product([(0.0, 1.0), (0.0, 1.0)]), [(2, 140_000), (140_000, 2)], ["quint8", "quint8"])


def test_an_empty_product(same):
    for shapes in ([(0, 3), (3, 2)], [(2, 0), (0, 3)]):
        same(product(RANGES[:2]), shapes, ["quint8", "quint8"], by_library=False)


@pairs(
    ("b", KINDS),
    ("a", KINDS),
    ("limits", PAIRS[:3]),
    ("padding", ["SAME", "VALID"]),
)
def test_convolutions(padding, limits, a, b, same):
    """Of a range without 0 no byte stands for the padding, so NumPy computes."""
    by_library = padding == "VALID" or limits[0][0] <= 0 <= limits[0][1]
    same(convolution(limits, 2, padding), [(2, 9, 8, 3), (3, 2, 3, 17)], [a, b], by_library)
    same(convolution(limits, 1, padding), [(1, 6, 5, 40), (3, 3, 40, 8)], [a, b], by_library)


def test_a_convolution_of_single_positions(same):
    same(convolution(RANGES[:2], 2), [(2, 5, 5, 6), (1, 1, 6, 4)], ["quint8", "quint8"])


def test_bad_shapes():
    with pytest.raises(hf.errors.InvalidArgumentError, match="incompatible"):
        run(product(RANGES[:2]), [numbers("quint8", 2, 3), numbers("quint8", 4, 2)], ["quint8"] * 2)
    with pytest.raises(hf.errors.InvalidArgumentError, match="depth"):
        run(convolution(RANGES[:2]), [numbers("quint8", 1, 4, 4, 3), numbers("quint8", 2, 2, 2, 1)],
            ["quint8"] * 2)
