"""The tasks of a cluster as a master sees them, and the answers to what it asks them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hpcflow import config
from hpcflow.compiler.distribute.place import DeviceInfo
from hpcflow.errors import DeadlineExceededError, UnavailableError
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.endpoint import Endpoint
    from hpcflow.runtime.cluster.requests import Reply


class Peer:
    """A task of the cluster as a master sees it."""

    __slots__ = ("name", "address", "rank", "devices")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.rank: int | None = None
        self.devices: list[DeviceInfo] | None = None


class Peers:
    """The tasks of a cluster: where they are and what devices they have, asked for when needed.

    `addresses` has those that are there, `moved` the task that each lost one has moved to.
    """

    def __init__(self, endpoint: Endpoint, addresses: dict[str, str],
                 resolve: Callable[[str], int | None], moved: dict[str, str] | None = None) -> None:
        self.endpoint = endpoint
        self._moved = moved or {}
        self.peers = {name: Peer(name, address) for name, address in addresses.items()}
        self._resolve = resolve
        self._asked: dict[str, tuple[Reply, int]] = {}
        self._lock = threading.Lock()

    def infos(self) -> list[DeviceInfo]:
        """The devices of all tasks that have answered."""
        return [self._known(p, d) for p in self.peers.values() for d in p.devices or ()]

    def _known(self, peer: Peer, device: DeviceInfo) -> DeviceInfo:
        lost = self.tasks_of(peer.name)[1:]
        return device if not lost else device._replace(stands_for=tuple(
            device.name.replace(peer.name, name) for name in lost))

    def tasks_of(self, name: str) -> list[str]:
        """The tasks whose work the task `name` does: itself, and lost ones."""
        return [name, *(lost for lost, where in self._moved.items() if where == name)]

    def ranks(self) -> dict[str, int]:
        """Task name -> rank, of the tasks that have answered."""
        return {p.name: p.rank for p in self.peers.values() if p.rank is not None and p.devices}

    def rank_of(self, name: str) -> int | None:
        """The rank of a task; None while it is not known."""
        peer = self.peers[name]
        return self._resolve(peer.address) if peer.rank is None else peer.rank

    def connect(self, needed: Callable[[str], bool]) -> None:
        """Wait until every task for which ``needed(name)`` holds has answered.

        Says on standard error which it waits for when that takes long. Raises
        ``UnavailableError`` naming those that nobody serves after HPCFLOW_CONNECT_TIMEOUT seconds.
        """
        with self._lock:
            waiting = [p for p in self.peers.values() if p.devices is None and needed(p.name)]
            if not waiting:
                return
            begun = time.monotonic()
            deadline, say = begun + config.flags.connect_timeout, begun + tuning.SILENT_SECONDS
            pause = 0.0
            while True:
                if self.endpoint.failure is not None:
                    raise self.endpoint.failure
                waiting = [p for p in waiting if not self._ask(p)]
                if not waiting:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._unavailable(waiting)
                if time.monotonic() > say:
                    say = deadline
                    print(f"waiting for a server of {_named(waiting)}", file=sys.stderr, flush=True)
                pause = min(pause + 0.001, 0.05, left)
                self._drive(waiting, pause)

    def _drive(self, waiting: list[Peer], seconds: float) -> None:
        try:
            self.endpoint.loop.run_until(
                lambda: any(self._answered(p) for p in waiting), time.monotonic() + seconds)
        except DeadlineExceededError:
            pass

    def _answered(self, peer: Peer) -> bool:
        asked = self._asked.get(peer.name)
        return asked is not None and asked[0].done

    def _ask(self, peer: Peer) -> bool:
        """True once `peer` has answered."""
        asked = self._asked.get(peer.name)
        if asked is None:
            rank = self._resolve(peer.address)
            if rank is None:
                return False
            self._asked[peer.name] = (self.endpoint.request(rank, "describe"), rank)
            return False
        reply, rank = asked
        if not reply.done:
            return False
        if reply.error is not None or reply.body["task"] != peer.name:
            del self._asked[peer.name]
            if reply.error is not None and rank in self.endpoint.health.lost:
                raise reply.error
            return False  # somebody else is there: ask again later
        peer.rank = rank
        peer.devices = [DeviceInfo(*d) for d in reply.body["devices"]]
        return True

    def _unavailable(self, waiting: list[Peer]) -> UnavailableError:
        return UnavailableError(
            None, None, f"Nobody serves {_named(waiting)}: no answer within "
            f"{config.flags.connect_timeout:g} s (HPCFLOW_CONNECT_TIMEOUT). Every task of the "
            "cluster needs a process that makes its hpcflow.train.Server, and these processes are "
            "ranks of one MPI job: mpirun or `hpcflow run` starts them, a fork does not")


def _named(waiting: list[Peer]) -> str:
    return ", ".join(f"{p.name} ({p.address})" for p in waiting)


def moved_tasks(lost: list[str], there: list[str]) -> dict[str, str]:
    """The task that each lost one moves to: one of the same job, if any is left."""
    moved = {}
    for i, name in enumerate(lost):
        job = name.partition("/replica:")[0] + "/"
        of_job = [other for other in there if other.startswith(job)] or there
        moved[name] = of_job[i % len(of_job)]
    return moved
