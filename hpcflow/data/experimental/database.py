"""The rows that a data base answers a query with, as a data set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data.dataset import Dataset
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.errors import InvalidArgumentError, UnknownError
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.shapes import TensorShape

_TYPES = (dtypes.string, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
          dtypes.uint16, dtypes.bool, dtypes.float64)


def SqlDataset(driver_name: TensorLike, data_source_name: TensorLike, query: TensorLike,
               output_types: Sequence[DType] | DTypeLike) -> Dataset:
    """Return the data set of the rows of a query: tuples of scalars, one for each column.

    Args:
        driver_name: ``"sqlite"``.
        data_source_name: the file of the data base.
        query: in SQL. It runs anew for every iterator, which raises what is wrong with it.
        output_types: of the columns: strings, integers, bool or float64. What is NULL is 0, False
            or the empty string. One type alone is that of the elements, which are scalars then.

    Raises ``TypeError`` for other types. The steps raise ``InvalidArgumentError`` for another
    driver, another number of columns or where there is no such file, and ``UnknownError`` for what
    the data base refuses.
    """
    several = isinstance(output_types, (tuple, list))
    given: Any = output_types if several else (output_types,)
    types = tuple(dtypes.as_dtype(t) for t in given)
    if not all(t in _TYPES for t in types):
        raise TypeError(f"output_types must be among {', '.join(t.name for t in _TYPES)}, got "
                        f"{', '.join(t.name for t in types)}")
    arguments = [convert_to_tensor(value, dtypes.string, name) for name, value in (
        ("driver_name", driver_name), ("data_source_name", data_source_name), ("query", query))]

    def rows(driver: bytes, source: bytes, text: bytes) -> Iterator[tuple]:
        return _rows(driver, source, text, types)

    dataset = Dataset.from_generator(rows, types, (TensorShape([]),) * len(types), tuple(arguments))
    return dataset if several else dataset.map(lambda value: value)


def _rows(driver: bytes, source: bytes, query: bytes, types: tuple[DType, ...]) -> Iterator[tuple]:
    import sqlite3  # some Pythons are built without it

    if driver != b"sqlite":
        raise InvalidArgumentError(None, None, f"The database type, {driver.decode()}, is not "
                                               "supported by SqlDataset; it is sqlite.")
    if not os.path.exists(source):
        raise InvalidArgumentError(None, None, f"there is no data base {source.decode()}")
    connection = sqlite3.connect(source.decode(), check_same_thread=False)  # steps have threads
    try:
        connection.text_factory = bytes
        cursor = connection.execute(query.decode())
        columns = len(cursor.description or ())
        if columns != len(types):
            raise InvalidArgumentError(
                None, None, f"The number of columns in query ({columns}) must match the number of "
                f"elements in output_types ({len(types)}).")
        for row in cursor:
            yield tuple(_converted(value, t) for value, t in zip(row, types, strict=True))
    except sqlite3.Error as error:
        raise UnknownError(None, None, f"sqlite: {error}") from error
    finally:
        connection.close()


def _converted(value: Any, dtype: DType) -> Any:
    """One field as a value of the column's type."""
    if dtype is dtypes.string:
        if value is None:
            return b""
        return value if isinstance(value, bytes) else str(value).encode()
    number = value if isinstance(value, (int, float)) else float(value or 0)
    if dtype is dtypes.bool:
        return bool(number)
    if dtype is dtypes.float64:
        return float(number)
    # A number that is too large keeps its low bits, as it does where integers are converted in C.
    return np.array(int(number) & (2 ** (8 * dtype.size) - 1), np.uint64).astype(dtype.np)
