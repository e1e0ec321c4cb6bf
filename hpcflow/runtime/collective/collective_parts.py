"""The parts of the collective operations of a step: jobs, buffers, shapes, who takes part."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from hpcflow.comm import patterns
from hpcflow.comm.patterns import Levels, Pattern
from hpcflow.dtypes import DTypeLike
from hpcflow.errors import InvalidArgumentError
from hpcflow.host.tuning import runtime as tuning
from hpcflow.shapes import format_shape

#: Dimensions of a value whose shape is only known when it is there, at most.
MAX_RANK = 8


class Withdrawn(Exception):
    """A member has told that it does not take part: its step has failed."""

    def __init__(self, member: int) -> None:
        super().__init__(member)
        self.member = member


class Job:
    """One run of a work: ``lanes`` are its patterns, ``result()`` the outputs once all are done.

    ``shared`` is known when the patterns begin: the arrays in memory that the layout's `local`
    members share, which the work has made; None if messages have to do.
    """

    def __init__(self, lanes: list[Pattern], result: Any) -> None:
        self.lanes = lanes
        self.result = result
        self.shared: Any = None


class Pool:
    """Arrays that are used again as soon as nobody refers to them, nor to a view of them."""

    def __init__(self) -> None:
        self._arrays: list[Any] = []
        self._lock = threading.Lock()

    def take(self, length: int, dtype: DTypeLike) -> Any:
        """An array of rank 1 with any contents."""
        with self._lock:
            free = [i for i in range(len(self._arrays)) if is_free(self._arrays, i)]
            for i in free:
                if self._arrays[i].size == length:
                    return self._arrays[i]
            if len(free) > tuning.COLLECTIVE_SPARE:
                self._arrays = [a for i, a in enumerate(self._arrays) if i not in free]
            array = np.empty(length, dtype)
            self._arrays.append(array)
            return array


def is_free(arrays: list[Any], index: int) -> bool:
    """True if nobody refers to an array of `arrays`, nor to a view of it."""
    return getrefcount(arrays[index]) <= _FREE


def _measure_free() -> int:
    arrays = [np.empty(1)]
    global _FREE
    _FREE = 0
    for _FREE in range(1, 10):
        if is_free(arrays, 0):
            break
    return _FREE


_FREE = 0
_measure_free()


class Layout:
    """Where the members of a group run: ``nodes`` lists the indices of those on each node.

    ``levels`` is the place of member `me` in a reduction of two levels; None where that is of no
    use (one node, or one member per node) or the nodes have different numbers of members.
    """

    def __init__(self, me: int, nodes: Sequence[Sequence[int]]) -> None:
        self.me = me
        self.size = sum(map(len, nodes))
        sizes = {len(node) for node in nodes}
        self.levels: Levels | None = None
        #: The members with which this one can reduce in shared memory; none if there are no levels.
        self.local: Sequence[int] = nodes[0] if len(nodes) == 1 else ()
        if len(nodes) > 1 and len(sizes) == 1 and sizes != {1}:
            node = next(i for i, members in enumerate(nodes) if me in members)
            place = list(nodes[node]).index(me)
            across = [members[place] for members in nodes]
            self.levels = Levels(tuple(nodes[node]), place, tuple(across), node)
            self.local = self.levels.local


def solo(me: int = 0) -> Layout:
    """The layout of a group of one."""
    return Layout(me, [[me]])


class Records:
    """The records by which members tell each other shapes that are not known beforehand.

    A record is [1 if the member takes part, then per tensor its rank and `MAX_RANK` dims].
    """

    def __init__(self, layout: Layout, shapes: list[tuple] | None, count: int) -> None:
        self._layout = layout
        self._rows = np.zeros((layout.size, 1 + count * (1 + MAX_RANK)), np.int64)
        self._count = count
        self._own = np.zeros(self._rows.shape[1], np.int64)
        if shapes is not None:
            self._own[0] = 1
            for i, shape in enumerate(shapes):
                self._own[self._place(i) : self._place(i) + 1 + len(shape)] = len(shape), *shape

    def _place(self, index: int) -> int:
        return 1 + index * (1 + MAX_RANK)

    def tell(self) -> Pattern:
        """Exchange the records; raises `Withdrawn` on all members if one does not take part."""
        yield from patterns.tell_all(self._layout.me, self._own, self._rows)
        absent = np.flatnonzero(self._rows[:, 0] == 0)
        if len(absent):
            raise Withdrawn(int(absent[0]))

    def _shape(self, member: int, index: int) -> tuple[int, ...]:
        start = self._place(index)
        rank = int(self._rows[member, start])
        return tuple(self._rows[member, start + 1 : start + 1 + rank].tolist())

    def same_shapes(self) -> list[tuple[int, ...]]:
        """The shapes, which must be the same everywhere."""
        own = [self._shape(0, i) for i in range(self._count)]
        for member in range(1, self._layout.size):
            theirs = [self._shape(member, i) for i in range(self._count)]
            if theirs != own:
                raise _differ(member, show_all(own), show_all(theirs), "the same shapes")
        return own

    def rows(self) -> tuple[list[int], tuple[int, ...]]:
        """Return the number of rows of each member, and the shape of a row."""
        shapes = [self._shape(member, 0) for member in range(self._layout.size)]
        for member, shape in enumerate(shapes):
            if not shape:
                raise _differ(member, "", show_all([shape]), "at least one dimension", alone=True)
            if shape[1:] != shapes[0][1:]:
                raise _differ(member, show_all(shapes[:1]), show_all([shape]),
                              "the same dimensions after the first")
        return [shape[0] for shape in shapes], shapes[0][1:]


def _differ(
    member: int, first: str, theirs: str, expected: str, alone: bool = False
) -> InvalidArgumentError:
    """Return the error of shapes that differ: the same on every member, as every member knows all
    shapes."""
    what = f"{theirs} on rank {member}"
    if not alone:
        what = f"{first} on rank 0, {what}"
    return InvalidArgumentError(None, None, f"The shapes are {what}: expected {expected}")


def equal_rows(shape: Sequence[int], members: int) -> int:
    """The rows of each of `members` equal parts."""
    if not shape or shape[0] % members:
        raise InvalidArgumentError(
            None, None, f"shape {format_shape(shape)} on {members} ranks: expected a first "
            f"dimension that {members} divides"
        )
    return shape[0] // members


def is_static(dims: list[Any]) -> bool:
    """True if all dims of all shapes are known."""
    return all(d is not None and None not in d for d in dims)


def show_all(dims: Sequence[Any]) -> str:
    """Shapes, for messages."""
    return ", ".join(map(format_shape, dims))


def shapes_of(values: Sequence[Any] | None) -> list[tuple] | None:
    """The shapes of values; ``InvalidArgumentError`` for more than `MAX_RANK` dimensions."""
    if values is None:
        return None
    shapes = [np.shape(v) for v in values]
    for shape in shapes:
        if len(shape) > MAX_RANK:
            raise InvalidArgumentError(
                None, None, f"shape {format_shape(shape)}: expected at most {MAX_RANK} dimensions "
                "where the static shape is not known"
            )
    return shapes


def elements(shape: Sequence[int]) -> int:
    """Return the number of elements of a value of this shape."""
    size = 1
    for d in shape:
        size *= d
    return size


def flat(value: Any, size: int, dtype: DTypeLike) -> Any:
    """A value as a flat array; an empty array to receive into where there is none."""
    if value is None:
        return np.empty(size, dtype)
    return np.ascontiguousarray(value).reshape(-1)
