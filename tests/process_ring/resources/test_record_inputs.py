"""RecordInput: the records of files in random order."""

from __future__ import annotations

import pytest

import hpcflow as hf


def written(folder, files, records):
    kind = hf.python_io.TFRecordCompressionType.GZIP
    for i in range(files):
        with hf.python_io.TFRecordWriter(
                str(folder / f"part{i}"), hf.python_io.TFRecordOptions(kind)) as writer:
            for j in range(records):
                writer.write(b"%d" % (i * records + j))
    return str(folder / "part*"), kind


def test_epochs_have_every_record_once(tmp_path):
    pattern, kind = written(tmp_path, 4, 6)
    batches = hf.RecordInput(pattern, batch_size=2, buffer_size=5, parallelism=3, shift_ratio=0.3,
                             seed=1, batches=3, compression_type=kind).get_yield_op()
    assert [len(b) for b in batches] == [2, 2, 2]
    with hf.Session() as session:
        orders = []
        for _ in range(3):
            found = [r for _ in range(4) for batch in session.run(batches) for r in batch]
            assert sorted(map(int, found)) == list(range(24))
            orders.append(found)
        assert orders[0] != orders[1] != orders[2]


def test_what_cannot_be_read(tmp_path):
    with hf.Session() as session:
        with pytest.raises(hf.errors.NotFoundError, match="no records"):
            session.run(hf.RecordInput(str(tmp_path / "none")).get_yield_op())
        with pytest.raises(hf.errors.InvalidArgumentError, match="file_buffer_size"):
            session.run(hf.RecordInput("x", buffer_size=0).get_yield_op())
