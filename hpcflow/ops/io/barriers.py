"""Barriers: tuples joined by key from components that come one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import known_number, resource_handle, scalar
from hpcflow.ops.io.queues import check_defined, component_lists
from hpcflow.shapes import ShapeLike, TensorShape

__all__ = ["Barrier"]

_HANDLE = "handle: Ref(string)"


def _take_shapes(op: Operation) -> list[Dims]:
    count = known_number(op, 1)
    first = None if count is None or op.attr("allow_small_batch") else int(count)
    shapes = op.inputs[0].op.attr("shapes") or [TensorShape(None)] * (len(op.outputs) - 2)
    rest = [None if s._dims is None else (first, *s._dims) for s in shapes]
    return [(first,), (first,), *rest]


register_op("Barrier", "", _HANDLE,
            "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; capacity: int = -1; "
            "container: string = ''; shared_name: string = ''", shape=resource_handle,
            stateful=True)
register_op("BarrierInsertMany", f"{_HANDLE}; keys: string; values: T", "",
            "T: type; component_index: int")
register_op("BarrierTakeMany", f"{_HANDLE}; num_elements: int32",
            "indices: int64; keys: string; values: component_types",
            "component_types: list(type) >= 1; allow_small_batch: bool = false; "
            "wait_for_incomplete: bool = false; timeout_ms: int = -1", shape=_take_shapes)
register_op("BarrierClose", _HANDLE, "", "cancel_pending_enqueues: bool = false")
register_op("BarrierReadySize", _HANDLE, "size: int32", shape=scalar)
register_op("BarrierIncompleteSize", _HANDLE, "size: int32", shape=scalar)
not_differentiable("Barrier", "BarrierInsertMany", "BarrierTakeMany", "BarrierClose",
                   "BarrierReadySize", "BarrierIncompleteSize")


class Barrier:
    """A map from keys to tuples of tensors, out of which only complete tuples leave.

    Components are inserted by key, in any order and by any step; a tuple is complete when it has
    all of its components. Complete tuples leave in the order in which their keys came first.

    Args:
        types: dtype of each component.
        shapes: fully defined shape of each component; without them nothing can be taken.
        shared_name: share the barrier under this name between sessions.
        name: name of the op.

    Raises ``ValueError`` for shapes that do not belong to the types, or have no elements.
    """

    def __init__(self, types: Sequence[DTypeLike], shapes: Sequence[ShapeLike] | None = None,
                 shared_name: str | None = None, name: str = "barrier") -> None:
        self._types, given, _ = component_lists(types, shapes)
        given = given or []
        check_defined(given)
        if given and len(given) != len(self._types):
            raise ValueError(f"Barrier: {len(self._types)} types, but {len(given)} shapes")
        for i, shape in enumerate(given):
            if shape.num_elements() == 0:
                raise ValueError("Empty tensors are not supported, but received shape "
                                 f"'{shape}' at index {i}")
        self._shapes = given or [TensorShape(None)] * len(self._types)
        self._barrier_ref = raw_ops.Barrier(
            component_types=self._types, shapes=given, shared_name=shared_name or "", name=name,
            container=get_default_graph()._container)
        self._name = self._barrier_ref.op.name.split("/")[-1]

    @property
    def barrier_ref(self) -> Tensor:
        """The handle of the barrier."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        """The name of the barrier's op."""
        return self._barrier_ref.op.name

    def insert_many(self, component_index: int, keys: TensorLike, values: Sequence[TensorLike],
                    name: str | None = None) -> Operation:
        """Return an op that gives one component of each of `keys` its value.

        `values` holds one slice per key along its first dimension. When run, raises
        ``InvalidArgumentError`` if a key has the component already, ``CancelledError`` for a new
        key after :meth:`close`.
        """
        return self._op("BarrierInsertMany", keys=keys, component_index=component_index,
                        values=convert_to_tensor(values, self._types[component_index]),
                        name=name or f"{self._name}_BarrierInsertMany")

    def take_many(self, num_elements: Any, allow_small_batch: bool = False,
                  timeout: int | None = None, name: str | None = None) -> Any:
        """Return (indices, keys, list of components) of complete tuples, once there are so many.

        With `allow_small_batch` a closed barrier gives what it has left. When run, raises
        ``OutOfRangeError`` when the barrier is closed and has too few. `timeout` is accepted, as
        for queues; use the session's.
        """
        out = self._op("BarrierTakeMany", num_elements=num_elements, component_types=self._types,
                       allow_small_batch=allow_small_batch,
                       timeout_ms=-1 if timeout is None else timeout,
                       name=name or f"{self._name}_BarrierTakeMany")
        indices, keys, *rest = _flat(out)
        return indices, keys, rest

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an op that closes the barrier: keys that it does not know are refused; with
        `cancel_pending_enqueues`, incomplete tuples are dropped too."""
        return self._op("BarrierClose", cancel_pending_enqueues=cancel_pending_enqueues,
                        name=name or f"{self._name}_BarrierClose")

    def ready_size(self, name: str | None = None) -> Tensor:
        """Return the number of complete tuples, int32."""
        return self._op("BarrierReadySize", name=name or f"{self._name}_BarrierReadySize")

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of incomplete tuples, int32."""
        return self._op("BarrierIncompleteSize",
                        name=name or f"{self._name}_BarrierIncompleteSize")

    def _op(self, op_type: str, **keywords: Any) -> Any:
        with get_default_graph().colocate_with(self._barrier_ref.op):
            return getattr(raw_ops, op_type)(handle=self._barrier_ref, **keywords)


def _flat(out: Any) -> list[Tensor]:
    return [t for part in out for t in (part if isinstance(part, (list, tuple)) else [part])]
