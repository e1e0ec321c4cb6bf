"""Values of sparse ops against their dense counterparts, and what bad input says."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from op_forms import evaluate, failing
from thresholds import lower

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(11)


def random_sparse(dtype, shape, count, ordered=True):
    flat = RNG.permutation(int(np.prod(shape)))[:count]
    flat = np.sort(flat) if ordered else flat
    return (np.stack(np.unravel_index(flat, shape), 1).astype(np.int64).reshape(-1, len(shape)),
            RNG.integers(1, 5, count).astype(dtype), np.array(shape, np.int64))


def dense(indices, values, shape):
    out = np.zeros(shape, values.dtype)
    out.reshape(-1)[indices @ (np.cumprod([1, *shape[:0:-1]])[::-1][:len(shape)])] = values
    return out


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex64, np.int8, np.int64])
@pytest.mark.parametrize(("shape", "count"), [((5,), 2), ((3, 4), 6), ((2, 3, 4), 0)])
def test_forms(dtype, shape, count):
    parts = random_sparse(dtype, shape, count, ordered=False)
    table = dense(*parts)
    ordered = evaluate(raw_ops.SparseReorder, *parts)
    assert (np.diff(np.ravel_multi_index(ordered[0].T, shape)) > 0).all()
    np.testing.assert_array_equal(dense(*ordered, parts[2]), table)
    got = evaluate(lambda i, v, s: raw_ops.SparseToDense(
        i, s, v, np.array(0, dtype), validate_indices=False), *parts)
    np.testing.assert_array_equal(got, table)
    flat = evaluate(raw_ops.SparseReshape, parts[0], parts[2], np.array([-1], np.int64))
    np.testing.assert_array_equal(dense(flat[0], parts[1], flat[1]), table.reshape(-1))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat_and_split(axis):
    first, second = (random_sparse(np.float32, (3, 4, 5), 20) for _ in range(2))
    joined = evaluate(lambda *p: raw_ops.SparseConcat(
        [p[0], p[3]], [p[1], p[4]], [p[2], p[5]], concat_dim=axis), *first, *second)
    whole = np.concatenate([dense(*first), dense(*second)], axis)
    np.testing.assert_array_equal(dense(*joined), whole)
    if axis < 0:
        return
    for count in (1, 2, 3):
        pieces = evaluate(lambda i, v, s, n=count: [t for part in raw_ops.SparseSplit(
            np.int64(axis), i, v, s, num_split=n) for t in part], *joined)
        parts = [dense(*pieces[k::count]) for k in range(count)]
        np.testing.assert_array_equal(np.concatenate(parts, axis), whole)
        sizes = [p.shape[axis] for p in parts]
        assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


@pytest.mark.parametrize("axes", [*itertools.combinations(range(3), 1), (0, 2), (-1,), (0, 1, 2),
                                  ()])
@pytest.mark.parametrize("keep", [False, True])
def test_reductions(axes, keep):
    parts = random_sparse(np.float64, (3, 4, 5), 20, ordered=False)
    expected = dense(*parts).sum(axis=axes, keepdims=keep)
    axes = np.array(axes, np.int32)
    got = evaluate(lambda *p: raw_ops.SparseReduceSum(*p, axes, keep_dims=keep), *parts)
    np.testing.assert_allclose(got, expected)
    got = evaluate(lambda *p: raw_ops.SparseReduceSumSparse(*p, axes, keep_dims=keep), *parts)
    np.testing.assert_allclose(dense(*got), expected)


def test_extrema_and_sums():
    a, b = random_sparse(np.float32, (6, 7), 15), random_sparse(np.float32, (6, 7), 20)
    b = (b[0], -b[1], b[2])
    for op, function in ((raw_ops.SparseSparseMaximum, np.maximum),
                         (raw_ops.SparseSparseMinimum, np.minimum)):
        np.testing.assert_array_equal(dense(*evaluate(op, *a, *b), a[2]),
                                      function(dense(*a), dense(*b)))
    total = evaluate(lambda *p: raw_ops.SparseAdd(*p, np.float32(0.5)), *a, *b)
    np.testing.assert_array_equal(dense(*total), dense(*a) + dense(*b))
    assert (total[1] != 0).all()


def test_softmax():
    indices, values, shape = random_sparse(np.float64, (4, 6), 13, ordered=False)
    got = dense(indices, evaluate(raw_ops.SparseSoftmax, indices, values, shape), shape)
    x = np.where(dense(indices, values, shape) == 0, -np.inf, dense(indices, values, shape))
    rows = ~np.isinf(x).all(axis=1)
    e = np.exp(x[rows])
    np.testing.assert_allclose(got[rows], e / e.sum(axis=1, keepdims=True))


def test_matmul_in_blocks(monkeypatch):

    lower(monkeypatch, "SPARSE_BLOCK_BYTES")
    parts, b = random_sparse(np.float32, (9, 30), 100), RNG.normal(size=(30, 5)).astype("f4")
    got = evaluate(raw_ops.SparseTensorDenseMatMul, *parts, b)
    np.testing.assert_allclose(got, dense(*parts) @ b, rtol=1e-5, atol=1e-5)


def test_shapes_beyond_64_bits():
    """Places are compared without a number for each element of the dense tensor."""
    size = 1 << 40
    shape = np.array([size, size], np.int64)
    a = np.array([[size - 1, 3], [5, size - 1], [5, 0]], np.int64)
    got = evaluate(raw_ops.SparseReorder, a, np.array([1, 2, 3]), shape)
    np.testing.assert_array_equal(got[0], a[::-1])
    total = evaluate(lambda i, v: raw_ops.SparseAdd(i, v, shape, i[:1], v[:1], shape, 0),
                     a[::-1].copy(), np.array([3, 2, 1], np.int32))
    assert total[1].tolist() == [6, 2, 1]
    failing(raw_ops.SparseReshape, a, shape, np.array([-1], np.int64))
    failing(lambda i: raw_ops.SparseToDense(i, shape, np.float32(1), np.float32(0)), a)


def test_places_outside():
    _, values, shape = random_sparse(np.float32, (3, 4), 3)
    for wrong in ([[0, 0], [1, 4], [2, 0]], [[0, 0], [1, -1], [2, 0]], [[0, 0], [3, 0], [2, 0]]):
        wrong = np.array(wrong, np.int64)
        for op, rest in ((raw_ops.SparseSoftmax, ()),
                         (raw_ops.SparseDenseCwiseMul, (np.ones(4, "f4"),)),
                         (raw_ops.SparseTensorDenseMatMul, (np.ones((4, 2), "f4"),)),
                         (raw_ops.SparseTensorDenseAdd, (np.ones((3, 4), "f4"),)),
                         (raw_ops.SparseReduceSum, (np.array([0], np.int32),)),
                         (raw_ops.SerializeManySparse, ())):
            messages = failing(op, wrong, values, shape, *rest)
            assert any("indices[" in m or "index[" in m for m in messages), messages


def test_places_outside_keep_their_order():
    """Sums and sorted copies take places as they are, as older programs make them."""
    outside = hf.SparseTensor([[1, 4], [0, 9], [-1, 2]], [1.0, 2.0, 3.0], [2, 3])
    other = hf.SparseTensor([[0, 9]], [5.0], [2, 3])
    with hf.Session() as session:
        ordered = session.run(hf.sparse_reorder(outside))
        assert ordered.indices.tolist() == [[-1, 2], [0, 9], [1, 4]]
        assert ordered.values.tolist() == [3, 2, 1]
        total = session.run(hf.sparse_add(outside, other))
        assert total.indices.tolist() == [[-1, 2], [0, 9], [1, 4]]
        assert total.values.tolist() == [3, 7, 1]


def test_arguments():
    x = hf.SparseTensor([[0, 1]], [1.0], [2, 3])
    with pytest.raises(ValueError, match="Keyword arguments are required"):
        hf.sparse_split(x, 2, 1)
    with pytest.raises(ValueError, match="Cannot specify both"):
        hf.sparse_concat(1, [x, x], concat_dim=1)
    with pytest.raises(ValueError, match="both axis and reduction_axes"):
        hf.sparse_reduce_sum(x, 1, reduction_axes=1)
    with pytest.raises(TypeError, match="At least one input"):
        hf.sparse_add(hf.ones([2]), hf.ones([2]))
    with pytest.raises(ValueError):
        hf.sparse_retain(x, [True, False])
    with hf.Session() as session:
        assert len(hf.sparse_concat(0, [x]).eval(session=session).values) == 1
        fed = hf.placeholder(hf.int64, [2])
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(hf.sparse_reset_shape(x, fed), {fed: [1, 3]})
    with pytest.raises(ValueError, match="should have dimension sizes"):
        hf.sparse_reset_shape(x, hf.constant([1, 3]))
    masked = hf.sparse_mask(hf.IndexedSlices(hf.constant([[1.0], [2.0], [3.0]]),
                                             hf.constant([4, 7, 9])), [7])
    with hf.Session() as session:
        assert session.run(masked.indices).tolist() == [4, 9]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, object])
def test_sets(dtype):
    a, b = RNG.integers(0, 5, (2, 3, 4)), RNG.integers(0, 5, (2, 3, 6))
    names = np.array([b"a", b"b", b"cc", b"d", b"e"], object)
    x, y = (names[v] if dtype is object else v.astype(dtype) for v in (a, b))
    for function, of_sets in ((hf.sets.set_union, set.union),
                              (hf.sets.set_intersection, set.intersection),
                              (hf.sets.set_difference, set.difference)):
        found = evaluate(lambda *t, f=function: _as_list(f(*t)), x, y)
        rows = [of_sets(set(p.tolist()), set(q.tolist()))
                for p, q in zip(x.reshape(6, -1), y.reshape(6, -1))]
        got = [[] for _ in rows]
        for (i, j, _), value in zip(found[0], found[1].tolist()):
            got[3 * i + j].append(value)
        assert got == [sorted(r) for r in rows]
        assert found[2].tolist() == [2, 3, max(map(len, rows))]


def _as_list(sparse):
    return [sparse.indices, sparse.values, sparse.dense_shape]


def test_sets_that_do_not_fit():
    x = np.ones((2, 3), np.int32)
    for y in (np.ones((3, 3), np.int32), np.ones((1, 2, 3), np.int32)):
        failing(lambda a, b: _as_list(hf.sets.set_union(a, b)), x, y)
    with pytest.raises(TypeError, match="not supported in sets"):
        hf.sets.set_union([[1.0]], [[1.0]])
    with pytest.raises(TypeError, match="Types don't match"):
        hf.sets.set_union(x, x.astype(np.int64))
    unordered = (np.array([[1, 0], [0, 0]]), np.array([1, 2], np.int32), np.array([2, 1]))
    failing(raw_ops.SetSize, *unordered)
    assert evaluate(lambda *p: raw_ops.SetSize(*p, validate_indices=False),
                    *unordered).tolist() == [1, 1]


def test_the_static_shape_of_a_transposed_tensor(graph):
    sparse = hf.SparseTensor([[0, 1, 2]], [1.0], [3, 4, 5])
    assert hf.sparse_transpose(sparse).shape.as_list() == [5, 4, 3]
    assert hf.sparse_transpose(sparse, [1, 0, 2]).shape.as_list() == [4, 3, 5]
    twice = hf.sparse_transpose(hf.sparse_transpose(sparse), [1, 0, 2])
    assert twice.shape.as_list() == [4, 5, 3]


@pytest.mark.parametrize(("values", "wanted"), [
    ([b"a"], [[b"", b"a"]]), ([True], [[False, True]]), ([7], [[0, 7]]), ([2j], [[0j, 2j]])])
def test_dense_forms_have_zeros_of_their_type(graph, values, wanted):
    dense = hf.sparse_tensor_to_dense(hf.SparseTensor([[0, 1]], values, [1, 2]))
    with hf.Session() as session:
        assert session.run(dense).tolist() == wanted
