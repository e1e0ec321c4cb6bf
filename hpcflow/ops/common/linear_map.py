"""Matrices that are no tensors: functions of matrices hand over to their methods."""

from __future__ import annotations

from typing import Any


class LinearMap:
    """The base of ``LinearOperator``, which is a level above: a matrix known by what it does."""

    adjoint: Any
    cholesky: Any
    determinant: Any
    diag_part: Any
    inverse: Any
    log_abs_determinant: Any
    matmul: Any
    solve: Any
    trace: Any
