"""Compiled loops in the threads of OpenMP, and what does the same without them."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from thresholds import use_pool

from hpcflow.host import openmp, threads
from hpcflow.loops import compiling, parallel_for

pytestmark = [
    pytest.mark.skipif(not compiling.enabled(), reason="there is no compiler"),
    pytest.mark.skipif(openmp.team() is None, reason="there is no OpenMP"),
]

ROWS, WIDTH = 1001, 3
USES = (parallel_for.ROWS + parallel_for.WHOLE + parallel_for.ROWS + parallel_for.START
        + parallel_for.STOP + parallel_for.WHOLE * 2)
SOURCE = """
def loop(x, table, y, start, stop, factor, shift):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] = x[i, j] * np.float32(factor) + table[j] + (start + i) + shift
"""


LOOP = compiling.TextLoop(
    SOURCE, (("float32", 2, False), ("uint8", 1, False), ("float32", 2, True)), 4)


@pytest.fixture(scope="module")
def found():
    made = compiling.Compiled(LOOP)
    made.spent(1)
    made.spent(0)
    compiling.wait()
    assert made.function is not None
    return made


@pytest.fixture
def pool(monkeypatch):
    made = threads.Pool(2)
    use_pool(monkeypatch, made)
    monkeypatch.setattr(threads, "_has_own_cores", lambda: True)
    yield made
    made.close()


def check(found, step=64):
    x = np.random.default_rng(0).random((ROWS, WIDTH), np.float32)
    table, y = np.array([250, 2, 3], np.uint8), np.zeros_like(x)
    parallel_for.run(found, ROWS, step, USES, [x, table, y, 0, 0, 2, np.int32(-7)])
    expected = x * np.float32(2) + table + np.arange(ROWS)[:, np.newaxis] - 7
    np.testing.assert_allclose(y, expected, 1e-6)


@pytest.mark.parametrize("step", [1, 64, 1000])
def test_a_team_computes_all_rows_without_the_threads_of_the_interpreter(
        found, pool, monkeypatch, step):
    monkeypatch.setattr(pool, "run", None)
    check(found, step)
    assert pool.take()  # and has given back what it took


def test_a_team_of_more_threads_than_may_work(found, pool, monkeypatch):
    monkeypatch.setattr(pool, "run", None)
    monkeypatch.setattr(openmp, "team", lambda: openmp._team()._replace(threads=5))
    check(found)


def test_without_openmp_the_threads_of_the_interpreter_compute(found, pool, monkeypatch):
    monkeypatch.setattr(openmp, "team", lambda: None)
    check(found)


def test_while_others_compute_the_caller_does_it_alone(found, pool, monkeypatch):
    assert pool.take()
    check(found)


def test_ranks_that_compete_for_cores_do_not_wait_busily(found, pool, monkeypatch):
    monkeypatch.setattr(threads, "_has_own_cores", lambda: False)
    monkeypatch.setattr(openmp, "team", lambda: pytest.fail("a team was used"))
    check(found)


def test_blocks_are_few_where_the_work_is_small(pool):
    assert parallel_for.block_rows(1000, 8) == 1000
    assert 1 < parallel_for.block_rows(1 << 16, 1 << 10) * (1 << 10) <= 1 << 18
    assert parallel_for.block_rows(4, 1 << 24) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_computes_in_threads_of_its_own():
    text = ("import os, signal, numpy as np, hpcflow as hf\n"
            "from hpcflow.host import openmp\n"
            "x = hf.placeholder(hf.float32, [400, 400])\n"
            "y, session = hf.matmul(x, x), hf.Session()\n"
            "run = lambda: float(session.run(y, {x: np.ones([400, 400], np.float32)})[3, 3])\n"
            "assert openmp.team() and run() == 400\n"
            "pid = os.fork()\n"
            "if not pid:\n"
            "    signal.alarm(30)\n"
            "    os._exit(run() != 400)\n"
            "assert run() == 400\n"
            "raise SystemExit(os.waitpid(pid, 0)[1])")
    subprocess.run([sys.executable, "-c", text], check=True)
