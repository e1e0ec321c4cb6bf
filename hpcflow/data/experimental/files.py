"""Data sets read from files in batches: CSV tables, and records of examples."""

from __future__ import annotations

import csv
import glob
import gzip
import io
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data.arguments import optional_param_to_tensor as argument
from hpcflow.data.dataset import AUTOTUNE, Dataset
from hpcflow.data.experimental.order import ignore_errors as leave_out_errors
from hpcflow.data.experimental.order import parallel_interleave
from hpcflow.data.options import Options
from hpcflow.data.readers import TFRecordDataset
from hpcflow.data.structure import Leaf, Structure
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.host.tuning import files as tuning
from hpcflow.ops.io.example_features import parse_example
from hpcflow.ops.io.readers import ReaderBase
from hpcflow.shapes import TensorShape

_COLUMN_TYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.string)


class CsvDataset(Dataset):
    """The rows of tables in text files (RFC 4180): one scalar for each column.

    Args:
        filenames: a string or a vector of them.
        record_defaults: for each column its type, if there must be a value, or a value of one
            element for where there is none: float32, float64, int32, int64 or string.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: has no effect.
        header: whether to leave out the first row of each file.
        field_delim: the character between fields.
        use_quote_delim: whether fields may be in double quotes.
        na_value: what stands for a missing value, besides nothing.
        select_cols: the numbers of the columns to read, in order; all by default.

    A row that cannot be decoded is an ``InvalidArgumentError``; the next one can be asked for.
    """

    def __init__(self, filenames: TensorLike, record_defaults: Sequence[Any],
                 compression_type: Any = None, buffer_size: TensorLike | None = None,
                 header: bool = False, field_delim: str = ",", use_quote_delim: bool = True,
                 na_value: str = "", select_cols: Any = None) -> None:
        defaults = [_default(d) for d in record_defaults]
        self._structure = Structure(tuple(
            Leaf(d.dtype.base_dtype, TensorShape([])) for d in defaults))
        self._options = Options()
        text = dtypes.string
        self._variant_tensor = raw_ops.CSVDataset(
            filenames=convert_to_tensor(filenames, text, "filenames"),
            compression_type=argument("compression_type", compression_type, "", text),
            buffer_size=argument("buffer_size", buffer_size, tuning.CSV_BUFFER_BYTES),
            header=argument("header", header, False, dtypes.bool),
            field_delim=argument("field_delim", field_delim, ",", text),
            use_quote_delim=argument("use_quote_delim", use_quote_delim, True, dtypes.bool),
            na_value=argument("na_value", na_value, "", text),
            select_cols=argument("select_cols", select_cols, np.zeros(0, np.int64)),
            record_defaults=defaults,
            output_shapes=[TensorShape([])] * len(defaults))


def _default(value: TensorLike) -> Tensor:
    """Return a column's default as a tensor; an empty vector for a type: values are required."""
    if isinstance(value, (dtypes.DType, type, np.dtype)):
        dtype = dtypes.as_dtype(value)
        return convert_to_tensor(np.zeros(0, dtype.np), dtype)
    default = convert_to_tensor(value)
    if default.get_shape().ndims not in (None, 0, 1):
        raise ValueError("record_defaults: Shape must be at most rank 1 but is rank "
                         f"{default.get_shape().ndims} for {value!r}")
    return default


# ---------------------------------------------------------------- batches of tables


def make_csv_dataset(file_pattern: Any, batch_size: int, column_names: Sequence[str] | None = None,
                     column_defaults: Sequence[Any] | None = None, label_name: str | None = None,
                     select_columns: Sequence[Any] | None = None, field_delim: str = ",",
                     use_quote_delim: bool = True, na_value: str = "", header: bool = True,
                     num_epochs: int | None = None, shuffle: bool = True,
                     shuffle_buffer_size: int = 10000, shuffle_seed: int | None = None,
                     prefetch_buffer_size: int | None = None,
                     num_parallel_reads: int | None = None, sloppy: bool = False,
                     num_rows_for_inference: int | None = 100,
                     compression_type: str | None = None, ignore_errors: bool = False) -> Dataset:
    """Return a data set of batches of rows of tables: dicts of columns, or pairs (dict, label).

    Args:
        file_pattern: a pattern of file names, or a list of them.
        batch_size: rows of a batch; the last one may be smaller if `num_epochs` is given.
        column_names: of all columns; of the first file's header by default.
        column_defaults: types or default values of the columns that are read, as of
            :class:`CsvDataset`; found by looking at rows of the files by default, where nothing
            stands for zero or for the empty string.
        label_name: the column that is the label.
        select_columns: names or numbers of the columns to read; all by default.
        field_delim, use_quote_delim, na_value, compression_type: as of :class:`CsvDataset`.
        header: whether the first row of each file names the columns.
        num_epochs: how often to go over the files; without end for None.
        shuffle: whether rows and files come in random order.
        shuffle_buffer_size: from so many rows the next is chosen.
        shuffle_seed: of the random order.
        prefetch_buffer_size: how many batches to make ahead.
        num_parallel_reads: how many files are read side by side.
        sloppy: whether rows of these may come in any order.
        num_rows_for_inference: how many rows to look at for the types; all for None.
        ignore_errors: whether rows that cannot be decoded are left out.

    Raises ``ValueError`` for names that are not unique, not there or not of the files, and for no
    file.
    """
    names = _matching(file_pattern)
    text = {"delimiter": field_delim, "quoting": csv.QUOTE_MINIMAL if use_quote_delim
            else csv.QUOTE_NONE}
    column_names = _all_columns(column_names, header, names, text, compression_type)
    chosen = _chosen_columns(column_names, select_columns)
    read = [column_names[i] for i in chosen]
    _check_columns(read, column_defaults, label_name)
    defaults = column_defaults or _inferred(names, chosen, len(column_names), text, header,
                                            na_value, num_rows_for_inference, compression_type)

    def open_one(name: str) -> Dataset:
        rows: Dataset = CsvDataset(name, defaults, compression_type, None, header, field_delim,
                                   use_quote_delim, na_value, chosen)
        return rows.apply(leave_out_errors()) if ignore_errors else rows

    def named(*columns: Any) -> Any:
        features = OrderedDict(zip(read, columns, strict=True))
        return features if label_name is None else (features, features.pop(label_name))

    rows = _read_files(names, open_one, shuffle, shuffle_seed, num_parallel_reads, sloppy)
    rows = _in_order(rows, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    batches = rows.batch(batch_size, drop_remainder=num_epochs is None).map(named)
    return batches.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _check_columns(read: list[str], defaults: Sequence[Any] | None, label: str | None) -> None:
    """Raise ``ValueError`` for defaults or a label that the columns which are read have not."""
    if defaults is not None and len(defaults) != len(read):
        raise ValueError(f"column_defaults must be of the {len(read)} columns that are read, got "
                         f"{len(defaults)}")
    if label is not None and label not in read:
        raise ValueError(f"`label_name` {label} provided must be one of the columns.")


def _all_columns(given: Sequence[str] | None, header: bool, names: list[str],
                 text: dict[str, Any], compression: str | None) -> Sequence[str]:
    """The names of all columns, of the first file's header unless they are given."""
    if given is None and not header:
        raise ValueError("Cannot infer column names without a header line.")
    columns = _column_names(names, text, compression) if given is None else given
    if len(set(columns)) != len(columns):
        raise ValueError("Cannot have duplicate column names.")
    return columns


def _matching(patterns: Any) -> list[str]:
    """The names of the files that match, in order. Raises ``ValueError`` if there are none."""
    given = [patterns] if isinstance(patterns, (str, bytes)) else list(patterns)
    found = {name for p in given for name in glob.glob(p.decode() if isinstance(p, bytes) else p)}
    if not found:
        raise ValueError(f"No files match `file_pattern` {patterns}.")
    return sorted(found)


def _read_files(names: list[str], open_one: Callable, shuffle: bool, seed: int | None,
                parallel: int | None, sloppy: bool) -> Dataset:
    files = Dataset.from_tensor_slices(names)
    if shuffle:
        files = files.shuffle(len(names), seed)
    return files.apply(parallel_interleave(open_one, parallel or 1, sloppy=sloppy))


def _in_order(dataset: Dataset, epochs: int | None, shuffle: bool, size: int,
              seed: int | None) -> Dataset:
    if shuffle:
        dataset = dataset.shuffle(size, seed)
    return dataset if epochs == 1 else dataset.repeat(epochs)


def _rows(name: str, text: dict[str, Any], compression: str | None) -> Any:
    with open(name, "rb") as file:
        data = file.read()
    if compression == "GZIP":
        data = gzip.decompress(data)
    elif compression == "ZLIB":
        data = zlib.decompress(data)
    return csv.reader(io.StringIO(data.decode(errors="replace"), newline=""), **text)


def _column_names(names: list[str], text: dict[str, Any], compression: str | None) -> list[str]:
    """Return the column names in the first file's header; other files must have the same ones."""
    headers: list[list[str]] = [next(_rows(name, text, compression), []) for name in names]
    if any(header != headers[0] for header in headers):
        raise ValueError("All input CSV files must have the same column names in the header row. "
                         f"File {names[[h != headers[0] for h in headers].index(True)]} has "
                         "different column names.")
    return headers[0]


def _chosen_columns(names: Sequence[str], wanted: Sequence[Any] | None) -> list[int]:
    if wanted is None:
        return list(range(len(names)))
    if not wanted:
        raise ValueError("Must select at least one column")
    try:
        numbers = [names.index(c) if isinstance(c, str) else int(c) for c in wanted]
    except ValueError:
        raise ValueError(f"select_columns {list(wanted)} are not all among the columns "
                         f"{list(names)}") from None
    if len(set(numbers)) != len(numbers) or min(numbers) < 0 or max(numbers) >= len(names):
        raise ValueError(f"select_columns must be different columns of {list(names)}, got "
                         f"{list(wanted)}")
    return sorted(numbers)


def _inferred(names: list[str], columns: list[int], width: int, text: dict[str, Any],
              header: bool, missing: str, most: int | None, compression: str | None) -> list:
    """For each column a default value of the narrowest type that all its values fit."""
    types = [0] * len(columns)
    seen = 0
    for name in names:
        rows = _rows(name, text, compression)
        if header:
            next(rows, None)
        for row in rows:
            if len(row) != width:
                raise ValueError(f"Problem inferring types: CSV row {row} has {len(row)} number of "
                                 f"fields. Expected: {width}.")
            types = [max(t, _kind(row[c], missing)) for t, c in zip(types, columns, strict=True)]
            seen += 1
            if most is not None and seen >= most:
                return [_DEFAULTS[t] for t in types]
    return [_DEFAULTS[t] for t in types]


_DEFAULTS = (np.zeros(1, np.int32), np.zeros(1, np.int64), np.zeros(1, np.float32),
             np.zeros(1, np.float64), [""])


def _kind(text: str, missing: str) -> int:
    """Return the index in `_DEFAULTS` of the narrowest type that holds a value."""
    if text in ("", missing):
        return 0
    for kind, limits in ((0, np.iinfo(np.int32)), (1, np.iinfo(np.int64))):
        try:
            if limits.min <= int(text) <= limits.max:
                return kind
        except ValueError:
            break
    try:
        value = float(text)
    except ValueError:
        return 4
    return 3 if float(np.finfo(np.float32).max) < abs(value) < np.inf else 2


# ---------------------------------------------------------------- batches of examples


def make_batched_features_dataset(
        file_pattern: Any, batch_size: int, features: dict[str, Any], reader: Any = None,
        label_key: str | None = None, reader_args: Sequence[Any] | None = None,
        num_epochs: int | None = None, shuffle: bool = True, shuffle_buffer_size: int = 10000,
        shuffle_seed: int | None = None, prefetch_buffer_size: int | None = None,
        reader_num_threads: int | None = None, parser_num_threads: int | None = None,
        sloppy_ordering: bool = False, drop_final_batch: bool = False) -> Dataset:
    """Return a data set of batches of features of serialized examples in files.

    Args:
        file_pattern: a pattern of file names, or a list of them.
        batch_size: examples of a batch.
        features: what to parse, as of ``parse_example``.
        reader: makes a data set of strings (or of pairs with a string last) of a file;
            ``TFRecordDataset`` by default.
        label_key: the feature that is the label; the elements are pairs then.
        reader_args: further arguments of `reader`.
        num_epochs: how often to go over the files; without end for None.
        shuffle: whether examples and files come in random order.
        shuffle_buffer_size, shuffle_seed, prefetch_buffer_size: as of :func:`make_csv_dataset`.
        reader_num_threads: how many files are read side by side.
        parser_num_threads: how many batches are parsed side by side.
        sloppy_ordering: whether examples of these may come in any order.
        drop_final_batch: whether to leave out a batch that is not full.

    Raises ``ValueError`` for a label that is not among the features, and for no file; ``TypeError``
    for a `reader` that makes an operation, as ``TFRecordReader``.
    """
    if isinstance(reader, type) and issubclass(reader, ReaderBase):
        raise TypeError("The `reader` argument must return a `Dataset` object. `tf.ReaderBase` "
                        "subclasses are not supported.")
    names = _matching(file_pattern)
    if label_key is not None and label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` "
                         "keys.")
    records = _read_files(names, lambda name: (reader or TFRecordDataset)(
        name, *(reader_args or ())), shuffle, shuffle_seed, reader_num_threads, sloppy_ordering)
    if records.output_types == (dtypes.string, dtypes.string):
        records = records.map(lambda _, value: value)
    records = _in_order(records, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    batches = records.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)

    def parsed(serialized: TensorLike) -> Any:
        found = parse_example(serialized, features)
        return found if label_key is None else (found, found.pop(label_key))

    parsed_batches = batches.map(parsed, parser_num_threads)
    return parsed_batches.prefetch(AUTOTUNE if prefetch_buffer_size is None
                                   else prefetch_buffer_size)


def parse_example_dataset(features: dict[str, Any],
                          num_parallel_calls: int | None = 1) -> Callable[[Dataset], Dataset]:
    """Batches of serialized examples as dicts of their `features`; see ``parse_example``.

    Raises ``TypeError`` for data sets of anything but vectors of strings, ``ValueError`` without
    features.
    """
    if features is None or not features:
        raise ValueError("Missing: features was None or empty.")

    def change(dataset: Dataset) -> Dataset:
        if dataset.output_types != dtypes.string:
            raise TypeError("Input dataset should be a dataset of vectors of strings")
        return dataset.map(lambda serialized: parse_example(serialized, features),
                           num_parallel_calls)

    return change


def make_tf_record_dataset(
        file_pattern: Any, batch_size: int, parser_fn: Callable | None = None,
        num_epochs: int | None = None, shuffle: bool = True,
        shuffle_buffer_size: int | None = None, shuffle_seed: int | None = None,
        prefetch_buffer_size: int | None = None, num_parallel_reads: int | None = None,
        num_parallel_parser_calls: int | None = None, drop_final_batch: bool = False) -> Dataset:
    """Return a data set of batches of records of files, each changed by `parser_fn`.

    Args: as of :func:`make_batched_features_dataset`. Raises ``ValueError`` for no file.
    """
    names = _matching(file_pattern)
    records = _read_files(names, TFRecordDataset, shuffle, shuffle_seed,
                          num_parallel_reads or (24 if shuffle else 1), shuffle)
    records = _in_order(records, num_epochs, shuffle, shuffle_buffer_size or 10000, shuffle_seed)
    if parser_fn is not None:
        records = records.map(parser_fn, num_parallel_parser_calls)
    batches = records.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    return batches.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)
