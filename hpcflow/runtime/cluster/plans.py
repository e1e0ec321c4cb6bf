"""Plans: partitions that masters registered with a task, and their lanes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hpcflow.compiler.emit.executable import Executable
from hpcflow.errors import CancelledError, InternalError
from hpcflow.runtime.cluster.lane import Lane
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.executor.offload import Pace
from hpcflow.runtime.executor.tagged import LaneAddress
from hpcflow.runtime.steps.compiled import compiled_form
from hpcflow.runtime.steps.task import StepContext
from hpcflow.runtime.steps.tracing import instrument

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.endpoint import Endpoint


class Plan:
    """A partition that a master registered here, with its lanes."""

    def __init__(self, endpoint: Endpoint, key: tuple[int, int], nodes: list,
                 ranks: dict[str, int], context: StepContext, traced: bool) -> None:
        self.endpoint = endpoint
        self.key = key
        self.traced = traced
        self.nodes = nodes
        self.ranks = ranks
        self.context = context
        self.lanes: dict[int, Lane] = {}
        self.pace = Pace(endpoint.masters)
        # What every message of a step needs, looked up once.
        self._soon, self._run = endpoint.loop.soon, self.pace.run
        self._compiled = compiled_form() and not traced
        self.executable = self._build()

    def _build(self) -> Executable:
        task = self.endpoint.task
        executable = Executable(self.nodes, task.name, task.by_name, self.context,
                                self._compiled)
        return instrument(executable, task.by_name) if self.traced else executable

    def refresh(self) -> None:
        """Build again: the resources that the kernels hold were cleared."""
        fresh = self._build()
        last = self.executable
        for edges, others in ((fresh.sends, last.sends), (fresh.recvs, last.recvs),
                              (fresh.loop_sends, last.loop_sends),
                              (fresh.loop_recvs, last.loop_recvs)):
            if [e.key for e in edges] != [e.key for e in others]:
                raise InternalError(None, None, "A rebuilt partition has other edges than before")
        self.executable = fresh
        for lane in self.lanes.values():
            lane.rebind(fresh)

    def add_lane(self, number: int) -> Lane:
        """Make a lane: its receive tags are taken now, its send tags come from the receivers."""
        lane = self.endpoint.make_lane(self.executable, self.ranks, LaneAddress(*self.key, number),
                                       self.pace)
        lane.wake = self._wake
        lane.on_done = partial(self.endpoint.served, *self.key, number)
        lane.on_failure = partial(self.endpoint.tell_failure, *self.key, number)
        self.lanes[number] = lane
        return lane

    def _wake(self, step: Step) -> None:
        self._soon(partial(self._run, step.advance))

    def close(self) -> None:
        """Give back what the lanes own; a step that is under way is stopped first."""
        for lane in self.lanes.values():
            if lane.step is None or lane.step.finished:
                lane.close()
            else:
                lane.is_left = True
                lane.step.cancel(CancelledError(None, None, "The session of this step was closed"))
        self.lanes.clear()
