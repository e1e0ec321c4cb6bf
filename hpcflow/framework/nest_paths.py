"""Nested structures walked with the path to each value, by the names of ``python.util.nest``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hpcflow.framework import nest as nests
from hpcflow.graph import nest


def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[tuple]:
    """Return pairs of the path to each single value, a tuple of keys and positions, and the value.

    Fields of namedtuples are told by their names.
    """
    return list(zip(yield_flat_paths(structure, expand_composites),
                    nests.flatten(structure, expand_composites), strict=True))


def flatten_with_tuple_paths_up_to(
        shallow_tree: Any, input_tree: Any, check_types: bool = True,
        expand_composites: bool = False, check_subtrees_length: bool = True) -> list[tuple]:
    """Return pairs of the path to each single value of `shallow_tree`, and the part of `input_tree`
    that stands there. Raises as :func:`hpcflow.framework.nest.assert_shallow_structure`."""
    parts = nests.flatten_up_to(shallow_tree, input_tree, check_types, expand_composites,
                                check_subtrees_length)
    return list(zip(yield_flat_paths(shallow_tree, expand_composites), parts, strict=True))


def flatten_with_joined_string_paths(structure: Any, separator: str = "/",
                                     expand_composites: bool = False) -> list[tuple]:
    """As :func:`flatten_with_tuple_paths`, with the parts of a path joined to a text."""
    return [(separator.join(map(str, path)), value)
            for path, value in flatten_with_tuple_paths(structure, expand_composites)]


def yield_flat_paths(nest_: Any, expand_composites: bool = False) -> Iterator[tuple]:
    """Yield the paths to the single values from left to right."""
    if not nest.is_nested(nest_):
        many = nests.expanded(nest_) if expand_composites else [nest_]
        yield from ((i,) for i in range(len(many))) if many[0] is not nest_ else iter([()])
        return
    for key, child in _keyed(nest_):
        for path in yield_flat_paths(child, expand_composites):
            yield (key, *path)


def _keyed(structure: Any) -> list[tuple]:
    if isinstance(structure, Mapping):
        return nest.sorted_items(structure)
    if hasattr(structure, "_fields"):
        return list(zip(structure._fields, structure, strict=True))
    return list(enumerate(structure))


def map_structure_with_tuple_paths(func: Callable, *structure: Any, check_types: bool = True,
                                   expand_composites: bool = False) -> Any:
    """Return a structure of the results of ``func(path, value, ..)`` for the single values.

    Raises as :func:`hpcflow.framework.nest.map_structure`.
    """
    if not structure:
        raise ValueError("Must provide at least one structure")
    paths = iter(list(yield_flat_paths(structure[0], expand_composites)))
    return nests.map_structure(lambda *values: func(next(paths), *values), *structure,
                               check_types=check_types, expand_composites=expand_composites)


def map_structure_with_paths(func: Callable, *structure: Any, check_types: bool = True,
                             expand_composites: bool = False) -> Any:
    """As :func:`map_structure_with_tuple_paths`, with paths such as ``"a/0"``."""
    return map_structure_with_tuple_paths(
        lambda path, *values: func("/".join(map(str, path)), *values), *structure,
        check_types=check_types, expand_composites=expand_composites)


def get_traverse_shallow_structure(traverse_fn: Callable, structure: Any) -> Any:
    """Return a structure of True and False: the part of `structure` that is to be walked.

    Args:
        traverse_fn: returns for a structure or value whether what is inside of it belongs to the
            part, or for each entry in a structure of its own.
        structure: any nest.

    Raises ``TypeError`` for other results of `traverse_fn`.
    """
    wanted = traverse_fn(structure)
    if not nest.is_nested(structure):
        if not isinstance(wanted, bool):
            raise TypeError(f"traverse_fn returned structure {wanted!r} for the single value "
                            f"{structure!r}: expected True or False")
        return wanted
    if nest.is_nested(wanted):
        return _traverse_each(traverse_fn, wanted, structure)
    if not isinstance(wanted, bool):
        raise TypeError(f"traverse_fn returned a non-bool scalar: {wanted!r} for {structure!r}")
    if not wanted:
        return False
    parts = [get_traverse_shallow_structure(traverse_fn, c) for c in nest.children(structure)]
    return nest.same_container(structure, parts)


def _traverse_each(traverse_fn: Callable, wanted: Any, structure: Any) -> Any:
    nests.assert_shallow_structure(wanted, structure)
    parts = []
    for choice, child in zip(nest.children(wanted), nest.children(structure), strict=True):
        if not isinstance(choice, bool):
            raise TypeError("traverse_fn didn't return a depth=1 structure of bools: "
                            f"{wanted!r} for {structure!r}")
        parts.append(choice and get_traverse_shallow_structure(traverse_fn, child))
    return nest.same_container(structure, parts)
