"""Data sets: sparse tensors, files, and ``data.experimental``."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from dataset_elements import elements, numbers, rest

import hpcflow as hf
from hpcflow.data import Dataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

experimental = hf.data.experimental


@pytest.fixture
def sparse(graph):
    return hf.SparseTensor([[0, 0], [1, 1], [2, 0]], [1.0, 2.0, 3.0], [3, 2])


def dense(value):
    out = np.zeros(value.dense_shape)
    out[tuple(value.indices.T)] = value.values
    return out.tolist()


def test_sparse_elements(session, sparse):
    dataset = Dataset.from_tensor_slices((sparse, [1, 2, 3]))
    assert dataset.output_classes == (hf.SparseTensor, hf.Tensor)
    assert dataset.output_shapes[0].as_list() == [2]
    assert [dense(s) for s, _ in elements(session, dataset)] == [[1, 0], [0, 2], [3, 0]]
    doubled = dataset.map(lambda s, i: (s * 2.0, i)).batch(2)
    assert [dense(s) for s, _ in elements(session, doubled)] == [[[2, 0], [0, 4]], [[6, 0]]]
    again = doubled.apply(experimental.unbatch())
    assert [dense(s) for s, _ in elements(session, again)] == [[2, 0], [0, 4], [6, 0]]
    (whole,) = elements(session, Dataset.from_tensors({"a": sparse}))
    assert dense(whole["a"]) == [[1, 0], [0, 2], [3, 0]]
    rows = elements(session, Dataset.from_sparse_tensor_slices(sparse))
    assert [r[0].tolist() for r in rows] == [[[0]], [[1]], [[0]]]
    with pytest.raises(TypeError, match="SparseTensor"):
        Dataset.from_sparse_tensor_slices(hf.constant(1))


def test_files(session, tmp_path):
    names = [str(tmp_path / f"{i}.txt") for i in range(2)]
    for i, name in enumerate(names):
        with open(name, "w") as file:
            file.write(f"a{i}\nb{i}\r\n")
    lines = TextLineDataset(names)
    assert elements(session, lines) == [b"a0", b"b0", b"a1", b"b1"]
    assert elements(session, TextLineDataset(Dataset.from_tensor_slices(names))) == [
        b"a0", b"b0", b"a1", b"b1"]
    assert elements(session, Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False)) == [
        n.encode() for n in names]
    assert sorted(elements(session, Dataset.list_files(str(tmp_path / "*.txt")))) == [
        n.encode() for n in names]
    with pytest.raises(hf.errors.InvalidArgumentError, match="No files matched"):
        elements(session, Dataset.list_files(str(tmp_path / "none")))
    assert elements(session, TextLineDataset([names[0], str(tmp_path / "none")]))[2:] == [
        hf.errors.NotFoundError]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_records(session, tmp_path, compression):
    path = str(tmp_path / "records")
    kind = {"": 0, "ZLIB": 1, "GZIP": 2}[compression]
    with hf.python_io.TFRecordWriter(path, hf.python_io.TFRecordOptions(kind)) as writer:
        for i in range(4):
            writer.write(b"%d" % i)
    dataset = TFRecordDataset([path, path], compression, num_parallel_reads=2)
    assert elements(session, dataset) == [b"0", b"0", b"1", b"1", b"2", b"2", b"3", b"3"]
    if compression == "GZIP":
        lines = str(tmp_path / "lines.gz")
        with gzip.open(lines, "wb") as file:
            file.write(b"one\ntwo\n" * 3)
        assert elements(session, TextLineDataset(lines, compression)) == [b"one", b"two"] * 3
        fixed = FixedLengthRecordDataset(lines, 3, 1, 2, compression_type="GZIP")
        assert elements(session, fixed)[:2] == [b"ne\n", b"two"]
        fixed = FixedLengthRecordDataset([lines, lines], 3, 2, 2, compression_type="GZIP")
        assert elements(session, fixed) == [hf.errors.InvalidArgumentError] * 2


def test_counting_and_scanning(session):
    assert numbers(session, experimental.Counter(3, 2).take(3)) == [3, 5, 7]
    totals = experimental.scan(np.int64(0), lambda s, x: (s + x, (s, x)))
    assert elements(session, Dataset.range(4).apply(totals)) == [(0, 0), (0, 1), (1, 2), (3, 3)]


def test_windows_of_a_key(session):
    by_rest = experimental.group_by_window(
        lambda x: x % 3, lambda key, window: window.batch(4).map(lambda b: (key, b)), 2)
    found = elements(session, Dataset.range(8).apply(by_rest))
    assert [(int(k), b.tolist()) for k, b in found] == [
        (0, [0, 3]), (1, [1, 4]), (2, [2, 5]), (0, [6]), (1, [7])]


@pytest.mark.parametrize("to_boundary", [False, True])
def test_buckets(session, to_boundary):
    rows = Dataset.range(1, 7).map(lambda n: hf.fill([n], n))
    buckets = experimental.bucket_by_sequence_length(
        hf.size, [3, 7], [2, 2, 2], padded_shapes=[None], pad_to_bucket_boundary=to_boundary)
    assert [b.shape for b in elements(session, rows.apply(buckets))] == [
        (2, 2), (2, 6 if to_boundary else 4), (2, 6)]


def test_what_fails_is_left_out(session):
    dataset = Dataset.range(5).map(lambda x: hf.check_numerics(1.0 / hf.to_float(x - 2), "e"))
    assert numbers(session, dataset.apply(experimental.ignore_errors())) == [-0.5, -1, 1, 0.5]


def test_choices(session):
    parts = [Dataset.range(3), Dataset.range(10, 13)]
    choices = Dataset.from_tensor_slices(np.array([0, 1, 1, 0, 1, 1, 0]))
    assert numbers(session, experimental.choose_from_datasets(parts, choices)) == [
        0, 10, 11, 1, 12, 2]
    assert sorted(numbers(session, experimental.sample_from_datasets(
        parts, [0.5, 0.5], seed=1))) == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize(("weights", "expected"), [
    (None, [1, 0, 2, 0, 1, 1, 1, 2, 0, 2]), ([0.5, 0.3, 0.2], [1, 0, 2, 0, 0, 1, 1, 2, 0, 1])])
def test_choices_by_a_seed_are_those_of_tensorflow(session, weights, expected):
    parts = [Dataset.from_tensors(i).repeat() for i in range(3)]
    sampled = experimental.sample_from_datasets(parts, weights, seed=7)
    assert numbers(session, sampled.take(10)) == expected


def test_data_sets_without_weight_have_no_end_to_wait_for(session):
    endless, short = Dataset.from_tensors(0).repeat(), Dataset.range(1, 4)
    for weights, expected in (([0.0, 1.0], [1, 2, 3]), ([0.0, 0.0], [])):
        sampled = experimental.sample_from_datasets([endless, short], weights)
        assert numbers(session, sampled) == expected
    parts = [short.map(lambda x, i=i: x + 10 * i) for i in range(3)]
    mixed = experimental.sample_from_datasets(parts, [0.5, 0.0, 0.5], seed=1)
    assert sorted(numbers(session, mixed)) == [1, 2, 3, 21, 22, 23]


def test_small_changes(session):
    ten = Dataset.range(10)
    assert numbers(session, ten.apply(experimental.take_while(lambda x: x < 3))) == [0, 1, 2]
    assert numbers(session, ten.map(lambda x: x % 3).apply(experimental.unique())) == [0, 1, 2]
    assert numbers(session, ten.apply(experimental.map_and_batch(lambda x: -x, 4, 2, True))) == [
        [0, -1, -2, -3], [-4, -5, -6, -7]]
    assert sorted(numbers(session, ten.apply(experimental.shuffle_and_repeat(3, 2)))) == sorted(
        [*range(10)] * 2)
    with pytest.raises(hf.errors.InvalidArgumentError, match="neither positive nor -1"):
        elements(session, ten.apply(experimental.shuffle_and_repeat(3, 0)))
    batches = ten.batch(4).apply(experimental.unbatch())
    assert numbers(session, batches) == list(range(10))
    rows = Dataset.range(1, 3).map(lambda n: hf.fill([n], n))
    (batch,) = elements(session, rows.apply(experimental.dense_to_sparse_batch(2, [4])))
    assert dense(batch) == [[1, 0, 0, 0], [2, 2, 0, 0]]
    (batch,) = elements(session, ten.take(2).apply(experimental.dense_to_sparse_batch(2, [])))
    assert dense(batch) == [0, 1]
    for bounds, error in (([1], hf.errors.DataLossError),
                          ([4, 4], hf.errors.InvalidArgumentError)):
        assert elements(session, rows.apply(experimental.dense_to_sparse_batch(2, bounds))) == [
            error]
    assert session.run(experimental.get_single_element(ten.skip(9))) == 9
    with pytest.raises(hf.errors.InvalidArgumentError, match="more than one"):
        session.run(experimental.get_single_element(ten))


def test_names_of_other_versions(session):
    contrib = hf.contrib.data
    dataset = Dataset.range(5).apply(contrib.batch_and_drop_remainder(2))
    assert numbers(session, dataset) == [[0, 1], [2, 3]]
    iterator = hf.compat.v1.data.make_one_shot_iterator(Dataset.range(1))
    assert rest(session, iterator.get_next()) == [0]
    options = hf.data.Options()
    options.experimental_deterministic = False
    kept = Dataset.range(2).with_options(options).map(lambda x: x + 1)
    assert kept.options().experimental_deterministic is False
    assert numbers(session, kept) == [1, 2]


def test_forms_of_other_writers(session):
    raw = hf.raw_ops
    about = {"output_types": [hf.int64], "output_shapes": [[]]}
    batches = {"output_types": [hf.int64], "output_shapes": [[None]]}
    five = raw.RangeDataset(start=np.int64(0), stop=np.int64(5), step=np.int64(1), **about)
    same = raw.OptimizeDataset(input_dataset=five, optimizations=["any"],
                               optimization_configs=["map_vectorization:x:false"], **about)
    same = raw.ModelDataset(input_dataset=same, algorithm=1, **about)
    same = raw.ExperimentalPrivateThreadPoolDataset(input_dataset=same, num_threads=np.int64(2),
                                                    **about)
    same = raw.LatencyStatsDataset(input_dataset=same, tag="time", **about)
    pairs = raw.BatchDataset(input_dataset=same, batch_size=np.int64(2), **batches)
    again = raw.ExperimentalUnbatchDataset(input_dataset=pairs, **about)
    lenient = raw.ExperimentalIgnoreErrorsDataset(input_dataset=again, **about)
    unique = raw.ExperimentalUniqueDataset(input_dataset=lenient, **about)
    padded = raw.PaddedBatchDataset(
        input_dataset=unique, batch_size=np.int64(3), padded_shapes=[np.zeros(0, np.int64)],
        padding_values=[np.int64(0)], output_shapes=[[None]])
    iterator = raw.Iterator(shared_name="", container="", **batches)
    session.run(raw.MakeIterator(dataset=padded, iterator=iterator))
    handle = raw.IteratorToStringHandle(iterator)
    found = raw.IteratorFromStringHandle(string_handle=handle)
    (following,) = raw.IteratorGetNextSync(iterator=found, **batches)
    optional = raw.IteratorGetNextAsOptional(iterator=iterator, **batches)
    has_value = raw.OptionalHasValue(optional)
    assert session.run(following).tolist() == [0, 1, 2]
    assert session.run(has_value)
    assert not session.run(has_value)
    (only,) = raw.ExperimentalDatasetToSingleElement(
        dataset=raw.TakeDataset(input_dataset=five, count=np.int64(1), **about), **about)
    assert session.run(only) == 0


def test_functions_of_one_name_inside_each_other(session):
    rows = Dataset.from_tensor_slices([[1, 2], [3, 0]])
    nested = rows.flat_map(lambda x: Dataset.from_tensor_slices(x).flat_map(
        lambda y: Dataset.from_tensors(y).repeat(hf.to_int64(y))))
    assert elements(session, nested) == [1, 2, 2, 3, 3, 3]

    def flat(x):
        slices = Dataset.from_tensor_slices(x)
        return slices.flat_map(flat) if x.shape.ndims > 1 else slices

    deep = Dataset.from_tensors(np.arange(8).reshape(2, 2, 2)).flat_map(flat)
    assert elements(session, deep) == list(range(8))


def test_windows_after_windows(graph):
    """Data sets of data sets are concatenated if these are alike."""
    windows = Dataset.range(4).window(2).concatenate(Dataset.range(10, 13).window(3))
    following = windows.flat_map(lambda d: d.batch(3)).make_one_shot_iterator().get_next()
    with hf.Session() as session:
        assert [session.run(following).tolist() for _ in range(3)] == [[0, 1], [2, 3], [10, 11, 12]]
    with pytest.raises(TypeError, match="different"):
        windows.concatenate(Dataset.from_tensor_slices([1.0]).window(1))


@pytest.mark.parametrize("make", [
    lambda: hf.data.Dataset.range(9).shuffle(9, seed=5),
    lambda: hf.data.Dataset.range(9).shuffle(9, seed=5, reshuffle_each_iteration=False),
    lambda: hf.data.Dataset.range(9).shuffle(9, seed=5).prefetch(2),
    lambda: hf.data.Dataset.range(3).shuffle(3, seed=5).repeat(3),
    lambda: hf.data.Dataset.range(9).map(lambda x: hf.random_uniform([], seed=3)),
    lambda: hf.data.experimental.sample_from_datasets(
        [hf.data.Dataset.range(9), hf.data.Dataset.range(10, 19)], seed=3).take(9),
], ids=["shuffle", "shuffle once", "prefetch", "repeat", "map", "sample"])
def test_data_set_used_twice_gives_the_same_sequence_twice(session, make):
    base = make()
    zipped = hf.data.Dataset.zip((base.map(lambda x: x), base.map(lambda x: (x, x))))
    both = [a.make_initializable_iterator() for a in (zipped, base.concatenate(base))]
    pairs, one = (i.get_next() for i in both)
    session.run([i.initializer for i in both])
    found = [session.run(pairs) for _ in range(9)]
    assert [a for a, _ in found] == [b for _, (b, _) in found]
    ones = [session.run(one) for _ in range(18)]
    assert ones[:9] == ones[9:] == [a for a, _ in found]
    assert len(set(ones)) > 1


def test_cardinality(session, tmp_path):
    experimental, five = hf.data.experimental, Dataset.range(5)
    endless, some = five.repeat(), five.filter(lambda x: x > 1)
    infinite, unknown = experimental.INFINITE_CARDINALITY, experimental.UNKNOWN_CARDINALITY
    cases = [
        (five, 5), (Dataset.range(10, 5, -2), 3), (Dataset.from_tensors(1), 1), (some, unknown),
        (Dataset.from_tensor_slices([1, 2]), 2), (five.map(lambda x: x), unknown),
        (five.batch(2), 3), (five.batch(2, drop_remainder=True), 2), (endless.batch(2), infinite),
        (five.padded_batch(2, []), 3), (five.cache(), 5), (five.cache(str(tmp_path / "c")), 5),
        (five.concatenate(five), 10), (some.concatenate(five), unknown),
        (endless.concatenate(some), infinite), (five.flat_map(lambda x: five), unknown),
        (endless.interleave(lambda x: five, 2), unknown), (five.prefetch(1), 5),
        (five.shuffle(2), 5), (five.shuffle(2).repeat(3), 15), (five.repeat(0), 0),
        (five.repeat(2), 10), (Dataset.range(0).repeat(), 0), (endless, infinite),
        (some.repeat(2), unknown), (five.shard(2, 0), 3), (five.shard(8, 7), 0),
        (endless.shard(2, 0), infinite), (five.skip(2), 3), (five.skip(-1), 0), (five.skip(8), 0),
        (five.take(2), 2), (five.take(-1), 5), (endless.take(3), 3), (some.take(3), unknown),
        (five.window(2), 3), (five.window(2, drop_remainder=True), 2),
        (five.window(3, 1, drop_remainder=True), 3), (five.window(4, 2, 2, True), 0),
        (endless.skip(-1), infinite), (some.skip(-1), unknown), (some.repeat(), infinite),
        (experimental.Counter(), infinite),
        (Dataset.zip((five, endless)), 5), (Dataset.zip((endless, endless)), infinite),
        (Dataset.zip((five, some)), unknown), (experimental.RandomDataset(), infinite),
        (five.apply(experimental.map_and_batch(lambda x: x, 2)), 3),
    ]
    found = session.run([experimental.cardinality(d) for d, _ in cases])
    assert found == [n for _, n in cases]


def test_errors_of_elements_that_a_window_passes_over(session):
    odd = lambda x: hf.check_numerics(x, "odd")
    windows = Dataset.from_tensor_slices(np.float32([1, np.nan, 2, np.nan, 3])).map(odd).window(
        2, 2, 2, drop_remainder=True).flat_map(lambda d: d.batch(2))
    assert numbers(session, windows) == [[1, 2], [2, 3]]


def test_unique_elements_that_are_arrays(session):
    pairs = Dataset.from_tensor_slices([[1, 1], [2, 2], [1, 1]])
    assert numbers(session, pairs.apply(hf.data.experimental.unique())) == [[1, 1], [2, 2]]


def test_what_is_wrong_with_elements(session):
    with pytest.raises(ValueError, match="different batch sizes"):
        Dataset.from_tensors((np.arange(7), np.arange(8))).unbatch()
    ended = Dataset.range(2).apply(hf.data.experimental.scan(
        np.int64(0), lambda s, x: (s, hf.py_func(lambda v: next(iter(())), [x], hf.int64))))
    assert elements(session, ended) == [hf.errors.InvalidArgumentError] * 2
    long = Dataset.from_tensors([1] * 9).apply(hf.data.experimental.bucket_by_sequence_length(
        hf.size, [4, 8], [1, 1, 1], pad_to_bucket_boundary=True))
    assert elements(session, long) == [hf.errors.InvalidArgumentError]


def test_functions_see_the_collections_around_them(graph):
    graph.add_to_collection("found", 1)
    seen = []

    def look(x):
        hf.add_to_collection("found", 2)
        seen.extend(hf.get_collection("found"))
        return x

    Dataset.range(3).map(look)
    assert seen == [1, 2] and graph.get_collection("found") == [1]


def test_data_sets_in_lists_and_batches(session):
    three = [Dataset.range(n) for n in range(1, 4)]
    expected = [0, 0, 1, 0, 1, 2]
    for nested in (Dataset.from_tensor_slices(three), Dataset.from_tensors(three).unbatch(),
                   Dataset.from_tensors(three).flat_map(Dataset.from_tensor_slices),
                   Dataset.range(1, 4).map(Dataset.range).batch(2).map(lambda d: d).unbatch()):
        assert elements(session, nested.flat_map(lambda d: d)) == expected


def test_elements_that_are_tensor_arrays(session):
    def counting(n):
        array = hf.TensorArray(hf.int64, hf.to_int32(n), element_shape=[])
        return array.unstack(hf.range(hf.to_int64(n)))

    arrays = Dataset.range(4).map(counting)
    whole = arrays.map(lambda a: a.identity()).make_initializable_iterator()
    stacked = whole.get_next().stack()
    session.run(whole.initializer)
    assert [session.run(stacked).tolist() for _ in range(4)] == [[], [0], [0, 1], [0, 1, 2]]
    slices = arrays.flat_map(lambda a: Dataset.from_tensor_slices(a.stack()))
    assert elements(session, slices) == [0, 0, 1, 0, 1, 2]
    assert elements(session, Dataset.from_tensors(counting(3)).map(lambda a: a.size())) == [3]
    with pytest.raises(TypeError, match="cannot be batched"):
        arrays.batch(2)
