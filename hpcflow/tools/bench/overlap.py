"""``bench overlap``: how much of the reduction of gradients hides behind the backward pass.

Two ranks train a deep perceptron. Measured are, in turns, the step without the other rank (the
computation), the reduction of equally many bytes in equal pieces alone (the communication), and
the step that does both. What is hidden is the part of the communication by which the last is
shorter than the sum of the first two. Once over a simulated link, which takes time but no
processor, chosen so that the communication lasts half as long as the computation; and once between
the ranks as they are, whose messages are work of the same processors.

What would go over the simulated link lies in memory that the ranks share, and is read when it would
have come. Left to the processors are the sums, which no link computes, and what a rank copies into
shared memory: neither can be hidden where all cores compute. So both steps are also run over a link
that takes no time, and ``of the link %`` says how much is hidden of what the link adds to that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow
from hpcflow.comm.simulated_link import SimulatedLink
from hpcflow.comm.world import world
from hpcflow.runtime.cluster import server
from hpcflow.runtime.executor.event_loop import event_loop
from hpcflow.tools import table
from hpcflow.tools.bench.contestants import Contestant, Local
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import Plan, alternate, plan_of
from hpcflow.tools.bench.together import Team
from hpcflow.tools.table import Row

if TYPE_CHECKING:
    from hpcflow.graph.likes import SessionLike
    from hpcflow.graph.operation import Operation

COMPUTE, COMMUNICATE, BOTH = "compute", "communicate", "both"
#: The same over a link that takes no time.
WORK, BOTH_WORK = "communicate at once", "both at once"
_BATCH, _WIDTH, _DEPTH = 256, 1024, 10
_LATENCY = 50e-6
#: Of the communication over the simulated link to the computation.
_SHARE = 0.5
#: Bytes per second of a link that takes no time.
_AT_ONCE = 1e15
_PLAN = Plan(rounds=7, block_seconds=0.8, min_samples=3)


def run(options: Options) -> list[Row]:
    """Measure over both links; rank 0 returns rows."""
    comm = world().comm.Dup()
    plan = plan_of(options) if options.quick else _PLAN
    depth = 2 if options.quick else _DEPTH
    link = install_link()
    session, steps = open_session(depth)
    rows: list[Row] = []
    try:
        for title in ("real ranks", "simulated link"):
            contestants: list[Contestant] = [Local(name, step) for name, step in steps.items()]
            if title == "simulated link":
                seconds = comm.bcast(rows[0]["compute ms"] / 1e3 if rows else None)
                speed = _LATENCY, depth * _WIDTH**2 * 4 / (_SHARE * seconds)
                contestants = [OverLink(name, step, link, *speed) for name, step in steps.items()]
                contestants += [OverLink(WORK, steps[COMMUNICATE], link, 0.0, _AT_ONCE),
                                OverLink(BOTH_WORK, steps[BOTH], link, 0.0, _AT_ONCE)]
            team = Team(comm, contestants)
            if comm.rank:
                team.follow()
            else:
                rows.append(row_of(title, alternate(team.turns, plan)))
                table.tell(rows[-1:])
                team.end()
    finally:
        session.close()
    return rows


class OverLink(Local):
    """A step over the simulated link at a speed of its own."""

    def __init__(self, name: str, step: Callable[[], Any], link: SimulatedLink, latency: float,
                 bandwidth: float) -> None:
        super().__init__(name, step)
        self._link = link
        self._speed = latency, bandwidth

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `Contestant`."""
        self._link.latency, self._link.bandwidth = self._speed
        return super().block(samples, batch)


def install_link() -> SimulatedLink:
    """Let collective operations go over a link that can be made slow."""
    collectives = server.mpi_network().collectives()
    link = SimulatedLink(collectives.transport)
    collectives.transport = link
    event_loop().add(link, collectives.endpoint.transport.comms.oversubscribed)
    return link


def open_session(depth: int) -> tuple[Any, dict[str, Callable[[], Any]]]:
    """A session, and its three steps."""
    with hpcflow.Graph().as_default() as graph:
        x = hpcflow.Variable(np.ones((_BATCH, _WIDTH), np.float32), trainable=False)
        y = x.value()
        for _ in range(depth):
            deviation = (2.0 / _WIDTH) ** 0.5
            w = hpcflow.Variable(hpcflow.random_normal([_WIDTH, _WIDTH], stddev=deviation))
            y = hpcflow.nn.relu(hpcflow.matmul(y, w))
        loss = hpcflow.reduce_mean(hpcflow.square(y))
        plain = hpcflow.train.GradientDescentOptimizer(1e-9)
        # All gradients before any update, and as values of their own (what is fetched reads them,
        # so no update is fused with its gradient), as with other ranks.
        pairs = plain.compute_gradients(loss, gate_gradients=plain.GATE_GRAPH)
        corners = [hpcflow.slice(grad, [0, 0], [1, 1]) for grad, _ in pairs]
        alone = [plain.apply_gradients(pairs), *corners]
        both = hpcflow.mpi.DistributedOptimizer(plain).minimize(loss)
        weights = hpcflow.trainable_variables()
        reduced = hpcflow.group(*[hpcflow.mpi.allreduce(w.value()) for w in weights])
        session = hpcflow.Session(graph=graph)
        session.run(hpcflow.global_variables_initializer())
    steps = {COMPUTE: alone, COMMUNICATE: reduced, BOTH: both}
    return session, {name: _runner(session, op) for name, op in steps.items()}


def _runner(session: SessionLike, op: Operation) -> Callable[[], Any]:
    return lambda: session.run(op)


def row_of(title: str, rounds: dict[str, list[list[float]]]) -> Row:
    """The times, and the part of the communication that is hidden (by rounds)."""
    seconds = {name: np.array([float(np.median(block)) for block in blocks])
               for name, blocks in rounds.items()}
    alone, both = seconds[COMMUNICATE], seconds[BOTH]
    hidden = {"hidden %": (seconds[COMPUTE] + alone - both) / alone}
    if WORK in seconds:
        hidden["of the link %"] = 1 - (both - seconds[BOTH_WORK]) / (alone - seconds[WORK])
    times = {f"{name} ms": 1e3 * float(np.median(np.concatenate(blocks)))
             for name, blocks in rounds.items()}
    return {"case": title, **times,
            **{name: 100 * float(np.median(parts)) for name, parts in hidden.items()}}
