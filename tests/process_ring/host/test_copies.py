"""Copies between layouts give the bits of NumPy's, by compiled loops and without."""

from __future__ import annotations

import random

import numpy as np
import pytest
from thresholds import lower

from hpcflow import config
from hpcflow.loops import compiling, strided_copy

DTYPES = (np.uint8, np.int16, np.float32, np.float64, np.bool_, np.complex128)


@pytest.fixture(params=["compiled", "numpy"])
def small(request, monkeypatch):
    """Copies of any size are large, and compiled at once or never."""
    lower(monkeypatch, "COPY_LARGE_BYTES", "COPY_SHARED_BYTES")
    if request.param == "compiled":
        lower(monkeypatch, "COMPILE_WORTH_SECONDS")
    else:
        monkeypatch.setattr(config.flags, "jit", False)


def laid_out(rng: random.Random, dims: list[int], dtype: type) -> np.ndarray:
    """Random bytes in an array of `dims` with any order of dimensions, steps and gaps."""
    order = rng.sample(range(len(dims)), len(dims))
    steps = [rng.choice((1, 1, 1, 2)) for _ in dims]
    sizes = [dims[axis] * step + rng.choice((0, 0, 3)) for axis, step in zip(order, steps)]
    values = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 2, [*sizes, 16], np.uint8)
    size = np.dtype(dtype).itemsize
    memory = (values if dtype is np.bool_ else values * 151)[..., :size].copy()
    places = tuple([slice(0, dims[axis] * step, step) for axis, step in zip(order, steps)])
    return memory.view(dtype)[..., 0][places].transpose(np.argsort(order))


def turned(rng: random.Random, x: np.ndarray) -> np.ndarray:
    """`x`, some of its dimensions backwards, one perhaps repeated."""
    x = x[tuple([slice(None, None, rng.choice((1, -1))) for _ in x.shape])]
    if rng.random() < 0.2:
        axis = rng.randrange(x.ndim)
        x = np.broadcast_to(x[(slice(None),) * axis + (slice(0, 1),)], x.shape)
    return x


@pytest.mark.parametrize("seed", range(8))
def test_any_layouts(small, seed):
    print("seed", seed)
    rng = random.Random(seed)
    for number in range(40):
        rank = rng.randint(1, 5)
        sizes = (1, 2, 3, 5, 16, 17) if rank > 2 else (1, 7, 64, 100, 257)
        dims, dtype = [rng.choice(sizes) for _ in range(rank)], rng.choice(DTYPES)
        source, target = turned(rng, laid_out(rng, dims, dtype)), laid_out(rng, dims, dtype)
        around = target.base.copy()
        strided_copy.assign(target, source)
        compiling.wait()
        strided_copy.assign(target, source)
        assert target.tobytes() == source.tobytes(), (number, dims, dtype)
        made = strided_copy.contiguous(source)
        assert made.flags.c_contiguous
        assert made.tobytes() == source.tobytes()
        # Nothing beside the target has changed.
        target[...] = np.zeros((), dtype)
        changed = target.base.copy()
        target.base[...] = around
        target[...] = np.zeros((), dtype)
        assert changed.tobytes() == target.base.tobytes(), (number, dims, dtype)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concatenate(small, axis):
    values = [np.arange(6 * n, dtype=np.int32).reshape(*dims) for n, dims in (
        (4, (2, 3, 4)), (4, (2, 3, 4)), (4, (2, 3, 4)))]
    wanted = np.concatenate(values, axis)
    np.testing.assert_array_equal(strided_copy.concatenate(values, axis), wanted)
    out = np.empty_like(wanted)
    assert strided_copy.concatenate(values, axis, out) is out
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_are_joined(small, monkeypatch, dtype):
    """Inner dimensions of other sizes, more rows than threads, with `out` and without."""
    lower(monkeypatch, "PARALLEL_LARGE_BYTES")
    rng = np.random.default_rng(0)

    def drawn(*dims):
        return rng.integers(0, 2, dims).astype(dtype)

    cases = [([drawn(5, 7, n, 2) for n in (3, 40, 1)], 2), ([drawn(50, n) for n in (9, 17)], -1),
             ([drawn(50, n) for n in (9, 0, 17)], 1), ([drawn(9, 50).T, drawn(50, 3)], 1),
             ([drawn(20, 3)] * 20, 1)]
    for values, axis in cases:
        wanted = np.concatenate(values, axis)
        out = np.empty_like(wanted)
        for _ in range(3):
            np.testing.assert_array_equal(strided_copy.concatenate(values, axis), wanted)
            assert strided_copy.concatenate(values, axis, out) is out
            np.testing.assert_array_equal(out, wanted)
            compiling.wait()


def test_concatenate_refuses_other_shapes(small):
    with pytest.raises(ValueError, match="must match"):
        strided_copy.concatenate([np.zeros((2, 3)), np.zeros((2, 4))], 0)
    with pytest.raises(ValueError, match="out of bounds"):
        strided_copy.concatenate([np.zeros(3), np.zeros(3)], 1)



def test_in_order(small):
    x = np.arange(24.0).reshape(4, 6)
    assert strided_copy.in_order(x) is x
    assert strided_copy.in_order(x.T).flags.c_contiguous


@pytest.mark.parametrize("shape", [(512, 256), (300, 512), (1024, 1000)])
def test_squares_of_lines_that_compete_in_the_cache(shape):
    x = np.random.RandomState(3).rand(*shape).astype(np.float32)
    for source in (x.T, x[:, 128:].T, x[::2].T):
        target = np.empty(source.shape, np.float32)
        strided_copy._share(target, source)
        np.testing.assert_array_equal(target, source)


def test_strings(small):
    x = np.array([[b"a", b"bc"], [b"", b"d"]], object)
    np.testing.assert_array_equal(strided_copy.contiguous(x.T), x.T)
