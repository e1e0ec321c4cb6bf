"""Collective operations in steps: the schedule of a compiled step, and its runs."""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.comm.activity import Activity, Route
from hpcflow.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.collective.collective_device import DeviceJob
from hpcflow.runtime.collective.collective_parts import Withdrawn

if TYPE_CHECKING:
    from hpcflow.runtime.collective.collective_agreement import Agreement
    from hpcflow.runtime.collective.collectives import Group


class Schedule:
    """The collective operations of one compiled step on one task, in a fixed order.

    `shared` says that the step has parts on several tasks, started by one master.
    """

    def __init__(self, group: Group, shared: bool) -> None:
        self.group = group
        self.shared = shared
        self.operations: list[Operation] = []
        self.texts: list[str] = []
        self.hash = ""
        self.offsets: list[int] = []
        # Per local member, where in its room the part of each operation begins and ends.
        self.room_edges: list[list[int]] = []
        self.runs: dict[Any, Run] = {}

    def close(self) -> None:
        """Complete the schedule, to which all operations have been added."""
        self.texts = [f"{o.op_type} {o.work.text}{o.key and f' ({o.key})'}"
                      for o in self.operations]
        self.hash = hashlib.sha256("\n".join(self.texts).encode()).hexdigest()
        works = [o.work for o in self.operations]
        self.offsets = [0, *itertools.accumulate(w.lanes for w in works)]
        self.room_edges = [
            [0, *itertools.accumulate(w.room_sizes[i] if w.room_sizes else 0 for w in works)]
            for i in range(len(self.group.layout.local))]

    def begin(self, step: Any) -> None:
        """Begin the run of a step."""
        run = self.runs[step] = self.group.begin(self, step)
        step.on_finish_hooks.append(run.step_over)
        step.when_cancelled(run.step_failed)
        step.describers.append(run)


class Operation:
    """One collective operation of a schedule; ``start`` is its kernel."""

    is_alone = False

    def __init__(self, schedule: Schedule, name: str, op_type: str, key: str, work: Any) -> None:
        self.schedule = schedule
        self.index = len(schedule.operations)
        self.name = name
        self.op_type = op_type
        self.key = key
        self.work = work
        self.device: Any = None  # with memory of its own, where the values are
        schedule.operations.append(self)

    @property
    def text(self) -> str:
        """The operation, for messages."""
        return f"'{self.name}' ({self.schedule.texts[self.index]})"

    def start(self, step: Any, done: Callable[[Any], None], *values: Any) -> None:
        """Enter the operation with `values`."""
        self.schedule.runs[step].enter(self, done, self.open(values))

    def open(self, values: Any) -> Any:
        """Open a run with `values`; with None it only lets the others go on."""
        if self.device is None:
            return self.work.open(values)
        return DeviceJob(self.work, self.device, values, self.name)

    def place(self, index: int) -> Any:
        """An array in shared memory where input `index` can be made; None if there is none, or
        others may read it yet."""
        arrays = self.schedule.group.idle_arrays(self.schedule, self.index)
        return None if arrays is None else self.work.place(arrays, index)


class SoloOperation:
    """A collective operation of a group of one."""

    def __init__(self, work: Any) -> None:
        self._work = work
        self.device: Any = None
        #: The values are the outputs, so it does not matter where they are.
        self.is_alone = not getattr(work, "slices", 0)

    def start(self, step: object, done: Callable[[Any], None], *values: Any) -> None:
        """Complete, once the values are in host memory: there are no other members."""
        def ready(host: Any) -> None:
            done(host if isinstance(host, BaseException) else self._work.alone(host))

        if self.device is None:
            ready(values)
        else:
            self.device.when_on_host(values, ready)


class OperationRun:
    """One operation in one step: its patterns in progress."""

    def __init__(self, run: Run, operation: Operation, done: Callable[[Any], None] | None,
                 job: Any) -> None:
        self.run = run
        self.operation = operation
        self.done = done
        self.job = job
        self.activities: list[Activity] = []
        self.left = 0
        self.complete = False

    def launch(self, route: Route, shared: Any, link: Any) -> None:
        """Post the first messages; a run that has failed only lets the others go on. `shared` are
        arrays that local members share, `link` joins the members' GPUs, if there are any."""
        def go(job: Any, error: BaseException | None) -> None:
            if error is not None:
                self.run.fail(error, tell=True)
            with self.run.group.lock:
                self.job = job
                job.shared = shared
                self._post(route)

        if self.operation.device is None:
            go(self.job, None)
        else:
            self.job.prepare(link, go)

    def _post(self, route: Route) -> None:
        self.left = len(self.job.lanes)
        failed = self.run.error is not None
        self.activities = [
            Activity(route.shifted(lane), pattern, self._lane_over, self._lane_failed,
                     self.operation.name)
            for lane, pattern in enumerate(self.job.lanes)
        ]
        for activity in self.activities:
            activity.start(failed)

    def fail(self) -> None:
        """Go on with empty messages."""
        for activity in self.activities:
            activity.fail()

    def missing(self) -> set[int]:
        """The members that are waited for."""
        return {k for a in self.activities if not a.over for k in list(a.missing)}

    def _lane_failed(self, activity: Activity) -> None:
        self.run.failed_elsewhere()

    def _lane_over(self, activity: Activity) -> None:
        with self.run.group.lock:
            self.left -= 1
            if self.left:
                return
        self.run.operation_over(self)


class Run:
    """One step of a schedule on this rank: number `number` of its group."""

    def __init__(self, group: Group, schedule: Schedule, number: int, step: Any) -> None:
        self.group = group
        self.schedule = schedule
        self.number = number
        self.step = step
        self.error: BaseException | None = None
        self.over = False  # the step has ended
        self.entered: dict[int, OperationRun] = {}
        self.agreement: Agreement = None  # type: ignore[assignment]
        self.progress = time.monotonic()
        self._asked = self.progress
        self._suspect: float | None = None  # since when a failure elsewhere shows

    # ------------------------------------------------------------ operations

    def enter(self, operation: Operation, done: Callable[[Any], None], job: Any) -> None:
        """The kernel of `operation` starts."""
        group = self.group
        with group.lock:
            if self.error is not None:
                error = self.error
            else:
                error = None
                self.progress = time.monotonic()
                self.entered[operation.index] = OperationRun(self, operation, done, job)
                group.enqueue(self.entered[operation.index])
        if error is not None:
            done(error)

    def operation_over(self, run: OperationRun) -> None:
        """Complete an operation, of which all messages have come."""
        errors = [a.error for a in run.activities if a.error is not None]
        failed = bool(errors) or any(a.failed for a in run.activities)
        done = outcome = None
        with self.group.lock:
            self.progress = time.monotonic()
            run.complete = True
            if not failed and self.error is None:
                done, run.done = run.done, None
                outcome = run.job.result()
            run.job, run.activities = None, []
            self.group.dequeue(run)
        if done is not None:
            done(outcome)
        for error in errors:
            if isinstance(error, Withdrawn):
                self.failed_elsewhere()
            else:  # every member finds the same
                self.fail(error, tell=not isinstance(error, InvalidArgumentError))

    def is_complete(self) -> bool:
        """True if every operation was entered and is done."""
        return len(self.entered) == len(self.schedule.operations) and all(
            r.complete and r.done is None for r in self.entered.values())

    def waiting(self) -> list[OperationRun]:
        """The operations that wait for others."""
        return [r for r in list(self.entered.values()) if not r.complete]

    def missing(self) -> list[int]:
        """The members that this run waits for."""
        waiting = self.waiting()
        group = self.group
        disputing = (group.disputes.missing(self.number) or group.skips.missing(self.number)
                     if waiting else [])
        if disputing:
            return disputing
        if self.agreement.routes is None:
            return self.group.missing_agreement(self.schedule.hash) if waiting else []
        return sorted({k for r in waiting for k in r.missing()})

    # ------------------------------------------------------------ failing

    def step_failed(self) -> None:
        """The step of this rank has failed, for whatever reason."""
        error = self.step.error
        self.fail(error or CancelledError(None, None, "cancelled"), tell=True)

    def failed_elsewhere(self) -> None:
        """Empty messages came: the operation failed on another rank. The reason will come too."""
        with self.group.lock:
            reason = self.group.reasons.get(self.number)
            if reason is None:
                self._suspect = self._suspect or time.monotonic()
                return
        self.fail(reason, tell=False)

    def fail(self, error: BaseException, tell: bool, drains: bool = True) -> None:
        """End all operations with `error`; with `tell` the other members learn it. Without `drains`
        nothing has been sent, and nothing will be."""
        with self.group.lock:
            if self.error is not None or self.is_complete():
                return
            self.error = error
            self.group.reasons.pop(self.number, None)
            told = [r.done for r in self.entered.values() if r.done is not None]
            for run in self.entered.values():
                run.done = None
                run.fail()
            if drains:
                self.drain()
            else:
                self.group.disputes.withdraw(self)
        if tell:
            self.group.tell_failure(self.number, error)
        for done in told:
            done(error)

    def drain(self) -> None:
        """Let the messages of a failed step go on, also of operations that were not entered."""
        for operation in self.schedule.operations:
            if operation.index not in self.entered:
                run = OperationRun(self, operation, None, operation.open(None))
                self.entered[operation.index] = run
                self.group.enqueue(run)

    def step_over(self) -> None:
        """The step has ended; what still drains goes on by itself."""
        self.over = True
        self.schedule.runs.pop(self.step, None)
        self.step = None
        self.group.step_over(self)

    # ------------------------------------------------------------ waiting for long

    def describe(self) -> str:
        """A line for each operation that waits."""
        names = ", ".join(str(self.group.ranks[k]) for k in self.missing())
        return "\n".join(f"  collective operation {r.operation.text}: ranks {names}"
                         for r in self.waiting())

    def last_transfers(self) -> list[str]:
        """Return descriptions of the last transfers to and from the ranks that are waited for."""
        transfers = self.group.owner.endpoint.transfers
        return transfers.describe(self.group.ranks[k] for k in self.missing())

    def tick(self, now: float) -> None:
        """Ask the others, or give up."""
        if self.error is not None:
            return
        if self._suspect is not None and now - self._suspect > tuning.COLLECTIVE_REASON_SECONDS:
            self.fail(AbortedError(None, None, "A collective operation failed on another rank"),
                      tell=False)
            return
        missing = self.missing()
        if not missing:
            self._asked = now
            return
        limit = config.flags.collective_timeout
        if limit and now - self.progress > limit:
            self.fail(self._timeout(missing), tell=True)
        elif now - max(self._asked, self.progress) >= tuning.COLLECTIVE_ASK_SECONDS:
            self._asked = now
            self.group.ask(self, missing[:tuning.COLLECTIVE_MOST_ASKED])

    def _timeout(self, missing: list[int]) -> DeadlineExceededError:
        names = ", ".join(str(self.group.ranks[k]) for k in missing)
        operation = self.waiting()[0].operation
        return DeadlineExceededError(
            None, None, f"Collective operation {operation.text} has waited for ranks {names} for "
            f"{config.flags.collective_timeout:g} s (HPCFLOW_COLLECTIVE_TIMEOUT)")
