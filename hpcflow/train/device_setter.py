"""replica_device_setter: variables to the parameter servers, everything else to the worker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.device_spec import DeviceSpec, merge_names
from hpcflow.framework.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from hpcflow.graph.operation import Operation

# What lives on parameter servers.
STATE_TYPES = ("Variable", "VariableV2", "VarHandleOp")


class _RoundRobin:
    """Deals operations to tasks in turn."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._next = 0

    def __call__(self, op: Any) -> int:
        task = self._next
        self._next = (self._next + 1) % self._tasks
        return task


def replica_device_setter(ps_tasks: int = 0, ps_device: str = "/job:ps",
                          worker_device: str = "/job:worker", merge_devices: bool = True,
                          cluster: Any = None, ps_ops: list[str] | None = None,
                          ps_strategy: Callable | None = None) -> Callable | None:
    """Return a device function for ``hf.device`` that spreads variables over PS tasks.

    Args:
        ps_tasks: number of tasks of the PS job; taken from `cluster` if given.
        ps_device, worker_device: device strings of the PS job and of the worker.
        merge_devices: whether an inner ``hf.device`` completes rather than replaces the choice.
        cluster: a ClusterSpec (or what makes one).
        ps_ops: op types that go to PS tasks (the variable types by default).
        ps_strategy: function of the op that gives the PS task; in turn by default.

    Returns None when there are no PS tasks. Raises ``TypeError`` if `ps_strategy` is not callable.
    """
    if cluster is not None:
        spec = ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        ps_tasks = spec.num_tasks(job) if job in spec.jobs else 0
        if not ps_tasks:
            _say_without_servers(spec, job)
    if not ps_tasks:
        return None
    if ps_strategy is None:
        ps_strategy = _RoundRobin(ps_tasks)
    if not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    types = STATE_TYPES if ps_ops is None else tuple(ps_ops)

    def choose(op: Operation) -> str:
        current = op.device or ""
        if not merge_devices and current:
            return current
        if op.type in types:
            wanted = DeviceSpec.from_string(ps_device)
            own = DeviceSpec.from_string(current)
            tasks_are_open = wanted.task is None and own.task is None
            if wanted.job and tasks_are_open and own.job in (None, wanted.job):
                wanted.task = ps_strategy(op)
            return merge_names(wanted.to_string(), current)
        return merge_names(worker_device or "", current)

    return choose


def _say_without_servers(spec: ClusterSpec, job: str | None) -> None:
    """Tell a program that spreads variables over servers that its cluster of several has none."""
    others = sum(map(spec.num_tasks, spec.jobs))
    if others > 1:
        print(f"hpcflow: none of the {others} tasks of the cluster is of job '{job}': each keeps "
              "variables of its own, and those that are not the chief wait for ever for theirs to "
              f"be initialized. With a server: hpcflow run -n {others + 1} --ps 1 PROGRAM",
              file=sys.stderr, flush=True)
