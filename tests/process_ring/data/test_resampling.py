"""Data sets resampled by class, and windows, interleavings and reductions of ``contrib.data``."""

import numpy as np
import pytest

import hpcflow as hf

Dataset = hf.data.Dataset


def elements(dataset, session):
    following = dataset.make_one_shot_iterator().get_next()
    found = []
    with pytest.raises(hf.errors.OutOfRangeError):
        while True:
            found.append(session.run(following))
    return found


@pytest.mark.parametrize("before", [None, [0.2, 0.8]])
def test_frequent_classes_are_thinned_out(before, session):
    classes = (np.arange(2000) % 5 != 0).astype(np.int32)  # four of five are of class 1
    dataset = Dataset.from_tensor_slices((classes, np.arange(2000))).apply(
        hf.data.experimental.rejection_resample(lambda kind, number: kind, [0.5, 0.5], before, 3))
    found = elements(dataset, session)
    assert all(kind == classes[number] and kind == same for kind, (same, number) in found)
    rare = [number for kind, (_, number) in found if kind == 0]
    assert rare == list(range(0, 2000, 5))  # of the rare class none is dropped
    # 1,600 are kept with a chance of one in four; six standard deviations are 104.
    assert abs(len(found) - len(rare) - 400) < 130


def test_elements_that_are_one_tensor(session):
    dataset = Dataset.range(10).apply(hf.contrib.data.rejection_resample(
        lambda number: number % 2, [1.0, 0.0], [0.5, 0.5]))
    assert elements(dataset, session) == [(0, n) for n in range(0, 10, 2)]


def test_windows_that_overlap(session):
    windows = hf.contrib.data.sliding_window_batch(3, window_shift=2, window_stride=2)
    assert [w.tolist() for w in elements(Dataset.range(9).apply(windows), session)] == [
        [0, 2, 4], [2, 4, 6], [4, 6, 8]]
    pairs = Dataset.zip((Dataset.range(4), Dataset.range(10, 14))).apply(
        hf.contrib.data.sliding_window_batch(3))
    assert [[part.tolist() for part in w] for w in elements(pairs, session)] == [
        [[0, 1, 2], [10, 11, 12]], [[1, 2, 3], [11, 12, 13]]]
    with pytest.raises(ValueError, match="both"):
        hf.contrib.data.sliding_window_batch(3, 1, 2)


def test_interleaved_and_reduced(session):
    sloppy = Dataset.range(4).apply(hf.contrib.data.sloppy_interleave(
        lambda n: Dataset.from_tensors(n).repeat(3), cycle_length=2))
    assert sorted(elements(sloppy, session)) == sorted([0, 1, 2, 3] * 3)
    mean = hf.contrib.data.Reducer(
        lambda key: (0.0, 0.0), lambda state, x: (state[0] + x, state[1] + 1.0),
        lambda state: state[0] / state[1])
    numbers = Dataset.from_tensor_slices([1.0, 2.0, 6.0])
    assert session.run(hf.contrib.data.reduce_dataset(numbers, mean)) == 3
