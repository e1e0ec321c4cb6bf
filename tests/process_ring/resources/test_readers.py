"""Readers: records of files whose names come from a queue."""

from __future__ import annotations

import contextlib
import gzip
import threading
import time
import zlib

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.graph.raw import raw_ops


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


@pytest.fixture
def files(tmp_path):
    """A function that writes a file and returns its name."""

    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


def records_of(session, reader, names, count=None, shared=""):
    """What the reader gives for a closed queue of `names`, errors as their class."""
    queue = hf.FIFOQueue(20, hf.string, shared_name=shared)
    session.run(queue.enqueue_many([names]))
    session.run(queue.close())
    read = reader.read(queue) if count is None else reader.read_up_to(queue, count)
    found = []
    while not found or found[-1] is not hf.errors.OutOfRangeError:
        try:
            found.append(tuple(session.run(read)))
        except hf.errors.OpError as e:
            found.append(type(e))
            if len(found) > 9:
                break
    return found[:-1] if found[-1] is hf.errors.OutOfRangeError else found


def values(found):
    return [v if isinstance(v, type) else v[1] for v in found]


def test_lines(session, files):
    a, empty, b = files("a", b"a\nb\r\nc\rd\n\nlast\r"), files("empty", b""), files("b", b"x\n")
    reader = hf.TextLineReader()
    found = records_of(session, reader, [a, empty, b])
    assert values(found) == [b"a", b"b", b"c\rd", b"", b"last", b"x"]
    assert [k for k, _ in found] == [f"{f}:{n}".encode() for f, n in (
        *((a, n) for n in range(1, 6)), (b, 1))]
    assert session.run([reader.num_records_produced(), reader.num_work_units_completed()]) == [6, 3]
    skipping = records_of(session, hf.TextLineReader(skip_header_lines=3), [a, empty, b])
    assert values(skipping) == [b"", b"last"]
    assert skipping[0][0].endswith(b"a:4")


def test_a_file_counts_as_finished_when_more_is_asked_for(session, files):
    queue = hf.FIFOQueue(5, hf.string)
    reader = hf.TextLineReader()
    read, done = reader.read(queue), reader.num_work_units_completed()
    session.run(queue.enqueue_many([[files("a", b"1\n"), files("b", b"2\n")]]))
    session.run(read)
    assert session.run(done) == 0
    session.run(read)
    assert session.run(done) == 1


def test_reading_several(session, files):
    names = [files("a", b"1\n2\n3\n4\n5\n"), files("b", b"6\n")]
    found = records_of(session, hf.TextLineReader(), names, 3)
    assert [v.tolist() for _, v in found] == [[b"1", b"2", b"3"], [b"4", b"5"], [b"6"]]
    found = records_of(session, hf.WholeFileReader(), names, 3)
    assert [len(v) for _, v in found] == [1, 1]
    queue = hf.FIFOQueue(5, hf.string)
    keys, empty = hf.TextLineReader().read_up_to(queue, 0)
    assert keys.shape.as_list() == [None] and session.run(empty).shape == (0,)
    with pytest.raises(hf.errors.InvalidArgumentError, match="-1 < 0"):
        session.run(hf.TextLineReader().read_up_to(queue, -1))


def test_whole_files(session, files):
    a, b = files("a", b"x\ny"), files("b", b"")
    assert records_of(session, hf.WholeFileReader(), [a, b]) == [
        (a.encode(), b"x\ny"), (b.encode(), b"")]


def test_records_of_fixed_length(session, files):
    names = [files("a", b"HHaabbccF"), files("b", b"HHaabbcF"), files("c", b"H")]
    found = records_of(session, hf.FixedLengthRecordReader(2, 2, 1), names)
    assert values(found) == [b"aa", b"bb", b"cc", b"aa", b"bb"]
    assert found[2][0] == f"{names[0]}:2".encode()
    queue = hf.FIFOQueue(1, hf.string)
    for sizes in ((0, 0, 0), (2, -1, 0), (2, 0, -1)):
        with pytest.raises(hf.errors.InvalidArgumentError, match="_bytes must be >= "):
            session.run(hf.FixedLengthRecordReader(*sizes).read(queue))


@pytest.mark.parametrize("encoding, pack", [
    ("", bytes), ("GZIP", gzip.compress), ("ZLIB", zlib.compress)])
def test_records_at_distances_of_their_own(session, files, encoding, pack):
    names = [files(str(hop), pack(b"Habcdefg")) for hop in (1, 2, 4)]
    for name, hop, expected in zip(names, (1, 2, 4), (
            [b"abc", b"bcd", b"cde", b"def", b"efg"], [b"abc", b"cde", b"efg"], [b"abc", b"efg"]),
            strict=True):
        reader = hf.FixedLengthRecordReader(3, 1, hop_bytes=hop, encoding=encoding)
        assert values(records_of(session, reader, [name])) == expected


def tf_records(path, records, options=None):
    with hf.python_io.TFRecordWriter(path, options) as writer:
        for record in records:
            writer.write(record)
    with open(path, "rb") as file:
        return file.read()


RECORDS = [b"one", b"", b"three" * 300, bytes(range(256)) * 5]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_tf_records(session, tmp_path, kind):
    options = hf.python_io.TFRecordOptions(kind)
    path = str(tmp_path / "r")
    tf_records(path, RECORDS, options)
    found = records_of(session, hf.TFRecordReader(options=options), [path, path])
    assert values(found) == RECORDS * 2
    assert [k.rsplit(b":")[-1] for k, _ in found[:3]] == [b"0", b"19", b"35"]
    assert list(hf.python_io.tf_record_iterator(path, options)) == RECORDS


def test_damaged_records(session, tmp_path, files):
    plain = tf_records(str(tmp_path / "r"), RECORDS)
    lost = hf.errors.DataLossError
    for what, data, expected in (
            ("header", plain[:20], RECORDS[:1]), ("end", plain[:-3], RECORDS[:3]),
            ("data", plain[:13] + b"X" + plain[14:], []), ("length", b"\xff" + plain[1:], [])):
        found = values(records_of(session, hf.TFRecordReader(), [files(what, data)]))
        assert found[:len(expected)] == expected, what
        assert set(found[len(expected):]) == {lost} and len(found) > len(expected) + 1, what
    for options, data in ((2, plain), (1, gzip.compress(plain)), (2, zlib.compress(plain)),
                          (2, gzip.compress(plain)[:-15])):
        reader = hf.TFRecordReader(options=hf.python_io.TFRecordOptions(options))
        assert values(records_of(session, reader, [files("packed", data)]))[-1] is lost


def test_missing_files(session, files):
    missing = hf.errors.NotFoundError
    names = ["/no/such/file", files("a", b"1\n"), "/no/other"]
    for reader in (hf.TextLineReader(), hf.FixedLengthRecordReader(1), hf.WholeFileReader()):
        found = values(records_of(session, reader, names))
        assert found[0] is found[-1] is missing and b"1" in found[1]


def test_state(session):
    queue = hf.FIFOQueue(9, hf.string)
    session.run(queue.enqueue_many([["a", "b", "c"]]))
    reader = hf.IdentityReader()
    read, state, count = (reader.read(queue), reader.serialize_state(),
                          reader.num_records_produced())
    assert reader.supports_serialize and not hf.TextLineReader().supports_serialize
    assert tuple(session.run(read)) == (b"a", b"a")
    stored = session.run(state)
    assert stored == b'\x08\x01\x10\x01\x18\x01"\x01a'
    session.run(read)
    fed = hf.placeholder(hf.string, [])
    restore = reader.restore_state(fed)
    session.run(restore, {fed: stored})
    assert session.run(count) == 1
    session.run(reader.reset())
    assert session.run([count, state]) == [0, b""]
    for wrong in (b"zz", b"\x08\x02\x10\x01"):
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(restore, {fed: wrong})
    with pytest.raises(hf.errors.UnimplementedError, match="SerializeState"):
        session.run(hf.TextLineReader().serialize_state())
    with pytest.raises(hf.errors.UnimplementedError, match="RestoreState"):
        session.run(hf.TextLineReader().restore_state(""))


def test_wrong_queues(session):
    for types in (hf.int32, [hf.string, hf.string]):
        with pytest.raises(hf.errors.InvalidArgumentError, match="queue of strings"):
            session.run(hf.TextLineReader().read(hf.FIFOQueue(1, types)))


def test_a_read_waits_for_a_name_without_a_thread(session, files):
    """Many reads wait at once; each of them goes on when a name comes."""
    queue = hf.FIFOQueue(9, hf.string)
    read = hf.TextLineReader().read(queue).value
    results = []
    threads = [threading.Thread(target=lambda: results.append(session.run(read)))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    name = files("a", b"1\n2\n3\n")
    time.sleep(0.05)
    assert not results
    session.run(queue.enqueue(name))
    for thread in threads:
        thread.join(patience())
    assert sorted(results) == [b"1", b"2", b"3"]


def test_a_waiting_read_ends_with_its_step(session, files):
    queue = hf.FIFOQueue(9, hf.string)
    reader = hf.TextLineReader()
    read = reader.read(queue).value
    with pytest.raises(hf.errors.DeadlineExceededError):
        session.run(read, options=hf.RunOptions(timeout_in_ms=100))
    failing = hf.Assert(hf.constant(False), ["no"])
    with pytest.raises(hf.errors.InvalidArgumentError):
        session.run([read, failing])
    session.run(queue.enqueue(files("a", b"1\n")))
    assert session.run(read) == b"1"


def test_a_closed_queue_ends_a_waiting_read(session):
    queue = hf.FIFOQueue(9, hf.string)
    read = hf.TextLineReader().read(queue)
    errors = []

    def run():
        with contextlib.suppress(hf.errors.OutOfRangeError):
            session.run(read)
            return
        errors.append("out of range")

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    session.run(queue.close())
    thread.join(patience())
    assert errors == ["out of range"]


def test_many_names_at_once(session):
    """An identity reader goes through names without depth."""
    queue = hf.FIFOQueue(5000, hf.string)
    names = [b"%d" % i for i in range(3000)]
    session.run(queue.enqueue_many([np.array(names, object)]))
    read = hf.IdentityReader().read(queue).value
    many = hf.stack([read])
    assert [session.run(many).tolist() for _ in range(50)] == [[n] for n in names[:50]]


def test_handles_of_the_first_version(session, files):
    handle = raw_ops.TextLineReader(skip_header_lines=1)
    reader = hf.ReaderBase(handle)
    queue = hf.FIFOQueue(9, hf.string)
    session.run(queue.enqueue(files("a", b"1\n2\n")))
    assert session.run(reader.read(queue).value) == b"2"
    assert session.run(reader.num_records_produced()) == 1
    old = raw_ops.FIFOQueue(component_types=[hf.string])
    session.run(raw_ops.QueueEnqueue(handle=old, components=[files("b", b"1\n2\n3\n")]))
    assert session.run(reader.read_up_to(old, 5).values).tolist() in ([b"2", b"3"],)


def pipeline(session, fetch):
    session.run([hf.global_variables_initializer(), hf.local_variables_initializer()])
    coordinator = hf.train.Coordinator()
    threads = hf.train.start_queue_runners(session, coordinator)
    found = []
    with contextlib.suppress(hf.errors.OutOfRangeError):
        while not coordinator.should_stop():
            found.append(session.run(fetch))
    coordinator.request_stop()
    coordinator.join(threads, stop_grace_period_secs=10)
    return found


def test_a_pipeline_of_csv_files(session, files):
    names = [files(f"{i}.csv", b"x,y\n" + b"".join(b"%d,%d.5\n" % (i, j) for j in range(5)))
             for i in range(3)]
    queue = hf.train.string_input_producer(names, num_epochs=2, shuffle=True, seed=1)
    _, line = hf.TextLineReader(skip_header_lines=1).read(queue)
    x, y = hf.decode_csv(line, [[0], [0.0]])
    batch = hf.train.batch([x, y], 4, allow_smaller_final_batch=True)
    found = pipeline(session, batch)
    rows = sorted((int(a), float(b)) for xs, ys in found for a, b in zip(xs, ys, strict=True))
    assert rows == sorted([(i, j + 0.5) for i in range(3) for j in range(5)] * 2)


def test_a_pipeline_of_several_readers(session, files):
    names = [files(str(i), b"".join(b"%d\n" % (10 * i + j) for j in range(10)))
             for i in range(4)]
    queue = hf.train.string_input_producer(names, num_epochs=1)
    lines = [[hf.TextLineReader().read(queue).value] for _ in range(2)]
    batch = hf.train.batch_join(lines, 5, allow_smaller_final_batch=True)
    found = np.concatenate(pipeline(session, batch))
    assert sorted(map(int, found)) == list(range(40))
