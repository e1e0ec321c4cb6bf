"""Sequences of different lengths as an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from hpcflow.base.late_names import named_otherwise

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


def pad_sequences(sequences: Sequence, maxlen: int | None = None, dtype: str = "int32",
                  padding: str = "pre", truncating: str = "pre",
                  value: TensorLike = 0.0) -> np.ndarray:
    """Return sequences as rows of one length, the longest unless `maxlen` is given.

    Shorter ones are filled with `value`, longer ones cut, before (``pre``) or after (``post``).
    Raises ``ValueError`` for what is no sequence and for other modes.
    """
    if not hasattr(sequences, "__len__"):
        raise ValueError("`sequences` must be iterable.")
    for mode, what in ((padding, "Padding"), (truncating, "Truncating")):
        if mode not in ("pre", "post"):
            raise ValueError(f"{what} type \"{mode}\" not understood")
    for own in sequences:
        if not hasattr(own, "__len__"):
            raise ValueError(f"`sequences` must be a list of iterables. Found non-iterable: {own}")
    length = max(map(len, sequences), default=0) if maxlen is None else maxlen
    inner = next((np.asarray(s).shape[1:] for s in sequences if len(s)), ())
    rows = np.full((len(sequences), length, *inner), value, dtype)
    for row, own in zip(rows, sequences, strict=True):
        if not len(own) or not length:
            continue
        kept = np.asarray(own[-length:] if truncating == "pre" else own[:length], dtype)
        if kept.shape[1:] != inner:
            raise ValueError(f"Shape of sample {kept.shape[1:]} is different from expected shape "
                             f"{inner}")
        if padding == "pre":
            row[-len(kept):] = kept
        else:
            row[:len(kept)] = kept
    return rows


__getattr__ = named_otherwise(__name__)
