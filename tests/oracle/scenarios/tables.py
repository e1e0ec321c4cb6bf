"""Programs of lookup tables: of files, of tensors, by resource."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from scenarios import _outcome, raw, scenario


@scenario
def tables_of_files(tf: Any, session: Any) -> list:
    add, values = raw(tf), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.txt"
        path.write_bytes(b"a\t10\nbb\t20\nc\t30\n")
        for number, (key, value, size, delimiter, kinds) in enumerate((
                (-2, -1, -1, "\t", (tf.string, tf.int64)), (-2, -1, 2, "\t", (tf.string, tf.int64)),
                (0, 1, 3, "\t", (tf.string, tf.int64)), (-1, 0, 3, "\t", (tf.int64, tf.string)),
                (0, 1, 9, "\t", (tf.string, tf.int64)), (0, 5, -1, "\t", (tf.string, tf.int64)),
                (0, 1, -1, ",", (tf.string, tf.int64)), (1, 0, -1, "\t", (tf.int64, tf.string)),
                (-3, 0, -1, "\t", (tf.string, tf.int64)))):
            try:
                handle = add("HashTable", key_dtype=kinds[0], value_dtype=kinds[1],
                             shared_name=f"t{number}")
                fill = add("InitializeTableFromTextFile", table_handle=handle, filename=str(path),
                           key_index=key, value_index=value, vocab_size=size, delimiter=delimiter)
            except ValueError:
                values.append("InvalidArgumentError")
                continue
            values.append(_outcome(session, fill))
            keys = np.array([b"a", b"c", b"bb", b"a\t10"], object) if kinds[0] == tf.string else \
                np.array([0, 20, 2], np.int64)
            default = tf.constant(-1, tf.int64) if kinds[1] == tf.int64 else tf.constant("?")
            found = add("LookupTableFind", table_handle=handle, keys=keys, default_value=default)
            values += [_outcome(session, found), _outcome(session, add(
                "LookupTableSize", table_handle=handle))]
        handle = add("HashTable", key_dtype=tf.string, value_dtype=tf.int64, shared_name="none")
        values.append(_outcome(session, add(
            "InitializeTableFromTextFile", table_handle=handle, filename=folder + "/none",
            key_index=-2, value_index=-1)))
    return values


@scenario
def remapped_vocabularies(tf: Any, session: Any) -> list:
    add, values = raw(tf), []
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder) / "old.txt", Path(folder) / "new.txt"
        old.write_bytes(b"knitting\neminem\nMISSING\n")
        new.write_bytes(b"MISSING\nknitting\neminem\nmore\n")
        for first, count, size in ((0, 3, -1), (1, 2, -1), (0, 4, 2), (2, 2, 1), (0, 0, -1)):
            values.append(_outcome(session, add(
                "GenerateVocabRemapping", new_vocab_file=str(new), old_vocab_file=str(old),
                new_vocab_offset=first, num_new_vocab=count, old_vocab_size=size)))
        values.append(_outcome(session, add(
            "GenerateVocabRemapping", new_vocab_file=str(new), old_vocab_file=folder + "/none",
            new_vocab_offset=0, num_new_vocab=1)))
    return values


@scenario
def tables_of_tensors(tf: Any, session: Any) -> list:
    add, values, ours = raw(tf), [], tf.__name__ == "hpcflow"
    options = {"empty_key": tf.constant(-1, tf.int64), "value_dtype": tf.float32,
               "value_shape": [2], "shared_name": "d"}
    # The reference's own kernel of the first version does not work any more.
    dense = add("MutableDenseHashTable", **options) if ours else add(
        "MutableDenseHashTableV2", deleted_key=tf.constant(-2, tf.int64), **options)
    rows = add("MutableHashTableOfTensors", key_dtype=tf.int64, value_dtype=tf.float32,
               value_shape=[2], shared_name="r")
    keys, asked = tf.constant([5, 7, 5], tf.int64), tf.constant([7, 5, 8], tf.int64)
    for handle, v2 in ((dense, "" if ours else "V2"), (rows, "")):
        session.run(add("LookupTableInsert" + v2, table_handle=handle, keys=keys,
                        values=tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])))
        found = add("LookupTableFind" + v2, table_handle=handle, keys=asked,
                    default_value=tf.constant([0.5, 0.5]))
        exported = add("LookupTableExport" + v2, table_handle=handle, Tkeys=tf.int64,
                       Tvalues=tf.float32)
        out_keys, out_values = session.run(exported)
        out_keys = out_keys.ravel()
        order = np.argsort(out_keys)
        real = out_keys[order] >= 0
        values += [session.run(found), out_keys[order][real], out_values[order][real],
                   session.run(add("LookupTableSize" + v2, table_handle=handle)),
                   _outcome(session, add("LookupTableInsert" + v2, table_handle=handle, keys=keys,
                                         values=tf.constant([[1.0], [2.0], [3.0]])))]
    values.append(_outcome(session, add(
        "LookupTableInsert" + ("" if ours else "V2"), table_handle=dense,
        keys=tf.constant([-1], tf.int64), values=tf.constant([[1.0, 2.0]]))))
    return values


@scenario
def tables_by_resource(tf: Any, session: Any) -> list:
    """The second versions, whose handles are resources, and their values in one order."""
    add, values = raw(tf), []
    words, ids = tf.constant(["a", "bb", "c"]), tf.constant([1, 2, 3], tf.int64)
    asked, default = tf.constant([["c", "x"]]), tf.constant(-1, tf.int64)
    kinds = {"key_dtype": tf.string, "value_dtype": tf.int64}
    found = {"keys": asked, "default_value": default}
    static = add("HashTableV2", shared_name="s2", **kinds)
    values.append(_outcome(session, add("LookupTableFindV2", table_handle=static, **found)))
    session.run(add("InitializeTableV2", table_handle=static, keys=words, values=ids))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "words.txt"
        path.write_bytes(b"a\nbb\nc\n")
        lines = add("HashTableV2", shared_name="l2", **kinds)
        session.run(add("InitializeTableFromTextFileV2", table_handle=lines, filename=str(path),
                        key_index=-2, value_index=-1))
    imported = add("HashTableV2", shared_name="i2", **kinds)
    session.run(add("LookupTableImportV2", table_handle=imported, keys=words, values=ids))
    changing = add("MutableHashTableV2", shared_name="m2", **kinds)
    session.run(add("LookupTableInsertV2", table_handle=changing, keys=words, values=ids))
    for table in (static, lines, imported, changing):
        values += session.run([add("LookupTableFindV2", table_handle=table, **found),
                               add("LookupTableSizeV2", table_handle=table)])
    out_keys, out_values = session.run(add("LookupTableExportV2", table_handle=changing,
                                           Tkeys=tf.string, Tvalues=tf.int64))
    order = np.argsort(out_values)
    rows = add("MutableHashTableOfTensorsV2", key_dtype=tf.int64, value_dtype=tf.float32,
               value_shape=[2], shared_name="r2")
    session.run(add("LookupTableInsertV2", table_handle=rows, keys=ids,
                    values=tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])))
    row = add("LookupTableFindV2", table_handle=rows, keys=tf.constant([3, 9], tf.int64),
              default_value=tf.constant([0.5, 0.5]))
    return [*values, out_keys[order], out_values[order], session.run(row)]
