"""Rates of this machine, measured: what a description of a cluster of such nodes needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.distribute.costs import Rates
from hpcflow.simulator.cluster import Link


def measure_rates() -> Rates:
    """The CPU of this process, with the threads that it has (about a second)."""
    return Rates(_matrix_flops(), _vector_flops(), _memory_bandwidth(), _op_overhead(),
                 float(_memory()))


def link_from_pingpong(rows: list[dict[str, Any]]) -> Link:
    """The link that ``bench pingpong --json`` measured: half a small round trip is the latency,
    the largest gives the bandwidth.

    Raises ``ValueError`` if the rows are not those of a pingpong.
    """
    ours = {r["case"]: r for r in rows if r.get("program") == "hpcflow"}
    small = ours.get("round trip, 4 B")
    large = ours.get("round trip, 64 MB") or ours.get("round trip, 8 MB")
    if small is None or large is None:
        raise ValueError("These are not the rows of 'bench pingpong --json'")
    size = int(large["case"].rpartition(", ")[2].partition(" ")[0]) << 20
    latency = small["p10_us"] * 1e-6 / 2
    return Link(latency, size / (large["median_us"] * 1e-6 / 2), latency)


def _best(work: Callable[[], object], rounds: int = 7) -> float:
    """The shortest time of `work`: others on the machine only make it longer."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _matrix_flops(size: int = 768) -> float:
    a = np.random.RandomState(0).rand(size, size).astype(np.float32)
    out = np.empty_like(a)
    return 2.0 * size**3 / _best(lambda: np.matmul(a, a, out=out))


def _vector_flops(size: int = 1 << 13) -> float:
    """Measure the element-wise rate, on arrays that stay in the cache, so that memory does not
    limit."""
    a = np.ones(size, np.float32)
    out = np.empty_like(a)

    def work() -> None:
        for _ in range(100):
            np.add(a, a, out=out)

    return 100 * size / _best(work)


def _memory_bandwidth(size: int = 1 << 25) -> float:
    a = np.ones(size // 4, np.float32)
    out = np.empty_like(a)
    return 2.0 * size / _best(lambda: np.copyto(out, a))


def _op_overhead(count: int = 200) -> float:
    a = np.ones(16, np.float32)

    def work() -> None:
        x = a
        for _ in range(count):
            x = np.add(x, a)

    return _best(work) / count


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
