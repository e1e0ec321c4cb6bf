"""Kernels of matrix decompositions, all by LAPACK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.linalg.linalg import check_matrices, check_square, checked, transposed
from hpcflow.kernels.registry import KernelNode, invalid, kernel

_EIG_FAILED = "Self-adjoint eigen decomposition was not successful. The input might not be valid."
_SVD_FAILED = "The singular value decomposition did not converge. The input might not be valid."


@kernel("Qr", fresh=True)
def _qr(node: KernelNode) -> Callable:
    qr, mode = node.xp.linalg.qr, "complete" if node.attr("full_matrices") else "reduced"

    def run(matrix: Any) -> tuple:
        check_matrices(matrix)
        return tuple(qr(matrix, mode))

    return run


@kernel("SelfAdjointEig", "BatchSelfAdjointEig", fresh=True)
def _eig(node: KernelNode) -> Callable:
    """The eigenvalues as a first row on top of the vectors."""
    xp = node.xp
    decompose = checked(xp.linalg.eigh, _EIG_FAILED)

    def run(x: Any) -> Any:
        check_square(x)
        e, v = decompose(x)
        return xp.concatenate([e[..., None, :], v], -2)

    return run


@kernel("SelfAdjointEigV2", "BatchSelfAdjointEigV2", fresh=True)
def _eig_v2(node: KernelNode) -> Callable:
    linalg, empty, isfinite = node.xp.linalg, node.xp.empty, node.xp.isfinite
    vectors, dtype = node.attr("compute_v"), node.np_dtype()
    decompose = checked(linalg.eigh if vectors else linalg.eigvalsh, _EIG_FAILED)

    def run(x: Any) -> tuple:
        check_square(x)
        e, v = decompose(x) if vectors else (decompose(x), empty(0, dtype))
        if not isfinite(e).all():
            raise invalid(_EIG_FAILED)
        return e.astype(dtype), v

    return run


@kernel("Svd", "BatchSvd", fresh=True)
def _svd(node: KernelNode) -> Callable:
    """The singular values first; the right vectors in columns too."""
    xp, dtype = node.xp, node.np_dtype()
    vectors, full = node.attr("compute_uv"), node.attr("full_matrices")
    decompose = checked(xp.linalg.svd, _SVD_FAILED)

    def run(x: Any) -> tuple:
        check_matrices(x)
        if not vectors:
            return decompose(x, False, False).astype(dtype), xp.empty(0, dtype), xp.empty(0, dtype)
        u, s, v = decompose(x, full)
        return s.astype(dtype), u, transposed(v)

    return run
