"""Clusters that one session has for itself: named by its options, or with variables of its own."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from hpcflow.errors import InvalidArgumentError, UnavailableError, UnimplementedError
from hpcflow.runtime.cluster.master import ClusterEngine
from hpcflow.runtime.cluster.server import (
    ProcessNetwork,
    TaskServer,
    engine_for,
    server_at,
    servers_here,
)
from hpcflow.runtime.steps.compiled import StepOptions

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.peers import Peers


class OwnClusterEngine(ClusterEngine):
    """The engine of a session whose tasks nobody else sees; they end with it."""

    def __init__(self, master: TaskServer, servers: list[TaskServer], session_id: str,
                 options: StepOptions) -> None:
        peers: Peers = master.peers()
        super().__init__(master.endpoint, peers, session_id, options)
        self._own_servers = servers

    def close(self) -> None:
        """End the session's tasks, with their variables."""
        super().close()
        for server in self._own_servers:
            server.close()
        self._own_servers = []


def engine_of_session(target: str, session_id: str, options: StepOptions) -> ClusterEngine:
    """The engine of a session on `target`, in a cluster of its own where its options ask for it;
    raises as :func:`own_engine` and ``server.engine_for``."""
    proto = options.proto
    if proto is not None and (proto.cluster_def.job or proto.isolate_session_state):
        return own_engine(server_at(target), session_id, options)
    return engine_for(target, session_id, options)


def own_engine(server: TaskServer, session_id: str, options: StepOptions) -> ClusterEngine:
    """The engine of a session at `server` with the cluster that its options name, or with its own
    state in the cluster of the server.

    Raises ``UnavailableError`` for the address of a server that is not in this process,
    ``InvalidArgumentError`` for a cluster without `server`, ``UnimplementedError`` over MPI.
    """
    if not isinstance(server.network, ProcessNetwork):
        raise UnimplementedError(
            None, None, "A session over MPI ranks has the cluster and the variables of its Server: "
            "cluster_def and isolate_session_state are for servers of one process")
    here, proto = {s.address: s for s in servers_here()}, options.proto
    addresses = _named(proto.cluster_def, here) if proto.cluster_def.job else {
        place: a for place, a in server.addresses.items() if a in here}
    shares_state = (proto.experimental.share_session_state_in_clusterspec_propagation
                    and not proto.isolate_session_state)
    own = ProcessNetwork()
    own.suffix = f"#{session_id}"
    servers = [TaskServer(addresses, job, index, here[address].options.proto, own,
                          here[address].task if shares_state else None)
               for (job, index), address in addresses.items()]
    master = next((s for s in servers if s.address == server.address), None)
    if master is None:
        for each in servers:
            each.close()
        raise InvalidArgumentError(None, None, f"The cluster_def of a session at {server.address} "
                                               "must have a task with this address")
    return OwnClusterEngine(master, servers, session_id, options)


def _named(cluster: Any, here: Container[str]) -> dict[tuple[str, int], str]:
    """The addresses of a ``ClusterDef`` by (job, index)."""
    addresses = {(job.name, int(index)): address
                 for job in cluster.job for index, address in job.tasks.items()}
    missing = sorted(address for address in addresses.values() if address not in here)
    if missing:
        raise UnavailableError(None, None, f"No server in this process has the address "
                               f"{', '.join(missing)} that cluster_def names")
    return addresses
