"""Feature columns, and the layers that read them."""

import numpy as np
import pytest

import hpcflow as hf

fc = hf.feature_column

AGES = [23.0, 31.0, 64.0]


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def cities():
    return hf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "b", "other"], [3, 2])


def run(session, value):
    session.run([hf.global_variables_initializer(), hf.tables_initializer()])
    return session.run(value)


def indicated(session, column, features):
    """How often each id of `column` occurs."""
    return run(session, fc.input_layer(features, [fc.indicator_column(column)])).tolist()


def test_numbers_are_normalized_and_stand_in_the_order_of_names(session):
    columns = [fc.numeric_column("v", shape=(2,)),
               fc.numeric_column("age", normalizer_fn=lambda x: (x - 31) / 8)]
    features = {"age": hf.constant(AGES), "v": hf.constant([[1, 2], [3, 4], [5, 6]])}
    x = fc.input_layer(features, columns)
    assert x.shape.as_list() == [3, 3]
    np.testing.assert_allclose(run(session, x), [[-1, 1, 2], [0, 3, 4], [4.125, 5, 6]])


def test_buckets_begin_at_their_boundaries(session):
    vector = fc.numeric_column("v", shape=2)
    column = fc.bucketized_column(vector, [0, 10])
    features = {"v": hf.constant([[-1.0, 0.0], [10.0, 9.0]])}
    assert run(session, fc.input_layer(features, [column])).tolist() == [
        [1, 0, 0, 0, 1, 0], [0, 0, 1, 0, 1, 0]]
    # Each place of the vector has ids of its own.
    weights: dict = {}
    y = fc.linear_model(features, [column], cols_to_vars=weights)
    run(session, y)
    session.run(weights[column][0].assign([[1], [2], [4], [8], [16], [32]]))
    assert session.run(y).tolist() == [[17], [20]]


def test_ids_by_vocabularies(session, tmp_path):
    features = {"city": cities(), "number": hf.constant([7, 5, 1])}
    names = fc.categorical_column_with_vocabulary_list("city", ["b", "a"])
    assert indicated(session, names, features) == [[0, 1], [1, 0], [0, 0]]
    known = fc.categorical_column_with_vocabulary_list("city", ["b", "a"], default_value=1)
    assert indicated(session, known, features) == [[0, 1], [1, 1], [0, 0]]
    more = fc.categorical_column_with_vocabulary_list("city", ["b", "a"], num_oov_buckets=1)
    assert indicated(session, more, features) == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    numbers = fc.categorical_column_with_vocabulary_list("number", [5, 7])
    assert indicated(session, numbers, features) == [[0, 1], [1, 0], [0, 0]]
    (tmp_path / "words").write_text("a\nother\nb\n")
    lines = fc.categorical_column_with_vocabulary_file("city", str(tmp_path / "words"))
    assert indicated(session, lines, features) == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    first = fc.categorical_column_with_vocabulary_file("city", str(tmp_path / "words"), 1, 1)
    assert indicated(session, first, features) == [[1, 0], [0, 2], [0, 0]]


def test_ids_by_hashes_leave_out_what_is_missing_in_dense_features(session):
    for kind, values in ((hf.string, [["x", ""], ["x", "y"]]), (hf.int64, [[3, -1], [3, 4]])):
        column = fc.categorical_column_with_hash_bucket("f", 50, dtype=kind)
        got = np.array(indicated(session, column, {"f": hf.constant(values, kind)}))
        text = [["x"], ["x", "y"]] if kind is hf.string else [["3"], ["3", "4"]]
        want = np.zeros((2, 50))
        for row, each in enumerate(text):
            np.add.at(want[row], session.run(hf.string_to_hash_bucket_fast(each, 50)), 1)
        np.testing.assert_array_equal(got, want)


def test_ids_that_are_the_numbers(session):
    features = {"n": hf.constant([[0, 2], [1, 3]])}
    with_default = fc.categorical_column_with_identity("n", 3, default_value=1)
    assert indicated(session, with_default, features) == [[1, 0, 1], [0, 2, 0]]
    with pytest.raises(hf.errors.InvalidArgumentError, match="num_buckets"):
        indicated(session, fc.categorical_column_with_identity("n", 3), features)


def test_crossed_ids_are_hashes_of_combinations(session):
    ages = fc.bucketized_column(fc.numeric_column("age"), [30, 50])
    crossed = fc.crossed_column([ages, "city"], 40)
    assert crossed.name == "age_bucketized_X_city"
    features = {"age": hf.constant(AGES), "city": cities()}
    got = np.array(indicated(session, crossed, features))
    buckets = hf.SparseTensor([[0, 0], [1, 0], [2, 0]], np.array([0, 1, 2]), [3, 1])
    hashed = session.run(hf.sparse.cross_hashed([buckets, cities()], 40))
    want = np.zeros((3, 40))
    np.add.at(want, (hashed.indices[:, 0], hashed.values), 1)
    np.testing.assert_array_equal(got, want)
    assert fc.crossed_column([crossed, "z"], 5).name == "age_bucketized_X_city_X_z"


def test_embeddings_are_combined_by_weight(session):
    names = fc.categorical_column_with_vocabulary_list("city", ["a", "b", "other"])
    weighted = fc.weighted_categorical_column(names, "w")
    weights = hf.SparseTensor([[0, 0], [1, 0], [1, 1]], [2.0, 1.0, 3.0], [3, 2])
    table = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    columns = [fc.embedding_column(c, 2, combiner=how, initializer=hf.constant_initializer(table))
               for c, how in ((names, "mean"), (weighted, "sum"))]
    x = fc.input_layer({"city": cities(), "w": weights}, columns)
    np.testing.assert_allclose(run(session, x), [
        [1, 2, 2, 4], [4, 5, 18, 22], [0, 0, 0, 0]])
    assert [v.op.name for v in hf.trainable_variables()] == [
        "input_layer/city_embedding/embedding_weights",
        "input_layer/city_weighted_by_w_embedding/embedding_weights"]
    indicator = fc.indicator_column(weighted)
    assert run(session, fc.input_layer({"city": cities(), "w": weights}, [indicator])).tolist() == [
        [2, 0, 0], [0, 1, 3], [0, 0, 0]]


def test_columns_share_a_table(session):
    one = fc.categorical_column_with_identity("one", 3)
    two = fc.categorical_column_with_identity("two", 3)
    columns = fc.shared_embedding_columns([two, one], 2)
    assert [c.name for c in columns] == ["two_shared_embedding", "one_shared_embedding"]
    features = {"one": hf.constant([0, 1]), "two": hf.constant([1, 2])}
    x, again = run(session, [fc.input_layer(features, columns), fc.input_layer(features, columns)])
    assert [v.op.name for v in hf.global_variables()] == [
        "input_layer/one_two_shared_embedding/embedding_weights"]
    np.testing.assert_array_equal(x[1, :2], x[0, 2:])
    np.testing.assert_array_equal(x, again)


def test_a_linear_model_learns(session):
    """The weight of a number and those of ids, of examples with none, one and two."""
    names = fc.categorical_column_with_vocabulary_list("city", ["a", "b", "other"])
    columns: list = [fc.numeric_column("age"), names]
    found: dict = {}
    features = {"age": hf.constant([1.0, 2.0, 3.0]), "city": cities()}
    y = fc.linear_model(features, columns, cols_to_vars=found)
    loss = hf.losses.mean_squared_error([[3.0], [5.0], [2.0]], y)
    train = hf.train.GradientDescentOptimizer(0.1).minimize(loss)
    assert run(session, y).tolist() == [[0], [0], [0]]
    for _ in range(300):
        session.run(train)
    assert session.run(loss) < 1e-3
    assert [v.op.name for v in (*found[columns[0]], *found[names], *found["bias"])] == [
        "linear_model/age/weights", "linear_model/city/weights", "linear_model/bias_weights"]


def test_weights_may_be_partitioned(session):
    column = fc.embedding_column(fc.categorical_column_with_identity("n", 5), 2,
                                 initializer=hf.ones_initializer())
    with hf.variable_scope("", partitioner=hf.fixed_size_partitioner(2)):
        x = fc.input_layer({"n": hf.constant([[0, 4], [2, 2]])}, [column])
    assert run(session, x).tolist() == [[1, 1], [1, 1]]
    assert len(hf.global_variables()) == 2
    found: dict = {}
    fc.linear_model({"n": hf.constant([[0, 4], [2, 2]])}, [column], cols_to_vars=found)
    assert [v.op.name.split("/")[-1] for v in found[column]] == ["weights", "embedding_weights"]


def test_features_of_examples_are_parsed_as_columns_need(session):
    names = fc.categorical_column_with_vocabulary_list("city", ["a", "b"])
    columns = [fc.numeric_column("age", default_value=7.0), fc.indicator_column(names),
               fc.bucketized_column(fc.numeric_column("v", shape=2), [0])]
    spec = fc.make_parse_example_spec(columns)
    assert spec == {"age": hf.FixedLenFeature((1,), hf.float32, (7.0,)),
                    "city": hf.VarLenFeature(hf.string),
                    "v": hf.FixedLenFeature((2,), hf.float32, None)}
    example = hf.train.Example()
    example.features.feature["city"].bytes_list.value.extend([b"b", b"b"])
    example.features.feature["v"].float_list.value.extend([1, -1])
    x = fc.input_layer(hf.parse_example([example.SerializeToString()], spec), columns)
    assert run(session, x).tolist() == [[7, 0, 2, 0, 1, 1, 0]]
    with pytest.raises(ValueError, match="different parse_spec"):
        fc.make_parse_example_spec([columns[0], fc.numeric_column("age")])


@pytest.mark.parametrize(("build", "error", "text"), [
    (lambda: fc.numeric_column("x", shape=0), ValueError, "greater than 0"),
    (lambda: fc.numeric_column("x", shape=1.5), TypeError, "must be integer"),
    (lambda: fc.numeric_column("x", dtype=hf.string), ValueError, "convertible to float"),
    (lambda: fc.numeric_column("x", 2, [1.0]), ValueError, "equal to given shape"),
    (lambda: fc.numeric_column("x", default_value="a"), TypeError, "compatible with dtype"),
    (lambda: fc.bucketized_column("x", [1]), ValueError, "numeric_column"),
    (lambda: fc.bucketized_column(fc.numeric_column("x"), [2, 1]), ValueError, "sorted list"),
    (lambda: fc.categorical_column_with_hash_bucket("x", 0), ValueError, "at least 1"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", []), ValueError, "non-empty"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", ["a", "a"]), ValueError, "Duplicate"),
    (lambda: fc.categorical_column_with_vocabulary_list("x", ["a"], default_value=0,
                                                        num_oov_buckets=1), ValueError, "both"),
    (lambda: fc.categorical_column_with_identity("x", 2, 2), ValueError, "not in range"),
    (lambda: fc.crossed_column(["x"], 5), ValueError, "length > 1"),
    (lambda: fc.crossed_column([fc.categorical_column_with_hash_bucket("x", 5), "y"], 5),
     ValueError, "not supported for crossing"),
    (lambda: fc.indicator_column(fc.numeric_column("x")), ValueError, "categorical column"),
    (lambda: fc.embedding_column(fc.categorical_column_with_identity("x", 2), 0), ValueError,
     "Invalid dimension"),
    (lambda: fc.input_layer({}, []), ValueError, "must not be empty"),
    (lambda: fc.input_layer({}, [fc.numeric_column("x")]), ValueError, "not in features"),
    (lambda: fc.input_layer({}, [fc.categorical_column_with_identity("x", 2)]), ValueError,
     "wrap a categorical"),
    (lambda: fc.input_layer({}, [fc.numeric_column("x"), fc.numeric_column("x", 2)]), ValueError,
     "Duplicate feature column name"),
    (lambda: fc.input_layer({"x": hf.constant(1.0)}, [fc.numeric_column("x")]), ValueError,
     "cannot have rank 0"),
    (lambda: fc.input_layer({"x": hf.constant([1.0])}, [fc.indicator_column(
        fc.categorical_column_with_hash_bucket("x", 5))]), ValueError, "must be string or int"),
])  # fmt: skip
def test_bad_columns_are_refused(build, error, text):
    with pytest.raises(error, match=text):
        build()


# ---------------------------------------------------------------- sequences


def _steps(rows):
    places = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    return hf.SparseTensor(places, [v for row in rows for v in row],
                           [len(rows), max(map(len, rows))])


def test_sequences_are_read_step_by_step_and_trained():
    column = hf.feature_column.sequence_categorical_column_with_identity("id", 3)
    numbers = hf.feature_column.sequence_numeric_column("number")
    features = {"id": _steps([[0, 2], [1]]), "number": _steps([[5.0, 6.0], [7.0]])}
    values, lengths = hf.contrib.feature_column.sequence_input_layer(
        features, [hf.feature_column.embedding_column(
            column, 2, initializer=hf.ones_initializer()), numbers])
    (variable,) = hf.trainable_variables()
    gradient = hf.gradients(values, variable)[0]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        found, steps, grad = session.run([values, lengths, hf.convert_to_tensor(gradient)])
    assert found.tolist() == [[[1, 1, 5], [1, 1, 6]], [[1, 1, 7], [0, 0, 0]]]
    assert steps.tolist() == [2, 1] and grad.tolist() == [[1, 1], [1, 1], [1, 1]]
    spec = hf.feature_column.make_parse_example_spec(
        [hf.feature_column.indicator_column(column), numbers])
    assert spec == {"id": hf.VarLenFeature(hf.int64), "number": hf.VarLenFeature(hf.float32)}


def test_sequences_that_do_not_fit():
    columns, layer = hf.feature_column, hf.contrib.feature_column.sequence_input_layer
    ids = columns.sequence_categorical_column_with_identity("id", 3)
    features = {"id": _steps([[0, 2], [1]]), "number": _steps([[5.0], [7.0, 8.0]])}
    indicator = columns.indicator_column(ids)
    with pytest.raises(ValueError, match="must not be of type SequenceCategoricalColumn"):
        columns.input_layer(features, [indicator])
    with pytest.raises(ValueError, match="must be of type _SequenceDenseColumn"):
        layer(features, [ids])
    with pytest.raises(ValueError, match="must be of type SequenceCategoricalColumn"):
        layer(features, [columns.indicator_column(
            columns.categorical_column_with_identity("id", 3))])
    with pytest.raises(TypeError, match="must be integer"):
        columns.sequence_numeric_column("number", 1.5)
    _, lengths = layer(features, [indicator, columns.sequence_numeric_column("number")])
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="differ in"):
        session.run(lengths)
