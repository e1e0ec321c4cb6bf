"""Columns of ``contrib.layers``: ids, sums and names of variables are those of 1.15."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

layers = hf.contrib.layers
WORDS = [["a", "b"], ["c", ""], ["", ""], ["b", "zz"]]
INTS = [[1, 5], [7, -1], [12, 3], [0, 0]]
NUMBERS = np.arange(12.0).reshape(4, 3)


def features():
    return {"w": hf.constant(WORDS), "i": hf.constant(INTS), "n": hf.constant(NUMBERS)}


def ids_of(session, column):
    """The ids of each example, by the rows that a weighted sum adds up."""
    found, _, _ = layers.weighted_sum_from_feature_columns(features(), [column], column.length)
    table = hf.trainable_variables()[0]
    session.run(hf.global_variables_initializer())
    session.run(hf.tables_initializer())
    session.run(hf.assign(table, np.eye(column.length)))
    return [np.repeat(np.arange(column.length), row.astype(int)).tolist()
            for row in session.run(found)]


W = layers.sparse_column_with_hash_bucket("w", 20)
WHOLE = layers.sparse_column_with_integerized_feature("i", 6)
N = layers.real_valued_column("n", dimension=3)
B = layers.bucketized_column(N, [2.0, 8.0])
CROSSED = layers.crossed_column([W, WHOLE], 50)
# The variables that 1.15.5 makes for the layers below, in this order.
VARIABLES = [
    ["input_from_feature_columns/i_X_w_embedding/weights", [50, 2]],
    ["input_from_feature_columns/w_embedding/weights", [20, 3]],
    ["weighted_sum_from_feature_columns/n_bucketized/weights", [9, 2]],
    ["weighted_sum_from_feature_columns/i_X_w/weights", [50, 2]],
    ["weighted_sum_from_feature_columns/n/weight", [3, 2]],
    ["weighted_sum_from_feature_columns/w/weights", [20, 2]],
    ["weighted_sum_from_feature_columns/bias_weight", [2]]]


@pytest.mark.parametrize(("column", "expected"), [
    (W,
     [[2, 19], [12], [], [2, 2]]),
    (WHOLE,
     [[1, 5], [1], [0, 3], [0, 0]]),
    (layers.sparse_column_with_keys("w", ["a", "b", "c"]),
     [[0, 1], [2], [], [1]]),
    (CROSSED,
     [[0, 8, 9, 25], [3, 5, 12, 28], [12, 12, 19, 19], [19, 19, 45, 45]]),
    (layers.crossed_column([W, WHOLE], 50, hash_key=956888297470),
     [[7, 12, 36, 45], [4, 35, 45, 47], [5, 5, 31, 31], [15, 15, 43, 43]]),
    (layers.crossed_column([B, W, CROSSED], 97),
     [[9, 16, 23, 26, 26, 27, 28, 30, 33, 42, 47, 54, 54, 57, 61, 62, 66, 69, 72, 78, 83, 84, 84,
     93], [12, 16, 18, 20, 23, 27, 27, 27, 32, 33, 35, 43, 44, 52, 57, 71, 71, 74, 80, 81,
     87, 88, 91, 95], [9, 9, 9, 9, 34, 34, 34, 34, 34, 34, 34, 34, 42, 42, 42, 42, 80, 80,
     80, 80, 92, 92, 92, 92], [4, 4, 16, 16, 19, 19, 20, 20, 25, 25, 40, 40, 56, 56, 71, 71,
     73, 73, 76, 76, 79, 79, 86, 86]]),
    (layers.sparse_column_with_hash_bucket("w", 13, hash_keys=[[1, 2], [3, 4]]),
     [[0, 2, 2, 11], [7, 9], [], [0, 2, 8, 12]])],
    ids=["hashes", "integers", "keys", "crossed", "keyed", "of three", "two keys"])
def test_ids(session, column, expected):
    assert ids_of(session, column) == expected


def test_variables_have_the_names_and_order_of_1x():
    deep = [layers.embedding_column(W, 3), layers.one_hot_column(WHOLE), N, B,
            layers.embedding_column(CROSSED, 2)]
    layers.input_from_feature_columns(features(), deep)
    _, variables, bias = layers.weighted_sum_from_feature_columns(
        features(), (column for column in (W, N, B, CROSSED)), 2)
    assert [[v.op.name, v.shape.as_list()] for v in hf.global_variables()] == VARIABLES
    assert set(variables) == {W, N, B, CROSSED} and bias.shape.as_list() == [2]


def test_numbers_counts_and_embeddings_stand_beside_each_other(session):
    ones = hf.ones_initializer()
    columns = [layers.one_hot_column(WHOLE), N, B,
               *layers.shared_embedding_columns([W, layers.sparse_column_with_hash_bucket(
                   "more", 20)], 2, initializer=ones, combiner="sum")]
    outputs = {}
    found = layers.input_from_feature_columns(
        {**features(), "more": hf.constant([["a"], [""], ["b"], ["c"]])}, columns,
        cols_to_outs=outputs)
    session.run(hf.global_variables_initializer())
    numbers = {column.name: value for column, value in session.run(outputs).items()}
    np.testing.assert_array_equal(numbers["n"], NUMBERS)
    assert numbers["i_one_hot"][:2].tolist() == [[0, 1, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0]]
    assert numbers["n_bucketized"][2].tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 1]
    assert numbers["w_shared_embedding"].tolist() == [[2, 2], [1, 1], [0, 0], [2, 2]]
    assert session.run(found).shape == (4, 6 + 3 + 9 + 4)
    assert [v.op.name for v in hf.global_variables()] == [
        "input_from_feature_columns/more_shared_embedding/more_w_shared_embedding"]


def test_layers_of_feature_column_read_these_columns(session):
    found = [hf.feature_column.linear_model(features(), [W, B, CROSSED]),
             hf.feature_column.input_layer(features(), [
                 N, layers.one_hot_column(W), hf.feature_column.indicator_column(WHOLE)])]
    session.run(hf.global_variables_initializer())
    assert [x.shape for x in session.run(found)] == [(4, 1), (4, 29)]


def test_examples_are_parsed_for_columns(session):
    weighted = layers.weighted_sparse_column(W, "weights")
    spec = layers.create_feature_spec_for_parsing([weighted, B])
    assert spec == {"w": hf.VarLenFeature(hf.string), "weights": hf.VarLenFeature(hf.float32),
                    "n": hf.FixedLenFeature([3], hf.float32)}
    example = hf.train.Example()
    example.features.feature["w"].bytes_list.value.extend([b"a", b"b"])
    example.features.feature["weights"].float_list.value.extend([2.0, 3.0])
    example.features.feature["n"].float_list.value.extend([0.0, 5.0, 9.0])
    read = layers.parse_feature_columns_from_examples([example.SerializeToString()], [weighted, B])
    sums, _, _ = layers.weighted_sum_from_feature_columns(read, [weighted], 1)
    session.run(hf.global_variables_initializer())
    session.run(hf.assign(hf.trainable_variables()[0], np.ones((20, 1))))
    assert session.run(sums).tolist() == [[5.0]]
    assert session.run(read[B]).tolist() == [[0, 1, 2]]
    made = layers.make_place_holder_tensors_for_base_features([weighted, B])
    assert made["n"].shape.as_list() == [None, 3] and made["w"].dtype == hf.string


@pytest.mark.parametrize(("error", "message", "wrong"), [
    (ValueError, "greater than 0", lambda: layers.real_valued_column("a", dimension=0)),
    (ValueError, "equal to dimension", lambda: layers.real_valued_column("a", 2, [1])),
    (TypeError, "compatible with dtype",
     lambda: layers.real_valued_column("a", default_value=1.5, dtype=hf.int64)),
    (TypeError, "_RealValuedColumn", lambda: layers.bucketized_column(W, [1])),
    (ValueError, "sorted list", lambda: layers.bucketized_column(N, [2, 1])),
    (ValueError, "at least 2 elements", lambda: layers.crossed_column([W], 10)),
    (TypeError, "columns must be a set", lambda: layers.crossed_column([W, N], 10)),
    (ValueError, "not compatible", lambda: layers.shared_embedding_columns([W, WHOLE], 2)),
    (ValueError, "one_hot_column", lambda: layers.input_from_feature_columns(features(), [W])),
    (ValueError, "not supported in linear", lambda: layers.weighted_sum_from_feature_columns(
        features(), [layers.embedding_column(W, 2)], 1)),
    (ValueError, "Duplicate feature column", lambda: layers.input_from_feature_columns(
        features(), [N, layers.real_valued_column("n", dimension=3)])),
    (KeyError, "n", lambda: layers.input_from_feature_columns({"w": hf.constant(WORDS)}, [N]))])
def test_wrong_columns_are_refused(error, message, wrong):
    with pytest.raises(error, match=message):
        wrong()
