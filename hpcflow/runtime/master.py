"""The master of a session on a cluster: compiles steps, registers partitions, runs steps."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from hpcflow.compiler.executable import Executable
from hpcflow.compiler.ir import Node
from hpcflow.device_spec import DeviceSpec
from hpcflow.errors import AbortedError, DeadlineExceededError, OpError
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX, Operation, Tensor
from hpcflow.kernels.registry import is_collective
from hpcflow.runtime import wire
from hpcflow.runtime.compiled import (
    DRAIN_SECONDS,
    LocalStep,
    StepOptions,
    compiled_form,
    make_parts,
    report_stall,
    run_with_options,
)
from hpcflow.runtime.endpoint import Endpoint, Peers
from hpcflow.runtime.executor import Step, check_results
from hpcflow.runtime.lane import Lane
from hpcflow.runtime.task import KernelContext
from hpcflow.version import __version__


class ClusterEngine:
    """Runs the steps of one session on the tasks of a cluster."""

    def __init__(self, endpoint: Endpoint, peers: Peers, session_id: str,
                 options: StepOptions) -> None:
        self.endpoint = endpoint
        self.peers = peers
        self.task = endpoint.task
        self.options = options
        self.session_id = session_id
        self._context = KernelContext(self.task, session_id, endpoint.meetings)
        self._plans: dict[int, set[int]] = {}  # rank -> plans registered there
        self._steps: list[DistributedStep] = []

    @property
    def version(self) -> int:
        """Grows when what compiled steps hold becomes stale."""
        return self.task.resources.version

    def devices(self) -> list:
        """The devices of the tasks that have answered."""
        return self.peers.infos()

    def compile(self, elements: list, feeds: list[Tensor], remembered: dict[str, str],
                session_id: str) -> Any:
        """Compile a step and register its partitions."""
        wanted = _tasks_in(elements)
        mine = self.task.name
        self.peers.connect(lambda name: name == mine or any(_names(w, name) for w in wanted))
        parts = make_parts(elements, feeds, self.task, self.peers.infos(), self._context,
                           remembered, self.options)
        names = [e.name for e in elements]
        plan = self.endpoint.next_plan()
        together = _together(parts, self.peers.ranks())
        context = self._context.for_step(together, f"{self.endpoint.rank}:{plan}")
        executable = Executable(parts.pop(mine, []), mine, self.task.by_name, context,
                                compiled_form(), len(names))
        if not parts:
            return LocalStep(executable, names, len(feeds), self.options.timeout)
        step = DistributedStep(self, plan, executable, parts, together, names)
        self._steps.append(step)
        return step

    def run_with(self, run: Any, values: list, options: Any, run_metadata: Any) -> list:
        """Run a step with ``RunOptions``: its timeout goes before the session's."""
        return run_with_options(run, values, options)

    def registered(self, rank: int, plan: int) -> None:
        """Remember that `rank` holds a plan of this session."""
        self._plans.setdefault(rank, set()).add(plan)

    def reset(self, containers: list[str] | None) -> None:
        """Clear resource containers on every task of the cluster."""
        self.peers.connect(lambda name: True)
        replies = [self.endpoint.request(rank, "reset", containers)
                   for rank in self.peers.ranks().values()]
        self.endpoint.wait_for(replies, "tasks to clear their containers")

    def close(self) -> None:
        """Let the tasks forget this session's partitions; variables stay."""
        for rank, plans in self._plans.items():
            if not self.endpoint.closed:
                self.endpoint.transport.send_message(rank, wire.pack(
                    wire.DEREGISTER, body={"plans": sorted(plans), "session": self.session_id}))
        self._plans.clear()
        for step in self._steps:
            step.close()
        self._steps.clear()


def _together(parts: dict[str, list[Node]], ranks: dict[str, int]) -> dict[str, list[int]]:
    """Op type -> rank of every op of the types whose kernels meet for collective work."""
    found: dict[str, list[int]] = {}
    for task, nodes in parts.items():
        for node in nodes:
            if is_collective(node.type):
                found.setdefault(node.type, []).append(ranks[task])
    return {t: sorted(r) for t, r in found.items()}


def _tasks_in(elements: list) -> set[str]:
    """The device strings that the operations behind `elements` ask for."""
    found: set[str] = set()
    seen: set[Operation] = set()
    stack = [e if isinstance(e, Operation) else e.op for e in elements]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        found.add(op.device)
        stack.extend(t.op for t in op.inputs)
        stack.extend(op.control_inputs)
        for group in op._attrs.get(COLOCATION_ATTR, ()):
            other = op.graph._ops_by_name.get(group[len(COLOCATION_PREFIX):].decode())
            if other is not None:
                found.add(other.device)
    return found


def _names(device: str, task: str) -> bool:
    """True if the device string asks for `task`, alone or among others."""
    if not device:
        return False
    want, have = DeviceSpec.from_string(device), DeviceSpec.from_string(task)
    if want.job is None:
        return False
    return want.job == have.job and want.task in (None, have.task)


class DistributedStep:
    """A compiled step of several tasks, as its master holds it."""

    def __init__(self, engine: ClusterEngine, plan: int, executable: Executable,
                 parts: dict[str, list[Node]], together: dict[str, list[int]],
                 names: list[str]) -> None:
        self.engine = engine
        self.endpoint = engine.endpoint
        self.executable = executable
        self.names = names
        self.plan = plan
        self.ranks = engine.peers.ranks()
        self.remote = {task: self.ranks[task] for task in parts}
        self._lane_numbers = itertools.count()
        self._free: list[_OpenLane] = []
        self._lock = threading.Lock()
        self._register(parts, together)
        self._free.append(self._open_lane())

    def _register(self, parts: dict[str, list[Node]], together: dict[str, list[int]]) -> None:
        replies = []
        for task, nodes in parts.items():
            rank = self.remote[task]
            body = {"plan": self.plan, "session": self.engine.session_id, "ranks": self.ranks,
                    "version": __version__, "together": together}
            replies.append(self.endpoint.request(rank, "register", body, wire.encode_nodes(nodes)))
            self.engine.registered(rank, self.plan)
        self.endpoint.wait_for(replies, "tasks to register their part of a step")

    def _open_lane(self) -> _OpenLane:
        """A new lane on every task: tags go from each receiver to its senders."""
        number = next(self._lane_numbers)
        endpoint = self.endpoint
        lane = Lane(endpoint.transport, self.executable, self.ranks, endpoint.tags,
                    endpoint.task.by_name)
        tags = {e.key.decode(): t for e, t in zip(self.executable.recvs, lane.recv_tags,
                                                  strict=True)}
        body = {"plan": self.plan, "lane": number}
        replies = [endpoint.request(rank, "lane", body) for rank in self.remote.values()]
        endpoint.wait_for(replies, "tasks to open a lane")
        for reply in replies:
            tags.update(reply.body)
        lane.open_sends(tags)
        for rank in self.remote.values():
            endpoint.transport.send_message(
                rank, wire.pack(wire.LANE_OPEN, self.plan, number, body=tags))
        return _OpenLane(number, lane)

    # ------------------------------------------------------------ running

    def run(self, feeds: Any, timeout: float | None = None) -> list:
        """Run one step and return the fetched values; raises what failed first."""
        with self._lock:
            lane = self._free.pop() if self._free else None
        lane = lane or self._open_lane()
        execution = Execution(self, lane)
        try:
            execution.start(feeds)
            self._wait(execution, timeout or self.engine.options.timeout)
        finally:
            if execution.remaining == 0:
                lane.lane.end()
                with self._lock:
                    self._free.append(lane)
            # Otherwise the lane could not be drained: nothing may use it again.
        check_results(execution.step, self.names)
        return execution.step.results

    def close(self) -> None:
        """Give back what the lanes that are not in use own here."""
        with self._lock:
            free, self._free = self._free, []
        for lane in free:
            lane.lane.close()

    def _wait(self, execution: Execution, timeout: float | None) -> None:
        loop = self.endpoint.loop
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            loop.run_until(execution.finished, deadline, "a step", execution.report_stall)
        except BaseException as e:
            execution.fail(e if isinstance(e, OpError) else AbortedError(
                None, None, f"The step was interrupted ({type(e).__name__})"), None)
            try:
                loop.run_until(execution.finished, time.monotonic() + DRAIN_SECONDS)
            except DeadlineExceededError:
                pass
            raise


class _OpenLane:
    """A lane on all tasks of a step, by its number; what never changes between steps is made
    once."""

    __slots__ = ("number", "lane")

    def __init__(self, number: int, lane: Lane) -> None:
        self.number = number
        self.lane = lane


_step_ids = itertools.count(1)


class Execution:
    """One run of a :class:`DistributedStep`: counts the parts that are not done."""

    __slots__ = ("owner", "lane", "step", "step_id", "remaining", "failed", "done_ranks")

    def __init__(self, owner: DistributedStep, lane: _OpenLane) -> None:
        self.owner = owner
        self.lane = lane
        self.step_id = next(_step_ids)
        self.remaining = 1 + len(owner.remote)
        self.failed = False
        self.done_ranks: set[int] = set()
        endpoint = owner.endpoint
        self.step = Step(owner.executable, lane.lane, self.step_id, self._local_done,
                         endpoint._wake, endpoint.rank)

    def start(self, feeds: Any) -> None:
        """Send the start messages, then begin the own part."""
        owner, lane = self.owner, self.lane
        endpoint = owner.endpoint
        endpoint.runs[(owner.plan, lane.number)] = self
        message = wire.pack(wire.START, owner.plan, lane.number, self.step_id)
        for rank in owner.remote.values():
            endpoint.transport.send_message(rank, message)
        lane.lane.on_failure = self._local_failed
        lane.lane.begin(self.step)
        self.step.start(feeds)

    def finished(self) -> bool:
        """True when every part is done."""
        return self.remaining == 0

    def report_stall(self, seconds: float) -> None:
        """Let every rank that is not done say what it waits for."""
        owner = self.owner
        missing = [f"{task} (rank {rank})" for task, rank in owner.remote.items()
                   if rank not in self.done_ranks]
        more = f"\n  parts not done: {', '.join(missing)}" if missing else ""
        report_stall(self.step, seconds, more)
        message = wire.pack(wire.REPORT, owner.plan, self.lane.number, self.step_id)
        for rank in owner.remote.values():
            if rank not in self.done_ranks:
                owner.endpoint.transport.send_message(rank, message)

    def part_done(self, source: int, error: BaseException | None) -> None:
        """The part at rank `source` is done."""
        self.done_ranks.add(source)
        if error is not None:
            self.fail(error, source)
        self._count()

    def _local_done(self, step: Step) -> None:
        self._count()

    def _count(self) -> None:
        self.remaining -= 1
        if self.remaining == 0:
            self.owner.endpoint.runs.pop((self.owner.plan, self.lane.number), None)

    def _local_failed(self, step: Step) -> None:
        self._tell_others(step.error, None)

    def fail(self, error: BaseException, source: int | None) -> None:
        """Stop every part; `error` is what the client gets if it is the first."""
        if self.failed:
            return
        if not self.step.finished:
            self.step.cancel(error)
        elif self.step.error is None:
            self.step.error = error
        self._tell_others(error, source)

    def _tell_others(self, error: BaseException | None, source: int | None) -> None:
        if self.failed:
            return
        self.failed = True
        known = error if isinstance(error, OpError) else AbortedError(None, None, str(error))
        owner = self.owner
        message = wire.pack(wire.ABORT, owner.plan, self.lane.number, self.step_id,
                            blob=known.to_wire())
        for rank in owner.remote.values():
            if rank != source:
                owner.endpoint.transport.send_message(rank, message)


