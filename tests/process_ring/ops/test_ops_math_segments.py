"""Reductions over segments of rows, and bincount, run."""

from __future__ import annotations

import numpy as np
import pytest
from op_forms import evaluate, failing
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(13)
IDS = np.array([0, 0, 1, 1, 1, 4], np.int32)
SORTED = {
    hf.segment_sum: (np.sum, 0), hf.segment_mean: (np.mean, 0), hf.segment_prod: (np.prod, 1),
    hf.segment_min: (np.min, 0), hf.segment_max: (np.max, 0),
}  # fmt: skip


def rows(dtype, *shape):
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(1, 6, shape).astype(dtype)
    return RNG.normal(size=shape).astype(dtype)


@pairs(
    ("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8]),
    ("index", [np.int32, np.int64]),
    ("build", SORTED),
)
def test_sorted_segments(build, index, dtype):
    reduce, default = SORTED[build]
    for shape in ((6,), (6, 3), (6, 2, 2)):
        x = rows(dtype, *shape)
        parts = [x[i == IDS] for i in range(5)]
        expected = np.array([reduce(p, 0) if len(p) else np.full(shape[1:], default)
                             for p in parts])
        if np.dtype(dtype).kind in "iu":
            expected = np.trunc(expected).astype(dtype)
        got = evaluate(build, x, IDS.astype(index))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert evaluate(build, rows(dtype, 0, 3), np.zeros(0, index)).shape == (0, 3)


@pytest.mark.parametrize("build", SORTED, ids=lambda f: f.__name__)
def test_ids_that_do_not_fit(build):
    x = rows(np.float32, 6, 2)
    assert any("increasing" in m for m in failing(build, x, IDS[::-1].copy()))
    failing(build, x, IDS - 1)
    failing(build, x, IDS[:4])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_unsorted_segments(dtype, index):
    ids = np.array([3, 0, -1, 3, 1, 0], index)
    for shape in ((6,), (6, 3), (6, 40)):
        x = rows(dtype, *shape)
        total = np.zeros((5, *shape[1:]))
        for i, row in zip(ids, x):
            if i >= 0:
                total[i] += row
        got = evaluate(hf.unsorted_segment_sum, x, ids, np.int32(5))
        np.testing.assert_allclose(got, total.astype(dtype), rtol=2e-3)
        lowest = np.iinfo(dtype).min if np.dtype(dtype).kind in "iu" else np.finfo(dtype).min
        parts = [x[ids == i] for i in range(5)]
        expected = np.array([p.max(0) if len(p) else np.full(shape[1:], lowest) for p in parts])
        got = evaluate(hf.unsorted_segment_max, x, ids, np.int32(5))
        np.testing.assert_array_equal(got, expected.astype(dtype))


def test_unsorted_segments_of_matrices_of_ids():
    ids = np.array([[2, 0], [2, -1]], np.int32)
    x = rows(np.float32, 2, 2, 3)
    got = evaluate(hf.unsorted_segment_sum, x, ids, np.int32(3))
    np.testing.assert_allclose(got, [x[0, 1], np.zeros(3), x[0, 0] + x[1, 0]], rtol=1e-6)


def test_many_rows_with_and_without_repeats():
    x = rows(np.float32, 500, 3)
    for ids in (RNG.permutation(500), RNG.integers(0, 100, 500)):
        expected = np.zeros((500, 3), np.float32)
        np.add.at(expected, ids, x)
        got = evaluate(hf.unsorted_segment_sum, x, ids.astype(np.int32), np.int32(500))
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_unsorted_ids_that_do_not_fit():
    x = rows(np.float32, 3, 2)
    ids = np.array([0, 1, 5], np.int32)
    assert any("5" in m for m in failing(hf.unsorted_segment_sum, x, ids, np.int32(5)))
    failing(hf.unsorted_segment_sum, x, ids, np.int32(-1))
    failing(hf.unsorted_segment_sum, x, ids[:2], np.int32(6))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gathered_rows(index):
    x = rows(np.float32, 5, 2)
    indices = np.array([4, 0, 4, 2], index)
    ids = np.array([0, 0, 1, 3], np.int32)
    for build, scale in ((hf.sparse_segment_sum, np.sign), (hf.sparse_segment_mean, np.abs),
                         (hf.sparse_segment_sqrt_n, np.sqrt)):
        expected = np.zeros((4, 2))
        for i in range(4):
            part = x[indices[ids == i]]
            if len(part):
                expected[i] = part.sum(0) / scale(len(part))
        np.testing.assert_allclose(evaluate(build, x, indices, ids), expected, rtol=1e-5)
        failing(build, x, indices + index(1), ids)
        failing(build, x, indices, ids[::-1].copy())
        failing(build, x, indices, ids[:3])


def test_spreading_of_means():
    grad = rows(np.float64, 3, 2)
    indices, ids = np.array([4, 0, 4], np.int32), np.array([0, 0, 2], np.int32)
    for name, weight in (("Mean", 2), ("SqrtN", np.sqrt(2))):
        build = getattr(raw_ops, f"SparseSegment{name}Grad")
        expected = np.zeros((6, 2))
        expected[4] = grad[0] / weight + grad[2]
        expected[0] = grad[0] / weight
        np.testing.assert_allclose(evaluate(build, grad, indices, ids, np.int32(6)), expected)
        failing(build, grad, indices, ids, np.int32(4))


# ---------------------------------------------------------------- bincount


def test_bincount():
    values = np.array([[1, 1, 4], [0, 4, 4]], np.int32)
    np.testing.assert_array_equal(evaluate(hf.bincount, values), [1, 2, 0, 0, 3])
    np.testing.assert_array_equal(
        evaluate(lambda x: hf.bincount(x, hf.size(x) + 1, hf.constant(8)), values),
        [1, 2, 0, 0, 3, 0, 0])
    np.testing.assert_array_equal(evaluate(lambda v: hf.bincount(v, minlength=7), values),
                                  [1, 2, 0, 0, 3, 0, 0])
    np.testing.assert_array_equal(evaluate(lambda v: hf.bincount(v, maxlength=3), values),
                                  [1, 2, 0])
    weights = np.array([[1, 2, 4], [8, 16, 32]], np.float32)
    got = evaluate(lambda v, w: hf.bincount(v, weights=w), values, weights)
    np.testing.assert_array_equal(got, [8, 3, 0, 0, 52])
    assert evaluate(hf.bincount, np.zeros(0, np.int32)).shape == (0,)
    assert evaluate(lambda v: hf.bincount(v, dtype=hf.float64), values).dtype == np.float64


# ---------------------------------------------------------------- IndexedSlices


def test_indexed_slices_as_a_tensor():
    with hf.Graph().as_default(), hf.Session() as session:
        slices = hf.IndexedSlices(hf.constant([[1.0, 2.0], [3.0, 4.0]]), hf.constant([2, 2]),
                                  hf.constant([4, 2]))
        dense = hf.convert_to_tensor(slices)
        assert dense.shape.as_list() == [4, 2]
        np.testing.assert_array_equal(session.run(dense), [[0, 0], [0, 0], [4, 6], [0, 0]])
        shapeless = hf.IndexedSlices(slices.values, slices.indices)
        with pytest.raises(ValueError, match="dense_shape"):
            hf.convert_to_tensor(shapeless)
        with pytest.raises(ValueError, match="dtype"):
            hf.convert_to_tensor(slices, hf.int32)


def test_bincount_refuses_negative_values():
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="negative"):
        session.run(hf.bincount(hf.constant([1, 2, -1])))


def test_conditions_of_nothing():
    """An empty list is one of conditions."""
    with hf.Session() as session:
        assert session.run([hf.reduce_all([]), hf.reduce_any([])]) == [True, False]


def test_means_of_integers_are_fractions():
    with hf.Session() as session:
        means = session.run(hf.unsorted_segment_mean(hf.constant([1, 2, 6]), [0, 0, 1], 3))
    assert means.dtype == np.float64
    np.testing.assert_array_equal(means, [1.5, 6, 0])
