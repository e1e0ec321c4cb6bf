"""The same program on every task of a cluster in one process, each in a thread and graph of its
own: what ``mpirun`` does with processes."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import hpcflow as hf

_numbers = itertools.count(1)
LIMIT_SECONDS = 60.0


def run_replicas(count: int, program: Callable[[int, str], Any], close: bool = True) -> list[Any]:
    """Run ``program(index, target)`` for `count` workers; returns what each returned or raised."""
    number = next(_numbers)
    spec = hf.train.ClusterSpec(
        {"worker": [f"replica-{number}-{i}:1" for i in range(count)]})
    servers = [hf.train.Server(spec, "worker", i) for i in range(count)]
    results: list[Any] = [None] * count

    def work(index: int) -> None:
        try:
            with hf.Graph().as_default(), hf.device(f"/job:worker/task:{index}"):
                results[index] = program(index, servers[index].target)
        except Exception as e:  # noqa: BLE001  (the test looks at it)
            results[index] = e
            if close:
                servers[index]._server.close()

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_SECONDS)
    stuck = [i for i, thread in enumerate(threads) if thread.is_alive()]
    for server in servers:
        server._server.close()
    assert not stuck, f"replicas {stuck} wait for ever"
    return results


def values(results: list[Any]) -> list[Any]:
    """The results; raises the first error among them."""
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[tuple[Any, dict[tuple[str, int], Any]]]:
    """(cluster, servers) of two parameter servers and `workers`, in this process."""
    spec = hf.train.ClusterSpec({
        "ps": ["ps0:1", "ps1:1"], "worker": [f"worker{i}:1" for i in range(workers)]})
    servers = {(job, i): hf.train.Server(spec, job, i)
               for job in spec.jobs for i in spec.task_indices(job)}
    try:
        yield spec, servers
    finally:
        for server in servers.values():
            server._server.close()


# ---------------------------------------------------------------- a linear regression

TRUTH = np.array([[1.0], [-2.0], [0.5]], np.float32)


def batch(seed: int, size: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Some inputs, and what they are to give by `TRUTH`."""
    x = np.random.default_rng(seed).standard_normal((size, 3)).astype(np.float32)
    return x, x @ TRUTH


def serial(steps: int, rate: float = 0.1) -> np.ndarray:
    """The weights after gradient descent on the batch of seed 0, in one process."""
    x, y = batch(0)
    w = np.zeros((3, 1), np.float32)
    for _ in range(steps):
        w = w - np.float32(rate) * 2 / len(x) * x.T @ (x @ w - y)
    return w
