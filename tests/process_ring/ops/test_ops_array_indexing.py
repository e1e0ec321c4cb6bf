"""Gathers and scatters, masks, one-hot forms, sets and partitions, run."""

from __future__ import annotations

import numpy as np
import pytest
from op_forms import evaluate, failing
from thresholds import lower

import hpcflow as hf
from hpcflow import raw_ops

X = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
S = np.array([b"a", b"b", b"c", b"b"], object)


def equal(value, expected):
    np.testing.assert_array_equal(value, expected)


def ints(*values):
    return np.array(values, np.int32)


# ---------------------------------------------------------------- Gather

INDICES = [2, [0, 3, 3], [], [[1], [2]], [[[0, 1], [2, 3]]]]


@pytest.mark.parametrize("indices", INDICES, ids=str)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gather(indices, index):
    indices = np.array(indices, index)
    for params in (X, X[:, 0, 0], X.astype(np.int8), S, X.T[:, :, :].copy(), X[:4, :0]):
        rows = indices % len(params)
        equal(evaluate(hf.gather, params, rows), params[rows])
        equal(evaluate(lambda p, i: raw_ops.GatherV2(params=p, indices=i, axis=0), params, rows),
              params[rows])


def test_gather_of_a_transposed_tensor():
    equal(evaluate(lambda x, i: hf.gather(hf.transpose(x), i), X, ints(1, 0)), X.T[[1, 0]])
    equal(evaluate(lambda x, i: hf.gather(hf.transpose(x), i), X, np.int32(1)), X.T[1])


@pytest.mark.parametrize("indices, bad", [(4, ""), (-1, ""), ([0, 4], "[1]"),
                                          ([[0], [-2]], "[1,0]")])
def test_gather_out_of_range(indices, bad):
    for message in failing(hf.gather, X, np.array(indices, np.int32)):
        assert f"indices{bad} = {np.min(indices) if np.min(indices) < 0 else 4}" in message
        assert "is not in [0, 4)" in message
    for make in (hf.transpose, lambda _: hf.ones([4, 3])):  # arrays that do not lie in order
        for message in failing(lambda x, i, make=make: hf.gather(make(x), i), X.T,
                               np.array(indices, np.int32)):
            assert "is not in [0, 4)" in message
    failing(lambda p, i: raw_ops.GatherV2(params=p, indices=i, axis=1), X,
            np.array(indices, np.int32) - 1 if np.max(indices) > 0 else np.int32(-1))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("indices", [1, [0, 1, 1], [[1], [0]]], ids=str)
def test_gather_along_an_axis(axis, indices):
    indices = np.array(indices, np.int64)
    equal(evaluate(lambda p, i, a: raw_ops.GatherV2(params=p, indices=i, axis=a), X, indices,
                   np.int32(axis)), X.take(indices, axis))


@pytest.mark.parametrize("batch, axis", [(1, 1), (1, 2), (2, 2), (-1, 1)])
def test_gather_by_batches(batch, axis):
    """Each batch element by itself is a plain gather."""
    shape = X.shape[: abs(batch)] + (5,)
    indices = np.random.default_rng(0).integers(0, 2, shape)
    batch_dims = batch % indices.ndim
    rows = [X[p].take(indices[p], axis - batch_dims) for p in np.ndindex(X.shape[:batch_dims])]
    expected = np.stack(rows).reshape(X.shape[:batch_dims] + rows[0].shape)
    equal(evaluate(lambda p, i: raw_ops.GatherV2(params=p, indices=i, axis=axis, batch_dims=batch),
                   X, indices), expected)


def test_gather_needs_rows():
    failing(hf.gather, np.float32(1), ints(0))
    failing(lambda p, i: raw_ops.GatherV2(params=p, indices=i, axis=3), X, ints(0))


# ---------------------------------------------------------------- GatherNd, ScatterNd


def test_gather_nd_in_batches_of_unknown_rank(session):
    fed = hf.placeholder(hf.int32)
    indices = np.random.default_rng(0).integers(0, 2, (4, 2, 2))
    for batch in (1, 2):
        found = hf.gather_nd(X, fed, batch_dims=batch)
        assert found.shape.ndims is None
        equal(session.run(found, {fed: indices[..., :1]}),
              session.run(hf.gather_nd(X, indices[..., :1], batch_dims=batch)))
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(found, {fed: indices[0, 0, :batch]})


@pytest.mark.parametrize("indices", [[[0, 0], [3, 2]], [[1], [2]], [[[0, 1, 1]], [[3, 2, 0]]],
                                     [1, 2], [[]], [[], []]], ids=str)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_gather_nd(indices, index):
    indices = np.array(indices, index)
    expected = X[tuple(np.moveaxis(indices, -1, 0))]
    if indices.shape[-1] == 0:
        expected = np.broadcast_to(X, indices.shape[:-1] + X.shape)
    equal(evaluate(hf.gather_nd, X, indices), expected)


def test_gather_nd_of_strings_and_errors():
    equal(evaluate(hf.gather_nd, S, ints([3], [0])), [b"b", b"a"])
    assert evaluate(hf.gather_nd, S, ints(2)) == b"c"
    for message in failing(hf.gather_nd, X, ints([0, 0], [1, 3])):
        assert "indices[1] = [1,3] does not index into param shape [4,3,2]" in message
    failing(hf.gather_nd, X, ints([-1, 0]))
    failing(hf.gather_nd, X, ints([0, 0, 0, 0]))


@pytest.mark.parametrize("indices, shape", [([[1], [3], [1]], (4,)), ([[1], [0]], (2, 3)),
                                            ([[0, 1], [1, 2]], (2, 3)), ([[[1]], [[0]]], (2, 3)),
                                            ([2], (4,)), ([[]], (2, 2))], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int8, np.complex64])
def test_scatter_nd(indices, shape, dtype):
    indices = np.array(indices, np.int32)
    depth = indices.shape[-1]
    updates = np.arange(1, 1 + np.prod(indices.shape[:-1] + shape[depth:], dtype=int), dtype=dtype)
    updates = updates.reshape(indices.shape[:-1] + shape[depth:])
    expected = np.zeros(shape, dtype)
    for place in np.ndindex(indices.shape[:-1]):
        expected[tuple(indices[place])] += updates[place]
    equal(evaluate(hf.scatter_nd, indices, updates, np.array(shape, np.int32)), expected)


def test_scatter_nd_joins_strings():
    got = evaluate(hf.scatter_nd, ints([2], [0], [2], [3]), S, ints(4))
    assert got.tolist() == [b"b", b"", b"ac", b"b"]


def test_scatter_nd_errors():
    failing(hf.scatter_nd, ints([4]), np.float32([1]), ints(4))
    failing(hf.scatter_nd, ints([-1]), np.float32([1]), ints(4))
    failing(hf.scatter_nd, ints([0], [1]), np.float32([1]), ints(4))
    failing(hf.scatter_nd, ints([0, 1]), np.float32([1]), ints(4))


# ---------------------------------------------------------------- Where, OneHot, masks


def test_where_gives_coordinates():
    for x in (X > 5, X[0, 0] > 9, X[:, 0] > 7, np.zeros((0, 2), bool)):
        got = evaluate(hf.where, x)
        equal(got, np.argwhere(x))
        assert got.dtype == np.int64
    equal(evaluate(lambda x: raw_ops.Where(input=x), X[0]), np.argwhere(X[0]))
    failing(hf.where, np.bool_(True))


def test_where_selects():
    equal(evaluate(hf.where, X > 5, X, -X), np.where(X > 5, X, -X))
    with pytest.raises(ValueError, match="both be"):
        hf.where(X > 5, X)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("index", [np.int32, np.int64, np.uint8])
def test_one_hot(axis, index):
    indices = np.array([[0, 2], [3, 1]], index)
    expected = np.moveaxis(np.eye(4, dtype=np.float32)[indices][..., :3], -1, axis)
    equal(evaluate(lambda i, d: hf.one_hot(i, d, axis=axis), indices, np.int32(3)), expected)
    equal(evaluate(lambda i, d: hf.one_hot(i, d, 5, -1, axis, hf.int64), indices, np.int32(3)),
          np.where(expected == 1, 5, -1))


@pytest.mark.parametrize("index", [np.int32, np.int64, np.uint8])
def test_large_one_hots_are_filled(monkeypatch, index):
    lower(monkeypatch, "GATHER_LARGE_BYTES")
    indices = np.array([[0, 2, 200], [3, 1, -1 if index is not np.uint8 else 255]], index)
    hits = indices[..., None] == np.arange(3)
    depth = np.int32(3)
    equal(evaluate(lambda i, d: hf.one_hot(i, d), indices, depth), hits.astype(np.float32))
    equal(evaluate(lambda i, d: hf.one_hot(i, d, 5, -1, 2, hf.int64), indices, depth),
          np.where(hits, 5, -1))
    equal(evaluate(lambda i, d: hf.one_hot(i, d, True, False), indices, depth), hits)
    for axis in (0, 1):
        equal(evaluate(lambda i, d, a=axis: hf.one_hot(i, d, 5, -1, a, hf.int64), indices, depth),
              np.moveaxis(np.where(hits, 5, -1), -1, axis))
    equal(evaluate(lambda i, d: hf.one_hot(i, d), indices[0, 1], depth), [0, 0, 1])


def test_one_hot_values_and_types():
    i = ints(1, -1, 7)
    equal(evaluate(lambda i: hf.one_hot(i, 2, True, False), i), [[0, 1], [0, 0], [0, 0]])
    equal(evaluate(lambda i: hf.one_hot(i, 2, dtype=hf.bool), i), [[0, 1], [0, 0], [0, 0]])
    equal(evaluate(lambda i: hf.one_hot(i, 2, b"y", b"n"), i),
          [[b"n", b"y"], [b"n", b"n"], [b"n", b"n"]])
    equal(evaluate(lambda i, a, b: hf.one_hot(i, 2, a, b), i, np.float64(2), np.float64(.5)),
          [[.5, 2], [.5, .5], [.5, .5]])
    equal(evaluate(lambda i: hf.one_hot(i, 300), np.uint8(255)), np.eye(300)[255])
    assert hf.one_hot(i, 2).dtype is hf.float32
    assert hf.one_hot(i, 2, 1, 0).dtype is hf.int32
    assert hf.one_hot(i, 2, 1.0, 0.0).dtype is hf.float32
    assert hf.one_hot(i, 2, 1, 0, dtype=hf.float16).dtype is hf.float16
    with pytest.raises(TypeError, match="on_value"):
        hf.one_hot(i, 2, hf.constant(1.0), dtype=hf.int32)
    assert evaluate(lambda i: hf.one_hot(i, 0), i).shape == (3, 0)
    failing(lambda i, d: hf.one_hot(i, d), i, np.int32(-1))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_boolean_mask(rank):
    mask = np.random.default_rng(rank).integers(0, 2, X.shape[:rank]).astype(bool)
    equal(evaluate(hf.boolean_mask, X, mask, forms=("constant", "static")), X[mask])
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32)
        equal(session.run(hf.boolean_mask(x, mask), {x: X}), X[mask])


def test_boolean_mask_errors():
    with pytest.raises(ValueError, match="scalar"):
        hf.boolean_mask(X, True)
    with pytest.raises(ValueError, match=r"\(4,\) and \(3,\) are incompatible"):
        hf.boolean_mask(X, [True, False, True])
    with pytest.raises(ValueError, match="must be specified"):
        hf.boolean_mask(X, hf.placeholder(hf.bool))


def test_sequence_mask():
    n = ints(1, 0, 3)
    expected = [[1, 0, 0], [0, 0, 0], [1, 1, 1]]
    forms = ("constant", "static")
    equal(evaluate(hf.sequence_mask, n, forms=forms), expected)
    equal(evaluate(lambda n, m: hf.sequence_mask(n, m, hf.float32), n, np.int32(2), forms=forms),
          np.array(expected)[:, :2])
    equal(evaluate(lambda n: hf.sequence_mask(n, 4), n.astype(np.int64), forms=forms)[:, :3],
          expected)
    equal(evaluate(hf.sequence_mask, np.int32(3), forms=forms), [1, 1, 1])
    equal(evaluate(hf.sequence_mask, ints([1, 0], [2, 1]), forms=forms),
          [[[1, 0], [0, 0]], [[1, 1], [1, 0]]])
    assert hf.sequence_mask([[1, 3]]).shape.as_list() == [1, 2, 3]
    with pytest.raises(ValueError, match="scalar"):
        hf.sequence_mask([1], [3])


# ---------------------------------------------------------------- sets


@pytest.mark.parametrize("x", [ints(3, 1, 3, 3, 2, 1), ints(), S, np.float32([0.5, 0.5]),
                               np.array([True, False, True])], ids=str)
@pytest.mark.parametrize("out", [hf.int32, hf.int64])
def test_unique(x, out):
    order = list(dict.fromkeys(x.tolist()))
    y, idx, count = evaluate(lambda x: hf.unique_with_counts(x, out), x)
    assert y.tolist() == order
    assert idx.tolist() == [order.index(v) for v in x.tolist()]
    assert count.tolist() == [x.tolist().count(v) for v in order]
    first, second = evaluate(lambda x: hf.unique(x, out), x)
    equal(first, y)
    equal(second, idx)


def test_every_nan_is_unique():
    y, idx, count = evaluate(hf.unique_with_counts, np.float64([np.nan, 1, np.nan, 1]))
    equal(y, [np.nan, 1, np.nan])
    equal(idx, [0, 1, 2, 1])
    equal(count, [1, 2, 1])
    failing(hf.unique, X)


@pytest.mark.parametrize("x, y", [(ints(1, 2, 3, 2, 5), ints(2, 9)), (S, S[:1]), (ints(), ints(1)),
                                  (np.float32([1, 2]), np.float32([]))], ids=str)
def test_setdiff1d(x, y):
    for index in (hf.int32, hf.int64):
        out, idx = evaluate(lambda x, y: hf.setdiff1d(x, y, index), x, y)
        keep = [i for i, v in enumerate(x.tolist()) if v not in y.tolist()]
        assert idx.tolist() == keep
        assert out.tolist() == [x.tolist()[i] for i in keep]
    failing(hf.setdiff1d, X, X[0, 0])


# ---------------------------------------------------------------- partitions


@pytest.mark.parametrize("partitions", [[0, 2, 0, 1], [[0, 0, 2], [1, 1, 1], [0, 2, 2], [0, 0, 0]],
                                        [1, 1, 1, 1]], ids=str)
def test_dynamic_partition(partitions):
    partitions = np.array(partitions, np.int32)
    got = evaluate(lambda d, p: hf.dynamic_partition(d, p, 3), X, partitions)
    for i, part in enumerate(got):
        equal(part, X[partitions == i])


def test_dynamic_partition_of_scalars_strings_and_errors():
    a, b = evaluate(lambda d, p: hf.dynamic_partition(d, p, 2), S, ints(0, 1, 1, 0))
    assert (a.tolist(), b.tolist()) == ([b"a", b"b"], [b"b", b"c"])
    got = evaluate(lambda d, p: hf.dynamic_partition(d, p, 2), np.float32([1, 2]), np.int32(1))
    assert [g.tolist() for g in got] == [[], [[1, 2]]]
    for message in failing(lambda d, p: hf.dynamic_partition(d, p, 2), X, ints(0, 1, 2, 0)):
        assert "partitions[2] = 2 is not in [0, 2)" in message
    failing(lambda d, p: hf.dynamic_partition(d, p, 2), X, ints(0, 1))
    equal(evaluate(lambda d, p: hf.dynamic_partition(d, p, 1)[0], X, ints(0, 0, 0, 0)), X)


def test_dynamic_stitch():
    build = lambda i, j, a, b: hf.dynamic_stitch([i, j], [a, b])
    equal(evaluate(build, ints(4, 0), ints([1], [3]), X[:2, 0], X[:2, 1:2]),
          np.stack([X[1, 0], X[0, 1], [0, 0], X[1, 1], X[0, 0]]))
    equal(evaluate(build, ints(0, 1), np.int32(1), np.float32([1, 2]), np.float32(7)), [1, 7])
    equal(evaluate(build, ints(1), ints(0), S[:1], S[1:2]), [b"b", b"a"])
    equal(evaluate(build, ints(), ints(), X[:0], X[:0]), X[:0])


def test_dynamic_stitch_errors():
    build = lambda i, j, a, b: hf.dynamic_stitch([i, j], [a, b])
    failing(build, ints(0, 1), ints(2), X[:1], X[:1])
    failing(build, ints(0), ints(1), X[:1], X[:1, 0])
    failing(build, ints(0), ints(-1), X[:1], X[:1])


def test_partition_and_stitch_undo_each_other():
    p = ints(1, 0, 1, 2)

    def build(x, p):
        places = hf.dynamic_partition(hf.range(4), p, 3)
        return hf.dynamic_stitch(places, hf.dynamic_partition(x, p, 3))

    equal(evaluate(build, X, p), X)


@pytest.mark.parametrize("shape,batch", [((1, 2), 1), ((1, 2), -1), ((0, 2), 1), ((1, 2, 2), 1),
                                         ((), 1)])
def test_a_gather_by_batches_refuses_other_batches(shape, batch):
    with hf.Graph().as_default(), hf.Session() as session:
        indices = hf.placeholder(hf.int32)
        taken = raw_ops.GatherV2(params=hf.placeholder_with_default(np.ones((2, 3, 4)), None),
                                 indices=indices, axis=1, batch_dims=batch, name="taken")
        with pytest.raises(hf.errors.InvalidArgumentError, match="taken"):
            session.run(taken, {indices: np.zeros(shape, np.int32)})
        assert session.run(taken, {indices: np.zeros((2, 1), np.int32)}).shape == (2, 1, 4)
