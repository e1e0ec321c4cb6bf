"""What the members of a group agree on about a schedule before they use it for the first time."""

from __future__ import annotations

import bisect
from collections import deque
from typing import TYPE_CHECKING, Any

from hpcflow.comm.shared_memory import Room, enter_room, make_room

if TYPE_CHECKING:
    from hpcflow.comm.activity import Route
    from hpcflow.runtime.collective.collective_links import Claim
    from hpcflow.runtime.collective.collective_run import OperationRun, Schedule


class Agreement:
    """A schedule that the members of a group have compared (or are comparing)."""

    def __init__(self, schedule: Schedule, first_tag: int) -> None:
        self.first_tag = first_tag
        self.proposed: int | None = None  # the step for which it was, until all have agreed
        self.offsets = schedule.offsets
        self.routes: list[Route] | None = None  # per operation, once all have agreed
        self.rooms: list[Any] = []  # per operation the arrays that local members share, or None
        self.links: list[Any] = []  # per operation what joins the members' GPUs, or None
        self.schedule = schedule
        # Per operation the runs that use its tags, in order; the first is under way.
        self.queues: list[deque[OperationRun]] = [deque() for _ in schedule.operations]
        # The room of this member, and the memory of all local ones, if it could be had.
        self.room: Room | None = None
        self.entered: list[Any] | None = None

    def launch(self, index: int) -> None:
        """Start the first run of operation `index` that waits, if the members have agreed."""
        queue = self.queues[index]
        if self.routes is not None and queue:
            shares = self.routes[index].transport.shares_memory
            queue[0].launch(self.routes[index], self.rooms[index] if shares else None,
                            self.links[index])

    def make_room(self, me: int) -> tuple[list[Any] | None, int]:
        """Memory for the operations that can use it: its address, and how many it is enough for."""
        edges = self.schedule.room_edges[me]
        self.room = self.room or make_room(edges[-1])
        if self.room is None:
            return None, 0
        return self.room.address, bisect.bisect_right(edges, self.room.nbytes) - 1

    def enter(self, addresses: dict[int, list[Any]], me: int) -> bool:
        """Map the rooms of the local members; True if that was possible."""
        mine = self.room.memory  # type: ignore[union-attr]
        found = [mine if k == me else enter_room(a) for k, a in addresses.items()]
        self.entered = found if all(m is not None for m in found) else None
        return self.entered is not None

    def share(self, count: int) -> None:
        """Give the first `count` operations their parts of the rooms."""
        self.rooms = [None] * len(self.queues)
        for i, operation in enumerate(self.schedule.operations[:count]):
            if operation.work.room_sizes and self.links[i] is None:
                self.rooms[i] = operation.work.share([
                    memory[edges[i] : edges[i + 1]]
                    for memory, edges in zip(self.entered or (), self.schedule.room_edges)])
        if self.room is not None:
            self.room.shut(used=any(r is not None for r in self.rooms))
        self.room = self.entered = None


class Joining:
    """The state of the first member of a group while all map the shared memory of a schedule, and
    join their GPUs."""

    def __init__(self, tags: list[int], sharing: int, claims: list[list[Claim]]) -> None:
        self.tags = tags
        self.sharing = sharing  # how many operations may share memory
        self.claims = claims  # of each member
        self.places: list[int | None] = []  # the numbers of the operations' links
        self.come: set[int] = set()
        self.failed: dict[str, str] = {}  # links that are not open, and why
        self.ended: list[int] = []  # such of earlier attempts
