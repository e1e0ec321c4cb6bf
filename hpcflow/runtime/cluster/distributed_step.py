"""A step of a cluster: its parts on other tasks, its lanes, and its runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.ir.withdrawable import acts_on_queues
from hpcflow.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    OpError,
)
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.host.fp_mode import restore, restore_early, silence
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.cluster.agreement import check_edges, digests, settings
from hpcflow.runtime.cluster.lane import Lane
from hpcflow.runtime.executor.deadline import check_end, deadline_after
from hpcflow.runtime.executor.executor import Step, check_results
from hpcflow.runtime.executor.offload import Pace
from hpcflow.runtime.executor.tagged import LaneAddress
from hpcflow.runtime.steps.compiled import (
    add_left,
    drain,
    drain_seconds,
    interruption,
    report_stall,
    timed_out,
)
from hpcflow.runtime.steps.tracing import step_stats
from hpcflow.runtime.wire import wire
from hpcflow.runtime.wire.lost_ranks import with_waits

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.master import ClusterEngine


class DistributedStep:
    """A compiled step of several tasks, as its master holds it."""

    def __init__(self, engine: ClusterEngine, plan: int, executable: Executable,
                 parts: dict[str, list[Node]], together: dict[str, list[int]],
                 names: list[str], traced: bool = False,
                 library: FunctionLibrary | None = None) -> None:
        self.engine = engine
        self._library = library
        self.timeout = engine.options.timeout
        self.traced = traced
        self.partition_graphs: list = []  # of a traced step: its GraphDefs
        self.endpoint = engine.endpoint
        self.executable = executable
        self.names = names
        self.acts_on_queues = executable.acts_on_queues or any(
            acts_on_queues(n) for nodes in parts.values() for n in nodes)
        self.plan = plan
        self.ranks = engine.peers.ranks()
        self.remote = {task: self.ranks[task] for task in parts}
        self.remote_ranks = list(self.remote.values())
        self._pace = Pace(self.endpoint.masters)
        self._lane_numbers = itertools.count()
        self._free: list[_OpenLane] = []
        self._closed = False
        self._register(parts, together)
        self._free.append(self._open_lane())

    def _register(self, parts: dict[str, list[Node]], together: dict[str, list[int]]) -> None:
        replies = []
        for task, nodes in parts.items():
            rank = self.remote[task]
            body = {"plan": self.plan, "session": self.engine.session_id, "ranks": self.ranks,
                    "settings": settings(), "together": together, "traced": self.traced}
            blob = wire.encode_nodes(nodes, self._library)
            replies.append(self.endpoint.request(rank, "register", body, blob))
            self.engine.registered(rank, self.plan)
        self.endpoint.wait_for(replies, "tasks to register their part of a step")
        seen = {task: reply.body for task, reply in zip(parts, replies, strict=True)}
        check_edges({**seen, self.executable.task: digests(self.executable)}, self.ranks)

    def _open_lane(self) -> _OpenLane:
        """A new lane on every task: tags go from each receiver to its senders."""
        number = next(self._lane_numbers)
        endpoint = self.endpoint
        lane = endpoint.make_lane(self.executable, self.ranks,
                                  LaneAddress(endpoint.rank, self.plan, number), self._pace)
        lane.wake = endpoint._wake
        try:
            tags = self._lane_tags(lane, number)
        except BaseException:
            lane.close()
            self.engine.running.check()  # a session that was closed meanwhile is why
            raise
        lane.open_sends(tags)
        for rank in self.remote.values():
            endpoint.transport.send_message(
                rank, wire.pack(wire.LANE_OPEN, self.plan, number, body=tags))
        return _OpenLane(number, lane, self)

    def _lane_tags(self, lane: Lane, number: int) -> dict[str, Any]:
        """Let all tasks open a lane; what the receivers told."""
        tags, body = lane.open_recvs(), {"plan": self.plan, "lane": number}
        replies = [self.endpoint.request(rank, "lane", body) for rank in self.remote.values()]
        self.endpoint.wait_for(replies, "tasks to open a lane")
        for reply in replies:
            tags.update(reply.body)
        return tags

    # ------------------------------------------------------------ running

    def run(self, feeds: Any, timeout: float | None = None) -> list:
        """Run one step and return the fetched values; raises what failed first."""
        execution = self.open()
        step = execution.step
        timeout = timeout or self.timeout
        if timeout is not None:
            step.deadline = deadline_after(timeout)
        entered = False
        try:
            execution.announce()
            entered = silence()
            execution.begin(feeds)
            execution.wait(execution.finished, timeout)
        finally:
            if entered:
                restore(True)
            execution.end()
        check_results(step, self.names)
        if timeout is not None and not self.acts_on_queues:
            check_end(step.deadline)
        results, step.results = step.results, []
        execution.lane.keep(execution)
        return results

    def open(self) -> Execution:
        """A run on a lane of its own until it ends; ``CancelledError`` if the session is closed."""
        try:
            lane = self._free.pop()
        except IndexError:
            lane = self._open_lane()
        run = lane.next_run()
        try:
            self.engine.running.add(run)
        except CancelledError:
            self.give_back(lane)
            raise
        return run

    def give_back(self, lane: _OpenLane) -> None:
        """Let another run use `lane`, on which nothing is under way."""
        lane.lane.end()
        lane.lane.on_failure = None  # it refers to the run
        self._free.append(lane)
        if self._closed:
            self._close_free()

    def close(self) -> None:
        """Give back what the lanes that are not in use own here."""
        self._closed = True
        self._close_free()

    def _close_free(self) -> None:
        while True:
            try:
                lane = self._free.pop()
            except IndexError:  # perhaps another thread closes them too
                return
            lane.close()


class _OpenLane:
    """A lane on all tasks of a step, by its number; what never changes between steps is made once,
    and the next run is made of the last but one while nobody waits for it."""

    __slots__ = ("number", "lane", "owner", "key", "_spare", "_used", "_closed")

    def __init__(self, number: int, lane: Lane, owner: DistributedStep) -> None:
        self.number = number
        self.lane = lane
        self.owner = owner
        self.key = (owner.plan, number)
        self._spare: Execution | None = None
        self._used: Execution | None = None  # one that is over
        self._closed = False

    def next_run(self) -> Execution:
        """A run that has not begun."""
        spare, self._spare = self._spare, None
        return spare or self._make_run()

    def prepare(self) -> None:
        """Make the next run now."""
        if self._spare is None and self.lane.executable.tracer is None:
            self._spare = self._make_run()

    def _make_run(self) -> Execution:
        used, self._used = self._used, None
        return used if used is not None and used.again() else Execution(self.owner, self)

    def keep(self, used: Execution) -> None:
        """Let `used`, which is over and whose results somebody has, serve again."""
        if not self._closed:
            self._used = used

    def close(self) -> None:
        """Give back what the lane owns."""
        self._closed, self._spare, self._used = True, None, None
        self.lane.close()


_step_ids = itertools.count(1)


class Execution:
    """One run of a :class:`DistributedStep`: counts the parts that are not done."""

    __slots__ = ("owner", "lane", "step", "step_id", "remaining", "failed", "done_ranks", "begun",
                 "_failed_at", "_others_stats", "_others_waits", "_others_left",
                 "_why")  # fmt: skip

    def __init__(self, owner: DistributedStep, lane: _OpenLane) -> None:
        self.owner = owner
        self.lane = lane
        self.step = lane.lane.new_step()
        self._reset()

    def _reset(self) -> None:
        self.step_id = 0  # until it starts
        self.remaining = 1 + len(self.owner.remote_ranks)
        self.begun = False  # until then nobody else stops it
        self.failed = False
        self._failed_at = 0.0
        self.done_ranks: list[int] = []
        self._others_stats: list[bytes] = []
        self._others_waits: list[str] = []
        self._others_left: list[str] = []  # what they have done to queues, if the step fails
        self._why: BaseException | None = None
        self.step.on_done = self._local_done

    def again(self) -> bool:
        """Make a run that is over what it was at first; False if it cannot be, as of a step."""
        if self.failed or not self.step.again():
            return False
        self._reset()
        return True

    def start(self, feeds: Sequence[Any]) -> None:
        """Begin all parts of the step."""
        self.announce()
        self.begin(feeds)

    def announce(self) -> None:
        """Send the start messages: the others begin."""
        owner, lane, step = self.owner, self.lane, self.step
        endpoint = owner.endpoint
        number = self.step_id = step.step_id = next(_step_ids)
        endpoint.runs[lane.key] = self
        if step.deadline is None:
            message = wire.HEADER.pack(wire.START, 0, owner.plan, lane.number, 0, number)
        else:  # loops that never wait stop by themselves, wherever they run
            left = step.deadline - time.monotonic()
            message = wire.pack(wire.START, owner.plan, lane.number, number,
                                body={"timeout": left})
        send = endpoint.transport.send_message
        for rank in owner.remote_ranks:
            send(rank, message)

    def begin(self, feeds: Any) -> None:
        """Begin the own part."""
        endpoint, lane, step = self.owner.endpoint, self.lane, self.step
        endpoint.masters.came(endpoint.rank)
        lane.lane.on_failure = self._local_failed
        lane.lane.begin(step)
        step.start(feeds)
        self.begun = True
        if endpoint.health.lost:
            for rank in list(endpoint.health.lost):
                self.rank_lost(rank, endpoint.lost_error(rank))

    def finished(self) -> bool:
        """True when every part is done, or when the step has failed and the time to drain it is
        over."""
        return self.remaining == 0 or (
            self.failed and time.monotonic() > self._failed_at + tuning.STEP_DRAIN_SECONDS)

    def rank_lost(self, rank: int, error: OpError) -> None:
        """Fail if `rank` has a part that is not done, or is the chief that the session follows. The
        lane can then never be drained.

        Where no message gets through any more, what a part has sent may be missing though it is
        done."""
        owner = self.owner
        if rank in owner.remote_ranks and (
                rank not in self.done_ranks or owner.endpoint.failure is not None):
            task = next(task for task, r in self.owner.remote.items() if r == rank)
            waits = f"the part of {task} (rank {rank}) to be done"
            if self.step.waiting:
                waits += f"\n{self.step.describe_waiting()}"
            error = with_waits(error, waits)
        elif owner.engine.follows(rank):
            error = owner.endpoint.lost_error(rank)
        else:
            return
        self.fail(error, rank)
        if self.step.error is None:
            self.step.error = error
        self._failed_at = -tuning.STEP_DRAIN_SECONDS  # nothing to wait for

    def wait(self, until: Callable[[], Any], timeout: float | None) -> None:
        """Drive until ``until()`` is true; every part is stopped and drained if that fails."""
        deadline = deadline_after(timeout)
        endpoint = self.owner.endpoint
        core = endpoint.transport.core
        keeps = core is not None and core.keep()
        try:
            endpoint.loop.run_until(until, deadline, "a step", self.report_stall)
        except DeadlineExceededError as e:
            if self.remaining == 0 and not self.failed:  # it was done before that
                return
            own = self.step.describe_waiting()
            self.cancel(e)
            late = timed_out(e, [own, *self._others_waits])
            add_left(late, [*self.step.left, *self._others_left])
            raise late from None
        except BaseException as e:
            self.cancel(interruption(e), drain_seconds(e))
            raise
        finally:
            if keeps:
                core.leave()

    def cancel(self, error: BaseException, seconds: float | None = None) -> None:
        """Stop every part, and wait a while, or for so long at most, for what they had started."""
        running, loop = self.owner.engine.running, self.owner.endpoint.loop
        if not self.begun:
            drain(loop.run_until, lambda: self.begun or self not in running, seconds)
        if self.begun or self not in running:
            self.fail(error, None)
            drain(loop.run_until, self.finished, seconds)

    def end(self) -> None:
        """Give the lane back, unless it could not be drained: then nothing may use it again."""
        self.owner.engine.running.discard(self)
        if self.remaining == 0:
            self.owner.give_back(self.lane)

    def stats(self) -> list[Any]:
        """The ``StepStats`` of a traced run, one per task."""
        own = step_stats(self.step)
        return [own, *[type(own).FromString(data) for data in self._others_stats]]

    def report_stall(self, seconds: float) -> None:
        """Let every rank that is not done say what it waits for."""
        owner = self.owner
        missing = {rank: f"{task} (rank {rank})" for task, rank in owner.remote.items()
                   if rank not in self.done_ranks}
        more = f"\n  parts not done: {', '.join(missing.values())}" if missing else ""
        report_stall(self.step, seconds, missing, more)
        message = wire.pack(wire.REPORT, owner.plan, self.lane.number, self.step_id)
        for rank in missing:
            owner.endpoint.transport.send_message(rank, message)

    def part_done(self, source: int, error: BaseException | None = None, stats: bytes = b"",
                  notes: dict[str, Any] | None = None) -> None:
        """The part at rank `source` is done; `stats` is its ``StepStats`` if it was traced, `notes`
        what it waited for when it was stopped, and what it has done that stays if the step fails.
        """
        if notes:
            self._others_waits += notes.get("waits", ())
            self._others_left += notes.get("left", ())
        if stats:
            self._others_stats.append(stats)
        if error is not None:
            self.fail(error, source)
        self.done(source)

    def done(self, source: int) -> None:
        """Note that the part at rank `source` is done, without anything to report."""
        self.done_ranks.append(source)
        self.remaining -= 1
        if not self.remaining:
            self.owner.endpoint.runs.pop(self.lane.key, None)

    def _local_done(self, step: Step) -> None:
        if self._why is not None:
            step.withdraw(self._why)
        self.done(step.rank)  # type: ignore[arg-type]
        if self.remaining:  # the others have to do something yet
            restore_early()
            self.lane.prepare()

    def _local_failed(self, step: Step) -> None:
        self._tell_others(step.error, None)

    def fail(self, error: BaseException, source: int | None) -> None:
        """Stop every part; `error` is what the client gets if it is the first."""
        if self.failed:
            return
        self._why = error
        if not self.step.finished:
            self.step.cancel(error)
        elif self.step.error is None:
            self.step.error = error
        if self.step.finished:  # perhaps only now
            self.step.withdraw(error)
        self._tell_others(error, source)

    def _tell_others(self, error: BaseException | None, source: int | None) -> None:
        if self.failed:
            return
        self.failed = True
        self._failed_at = time.monotonic()
        known = error if isinstance(error, OpError) else AbortedError(None, None, str(error))
        owner = self.owner
        message = wire.pack(wire.ABORT, owner.plan, self.lane.number, self.step_id,
                            blob=known.to_wire())
        for rank in owner.remote_ranks:
            if rank != source:
                owner.endpoint.transport.send_message(rank, message)


