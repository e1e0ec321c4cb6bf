"""The rules of bands of diagonals in a matrix: which there are, how long, in how large a matrix.

Diagonal 0 is the main one, positive numbers are above it. Source: the MatrixDiagV3 family of op
types of the GraphDef format.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def band_of(k: Any) -> tuple[int, int]:
    """The lowest and the highest diagonal; ``ValueError`` if `k` does not say so."""
    values = [int(v) for v in np.ravel(k)]
    if np.ndim(k) > 1 or len(values) not in (1, 2) or values[0] > values[-1]:
        raise ValueError(f"k must be a number or two ascending ones, got {np.array(k).tolist()}")
    return values[0], values[-1]


def longest_diagonal(rows: int, columns: int, low: int, high: int) -> int:
    """The length of the longest diagonal of a band; ``ValueError`` if it is not in the matrix."""
    for k in (low, high):
        if k and not -rows < k < columns:
            raise ValueError(f"diagonal {k} is not in a matrix of {rows} rows and {columns} "
                             "columns")
    return min(rows + min(high, 0), columns - max(low, 0))


def matrix_size(length: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """Rows and columns of the matrix around a band; -1 stands for as few as hold it.

    Raises ``ValueError`` if the band does not fit into the size that is asked for.
    """
    least = length - min(high, 0), length + max(low, 0)
    if rows == columns == -1:
        return max(least), max(least)
    size = least[0] if rows == -1 else rows, least[1] if columns == -1 else columns
    if size[0] < least[0] or size[1] < least[1] or (size[0] > least[0] and size[1] > least[1]):
        raise ValueError(f"diagonals {low} to {high} of length {length} do not fit a matrix of "
                         f"{size[0]} rows and {size[1]} columns")
    return size
