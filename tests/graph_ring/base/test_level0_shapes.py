"""Static shapes: knowledge, merging, and their written forms."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcflow import shapes
from hpcflow.shapes import Dimension, TensorShape, as_shape, format_shape

DIM = st.none() | st.integers(0, 4)
SHAPE = st.none() | st.lists(DIM, max_size=3)


@pytest.mark.parametrize(
    ("dims", "text", "compact"),
    [
        (None, "<unknown>", "<unknown>"),
        ([], "()", "[]"),
        ([1], "(1,)", "[1]"),
        ([2, None], "(2, ?)", "[2,?]"),
        ((64, 784), "(64, 784)", "[64,784]"),
    ],
)
def test_written_forms(dims, text, compact):
    shape = TensorShape(dims)
    assert str(shape) == text
    assert format_shape(shape) == format_shape(dims) == compact
    named = None if dims is None else [Dimension(d) for d in dims]
    assert repr(shape) == f"TensorShape({named})"


def test_construction():
    assert TensorShape(3).as_list() == [3]
    assert TensorShape(np.array([2, 3])).dims_tuple == (2, 3)
    assert TensorShape([np.int64(2), Dimension(3), None]).dims_tuple == (2, 3, None)
    assert TensorShape(range(2)).dims_tuple == (0, 1)
    shape = as_shape([2])
    assert as_shape(shape) is shape
    assert TensorShape(shape) == shape
    assert shapes.scalar().ndims == 0 and shapes.vector(3) == [3]
    assert shapes.matrix(2, None).as_list() == [2, None]
    assert shapes.unknown_shape(2).as_list() == [None, None]
    assert shapes.unknown_shape().ndims is None
    assert pickle.loads(pickle.dumps(shape)) == shape


@pytest.mark.parametrize(("dims", "message"), [
    ([-1], "(?i)dimension"), (["a"], "invalid literal"), ([1.5], "Ambiguous dimension: 1.5")])
def test_bad_dimensions_are_refused(dims, message):
    with pytest.raises(ValueError, match=message):
        TensorShape(dims)
    assert TensorShape([2.0]) == [2]


def test_proto_round_trip():
    for dims in (None, [], [2, None, 0]):
        shape = TensorShape(dims)
        assert TensorShape(shape.as_proto()) == shape


def test_indexing_and_iteration():
    shape = TensorShape([2, None, 4])
    assert shape[0].value == 2 and shape[-1].value == 4 and shape[1].value is None
    assert shape[1:] == [None, 4] and isinstance(shape[:1], TensorShape)
    assert [d.value for d in shape] == [2, None, 4] == [d.value for d in shape.dims]
    assert len(shape) == 3 and shape.ndims == shape.rank == 3
    unknown = TensorShape(None)
    assert unknown[5].value is None and unknown[1:3] == [None, None]
    assert unknown[1:].ndims is None and unknown[:-1].ndims is None
    assert not unknown and bool(shapes.scalar())
    for use in (len, list, TensorShape.as_list):
        with pytest.raises(ValueError, match=r"unknown TensorShape|unknown rank"):
            use(unknown)


def test_num_elements():
    assert TensorShape([2, 3]).num_elements() == 6
    assert shapes.scalar().num_elements() == 1
    assert TensorShape([2, None]).num_elements() is None
    assert TensorShape(None).num_elements() is None


def test_assertions_name_the_shapes():
    shape = TensorShape([2, 3])
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(3, 2\) are not compatible"):
        shape.merge_with([3, 2])
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(1,\) must have the same rank"):
        shape.assert_same_rank([1])
    with pytest.raises(ValueError, match="must have rank 1"):
        shape.with_rank(1)
    with pytest.raises(ValueError, match="rank at least 3"):
        shape.with_rank_at_least(3)
    with pytest.raises(ValueError, match="rank at most 1"):
        shape.with_rank_at_most(1)
    with pytest.raises(ValueError, match=r"\(2, \?\) is not fully defined"):
        TensorShape([2, None]).assert_is_fully_defined()
    assert TensorShape(None).with_rank(2) == [None, None]
    assert shape.with_rank_at_least(2) is shape is shape.with_rank_at_most(2)


@given(SHAPE, SHAPE)
def test_merging_combines_knowledge(first, second):
    a, b = TensorShape(first), TensorShape(second)
    assert a.is_compatible_with(b) == b.is_compatible_with(a)
    if not a.is_compatible_with(b):
        with pytest.raises(ValueError, match="not compatible"):
            a.merge_with(b)
        return
    merged = a.merge_with(b)
    assert merged == b.merge_with(a) == merged.merge_with(a)
    for shape in (a, b):
        if shape.dims_tuple is not None:
            assert all(m == d or d is None for m, d in zip(merged.dims_tuple, shape.dims_tuple))


@given(SHAPE, SHAPE)
def test_concatenation(first, second):
    both = TensorShape(first).concatenate(second)
    if first is None or second is None:
        assert both.ndims is None
    else:
        assert both.as_list() == first + second
    assert both == TensorShape(first) + second


def test_equality_and_hash():
    assert TensorShape([2, None]) == (2, None) and TensorShape([2]) != [3]
    assert TensorShape(None) == TensorShape(None) != TensorShape([])
    assert TensorShape([2]) != "x"
    assert hash(TensorShape([2, None])) == hash(TensorShape((2, None)))


class TestDimension:
    def test_arithmetic(self):
        d = Dimension(7)
        results = [d + 1, 1 + d, d - 2, 9 - d, d * 2, 2 * d, d // 2, 15 // d, d % 4, 15 % d]
        assert [r.value for r in results] == [8, 8, 5, 2, 14, 14, 3, 2, 3, 1]
        assert (d + None).value is None and (Dimension(None) * 2).value is None
        with pytest.raises(TypeError, match="//"):
            _ = d / 2
        with pytest.raises(ValueError, match=">= 0"):
            _ = Dimension(1) - 2

    def test_order_is_undefined_where_unknown(self):
        d, unknown = Dimension(3), Dimension(None)
        assert d == 3 and d != 4 and d < 4 and d <= 3 and d > 2 and d >= 3
        assert (d == unknown) is None and (unknown < 3) is None and (unknown == unknown) is None

    def test_as_an_integer(self):
        assert int(Dimension(3)) == 3 and list(range(Dimension(2))) == [0, 1]
        assert np.zeros([Dimension(2), Dimension(3)]).shape == (2, 3)
        with pytest.raises(TypeError, match="unknown Dimension"):
            range(Dimension(None))

    def test_merging(self):
        assert Dimension(None).merge_with(3).value == 3 == Dimension(3).merge_with(None).value
        with pytest.raises(ValueError, match="3 and 4"):
            Dimension(3).merge_with(4)

    def test_written_forms(self):
        assert str(Dimension(None)) == "?" and str(Dimension(3)) == "3"
        assert repr(Dimension(None)) == "Dimension(None)"


def test_an_unknown_dimension_is_no_integer():
    assert int(Dimension(3)) == 3 and Dimension(None).__int__() is None
    with pytest.raises(TypeError):
        int(Dimension(None))
