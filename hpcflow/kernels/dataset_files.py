"""Kernels of data sets of the records of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.kernels.readers import FixedLength, Lines, TFRecords
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.text import as_bytes
from hpcflow.resources.datasets.base import Dataset, Element, Run
from hpcflow.resources.readers import RecordFormat


class RecordDataset(Dataset):
    """The records of files, one file after the other."""

    def __init__(self, names: list[bytes], records: RecordFormat) -> None:
        super().__init__([dtypes.string], [()])
        self.names, self.records = names, records

    def _pass(self, run: Run) -> Iterator[Element]:
        return chain.from_iterable(map(self._records_of, self.names))

    def _records_of(self, name: bytes) -> Iterator[Element]:
        return map(_value, self.records.open(name))


def _value(record: tuple[bytes, bytes]) -> Element:
    return (record[1],)


def _names(filenames: Any) -> list[bytes]:
    return [as_bytes(name) for name in np.ravel(np.asarray(filenames, object))]


def _compression(value: Any) -> str:
    name = as_bytes(value).decode()
    if name not in ("", "GZIP", "ZLIB"):
        raise invalid(f"Unsupported compression_type: {name}.")
    return name


@kernel("TextLineDataset", device="CPU")
def _lines(node: KernelNode) -> Callable:
    return lambda filenames, compression, size: RecordDataset(
        _names(filenames), Lines(0, _compression(compression)))


@kernel("TFRecordDataset", device="CPU")
def _records(node: KernelNode) -> Callable:
    return lambda filenames, compression, size: RecordDataset(
        _names(filenames), TFRecords(_compression(compression)))


@kernel("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", device="CPU")
def _fixed_length(node: KernelNode) -> Callable:
    def make(filenames: Any, header: Any, record: Any, footer: Any, size: Any,
             compression: Any = b"") -> Dataset:
        if record <= 0:
            raise invalid("`record_bytes` must be > 0")
        if header < 0 or footer < 0:
            raise invalid("`header_bytes` and `footer_bytes` must be >= 0")
        sizes = [int(header), int(record), int(footer), 0]
        records = FixedLength(sizes, _compression(compression), exact=True)
        return RecordDataset(_names(filenames), records)

    return make
