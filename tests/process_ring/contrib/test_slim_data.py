"""Data sets of ``contrib.slim``: files that readers read in parallel, records made into items."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import slim

decoders = slim.tfexample_decoder


def feature(value):
    value = np.atleast_1d(value)
    if value.dtype.kind in "SUO":
        return hf.train.Feature(bytes_list=hf.train.BytesList(value=[
            v if isinstance(v, bytes) else v.encode() for v in value.tolist()]))
    if value.dtype.kind == "f":
        return hf.train.Feature(float_list=hf.train.FloatList(value=value))
    return hf.train.Feature(int64_list=hf.train.Int64List(value=value))


def example(**features):
    made = {key.replace("__", "/"): feature(value) for key, value in features.items()}
    return hf.train.Example(features=hf.train.Features(feature=made)).SerializeToString()


def items(session, serialized, features, handlers):
    decoder = decoders.TFExampleDecoder(features, handlers)
    return dict(zip(decoder.list_items(), session.run(decoder.decode(serialized)), strict=True))


def encoded(session, image, form):
    encode = {"png": hf.image.encode_png, "jpeg": hf.image.encode_jpeg}[form]
    return session.run(encode(image))


def write(folder, name, numbers):
    path = str(folder / name)
    with hf.python_io.TFRecordWriter(path) as writer:
        for n in numbers:
            writer.write(example(n=int(n), word=np.array([f"w{n}"] * (n % 3), object)))
    return path


FEATURES = {"n": hf.FixedLenFeature([], hf.int64), "word": hf.VarLenFeature(hf.string)}
HANDLERS = {"number": decoders.Tensor("n"), "words": decoders.Tensor("word", default_value="")}


def read_all(session, tensors):
    """What `tensors` give until their files end."""
    session.run([hf.global_variables_initializer(), hf.local_variables_initializer()])
    coordinator = hf.train.Coordinator()
    threads = hf.train.start_queue_runners(session, coordinator)
    found = []
    try:
        while True:
            found.append(session.run(tensors))
    except hf.errors.OutOfRangeError:
        pass
    coordinator.request_stop()
    coordinator.join(threads)
    return found


# ---------------------------------------------------------------- readers


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_provider_gives_all_records_of_all_epochs(session, tmp_path, shuffle):
    write(tmp_path, "a.rec", range(5))
    write(tmp_path, "b.rec", range(5, 12))
    data = slim.dataset.Dataset(
        str(tmp_path / "*.rec"), hf.TFRecordReader, decoders.TFExampleDecoder(FEATURES, HANDLERS),
        12, {"number": "a number"}, num_classes=3)
    provider = slim.dataset_data_provider.DatasetDataProvider(
        data, num_readers=2, shuffle=shuffle, num_epochs=2, common_queue_capacity=20,
        common_queue_min=5, seed=1)
    assert provider.list_items() == ["number", "words", "record_key"]
    assert provider.num_samples() == 12 and data.num_classes == 3
    found = read_all(session, provider.get(["number", "words", "record_key"]))
    assert sorted(n for n, _, _ in found) == sorted([*range(12)] * 2)
    for n, words, key in found:
        assert words.tolist() == [f"w{n}".encode()] * (n % 3)
        assert key.decode().rsplit("/", 1)[1][0] == ("a" if n < 5 else "b")


def test_what_a_provider_refuses(tmp_path):
    path = write(tmp_path, "a.rec", [1])
    data = slim.dataset.Dataset([path], hf.TFRecordReader,
                                decoders.TFExampleDecoder(FEATURES, HANDLERS), 1, {})
    provider = slim.dataset_data_provider.DatasetDataProvider(data)
    with pytest.raises(ValueError, match=r"Item \[image\] is invalid"):
        provider.get(["image"])
    with pytest.raises(ValueError, match="list or tuple"):
        provider.get("number")
    with pytest.raises(ValueError, match="record_key"):
        slim.dataset_data_provider.DatasetDataProvider(data, record_key="number")
    with pytest.raises(ValueError, match="No data files"):
        slim.parallel_reader.get_data_files(str(tmp_path / "none*"))
    with pytest.raises(TypeError, match=r"must be \[string, string\]"):
        slim.parallel_reader.ParallelReader(hf.TFRecordReader, hf.FIFOQueue(2, [hf.int64]))


def test_one_reader_reads_the_files_once_in_order(session, tmp_path):
    paths = [write(tmp_path, f"{k}.rec", [k, k + 10]) for k in range(3)]
    _, value = slim.parallel_reader.single_pass_read(paths, hf.TFRecordReader)
    number = hf.parse_single_example(value, FEATURES)["n"]
    assert read_all(session, number) == [0, 10, 1, 11, 2, 12]


def test_readers_count_what_they_read(session, tmp_path):
    names = hf.train.string_input_producer([write(tmp_path, "a.rec", range(4))], num_epochs=1)
    reader = slim.parallel_reader.ParallelReader(
        hf.TFRecordReader, hf.FIFOQueue(10, [hf.string, hf.string]), num_readers=2)
    keys, _ = reader.read(names)
    assert len(read_all(session, keys)) == 4 and reader.num_readers == 2
    assert session.run(reader.num_records_produced()) == 4
    assert session.run(reader.num_work_units_completed()) == 1


@pytest.mark.parametrize("names", [False, True])
def test_a_queue_that_is_filled_ahead(session, names):
    count = hf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    row = hf.fill([2], count)
    tensors = {"count": count, "row": row} if names else [count, row]
    queue = slim.prefetch_queue.prefetch_queue(tensors, capacity=2, num_threads=1)
    for k, got in enumerate(read_all(session, queue.dequeue())):
        got = [got["count"], got["row"]] if names else got
        assert got[0] == k and got[1].tolist() == [k, k]
    assert k == 3


# ---------------------------------------------------------------- items


@pytest.mark.parametrize("form", ["png", "jpeg", "raw"])
def test_images(session, form):
    image = np.full((4, 6, 3), 50, np.uint8)
    data = image.tobytes() if form == "raw" else encoded(session, image, form)
    features = {"image/encoded": hf.FixedLenFeature([], hf.string),
                "image/format": hf.FixedLenFeature([], hf.string, default_value="jpeg")}
    given = {"image__encoded": data, **({} if form == "jpeg" else {"image__format": form})}
    got = items(session, example(**given), features, {
        "image": decoders.Image(shape=[4, 6, 3] if form == "raw" else None)})["image"]
    np.testing.assert_allclose(got, image, atol=2)
    assert got.dtype == np.uint8


def test_several_images_and_raw_numbers(session):
    parts = [np.full((2, 3, 1), n, np.uint8) for n in (3, 9)]
    features = {"image/encoded": hf.FixedLenFeature([2], hf.string),
                "image/format": hf.FixedLenFeature([], hf.string), "bytes":
                hf.FixedLenFeature([], hf.string)}
    numbers = np.float32([[[1.5], [2.5]]])
    got = items(session, example(
        image__encoded=[encoded(session, p, "png") for p in parts], image__format="png",
        bytes=numbers.tobytes()), features, {
            "images": decoders.Image(channels=1, repeated=True)})["images"]
    np.testing.assert_array_equal(got, parts)
    raw = {"image/encoded": features["image/encoded"], "image/format": features["image/format"]}
    raw["image/encoded"] = hf.FixedLenFeature([], hf.string)
    got = items(session, example(image__encoded=numbers.tobytes(), image__format="RAW"), raw, {
        "i": decoders.Image(shape=[1, 2, 1], channels=1, dtype=hf.float32)})["i"]
    np.testing.assert_array_equal(got, numbers)


def test_boxes_tensors_and_tables(session):
    sides = ("ymin", "xmin", "ymax", "xmax")
    boxes = {f"box/{side}": hf.VarLenFeature(hf.float32) for side in sides}
    table = hf.contrib.lookup.index_table_from_tensor(["cat", "dog"])
    features = {**boxes, "names": hf.VarLenFeature(hf.string), "m": hf.VarLenFeature(hf.int64),
                "h": hf.FixedLenFeature([], hf.int64), "w": hf.VarLenFeature(hf.int64),
                "empty": hf.VarLenFeature(hf.int64)}
    given = {f"box__{side}": np.float32([k, k + 0.5]) for k, side in enumerate(sides)}
    serialized = example(**given, names=["dog", "cat"], m=np.arange(6), h=2, w=3)
    handlers = {
        "boxes": decoders.BoundingBox(prefix="box/"),
        "labels": decoders.LookupTensor("names", table),
        "matrix": decoders.Tensor(
            "m", shape=[3, 2]),
        "sum": decoders.ItemHandlerCallback(["m", "h"], lambda f: hf.sparse_reduce_sum(f["m"])
                                            + f["h"]),
        "first": decoders.BackupHandler(decoders.Tensor("empty"), decoders.Tensor("m")),
        "second": decoders.BackupHandler(decoders.Tensor("m"), decoders.Tensor("empty")),
    }
    decoder = decoders.TFExampleDecoder(features, handlers)
    found = decoder.decode(serialized)
    session.run(hf.tables_initializer())
    got = dict(zip(decoder.list_items(), session.run(found), strict=True))
    np.testing.assert_array_equal(got["boxes"], [[0, 1, 2, 3], [0.5, 1.5, 2.5, 3.5]])
    assert got["labels"].tolist() == [1, 0] and got["sum"] == 17
    assert got["matrix"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert got["first"].tolist() == got["second"].tolist() == [*range(6)]
    assert len(decoder.decode(serialized, ["boxes", "sum"])) == 2


def test_a_shape_of_features(session):
    features = {"m": hf.VarLenFeature(hf.int64), "h": hf.FixedLenFeature([1], hf.int64),
                "w": hf.FixedLenFeature([1], hf.int64), "hw": hf.FixedLenFeature([2], hf.int64)}
    got = items(session, example(m=np.arange(6), h=[2], w=[3], hw=[3, 2]), features, {
        "one": decoders.Tensor("m", shape_keys=["h", "w"]),
        "two": decoders.Tensor("m", shape_keys="hw")})
    assert got["one"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert got["two"].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_sparse_items(session):
    features = {"indices": hf.VarLenFeature(hf.int64), "values": hf.VarLenFeature(hf.float32)}
    serialized = example(indices=[1, 4], values=np.float32([0.5, 2.5]))
    got = items(session, serialized, features, {
        "sparse": decoders.SparseTensor(shape=[6]),
        "dense": decoders.SparseTensor(shape=[6], densify=True, default_value=-1)})
    assert got["sparse"].indices.tolist() == [[1], [4]]
    assert got["dense"].tolist() == [-1, 0.5, -1, -1, 2.5, -1]


def test_handlers_that_cannot_be():
    with pytest.raises(ValueError, match="4 keys but got 2"):
        decoders.BoundingBox(["a", "b"])
    with pytest.raises(ValueError, match="both shape_keys and shape"):
        decoders.Tensor("a", shape_keys="b", shape=[1])
    with pytest.raises(ValueError, match="Backup handler"):
        decoders.BackupHandler(decoders.Tensor("a"), "b")
