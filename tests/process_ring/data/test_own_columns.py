"""Feature columns that programs define, fields of columns, features of unknown rank."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import feature_column as fc
from hpcflow.python.feature_column import feature_column as module


def run(value, feeds=None):
    with hf.Session() as session:
        session.run([hf.global_variables_initializer(), hf.tables_initializer()])
        return session.run(value, feeds)


class Doubled(module._DenseColumn):
    """Twice a feature of two numbers."""

    name = "doubled"

    @property
    def _parse_example_spec(self):
        return {"x": hf.FixedLenFeature((2,), hf.float32)}

    def _transform_feature(self, inputs):
        return 2 * inputs.get("x")

    @property
    def _variable_shape(self):
        return hf.TensorShape([2])

    def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
        return inputs.get(self)


class Chosen(module._CategoricalColumn):
    """Ids that a feature already has."""

    name = "chosen"
    _num_buckets = 4
    _parse_example_spec = {"k": hf.VarLenFeature(hf.int64)}  # noqa: RUF012

    def _transform_feature(self, inputs):
        return inputs.get("k")

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        return module._CategoricalColumn.IdWeightPair(inputs.get(self), None)


def test_columns_that_a_program_defines():
    x = np.array([[1.0, 2], [3, 4]], np.float32)
    ids = hf.SparseTensorValue([[0, 0], [1, 0], [1, 1]], np.array([2, 0, 3]), [2, 2])
    features = {"x": x, "k": ids}
    many_hot = fc.indicator_column(Chosen())
    layer = fc.input_layer(features, [many_hot, Doubled()])
    np.testing.assert_array_equal(run(layer), [[0, 0, 1, 0, 2, 4], [1, 0, 0, 1, 6, 8]])
    made = {}
    sums = fc.linear_model(features, [Chosen(), Doubled()], cols_to_vars=made)
    assert [v.shape.as_list() for column in made for v in made[column]] == [[4, 1], [2, 1], [1]]
    assert sums.shape.as_list() == [2, 1]
    assert sorted(fc.make_parse_example_spec([Doubled(), many_hot])) == ["k", "x"]
    with pytest.raises(NotImplementedError, match="_get_dense_tensor"):
        fc.input_layer(features, [type("Bare", (module._DenseColumn,), {"name": "b"})()])


def test_fields_of_columns_are_read_by_the_names_of_their_arguments():
    words = fc.categorical_column_with_vocabulary_list("w", np.array([5, 7, 9]), num_oov_buckets=1)
    embedded = fc.embedding_column(words, 3)
    assert words.num_oov_buckets == 1 and words.vocabulary_list == (5, 7, 9)
    assert embedded.categorical_column is words and embedded.dimension == 3
    assert fc.categorical_column_with_hash_bucket("h", 11).hash_bucket_size == 11
    with pytest.raises(AttributeError, match="dimensions"):
        _ = embedded.dimensions
    with pytest.raises(ValueError, match="key must be a string"):
        fc.numeric_column(("a",))


@pytest.mark.parametrize("x, want", [([1.0, 2.0], [[1], [2]]), ([[1.0], [2.0]], [[1], [2]])])
def test_features_of_unknown_rank(x, want):
    dense, sparse = hf.placeholder(hf.float32), hf.sparse_placeholder(hf.string)
    words = fc.categorical_column_with_vocabulary_list("s", ["a", "b"])
    layer = fc.input_layer({"x": dense, "s": sparse},
                           [fc.numeric_column("x"), fc.indicator_column(words)])
    for indices, shape in (([[0], [1]], [2]), ([[0, 0], [1, 0]], [2, 1])):
        given = hf.SparseTensorValue(indices, ["b", "a"], shape)
        got = run(layer, {dense: x, sparse: given})
        np.testing.assert_array_equal(got, np.hstack([[[0, 1], [1, 0]], want]))
    with pytest.raises(hf.errors.InvalidArgumentError, match="cannot have rank 0"):
        run(layer, {dense: 1.0, sparse: given})


def test_dense_weights_may_be_negative_and_those_of_0_stand_for_none():
    ids = fc.categorical_column_with_identity("k", 3)
    column = fc.weighted_categorical_column(ids, "w")
    layer = fc.input_layer({"k": [[0, 1], [2, -1]], "w": [[-1.0, 2.0], [-1.0, 0.0]]},
                           [fc.indicator_column(column)])
    np.testing.assert_array_equal(run(layer), [[-1, 2, 0], [0, 0, -1]])


def test_batches_of_other_sizes_are_refused_when_built():
    with pytest.raises(ValueError, match=r"Batch size of columns \(a, b\): \(2, 3\)"):
        fc.input_layer({"a": np.zeros([2, 1]), "b": np.zeros([3, 1])},
                       [fc.numeric_column("a"), fc.numeric_column("b")])
