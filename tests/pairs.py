"""Parameters of a test of which every two values meet in some case, instead of all with all.

A fault that shows with one value, or with two of them together, is found as by the full product;
the cases are about as many as the two largest lists make.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

LABEL_LENGTH = 40
Pair = tuple[int, int, int, int]  # axis and place of a value, axis and place of another


def pairs(*axes: tuple[str, Iterable[Any]]) -> pytest.MarkDecorator:
    """Mark a test with cases that hold all pairs of the values of any two axes.

    Args:
        axes: of each the name and the values; several names, separated by commas, have a tuple of
            values in each place, as for ``pytest.mark.parametrize``.
    """
    lists = [list(values) for _names, values in axes]
    names = [[name.strip() for name in text.split(",")] for text, _values in axes]
    cases = []
    for places in covering([len(values) for values in lists]):
        chosen = [values[place] for values, place in zip(lists, places)]
        cases.append([v for group, value in zip(names, chosen)
                      for v in (value if len(group) > 1 else [value])])
    flat = [name for group in names for name in group]
    return pytest.mark.parametrize(flat, cases, ids=_label)


def _label(value: Any) -> str | None:
    """A readable part of the name of a case; None leaves it to pytest."""
    text = str(value)
    return text if isinstance(value, (tuple, list)) and len(text) <= LABEL_LENGTH else None


def covering(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Few rows of places, one below each size, in which any two places of two axes meet."""
    missing = {(i, a, j, b) for (i, m), (j, n) in itertools.combinations(enumerate(sizes), 2)
               for a in range(m) for b in range(n)}
    if not missing:  # fewer than two axes
        return list(itertools.product(*map(range, sizes)))
    rows = []
    # In the order of the pairs, so that the rows of two axes are their product in order.
    for pair in sorted(missing):
        if pair in missing:
            rows.append(_row(sizes, pair, missing, len(rows)))
            missing -= _pairs_of(rows[-1])
    return rows


def _row(sizes: Sequence[int], pair: Pair, missing: set[Pair], turn: int) -> tuple[int, ...]:
    """A row with `pair` and, place by place, what meets most that has not met yet."""
    row = {pair[0]: pair[1], pair[2]: pair[3]}
    for axis, size in enumerate(sizes):
        if axis not in row:
            places = [(turn + k) % size for k in range(size)]
            row[axis] = max(places, key=lambda p: len(_met(row, axis, p) & missing))
    return tuple(row[axis] for axis in range(len(sizes)))


def _met(row: dict[int, int], axis: int, place: int) -> set[Pair]:
    return {(*min(a, b), *max(a, b)) for a, b in (((axis, place), other) for other in row.items())}


def _pairs_of(row: tuple[int, ...]) -> set[Pair]:
    return {(i, a, j, b) for (i, a), (j, b) in itertools.combinations(enumerate(row), 2)}
