"""VariableState: in-place updates that no reader notices."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.resources.variables import VariableState


def make(value, dtype=None):
    array = np.asarray(value)
    state = VariableState("v", dtype or hf.as_dtype(array.dtype), None, array.shape)
    state.assign(array)
    return state


def address(state):
    return state.value.__array_interface__["data"][0]


def test_exclusive_only_without_readers():
    state = make(np.zeros(3))
    assert state.exclusive()
    reader = state.value
    assert not state.exclusive()
    del reader
    assert state.exclusive()
    view = state.value[1:]
    assert not state.exclusive()
    del view
    assert state.exclusive()


def hold(array, ready, release):
    ready.set()
    release.wait()
    return array


def test_readers_of_every_kind_are_seen():
    state = make(np.zeros(3))
    for holder in ([], {}, {"view": None}):
        if isinstance(holder, list):
            holder.append(state.value)
        else:
            holder["a"] = memoryview(state.value) if holder else state.value
        assert not state.exclusive()
        holder.clear()
        assert state.exclusive()
    ready, release = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold, args=(state.value, ready, release))
    thread.start()
    ready.wait()
    assert not state.exclusive()
    release.set()
    thread.join()
    del thread
    assert state.exclusive()


def test_writable_keeps_the_array_without_readers():
    state = make(np.zeros(4))
    before = address(state)
    array = state.writable()
    array += 1
    del array
    assert address(state) == before
    np.testing.assert_array_equal(state.value, np.ones(4))


def test_writable_leaves_a_reader_its_snapshot():
    state = make(np.zeros(4))
    reader = state.value
    array = state.writable()
    array += 1
    np.testing.assert_array_equal(reader, np.zeros(4))
    np.testing.assert_array_equal(state.value, np.ones(4))


def test_writable_without_value():
    state = VariableState("w", hf.float32)
    assert not state.initialized
    with pytest.raises(hf.errors.FailedPreconditionError, match="uninitialized value w"):
        state.writable()
    with pytest.raises(hf.errors.FailedPreconditionError, match="uninitialized value w"):
        state.read()


def test_assign_reuses_the_memory():
    state = make(np.zeros(4))
    before = address(state)
    state.assign(np.ones(4))
    assert address(state) == before
    reader = state.value
    state.assign(np.full(4, 2.0))
    np.testing.assert_array_equal(reader, np.ones(4))
    np.testing.assert_array_equal(state.value, np.full(4, 2.0))


def test_assign_copies():
    value = np.zeros(4)
    state = make(value)
    value += 1
    np.testing.assert_array_equal(state.value, np.zeros(4))


def test_assigned_constant_is_shared_until_it_changes():
    constant = np.zeros(4)
    constant.flags.writeable = False
    state = make(constant)
    assert state.value is constant
    assert not state.exclusive()
    array = state.writable()
    array += 1
    np.testing.assert_array_equal(constant, np.zeros(4))
    np.testing.assert_array_equal(state.value, np.ones(4))
    assert state.value.flags.owndata


def test_assign_of_a_view_and_of_another_order():
    base = np.arange(12.0).reshape(3, 4)
    state = make(base.T)
    assert state.value.base is None
    np.testing.assert_array_equal(state.value, base.T)
    state.value = np.asfortranarray(base)
    assert state.writable().flags.c_contiguous


def test_assign_itself():
    state = make(np.arange(3.0))
    state.assign(state.value)
    np.testing.assert_array_equal(state.value, np.arange(3.0))
    assert state.exclusive()


def test_scalars_are_immutable_values():
    state = make(np.float32(2))
    assert isinstance(state.value, np.float32)
    state.assign(np.array(3, np.float32))
    assert isinstance(state.value, np.float32)
    text = VariableState("t", hf.string, None, ())
    boxed = np.empty((), object)
    boxed[()] = b"abc"
    text.assign(boxed)
    assert text.value == b"abc"
    text.assign(b"d")
    assert text.value == b"d" and text.shape == ()


def test_validated_shapes():
    state = VariableState("v", hf.float32, None, (2, None))
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"\[2,\?\].*\[3,2\]"):
        state.assign(np.zeros((3, 2), np.float32), validate_shape=True)
    state.assign(np.zeros((2, 5), np.float32), validate_shape=True)
    with pytest.raises(hf.errors.InvalidArgumentError, match="shapes of both tensors to match"):
        state.assign(np.zeros((2, 4), np.float32), validate_shape=True)
    state.assign(np.zeros((7,), np.float32))
    assert state.shape == (7,)
    state.clear()
    assert state.shape == (2, None)


def test_locals_and_arguments_keep_a_value_alive():
    """Interpreters may borrow references for arguments; the owner further out still counts."""

    def callee(state, value):
        assert not state.exclusive()
        array = state.writable()
        array += 1
        return value

    state = make(np.zeros(4))
    kept = state.value
    result = callee(state, kept)
    del kept
    np.testing.assert_array_equal(result, np.zeros(4))
