"""Softmax and the cross entropies row by row, as compiled loops where those can be made.

A row stays in the first-level cache, and a thread does many rows without the interpreter.
Exponentials are vectorized arithmetic and sums are formed in any order, so the last bits differ
from those of the NumPy forms in ``classification``; the deterministic mode keeps to these.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.loops import compiling, scores, strided_copy
from hpcflow.loops.form import DENSE as MATRIX
from hpcflow.loops.form import PER_ROW, Builder
from hpcflow.loops.form_loop import FormLoop

SOFTMAX, LOG_SOFTMAX, DENSE, SPARSE = "softmax", "log softmax", "cross entropy", "sparse"

_RECIPES: dict[str, Callable[..., list[int]]] = {
    SOFTMAX: scores.softmax, LOG_SOFTMAX: scores.log_softmax, DENSE: scores.cross_entropy,
    SPARSE: scores.sparse_cross_entropy}


def run_rows(kind: str, compute: Callable[..., None], arrays: list) -> None:
    """``compute(*arrays)`` over blocks of rows, or what does the same.

    Args:
        kind: what is computed.
        compute: the form of NumPy.
        arrays: scores, then labels, losses (where the kind has them) and the matrix of results;
            the last two are written.
    """
    given = arrays[0]
    if not given.size:
        return compute(*arrays)
    loop = _loop(kind, given.dtype, arrays[1].dtype, given.shape[1])
    found = loop.compiled()
    if found is not None and found.function is not None and _run(loop, found, arrays):
        return None
    began = time.perf_counter()
    over_rows(len(given), sum(a[:1].nbytes for a in arrays),
              lambda block: compute(*[a[block] for a in arrays]))
    if found is not None:
        found.spent(time.perf_counter() - began)
    return None


def _run(loop: FormLoop, found: compiling.Compiled, arrays: list) -> bool:
    """Run the loop; False if an array lies as it should not."""
    rows = len(arrays[0])
    try:
        loop.run(found, rows, arrays)
        return True
    except TypeError:
        if arrays[0].size >= tuning.SCORE_SMALL:
            return False
    try:
        loop.run(found, rows, [*map(strided_copy.in_order, arrays[:-1]), arrays[-1]])
        return True
    except TypeError:  # an array whose elements are at other addresses than they should be
        return False


@functools.lru_cache(maxsize=256)
def _loop(kind: str, dtype: np.dtype, label_dtype: np.dtype, columns: int) -> FormLoop:
    """The loop over rows of so many scores."""
    b = Builder(columns)
    given = [b.load(b.array(dtype.name), MATRIX)]
    if kind in (DENSE, SPARSE):
        is_dense = kind == DENSE
        given.append(b.load(b.array(label_dtype.name), MATRIX if is_dense else PER_ROW))
    made = _RECIPES[kind](b, *given)
    for where, value in zip((PER_ROW, MATRIX)[-len(made):], made):
        b.store(b.array(dtype.name), where, value)
    return FormLoop(b.program())
