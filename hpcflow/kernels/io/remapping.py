"""Kernels that bring a vocabulary, and a matrix of a checkpoint by its words, into a new order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes, storage
from hpcflow.errors import UnimplementedError
from hpcflow.kernels.common.background import in_background
from hpcflow.kernels.common.text import as_text, texts
from hpcflow.kernels.registry import ASYNC, KernelNode, invalid, kernel
from hpcflow.storage.system_errors import system_errors


@kernel("GenerateVocabRemapping", device="CPU")
def _generate(node: KernelNode) -> Callable:
    first, count = node.attr("new_vocab_offset"), node.attr("num_new_vocab")
    old_size = node.attr("old_vocab_size")

    def generate(new_file: Any, old_file: Any) -> tuple:
        known = {word: n for n, word in reversed(list(enumerate(_words(old_file, old_size))))}
        wanted = _words(new_file, first + count)[first:] if count else []
        found = np.array([known.get(word, -1) for word in wanted], np.int64)
        return found, np.int32((found >= 0).sum())

    return generate


def _words(path: Any, count: int) -> list[bytes]:
    """The lines of a file; the first `count` of them, which must be there, unless it is -1."""
    name = as_text(path)
    with system_errors(f"reading file '{name}'"), open(name, "rb") as file:
        words = [line.rstrip(b"\r\n") for line in file]
    if len(words) < count:
        raise invalid(f"The vocabulary file {name} has {len(words)} lines, but {count} are used")
    return words if count < 0 else words[:count]


@kernel("LoadAndRemapMatrix", device="CPU", mode=ASYNC)
def _load_and_remap(node: KernelNode) -> Callable:
    height, width = node.attr("num_rows"), node.attr("num_cols")

    def load(path: Any, name: Any, rows: np.ndarray, columns: np.ndarray,
             values: np.ndarray) -> np.ndarray:
        old = _old_matrix(texts(np.ravel(path))[0], as_text(name))
        rows = _checked(rows, height, len(old), "row_remapping")
        if not columns.size:
            if old.shape[1] != width:
                raise invalid(f"The matrix has {old.shape[1]} columns, num_cols is {width}: they "
                              "must be equal without a col_remapping")
            columns = np.arange(width)
        columns = _checked(columns, width, old.shape[1], "col_remapping")
        return _remapped(old, rows, columns, values)

    return in_background(load)


def _old_matrix(path: str, name: str) -> np.ndarray:
    with storage.open_checkpoint(path) as reader:
        old = reader.read(name, None, dtypes.float32)
    if old.ndim != 2:
        raise invalid(f"'{name}' of '{path}' must be a matrix, but it has rank {old.ndim}")
    return old


def _checked(places: np.ndarray, count: int, limit: int, what: str) -> np.ndarray:
    """Where each new row or column is among the `limit` old ones, negative for nowhere."""
    if len(places) != count:
        raise invalid(f"{what} must have {count} entries, but it has {len(places)}")
    used = places[places >= 0]
    if used.size and used.max() >= limit:
        raise invalid(f"{what} has the entry {used.max()}, but there are {limit}")
    if len(np.unique(used)) < len(used):
        raise UnimplementedError(None, None, f"{what} has an entry twice: what is old can be in "
                                 "one place of the new matrix only")
    return places


def _remapped(old: np.ndarray, rows: np.ndarray, columns: np.ndarray,
              values: np.ndarray) -> np.ndarray:
    """The new matrix; `values`, in the order of its rows, stand where nothing is old."""
    missing = (rows < 0)[:, None] | (columns < 0)[None, :]
    if missing.sum() != values.size:
        raise invalid(f"initializing_values must be {missing.sum()}, as many as the entries that "
                      f"are not old, but there are {values.size}")
    if not old.size:
        return values.reshape(missing.shape).copy()
    found = old[np.maximum(rows, 0)[:, None], np.maximum(columns, 0)[None, :]]
    found[missing] = values
    return found
