"""Static shapes of the math and nn ops: what is known, what is not, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.graph.shape_inference import constant_value


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def tensor(*dims, dtype=hf.float32):
    return hf.placeholder(dtype, None if dims == (...,) else dims)


def dims(x):
    return None if x.shape.ndims is None else x.shape.as_list()


UNKNOWN = (...,)


@pytest.mark.parametrize("a,b,result", [
    ((2, 3), (2, 3), [2, 3]), ((2, 3), (3,), [2, 3]), ((), (4,), [4]), ((2, 1), (1, 3), [2, 3]),
    ((None, 3), (2, 3), [2, 3]), ((None, 3), (1, 3), [None, 3]), ((None,), (None,), [None]),
    ((None, 3), (3,), [None, 3]), (UNKNOWN, (2,), None), ((1,), (None,), [None])])
def test_broadcasting(a, b, result):
    for build in (hf.add, hf.multiply, hf.less, hf.maximum, hf.equal):
        assert dims(build(tensor(*a), tensor(*b))) == result
        assert dims(build(tensor(*b), tensor(*a))) == result


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ValueError, match=r"Add.*\[2,3\].*\[2\]"):
        hf.add(tensor(2, 3), tensor(2))


def test_unary_ops_keep_the_shape():
    for build in (hf.exp, hf.nn.relu, hf.is_nan, hf.to_int32, hf.nn.softmax):
        assert dims(build(tensor(None, 3))) == [None, 3]
        assert dims(build(tensor(*UNKNOWN))) is None


@pytest.mark.parametrize("axis,keep,result", [
    (None, False, []), (None, True, [1, 1, 1]), (1, False, [2, 4]), ([0, -1], False, [None]),
    ([0, 2], True, [1, None, 1]), ([], False, [2, None, 4])])
def test_reductions(axis, keep, result):
    for reduce in (hf.reduce_sum, hf.reduce_max, hf.reduce_mean):
        assert dims(reduce(tensor(2, None, 4), axis, keep)) == result


def test_reductions_of_unknown_things():
    axes = hf.placeholder(hf.int32, [2])
    assert dims(hf.reduce_sum(tensor(2, 3, 4), axes)) == [None]
    assert dims(hf.reduce_sum(tensor(2, 3, 4), axes, True)) == [None] * 3
    assert dims(hf.reduce_sum(tensor(2, 3, 4), hf.placeholder(hf.int32))) is None
    assert dims(hf.reduce_sum(tensor(*UNKNOWN), 1)) is None
    assert dims(hf.reduce_sum(tensor(*UNKNOWN))) is None or hf.reduce_sum(
        tensor(*UNKNOWN)).shape.ndims == 0
    with pytest.raises(ValueError, match="Invalid reduction dimension 2"):
        hf.reduce_sum(tensor(2, 3), 2)


def test_index_of_extremum():
    assert dims(hf.argmax(tensor(2, None, 4), 1)) == [2, 4]
    assert dims(hf.argmax(tensor(2, 3), hf.placeholder(hf.int32, []))) == [None]
    assert dims(hf.argmax(tensor(*UNKNOWN), 1)) is None
    with pytest.raises(ValueError):
        hf.argmax(tensor(2, 3), 2)


@pytest.mark.parametrize("a,b,flips,result", [
    ((2, 3), (3, 4), (False, False), [2, 4]), ((3, 2), (4, 3), (True, True), [2, 4]),
    ((None, 3), (3, None), (False, False), [None, None]), (UNKNOWN, (3, 4), (False, False),
                                                           [None, 4])])
def test_matmul(a, b, flips, result):
    assert dims(raw_ops.MatMul(tensor(*a), tensor(*b), transpose_a=flips[0],
                               transpose_b=flips[1])) == result


def test_batches_of_matrices():
    assert dims(hf.matmul(tensor(5, 2, 3), tensor(None, 3, 4))) == [5, 2, 4]
    assert dims(hf.matmul(tensor(*UNKNOWN), tensor(*UNKNOWN))) is None
    with pytest.raises(ValueError):
        hf.matmul(tensor(5, 2, 3), tensor(6, 3, 4))


def test_products_that_do_not_fit():
    with pytest.raises(ValueError, match=r"MatMul.*\[64,784\] x \[100,10\]"):
        hf.matmul(tensor(64, 784), tensor(100, 10))
    with pytest.raises(ValueError, match=r"transpose a"):
        hf.matmul(tensor(64, 784), tensor(100, 10), transpose_a=True)
    with pytest.raises(ValueError, match="rank 2"):
        hf.matmul(tensor(3), tensor(3, 4))
    with pytest.raises(ValueError, match="size 3"):
        hf.cross(tensor(2, 4), tensor(2, 4))


def test_select():
    x, y = tensor(2, None), tensor(None, 3)
    for condition in ((2, 3), (), (2,), UNKNOWN):
        assert dims(raw_ops.Select(tensor(*condition, dtype=hf.bool), x, y)) == [2, 3]
    rows = raw_ops.Select(tensor(2, dtype=hf.bool), tensor(None, 3), tensor(None, 3))
    assert dims(rows) == [None, 3]
    with pytest.raises(ValueError, match="in both shapes must be equal, but are 5 and 2"):
        raw_ops.Select(tensor(5, dtype=hf.bool), x, y)
    with pytest.raises(ValueError):
        raw_ops.Select(tensor(4, 3, dtype=hf.bool), x, y)


def test_add_n():
    assert dims(hf.add_n([tensor(2, None), tensor(None, 3)])) == [2, 3]
    with pytest.raises(ValueError):
        hf.add_n([tensor(2), tensor(3)])


def test_segments():
    data, ids = tensor(6, 3), tensor(6, dtype=hf.int32)
    assert dims(hf.segment_sum(data, ids)) == [None, 3]
    assert dims(hf.segment_sum(data, [0, 0, 1, 2, 2, 4])) == [5, 3]
    assert dims(hf.unsorted_segment_sum(data, ids, 4)) == [4, 3]
    assert dims(hf.unsorted_segment_sum(data, tensor(6, 3, dtype=hf.int32), 4)) == [4]
    assert dims(hf.sparse_segment_sum(data, [0, 1], [0, 0])) == [None, 3]
    assert dims(hf.segment_sum(data, tensor(5, dtype=hf.int32))) == [None, 3]  # the step judges
    with pytest.raises(ValueError):
        hf.unsorted_segment_sum(data, tensor(5, dtype=hf.int32), 4)


def test_cumulative():
    assert dims(hf.cumsum(tensor(2, None), 1)) == [2, None]
    assert dims(hf.cumsum(tensor(2, 3), 2)) == [2, 3]  # the step judges the axis


def test_losses():
    logits = tensor(None, 10)
    assert dims(hf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=tensor(8, 10))) == [8]
    labels = tensor(None, dtype=hf.int64)
    assert dims(hf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)) == [
        None]
    assert dims(hf.nn.softmax_cross_entropy_with_logits(
        logits=tensor(2, None, 5), labels=tensor(2, 3, 5))) == [2, 3]
    assert dims(hf.nn.l2_loss(tensor(*UNKNOWN))) == []
    with pytest.raises(ValueError, match=r"\[8,10\].*\[9,10\]"):
        hf.nn.softmax_cross_entropy_with_logits(logits=tensor(8, 10), labels=tensor(9, 10))
    with pytest.raises(ValueError, match=r"first dimension.*\[8,10\].*\[9\]"):
        hf.nn.sparse_softmax_cross_entropy_with_logits(logits=tensor(8, 10),
                                                       labels=tensor(9, dtype=hf.int64))


def test_biases():
    assert dims(hf.nn.bias_add(tensor(None, 4), tensor(4))) == [None, 4]
    assert dims(hf.nn.bias_add(tensor(2, None, 5, 6), tensor(3), "NCHW")) == [2, 3, 5, 6]
    assert dims(raw_ops.BiasAddGrad(tensor(None, 4))) == [4]
    with pytest.raises(ValueError, match=r"BiasAdd.*\[5\].*\[2,4\]"):
        hf.nn.bias_add(tensor(2, 4), tensor(5))


def test_top_k():
    best = hf.nn.top_k(tensor(None, 10), 3)
    assert dims(best.values) == dims(best.indices) == [None, 3]
    assert dims(hf.nn.top_k(tensor(None, 10), hf.placeholder(hf.int32, [])).values) == [None, None]
    with pytest.raises(ValueError, match="k = 11"):
        hf.nn.top_k(tensor(None, 10), 11)
    assert dims(hf.nn.in_top_k(tensor(None, 10), tensor(4, dtype=hf.int32), 2)) == [4]


def test_embeddings():
    assert dims(hf.nn.embedding_lookup(tensor(7, 2), tensor(None, 3, dtype=hf.int32))) == [
        None, 3, 2]


def test_known_values_through_casts_and_products():
    x = tensor(2, None, 4)
    known = hf.cast(hf.shape(tensor(3, 4)), hf.int64)
    np.testing.assert_array_equal(constant_value(known), [3, 4])
    assert constant_value(hf.reduce_prod(hf.shape(tensor(3, 4)))) == 12
    assert dims(hf.reshape(x, hf.cast(hf.shape(x), hf.int64))) == [2, None, 4]
    assert constant_value(hf.reduce_prod(hf.shape(x))) is None


def test_gradients_have_the_shapes_of_their_inputs():
    x, w, b = tensor(None, 4), tensor(4, 3), tensor(3)
    loss = hf.reduce_mean(hf.nn.relu(hf.matmul(x, w) + b))
    grads = hf.gradients(loss, [x, w, b])
    assert [dims(g) for g in grads] == [[None, 4], [4, 3], [3]]


@pytest.mark.parametrize("build, text", [
    (lambda: hf.nn.conv2d(hf.ones([1, 2, 2, 3]), hf.ones([3, 3, 3, 1]), [1] * 4, "VALID"),
     "Negative dimension size"),
    (lambda: hf.nn.max_pool(hf.ones([1, 2, 2, 3]), [1, 3, 3, 1], [1] * 4, "VALID"),
     "Negative dimension size"),
    (lambda: hf.nn.conv2d(hf.ones([1, 2, 2, 3]), hf.ones([1, 1, 2, 1]), [1] * 4, "VALID"),
     "Dimensions must be equal, but are 3 and 2"),
    (lambda: hf.nn.top_k([1.0, 2.0], -7), "Need k >= 0, got -7"),
], ids=["convolution", "pooling", "depth", "top_k"])  # fmt: skip
def test_errors_that_programs_look_for(build, text):
    with hf.Graph().as_default(), pytest.raises(ValueError, match=text):
        build()
