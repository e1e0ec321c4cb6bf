"""Nested structures by the names of ``python.util.nest`` of 1.x.

Lists, tuples, namedtuples and dicts are structures; dicts are taken in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpcflow.graph import nest
from hpcflow.graph.likes import TensorLike


def is_sequence(seq: Any) -> bool:
    """Return whether `seq` is a structure (so not a text, an array, or a single value)."""
    return nest.is_nested(seq)


def flatten(nest_: TensorLike) -> list:
    """Return the single values of a structure from left to right."""
    return nest.flatten(nest_)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Return the values of `flat_sequence` in the form of `structure`.

    Raises ``TypeError`` if `flat_sequence` is no sequence, ``ValueError`` for a wrong number.
    """
    if not is_sequence(flat_sequence):
        raise TypeError("flat_sequence must be a sequence")
    return nest.pack_as(structure, list(flat_sequence))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raise unless both structures have the same form.

    Raises ``ValueError`` for other numbers or nesting, and with `check_types` ``TypeError`` for
    containers of different types.
    """
    if check_types:
        nest.check_same(nest1, nest2)
    else:
        nest.check_same(_as_lists(nest1), _as_lists(nest2))


def map_structure(func: Callable, *structure: Any, check_types: bool = True) -> Any:
    """Return a structure of the results of `func` for the single values of the structures.

    Raises as :func:`assert_same_structure`; ``TypeError`` if `func` cannot be called.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    values = [func(*entries) for entries in zip(*map(flatten, structure), strict=True)]
    return nest.pack_as(structure[0], values)


def flatten_dict_items(dictionary: Mapping) -> dict:
    """Return a dict with the single keys and values of a dict of structures of the same form.

    Raises ``ValueError`` if a key and its value differ in form, or a key occurs twice.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    result: dict = {}
    for key, value in dictionary.items():
        keys, values = flatten(key), flatten(value) if is_sequence(key) else [value]
        if len(keys) != len(values):
            raise ValueError(f"Could not flatten dictionary: the key had {len(keys)} elements, "
                             f"but the value had {len(values)}: {key}")
        for k, v in zip(keys, values, strict=True):
            if k in result:
                raise ValueError(f"Could not flatten dictionary: key {k} is not unique.")
            result[k] = v
    return result


def assert_shallow_structure(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> None:
    """Raise unless `shallow_tree` is the upper part of `input_tree`.

    Raises ``TypeError`` where one is a structure and the other is not, or their types differ;
    ``ValueError`` where their lengths differ.
    """
    for _ in _pairs_up_to(shallow_tree, input_tree, check_types):
        pass


def flatten_up_to(shallow_tree: Any, input_tree: Any) -> list:
    """Return the parts of `input_tree` that stand where `shallow_tree` has single values."""
    return list(_pairs_up_to(shallow_tree, input_tree, True))


def map_structure_up_to(shallow_tree: Any, func: Callable, *inputs: Any) -> Any:
    """As :func:`map_structure`, for the parts that :func:`flatten_up_to` gives."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    parts = [flatten_up_to(shallow_tree, tree) for tree in inputs]
    return nest.pack_as(shallow_tree, [func(*entries) for entries in zip(*parts, strict=True)])


def _pairs_up_to(shallow: Any, deep: Any, check_types: bool) -> Iterator[Any]:
    if not is_sequence(shallow):
        yield deep
        return
    if not is_sequence(deep):
        raise TypeError("If shallow structure is a sequence, input must also be a sequence. "
                        f"Input has type: {type(deep)}.")
    if check_types and type(shallow) is not type(deep):
        raise TypeError("The two structures don't have the same sequence type. Input structure "
                        f"has type {type(deep)}, while shallow structure has type "
                        f"{type(shallow)}.")
    if len(shallow) != len(deep):
        raise ValueError("The two structures don't have the same sequence length. Input structure "
                         f"has length {len(deep)}, while shallow structure has length "
                         f"{len(shallow)}.")
    for upper, lower in zip(nest.children(shallow), nest.children(deep), strict=True):
        yield from _pairs_up_to(upper, lower, check_types)


def _as_lists(structure: TensorLike) -> Any:
    if not is_sequence(structure):
        return structure
    return [_as_lists(item) for item in nest.children(structure)]
