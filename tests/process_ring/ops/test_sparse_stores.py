"""Sparse tensors kept by a task, as strings of any rank, and added to dense ones."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.ops import sparse_ops


def sparse(*rows):
    dense = np.squeeze(np.array(rows), 0) if len(rows) == 1 else np.array(rows)
    return hf.SparseTensor(np.argwhere(dense), dense[np.nonzero(dense)], dense.shape)


@pytest.fixture
def session():
    with hf.Graph().as_default(), hf.Session() as made:
        yield made


def test_what_is_stored_is_taken_once_as_rows_of_one(session):
    one = sparse_ops._add_sparse_to_tensors_map(sparse([1, 0, 2]), shared_name="kept")
    both = sparse_ops._add_many_sparse_to_tensors_map(sparse([3, 0], [0, 4]), shared_name="kept")
    handles = session.run([one, both])
    given = hf.placeholder(hf.int64, [None])
    taken = sparse_ops._take_many_sparse_from_tensors_map(one.op, given, rank=1)
    assert taken.get_shape().ndims == 2
    got = session.run(taken, {given: handles[1]})
    np.testing.assert_array_equal(got.indices, [[0, 0], [1, 1]])
    np.testing.assert_array_equal(got.values, [3, 4])
    rows = session.run(taken, {given: [handles[0]]})
    np.testing.assert_array_equal(rows.dense_shape, [1, 3])
    with pytest.raises(hf.errors.OpError):
        session.run(taken, {given: handles[1]})
    with pytest.raises(TypeError, match="stores sparse tensors"):
        sparse_ops._take_many_sparse_from_tensors_map(given.op, given)


def test_strings_of_any_rank(session):
    text = hf.serialize_sparse(sparse([1, 0, 2], [0, 3, 0]))
    alone = sparse_ops.deserialize_sparse(text, hf.int64, rank=2)
    stacked = sparse_ops.deserialize_sparse(hf.stack([text, text]), hf.int64, rank=2)
    assert alone.get_shape().ndims == 2 and stacked.get_shape().ndims == 3
    got = session.run([hf.sparse_tensor_to_dense(alone), hf.sparse_tensor_to_dense(stacked)])
    np.testing.assert_array_equal(got[0], [[1, 0, 2], [0, 3, 0]])
    np.testing.assert_array_equal(got[1], [[[1, 0, 2], [0, 3, 0]]] * 2)


def test_dense_added_at_the_places_of_a_sparse_one(session):
    added = sparse_ops.sparse_dense_cwise_add(sparse([1, 0], [0, 2]), np.array([[10], [20]]))
    np.testing.assert_array_equal(session.run(added).values, [11, 22])


def test_known_patterns_are_parts_of_their_ops(session):
    words, pattern = hf.constant(["abc", "xbz"]), hf.placeholder(hf.string, [])
    static = hf.strings.regex_replace(words, "[bc]", "-", replace_global=False)
    fed = hf.strings.regex_replace(words, pattern, "-")
    matched = hf.strings.regex_full_match(words, "a.*")
    assert [t.op.type for t in (static, fed, matched)] == [
        "StaticRegexReplace", "RegexReplace", "StaticRegexFullMatch"]
    got = session.run([static, fed, matched], {pattern: "[bc]"})
    assert [list(v) for v in got] == [[b"a-c", b"x-z"], [b"a--", b"x-z"], [True, False]]
    np.testing.assert_array_equal(
        session.run(hf.strings.regex_full_match(words, pattern), {pattern: ".*z"}), [False, True])


def test_partitioned_variables_of_references_are_added_to(session):
    v = hf.get_variable("v", initializer=np.zeros(4, np.float32),
                        partitioner=hf.fixed_size_partitioner(2))
    parts = list(v)
    whole = type(v)("w", [4], parts[0].dtype, parts, [2])
    session.run(hf.global_variables_initializer())
    session.run(whole.assign_add(hf.constant([1.0, 2, 3, 4])))
    np.testing.assert_array_equal(session.run(v.as_tensor()), [1, 2, 3, 4])
    with pytest.raises(ValueError, match="full shapes must match"):
        type(v)("w", [5], parts[0].dtype, parts, [2])
