"""``hpcflow.data``: data sets, and iterators that give their elements to steps."""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.base.late_names import named_otherwise
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
    "experimental",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """``dataset.make_one_shot_iterator()``."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """``dataset.make_initializable_iterator(shared_name)``."""
    return dataset.make_initializable_iterator(shared_name)


def _checked(dataset_or_iterator: Any) -> Any:
    if not isinstance(dataset_or_iterator, (Dataset, Iterator)):
        raise TypeError("`dataset_or_iterator` must be a Dataset or Iterator object, but got "
                        f"{type(dataset_or_iterator)}.")
    return dataset_or_iterator


def get_output_types(dataset_or_iterator: Any) -> Any:
    """The types of the components of the elements."""
    return _checked(dataset_or_iterator).output_types


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of the components of the elements."""
    return _checked(dataset_or_iterator).output_shapes


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of the components of the elements."""
    return _checked(dataset_or_iterator).output_classes


_named_otherwise = named_otherwise(__name__)


def __getattr__(name: str) -> Any:
    if name != "experimental":
        return _named_otherwise(name)
    return importlib.import_module(f"{__name__}.experimental")
