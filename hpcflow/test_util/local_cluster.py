"""Clusters of one process, for tests of programs that use several tasks."""

from __future__ import annotations

from typing import Any

from hpcflow.runtime.cluster.server import unused_addresses
from hpcflow.train.server import Server


def create_local_cluster(num_workers: int, num_ps: int, protocol: str = "grpc",
                         worker_config: Any = None,
                         ps_config: Any = None) -> tuple[list[Server], list[Server]]:
    """Return the servers of `num_workers` workers and of `num_ps` parameter servers, all started in
    this process.

    The jobs are "worker" and "ps". Other arguments as those of ``Server``.
    """
    addresses = unused_addresses(num_workers + num_ps)
    cluster = {"worker": addresses[:num_workers], "ps": addresses[num_workers:]}
    workers = [Server(cluster, "worker", i, protocol, worker_config) for i in range(num_workers)]
    return workers, [Server(cluster, "ps", i, protocol, ps_config) for i in range(num_ps)]
