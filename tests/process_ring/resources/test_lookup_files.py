"""Lookup tables from columns of files, with buckets, exported and saved."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import lookup

pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture
def columns(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("brain 300\nsalad 20\nsurgery 1\n")
    return str(path)


def test_columns_of_a_file(session, columns):
    ids = lookup.index_table_from_file(columns, num_oov_buckets=1, key_column_index=0,
                                       value_column_index=1, delimiter=" ")
    words = lookup.index_to_string_table_from_file(columns, value_column_index=0, delimiter=" ")
    found = ids.lookup(hf.constant(["salad", "surgery", "tarkus"]))
    text = words.lookup(hf.constant([1, 5], hf.int64))
    session.run(hf.tables_initializer())
    assert session.run(found).tolist() == [20, 1, 3]
    assert session.run(text).tolist() == [b"salad", b"UNK"]


def test_wrong_files(columns):
    kinds = (hf.string, lookup.TextFileIndex.WHOLE_LINE, hf.int64, lookup.TextFileIndex.LINE_NUMBER)
    with pytest.raises(ValueError, match="name of a file"):
        lookup.TextFileInitializer("", *kinds)
    two = lookup.TextFileInitializer(hf.constant([columns, columns]), *kinds)
    with pytest.raises(ValueError, match="must be rank 0"):
        lookup.HashTable(two, -1)
    with pytest.raises(ValueError, match=r"vocabulary_file: words"):
        lookup.index_table_from_file("words", vocab_size=0)


def test_an_empty_vocabulary_is_told_when_it_is_filled(session):
    lookup.index_table_from_tensor(np.array([], np.str_), num_oov_buckets=1)
    with pytest.raises(hf.errors.InvalidArgumentError, match="keys and values cannot be empty"):
        session.run(hf.tables_initializer())


def test_vocabulary_with_buckets(session):
    initializer = lookup.KeyValueTensorInitializer(["a", "b"], np.int64([0, 1]))
    table = hf.lookup.StaticVocabularyTable(initializer, 3)
    hashed = hf.lookup.StaticVocabularyTable(None, 5)
    session.run(table.initializer)
    assert session.run(table.size()) == 5 and session.run(hashed.size()) == 5
    known, other = session.run([table.lookup(hf.constant(["b", "a"])),
                                table.lookup(hf.constant(["x", "y"]))])
    assert known.tolist() == [1, 0] and set(other) <= {2, 3, 4}
    assert hashed.resource_handle is None and table.resource_handle is not None
    assert set(session.run(hashed.lookup(hf.constant(["a", "q"])))) <= set(range(5))
    with pytest.raises(ValueError, match="num_oov_buckets"):
        hf.lookup.StaticVocabularyTable(initializer, 0)


def test_export_of_a_constant_table(session):
    table = lookup.HashTable(lookup.KeyValueTensorInitializer(["a", "b"], np.int64([7, 8])), -1)
    keys, values = table.export()
    session.run(table.initializer)
    assert dict(zip(*map(list, session.run([keys, values])), strict=True)) == {b"a": 7, b"b": 8}


def test_a_saver_of_one_table(session, tmp_path):
    table = lookup.MutableHashTable(hf.string, hf.int64, -1, checkpoint=False)
    saver = hf.train.Saver([table])
    session.run(table.insert(hf.constant(["a"]), hf.constant([5], hf.int64)))
    path = saver.save(session, str(tmp_path / "model"))
    session.run(table.insert(hf.constant(["b"]), hf.constant([6], hf.int64)))
    saver.restore(session, path)
    assert session.run([table.size(), table.lookup(hf.constant("a"))]) == [1, 5]


def test_keys_of_another_type(session):
    table = lookup.MutableHashTable(hf.string, hf.int64, -1)
    with pytest.raises(ValueError, match="string"):
        table.insert(hf.constant([4]), hf.constant([1], hf.int64))
