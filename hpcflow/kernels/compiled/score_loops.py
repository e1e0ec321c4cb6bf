"""Softmax and the cross entropies row by row, as compiled loops where those can be made.

A row stays in the first-level cache, and a thread does many rows without the interpreter.
Exponentials are vectorized arithmetic and sums are formed in any order, so the last bits differ
from those of the NumPy forms in ``classification``; the deterministic mode keeps to these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from hpcflow.kernels.common.parallel import over_rows
from hpcflow.loops import scores
from hpcflow.loops.form import DENSE as MATRIX
from hpcflow.loops.form import PER_ROW, Builder
from hpcflow.loops.form_loop import FormLoop

#: A kind is what writes the values of a row.
Kind = Callable[..., list[int]]
SOFTMAX, LOG_SOFTMAX, DENSE, SPARSE = (
    scores.softmax, scores.log_softmax, scores.cross_entropy, scores.sparse_cross_entropy)


def run_rows(kind: Kind, compute: Callable[..., None], arrays: list) -> object:
    """``compute(*arrays)`` over blocks of rows, or what does the same.

    Args:
        kind: what is computed.
        compute: the form of NumPy.
        arrays: scores, then labels, losses (where the kind has them) and the matrix of results;
            the last two are written.
    """
    given = arrays[0]
    if not given.size:
        compute(*arrays)
        return None
    loop = _loop(kind, given.dtype, arrays[1].dtype, given.shape[1])
    return loop.apply(len(given), arrays[:-1], lambda: arrays[-1], lambda: over_rows(
        len(given), sum(a[:1].nbytes for a in arrays),
        lambda block: compute(*[a[block] for a in arrays])))


@functools.lru_cache(maxsize=256)
def _loop(kind: Kind, dtype: np.dtype, label_dtype: np.dtype, columns: int) -> FormLoop:
    """The loop over rows of so many scores."""
    b = Builder(columns)
    given = [b.load(b.array(dtype.name), MATRIX)]
    if kind in (DENSE, SPARSE):
        is_dense = kind == DENSE
        given.append(b.load(b.array(label_dtype.name), MATRIX if is_dense else PER_ROW))
    made = kind(b, *given)
    for where, value in zip((PER_ROW, MATRIX)[-len(made):], made):
        b.store(b.array(dtype.name), where, value)
    return FormLoop(b.program())
