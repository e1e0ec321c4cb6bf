"""The rule of strided slices as NumPy indices."""

from __future__ import annotations

import numpy as np
import pytest

from hpcflow.base.geometry.strided import ELLIPSIS, NEW_AXIS, SHRINK, SLICE, Masks, strided_index

NONE = Masks(0, 0, 0, 0, 0)


def test_kinds_of_positions():
    masks = Masks(begin=0, end=0, ellipsis=0b100, new_axis=0b010, shrink_axis=0b1011)
    # A new axis goes before a dropped one, and other bits beyond the length say nothing.
    assert masks.kinds(5) == [SHRINK, NEW_AXIS, ELLIPSIS, SHRINK, SLICE]
    for two in (0b11, 0b110):
        with pytest.raises(ValueError, match="Multiple ellipses"):
            NONE._replace(ellipsis=two).kinds(2)


def test_masks_of_attributes():
    attrs = {f"{name}_mask": i for i, name in enumerate(Masks._fields)}
    assert Masks.of({**attrs, "T": None}) == Masks(0, 1, 2, 3, 4)


def test_index():
    masks = Masks(begin=0b1, end=0b10, ellipsis=0b100, new_axis=0b1000, shrink_axis=0b10000)
    index = strided_index(masks, [9, 1, 0, 0, -1], [3, 9, 0, 0, 0], [1, 2, 1, 1, 1])
    assert index == (slice(None, 3, 1), slice(1, None, 2), Ellipsis, None, -1)
    assert np.zeros((4, 5, 6, 7))[index].shape == (3, 2, 6, 1)
    assert strided_index(NONE, [], [], []) == ()


@pytest.mark.parametrize("masks, begin, end, strides, message", [
    (NONE, [0], [1], [0], "non-zero"),
    (NONE, [0, 0], [1], [1], "equal size"),
    (NONE._replace(shrink_axis=1), [0], [1], [-1], "only stride 1"),
])
def test_no_index(masks, begin, end, strides, message):
    with pytest.raises(ValueError, match=message):
        strided_index(masks, begin, end, strides)
