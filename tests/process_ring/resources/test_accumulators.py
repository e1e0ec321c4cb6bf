"""Accumulators: averages, stale gradients, waiting, errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from running import until_waiting
from speed import patience

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def in_thread(call):
    """Start `call` in a thread; returns (thread, results)."""
    results = []

    def run():
        try:
            results.append(call())
        except Exception as e:  # noqa: BLE001
            results.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, results


def test_average_and_count():
    q = hf.ConditionalAccumulator(hf.float32, shape=[3], name="acc")
    x = hf.placeholder(hf.float32, [3])
    put, take, count = q.apply_grad(x), q.take_grad(2), q.num_accumulated()
    assert take.shape.as_list() == [3] and q.name == "acc" and q.dtype is hf.float32
    with hf.Session() as session:
        session.run(put, {x: [1, 2, 3]})
        assert session.run(count) == 1
        session.run(put, {x: [3, 4, 6]})
        np.testing.assert_array_equal(session.run(take), np.float32([2, 3, 4.5]))
        assert session.run(count) == 0


@pytest.mark.parametrize("dtype", [hf.float16, hf.float64, hf.int32, hf.int8, hf.complex64])
def test_types(dtype):
    q = hf.ConditionalAccumulator(dtype, shape=[])
    x = hf.placeholder(dtype, [])
    put, take = q.apply_grad(x), q.take_grad(1)
    with hf.Session() as session:
        session.run(put, {x: 2})
        session.run(put, {x: -5})
        got = session.run(take)
        assert got.dtype == dtype.as_numpy_dtype
        assert got == (-1 if dtype.is_integer else -1.5)  # towards zero


def test_stale_gradients_are_dropped():
    q = hf.ConditionalAccumulator(hf.float32, shape=[])
    x, step = hf.placeholder(hf.float32, []), hf.placeholder(hf.int64, [])
    put, take, count = q.apply_grad(x, local_step=step), q.take_grad(1), q.num_accumulated()
    with hf.Session() as session:
        session.run(put, {x: 1, step: 0})
        assert session.run(take) == 1  # the step number is 1 now
        session.run(put, {x: 100, step: 0})
        assert session.run(count) == 0
        session.run(put, {x: 5, step: 1})
        session.run(put, {x: 7, step: 9})
        assert session.run(take) == 6
        session.run(q.set_global_step(20))
        session.run(put, {x: 1, step: 19})
        assert session.run(count) == 0
        session.run(put, {x: 3, step: 20})
        assert session.run(take) == 3


def test_taking_waits_and_is_cancelled():
    q = hf.ConditionalAccumulator(hf.float32, shape=[])
    x = hf.placeholder(hf.float32, [])
    put, take = q.apply_grad(x, local_step=5), q.take_grad(2)
    with hf.Session() as session:
        first, one = in_thread(lambda: session.run(take))
        second, two = in_thread(lambda: session.run(take))
        until_waiting(session, 2)
        for value in (1, 3, 5):
            assert first.is_alive() or second.is_alive()
            session.run(put, {x: value})
        session.run(put, {x: 9})
        first.join(patience()), second.join(patience())
        assert sorted(one + two) == [2, 7]
        third, three = in_thread(lambda: session.run(take))
        until_waiting(session)
        assert third.is_alive()
    third.join(patience())
    assert isinstance(three[0], hf.errors.CancelledError)


def test_a_timeout_keeps_what_was_accumulated():
    q = hf.ConditionalAccumulator(hf.float32, shape=[])
    put, take = q.apply_grad(4.0), q.take_grad(2)
    with hf.Session() as session:
        session.run(put)
        with pytest.raises(hf.errors.DeadlineExceededError):
            session.run(take, options=hf.RunOptions(timeout_in_ms=100))
        session.run(put)
        assert session.run(take) == 4


def test_wrong_gradients():
    q = hf.ConditionalAccumulator(hf.float32, shape=[2])
    with pytest.raises(ValueError):
        q.apply_grad([1.0, 2.0, 3.0])
    x, required = hf.placeholder(hf.float32), hf.placeholder(hf.int32, [])
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"expected \[2\], got \[3\]"):
            session.run(q.apply_grad(x), {x: [1, 2, 3]})
        with pytest.raises(hf.errors.InvalidArgumentError, match="num_required must be positive"):
            session.run(q.take_grad(required), {required: 0})
        assert session.run(q.num_accumulated()) == 0
        free = hf.ConditionalAccumulator(hf.float32)
        put = free.apply_grad(x)
        session.run(put, {x: [1.0, 2.0]})
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"expected \[2\], got \[\]"):
            session.run(put, {x: 1.0})  # the first one decided
        np.testing.assert_array_equal(session.run(free.take_grad(1)), [1, 2])


def test_the_accumulated_value_is_its_own():
    q = hf.ConditionalAccumulator(hf.float32, shape=[2])
    v = hf.Variable([1.0, 1.0])
    put, take = q.apply_grad(v), q.take_grad(1)
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(put)
        session.run(hf.assign_add(v, [5.0, 5.0]).op)
        np.testing.assert_array_equal(session.run(take), [1, 1])
        session.run(put)
        np.testing.assert_array_equal(session.run(v), [6, 6])


def test_sparse_average_by_row():
    q = hf.SparseConditionalAccumulator(hf.float32, shape=[10, 2])
    i, v = hf.placeholder(hf.int64, [None]), hf.placeholder(hf.float32, [None, 2])
    put, take = q.apply_grad(i, v), q.take_grad(2)
    slices = q.take_indexed_slices_grad(1)
    assert take[1].shape.as_list() == [None, 2] and take[2].shape.as_list() == [2]
    with hf.Session() as session:
        session.run(put, {i: [3, 1], v: [[1, 1], [2, 2]]})
        session.run(put, {i: [1, 5], v: [[4, 6], [3, 3]]})
        indices, values, shape = session.run(take)
        np.testing.assert_array_equal(indices, [1, 3, 5])
        np.testing.assert_array_equal(values, [[3, 4], [1, 1], [3, 3]])
        np.testing.assert_array_equal(shape, [10, 2])
        session.run(q.apply_grad([2, 2], [[1.0, 1.0], [2.0, 3.0]], [10, 2], local_step=1))
        got = session.run(slices)
        np.testing.assert_array_equal(got.indices, [2])
        np.testing.assert_array_equal(got.values, [[3, 4]])
        session.run(put, {i: [1], v: [[1, 1]]})  # stale: step 0
        assert session.run(q.num_accumulated()) == 0


def test_sparse_of_unknown_shape_and_without_rows():
    q = hf.SparseConditionalAccumulator(hf.float64)
    i, v = hf.placeholder(hf.int64, [None]), hf.placeholder(hf.float64)
    put, take = q.apply_grad(i, v, local_step=9), q.take_grad(2)
    empty = (np.empty(0, np.int64), np.empty((0, 3)))
    full = ([7], [[1.0, 2.0, 3.0]])
    with hf.Session() as session:
        for parts in ([empty, full], [full, empty]):
            for indices, values in parts:
                session.run(put, {i: indices, v: values})
            indices, values, shape = session.run(take)
            np.testing.assert_array_equal(indices, [7])
            np.testing.assert_array_equal(values, [[1, 2, 3]])
            np.testing.assert_array_equal(shape, [-1, 3])


@pytest.mark.parametrize(("indices", "values", "shape", "match"), [
    ([1, 1], [[1, 1], [2, 2], [3, 3]], None, "Expected 2 non-empty input values, got 3"),
    ([1, 11], [[1, 1], [2, 2]], None, "index is 11 exceeded 10"),
    ([-1], [[1, 1]], None, "index is -1"),
    ([1, 2], [1, 2], None, "values rank at least 2, got 1"),
    ([1], [[1, 2, 3]], None, "values dim 1 to be 2, got 3"),
    ([1], [[1, 2]], [9, 2], "shape dim 0 to be 10, got 9"),
    ([1], [[1, 2]], [10, 3], "shape dim 1 to be 2, got 3"),
    ([1], [[1, 2]], [10], "shape rank at least 2, got 1"),
])
def test_wrong_sparse_gradients(indices, values, shape, match):
    q = hf.SparseConditionalAccumulator(hf.float32, shape=[10, 2])
    i, v = hf.placeholder(hf.int64), hf.placeholder(hf.float32)
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match=match):
            session.run(q.apply_grad(i, v, shape), {i: indices, v: values})


def test_rows_of_more_dimensions_than_declared():
    q = hf.SparseConditionalAccumulator(hf.float32, shape=[4, 2])
    add = q.apply_grad([1], np.ones((1, 2, 3), np.float32))
    with hf.Session() as session:
        session.run(add)
        with pytest.raises(hf.errors.InvalidArgumentError, match="values rank 3, got 2"):
            session.run(q.apply_grad([1], np.ones((1, 2), np.float32)))
        assert session.run(q.take_indexed_slices_grad(1).values).shape == (1, 2, 3)


def test_shared_accumulators_must_agree():
    hf.ConditionalAccumulator(hf.float32, [2], shared_name="s")
    a = hf.ConditionalAccumulator(hf.float32, [2], shared_name="s")
    b = hf.ConditionalAccumulator(hf.float32, [2], shared_name="s")
    other = hf.ConditionalAccumulator(hf.float32, [3], shared_name="s")
    with hf.Session() as session:
        session.run(a.apply_grad([1.0, 2.0]))
        np.testing.assert_array_equal(session.run(b.take_grad(1)), [1, 2])
        with pytest.raises(hf.errors.InvalidArgumentError, match="Shared accumulator 's'"):
            session.run(other.num_accumulated())


@pytest.mark.parametrize("indices, values, message", [
    (0, [[1.0]], "Input indices should be vector but received shape: \\[\\]"),
    ([0], 1.0, "Values cannot be 0-dimensional"),
])
def test_ranks_of_rows(indices, values, message):
    with hf.Graph().as_default(), hf.Session() as session:
        rows = hf.SparseConditionalAccumulator(hf.float32)
        i, v = hf.placeholder(hf.int64), hf.placeholder(hf.float32)
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(rows.apply_grad(i, v), {i: indices, v: values})


@pytest.mark.parametrize("reduction, expected", [("MEAN", 3.0), ("SUM", 6.0)])
def test_reductions(reduction, expected):
    dense = hf.ConditionalAccumulator(hf.float32, shape=[1], reduction_type=reduction)
    sparse = hf.SparseConditionalAccumulator(hf.float32, shape=[3, 1], reduction_type=reduction)
    add = [[dense.apply_grad([x]), sparse.apply_grad([2], [[x]])] for x in (2.0, 4.0)]
    with hf.Session() as session:
        session.run(add)
        assert session.run(dense.take_grad(2)).tolist() == [expected]
        assert session.run(sparse.take_indexed_slices_grad(2).values).tolist() == [[expected]]


def test_another_reduction_is_refused():
    with pytest.raises(ValueError, match="reduction_type"):
        hf.ConditionalAccumulator(hf.float32, reduction_type="MAX")
