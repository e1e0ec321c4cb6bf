"""Kernels of mutexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.registry import ASYNC, RESOURCE, STEP, KernelNode, kernel
from hpcflow.resources.mutexes import Mutex


@kernel("Mutex", "MutexV2", device="CPU", mode=RESOURCE)
def _mutex(node: KernelNode) -> Mutex:
    return shared(node, "mutex", Mutex)


@kernel("MutexAcquire", "MutexLock", device="CPU", mode=ASYNC)
def _acquire(node: KernelNode) -> Callable:
    gives_lock = bool(node.output_dtypes)

    def run(step: Any, done: Callable[[Any], None], mutex: Mutex) -> None:
        # Whatever happens to the step, it does not take the mutex with it.
        step.on_finish_hooks.append(lambda: mutex.step_ended(step))
        attempt = mutex.acquire(step, done, (mutex,) if gives_lock else ())
        if not attempt.over:
            step.when_cancelled(lambda: mutex.cancel(attempt))

    return run


@kernel("MutexRelease", "ConsumeMutexLock", device="CPU", mode=STEP)
def _release(node: KernelNode) -> Callable:
    return lambda step, mutex: mutex.release(step)
