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

    def __init__(self, task: Task, session_id: str = "") -> None:
        self.task = task
        self.session_id = session_id
        self.resources = task.resources
        self._states: dict[str, Any] = {}
        self._lock = threading.Lock()

    def op_state(self, name: str, create: Callable[[], Any]) -> Any:
        """The state of op `name` in this session, made by `create()` on first use."""
        with self._lock:
            if name not in self._states:
                self._states[name] = create()
            return self._states[name]
