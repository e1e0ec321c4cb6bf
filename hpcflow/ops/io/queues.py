"""Queues: op types, and the classes that build them (FIFOQueue, RandomShuffleQueue, ...).

Enqueue and dequeue ops wait without holding a thread; a queue is state of the device it is on,
shared by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, get_default_graph, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    known_number,
    resource_handle,
    scalar,
    unknown,
)
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.random.random_ops import get_seed
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__ = ["FIFOQueue", "PaddingFIFOQueue", "PriorityQueue", "QueueBase", "RandomShuffleQueue"]

_COMMON = "capacity: int = -1; container: string = ''; shared_name: string = ''"
_TYPES = "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []"
_KINDS = {
    "FIFOQueue": f"{_TYPES}; {_COMMON}",
    "PaddingFIFOQueue": f"{_TYPES}; {_COMMON}",
    "RandomShuffleQueue": f"{_TYPES}; capacity: int = -1; min_after_dequeue: int = 0; "
                          "seed: int = 0; seed2: int = 0; container: string = ''; "
                          "shared_name: string = ''",
    "PriorityQueue": "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; " + _COMMON,
}  # fmt: skip


def _dequeue_shapes(op: Operation) -> list[Dims]:
    """The element shapes that the queue declares, if it is in this graph."""
    count = len(op.outputs)
    shapes = _declared(op.inputs[0].op, count)
    return [s._dims for s in shapes] if shapes else [None] * count


def _dequeue_many_shapes(op: Operation) -> list[Dims]:
    shapes = _declared(op.inputs[0].op, len(op.outputs))
    if not shapes:
        return [None] * len(op.outputs)
    count = known_number(op, 1)
    first = None if count is None or "UpTo" in op.type else int(count)
    return [None if s._dims is None else (first, *s._dims) for s in shapes]


def _declared(queue: Operation, count: int) -> list[TensorShape]:
    shapes = queue.attr("shapes") or []
    if queue.type.startswith("PriorityQueue"):
        shapes = [TensorShape([]), *shapes]
    return shapes if len(shapes) == count else []


def _register(version: str, handle: str, output: str) -> None:
    for kind, attrs in _KINDS.items():
        register_op(f"{kind}{version}", "", f"handle: {output}", attrs, shape=resource_handle,
                    stateful=True)
    wait = "timeout_ms: int = -1"
    for what in ("QueueEnqueue", "QueueEnqueueMany"):
        register_op(f"{what}{version}", f"handle: {handle}; components: Tcomponents", "",
                    f"Tcomponents: list(type) >= 1; {wait}")
    register_op(f"QueueDequeue{version}", f"handle: {handle}", "components: component_types",
                f"component_types: list(type) >= 1; {wait}", shape=_dequeue_shapes)
    for what in ("QueueDequeueMany", "QueueDequeueUpTo"):
        register_op(f"{what}{version}", f"handle: {handle}; n: int32",
                    "components: component_types", f"component_types: list(type) >= 1; {wait}",
                    shape=_dequeue_many_shapes)
    register_op(f"QueueClose{version}", f"handle: {handle}", "",
                "cancel_pending_enqueues: bool = false")
    register_op(f"QueueSize{version}", f"handle: {handle}", "size: int32", shape=scalar)
    register_op(f"QueueIsClosed{version}", f"handle: {handle}", "is_closed: bool", shape=scalar)


_register("", "Ref(string)", "Ref(string)")
_register("V2", "resource", "resource")
# For a new training on servers where an earlier one has closed its queues.
register_op("_QueueReopen", "handle: resource", stateful=True)
register_op("FakeQueue", "resource: resource", "handle: Ref(string)", shape=unknown, stateful=True)
not_differentiable("_QueueReopen", *[
    f"{name}{version}" for version in ("", "V2") for name in (
        *_KINDS, "QueueEnqueue", "QueueEnqueueMany", "QueueDequeue", "QueueDequeueMany",
        "QueueDequeueUpTo", "QueueClose", "QueueSize", "QueueIsClosed")])


class QueueBase:
    """A queue of tuples of tensors.

    Operations that cannot finish (a dequeue of an empty queue, an enqueue to a full one) wait.
    After :meth:`close`, enqueues fail with ``CancelledError`` and dequeues that the remaining
    elements cannot serve with ``OutOfRangeError``.

    With `names`, elements are dicts of tensors instead of tuples.
    """

    def __init__(self, dtypes: list, shapes: list | None, names: list[str] | None,
                 queue_ref: Tensor) -> None:
        self._dtypes = [dtypes_lib.as_dtype(t) for t in dtypes]
        if shapes is not None:
            if len(shapes) != len(dtypes):
                raise ValueError(f"Queue shapes must have the same length as dtypes, got "
                                 f"{len(shapes)} and {len(dtypes)}")
            self._shapes = [as_shape(s) for s in shapes]
        else:
            self._shapes = [TensorShape(None) for _ in self._dtypes]
        if names is not None and len(names) != len(dtypes):
            raise ValueError(f"Queue names must have the same length as dtypes, got {len(names)} "
                             f"and {len(dtypes)}")
        self._names = list(names) if names is not None else None
        self._queue_ref = queue_ref
        self._name = queue_ref.op.name.split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: list[QueueBase]) -> QueueBase:
        """Return a queue that is ``queues[index]`` for the value of the tensor `index`.

        Raises ``TypeError`` unless the queues have equal dtypes and names, ``ValueError`` when the
        list is empty.
        """
        if not queues or not isinstance(queues, list):
            raise TypeError("A list of queues expected")
        if not all(isinstance(q, QueueBase) for q in queues):
            raise TypeError(f"A list of queues expected, got {queues!r}")
        first = queues[0]
        if not all(q.dtypes == first.dtypes for q in queues):
            raise TypeError("Queues do not have matching component dtypes.")
        if not all(q.names == first.names for q in queues):
            raise TypeError("Queues do not have matching component names.")
        shapes = [_most_specific(column) for column in zip(*[q.shapes for q in queues],
                                                           strict=True)]
        selected = _selected(index, [q.queue_ref for q in queues])
        return QueueBase(first.dtypes, shapes, first.names, selected)

    @property
    def queue_ref(self) -> Tensor:
        """The handle of the queue."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """The name of the queue's op."""
        return self._queue_ref.op.name

    @property
    def dtypes(self) -> list[DType]:
        """The dtype of each component."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The declared shape of each component."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """The name of each component, or None."""
        return self._names

    def enqueue(self, vals: TensorLike, name: str | None = None) -> Operation:
        """Return an op that adds one element; `vals` is a tensor, a tuple or list, or a dict."""
        with name_scope(name, f"{self._name}_enqueue", self._scope_values(vals)) as scope:
            values = self._components(vals)
            for value, shape in zip(values, self._shapes, strict=True):
                value.get_shape().assert_is_compatible_with(shape)
            return self._op("QueueEnqueue", components=values, name=scope)

    def enqueue_many(self, vals: Sequence[Any], name: str | None = None) -> Operation:
        """Return an op that adds the slices of `vals` along their first dimension."""
        with name_scope(name, f"{self._name}_EnqueueMany", self._scope_values(vals)) as scope:
            values = self._components(vals)
            count = values[0].get_shape().with_rank_at_least(1)[0]
            for value, shape in zip(values, self._shapes, strict=True):
                dims = value.get_shape().with_rank_at_least(1)
                count = count.merge_with(dims[0])
                dims[1:].assert_is_compatible_with(shape)
            return self._op("QueueEnqueueMany", components=values, name=scope)

    def dequeue(self, name: str | None = None) -> Any:
        """Return one element: a tensor, a list, or a dict when the components have names."""
        out = self._op("QueueDequeue", component_types=self._dtypes,
                       name=name or f"{self._name}_Dequeue")
        return self._result(out, lambda shape: shape)

    def dequeue_many(self, n: TensorLike, name: str | None = None) -> Any:
        """Return `n` elements, each component stacked along a new first dimension."""
        out = self._op("QueueDequeueMany", n=n, component_types=self._dtypes,
                       name=name or f"{self._name}_DequeueMany")
        count = constant_value(convert_to_tensor(n)) if not isinstance(n, int) else n
        first = None if count is None else int(count)
        return self._result(out, lambda shape: TensorShape([first]).concatenate(shape))

    def dequeue_up_to(self, n: TensorLike, name: str | None = None) -> Any:
        """As :meth:`dequeue_many`, but a closed queue gives what it has left, if anything."""
        out = self._op("QueueDequeueUpTo", n=n, component_types=self._dtypes,
                       name=name or f"{self._name}_DequeueUpTo")
        return self._result(out, lambda shape: TensorShape([None]).concatenate(shape))

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an op that closes the queue; with `cancel_pending_enqueues`, enqueues that wait
        fail with ``CancelledError``."""
        return self._op("QueueClose", cancel_pending_enqueues=cancel_pending_enqueues,
                        name=name or f"{self._name}_Close")

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements, int32."""
        return self._op("QueueSize", name=name or f"{self._name}_Size")

    def is_closed(self, name: str | None = None) -> Tensor:
        """Return whether the queue is closed, bool."""
        return self._op("QueueIsClosed", name=name or f"{self._name}_Is_Closed")

    # ------------------------------------------------------------ helpers

    def _op(self, op_type: str, **keywords: Any) -> Any:
        version = "V2" if self._queue_ref.dtype.base_dtype is dtypes_lib.resource else ""
        with get_default_graph().colocate_with(self._queue_ref.op):
            return getattr(raw_ops, op_type + version)(handle=self._queue_ref, **keywords)

    def _scope_values(self, vals: TensorLike) -> list:
        if isinstance(vals, (list, tuple)):
            return list(vals)
        return list(vals.values()) if isinstance(vals, dict) else [vals]

    def _components(self, vals: TensorLike) -> list[Tensor]:
        """`vals` in the order of the components, as tensors of their dtypes."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names) != sorted(vals):
                raise ValueError("Keys in dictionary to enqueue do not match names of Queue. "
                                 f"Dictionary: ({','.join(sorted(vals))}), Queue: "
                                 f"({','.join(sorted(self._names))})")
            vals = [vals[name] for name in self._names]
        elif self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        elif not isinstance(vals, (list, tuple)):
            vals = [vals]
        if len(vals) != len(self._dtypes):
            raise ValueError(f"Expected {len(self._dtypes)} components, got {len(vals)}")
        return [convert_to_tensor(v, t, f"component_{i}")
                for i, (v, t) in enumerate(zip(vals, self._dtypes, strict=True))]

    def _result(self, outputs: list[Tensor], shape_of: Callable[..., Any]) -> Any:
        for tensor, shape in zip(outputs, self._shapes, strict=True):
            tensor.set_shape(shape_of(shape))
        if self._names:
            return dict(zip(self._names, outputs, strict=True))
        return outputs[0] if len(outputs) == 1 else outputs


def _selected(index: TensorLike, handles: list[Tensor]) -> Tensor:
    """``handles[index]``; an index that is out of range is an error of the step."""
    index = convert_to_tensor(index, dtypes_lib.int32, name="index")
    inside = raw_ops.LogicalAnd(raw_ops.GreaterEqual(index, 0),
                                raw_ops.Less(index, len(handles)))
    check = raw_ops.Assert(inside, ["QueueBase.from_list: index", index,
                                    f"is not in [0, {len(handles)})"])
    selected = handles[0]
    with control_dependencies([check]):
        for i, handle in enumerate(handles[1:], 1):
            selected = cond(raw_ops.Equal(index, i), partial(raw_ops.Identity, handle),
                            partial(raw_ops.Identity, selected))
        return raw_ops.Identity(selected)


def _most_specific(shapes: tuple[TensorShape, ...]) -> TensorShape:
    """Return the most specific shape that is compatible with all `shapes`."""
    known = [s._dims for s in shapes]
    ranks = {None if d is None else len(d) for d in known}
    if None in ranks or len(ranks) > 1:
        return TensorShape(None)
    return TensorShape([column[0] if len(set(column)) == 1 else None
                        for column in zip(*(d or () for d in known), strict=True)])


def component_lists(dtypes: Any, shapes: Any,
                    names: Any = None) -> tuple[list[DType], list | None, list | None]:
    """One dtype, shape or name may stand for a list of one."""
    given = dtypes if isinstance(dtypes, (list, tuple)) else [dtypes]
    types = [dtypes_lib.as_dtype(t) for t in given]
    if names is not None and isinstance(names, str):
        names = [names]
    if shapes is not None:
        one = isinstance(shapes, TensorShape) or not isinstance(shapes, (list, tuple)) or (
            len(types) == 1 and all(not isinstance(s, (list, tuple, TensorShape)) for s in shapes))
        shapes = [as_shape(s) for s in ([shapes] if one else shapes)]
    return types, shapes, names


def check_defined(shapes: list | None) -> None:
    """Raise ``ValueError`` unless all components have one size."""
    if not all(s.is_fully_defined() for s in shapes or ()):
        raise ValueError(f"All shapes must be fully defined: {shapes}")


class FIFOQueue(QueueBase):
    """A queue whose elements leave in the order in which they came.

    Args:
        capacity: how many elements fit; negative: any number.
        dtypes: dtype of each component.
        shapes: fully defined shape of each component, needed for ``dequeue_many``.
        names: name of each component; elements are then dicts.
        shared_name: share the queue under this name between sessions.
    """

    def __init__(self, capacity: int, dtypes: Any, shapes: ShapeLike | None = None,
                 names: Any = None, shared_name: str | None = None,
                 name: str = "fifo_queue") -> None:
        types, shapes, names = component_lists(dtypes, shapes, names)
        check_defined(shapes)
        handle = raw_ops.FIFOQueueV2(component_types=types, shapes=shapes or [], capacity=capacity,
                                     shared_name=shared_name or "", name=name,
                                     container=get_default_graph()._container)
        super().__init__(types, shapes, names, handle)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements leave in random order.

    At least `min_after_dequeue` elements stay behind until the queue is closed, which keeps the
    shuffling good. Other arguments as :class:`FIFOQueue`.
    """

    def __init__(self, capacity: int, min_after_dequeue: int, dtypes: Sequence[DTypeLike],
                 shapes: Sequence[ShapeLike] | None = None, names: Any = None,
                 seed: int | None = None, shared_name: str | None = None,
                 name: str = "random_shuffle_queue") -> None:
        types, shapes, names = component_lists(dtypes, shapes, names)
        check_defined(shapes)
        seed1, seed2 = get_seed(seed)
        if seed is None and seed1 is not None and shared_name:
            # Whoever shares the queue asks for the same seeds, wherever its operation stands.
            digest = hashlib.md5(f"{seed1}{shared_name}".encode(), usedforsecurity=False)
            seed2 = int(digest.hexdigest()[:8], 16) & 0x7FFFFFFF
        handle = raw_ops.RandomShuffleQueueV2(
            component_types=types, shapes=shapes or [], capacity=capacity,
            min_after_dequeue=min_after_dequeue, seed=seed1 or 0, seed2=seed2 or 0,
            shared_name=shared_name or "", name=name, container=get_default_graph()._container)
        super().__init__(types, shapes, names, handle)


class PaddingFIFOQueue(QueueBase):
    """A FIFOQueue whose batches pad components of different sizes with zeros.

    `shapes` is required; its unknown dimensions are those that may vary.
    """

    def __init__(self, capacity: int, dtypes: Sequence[Any], shapes: ShapeLike, names: Any = None,
                 shared_name: str | None = None, name: str = "padding_fifo_queue") -> None:
        types, shapes, names = component_lists(dtypes, shapes, names)
        if shapes is None:
            raise ValueError("When providing partial shapes, a list of shapes must be provided.")
        if len(shapes) != len(types):
            raise ValueError("Shapes must be provided for all components, but received "
                             f"{len(types)} dtypes and {len(shapes)} shapes.")
        if any(s.ndims is None for s in shapes):
            raise ValueError(f"All shapes must have a defined rank: {shapes}")
        handle = raw_ops.PaddingFIFOQueueV2(
            component_types=types, shapes=shapes, capacity=capacity,
            shared_name=shared_name or "", name=name, container=get_default_graph()._container)
        super().__init__(types, shapes, names, handle)

    def dequeue_many(self, n: TensorLike, name: str | None = None) -> Any:
        """Return `n` elements, padded to a common shape and stacked."""
        return super().dequeue_many(n, name)


class PriorityQueue(QueueBase):
    """A queue whose element of lowest priority (the first component, int64) leaves first.

    `types` and `shapes` are those of the components behind the priority.
    """

    def __init__(self, capacity: int, types: Sequence[Any],
                 shapes: Sequence[ShapeLike] | None = None, names: Any = None,
                 shared_name: str | None = None, name: str = "priority_queue") -> None:
        given, shapes, names = component_lists(types, shapes, names)
        check_defined(shapes)
        handle = raw_ops.PriorityQueueV2(
            component_types=given, shapes=shapes or [], capacity=capacity,
            shared_name=shared_name or "", name=name, container=get_default_graph()._container)
        full = [TensorShape([]), *shapes] if shapes is not None else None
        super().__init__([dtypes_lib.int64, *given], full, names, handle)
