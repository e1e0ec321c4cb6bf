"""Kernels of data sets of the records of files."""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.errors import InvalidArgumentError, NotFoundError, OpError
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.text import as_bytes, texts
from hpcflow.kernels.io.csv_rows import in_rows, rows_of
from hpcflow.kernels.io.datasets import components
from hpcflow.kernels.io.parsing import decoded_column, fields_of
from hpcflow.kernels.io.readers import FixedLength, Lines, TFRecords
from hpcflow.kernels.registry import KernelNode, invalid, kernel
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


def known_compression(value: Any) -> str:
    """The text of a compression type. Raises ``InvalidArgumentError`` for others."""
    name = as_bytes(value).decode()
    if name not in ("", "GZIP", "ZLIB"):
        raise invalid(f"Unsupported compression_type: {name}.")
    return name


@kernel("TextLineDataset", device="CPU")
def _lines(node: KernelNode) -> Callable:
    return lambda filenames, compression, size: RecordDataset(
        _names(filenames), Lines(0, known_compression(compression)))


@kernel("TFRecordDataset", "TFRecordDatasetV2", device="CPU")
def _records(node: KernelNode) -> Callable:
    def make(filenames: Any, compression: Any, size: Any, starts: Any = ()) -> Dataset:
        if np.any(starts):
            raise invalid("TFRecordDatasetV2 reads files from their beginning, but byte_offsets is "
                          f"{np.ravel(starts).tolist()}")
        return RecordDataset(_names(filenames), TFRecords(known_compression(compression)))

    return make


class MatchingFilesDataset(Dataset):
    """The names of the files that match patterns, in order; ``NotFoundError`` if none does."""

    def __init__(self, patterns: list[str]) -> None:
        super().__init__([dtypes.string], [()])
        self.patterns = patterns

    def _pass(self, run: Run) -> Iterator[Element]:
        found = sorted({name for pattern in self.patterns for name in glob.glob(pattern)})
        if not found:
            raise NotFoundError(None, None, f"No files matched pattern: {', '.join(self.patterns)}")
        return ((name.encode(),) for name in found)


@kernel("MatchingFilesDataset", "ExperimentalMatchingFilesDataset", device="CPU")
def _matching(node: KernelNode) -> Callable:
    return lambda patterns: MatchingFilesDataset(texts(patterns))


@kernel("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2", device="CPU")
def _fixed_length(node: KernelNode) -> Callable:
    def make(filenames: Any, header: Any, record: Any, footer: Any, size: Any,
             compression: Any = b"") -> Dataset:
        if record <= 0:
            raise invalid("`record_bytes` must be > 0")
        if header < 0 or footer < 0:
            raise invalid("`header_bytes` and `footer_bytes` must be >= 0")
        sizes = [int(header), int(record), int(footer), 0]
        records = FixedLength(sizes, known_compression(compression), exact=True)
        return RecordDataset(_names(filenames), records)

    return make


# ---------------------------------------------------------------- tables


class CsvDataset(Dataset):
    """The rows of tables in text files (RFC 4180): a scalar for each column.

    Args:
        types, shapes: of the columns.
        names: of the files.
        records: how their lines are read.
        skips: whether the first row of each file is a header.
        columns: the numbers of the columns wanted; empty for all.
        rules: the delimiter, whether fields may be quoted, and what stands for a missing value.
        defaults: of each column, empty where it must be there.
    """

    def __init__(self, types: list[dtypes.DType], shapes: list[Any], names: list[bytes],
                 records: RecordFormat, skips: bool, columns: list[int],
                 rules: tuple[bytes, bool, bytes], defaults: list[Any]) -> None:
        super().__init__(types, shapes)
        self.names, self.records, self.skips = names, records, skips
        self.columns, self.rules, self.defaults = columns, rules, defaults

    def _pass(self, run: Run) -> Iterator[Element]:
        return _Rows(self)

    def open(self) -> Iterator[bytes]:
        """The text of the rows of all files."""
        delimiter, quoted, _ = self.rules
        for name in self.names:
            lines = (line for _, line in self.records.open(name))
            rows = rows_of(lines, delimiter, quoted)
            if self.skips and next(rows, None) is None:
                raise invalid(f"Can't read header of file {name.decode(errors='replace')}")
            yield from rows

    def decode(self, rows: list[bytes]) -> list[Element]:
        """Some rows."""
        try:
            return self._decoded(rows)
        except InvalidArgumentError as error:
            raise invalid(in_rows(error.message)) from None

    def _decoded(self, rows: list[bytes]) -> list[Element]:
        delimiter, quoted, missing = self.rules
        table = [fields_of(row, delimiter, quoted) or [b""] for row in rows]
        if self.columns:
            table = [[row[i] for i in self.columns if i < len(row)] for row in table]
        for row in table:
            if len(row) != len(self.types):
                have = len(row) if len(row) < len(self.types) else "more"
                raise invalid(f"Expect {len(self.types)} fields but have {have} in record")
        if missing:
            table = [[b"" if text == missing else text for text in row] for row in table]
        return list(zip(*(decoded_column(i, texts, dtype, default) for i, (texts, dtype, default)
                          in enumerate(zip(zip(*table), self.types, self.defaults)))))


class _Rows:
    """One pass; rows are decoded many at a time, and one by one where one of them is wrong."""

    def __init__(self, dataset: CsvDataset) -> None:
        self._dataset, self._texts = dataset, dataset.open()
        self._elements: deque[Element] = deque()
        self._single: deque[bytes] = deque()

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        if self._elements:
            return self._elements.popleft()
        if not self._single:
            block = list(islice(self._texts, tuning.DATASET_ROWS))
            if not block:
                raise StopIteration
            try:
                self._elements.extend(self._dataset.decode(block))
                return self._elements.popleft()
            except OpError:
                self._single.extend(block)
        return self._dataset.decode([self._single.popleft()])[0]


@kernel("CSVDataset", "ExperimentalCSVDataset", device="CPU")
def _csv(node: KernelNode) -> Callable:
    types, shapes = components(node)

    def make(filenames: Any, compression: Any, size: Any, header: Any, delimiter: Any,
             quoted: Any, missing: Any, columns: Any, *defaults: Any) -> Dataset:
        if len(as_bytes(delimiter)) != 1:
            raise invalid("field_delim should be only 1 char")
        if size <= 0:
            raise invalid("buffer_size should be positive")
        chosen = [int(c) for c in columns]
        if chosen and (min(chosen) < 0 or chosen != sorted(set(chosen))):
            raise invalid("select_cols should be strictly increasing indices, not negative")
        if chosen and len(chosen) != len(types):
            raise invalid("select_cols should match output size")
        lines = Lines(0, known_compression(compression))
        return CsvDataset(types, shapes, _names(filenames), lines,
                          bool(header), chosen,
                          (as_bytes(delimiter), bool(quoted), as_bytes(missing)), list(defaults))

    return make
