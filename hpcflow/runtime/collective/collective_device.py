"""Collective operations between GPUs: what is launched, and in which order.

Where the GPUs of all members are linked, values stay there. An operation is launched once every
member has entered it: each tells the first member, which numbers the operations in the order in
which they are complete, and tells all. So GPUs never wait for a rank whose step has failed, and
ranks may come to the operations in any order. Otherwise the values go to the host, and are reduced
there as those of CPUs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

import numpy as np

from hpcflow.comm import nccl
from hpcflow.comm.patterns import Elsewhere, Faithful, Pattern, Round
from hpcflow.comm.reduction import MAX, MEAN, MIN, wide_type
from hpcflow.errors import OpError
from hpcflow.runtime.collective.collective_moves import (
    Allgather,
    Alltoall,
    Broadcast,
    ReduceScatter,
)
from hpcflow.runtime.collective.collective_parts import (
    Layout,
    Records,
    Withdrawn,
    elements,
    equal_rows,
    shapes_of,
)
from hpcflow.runtime.collective.collective_work import Allreduce

#: How many operations on values of GPUs there were, by their way: *nccl*, or *staged* on hosts.
WAYS: Counter[str] = Counter()
_OPERATIONS = {"sum": nccl.SUM, "mean": nccl.AVERAGE, MIN: nccl.MIN, MAX: nccl.MAX}


class Linked(Protocol):
    """What is launched on a link: made when the shapes are known."""

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        """Launch it on `stream`."""

    def finish(self) -> tuple[Any, ...]:
        """The outputs, once that is over."""


def why_not(work: Any) -> str:
    """Why GPUs cannot do `work` between them; empty if they can."""
    kind = _KINDS.get(type(work))
    if kind is None or getattr(work, "slices", False):
        return "there is no such operation of NCCL"
    if kind in (_Allreduce, _ReduceScatter) and _wide(work) not in nccl.codes():
        return f"NCCL does not reduce {work.dtype.name}"
    return ""


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
                linked = device.entered(_made)(work, device, values, shapes)
            except Exception as e:  # noqa: BLE001  (no memory, or shapes that do not fit)
                failed.append(e)
        try:
            number = yield from _number(work.layout, link, linked is not None)
        except Withdrawn:
            if failed:
                raise failed[0] from None
            raise
        nbytes = sum(int(v.nbytes) for v in values or ())

        def begin(done: Callable[[], None]) -> None:
            def over(error: OpError | None) -> None:
                failed.extend([error] if error is not None else [])
                done()

            link.put(number, self._text, nbytes, linked, over)

        yield Elsewhere.of(begin)
        if failed:
            raise failed[0]
        WAYS["nccl"] += 1
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


def _made(work: Any, device: Any, values: Sequence[Any], shapes: Any) -> Any:
    there = [device.to_device(v) for v in values]
    made = _KINDS[type(work)](work, device.xp, there, shapes)
    made.ready = device.streams.event(device.streams.compute)
    return made


def _flat(xp: Any, value: Any) -> Any:
    return xp.ascontiguousarray(value).reshape(-1)


def _wide(work: Any) -> np.dtype:
    """The type that is reduced: complex numbers are pairs of floats."""
    found = wide_type(work.reduction, work.dtype)
    if found.kind == "c":
        return np.dtype(f"f{found.itemsize // 2}")
    return found


class _Reduction:
    """What the reductions have in common: types in which values are joined, and means.

    NCCL's extrema of floats pass over NaN; so these are gathered, and joined by kernels.
    """

    ready: Any = None  # the event behind which it may be launched

    def __init__(self, work: Any, xp: Any) -> None:
        self.xp, self.dtype, self.layout = xp, work.dtype, work.layout
        self.reduction = work.reduction
        self.wide = wide_type(self.reduction, work.dtype)
        self.code = nccl.codes()[_wide(work)]
        is_whole = work.dtype.kind in "iub"
        self.is_gathered = self.reduction in (MIN, MAX) and not is_whole
        self.operation = nccl.SUM if is_whole and self.reduction == MEAN else (
            _OPERATIONS[self.reduction])
        self.parts = 2 if self.wide.kind == "c" else 1  # numbers of NCCL's in an element

    def widened(self, value: Any) -> Any:
        """A value, flat, in the type that is reduced."""
        value = _flat(self.xp, value)
        return value if value.dtype == self.wide else value.astype(self.wide)

    def gathering(self, own: Any) -> list[Any]:
        """Room for a piece of each member, with `own` in its place."""
        members = self.layout.size
        room = self.xp.empty((members, own.size), self.wide)
        room[self.layout.me] = own
        return [room[k] for k in range(members)]

    def joined(self, pieces: Sequence[Any]) -> Any:
        """The extrema of the members' pieces."""
        join = self.xp.minimum if self.reduction == MIN else self.xp.maximum
        found = pieces[0]
        for piece in pieces[1:]:
            found = join(found, piece)
        return found

    def narrowed(self, value: Any) -> Any:
        """A result in the type of the values; means of integers are rounded towards zero."""
        if self.reduction == MEAN and self.operation == nccl.SUM:
            whole = np.asarray(self.layout.size, self.wide)[()]
            value = (value - self.xp.fmod(value, whole)) // whole
        return value if value.dtype == self.dtype else value.astype(self.dtype)


class _Allreduce(_Reduction):
    def __init__(self, work: Allreduce, xp: Any, values: Sequence[Any],
                 shapes: list[tuple[int, ...]]) -> None:
        super().__init__(work, xp)
        self.shapes = shapes
        self.sources = [self.widened(v) for v in values]
        self.targets: list[Any] = [
            self.gathering(s) if self.is_gathered else xp.empty(s.size, self.wide)
            for s in self.sources]

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        with communicator.together():
            for source, target in zip(self.sources, self.targets, strict=True):
                if self.is_gathered:
                    _exchange(communicator, self.layout, [source] * self.layout.size, target,
                              stream)
                elif source.size:
                    communicator.all_reduce(source.data.ptr, target.data.ptr,
                                            source.size * self.parts, self.code, self.operation,
                                            stream)

    def finish(self) -> tuple[Any, ...]:
        if self.is_gathered:
            self.targets = [self.joined(t) for t in self.targets]
        return tuple(self.narrowed(t).reshape(s)
                     for t, s in zip(self.targets, self.shapes, strict=True))


class _ReduceScatter(_Reduction):
    def __init__(self, work: ReduceScatter, xp: Any, values: Sequence[Any],
                 shapes: list[tuple[int, ...]]) -> None:
        super().__init__(work, xp)
        [shape], members = shapes, self.layout.size
        self.shape = (equal_rows(shape, members), *shape[1:])
        self.source, size = self.widened(values[0]), elements(self.shape)
        self.outgoing = _split(self.source, [size] * members)
        self.target: Any = (self.gathering(self.outgoing[self.layout.me]) if self.is_gathered
                       else xp.empty(size, self.wide))

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        if self.is_gathered:
            with communicator.together():
                _exchange(communicator, self.layout, self.outgoing, self.target, stream)
        elif self.target.size:
            communicator.reduce_scatter(self.source.data.ptr, self.target.data.ptr,
                                        self.target.size * self.parts, self.code, self.operation,
                                        stream)

    def finish(self) -> tuple[Any, ...]:
        found = self.joined(self.target) if self.is_gathered else self.target
        return (self.narrowed(found).reshape(self.shape),)


class _Broadcast:
    ready: Any = None

    def __init__(self, work: Broadcast, xp: Any, values: Sequence[Any],
                 shapes: list[tuple[int, ...]]) -> None:
        self.root = work.root
        is_root = work.layout.me == work.root
        self.outputs = [xp.ascontiguousarray(v) if is_root else xp.empty(s, work.dtype)
                        for v, s in zip(values, shapes, strict=True)]

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        with communicator.together():
            for value in self.outputs:
                if value.size:
                    communicator.broadcast(value.data.ptr, value.data.ptr, value.nbytes,
                                           nccl.RAW, self.root, stream)

    def finish(self) -> tuple[Any, ...]:
        return tuple(self.outputs)


class _Moves:
    """Every member sends a part to every other."""

    ready: Any = None

    def __init__(self, layout: Layout, outgoing: list[Any], incoming: list[Any],
                 outputs: tuple[Any, ...]) -> None:
        self._layout, self._outgoing, self._incoming = layout, outgoing, incoming
        self._outputs = outputs
        incoming[layout.me][...] = outgoing[layout.me]

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        with communicator.together():
            _exchange(communicator, self._layout, self._outgoing, self._incoming, stream)

    def finish(self) -> tuple[Any, ...]:
        return self._outputs


def _allgather(work: Allgather, xp: Any, values: Sequence[Any],
               shapes: tuple[list[int], tuple[int, ...]]) -> _Moves:
    rows, rest = shapes
    gathered = xp.empty((sum(rows), *rest), work.dtype)
    parts = _split(gathered.reshape(-1), [n * elements(rest) for n in rows])
    own = _flat(xp, values[0])
    return _Moves(work.layout, [own] * len(rows), parts, (gathered, np.array(rows, np.int64)))


def _alltoall(work: Alltoall, xp: Any, values: Sequence[Any],
              shapes: list[tuple[int, ...]]) -> _Moves:
    [shape], members = shapes, work.layout.size
    equal_rows(shape, members)
    source, result = _flat(xp, values[0]), xp.empty(shape, work.dtype)
    sizes = [source.size // members] * members
    return _Moves(work.layout, _split(source, sizes), _split(result.reshape(-1), sizes), (result,))


def _split(value: Any, sizes: Sequence[int]) -> list[Any]:
    edges = itertools.accumulate(sizes, initial=0)
    return [value[a:b] for a, b in itertools.pairwise(edges)]


def _exchange(communicator: nccl.Communicator, layout: Layout, outgoing: Sequence[Any],
              incoming: Sequence[Any], stream: int) -> None:
    """Member k gets ``outgoing[k]``, and what it sends comes into ``incoming[k]``."""
    for k in range(layout.size):
        if k != layout.me and outgoing[k].nbytes:
            communicator.send(outgoing[k].data.ptr, outgoing[k].nbytes, nccl.RAW, k, stream)
        if k != layout.me and incoming[k].nbytes:
            communicator.receive(incoming[k].data.ptr, incoming[k].nbytes, nccl.RAW, k, stream)


_KINDS: dict[type, Callable[..., Any]] = {
    Allreduce: _Allreduce, ReduceScatter: _ReduceScatter, Broadcast: _Broadcast,
    Allgather: _allgather, Alltoall: _alltoall,
}
