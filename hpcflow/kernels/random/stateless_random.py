"""Kernels of random op types without state: the same numbers for the same seeds, everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.device_windows import programs_of
from hpcflow.kernels.random import device_numbers, numbers
from hpcflow.kernels.random.philox import Start
from hpcflow.kernels.random.random import (
    drawn_classes,
    register_host,
    samples_asked,
    to_dims,
)
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_PHILOX, _AUTOMATIC = 1, 3  # numbers of algorithms; 2 is another one


def _filled(fill: Callable[[Start, np.ndarray], np.ndarray]) -> Callable:
    return lambda start, dims, dtype: numbers.drawn(fill, start, dims, dtype)


def _integers(start: Start, dims: tuple[int, ...], dtype: Any, low: Any, high: Any) -> np.ndarray:
    _check_bounds(low, high)
    return numbers.integers(start, dims, low, high, dtype)


def _limits(kind: str, *bounds: Any) -> tuple[int, ...]:
    """What a kernel of the `kind` is given besides."""
    if bounds:
        _check_bounds(*bounds)
        return device_numbers.limits(*bounds)
    return (0, 0) if kind == "integers" else ()


def _check_bounds(low: Any, high: Any) -> None:
    if np.ndim(low) or np.ndim(high):
        raise invalid(f"minval and maxval must be scalars, got {shown(np.shape(low))} and "
                      f"{shown(np.shape(high))}")
    if not low < high:
        raise invalid(f"Need minval < maxval, got {low} >= {high}")


# ---------------------------------------------------------------- op types


def start_of_seeds(seeds: Any) -> Start:
    """The start for the value of a seed input; ``InvalidArgumentError`` unless it has two numbers.
    """
    if np.shape(seeds) != (2,):
        raise invalid(f"seed must have shape [2], got {shown(np.shape(seeds))}")
    return Start.of_seeds(seeds)


def check_algorithm(algorithm: Any) -> None:
    """Refuse the number of any algorithm but Philox."""
    if np.ndim(algorithm) or int(algorithm) not in (_PHILOX, _AUTOMATIC):
        raise invalid(f"the only algorithm is Philox (1), got {np.ravel(algorithm).tolist()}")


def start_of_key(key: Any, counter: Any, algorithm: Any) -> Start:
    """The start for the values of a key, a counter and the number of an algorithm."""
    check_algorithm(algorithm)
    if np.shape(key) != (1,) or np.ndim(counter) != 1 or len(counter) < 2:
        raise invalid("key must have one number and counter two, got shapes "
                      f"{shown(np.shape(key))} and {shown(np.shape(counter))}")
    return Start.of_arrays(key, counter)


def _register(name: str, draw: Callable, kind: str) -> None:
    """Register both forms of an op type; ``draw(start, dims, dtype, ...)`` gives an array, a kernel
    of the `kind` one on a device."""

    def maker(node: KernelNode, count: int) -> Callable:
        """``make(start, dims, *bounds)`` where the op runs; the start follows from `count` of its
        inputs, after the shape."""
        dtype = node.np_dtype()
        if node.xp is np:
            return lambda start, dims, *bounds: draw(start, dims, dtype, *bounds)[()]
        fill = device_numbers.filler(programs_of(node.device), node.xp, kind, dtype)
        send = node.device.to_device
        if fill is None:
            return lambda start, dims, *bounds: send(draw(start, dims, dtype, *bounds)[()])
        known = all(node.constant(i) is not None for i in range(1, 1 + count))

        def make(start: Start, dims: tuple[int, ...], *bounds: Any) -> Any:
            more = _limits(kind, *bounds)
            # A recorded region draws again what does not change.
            words = node.device.drawn(start.words64) if known else send(start.words64())
            return fill(words, dims, *more)

        return make

    def seeded(node: KernelNode) -> Callable:
        make = maker(node, 1)

        def run(shape: Any, seeds: Any, *bounds: Any) -> Any:
            dims = to_dims(shape)
            return make(start_of_seeds(seeds), dims, *bounds)

        return run

    def keyed(node: KernelNode) -> Callable:
        make = maker(node, 3)

        def run(shape: Any, key: Any, counter: Any, algorithm: Any, *bounds: Any) -> Any:
            dims = to_dims(shape)
            return make(start_of_key(key, counter, algorithm), dims, *bounds)

        return run

    hosts = tuple(range(6))
    kernel(f"Stateless{name}", fresh=True, host_inputs=hosts)(seeded)
    kernel(f"Stateless{name}V2", fresh=True, host_inputs=hosts)(keyed)


for _name, _draw, _kind in (
        ("RandomUniform", _filled(numbers.uniform), "uniform"),
        ("RandomNormal", _filled(numbers.normal), "normal"),
        ("TruncatedNormal", _filled(numbers.truncated_normal), "truncated"),
        ("RandomUniformFullInt", _filled(numbers.bits), "integers"),
        ("RandomUniformInt", _integers, "integers")):
    _register(_name, _draw, _kind)


@register_host("StatelessMultinomial")
def _multinomial(node: KernelNode) -> Callable:
    dtype = node.np_dtype()
    return lambda logits, count, seeds: drawn_classes(
        start_of_seeds(seeds), logits, samples_asked(logits, count), dtype)


@kernel("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", device="CPU", fresh=True)
def _key_and_counter(node: KernelNode) -> Callable:
    with_algorithm = len(node.output_dtypes) == 3

    def run(seeds: Any) -> tuple:
        arrays = start_of_seeds(seeds).arrays()
        return (*arrays, np.int32(_PHILOX)) if with_algorithm else arrays

    return run


@kernel("StatelessRandomGetAlg", device="CPU", fresh=True)
def _algorithm(node: KernelNode) -> Callable:
    return lambda: np.int32(_PHILOX)
