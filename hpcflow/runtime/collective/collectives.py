"""Collective operations between steps of several ranks: who takes part, in what order, and what
happens when somebody does not.

The collective operations of a compiled step are its *schedule*, whose order is fixed. Before a
schedule is used for the first time, the members compare it: each tells the leader (the first
member) a hash of it and the tags that it receives at, and the leader lets all go, or tells all how
the schedules differ. After that nothing is negotiated: every operation has tags of its own, so
the ranks may come to them in any order, and each tag is used in the order of the steps.

The steps of a group with collective operations run one at a time, and are numbered. A rank whose
operation waits for a while asks those that it waits for about *their* step of this number. Another
schedule there, a step that ended without the operation, or a rank that has finished is an error;
a rank that has not come so far is waited for.

A step that fails says so to the members, and lets its messages go on empty (see
:mod:`hpcflow.comm.patterns`), so that nobody waits and the tags can be used again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from hpcflow.comm.activity import Route
from hpcflow.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    UnavailableError,
    from_wire,
)
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.collective.collective_agreement import Agreement, Joining
from hpcflow.runtime.collective.collective_disputes import Disputes
from hpcflow.runtime.collective.collective_links import Links, claims
from hpcflow.runtime.collective.collective_parts import Layout
from hpcflow.runtime.collective.collective_run import OperationRun, Run, Schedule
from hpcflow.runtime.collective.collective_skips import Skips
from hpcflow.runtime.wire import wire
from hpcflow.runtime.wire.lost_ranks import with_waits


class Collectives:
    """The collective operations of one endpoint, by group."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self.transport = endpoint.transport
        self._groups: dict[tuple[int, ...], Group] = {}
        self._lock = threading.Lock()
        # The upper half of the tags; those of the lower half belong to edges between tasks.
        self._next_tag = self.transport.tag_limit // 2

    def group(self, ranks: Sequence[int]) -> Group:
        """The group of `ranks`, in this order."""
        key = tuple(ranks)
        with self._lock:
            found = self._groups.get(key)
            if found is None:
                found = self._groups[key] = Group(self, key)
                if self.endpoint.failure is not None:
                    found.give_up(self.endpoint.failure)
        return found

    def take_tags(self, count: int) -> int:
        """The first of `count` tags at which nothing else is received."""
        with self._lock:
            first, self._next_tag = self._next_tag, self._next_tag + count
        if self._next_tag > self.transport.tag_limit:
            raise FailedPreconditionError(
                None, None, "Too many different collective steps: no message tags are left")
        return first

    def on_message(self, source: int, payload: bytes) -> None:
        """A control message about collectives."""
        body, blob = wire.parts_of(payload)
        self.group(body["group"]).on_message(source, body, blob)

    def rank_lost(self, rank: int, error: OpError) -> None:
        """Fail all groups with `rank`, which is lost."""
        for group in list(self._groups.values()):
            if rank in group.ranks:
                group.give_up(error)

    def tick(self) -> None:
        """Look after what waits for long; called now and then by whoever polls."""
        for group in list(self._groups.values()):
            group.tick()


class Group:
    """Ranks whose steps meet in collective operations; ``me`` is this rank's index."""

    def __init__(self, owner: Collectives, ranks: tuple[int, ...]) -> None:
        self.owner = owner
        self.ranks = ranks
        self.me = ranks.index(owner.endpoint.rank)
        self.layout = Layout(self.me, owner.endpoint.nodes_of(ranks))
        self.lock = threading.RLock()
        self.reasons: dict[int, BaseException] = {}  # step -> why it failed elsewhere
        self._agreements: dict[str, Agreement] = {}
        self._proposals: dict[str, dict[int, Any]] = {}  # led: hash -> member -> what it sent
        self._joinings: dict[str, Joining] = {}  # led, by hash: proposed by all
        self._runs: deque[Run] = deque(maxlen=tuning.COLLECTIVE_REMEMBERED)
        self._active: Run | None = None
        self._started = 0
        self._broken: BaseException | None = None
        self.disputes = Disputes(self)
        self.skips = Skips(self)
        self.links = Links(self)

    # ------------------------------------------------------------ steps

    def begin(self, schedule: Schedule, step: Any) -> Run:
        """Number a step; ``FailedPreconditionError`` while another is under way, or after one in
        which ranks differed, ``UnavailableError`` once a rank is lost."""
        with self.lock:
            if self._broken is not None:
                if isinstance(self._broken, UnavailableError):  # a rank is lost
                    raise UnavailableError(None, None, self._broken.message)
                raise FailedPreconditionError(
                    None, None, "No collective operation is possible any more, because an earlier "
                    f"one could not be completed: {self._broken}")
            if self._active is not None:
                raise FailedPreconditionError(
                    None, None, "Two steps with collective operations run at once: expected one "
                    "after the other, because all ranks must run them in the same order")
            run = Run(self, schedule, self._started, step)
            self._started += 1
            self.disputes.check(run.number)
            self._runs.append(run)
            run.agreement = self._agreement_for(schedule, run.number)
            reason = self.reasons.pop(run.number, None)
            if reason is None:
                self._active = run
        if reason is not None:
            run.fail(reason, tell=False)
            raise reason
        return run

    def step_over(self, run: Run) -> None:
        """The step of `run` has ended."""
        with self.lock:
            if self._active is run:
                self._active = None
            self.skips.step_over(run)

    def enqueue(self, run: OperationRun) -> None:
        """Start an operation, or let it wait until its tags are free. For use under the lock."""
        if self.disputes.holds(run) or self.skips.holds(run):
            return
        agreement = run.run.agreement
        index = run.operation.index
        agreement.queues[index].append(run)
        if agreement.queues[index][0] is run:
            agreement.launch(index)

    def idle_arrays(self, schedule: Schedule, index: int) -> Any:
        """Return the memory that local members share for operation `index`; None if there is none,
        or one of its runs goes on."""
        agreement = self._agreements.get(schedule.hash)
        if agreement is None or not agreement.rooms or agreement.queues[index]:
            return None
        return agreement.rooms[index] if self.owner.transport.shares_memory else None

    def dequeue(self, run: OperationRun) -> None:
        """An operation is complete: the next with its tags may start. For use under the lock."""
        agreement, index = run.run.agreement, run.operation.index
        agreement.queues[index].popleft()
        agreement.launch(index)

    # ------------------------------------------------------------ agreeing

    def agreement(self, hash: str) -> Agreement:
        """Return the agreement about a schedule that all members have proposed."""
        return self._agreements[hash]

    def _agreement_for(self, schedule: Schedule, number: int) -> Agreement:
        """Return the members' agreement about a schedule; propose the schedule if nobody has."""
        agreement = self._agreements.get(schedule.hash)
        if agreement is None:
            first_tag = self.owner.take_tags(schedule.offsets[-1])
            agreement = self._agreements[schedule.hash] = Agreement(schedule, first_tag)
        if agreement.routes is None and agreement.proposed is None:
            self._propose(agreement, schedule, number)
        return agreement

    def withdraw_proposals(self, number: int) -> None:
        """Withdraw the proposals for step `number`, which have come to nothing. For use under the
        lock."""
        for agreement in self._agreements.values():
            if agreement.proposed == number:
                agreement.proposed = None
        for hash, proposals in list(self._proposals.items()):
            self._proposals[hash] = {k: p for k, p in proposals.items() if p["number"] != number}

    def _propose(self, agreement: Agreement, schedule: Schedule, number: int) -> None:
        agreement.proposed = number
        room, sharing = None, 0
        if self.owner.transport.shares_memory and self.layout.local:
            room, sharing = agreement.make_room(list(self.layout.local).index(self.me))
        self.send(0, "propose", hash=schedule.hash, number=number, texts=schedule.texts,
                   names=[o.name for o in schedule.operations], tag=agreement.first_tag,
                   room=room, sharing=sharing, gpus=claims(self, schedule))

    def missing_agreement(self, hash: str) -> list[int]:
        """Who has not proposed a schedule yet: known to the leader, the others ask the leader."""
        if self.me:
            return [0]
        joining = self._joinings.get(hash)
        come = joining.come if joining is not None else self._proposals.get(hash, {})
        return [k for k in range(len(self.ranks)) if k not in come]

    def _on_propose(self, member: int, body: Any) -> None:
        if self.disputes.is_judged(body["number"]):
            return
        proposals = self._proposals.setdefault(body["hash"], {})
        proposals[member] = body
        for others in self._proposals.values():
            for other, theirs in others.items():
                if theirs["number"] == body["number"] and theirs["hash"] != body["hash"]:
                    self._refuse(other, theirs, member, body)
                    return
        if len(proposals) == len(self.ranks):
            del self._proposals[body["hash"]]
            self._propose_rooms(body["hash"], [proposals[k] for k in range(len(self.ranks))])

    def _propose_rooms(self, hash: str, proposals: list[Any]) -> None:
        """Let the members of each node map each other's rooms, if all have made one, and all
        members join their GPUs, if these can be."""
        sharing = min(p["sharing"] for p in proposals)
        self._joinings[hash] = Joining(
            [p["tag"] for p in proposals], sharing, [p["gpus"] for p in proposals])
        self._join(hash, [p["room"] for p in proposals] if sharing else None)

    def _join(self, hash: str, rooms: list[Any] | None) -> None:
        joining = self._joinings[hash]
        joining.places, new = self.links.decide(joining.claims, self._agreements[hash].schedule)
        if not (rooms or new):
            self._agree(hash)
            return
        for k in range(len(self.ranks)):
            self.send(k, "enter", hash=hash, rooms=rooms, places=joining.places, links=new)

    def _on_enter(self, body: Any) -> None:
        agreement = self._agreements[body["hash"]]
        if body["rooms"] is not None:
            agreement.enter({k: body["rooms"][k] for k in self.layout.local}, self.me)
        self.links.open(agreement.schedule, body["places"], body["links"], lambda failed: self.send(
            0, "entered", hash=body["hash"], entered=agreement.entered is not None, failed=failed))

    def _on_entered(self, member: int, body: Any) -> None:
        joining = self._joinings[body["hash"]]
        joining.come.add(member)
        joining.sharing *= body["entered"]
        first = body["failed"] and not joining.failed
        joining.failed = {**body["failed"], **joining.failed}
        if first:  # the others need not wait for this member
            for k in range(len(self.ranks)):
                self.send(k, "unlinked", failed=[int(n) for n in joining.failed])
        if len(joining.come) < len(self.ranks):
            return
        if not joining.failed:
            self._agree(body["hash"])
            return
        self.links.not_open(joining.failed)
        joining.ended += [int(n) for n in joining.failed]
        joining.failed, joining.come = {}, set()
        self._join(body["hash"], None)  # by another way

    def _agree(self, hash: str) -> None:
        joining = self._joinings.pop(hash)
        self.links.tell()
        for k in range(len(self.ranks)):
            self.send(k, "agreed", hash=hash, tags=joining.tags, sharing=joining.sharing,
                      places=joining.places, failed=joining.ended)

    def _refuse(self, one: int, theirs: Any, other: int, body: Any) -> None:
        error = difference(
            self.ranks[one], _labels(theirs), self.ranks[other], _labels(body))
        self.disputes.report(body["number"], error)

    def _on_agreed(self, body: Any) -> None:
        with self.lock:
            agreement = self._agreements.get(body["hash"])
            if agreement is None:
                return
            transport, tags = self.owner.transport, body["tags"]
            everything = Route(transport, self.ranks, tags, self.me, self.owner.endpoint.transfers)
            agreement.links = self.links.settle(body["places"], body["failed"])
            agreement.share(body["sharing"])
            agreement.routes = [everything.shifted(o) for o in agreement.offsets[:-1]]
            for index in range(len(agreement.queues)):
                agreement.launch(index)
            for run in self._runs:
                if run.agreement is agreement:
                    run.progress = time.monotonic()

    # ------------------------------------------------------------ failures

    def tell_failure(self, number: int, error: BaseException) -> None:
        """Tell the other members that step `number` has failed here.

        The end of the data on one rank is the end for all; what else fails is an abort.
        """
        text = str(error) or type(error).__name__
        kind = OutOfRangeError if isinstance(error, OutOfRangeError) else AbortedError
        known = kind(None, None, "A collective operation was given up, because the step of rank "
                     f"{self.ranks[self.me]} failed: {text}")
        for k in range(len(self.ranks)):
            if k != self.me:
                self.send(k, "failed", blob=known.to_wire(), number=number)

    def _break_all(self, number: int, error: OpError) -> None:
        """Tell all members that nobody can go on."""
        for k in range(len(self.ranks)):
            self.send(k, "broken", blob=error.to_wire(), number=number)

    def _on_failed(self, body: Any, error: BaseException) -> None:
        self._fail_step(body["number"], error)

    def _on_broken(self, body: Any, error: OpError) -> None:
        with self.lock:
            self._broken = self._broken or error
            run = self._active
        self.links.abort(error)
        self._fail_step(body["number"], error)
        if run is not None:  # it has begun meanwhile
            run.fail(error, tell=False)

    def link_failed(self, error: OpError) -> None:
        """What joins this rank's GPU to the others' has failed: it has for all."""
        run = self._active
        self._break_all(self._started - 1 if run is None else run.number, error)

    def give_up(self, error: OpError) -> None:
        """A member is lost: the step under way fails, and so does every later one."""
        with self.lock:
            self._broken = self._broken or error
            run = self._active
        self.links.abort(error)
        if run is not None:
            run.fail(with_waits(error, run.describe() or "nothing yet"), tell=False)

    def _fail_step(self, number: int, error: BaseException) -> None:
        with self.lock:
            run = self.run(number)
            if run is None:
                if number >= self._started:
                    self.reasons[number] = error
                return
        run.fail(error, tell=False)

    def has_begun(self, number: int) -> bool:
        """True if this rank has begun step `number`."""
        return number < self._started

    def run(self, number: int) -> Run | None:
        """Step `number` of this rank, if it has begun and is remembered."""
        return next((r for r in self._runs if r.number == number), None)

    # ------------------------------------------------------------ waiting for long

    def tick(self) -> None:
        """Look after the step that is under way."""
        run = self._active
        if run is not None:
            run.tick(time.monotonic())

    def ask(self, run: Run, members: list[int]) -> None:
        """Ask members where they are in step `run`."""
        waiting = [r.operation.index for r in run.waiting()]
        for k in members:
            if self.owner.transport.is_gone(self.ranks[k]):
                self._finished(run, k)
            else:
                self.send(k, "where", number=run.number, hash=run.schedule.hash, waiting=waiting)

    def _on_where(self, member: int, body: Any) -> None:
        with self.lock:
            run = self.run(body["number"])
            answer: dict[str, Any] = {
                "started": self._started, "finished": self.owner.endpoint.is_finished,
                "number": body["number"]}
            if run is not None:
                if run.schedule.hash != body["hash"]:
                    answer["labels"] = [o.text for o in run.schedule.operations]
                answer["passed"] = [i for i in body["waiting"] if run.over and i not in run.entered]
        self.send(member, "here", **answer)

    def _on_here(self, member: int, body: Any) -> None:
        with self.lock:
            run = self.run(body["number"])
            if run is None or run.error is not None or run.is_complete():
                return
        theirs, me = self.ranks[member], self.ranks[self.me]
        if "labels" in body:
            labels = [o.text for o in run.schedule.operations]
            self.disputes.report(run.number, difference(me, labels, theirs, body["labels"]))
        elif body.get("passed"):
            operation = run.schedule.operations[body["passed"][0]]
            self.disputes.report(run.number, FailedPreconditionError(
                None, None, f"Rank {me} waits in the collective operation {operation.text}, but "
                f"the step of rank {theirs} has ended without it"))
        elif body["started"] <= run.number and body["finished"] and not run.schedule.shared:
            self._finished(run, member)

    def _finished(self, run: Run, member: int) -> None:
        waiting = run.waiting()
        if waiting:
            self._break_all(run.number, FailedPreconditionError(
                None, None, f"Rank {self.ranks[self.me]} waits in the collective operation "
                f"{waiting[0].operation.text}, but rank {self.ranks[member]} has finished and will "
                "not come"))

    # ------------------------------------------------------------ messages

    def send(self, member: int, what: str, blob: bytes = b"", **fields: Any) -> None:
        """Send another member, or this one, a control message."""
        body = {"group": self.ranks, "what": what, **fields}
        self.owner.transport.send_message(
            self.ranks[member], wire.pack(wire.COLLECTIVE, body=body, blob=blob))

    def on_message(self, source: int, body: Any, blob: bytes) -> None:
        """A control message from another member, or from this one."""
        member, what = self.ranks.index(source), body["what"]
        if what == "propose":
            self._on_propose(member, body)
        elif what == "enter":
            self._on_enter(body)
        elif what == "entered":
            self._on_entered(member, body)
        elif what == "exported":
            self.links.on_exported(member, body["number"], body["address"])
        elif what == "unlinked":
            self.links.end(body["failed"])
        elif what == "agreed":
            self._on_agreed(body)
        elif what == "dispute":
            self.disputes.on_dispute(body["number"], from_wire(blob))
        elif what == "judged":
            self.disputes.on_judged(body["number"], from_wire(blob))
        elif what == "skipped":
            self.skips.on_skipped(member, body)
        elif what == "skipped too":
            self.skips.on_skipped_too(member, body)
        elif what == "sent":
            self.disputes.on_sent(member, body["number"], body["hash"])
        elif what == "failed":
            self._on_failed(body, from_wire(blob))
        elif what == "broken":
            self._on_broken(body, from_wire(blob))
        elif what == "where":
            self._on_where(member, body)
        else:
            self._on_here(member, body)


def _labels(proposal: Any) -> list[str]:
    return [f"'{name}' ({text})" for name, text in zip(proposal["names"], proposal["texts"],
                                                       strict=True)]


def difference(one: int, mine: list[str], other: int, theirs: list[str]) -> InvalidArgumentError:
    """The error of two ranks that run different schedules in steps of the same number."""
    def what(labels: list[str]) -> str:
        return labels[i] if i < len(labels) else "nothing more"

    i = next((i for i, (a, b) in enumerate(zip(mine, theirs))
              if a.split("(", 1)[-1] != b.split("(", 1)[-1]), min(len(mine), len(theirs)))
    return InvalidArgumentError(
        None, None, f"The ranks do not run the same collective operations: number {i + 1} of the "
        f"step is {what(mine)} on rank {one}, {what(theirs)} on rank {other}")
