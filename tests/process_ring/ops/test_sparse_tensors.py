"""SparseTensor: building, feeding and fetching, control flow, operators, batches."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops

VALUE = hf.SparseTensorValue([[0, 1], [1, 0], [2, 3]], [1.0, 2.0, 3.0], [3, 4])
DENSE = np.array([[0, 1, 0, 0], [2, 0, 0, 0], [0, 0, 0, 3]], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def as_dense(value):
    out = np.zeros(value.dense_shape, np.asarray(value.values).dtype)
    out[tuple(np.asarray(value.indices).T)] = value.values
    return out


def test_parts_and_shape():
    x = hf.SparseTensor(*VALUE)
    assert (x.dtype, x.indices.dtype, x.dense_shape.dtype) == (hf.float32, hf.int64, hf.int64)
    assert x.get_shape().as_list() == [3, 4] and x.op is x.values.op
    assert x.graph is hf.get_default_graph()
    assert hf.SparseTensor.from_value(VALUE).get_shape().as_list() == [3, 4]
    assert hf.convert_to_tensor_or_sparse_tensor(x) is x
    assert isinstance(hf.convert_to_tensor_or_sparse_tensor(VALUE), hf.SparseTensor)
    assert isinstance(hf.convert_to_tensor_or_sparse_tensor([1.0]), hf.Tensor)
    assert hf.convert_to_tensor_or_indexed_slices(x) is x


def test_parts_that_do_not_fit():
    for parts in (([[0, 1]], [1.0, 2.0], [3, 4]), ([[0, 1]], [1.0], [3]), ([0], [1.0], [3]),
                  ([[0, 1]], 1.0, [3, 4])):
        with pytest.raises(ValueError):
            hf.SparseTensor(*parts)
    with pytest.raises(TypeError, match="Neither a SparseTensor"):
        hf.SparseTensor.from_value([1.0])
    with pytest.raises(RuntimeError, match="requested = int32"):
        hf.convert_to_tensor_or_sparse_tensor(VALUE, hf.int32)
    for function in (hf.sparse_reorder, hf.sparse_tensor_to_dense, hf.sparse_softmax):
        with pytest.raises(TypeError, match="must be a SparseTensor"):
            function(hf.constant(DENSE))
    with pytest.raises(TypeError):
        hf.convert_to_tensor(hf.SparseTensor(*VALUE))


@pytest.mark.parametrize("shape", [None, [3, 4], [None, 4]])
def test_feeds_and_fetches(shape):
    x = hf.sparse_placeholder(hf.float32, shape, name="x")
    assert x.values.name == "x/values:0" and x.indices.name == "x/indices:0"
    y = x * 2.0
    with hf.Session() as session:
        for value in (VALUE, tuple(VALUE), hf.SparseTensorValue(*map(np.array, VALUE))):
            found = session.run(y, {x: value})
            assert isinstance(found, hf.SparseTensorValue)
            np.testing.assert_array_equal(as_dense(found), 2 * DENSE)
        both = session.run({"a": x, "b": [y, y.values]}, {x: VALUE})
        np.testing.assert_array_equal(as_dense(both["a"]), DENSE)
        np.testing.assert_array_equal(both["b"][1], [2, 4, 6])
        call = session.make_callable(hf.sparse_tensor_to_dense(y), [x])
        np.testing.assert_array_equal(call(VALUE), 2 * DENSE)
        np.testing.assert_array_equal(as_dense(y.eval({x: VALUE})), 2 * DENSE)
        with pytest.raises(TypeError, match="SparseTensorValue"):
            session.run(y, {x: 3.0})
        with pytest.raises(ValueError):
            session.run(y, {x: (VALUE.indices, VALUE.values, [[3, 4]])})
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(y)
    with pytest.raises(ValueError, match=r"(?i)no default session"):
        y.eval()


def test_in_control_flow():
    x = hf.sparse_placeholder(hf.float32)
    flag = hf.placeholder(hf.bool)
    chosen = hf.cond(flag, lambda: x, lambda: hf.negative(x))
    _, grown = hf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * 2.0), [0, x])
    same = hf.identity(x)
    done = hf.group(x, same)
    with hf.Session() as session:
        for value, sign in ((True, 1), (False, -1)):
            found = session.run(chosen, {x: VALUE, flag: value})
            np.testing.assert_array_equal(as_dense(found), sign * DENSE)
        found = session.run([grown, same, done], {x: VALUE})
        np.testing.assert_array_equal(as_dense(found[0]), 8 * DENSE)
        np.testing.assert_array_equal(as_dense(found[1]), DENSE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_operators(dtype):
    x = hf.SparseTensor(VALUE.indices, np.array(VALUE.values, dtype), VALUE.dense_shape)
    row = np.array([1, 2, 3, 4], dtype)
    with hf.Session() as session:
        product, quotient, negative = session.run([x * row, x / row, hf.negative(x)])
        size, rank, shape = session.run([hf.size(x), hf.rank(x), hf.shape(x)])
    dense = DENSE.astype(dtype)
    np.testing.assert_array_equal(as_dense(product), dense * row)
    np.testing.assert_allclose(as_dense(quotient), dense / row, rtol=1e-6)
    np.testing.assert_array_equal(as_dense(negative), -dense)
    assert (size, rank, shape.tolist()) == (12, 2, [3, 4])


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches(many, shuffle):
    """Sparse and dense components stay together."""
    number = hf.train.range_input_producer(6, shuffle=False).dequeue()
    wide = hf.cast(number, hf.int64)
    if many:
        sparse = hf.SparseTensor(hf.constant([[0, 0], [1, 1]], hf.int64),
                                 hf.stack([number, number + 1]), [2, 3])
        dense = hf.stack([number, number + 1])
    else:
        sparse = hf.SparseTensor(hf.reshape(wide, [1, 1]), hf.reshape(number, [1]),
                                 hf.reshape(wide + 1, [1]))
        dense = number
    tensors = {"sparse": sparse, "dense": dense}
    if shuffle:
        batch = hf.train.shuffle_batch(tensors, 4, 20, 2, enqueue_many=many, seed=3)
    else:
        batch = hf.train.batch(tensors, 4, enqueue_many=many)
    assert batch["sparse"].indices.get_shape().as_list() == [None, 2]
    with hf.Session() as session:
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        for _ in range(3):
            found = session.run(batch)
            value = found["sparse"]
            assert value.dense_shape[0] == 4
            np.testing.assert_array_equal(value.indices[:, 0], np.arange(4))
            np.testing.assert_array_equal(value.values, found["dense"])
        coordinator.request_stop()
        coordinator.join(threads)


def test_batch_of_sparse_and_dense_sources():
    x = hf.SparseTensor(*VALUE)
    with pytest.raises(TypeError, match="sparse in some"):
        hf.train.batch_join([[x], [hf.constant(DENSE)]], 2)


def test_stored_values_are_taken_once():
    x = hf.SparseTensor(*VALUE)
    handles = raw_ops.AddManySparseToTensorsMap(
        sparse_indices=x.indices, sparse_values=x.values, sparse_shape=x.dense_shape,
        shared_name="kept")
    wanted = hf.placeholder(hf.int64, [None])
    taken = hf.SparseTensor(*raw_ops.TakeManySparseFromTensorsMap(
        sparse_handles=wanted, dtype=hf.float32, shared_name="kept"))
    with hf.Session() as session:
        first = session.run(handles)
        assert len(first) == 3
        found = session.run(taken, {wanted: first[[2, 0]]})
        assert found.values.tolist() == [3, 1] and found.dense_shape.tolist() == [2, 4]
        with pytest.raises(hf.errors.InvalidArgumentError, match="Unable to find SparseTensor"):
            session.run(taken, {wanted: first[[1, 2]]})
        assert session.run(taken, {wanted: first[[1]]}).values.tolist() == [2]


@pytest.mark.parametrize("damage", ["type", "bytes", "columns", "parts"])
def test_damaged_strings(damage):
    x = hf.SparseTensor(*VALUE)
    strings = hf.placeholder(hf.string, [None, None])
    back = hf.deserialize_many_sparse(strings, hf.int32 if damage == "type" else hf.float32)
    with hf.Session() as session:
        table = session.run(hf.serialize_many_sparse(x))
        if damage == "bytes":
            table[1, 0] = b"\xff\x00nothing"
        elif damage == "columns":
            table = table[:, :2]
        elif damage == "parts":
            table[1, 1] = session.run(hf.serialize_sparse(x))[1]
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(back, {strings: table})


def matrix():
    return hf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 2.0, 3.0], [2, 3])


@pytest.mark.parametrize("build, dims", [
    (lambda x: hf.sparse_reorder(x), [2, 3]),
    (lambda x: hf.sparse_reshape(x, [3, -1]), [3, 2]),
    (lambda x: hf.sparse_reshape(x, [hf.shape(hf.ones([3]))[0], -1]), [3, 2]),
    (lambda x: hf.sparse_concat(1, [x, x]), [2, 6]),
    (lambda x: hf.sparse_concat(-2, [x, x]), [4, 3]),
    (lambda x: hf.sparse_reset_shape(x, [4, 5]), [4, 5]),
    (lambda x: hf.sparse_merge(hf.SparseTensor([[0, 0], [1, 0]], [4, 1], [2, 1]),
                               hf.SparseTensor([[0, 0], [1, 0]], [0.5, 1.5], [2, 1]), 5), [2, 5]),
])
def test_shapes_that_follow_from_constants(build, dims):
    with hf.Graph().as_default(), hf.Session() as session:
        result = build(matrix())
        assert result.get_shape().as_list() == dims
        assert session.run(result.dense_shape).tolist() == dims


def test_sizes_that_are_known_not_to_fit():
    with hf.Graph().as_default():
        with pytest.raises(ValueError, match="Cannot reshape"):
            hf.sparse_reshape(matrix(), [4, -1])
        with pytest.raises(ValueError, match="At most one"):
            hf.sparse_reshape(matrix(), [-1, -1])


def test_a_dense_tensor_times_a_sparse_one():
    with hf.Graph().as_default(), hf.Session() as session:
        product = session.run(hf.constant([2.0, 3.0, 4.0]) * matrix())
    assert product.values.tolist() == [3, 4, 12]


def test_splitting_a_dimension_counted_from_the_end():
    with hf.Graph().as_default(), hf.Session() as session:
        first, second = session.run(hf.sparse_split(sp_input=matrix(), num_split=2, axis=-2))
    assert first.values.tolist() == [1] and second.values.tolist() == [2, 3]


def test_the_smallest_shape_of_no_elements():
    with hf.Graph().as_default(), hf.Session() as session:
        empty = hf.SparseTensor(np.empty((0, 2), np.int64), hf.constant([], hf.float32), [3, 3])
        assert session.run(hf.sparse_reset_shape(empty).dense_shape).tolist() == [0, 0]


def test_extrema_of_different_shapes():
    with hf.Graph().as_default(), hf.Session() as session:
        one, two = hf.SparseTensor([[0]], [1.0], [2]), hf.SparseTensor([[0]], [1.0], [3])
        with pytest.raises(hf.errors.InvalidArgumentError, match="same ranks"):
            session.run(hf.sparse_maximum(one, matrix()))
        with pytest.raises(hf.errors.InvalidArgumentError, match="shapes do not match"):
            session.run(hf.sparse_minimum(one, two))


def test_variants_of_sparse_tensors(session):
    x = hf.SparseTensor([[0, 0], [1, 2]], ["a", "b"], [3, 4])
    one = hf.serialize_sparse(x, out_type=hf.variant)
    rows = hf.serialize_many_sparse(x, out_type=hf.variant)
    assert one.dtype is rows.dtype is hf.variant and rows.shape.as_list() == [3, 3]
    found = session.run([hf.raw_ops.DeserializeSparse(serialized_sparse=v, dtype=hf.string)
                         for v in (one, rows, hf.stack([one, one]))])
    for indices, values, shape in found[:2]:
        assert indices.tolist() == [[0, 0], [1, 2]]
        assert values.tolist() == [b"a", b"b"] and shape.tolist() == [3, 4]
    assert found[2][0].tolist() == [[0, 0, 0], [0, 1, 2], [1, 0, 0], [1, 1, 2]]
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"type int32 but SparseTensor"):
        session.run(hf.raw_ops.DeserializeSparse(serialized_sparse=one, dtype=hf.int32))


def test_a_shape_of_numbers_and_tensors():
    with hf.Graph().as_default(), hf.Session() as session:
        given = hf.sparse_placeholder(hf.float32, [2, None, 4])
        sizes = hf.shape(given)
        found = hf.sparse_reshape(given, [-1, sizes[-2] * 2, 2])
        value = hf.SparseTensorValue([[1, 2, 3]], [5.0], [2, 3, 4])
        out = session.run(found, {given: value})
        np.testing.assert_array_equal(out.indices, [[1, 5, 1]])
        np.testing.assert_array_equal(out.dense_shape, [2, 6, 2])
