"""What the comparison with the reference takes for rounding."""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "oracle"))

import condition
from case import Case, Variable

X = np.linspace(-2, 2, 401).astype(np.float32)


def test_floating_inputs_move_by_one_unit_and_nothing_else_moves():
    numbers = np.arange(5)
    case = Case("Add", {"x": X, "list": [Variable(X)], "n": numbers, "z": X + 1j * X})
    found = condition.moved([case])
    assert len(found) == condition.MOVED
    for other in found:
        for array in (other.inputs["x"], other.inputs["list"][0].value, other.inputs["z"].imag):
            assert array.dtype == np.float32
            steps = np.abs(array.copy().view(np.int32) - X.view(np.int32))
            assert steps.max() == 1 and steps.min() == 0
            assert not array[X == 0].any()
        assert other.inputs["n"] is numbers
    assert not np.array_equal(found[0].inputs["x"], found[1].inputs["x"])


def test_moves_are_the_largest_and_at_least_one_unit():
    def record(*outputs):
        return {"arrays": {"output": list(outputs)}}

    eps, ones, numbers = np.finfo(np.float32).eps, np.ones(4, np.float32), np.arange(4)
    others = [record(ones + k * eps, ones, numbers + k, ones[:2]) for k in (4, 20, 8)]
    found = condition.moves(record(ones, ones, numbers, ones), others)
    # Differences are relative to the value plus the mean of all: here to 2.
    assert found == {("output", 0): 10.0, ("output", 1): 1.0}
