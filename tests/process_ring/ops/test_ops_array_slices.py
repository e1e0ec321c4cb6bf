"""Slices, strided slices and ``tensor[...]``, joins and splits, run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_forms import evaluate, failing

import hpcflow as hf
from hpcflow import raw_ops

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
S = np.array([[b"a", b"b", b"c"], [b"d", b"e", b"f"]], object)


def equal(value, expected):
    np.testing.assert_array_equal(value, expected)


def ints(*values):
    return np.array(values, np.int32)


# ---------------------------------------------------------------- Slice


@pytest.mark.parametrize("begin, size", [((0, 0, 0), (3, 4, 5)), ((1, 2, 0), (2, -1, 3)),
                                         ((3, 0, 0), (0, 1, 1)), ((0, 1, 4), (-1, -1, -1))])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_slice(begin, size, index):
    ends = [None if s < 0 else b + s for b, s in zip(begin, size)]
    expected = X[tuple(slice(b, e) for b, e in zip(begin, ends))]
    equal(evaluate(hf.slice, X, np.array(begin, index), np.array(size, index)), expected)


@pytest.mark.parametrize("begin, size", [((0, 0, 0), (4, 1, 1)), ((-1, 0, 0), (1, 1, 1)),
                                         ((1, 1, 1), (1, -2, 1)), ((4, 0, 0), (-1, 1, 1)),
                                         ((0, 0), (1, 1))])
def test_slice_outside(begin, size):
    failing(hf.slice, X, ints(*begin), ints(*size))


def test_slice_of_strings_and_scalars():
    equal(evaluate(hf.slice, S, ints(0, 1), ints(2, 1)), S[:, 1:2])
    assert evaluate(hf.slice, np.float32(3), ints(), ints()) == 3


# ---------------------------------------------------------------- tensor[...]

INDICES = [
    0, -1, slice(None), slice(1, None), slice(None, -1), slice(None, None, -1), slice(5, 0, -2),
    slice(-9, 9), slice(2, 1), Ellipsis, None, (0, 1, 2), (slice(None), 2), (Ellipsis, -1),
    (None, Ellipsis, None), (1, Ellipsis, slice(1, 4, 2)), (slice(0, 2), None, -2),
    (Ellipsis, slice(None), None), (slice(3, None), Ellipsis), (0, None, 1, None, 2),
    (slice(None), slice(None), slice(None, None, 2)), (Ellipsis, 1, 1, 1), (), np.int64(2),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_getitem_as_numpy(index):
    equal(evaluate(lambda x: x[index], X), X[index])


def test_getitem_with_lists_is_a_tuple_of_positions():
    equal(evaluate(lambda x: x[[0, 1]], X), X[0, 1])


def test_getitem_of_strings():
    assert evaluate(lambda x: x[1, 2], S) == b"f"
    equal(evaluate(lambda x: x[:, ::-1], S), S[:, ::-1])


def test_getitem_with_tensors():
    i, j = np.int32(1), np.int32(3)
    equal(evaluate(lambda x, i, j: x[i], X, i, j), X[1])
    equal(evaluate(lambda x, i, j: x[i:j, j], X, i, j), X[1:3, 3])
    equal(evaluate(lambda x, i: x[i, 0:2], X, np.int64(2)), X[2, :2])
    equal(evaluate(lambda x: x[hf.shape(x)[0] - 1, :hf.size(x) // 20], X), X[2, :3])


_ENTRIES = st.one_of(
    st.integers(-3, 2), st.none(),
    st.builds(slice, st.none() | st.integers(-6, 6), st.none() | st.integers(-6, 6),
              st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3])))


@given(st.lists(_ENTRIES, max_size=5), st.none() | st.integers(0, 3))
def test_any_index(entries, ellipsis):
    if ellipsis is not None:
        entries = [*entries[:ellipsis], Ellipsis, *entries[ellipsis:]]
    index = tuple(entries)
    if sum(e is not None and e is not Ellipsis for e in index) > X.ndim:
        failing(lambda x: x[index], X)
    else:
        equal(evaluate(lambda x: x[index], X), X[index])


@pytest.mark.parametrize("index", [3, -4, (0, 4), (0, 0, 0, 0), (Ellipsis, 5)])
def test_getitem_out_of_bounds(index):
    assert all("out of bounds" in m or "out of range" in m for m in
               failing(lambda x: x[index], X))


def test_getitem_that_is_no_index():
    x = hf.constant(X)
    for bad in ("a", 1.5, True, object()):
        with pytest.raises(TypeError, match="Bad slice index"):
            x[bad]
    with pytest.raises(ValueError, match="ellips"):
        x[..., 0, ...]
    with pytest.raises(TypeError):
        iter(x)


# ---------------------------------------------------------------- StridedSlice and kin


def test_strided_slice_masks():
    spec = ints(0, 1, 0), ints(0, 3, 0), ints(1, 1, -1)
    build = lambda x, b, e, s: hf.strided_slice(x, b, e, s, begin_mask=5, end_mask=5)
    equal(evaluate(build, X, *spec), X[:, 1:3, ::-1])
    equal(evaluate(lambda x, b, e: hf.strided_slice(x, b, e), X, ints(1, 0), ints(3, 2)),
          X[1:3, :2])
    # The end of a single position is not looked at, nor are bits beyond the vectors.
    equal(evaluate(lambda x, b: hf.strided_slice(x, b, [0], [1], shrink_axis_mask=1,
                                                 end_mask=1 << 9), X, ints(-1)), X[-1])


def test_strided_slice_errors():
    failing(lambda x, b, e, s: hf.strided_slice(x, b, e, s), X, ints(0), ints(1), ints(0))
    failing(lambda x, b, e, s: hf.strided_slice(x, b, e, s, shrink_axis_mask=1), X, ints(2),
            ints(1), ints(-1))
    failing(lambda x, b, e, s: hf.strided_slice(x, b, e, s), X, ints(0), ints(1, 2), ints(1))
    failing(lambda x, b, e, s: hf.strided_slice(x, b, e, s), X, ints(0, 0, 0, 0), ints(1, 1, 1, 1),
            ints(1, 1, 1, 1))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_strided_slice_grad(index):
    expected = np.zeros((3, 4), np.float32)
    expected[1:, ::2] = [[1, 2], [3, 4]]
    spec = [np.array(v, index) for v in ((3, 4), (1, 0), (3, 4), (1, 2))]
    build = lambda shape, b, e, s, dy: raw_ops.StridedSliceGrad(shape=shape, begin=b, end=e,
                                                                strides=s, dy=dy)
    equal(evaluate(build, *spec, np.float32([[1, 2], [3, 4]])), expected)
    failing(build, *spec, np.float32([[1, 2, 3]]), forms=("static", "unknown"))


def test_strided_slice_grad_of_new_and_dropped_dimensions():
    dy = np.arange(5, dtype=np.float64).reshape(1, 5)
    expected = np.zeros((3, 5))
    expected[1] = dy
    build = lambda dy: raw_ops.StridedSliceGrad(
        shape=[3, 5], begin=[1, 0, 0], end=[0, 0, 0], strides=[1, 1, 1], dy=dy, shrink_axis_mask=1,
        new_axis_mask=2, ellipsis_mask=4)
    equal(evaluate(build, dy), expected)


def test_strided_slice_assign():
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.Variable(np.zeros((3, 4), np.float32))
        n = hf.placeholder(hf.int32, [])
        session.run(hf.global_variables_initializer())
        session.run(v[1, ::2].assign([1.0, 2.0]))
        before = session.run(v)
        session.run(v[n:, 1].assign([5.0]), {n: 2})
        equal(before, [[0, 0, 0, 0], [1, 0, 2, 0], [0, 0, 0, 0]])
        equal(session.run(v), [[0, 0, 0, 0], [1, 0, 2, 0], [0, 5, 0, 0]])
        assert isinstance(v[0], hf.Tensor) and session.run(v[0]).shape == (4,)
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"\[3\] instead of \[2\]"):
            session.run(v[0, :n].assign([1.0, 2.0, 3.0]), {n: 2})


def test_strided_slice_assign_needs_a_variable():
    with pytest.raises(TypeError, match="mutable"):
        raw_ops.StridedSliceAssign(ref=hf.constant(X), begin=[0], end=[1], strides=[1],
                                   value=X[:1])


# ---------------------------------------------------------------- Pack, Unpack

ROWS = [X[0], X[1], X[2]]


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_stack_and_unstack(axis):
    equal(evaluate(lambda *v: hf.stack(v, axis), *ROWS), np.stack(ROWS, axis))
    stacked = np.stack(ROWS, axis)
    parts = evaluate(lambda x: hf.unstack(x, 3, axis), stacked)
    for part, row in zip(parts, ROWS):
        equal(part, row)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.int64, np.bool_,
                                   np.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3,)])
def test_stack_keeps_the_type(dtype, shape):
    x = np.ones(shape, dtype)
    for count in (1, 2):
        equal(evaluate(lambda *v: hf.stack(list(v)), *[x] * count), np.stack([x] * count))
        equal(evaluate(lambda *v: hf.stack(list(v), axis=-1), *[x] * count),
              np.stack([x] * count, -1))


def test_stack_of_strings_numbers_and_mixtures():
    equal(evaluate(lambda a, b: hf.stack([a, b]), b"x", b"yz"), [b"x", b"yz"])
    equal(evaluate(lambda a, b: hf.stack([a, b], 1), S[0], S[1]), np.stack([S[0], S[1]], 1))
    equal(evaluate(lambda: hf.stack([1, 2, 3])), [1, 2, 3])
    equal(evaluate(lambda a: hf.stack([a, 2.0]), np.float32(1)), [1, 2])
    assert hf.stack([1, 2]).op.type == "Const"
    got = evaluate(lambda x: hf.unstack(x), X, forms=("constant", "static"))
    assert [p.shape for p in got] == [(4, 5)] * 3


def test_stack_errors():
    failing(lambda a, b: hf.stack([a, b]), X[0], X[0, :2])
    failing(lambda a, b: hf.stack([a, b], 1), X[0], X[0, :2])
    failing(lambda a, b: hf.stack([a, b]), S[0], S)
    failing(lambda a, b: hf.stack([a, b], 4), X[0], X[0])
    failing(lambda x: hf.unstack(x, 4), X)
    failing(lambda x: hf.unstack(x, 4, axis=7), X)
    with pytest.raises(ValueError, match="Cannot infer num"):
        hf.unstack(hf.placeholder(hf.float32))


def test_unstack_of_one():
    equal(evaluate(lambda x: hf.unstack(x, 1)[0], X[:1]), X[0])
    assert evaluate(lambda x: hf.unstack(x, 2), ints(7, 8)) == [7, 8]
    assert evaluate(lambda x: hf.unstack(x, 2), np.array([b"a", b"b"], object)) == [b"a", b"b"]


def test_parallel_stack():
    equal(evaluate(lambda *v: hf.parallel_stack(v), *ROWS, forms=("constant", "static")),
          np.stack(ROWS))
    with pytest.raises(ValueError, match="known shape"):
        hf.parallel_stack([hf.placeholder(hf.float32)])


# ---------------------------------------------------------------- Concat


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(axis):
    parts = [X, X * 2, X + 1]
    equal(evaluate(lambda a, *v: hf.concat(v, a), np.int32(axis), *parts),
          np.concatenate(parts, axis))
    equal(evaluate(lambda *v: hf.concat(v, axis), *parts), np.concatenate(parts, axis))
    equal(evaluate(lambda *v: raw_ops.Concat(concat_dim=axis % 3, values=v), *parts),
          np.concatenate(parts, axis))


def test_concat_of_one_of_strings_and_of_nothing():
    equal(evaluate(lambda x: hf.concat([x], 0), X), X)
    equal(evaluate(lambda x: hf.concat(x, 0), X), X)
    equal(evaluate(lambda a, b: hf.concat([a, b], 1), S, S), np.concatenate([S, S], 1))
    empty = np.zeros((0, 2), np.int64)
    equal(evaluate(lambda a, b: hf.concat([a, b], 0), empty, empty), empty)
    equal(evaluate(lambda a, b: hf.concat([a, b], 0), empty, np.ones((1, 2), np.int64)), [[1, 1]])


@pytest.mark.parametrize("a, b, axis", [(X, X[:2], 1), (X, X[0], 0), (X, X, 3), (X, X, -4),
                                        (np.float32(1), np.float32(2), 0)])
def test_concat_that_does_not_fit(a, b, axis):
    failing(lambda a, b, d: hf.concat([a, b], d), a, b, np.int32(axis))


def test_concat_offset():
    shapes = ints(2, 2, 7), ints(2, 3, 7), ints(2, 5, 7)
    got = evaluate(lambda d, *s: raw_ops.ConcatOffset(concat_dim=d, shape=s), np.int32(1), *shapes)
    assert [g.tolist() for g in got] == [[0, 0, 0], [0, 2, 0], [0, 5, 0]]
    for axis in (0, 3):
        failing(lambda d, *s: raw_ops.ConcatOffset(concat_dim=d, shape=s), np.int32(axis), *shapes)


# ---------------------------------------------------------------- Split


@pytest.mark.parametrize("axis, number", [(0, 3), (1, 2), (2, 1), (-2, 4), (2, 5)])
def test_split(axis, number):
    expected = np.split(X, number, axis)
    for build in (lambda x, d: hf.split(x, number, d), lambda x, d: hf.split(x, number, axis)):
        for got, want in zip(evaluate(build, X, np.int32(axis)), expected, strict=True):
            equal(got, want)


@pytest.mark.parametrize("axis, sizes", [(0, (1, 2)), (1, (0, 4)), (-1, (1, -1, 2)), (2, (5,)),
                                         (0, (-1,))])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_split_by_sizes(axis, sizes, index):
    filled = [X.shape[axis] - sum(s for s in sizes if s > 0) if s < 0 else s for s in sizes]
    expected = np.split(X, np.cumsum(filled)[:-1], axis)
    got = evaluate(lambda x, s, d: hf.split(x, s, d, num=len(sizes)), X, np.array(sizes, index),
                   np.int32(axis))
    for part, want in zip(got, expected, strict=True):
        equal(part, want)


def test_split_errors_and_strings():
    failing(lambda x: hf.split(x, 2, 0), X)
    failing(lambda x, d: hf.split(x, 2, d), X, np.int32(3))
    failing(lambda x, s: hf.split(x, s, 0, num=2), X, ints(1, 1))
    failing(lambda x, s: hf.split(x, s, 0, num=2), X, ints(-1, 4))
    failing(lambda x, s: hf.split(x, s, 0, num=2), X, ints(-1, -1))
    failing(lambda x, s: hf.split(x, s, 0, num=2), X, ints(5, -2))
    with pytest.raises(ValueError, match="Cannot infer num"):
        hf.split(hf.constant(X), hf.placeholder(hf.int32))
    first, second = evaluate(lambda x: hf.split(x, 2, 0), S)
    equal(first, S[:1])
    equal(second, S[1:])


def test_ops_do_not_write_into_their_inputs():
    """Views are shared, so whoever computes in place must know."""
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, [3, 4, 5])
        y = x[1:] + 1.0
        z = hf.transpose(x) * 2.0
        w = hf.concat([hf.reshape(x, [15, 4]) - 1.0, hf.ones([1, 4])], 0)
        fed = X.copy()
        got = session.run([y, z, w, x], {x: fed})
        equal(fed, X)
        equal(got[0], X[1:] + 1)
        equal(got[1], X.T * 2)
        equal(got[3], X)


def test_parts_that_are_empty_and_scalars_as_parts():
    v, scalar = hf.Variable([1, 2, 3]), hf.Variable(1.0)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        session.run([v[2:1].assign([7, 8]), scalar[None].assign([5.0])])
        assert session.run(v).tolist() == [1, 2, 3] and session.run(scalar) == 5
        with pytest.raises(hf.errors.InvalidArgumentError, match="shape of value"):
            session.run(scalar[None].assign(4.0))
