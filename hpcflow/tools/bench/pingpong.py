"""``bench pingpong``: what the transport adds to MPI between two ranks.

Round trips of one buffer through persistent slots, of one control message, and the four messages
of a step (start, parameter, update, done), each handled in a callback of a minimal event loop;
beside each, in turns with it, the same exchange by blocking calls of bare mpi4py with buffers made
beforehand. Rank 0 times, and tells rank 1 which exchange comes next.

``mpirun -n 2 python -m hpcflow.tools.bench.pingpong`` prints the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from hpcflow.comm.mpi_transport import MpiTransport
from hpcflow.comm.waiting import Backoff
from hpcflow.comm.world import private_comms
from hpcflow.tools import table
from hpcflow.tools.bench import child
from hpcflow.tools.bench.registry import BENCHMARKS, Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, plan_of, rows_of
from hpcflow.tools.table import Row

if TYPE_CHECKING:
    from mpi4py import MPI

BARE = "bare mpi4py"
#: What a message of the control plane carries in the exchanges that have one.
MESSAGE = b"m" * 32
_TO_SERVER, _TO_CLIENT, _START, _DONE, _COMMAND = 1, 2, 3, 4, 5


class Case(NamedTuple):
    """One exchange: ``buffer``, ``message`` or ``step``, and the bytes of its buffers."""

    kind: str
    size: int

    @property
    def title(self) -> str:
        """The name of the case in the table."""
        names = {"buffer": "round trip", "message": "message and answer", "step": "4 messages"}
        return f"{names[self.kind]}, {_bytes(self.size)}"


CASES = (
    *(Case("buffer", size) for size in (0, 4, 1 << 10, 32 << 10, 1 << 20, 8 << 20, 64 << 20)),
    Case("message", len(MESSAGE)),
    Case("step", 4),
    Case("step", 1 << 20),
)


def _bytes(size: int) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


class Exchange(Protocol):
    """One program's side of one exchange, on either rank."""

    def step(self) -> None:
        """Rank 0: one exchange."""

    def serve(self, steps: int) -> None:
        """Rank 1: take part in `steps` exchanges."""

    def close(self) -> None:
        """Release everything."""


class BareTrips:
    """Round trips of a buffer by blocking calls."""

    def __init__(self, comm: MPI.Comm, size: int) -> None:
        self._comm = comm
        self._out = np.zeros(size, np.uint8)
        self._in = np.zeros(size, np.uint8)

    def step(self) -> None:
        """There and back."""
        self._comm.Send(self._out, 1, _TO_SERVER)
        self._comm.Recv(self._in, 1, _TO_CLIENT)

    def serve(self, steps: int) -> None:
        """Send back what comes."""
        comm = self._comm
        for _ in range(steps):
            comm.Recv(self._in, 0, _TO_SERVER)
            comm.Send(self._out, 0, _TO_CLIENT)

    def close(self) -> None:
        """Nothing is held."""


class BareSteps(BareTrips):
    """The four messages of a step by blocking calls."""

    def __init__(self, comm: MPI.Comm, size: int) -> None:
        super().__init__(comm, size)
        self._message = bytearray(MESSAGE)

    def step(self) -> None:
        """Start, parameter, update, done."""
        comm = self._comm
        comm.Send(self._message, 1, _START)
        comm.Recv(self._in, 1, _TO_CLIENT)
        comm.Send(self._out, 1, _TO_SERVER)
        comm.Recv(self._message, 1, _DONE)

    def serve(self, steps: int) -> None:
        """The other side of it."""
        comm = self._comm
        for _ in range(steps):
            comm.Recv(self._message, 0, _START)
            comm.Send(self._out, 0, _TO_CLIENT)
            comm.Recv(self._in, 0, _TO_SERVER)
            comm.Send(self._message, 0, _DONE)


class OurExchange:
    """Common part of the exchanges over the transport: an event loop that counts exchanges."""

    def __init__(self, transport: MpiTransport) -> None:
        self._transport = transport
        self._backoff = Backoff(transport.comms.oversubscribed)
        self._finished = 0
        self._wanted = 0

    def _until_wanted(self) -> None:
        poll, backoff = self._transport.poll, self._backoff
        while self._finished < self._wanted:
            if poll():
                backoff.reset()
            else:
                backoff.wait()

    def serve(self, steps: int) -> None:
        """Callbacks do the work."""
        self._wanted += steps
        self._until_wanted()

    def close(self) -> None:
        """Wait until everything has left."""
        while self._transport.pending():
            self._transport.poll()


class OurMessages(OurExchange):
    """A control message and its answer."""

    def __init__(self, transport: MpiTransport, size: int) -> None:
        super().__init__(transport)
        transport.set_handler(self._came)

    def step(self) -> None:
        """Ask, and wait for the answer."""
        self._wanted += 1
        self._transport.send_message(1, MESSAGE)
        self._until_wanted()

    def _came(self, source: int, payload: bytes) -> None:
        self._finished += 1
        if source == 0:
            self._transport.send_message(0, payload)


class Edge:
    """Both directions of a buffer between the ranks, as persistent slots."""

    def __init__(self, transport: MpiTransport, size: int) -> None:
        peer = 1 - transport.rank
        tags = (_TO_SERVER, _TO_CLIENT) if peer else (_TO_CLIENT, _TO_SERVER)
        self.send = transport.send_slot(np.zeros(size, np.uint8), peer, tags[0])
        self.receive = transport.recv_slot(np.zeros(size, np.uint8), peer, tags[1])
        self._owed = False

    def send_next(self) -> None:
        """Send now, or once the last message has left."""
        if self.send.busy:
            self._owed = True
        else:
            self.send.start(self._left)

    def _left(self) -> None:
        if self._owed:
            self._owed = False
            self.send.start(self._left)

    def close(self) -> None:
        """Free the slots."""
        self.send.close()
        self.receive.close()


class OurTrips(OurExchange):
    """Round trips of a buffer."""

    def __init__(self, transport: MpiTransport, size: int) -> None:
        super().__init__(transport)
        self._edge = Edge(transport, size)

    def step(self) -> None:
        """There and back."""
        self._wanted += 1
        self._edge.receive.start(self._came_back)
        self._edge.send_next()
        self._until_wanted()

    def _came_back(self, count: int) -> None:
        self._finished += 1

    def serve(self, steps: int) -> None:
        """Send back what comes."""
        self._wanted += steps
        self._edge.receive.start(self._came)
        self._until_wanted()

    def _came(self, count: int) -> None:
        self._finished += 1
        if self._finished < self._wanted:
            self._edge.receive.start(self._came)
        self._edge.send_next()

    def close(self) -> None:
        """Free the slots."""
        super().close()
        self._edge.close()


class OurSteps(OurExchange):
    """The four messages of a step."""

    def __init__(self, transport: MpiTransport, size: int) -> None:
        super().__init__(transport)
        self._edge = Edge(transport, size)
        transport.set_handler(self._asked if transport.rank else self._answered)

    def step(self) -> None:
        """Start; the callbacks do the rest."""
        self._wanted += 1
        self._edge.receive.start(self._parameter_came)
        self._transport.send_message(1, MESSAGE)
        self._until_wanted()

    def _parameter_came(self, count: int) -> None:
        self._edge.send_next()

    def _answered(self, source: int, payload: bytes) -> None:
        self._finished += 1

    def _asked(self, source: int, payload: bytes) -> None:
        self._edge.receive.start(self._update_came)
        self._edge.send_next()

    def _update_came(self, count: int) -> None:
        self._finished += 1
        self._transport.send_message(0, MESSAGE)

    def close(self) -> None:
        """Free the slots."""
        super().close()
        self._edge.close()


def make(program: str, case: Case, transport: MpiTransport) -> Exchange:
    """Return this rank's side of the exchange `case` in `program`."""
    if program == BARE:
        bare = {"buffer": BareTrips, "message": BareTrips, "step": BareSteps}[case.kind]
        return bare(transport.comms.collectives, case.size)
    ours = {"buffer": OurTrips, "message": OurMessages, "step": OurSteps}[case.kind]
    return ours(transport, case.size)  # type: ignore[return-value]


class Contestant:
    """Rank 0's side of one program; its blocks take rank 1 along."""

    def __init__(self, name: str, number: int, case: Case, transport: MpiTransport) -> None:
        self.name = name
        self._comm = transport.comms.collectives
        self._number = number
        self._exchange = make(name, case, transport)

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `contestants.Contestant`."""
        _command(self._comm, self._number, samples * batch)
        return child.measure(self._exchange.step, samples, batch)

    def close(self) -> None:
        """Release the exchange."""
        self._exchange.close()


def _command(comm: MPI.Comm, program: int, steps: int) -> None:
    comm.Send(np.array([program, steps], np.int64), 1, _COMMAND)


def run(options: Options) -> list[Row]:
    """Measure every case; only rank 0 returns rows."""
    transport = MpiTransport(private_comms())
    rows: list[Row] = []
    for case in CASES:
        if transport.rank == 0:
            rows += measure_case(case, transport, plan_of(options))
        else:
            obey(case, transport)
        # The next case must not meet messages of this one.
        transport.comms.control.Barrier()
    transport.close()
    return rows


def measure_case(case: Case, transport: MpiTransport, plan: Plan) -> list[Row]:
    """Rank 0: the rows of one case."""
    programs = (OURS, BARE)
    contestants = [Contestant(name, n, case, transport) for n, name in enumerate(programs)]
    rows = rows_of(case.title, alternate(contestants, plan))
    _command(transport.comms.collectives, 0, 0)
    for contestant in contestants:
        contestant.close()
    for row in rows:
        shown = case.kind == "buffer" and case.size > 0
        row["GB/s"] = 2 * case.size / (1e3 * row["median_us"]) if shown else None
    return rows


def obey(case: Case, transport: MpiTransport) -> None:
    """Rank 1: take part in what rank 0 says, until it says that the case is over."""
    exchanges = [make(name, case, transport) for name in (OURS, BARE)]
    command = np.zeros(2, np.int64)
    while True:
        transport.comms.collectives.Recv(command, 0, _COMMAND)
        program, steps = map(int, command)
        if not steps:
            break
        exchanges[program].serve(steps)
    for exchange in exchanges:
        exchange.close()


def main() -> None:
    """Print the table."""
    rows = run(Options())
    if rows:
        print(table.render(f"pingpong: {BENCHMARKS['pingpong'].summary}", rows), flush=True)


if __name__ == "__main__":
    main()
