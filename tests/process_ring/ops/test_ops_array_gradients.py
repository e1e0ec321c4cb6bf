"""The gradients of the array ops against central differences, with and without known shapes."""

from __future__ import annotations

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow import raw_ops


def x(*shape):
    return np.random.default_rng(7).normal(size=shape)


def ints(*values):
    return np.array(values, np.int32)


# One line for each op: how it is built, and its inputs; float64 ones are differentiated.
CASES = {
    "Identity": (hf.identity, x(2, 3)),
    "PlaceholderWithDefault": (lambda a: hf.placeholder_with_default(a, None), x(2)),
    "Fill": (hf.fill, ints(2, 3), np.float64(2)),
    "Reshape": (hf.reshape, x(2, 6), ints(3, 4)),
    "Reshape of -1": (hf.reshape, x(2, 6), ints(3, -1)),
    "ExpandDims": (lambda a: hf.expand_dims(a, 1), x(2, 3)),
    "Squeeze": (lambda a: hf.squeeze(a, [0]), x(1, 3)),
    "Slice": (hf.slice, x(3, 4), ints(1, 0), ints(2, 3)),
    "Slice of the rest": (hf.slice, x(3, 4), ints(1, 2), ints(-1, 1)),
    "StridedSlice": (lambda a: a[1:, ::-2], x(3, 4)),
    "StridedSlice with new and dropped dimensions": (lambda a: a[..., None, 1], x(3, 4)),
    "StridedSlice of int64": (lambda a, b: hf.strided_slice(a, b, b + 1, [1]), x(3, 2),
                              np.array([1])),
    "StridedSliceGrad": (lambda d: raw_ops.StridedSliceGrad(
        shape=[3, 4], begin=[1, 0], end=[3, 4], strides=[1, 2], dy=d), x(2, 2)),
    "Gather": (hf.gather, x(4, 3), ints(1, 3, 1)),
    "Gather by a matrix": (hf.gather, x(4, 3), ints([1, 3], [1, 0])),
    "Gather by a scalar": (hf.gather, x(4, 3), np.int64(2)),
    "Gather of a gather": (lambda a, i: hf.gather(hf.gather(a, i), [1, 0, 1]), x(4, 3), ints(3, 1)),
    "Reshape of what is gathered": (lambda a, i: hf.gather(hf.reshape(a, [4, 3]), i), x(2, 6),
                                    ints(3, 1)),
    "Gather from a vector": (hf.gather, x(4), ints([1], [3])),
    "GatherV2": (lambda a, i: raw_ops.GatherV2(params=a, indices=i, axis=0), x(3, 2), ints(2, 2)),
    "GatherNd": (hf.gather_nd, x(4, 3, 2), ints([1, 2], [0, 0], [1, 2])),
    "GatherNd of int64": (hf.gather_nd, x(4, 3), np.array([[1], [1]])),
    "ScatterNd": (lambda i, u: hf.scatter_nd(i, u, [4, 2]), ints([1], [3], [1]), x(3, 2)),
    "Concat": (lambda a, b: raw_ops.Concat(concat_dim=1, values=[a, b]), x(2, 3), x(2, 1)),
    "ConcatV2": (lambda a, b: hf.concat([a, b, a], -1), x(2, 3), x(2, 1)),
    "ConcatV2 of a computed axis": (lambda a, b, d: hf.concat([a, b], d), x(2, 3), x(1, 3),
                                    np.int32(0)),
    "ParallelConcat": (lambda a, b: raw_ops.ParallelConcat(values=[a, b], shape=[2, 3]), x(1, 3),
                       x(1, 3)),
    "Split": (lambda a: hf.split(a, 2, 1), x(3, 4)),
    "SplitV": (lambda a, s: hf.split(a, s, 0, num=3), x(6, 2), ints(1, 3, 2)),
    "SplitV into one": (lambda a, s: hf.split(a, s, 0, num=1), x(2, 2), ints(-1)),
    "Pack": (lambda a, b: hf.stack([a, b, a], 1), x(2, 3), x(2, 3)),
    "Unpack": (lambda a: hf.unstack(a, 3, axis=1), x(2, 3)),
    "Tile": (hf.tile, x(2, 3), ints(2, 3)),
    "Tile once": (hf.tile, x(2, 3), ints(1, 1)),
    "Tile of int64": (hf.tile, x(2), np.array([3])),
    "Pad": (hf.pad, x(2, 3), ints((1, 0), (2, 1))),
    "PadV2": (lambda a, p, v: raw_ops.PadV2(input=a, paddings=p, constant_values=v), x(2, 3),
              ints((1, 0), (2, 1)), np.float64(2)),
    "MirrorPad reflected": (lambda a, p: hf.pad(a, p, "REFLECT"), x(3, 4), ints((2, 1), (0, 3))),
    "MirrorPad symmetric": (lambda a, p: hf.pad(a, p, "SYMMETRIC"), x(3, 4), ints((3, 1), (0, 4))),
    "MirrorPadGrad": (lambda a, p: raw_ops.MirrorPadGrad(input=a, paddings=p, mode="REFLECT"),
                      x(6, 7), ints((2, 1), (0, 3))),
    "Transpose": (hf.transpose, x(2, 3, 4), ints(2, 0, 1)),
    "Transpose by negative axes": (lambda a: hf.transpose(a, [-1, 0]), x(2, 3)),
    "Transpose reversed": (hf.transpose, x(2, 3)),
    "matrix_transpose": (hf.matrix_transpose, x(2, 3, 2)),
    "Reverse": (lambda a: raw_ops.Reverse(tensor=a, dims=[True, False]), x(2, 3)),
    "ReverseV2": (hf.reverse, x(2, 3), ints(1)),
    "ReverseSequence": (lambda a, n: hf.reverse_sequence(a, n, 1), x(2, 4), ints(3, 2)),
    "DynamicPartition": (lambda a, p: hf.dynamic_partition(a, p, 3), x(4, 2), ints(2, 0, 2, 2)),
    "DynamicPartition by a matrix": (lambda a, p: hf.dynamic_partition(a, p, 2), x(2, 2, 2),
                                     ints([1, 0], [0, 0])),
    "DynamicPartition into one": (lambda a, p: hf.dynamic_partition(a, p, 1), x(2, 2), ints(0, 0)),
    "DynamicStitch": (lambda i, j, a, b: hf.dynamic_stitch([i, j], [a, b]), ints(3, 0), ints([1]),
                      x(2, 2), x(1, 1, 2)),
    "MatrixDiag": (hf.matrix_diag, x(2, 3)),
    "MatrixDiagPart": (hf.matrix_diag_part, x(2, 3, 3)),
    "MatrixDiagPart of oblongs": (hf.matrix_diag_part, x(2, 3, 4)),
    "MatrixSetDiag": (hf.matrix_set_diag, x(3, 2), x(2)),
    "MatrixBandPart": (lambda a: hf.matrix_band_part(a, 1, 0), x(2, 3, 3)),
    "Diag": (hf.diag, x(2, 2)),
    "DiagPart": (hf.diag_part, x(2, 3, 2, 3)),
    "SpaceToBatchND": (hf.space_to_batch_nd, x(1, 3, 4, 2), ints(2, 2), ints((1, 0), (0, 0))),
    "BatchToSpaceND": (hf.batch_to_space_nd, x(4, 2, 2, 1), ints(2, 2), ints((1, 0), (0, 1))),
    "SpaceToBatch": (lambda a, p: hf.space_to_batch(a, p, 2), x(1, 3, 4, 1), ints((1, 0), (0, 0))),
    "BatchToSpace": (lambda a, p: hf.batch_to_space(a, p, 2), x(4, 2, 2, 1), ints((1, 0), (0, 1))),
    "SpaceToDepth": (lambda a: hf.space_to_depth(a, 2), x(1, 4, 2, 2)),
    "SpaceToDepth of NCHW": (lambda a: hf.space_to_depth(a, 2, data_format="NCHW"),
                             x(1, 2, 4, 2)),
    "DepthToSpace": (lambda a: hf.depth_to_space(a, 2), x(1, 2, 1, 8)),
    "boolean_mask": (lambda a: hf.boolean_mask(a, [True, False, True]), x(3, 2)),
    "meshgrid": (lambda a, b: hf.meshgrid(a, b), x(2), x(3)),
    "where": (lambda c, a, b: hf.where(c, a, b), np.array([True, False]), x(2), x(2)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient(name):
    build, *inputs = CASES[name]
    check_gradient(build, *inputs)


def test_check_numerics_checks_its_gradient():
    with hf.Graph().as_default(), hf.Session() as session:
        a, seed = hf.constant([1.0, 2.0]), hf.placeholder(hf.float32, [2])
        grad = hf.gradients(hf.check_numerics(a, "m"), a, seed)[0]
        assert session.run(grad, {seed: [3, 4]}).tolist() == [3, 4]
        with pytest.raises(hf.errors.InvalidArgumentError, match="detected in gradient"):
            session.run(grad, {seed: [np.nan, 4]})


def test_gather_v2_gradient_along_other_axes():
    for axis, indices in ((1, ints(2, 0, 2)), (2, ints([1], [0])), (-1, np.array(1))):
        check_gradient(lambda a, i: raw_ops.GatherV2(params=a, indices=i, axis=axis), x(2, 3, 2),
                       indices)
    for axis, batch, indices in ((1, 1, ints([2, 0], [1, 1])), (2, 1, ints([0], [1])),
                                 (2, -1, ints([1, 0], [1, 1]))):
        check_gradient(lambda a, i: raw_ops.GatherV2(params=a, indices=i, axis=axis,
                                                     batch_dims=batch), x(2, 3, 2), indices)


def test_no_gradient_flows():
    a = hf.constant([1.0, 2.0])
    for build in (hf.stop_gradient, hf.zeros_like, lambda a: hf.ones_like(a, optimize=False),
                  lambda a: hf.cast(hf.shape(a), hf.float32)):
        assert hf.gradients(build(a), a) == [None]
    with pytest.raises(LookupError, match="explicitly disabled"):
        hf.gradients(raw_ops.PreventGradient(input=a), a)


def test_gather_gradient_is_sparse():
    a = hf.placeholder(hf.float32, [10, 4])
    grad = hf.gradients(hf.gather(a, [1, 1, 3]), a)[0]
    assert isinstance(grad, hf.IndexedSlices)
    assert grad.values.shape.as_list() == [3, 4]
    assert grad.dense_shape.op.type == "Const"


def test_gradients_of_known_shapes_cost_few_nodes():
    """What is known while the graph is built is not computed again in every step."""
    def new_types(build, *shapes):
        with hf.Graph().as_default() as graph:
            xs = [hf.placeholder(hf.float32, s) for s in shapes]
            y = build(*xs)
            seed = hf.constant(np.ones(y.shape.as_list(), np.float32))
            before = graph.version
            hf.gradients(y, xs, seed)
            types = [op.type for op in graph.get_operations() if op._id >= before]
        return [t for t in types if t != "Const"]

    assert new_types(lambda a: hf.reshape(a, [6]), [2, 3]) == ["Reshape"]
    assert new_types(lambda a: hf.transpose(a), [2, 3]) == ["Transpose"]
    assert new_types(lambda a: a[1:], [2, 3]) == ["StridedSliceGrad"]
    assert new_types(lambda a: hf.slice(a, [1, 0], [1, -1]), [2, 3]) == ["Pad"]
    assert new_types(lambda a, b: hf.concat([a, b], 1), [2, 3], [2, 4]) == ["SplitV"]
    assert new_types(lambda a, b: hf.stack([a, b]), [3], [3]) == ["Unpack"]
    assert new_types(lambda a: hf.tile(a, [2, 1]), [2, 3]) == ["Reshape", "Sum"]
    assert new_types(lambda a: hf.pad(a, [[1, 0], [0, 0]]), [2, 3]) == ["Slice"]
    assert new_types(lambda a: hf.gather(a, [0, 1]), [2, 3]) == []
