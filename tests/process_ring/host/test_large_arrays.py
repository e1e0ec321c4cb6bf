"""Ops on arrays that are large enough for ways of their own, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RANDOM = np.random.default_rng(5)
FLOATS = RANDOM.standard_normal((600, 300)).astype(np.float32)
INTEGERS = RANDOM.integers(-50, 50, (600, 300)).astype(np.int32)


def run(op, *values, **kwargs):
    """What an op gives for fed values."""
    with hf.Graph().as_default(), hf.Session() as session:
        places = [hf.placeholder(v.dtype, v.shape) for v in values]
        return session.run(op(*places, **kwargs), dict(zip(places, values)))


@pytest.mark.parametrize("x", [FLOATS, INTEGERS], ids=["float32", "int32"])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_segments(name, x):
    ids = np.repeat(np.arange(0, 80, 2), 15).astype(np.int32)
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[name]
    found = run(lambda a: getattr(hf, f"segment_{name}")(a, ids), x)
    wanted = np.full((79, 300), name == "prod", x.dtype)
    wanted[::2] = ufunc.reduceat(x, np.arange(0, 600, 15), dtype=x.dtype)
    np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("x", [FLOATS, INTEGERS], ids=["float32", "int32"])
def test_cumulative_sums(x, axis):
    np.testing.assert_array_equal(run(hf.cumsum, x, axis=axis), np.cumsum(x, axis, x.dtype))
    backwards = np.flip(np.cumsum(np.flip(x, axis), axis, x.dtype), axis)
    np.testing.assert_array_equal(run(hf.cumsum, x, axis=axis, reverse=True), backwards)


def test_where():
    np.testing.assert_array_equal(run(hf.where, FLOATS > 0), np.argwhere(FLOATS > 0))
    cube = INTEGERS.reshape(30, 20, 300) > 20
    np.testing.assert_array_equal(run(hf.where, cube), np.argwhere(cube))


def test_gather_nd():
    places = np.stack([RANDOM.integers(n, size=40_000) for n in (30, 20)], 1).astype(np.int32)
    cube = FLOATS.reshape(30, 20, 300)
    for params in (cube, cube[..., 0].copy(), cube.astype(np.float64)[..., :3].copy()):
        found = run(hf.gather_nd, params, places)
        np.testing.assert_array_equal(found, params[places[:, 0], places[:, 1]])
    for wrong in (20, -1):
        places[39_000, 1] = wrong
        with pytest.raises(hf.errors.InvalidArgumentError, match="39000"):
            run(hf.gather_nd, cube, places)


@pytest.mark.parametrize(("below", "above"), [(0, 0), (5, 2), (-1, 3), (2, -1), (600, 300)])
def test_bands(below, above):
    offset = np.arange(300) - np.arange(600)[:, None]
    keep = (offset >= -(below if below >= 0 else 600)) & (offset <= (above if above >= 0 else 300))
    found = run(lambda a: hf.matrix_band_part(a, below, above), FLOATS)
    np.testing.assert_array_equal(found, np.where(keep, FLOATS, 0))


def test_moves():
    x = FLOATS
    np.testing.assert_array_equal(run(hf.transpose, x), x.T)
    np.testing.assert_array_equal(run(hf.reverse, x, axis=[1]), x[:, ::-1])
    np.testing.assert_array_equal(run(hf.tile, x, multiples=[2, 3]), np.tile(x, (2, 3)))
    np.testing.assert_array_equal(run(hf.tile, x, multiples=[1, 1]), x)
    np.testing.assert_array_equal(run(hf.pad, x, paddings=[[1, 2], [3, 0]]),
                                  np.pad(x, ((1, 2), (3, 0))))
    for axis in (0, 1, 2):
        np.testing.assert_array_equal(run(lambda a, axis=axis: hf.stack([a, -a], axis), x),
                                      np.stack([x, -x], axis))
    blocks = x.reshape(10, 60, 30, 10)[:, :, :, :8].copy()
    there = run(hf.space_to_depth, blocks, block_size=2)
    np.testing.assert_array_equal(run(hf.depth_to_space, there, block_size=2), blocks)
