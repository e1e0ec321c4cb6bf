"""Reductions, indices of extrema, norms and running sums, run."""

from __future__ import annotations

import numpy as np
import pytest
from op_forms import evaluate, failing
from pairs import pairs
from thresholds import lower

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(5)
AXES = [[0], [1], [2], [0, 1], [0, 2], [0, 1, 2], [], [-1], [-1, 0]]
REDUCTIONS = {
    hf.reduce_sum: np.sum, hf.reduce_mean: np.mean, hf.reduce_prod: np.prod,
    hf.reduce_max: np.max, hf.reduce_min: np.min,
}  # fmt: skip


def sample(dtype, shape=(2, 3, 4)):
    if np.dtype(dtype).kind in "iu":
        return RNG.integers(0, 3, shape).astype(dtype)
    values = RNG.uniform(0.5, 1.5, size=shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * RNG.normal(size=shape)
    return values.astype(dtype)


def axes(values, index=np.int32):
    return np.array(values, index)


@pairs(
    ("keep_dims", [False, True]),
    ("dtype", [np.float16, np.float32, np.float64, np.int32, np.int64,
                                   np.complex64, np.uint8]),
    ("reduce", REDUCTIONS),
)
def test_reductions(reduce, dtype, keep_dims):
    if np.dtype(dtype).kind == "c" and reduce in (hf.reduce_max, hf.reduce_min):
        pytest.skip("complex numbers have no order")
    x = sample(dtype)
    kind = np.dtype(dtype).kind
    wide = x.astype({"c": np.complex128, "f": np.float64}.get(kind, np.int64))
    for axis in AXES:
        got = evaluate(lambda v, a: reduce(v, a, keep_dims), x, axes(axis))
        expected = REDUCTIONS[reduce](wide, axis=tuple(axis), keepdims=keep_dims)
        if kind in "iu" and reduce is hf.reduce_mean:
            expected = np.trunc(expected)
        tolerance = {2: 3e-3, 4: 1e-5, 8: 1e-5}[max(np.dtype(dtype).itemsize, 2)]
        if kind in "iu":
            np.testing.assert_array_equal(got, np.asarray(expected).astype(dtype))
        else:
            np.testing.assert_allclose(got, expected, rtol=tolerance)


def test_integer_means_round_towards_zero():
    assert evaluate(hf.reduce_mean, np.int32([-3, -4])) == -3
    assert evaluate(hf.reduce_mean, np.int32([3, 4])) == 3
    assert evaluate(hf.reduce_mean, np.full(300, 200, np.uint8)) == 200
    assert evaluate(hf.reduce_mean, np.full(9, 2**30, np.int32)) == 2**30


def test_integer_sums_keep_their_type():
    got = evaluate(hf.reduce_sum, np.array([200, 100], np.uint8))
    assert got.dtype == np.uint8 and got == 44


def test_halves_are_summed_in_float32():
    x = np.full(5000, 1.0, np.float16)
    assert evaluate(hf.reduce_sum, x) == 5000
    assert evaluate(hf.reduce_mean, np.full(3000, 100.0, np.float16)) == 100


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_axis_types_and_scalar_axis(index):
    x = sample(np.float32)
    np.testing.assert_allclose(evaluate(hf.reduce_sum, x, index(1)), x.sum(1), rtol=1e-6)
    np.testing.assert_allclose(evaluate(hf.reduce_sum, x, axes([0, 2], index)), x.sum((0, 2)),
                               rtol=1e-6)


def test_no_axes_at_all_and_scalars():
    x = sample(np.float32)
    np.testing.assert_array_equal(evaluate(hf.reduce_max, x), x.max())
    assert evaluate(hf.reduce_sum, np.float32(3)) == 3
    assert evaluate(lambda v: hf.reduce_mean(v, []), np.float32(3)) == 3


def test_old_argument_names():
    x = hf.constant(sample(np.float32))
    assert hf.reduce_sum(x, reduction_indices=[1]).shape.as_list() == [2, 4]
    with pytest.raises(ValueError, match="both axis and reduction_indices"):
        hf.reduce_sum(x, 1, reduction_indices=1)
    assert hf.argmax(x, dimension=2).shape.as_list() == [2, 3]
    with pytest.raises(ValueError, match="both 'axis' and 'dimension'"):
        hf.argmax(x, 1, dimension=1)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_reductions_of_nothing():
    x = np.zeros((0, 3), np.float32)
    np.testing.assert_array_equal(evaluate(hf.reduce_sum, x, axes([0])), [0] * 3)
    np.testing.assert_array_equal(evaluate(hf.reduce_prod, x, axes([0])), [1] * 3)
    np.testing.assert_array_equal(evaluate(hf.reduce_mean, x, axes([0])), [np.nan] * 3)
    np.testing.assert_array_equal(evaluate(hf.reduce_max, x, axes([0])), [-np.inf] * 3)
    np.testing.assert_array_equal(evaluate(hf.reduce_min, x, axes([0])), [np.inf] * 3)
    assert evaluate(hf.reduce_max, x, axes([1])).shape == (0,)
    whole = np.zeros((0,), np.int32)
    assert evaluate(hf.reduce_max, whole) == np.iinfo(np.int32).min
    assert evaluate(hf.reduce_min, whole) == np.iinfo(np.int32).max


def test_nan_is_kept():
    x = np.array([[1, np.nan, 3], [1, 2, 3]], np.float32)
    for reduce in (hf.reduce_max, hf.reduce_min, hf.reduce_sum, hf.reduce_mean):
        got = evaluate(reduce, x, axes([1]))
        assert np.isnan(got[0]) and not np.isnan(got[1])


def test_axes_that_do_not_fit():
    x = sample(np.float32)
    for bad in ([3], [-4], [0, 0], [0, -3]):
        failing(hf.reduce_sum, x, axes(bad))


def test_all_and_any():
    x = np.array([[True, False], [True, True]])
    for axis in ([0], [1], [0, 1], []):
        np.testing.assert_array_equal(evaluate(hf.reduce_all, x, axes(axis)), x.all(tuple(axis)))
        np.testing.assert_array_equal(evaluate(hf.reduce_any, x, axes(axis)), x.any(tuple(axis)))
    assert evaluate(hf.reduce_all, np.zeros(0, bool))
    assert not evaluate(hf.reduce_any, np.zeros(0, bool))


# ---------------------------------------------------------------- ArgMax, ArgMin


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint8])
def test_index_of_extremum(dtype):
    x = RNG.integers(0, 5, (3, 4, 5)).astype(dtype)
    for axis in (0, 1, 2, -1):
        for build, function in ((hf.argmax, np.argmax), (hf.argmin, np.argmin)):
            got = evaluate(build, x, np.int32(axis))
            assert got.dtype == np.int64
            np.testing.assert_array_equal(got, function(x, axis))
    np.testing.assert_array_equal(evaluate(hf.argmax, x), x.argmax(0))
    np.testing.assert_array_equal(evaluate(hf.arg_max, x, np.int64(1)), x.argmax(1))
    np.testing.assert_array_equal(evaluate(hf.arg_min, x, np.int64(1)), x.argmin(1))


def test_index_along_earlier_axes_of_large_arrays(monkeypatch):
    lower(monkeypatch, "REDUCTION_LARGE_BYTES")
    x = RNG.integers(0, 5, (3, 4, 5)).astype(np.float32)
    x[1, 2, 3], x[:, 1, 1] = np.nan, np.nan
    for axis in (0, 1, -3, -2):
        found = evaluate(hf.argmax, x, np.int32(axis))
        np.testing.assert_array_equal(found, np.where(np.isnan(x), -np.inf, x).argmax(axis))
        found = evaluate(hf.argmin, x, np.int32(axis))
        np.testing.assert_array_equal(found, np.where(np.isnan(x), np.inf, x).argmin(axis))


def test_index_passes_over_nan():
    x = np.float32([[1, np.nan, 3], [np.nan, np.nan, 0], [np.nan, np.nan, np.nan]])
    assert evaluate(hf.argmax, x, np.int32(1)).tolist() == [2, 2, 0]
    assert evaluate(hf.argmin, x, np.int32(1)).tolist() == [0, 2, 0]


def test_index_of_nothing():
    failing(hf.argmax, np.zeros((0, 2), np.float32), np.int32(0))
    failing(hf.argmax, np.zeros((3, 2), np.float32), np.int32(2))
    assert evaluate(hf.argmax, np.zeros((0, 2), np.float32), np.int32(1)).shape == (0,)


# ---------------------------------------------------------------- composites


def test_logsumexp():
    x = RNG.normal(size=(3, 4)) * 500
    expected = x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(evaluate(lambda v: hf.reduce_logsumexp(v, 1), x), expected)
    got = evaluate(lambda v: hf.reduce_logsumexp(v, [1], True), x)
    np.testing.assert_allclose(got, expected[:, None])
    assert evaluate(hf.reduce_logsumexp, np.full(3, -np.inf)) == -np.inf
    assert evaluate(hf.reduce_logsumexp, np.array([np.inf, 1.0])) == np.inf


def test_count_nonzero():
    x = np.array([[0, 1.5, 0], [2, 0, 3]], np.float32)
    assert evaluate(hf.count_nonzero, x) == 3
    got = evaluate(lambda v: hf.count_nonzero(v, 1, True, hf.int32), x)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, [[1], [2]])
    assert evaluate(hf.count_nonzero, np.array([True, False])) == 1
    assert evaluate(hf.count_nonzero, np.array([b"", b"a"], object)) == 1


@pytest.mark.parametrize("order", ["euclidean", 1, 2, 3, 0.5, np.inf])
def test_vector_norms(order):
    x = RNG.normal(size=(3, 4))
    number = 2 if order == "euclidean" else order
    for axis in (0, 1, -1):
        got = evaluate(lambda v, a=axis: hf.norm(v, order, a), x)
        np.testing.assert_allclose(got, np.linalg.norm(x, number, axis))
    np.testing.assert_allclose(evaluate(lambda v: hf.norm(v, order), x),
                               np.linalg.norm(x.reshape(-1), number))


@pytest.mark.parametrize("order", ["euclidean", "fro", 1, 2, np.inf])
@pytest.mark.parametrize("axes", [(1, 2), (-1, 0)])
def test_matrix_norms(order, axes):
    x = RNG.normal(size=(2, 3, 4))
    for keep in (False, True):
        got = evaluate(lambda v, k=keep: hf.norm(v, order, axes, k), x)
        number = "fro" if order == "euclidean" else order
        np.testing.assert_allclose(got, np.linalg.norm(x, number, axes, keepdims=keep))


def test_the_largest_singular_value_of_matrices_of_unknown_rank(session):
    x = hf.placeholder(hf.float64)
    value = RNG.normal(size=(3, 2, 4))
    got = session.run(hf.norm(x, 2, [0, -1], True), {x: value})
    np.testing.assert_allclose(got, np.linalg.norm(value, 2, (0, 2), keepdims=True))


def test_norms_of_complex_numbers():
    x = RNG.normal(size=4) + 1j * RNG.normal(size=4)
    np.testing.assert_allclose(evaluate(lambda v: hf.norm(v, 1), x), np.abs(x).sum())


@pytest.mark.parametrize("order,axis", [("fro", None), (3, [0, 1]), (-1, None), ("nuc", [0, 1]),
                                        (1, [0, 0]), (1, [0])])
def test_norms_that_do_not_exist(order, axis):
    with pytest.raises(ValueError):
        hf.norm(hf.constant([[1.0]]), order, axis)


# ---------------------------------------------------------------- AddN


def test_add_n():
    parts = [sample(np.float32) for _ in range(4)]
    np.testing.assert_allclose(evaluate(lambda *v: hf.add_n(list(v)), *parts), sum(parts),
                               rtol=1e-6)
    assert evaluate(lambda *v: hf.add_n(list(v)), *[np.int32(i) for i in range(4)]) == 6
    np.testing.assert_array_equal(evaluate(lambda v: raw_ops.AddN([v]), parts[0]), parts[0])
    failing(lambda *v: hf.add_n(list(v)), parts[0], parts[0][0])
    for wrong in ([], 3):
        with pytest.raises(ValueError, match="at least one"):
            hf.add_n(wrong)


def test_add_n_leaves_its_inputs_alone():
    x = np.ones((100, 100), np.float32)
    with hf.Graph().as_default(), hf.Session() as session:
        a = hf.placeholder(hf.float32, x.shape)
        b = a + 1.0
        total, kept = session.run([hf.add_n([b, b, a]), b], {a: x})
    assert (total == 5).all() and (kept == 2).all() and (x == 1).all()


def test_accumulate_n():
    parts = [sample(np.float32) for _ in range(3)]
    got = evaluate(lambda *v: hf.accumulate_n(list(v), shape=[2, 3, 4]), *parts)
    np.testing.assert_allclose(got, sum(parts), rtol=1e-6)
    with pytest.raises(TypeError, match="tensor_dtype"):
        hf.accumulate_n([hf.constant(1.0)], tensor_dtype=hf.int32)
    with pytest.raises(ValueError):
        hf.accumulate_n([hf.constant([1.0])], shape=[2])


# ---------------------------------------------------------------- running sums


@pairs(
    ("dtype", [np.float32, np.int32, np.uint8, np.complex64]),
    ("exclusive", [False, True]),
    ("reverse", [False, True]),
)
def test_cumulative(dtype, exclusive, reverse):
    x = sample(dtype)
    for build, ufunc, start in ((hf.cumsum, np.add, 0), (hf.cumprod, np.multiply, 1)):
        for axis in (0, 1, -1):
            line = np.moveaxis(x, axis, 0)
            line = line[::-1] if reverse else line
            if exclusive:
                line = np.concatenate([np.full_like(line[:1], start), line[:-1]])
            expected = ufunc.accumulate(line, 0, dtype=dtype)
            expected = np.moveaxis(expected[::-1] if reverse else expected, 0, axis)
            got = evaluate(lambda v, a, b=build: b(v, a, exclusive, reverse), x, np.int32(axis))
            np.testing.assert_allclose(got, expected, rtol=1e-5)
    empty = np.zeros((0, 2), dtype)
    assert evaluate(lambda v: hf.cumsum(v, 0, exclusive, reverse), empty).shape == (0, 2)
    failing(hf.cumsum, x, np.int32(3))


def test_logsumexp_of_an_unknown_shape_is_a_scalar():
    assert hf.reduce_logsumexp(hf.placeholder(hf.float32)).shape.as_list() == []
