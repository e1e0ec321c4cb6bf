"""Static shapes and known values of the array ops, without running anything."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.graph.shape_inference import constant_value, constant_value_as_dims


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def p(*dims, dtype=hf.float32):
    """A placeholder; without dims its rank is unknown."""
    return hf.placeholder(dtype, None if dims == (Ellipsis,) else dims)


def dims(tensor):
    return tensor.shape.dims_tuple


ANY = Ellipsis
i32 = hf.int32


# ---------------------------------------------------------------- one line for each case

CASES = [
    (lambda: hf.constant([[1, 2]]), (1, 2)),
    (lambda: p(ANY), None),
    (lambda: p(None, 3), (None, 3)),
    (lambda: p(), ()),
    (lambda: hf.placeholder_with_default([1.0], [None]), (None,)),
    (lambda: hf.fill([2, 3], 1), (2, 3)),
    (lambda: hf.fill(p(2, dtype=i32), 1), (None, None)),
    (lambda: hf.fill(p(ANY, dtype=i32), 1), None),
    (lambda: hf.fill(hf.stack([hf.shape(p(None, 3))[1], p(dtype=i32)]), 1), (3, None)),
    (lambda: hf.zeros(hf.shape(p(2, None))), (2, None)),
    (lambda: hf.zeros([5000, 2]), (5000, 2)),
    (lambda: hf.zeros_like(p(2, None)), (2, None)),
    (lambda: hf.ones_like(p(2, None)), (2, None)),
    (lambda: hf.range(2, 10, 3), (3,)),
    (lambda: hf.range(p(dtype=i32)), (None,)),
    (lambda: hf.linspace(0.0, 1.0, 4), (4,)),
    (lambda: hf.shape(p(2, None)), (2,)),
    (lambda: hf.shape(p(ANY)), (None,)),
    (lambda: hf.shape_n([p(2), p(ANY)])[1], (None,)),
    (lambda: hf.size(p(ANY)), ()),
    (lambda: hf.rank(p(ANY)), ()),
    (lambda: hf.reshape(p(2, 6), [3, -1]), (3, 4)),
    (lambda: hf.reshape(p(None, 6), [-1, 3]), (None, 3)),
    (lambda: hf.reshape(p(ANY), [2, -1]), (2, None)),
    (lambda: hf.reshape(p(2, 6), p(2, dtype=i32)), (None, None)),
    (lambda: hf.reshape(p(2, 6), p(ANY, dtype=i32)), None),
    (lambda: hf.reshape(p(None, 6), hf.stack([hf.shape(p(None, 2))[0], 6])), (None, 6)),
    (lambda: hf.reshape(p(2, 6), hf.stack([p(dtype=i32), 3])), (4, 3)),
    (lambda: hf.reshape(p(2, 6), hf.concat([[2], hf.shape(p(None, 3))], 0)), (2, 2, 3)),
    (lambda: hf.reshape(p(0, 6), [-1, 0]), (None, 0)),
    (lambda: hf.expand_dims(p(2, None), 1), (2, 1, None)),
    (lambda: hf.expand_dims(p(2, None), -1), (2, None, 1)),
    (lambda: hf.expand_dims(p(2, None), p(dtype=i32)), (None, None, None)),
    (lambda: hf.squeeze(p(1, 3, 1)), (3,)),
    (lambda: hf.squeeze(p(1, None, 1)), None),
    (lambda: hf.squeeze(p(1, None, 1), [-1]), (1, None)),
    (lambda: hf.squeeze(p(1, None, 1), [1]), (1, 1)),
    (lambda: hf.bitcast(p(2, 3), hf.uint8), (2, 3, 4)),
    (lambda: hf.bitcast(p(2, None), hf.float64), (2,)),
    (lambda: hf.slice(p(4, None), [1, 0], [2, -1]), (2, None)),
    (lambda: hf.slice(p(4, 5), [1, 2], [-1, -1]), (3, 3)),
    (lambda: hf.slice(p(4, 5), p(2, dtype=i32), [2, 2]), (2, 2)),
    (lambda: hf.slice(p(4, 5), p(2, dtype=i32), [2, -1]), (2, None)),
    (lambda: hf.slice(p(ANY), [1, 2], [1, -1]), (1, None)),
    (lambda: hf.slice(p(ANY), p(ANY, dtype=i32), p(ANY, dtype=i32)), None),
    (lambda: p(4, 5)[1:], (3, 5)),
    (lambda: p(None, 5)[1:], (None, 5)),
    (lambda: p(None, 5)[:, ::2], (None, 3)),
    (lambda: p(4, 5, 6)[0, ..., None], (5, 6, 1)),
    (lambda: p(4, 5, 6)[p(dtype=i32)], (5, 6)),
    (lambda: p(4, 5, 6)[p(dtype=i32):, 1:3], (None, 2, 6)),
    (lambda: p(4, 5, 6)[:, :p(dtype=i32)], (4, None, 6)),
    (lambda: p(4, 5, 6)[..., -1], (4, 5)),
    (lambda: p(ANY)[0], None),
    (lambda: hf.strided_slice(p(4, 5), p(ANY, dtype=i32), [1], [1]), (None, 5)),
    (lambda: raw_ops.StridedSliceGrad(shape=[3, 4], begin=[0], end=[1], strides=[1], dy=p(ANY)),
     (3, 4)),
    (lambda: hf.gather(p(10, 4), p(None, 2, dtype=i32)), (None, 2, 4)),
    (lambda: hf.gather(p(None, 4), p(dtype=i32)), (4,)),
    (lambda: hf.gather(p(ANY), p(3, dtype=i32)), None),
    (lambda: raw_ops.GatherV2(params=p(2, 3, 4), indices=p(5, dtype=i32), axis=1), (2, 5, 4)),
    (lambda: raw_ops.GatherV2(params=p(2, 3), indices=p(5, dtype=i32), axis=p(dtype=i32)),
     (None, None)),
    (lambda: raw_ops.GatherV2(params=p(None, 3, 4), indices=p(2, 5, dtype=i32), axis=1,
                              batch_dims=1), (2, 5, 4)),
    (lambda: hf.gather_nd(p(4, 5, 6), p(None, 2, dtype=i32)), (None, 6)),
    (lambda: hf.gather_nd(p(4, 5, 6), p(3, None, dtype=i32)), None),
    (lambda: hf.scatter_nd(p(None, 1, dtype=i32), p(None, 3), [4, 3]), (4, 3)),
    (lambda: hf.scatter_nd(p(ANY, dtype=i32), p(ANY), p(2, dtype=i32)), (None, None)),
    (lambda: hf.where(p(3, None, dtype=hf.bool)), (None, 2)),
    (lambda: hf.where(p(ANY, dtype=hf.bool)), (None, None)),
    (lambda: hf.one_hot(p(None, 3, dtype=i32), 5), (None, 3, 5)),
    (lambda: hf.one_hot(p(None, 3, dtype=i32), p(dtype=i32), axis=0), (None, None, 3)),
    (lambda: hf.one_hot(p(ANY, dtype=i32), 5), None),
    (lambda: hf.boolean_mask(p(None, 3, 4), p(None, 3, dtype=hf.bool)), (None, 4)),
    (lambda: hf.sequence_mask(p(None, dtype=i32), 5), (None, 5)),
    (lambda: hf.stack([p(None, 3), p(2, None)]), (2, 2, 3)),
    (lambda: hf.stack([p(2, 3), p(2, 3)], -1), (2, 3, 2)),
    (lambda: hf.stack([p(ANY), p(2)], 1), (2, 2)),
    (lambda: hf.unstack(p(None, 3), axis=1)[2], (None,)),
    (lambda: hf.unstack(p(ANY), 2)[0], None),
    (lambda: hf.parallel_stack([p(2, 3), p(2, 3)]), (2, 2, 3)),
    (lambda: hf.concat([p(2, 3), p(None, 3)], 0), (None, 3)),
    (lambda: hf.concat([p(2, None), p(4, 3)], 0), (6, 3)),
    (lambda: hf.concat([p(2, 3), p(2, 4), p(ANY)], 1), (2, None)),
    (lambda: hf.concat([p(2, 3), p(2, 4)], p(dtype=i32)), (None, None)),
    (lambda: hf.concat([p(ANY), p(ANY)], 0), None),
    (lambda: hf.split(p(None, 6), 3, 1)[0], (None, 2)),
    (lambda: hf.split(p(4, 6), 2, p(dtype=i32))[0], (None, None)),
    (lambda: hf.split(p(None, 6), [1, 2, -1], 1)[2], (None, 3)),
    (lambda: hf.split(p(4, 6), p(2, dtype=i32), 0)[1], (None, 6)),
    (lambda: hf.tile(p(2, None), [3, 2]), (6, None)),
    (lambda: hf.tile(p(ANY), [3, 2]), (None, None)),
    (lambda: hf.pad(p(2, None), [[1, 1], [0, 2]]), (4, None)),
    (lambda: hf.pad(p(2, 3), p(2, 2, dtype=i32)), (None, None)),
    (lambda: hf.pad(p(2, 3), [[1, 1], [0, 2]], "REFLECT"), (4, 5)),
    (lambda: raw_ops.MirrorPadGrad(input=p(4, 5), paddings=[[1, 1], [0, 2]], mode="REFLECT"),
     (2, 3)),
    (lambda: hf.transpose(p(2, None, 4)), (4, None, 2)),
    (lambda: hf.transpose(p(2, None, 4), [1, 0, 2]), (None, 2, 4)),
    (lambda: hf.transpose(p(2, 3), p(2, dtype=i32)), (None, None)),
    (lambda: hf.transpose(p(ANY)), None),
    (lambda: hf.matrix_transpose(p(None, 2, 3)), (None, 3, 2)),
    (lambda: hf.reverse(p(2, None), [0]), (2, None)),
    (lambda: hf.reverse_sequence(p(None, 3), p(2, dtype=i32), 1), (2, 3)),
    (lambda: hf.unique(p(5))[1], (5,)),
    (lambda: hf.setdiff1d(p(5), p(2))[0], (None,)),
    (lambda: hf.dynamic_partition(p(None, 3, 4), p(2, 3, dtype=i32), 2)[0], (None, 4)),
    (lambda: hf.dynamic_stitch([[0, 2], p(None, dtype=i32)], [p(2, 3), p(None, 3)]), (None, 3)),
    (lambda: hf.dynamic_stitch([[0, 2], [1]], [p(2, 3), p(1, 3)]), (3, 3)),
    (lambda: hf.invert_permutation(p(5, dtype=i32)), (5,)),
    (lambda: hf.broadcast_dynamic_shape(p(2, dtype=i32), p(3, dtype=i32)), (3,)),
    (lambda: hf.matrix_diag(p(None, 3)), (None, 3, 3)),
    (lambda: hf.matrix_diag_part(p(None, 3, 4)), (None, 3)),
    (lambda: hf.matrix_diag_part(p(2, None, 4)), (2, None)),
    (lambda: hf.matrix_set_diag(p(None, 3, 4), p(None, 3)), (None, 3, 4)),
    (lambda: hf.matrix_band_part(p(3, 4), 1, 0), (3, 4)),
    (lambda: hf.diag(p(2, None)), (2, None, 2, None)),
    (lambda: hf.diag_part(p(2, None, None, 3)), (2, 3)),
    (lambda: hf.eye(3, batch_shape=[2]), (2, 3, 3)),
    (lambda: hf.meshgrid(p(2), p(3))[0], (3, 2)),
    (lambda: hf.space_to_batch_nd(p(None, 4, None, 3), [2, 2], [[0, 0], [1, 1]]),
     (None, 2, None, 3)),
    (lambda: hf.batch_to_space_nd(p(8, 2, 3, 1), [2, 2], [[0, 1], [1, 1]]), (2, 3, 4, 1)),
    (lambda: hf.batch_to_space_nd(p(8, 2, 3, 1), hf.placeholder(hf.int32, [2]),
                                  hf.placeholder(hf.int32)), (None, None, None, 1)),
    (lambda: hf.space_to_batch(p(2, 4, 4, 1), [[0, 0], [0, 0]], 2), (8, 2, 2, 1)),
    (lambda: hf.space_to_batch(p(ANY), [[0, 0], [0, 0]], 2), (None, None, None, None)),
    (lambda: hf.fill([2, p(ANY, dtype=i32)], 1.0), (2, None)),
    (lambda: hf.batch_to_space(p(None, 2, 2, 1), [[0, 0], [0, 0]], 2), (None, 4, 4, 1)),
    (lambda: hf.space_to_depth(p(None, 4, 6, 3), 2), (None, 2, 3, 12)),
    (lambda: hf.depth_to_space(p(None, 2, 3, None), 2), (None, 4, 6, None)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_static_shape(case):
    build, expected = CASES[case]
    tensor = build()
    assert dims(tensor) == expected, tensor


# ---------------------------------------------------------------- refusals

REFUSED = [
    (lambda: hf.reshape(p(2, 3), [4, 2]), "6 elements.*4,2"),
    (lambda: hf.reshape(p(2, 3), [-1, -1]), "one -1"),
    (lambda: hf.reshape(p(2, 3), [4, -1]), "divisible by 4 but is 6"),
    (lambda: hf.reshape(p(2, 3), [[6]]), "rank 1"),
    (lambda: hf.squeeze(p(2, 1), [0]), r"dimension of 1, got 2.*\[2,1\]"),
    (lambda: hf.expand_dims(p(2), 3), r"\[-2, 1\]"),
    (lambda: hf.slice(p(2, 3), [0], [1]), "rank"),
    (lambda: hf.slice(p(2, 3), [0, 4], [1, -1]), "do not lie within"),
    (lambda: p(2, 3)[2], "out of bounds"),
    (lambda: p(2, 3)[0, 0, 0], "only 2 dims"),
    (lambda: hf.gather(p(), [0]), "at least rank 1"),
    (lambda: hf.gather_nd(p(2), [[0, 1]]), "2 coordinates"),
    (lambda: hf.scatter_nd([[0]], p(2, 3), [4, 3]), "not compatible"),
    (lambda: hf.one_hot(p(2, dtype=i32), [3]), "scalar"),
    (lambda: hf.stack([p(2), p(3)], axis=1), r"\[2\] and \[3\]"),
    (lambda: hf.stack([p(2), p(2)], axis=3), "axis"),
    (lambda: hf.unstack(p(2), 3), "num = 3"),
    (lambda: hf.concat([p(2, 3), p(2, 4)], 0), "Dimension 1 in both shapes must be equal"),
    (lambda: hf.concat([p(2, 3), p(2)], 0), "must be rank 2 but is rank 1"),
    (lambda: hf.concat([p(), p()], 0), "scalars"),
    (lambda: hf.concat([p(2), p(2)], 1), "axis"),
    (lambda: hf.split(p(5, 2), 2), "divisible"),
    (lambda: hf.split(p(5, 2), [2, 2]), "along the split dimension, which is 5"),
    (lambda: hf.tile(p(2, 3), [1]), "not compatible"),
    (lambda: hf.pad(p(2, 3), [[1, 1]]), "Dimensions must be equal, but are"),
    (lambda: hf.pad(p(2), [[1, -1]]), "negative"),
    (lambda: hf.reverse(p(2, 3), [2]), "axis"),
    (lambda: hf.reverse_sequence(p(2, 3), p(3, dtype=i32), 1), "not compatible"),
    (lambda: hf.dynamic_partition(p(2, 3), p(3, dtype=i32), 2), "not compatible"),
    (lambda: hf.matrix_set_diag(p(2, 3), p(3)), "not compatible"),
    (lambda: hf.diag_part(p(2, 3)), "not compatible"),
    (lambda: hf.matrix_diag_part(p(2)), "at least rank 2"),
    (lambda: hf.fill([2], p(1)), "scalar"),
    (lambda: hf.range(0, 5, 0), "delta != 0"),
    (lambda: hf.linspace(0.0, 1.0, 0), "num > 0"),
    (lambda: hf.placeholder_with_default([1, 2], [3]), "compatible"),
    (lambda: hf.space_to_depth(p(1, 3, 4, 1), 2), "divisible"),
    (lambda: hf.bitcast(p(3), hf.float64), "last dimension"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused_while_building(case):
    build, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as e:
        build()
    assert re.search(r"\(op:? '", str(e.value)) and "test_shapes_array.py" in str(e.value)


# ---------------------------------------------------------------- known values

KNOWN = [
    (lambda: hf.shape(p(2, 3)), [2, 3]),
    (lambda: raw_ops.Shape(input=p(2, 3), out_type=hf.int64), [2, 3]),
    (lambda: raw_ops.Rank(input=p(2, 3)), 2),
    (lambda: raw_ops.Size(input=p(2, 3)), 6),
    (lambda: raw_ops.Rank(input=p(None, 3)), 2),
    (lambda: raw_ops.Shape(input=p(None, 3))[1], 3),
    (lambda: raw_ops.Shape(input=p(None, 3, 4))[1:], [3, 4]),
    (lambda: raw_ops.Shape(input=p(None, 3, 4))[::-2], None),
    (lambda: raw_ops.Shape(input=p(None, 3, 4))[-1:0:-1], [4, 3]),
    (lambda: hf.slice(hf.shape(p(None, 3)), [1], [1]), [3]),
    (lambda: hf.shape(p(None, 3))[0], None),
    (lambda: hf.stack([hf.shape(p(None, 3))[1], 5]), [3, 5]),
    (lambda: hf.concat([hf.shape(p(2, 3)), [7]], 0), [2, 3, 7]),
    (lambda: raw_ops.Concat(concat_dim=0, values=[[1], [2]]), [1, 2]),
    (lambda: hf.range(1, 7, 2), [1, 3, 5]),
    (lambda: hf.range(3.0), [0.0, 1.0, 2.0]),
    (lambda: hf.fill([2], 7), [7, 7]),
    (lambda: hf.reshape(hf.range(4), [2, 2]), [[0, 1], [2, 3]]),
    (lambda: hf.expand_dims(hf.range(2), 0), [[0, 1]]),
    (lambda: hf.squeeze([[5]]), 5),
    (lambda: hf.constant([[1, 2], [3, 4]])[1], [3, 4]),
    (lambda: hf.broadcast_dynamic_shape([2, 1], [3]), [2, 3]),
    (lambda: hf.broadcast_dynamic_shape(hf.shape(p(None, 1)), [3]), None),
    (lambda: p(2), None),
]


@pytest.mark.parametrize("case", range(len(KNOWN)))
def test_known_value(case):
    build, expected = KNOWN[case]
    tensor = build()
    value = constant_value(tensor)
    if expected is None:
        assert value is None
    else:
        assert value.dtype == tensor.dtype.np
        np.testing.assert_array_equal(value, expected)


PARTLY_KNOWN = [
    (lambda: hf.shape(p(None, 3)), (None, 3)),
    (lambda: hf.stack([hf.shape(p(None, 3))[0], -1, 4]), (None, None, 4)),
    (lambda: hf.concat([hf.shape(p(None, 3))[:1], [2], p(2, dtype=i32)], 0),
     (None, 2, None, None)),
    (lambda: hf.shape(p(None, 3, 4))[:2], (None, 3)),
    (lambda: hf.slice(hf.shape(p(None, 3, 4)), [0], [2]), (None, 3)),
    (lambda: hf.shape(p(None, 3, 4))[::-1], (4, 3, None)),
    (lambda: hf.broadcast_dynamic_shape(hf.shape(p(None, 1, 2)), [5, 1]), (None, 5, 2)),
    (lambda: p(2, dtype=i32), (None, None)),
    (lambda: p(ANY, dtype=i32), None),
]


@pytest.mark.parametrize("case", range(len(PARTLY_KNOWN)))
def test_partly_known_shape(case):
    build, expected = PARTLY_KNOWN[case]
    assert constant_value_as_dims(build()) == expected


def test_small_constants_and_large_fills():
    assert hf.zeros([10]).op.type == "Const"
    assert hf.zeros([1000]).op.type == "Fill"
    assert hf.zeros(hf.shape(p(None))).op.type == "Fill"
    assert hf.shape(p(2)).op.type == "Const"
    assert hf.zeros_like(p(2, 3)).op.type == "Const"
    assert hf.zeros_like(p(None)).op.type == "ZerosLike"
    assert hf.newaxis is None


def test_names_and_dtypes():
    x = hf.placeholder(hf.float64, [2], name="x")
    assert x.name == "x:0"
    assert hf.identity(x, name="same").name == "same:0"
    assert hf.transpose(x).name == "transpose:0"
    assert hf.transpose([[1.0]]).op.inputs[0].name == "transpose_1/x:0"
    assert hf.zeros([2], name="zero").name == "zero:0"
    assert hf.stack([x, x]).dtype is hf.float64
    assert hf.shape(p(ANY), out_type=hf.int64).dtype is hf.int64
    assert x[0].name == "strided_slice:0"
    assert x[0].op.inputs[1].name.startswith("strided_slice_1/")


def test_paddings_of_which_some_are_known():
    unknown = p(2, dtype=i32)
    assert dims(hf.pad(p(4, 4), [[1, 2], unknown])) == (7, None)
    assert dims(hf.pad(p(4, 4), [unknown, [0, 2]])) == (None, 6)
    assert dims(hf.pad(p(4, None), [[1, 1], [1, 1]])) == (6, None)
    assert dims(hf.pad(p(...), hf.stack([[1, 2], unknown]))) == (None, None)


def test_a_mask_along_an_axis_that_is_a_constant():
    assert dims(hf.boolean_mask(p(4, 2), [True, False], axis=hf.constant(1))) == (4, None)
