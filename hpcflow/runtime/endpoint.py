"""One task's end of the network: it serves the steps of other masters and is a master itself.

A master registers its partitions with each task once. A step is then one start message to each
task, the edges between them, and one done message from each.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from hpcflow import config, kernels
from hpcflow.compiler.executable import Executable
from hpcflow.compiler.place import DeviceInfo
from hpcflow.errors import (
    FailedPreconditionError,
    InternalError,
    OpError,
    UnavailableError,
    from_wire,
)
from hpcflow.runtime import wire
from hpcflow.runtime.compiled import compiled_form, report_stall
from hpcflow.runtime.executor import Step
from hpcflow.runtime.lane import Lane, TagSpace
from hpcflow.runtime.loop import EventLoop, event_loop
from hpcflow.runtime.meeting import Meetings
from hpcflow.runtime.task import KernelContext, StepContext, Task
from hpcflow.version import __version__


class Reply:
    """The answer to a request, once it is there."""

    __slots__ = ("body", "blob", "error", "done")

    def __init__(self) -> None:
        self.body: Any = None
        self.blob = b""
        self.error: BaseException | None = None
        self.done = False


class Plan:
    """A partition that a master registered here, with its lanes."""

    def __init__(self, endpoint: Endpoint, nodes: list, ranks: dict[str, int],
                 context: StepContext) -> None:
        self.endpoint = endpoint
        self.nodes = nodes
        self.ranks = ranks
        self.context = context
        self.lanes: dict[int, Lane] = {}
        self.executable = self._build()

    def _build(self) -> Executable:
        task = self.endpoint.task
        return Executable(self.nodes, task.name, task.by_name, self.context, compiled_form())

    def refresh(self) -> None:
        """Build again if the resources that the kernels hold were cleared."""
        version = self.endpoint.task.resources.version
        if self.executable.resources_version == version:
            return
        fresh = self._build()
        for edges, others in ((fresh.sends, self.executable.sends),
                              (fresh.recvs, self.executable.recvs)):
            if [e.key for e in edges] != [e.key for e in others]:
                raise InternalError(None, None, "A rebuilt partition has other edges than before")
        self.executable = fresh
        for lane in self.lanes.values():
            lane.rebind(fresh)

    def add_lane(self, number: int) -> Lane:
        """Make a lane: its receive tags are taken now, its send tags come from the receivers."""
        lane = Lane(self.endpoint.transport, self.executable, self.ranks, self.endpoint.tags,
                    self.endpoint.task.by_name)
        self.lanes[number] = lane
        return lane

    def tags_of(self, lane: Lane) -> dict[str, int]:
        """Edge name -> tag of everything that `lane` receives."""
        return {e.key.decode(): t for e, t in zip(self.executable.recvs, lane.recv_tags,
                                                  strict=True)}

    def close(self) -> None:
        """Give back what the lanes own."""
        for lane in self.lanes.values():
            lane.close()
        self.lanes.clear()


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
        self.tags = TagSpace(transport.tag_limit)
        self.meetings = Meetings(transport)
        self.plans: dict[tuple[int, int], Plan] = {}
        self.runs: dict[tuple[int, int], Any] = {}  # (plan, lane) of own steps under way
        self._contexts: dict[tuple[int, str], KernelContext] = {}
        self._plan_ids = itertools.count(1)
        self._request_ids = itertools.count(1)
        self._requests: dict[int, Reply] = {}
        self._finished_ranks: set[int] = set()
        self._finished_here = False
        self.all_finished = False
        self.closed = False
        self.directory: dict[str, int] = {}  # address -> rank, kept by rank 0
        self._handlers: dict[int, Callable[[int, bytes], None]] = {
            wire.START: self._on_start, wire.DONE: self._on_done, wire.FAILED: self._on_failed,
            wire.ABORT: self._on_abort, wire.REQUEST: self._on_request,
            wire.REPLY: self._on_reply, wire.LANE_OPEN: self._on_lane_open,
            wire.DEREGISTER: self._on_deregister, wire.FINISHED: self._on_finished,
            wire.ALL_FINISHED: self._on_all_finished, wire.ANNOUNCE: self._on_announce,
            wire.MEETING: self.meetings.on_message, wire.REPORT: self._on_report,
        }
        self._answers = {"describe": self._describe, "register": self._register,
                         "lane": self._lane, "reset": self._reset, "resolve": self._resolve}
        transport.set_handler(self._on_message)
        self.loop.add(transport, oversubscribed)

    def _on_message(self, source: int, payload: bytes) -> None:
        self._handlers[payload[0]](source, payload)

    # ------------------------------------------------------------ requests

    def request(self, rank: int, what: str, body: Any = None, blob: bytes = b"") -> Reply:
        """Ask `rank`; the reply fills in while the loop runs."""
        reply = Reply()
        number = next(self._request_ids)
        self._requests[number] = reply
        self.transport.send_message(rank, wire.pack(wire.REQUEST, step=number,
                                                    body={"what": what, "body": body}, blob=blob))
        return reply

    def wait_for(self, replies: list[Reply], what: str, timeout: float | None = None) -> None:
        """Drive until all replies are there; raises the first error among them.

        Raises ``DeadlineExceededError`` after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self.loop.run_until(lambda: all(r.done for r in replies), deadline, what)
        for reply in replies:
            if reply.error is not None:
                raise reply.error

    def _on_request(self, source: int, payload: bytes) -> None:
        number = wire.unpack(payload)[4]
        body, blob = wire.parts_of(payload)
        self.loop.soon(partial(self._answer, source, number, body, blob))

    def _answer(self, source: int, number: int, body: Any, blob: bytes) -> None:
        try:
            result = self._answers[body["what"]](source, body["body"], blob)
            message = wire.pack(wire.REPLY, step=number, body=result)
        except Exception as e:  # noqa: BLE001  (the asker gets it)
            message = wire.pack(wire.REPLY, step=number, flags=1, blob=_error_bytes(e))
        if not self.closed:
            self.transport.send_message(source, message)

    def _on_reply(self, source: int, payload: bytes) -> None:
        _, failed, _, _, number = wire.unpack(payload)
        reply = self._requests.pop(number, None)
        if reply is None:
            return
        body, blob = wire.parts_of(payload)
        if failed:
            reply.error = from_wire(blob)
        else:
            reply.body, reply.blob = body, blob
        reply.done = True

    def _describe(self, source: int, body: Any, blob: bytes) -> dict:
        return {"task": self.task.name, "version": __version__,
                "devices": [list(d) for d in self.task.device_infos()]}

    def _reset(self, source: int, body: Any, blob: bytes) -> dict:
        self.task.resources.clear(body)
        return {}

    def _resolve(self, source: int, body: Any, blob: bytes) -> dict:
        return {a: self.directory[a] for a in body if a in self.directory}

    # ------------------------------------------------------------ serving steps of masters

    def _register(self, source: int, body: Any, blob: bytes) -> dict:
        if body["version"] != __version__:
            raise FailedPreconditionError(
                None, None, f"Rank {source} runs hpcflow {body['version']}, but rank {self.rank} "
                f"runs {__version__}: install the same version on every rank")
        key = (source, body["session"])
        context = self._contexts.setdefault(
            key, KernelContext(self.task, body["session"], self.meetings))
        nodes = wire.decode_nodes(blob)
        step_context = context.for_step(body["together"], f"{source}:{body['plan']}")
        self.plans[(source, body["plan"])] = Plan(self, nodes, body["ranks"], step_context)
        return {}

    def _lane(self, source: int, body: Any, blob: bytes) -> dict:
        plan = self._plan(source, body["plan"])
        lane = plan.add_lane(body["lane"])
        return plan.tags_of(lane)

    def _plan(self, source: int, number: int) -> Plan:
        plan = self.plans.get((source, number))
        if plan is None:
            raise InternalError(None, None,
                                f"Rank {source} has no plan {number} at rank {self.rank}")
        return plan

    def _on_lane_open(self, source: int, payload: bytes) -> None:
        _, _, plan, lane, _ = wire.unpack(payload)
        body, _ = wire.parts_of(payload)

        def open_lane() -> None:
            self._plan(source, plan).lanes[lane].open_sends(body)

        self.loop.soon(open_lane)

    def _on_start(self, source: int, payload: bytes) -> None:
        self.loop.soon(partial(self._start, source, *wire.unpack(payload)[2:]))

    def _start(self, source: int, number: int, lane_number: int, step_id: int) -> None:
        plan = self.plans[(source, number)]
        plan.refresh()
        lane = plan.lanes[lane_number]
        step = Step(plan.executable, lane, step_id, wake=self._wake, rank=self.rank)
        step.on_done = partial(self._served, source, number, lane_number)
        lane.on_failure = partial(self._tell_failure, source, number, lane_number)
        lane.begin(step)
        step.start()

    def _wake(self, step: Step) -> None:
        self.loop.soon(step.advance)

    def _served(self, source: int, plan: int, lane: int, step: Step) -> None:
        blob = b"" if step.error is None else _error_bytes(step.error)
        message = wire.pack(wire.DONE, plan, lane, step.step_id, flags=1 if blob else 0, blob=blob)
        step.lane.end()
        self.transport.send_message(source, message)

    def _tell_failure(self, source: int, plan: int, lane: int, step: Step) -> None:
        self.transport.send_message(source, wire.pack(
            wire.FAILED, plan, lane, step.step_id, blob=_error_bytes(step.error)))

    def _on_abort(self, source: int, payload: bytes) -> None:
        _, _, number, lane_number, step_id = wire.unpack(payload)
        _, blob = wire.parts_of(payload)

        def abort() -> None:
            plan = self.plans.get((source, number))
            lane = plan.lanes.get(lane_number) if plan is not None else None
            step = lane.step if lane is not None else None
            if step is not None and step.step_id == step_id and not step.finished:
                step.cancel(from_wire(blob))

        self.loop.soon(abort)

    def _on_report(self, source: int, payload: bytes) -> None:
        """The master of a step asks what its part here waits for."""
        _, _, number, lane_number, step_id = wire.unpack(payload)
        plan = self.plans.get((source, number))
        lane = plan.lanes.get(lane_number) if plan is not None else None
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
        _, failed, plan, lane, step_id = wire.unpack(payload)
        run = self.runs.get((plan, lane))
        if run is not None and run.step_id == step_id:
            error = from_wire(wire.parts_of(payload)[1]) if failed else None
            run.part_done(source, error)

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
        self.loop.run_until(lambda: self.all_finished or self.closed)

    def _on_finished(self, source: int, payload: bytes) -> None:
        self._finished_ranks.add(source)
        if len(self._finished_ranks) == self.size:
            for rank in range(self.size):
                self.transport.send_message(rank, wire.pack(wire.ALL_FINISHED))

    def _on_all_finished(self, source: int, payload: bytes) -> None:
        self.all_finished = True

    # ------------------------------------------------------------ directory

    def announce(self, address: str) -> None:
        """Tell rank 0 that `address` is this rank."""
        self.transport.send_message(0, wire.pack(wire.ANNOUNCE, body=address))

    def _on_announce(self, source: int, payload: bytes) -> None:
        self.directory[wire.parts_of(payload)[0]] = source

    def close(self) -> None:
        """Stop serving."""
        if not self.closed:
            self.closed = True
            self.loop.remove(self.transport)
            self.transport.close()


def _error_bytes(error: BaseException | None) -> bytes:
    if isinstance(error, OpError):
        return error.to_wire()
    return InternalError(None, None, f"{type(error).__name__}: {error}").to_wire()


class Peer:
    """A task of the cluster as a master sees it."""

    __slots__ = ("name", "address", "rank", "devices")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.rank: int | None = None
        self.devices: list[DeviceInfo] | None = None


class Peers:
    """The tasks of a cluster: where they are and what devices they have, asked for when needed."""

    def __init__(self, endpoint: Endpoint, addresses: dict[str, str],
                 resolve: Callable[[str], int | None]) -> None:
        self.endpoint = endpoint
        self.peers = {name: Peer(name, address) for name, address in addresses.items()}
        self._resolve = resolve
        self._asked: dict[str, tuple[Reply, int]] = {}
        self._lock = threading.Lock()

    def infos(self) -> list[DeviceInfo]:
        """The devices of all tasks that have answered."""
        return [d for p in self.peers.values() for d in p.devices or ()]

    def ranks(self) -> dict[str, int]:
        """Task name -> rank, of the tasks that have answered."""
        return {p.name: p.rank for p in self.peers.values() if p.rank is not None and p.devices}

    def connect(self, needed: Callable[[str], bool]) -> None:
        """Wait until every task for which ``needed(name)`` holds has answered.

        Raises ``UnavailableError`` naming those that nobody serves after
        HPCFLOW_CONNECT_TIMEOUT seconds.
        """
        with self._lock:
            waiting = [p for p in self.peers.values() if p.devices is None and needed(p.name)]
            if not waiting:
                return
            deadline = time.monotonic() + config.flags.connect_timeout
            pause = 0.0
            while True:
                waiting = [p for p in waiting if not self._ask(p)]
                if not waiting:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._unavailable(waiting)
                pause = min(pause + 0.001, 0.05, left)
                self._drive(waiting, pause)

    def _drive(self, waiting: list[Peer], seconds: float) -> None:
        from hpcflow.errors import DeadlineExceededError

        try:
            self.endpoint.loop.run_until(
                lambda: any(self._answered(p) for p in waiting), time.monotonic() + seconds)
        except DeadlineExceededError:
            pass

    def _answered(self, peer: Peer) -> bool:
        asked = self._asked.get(peer.name)
        return asked is not None and asked[0].done

    def _ask(self, peer: Peer) -> bool:
        """True once `peer` has answered."""
        asked = self._asked.get(peer.name)
        if asked is None:
            rank = self._resolve(peer.address)
            if rank is None:
                return False
            self._asked[peer.name] = (self.endpoint.request(rank, "describe"), rank)
            return False
        reply, rank = asked
        if not reply.done:
            return False
        if reply.error is not None or reply.body["task"] != peer.name:
            del self._asked[peer.name]  # somebody else is there: ask again later
            return False
        peer.rank = rank
        peer.devices = [DeviceInfo(*d) for d in reply.body["devices"]]
        return True

    def _unavailable(self, waiting: list[Peer]) -> UnavailableError:
        names = ", ".join(f"{p.name} ({p.address})" for p in waiting)
        return UnavailableError(
            None, None, f"Nobody serves {names}: no answer within "
            f"{config.flags.connect_timeout:g} s (HPCFLOW_CONNECT_TIMEOUT). Every task of the "
            "cluster needs a process that makes its hpcflow.train.Server")


