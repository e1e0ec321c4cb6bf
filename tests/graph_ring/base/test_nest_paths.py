"""Structures: the paths to their values, mappings of other kinds, and parts of sparse tensors."""

from __future__ import annotations

import collections
from collections.abc import Mapping

import pytest

import hpcflow as hf
from hpcflow.python.util import nest

Point = collections.namedtuple("Point", "x y")
STRUCTURE = {"b": [1, (2, 3)], "a": Point(x=4, y={"k": 5})}


class Frozen(Mapping):
    """A mapping that is no dict."""

    def __init__(self, *args, **keywords):
        self._items = dict(*args, **keywords)

    def __getitem__(self, key):
        return self._items[key]

    def __iter__(self):
        return iter(self._items)

    def __len__(self):
        return len(self._items)


def test_paths():
    pairs = nest.flatten_with_tuple_paths(STRUCTURE)
    assert pairs == [(("a", "x"), 4), (("a", "y", "k"), 5), (("b", 0), 1), (("b", 1, 0), 2),
                     (("b", 1, 1), 3)]
    assert nest.flatten_with_joined_string_paths(STRUCTURE, ".")[1] == ("a.y.k", 5)
    assert list(nest.yield_flat_paths(3)) == [()] and list(nest.yield_flat_paths([])) == []
    mapped = nest.map_structure_with_paths(lambda path, a, b: f"{path}={a + b}", (1, [2]), (3, [4]))
    assert mapped == ("0=4", ["1/0=6"])
    with pytest.raises(ValueError, match="same nested structure"):
        nest.map_structure_with_tuple_paths(lambda path, *v: 0, (1, 2), (3,))


def test_parts_that_are_walked():
    walked = nest.get_traverse_shallow_structure(lambda s: not isinstance(s, tuple),
                                                 [3, (1, [2]), {"a": (7,)}])
    assert walked == [True, False, {"a": False}]
    by_entry = nest.get_traverse_shallow_structure(
        lambda s: (True, False) if isinstance(s, tuple) else True, [(1, [2])])
    assert by_entry == [(True, False)]
    for wrong, message in ((lambda s: [True], "returned structure"), (lambda s: 1, "non-bool")):
        with pytest.raises(TypeError, match=message):
            nest.get_traverse_shallow_structure(wrong, 0 if "structure" in message else [1])


def test_mappings_of_other_kinds():
    mapping = Frozen(d=3, a=0)
    assert nest.flatten(mapping) == [0, 3]
    packed = nest.pack_sequence_as(mapping, [1, 2])
    assert isinstance(packed, Frozen) and dict(packed) == {"d": 2, "a": 1}
    counts = nest.map_structure(lambda x: x + 1, collections.defaultdict(list, a=1))
    assert counts == {"a": 2} and counts["new"] == []
    with pytest.raises(ValueError, match="does not have"):
        nest.assert_shallow_structure({"a": 1, "b": 2}, {"a": 1, "c": 2})


def test_wrong_numbers_of_values():
    for structure, message in (("scalar", "Structure is a scalar"), ([1, [2]], "had 2 elements")):
        with pytest.raises(ValueError, match=message):
            nest.pack_sequence_as(structure, [4, 5, 6])


def test_tensors_of_sparse_tensors():
    with hf.Graph().as_default():
        sparse = hf.SparseTensor([[0]], [1.5], [3])
        structure = [sparse, hf.constant(1)]
    assert nest.flatten(structure) == structure
    flat = nest.flatten(structure, expand_composites=True)
    assert flat == [sparse.indices, sparse.values, sparse.dense_shape, structure[1]]
    packed = nest.pack_sequence_as(structure, flat, expand_composites=True)
    assert packed[0].values is sparse.values and packed[1] is structure[1]
    names = nest.map_structure(lambda t: t, structure, expand_composites=True)
    assert names[0].indices is sparse.indices
