"""Inputs whose shapes the graph did not know are refused when they do not fit."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("op, arrays, attrs", [
    ("ReluGrad", (X, X[:1]), {}),
    ("TanhGrad", (X, X[:, :2]), {}),
    ("OneHot", (np.int32([0, 1]), np.int32(2), np.float32([1]), np.float32(0)), {}),
    ("LinSpace", (np.float32([0]), np.float32(1), np.int32(3)), {}),
    ("Split", (np.int32(5), X), {"num_split": 1}),
    ("Roll", (X, np.int32([[1]]), np.int32([[0]])), {}),
    ("BroadcastTo", (np.ones((1, 2, 1), np.float32), np.int32([2, 3])), {}),
    ("MirrorPadGrad", (X, np.int32([[0, -1], [0, 0]])), {"mode": "REFLECT"}),
    ("RGBToHSV", (np.float32(1),), {}),
    ("Select", (np.bool_(True), X, X[:1]), {}),
    ("SparseReduceSum", (np.int64([[0, 1]]), np.float32([1]), np.int64([2, 2]), np.int32([[0]])),
     {}),
    ("Pad", (np.int32(1), np.zeros((0, 1), np.int32)), {}),
    ("PadV2", (np.int32(1), np.zeros((0, 1), np.int32), np.int32(1)), {}),
    ("MirrorPad", (np.int32(1), np.zeros((0, 3), np.int32)), {"mode": "SYMMETRIC"}),
    ("SpaceToBatch", (np.ones((1, 2, 2, 1, 1)), np.zeros((2, 2), np.int32)), {"block_size": 2}),
    ("BatchToSpace", (np.ones((4, 1, 1, 1, 1)), np.zeros((2, 2), np.int32)), {"block_size": 2}),
    ("Transpose", (np.ones(4), np.int32(0)), {}),
])
def test_bad_shapes(op, arrays, attrs):
    inputs = [hf.placeholder(a.dtype) for a in arrays]
    y = getattr(hf.raw_ops, op)(*inputs, **attrs)
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match=op):
        session.run(y, dict(zip(inputs, arrays, strict=True)))


def test_an_axis_may_be_a_vector_of_one_element():
    x, axis = hf.placeholder(hf.float32), hf.placeholder(hf.int32)
    with hf.Session() as session:
        feeds = {x: X, axis: [1]}
        assert session.run(hf.raw_ops.ConcatV2([x, x], axis), feeds).shape == (2, 6)


def test_a_softmax_of_nothing():
    x = hf.placeholder(hf.float32)
    with hf.Session() as session:
        assert session.run(hf.nn.softmax(x), {x: np.ones(0, np.float32)}).shape == (0,)


@pytest.mark.parametrize("rows", [1, [[0, 1]]])
def test_as_many_splits_as_the_indices_give(rows):
    indices = hf.placeholder(hf.int32)
    splits, values = hf.raw_ops.RaggedGather(
        params_nested_splits=[hf.constant([0, 2, 3])], params_dense_values=hf.constant([5, 6, 7]),
        indices=indices, OUTPUT_RAGGED_RANK=1)
    with hf.Session() as session:
        np.testing.assert_array_equal(session.run(values, {indices: [1, 0]}), [7, 5, 6])
        with pytest.raises(hf.errors.InvalidArgumentError, match="OUTPUT_RAGGED_RANK = 1"):
            session.run([splits, values], {indices: rows})
