"""Sizes that no memory holds: errors of the classes that the reference has, and no attempt."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import errors

pytestmark = pytest.mark.usefixtures("graph")

OPS = {
    "fill": lambda dims: hf.fill(dims, 1.0),
    "tile": lambda dims: hf.tile([[1.0]], dims),
    "broadcast_to": lambda dims: hf.broadcast_to(1.0, dims),
    "random_uniform": hf.random_uniform,
    "random_integers": lambda dims: hf.random_uniform(dims, maxval=7, dtype=hf.int32),
    "random_normal": hf.random_normal,
}


def run(build, *values, fed):
    inputs = [hf.placeholder(v.dtype, v.shape) if fed else hf.constant(v) for v in values]
    with hf.Session() as session:
        return session.run(build(*inputs), dict(zip(inputs, values)) if fed else {})


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("dims, error", [
    ([2**31, 2**31], errors.ResourceExhaustedError),
    ([2**40, 2**40], errors.InvalidArgumentError)])
def test_shapes(op, dims, error, fed):
    with pytest.raises(error):
        run(OPS[op], np.array(dims, np.int64), fed=fed)


MOST = np.iinfo(np.int64).max
RANGES = {  # limits -> the values, or how many there would be
    (0, MOST, MOST // 3): [0, MOST // 3, MOST // 3 * 2, MOST // 3 * 3],
    (MOST - 3, MOST, 2): [MOST - 3, MOST - 1],
    (-MOST - 1, MOST, MOST): [-MOST - 1, -1, MOST - 1],
    (0, MOST, 1): errors.ResourceExhaustedError,
    (-MOST, MOST, 1): errors.InvalidArgumentError,
    (MOST, -MOST, -1): errors.InvalidArgumentError,
}


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("limits", RANGES)
def test_ranges(limits, fed):
    values, expected = [np.int64(v) for v in limits], RANGES[limits]
    if isinstance(expected, list):
        assert run(hf.range, *values, fed=fed).tolist() == expected
        return
    is_refused_when_built = not fed and expected is errors.InvalidArgumentError
    with pytest.raises(ValueError if is_refused_when_built else expected, match=r"range|Requires"):
        run(hf.range, *values, fed=fed)
