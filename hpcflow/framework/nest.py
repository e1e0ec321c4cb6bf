"""Nested structures by the names of ``python.util.nest`` of 1.x.

Lists, tuples, namedtuples and dicts are structures; dicts are taken in the order of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hpcflow.graph import nest
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.sparse_tensor import is_sparse

# What the errors of structures of different forms say.
_STRUCTURES_HAVE_MISMATCHING_LENGTHS = (
    "The two structures don't have the same sequence length. Input structure has length "
    "{input_length}, while shallow structure has length {shallow_length}.")
_STRUCTURES_HAVE_MISMATCHING_TYPES = (
    "The two structures don't have the same sequence type. Input structure has type {input_type}, "
    "while shallow structure has type {shallow_type}.")
_SHALLOW_TREE_HAS_INVALID_KEYS = (
    "The shallow structure's keys are not a subset of the input structure's keys: the input does "
    "not have {}.")
_IF_SHALLOW_IS_SEQ_INPUT_MUST_BE_SEQ = (
    "If shallow structure is a sequence, input must also be a sequence. Input has type: {}.")


def is_sequence(seq: Any) -> bool:
    """Return whether `seq` is a structure (so not a text, an array, or a single value)."""
    return nest.is_nested(seq)


is_nested = is_sequence


def expanded(leaf: Any) -> list:
    """Return the tensors of a sparse tensor or of IndexedSlices; else a list of `leaf` alone."""
    is_several = is_sparse(leaf) or isinstance(leaf, IndexedSlices)
    return nest.expand(leaf) if is_several else [leaf]


def flatten(structure: TensorLike, expand_composites: bool = False) -> list:
    """Return the single values of a structure from left to right.

    With `expand_composites` the tensors that sparse tensors and IndexedSlices consist of stand in
    their places; so it is in the other functions.
    """
    leaves = nest.flatten(structure)
    return [t for leaf in leaves for t in expanded(leaf)] if expand_composites else leaves


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any],
                     expand_composites: bool = False) -> Any:
    """Return the values of `flat_sequence` in the form of `structure`.

    Raises ``TypeError`` if `flat_sequence` is no sequence, ``ValueError`` for a wrong number.
    """
    if not is_sequence(flat_sequence):
        raise TypeError("flat_sequence must be a sequence")
    given, count = list(flat_sequence), len(flatten(structure, expand_composites))
    if not is_sequence(structure) and len(given) > count:
        raise ValueError(f"Structure is a scalar but there are {len(given)} values for it, more "
                         f"than {count}")
    if len(given) != count:
        raise ValueError(f"Structure had {count} elements, but flat_sequence had {len(given)} "
                         f"elements. Structure: {nest.describe(structure)}")
    if expand_composites:
        rest = iter(given)
        parts = [(leaf, [next(rest) for _ in expanded(leaf)]) for leaf in nest.flatten(structure)]
        given = [t[0] if expanded(leaf)[0] is leaf else nest.rebuild(leaf, t) for leaf, t in parts]
    return nest.pack_as(structure, given)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True,
                          expand_composites: bool = False) -> None:
    """Raise unless both structures have the same form.

    Raises ``ValueError`` for other numbers or nesting, and with `check_types` ``TypeError`` for
    containers of different types.
    """
    if check_types:
        nest.check_same(nest1, nest2)
    else:
        nest.check_same(_as_lists(nest1), _as_lists(nest2))


def map_structure(func: Callable, *structure: Any, check_types: bool = True,
                  expand_composites: bool = False, **unknown: Any) -> Any:
    """Return a structure of the results of `func` for the single values of the structures.

    Raises as :func:`assert_same_structure`; ``TypeError`` if `func` cannot be called,
    ``ValueError`` for other keywords.
    """
    if unknown:
        raise ValueError("Only valid keyword arguments are `check_types` and `expand_composites`, "
                         f"not: `{'`, `'.join(unknown)}`")
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types)
    leaves = [flatten(s, expand_composites) for s in structure]
    values = [func(*entries) for entries in zip(*leaves, strict=True)]
    return pack_sequence_as(structure[0], values, expand_composites)


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
            raise ValueError(f"Could not flatten dictionary. Key had {len(keys)} elements, but "
                             f"value had {len(values)} elements. Key: {key}")
        for k, v in zip(keys, values, strict=True):
            if k in result:
                raise ValueError(f"Could not flatten dictionary: key {k} is not unique.")
            result[k] = v
    return result


def assert_shallow_structure(shallow_tree: Any, input_tree: Any, check_types: bool = True,
                             expand_composites: bool = False,
                             check_subtrees_length: bool = True) -> None:
    """Raise unless `shallow_tree` is the upper part of `input_tree`.

    Raises ``TypeError`` where one is a structure and the other is not, or their types differ
    (with `check_types`); ``ValueError`` where their lengths differ, unless
    `check_subtrees_length` is False: then `input_tree` may have more entries.
    """
    for _ in _pairs_up_to(shallow_tree, input_tree, check_types, check_subtrees_length):
        pass


def flatten_up_to(shallow_tree: Any, input_tree: Any, check_types: bool = True,
                  expand_composites: bool = False, check_subtrees_length: bool = True) -> list:
    """Return the parts of `input_tree` that stand where `shallow_tree` has single values.

    The arguments and errors are those of :func:`assert_shallow_structure`.
    """
    return list(_pairs_up_to(shallow_tree, input_tree, check_types, check_subtrees_length))


def map_structure_up_to(shallow_tree: Any, func: Callable, *inputs: Any, **options: bool) -> Any:
    """As :func:`map_structure`, for the parts that :func:`flatten_up_to` gives with `options`."""
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    parts = [flatten_up_to(shallow_tree, tree, **options) for tree in inputs]
    return nest.pack_as(shallow_tree, [func(*entries) for entries in zip(*parts, strict=True)])


def _pairs_up_to(shallow: Any, deep: Any, check_types: bool, check_length: bool) -> Iterator[Any]:
    if not is_sequence(shallow):
        yield deep
        return
    if not is_sequence(deep):
        raise TypeError(_IF_SHALLOW_IS_SEQ_INPUT_MUST_BE_SEQ.format(type(deep)))
    are_mappings = isinstance(shallow, Mapping) and isinstance(deep, Mapping)
    if check_types and not are_mappings and not _of_one_type(shallow, deep):
        raise TypeError(_STRUCTURES_HAVE_MISMATCHING_TYPES.format(
            input_type=type(deep), shallow_type=type(shallow)))
    if len(shallow) > len(deep) or (check_length and len(shallow) != len(deep)):
        raise ValueError(_STRUCTURES_HAVE_MISMATCHING_LENGTHS.format(
            input_length=len(deep), shallow_length=len(shallow)))
    if are_mappings and set(shallow) - set(deep):
        raise ValueError(_SHALLOW_TREE_HAS_INVALID_KEYS.format(sorted(set(shallow) - set(deep))))
    lowers = ([deep[key] for key, _ in nest.sorted_items(shallow)] if are_mappings
              else nest.children(deep))
    for upper, lower in zip(nest.children(shallow), lowers, strict=False):
        yield from _pairs_up_to(upper, lower, check_types, check_length)


def _of_one_type(first: Any, second: Any) -> bool:
    """True for containers of one type, and namedtuples of one name and the same fields."""
    kinds = type(first), type(second)
    return kinds[0] is kinds[1] or (
        is_namedtuple(first) and is_namedtuple(second)
        and first._fields == second._fields and kinds[0].__name__ == kinds[1].__name__)


def _as_lists(structure: TensorLike) -> Any:
    if not is_sequence(structure):
        return structure
    return [_as_lists(item) for item in nest.children(structure)]


def is_namedtuple(instance: Any) -> bool:
    """True for instances of namedtuples."""
    return isinstance(instance, tuple) and hasattr(instance, "_fields")
