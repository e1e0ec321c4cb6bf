"""Slice strings and regions against NumPy's own indexing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcflow.errors import InvalidArgumentError
from hpcflow.storage import Region, format_slice_spec, parse_slice_spec
from hpcflow.storage.slices import as_region, make_region, whole


@st.composite
def regions(draw):
    full = draw(st.lists(st.integers(0, 5), max_size=4))
    start = [draw(st.integers(0, dim)) for dim in full]
    extent = [draw(st.integers(0, dim - first)) for dim, first in zip(full, start)]
    return make_region(full, start, extent)


@pytest.mark.parametrize(
    ("spec", "region"),
    [
        ("4 5 0,2:-", Region((4, 5), (0, 0), (2, 5))),
        ("4 5 1,2:3,2", Region((4, 5), (1, 3), (2, 2))),
        (b"7 -", Region((7,), (0,), (7,))),
        ("7 0,7", Region((7,), (0,), (7,))),
        ("", None),
        (" ", None),
    ],
)
def test_parsing(spec, region):
    assert parse_slice_spec(spec) == region


@pytest.mark.parametrize(
    "spec", ["4", "4 5 -", "4 0,5", "4 -1,2", "4 1,-1", "x -", "4 1", "4 1,2,3", "4 5 -:-:-"]
)
def test_bad_specs_are_refused(spec):
    with pytest.raises(InvalidArgumentError):
        parse_slice_spec(spec)


@given(regions())
def test_formatting_is_the_inverse(region):
    spec = format_slice_spec(*region)
    assert parse_slice_spec(spec) == (region if region.full else None)


@given(regions())
def test_runs_are_the_positions_of_the_elements(region):
    positions = np.arange(np.prod(region.full, dtype=int)).reshape(region.full)
    length, starts = region.runs()
    runs = (starts[:, None] + np.arange(length)).reshape(-1)
    assert runs.tolist() == positions[region.selector()].reshape(-1).tolist()


def test_runs_are_as_long_as_possible():
    assert [a.tolist() if hasattr(a, "tolist") else a for a in whole((3, 4)).runs()] == [12, [0]]
    length, starts = make_region((6, 4, 5), (2, 0, 0), (3, 4, 5)).runs()
    assert (length, starts.tolist()) == (60, [40])
    length, starts = make_region((2, 4, 5), (0, 1, 0), (2, 2, 5)).runs()
    assert (length, starts.tolist()) == (10, [5, 25])


@given(regions(), st.integers(1, 3))
def test_row_blocks_cover_the_region_in_order(region, rows):
    array = np.arange(np.prod(region.full, dtype=int)).reshape(region.full)
    blocks = list(region.row_blocks(rows))
    parts = [array[block.selector()].reshape(-1) for block in blocks]
    joined = np.concatenate(parts) if parts else np.empty(0, int)
    assert joined.tolist() == array[region.selector()].reshape(-1).tolist()
    assert all(region.contains(block) for block in blocks)


@given(regions(), st.data())
def test_overlap_and_containment(region, data):
    start = [data.draw(st.integers(0, dim)) for dim in region.full]
    extent = [data.draw(st.integers(0, d - s)) for d, s in zip(region.full, start)]
    other = make_region(region.full, start, extent)
    marked = np.zeros(region.full, int)
    marked[region.selector()] += 1
    marked[other.selector()] += 1
    assert region.overlaps(other) == other.overlaps(region) == bool((marked == 2).any())
    if region.contains(other):
        inner = marked[region.selector()][other.selector_within(region)]
        assert inner.shape == other.extent and (inner == 2).all()


def test_a_spec_of_another_shape_is_refused():
    assert as_region(None, (2, 3), "w") == as_region("", (2, 3), "w") == whole((2, 3))
    with pytest.raises(InvalidArgumentError, match=r"'w'.*\[3,2\].*stored shape is \[2,3\]"):
        as_region("3 2 -:-", (2, 3), "w")
