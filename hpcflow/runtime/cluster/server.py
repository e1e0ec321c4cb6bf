"""Where tasks are: endpoints by address, over MPI or inside one process, and sessions' targets."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.base import at_end
from hpcflow.comm import abort
from hpcflow.comm.launch import launch
from hpcflow.errors import (
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnknownError,
)
from hpcflow.host import blas
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.cluster import preemption
from hpcflow.runtime.cluster.endpoint import Endpoint
from hpcflow.runtime.cluster.master import ClusterEngine
from hpcflow.runtime.cluster.peers import Peers, moved_tasks
from hpcflow.runtime.cluster.preemption import noticing
from hpcflow.runtime.cluster.process_network import ProcessNetwork
from hpcflow.runtime.executor.event_loop import event_loop
from hpcflow.runtime.steps.compiled import StepOptions
from hpcflow.runtime.steps.task import Task

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from mpi4py import MPI

    from hpcflow.comm.world import PrivateComms

MPI_SCHEME = "mpi://"

_lock = threading.RLock()
# Servers of this process: target -> server.
_servers: dict[str, TaskServer] = {}


class Regrouped(NamedTuple):
    """This rank among those that are left: its number, theirs, whether it is the chief now, and
    whether any is."""

    rank: int
    size: int
    is_chief: bool
    has_chief: bool


class TaskServer:
    """One task of a cluster, served by this process.

    `addresses` maps (job, index) to address: ``mpi://RANK`` is a rank of the communicator, any
    other address only names a task. Port 0 of a task that is alone stands for a name that is free;
    other tasks could not find one that is chosen so. The variables are those of the task `shared`.
    """

    def __init__(self, addresses: dict[tuple[str, int], str], job: str, index: int,
                 config: Message | None = None, network: Any = None,
                 shared: Task | None = None) -> None:
        if (job, index) not in addresses:
            have = ", ".join(f"/job:{j}/task:{i}" for j, i in sorted(addresses))
            raise InvalidArgumentError(
                None, None, f"Task /job:{job}/task:{index} is not in the cluster: it has {have}")
        self.endpoint: Endpoint
        self.network = network or _network_for(addresses)
        is_alone = len(addresses) == 1 and isinstance(self.network, ProcessNetwork)
        if is_alone and addresses[(job, index)].endswith(":0"):
            addresses = {**addresses, (job, index): unused_addresses(1)[0]}
        self.addresses = addresses
        self.address = addresses[(job, index)]
        self.names = {f"/job:{j}/replica:0/task:{i}": a for (j, i), a in addresses.items()}
        # Nothing behind `join` is meant to run where a program could not tell ranks from hosts.
        self.ends_with_join = (network is None and self.network is not _process_network
                               and not self.address.startswith(MPI_SCHEME))
        with _lock:
            scheme = "" if "://" in self.address else "grpc://"
            self.target = f"{scheme}{self.address}{self.network.suffix}"
            if self.target in _servers and not _servers[self.target].endpoint.closed:
                raise UnknownError(None, None, f"Could not start a server: this process already "
                                   f"serves {self.address}")
            transport = self.network.attach(self.address, addresses)
            self.options = StepOptions(config)
            self.task = Task(job, index, self.options.device_counts, self.options.gpus,
                             shared.resources if shared else None)
            self.endpoint = Endpoint(self.task, transport, self.network.oversubscribed)
            self.network.announce(self.endpoint, self.address)
            _servers[self.target] = self

    def peers(self) -> Peers:
        """The tasks of the cluster, for a session with this task as its master."""
        lost = self.network.lost_of(self.names.values())
        names = {name: address for name, address in self.names.items() if address not in lost}
        return Peers(self.endpoint, names,
                     lambda address: self.network.resolve(self.endpoint, address),
                     moved_tasks(sorted(set(self.names) - set(names)), sorted(names)))

    def join(self) -> None:
        """Serve until every other task is done; then nobody needs this server any more."""
        while True:
            try:
                with noticing(self.endpoint):
                    self.network.join(self.endpoint, self.address)
                break
            except UnavailableError:
                if not regroup():
                    raise
        self.close()

    def renew(self) -> None:
        """Serve the task on the ranks that are left: without variables, which a session has to
        restore."""
        self.task.resources.clear()
        self.task = Task(self.task.job, self.task.index, self.options.device_counts,
                         self.options.gpus)
        self.endpoint = Endpoint(self.task, self.network.transport, self.network.oversubscribed)
        self.network.announce(self.endpoint, self.address)

    def close(self) -> None:
        """Stop serving this task."""
        with _lock:
            _servers.pop(self.target, None)
        self.network.detach(self.address)
        self.endpoint.close()


def server_at(target: str) -> TaskServer:
    """The server of this process at `target`.

    Raises ``UnavailableError`` if nobody here serves it, ``NotFoundError`` for what is no address.
    """
    with _lock:
        server = _servers.get(target)
    if server is None:
        if "://" not in target:
            raise NotFoundError(None, None, "No session factory registered for the given session "
                                f"options: {{target: {target!r}}}; a target is \"\" for this "
                                "process, or that of an hpcflow.train.Server")
        have = ", ".join(_servers) or "none"
        raise UnavailableError(
            None, None, f"No server in this process has the target '{target}' (servers here: "
            f"{have}); make an hpcflow.train.Server first and use its target")
    return server


def engine_for(target: str, session_id: str, options: StepOptions) -> ClusterEngine:
    """The engine of a session on `target`, with the server's options where none are given, and
    logging placement where either says so; raises as :func:`server_at`."""
    server = server_at(target)
    if options.proto is None:
        options = server.options
    options.log_placement |= server.options.log_placement
    return ClusterEngine(server.endpoint, server.peers(), session_id, options)


def servers_here() -> list[TaskServer]:
    """The servers of this process that programs have made."""
    with _lock:
        return [s for target, s in _servers.items() if "#" not in target]


def task_of(target: str) -> Task:
    """The task that this process serves at `target`; ``UnavailableError`` if there is none."""
    return server_at(target).task


def tasks_and_nodes() -> list[tuple[str, int]]:
    """(name, number of the node) of each task of the cluster that this process serves in; none
    without a server, 0 where nodes are not known."""
    with _lock:
        server = next(iter(_servers.values()), None)
    if server is None:
        return []
    nodes = getattr(getattr(server.endpoint.transport, "comms", None), "nodes", ())
    return [(name, nodes[int(number)] if number.isdigit() and int(number) < len(nodes) else 0)
            for name, address in server.names.items()
            for number in [address.removeprefix(MPI_SCHEME)]]


def own_name() -> str:
    """A name for this process that no other process of the job has."""
    started = launch()
    return f"rank-{started.rank or 0}" if started else "rank-0"


def reset_target(target: str, containers: list[str] | None, config: Message) -> None:
    """Clear resource containers on every task that the master at `target` knows."""
    engine = engine_for(target, "reset", StepOptions(config))
    engine.reset(containers)


def _network_for(addresses: dict[tuple[str, int], str]) -> Any:
    """MPI in a world of several ranks, otherwise this process."""
    from hpcflow.comm import world

    if world.launched_under_mpi() and world.world().size > 1:
        return mpi_network()
    return process_network()


# ---------------------------------------------------------------- over MPI


class MpiNetwork:
    """Tasks are the ranks of one communicator; each rank serves at most one."""

    def __init__(self, comm: MPI.Comm | None = None) -> None:
        from hpcflow.comm import abort, survivors, world

        self.comm = comm  # keeps the key of this network from being used again
        here = world.world()
        survivors.check()
        self._use(survivors.first_comms(comm))
        if not self.comms.met:
            self.transport.give_up()
        if self.oversubscribed:
            blas.share_cores()
        self.suffix = f"#{len(_mpi_networks)}" if _mpi_networks else ""
        self._attached = False
        self._served: set[str] | None = None  # addresses, once a rank is lost
        abort.install_abort_hook(here.rank)
        at_end.register(self._end)

    def _use(self, comms: PrivateComms) -> None:
        from hpcflow.comm.mpi_transport import MpiTransport

        self.comms = comms
        self.transport = MpiTransport(comms)
        self.rank = self.transport.rank
        self.size = self.transport.size
        self.oversubscribed = comms.oversubscribed
        self._endpoint: Endpoint | None = None
        self._asked: dict[str, Any] = {}

    def collectives(self) -> Any:
        """The collective operations of this rank, also where it serves no task of a cluster."""
        with _lock:
            if self._endpoint is None:
                self._endpoint = Endpoint(Task(), self.transport, self.oversubscribed)
            return self._endpoint.collectives

    def _end(self) -> None:
        """At the end of this rank, which may have been refused its task and gone on without one:
        serve the others until they are done too."""
        _serve_to_the_end(self)

    # ------------------------------------------------------------ ranks that are lost

    @property
    def has_lost(self) -> bool:
        """True if a rank is known to be lost."""
        return self._endpoint is not None and bool(self._endpoint.health.lost)

    def regroup(self, role: str) -> list[str]:
        """Go on with the ranks that are left, all of which must come here; returns their roles."""
        from hpcflow.comm import survivors, world

        assert self._endpoint is not None
        before = self._endpoint
        self.transport.give_up()
        before.close()
        servers = [s for s in _servers.values() if s.network is self]
        record = {"role": role, "serves": [s.address for s in servers]}
        found = survivors.shrink(self.comms, json.dumps(record).encode())
        if self.comm is None:
            world.renumber(found.comm)
        self._use(found.comms)
        for server in servers:
            server.renew()
        preemption.watch.regrouped(before, self.collectives().endpoint)
        records = [json.loads(text) for text in found.records]
        self._served = {address for record in records for address in record["serves"]}
        return [record["role"] for record in records]

    def lost_of(self, addresses: Iterable[str]) -> set[str]:
        """Those of the addresses at which a rank that is lost has served a task."""
        return set() if self._served is None else set(addresses) - self._served

    def attach(self, address: str, addresses: dict) -> Any:
        """The transport of this rank, for the task at `address`."""
        if len(addresses) > self.size:
            raise InvalidArgumentError(
                None, None, f"The cluster has {len(addresses)} tasks, but only {self.size} ranks "
                "run: start at least as many ranks as tasks")
        for other in addresses.values():  # on every rank, not only where somebody asks for it
            if other.startswith(MPI_SCHEME):
                rank_of(other, self.size)
        if address.startswith(MPI_SCHEME) and rank_of(address, self.size) != self.rank:
            raise InvalidArgumentError(
                None, None, f"{address} is not this rank ({self.rank}): a task is served by the "
                "rank that its address names")
        if self._attached:
            raise AlreadyExistsError(None, None, f"Rank {self.rank} already serves a task")
        self._attached = True
        return self.transport

    def announce(self, endpoint: Endpoint, address: str) -> None:
        """Tell rank 0 which task this rank serves."""
        if self._endpoint is not None:
            endpoint.replace(self._endpoint)
        self._endpoint = endpoint
        if not address.startswith(MPI_SCHEME):
            endpoint.announce(address)

    def resolve(self, endpoint: Endpoint, address: str) -> int | None:
        """The rank of `address`; None while it is not known."""
        if address.startswith(MPI_SCHEME):
            origins = self.comms.origins
            rank = rank_of(address, max(origins) + 1)
            return origins.index(rank) if rank in origins else None
        reply = self._asked.get(address)
        if reply is None or (reply.done and address not in (reply.body or {})):
            self._asked[address] = endpoint.request(0, "resolve", [address])
            return None
        return reply.body[address] if reply.done else None

    def detach(self, address: str) -> None:
        """Do nothing: the rank keeps its transport until the process ends."""

    def join(self, endpoint: Endpoint, address: str) -> None:
        """Serve until all ranks are done."""
        endpoint.serve_until_all_finished()


def rank_of(address: str, size: int) -> int:
    """The rank in ``mpi://RANK``; ``InvalidArgumentError`` if it is not one of `size` ranks."""
    text = address[len(MPI_SCHEME):]
    if not text.isdigit() or int(text) >= size:
        raise InvalidArgumentError(
            None, None, f"'{address}' is not an address of a rank: expected mpi://0 to "
            f"mpi://{size - 1}")
    return int(text)


def _serve_to_the_end(network: MpiNetwork) -> None:
    """At the end of the process nothing reports an exception: end the job if a rank is lost."""
    from hpcflow.comm import abort

    while True:
        endpoint = network.collectives().endpoint
        try:
            endpoint.serve_until_all_finished()
            return
        except UnavailableError as error:
            if not regroup():
                abort.abort_job(endpoint.rank, abort.FAILURE, f"ending the job: {error}")


_process_network: ProcessNetwork | None = None
_mpi_networks: dict[Any, MpiNetwork] = {}


def process_network() -> ProcessNetwork:
    """The tasks of this process."""
    global _process_network
    with _lock:
        if _process_network is None:
            _process_network = ProcessNetwork()
        return _process_network


def mpi_network(comm: MPI.Comm | None = None) -> MpiNetwork:
    """The network of a communicator (the world by default), made once; all its ranks must ask."""
    with _lock:
        key = None if comm is None else id(comm)
        if key not in _mpi_networks:
            _mpi_networks[key] = MpiNetwork(comm)
        return _mpi_networks[key]


def world_collectives() -> Any:
    """The collective operations over all ranks of the job; None in a process of its own.

    The first call needs all ranks; see :func:`mpi_network`.
    """
    from hpcflow.comm import world

    if not world.launched_under_mpi() or (
            world.world().size == 1 and None not in _mpi_networks):
        return None
    return mpi_network().collectives()


def regroup(role: str = "") -> Regrouped | None:
    """Go on without the ranks that are lost; None if none is known to be, or ranks are not to go on
    without each other (HPCFLOW_FAULT_TOLERANCE).

    All ranks that are left must come here. Tasks keep their names, and have no variables any more.
    `role` is "chief" of the one that restores and saves, "worker" of one that can do so too.
    """
    from hpcflow.comm import survivors

    if not survivors.wanted():
        return None
    done = None
    for network in [n for n in _mpi_networks.values() if n.has_lost]:
        roles = network.regroup(role)
        chief = next((r for kind in ("chief", "worker") for r in range(len(roles))
                      if roles[r] == kind), -1)
        done = Regrouped(network.rank, network.size, chief == network.rank, chief >= 0)
    if done is not None:
        abort.lost.clear()
    return done


def wait_for_loss() -> None:
    """Wait until a rank is known to be lost, for as long as that may take after another rank's
    error."""
    from hpcflow.comm import survivors

    if survivors.wanted():
        with contextlib.suppress(DeadlineExceededError):
            event_loop().run_until(lambda: any(n.has_lost for n in _mpi_networks.values()),
                                   time.monotonic() + tuning.LAST_WORDS_SECONDS)


_joins_at_end = False


def join_at_end() -> None:
    """This rank is one of a program that all ranks run: should it end without having met the
    others, they are to learn it, and if it fails, so does the job."""
    global _joins_at_end
    from hpcflow.comm import abort, world

    if not _joins_at_end:
        _joins_at_end = True
        # The kernels need it, and at the end of the process it cannot be imported any more.
        import concurrent.futures.thread  # noqa: F401

        abort.install_abort_hook(world.world().rank)
        at_end.register(_meet_at_end)


def _meet_at_end() -> None:
    if not _mpi_networks:
        with contextlib.suppress(UnavailableError):  # the others do not meet either
            _serve_to_the_end(mpi_network())


def unused_addresses(count: int) -> list[str]:
    """Addresses that no server of this process has, of the range of ports that nobody registers."""
    with _lock:
        free = (f"localhost:{number}" for number in itertools.count(49152)
                if f"grpc://localhost:{number}" not in _servers)
        return list(itertools.islice(free, count))
