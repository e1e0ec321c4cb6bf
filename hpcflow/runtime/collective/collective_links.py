"""Which collective operations stay on GPUs: the links between those of a group's members.

When members agree on a schedule, each says for every operation on which GPU it is, and what keeps
this from a link. If these are different GPUs that NCCL can use, all open a link by NCCL between
them; if not, and all are of one node, one by memory that they share. Later schedules use it as
well. If opening fails on some member, the next way is tried, and at last values go through the
hosts: for all members, and the first one says why, once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.errors import AbortedError, OpError
from hpcflow.runtime.collective.collective_linked import has_bits_of_its_own, why_not
from hpcflow.runtime.wire import wire

if TYPE_CHECKING:
    from hpcflow.runtime.collective.collective_run import Schedule
    from hpcflow.runtime.collective.collectives import Group

#: What a member says of an operation: its GPU, and for each way what keeps it from that; None on a
#: CPU.
Claim = list[str] | None
#: The ways between GPUs, the preferred first.
_WAYS = ("nccl", "ipc")
_BY_MEMORY = ""  # what is for these links in the place of a name
_NOT_OPEN = AbortedError(None, None, "Another rank could not join this one's GPU to its own")
_SAME_BITS = "HPCFLOW_DETERMINISTIC=1 asks for the same bits as on CPUs"


def claims(group: Group, schedule: Schedule) -> list[Claim]:
    """What this member says of each operation of a schedule."""
    far = _far(group)
    return [_claim(o, far) for o in schedule.operations]


def _far(group: Group) -> str:
    """Why this member cannot share memory of its GPU with all others; empty if it can."""
    if not config.flags.cuda_ipc:
        return "HPCFLOW_CUDA_IPC=0"
    far = [r for k, r in enumerate(group.ranks)
           if k != group.me and not group.owner.transport.is_near(r)]
    return f"rank {far[0]} is not a process of the same node" if far else ""


def _claim(operation: Any, far: str) -> Claim:
    if operation.device is None:
        return None
    gpu, *found = operation.device.link_claim()
    return [gpu, *(why or (far if way == "ipc" else "") or _of_work(operation.work, way)
                   for way, why in zip(_WAYS, found, strict=True))]


def _of_work(work: Any, way: str) -> str:
    if config.flags.deterministic and has_bits_of_its_own(work, way):
        return _SAME_BITS
    return why_not(work, way)


class Links:
    """The links of one group, by number; changed under the group's lock."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._open: dict[int, Any] = {}
        self._ended: set[int] = set()
        self._error: OpError | None = None
        # Of links by memory, by number: what is called once they are open, and where the other
        # members' memory is.
        self._entering: dict[int, Callable[[BaseException | None], None]] = {}
        self._addresses: dict[int, dict[int, list[Any]]] = {}
        # Of the first member: way and GPUs -> number of their link, or why it is not open.
        self._numbers: dict[tuple[str, ...], int] = {}
        self._failures: dict[tuple[str, ...], str] = {}
        self._to_say: list[str] = []
        self._said: set[str] = set()

    # ------------------------------------------------------------ the first member

    def decide(self, proposals: Sequence[Sequence[Claim]],
               schedule: Schedule) -> tuple[list[int | None], dict[str, str]]:
        """The number of each operation's link, None for hosts, and the names of links to open."""
        places: list[int | None] = []
        new: dict[str, str] = {}
        self._to_say = []
        for operation, members in zip(schedule.operations, zip(*proposals, strict=True),
                                      strict=True):
            places.append(self._place(operation, members, new))
        return places, new

    def _place(self, operation: Any, members: Sequence[Claim], new: dict[str, str]) -> int | None:
        if not any(members):
            return None
        reasons: list[str] = []
        for way in _WAYS:
            key = (way, *(m[0] for m in members if m is not None))
            why = self._why_not(members, way) or self._why_not_open(key, operation, new)
            if not why:
                if reasons:
                    self._say("memory that they share", reasons)
                return self._numbers[key]
            reasons.append(why)
        self._say("host memory", reasons)
        return None

    def _why_not_open(self, key: tuple[str, ...], operation: Any, new: dict[str, str]) -> str:
        """Why there is no link; empty if there is one, or one is to be opened."""
        if key not in self._numbers and key not in self._failures:
            try:
                name = operation.device.link_name().hex() if key[0] == "nccl" else _BY_MEMORY
            except Exception as e:  # noqa: BLE001  (whatever the library says)
                self._failures[key] = str(e)
            else:
                self._numbers[key] = len(self._numbers)
                new[str(self._numbers[key])] = name
        return self._failures.get(key, "")

    def _why_not(self, members: Sequence[Claim], way: str) -> str:
        users: dict[str, int] = {}
        for rank, claim in zip(self._group.ranks, members, strict=True):
            if claim is None:
                return f"rank {rank} has no GPU for them"
            gpu, why = claim[0], claim[1 + _WAYS.index(way)]
            if why:
                return f"rank {rank}: {why}"
            if way == "nccl" and gpu in users:
                return f"ranks {users[gpu]} and {rank} use one GPU"
            users[gpu] = rank
        return ""

    def not_open(self, failed: dict[str, str]) -> None:
        """Some member could not open these links, for these reasons."""
        for key, number in self._numbers.items():
            if str(number) in failed:
                self._failures[key] = failed[str(number)]

    def _say(self, where: str, reasons: Sequence[str]) -> None:
        self._to_say.append(f"{where}: {'; '.join(dict.fromkeys(reasons))}")

    def tell(self) -> None:
        """Say what was decided last, as far as it has not been said."""
        for text in self._to_say:
            if text not in self._said:
                self._said.add(text)
                logging.getLogger("hpcflow").info(
                    "Collective operations of GPUs go through %s", text)

    # ------------------------------------------------------------ every member

    def open(self, schedule: Schedule, places: Sequence[int | None], new: dict[str, str],
             done: Callable[[dict[str, str]], None]) -> None:
        """Open the `new` links; then call ``done`` with why some are not open, by number."""
        left, failed = set(new), dict[str, str]()

        def opened(number: str, error: BaseException | None) -> None:
            with self._group.lock:
                if error is not None:
                    failed[number] = f"rank {self._group.ranks[self._group.me]}: {error}"
                left.discard(number)
                if left:
                    return
            done(failed)

        if not new:
            done(failed)
        for number, name in list(new.items()):
            device = schedule.operations[places.index(int(number))].device
            self._begin(int(number), device, name, partial(opened, number))

    def _begin(self, number: int, device: Any, name: str,
               opened: Callable[[BaseException | None], None]) -> None:
        group, by_memory = self._group, name == _BY_MEMORY
        try:
            link = (device.open_ipc_link(group.ranks, group.me, self._closed, self._failed)
                    if by_memory else device.open_link(
                        bytes.fromhex(name), len(group.ranks), group.me, self._failed))
        except Exception as e:  # noqa: BLE001  (whatever the library says)
            opened(e)
            return
        self._open[number] = link
        if self._error is not None:
            link.abort(self._error, tell=False)
        if not by_memory:
            link.when_open(opened)
            return
        self._entering[number] = opened
        for k in range(len(group.ranks)):
            if k != group.me:
                group.send(k, "exported", number=number, address=link.address)
        self._enter(number)

    def on_exported(self, member: int, number: int, address: list[Any]) -> None:
        """A member has exported memory for a link."""
        if number in self._ended:
            self._closed(self._group.ranks[member], address[1])
            return
        self._addresses.setdefault(number, {})[member] = address
        self._enter(number)

    def _enter(self, number: int) -> None:
        """Open the memory of the others, once all have exported it and this one has."""
        addresses = self._addresses.get(number, {})
        if number not in self._entering or len(addresses) < len(self._group.ranks) - 1:
            return
        opened = self._entering.pop(number)
        del self._addresses[number]
        try:
            self._open[number].enter(addresses)
        except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
            opened(e)
        else:
            opened(None)

    def _closed(self, rank: int, number: int) -> None:
        """Tell a rank that what it has exported is closed here."""
        self._group.owner.transport.send_message(rank, wire.pack(wire.CLOSED, body=number))

    def settle(self, places: Sequence[int | None], failed: Sequence[int]) -> list[Any]:
        """The link of each operation, None for hosts; those that `failed` somewhere are ended."""
        self.end(failed)
        return [None if n is None else self._open.get(n) for n in places]

    def end(self, numbers: Sequence[int]) -> None:
        """Some member cannot open these links."""
        for number in set(numbers) - self._ended:
            self._ended.add(number)
            link = self._open.pop(number, None)
            if link is not None:
                link.abort(_NOT_OPEN, tell=False)
            for member, address in self._addresses.pop(number, {}).items():
                self._closed(self._group.ranks[member], address[1])
            opened = self._entering.pop(number, None)
            if opened is not None:
                opened(_NOT_OPEN)

    def _failed(self, error: OpError) -> None:
        self._group.link_failed(error)

    def abort(self, error: OpError) -> None:
        """A member is lost, or a link has failed: nothing waits for GPUs any more."""
        self._error = self._error or error
        for link in list(self._open.values()):
            link.abort(error, tell=False)
