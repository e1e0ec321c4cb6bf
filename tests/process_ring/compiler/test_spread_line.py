"""Element-wise lines that are no program's, over large arrays on several threads."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.compiler.native import spread_line
from hpcflow.host import threads
from hpcflow.host.tuning import compiler as tuning

LARGE = tuning.LINES_LARGE + 5


@pytest.fixture
def calls(monkeypatch):
    """What calls of spread lines gave: True for a result."""
    pool, found = threads.Pool(2), []
    monkeypatch.setattr(threads, "pool", lambda: pool)
    call = spread_line.SpreadLine.__call__

    def noted(self, *inputs):
        result = call(self, *inputs)
        found.append(result is not None)
        return result

    monkeypatch.setattr(spread_line.SpreadLine, "__call__", noted)
    yield found
    pool.close()


@pytest.mark.parametrize(("size", "spread"), [(LARGE, [True]), (7, [False])])
def test_values_are_those_of_the_kernel(calls, size, spread):
    values = np.linspace(0.5, 9.0, size)
    x = hf.placeholder(hf.float64, [None])
    y = hf.digamma(x)
    with hf.Session() as session:
        made = session.run(y, {x: values})
        whole = np.concatenate([session.run(y, {x: part}) for part in np.array_split(values, 9)])
    assert calls[:1] == spread
    np.testing.assert_array_equal(made, whole)


def test_an_error_is_that_of_the_line(calls):
    x = hf.placeholder(hf.int32, [LARGE])
    y = hf.floordiv(x, x, name="quotient")
    with hf.Session() as session:
        assert (session.run(y, {x: np.ones(LARGE)}) == 1).all()
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"division by zero.*quotient"):
            session.run(y, {x: np.arange(LARGE)})
    assert calls == [True, False]
