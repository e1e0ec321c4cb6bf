"""Formats of the fuzzer (`fuzz.py`): files of records, examples, lines of CSV, and events."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path
from typing import Any

from faults.damage import BIG, Case, damaged_bytes

from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.tfrecords import encode_record


def _claims(rng: random.Random, record: bytes) -> bytes:
    """A record that says a length which it does not have, with a checksum that fits."""
    length = (rng.choice(BIG) % (1 << 64)).to_bytes(8, "little")
    return length + masked_crc32c(length).to_bytes(4, "little") + record + bytes(4)


def _file(rng: random.Random, records: list[bytes]) -> bytes:
    """A file of records; some are damaged, or the file is."""
    parts = [encode_record(damaged_bytes(rng, record) if rng.random() < 0.3 else record)
             for record in records]
    if rng.random() < 0.1:
        parts[rng.randrange(len(parts))] = _claims(rng, records[0])
    content = b"".join(parts)
    return damaged_bytes(rng, content) if rng.random() < 0.5 else content


# ---------------------------------------------------------------- TFRecord


def prepare_tfrecord(hf: Any, folder: Path) -> Case:
    """Cases of TFRecord files, plain and compressed, by all that reads them."""
    packed = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}
    path, read = folder / "r", {}
    for kind in packed:
        with hf.Graph().as_default():
            dataset = hf.data.TFRecordDataset(str(path), kind).make_initializable_iterator()
            queue = hf.FIFOQueue(10, [hf.string], [[]])
            reader = hf.TFRecordReader(options=hf.python_io.TFRecordOptions(kind))
            read[kind] = (hf.Session(), dataset.initializer, dataset.get_next(),
                          [queue.enqueue([str(path)]), reader.read_up_to(queue, 3)],
                          reader.reset())

    def case(rng: random.Random) -> str:
        kind = rng.choice(sorted(packed))
        content = packed[kind](_file(rng, [rng.randbytes(n) for n in (0, 5, 300)]))
        path.write_bytes(damaged_bytes(rng, content) if kind and rng.random() < 0.5 else content)
        kind = rng.choice(sorted(packed)) if rng.random() < 0.1 else kind
        if rng.random() < 0.4:
            for _ in hf.python_io.tf_record_iterator(
                    str(path), hf.python_io.TFRecordOptions(kind)):
                pass
            return "iterated"
        session, start, following, reader, reset = read[kind]
        if rng.random() < 0.3:
            session.run(reset)
            for step in reader:
                session.run(step, options=hf.RunOptions(timeout_in_ms=2000))
            return "read"
        session.run(start)
        while True:
            session.run(following)

    return case


# ---------------------------------------------------------------- examples


#: The names of features, each with the kind that it should have: integers, floats or bytes.
KINDS = {"dense": 1, "text": 2, "sparse": 0, "index": 0, "other": 1, "rows": 0}


def _features(hf: Any, rng: random.Random) -> Any:
    """Features of which most are of the right kind and size."""
    feature = {}
    for name, kind in KINDS.items():
        if rng.random() < 0.1:
            continue
        kind = rng.randrange(3) if rng.random() < 0.05 else kind
        n = rng.choice((0, 1, 3, 4)) if rng.random() < 0.1 else 1 if name == "text" else 2
        feature[name] = (
            hf.train.Feature(int64_list=hf.train.Int64List(value=[
                rng.choice((*range(5), 1 << 62, -1) if rng.random() < 0.1 else (3,))
                for _ in range(n)])),
            hf.train.Feature(float_list=hf.train.FloatList(value=[0.5] * n)),
            hf.train.Feature(bytes_list=hf.train.BytesList(value=[b"x"] * n)))[kind]
    return hf.train.Features(feature=feature)


def _sequence(hf: Any, rng: random.Random) -> Any:
    lists = {name: hf.train.FeatureList(feature=[
        _features(hf, rng).feature[kind] for _ in range(rng.randrange(3))])
        for name, kind in (("frames", "dense"), ("tokens", "sparse")) if rng.random() < 0.95}
    return hf.train.SequenceExample(context=_features(hf, rng),
                                    feature_lists=hf.train.FeatureLists(feature_list=lists))


def _parsers(hf: Any, one: Any) -> list[tuple[Any, int]]:
    """Ops that read one string, and which of the contents of a case they are for."""
    dense = {"dense": hf.FixedLenFeature([2], hf.float32)}
    frames = {"frames": hf.FixedLenSequenceFeature([2], hf.float32),
              "tokens": hf.VarLenFeature(hf.int64)}
    return [(hf.parse_single_example(one, dense), 0),
            (hf.parse_single_sequence_example(
                one, {"text": hf.FixedLenFeature([], hf.string)}, frames), 1),
            (hf.parse_tensor(one, hf.float32), 2), (hf.parse_tensor(one, hf.string), 3),
            (hf.decode_json_example(one), 4), (hf.decode_raw(one, hf.int16), 2),
            (hf.decode_base64(one), 5), (hf.string_to_number(one), 6)]


def prepare_example(hf: Any, _: Path) -> Case:
    """Cases of examples, one by one and in batches, of sequences, tensors and JSON."""
    with hf.Graph().as_default():
        one, many = hf.placeholder(hf.string, []), hf.placeholder(hf.string, [None])
        parsers = _parsers(hf, one)
        batch = hf.parse_example(many, {
            "dense": hf.FixedLenFeature([2], hf.float32, [0.0, 0.0]),
            "text": hf.FixedLenFeature([], hf.string, ""),
            "sparse": hf.VarLenFeature(hf.int64),
            "pair": hf.SparseFeature("index", "other", hf.float32, 10),
            "rows": hf.FixedLenSequenceFeature([2], hf.int64, allow_missing=True)})
        session = hf.Session()
    fixed = [hf.make_tensor_proto([1.0, 2.0]).SerializeToString(),
             hf.make_tensor_proto([[b"a", b"b"]]).SerializeToString(),
             b'{"features": {"feature": {"a": {"int64List": {"value": ["1"]}}}}}', b"YWJj", b"1e5"]

    def case(rng: random.Random) -> str:
        made = [hf.train.Example(features=_features(hf, rng)).SerializeToString(),
                _sequence(hf, rng).SerializeToString(), *fixed]
        content = [damaged_bytes(rng, c) if rng.random() < 0.6 else c for c in made]
        if rng.random() < 0.4:
            session.run(batch, {many: [made[0], content[0]]})
        else:
            op, kind = rng.choice(parsers)
            session.run(op, {one: content[kind] if rng.random() < 0.9 else rng.choice(content)})
        return "parsed"

    return case


# ---------------------------------------------------------------- CSV


def prepare_csv(hf: Any, folder: Path) -> Case:
    """Cases of lines of CSV, given and in files."""
    path = folder / "lines"
    with hf.Graph().as_default():
        line = hf.placeholder(hf.string)
        columns = [
            hf.decode_csv(line, [[0], [0.5], ["x"], [1]]),
            hf.decode_csv(line, [[0], [""]], use_quote_delim=False, select_cols=[0, 2]),
            hf.decode_csv(line, [[""]] * 4, field_delim=";", na_value="NA")]
        dataset = hf.data.experimental.CsvDataset(
            [str(path)], [hf.int32, hf.float32, hf.string, [7]], header=True)
        iterator = dataset.make_initializable_iterator()
        start, following = iterator.initializer, iterator.get_next()
        texts = hf.data.TextLineDataset(str(path)).make_initializable_iterator()
        lines, text = texts.initializer, texts.get_next()
        session = hf.Session()
    samples = (b"1,2.5,text,4", b'1,2.5,"te,""xt",4', b"1;2.5;te\nxt;NA", b",,,", b'"1","2.5","",4')

    def case(rng: random.Random) -> str:
        rows = [damaged_bytes(rng, rng.choice(samples)) for _ in range(rng.randrange(1, 5))]
        how = rng.randrange(3)
        if how == 0:
            given = rows if rng.random() < 0.5 else rows[0]
            session.run(rng.choice(columns), {line: given})
            return "parsed"
        path.write_bytes(rng.choice((b"\n", b"\r\n", b"\r")).join([b"a,b,c,d", *rows]))
        session.run(start if how == 1 else lines)
        while True:
            session.run(following if how == 1 else text)

    return case


# ---------------------------------------------------------------- events


def prepare_events(hf: Any, folder: Path) -> Case:
    """Cases of event files and of the summaries in them."""
    with hf.Graph().as_default() as graph:
        hf.summary.scalar("s", hf.constant(1.0))
        hf.summary.histogram("h", hf.random_normal([10]))
        hf.summary.image("i", hf.ones([1, 4, 4, 3]))
        merged = hf.summary.merge_all()
        one = hf.placeholder(hf.string)
        both = hf.summary.merge([one, one])
        with hf.summary.FileWriter(str(folder / "log"), graph) as writer:
            value = hf.Session().run(merged)
            writer.add_summary(value, 1)
        session = hf.Session()
    (source,) = (folder / "log").iterdir()
    records = list(hf.python_io.tf_record_iterator(str(source)))
    path = folder / "events"

    def case(rng: random.Random) -> str:
        if rng.random() < 0.2:
            session.run(both, {one: damaged_bytes(rng, value)})
            return "merged"
        path.write_bytes(_file(rng, records))
        for event in hf.train.summary_iterator(str(path)):
            for item in event.summary.value:
                hf.make_ndarray(item.tensor) if item.HasField("tensor") else item.simple_value
        return "iterated"

    return case


FORMATS = {"tfrecord": prepare_tfrecord, "example": prepare_example, "csv": prepare_csv,
           "events": prepare_events}
