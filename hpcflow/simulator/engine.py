"""The engine: a discrete-event simulation of steps on a cluster.

A rank runs one piece of work at a time; ranks of a node share its cores; the bytes of messages
occupy the port of the sender and that of the receiver one after the other. A step is a start
message from its master to every task, the messages between the tasks, and a done message from each.
Masters whose step has collective operations wait there for each other.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

from hpcflow.simulator.cluster import Cluster, Link
from hpcflow.simulator.program import Program, Work


class Load(NamedTuple):
    """The load of a rank: the shares of the time that it computed, sent and received."""

    compute: float
    sending: float
    receiving: float


class Result(NamedTuple):
    """The result of a simulation.

    Attributes:
        step_times: seconds of every step of every master, after the warm-up.
        seconds: from the end of the warm-up to the last end of a step.
        loads: rank -> ``Load``.
        bytes_per_step: bytes that one step sends.
    """

    step_times: list[float]
    seconds: float
    loads: dict[int, Load]
    bytes_per_step: int

    @property
    def step_time(self) -> float:
        """The median time of a step."""
        ordered = sorted(self.step_times)
        return ordered[len(ordered) // 2]

    @property
    def steps_per_second(self) -> float:
        """Steps of all masters together."""
        return len(self.step_times) / self.seconds if self.seconds else float("inf")

    def percentile(self, share: float) -> float:
        """The step time that a share (0 to 1) of the steps does not exceed."""
        ordered = sorted(self.step_times)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Switch the collection of cycles off meanwhile: events are many, and there are no cycles among
    them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class _Rank:
    __slots__ = ("number", "queue", "busy", "compute", "egress", "ingress", "sent", "received",
                 "node")  # fmt: skip

    def __init__(self, number: int, node: int) -> None:
        self.number = number
        self.node = node
        self.queue: deque[tuple[_Run, Work]] = deque()
        self.busy = False
        self.compute = 0.0  # seconds of work
        self.egress = self.ingress = 0.0  # when the ports are free again
        self.sent = self.received = 0.0  # seconds that they were occupied


class _Run:
    """One step of one master under way; `waits` and `left` count down."""

    __slots__ = ("master", "waits", "left", "begin", "ranks", "slow", "number",
                 "ended")  # fmt: skip

    def __init__(self, master: int, number: int, waits: list[int], left: dict[str, int],
                 ranks: dict[str, int], begin: float, slow: float) -> None:
        self.master = master
        self.number = number
        self.waits = waits
        self.left = left
        self.begin = begin
        self.ranks = ranks
        self.slow = slow
        self.ended = 0  # tasks whose done message is there


class Simulation:
    """Steps of one program by all tasks of the master's job, each a replica of the master.

    Args:
        program: one replica's step.
        cluster: where it runs.
        replicas: how many masters run steps; all tasks of the master's job by default.
        synchronous: masters wait for each other at the end of every step.
        backup: of a synchronous step, the number of masters that nobody waits for.
        straggle: a function of a ``random.Random`` that gives the factor by which the compute of
            one master's step is slower (1 for none).
        seed: of that generator.
    """

    def __init__(self, program: Program, cluster: Cluster, replicas: int | None = None,
                 synchronous: bool = False, backup: int = 0,
                 straggle: Callable[[random.Random], float] | None = None, seed: int = 0) -> None:
        self.program = program
        self.cluster = cluster
        first = cluster.rank_of(program.master)
        count = cluster.job_of(first).tasks if replicas is None else replicas
        self.masters = [first + i for i in range(count)]
        self.synchronous = synchronous
        self.needed = count - backup
        self.straggle = straggle
        self.random = random.Random(seed)
        self.ranks = [_Rank(i, cluster.node_of(i)) for i in range(cluster.size)]
        self.cores: dict[int, int] = {}
        if cluster.cores_per_node:
            self.cores = {r.node: cluster.cores_per_node for r in self.ranks}
        # (number of the step, index of the work) -> those of a collective operation that have come
        self.meetings: dict[tuple[int, int], list[_Run]] = {}
        self.waiting: dict[int, deque[_Rank]] = {}  # node -> ranks that wait for a core
        self.nodes = [r.node for r in self.ranks]
        # The same in every step: where the tasks are but for the master's, the work of each, and
        # what it waits for; the start message counts.
        self.places = {t: cluster.rank_of(t) for t in program.tasks}
        self.work: dict[str, list[Work]] = {t: [] for t in self.places}
        for work in program.work:
            self.work[work.task].append(work)
        self.left = {t: len(found) for t, found in self.work.items()}
        # Of each piece of work, its messages: after what share of it, where to, who reads, bytes.
        self.messages = [[(m.after, *program.readers[m.edge], m.nbytes) for m in w.messages]
                         for w in program.work]
        self.waits = [w.waits + 1 for w in program.work]
        # (time, number, action, its arguments)
        self.events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        # Events of one time come in the order in which they were made.
        self.numbers = itertools.count()
        self.now = 0.0

    def run(self, steps: int = 3, warm_up: int = 1) -> Result:
        """Simulate `steps` steps of every master after `warm_up` steps."""
        self.total = steps + warm_up
        self.warm_up = warm_up
        self.warming = warm_up * (1 if self.synchronous else len(self.masters))  # steps
        self.times: list[float] = []
        self.begin = 0.0
        self.end = 0.0
        self.done_steps = dict.fromkeys(self.masters, 0)
        self.arrived = 0
        self.round = 0
        self.round_begin = 0.0
        for master in self.masters:
            self._start(master, 0)
        events = self.events
        with _no_collection():
            while events:
                self.now, _, action, arguments = heappop(events)
                action(*arguments)
        return self._result()

    def _link(self, a: int, b: int) -> Link:
        """The link between two ranks."""
        cluster, nodes = self.cluster, self.nodes
        return cluster.within if nodes[a] == nodes[b] else cluster.between

    # ------------------------------------------------------------ steps

    def _slowest(self, ranks: list[_Rank]) -> Link:
        """The link of an operation of all `ranks`: that between nodes, unless they are on one."""
        far = any(r.node != ranks[0].node for r in ranks)
        return self.cluster.between if far else self.cluster.within

    def _at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        heappush(self.events, (time, next(self.numbers), action, arguments))

    def _start(self, master: int, number: int) -> None:
        ranks = self.places | {self.program.master: master}
        slow = self.straggle(self.random) if self.straggle is not None else 1.0
        run = _Run(master, number, self.waits.copy(), self.left.copy(), ranks, self.now, slow)
        for task, rank in ranks.items():
            delay = self.cluster.step_overhead
            if rank != master:
                delay += self._link(master, rank).latency
            self._at(self.now + delay, self._begin, run, task)

    def _begin(self, run: _Run, task: str) -> None:
        """Begin the work of `task`, which the start message has reached."""
        if not run.left[task]:
            self._task_done(run, task)
            return
        for work in self.work[task]:
            self._ready(run, work)

    def _ready(self, run: _Run, work: Work) -> None:
        """Count down what `work` waits for; start it when nothing is left."""
        run.waits[work.index] -= 1
        if not run.waits[work.index]:
            self._go(run, work)

    def _go(self, run: _Run, work: Work) -> None:
        if work.collective is not None and len(self.masters) > 1:
            self._meet(run, work)
        else:
            self._enqueue(run, work)

    def _enqueue(self, run: _Run, work: Work) -> None:
        rank = self.ranks[run.ranks[work.task]]
        rank.queue.append((run, work))
        if not rank.busy:
            self._next(rank)

    def _meet(self, run: _Run, work: Work) -> None:
        """Let the masters meet: when all have come, what they send each other takes its time; then
        each computes its part."""
        come = self.meetings.setdefault((run.number, work.index), [])
        come.append(run)
        count = len(self.masters)
        if len(come) < count:
            return
        del self.meetings[run.number, work.index]
        ranks = [self.ranks[r.ranks[work.task]] for r in come]
        link = self._slowest(ranks)
        assert work.collective is not None
        seconds = link.seconds(work.collective.received(count))
        delay = work.collective.rounds(count) * (link.latency + link.overhead)
        start = max(self.now, *(max(r.egress, r.ingress) for r in ranks))
        for one, rank in zip(come, ranks, strict=True):
            rank.egress = rank.ingress = start + seconds
            rank.sent += seconds
            rank.received += seconds
            self._at(start + seconds + delay, self._enqueue, one, work)

    def _next(self, rank: _Rank) -> None:
        if not rank.queue:
            rank.busy = False
            return
        rank.busy = True
        if self.cores:
            if not self.cores[rank.node]:
                self.waiting.setdefault(rank.node, deque()).append(rank)
                return
            self.cores[rank.node] -= 1
        run, work = rank.queue.popleft()
        seconds = work.seconds * (run.slow if run.master == rank.number else 1.0)
        overheads = 0.0
        now, events, numbers = self.now, self.events, self.numbers
        for after, task, readers, nbytes in self.messages[work.index]:
            target = self.ranks[run.ranks[task]]
            link = self.cluster.within if target.node == rank.node else self.cluster.between
            overheads += link.overhead
            heappush(events, (now + after * seconds, next(numbers), self._send,
                              (run, rank, target, readers, nbytes, link)))
        rank.compute += seconds + overheads
        heappush(events, (now + seconds + overheads, next(numbers), self._end, (run, work, rank)))

    def _end(self, run: _Run, work: Work, rank: _Rank) -> None:
        self._deliver(run, work.readers)
        run.left[work.task] -= 1
        if not run.left[work.task]:
            self._task_done(run, work.task)
        if self.cores:
            self.cores[rank.node] += 1
            queue = self.waiting.get(rank.node)
            self._next(rank)
            while queue and self.cores[rank.node]:
                self._next(queue.popleft())
        else:
            self._next(rank)

    # ------------------------------------------------------------ messages

    def _send(self, run: _Run, rank: _Rank, target: _Rank, readers: list[int], nbytes: int,
              link: Link) -> None:
        if target is rank:
            self._deliver(run, readers)
            return
        seconds = nbytes / link.bandwidth
        start = max(self.now, rank.egress)
        rank.egress = start + seconds
        rank.sent += seconds
        first = max(start + link.latency, target.ingress)
        target.ingress = first + seconds
        target.received += seconds
        heappush(self.events, (first + seconds + link.overhead, next(self.numbers),
                               self._deliver, (run, readers)))

    def _deliver(self, run: _Run, readers: list[int]) -> None:
        waits, program = run.waits, self.program.work
        for index in readers:
            waits[index] -= 1
            if not waits[index]:
                self._go(run, program[index])

    # ------------------------------------------------------------ ends

    def _task_done(self, run: _Run, task: str) -> None:
        rank = run.ranks[task]
        delay = 0.0 if rank == run.master else self._link(rank, run.master).latency
        self._at(self.now + delay, self._count, run)

    def _count(self, run: _Run) -> None:
        run.ended += 1
        if run.ended == len(run.ranks):
            self._step_done(run)

    def _step_done(self, run: _Run) -> None:
        if self.synchronous:
            self._arrive(run)
            return
        self._record(run.begin, run.number)
        if run.number + 1 < self.total:
            self._start(run.master, run.number + 1)

    def _arrive(self, run: _Run) -> None:
        """A synchronous round ends when all masters but the backups are done."""
        if run.number < self.round:
            return  # too late: its round is over
        self.arrived += 1
        if self.arrived < self.needed:
            return
        self._record(self.round_begin, self.round)
        self.arrived = 0
        self.round += 1
        self.round_begin = self.now
        if self.round < self.total:
            for master in self.masters:
                self._start(master, self.round)

    def _record(self, begin: float, number: int) -> None:
        if number < self.warm_up:
            self.begin = max(self.begin, self.now)
            self.warming -= 1
            if not self.warming:
                self._forget()
            return
        self.times.append(self.now - begin)
        self.end = max(self.end, self.now)

    def _forget(self) -> None:
        """Set the loads back to zero: they count from the end of the warm-up."""
        for rank in self.ranks:
            rank.compute = rank.sent = rank.received = 0.0

    def _result(self) -> Result:
        seconds = max(self.end - self.begin, 1e-12)
        loads = {r.number: Load(r.compute / seconds, r.sent / seconds, r.received / seconds)
                 for r in self.ranks}
        return Result(self.times, seconds, loads, self.program.bytes_sent())
