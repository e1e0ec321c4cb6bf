"""Staging areas: values from step to step."""

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


def test_a_pipeline_of_one_step():
    area = hf.StagingArea([hf.float32, hf.int32], [[2], []])
    x, n = hf.placeholder(hf.float32, [2]), hf.placeholder(hf.int32, [])
    put = area.put([x, n])
    a, b = area.get()
    assert a.shape.as_list() == [2]
    with hf.Session() as session:
        session.run(put, {x: [1, 2], n: 0})
        for i in range(1, 4):  # each step stages what the next one takes
            values, index, _ = session.run([a, b, put], {x: [i, i], n: i})
            assert index == i - 1
        np.testing.assert_array_equal(values, [2, 2])


def test_getting_waits_for_a_put():
    area = hf.StagingArea([hf.int32], names=["n"])
    put, get = area.put({"n": 7}), area.get()
    got = []
    with hf.Session() as session:
        thread = threading.Thread(target=lambda: got.append(session.run(get)))
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        session.run(put)
        thread.join(patience())
        assert got == [{"n": 7}]


def test_wrong_elements():
    area = hf.StagingArea([hf.int32], [[2]])
    with pytest.raises(ValueError):
        area.put([1, 2])
    with pytest.raises(ValueError):
        area.put([np.zeros(3, np.int32)])
    shared = hf.raw_ops.Unstage(dtypes=[hf.float32], shared_name=area.name)
    with hf.Session() as session:
        session.run(area.put([[1, 2]]))
        with pytest.raises(hf.errors.InvalidArgumentError, match="holds \\['int32'\\]"):
            session.run(shared)


def waits(session, fetch):
    """A thread that runs `fetch`, which has to wait."""
    thread = threading.Thread(target=lambda: session.run(fetch))
    thread.start()
    thread.join(0.1)
    assert thread.is_alive()
    return thread


def test_looking_into_an_area():
    area = hf.StagingArea([hf.int32, hf.float32], capacity=3)
    n = hf.placeholder(hf.int32, [])
    put, first, last = area.put([n, hf.cast(n, hf.float32)]), area.peek(0), area.peek(2)
    get, size, clear = area.get(), area.size(), area.clear()
    with hf.Session() as session:
        later = waits(session, last)  # holds up nobody
        for i in range(2):
            session.run(put, {n: i})
        assert session.run(first) == [0, 0.0] and session.run(size) == 2
        assert session.run(get) == [0, 0.0]
        for i in range(2, 4):
            session.run(put, {n: i})
        later.join()
        assert session.run(last) == [3, 3.0]
        full = threading.Thread(target=lambda: session.run(put, {n: 4}))
        full.start()
        full.join(0.1)
        assert full.is_alive() and session.run(size) == 3
        session.run(clear)
        full.join()
        assert session.run(size) == 1 and session.run(get) == [4, 4.0]
        with pytest.raises(hf.errors.InvalidArgumentError, match="negative"):
            session.run(area.peek(-1))


def test_an_area_with_a_limit_of_bytes():
    area = hf.StagingArea([hf.int64], memory_limit=20)
    put, get, size = area.put([[1, 2]]), area.get(), area.size()
    assert (area.capacity, area.memory_limit) == (0, 20)
    with hf.Session() as session:
        session.run(put)
        thread = waits(session, put)
        assert session.run(get).tolist() == [1, 2]
        thread.join()
        assert session.run(size) == 1


def test_a_map_of_elements():
    area = hf.MapStagingArea([hf.int32, hf.float32], names=["n", "x"], ordered=True)
    key, n = hf.placeholder(hf.int64, []), hf.placeholder(hf.int32, [])
    put_n, put_x = area.put(key, {"n": n}), area.put(key, {"x": 0.5})
    sizes = [area.size(), area.incomplete_size()]
    of_key, smallest = area.get(key, ["n"])[1], area.get()
    with hf.Session() as session:
        for k in (5, 3):
            session.run(put_n, {key: k, n: k})
        assert session.run(sizes) == [0, 2]
        for k in (5, 3):
            session.run(put_x, {key: k})
        assert session.run(sizes) == [2, 0]
        assert session.run(smallest) == (3, {"n": 3, "x": 0.5})
        assert session.run(area.peek(5)) == {"n": 5, "x": 0.5}
        assert session.run(of_key, {key: 5}) == {"n": 5}
        with pytest.raises(hf.errors.InvalidArgumentError, match="'0' for key '5' has already"):
            session.run(of_key, {key: 5})
        with pytest.raises(hf.errors.InvalidArgumentError, match="already been inserted"):
            session.run(put_n, {key: 5, n: 1})
        session.run(area.clear())
        assert session.run(sizes) == [0, 0]


def test_a_map_with_a_limit():
    area = hf.MapStagingArea([hf.int64], capacity=2, memory_limit=32)
    key, size = hf.placeholder(hf.int64, []), area.size()
    put, get = area.put(key, [[1, 2]], [0]), area.get(key)[1]
    with hf.Session() as session:
        for k in range(2):
            session.run(put, {key: k})
        thread = threading.Thread(target=lambda: session.run(put, {key: 2}))
        thread.start()
        thread.join(0.1)
        assert thread.is_alive() and session.run(size) == 2
        assert session.run(get, {key: 1})[0].tolist() == [1, 2]
        thread.join(patience())
        assert session.run(size) == 2
        with pytest.raises(hf.errors.ResourceExhaustedError, match="limit of '32'"):
            session.run(area.put(9, [np.arange(5)], [0]))
    with pytest.raises(ValueError, match="indices must be supplied"):
        area.put(1, [[1, 2]])
