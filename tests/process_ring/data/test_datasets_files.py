"""Data sets of tables and of examples in files, caches in files, iterators in checkpoints."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import hpcflow as hf

experimental = hf.data.experimental


def elements(session, dataset, most=50):
    """The elements; errors as their messages."""
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    session.run(iterator.initializer)
    found = []
    for _ in range(most):
        try:
            found.append(session.run(following))
        except hf.errors.OutOfRangeError:
            break
        except hf.errors.InvalidArgumentError as error:
            found.append(error.message)
    return found


TABLE = "a,b,c\r\n1,2.5,x\n,4.5,\"y,\n\"\"z\"\n5,NA,\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return str(path)


# ---------------------------------------------------------------- tables


def test_rows_of_tables(session, table):
    defaults = [hf.constant([7]), [1.5], [""]]
    found = elements(session, experimental.CsvDataset(table, defaults, header=True, na_value="NA"))
    assert found == [(1, 2.5, b"x"), (7, 4.5, b'y,\n"z'), (5, 1.5, b"")]
    assert [type(v).__name__ for v in found[0]] == ["int32", "float32", "bytes"]
    chosen = experimental.CsvDataset([table, table], [hf.string, hf.float64], header=True,
                                     select_cols=[0, 1])
    found = elements(session, chosen)
    assert found[:1] == found[3:4] == [(b"1", 2.5)]
    assert "required but missing" in found[1] and "not a valid double" in found[2]


def test_errors_of_single_rows_do_not_end_a_pass(session, tmp_path):
    path = tmp_path / "table.csv"
    rows = [f"{k},{k}" for k in range(600)]
    rows[300], rows[301] = "1", "x,1"
    path.write_text("\n".join(rows))
    found = elements(session, experimental.CsvDataset(str(path), [hf.int32] * 2), 601)
    assert len(found) == 600 and found[599] == (599, 599)
    assert "Expect 2 fields but have 1" in found[300] and "not a valid int32" in found[301]


def test_compressed_tables_with_other_delimiters(session, tmp_path):
    path = tmp_path / "table.gz"
    path.write_bytes(gzip.compress(b'1|"a\n2|b\n'))
    data = experimental.CsvDataset(str(path), [hf.int64, hf.string], "GZIP", field_delim="|",
                                   use_quote_delim=False)
    assert elements(session, data) == [(1, b'"a'), (2, b"b")]


@pytest.mark.parametrize("arguments, message", [
    ({"select_cols": [1, 0]}, "strictly increasing"), ({"select_cols": [0]}, "output size"),
    ({"field_delim": "::"}, "1 char")])
def test_tables_that_are_refused(session, table, arguments, message):
    data = experimental.CsvDataset(table, [hf.string] * 2, **arguments)
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        session.run(data.make_initializable_iterator().initializer)


def test_batches_of_tables(session, tmp_path):
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text(
            "n,big,x,y,s\n" + "".join(f"{k},{k + 2**40},{k}.5,{k}e300,s{k}\n"
                                      for k in range(3 * number, 3 * number + 3)))
    pattern = str(tmp_path / "*.csv")
    data = experimental.make_csv_dataset(pattern, 4, label_name="s", num_epochs=1, shuffle=False)
    (first, label), (last, _) = elements(session, data)
    assert list(first) == ["n", "big", "x", "y"] and len(last["n"]) == 2
    assert [v.dtype.name for v in first.values()] == ["int32", "int64", "float32", "float64"]
    assert first["n"].tolist() == [0, 1, 2, 3] and label.tolist() == [b"s0", b"s1", b"s2", b"s3"]
    data = experimental.make_csv_dataset(pattern, 2, select_columns=["s", 0], shuffle_seed=3,
                                         num_parallel_reads=2)
    found = elements(session, data, 6)
    drawn = [n for batch in found for n in batch["n"].tolist()]
    assert sorted(drawn) == sorted(list(range(6)) * 2) and drawn[:6] != list(range(6))
    assert all(s == b"s%d" % n for batch in found for n, s in zip(batch["n"], batch["s"]))


@pytest.mark.parametrize("arguments, message", [
    ({"label_name": "other"}, "must be one of the columns"),
    ({"column_names": ["a", "a", "b"]}, "duplicate"),
    ({"select_columns": ["d"]}, "not all among"), ({"select_columns": [0, 0]}, "different columns"),
    ({"column_defaults": [0]}, "column_defaults"), ({"header": False}, "without a header"),
    ({"file_pattern": "/nowhere/*"}, "No files")])
def test_batches_that_are_refused(graph, table, arguments, message):
    with pytest.raises(ValueError, match=message):
        experimental.make_csv_dataset(**{"file_pattern": table, "batch_size": 1, **arguments})


# ---------------------------------------------------------------- examples


def test_batches_of_examples(session, tmp_path):
    path = str(tmp_path / "examples")
    with hf.python_io.TFRecordWriter(path) as writer:
        for k in range(5):
            features = {"n": hf.train.Feature(int64_list=hf.train.Int64List(value=[k])),
                        "s": hf.train.Feature(bytes_list=hf.train.BytesList(value=[b"w"] * k))}
            writer.write(hf.train.Example(
                features=hf.train.Features(feature=features)).SerializeToString())
    wanted = {"n": hf.FixedLenFeature([], hf.int64), "s": hf.VarLenFeature(hf.string)}
    make = experimental.make_batched_features_dataset
    found = elements(session, make(path, 2, wanted, num_epochs=1, shuffle=False, label_key="n"))
    assert [label.tolist() for _, label in found] == [[0, 1], [2, 3], [4]]
    assert [len(features["s"].values) for features, _ in found] == [1, 5, 4]
    found = elements(session, make(path, 2, wanted, num_epochs=1, drop_final_batch=True,
                                   parser_num_threads=2))
    assert len(found) == 2 and set(found[0]) == {"n", "s"}
    for arguments, message in (((path, 2, wanted, None, "m"), "label_key"),
                               (("/nowhere/*", 2, wanted), "No files")):
        with pytest.raises(ValueError, match=message):
            make(*arguments)
    with pytest.raises(TypeError, match="must return a `Dataset` object"):
        make(path, 2, wanted, reader=hf.TFRecordReader)


# ---------------------------------------------------------------- caches in files


def test_a_cache_outlives_its_program(tmp_path):
    name, calls = str(tmp_path / "cache"), []

    def values(dataset):
        with hf.Graph().as_default(), hf.Session() as session:
            return elements(session, dataset())

    def counted():
        def of(x):
            calls.append(int(x))
            return np.float32(x / 2)

        return hf.data.Dataset.range(3).map(lambda x: (
            hf.py_func(of, [x], hf.float32), hf.as_string(x), hf.fill([x], True))).cache(name)

    first = values(lambda: counted().repeat(2))
    second = values(counted)
    assert calls == [0, 1, 2] and len(first) == 6
    for a, b in zip(first, [*second, *second]):
        assert a[0] == b[0] and type(a[0]) is type(b[0]) and a[1] == b[1]
        np.testing.assert_array_equal(a[2], b[2])
    assert [p.name for p in tmp_path.iterdir()] == ["cache.elements"]


def test_a_pass_that_is_given_up_keeps_nothing(session, tmp_path):
    data = hf.data.Dataset.range(5).cache(str(tmp_path / "cache"))
    assert len(elements(session, data, 3)) == 3
    failing = hf.data.Dataset.range(3).map(lambda x: hf.check_numerics(
        1 / hf.cast(x - 1, hf.float32), "here")).cache(str(tmp_path / "failing"))
    assert len(elements(session, failing)) == 3
    assert not [p for p in tmp_path.iterdir() if p.suffix == ".elements"]


def test_damaged_caches(session, tmp_path):
    data = hf.data.Dataset.range(5).cache(str(tmp_path / "cache"))
    elements(session, data)
    path = tmp_path / "cache.elements"
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    iterator = data.make_initializable_iterator()
    following = iterator.get_next()
    session.run(iterator.initializer)
    assert [session.run(following) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(hf.errors.DataLossError):
        session.run(following)


# ---------------------------------------------------------------- iterators in checkpoints


def shuffled(seed):
    data = hf.data.Dataset.range(40)
    return data.shuffle(10, seed).repeat(2).map(lambda x: x * 3, 2).batch(4).prefetch(2)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("kind", ["initializable", "one_shot"])
def test_iterators_go_on_in_another_program(tmp_path, seed, kind):
    path = str(tmp_path / "model")

    def program(work):
        with hf.Graph().as_default(), hf.Session() as session:
            iterator = getattr(shuffled(seed), f"make_{kind}_iterator")()
            saver = hf.train.Saver([experimental.make_saveable_from_iterator(iterator)])
            return work(session, iterator, iterator.get_next(), saver)

    def save(session, iterator, following, saver):
        if kind == "initializable":
            session.run(iterator.initializer)
        for _ in range(7):
            session.run(following)
        saver.save(session, path)
        return [session.run(following).tolist() for _ in range(8)]

    def go_on(session, iterator, following, saver):
        saver.restore(session, path)
        return [session.run(following).tolist() for _ in range(8)]

    assert program(save) == program(go_on)


def test_states_of_iterators_as_variants(session):
    iterator = hf.data.Dataset.range(10).make_initializable_iterator()
    following = iterator.get_next()
    state = hf.raw_ops.SerializeIterator(resource_handle=iterator._resource)
    restore = hf.raw_ops.DeserializeIterator(resource_handle=iterator._resource, serialized=state)
    for op in (state, restore):
        with pytest.raises(hf.errors.FailedPreconditionError, match="initialized"):
            session.run(op)
    session.run(iterator.initializer)
    assert [session.run(following) for _ in range(3)] == [0, 1, 2]
    session.run(restore)
    assert session.run(following) == 3


def test_errors_count_as_elements(session):
    data = hf.data.Dataset.range(6).map(lambda x: hf.check_numerics(
        1 / hf.cast(x - 1, hf.float32), "here"))
    iterator = data.make_initializable_iterator()
    following = iterator.get_next()
    state = hf.raw_ops.SerializeIterator(resource_handle=iterator._resource)
    restore = hf.raw_ops.DeserializeIterator(resource_handle=iterator._resource, serialized=state)
    session.run(iterator.initializer)
    assert session.run(following) == -1
    with pytest.raises(hf.errors.InvalidArgumentError):
        session.run(following)
    session.run(restore)
    assert [session.run(following) for _ in range(2)] == [1.0, 0.5]
