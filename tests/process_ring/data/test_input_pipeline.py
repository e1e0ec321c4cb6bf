"""Input pipelines of queues: producers, and batches in order, shuffled, padded or filtered."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


@contextlib.contextmanager
def running():
    """A session with its local variables initialized and its queue runners started."""
    with hf.Session() as session:
        session.run([hf.global_variables_initializer(), hf.local_variables_initializer()])
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        yield session
        coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=10)


def all_of(session, fetch):
    """The values of `fetch` until the data ends."""
    values = []
    with contextlib.suppress(hf.errors.OutOfRangeError):
        while True:
            values.append(session.run(fetch))
    return values


def test_epochs_in_order_and_shuffled():
    ordered = hf.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False)
    mixed = hf.train.range_input_producer(20, num_epochs=2, seed=3)
    endless = hf.train.range_input_producer(2, shuffle=False)
    one, two, three = ordered.dequeue(), mixed.dequeue(), endless.dequeue()
    with running() as session:
        assert all_of(session, one) == [b"a", b"b", b"c"] * 2
        numbers = all_of(session, two)
        for epoch in (numbers[:20], numbers[20:]):
            assert sorted(epoch) == list(range(20)) and epoch != sorted(epoch)
        assert numbers[:20] != numbers[20:]
        assert [session.run(three) for _ in range(5)] == [0, 1, 0, 1, 0]


def test_slices():
    x, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    a, b = hf.train.slice_input_producer([x, y], num_epochs=1, shuffle=True)
    assert a.shape.as_list() == [2]
    with running() as session:
        pairs = all_of(session, [a, b])
        assert sorted(int(n) for _, n in pairs) == list(range(6))
        for row, n in pairs:
            np.testing.assert_array_equal(row, x[n])


def test_wrong_producers():
    with pytest.raises(ValueError, match="non-null"):
        hf.train.string_input_producer([])
    with pytest.raises(ValueError, match="fully defined"):
        hf.train.input_producer(hf.placeholder(hf.float32, [None, None]))
    with pytest.raises(ValueError, match="num_epochs must be > 0"):
        hf.train.limit_epochs([1.0], 0)
    with pytest.raises(ValueError, match="at least one"):
        hf.train.slice_input_producer([])


def test_matching_files(tmp_path):
    for name in ("a.txt", "b.txt", "c.bin"):
        (tmp_path / name).write_text("")
    files = hf.train.match_filenames_once(str(tmp_path / "*.txt"))
    with hf.Session() as session:
        session.run(hf.local_variables_initializer())
        assert [f.rsplit(b"/")[-1] for f in session.run(files)] == [b"a.txt", b"b.txt"]


@pytest.mark.parametrize(("smaller", "sizes"), [(False, [4, 4]), (True, [4, 4, 2])])
def test_batches(smaller, sizes):
    number = hf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    out = hf.train.batch({"n": number, "double": number * 2}, 4,
                         allow_smaller_final_batch=smaller)
    assert out["n"].shape.as_list() == [None if smaller else 4]
    with running() as session:
        got = all_of(session, out)
        assert [len(g["n"]) for g in got] == sizes
        np.testing.assert_array_equal(np.concatenate([g["n"] for g in got]),
                                      np.arange(sum(sizes)))
        np.testing.assert_array_equal(got[0]["double"], [0, 2, 4, 6])


def test_many_examples_at_once_by_several_threads():
    rows = hf.range(5)
    out = hf.train.batch([rows, rows * 2], 10, num_threads=3, enqueue_many=True)
    with running() as session:
        a, b = session.run(out)
        assert a.shape == (10,) and sorted(set(a.tolist())) == list(range(5))
        np.testing.assert_array_equal(2 * a, b)


def test_shuffled_batches():
    number = hf.train.range_input_producer(40, num_epochs=1, shuffle=False).dequeue()
    out = hf.train.shuffle_batch([number], 8, capacity=30, min_after_dequeue=10, seed=5,
                                 allow_smaller_final_batch=True)
    with running() as session:
        got = np.concatenate(all_of(session, out))
        assert sorted(got) == list(range(40)) and got.tolist() != sorted(got)


def test_joined_sources():
    sources = []
    for start in (0, 100):
        number = hf.train.range_input_producer(6, num_epochs=1, shuffle=False,
                                               name=f"source_{start}").dequeue()
        sources.append([number + start, hf.constant(f"from {start}")])
    a, b = hf.train.batch_join(sources, 3)
    with running() as session:
        got = all_of(session, [a, b])
        numbers = np.concatenate([n for n, _ in got])
        assert sorted(numbers) == [*range(6), *range(100, 106)]
        for ns, texts in got:
            assert all(t == (b"from 100" if n >= 100 else b"from 0")
                       for n, t in zip(ns, texts, strict=True))


def test_joined_sources_of_other_names():
    joins = (hf.train.batch_join, lambda s, n: hf.train.shuffle_batch_join(s, n, 9, 2))
    for join in joins:
        with pytest.raises(ValueError, match="must have the same keys"):
            join([{"a": hf.constant(1)}, {"b": hf.constant(2)}], 2)
        with pytest.raises(ValueError, match="not a dict"):
            join([{"a": hf.constant(1)}, [hf.constant(2)]], 2)


def test_padding():
    number = hf.train.range_input_producer(4, num_epochs=1, shuffle=False).dequeue()
    out = hf.train.batch(hf.range(number), 4, dynamic_pad=True, shapes=[[None]])
    with running() as session:
        np.testing.assert_array_equal(
            session.run(out), [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 2]])


def test_only_some_examples():
    number = hf.train.range_input_producer(12, num_epochs=1, shuffle=False, name="a").dequeue()
    even = hf.train.maybe_batch(number, hf.equal(number % 2, 0), 3)
    rows = hf.train.range_input_producer(12, num_epochs=1, shuffle=False,
                                         name="b").dequeue_many(4)
    odd = hf.train.maybe_shuffle_batch([rows], 3, 30, 0, hf.equal(rows % 2, 1), enqueue_many=True)
    with running() as session:
        np.testing.assert_array_equal(np.concatenate(all_of(session, even)), np.arange(0, 12, 2))
        assert sorted(np.concatenate(all_of(session, odd))) == list(range(1, 12, 2))
    with pytest.raises(ValueError, match="scalar"):
        hf.train.maybe_batch(number, [True, False], 3)


def test_wrong_batches():
    with pytest.raises(ValueError, match="at least one tensor"):
        hf.train.batch([], 4)
    with pytest.raises(TypeError, match="consistent"):
        hf.train.batch_join([[hf.constant(1)], [hf.constant(1.0)]], 4)
