"""Data sets of the records of files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.data.arguments import optional_param_to_tensor as argument
from hpcflow.data.dataset import Dataset
from hpcflow.data.options import Options
from hpcflow.data.structure import Leaf, Structure
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.host.tuning import files as tuning
from hpcflow.shapes import TensorShape


class _Records(Dataset):
    """Strings out of files."""

    def _begin(self, op_type: str, filenames: Any, parallel: int | None,
               compression_type: str | None, buffer_size: TensorLike | None,
               others: Callable[[], dict[str, Tensor]] = dict) -> None:
        def read(names: TensorLike) -> Tensor:  # within a function, the arguments are its own
            return getattr(raw_ops, op_type)(
                filenames=names, **others(),
                compression_type=argument("compression_type", compression_type, "", dtypes.string),
                buffer_size=argument("buffer_size", buffer_size, tuning.READ_BUFFER_BYTES))

        self._variant_tensor = _over_files(filenames, read, parallel)
        self._structure = Structure(Leaf(dtypes.string, TensorShape([])))
        self._options = Options()


class TextLineDataset(_Records):
    """The lines of text files, without what ends them.

    Args:
        filenames: a string, a vector of them, or a data set of names.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: has no effect.
    """

    def __init__(self, filenames: Any, compression_type: str | None = None,
                 buffer_size: TensorLike | None = None, num_parallel_reads: Any = None) -> None:
        self._begin("TextLineDataset", filenames, num_parallel_reads, compression_type, buffer_size)


class TFRecordDataset(_Records):
    """The records of TFRecord files.

    Args:
        filenames: a string, a vector of them, or a data set of names.
        compression_type: "", "ZLIB" or "GZIP".
        buffer_size: has no effect.
        num_parallel_reads: so many files are read side by side, their records interleaved.
    """

    def __init__(self, filenames: TensorLike, compression_type: str | None = None,
                 buffer_size: TensorLike | None = None, num_parallel_reads: Any = None) -> None:
        self._begin("TFRecordDataset", filenames, num_parallel_reads, compression_type, buffer_size)


class FixedLengthRecordDataset(_Records):
    """Records of `record_bytes` bytes, between a header and a footer.

    Args:
        filenames: a string, a vector of them, or a data set of names.
        record_bytes, header_bytes, footer_bytes: sizes.
        buffer_size: has no effect.
        compression_type: "", "ZLIB" or "GZIP".
    """

    def __init__(self, filenames: TensorLike, record_bytes: Any, header_bytes: Any = None,
                 footer_bytes: Any = None, buffer_size: TensorLike | None = None,
                 compression_type: str | None = None, num_parallel_reads: Any = None) -> None:
        def sizes() -> dict[str, Tensor]:
            return {"header_bytes": argument("header_bytes", header_bytes, 0),
                    "record_bytes": argument("record_bytes", record_bytes, None),
                    "footer_bytes": argument("footer_bytes", footer_bytes, 0)}

        self._begin("FixedLengthRecordDatasetV2", filenames, num_parallel_reads,
                    compression_type, buffer_size, sizes)


def _over_files(filenames: Sequence[str] | Dataset | str, read: Callable[..., Any],
                parallel: int | None) -> Tensor:
    """The variant of the records of the files, one after the other or side by side."""
    if not isinstance(filenames, Dataset):
        names = convert_to_tensor(filenames, dtypes.string, "filenames")
        if parallel is None:
            return read(names)
        filenames = Dataset.from_tensor_slices(raw_ops.Reshape(names, [-1]))
    elif filenames.output_types is not dtypes.string:
        raise TypeError("`filenames` must be a `tf.data.Dataset` of `tf.string` elements.")

    def open_one(name: TensorLike) -> Dataset:
        return Dataset._of(read(name), Structure(Leaf(dtypes.string, TensorShape([]))))

    if parallel is None:
        return filenames.flat_map(open_one)._variant_tensor
    return filenames.interleave(open_one, parallel, num_parallel_calls=parallel)._variant_tensor


class MatchingFilesDataset(Dataset):
    """The names of the files that match patterns, in order.

    A pass over it raises ``NotFoundError`` if there is none.
    """

    def __init__(self, patterns: TensorLike) -> None:
        self._variant_tensor = raw_ops.MatchingFilesDataset(
            patterns=convert_to_tensor(patterns, dtypes.string, "patterns"))
        self._structure = Structure(Leaf(dtypes.string, TensorShape([])))
        self._options = Options()


class TFRecordWriter:
    """Writes the elements of a data set, scalar strings, to a TFRecord file.

    Args:
        filename: of the file.
        compression_type: "", "ZLIB" or "GZIP".
    """

    def __init__(self, filename: TensorLike, compression_type: TensorLike | None = None) -> None:
        self._filename = convert_to_tensor(filename, dtypes.string, "filename")
        self._compression = argument("compression_type", compression_type, "", dtypes.string)

    def write(self, dataset: Dataset) -> Operation:
        """Return the operation that writes the file.

        Raises ``TypeError`` for elements of another type or shape, and for what is no data set.
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(f"`dataset` must be a `tf.data.Dataset` object, not {dataset!r}.")
        if dataset.element_spec != TensorSpec([], dtypes.string):
            raise TypeError("`dataset` must produce scalar `DT_STRING` tensors whereas it produces "
                            f"{dataset.element_spec}")
        return raw_ops.DatasetToTFRecord(
            input_dataset=dataset._variant_tensor, filename=self._filename,
            compression_type=self._compression)
