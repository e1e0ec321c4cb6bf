"""Kernels of random op types without state: the same numbers for the same seeds, everywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.random.philox import Start
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_PHILOX, _AUTOMATIC = 1, 3  # numbers of algorithms; 2 is another one
_SMALLEST = 1e-7  # in place of numbers too near to zero for a logarithm
_TRUNCATION = 2.0  # standard deviations
_SPARE_BLOCKS = 256  # that each group of truncated numbers may use, per block that it needs


# ---------------------------------------------------------------- bits to numbers


def _wide(words: np.ndarray) -> np.ndarray:
    """Pairs of words as 64-bit numbers, the lower word first."""
    pairs = words.reshape(-1, 2).astype(np.uint64)
    return pairs[:, 0] | pairs[:, 1] << np.uint64(32)


def _unit(words: np.ndarray, dtype: Any) -> np.ndarray:
    """Numbers in [0, 1) of the bits that become fractions; two words for each of 64 bits."""
    if dtype == np.float64:
        pairs = words.reshape(-1, 2).astype(np.uint64)
        bits = (pairs[:, 0] & np.uint64(0xFFFFF)) << np.uint64(32) | pairs[:, 1]
        return (bits | np.uint64(1023 << 52)).view(np.float64) - 1.0
    if dtype == np.float32:
        bits = words.reshape(-1) & np.uint32(0x7FFFFF) | np.uint32(127 << 23)
        return bits.view(np.float32) - np.float32(1)
    short = words.reshape(-1).astype(np.uint16)
    mask, one = (0x3FF, 15 << 10) if dtype == np.float16 else (0x7F, 127 << 7)
    return (short & np.uint16(mask) | np.uint16(one)).view(dtype) - dtype.type(1)


def _uniform(start: Start, count: int, dtype: Any) -> np.ndarray:
    return _unit(start.words(count * (2 if dtype == np.float64 else 1)), dtype)[:count]


def _pairs_of_normals(words: np.ndarray, dtype: Any) -> np.ndarray:
    """Box and Muller: each pair of uniform numbers gives a pair of normal ones."""
    drawn = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    units = _unit(words, drawn).reshape(-1, 2)
    angle = drawn.type(2 * math.pi) * units[:, 1]
    radius = np.sqrt(drawn.type(-2) * np.log(np.maximum(units[:, 0], drawn.type(_SMALLEST))))
    return np.stack([np.sin(angle) * radius, np.cos(angle) * radius], -1)


def _normal(start: Start, count: int, dtype: Any) -> np.ndarray:
    words = start.words((count + count % 2) * (2 if dtype == np.float64 else 1))
    return _pairs_of_normals(words, dtype).reshape(-1)[:count].astype(dtype)


def _truncated_normal(start: Start, count: int, dtype: Any) -> np.ndarray:
    """Each group has a part of the sequence to itself, from which it takes what is near enough."""
    group = 2 if dtype == np.float64 else 4
    groups = -(-count // group)
    first = np.arange(groups, dtype=np.uint64) * np.uint64(_SPARE_BLOCKS * group // 4)
    found: list[np.ndarray] = [np.empty(0)] * groups
    waiting, used = np.arange(groups), 0
    while waiting.size:
        words = start.blocks(first[waiting] + np.uint64(used))
        drawn = _pairs_of_normals(words, dtype).reshape(len(waiting), -1)
        for i, row in zip(waiting.tolist(), drawn, strict=True):
            found[i] = np.concatenate([found[i], row[np.abs(row) < _TRUNCATION]])
        waiting = waiting[[len(found[i]) < group for i in waiting]]
        used += 1
    rows = [row[:group] for row in found]
    return np.concatenate(rows)[:count].astype(dtype) if rows else np.empty(0, dtype)


def _bits(start: Start, count: int, dtype: Any) -> np.ndarray:
    """Whole numbers of all values."""
    if dtype.itemsize == 8:
        return _wide(start.words(2 * count))[:count].view(dtype)
    return start.words(count).reshape(-1)[:count].view(dtype)


def _integers(start: Start, count: int, dtype: Any, low: Any, high: Any) -> np.ndarray:
    """Whole numbers in [low, high); the bits modulo their number."""
    if np.ndim(low) or np.ndim(high):
        raise invalid(f"minval and maxval must be scalars, got {shown(np.shape(low))} and "
                      f"{shown(np.shape(high))}")
    if not low < high:
        raise invalid(f"Need minval < maxval, got {low} >= {high}")
    unsigned = np.dtype(f"u{dtype.itemsize}")
    span = unsigned.type(int(high) - int(low))
    drawn = _bits(start, count, unsigned) % span
    offset = np.array(low, dtype).view(unsigned)
    return (drawn + offset).astype(unsigned).view(dtype)


# ---------------------------------------------------------------- op types


def _to_dims(shape: Any) -> tuple[int, ...]:
    if np.ndim(shape) != 1 or (np.asarray(shape) < 0).any():
        raise invalid(f"shape must be a vector without negative sizes, got {np.ravel(shape)}")
    return tuple(int(d) for d in shape)


def _start_of_seeds(seeds: Any) -> Start:
    if np.shape(seeds) != (2,):
        raise invalid(f"seed must have shape [2], got {shown(np.shape(seeds))}")
    return Start.of_seeds(seeds)


def _start_of_key(key: Any, counter: Any, algorithm: Any) -> Start:
    if np.ndim(algorithm) or int(algorithm) not in (_PHILOX, _AUTOMATIC):
        raise invalid(f"the only algorithm is Philox (1), got {np.ravel(algorithm).tolist()}")
    if np.shape(key) != (1,) or np.ndim(counter) != 1 or len(counter) < 2:
        raise invalid("key must have one number and counter two, got shapes "
                      f"{shown(np.shape(key))} and {shown(np.shape(counter))}")
    return Start.of_arrays(key, counter)


def _register(name: str, draw: Callable) -> None:
    """Register both forms of an op type; ``draw(start, count, dtype, ...)`` gives a vector."""

    def seeded(node: KernelNode) -> Callable:
        dtype, send = node.np_dtype(), node.device.to_device

        def run(shape: Any, seeds: Any, *bounds: Any) -> Any:
            dims = _to_dims(shape)
            values = draw(_start_of_seeds(seeds), math.prod(dims), dtype, *bounds)
            values = values.reshape(dims)[()]
            return values if node.xp is np else send(values)

        return run

    def keyed(node: KernelNode) -> Callable:
        dtype, send = node.np_dtype(), node.device.to_device

        def run(shape: Any, key: Any, counter: Any, algorithm: Any, *bounds: Any) -> Any:
            dims = _to_dims(shape)
            start = _start_of_key(key, counter, algorithm)
            values = draw(start, math.prod(dims), dtype, *bounds).reshape(dims)[()]
            return values if node.xp is np else send(values)

        return run

    hosts = tuple(range(6))
    kernel(f"Stateless{name}", fresh=True, host_inputs=hosts)(seeded)
    kernel(f"Stateless{name}V2", fresh=True, host_inputs=hosts)(keyed)


for _name, _draw in (("RandomUniform", _uniform), ("RandomNormal", _normal),
                     ("TruncatedNormal", _truncated_normal), ("RandomUniformFullInt", _bits),
                     ("RandomUniformInt", _integers)):
    _register(_name, _draw)


@kernel("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", device="CPU", fresh=True)
def _key_and_counter(node: KernelNode) -> Callable:
    with_algorithm = len(node.output_dtypes) == 3

    def run(seeds: Any) -> tuple:
        arrays = _start_of_seeds(seeds).arrays()
        return (*arrays, np.int32(_PHILOX)) if with_algorithm else arrays

    return run


@kernel("StatelessRandomGetAlg", device="CPU", fresh=True)
def _algorithm(node: KernelNode) -> Callable:
    return lambda: np.int32(_PHILOX)
