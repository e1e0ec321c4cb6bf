"""Lanes: what one running step of a partition owns of the network: tags, buffers, requests.

A lane serves one step at a time and is used again afterwards. Its tags come from the receivers;
its edges of static shape are persistent requests on planned buffers, without headers: an empty
message means dead. Other edges carry a header, and small values inside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.comm.transfers import Transfers
from hpcflow.compiler.emit.executable import Executable
from hpcflow.runtime.cluster.gpu_edges import GpuEdges
from hpcflow.runtime.cluster.receiving import Receiving, TagSpace
from hpcflow.runtime.cluster.sending import Sending
from hpcflow.runtime.executor.executor import Step
from hpcflow.runtime.executor.offload import Pace
from hpcflow.runtime.executor.tagged import LaneAddress, TaggedEdges


class Lane:
    """The network side of one running step of an :class:`Executable`.

    `ranks` maps task names to ranks, `address` tells the lane from all others, and `pairing` keeps
    a large value of a loop behind the message that announces it; `transfers` notes what the edges
    carry; `pace` knows how long the pieces of its steps take. ``on_failure(step)`` is told when the
    step fails, ``on_close()`` when the lane is closed.
    """

    def __init__(self, transport: Any, executable: Executable, ranks: dict[str, int],
                 tags: TagSpace, devices: dict[str, Any], address: LaneAddress,
                 pairing: Any, transfers: Transfers, pace: Pace) -> None:
        self.transport = transport
        self.pace = pace
        self.ranks = ranks
        self.transfers = transfers
        self.on_close: Any = None
        # What every step of this lane gets, and one that was made beforehand.
        self.wake: Any = None
        self.on_done: Any = None
        self._spare: Step | None = None
        self.is_left = False  # to be closed when its step ends
        # None without loops over tasks, which most steps do not have.
        self.tagged = TaggedEdges(self, executable, ranks, devices, address, pairing) if (
            executable.spread) else None
        self.executable = executable
        self.on_failure: Any = None
        self._tags = tags
        senders = [_own_memory(devices, e.node.device) for e in executable.sends]
        receivers = [_own_memory(devices, e.node.device) for e in executable.recvs]
        self.gpu = GpuEdges(self, senders, receivers)
        self.receiving = Receiving(self, tags, receivers)
        self.sending = Sending(self, senders)
        # What compiled steps call for every value.
        self.receive, self.send = self.receiving.receive, self.sending.send
        self.send_part, self.send_dead = self.sending.send_part, self.sending.send_dead
        self.step: Any = None  # the Step that uses this lane
        self._over: Step | None = None  # the last one, if what it has done may be undone yet
        self.stop: tuple[int, bytes] | None = None  # a step that has to stop, and why
        self.stopped_at: str | None = None  # what the step waited for when it was told to stop

    def open_recvs(self) -> dict[str, Any]:
        """Edge name -> what its sender has to know: its tag, and the address of memory that it may
        write, or (in a loop) its place and a tag."""
        found = self.receiving.open()
        if self.tagged is not None:
            found.update(self.tagged.open_recvs(self._tags))
        return found

    def open_sends(self, tags: dict[str, Any]) -> None:
        """Take the tags that the receivers gave to this lane's edges (by edge name)."""
        self.sending.open(tags)
        if self.tagged is not None:
            self.tagged.open_sends(tags)

    def close(self) -> None:
        """Give tags and requests back; what is still under way stays with the transport."""
        self.gpu.close()
        self._spare = None
        if self.on_close is not None:
            self.on_close()
        self.sending.close()
        self.receiving.close()

    def rebind(self, executable: Executable) -> None:
        """Use this lane for an executable that was built again, with the same edges."""
        self.executable = executable
        if self.tagged is not None:
            self.tagged.rebind(executable)
        self.sending.rebind()
        self.receiving.rebind()

    def new_step(self) -> Step:
        """A step for this lane, which has no number yet."""
        step, self._spare = self._spare, None
        if step is None or step.executable is not self.executable:
            return self._make_step()
        return step

    def _make_step(self) -> Step:
        step = Step(self.executable, self, 0, self.on_done, self.wake, self.transport.rank)
        step.pace = self.pace
        return step

    def prepare(self, used: Step) -> None:
        """Make the next step, of one that is over if that is possible: nobody waits for it yet."""
        if self.is_left:
            self.close()
        elif self.executable.tracer is None:
            again = used.executable is self.executable and used.again()
            if again:
                used.on_done = self.on_done
            self._spare = used if again else self._make_step()

    def begin(self, step: Step) -> None:
        """Let `step` use this lane from now on."""
        self.step = step
        self.stopped_at = None
        if self.tagged is not None:
            self.tagged.begin(step.step_id)
        if self.receiving.inbox is not None:
            self.receiving.inbox.begin()

    def end(self) -> None:
        """End the use by a step: nothing of it is kept, but for what its master may not accept."""
        if self.tagged is not None:
            self.tagged.end()
        self._over = self.step if self.step is not None and self.step.effects else None
        self.step = None

    def withdraw(self, step_id: int, error: BaseException) -> None:
        """The master of a step has given it up: undo what it has done if it is over here."""
        for step in (self.step, self._over):
            if step is not None and step.step_id == step_id and step.finished:
                step.withdraw(error)

    def aborted(self, step: Step) -> None:
        """The step failed: what it has not sent is sent as dead, so that nobody waits for it."""
        self.sending.abort(step)
        if self.on_failure is not None:
            self.on_failure(step)

    def last_transfers(self, ranks: Iterable[int], tasks: Iterable[str]) -> list[str]:
        """Return descriptions of the last transfers between this rank and `ranks` and those of
        `tasks`."""
        return self.transfers.describe([*ranks, *(self.ranks[task] for task in tasks)])


def _own_memory(devices: dict[str, Any], name: str) -> Any:
    device = devices[name]
    return device if device.has_own_memory else None
