"""Disputes: how a group goes on after a step in which its members did not do the same.

Whoever finds it out tells the first member, which tells all, so that every member gets one and the
same error. What some have sent in that step nobody may be waiting for. So each member tells the
others of which schedule it has sent messages, and takes part in those of the others with empty
ones: then all tags are free. Operations of later steps wait until that has been begun everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.errors import OpError
from hpcflow.runtime.collective.collective_run import OperationRun, Run

if TYPE_CHECKING:
    from hpcflow.runtime.collective.collectives import Group


class Disputes:
    """The disputes of one group, by the numbers of steps; changed under the group's lock."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._judged: set[int] = set()  # led: what was told to all
        self._refused: dict[int, OpError] = {}  # steps that have not begun here
        self._errors: dict[int, OpError] = {}  # disputes that are not settled
        # Of these, the schedules by member: the hash of one of which there are messages, or None.
        self._schedules: dict[int, dict[int, str | None]] = {}
        self._held: list[OperationRun] = []

    # ------------------------------------------------------------ the first member

    def report(self, number: int, error: OpError) -> None:
        """The members do different things in step `number`: let all fail with one error."""
        self._group.send(0, "dispute", blob=error.to_wire(), number=number)

    def on_dispute(self, number: int, error: OpError) -> None:
        """Tell all members, once, of a dispute that one of them has found."""
        if number not in self._judged:
            self._judged.add(number)
            for k in range(len(self._group.ranks)):
                self._group.send(k, "judged", blob=error.to_wire(), number=number)

    def is_judged(self, number: int) -> bool:
        """True if a dispute about step `number` was announced, so that messages for it come too
        late; known to the first member."""
        return number in self._judged

    # ------------------------------------------------------------ every member

    def check(self, number: int) -> None:
        """Step `number` is about to begin: raises why it must not."""
        error = self._refused.pop(number, None)
        if error is not None:
            raise error

    def on_judged(self, number: int, error: OpError) -> None:
        """Fail step `number`, and tell what has been sent in it."""
        group = self._group
        with group.lock:
            run = group.run(number)
            if run is None and not group.has_begun(number):
                self._refused[number] = error
            agreed = run is not None and run.agreement.routes is not None
            schedule = run.schedule.hash if run is not None and agreed and (
                not run.is_complete()) else None
            self._errors[number] = error
            group.withdraw_proposals(number)
            group.skips.judged()
        if run is not None:
            run.fail(error, tell=False, drains=agreed)
        for k in range(len(group.ranks)):
            group.send(k, "sent", number=number, hash=schedule)

    def on_sent(self, member: int, number: int, schedule: str | None) -> None:
        """A member says of which schedule it has sent messages in step `number`."""
        with self._group.lock:
            told = self._schedules.setdefault(number, {})
            told[member] = schedule
            if len(told) == len(self._group.ranks):
                self._settle(number)

    def _settle(self, number: int) -> None:
        """All have said it, this member too."""
        group, error = self._group, self._errors.pop(number)
        told = self._schedules.pop(number)
        for schedule in {h for h in told.values() if h not in (None, told[group.me])}:
            agreement = group.agreement(schedule)  # type: ignore[arg-type]
            run = Run(group, agreement.schedule, number, None)
            run.agreement, run.error = agreement, error
            run.drain()
        held, self._held = self._held, []
        for operation in held:
            group.enqueue(operation)

    def holds(self, run: OperationRun) -> bool:
        """True if `run` has to wait for disputes about earlier steps; it is begun after them."""
        if not any(number < run.run.number for number in self._errors):
            return False
        self._held.append(run)
        return True

    def withdraw(self, run: Run) -> None:
        """Forget the operations of `run`, of which nothing was sent."""
        self._held = [r for r in self._held if r.run is not run]
        for operation in run.entered.values():
            operation.complete = True
            queue = run.agreement.queues[operation.operation.index]
            if operation in queue:
                queue.remove(operation)

    def missing(self, number: int) -> list[int]:
        """The members that have not said what they sent in disputed steps before `number`."""
        found: set[int] = set()
        for disputed in list(self._errors):
            if disputed < number:
                told: dict[int, Any] = self._schedules.get(disputed, {})
                found.update(k for k in range(len(self._group.ranks)) if k not in told)
        return sorted(found)
