"""Element-wise lines that are no program's, over large arrays on several threads."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.host import threads
from hpcflow.host.tuning import compiler as tuning

LARGE = tuning.LINES_LARGE + 5


@pytest.fixture
def calls(monkeypatch):
    """The runs of a pool of two threads."""
    pool, found = threads.Pool(2), []
    monkeypatch.setattr(threads, "pool", lambda: pool)
    run = pool.run
    monkeypatch.setattr(pool, "run", lambda *given: found.append(1) or run(*given))
    yield found
    pool.close()


@pytest.mark.parametrize(("size", "runs"), [(LARGE, 1), (7, 0)])
def test_values_are_those_of_the_kernel(calls, size, runs):
    values = np.linspace(0.5, 9.0, size)
    x = hf.placeholder(hf.float64, [None])
    y = hf.igamma(x, x)
    with hf.Session() as session:
        made = session.run(y, {x: values})
        assert len(calls) == runs
        whole = np.concatenate([session.run(y, {x: part}) for part in np.array_split(values, 9)])
    np.testing.assert_array_equal(made, whole)


def test_an_error_is_that_of_the_line(calls):
    x = hf.placeholder(hf.int32, [LARGE])
    y = hf.floordiv(x, x, name="quotient")
    with hf.Session() as session:
        assert (session.run(y, {x: np.ones(LARGE)}) == 1).all()
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"division by zero.*quotient"):
            session.run(y, {x: np.arange(LARGE)})
    assert len(calls) == 2
