"""The threads of BLAS: one for a small product, and afterwards as many as before."""

import threading

import numpy as np
import pytest
from thresholds import use_pool

from hpcflow import config
from hpcflow.host import blas, threads
from hpcflow.host.blas import _Threads
from hpcflow.kernels.math.reductions import ColumnSums
from hpcflow.kernels.onednn import products  # noqa: F401  (makes large ones)


@pytest.fixture
def setting(monkeypatch):
    """A library with 4 threads; the list holds every number that was set."""
    numbers = [4]
    threads = _Threads(lambda: numbers[-1], numbers.append)
    monkeypatch.setattr(blas, "_threads", lambda: threads)
    return numbers


def product(rows: int, inner: int, columns: int) -> np.ndarray:
    """A product of ones."""
    return blas.dot(np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32))


def test_small_products_use_one_thread(setting):
    assert np.all(product(128, 64, 128) == 64)
    assert setting == [4, 1, 4]


@pytest.fixture
def no_choice(monkeypatch):
    """The user has said nothing about threads, and the process has a pool of several."""
    for name in threads._OF_USER:
        monkeypatch.setenv(name, "")  # as it is put back afterwards
    monkeypatch.setattr(config.flags, "threads", 0)
    use_pool(monkeypatch, threads.Pool(3))
    yield
    threads.pool().close()


def test_ranks_that_share_cores_have_one_thread(setting, no_choice):
    with blas._threads():
        blas.share_cores()
    assert (setting[-1], threads.pool().size, threads.thread_count()) == (1, 1, 1)
    assert np.all(product(128, 64, 128) == 64) and setting == [4, 1]


@pytest.mark.parametrize("name", ["HPCFLOW_THREADS", *threads._OF_USER])
def test_ranks_that_share_cores_have_the_threads_that_the_user_chose(
        setting, no_choice, monkeypatch, name):
    monkeypatch.setenv(name, "2")
    monkeypatch.setattr(config.flags, "threads", 2 * name.startswith("HPCFLOW"))
    blas.share_cores()
    assert setting == [4] and threads.pool().size == 3


@pytest.mark.parametrize("size", [8, 512])
def test_tiny_and_large_products_change_nothing(setting, size):
    assert np.all(product(size, size, size) == size)
    assert setting == [4]


def test_a_product_that_fails_puts_the_number_back(setting):
    with pytest.raises(ValueError, match="not aligned"):
        blas.dot(np.ones((128, 128), np.float32), np.ones((127, 128), np.float32))
    assert setting == [4, 1, 4]


def test_the_last_of_several_puts_the_number_back(setting):
    alone = blas._threads()
    with alone:
        other = threading.Thread(target=product, args=(128, 128, 128))
        other.start()
        other.join()
        assert setting == [4, 1]
    assert setting == [4, 1, 4]


def test_a_number_that_the_user_sets_is_kept(setting):
    product(128, 128, 128)
    setting.append(2)
    product(128, 128, 128)
    assert setting[-1] == 2


def test_one_thread_stays_one_thread(setting):
    setting[:] = [1]
    product(128, 128, 128)
    assert setting == [1]


def test_a_child_gets_the_usual_number(setting):
    alone = blas._threads()
    with alone:
        alone.after_fork()
        assert setting == [4, 1, 4]
        alone._inside += 1  # for the end of this block


@pytest.mark.parametrize("rows", [3, 5000])
@pytest.mark.parametrize("flip", [False, True])
def test_sums_of_columns_leave_the_threads_of_blas_asleep(setting, rows, flip):
    x = np.random.default_rng(rows).standard_normal((rows, 200)).astype(np.float32)
    x = np.asfortranarray(x) if flip else x
    sums = ColumnSums(np.dtype(np.float32))
    found = sums(x)
    np.testing.assert_allclose(found, x.sum(0, dtype=np.float64), rtol=1e-5, atol=1e-3)
    assert setting == ([4] if x.size < 1000 else [4, 1, 4])
    np.testing.assert_array_equal(sums(x), found)


@pytest.mark.parametrize("shape", [(3200, 128, 128), (300, 200, 96), (20, 8, 8)])
def test_products_by_all_threads_are_those_of_one(shape, monkeypatch):
    rows, inner, columns = shape
    a, b = (np.random.default_rng(k).standard_normal((rows, n), np.float32)
            for k, n in ((1, inner), (2, columns)))
    monkeypatch.setattr(threads, "has_idle_cores", lambda: True)
    monkeypatch.setattr(threads, "may_spin", lambda: True)
    for _ in range(3):
        found = blas.dot_together(a.T, b)
        if found is not None:
            np.testing.assert_allclose(found, np.dot(a.T, b), 0, 1e-5 * rows)
    assert blas.dot_together(a[:20, :8].T, b[:20, :8]) is None, "small ones have one thread"


def test_products_do_not_take_threads_that_have_other_work(monkeypatch):
    monkeypatch.setattr(threads, "has_idle_cores", lambda: True)
    a = np.ones((3200, 128), np.float32)
    pool = threads.Pool(2)
    use_pool(monkeypatch, pool)
    assert pool.take()
    assert blas.dot_together(a.T, a) is None
    pool.give_back()
    pool.close()
