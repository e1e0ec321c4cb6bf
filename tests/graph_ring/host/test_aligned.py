"""Large arrays at cache lines (hpcflow.host.memory), and who owns their memory."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.host import memory
from hpcflow.resources.variables import VariableState


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int32, np.bool_])
def test_large_arrays_begin_at_a_line(dtype):
    for _ in range(5):
        made = memory.empty((100, 1000), dtype)
        assert made.ctypes.data % memory.LINE == 0
        assert made.shape == (100, 1000) and made.dtype == dtype
        assert made.flags.carray and type(made) is np.ndarray


def test_small_arrays_and_objects_are_numpys():
    for made in (memory.empty((3, 4), np.float32), memory.empty((), np.float64),
                 memory.empty((0, 1 << 20), np.int64), memory.empty((1 << 14,), object)):
        assert made.base is None
    assert memory.empty((1 << 14,), object)[0] is None


def test_copies_are_in_order_and_equal():
    x = np.arange(200 * 300, dtype=np.float64).reshape(200, 300)
    for given in (x, x.T, x[::2, ::-3], x[:2, :2], np.asfortranarray(x)):
        made = memory.copy(given)
        assert np.array_equal(made, given) and made.flags.carray and made.base is not given
        assert not np.shares_memory(made, given)


def test_views_own_nothing():
    for made in (memory.empty((100, 1000), np.float32), np.empty((100, 1000), np.float32)):
        assert memory.owns_memory(made)
        for view in (made[:], made[3:], made.T, made.reshape(-1), made.view(np.int32)):
            assert not memory.owns_memory(view)
            assert view.base is made
            assert not memory.owns_memory(view[1:])


def test_variable_updates_in_place_unless_a_reader_is_left():
    state = VariableState("v", hf.float32)
    state.assign(memory.empty((100, 1000), np.float32), own=True)
    place = state.value.ctypes.data
    assert state.exclusive() and state.writable().ctypes.data == place
    view = state.value[1:]  # refers to the array
    assert not state.exclusive()
    assert state.writable().ctypes.data != place
    assert view.base.ctypes.data == place
    assert state.exclusive() and state.value.ctypes.data % memory.LINE == 0


def test_variables_of_any_origin_are_updated():
    with hf.Graph().as_default(), hf.Session() as session:
        made = [hf.Variable(hf.random_normal([100, 300])), hf.Variable(hf.ones([100, 300])),
                hf.Variable(hf.truncated_normal([100, 300], seed=1)),
                hf.Variable(hf.random_uniform([100, 300])),
                hf.Variable(np.arange(30_000, dtype=np.float32))]
        updates = [hf.assign_add(v, hf.ones_like(v)).op for v in made]
        session.run(hf.global_variables_initializer())
        before = session.run([v.value() for v in made])
        session.run(updates)
        for old, new in zip(before, session.run([v.value() for v in made])):
            assert np.array_equal(old + np.float32(1), new)
