"""Staging areas: values that one step prepares for a later one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import scalar, unknown
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__ = ["StagingArea"]

_ATTRS = ("dtypes: list(type) >= 1; container: string = ''; shared_name: string = ''; "
          "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0")

register_op("Stage", "values: dtypes", "", _ATTRS, stateful=True)
register_op("Unstage", "", "values: dtypes", _ATTRS, shape=unknown, stateful=True)
register_op("StagePeek", "index: int32", "values: dtypes", _ATTRS, shape=unknown, stateful=True)
register_op("StageSize", "", "size: int32", _ATTRS, shape=scalar, stateful=True)
register_op("StageClear", "", "", _ATTRS, stateful=True)
not_differentiable("Stage", "Unstage", "StagePeek", "StageSize", "StageClear")


class BaseStagingArea:
    """Base of buffers between steps: their components, limits and name."""

    def __init__(self, dtypes: Sequence[DTypeLike], shapes: Sequence[ShapeLike] | None = None,
                 names: list[str] | None = None, shared_name: str | None = None, capacity: int = 0,
                 memory_limit: int = 0) -> None:
        self._dtypes = [dtypes_lib.as_dtype(t) for t in dtypes]
        self._shapes = ([TensorShape(None)] * len(self._dtypes) if shapes is None
                        else [as_shape(s) for s in shapes])
        self._names = names
        if len(self._shapes) != len(self._dtypes) or names and len(names) != len(self._dtypes):
            raise ValueError(f"{type(self).__name__}: shapes and names must be as many as the "
                             "dtypes")
        self._capacity, self._memory_limit = capacity, memory_limit
        self._name = shared_name or get_default_graph().unique_name(type(self).__name__)

    @property
    def name(self) -> str:
        """The name that the operations share."""
        return self._name

    @property
    def dtypes(self) -> list[DType]:
        """The dtype of each component."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The shape of each component."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """The name of each component, or None."""
        return self._names

    @property
    def capacity(self) -> int:
        """The largest number of elements; 0 means unlimited."""
        return self._capacity

    @property
    def memory_limit(self) -> int:
        """The largest number of bytes; 0 means unlimited."""
        return self._memory_limit

    def _op(self, op_type: str, name: str, dtypes: list[DType] | None = None,
            **inputs: Any) -> Any:
        types = {} if op_type == "Stage" else {"dtypes": dtypes or self._dtypes}
        return getattr(raw_ops, op_type)(
            **inputs, **types, shared_name=self._name, capacity=self._capacity,
            memory_limit=self._memory_limit, name=name)

    def _component(self, value: TensorLike, index: int) -> Tensor:
        """`value` as a tensor that may be the component `index` of an element."""
        tensor = convert_to_tensor(value, self._dtypes[index])
        tensor.get_shape().assert_is_compatible_with(self._shapes[index])
        return tensor


class StagingArea(BaseStagingArea):
    """A buffer between steps: ``put`` in one, ``get`` (first in, first out) in another, which
    waits without holding a thread until there is something.

    Args:
        dtypes: dtype of each component.
        shapes: shape of each component, if known.
        names: name of each component; elements are then dicts.
        shared_name: share the area under this name between sessions.
        capacity: how many elements fit; ``put`` waits for room. 0: any number.
        memory_limit: how many bytes fit. 0: any number.
    """

    def put(self, values: TensorLike, name: str | None = None) -> Operation:
        """Return an op that adds one element: a tensor, a list, or a dict.

        Raises ``ValueError`` for components that do not fit.
        """
        if isinstance(values, dict):
            if self._names is None or sorted(values) != sorted(self._names):
                raise ValueError(f"StagingArea.put: got the keys {sorted(values)}, the names are "
                                 f"{self._names}")
            values = [values[n] for n in self._names]
        elif not isinstance(values, (list, tuple)):
            values = [values]
        if len(values) != len(self._dtypes):
            raise ValueError(f"StagingArea.put: expected {len(self._dtypes)} values, got "
                             f"{len(values)}")
        tensors = [self._component(value, i) for i, value in enumerate(values)]
        return self._op("Stage", name or f"{self._name}_put", values=tensors)

    def get(self, name: str | None = None) -> Any:
        """Return one element: a tensor, a list, or a dict when the components have names."""
        return self._element(self._op("Unstage", name or f"{self._name}_get"))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """Return the element at a place, 0 for the oldest, without taking it; waits for it."""
        return self._element(self._op("StagePeek", name or f"{self._name}_peek", index=index))

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements, int32."""
        return self._op("StageSize", name or f"{self._name}_size")

    def clear(self, name: str | None = None) -> Operation:
        """Return an op that removes all elements."""
        return self._op("StageClear", name or f"{self._name}_clear")

    def _element(self, out: list[Tensor]) -> Any:
        for tensor, shape in zip(out, self._shapes, strict=True):
            tensor.set_shape(shape)
        if self._names:
            return dict(zip(self._names, out, strict=True))
        return out[0] if len(out) == 1 else list(out)
