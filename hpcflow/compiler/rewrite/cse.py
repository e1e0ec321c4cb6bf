"""cse: nodes that compute the same value are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.ir.effects import is_pure
from hpcflow.compiler.ir.step_graph import Node, StepGraph
from hpcflow.dtypes import DType
from hpcflow.host.tuning import compiler as tuning

# They have effects, but of two equal ones, one is enough: it reads and clears the elements.
_REPEATABLE = frozenset(f"TensorArray{what}V{version}" for version in (2, 3)
                        for what in ("Read", "Gather", "Concat", "Size"))
_PLAIN = frozenset({bool, int, bytes, str})


def eliminate_common_subexpressions(graph: StepGraph) -> None:
    """Merge stateless nodes of equal type, attributes, inputs, control inputs and device."""
    _merge(graph, _names)


def merge_placed(graph: StepGraph) -> None:
    """The same once devices are known: what nodes were to be placed with may differ now, as where
    several tables are updated by the same row numbers."""
    if any([_WITH in node.attrs and is_pure(node) for node in graph.nodes]):
        _merge(graph, _names_but_colocation)


_WITH = "_class"  # the attribute that says so


def _names(node: Node) -> tuple[str, ...]:
    return tuple(node.attrs)


def _names_but_colocation(node: Node) -> tuple[str, ...]:
    return tuple([name for name in node.attrs if name != _WITH])


def _merge(graph: StepGraph, names_of: Callable[[Node], tuple[str, ...]]) -> None:
    """Merge nodes that are equal in the attributes of these names."""
    seen: dict[Any, Node] = {}
    merged: dict[Node, Node] = {}
    for node in graph.nodes:
        if not is_pure(node) and node.type not in _REPEATABLE:
            continue
        key = _key(node, merged, names_of(node))
        if key is None:
            continue
        first = seen.setdefault(key, node)
        if first is not node:
            merged[node] = first
    graph.replace(merged)


def _key(node: Node, merged: dict[Node, Node], names: tuple[str, ...]) -> Any:
    if merged:
        inputs = [(id(merged.get(s, s)), i) for s, i in node.inputs]
    else:
        inputs = [(id(s), i) for s, i in node.inputs]
    if node.op_def.is_commutative:
        inputs.sort()
    attrs = tuple([_attr_key(node.attrs[name]) for name in names])
    if None in attrs:
        return None
    # A read of a variable may see another value later, so reads are told apart by their waits.
    controls = tuple(sorted(id(merged.get(c, c)) for c in node.controls)) if node.controls else ()
    return (node.type, node.device, tuple(inputs), controls, names, attrs)


def _attr_key(value: Any) -> Any:
    """A hashable stand-in for an attribute's value; None for one that is not compared."""
    kind = type(value)
    if kind is DType:
        return id(value)
    if kind is np.ndarray:
        if value.dtype.kind == "O":
            return (value.shape, repr(value.tolist())) if value.size <= 16 else None
        is_small = value.nbytes <= tuning.CSE_SMALL_BYTES
        return (value.dtype.str, value.shape, value.tobytes()) if is_small else None
    return value if kind in _PLAIN else repr(value)
