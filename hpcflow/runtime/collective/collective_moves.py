"""Collective operations that move values between ranks, and those of rows: their works."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.comm import patterns
from hpcflow.comm.patterns import Pattern
from hpcflow.comm.reduction import Reducer
from hpcflow.dtypes import DTypeLike
from hpcflow.errors import InvalidArgumentError
from hpcflow.runtime.collective.collective_parts import (
    Job,
    Layout,
    Records,
    elements,
    equal_rows,
    flat,
    is_static,
    shapes_of,
    show_all,
)


def _equal_parts(layout: Layout, values: Sequence[Any] | None, dtype: DTypeLike) -> Any:
    """Exchange the shapes; return everybody's shape and this member's tensor in a part for each: a
    pattern."""
    records = Records(layout, shapes_of(values), 1)
    yield from records.tell()
    [shape] = records.same_shapes()
    equal_rows(shape, layout.size)
    source = flat(values[0] if values is not None else None, elements(shape), dtype)
    return shape, np.split(source, layout.size)


class ReduceScatter:
    """A tensor reduced over the members, of which each gets one of equal parts of its rows."""

    lanes = 1
    room_sizes = ()

    def __init__(self, layout: Layout, reduction: str, dtype: Any, dims: Any) -> None:
        self.layout = layout
        self.dtype = dtype
        self.dims = dims
        self.reduction = reduction
        self.reducer = Reducer(reduction, dtype, layout.size)
        self.text = f"{reduction} {dtype.name}{show_all([dims])}"

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        return (values[0],)

    def open(self, values: Sequence[Any] | None) -> Job:
        """Open a run with `values`; with None it only lets the others go on."""
        outputs: list[Any] = []

        def run() -> Pattern:
            shape, parts = yield from _equal_parts(self.layout, values, self.dtype)
            members, me = self.layout.size, self.layout.me
            out_shape, size = (shape[0] // members, *shape[1:]), len(parts[me])
            pieces = [np.empty(size, self.dtype) for _ in range(members)]
            yield from patterns.exchange(me, parts, pieces)
            pieces[me] = parts[me]
            out = np.empty(size, self.dtype)
            self.reducer.reduce(pieces, out)
            outputs.append(out.reshape(out_shape))

        return Job([run()], lambda: tuple(outputs))


class Broadcast:
    """Tensors of one type, given by the member `root` to all."""

    lanes = 1
    room_sizes = ()

    def __init__(self, layout: Layout, root: int, dtype: Any, dims: list[Any]) -> None:
        if not 0 <= root < layout.size:
            raise InvalidArgumentError(
                None, None, f"root {root} does not exist: expected 0 <= root < {layout.size}"
            )
        self.layout = layout
        self.root = root
        self.dtype = dtype
        self.dims = dims
        self.is_static = is_static(dims)
        self.text = f"from rank {root} {dtype.name}{show_all(dims)}"

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        return tuple(values)

    def open(self, values: Sequence[Any] | None) -> Job:
        """Open a run with `values`; with None it only lets the others go on."""
        outputs: list[Any] = []

        def run() -> Pattern:
            shapes = self.dims
            if not self.is_static:
                records = Records(self.layout, shapes_of(values), len(shapes))
                yield from records.tell()
                shapes = records.same_shapes()
            for i, shape in enumerate(shapes):
                size = elements(shape)
                given = values is not None and self.layout.me == self.root
                buffer = flat(values[i] if given else None, size, self.dtype)  # type: ignore[index]
                yield from patterns.broadcast(self.layout.size, self.layout.me, self.root, buffer)
                outputs.append(buffer.reshape(shape) if shape else buffer[0])

        return Job([run()], lambda: tuple(outputs))


class Allgather:
    """The rows of all members, one after the other, and how many rows each has given."""

    lanes = 1
    room_sizes = ()

    def __init__(self, layout: Layout, dtype: Any, dims: Any) -> None:
        self.layout = layout
        self.dtype = dtype
        # The numbers of rows may differ; the rest must not.
        self.text = f"{dtype.name}{show_all([dims and (None, *dims[1:])])}"

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        return values[0], np.array([len(values[0])], np.int64)

    def open(self, values: Sequence[Any] | None) -> Job:
        """Open a run with `values`; with None it only lets the others go on."""
        outputs: list[Any] = []

        def run() -> Pattern:
            records = Records(self.layout, shapes_of(values), 1)
            yield from records.tell()
            rows, rest = records.rows()
            edges = [0, *(np.cumsum(rows) * elements(rest)).tolist()]
            gathered = np.empty((sum(rows), *rest), self.dtype)
            every, me = gathered.reshape(-1), self.layout.me
            parts = [every[a:b] for a, b in itertools.pairwise(edges)]
            own = flat(values[0] if values is not None else None, len(parts[me]), self.dtype)
            parts[me][...] = own
            yield from patterns.exchange(me, [own] * len(parts), parts)
            outputs.extend((gathered, np.array(rows, np.int64)))

        return Job([run()], lambda: tuple(outputs))


class Alltoall:
    """Member k gets the k-th of equal parts of every member's rows."""

    lanes = 1
    room_sizes = ()

    def __init__(self, layout: Layout, dtype: Any, dims: Any) -> None:
        self.layout = layout
        self.dtype = dtype
        self.text = f"{dtype.name}{show_all([dims])}"

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        return (values[0],)

    def open(self, values: Sequence[Any] | None) -> Job:
        """Open a run with `values`; with None it only lets the others go on."""
        outputs: list[Any] = []

        def run() -> Pattern:
            shape, outgoing = yield from _equal_parts(self.layout, values, self.dtype)
            members, me = self.layout.size, self.layout.me
            result = np.empty(elements(shape), self.dtype)
            incoming = np.split(result, members)
            incoming[me][...] = outgoing[me]
            yield from patterns.exchange(me, outgoing, incoming)
            outputs.append(result.reshape(shape))

        return Job([run()], lambda: tuple(outputs))


class Barrier:
    """Nobody goes on before all have come."""

    lanes = 1
    room_sizes = ()
    text = ""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        return ()

    def open(self, values: Sequence[Any] | None) -> Job:
        """Open a run; with None it only lets the others go on."""
        return Job([patterns.barrier(self.layout.size, self.layout.me)], tuple)
