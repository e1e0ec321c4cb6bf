"""Nested structures: lists, tuples, namedtuples and dicts of values, and values made of tensors.

A *leaf* is anything that is not one of these containers. Dicts are taken in the order of their
sorted keys. A *composite* is a leaf that stands for several tensors, such as IndexedSlices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import (
    Callable,
    Iterator,
    Mapping,
    MappingView,
    Sequence,
    Set,
    ValuesView,
)
from typing import Any

from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike


def is_nested(value: Any) -> bool:
    """True for the containers that structures are made of."""
    return isinstance(value, (list, tuple, dict, Mapping, MappingView))


def as_list(values: TensorLike) -> list:
    """The entries of a list, tuple, set, generator or view of a dict, or of what else is a sequence
    but no string; of a dict the values; anything else as a list of one."""
    if isinstance(values, dict):
        return children(values)
    if isinstance(values, (str, bytes)) or not isinstance(
            values, (Sequence, Set, ValuesView, Iterator)):
        return [values]
    return list(values)


def flatten(structure: Any) -> list:
    """The leaves of `structure`, left to right; a leaf by itself is a list of one."""
    if not is_nested(structure):
        return [structure]
    return [leaf for item in children(structure) for leaf in flatten(item)]


def pack_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """`leaves` in the shape of `structure`; ``ValueError`` if their number differs."""
    expected = len(flatten(structure))
    if len(leaves) != expected:
        raise ValueError(f"The structure has {expected} leaves, but {len(leaves)} values were "
                         f"given for {describe(structure)}")
    return _pack(structure, iter(leaves))


def check_same(first: Any, second: Any, what: str = "") -> None:
    """Raise unless both have the same containers with the same number of leaves.

    Raises ``ValueError`` for a different nesting or other keys, ``TypeError`` for containers of
    different types.
    """
    problem = _difference(first, second)
    if problem is not None:
        kind, text = problem
        raise kind(f"{what}{': ' if what else ''}The two structures don't have the same nested "
                   f"structure: {describe(first)} and {describe(second)}: {text}")


def describe(structure: Any) -> str:
    """The nesting alone, a dot for each leaf: ``[., (., .)]``."""
    if not is_nested(structure):
        return "."
    if isinstance(structure, Mapping):
        return "{" + ", ".join(f"{k!r}: {describe(v)}" for k, v in sorted_items(structure)) + "}"
    inner = ", ".join(describe(v) for v in structure)
    if isinstance(structure, list):
        return f"[{inner}]"
    return f"({inner}{',' if len(structure) == 1 else ''})"


def sorted_items(mapping: Mapping) -> list[tuple]:
    """The pairs of a dict in the order of its keys. Raises ``TypeError`` if they have none."""
    try:
        return [(k, mapping[k]) for k in sorted(mapping)]
    except TypeError:
        raise TypeError(f"The keys of a dict in a structure must be sortable, but are "
                        f"{list(mapping)}") from None


def children(structure: Any) -> list:
    """The entries of a container, those of a dict in the order of its keys."""
    if isinstance(structure, Mapping):
        return [v for _, v in sorted_items(structure)]
    return list(structure)


def _pack(structure: Any, leaves: Any) -> Any:
    if not is_nested(structure):
        return next(leaves)
    return same_container(structure, [_pack(item, leaves) for item in children(structure)])


def same_container(structure: Any, items: list) -> Any:
    """A container of the kind of `structure` with other entries, as many as :func:`children`."""
    kind: Any = type(structure)
    if isinstance(structure, Mapping):
        values = dict(zip([k for k, _ in sorted_items(structure)], items, strict=True))
        pairs = [(k, values[k]) for k in structure]
        if isinstance(structure, defaultdict):
            return kind(structure.default_factory, pairs)
        return kind(pairs)
    if hasattr(structure, "_fields"):
        return kind(*items)
    return items if isinstance(structure, MappingView) else kind(items)


def _difference(first: Any, second: Any) -> tuple[type[Exception], str] | None:
    if not (is_nested(first) and is_nested(second)):
        if is_nested(first) == is_nested(second):
            return None
        return ValueError, f"{_kind(first)} against {_kind(second)}"
    if not _same_container(first, second):
        return TypeError, ("not the same sequence type: "
                           f"{type(first).__name__} against {type(second).__name__}")
    if isinstance(first, Mapping) and set(first) != set(second):
        return ValueError, f"the keys {sorted(map(str, first))} and {sorted(map(str, second))}"
    if len(first) != len(second):
        return ValueError, (f"not the same number of elements: {len(first)} entries against "
                            f"{len(second)}")
    pairs = zip(children(first), children(second), strict=True)
    return next((d for a, b in pairs if (d := _difference(a, b)) is not None), None)


def _same_container(first: Any, second: Any) -> bool:
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        return isinstance(first, Mapping) and isinstance(second, Mapping)
    return type(first) is type(second)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__} of {len(value)}" if is_nested(value) else "a single value"


# ---------------------------------------------------------------- values made of tensors

_composites: list[tuple[type, Callable, Callable]] = []


def register_composite(kind: type, expand: Callable, rebuild: Callable) -> None:
    """Let `kind` be taken apart: ``expand(value) -> list of tensors``,
    ``rebuild(value, tensors) -> a value like it, made of other tensors``."""
    _composites.append((kind, expand, rebuild))


def is_composite(leaf: Any) -> bool:
    """True for a leaf that stands for several tensors, or for something else than its tensor."""
    return any(isinstance(leaf, kind) for kind, _, _ in _composites)


def expand(leaf: Any) -> list:
    """The tensors that a leaf consists of; a leaf that is no composite is its own."""
    for kind, function, _ in _composites:
        if isinstance(leaf, kind):
            return function(leaf)
    return [leaf]


def rebuild(leaf: Any, tensors: Sequence[Any]) -> Any:
    """A value like `leaf`, made of `tensors` (as many as ``expand(leaf)`` gives)."""
    for kind, _, function in _composites:
        if isinstance(leaf, kind):
            return function(leaf, tensors)
    return tensors[0]


def rebuild_all(leaves: Sequence[Any], tensors: Sequence[Any]) -> list:
    """For each leaf a value like it, made of the next of `tensors`."""
    remaining = iter(tensors)
    return [rebuild(leaf, [next(remaining) for _ in expand(leaf)]) for leaf in leaves]


def _slices_parts(value: IndexedSlices) -> list:
    parts = [value.values, value.indices]
    return parts if value.dense_shape is None else [*parts, value.dense_shape]


def _slices_like(value: IndexedSlices, tensors: Sequence[Any]) -> IndexedSlices:
    return IndexedSlices(*tensors)


register_composite(IndexedSlices, _slices_parts, _slices_like)
