"""Large products that need nothing of each other run at the same time."""

import os
import threading

import numpy as np
import pytest
from speed import patience
from thresholds import lower

import hpcflow as hf
from hpcflow import config
from hpcflow.compiler.native.concurrent_gemm import Together
from hpcflow.host import threads

SIZE = 4


@pytest.fixture
def calls(monkeypatch):
    """The sizes of the groups that are called; two products may run at the same time."""
    sizes = []
    plain = Together.__call__

    def note(self, *arguments):
        sizes.append(len(self._kernels))
        return plain(self, *arguments)

    pool = threads.Pool(2)
    monkeypatch.setattr(Together, "__call__", note)
    lower(monkeypatch, "CONCURRENT_LARGE")
    monkeypatch.setattr(threads, "at_once", lambda: 2)
    monkeypatch.setattr(threads, "_wide_pool", pool)
    monkeypatch.setattr(config.flags, "compile", True)
    yield sizes
    pool.close()


def value(seed):
    return np.random.RandomState(seed).randint(-3, 4, (SIZE, SIZE)).astype(np.float32)


def run(fetches, feeds=None):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(fetches, feeds)


def test_two_chains_run_side_by_side(calls):
    x, y = [hf.placeholder(hf.float32, [SIZE, SIZE]) for _ in range(2)]
    a, b = value(0), value(1)
    one, other = hf.matmul(hf.matmul(x, y), y), hf.matmul(hf.matmul(y, x), x)
    results = run([one, other], {x: a, y: b})
    np.testing.assert_array_equal(results[0], a @ b @ b)
    np.testing.assert_array_equal(results[1], b @ a @ a)
    assert calls == [2, 2]


def test_no_more_than_fill_the_cores(calls):
    x = hf.placeholder(hf.float32, [SIZE, SIZE])
    products = [hf.matmul(x, hf.constant(value(k))) for k in range(5)]
    for k, result in enumerate(run(products, {x: value(9)})):
        np.testing.assert_array_equal(result, value(9) @ value(k))
    assert calls == [2, 2]


def test_a_chain_has_nothing_to_join(calls):
    x = hf.placeholder(hf.float32, [SIZE, SIZE])
    result = run(hf.matmul(hf.matmul(x, x), x), {x: value(0)})
    np.testing.assert_array_equal(result, value(0) @ value(0) @ value(0))
    assert not calls


def test_products_in_a_loop_and_in_a_branch(calls):
    x = hf.placeholder(hf.float32, [SIZE, SIZE])

    def body(i, a, b):
        a, b = hf.cond(i < 2, lambda: (hf.matmul(a, x), hf.matmul(b, x)), lambda: (a, b))
        return i + 1, a, b

    _, a, b = hf.while_loop(lambda i, *_: i < 3, body, [0, x, -x])
    cube = value(0) @ value(0) @ value(0)
    results = run([a, b], {x: value(0)})
    np.testing.assert_array_equal(results[0], cube)
    np.testing.assert_array_equal(results[1], -cube)
    assert calls == [2, 2]


def test_what_is_read_behind_an_update_stays_behind_it(calls):
    v = hf.Variable(value(0))
    x = hf.placeholder(hf.float32, [SIZE, SIZE])
    before = hf.matmul(x, v)
    with hf.control_dependencies([before]):
        update = hf.assign_add(v, value(1))
    with hf.control_dependencies([update]):
        after = hf.matmul(x, v.read_value())
    results = run([before, after], {x: value(2)})
    np.testing.assert_array_equal(results[0], value(2) @ value(0))
    np.testing.assert_array_equal(results[1], value(2) @ (value(0) + value(1)))


def test_products_of_unknown_size_stay(calls):
    x = hf.placeholder(hf.float32, [None, SIZE])
    y = hf.placeholder(hf.float32, [SIZE, SIZE])
    run([hf.matmul(x, y), hf.matmul(x, -y)], {x: value(0), y: value(1)})
    assert not calls


def test_they_really_run_at_the_same_time(calls, monkeypatch):
    meeting = threading.Barrier(2, timeout=patience())

    def product(a, b):
        meeting.wait()
        return a @ b

    both = Together([(product, None, 2)] * 2)
    results = both(value(0), value(1), value(1), value(0))
    np.testing.assert_array_equal(results[0], value(0) @ value(1))
    np.testing.assert_array_equal(results[1], value(1) @ value(0))


def test_an_error_names_its_own_op(calls, monkeypatch):
    x, w = hf.placeholder(hf.float32, [SIZE, SIZE]), hf.constant(value(1))
    plain = Together.__call__

    def failing(self, *arguments):
        def fail(*_):
            raise MemoryError("no room")

        self._kernels[1] = (fail, *self._kernels[1][1:])
        return plain(self, *arguments)

    monkeypatch.setattr(Together, "__call__", failing)
    fetches = [hf.matmul(x, x, name="first"), hf.matmul(x, w, name="second")]
    with pytest.raises(hf.errors.ResourceExhaustedError, match=r"no room.*second") as caught:
        run(fetches, {x: value(0)})
    assert caught.value.op is fetches[1].op


@pytest.mark.parametrize(
    ("environment", "cores", "flag", "asked", "expected"),
    [({}, 4, 0, 0, 1),
     ({"OMP_NUM_THREADS": "1"}, 4, 0, 0, 4), ({"OMP_NUM_THREADS": "2"}, 4, 0, 0, 2),
     ({"OMP_NUM_THREADS": "8"}, 4, 0, 0, 1), ({"OMP_NUM_THREADS": "1"}, 4, 1, 0, 1),
     ({"OMP_NUM_THREADS": "1"}, 4, 0, 3, 3), ({"OMP_NUM_THREADS": "x"}, 4, 0, 0, 1),
     ({"OMP_NUM_THREADS": "1", "PMIX_RANK": "0"}, 4, 0, 0, 1)])  # fmt: skip
def test_how_many_fill_the_cores(monkeypatch, environment, cores, flag, asked, expected):
    for name in [*threads._RANKS, "OMP_NUM_THREADS"]:
        monkeypatch.delenv(name, raising=False)
    for name, text in environment.items():
        monkeypatch.setitem(os.environ, name, text)
    monkeypatch.setattr(threads, "is_rank", threads.is_rank.__wrapped__)
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    monkeypatch.setattr(config.flags, "threads", flag)
    monkeypatch.setattr(threads, "_most_at_once", asked)
    assert threads.at_once() == expected
