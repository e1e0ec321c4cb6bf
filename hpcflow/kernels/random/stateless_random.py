"""Kernels of random op types without state: the same numbers for the same seeds, everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.random import numbers
from hpcflow.kernels.random.philox import Start
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_PHILOX, _AUTOMATIC = 1, 3  # numbers of algorithms; 2 is another one


def _filled(fill: Callable[[Start, np.ndarray], np.ndarray]) -> Callable:
    return lambda start, dims, dtype: numbers.drawn(fill, start, dims, dtype)


def _integers(start: Start, dims: tuple[int, ...], dtype: Any, low: Any, high: Any) -> np.ndarray:
    if np.ndim(low) or np.ndim(high):
        raise invalid(f"minval and maxval must be scalars, got {shown(np.shape(low))} and "
                      f"{shown(np.shape(high))}")
    if not low < high:
        raise invalid(f"Need minval < maxval, got {low} >= {high}")
    return numbers.integers(start, dims, low, high, dtype)


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
    """Register both forms of an op type; ``draw(start, dims, dtype, ...)`` gives an array."""

    def seeded(node: KernelNode) -> Callable:
        dtype, send = node.np_dtype(), node.device.to_device

        def run(shape: Any, seeds: Any, *bounds: Any) -> Any:
            dims = _to_dims(shape)
            values = draw(_start_of_seeds(seeds), dims, dtype, *bounds)[()]
            return values if node.xp is np else send(values)

        return run

    def keyed(node: KernelNode) -> Callable:
        dtype, send = node.np_dtype(), node.device.to_device

        def run(shape: Any, key: Any, counter: Any, algorithm: Any, *bounds: Any) -> Any:
            dims = _to_dims(shape)
            start = _start_of_key(key, counter, algorithm)
            values = draw(start, dims, dtype, *bounds)[()]
            return values if node.xp is np else send(values)

        return run

    hosts = tuple(range(6))
    kernel(f"Stateless{name}", fresh=True, host_inputs=hosts)(seeded)
    kernel(f"Stateless{name}V2", fresh=True, host_inputs=hosts)(keyed)


for _name, _draw in (
        ("RandomUniform", _filled(numbers.uniform)), ("RandomNormal", _filled(numbers.normal)),
        ("TruncatedNormal", _filled(numbers.truncated_normal)),
        ("RandomUniformFullInt", _filled(numbers.bits)), ("RandomUniformInt", _integers)):
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
