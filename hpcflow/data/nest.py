"""The structures of elements: tuples, namedtuples and dicts; a list is a value by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpcflow.graph.sparse_tensor import SparseTensorValue


def is_nested(value: Any) -> bool:
    """True for what structures are made of."""
    return isinstance(value, (tuple, Mapping)) and not isinstance(value, SparseTensorValue)


def children(structure: Any) -> list:
    """The entries of a container, those of a dict in the order of its keys."""
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    return list(structure)


def flatten(structure: Any) -> list:
    """The leaves, left to right."""
    if not is_nested(structure):
        return [structure]
    return [leaf for item in children(structure) for leaf in flatten(item)]


def pack_as(structure: Any, leaves: Sequence[Any]) -> Any:
    """`leaves` in the form of `structure`; ``ValueError`` if their number differs."""
    count = len(flatten(structure))
    if count != len(leaves):
        raise ValueError(f"Structure had {count} elements, but flat_sequence had {len(leaves)} "
                         "elements.")
    return _pack(structure, iter(leaves))


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    items = [_pack(item, leaves) for item in children(structure)]
    if isinstance(structure, Mapping):
        values = dict(zip(sorted(structure), items, strict=True))
        return type(structure)((key, values[key]) for key in structure)  # type: ignore[call-arg]
    return type(structure)(*items) if hasattr(structure, "_fields") else tuple(items)


def map_structure(function: Callable, *structures: Any, check_types: bool = True,
                  **others: Any) -> Any:
    """A structure of what `function` makes of the leaves: one of each structure, which are alike.

    Raises as :func:`assert_same_structure`, and ``ValueError`` for no structure or `others`.
    """
    if others:
        raise ValueError("Only valid keyword argument is check_types, but got: "
                         f"{', '.join(others)}")
    if not structures:
        raise ValueError("Must provide at least one structure")
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types)
    return pack_as(structures[0], [function(*leaves) for leaves in zip(
        *map(flatten, structures), strict=True)])


def map_structure_up_to(shallow: Any, function: Callable, *structures: Any) -> Any:
    """A structure as `shallow` of what `function` makes of the parts of each structure that stand
    where it has leaves. Raises as :func:`flatten_up_to`."""
    parts = [flatten_up_to(shallow, structure) for structure in structures]
    return pack_as(shallow, [function(*part) for part in zip(*parts, strict=True)])


def assert_shallow_structure(shallow: Any, deep: Any, check_types: bool = True) -> None:
    """Raise as :func:`flatten_up_to` unless `deep` is `shallow` with more in the leaves."""
    flatten_up_to(shallow, deep)
    if check_types and is_nested(shallow):
        _check_types(shallow, deep)
        for a, b in zip(children(shallow), children(deep), strict=True):
            assert_shallow_structure(a, b)


def assert_same_structure(first: Any, second: Any, check_types: bool = True) -> None:
    """Raise ``ValueError`` for another nesting, ``TypeError`` (unless not `check_types`) for
    containers of different types."""
    if len(flatten(first)) != len(flatten(second)):
        raise ValueError("The two structures don't have the same nested structure: they don't have "
                         f"the same number of elements. First structure: {first}, second "
                         f"structure: {second}.")
    check_same(first, second)
    if check_types and is_nested(first):
        _check_types(first, second)
        for a, b in zip(children(first), children(second), strict=True):
            assert_same_structure(a, b)


def _check_types(first: Any, second: Any) -> None:
    kinds = [Mapping if isinstance(s, Mapping) else type(s) for s in (first, second)]
    if kinds[0] is not kinds[1]:
        raise TypeError("The two structures don't have the same sequence type. First structure has "
                        f"type {type(first)}, while second structure has type {type(second)}.")


def check_same(first: Any, second: Any) -> None:
    """Raise ``TypeError`` for containers of different kinds, ``ValueError`` for any other
    difference in nesting."""
    if not _alike(first, second):
        raise ValueError("The two structures don't have the same nested structure. First "
                         f"structure: {first}, second structure: {second}.")


def _alike(first: Any, second: Any) -> bool:
    if not is_nested(first) or not is_nested(second):
        return not is_nested(first) and not is_nested(second)
    _check_kinds(first, second)
    if len(first) != len(second) or (isinstance(first, Mapping) and set(first) != set(second)):
        return False
    return all(map(_alike, children(first), children(second)))


def _check_kinds(shallow: Any, deep: Any) -> None:
    if isinstance(shallow, Mapping) != isinstance(deep, Mapping) or (
            hasattr(shallow, "_fields") != hasattr(deep, "_fields")):
        raise TypeError("The two structures don't have the same sequence type. Input structure has "
                        f"type {type(deep)}, while shallow structure has type {type(shallow)}.")


def flatten_up_to(shallow: Any, deep: Any) -> list:
    """The parts of `deep` that stand where `shallow` has leaves.

    Raises ``TypeError`` where only one of them is a container, or they are of different types;
    ``ValueError`` for other lengths or keys.
    """
    if not is_nested(shallow):
        return [deep]
    if not is_nested(deep):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. Input "
                        f"has type: {type(deep)}.")
    _check_kinds(shallow, deep)
    if len(shallow) != len(deep):
        raise ValueError("The two structures don't have the same sequence length. Input structure "
                         f"has length {len(deep)}, while shallow structure has length "
                         f"{len(shallow)}.")
    if isinstance(shallow, Mapping) and set(shallow) != set(deep):
        raise ValueError("The two structures don't have the same keys. Input structure has keys "
                         f"{sorted(deep)}, while shallow structure has keys {sorted(shallow)}.")
    return [part for a, b in zip(children(shallow), children(deep), strict=True)
            for part in flatten_up_to(a, b)]
