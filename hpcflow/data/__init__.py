"""``hpcflow.data``: data sets, and iterators that give their elements to steps."""

from __future__ import annotations

from hpcflow.data.dataset import AUTOTUNE, Dataset
from hpcflow.data.iterator import Iterator
from hpcflow.data.options import Options
from hpcflow.data.readers import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset

__all__ = [
    "AUTOTUNE",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
]
