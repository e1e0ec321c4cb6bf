"""Parts of strings, and n-grams of parts."""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import with_rank
from hpcflow.ops.type_sets import INDEX

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
