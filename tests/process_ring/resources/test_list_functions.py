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
