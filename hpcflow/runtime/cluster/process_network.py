"""Clusters whose tasks are all in this process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.comm.loopback import LoopbackNetwork
from hpcflow.runtime.cluster.endpoint import Endpoint


class ProcessNetwork:
    """Tasks of one process, over the loopback transport."""

    oversubscribed = True
    suffix = ""

    def __init__(self) -> None:
        self._network = LoopbackNetwork(1)  # rank 0 is never served: ranks of tasks start at 1
        self._ranks: dict[str, int] = {}
        self._clusters: dict[str, tuple[str, ...]] = {}
        self._done: set[str] = set()  # addresses whose tasks joined or were closed

    def attach(self, address: str, addresses: dict) -> Any:
        """A transport for a new task."""
        endpoint = self._network.add()
        self._ranks[address] = endpoint.rank
        self._clusters[address] = tuple(addresses.values())
        self._done.discard(address)
        return endpoint

    def announce(self, endpoint: Endpoint, address: str) -> None:
        """Do nothing: addresses are known as soon as they are attached."""

    def resolve(self, endpoint: Endpoint, address: str) -> int | None:
        """The rank that serves `address`, or None."""
        return self._ranks.get(address)

    def lost_of(self, addresses: Iterable[str]) -> set[str]:
        """Return nothing: no task of a process is lost without the others."""
        return set()

    def detach(self, address: str) -> None:
        """`address` is no longer served."""
        self._ranks.pop(address, None)
        self._done.add(address)

    def join(self, endpoint: Endpoint, address: str) -> None:
        """Serve until every task of the cluster has joined or was closed."""
        self._done.add(address)
        others = self._clusters[address]
        endpoint.loop.run_until(lambda: endpoint.closed or self._done.issuperset(others))
