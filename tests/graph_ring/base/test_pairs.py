"""The covering sets of parameters that other tests are run with."""

from __future__ import annotations

import itertools

import pytest
from pairs import covering, pairs


@pytest.mark.parametrize("sizes", [
    [3], [2, 5], [1, 1, 1], [2, 2, 2, 2, 2, 2], [14, 2, 2, 4, 2], [5, 4, 2, 7], [16, 3, 4]])
def test_any_two_values_meet(sizes):
    rows = covering(sizes)
    for (i, m), (j, n) in itertools.combinations(enumerate(sizes), 2):
        assert {(row[i], row[j]) for row in rows} == set(itertools.product(range(m), range(n)))
    assert {row[0] for row in rows} == set(range(sizes[0]))
    two_largest = sorted([*sizes, 1])[-2:]
    assert len(set(rows)) == len(rows) <= 2 * two_largest[0] * two_largest[1]


def test_names_that_have_values_together():
    mark = pairs(("a", "xy"), ("b, c", [(1, 2), (3, 4)]), ("d", [None]))
    names, cases = mark.args
    assert names == ["a", "b", "c", "d"]
    assert [tuple(case) for case in cases] == [
        ("x", 1, 2, None), ("x", 3, 4, None), ("y", 1, 2, None), ("y", 3, 4, None)]
