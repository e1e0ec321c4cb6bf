"""Constants of one repeated value: held, written and sent once."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

_SHAPE = [16, 1024, 1024]


@pytest.mark.parametrize("value", [0.1, 0, True, b"text", 1j], ids=repr)
def test_one_value_is_held_once(session, value):
    x = hf.constant(value, shape=_SHAPE, name="x")
    definition = session.graph.as_graph_def()
    assert definition.ByteSize() < 100
    assert x.shape == _SHAPE
    with hf.Graph().as_default() as other, hf.Session() as session:
        (y,) = hf.import_graph_def(definition, return_elements=["x:0"], name="")
        assert other.as_graph_def().ByteSize() == definition.ByteSize()
        part = session.run(y[1, :2, :3])
        np.testing.assert_array_equal(part, np.full([2, 3], x.dtype.as_numpy_dtype(value)))


def test_kernels_get_whole_arrays(session, form):
    x = hf.constant(0.5, shape=[64, 64])
    v = hf.Variable(x)
    fed = hf.placeholder(hf.float32, [64, 64])
    session.run(v.initializer)
    session.run(v.assign_add(x))
    products = [hf.matmul(x, x), hf.matmul(fed, x, transpose_b=True), hf.tanh(x) * fed,
                hf.nn.relu(fed + x), hf.reduce_sum(x, 0), hf.concat([x, fed], 0), x, v]
    ones = np.ones([64, 64], np.float32)
    half = ones / 2
    expected = [half @ half, ones @ half, np.tanh(half), ones + half, half.sum(0),
                np.concatenate([half, ones]), half, ones]
    for got, want in zip(session.run(products, {fed: ones}), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    held = session.run(x)
    held += 1  # what a client gets is its own
    np.testing.assert_array_equal(session.run(x), half)


def test_array_of_a_proto_can_be_written():
    array = hf.make_ndarray(hf.contrib.util.make_tensor_proto(1.0, shape=[3]))
    array += 1
    assert array.tolist() == [2, 2, 2]


def test_what_no_graph_def_can_hold_is_refused(graph):
    with pytest.raises(ValueError, match="larger than 2GB"):
        hf.constant(np.empty([1 << 29], np.int32))  # memory that is never touched
    assert hf.constant(1, shape=[1 << 20, 1 << 20]).op.node_def.ByteSize() < 100
