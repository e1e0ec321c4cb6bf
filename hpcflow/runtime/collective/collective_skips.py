"""Skips: operations that a step did not enter, because they are in a branch that was not taken.

The messages of an operation do not say of which step they are; the steps' order does. So a rank
that enters an operation which it has left out before asks the others first if they have left it out
in the same steps. One that has entered it there has met nobody, and would take the messages of this
step for those: that is an error of that step on all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.errors import FailedPreconditionError
from hpcflow.runtime.collective.collective_run import OperationRun, Run

if TYPE_CHECKING:
    from hpcflow.runtime.collective.collectives import Group

#: A schedule's hash, and the place of an operation in it.
_Operation = tuple[str, int]


class _Question(NamedTuple):
    """The question of a member whether this one has left out an operation in some steps."""

    member: int
    body: Any


class Skips:
    """What the steps of one group have left out; changed under the group's lock."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._skipped: dict[_Operation, list[int]] = {}  # numbers of this rank's steps
        self._held: dict[_Operation, OperationRun] = {}
        self._missing: dict[_Operation, set[int]] = {}  # the members that have not answered
        self._questions: list[_Question] = []  # that cannot be answered yet

    def step_over(self, run: Run) -> None:
        """A step has ended; note what it has left out."""
        if run.error is None:
            for operation in run.schedule.operations:
                if operation.index not in run.entered:
                    key = run.schedule.hash, operation.index
                    self._skipped.setdefault(key, []).append(run.number)
        self._answer_all()

    def holds(self, run: OperationRun) -> bool:
        """True if `run` has to wait for what the others say; it is begun then."""
        self._answer_all()
        key = run.run.schedule.hash, run.operation.index
        numbers = self._skipped.pop(key, None)
        if not numbers or run.run.error is not None:
            return False
        group = self._group
        self._held[key] = run
        self._missing[key] = {k for k in range(len(group.ranks)) if k != group.me}
        for k in self._missing[key]:
            group.send(k, "skipped", hash=key[0], index=key[1], numbers=numbers,
                       number=run.run.number)
        return True

    def missing(self, number: int) -> list[int]:
        """The members that have not said yet what step `number` waits for."""
        return sorted({k for key, run in self._held.items() if run.run.number == number
                       for k in self._missing[key]})

    # ------------------------------------------------------------ messages

    def on_skipped(self, member: int, body: Any) -> None:
        """A member has left out an operation, and wants to enter it now."""
        with self._group.lock:
            self._questions.append(_Question(member, body))
            self._answer_all()

    def on_skipped_too(self, member: int, body: Any) -> None:
        """A member has left it out in the same steps."""
        with self._group.lock:
            key = body["hash"], body["index"]
            held = self._held.get(key)
            if held is not None and held.run.number == body["number"]:
                self._missing[key].discard(member)
                if not self._missing[key]:
                    self._release(key)

    def judged(self) -> None:
        """A dispute has begun, which decides what was asked."""
        for key in list(self._held):
            self._release(key)

    def _release(self, key: _Operation) -> None:
        del self._missing[key]
        self._group.enqueue(self._held.pop(key))

    def _answer_all(self) -> None:
        self._questions = [q for q in self._questions if not self._answer(q)]

    def _answer(self, question: _Question) -> bool:
        """Answer, if this rank's steps have come so far."""
        group, body = self._group, question.body
        for number in body["numbers"]:
            run = group.run(number)
            if run is None and not group.has_begun(number):
                return False
            if run is None or run.schedule.hash != body["hash"] or run.error is not None:
                continue
            if body["index"] in run.entered:
                self._dispute(run, question)
                return True
            if not run.over:
                return False
        group.send(question.member, "skipped too", hash=body["hash"], index=body["index"],
                   number=body["number"])
        return True

    def _dispute(self, run: Run, question: _Question) -> None:
        group = self._group
        operation = run.schedule.operations[question.body["index"]]
        group.disputes.report(run.number, FailedPreconditionError(
            None, None, f"Rank {group.ranks[group.me]} is in the collective operation "
            f"{operation.text} of step {run.number} of its group, but rank "
            f"{group.ranks[question.member]} has ended that step without it, and is in the "
            f"operation of step {question.body['number']}: all ranks must enter it in the same "
            "steps"))
