"""Matrices of a checkpoint whose rows or columns belong to the words of another vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.state.initializers import TruncatedNormal, Zeros
from hpcflow.train.checkpoint_reader import NewCheckpointReader
from hpcflow.train.checkpoint_state import latest_checkpoint


class VocabInfo(NamedTuple):
    """The vocabularies of a variable's rows (`axis` 0) or columns (1): files, a word in a line.

    The variable has ``new_vocab_size + num_oov_buckets`` rows or columns. Of the old vocabulary
    the first `old_vocab_size` words count, all if -1. Words that it lacks, and the buckets, begin
    as `backup_initializer` says, zeros if None.
    """

    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: Callable | None = None
    axis: int = 0


def load_and_remap_matrix(
        ckpt_path: str | Sequence[str], old_tensor_name: str, new_row_vocab_offset: int,
        num_rows_to_load: int, new_col_vocab_size: int, initializer: Callable | None,
        old_row_vocab_size: int = -1, old_row_vocab_file: str | None = None,
        new_row_vocab_file: str | None = None, old_col_vocab_file: str | None = None,
        new_col_vocab_file: str | None = None, num_row_oov_buckets: int = 0,
        num_col_oov_buckets: int = 0, max_rows_in_memory: int = -1) -> Tensor:
    """Return a matrix of a checkpoint in the order of new vocabularies, float32.

    Args:
        ckpt_path: the checkpoint, or a list of this one.
        old_tensor_name: the matrix there.
        new_row_vocab_offset: the number of the first row, among the words of the new vocabulary.
        num_rows_to_load: as many rows from there on; `num_row_oov_buckets` follow.
        new_col_vocab_size: columns; `num_col_oov_buckets` follow.
        initializer: ``f(shape, dtype)``: what words that are not in the old vocabulary begin with,
            and the buckets; zeros if None.
        old_row_vocab_size: words of the old vocabulary that count, all if -1.
        old_row_vocab_file, new_row_vocab_file: files with a word in each line; without them rows
            stay what they are. So it is with those of columns.
        max_rows_in_memory: accepted: the old matrix is read whole.

    Raises ``ValueError`` for a tensor that the checkpoint does not have, or that is no matrix, or
    one file of two.
    """
    del max_rows_in_memory
    path = ckpt_path if isinstance(ckpt_path, str) else next(iter(ckpt_path))
    old = _read(latest_checkpoint(path) or path, old_tensor_name)
    rows = _places(old_row_vocab_file, new_row_vocab_file, new_row_vocab_offset, num_rows_to_load,
                   old_row_vocab_size)
    columns = _places(old_col_vocab_file, new_col_vocab_file, 0, new_col_vocab_size, -1)
    make = initializer or Zeros()
    found = _chosen(old, rows, columns, make)
    if num_row_oov_buckets:
        found = concat([found, _made(make, [num_row_oov_buckets, len(columns)])], 0)
    if num_col_oov_buckets:
        height = len(rows) + num_row_oov_buckets
        found = concat([found, _made(make, [height, num_col_oov_buckets])], 1)
    return found


def _read(path: str, name: str) -> Tensor:
    """The matrix `name` of a checkpoint, read when the graph runs."""
    shape = NewCheckpointReader(path).get_variable_to_shape_map().get(name)
    if shape is None or len(shape) != 2:
        raise ValueError(f"{path} must have a matrix {name!r}, but it has "
                         f"{'none of this name' if shape is None else f'one of shape {shape}'}")
    value = raw_ops.RestoreV2(np.array(path, object), np.array([name], object),
                              np.array([""], object), dtypes=[dtypes.float32])[0]
    value.set_shape(shape)
    return value


def _words(path: str, count: int) -> list[str]:
    with open(path, encoding="utf-8") as lines:
        words = [line.rstrip("\r\n") for line in lines]
    return words if count < 0 else words[:count]


def _places(old: str | None, new: str | None, first: int, count: int, old_count: int) -> np.ndarray:
    """Where each of the new words is in the old vocabulary, -1 for none."""
    if (old is None) != (new is None):
        raise ValueError("the files of the old and of the new vocabulary belong together, but only "
                         f"one is given: {old or new}")
    if old is None or new is None:
        return np.arange(first, first + count)
    known = {word: i for i, word in enumerate(_words(old, old_count))}
    wanted = _words(new, first + count)[first:]
    if len(wanted) < count:
        raise ValueError(f"{new} has {first + len(wanted)} words, but {first + count} are used")
    return np.array([known.get(word, -1) for word in wanted], np.int64)


def _chosen(old: Tensor, rows: np.ndarray, columns: np.ndarray, make: Callable) -> Any:
    """The rows and columns of `old`; where one of them is -1, what `make` gives."""
    taken = raw_ops.GatherV2(old, np.maximum(rows, 0), axis=np.int32(0))
    taken = raw_ops.GatherV2(taken, np.maximum(columns, 0), axis=np.int32(1))
    if (rows >= 0).all() and (columns >= 0).all():
        return taken
    missing = raw_ops.LogicalOr((rows < 0)[:, None], (columns < 0)[None, :])
    return raw_ops.Select(missing, _made(make, [len(rows), len(columns)]), taken)


def _made(make: Callable, shape: list[int]) -> Any:
    return convert_to_tensor(make(shape, dtypes.float32), dtypes.float32)


def load_and_remap_matrix_initializer(
        ckpt_path: str | Sequence[str], old_tensor_name: str, new_row_vocab_size: int,
        new_col_vocab_size: int, old_row_vocab_size: int = -1,
        old_row_vocab_file: str | None = None, new_row_vocab_file: str | None = None,
        old_col_vocab_file: str | None = None, new_col_vocab_file: str | None = None,
        num_row_oov_buckets: int = 0, num_col_oov_buckets: int = 0,
        initializer: Callable | None = None, max_rows_in_memory: int = -1) -> Callable:
    """Return an initializer of a variable, or of its parts by rows, with the values of
    :func:`load_and_remap_matrix`.

    It raises ``ValueError`` for a shape other than that of both vocabularies and their buckets.
    """
    width, rows = new_col_vocab_size + num_col_oov_buckets, new_row_vocab_size
    height = rows + num_row_oov_buckets

    def initial(shape: Any, dtype: DTypeLike = dtypes.float32, partition_info: Any = None) -> Any:
        sizes = [int(size) for size in shape]
        whole, first = sizes, 0
        if partition_info is not None:
            whole = [int(size) for size in partition_info.full_shape]
            first = int(partition_info.var_offset[0])
        if dtypes.as_dtype(dtype).base_dtype is not dtypes.float32:
            raise TypeError(f"only float32 is remapped, got {dtypes.as_dtype(dtype).name}")
        if whole != [height, width] or sizes[1] != width:
            raise ValueError(f"the vocabularies and their buckets make a matrix of shape "
                             f"{[height, width]}, in parts by rows, but {sizes} of {whole} is "
                             "to be initialized")
        load = max(0, min(sizes[0], rows - first))
        return load_and_remap_matrix(
            ckpt_path, old_tensor_name, min(first, rows), load, new_col_vocab_size, initializer,
            old_row_vocab_size, old_row_vocab_file, new_row_vocab_file, old_col_vocab_file,
            new_col_vocab_file, sizes[0] - load, num_col_oov_buckets, max_rows_in_memory)

    return initial


def load_embedding_initializer(
        ckpt_path: str | Sequence[str], embedding_tensor_name: str, new_vocab_size: int,
        embedding_dim: int, old_vocab_file: str, new_vocab_file: str, old_vocab_size: int = -1,
        num_oov_buckets: int = 0, initializer: Callable | None = None,
        max_rows_in_memory: int = -1) -> Callable:
    """Return an initializer of embeddings with those that a checkpoint has of the same words; see
    :func:`load_and_remap_matrix_initializer`. Others are normal numbers by default."""
    if initializer is None:
        initializer = TruncatedNormal(0.0, 1.0 / float(np.sqrt(embedding_dim)))
    return load_and_remap_matrix_initializer(
        ckpt_path, embedding_tensor_name, new_vocab_size, embedding_dim, old_vocab_size,
        old_vocab_file, new_vocab_file, None, None, num_oov_buckets, 0, initializer,
        max_rows_in_memory)


def load_linear_multiclass_bias_initializer(
        ckpt_path: str | Sequence[str], bias_tensor_name: str, new_class_vocab_size: int,
        old_class_vocab_file: str, new_class_vocab_file: str, num_class_oov_buckets: int = 0,
        initializer: Callable | None = None, max_rows_in_memory: int = -1) -> Callable:
    """Return an initializer of the biases of classes, a column ``[classes, 1]``, with those that a
    checkpoint has of the same classes; see :func:`load_and_remap_matrix_initializer`."""
    return load_and_remap_matrix_initializer(
        ckpt_path, bias_tensor_name, new_class_vocab_size, 1, -1, old_class_vocab_file,
        new_class_vocab_file, None, None, num_class_oov_buckets, 0, initializer,
        max_rows_in_memory)
