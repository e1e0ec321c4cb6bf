"""Crosses of features against loops over examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.layers.crossing import crossed_hashes

COLORS = [[b"red"], [b"red", b"blue"], []]
SIZES = np.array([[1, 2], [3, -4], [5, 6]], np.int64)


def sparse(rows):
    places = [[i, k] for i, row in enumerate(rows) for k in range(len(row))]
    return hf.SparseTensor(places, [v for row in rows for v in row], [len(rows), 2])


def expected(*columns):
    rows = [list(itertools.product(*features)) for features in zip(*columns)]
    return [[b"_X_".join(v if isinstance(v, bytes) else b"%d" % v for v in parts)
             for parts in row] for row in rows]


def as_rows(found):
    rows = [[] for _ in range(found.dense_shape[0])]
    for (row, place), value in zip(found.indices.tolist(), found.values.tolist()):
        assert place == len(rows[row])
        rows[row].append(value)
    assert found.dense_shape[1] == max(map(len, rows))
    return rows


def test_all_combinations(session):
    crosses = [hf.sparse.cross([sparse(COLORS), SIZES]),
               hf.sparse.cross([sparse(COLORS), SIZES.astype(np.int32), sparse(COLORS)]),
               hf.sparse.cross([SIZES], separator="|"), hf.sparse.cross([SIZES, SIZES],
                                                                         separator="")]
    one, three, alone, near = map(as_rows, session.run(crosses))
    columns = [COLORS, SIZES.tolist()]
    assert one == expected(*columns)
    # Dense inputs come after sparse ones.
    assert three == expected(COLORS, COLORS, SIZES.tolist())
    assert alone == [[b"1", b"2"], [b"3", b"-4"], [b"5", b"6"]]
    assert near[0] == [b"11", b"12", b"21", b"22"]


def test_hashes_tell_combinations_apart(session):
    make = hf.sparse.cross_hashed
    words = hf.constant([[f"w{k}" for k in range(50)]])
    found = session.run([make([words, words]), make([words, words], 7), make([words, words], 7, 5),
                         make([np.arange(50)[None], words])])
    free, few, keyed, mixed = (f.values for f in found)
    assert len(set(free.tolist())) == len(set(mixed.tolist())) == 2500 and free.min() >= 0
    assert set(few.tolist()) == set(range(7))
    assert (few != keyed).mean() > 0.5
    assert all(f.dense_shape.tolist() == [1, 2500] for f in found)


def test_numbers_that_stand_for_themselves(session):
    """Those of dense inputs in weak hashes."""
    cross = {"indices": [], "values": [], "shapes": [], "dense_inputs": [np.array([[1], [-2]])]}
    weak = hf.raw_ops.SparseCrossHashed(**cross, num_buckets=0, strong_hash=False, salt=[7, -3])
    assert session.run(weak.output_values).tolist() == [1, 0]
    places, numbers = np.array([[0, 0], [1, 0], [1, 1]]), np.array([5, -7, 2])
    found = [hf.raw_ops.SparseCrossHashed([places], [numbers], [np.array([2, 2])], [], 0, strong,
                                          [7, -3]).output_values for strong in (False, True)]
    assert [f.tolist() for f in session.run(found)] == [
        [6963635240778461613, 7243699054097421056, 6706320920252439311],
        [5219860473093177530, 4131383022766957283, 7109537628172081298]]


@pytest.mark.parametrize("crossed", [[[], [], []], [[], [b"blue"], []]])
def test_features_of_which_there_are_none(crossed, session):
    none = hf.SparseTensor(np.zeros((0, 2), np.int64), hf.constant([], hf.string), [3, 2])
    other = sparse(crossed) if any(crossed) else none
    found = [crossed_hashes([none, other], 10, 1), crossed_hashes([none, other], 10, None),
             hf.sparse.cross_hashed([none, other], 10), hf.sparse.cross([none, other])]
    for cross in session.run(found):
        assert not len(cross.values) and cross.dense_shape.tolist() == [3, 0]


@pytest.mark.parametrize("dtype", [hf.string, hf.int32])
def test_fingerprints_of_no_rows(dtype, session):
    for dims in ([0], [0, 3], [2, 0]):
        data = hf.placeholder(dtype)
        found = session.run(hf.fingerprint(data), {data: np.zeros(dims, dtype.np)})
        assert found.shape == (dims[0], 8)


def test_what_is_refused(session):
    with pytest.raises(TypeError, match="list"):
        hf.sparse.cross(SIZES)
    with pytest.raises(TypeError, match="strings or integers"):
        hf.sparse.cross([np.ones((1, 2), np.float32)])
    for inputs, message in (([SIZES, SIZES[:2]], "number of examples"), ([SIZES[0]], "matrices"),
                            ([hf.SparseTensor([[1, 0], [0, 0]], ["a", "b"], [2, 1])], "order")):
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(hf.sparse.cross(inputs))
