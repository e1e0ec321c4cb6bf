"""Attributes that later versions of the format have added."""

from __future__ import annotations

import numpy as np
import pytest

from hpcflow import dtypes
from hpcflow.graph.added_attrs import says_nothing


@pytest.mark.parametrize(
    ("attr", "value"),
    [
        ("anything", None), ("anything", False), ("anything", 0), ("anything", b""),
        ("anything", []), ("dilations", [1, 1, 1, 1]), ("Tidx", dtypes.int64), ("grad_a", True),
        ("incompatible_shape_error", True), ("data_format", b"NHWC"), ("num_bits", 8),
        ("incompatible_shape_error", False), ("metadata", b"MapDataset:3"),
        ("lower_bound", -np.inf), ("axis", -1),
        ("ensure_minimum_range", float(np.float32(0.01))),
    ],
)  # fmt: skip
def test_values_that_ask_for_what_is_done_anyway(attr, value):
    assert says_nothing(attr, value)


@pytest.mark.parametrize(
    ("attr", "value"),
    [
        ("anything", True), ("anything", 3), ("anything", b"x"), ("dilations", [1, 2, 2, 1]),
        ("data_format", b"NCHW"), ("num_bits", 4),
        ("axis", 0), ("reduction_type", b"SUM"), ("output_type", dtypes.int32),
        ("names", [b"a"]),
    ],
)  # fmt: skip
def test_values_that_must_not_be_dropped(attr, value):
    assert not says_nothing(attr, value)
