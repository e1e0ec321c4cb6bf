"""The threads of products by oneDNN: one for small ones."""

import numpy as np
import pytest

from hpcflow.host import blas
from hpcflow.kernels.onednn import products, team
from hpcflow.kernels.onednn.library import load


class Program:
    """Products whose threads are noted, in a team of two."""

    def __init__(self):
        self.threads = 2
        self.used = []  # the threads of each product
        self.team = team.Team(lambda: self.threads, self._set)

    def _set(self, count):
        self.threads = count

    def run(self, size):
        """Make a product of so many multiplications."""
        self.team.run(size, self._product, self._product, (0,))

    def _product(self, _):
        self.used.append(self.threads)


def test_a_small_product_is_small():
    program = Program()
    for size in (2_000_000, 5_000_000, 2_000_000):
        program.run(size)
    assert program.used == [1, 2, 1] and program.threads == 2


def test_one_thread_stays_one_thread():
    program = Program()
    program.threads = 1
    program.run(2_000_000)
    assert program.used == [1] and program.threads == 1


def test_a_product_that_fails_puts_the_number_back():
    program = Program()
    with pytest.raises(ZeroDivisionError):
        program.team.run(2_000_000, lambda _: 1 / 0, lambda _: 1 / 0, (0,))
    assert program.threads == 2


@pytest.mark.skipif(load() is None, reason="no oneDNN library was found")
@pytest.mark.parametrize("flip", [False, True])
def test_products_are_those_of_one_thread(monkeypatch, flip):
    lib = load()
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 300), np.float32)
    b = random.standard_normal((256, 300) if flip else (300, 256), np.float32)
    found = set()
    for one_thread in (False, True):
        monkeypatch.setattr(blas, "is_small", lambda _, its=one_thread: its)
        out = np.empty((64, 256), np.float32)
        if not flip or not products.multiply_transposed(lib, a, b, out):
            products.multiply(lib, a, b, False, flip, out)
        found.add(out.tobytes())
    assert len(found) == 1
    np.testing.assert_allclose(out, a @ (b.T if flip else b), rtol=0, atol=1e-3)
