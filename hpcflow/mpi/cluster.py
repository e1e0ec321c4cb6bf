"""Clusters from MPI: which rank and which task this process is."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.comm import launch as launching
from hpcflow.framework.cluster_spec import ClusterSpec

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Task", "local_rank", "local_size", "network", "rank", "recover", "size", "task"]


@dataclass(frozen=True)
class Task:
    """This rank's place in a cluster.

    Attributes:
        cluster: the :class:`~hpcflow.train.ClusterSpec` of all ranks (addresses ``mpi://RANK``).
        job: the name of this rank's job.
        index: this rank's index in the job.
        rank: this rank, and ``size``: the number of ranks.
    """

    cluster: ClusterSpec
    job: str
    index: int
    rank: int = 0
    size: int = 1


def network(comm: MPI.Comm | None = None) -> Any:
    """The network of a communicator (the world by default), made together with all its ranks."""
    from hpcflow.runtime.cluster import server

    return server.mpi_network(comm)


def recover() -> bool:
    """Go on without the ranks that are lost; to be called by a training loop of one's own when a
    step has raised ``UnavailableError`` or ``AbortedError``.

    Needs HPCFLOW_FAULT_TOLERANCE=shrink. All ranks that are left must call, and are waited for;
    those that serve tasks (``Server.join``) do so by themselves. Afterwards :func:`rank` and
    :func:`size` count those that are left, tasks keep their names, and the tasks of lost ranks have
    moved to others. All variables of servers are gone: close the session, make a new one, and
    restore the last checkpoint. ``MonitoredTrainingSession`` does all this.

    Returns False if no rank is lost: the error has another cause. Raises ``DeadlineExceededError``
    if a rank that is left does not come within HPCFLOW_COLLECTIVE_TIMEOUT seconds.
    """
    from hpcflow.runtime.cluster import server

    server.wait_for_loss()
    return server.regroup() is not None


def rank() -> int:
    """This process's rank in the world; 0 without MPI."""
    return _world(None)[0]


def size() -> int:
    """The number of ranks of the world; 1 without MPI."""
    return _world(None)[1]


def local_rank() -> int:
    """This process's number among the ranks of its node; 0 without MPI.

    Where the launcher does not tell, all ranks must call.
    """
    return _on_node()[0]


def local_size() -> int:
    """The number of ranks on this node; 1 without MPI. As :func:`local_rank`."""
    return _on_node()[1]


def _on_node() -> tuple[int, int]:
    """(rank, size) among the ranks of this node."""
    from hpcflow.comm import world
    from hpcflow.comm.launch import launch

    started = launch()
    if started is None:
        return 0, 1
    if started.local_rank is not None and started.local_size is not None:
        return started.local_rank, started.local_size
    from hpcflow.runtime.cluster import server

    comms = server.mpi_network().comms
    return comms.local_ranks.index(world.world().rank), len(comms.local_ranks)


def task(jobs: dict[str, int] | None = None, comm: MPI.Comm | None = None,
         rest: str = "worker") -> Task:
    """Give every rank of `comm` (the world by default) a task, from MPI alone.

    `jobs` maps job names to numbers of tasks, which take the first ranks in order; the remaining
    ranks are the job `rest`. All ranks of `comm`, which may be any mpi4py communicator, must call.
    Without `jobs` the first HPCFLOW_PS ranks are the job "ps" (``python -m hpcflow run --ps N``
    sets it). A process that runs alone is the only worker, whatever `jobs` says.

    Raises ``InvalidArgumentError`` when the jobs leave no rank for `rest`, or are not counts.
    """
    from hpcflow.runtime.cluster import server

    me, count = _world(comm)
    if jobs is None and config.flags.ps:
        jobs = {"ps": config.flags.ps}
    counts = _checked(jobs or {}, rest)
    if count == 1:
        _say_alone(counts, rest)
        cluster = ClusterSpec({rest: ["mpi://0"]})
        cluster._network = server.process_network()
        return Task(cluster, rest, 0)
    layout = layout_of(counts, count, rest)
    cluster = ClusterSpec({j: [f"mpi://{r}" for r in ranks] for j, ranks in layout.items()})
    # Makes the private communicators, together with all ranks.
    cluster._network = server.mpi_network(comm)
    job, index = next((j, ranks.index(me)) for j, ranks in layout.items() if me in ranks)
    if launching.on_task is not None:
        launching.on_task(job == rest)
    return Task(cluster, job, index, me, count)


def _say_alone(counts: dict[str, int], rest: str) -> None:
    """Tell a program that asks for tasks of other jobs that it has one process for all of them."""
    asked = {job: number for job, number in counts.items() if number}
    if asked:
        told = " and ".join(f"{n} of job '{job}'" for job, n in asked.items())
        print(f"hpcflow: the program asks for tasks ({told}), but runs as one process: it is the "
              f"only {rest}, and holds all variables. For a job of ranks: hpcflow run -n "
              f"{sum(asked.values()) + 1} PROGRAM", file=sys.stderr, flush=True)


def layout_of(counts: dict[str, int], ranks: int, rest: str) -> dict[str, list[int]]:
    """job -> ranks, for `ranks` ranks."""
    from hpcflow.errors import InvalidArgumentError

    needed = sum(counts.values())
    if needed >= ranks:
        asked = ", ".join(f"{n} for {j!r}" for j, n in counts.items())
        raise InvalidArgumentError(
            None, None, f"The jobs ask for {needed} ranks ({asked}) and at least one rank is "
            f"needed for {rest!r}, but only {ranks} ranks run: start more ranks or ask for "
            "fewer tasks")
    layout: dict[str, list[int]] = {}
    start = 0
    for job, number in counts.items():
        layout[job] = list(range(start, start + number))
        start += number
    layout[rest] = list(range(start, ranks))
    return {j: r for j, r in layout.items() if r}


def _checked(jobs: dict[str, int], rest: str) -> dict[str, int]:
    from hpcflow.errors import InvalidArgumentError

    for job, number in jobs.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 0 or job == rest:
            raise InvalidArgumentError(
                None, None, f"jobs={jobs!r}: expected names of jobs other than {rest!r} with "
                "numbers of tasks")
    return dict(jobs)


def _world(comm: Any) -> tuple[int, int]:
    """(rank, size) of `comm`, or of the world; (0, 1) where no launcher started ranks."""
    from hpcflow.comm import world

    if comm is not None:
        return comm.Get_rank(), comm.Get_size()
    if not world.launched_under_mpi():
        return 0, 1
    here = world.world()
    if here.size > 1:
        from hpcflow.runtime.cluster import server

        server.join_at_end()
    return here.rank, here.size
