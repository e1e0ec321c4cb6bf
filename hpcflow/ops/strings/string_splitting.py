"""Parts of strings, and n-grams of parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []


def _split_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "input")
    with_rank(op.input_dims(1), 0, "sep")
    return [(None, 2), (None,), (2,)]


def _ngrams_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "data")
    return [(None,), with_rank(op.input_dims(1), 1, "data_splits")]


_SPLITS = f"Tsplits: {INDEX} = int64"
register_op("StringSplitV2", "input: string; sep: string",
            "indices: int64; values: string; shape: int64", "maxsplit: int = -1",
            shape=_split_shape)
register_op("StringNGrams", "data: string; data_splits: Tsplits",
            "ngrams: string; ngrams_splits: Tsplits",
            "separator: string; ngram_widths: list(int) >= 0; left_pad: string; "
            "right_pad: string; pad_width: int; preserve_short_sequences: bool; " + _SPLITS,
            shape=_ngrams_shape)
not_differentiable("StringSplitV2", "StringNGrams")


def strings_split(input: TensorLike | None = None, sep: str | None = None, maxsplit: int = -1,
                  result_type: str = "SparseTensor", source: Any = None,
                  name: str | None = None) -> SparseTensor:
    """Return the parts of strings between separators: a row for each string.

    Args:
        input: a string, or a vector of strings.
        sep: the separator; runs of white space by default.
        maxsplit: split so many times at most; -1 for as often as there are separators.
        result_type: ``"SparseTensor"``.
        source: an older name of `input`.
        name: name of the scope.

    Raises:
        ValueError: for another `result_type`.
    """
    if result_type != "SparseTensor":
        raise ValueError(f"result_type must be 'SparseTensor', got {result_type!r}")
    with name_scope(name, "StringSplit", [input, source]):
        text = convert_to_tensor(source if input is None else input, name="input")
        if text.get_shape().ndims == 0:
            text = raw_ops.ExpandDims(text, np.int32(0))
        found = raw_ops.StringSplitV2(text, sep or "", maxsplit=maxsplit)
        return SparseTensor(*found)
