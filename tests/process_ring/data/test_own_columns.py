"""Feature columns that programs define, fields of columns, features of unknown rank."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import feature_column as fc
from hpcflow.python.feature_column import feature_column as module
from hpcflow.python.feature_column import feature_column_v2 as fc_v2


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


def test_weights_that_are_not_positive_count_in_sums_alone():
    table = hf.constant([[1.0], [10.0], [100.0]])
    places = [[0, 0], [0, 1], [1, 0], [2, 0]]
    ids = hf.SparseTensor(places, np.array([0, 1, 2, -1]), [4, 2])
    weights = hf.SparseTensor(places, [1.0, -1.0, 0.0, 2.0], [4, 2])
    for combiner, want in (("sum", 1 - 10), ("mean", 1), ("sqrtn", 1)):
        got = run(hf.contrib.layers.safe_embedding_lookup_sparse(table, ids, weights, combiner))
        np.testing.assert_array_equal(got.ravel(), [want, 0, 0, 0])


class Later(fc_v2.DenseColumn):
    """Three times a feature, by the names of later releases."""

    name = "later"
    parse_example_spec = {"x": hf.FixedLenFeature((2,), hf.float32)}  # noqa: RUF012
    variable_shape = hf.TensorShape([2])

    def transform_feature(self, transformation_cache, state_manager):
        return 3 * transformation_cache.get("x", state_manager)

    def get_dense_tensor(self, transformation_cache, state_manager):
        return transformation_cache.get(self, state_manager)


def test_columns_by_the_names_of_later_releases():
    layer = fc.input_layer({"x": [[1.0, 2]]}, [Later(), Doubled()])
    np.testing.assert_array_equal(run(layer), [[2, 4, 3, 6]])
    assert fc.make_parse_example_spec([Later()]) == Later.parse_example_spec
    ids = fc.categorical_column_with_identity("k", 5)
    embedded = fc.embedding_column(ids, 3)
    assert ids.parse_example_spec == {"k": hf.VarLenFeature(hf.int64)} and ids.num_buckets == 5
    assert embedded.variable_shape.as_list() == [3] and embedded.parents == [ids]
    cache = fc_v2.FeatureTransformationCache({"k": [[4]]})
    manager = fc_v2._StateManagerImpl(hf.keras.layers.Layer(), trainable=True)
    embedded.create_state(manager)
    assert embedded.get_dense_tensor(cache, manager).shape.as_list() == [1, 3]
    assert run(ids.get_sparse_tensors(cache, manager).id_tensor).values.tolist() == [4]
    with pytest.raises(ValueError, match="already exists"):
        embedded.create_state(manager)


class Kept(fc_v2.StateManager):
    """A manager of a program's own, whose tables are constants."""

    def create_variable(self, feature_column, name, shape, **others):
        self.table = hf.constant(np.arange(np.prod(shape)).reshape(shape), hf.float32)

    def get_variable(self, feature_column, name):
        return self.table


def test_layers_of_models_read_columns():
    features = {"x": [[1.0, 2], [3, 4]], "k": [[0, 1], [2, -1]], "w": [[-1.0, 2.0], [-1.0, 0.0]]}
    ids = fc.categorical_column_with_identity("k", 3)
    weighted = fc.indicator_column(fc.weighted_categorical_column(ids, "w"))
    numbers = fc.numeric_column("x", 2)
    layer = hf.keras.layers.DenseFeatures([numbers, weighted, fc.embedding_column(ids, 2)])
    first, again = layer(features), layer(features)
    assert first.shape.as_list() == [2, 7]
    assert [v.shape.as_list() for v in layer.weights] == [[3, 2]]
    got = run([first, again])
    np.testing.assert_array_equal(got[0][:, 2:], [[-1, 2, 0, 1, 2], [0, 0, -1, 3, 4]])
    np.testing.assert_array_equal(*got)
    copied = hf.keras.layers.DenseFeatures.from_config(layer.get_config())
    assert copied.get_config() == layer.get_config()
    more = dict(features, w=[[-1.0, 2.0], [-1.0, 5.0]])
    with pytest.raises(hf.errors.InvalidArgumentError, match="Select"):
        run(hf.keras.layers.DenseFeatures([weighted])(more))
    with pytest.raises(ValueError, match="must be a DenseColumn"):
        hf.keras.layers.DenseFeatures([ids])
    with pytest.raises(ValueError, match="expected a dictionary"):
        layer([[1.0, 2.0]])
    own, embedded = Kept(), fc.embedding_column(ids, 2)
    embedded.create_state(own)
    cache = fc_v2.FeatureTransformationCache(features)
    np.testing.assert_array_equal(run(embedded.get_dense_tensor(cache, own)), [[1, 2], [4, 5]])


def test_a_linear_model_that_is_called_twice_has_one_set_of_variables():
    ids, numbers = fc.categorical_column_with_identity("k", 3), fc.numeric_column("x", 2)
    features = {"x": [[1.0, 2], [3, 4]], "k": [[0, 1], [2, -1]]}
    for model, made in ((fc_v2.LinearModel([ids, numbers]), lambda m: m.weights),
                        (module._LinearModel([ids, numbers]), lambda m: hf.global_variables())):
        with hf.Graph().as_default(), hf.Session() as session:
            first, again = model(features), model(features)
            weights, bias = made(model)[:2], made(model)[-1]
            assert [v.shape.as_list() for v in made(model)] == [[3, 1], [2, 1], [1]]
            session.run(hf.global_variables_initializer())
            session.run([weights[0].assign([[1.0], [10], [100]]), weights[1].assign([[1.0], [-1]]),
                         bias.assign([5.0])])
            assert session.run([first, again])[1].ravel().tolist() == [15, 104]


def test_features_that_do_not_have_the_columns_shape_are_refused():
    with pytest.raises(ValueError, match="Cannot reshape a tensor with 2 elements"):
        fc.input_layer({"x": [[1.0], [5.0]]}, [fc.numeric_column("x", 2)])


def test_shared_tables_are_one_variable_of_each_graph():
    one, two = (fc.categorical_column_with_identity(key, 3) for key in "kj")
    columns = fc_v2.shared_embedding_columns_v2([one, two], 2)
    for _ in range(2):
        with hf.Graph().as_default():
            for _ in range(2):
                hf.keras.layers.DenseFeatures(columns)({"k": [[0]], "j": [[1]]})
            assert [v.name for v in hf.global_variables()] == ["j_k_shared_embedding:0"]


def test_features_are_made_sparse_as_columns_make_them(graph):
    words = module._to_sparse_input_and_drop_ignore_values([["a", ""], ["", ""], ["b", "c"]])
    numbers = module._to_sparse_input_and_drop_ignore_values(hf.constant([[0, -1], [2, 3]]))
    parts = module._to_sparse_input_and_drop_ignore_values(hf.constant([[0.5, 0.0]]))
    others = fc_v2._to_sparse_input_and_drop_ignore_values(hf.constant([[0, 7]]), 7)
    with hf.Session() as session:
        assert session.run(words).values.tolist() == [b"a", b"b", b"c"]
        assert session.run(numbers).indices.tolist() == [[0, 0], [1, 0], [1, 1]]
        assert session.run(parts).values.tolist() == [0.5]
        assert session.run(others).values.tolist() == [0]
