"""group, tuple and with_dependencies: control edges bundled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, control_dependencies, device, graph_of, name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.scopes import operation_of

__all__ = ["group", "tuple"]

_tuple = tuple
_NUMBERS = (bool, int, float, complex, np.generic)


def group(*inputs: Any, **kwargs: Any) -> Operation:
    """Return an operation that finishes when all `inputs` have.

    With inputs on several devices there is one waiting operation on each, and one that waits for
    these, so that between two devices there is one edge.

    Args:
        *inputs: operations, tensors, variables or IndexedSlices, or nests of them.
        name: name of the operation ("group_deps").

    Raises: ``TypeError`` for anything else; ``ValueError`` for unknown keywords, or if the inputs
        are of several graphs.
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    inputs = _tuple(nest.flatten(inputs))
    graph = graph_of(list(inputs))
    with graph.as_default(), graph.name_scope(name or "group_deps") as scope:
        by_device: dict[str, list[Operation]] = {}
        for item in inputs:
            op = _operation(item)
            by_device.setdefault(op.device, []).append(op)
        if len(by_device) <= 1:
            [(where, ops)] = by_device.items() or [("", [])]
            return _no_op(where, ops, scope)
        waiting = [_no_op(where, by_device[where], None) for where in sorted(by_device)]
        return _no_op(None, waiting, scope)


def _operation(item: Any) -> Operation:
    if getattr(item, "_is_by_handle", False):
        return operation_of(item)  # a change of a variable, which need not be read
    return operation_of(getattr(item, "_as_graph_element", lambda: item)())


def _no_op(where: str | None, ops: Sequence[Operation], name: str | None) -> Operation:
    with control_dependencies(list(ops)):
        if not where:
            return raw_ops.NoOp(name=name)
        with device(where):
            return raw_ops.NoOp(name=name)


def with_dependencies(dependencies: Sequence[Any], output_tensor: Any,
                      name: str | None = None) -> Any:
    """Return `output_tensor` (a tensor or IndexedSlices), available after `dependencies`."""
    if not isinstance(output_tensor, IndexedSlices) and not hasattr(output_tensor, "_ref"):
        output_tensor = convert_to_tensor(output_tensor)
    values = [*dependencies, output_tensor]
    with name_scope(name, "control_dependency", values) as scope:
        with colocate_with(_operation(output_tensor)), control_dependencies(list(dependencies)):
            if isinstance(output_tensor, IndexedSlices):
                return IndexedSlices(raw_ops.Identity(output_tensor.values, name=scope),
                                     output_tensor.indices, output_tensor.dense_shape)
            # A variable is read after the dependencies, not where its value was read before.
            if getattr(output_tensor, "_is_by_handle", False):
                return raw_ops.Identity(output_tensor.value(), name=scope)
            ref = getattr(output_tensor, "_ref", None)
            value = output_tensor if ref is None else ref()
            return raw_ops.Identity(convert_to_tensor(value), name=scope)


def tuple(tensors: Sequence[Any], name: str | None = None,
          control_inputs: Sequence[Any] | None = None) -> list:
    """Return `tensors`, each available only when all of them, and `control_inputs`, are.

    Entries may be tensors (or what becomes one), IndexedSlices, operations, which stay what they
    are, or None, which stays None. Raises ``ValueError`` if all are None, ``TypeError`` for control
    inputs that are not operations or tensors.
    """
    with name_scope(name, "tuple", [t for t in tensors if t is not None]):
        tensors = [convert_to_tensor(t) if isinstance(t, (np.ndarray, *_NUMBERS)) else t
                   for t in tensors]
        gate = [_operation(t) for t in tensors if t is not None]
        if not gate:
            raise ValueError(f"Must have at least one Tensor: {tensors!r}")
        gate += [_control_input(c) for c in control_inputs or ()]
        together = group(*gate)
        return [t if t is None or isinstance(t, Operation) else with_dependencies([together], t)
                for t in tensors]


def _control_input(item: Any) -> Operation:
    if not isinstance(item, (Operation, Tensor)):
        raise TypeError(f"Control input must be an Operation or Tensor, got {item!r}")
    return _operation(item)
