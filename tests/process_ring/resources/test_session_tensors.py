"""Tensors that stay with a session, and their handles."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def test_keep_read_and_delete():
    a, b = hf.constant(10), hf.constant([5.0, 2.0])
    handle_of_product, handle_of_b = hf.get_session_handle(a * 5), hf.get_session_handle(b)
    with hf.Session() as session:
        first = session.run(handle_of_product)
        second = session.run([handle_of_b, b])[0]
        assert first.eval() == 50 and first.dtype is hf.int32
        np.testing.assert_array_equal(second.eval(), [5, 2])
        holder, x = hf.get_session_tensor(first.handle, hf.int32)
        y = x * 10
        assert session.run(y, {holder: first.handle}) == 500
        assert session.run(y, {holder: first}) == 500
        forget, delete = hf.delete_session_tensor(first.handle)
        session.run(delete, {forget: first.handle})
        with pytest.raises(hf.errors.InvalidArgumentError, match="is not in the session store"):
            session.run(y, {holder: first.handle})
        second.delete()
        with pytest.raises(hf.errors.InvalidArgumentError, match="is not in the session store"):
            second.eval()
        first.get_raw_handle()


def test_every_run_keeps_its_own_value():
    v = hf.Variable([1.0, 2.0])
    keep = hf.get_session_handle(v.value())
    with hf.Session() as session:
        session.run(v.initializer)
        before = session.run(keep)
        session.run(hf.assign_add(v, [10.0, 10.0]).op)
        after = session.run(keep)
        assert before != after
        np.testing.assert_array_equal(before.eval(), [1, 2])
        np.testing.assert_array_equal(after.eval(), [11, 12])


def test_a_loop_of_steps_without_moving_the_value():
    start = hf.get_session_handle(hf.constant(1))
    with hf.Session() as session:
        handle = session.run(start)
        holder, x = hf.get_session_tensor(handle, hf.int32)
        double = hf.get_session_handle(x * 2)
        for _ in range(10):
            handle = session.run(double, {holder: handle})
        assert handle.eval() == 1024


def test_strings_and_wrong_types():
    text, number = hf.get_session_handle(hf.constant(["a", "b"])), hf.get_session_handle(
        hf.constant(1.5))
    with hf.Session() as session:
        handle, other = session.run((text, number))
        assert handle.eval().tolist() == [b"a", b"b"]
        holder, x = hf.get_session_tensor(other, hf.int32)
        with pytest.raises(hf.errors.InvalidArgumentError, match="has type float32, not int32"):
            session.run(x, {holder: other})
    with pytest.raises(TypeError, match="Tensor"):
        hf.get_session_handle(3)


def test_values_of_dropped_handles_are_forgotten():
    keep = hf.get_session_handle(hf.constant(1) + 0)
    with hf.Session() as session:
        raw = session.run(keep).get_raw_handle()
        for _ in range(40):
            session.run(keep)
            gc.collect()
        store = session._engine._context.op_state("tensors of the session", dict)
        assert len(store) < 15
        assert raw in store


def test_on_a_server():
    server = hf.train.Server.create_local_server()
    try:
        keep = hf.get_session_handle(hf.constant([1.0, 2.0]) * 2.0)
        with hf.Session(server.target) as session:
            handle = session.run(keep)
            np.testing.assert_array_equal(handle.eval(), [2, 4])
    finally:
        server._server.close()


def test_a_handle_is_fed_for_its_tensor():
    with hf.Graph().as_default(), hf.Session() as session:
        handle = session.run(hf.get_session_handle(hf.constant([3, 4])))
        x = hf.placeholder(hf.int32)
        assert session.run(x * 2, {x: handle}).tolist() == [6, 8]
