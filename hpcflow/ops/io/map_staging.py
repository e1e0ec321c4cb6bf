"""Staging areas by key: elements that steps prepare for later ones, which ask for them by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.shape_inference import scalar, unknown
from hpcflow.ops.io.staging import BaseStagingArea
from hpcflow.shapes import ShapeLike

__all__ = ["MapStagingArea"]

_SHARED = "container: string = ''; shared_name: string = ''"
_LIMITS = "capacity: int >= 0 = 0; memory_limit: int >= 0 = 0"
_PUT = f"{_LIMITS}; dtypes: list(type); fake_dtypes: list(type) >= 1; {_SHARED}"
_GET = f"{_LIMITS}; dtypes: list(type) >= 1; {_SHARED}"
_ANY = f"{_LIMITS}; dtypes: list(type); {_SHARED}"


def _key_and_values(op: Operation) -> list[Dims]:
    return [(), *[None] * (len(op.outputs) - 1)]


for _kind in ("Map", "OrderedMap"):
    register_op(f"{_kind}Stage", "key: int64; indices: int32; values: fake_dtypes", "", _PUT,
                stateful=True)
    for _name in ("Peek", "Unstage"):
        register_op(f"{_kind}{_name}", "key: int64; indices: int32", "values: dtypes", _GET,
                    shape=unknown, stateful=True)
    register_op(f"{_kind}UnstageNoKey", "indices: int32", "key: int64; values: dtypes", _GET,
                shape=_key_and_values, stateful=True)
    for _name in ("Size", "IncompleteSize"):
        register_op(f"{_kind}{_name}", "", "size: int32", _ANY, shape=scalar, stateful=True)
    register_op(f"{_kind}Clear", "", "", _ANY, stateful=True)
    not_differentiable(*[f"{_kind}{_name}" for _name in (
        "Stage", "Peek", "Unstage", "UnstageNoKey", "Size", "IncompleteSize", "Clear")])


class MapStagingArea(BaseStagingArea):
    """A buffer between steps whose elements have keys, int64: ``put`` in one step, also component
    by component, ``get`` or ``peek`` in another, which waits until the element of the key is
    complete.

    Args:
        dtypes: dtype of each component.
        shapes: shape of each component, if known.
        names: name of each component; elements are then dicts.
        shared_name: share the area under this name between sessions.
        ordered: ``get`` without a key returns the smallest key first, else the oldest element.
        capacity: how many complete elements fit; ``put`` waits for room. 0: any number.
        memory_limit: how many bytes fit. 0: any number.
    """

    def __init__(self, dtypes: Sequence[DTypeLike], shapes: Sequence[ShapeLike] | None = None,
                 names: list[str] | None = None, shared_name: str | None = None,
                 ordered: bool = False, capacity: int = 0, memory_limit: int = 0) -> None:
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._kind = "OrderedMap" if ordered else "Map"

    def put(self, key: TensorLike, vals: Any, indices: Sequence[int] | None = None,
            name: str | None = None) -> Operation:
        """Return an op that adds components of the element of `key`.

        `vals` is a dict by names, or a list for the components `indices`. Raises ``ValueError``
        for components that do not fit; when run ``InvalidArgumentError`` for a component that is
        there already, ``ResourceExhaustedError`` for more bytes than the limit.
        """
        if isinstance(vals, dict):
            places = self._places(list(vals))
            vals = list(vals.values())
        elif indices is None:
            raise ValueError(f"{self._name}: indices must be supplied when inserting a list of "
                             "tensors")
        else:
            vals = list(vals) if isinstance(vals, (list, tuple)) else [vals]
            places = self._places(list(indices))
        if len(places) != len(vals):
            raise ValueError(f"{self._name}: {len(vals)} values for {len(places)} indices")
        tensors = [self._component(v, i) for v, i in zip(vals, places, strict=True)]
        return self._op(f"{self._kind}Stage", name or f"{self._name}_put", key=_key(key),
                        indices=places, values=tensors)

    def get(self, key: TensorLike | None = None, indices: Sequence[int | str] | None = None,
            name: str | None = None) -> tuple[Any, Any]:
        """Return a key, and the components `indices` (all by default) of its element, which are
        taken: those of `key`, or of the next element."""
        places = self._places(indices)
        types = [self._dtypes[i] for i in places]
        if key is not None:
            out = self._op(f"{self._kind}Unstage", name or f"{self._name}_get", dtypes=types,
                           key=_key(key), indices=places)
            return key, self._element(out, places)
        found, out = self._op(f"{self._kind}UnstageNoKey", name or f"{self._name}_get_nokey",
                              dtypes=types, indices=places)
        return found, self._element(out, places)

    def peek(self, key: TensorLike, indices: Sequence[int | str] | None = None,
             name: str | None = None) -> Any:
        """Return components of the element of `key`, which stay; waits for it."""
        places = self._places(indices)
        out = self._op(f"{self._kind}Peek", name or f"{self._name}_pop", key=_key(key),
                       indices=places, dtypes=[self._dtypes[i] for i in places])
        return self._element(out, places)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of complete elements, int32."""
        return self._op(f"{self._kind}Size", name or f"{self._name}_size")

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of elements that lack components, int32."""
        return self._op(f"{self._kind}IncompleteSize", name or f"{self._name}_incomplete_size")

    def clear(self, name: str | None = None) -> Operation:
        """Return an op that removes all elements."""
        return self._op(f"{self._kind}Clear", name or f"{self._name}_clear")

    def _places(self, indices: Sequence[int | str] | None) -> list[int]:
        if indices is None:
            return list(range(len(self._dtypes)))
        if not isinstance(indices, (list, tuple)):
            raise TypeError(f"Invalid indices type '{type(indices).__name__}'")
        if not indices:
            raise ValueError("Empty indices")
        return [self._place(i) for i in indices]

    def _place(self, index: int | str) -> int:
        if isinstance(index, str):
            if index not in (self._names or ()):
                raise ValueError(f"Named index '{index}' not in Staging Area names "
                                 f"'{self._names}'")
            return (self._names or []).index(index)
        if not 0 <= index < len(self._dtypes):
            raise ValueError(f"{self._name}: component {index} of {len(self._dtypes)}")
        return int(index)

    def _element(self, out: Any, places: list[int]) -> Any:
        tensors = list(out) if isinstance(out, (list, tuple)) else [out]
        for tensor, i in zip(tensors, places, strict=True):
            tensor.set_shape(self._shapes[i])
        if self._names:
            return {self._names[i]: t for t, i in zip(tensors, places, strict=True)}
        return tensors


def _key(key: TensorLike) -> Tensor:
    return convert_to_tensor(key, "int64")
