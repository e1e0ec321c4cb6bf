"""Collective operations between GPUs: what is launched, and in which order.

Where the GPUs of all members are linked, by NCCL or by memory that they share, values stay there.
An operation is launched once every
member has entered it: each tells the first member, which numbers the operations in the order in
which they are complete, and tells all. So GPUs never wait for a rank whose step has failed, and
ranks may come to the operations in any order. Otherwise the values go to the host, and are reduced
there as those of CPUs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from hpcflow.comm.patterns import Faithful, Pattern, Round
from hpcflow.runtime.collective.collective_linked import KINDS, Linked
from hpcflow.runtime.collective.collective_moves import Allgather, Broadcast
from hpcflow.runtime.collective.collective_parts import Layout, Records, Withdrawn, shapes_of
from hpcflow.runtime.collective.collective_work import Allreduce

#: How many operations on values of GPUs there were, by their way: *nccl*; *ipc*, in memory that
#: the GPUs of a node share; or *staged* on hosts.
WAYS: Counter[str] = Counter()


class DeviceJob:
    """One run of `work` with values of a GPU, on all members' GPUs or on their hosts.

    `values` is None where the operation only lets the others go on.
    """

    def __init__(self, work: Any, device: Any, values: Sequence[Any] | None, text: str) -> None:
        self._work, self._device, self._values, self._text = work, device, values, text
        self.lanes: list[Pattern] = []
        self.shared: Any = None
        self._outputs: tuple[Any, ...] = ()

    def result(self) -> tuple[Any, ...]:
        """The outputs."""
        return self._outputs

    def prepare(self, link: Any, go: Callable[[Any, BaseException | None], None]) -> None:
        """Call ``go(job, None)`` with the job to launch, or ``go(job, error)`` with one that lets
        the others go on."""
        if link is not None:
            self.lanes = [self._linked(link)]
            go(self, None)
        elif self._values is None:
            go(self._work.open(None), None)
        else:
            self._staged(self._values, go)

    def _staged(self, values: Sequence[Any],
                go: Callable[[Any, BaseException | None], None]) -> None:
        WAYS["staged"] += 1

        def ready(host: list[Any] | BaseException) -> None:
            if isinstance(host, BaseException):
                go(self._work.open(None), host)
                return
            try:
                job = self._work.open(host)
            except Exception as e:  # noqa: BLE001  (a value that does not fit)
                go(self._work.open(None), e)
                return
            go(job, None)

        self._device.when_on_host(values, ready)

    def _linked(self, link: Any) -> Pattern:
        work, device, values = self._work, self._device, self._values
        shapes = yield from _shapes(work, values)
        linked: Any = None
        failed: list[BaseException] = []
        if values is not None:
            try:
                linked = device.entered(_made)(work, device, values, shapes, link.way)
            except Exception as e:  # noqa: BLE001  (no memory, or shapes that do not fit)
                failed.append(e)
        try:
            number = yield from _number(work.layout, link, linked is not None)
        except Withdrawn:
            if failed:
                raise failed[0] from None
            raise
        nbytes = sum(int(v.nbytes) for v in values or ())
        yield from link.run(number, self._text, nbytes, linked)
        WAYS[link.way] += 1
        self._outputs = device.entered(linked.finish)()


def _number(layout: Layout, link: Any, takes_part: bool) -> Generator[Round, bool, int]:
    """Tell the first member that this one has come; returns the operation's number. Raises
    `Withdrawn` on all members if one does not take part."""
    words = np.zeros((layout.size, 1), np.int64)
    words[layout.me] = takes_part
    if layout.me:
        yield Faithful(([(0, words[layout.me])], []))
        yield Faithful(([], [(0, words[0])]))
    else:
        others = range(1, layout.size)
        yield Faithful(([], [(k, words[k]) for k in others]))
        absent = np.flatnonzero(words == 0)
        words[0] = -1 - absent[0] if len(absent) else link.take_number()
        yield Faithful(([(k, words[0]) for k in others], []))
    number = int(words[0, 0])
    if number < 0:
        raise Withdrawn(-1 - number)
    return number


def _shapes(work: Any, values: Sequence[Any] | None) -> Generator[Round, bool, Any]:
    """The shapes of all tensors, told by the members where they are not known; of an allgather the
    numbers of rows of each, and the shape of a row."""
    if getattr(work, "is_static", False):
        return [tuple(d) for d in work.dims]
    count = len(work.dims) if isinstance(work, (Allreduce, Broadcast)) else 1
    records = Records(work.layout, shapes_of(values), count)
    yield from records.tell()
    return records.rows() if isinstance(work, Allgather) else records.same_shapes()


def _made(work: Any, device: Any, values: Sequence[Any], shapes: Any, way: str) -> Linked:
    there = [device.to_device(v) for v in values]
    made = KINDS[type(work)](work, device.xp, there, shapes, way)
    made.ready = device.streams.event(device.streams.compute)
    return made
