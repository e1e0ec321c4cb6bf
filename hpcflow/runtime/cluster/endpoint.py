"""One task's end of the network: it serves the steps of other masters and is a master itself.

A master registers its partitions with each task once. A step is then one start message to each
task, the edges between them, and one done message from each.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hpcflow import config, kernels
from hpcflow.comm import survivors
from hpcflow.comm.transfers import Transfers
from hpcflow.compiler.emit.executable import Executable
from hpcflow.errors import (
    CancelledError,
    DeadlineExceededError,
    UnavailableError,
    from_wire,
)
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.cluster.agreement import check_settings, digests
from hpcflow.runtime.cluster.health import Health
from hpcflow.runtime.cluster.lane import Lane
from hpcflow.runtime.cluster.plans import Plan
from hpcflow.runtime.cluster.preemption import watch
from hpcflow.runtime.cluster.receiving import TagSpace
from hpcflow.runtime.cluster.requests import Requests, error_bytes
from hpcflow.runtime.collective.collectives import Collectives
from hpcflow.runtime.executor.event_loop import EventLoop, event_loop
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.executor.gpu.ipc import exports
from hpcflow.runtime.executor.offload import Masters, Pace
from hpcflow.runtime.executor.tagged import LaneAddress, inline_bytes, read_value
from hpcflow.runtime.steps.compiled import report_stall
from hpcflow.runtime.steps.task import KernelContext, Task
from hpcflow.runtime.steps.tracing import step_stats
from hpcflow.runtime.wire import wire
from hpcflow.runtime.wire.lost_ranks import with_waits
from hpcflow.version import __version__

# Of the messages of every step.
_SHORT, _unpack, _START, _DONE = wire.HEADER.size, wire.HEADER.unpack, wire.START, wire.DONE


class Endpoint:
    """Connects a :class:`Task` to the other tasks over a transport."""

    def __init__(self, task: Task, transport: Any, oversubscribed: bool = True,
                 loop: EventLoop | None = None) -> None:
        kernels.load()
        self.task = task
        self.transport = transport
        self.rank = transport.rank
        self.size = transport.size
        self.loop = loop or event_loop()
        # The upper half of the tags is for collective operations.
        self.tags = TagSpace(transport.tag_limit // 2)
        self.transfers = Transfers()
        self.collectives = Collectives(self)
        self.masters = Masters(oversubscribed)
        self.health = Health(transport, self._on_lost)
        self.plans: dict[tuple[int, int], Plan] = {}
        self.runs: dict[tuple[int, int], Any] = {}  # (plan, lane) of own steps under way
        self.tagged_lanes: dict[tuple[int, int, int], Lane] = {}  # those with loops over tasks
        self._pairing = threading.Lock()
        self._contexts: dict[tuple[int, str], KernelContext] = {}
        self._plan_ids = itertools.count(1)
        self._finished_ranks: set[int] = set()
        self._finished_here = False
        self.all_finished = False
        self.closed = False
        #: Why nobody here can reach another rank any more, if ranks are to go on without a lost
        #: one.
        self.failure: UnavailableError | None = None
        #: The rank without which sessions of this one are not to go on.
        self.chief: int | None = None
        self.directory: dict[str, int] = {}  # address -> rank, kept by rank 0
        self.requests = Requests(self, {
            "describe": self._describe, "register": self._register, "lane": self._lane,
            "reset": self._reset, "resolve": self._resolve})
        self.request, self.wait_for = self.requests.ask, self.requests.wait_for
        self._handlers: dict[int, Callable[[int, bytes], None]] = {
            wire.START: self._on_start, wire.DONE: self._on_done, wire.FAILED: self._on_failed,
            wire.ABORT: self._on_abort, wire.REQUEST: self.requests.on_request,
            wire.REPLY: self.requests.on_reply, wire.LANE_OPEN: self._on_lane_open,
            wire.DEREGISTER: self._on_deregister, wire.FINISHED: self._on_finished,
            wire.ALL_FINISHED: self._on_all_finished, wire.ANNOUNCE: self._on_announce,
            wire.REPORT: self._on_report,
            wire.LOOP_VALUE: self._on_loop_value, wire.LOOP_DONE: self._on_loop_progress,
            wire.LOOP_GRANT: self._on_loop_progress,
            wire.COLLECTIVE: self.collectives.on_message, wire.HEALTH: self.health.on_message,
            wire.PREEMPT: partial(watch.on_message, self), wire.CLOSED: _on_closed,
        }
        transport.set_handler(self._on_message)
        self.loop.add(transport, oversubscribed)
        self.loop.every_while(self.collectives.tick)
        self.loop.every_while(self._look_after)

    def _on_message(self, source: int, payload: bytes) -> None:
        if len(payload) == _SHORT:  # what every step has goes before anything else
            kind, _, number, lane, _, step_id = _unpack(payload)
            if kind == _DONE:
                run = self.runs.get((number, lane))
                if run is not None and run.step_id == step_id:
                    run.done(source)
                return
            if kind == _START:
                self._start_soon(source, number, lane, step_id)
                return
        self._handlers[payload[0]](source, payload)

    # ------------------------------------------------------------ answers

    def _describe(self, source: int, body: Callable[..., Any] | str | None, blob: bytes) -> dict:
        return {"task": self.task.name, "version": __version__,
                "devices": [list(d) for d in self.task.device_infos()]}

    def _reset(self, source: int, body: Any, blob: bytes) -> dict:
        self.task.resources.clear(body)
        return {}

    def _resolve(self, source: int, body: Any, blob: bytes) -> dict:
        return {a: self.directory[a] for a in body if a in self.directory}

    # ------------------------------------------------------------ serving steps of masters

    def _register(self, source: int, body: Any, blob: bytes) -> dict:
        check_settings(body["settings"], source, self.rank)
        key = (source, body["session"])
        context = self._contexts.setdefault(
            key, KernelContext(self.task, body["session"], lambda: self.collectives))
        nodes, library = wire.decode_nodes(blob)
        step_context = context.for_step(body["together"], f"{source}:{body['plan']}",
                                        body["ranks"], library)
        key = (source, body["plan"])
        plan = Plan(self, key, nodes, body["ranks"], step_context, body["traced"])
        self.plans[key] = plan
        return digests(plan.executable)

    def _lane(self, source: int, body: Any, blob: bytes) -> dict:
        plan = self._plan(source, body["plan"])
        return plan.add_lane(body["lane"]).open_recvs()

    def _plan(self, source: int, number: int) -> Plan:
        plan = self.plans.get((source, number))
        if plan is None:
            raise _gone(source, number)
        return plan

    def _on_lane_open(self, source: int, payload: bytes) -> None:
        _, _, plan, lane, _ = wire.unpack(payload)
        body, _ = wire.parts_of(payload)
        # At once: where threads help each other, what is done soon may be done in any order.
        found = self._lane_of(source, plan, lane)
        if found is not None:  # otherwise its session has been closed
            found.open_sends(body)

    def _lane_of(self, source: int, plan: int, lane: int) -> Lane | None:
        """A lane of the master at rank `source`; None if its session has been closed."""
        found = self.plans.get((source, plan))
        return found.lanes.get(lane) if found is not None else None

    def make_lane(self, executable: Executable, ranks: dict[str, int],
                  address: LaneAddress, pace: Pace) -> Lane:
        """A new lane, known by its address to the messages inside loops."""
        lane = Lane(self.transport, executable, ranks, self.tags, self.task.by_name, address,
                    self._pairing, self.transfers, pace)
        if lane.tagged is not None:
            self.tagged_lanes[address] = lane
            lane.on_close = lambda: self.tagged_lanes.pop(address, None)
        return lane

    def _on_loop_value(self, source: int, payload: bytes) -> None:
        _, flags, plan, number, master, step_id = wire.HEADER.unpack_from(payload)
        value = read_value(payload, flags)

        def take(data: Any) -> None:
            lane = self.tagged_lanes.get((master, plan, number))
            if lane is not None:  # otherwise its session has been closed
                lane.tagged.take_value(step_id, value, data)  # type: ignore[union-attr]

        if not value.follows:
            take(inline_bytes(payload, value))
            return
        buffer = np.empty(value.nbytes, np.uint8)
        self.transport.post_recv(buffer, source, self.tags.shared(source), lambda n: take(buffer))

    def _on_loop_progress(self, source: int, payload: bytes) -> None:
        kind, _, plan, number, master, step_id = wire.HEADER.unpack_from(payload)
        lane = self.tagged_lanes.get((master, plan, number))
        if lane is not None:
            edges: Any = lane.tagged
            take = edges.take_done if kind == wire.LOOP_DONE else edges.take_grant
            take(step_id, source, payload)

    def _on_start(self, source: int, payload: bytes) -> None:
        """Start a step that has a time limit: the handler of its message."""
        deadline = time.monotonic() + wire.parts_of(payload)[0]["timeout"]
        _, _, plan, lane, step_id = wire.unpack(payload)
        self._start_soon(source, plan, lane, step_id, deadline)

    def _start_soon(self, source: int, number: int, lane: int, step_id: int,
                    deadline: float | None = None) -> None:
        plan = self.plans.get((source, number))
        if plan is None:
            self._refuse(source, number, lane, step_id, _gone(source, number))
        elif plan.pace.longest < tuning.PIECE_SHORT_SECONDS:
            self._start(source, plan, lane, step_id, deadline)
        else:
            self.loop.soon(partial(self._start, source, plan, lane, step_id, deadline))

    def _start(self, source: int, plan: Plan, lane_number: int, step_id: int,
               deadline: float | None) -> None:
        try:
            if plan.executable.resources_version != self.task.resources.version:
                plan.refresh()
            lane = plan.lanes.get(lane_number)
            if lane is None:
                raise _gone(*plan.key)
        except Exception as e:  # noqa: BLE001  (the master gets it)
            self._refuse(*plan.key, lane_number, step_id, e)
            return
        self.masters.came(source)
        step = lane.new_step()
        step.step_id = step_id
        step.deadline = deadline
        lane.begin(step)
        if lane.stop is not None and lane.stop[0] == step_id:  # its end came before its beginning
            step.cancel(from_wire(lane.stop[1]))
        pace = plan.pace
        if pace.longest < tuning.PIECE_SHORT_SECONDS:
            pace.note(step.start)
        else:
            pace.run(step.start)

    def _refuse(self, source: int, plan: int, lane: int, step_id: int, error: Exception) -> None:
        """A step that the master at rank `source` has begun does not begin here: tell it."""
        self.transport.send_message(source, wire.pack(
            wire.DONE, plan, lane, step_id, flags=1, blob=error_bytes(error)))

    def _wake(self, step: Step) -> None:
        self.loop.soon(partial(step.pace.note, step.advance))  # type: ignore[arg-type, union-attr]

    def served(self, source: int, plan: int, lane: int, step: Step) -> None:
        """A step of the master at rank `source` has ended here: tell it."""
        stop = step.lane.stop
        if stop is not None and stop[0] == step.step_id:  # its master has given it up
            step.withdraw(step.error or from_wire(stop[1]))
        if step.error is None and step.trace is None and step.deadline is None and not (
                step.left or step.lane.stopped_at):
            message = wire.HEADER.pack(wire.DONE, 0, plan, lane, 0, step.step_id)
        else:
            failed = step.error is not None
            blob = error_bytes(step.error) if failed else (
                step_stats(step).SerializeToString() if step.trace is not None else b"")
            message = wire.pack(wire.DONE, plan, lane, step.step_id, flags=int(failed),
                                body=_notes(step), blob=blob)
        step.lane.end()
        if step.executable.has_edges or not self.loop.is_behind():
            self.transport.send_message(source, message)
        else:  # it may have woken steps whose values others wait for: these go first
            self.loop.soon(partial(self.transport.send_message, source, message))
        step.lane.prepare(step)

    def tell_failure(self, source: int, plan: int, lane: int, step: Step) -> None:
        """A step of the master at rank `source` has failed here: tell it why."""
        self.transport.send_message(source, wire.pack(
            wire.FAILED, plan, lane, step.step_id, blob=error_bytes(step.error)))

    def _on_abort(self, source: int, payload: bytes) -> None:
        _, _, number, lane_number, step_id = wire.unpack(payload)
        _, blob = wire.parts_of(payload)
        plan = self.plans.get((source, number))
        lane = plan.lanes.get(lane_number) if plan is not None else None
        if lane is None:
            return
        # At once: the lane may be used again for the next step before `abort` runs.
        lane.stop = (step_id, blob)
        lane.withdraw(step_id, from_wire(blob))

        def abort() -> None:
            step = lane.step
            if step is not None and step.step_id == step_id and not step.finished:
                if step.waiting or step.loops is not None:
                    lane.stopped_at = (f"on {self.task.name} (rank {self.rank}):\n"
                                       f"{step.describe_waiting()}")
                step.cancel(from_wire(blob))

        self.loop.soon(abort)

    def _on_report(self, source: int, payload: bytes) -> None:
        """The master of a step asks what its part here waits for."""
        _, _, number, lane_number, step_id = wire.unpack(payload)
        lane = self._lane_of(source, number, lane_number)
        if lane is not None and lane.step is not None and lane.step.step_id == step_id:
            report_stall(lane.step, config.flags.stall_seconds)

    def _on_deregister(self, source: int, payload: bytes) -> None:
        body, _ = wire.parts_of(payload)

        def deregister() -> None:
            for number in body["plans"]:
                plan = self.plans.pop((source, number), None)
                if plan is not None:
                    plan.close()
            self._contexts.pop((source, body["session"]), None)

        self.loop.soon(deregister)

    # ------------------------------------------------------------ own steps elsewhere

    def next_plan(self) -> int:
        """A number for a plan of which this endpoint is the master."""
        return next(self._plan_ids)

    def _on_done(self, source: int, payload: bytes) -> None:
        """The end of a part that failed, or was traced."""
        _, failed, plan, lane, step_id = wire.unpack(payload)
        run = self.runs.get((plan, lane))
        if run is not None and run.step_id == step_id:
            notes, blob = wire.parts_of(payload)
            run.part_done(source, from_wire(blob) if failed else None, b"" if failed else blob,
                          notes)

    def _on_failed(self, source: int, payload: bytes) -> None:
        _, _, plan, lane, step_id = wire.unpack(payload)
        run = self.runs.get((plan, lane))
        if run is not None and run.step_id == step_id:
            error = from_wire(wire.parts_of(payload)[1])
            self.loop.soon(partial(run.fail, error, source))

    # ------------------------------------------------------------ the end of the job

    def finish(self) -> None:
        """This rank has nothing more to do of its own; rank 0 learns it."""
        if self._finished_here or self.closed:
            return
        self._finished_here = True
        self.transport.send_message(0, wire.pack(wire.FINISHED))

    def serve_until_all_finished(self) -> None:
        """Serve the others' steps until every rank has finished."""
        self.finish()
        lost = self.health.lost
        self.loop.run_until(lambda: self.all_finished or self.closed or lost)
        if lost and not (self.all_finished or self.closed):
            if survivors.wanted():
                raise self.lost_error(min(lost))
            # The others come to know it too; then the first that is left ends the job for all.
            first = next(r for r in range(self.size) if r not in lost)
            patience = tuning.LAST_WORDS_SECONDS * (1 if first == self.rank else 3)
            with contextlib.suppress(DeadlineExceededError):
                self.loop.run_until(lambda: False, time.monotonic() + patience)
            raise with_waits(self.lost_error(min(lost)), "the end of all ranks' programs")

    def _on_finished(self, source: int, payload: bytes) -> None:
        self._finished_ranks.add(source)
        if len(self._finished_ranks) == self.size:
            for rank in range(self.size):
                self.transport.send_message(rank, wire.pack(wire.ALL_FINISHED))

    def _on_all_finished(self, source: int, payload: bytes) -> None:
        self.all_finished = True

    @property
    def is_finished(self) -> bool:
        """True if this rank begins no steps of its own any more."""
        return self._finished_here or self.closed

    def nodes_of(self, ranks: Sequence[int]) -> list[list[int]]:
        """The positions in `ranks` of those that share a node, node by node."""
        numbers = getattr(getattr(self.transport, "comms", None), "nodes", None)
        nodes: dict[int, list[int]] = {}
        for i, rank in enumerate(ranks):
            nodes.setdefault(numbers[rank] if numbers else 0, []).append(i)
        return list(nodes.values())

    @property
    def origins(self) -> tuple[int, ...]:
        """The ranks that those that are left had at first; none if none is lost."""
        comms = getattr(self.transport, "comms", None)
        return comms.origins if comms is not None and (
            comms.origins != tuple(range(self.size))) else ()

    # ------------------------------------------------------------ ranks that are lost

    def _look_after(self) -> None:
        """Called a few times a second."""
        if self.all_finished or self.closed:
            return
        if getattr(self.transport, "broken", False):
            self._fail()
        else:
            self.health.tick()

    def _fail(self) -> None:
        """No message gets through any more: give up all that waits for one."""
        if self.failure is None:
            self.failure = self.health.give_up_all()
            for rank in range(self.size):
                self._on_lost(rank, "")

    def lost_error(self, rank: int) -> UnavailableError:
        """The error of whatever needs a rank that is lost."""
        chief = ". It was the chief, and nobody else saves what this worker learns"
        return self.failure or UnavailableError(
            None, None,
            f"Rank {rank} is lost: {self.health.lost[rank]}{chief if rank == self.chief else ''}")

    def _on_lost(self, rank: int, why: str) -> None:
        """Nothing may wait for `rank` any more: own steps, answers, steps that it began here, and
        collective operations end with an error."""
        error = self.lost_error(rank)
        self.loop.soon(partial(self._give_up, rank, error))

    def _give_up(self, rank: int, error: UnavailableError) -> None:
        self.requests.give_up(rank, error)
        for run in list(self.runs.values()):
            run.rank_lost(rank, error)
        for (master, _), plan in list(self.plans.items()):
            for lane in plan.lanes.values():
                step = lane.step
                if master == rank and step is not None and not step.finished:
                    step.cancel(error)
        self.collectives.rank_lost(rank, error)
        exports.rank_lost(rank)

    # ------------------------------------------------------------ directory

    def announce(self, address: str) -> None:
        """Tell rank 0 that `address` is this rank."""
        self.transport.send_message(0, wire.pack(wire.ANNOUNCE, body=address))

    def _on_announce(self, source: int, payload: bytes) -> None:
        self.directory[wire.parts_of(payload)[0]] = source

    def replace(self, other: Endpoint) -> None:
        """Go on in the place of another endpoint of the same transport, which served no task."""
        self.loop.stop_ticking(self.collectives.tick)
        self.loop.stop_ticking(other._look_after)
        self.collectives = other.collectives
        self.collectives.endpoint = self
        self._handlers[wire.COLLECTIVE] = self.collectives.on_message
        other.closed = True
        self.loop.remove(self.transport)
        self.loop.add(self.transport, self.transport.comms.oversubscribed)

    def close(self) -> None:
        """Stop serving."""
        if not self.closed:
            self.closed = True
            self.loop.remove(self.transport)
            plans, self.plans = self.plans, {}
            for plan in plans.values():
                plan.close()
            self.loop.stop_ticking(self.collectives.tick)
            self.loop.stop_ticking(self._look_after)
            self.transport.close()


def _on_closed(source: int, payload: bytes) -> None:
    """Another rank has closed memory of this one's GPU."""
    exports.done(wire.parts_of(payload)[0], source)


def _gone(source: int, plan: int) -> CancelledError:
    return CancelledError(None, None, f"The session of rank {source} that made plan {plan} has "
                          "been closed")


def _notes(step: Step) -> dict[str, Any] | None:
    """Return the notes that a part of a step adds when it is done, or None: what it waited for when
    it was stopped, and what it has done to queues, for the case that the step fails."""
    notes: dict[str, Any] = {}
    if step.lane.stopped_at:
        notes["waits"] = [step.lane.stopped_at]
    left = step.stays() if step.deadline is not None or step.left else []
    if left:
        notes["left"] = left
    return notes or None
