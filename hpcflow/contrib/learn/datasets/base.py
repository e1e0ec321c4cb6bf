"""Data sets as named tuples of arrays, and those in files of comma-separated values."""

from __future__ import annotations

import csv
import os
from typing import Any, NamedTuple

import numpy as np

from hpcflow.errors import NotFoundError
from hpcflow.platform import gfile


class Dataset(NamedTuple):
    """Rows of numbers, and what each of them stands for."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """The three parts of a data set."""

    train: Any
    validation: Any
    test: Any


def load_csv_with_header(filename: str, target_dtype: Any, features_dtype: Any,
                         target_column: int = -1) -> Dataset:
    """Return the rows of a file whose first line says ``rows,features,...``.

    Args:
        filename: the file.
        target_dtype, features_dtype: NumPy's types of the targets, and of the other columns.
        target_column: the column of the targets.

    Raises ``ValueError`` for another number of rows or columns than the first line says.
    """
    with gfile.Open(filename) as file:
        header, *rows = csv.reader(file)
    found = _split(rows, target_dtype, features_dtype, target_column)
    said = int(header[0]), int(header[1])
    if found.data.shape != said:
        raise ValueError(f"{filename}: the first line says {said[0]} rows of {said[1]} features, "
                         f"but there are {found.data.shape}")
    return found


def load_csv_without_header(filename: str, target_dtype: Any, features_dtype: Any,
                            target_column: int = -1) -> Dataset:
    """Return the rows of a file as :func:`load_csv_with_header`, of which all are data."""
    with gfile.Open(filename) as file:
        rows = list(csv.reader(file))
    return _split(rows, target_dtype, features_dtype, target_column)


def _split(rows: list[list[str]], target_dtype: Any, features_dtype: Any,
           column: int) -> Dataset:
    targets = np.array([row.pop(column) for row in rows]).astype(target_dtype)
    return Dataset(np.array(rows).astype(features_dtype), targets)


def maybe_download(filename: str, work_directory: str, source_url: str | None = None) -> str:
    """Return the path of a file in `work_directory`. Nothing is downloaded.

    Raises ``NotFoundError`` if it is not there; the message says from where it can be taken.
    """
    path = os.path.join(work_directory, filename)
    if not gfile.Exists(path):
        source = f" It is published as {source_url}." if source_url else ""
        raise NotFoundError(None, None, f"{path} is not there, and files are not downloaded: put "
                            f"it there first.{source}")
    return path
