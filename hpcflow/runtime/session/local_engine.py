"""The engine of a session without a cluster: it compiles and runs steps in this process."""

from __future__ import annotations

import time
from typing import Any

from hpcflow import config
from hpcflow.compiler.emit.executable import Executable
from hpcflow.graph.operation import Dims, Tensor
from hpcflow.runtime.session.shape_specialization import ByShapes
from hpcflow.runtime.steps.compiled import (
    LocalStep,
    StepOptions,
    compiled_form,
    library_of,
    make_parts,
    wants_equal_bits,
)
from hpcflow.runtime.steps.runs import Runs
from hpcflow.runtime.steps.task import KernelContext, Task
from hpcflow.runtime.steps.tracing import instrument, partition_graphs


def world_collectives() -> Any:
    """Return the means by which a session without a cluster reaches the other ranks of the job;
    None if there are none."""
    from hpcflow.runtime.cluster import server

    return server.world_collectives()


class LocalEngine:
    """Runs steps in this process, on a task of the session's own."""

    def __init__(self, options: StepOptions) -> None:
        self.options = options
        self.task = Task(device_counts=options.device_counts, gpus=options.gpus)
        self._context = KernelContext(self.task, collectives=world_collectives)
        self.running = Runs()

    @property
    def version(self) -> int:
        """Grows when what compiled steps hold becomes stale."""
        return self.task.resources.version

    def devices(self) -> list:
        """The devices of the task."""
        return self.task.device_infos()

    def connect(self) -> None:
        """There is no other task."""

    def follow_chief(self) -> None:
        """There is no other task."""

    def compile(self, elements: list, feeds: list[Tensor], remembered: dict[str, str],
                session_id: str, incremental: bool = False, traced: bool = False) -> LocalStep:
        """Compile a step; `incremental` if its feeds arrive one by one, `traced` if it keeps a
        record of what ran."""
        start = time.perf_counter()
        step = self._compile(elements, feeds, remembered, incremental, traced)
        seconds = time.perf_counter() - start
        keeps_bits = config.flags.deterministic or wants_equal_bits(elements)
        # Each rank would compile for certain shapes at a time of its own, and the collective
        # operations of such a step are other ones, whose messages lack the shapes.
        meets_ranks = step.executable.collectives is not None
        if not (incremental or traced or keeps_bits or meets_ranks) and (
                self.options.optimize and compiled_form() and ByShapes.serves(feeds)):
            step.run = ByShapes(
                step.run, feeds, seconds,
                lambda fed: self._compile(elements, feeds, remembered, fed=fed).run)
        return step

    def _compile(self, elements: list, feeds: list[Tensor], remembered: dict[str, str],
                 incremental: bool = False, traced: bool = False,
                 fed: tuple[Dims, ...] | None = None) -> LocalStep:
        parts = make_parts(elements, feeds, self.task, self.task.device_infos(), self._context,
                           remembered, self.options, incremental, fed)
        graphs = partition_graphs(parts) if traced else []
        executable = Executable(parts.get(self.task.name, []), self.task.name, self.task.by_name,
                                self._context.for_step({}, "", None, library_of(elements, feeds)),
                                compiled_form() and not traced, len(elements))
        if traced:
            instrument(executable, self.task.by_name)
        step = LocalStep(executable, [e.name for e in elements], len(feeds), self.options.timeout,
                         self.running)
        step.partition_graphs = graphs
        return step

    def reset(self, containers: list[str] | None) -> None:
        """Clear resource containers."""
        self.task.resources.clear(containers)

    def close(self) -> None:
        """Cancel what runs, and forget the task's resources."""
        self.running.close()
        self.task.resources.clear()
        for device in self.task.devices:
            device.close()
