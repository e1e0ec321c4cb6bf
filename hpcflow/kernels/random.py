"""Kernels that draw random numbers.

Every op has a generator of its own for the session: Philox keyed by the op's two seeds, so that
the sequence is the same on every run, on every device and in whatever form a step is executed.
Both seeds 0 mean a key from the system's entropy. Numbers are drawn on the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel

_MASK = (1 << 64) - 1


def make_generator(seed: int, seed2: int) -> np.random.Generator:
    """Return a generator for a pair of seeds; both 0: unpredictable."""
    if seed == 0 and seed2 == 0:
        return np.random.Generator(np.random.Philox())
    key = np.array([seed & _MASK, seed2 & _MASK], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _generator(node: KernelNode) -> np.random.Generator:
    seed, seed2 = node.attr("seed", 0), node.attr("seed2", 0)
    return node.state(lambda: make_generator(seed, seed2))


def _to_dims(shape: Any) -> tuple[int, ...]:
    dims = tuple(int(d) for d in shape)
    if any(d < 0 for d in dims):
        raise invalid(f"shape must not have negative dimensions: {list(dims)}")
    return dims


def _register_draw(op_type: str, make: Callable[[np.random.Generator, np.dtype], Callable]) -> None:
    """Register an op whose only input is the shape; ``make(generator, dtype)`` returns
    ``draw(dims, out=None)``."""

    def factory(node: KernelNode) -> Callable:
        draw = make(_generator(node), node.np_dtype())
        known = node.constant(0)
        dims = None if known is None else _to_dims(known)
        if node.xp is not np:
            send = node.device.to_device
            return lambda shape: send(draw(_to_dims(shape) if dims is None else dims))
        if dims is not None:
            return _scalar_draw(draw) if not dims else lambda shape, out=None: draw(dims, out)
        return lambda shape, out=None: draw(_to_dims(shape), out)

    kernel(op_type, fresh=True, accepts_out=True, host_inputs=(0,))(factory)


def _scalar_draw(draw: Callable) -> Callable:
    """Scalars are NumPy scalars where there is no array to fill."""
    return lambda shape, out=None: draw(())[()] if out is None else draw((), out)


def _uniform(rng: np.random.Generator, dtype: np.dtype) -> Callable:
    """Numbers in [0, 1)."""
    if dtype == np.float16:
        return lambda dims, out=None: _store(_half_uniform(rng, dims), out)
    random = rng.random
    return lambda dims, out=None: random(dims, dtype, out)


def _half_uniform(rng: np.random.Generator, dims: tuple[int, ...]) -> np.ndarray:
    """Multiples of 2**-11, which float16 holds exactly: rounding finer numbers could give 1."""
    return rng.integers(0, 1 << 11, dims, np.int16).astype(np.float16) * np.float16(2.0**-11)


def _standard_normal(rng: np.random.Generator, dtype: np.dtype) -> Callable:
    draw = rng.standard_normal
    if dtype == np.float16:
        return lambda dims, out=None: _store(draw(dims, np.float32).astype(np.float16), out)
    return lambda dims, out=None: draw(dims, dtype, out)


_TRUNCATION = 2.0  # standard deviations


def _truncated_normal(rng: np.random.Generator, dtype: np.dtype) -> Callable:
    """Normal numbers, drawn again while they are more than two standard deviations away."""
    drawn = np.float32 if dtype == np.float16 else dtype

    def draw(dims: tuple[int, ...], out: Any = None) -> Any:
        values = rng.standard_normal(math.prod(dims), drawn)
        outside = np.flatnonzero(np.abs(values) > _TRUNCATION)
        while outside.size:
            again = rng.standard_normal(outside.size, drawn)
            values[outside] = again
            outside = outside[np.abs(again) > _TRUNCATION]
        return _store(values.astype(dtype, copy=False).reshape(dims), out)

    return draw


def _store(values: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """`values`, or `out` filled with them."""
    if out is None:
        return values
    out[...] = values
    return out


_register_draw("RandomUniform", _uniform)
_register_draw("RandomStandardNormal", _standard_normal)
_register_draw("TruncatedNormal", _truncated_normal)
