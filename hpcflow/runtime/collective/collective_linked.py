"""The work of collective operations on linked GPUs: what is launched, by NCCL or in memory that the
GPUs share, and the results."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from hpcflow.comm import nccl
from hpcflow.comm.patterns import Pattern
from hpcflow.comm.reduction import MAX, MEAN, MIN, joiner, wide_type
from hpcflow.runtime.collective.collective_moves import (
    Allgather,
    Alltoall,
    Broadcast,
    ReduceScatter,
)
from hpcflow.runtime.collective.collective_parts import Layout, elements, equal_rows
from hpcflow.runtime.collective.collective_work import Allreduce

_OPERATIONS = {"sum": nccl.SUM, "mean": nccl.AVERAGE, MIN: nccl.MIN, MAX: nccl.MAX}


class Linked(Protocol):
    """What is launched on a link: made when the shapes are known."""

    ready: Any  # the event behind which it may be launched

    def share(self, exchanges: Any) -> Pattern:
        """Do it in memory that the GPUs share."""

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        """Launch it on `stream`."""

    def finish(self) -> tuple[Any, ...]:
        """The outputs, once that is over."""


def why_not(work: Any, way: str) -> str:
    """Why GPUs cannot do `work` between them by NCCL (*nccl*) or in shared memory (*ipc*); empty
    if they can."""
    kind = KINDS.get(type(work))
    if kind is None or getattr(work, "slices", False):
        return "there is no such operation between GPUs"
    if way == "nccl" and kind in (_Allreduce, _ReduceScatter) and _wide(work) not in nccl.codes():
        return f"NCCL does not reduce {work.dtype.name}"
    return ""


def has_bits_of_its_own(work: Any, way: str) -> bool:
    """True if results may differ from those of CPUs in their last bits."""
    is_mean = getattr(work, "reduction", None) == MEAN
    return way == "nccl" or (is_mean and work.dtype.kind == "c")


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

    def __init__(self, work: Any, xp: Any, way: str) -> None:
        self.xp, self.dtype, self.layout = xp, work.dtype, work.layout
        self.reduction = work.reduction
        self.wide = wide_type(self.reduction, work.dtype)
        self.code = nccl.codes().get(_wide(work), -1)
        is_whole, by_nccl = work.dtype.kind in "iub", way == "nccl"
        self.is_gathered = by_nccl and self.reduction in (MIN, MAX) and not is_whole
        self.divides = self.reduction == MEAN and (is_whole or not by_nccl)
        self.operation = nccl.SUM if self.divides else _OPERATIONS[self.reduction]
        self.parts = 2 if self.wide.kind == "c" else 1  # numbers of NCCL's in an element

    @property
    def join(self) -> Callable[..., Any]:
        """The kernel that joins two arrays."""
        return getattr(self.xp, joiner(self.reduction, self.wide).__name__)

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
        found = pieces[0]
        for piece in pieces[1:]:
            found = self.join(found, piece)
        return found

    def narrowed(self, value: Any) -> Any:
        """A result in the type of the values; means of integers are rounded towards zero."""
        if self.divides:
            whole = np.asarray(self.layout.size, self.wide)[()]
            if self.wide.kind in "iu":
                value = (value - self.xp.fmod(value, whole)) // whole
            else:
                value = self.xp.true_divide(value, whole)
        return value if value.dtype == self.dtype else value.astype(self.dtype)


class _Allreduce(_Reduction):
    def __init__(self, work: Allreduce, xp: Any, values: Sequence[Any],
                 shapes: list[tuple[int, ...]], way: str) -> None:
        super().__init__(work, xp, way)
        self.shapes = shapes
        self.sources = [self.widened(v) for v in values]
        if way != "nccl" and len(values) > 1:  # which launches several as one
            self.sources = [xp.concatenate(self.sources)]
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

    def share(self, exchanges: Any) -> Pattern:
        [source], [target] = self.sources, self.targets
        yield from exchanges.all_reduce(source, target, self.join)

    def finish(self) -> tuple[Any, ...]:
        if self.is_gathered:
            self.targets = [self.joined(t) for t in self.targets]
        found = [self.narrowed(t) for t in self.targets]
        if len(found) < len(self.shapes):
            found = _split(found[0], [*map(elements, self.shapes)])
        return tuple(t.reshape(s) for t, s in zip(found, self.shapes, strict=True))


class _ReduceScatter(_Reduction):
    def __init__(self, work: ReduceScatter, xp: Any, values: Sequence[Any],
                 shapes: list[tuple[int, ...]], way: str) -> None:
        super().__init__(work, xp, way)
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

    def share(self, exchanges: Any) -> Pattern:
        yield from exchanges.reduce_scatter(self.source, self.target, self.join)

    def finish(self) -> tuple[Any, ...]:
        found = self.joined(self.target) if self.is_gathered else self.target
        return (self.narrowed(found).reshape(self.shape),)


class _Broadcast:
    ready: Any = None

    def __init__(self, work: Broadcast, xp: Any, values: Sequence[Any],
                 shapes: list[tuple[int, ...]], way: str) -> None:
        self.root, self._members = work.root, work.layout.size
        is_root = work.layout.me == work.root
        self.outputs = [xp.ascontiguousarray(v).reshape(s) if is_root else xp.empty(s, work.dtype)
                        for v, s in zip(values, shapes, strict=True)]
        self._flat = [v.reshape(-1) for v in self.outputs]

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        with communicator.together():
            for value in self.outputs:
                if value.size:
                    communicator.broadcast(value.data.ptr, value.data.ptr, value.nbytes,
                                           nccl.RAW, self.root, stream)

    def share(self, exchanges: Any) -> Pattern:
        for value in self._flat:
            yield from exchanges.gather(value, [
                slice(0, value.size if k == self.root else 0) for k in range(self._members)])

    def finish(self) -> tuple[Any, ...]:
        return tuple(self.outputs)


class _Moves:
    """Every member sends a part to every other."""

    ready: Any = None

    def __init__(self, layout: Layout, outgoing: list[Any], incoming: list[Any],
                 outputs: tuple[Any, ...], share: Callable[[Any], Pattern]) -> None:
        self._layout, self._outgoing, self._incoming = layout, outgoing, incoming
        self._outputs = outputs
        self.share = share
        incoming[layout.me][...] = outgoing[layout.me]

    def launch(self, communicator: nccl.Communicator, stream: int) -> None:
        with communicator.together():
            _exchange(communicator, self._layout, self._outgoing, self._incoming, stream)

    def finish(self) -> tuple[Any, ...]:
        return self._outputs


def _allgather(work: Allgather, xp: Any, values: Sequence[Any],
               shapes: tuple[list[int], tuple[int, ...]], way: str) -> _Moves:
    rows, rest = shapes
    gathered = xp.empty((sum(rows), *rest), work.dtype)
    sizes, whole = [n * elements(rest) for n in rows], gathered.reshape(-1)
    own = _flat(xp, values[0])
    return _Moves(work.layout, [own] * len(rows), _split(whole, sizes),
                  (gathered, np.array(rows, np.int64)),
                  lambda exchanges: exchanges.gather(whole, _slices(sizes)))


def _alltoall(work: Alltoall, xp: Any, values: Sequence[Any],
              shapes: list[tuple[int, ...]], way: str) -> _Moves:
    [shape], members = shapes, work.layout.size
    equal_rows(shape, members)
    source, result = _flat(xp, values[0]), xp.empty(shape, work.dtype)
    sizes, target = [source.size // members] * members, result.reshape(-1)
    return _Moves(work.layout, _split(source, sizes), _split(target, sizes), (result,),
                  lambda exchanges: exchanges.all_to_all(source, target))


def _slices(sizes: Sequence[int]) -> list[slice]:
    edges = itertools.accumulate(sizes, initial=0)
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _split(value: Any, sizes: Sequence[int]) -> list[Any]:
    return [value[part] for part in _slices(sizes)]


def _exchange(communicator: nccl.Communicator, layout: Layout, outgoing: Sequence[Any],
              incoming: Sequence[Any], stream: int) -> None:
    """Member k gets ``outgoing[k]``, and what it sends comes into ``incoming[k]``."""
    for k in range(layout.size):
        if k != layout.me and outgoing[k].nbytes:
            communicator.send(outgoing[k].data.ptr, outgoing[k].nbytes, nccl.RAW, k, stream)
        if k != layout.me and incoming[k].nbytes:
            communicator.receive(incoming[k].data.ptr, incoming[k].nbytes, nccl.RAW, k, stream)


#: What each work is on linked GPUs: made of it, the array module, values, shapes and the way.
KINDS: dict[type, Callable[..., Any]] = {
    Allreduce: _Allreduce, ReduceScatter: _ReduceScatter, Broadcast: _Broadcast,
    Allgather: _allgather, Alltoall: _alltoall,
}
