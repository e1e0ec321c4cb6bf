"""Barriers: joining by key, order, closing, errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from speed import patience

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


@pytest.fixture
def barrier():
    """(barrier, insert of component 0, insert of component 1) as functions of a session."""
    b = hf.Barrier([hf.float32, hf.int32], shapes=[[2], []], name="b")
    keys = hf.placeholder(hf.string, [None])
    x, n = hf.placeholder(hf.float32), hf.placeholder(hf.int32, [None])
    first, second = b.insert_many(0, keys, x), b.insert_many(1, keys, n)
    return (b, lambda s, k, v: s.run(first, {keys: k, x: v}),
            lambda s, k, v: s.run(second, {keys: k, n: v}))


def test_complete_elements_leave_in_the_order_of_their_keys(barrier):
    b, first, second = barrier
    take, sizes = b.take_many(2), [b.ready_size(), b.incomplete_size()]
    assert [t.shape.as_list() for t in (take[0], take[1], *take[2])] == [[2], [2], [2, 2], [2]]
    with hf.Session() as session:
        first(session, ["a"], [[1, 2]])
        first(session, ["b"], [[3, 4]])
        second(session, ["c", "b"], [7, 5])
        assert session.run(sizes) == [1, 2]
        second(session, ["a"], [6])
        indices, keys, (x, n) = session.run(take)
        assert indices.tolist() == [-(1 << 63), 1 - (1 << 63)]
        assert keys.tolist() == [b"a", b"b"]
        np.testing.assert_array_equal(x, [[1, 2], [3, 4]])
        np.testing.assert_array_equal(n, [6, 5])
        assert session.run(sizes) == [0, 1]


def test_taking_waits(barrier):
    b, first, second = barrier
    take = b.take_many(1)
    got = []
    with hf.Session() as session:
        thread = threading.Thread(target=lambda: got.append(session.run(take)))
        thread.start()
        first(session, ["a"], [[1, 2]])
        thread.join(0.1)
        assert thread.is_alive()
        second(session, ["a"], [3])
        thread.join(patience())
        assert got[0][1].tolist() == [b"a"]


def test_closing_lets_incomplete_elements_complete(barrier):
    b, first, second = barrier
    one, many, small = b.take_many(1), b.take_many(3), b.take_many(3, allow_small_batch=True)
    with hf.Session() as session:
        first(session, ["a", "b"], [[1, 2], [3, 4]])
        session.run(b.close())
        with pytest.raises(hf.errors.CancelledError, match="new key"):
            second(session, ["c"], [1])
        second(session, ["a"], [5])
        assert session.run(one)[1].tolist() == [b"a"]
        second(session, ["b"], [6])
        with pytest.raises(hf.errors.OutOfRangeError, match="Barrier 'b' is closed"):
            session.run(many)
        assert session.run(small)[1].tolist() == [b"b"]
        with pytest.raises(hf.errors.OutOfRangeError):
            session.run(small)
        with pytest.raises(hf.errors.CancelledError, match="already closed"):
            session.run(b.close())


def test_closing_with_cancellation_drops_incomplete_elements(barrier):
    b, first, second = barrier
    take, close = b.take_many(1), b.close(cancel_pending_enqueues=True)
    with hf.Session() as session:
        first(session, ["a"], [[1, 2]])
        session.run(b.close())
        session.run(close)
        assert session.run(b.incomplete_size()) == 0
        with pytest.raises(hf.errors.CancelledError):
            second(session, ["a"], [5])
        with pytest.raises(hf.errors.OutOfRangeError):
            session.run(take)
        with pytest.raises(hf.errors.CancelledError):
            session.run(close)


def test_wrong_insertions(barrier):
    b, first, second = barrier
    with hf.Session() as session:
        first(session, ["a"], [[1, 2]])
        with pytest.raises(hf.errors.InvalidArgumentError, match="Key a already has a value for"):
            first(session, ["a"], [[1, 2]])
        with pytest.raises(hf.errors.InvalidArgumentError, match="already has a value"):
            second(session, ["d", "d"], [1, 2])
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"expected \[2\], got \[3\]"):
            first(session, ["e"], [[1, 2, 3]])
        with pytest.raises(hf.errors.InvalidArgumentError, match="as many values as keys"):
            first(session, ["e", "f"], [[1, 2]])
        wrong = hf.raw_ops.BarrierInsertMany(handle=b.barrier_ref, keys=["a"], values=[1],
                                             component_index=5)
        with pytest.raises(hf.errors.InvalidArgumentError, match="out of range"):
            session.run(wrong)
    with pytest.raises(ValueError, match="Empty tensors"):
        hf.Barrier([hf.float32], [[0]])


def test_values_survive_what_they_came_from():
    b = hf.Barrier([hf.float32], [[2]])
    v = hf.Variable([[1.0, 2.0]])
    put, take = b.insert_many(0, ["k"], v), b.take_many(1)
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(put)
        session.run(hf.assign_add(v, [[1.0, 1.0]]).op)
        np.testing.assert_array_equal(session.run(take[2][0]), [[1, 2]])


def test_keys_that_come_together_have_one_index(barrier):
    b, first, second = barrier
    with hf.Session() as session:
        first(session, ["a", "b"], [[1, 2], [3, 4]])
        second(session, ["a", "b"], [5, 6])
        indices, keys, _ = session.run(b.take_many(2))
        assert indices.tolist() == [-(1 << 63)] * 2 and keys.tolist() == [b"a", b"b"]


def test_a_closed_barrier_gives_what_is_complete_at_once(barrier):
    b, first, second = barrier
    some, all_of_it, close = b.take_many(3, allow_small_batch=True), b.take_many(3), b.close()
    with hf.Session() as session:
        first(session, ["a", "b"], [[1, 2], [3, 4]])
        second(session, ["a"], [5])
        session.run(close)
        with pytest.raises(hf.errors.OutOfRangeError, match="total size 2"):
            session.run(all_of_it)
        assert session.run(some[1]).tolist() == [b"a"]
        with pytest.raises(hf.errors.OutOfRangeError, match="insufficient elements"):
            session.run(some)
        first(session, np.empty(0, object), np.empty((0, 2)))
        second(session, ["b"], [6])
        assert session.run(some[1]).tolist() == [b"b"]
        with pytest.raises(hf.errors.CancelledError, match="is closed"):
            second(session, ["b"], [6])


def test_one_shape_may_stand_for_a_list():
    assert hf.Barrier(hf.float32, shapes=()).take_many(2)[2][0].shape.as_list() == [2]
    with pytest.raises(ValueError, match="fully defined"):
        hf.Barrier(hf.float32, shapes=[[None]])


def test_values_without_elements_are_refused():
    b = hf.Barrier(hf.float32, shapes=[[2]])
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match="with no elements"):
            session.run(b.insert_many(0, ["a"], np.empty((1, 0))))
