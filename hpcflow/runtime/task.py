"""A task: its name, its devices and its resources, as one rank (or one process) has them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hpcflow.compiler.place import DeviceInfo
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.device import Device, make_devices


class Task:
    """The local part of a cluster: devices, and the resources that outlive sessions."""

    def __init__(self, job: str = "localhost", index: int = 0,
                 device_counts: dict[str, int] | None = None) -> None:
        self.job = job
        self.index = index
        self.name = f"/job:{job}/replica:0/task:{index}"
        self.resources = ResourceManager()
        self.devices: list[Device] = make_devices(self.name, self.resources, device_counts)
        self.by_name = {d.name: d for d in self.devices}

    @property
    def cpu(self) -> Device:
        """The first CPU device: where feeds and fetches live."""
        return next(d for d in self.devices if d.type == "CPU")

    def device_infos(self) -> list[DeviceInfo]:
        """The devices as the placer sees them."""
        return [DeviceInfo(d.name, d.type, d.priority) for d in self.devices]


class KernelContext:
    """What kernels see of the session they run in.

    ``op_state`` keeps one value per op and session (random generators, counters), whatever steps
    the op is part of.
    """

    def __init__(self, task: Task, session_id: str = "", meetings: Any = None) -> None:
        self.meetings = meetings
        self.task = task
        self.session_id = session_id
        self.resources = task.resources
        self._states: dict[str, Any] = {}
        self._lock = threading.Lock()

    def for_step(self, together: dict[str, list[int]], name: str) -> StepContext:
        """The context of one compiled step: `together` says on which ranks the ops of a type
        that works collectively are, `name` tells the step from those of other masters."""
        return StepContext(self, together, name)

    def op_state(self, name: str, create: Callable[[], Any]) -> Any:
        """The state of op `name` in this session, made by `create()` on first use."""
        with self._lock:
            if name not in self._states:
                self._states[name] = create()
            return self._states[name]


class StepContext:
    """What kernels see of the session and of the step they are compiled for."""

    def __init__(self, session: KernelContext, together: dict[str, list[int]], name: str) -> None:
        self._session = session
        self._together = together
        self._name = name
        self.task = session.task
        self.resources = session.resources
        self.op_state = session.op_state

    def group_of(self, op_type: str) -> list[int]:
        """The ranks on which ops of this type run in the step; empty if they cannot meet: outside
        MPI, or when a rank has several of them."""
        ranks = self._together.get(op_type, [])
        meetings = self._session.meetings
        if meetings is None or not meetings.possible or len(set(ranks)) < len(ranks):
            return []
        return ranks

    def meet(self, op_type: str, step: Any, work: Callable[[Any], Any]) -> Any:
        """Run ``work(communicator)`` together with the other ranks of the group; blocks the
        calling (background) thread. Raises ``CancelledError`` if the step fails first."""
        key = f"{self._name}:{step.step_id}:{op_type}"
        return self._session.meetings.hold(key, self.group_of(op_type),
                                           lambda: step.error is not None, work)
