"""The threads of products of middle size by oneDNN: those that make the whole program faster."""

from types import SimpleNamespace

import numpy as np
import pytest

from hpcflow.host import blas, tuning
from hpcflow.kernels.onednn import products, team
from hpcflow.kernels.onednn.library import load

TRIAL = 2 * tuning.kernels.TEAM_PERIODS * tuning.kernels.TEAM_TURNS


class Program:
    """Products on a clock that they move on, with other work between."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.alone, self.together, self.between = 1.0, 0.6, 0.0
        self.threads = 2
        self.used = []  # the threads of each product
        self.noise = 0.0
        self.made = np.zeros(4, np.float32)
        self.team = team.Team(lambda: self.threads, self._set)
        monkeypatch.setattr(team, "time", SimpleNamespace(perf_counter=lambda: self.now))
        monkeypatch.setattr(tuning.kernels, "TEAM_WAIT_SECONDS", 1000.0)
        monkeypatch.setattr(tuning.kernels, "TEAM_LONGEST_WAIT_SECONDS", 4000.0)
        monkeypatch.setattr(team.Trial, "running", None)
        monkeypatch.setattr(blas, "may_try", lambda: True)

    def _set(self, count):
        self.threads = count

    def _product(self, _):
        self.used.append(self.threads)
        self.now += self.alone if self.threads == 1 else self.together
        self.made[...] = 1 + self.noise * self.threads

    def run(self, count, key="key"):
        """The threads of so many products."""
        del self.used[:]
        for _ in range(count):
            self.team.run(key, 5_000_000, self._product, self._product,
                          (self.made.ctypes.data,), self.made.nbytes)
            self.now += self.between
        return self.used


@pytest.fixture
def program(monkeypatch):
    """What products take is up to the test."""
    return Program(monkeypatch)


def test_products_get_all_threads_where_that_makes_the_program_faster(program):
    assert set(program.run(tuning.kernels.TEAM_WARM)) == {1}
    assert program.run(TRIAL + 1).count(2) == TRIAL // 2 + 1  # and one for the bits
    assert set(program.run(100)) == {2}


def test_a_gain_of_the_product_that_other_work_pays_for_is_none(program, monkeypatch):
    begin = program._product

    def product(made):
        begin(made)
        program.now += 0.5 * (program.threads == 2)

    monkeypatch.setattr(program, "_product", product)
    program.run(tuning.kernels.TEAM_WARM + TRIAL + 1)
    assert set(program.run(100)) == {1}


def test_a_pause_of_the_client_decides_nothing(program):
    program.run(tuning.kernels.TEAM_WARM + 5)
    program.now += 1e6
    program.run(TRIAL)
    assert set(program.run(100)) == {2}


def test_what_was_chosen_is_tried_again_later_and_later(program):
    program.together = 1.2
    program.run(tuning.kernels.TEAM_WARM + TRIAL + 1)
    assert set(program.run(1900)) == {1}
    assert set(program.run(200 + TRIAL)) == {1, 2}
    assert set(program.run(3700)) == {1}
    program.together = 0.6
    program.run(400 + TRIAL)
    assert set(program.run(100)) == {2}


def test_one_shape_is_tried_at_a_time(program):
    program.run(tuning.kernels.TEAM_WARM, "a")
    program.run(tuning.kernels.TEAM_WARM, "b")
    program.alone = program.together = 0.001
    program.run(2, "a")
    assert set(program.run(10, "b")) == {1}
    program.now += 10  # nobody multiplies matrices of the first shape any more
    assert 2 in program.run(TRIAL + 1, "b")


def test_other_bits_are_no_choice(program):
    program.noise = 1e-3
    used = program.run(1000)
    assert used.count(2) == 1  # for the comparison
    assert program.made[0] == np.float32(1.001)


@pytest.mark.parametrize("threads", [1, 2])
def test_where_nothing_is_tried_the_number_is_what_it_was(program, monkeypatch, threads):
    program.threads = threads
    monkeypatch.setattr(blas, "may_try", lambda: threads == 1)
    assert set(program.run(500)) == {threads}


def test_a_product_that_fails_puts_the_number_back(program):
    with pytest.raises(ZeroDivisionError):
        program.team.run("key", 5_000_000, lambda _: 1 / 0, lambda _: 1 / 0, (0,), 0)
    assert program.threads == 2


@pytest.mark.skipif(load() is None, reason="no oneDNN library was found")
@pytest.mark.parametrize("flip", [False, True])
def test_products_have_the_bits_of_one_thread(monkeypatch, flip):
    """Before, in and after a trial."""
    monkeypatch.setattr(blas, "may_try", lambda: True)
    monkeypatch.setattr(tuning.kernels, "TEAM_PERIODS", 2)
    monkeypatch.setattr(team.Trial, "running", None)
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
