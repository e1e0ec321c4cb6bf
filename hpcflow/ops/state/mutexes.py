"""Mutexes: several related variables updated as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.graph.graph import control_dependencies, get_default_graph, name_scope
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import scalar
from hpcflow.ops.common.grouping import group

__all__ = ["Mutex"]

register_op("Mutex", "", "handle: resource", "container: string = ''; shared_name: string = ''",
            shape=scalar, stateful=True)
register_op("MutexAcquire", "handle: resource", stateful=True)
register_op("MutexRelease", "handle: resource", stateful=True)
# The critical sections of other writers; a lock stands for the mutex that its step holds.
register_op("MutexV2", "", "resource: resource",
            "container: string = ''; shared_name: string = ''", shape=scalar, stateful=True)
register_op("MutexLock", "mutex: resource", "mutex_lock: variant", stateful=True, shape=scalar)
register_op("ConsumeMutexLock", "mutex_lock: variant", stateful=True)
not_differentiable("Mutex", "MutexAcquire", "MutexRelease", "MutexV2", "MutexLock",
                   "ConsumeMutexLock")


class Mutex:
    """A lock that one step at a time can hold.

    ``acquire()`` waits without holding a thread; the lock then belongs to the step, until the step
    runs ``release()`` or ends, however it ends. Releasing what the step does not hold is a
    ``FailedPreconditionError``. Locks are not reentrant.

    Args:
        shared_name: share the mutex under this name between sessions.
        name: name of the op.
    """

    def __init__(self, shared_name: str | None = None, name: str = "mutex") -> None:
        self._handle = raw_ops.Mutex(shared_name=shared_name or "", name=name,
                                     container=get_default_graph()._container)

    @property
    def handle(self) -> Tensor:
        """The handle of the mutex, a resource."""
        return self._handle

    @property
    def name(self) -> str:
        """The name of the mutex's op."""
        return self._handle.op.name

    def acquire(self, name: str | None = None) -> Operation:
        """Return an op that waits until its step holds the mutex."""
        with get_default_graph().colocate_with(self._handle.op):
            return raw_ops.MutexAcquire(handle=self._handle, name=name)

    def release(self, name: str | None = None) -> Operation:
        """Return an op that lets the next step have the mutex."""
        with get_default_graph().colocate_with(self._handle.op):
            return raw_ops.MutexRelease(handle=self._handle, name=name)

    def execute(self, build: Callable[[], Any], name: str | None = None) -> Any:
        """Add what `build` adds to the graph so that it runs while the mutex is held.

        `build` returns an operation, or tensors (one, or a list): the result is the same, complete
        only when the mutex is free again. Variables must be read by ``read_value()`` inside: what
        was read outside is not protected. A sequence of such blocks may run in one step.
        """
        with name_scope(name, "locked"):
            with control_dependencies([self.acquire()]):
                result = build()
            parts = list(result) if isinstance(result, (list, tuple)) else [result]
            # Values are copied out before the next holder can change what they were read from.
            with control_dependencies(parts):
                values = [p if isinstance(p, Operation) else raw_ops.Identity(p) for p in parts]
            with control_dependencies(values):
                release = self.release()
            with control_dependencies([release]):
                values = [group(v) if isinstance(v, Operation) else raw_ops.Identity(v)
                          for v in values]
        return values if isinstance(result, (list, tuple)) else values[0]
