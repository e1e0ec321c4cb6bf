"""A task: its name, its devices and its resources, as one rank (or one process) has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.base.hooks import Hook
from hpcflow.compiler.distribute.place import DeviceInfo
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.kernels.registry import KernelNode
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.collective.collective_parts import Layout, solo
from hpcflow.runtime.collective.collective_run import Operation, Schedule, SoloOperation
from hpcflow.runtime.collective.collective_work import work_of
from hpcflow.runtime.executor.device import Device, make_devices
from hpcflow.runtime.executor.gpus import GpuOptions

if TYPE_CHECKING:
    from hpcflow.graph.attr_values import Func

#: ``function_calls(context, library)`` calls functions of the graph; `function_calls` provides it.
function_calls = Hook("the calls of functions")


class Task:
    """The local part of a cluster: devices, and the resources that outlive sessions."""

    def __init__(self, job: str = "localhost", index: int = 0,
                 device_counts: dict[str, int] | None = None,
                 gpus: GpuOptions | None = None,
                 resources: ResourceManager | None = None) -> None:
        self.job = job
        self.index = index
        self.name = f"/job:{job}/replica:0/task:{index}"
        self.resources = resources or ResourceManager()
        self.devices: list[Device] = make_devices(
            self.name, self.resources, device_counts, gpus)
        self.by_name = {d.name: d for d in self.devices}

    @property
    def cpu(self) -> Device:
        """The first CPU device: where feeds and fetches live."""
        return next(d for d in self.devices if d.type == "CPU")

    def device_infos(self) -> list[DeviceInfo]:
        """The devices as the placer sees them."""
        return [DeviceInfo(d.name, d.type, d.priority, d.memory_limit(), d.description,
                           incarnation=d.incarnation)
                for d in self.devices]


class KernelContext:
    """The part of a session that its kernels see.

    ``op_state`` keeps one value per op and session (random generators, counters), whatever steps
    the op is part of.
    """

    def __init__(self, task: Task, session_id: str = "",
                 collectives: Callable[[], Any] = lambda: None) -> None:
        self.collectives = collectives
        self.task = task
        self.session_id = session_id
        self.resources = task.resources
        self.equal_bits = False  # of the functions that kernels call, too
        self._states: dict[str, Any] = {}
        self._calls: dict[FunctionLibrary | None, Any] = {}
        self._lock = threading.Lock()

    def for_step(self, together: dict[str, list[int]], name: str,
                 ranks: dict[str, int] | None = None,
                 library: FunctionLibrary | None = None) -> StepContext:
        """The context of one compiled step: `together` says on which ranks the ops of a type
        that works collectively are, `name` tells the step from those of other masters, `ranks`
        are those of the tasks (None in a session without a cluster), `library` has the functions
        that kernels may call."""
        return StepContext(self, together, name, ranks, library)

    def op_state(self, name: str, create: Callable[[], Any]) -> Any:
        """The state of op `name` in this session, made by `create()` on first use."""
        with self._lock:
            if name not in self._states:
                self._states[name] = create()
            return self._states[name]

    def calls(self, library: FunctionLibrary | None) -> Any:
        """Return the object that calls the functions of `library` in this session."""
        with self._lock:
            if library not in self._calls:
                self._calls[library] = function_calls(self, library or FunctionLibrary())
            return self._calls[library]


class StepContext:
    """The part of a session and of a compiled step that the kernels of the step see."""

    def __init__(self, session: KernelContext, together: dict[str, list[int]], name: str,
                 ranks: dict[str, int] | None = None,
                 library: FunctionLibrary | None = None) -> None:
        self._session = session
        self._library = library
        self._ranks = ranks
        self._schedule: Schedule | None = None
        self._operations: dict[str, Operation] = {}
        self._together = together
        self._name = name
        self.task = session.task
        self.resources = session.resources
        self.op_state = session.op_state

    def ask_for_equal_bits(self) -> None:
        """Let the functions that are compiled from now on keep their bits, as the step does."""
        self._session.equal_bits = True

    def function(self, func: Func, dtypes: list, dims: list) -> Any:
        """The function of the graph `func` for inputs of such types and shapes, to be called with
        their values (a ``CompiledFunction``). Raises ``InvalidArgumentError`` if it does not take
        them, or does not exist."""
        return self._calls().make(func, dtypes, dims)

    def _calls(self) -> Any:
        return self._session.calls(self._library)

    def collective_layout(self) -> Layout:
        """Who takes part in collective operations: all tasks of this one's job; in a session
        without a cluster, all ranks."""
        group = self._group()
        return solo() if group is None else group.layout

    def collective(self, node: KernelNode) -> Any:
        """The collective operation that an op is; its ``start`` is the kernel's function."""
        group = self._group()
        if group is None:
            return SoloOperation(work_of(node, solo(), self._origins()))
        if self._schedule is None:
            shared = any(len(set(ranks)) > 1 for ranks in self._together.values())
            self._schedule = Schedule(group, shared)
        found = self._operations[node.name] = Operation(
            self._schedule, node.name, node.op_type, node.attr("key", b"").decode(),
            work_of(node, group.layout, self._origins()))
        return found

    def _origins(self) -> Sequence[int]:
        """The numbers that the members of the group had before any was lost; none if none is."""
        collectives = self._session.collectives()
        origins = () if collectives is None else collectives.endpoint.origins
        return origins if self._ranks is None or not origins else sorted(self._members())

    def _members(self) -> dict[int, int]:
        """Rank by index of the tasks of this one's job."""
        job = f"/job:{self.task.job}/"
        return {int(n.rpartition(":")[2]): r for n, r in (self._ranks or {}).items()
                if n.startswith(job)}

    def place(self, name: str, index: int) -> Callable[[], Any]:
        """Return a function that gives the memory where the reduction `name` reads its input
        `index`, now that its step runs; it gives None if there is none."""
        operations = self._operations

        def find() -> Any:
            operation = operations.get(name)
            return None if operation is None else operation.place(index)

        return find

    def _group(self) -> Any:
        """The group of this task's collective operations; None if it is alone."""
        collectives = self._session.collectives()
        if collectives is None:
            return None
        if self._ranks is None:
            ranks = list(range(collectives.endpoint.size))
        else:
            peers = self._members()
            ranks = [peers[i] for i in sorted(peers)]
        return collectives.group(ranks) if len(ranks) > 1 else None

    def take_schedule(self) -> Schedule | None:
        """The collective operations of the kernels made since the last call, in order."""
        schedule, self._schedule = self._schedule, None
        if schedule is not None:
            schedule.close()
        return schedule
