"""The work of collective operations on values: packing, the patterns of messages, results.

A work is made once per operation and compiled step. In each step it opens a job, which holds the
buffers and the patterns, one per lane, and has the result when all patterns are done.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.comm import patterns
from hpcflow.comm.patterns import Levels, Pattern
from hpcflow.comm.reduction import MEAN, Reducer, cover, divided, is_narrow, wide_type
from hpcflow.errors import InvalidArgumentError
from hpcflow.host.threads import thread_count
from hpcflow.host.tuning import comm as tuning
from hpcflow.kernels.registry import KernelNode
from hpcflow.runtime.collective.collective_moves import (
    Allgather,
    Alltoall,
    Barrier,
    Broadcast,
    ReduceScatter,
)
from hpcflow.runtime.collective.collective_parts import (
    Job,
    Layout,
    Pool,
    Records,
    elements,
    is_static,
    shapes_of,
    show_all,
)
from hpcflow.runtime.collective.collective_shared import SharedArrays, SharedRun, room_sizes

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
        #: Nodes of the cluster reduce by themselves first, where their sums fit into the type.
        self._levels = layout.levels if not slices and (
            is_narrow(dtype) or wide_type(reduction, dtype) == dtype) else None
        self.pieces = len(self.reducer.nodes[layout.me])
        if len(dims) % self.pieces:
            raise InvalidArgumentError(
                None, None, f"{len(dims)} tensors: expected a multiple of {self.pieces}, because "
                f"this rank's part of {slices} slices is {self.pieces} nodes of their tree"
            )
        self.dims = dims[: len(dims) // self.pieces]
        self.is_static = is_static(dims)
        self.pool = Pool()
        self.lanes = 1
        #: Memory through which the members of this one's node can reduce, in the room of each.
        self.room_sizes: list[int] = []
        if self.is_static:
            self._set_sizes([tuple(d) for d in self.dims])
            self.lanes = max(1, min(tuning.REDUCE_LANES, len(self._blocks)))
            in_memory = len(layout.local) > 1 and not slices and self._levels is layout.levels
            if in_memory and not self._small:
                self.room_sizes = room_sizes(self.length * dtype.itemsize, len(layout.local))

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
        """The text that all members must agree on."""
        # Kernels that use more threads may add in another order.
        sliced = f" of {self.slices} slices, {thread_count()} threads," if self.slices else ""
        return f"{self.reduction}{sliced} {self.dtype.name}{show_all(self.dims)}"

    def alone(self, values: Sequence[Any]) -> tuple:
        """The outputs for a group of one."""
        if self.reduction == MEAN and self.slices > 1:
            return tuple(divided(np.asarray(v), self.slices) for v in values)
        return tuple(values)

    def open(self, values: Sequence[Any] | None) -> Job:
        """Open a run with `values`; with None it only lets the others go on."""
        if not self.is_static:
            return self._open_checked(values)
        return self._open_known(values)

    def share(self, memories: Sequence[Any]) -> SharedArrays:
        """The arrays of this operation in memory that the members of the node share."""
        me = list(self.layout.local).index(self.layout.me)
        return SharedArrays(memories, me, self.length, self.dtype)

    def place(self, arrays: SharedArrays, index: int) -> Any:
        """Where input `index` lies in shared memory, or None while others may read what is there.
        """
        if not arrays.is_own:
            return None
        shape = self.shapes[index]
        return arrays.own(self.offsets[index], self.offsets[index + 1]).reshape(shape)

    def _open_known(self, values: Sequence[Any] | None) -> Job:
        run = _AllreduceRun(self, values)
        job = Job([], run.result)
        job.lanes = [run.lane(job, lane) for lane in range(self.lanes)]
        return job

    def packed(self, values: Sequence[Any]) -> Any:
        """The values as one flat array: the only one as it is, several copied together."""
        if len(values) == 1:
            return np.ascontiguousarray(values[0]).reshape(-1)
        packed = self.pool.take(self.length, self.dtype)
        np.concatenate([np.asarray(v).reshape(-1) for v in values], out=packed)
        return packed

    def views(self, out: Any) -> tuple:
        """The outputs in a flat array."""
        edges = zip(self.offsets, self.offsets[1:])
        return tuple(
            out[a:b].reshape(shape) if shape else out[a]
            for (a, b), shape in zip(edges, self.shapes, strict=True)
        )

    def blocks_of(self, lane: int) -> list[slice]:
        """The blocks that are reduced one after the other."""
        return self._blocks[lane :: self.lanes]

    def in_messages(self, sources: list[Any], out: Any) -> Pattern:
        """Reduce a block."""
        me = self.layout.me
        if self._small:
            scratch = self._scratch(self.length)
            return patterns.allreduce_small(me, sources, out, self.reducer, scratch)
        if self._levels is not None:
            return self._in_levels(self._levels, sources[0], out, None)
        segment = -(-len(out) // self.layout.size)
        return patterns.allreduce(me, sources, out, self.reducer, self._scratch(segment))

    def in_memory(self, source: Any, shared: patterns.Shared) -> Pattern:
        """Reduce a block in memory that the members of this node share."""
        if self._levels is not None:
            return self._in_levels(self._levels, source, shared.sources[0], shared)
        members = range(self.layout.size)
        return patterns.allreduce_shared(members, self.layout.me, source, shared, self.reducer)

    def _in_levels(self, levels: Levels, source: Any, out: Any, shared: Any) -> Pattern:
        within = "sum" if self.reduction == MEAN else self.reduction
        local, nodes = len(levels.local), len(levels.across)
        segment = -(-len(out) // local)
        room = max((local - 1) * segment, (nodes - 1) * -(-segment // nodes))
        scratch = _scratch_pool.take(room * self.dtype.itemsize, np.uint8).view(self.dtype)
        return patterns.allreduce_levels(
            levels, source, out, Reducer(within, self.dtype, local),
            Reducer(self.reduction, self.dtype, nodes, self.layout.size), scratch, shared)

    def _scratch(self, length: int) -> list[list[Any]]:
        """Return arrays of `length` for the pieces of every member; none for this one's own."""
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


class _AllreduceRun:
    """One run of an allreduce of known sizes: its lanes, which begin when it is launched."""

    def __init__(self, work: Allreduce, values: Sequence[Any] | None) -> None:
        self._work = work
        self._values = values
        self._lock = threading.Lock()
        self._sources: list[Any] | None = None
        self._out: Any = None
        self._shared: SharedRun | None = None

    def result(self) -> tuple:
        """The outputs."""
        shared = self._shared
        return self._work.views(self._out if shared is None else shared.result())

    def lane(self, job: Job, lane: int) -> Pattern:
        """The messages of one lane."""
        work = self._work
        with self._lock:
            if self._sources is None:
                self._begin(job)
        sources = self._sources or []
        for block in work.blocks_of(lane):
            if self._shared is not None:
                source = None if sources[0] is None else sources[0][block]
                yield from work.in_memory(source, self._shared.block(block))
            else:
                yield from work.in_messages([s[block] for s in sources], self._out[block])

    def _begin(self, job: Job) -> None:
        """Prepare what is sent, and room for the result."""
        work, values = self._work, self._values
        self._values = None
        if job.shared is not None:
            self._shared = job.shared.open(work.pool)
            self._sources = [None if values is None else self._shared.pack(values)]
            return
        self._out = work.pool.take(work.length, work.dtype)
        self._sources = [self._out] * work.pieces
        if values is not None:
            count = len(work.shapes)
            self._sources = [work.packed(values[i * count : (i + 1) * count])
                             for i in range(work.pieces)]


def _check_slices(slices: int, members: int) -> None:
    if slices % members:
        raise InvalidArgumentError(
            None, None, f"{slices} slices on {members} ranks: expected a number of ranks that "
            "divides the slices"
        )


def work_of(node: KernelNode, layout: Layout, origins: Sequence[int] = ()) -> Any:
    """The work of a collective op; `origins` are the numbers that the members had before any of
    them was lost: that of a root still names the same one, or if it is lost, the first."""
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
        root = node.attr("root")
        if origins:
            root = origins.index(root) if root in origins else 0
        return Broadcast(layout, root, dtype, dims)
    if node.op_type == "MpiReduceScatter":
        return ReduceScatter(layout, reduction, dtype, dims[0])
    kinds = {"MpiAllgather": Allgather, "MpiAlltoall": Alltoall}
    return kinds[node.op_type](layout, dtype, dims[0])
