"""The threads of BLAS: one for a small product, and afterwards as many as before."""

import threading

import numpy as np
import pytest

from hpcflow import blas
from hpcflow.blas import _Threads
from hpcflow.kernels.reductions import ColumnSums


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
