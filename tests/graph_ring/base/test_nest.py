"""Nested structures: flattening, packing, comparing."""

import collections

import pytest

import hpcflow as hf
from hpcflow.graph import nest

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(("structure", "leaves"), [
    (1, [1]),
    ([1, (2, [3])], [1, 2, 3]),
    ({"b": 1, "a": [2, 3]}, [2, 3, 1]),
    (Point(1, {"k": 2}), [1, 2]),
    ([], []),
])
def test_leaves_go_and_come_back(structure, leaves):
    assert nest.flatten(structure) == leaves
    assert nest.pack_as(structure, leaves) == structure


def test_packing_keeps_containers_and_the_order_of_dicts():
    packed = nest.pack_as({"b": Point(0, 0), "a": 0}, ["a", "x", "y"])
    assert packed == {"b": Point("x", "y"), "a": "a"}
    assert list(packed) == ["b", "a"]
    ordered = nest.pack_as(collections.OrderedDict(z=0, a=0), [1, 2])
    assert isinstance(ordered, collections.OrderedDict) and ordered["z"] == 2


def test_a_wrong_number_of_leaves_is_an_error():
    with pytest.raises(ValueError, match="2 leaves, but 3 values"):
        nest.pack_as([0, 0], [1, 2, 3])


@pytest.mark.parametrize(("first", "second", "error"), [
    ([1, 2], (1, 2), TypeError),
    ([1], [1, 2], ValueError),
    ([1], 1, ValueError),
    ({"a": 1}, {"b": 1}, ValueError),
    ({"a": 1}, [1], TypeError),
    ([(1, 2)], [(1, [2])], ValueError),
    (Point(1, 2), (1, 2), TypeError),
])
def test_differences(first, second, error):
    with pytest.raises(error, match="don't have the same nested structure"):
        nest.check_same(first, second)


def test_equal_structures_pass():
    nest.check_same([1, {"a": (2,)}], ["x", {"a": (None,)}])


def test_descriptions():
    assert nest.describe([1, (2, [3])]) == "[., (., [.])]"
    assert nest.describe({"a": (1,)}) == "{'a': (.,)}"


def test_composites_are_leaves_made_of_tensors():
    with hf.Graph().as_default():
        slices = hf.IndexedSlices(hf.constant([1.0]), hf.constant([0]))
        array = hf.TensorArray(hf.float32, 2)
        assert nest.flatten([slices, array]) == [slices, array]
        assert nest.is_composite(slices) and not nest.is_composite(slices.values)
        assert nest.expand(slices) == [slices.values, slices.indices]
        flow = hf.constant(0.0)
        rebuilt = nest.rebuild_all([array, slices], [flow, slices.values, slices.indices])
        assert rebuilt[0].flow is flow and rebuilt[0].handle is array.handle
        assert rebuilt[1].indices is slices.indices
