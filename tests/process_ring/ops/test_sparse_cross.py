"""Crosses of features against loops over examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hpcflow as hf

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


def test_what_is_refused(session):
    with pytest.raises(TypeError, match="list"):
        hf.sparse.cross(SIZES)
    with pytest.raises(TypeError, match="strings or integers"):
        hf.sparse.cross([np.ones((1, 2), np.float32)])
    for inputs, message in (([SIZES, SIZES[:2]], "number of examples"), ([SIZES[0]], "matrices"),
                            ([hf.SparseTensor([[1, 0], [0, 0]], ["a", "b"], [2, 1])], "order")):
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(hf.sparse.cross(inputs))
