"""The threads of products of middle size by oneDNN: those that make the whole program faster."""

import numpy as np
import pytest

from hpcflow.host import blas, trials, tuning
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

    def run(self, count):
        """The threads of so many products."""
        del self.used[:]
        for _ in range(count):
            self.team.run("key", 5_000_000, self._product, self._product, (0,))
        return self.used

    def _product(self, _):
        self.used.append(self.threads)


@pytest.fixture
def program():
    """Products that nobody makes."""
    return Program()


@pytest.mark.parametrize("together", [False, True])
def test_timing_decides_how_many_threads_make_a_product(program, monkeypatch, together):
    monkeypatch.setattr(blas, "may_try", lambda: True)
    monkeypatch.setattr(program.team._trials, "take_second", lambda key: together)
    assert program.run(3) == [1 + together] * 3 and program.threads == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_where_nothing_is_tried_the_number_is_what_it_was(program, monkeypatch, threads):
    program.threads = threads
    monkeypatch.setattr(blas, "may_try", lambda: threads == 1)
    assert set(program.run(500)) == {threads}


def test_a_product_that_fails_puts_the_number_back(program, monkeypatch):
    monkeypatch.setattr(blas, "may_try", lambda: True)
    with pytest.raises(ZeroDivisionError):
        program.team.run("key", 5_000_000, lambda _: 1 / 0, lambda _: 1 / 0, (0,))
    assert program.threads == 2


@pytest.mark.skipif(load() is None, reason="no oneDNN library was found")
@pytest.mark.parametrize("flip", [False, True])
def test_products_are_those_of_one_thread(monkeypatch, flip):
    """Before, in and after a trial."""
    monkeypatch.setattr(blas, "may_try", lambda: True)
    monkeypatch.setattr(tuning.host, "TRIAL_PERIODS", 2)
    monkeypatch.setattr(trials.Trial, "running", None)
    lib = load()
    random = np.random.default_rng(0)
    a = random.standard_normal((64, 300), np.float32)
    b = random.standard_normal((256, 300) if flip else (300, 256), np.float32)
    found = set()
    for _ in range(40):
        out = np.empty((64, 256), np.float32)
        if not flip or not products.multiply_transposed(lib, a, b, out):
            products.multiply(lib, a, b, False, flip, out)
        found.add(out.tobytes())
    assert len(found) == 1
    np.testing.assert_allclose(out, a @ (b.T if flip else b), rtol=0, atol=1e-3)
