"""Which collective operations stay on GPUs: the links between those of a group's members.

When members agree on a schedule, each says for every operation on which GPU it is. If these are
different ones that NCCL can use, all open a link between them, which later schedules use as well.
If that fails on some member, or GPUs are shared, values go through the hosts: for all members, and
the first one says why, once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.errors import AbortedError, OpError
from hpcflow.runtime.collective import collective_device

if TYPE_CHECKING:
    from hpcflow.runtime.collective.collective_run import Schedule
    from hpcflow.runtime.collective.collectives import Group

#: What a member says of an operation: its GPU and why that cannot be linked; None on a CPU.
Claim = list[str] | None
_NOT_OPEN = AbortedError(None, None, "Another rank could not join this one's GPU to its own")
_SAME_BITS = "HPCFLOW_DETERMINISTIC=1 asks for the same bits as on CPUs"


def claims(schedule: Schedule) -> list[Claim]:
    """What this member says of each operation of a schedule."""
    return [_claim(o) for o in schedule.operations]


def _claim(operation: Any) -> Claim:
    if operation.device is None:
        return None
    gpu, why = operation.device.link_claim()
    if config.flags.deterministic:
        why = why or _SAME_BITS
    return [gpu, why or collective_device.why_not(operation.work)]


class Links:
    """The links of one group, by number; changed under the group's lock."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._open: dict[int, Any] = {}
        self._error: OpError | None = None
        # Of the first member: GPUs -> number of their link, or None where it could not be opened.
        self._numbers: dict[tuple[str, ...], int | None] = {}
        self._count = 0
        self._said: set[str] = set()

    # ------------------------------------------------------------ the first member

    def decide(self, proposals: Sequence[Sequence[Claim]],
               schedule: Schedule) -> tuple[list[int | None], dict[str, str]]:
        """The number of each operation's link, None for hosts, and the names of links to open."""
        places: list[int | None] = []
        new: dict[str, str] = {}
        for operation, members in zip(schedule.operations, zip(*proposals, strict=True),
                                      strict=True):
            places.append(self._place(operation, members, new))
        return places, new

    def _place(self, operation: Any, members: Sequence[Claim], new: dict[str, str]) -> int | None:
        gpus = [m for m in members if m is not None]
        if not gpus:
            return None
        why = self._why_not(members)
        if why:
            self._say(why)
            return None
        key = tuple(m[0] for m in gpus)
        if key not in self._numbers:
            try:
                new[str(self._count)] = operation.device.link_name().hex()
            except Exception as e:  # noqa: BLE001  (whatever the library says)
                self._numbers[key] = None
                self._say(str(e))
                return None
            self._numbers[key] = self._count
            self._count += 1
        return self._numbers[key]

    def _why_not(self, members: Sequence[Claim]) -> str:
        users: dict[str, int] = {}
        for rank, claim in zip(self._group.ranks, members, strict=True):
            if claim is None:
                return f"rank {rank} has no GPU for them"
            if claim[1]:
                return f"rank {rank}: {claim[1]}"
            if claim[0] in users:
                return f"ranks {users[claim[0]]} and {rank} use one GPU"
            users[claim[0]] = rank
        return ""

    def not_open(self, numbers: Sequence[int], why: str) -> None:
        """Some member could not open these links."""
        for key, number in list(self._numbers.items()):
            if number in numbers:
                self._numbers[key] = None
        self._say(why)

    def _say(self, why: str) -> None:
        if why not in self._said:
            self._said.add(why)
            logging.getLogger("hpcflow").info(
                "Collective operations of GPUs go through host memory: %s", why)

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
            self._begin(int(number), device, bytes.fromhex(name), partial(opened, number))

    def _begin(self, number: int, device: Any, name: bytes,
               opened: Callable[[BaseException | None], None]) -> None:
        group = self._group
        try:
            link = device.open_link(name, len(group.ranks), group.me, self._failed)
        except Exception as e:  # noqa: BLE001  (whatever the library says)
            opened(e)
            return
        self._open[number] = link
        if self._error is not None:
            link.abort(self._error, tell=False)
        link.when_open(opened)

    def settle(self, places: Sequence[int | None], failed: Sequence[int]) -> list[Any]:
        """The link of each operation, None for hosts; those that `failed` somewhere are ended."""
        self.end(failed)
        return [None if n is None else self._open.get(n) for n in places]

    def end(self, numbers: Sequence[int]) -> None:
        """Some member cannot open these links."""
        for number in numbers:
            link = self._open.pop(number, None)
            if link is not None:
                link.abort(_NOT_OPEN, tell=False)

    def _failed(self, error: OpError) -> None:
        self._group.link_failed(error)

    def abort(self, error: OpError) -> None:
        """A member is lost, or a link has failed: nothing waits for GPUs any more."""
        self._error = self._error or error
        for link in list(self._open.values()):
            link.abort(error, tell=False)
