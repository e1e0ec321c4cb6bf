"""Lookup tables: initializers, lookups, changes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import lookup


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def test_constant_table():
    table = lookup.HashTable(lookup.KeyValueTensorInitializer(
        ["a", "b", "c"], np.int64([10, 20, 30])), -1, name="t")
    found = table.lookup([["b", "x"], ["a", "c"]])
    assert found.shape.as_list() == [2, 2] and found.dtype is hf.int64
    with hf.Session() as session:
        with pytest.raises(hf.errors.FailedPreconditionError, match="Table not initialized"):
            session.run(found)
        assert session.run(table.size()) == 0
        session.run(hf.tables_initializer())
        np.testing.assert_array_equal(session.run(found), [[20, -1], [10, 30]])
        assert session.run(table.lookup(hf.constant("c"))) == 30
        assert session.run(table.size()) == 3
        session.run(table.init)  # the same data again
    with pytest.raises(TypeError, match="must be string"):
        table.lookup(hf.constant([1, 2]))


def test_initializing_again():
    def made(keys, values):
        return lookup.HashTable(lookup.KeyValueTensorInitializer(keys, values), -1.0,
                                shared_name="one")

    first = made(np.int64([1, 2]), [0.5, 1.5])
    other, repeated = made(np.int64([1, 3]), [0.5, 1.5]), made(np.int64([1, 1]), [0.5, 1.5])
    with hf.Session() as session:
        with pytest.raises(hf.errors.FailedPreconditionError, match=r"Key 1 has 0\.5 and trying"):
            session.run(repeated.init)
        session.run(first.init)
        with pytest.raises(hf.errors.FailedPreconditionError, match="already initialized with"):
            session.run(other.init)
        insert = hf.raw_ops.LookupTableInsert(table_handle=first.table_ref, keys=np.int64([9]),
                                              values=[1.0])
        with pytest.raises(hf.errors.UnimplementedError):
            session.run(insert)
    with pytest.raises(ValueError):
        made(np.int64([1, 2]), [0.5])


def test_no_tables():
    with hf.Session() as session:
        session.run(hf.tables_initializer())


@pytest.mark.parametrize(("size", "count"), [(None, 3), (2, 2)])
def test_vocabulary_files(tmp_path, size, count):
    path = tmp_path / "words"
    path.write_text("x\ny\nz\n")
    ids = lookup.index_table_from_file(str(path), vocab_size=size)
    words = lookup.index_to_string_table_from_file(str(path), vocab_size=size)
    with hf.Session() as session:
        session.run(hf.tables_initializer())
        assert session.run(ids.size()) == count
        np.testing.assert_array_equal(
            session.run(ids.lookup(["z", "x"])), [2 if count == 3 else -1, 0])
        assert session.run(words.lookup(np.int64([1, 7]))).tolist() == [b"y", b"UNK"]


def test_integers_as_whole_lines(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("42\n1\n-1000\n")
    placeholder = hf.placeholder(hf.string, [])
    table = lookup.index_table_from_file(placeholder, num_oov_buckets=1, key_dtype=hf.int64)
    assert not hf.get_collection(hf.GraphKeys.ASSET_FILEPATHS)  # no file is known
    with hf.Session() as session:
        session.run(hf.tables_initializer(), {placeholder: str(path)})
        assert session.run(table.lookup(np.int64([1, -1000, 11]))).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="value dtype of whole lines must be string, got int64"):
        lookup.TextFileInitializer(str(path), hf.int64, -1, hf.int64, -2)


def test_columns_of_a_file(tmp_path):
    path = tmp_path / "table"
    path.write_text("a 1 2.5\nb 3 4.5\n")

    def table(value_dtype, column, default, **options):
        return lookup.HashTable(lookup.TextFileInitializer(
            str(path), hf.string, 0, value_dtype, column, delimiter=" ", **options), default)

    good = table(hf.float32, 2, -1.0)
    bad = [(table(hf.int64, 7, -1), "expected at least 8 got 3"),
           (table(hf.int64, 2, -1), "Field 2.5 in line 0 is not a valid int64"),
           (table(hf.int64, 1, -1, vocab_size=5), "expected 5 but got 2")]
    with hf.Session() as session:
        session.run(good.init)
        np.testing.assert_array_equal(session.run(good.lookup(["b", "a", "c"])), [4.5, 2.5, -1])
        for wrong, match in bad:
            with pytest.raises(hf.errors.InvalidArgumentError, match=match):
                session.run(wrong.init)
        missing = lookup.index_table_from_file(str(tmp_path / "missing"))
        with pytest.raises(hf.errors.NotFoundError, match="missing"):
            session.run(missing.init)
    with pytest.raises(ValueError, match="int64"):
        lookup.TextFileInitializer(str(path), hf.string, -1, hf.int64, -1)
    with pytest.raises(ValueError, match="string"):
        lookup.TextFileInitializer(str(path), hf.int64, -1, hf.int64, -2)


def test_tables_of_positions():
    ids = lookup.index_table_from_tensor(["p", "q"])
    names = lookup.index_to_string_table_from_tensor(["p", "q"], default_value="?")
    with hf.Session() as session:
        session.run(hf.tables_initializer())
        assert session.run(ids.lookup(["q", "r"])).tolist() == [1, -1]
        assert session.run(names.lookup(np.int64([0, 5]))).tolist() == [b"p", b"?"]


def test_a_table_that_changes():
    table = lookup.MutableHashTable(hf.string, hf.int64, -1)
    keys, values = hf.placeholder(hf.string), hf.placeholder(hf.int64)
    put, find, export = table.insert(keys, values), table.lookup(keys), table.export()
    with hf.Session() as session:
        assert session.run(table.size()) == 0
        session.run(put, {keys: [["a", "b"]], values: [[1, 2]]})
        session.run(put, {keys: "b", values: 7})
        np.testing.assert_array_equal(session.run(find, {keys: [["b"], ["q"]]}), [[7], [-1]])
        got = dict(zip(*[x.tolist() for x in session.run(export)], strict=True))
        assert got == {b"a": 1, b"b": 7}
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"\[2\] for value, got \[1\]"):
            session.run(put, {keys: ["a", "b"], values: [1]})
        replace = hf.raw_ops.LookupTableImport(table_handle=table.table_ref, keys=["z"],
                                               values=np.int64([9]))
        session.run(replace)
        assert session.run(export)[0].tolist() == [b"z"]


def test_a_table_of_vectors():
    table = lookup.MutableHashTable(hf.int64, hf.float32, [9.0, 9.0])
    put, find = table.insert(np.int64([1, 2]), [[1.0, 2.0], [3.0, 4.0]]), table.lookup(
        np.int64([2, 5]))
    assert find.shape.as_list() == [2, 2]
    with hf.Session() as session:
        session.run(put)
        np.testing.assert_array_equal(session.run(find), [[3, 4], [9, 9]])
        keys, values = session.run(table.export())
        np.testing.assert_array_equal(keys, [1, 2])
        np.testing.assert_array_equal(values, [[1, 2], [3, 4]])


def test_a_dense_table():
    table = lookup.MutableDenseHashTable(hf.int64, hf.float32, -1.0, empty_key=0,
                                         initial_num_buckets=4)
    keys = hf.placeholder(hf.int64)
    find = table.lookup(keys)
    with hf.Session() as session:
        session.run(table.insert(np.int64([1, 2]), [0.5, 1.5]))
        assert session.run(find, {keys: [2, 3]}).tolist() == [1.5, -1]
        with pytest.raises(hf.errors.InvalidArgumentError, match="empty_key"):
            session.run(find, {keys: [0]})
        pairs = lookup.MutableDenseHashTable(hf.int64, hf.int64, -1, empty_key=[0, 0])
        session.run(pairs.insert(np.int64([[1, 2], [3, 4]]), np.int64([12, 34])))
        found = pairs.lookup(np.int64([[3, 4], [4, 3]]))
        assert found.shape.as_list() == [2]
        assert session.run(found).tolist() == [34, -1]
        assert session.run(pairs.export())[0][:3].tolist() == [[1, 2], [3, 4], [0, 0]]
        odd = lookup.MutableDenseHashTable(hf.int64, hf.int64, -1, 0, initial_num_buckets=3)
        with pytest.raises(hf.errors.InvalidArgumentError, match="power of 2"):
            session.run(odd.size())


def test_a_dense_table_exports_its_buckets():
    table = lookup.MutableDenseHashTable(hf.int64, hf.int64, -1, empty_key=0, deleted_key=-1,
                                         initial_num_buckets=4)
    keys, values = table.export()
    with hf.Session() as session:
        session.run(table.insert(np.int64([11, 12, 13]), np.int64([1, 2, 3])))
        session.run(table.remove(np.int64([12])))
        assert session.run(keys).tolist() == [11, 13, -1, 0]
        assert session.run(values).tolist() == [1, 3, 2, 0]
        session.run(table.insert(np.int64([14, 15]), np.int64([4, 5])))
        assert session.run([keys, table.size()])[0].tolist() == [11, 13, 14, 15] + [0] * 4


def test_tables_of_one_file_are_shared(tmp_path):
    path = tmp_path / "words"
    path.write_text("a\nb\n")
    first, second = (lookup.index_table_from_file(str(path), num_oov_buckets=1) for _ in range(2))
    with hf.Session() as session:
        session.run(first.init)
        assert session.run(second.lookup(["b", "a", "c"])).tolist() == [1, 0, 2]


def test_types_are_checked_when_run():
    table = lookup.MutableHashTable(hf.string, hf.int64, -1)
    wrong = hf.raw_ops.LookupTableFind(table_handle=table.table_ref, keys=np.int64([1]),
                                       default_value=np.int64(0))
    with hf.Session() as session:
        with pytest.raises(hf.errors.InvalidArgumentError, match="maps string to int64"):
            session.run(wrong)


def test_sparse_keys():
    """The values stand at the places of the keys."""
    with hf.Graph().as_default(), hf.Session() as session:
        table = hf.contrib.lookup.index_table_from_tensor(hf.constant(["a", "b"]))
        keys = hf.SparseTensor([[0, 1], [2, 0]], ["b", "x"], [3, 2])
        session.run(hf.tables_initializer())
        found = session.run(table.lookup(keys))
    assert found.values.tolist() == [1, -1] and found.dense_shape.tolist() == [3, 2]


def test_ids_for_words_that_a_table_does_not_have(tmp_path):
    path = tmp_path / "words"
    path.write_text("p\nq\n")
    words = hf.constant(["q", "x", "y", "x"])
    for table in (lookup.index_table_from_tensor(["p", "q"], num_oov_buckets=3),
                  lookup.index_table_from_file(str(path), num_oov_buckets=3,
                                               hasher_spec=lookup.StrongHashSpec((1, 2)))):
        with hf.Session() as session:
            session.run(hf.tables_initializer())
            ids = session.run(table.lookup(words))
            assert ids[0] == 1 and ids[1] == ids[3] and all(2 <= i < 5 for i in ids[1:])
            assert session.run(table.size()) == 5
            sparse = session.run(table.lookup(hf.SparseTensor([[0, 1]], ["p"], [1, 2])))
            assert sparse.values.tolist() == [0]
    hashed = lookup.IdTableWithHashBuckets(None, 2)
    with hf.Session() as session:
        assert set(session.run(hashed.lookup(words))) <= {0, 1}


def test_ids_of_integers():
    table = lookup.index_table_from_tensor([30, 10], num_oov_buckets=1, dtype=hf.int32)
    with hf.Session() as session:
        session.run(hf.tables_initializer())
        assert session.run(table.lookup([10, 5])).tolist() == [1, 2]


@pytest.mark.parametrize("make, error, message", [
    (lambda: lookup.index_table_from_tensor(None), ValueError, "mapping must be specified"),
    (lambda: lookup.index_table_from_tensor([1.0]), TypeError, "Expected strings or integers"),
    (lambda: lookup.index_table_from_tensor(["a"], num_oov_buckets=-1), ValueError,
     "num_oov_buckets must be greater or equal than 0, got -1"),
    (lambda: lookup.index_table_from_file(""), ValueError, "vocabulary_file must be specified"),
    (lambda: lookup.index_table_from_file("f", vocab_size=0), ValueError, "greater than 0, got 0"),
    (lambda: lookup.index_table_from_file("f", key_dtype=hf.float32), TypeError, "Only integer"),
    (lambda: lookup.StrongHashSpec([1]), ValueError, "key must have size 2"),
    (lambda: lookup.StrongHashSpec(["a", 2]), TypeError, "Must be unsigned integer"),
    (lambda: lookup.IdTableWithHashBuckets(None, 0), ValueError, "must be greater than 0"),
    (lambda: lookup.IdTableWithHashBuckets(None, 2, key_dtype=hf.float32), TypeError, "key_dtype"),
])
def test_what_tables_of_ids_refuse(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_removing_keys():
    dense = lookup.MutableDenseHashTable(hf.int64, hf.int64, -1, empty_key=0, deleted_key=-1)
    plain = lookup.MutableHashTable(hf.int64, hf.int64, -1)
    for table in (dense, plain):
        keys = hf.constant(np.int64([11, 12, 13]))
        with hf.Session() as session:
            session.run(table.insert(keys, np.int64([5, 6, 7])))
            session.run(table.remove(hf.constant(np.int64([11, 15]))))
            assert session.run(table.size()) == 2
            assert session.run(table.lookup(keys)).tolist() == [-1, 6, 7]
    with hf.Session() as session:
        for key, name in ((0, "empty_key"), (-1, "deleted_key")):
            with pytest.raises(hf.errors.InvalidArgumentError, match=f"Using the {name}"):
                session.run(dense.remove(hf.constant(np.int64([key]))))
        same = lookup.MutableDenseHashTable(hf.int64, hf.int64, -1, empty_key=3, deleted_key=3)
        with pytest.raises(hf.errors.InvalidArgumentError, match="cannot be equal"):
            session.run(same.size())


@pytest.mark.parametrize("kind", ["plain", "vectors", "dense", "removable"])
def test_tables_in_checkpoints(kind, tmp_path):
    def made():
        if kind in ("plain", "vectors"):
            return lookup.MutableHashTable(hf.string, hf.int64, -1 if kind == "plain" else [0, 0],
                                           name="t")
        return lookup.MutableDenseHashTable(
            hf.string, hf.int64, -1, empty_key="", name="t",
            deleted_key="-" if kind == "removable" else None)

    values = [[1, 2], [3, 4]] if kind == "vectors" else [1, 2]
    table, saver = made(), hf.train.Saver()
    with hf.Session() as session:
        session.run(table.insert(hf.constant(["a", "b"]), np.int64(values)))
        path = saver.save(session, str(tmp_path / "model"))
    reader = hf.train.NewCheckpointReader(path)
    assert sorted(reader.get_variable_to_shape_map()) == ["t-keys", "t-values"]
    with hf.Graph().as_default(), hf.Session() as session:
        table, saver = made(), hf.train.Saver()
        session.run(table.insert(hf.constant(["a", "c"]), np.int64(values)))
        saver.restore(session, path)  # takes the place of what there was
        assert session.run(table.size()) == 2
        assert session.run(table.lookup(hf.constant(["a", "b"]))).tolist() == values
    with hf.Graph().as_default():
        lookup.MutableHashTable(hf.string, hf.int64, -1, checkpoint=False)
        with pytest.raises(ValueError, match="No variables to save"):
            hf.train.Saver()


def test_tables_by_their_later_names(session):
    ids = hf.lookup.index_table_from_tensor(vocabulary_list=["a", "b"], num_oov_buckets=1)
    words = hf.lookup.index_to_string_table_from_tensor(vocabulary_list=["a", "b"])
    squares = hf.lookup.StaticHashTable(
        hf.lookup.KeyValueTensorInitializer([1, 2], [1, 4], hf.int64, hf.int64), -1)
    found = [ids.lookup(hf.constant(["b", "z"])), words.lookup(hf.constant([1, 5], hf.int64)),
             squares.lookup(hf.constant([2, 3], hf.int64))]
    session.run(hf.tables_initializer())
    assert [v.tolist() for v in session.run(found)] == [[1, 2], [b"b", b"UNK"], [4, -1]]
    with pytest.raises(TypeError, match="both"):
        hf.lookup.index_table_from_tensor(["a"], mapping=["a"], vocabulary_list=["a"])


def test_tables_that_loops_and_branches_make():
    """They are made, and filled, outside."""
    def look_up(x):
        return lookup.HashTable(lookup.KeyValueTensorInitializer(
            np.int64([1, 2]), np.int64([5, 10])), -1).lookup(x)

    mapped = hf.map_fn(look_up, np.int64([2, 4, 1]))
    chosen = hf.cond(hf.constant(True), lambda: look_up(np.int64([1])),
                     lambda: look_up(np.int64([2])))
    with hf.Session() as session:
        session.run(hf.tables_initializer())
        found = session.run([mapped, chosen])
    assert [f.tolist() for f in found] == [[10, -1, 5], [5]]
