"""Kernels of generators in variables: reading and moving a state, and numbers without one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.random.philox import Start
from hpcflow.kernels.random.random import to_dims
from hpcflow.kernels.random.stateless_random import check_algorithm
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

#: Blocks that one element may take: an op that rejects numbers draws several.
_BLOCKS_EACH = 256


def _moved(state: Any, algorithm: Any, delta: Any) -> np.ndarray:
    """The numbers of `state`, which goes on behind those that `delta` elements take."""
    check_algorithm(algorithm)
    with state.lock:
        now = state.read()
        if now.dtype != np.int64 or np.ndim(now) != 1:
            raise invalid("the state of a generator must be a vector of int64, got "
                          f"{np.asarray(now).dtype} of shape {shown(np.shape(now))}")
        if len(now) < 3:
            raise invalid("For the Philox algorithm, the size of state must be at least 3; got "
                          f"{len(now)}")
        kept = np.array(now)
        words = kept.view(np.uint64)
        counter = Start.of_arrays(words[2:], words).skipped(int(delta) * _BLOCKS_EACH).arrays()[1]
        state.writable()[:2] = counter.view(np.int64)
    return kept[:3]


@kernel("RngReadAndSkip", device="CPU", fresh=True)
def _read_and_skip(node: KernelNode) -> Callable:
    return _moved


@kernel("RngSkip", device="CPU")
def _skip(node: KernelNode) -> Callable:
    def run(state: Any, algorithm: Any, delta: Any) -> None:
        _moved(state, algorithm, delta)

    return run


@kernel("NonDeterministicInts", device="CPU", fresh=True)
def _entropy(node: KernelNode) -> Callable:
    dtype = node.np_dtype()

    def run(shape: Any) -> Any:
        dims = to_dims(shape)
        size = int(np.prod(dims, dtype=np.int64)) * dtype.itemsize
        return np.frombuffer(os.urandom(size), dtype).reshape(dims).copy()[()]

    return run
