"""Functions that make lists of tensors, with shapes that are known in part."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.ops import list_ops

pytestmark = pytest.mark.usefixtures("graph", "form")


def test_lists_without_a_shape(session):
    items = list_ops.empty_tensor_list(None, hf.float32)
    for value in ([1.0, 2.0], [3.0, 4.0]):
        items = list_ops.tensor_list_push_back(items, hf.constant(value))
    rows = list_ops.tensor_list_stack(items, hf.float32)
    some = list_ops.tensor_list_gather(items, [1, 0, 1], hf.float32, element_shape=[2])
    rest, last = list_ops.tensor_list_pop_back(items, hf.float32)
    assert some.shape.as_list() == [3, 2]
    np.testing.assert_array_equal(session.run(rows), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(session.run(some), [[3, 4], [1, 2], [3, 4]])
    assert session.run([last[0], list_ops.tensor_list_length(rest)]) == [3, 1]


def test_parts_and_joins(session):
    x = hf.constant(np.arange(6, dtype=np.float32).reshape(3, 2))
    parts = list_ops.tensor_list_split(x, [None, 2], [1, 2])
    joined = list_ops.tensor_list_concat(parts, hf.float32, element_shape=[None, 2])
    grad, = hf.gradients(joined * joined, x)
    np.testing.assert_array_equal(session.run(joined), np.arange(6).reshape(3, 2))
    np.testing.assert_array_equal(session.run(grad), 2 * np.arange(6).reshape(3, 2))


def test_places(session):
    rows = list_ops.tensor_list_scatter(hf.constant([1.0, 2.0]), [0, 2], element_shape=[])
    items = list_ops.tensor_list_set_item(
        list_ops.tensor_list_reserve(hf.TensorShape([]), 3, hf.float32), 1, 5.0)
    merged = list_ops.tensor_list_scatter(hf.constant([7.0]), [2], input_handle=items)
    read = [list_ops.tensor_list_get_item(merged, i, hf.float32) for i in range(3)]
    assert session.run(list_ops.tensor_list_stack(rows, hf.float32, 3)).tolist() == [1, 0, 2]
    assert session.run(read) == [0, 5, 7]


def test_gradient_of_a_list_that_grows(session):
    x = hf.constant([1.0, 2.0, 3.0])
    items = list_ops.tensor_list_from_tensor(x, [])
    longer = list_ops.tensor_list_set_item(items, 3, 4.0, resize_if_index_out_of_bounds=True)
    grad, = hf.gradients(hf.square(list_ops.tensor_list_stack(longer, hf.float32)), x)
    np.testing.assert_array_equal(session.run(grad), [2, 4, 6])


def test_shapes_that_do_not_fit(session):
    x, open_shape = hf.constant([[1.0], [2.0]]), hf.placeholder(hf.int32)
    with pytest.raises(ValueError, match="Shapes must be equal rank, but are 2 and 1"):
        list_ops.tensor_list_split(x, [1], [1, 1])
    lengths = hf.placeholder(hf.int64)
    parts = list_ops.tensor_list_split(x, open_shape, lengths)
    lists = [list_ops.tensor_list_reserve(s, 3, hf.float32) for s in (open_shape, [])]
    total = list_ops.tensor_list_stack(hf.add_n(lists), hf.float32)
    for fetch, feeds, message in (
            (parts, {open_shape: [1], lengths: [2]}, "not compatible with element_shape"),
            (parts, {open_shape: np.zeros(0), lengths: [2]}, "at least of rank 1"),
            (parts, {open_shape: [-1, 1], lengths: 2}, "Expected lengths to be a vector"),
            (total, {open_shape: [2]}, "incompatible element shapes")):
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(list_ops.tensor_list_length(fetch) if fetch is parts else fetch, feeds)


def test_static_shapes_of_joins():
    for shape, joined in ((None, None), ([None, 2, 3], [None, 2, 3]), ([1, 2], [None, 2])):
        items = list_ops.empty_tensor_list(shape, hf.float32)
        found = list_ops.tensor_list_concat(items, hf.float32).shape
        assert (found.as_list() if found.ndims is not None else None) == joined
