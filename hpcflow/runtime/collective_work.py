"""What collective operations do with their values: packing, the patterns of messages, results.

A work is made once per operation and compiled step. In each step it opens a job, which holds the
buffers and the patterns, one per lane, and has the result when all patterns are done.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.comm import patterns
from hpcflow.comm.patterns import Levels, Pattern
from hpcflow.comm.reduction import MEAN, Reducer, cover, divided
from hpcflow.comm.shared_memory import aligned
from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels.registry import KernelNode
from hpcflow.runtime.collective_moves import (
    Allgather,
    Alltoall,
    Barrier,
    Broadcast,
    ReduceScatter,
)
from hpcflow.runtime.collective_parts import (
    Job,
    Layout,
    Pool,
    Records,
    elements,
    is_static,
    shapes_of,
    show_all,
)
from hpcflow.threads import thread_count

# Room for what is received, for all operations of this process.
_scratch_pool = Pool()


class Allreduce:
    """Tensors of one type, reduced over the members element by element.

    `dims` are the static dims of the tensors. With `slices`, each member gives, for every node of
    the tree over all slices that covers its own (see :func:`~hpcflow.comm.reduction.cover`), one
    list of tensors, the first node's first.
    """

    def __init__(
        self, layout: Layout, reduction: str, dtype: Any, dims: list[Any], slices: int = 0
    ) -> None:
        self.layout = layout
        self.dtype = dtype
        self.reduction = reduction
        self.slices = slices
        members = layout.size
        nodes = None
        if slices:
            _check_slices(slices, members)
            nodes = [
                cover(k * slices // members, (k + 1) * slices // members, slices)
                for k in range(members)
            ]
        self.reducer = Reducer(reduction, dtype, members, nodes=nodes, leaves=slices or None)
        self.pieces = len(self.reducer.nodes[layout.me])
        if len(dims) % self.pieces:
            raise InvalidArgumentError(
                None, None, f"{len(dims)} tensors: expected a multiple of {self.pieces}, because "
                f"this rank's part of {slices} slices is {self.pieces} nodes of their tree"
            )
        self.dims = dims[: len(dims) // self.pieces]
        self.is_static = is_static(dims)
        self._pool = Pool()
        self.lanes = 1
        #: Memory through which this member can reduce with the others of its node; 0 is none.
        self.room_bytes = 0
        if self.is_static:
            self._set_sizes([tuple(d) for d in self.dims])
            self.lanes = max(1, min(patterns.LANES, len(self._blocks)))
            if not self._small and len(layout.local) > 1 and not slices:
                self.room_bytes = self.lanes * len(layout.local) * self._slot_bytes()

    def _set_sizes(self, shapes: list[tuple[int, ...]]) -> None:
        self.shapes = shapes
        sizes = list(map(elements, shapes))
        self.offsets = [0, *np.cumsum(sizes, dtype=np.int64).tolist()]
        self.length = self.offsets[-1]
        itemsize, members = self.dtype.itemsize, self.layout.size
        self._small = patterns.is_small(self.length * itemsize, members)
        self._blocks = (
            [slice(0, self.length)]
            if self._small
            else patterns.blocks(self.length, itemsize, members)
        )

    @property
    def text(self) -> str:
        """What all members must agree on."""
        # Kernels that use more threads may add in another order.
        sliced = f" of {self.slices} slices, {thread_count()} threads," if self.slices else ""
        return f"{self.reduction}{sliced} {self.dtype.name}{show_all(self.dims)}"

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        if self.reduction == MEAN and self.slices > 1:
            return tuple(divided(np.asarray(v), self.slices) for v in values)
        return tuple(values)

    def open(self, values: Sequence[Any] | None) -> Job:
        """A run with `values`; None only lets the others go on."""
        if not self.is_static:
            return self._open_checked(values)
        return self._open_known(values)

    def _open_known(self, values: Sequence[Any] | None) -> Job:
        out = self._pool.take(self.length, self.dtype)
        sources = [out] * self.pieces
        if values is not None:
            count = len(self.shapes)
            parts = [values[i * count : (i + 1) * count] for i in range(self.pieces)]
            sources = [self._packed(part) for part in parts]
        job = Job([], lambda: self._views(out))
        job.lanes = [self._lane(job, lane, sources, out) for lane in range(self.lanes)]
        return job

    def _packed(self, values: Sequence[Any]) -> Any:
        """The values as one flat array: the only one as it is, several copied together."""
        if len(values) == 1:
            return np.ascontiguousarray(values[0]).reshape(-1)
        packed = self._pool.take(self.length, self.dtype)
        np.concatenate([np.asarray(v).reshape(-1) for v in values], out=packed)
        return packed

    def _views(self, out: Any) -> tuple:
        edges = zip(self.offsets, self.offsets[1:])
        return tuple(
            out[a:b].reshape(shape) if shape else out[a]
            for (a, b), shape in zip(edges, self.shapes, strict=True)
        )

    def _lane(self, job: Job, lane: int, sources: list[Any], out: Any) -> Pattern:
        rooms = None if job.rooms is None else [self._slots(room, lane) for room in job.rooms]
        for block in self._blocks[lane :: self.lanes]:
            yield from self._block([s[block] for s in sources], out[block], rooms)

    def _slot_bytes(self) -> int:
        """Room for a segment of any block."""
        largest = max(block.stop - block.start for block in self._blocks)
        return aligned(-(-largest // len(self.layout.local)) * self.dtype.itemsize)

    def _slots(self, room: Any, lane: int) -> list[Any]:
        """The arrays of one lane in a room: for each local member one."""
        size, count = self._slot_bytes(), len(self.layout.local)
        edges = range(lane * count * size, (lane + 1) * count * size, size)
        return [room[a : a + size].view(self.dtype) for a in edges]

    def _block(self, sources: list[Any], out: Any, rooms: list[Any] | None) -> Pattern:
        me = self.layout.me
        if self._small:
            scratch = self._scratch(self.length)
            return patterns.allreduce_small(me, sources, out, self.reducer, scratch)
        levels = self.layout.levels
        if levels is not None and not self.slices:
            return self._in_levels(levels, sources[0], out, rooms)
        if rooms is not None:
            members = range(self.layout.size)
            return patterns.allreduce_shared(members, me, sources[0], out, self.reducer, rooms)
        segment = -(-len(out) // self.layout.size)
        return patterns.allreduce(me, sources, out, self.reducer, self._scratch(segment))

    def _in_levels(
        self, levels: Levels, source: Any, out: Any, rooms: list[Any] | None
    ) -> Pattern:
        within = "sum" if self.reduction == MEAN else self.reduction
        local, nodes = len(levels.local), len(levels.across)
        segment = -(-len(out) // local)
        room = max((local - 1) * segment, (nodes - 1) * -(-segment // nodes))
        scratch = _scratch_pool.take(room * self.dtype.itemsize, np.uint8).view(self.dtype)
        return patterns.allreduce_levels(
            levels, source, out, Reducer(within, self.dtype, local),
            Reducer(self.reduction, self.dtype, nodes, self.layout.size), scratch, rooms)

    def _scratch(self, length: int) -> list[list[Any]]:
        """For the pieces of every member arrays of `length`; none for this one's own."""
        counts = [len(nodes) for nodes in self.reducer.nodes]
        counts[self.layout.me] = 0
        size = length * self.dtype.itemsize
        room = _scratch_pool.take(sum(counts) * size, np.uint8)
        parts = iter(range(0, sum(counts) * size, size or 1))
        return [
            [room[a : a + size].view(self.dtype) for a in itertools.islice(parts, n)]
            if size else [np.empty(0, self.dtype)] * n
            for n in counts
        ]

    def _open_checked(self, values: Sequence[Any] | None) -> Job:
        """As the sizes are not known beforehand, members first tell each other theirs."""
        outputs: list[Any] = []

        def run() -> Pattern:
            count = len(self.dims)
            records = Records(self.layout, shapes_of(values and values[:count]), count)
            yield from records.tell()
            self._set_sizes(records.same_shapes())
            job = self._open_known(values)
            for lane in job.lanes:
                yield from lane
            outputs.extend(job.result())

        return Job([run()], lambda: tuple(outputs))


def _check_slices(slices: int, members: int) -> None:
    if slices % members:
        raise InvalidArgumentError(
            None, None, f"{slices} slices on {members} ranks: expected a number of ranks that "
            "divides the slices"
        )


def work_of(node: KernelNode, layout: Layout) -> Any:
    """The work of a collective op."""
    dims = node.input_dims
    if node.op_type == "MpiBarrier":
        return Barrier(layout)
    dtype = node.attr("T").base_dtype.np
    reduction = node.attr("reduction", b"").decode()
    if node.op_type == "MpiAllreduce":
        return Allreduce(layout, reduction, dtype, dims)
    if node.op_type == "MpiAllreduceSlices":
        return Allreduce(layout, reduction, dtype, dims, node.attr("slices"))
    if node.op_type == "MpiBroadcast":
        return Broadcast(layout, node.attr("root"), dtype, dims)
    if node.op_type == "MpiReduceScatter":
        return ReduceScatter(layout, reduction, dtype, dims[0])
    kinds = {"MpiAllgather": Allgather, "MpiAlltoall": Alltoall}
    return kinds[node.op_type](layout, dtype, dims[0])
