"""Kernels of products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import FailedPreconditionError
from hpcflow.host import blas
from hpcflow.kernels.compiled import small_products
from hpcflow.kernels.cublas import products
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NARROW

# NumPy has fast products of these types only.
_BLAS = ("float32", "float64", "complex64", "complex128")


def _mismatch(a: Any, b: Any, flip_a: bool, flip_b: bool) -> Exception:
    flips = f" (transpose_a={flip_a}, transpose_b={flip_b})" if flip_a or flip_b else ""
    return invalid("Matrix size-incompatible: inner dimensions differ: "
                   f"{shown(a)} x {shown(b)}{flips}")


@kernel("MatMul", fresh=True, accepts_out=True, types={"T": [*_BLAS, "int16", "int32", "int64"]})
def _matmul(node: KernelNode) -> Any:
    """Transposed factors are views: BLAS takes them as they are."""
    if node.xp is not np:
        return _on_device(node)
    flip_a, flip_b = node.attr("transpose_a"), node.attr("transpose_b")
    static = node.static_dims(0) is not None and node.static_dims(1) is not None
    if static and not flip_a and not flip_b:
        return blas.dot  # nothing to adapt, and the shapes were checked when the op was made
    return _general_matmul(blas.dot, flip_a, flip_b)


def _on_device(node: KernelNode) -> Callable:
    flip_a, flip_b = bool(node.attr("transpose_a")), bool(node.attr("transpose_b"))
    product = products.of(node.xp)

    def run(a: Any, b: Any, out: Any = None) -> Any:
        if a.ndim != 2 or b.ndim != 2:
            raise invalid(f"the factors must be matrices: {shown(a)} x {shown(b)}")
        try:
            return product(a, b, flip_a=flip_a, flip_b=flip_b, out=out)
        except ValueError:
            raise _mismatch(a, b, flip_a, flip_b) from None

    return run


def _general_matmul(dot: Callable, flip_a: bool, flip_b: bool) -> Callable:
    def run(a: Any, b: Any, out: Any = None) -> Any:
        if a.ndim != 2 or b.ndim != 2:
            raise invalid(f"the factors must be matrices: {shown(a)} x {shown(b)}")
        try:
            return dot(a.T if flip_a else a, b.T if flip_b else b, out=out)
        except ValueError:
            raise _mismatch(a, b, flip_a, flip_b) from None

    return run


@kernel("MatMul", fresh=True, accepts_out=True, types={"T": ["float16"]})
def _matmul_half(node: KernelNode) -> Any:
    """Computed in float32: NumPy's own product of halves is slow and rounds every sum."""
    if node.xp is not np:
        return _on_device(node)
    product = _general_matmul(blas.dot, node.attr("transpose_a"), node.attr("transpose_b"))

    def run(a: Any, b: Any, out: Any = None) -> Any:
        wide = product(a.astype(np.float32), b.astype(np.float32))
        if out is None:
            return wide.astype(np.float16)
        out[...] = wide
        return out

    return run


@kernel("MatMul", device="GPU", fresh=True, accepts_out=True, types={"T": ["bfloat16"]})
def _matmul_bfloat16(node: KernelNode) -> Any:
    """The factors stay what they are; sums are in float32."""
    return _on_device(node)


@kernel("SparseMatMul", fresh=True)
def _sparse_matmul(node: KernelNode) -> Any:
    """The hints of sparsity are not used: a dense product is as fast unless nearly all is zero."""
    product = _on_device(node) if node.xp is not np else _general_matmul(
        blas.dot, node.attr("transpose_a"), node.attr("transpose_b"))

    def run(a: Any, b: Any) -> Any:
        return product(a.astype(np.float32, copy=False), b.astype(np.float32, copy=False))

    return run


def _adjoint(x: Any, is_complex: bool) -> Any:
    return (x.conj() if is_complex else x).swapaxes(-1, -2)


@kernel("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", fresh=True)
def _batch_matmul(node: KernelNode) -> Any:
    """The first of the types has equal batch dimensions, the others broadcast them."""
    if node.xp is not np:
        return _batches_on_device(node)
    adj_x, adj_y = bool(node.attr("adj_x")), bool(node.attr("adj_y"))
    is_complex, broadcasts = node.output_dtypes[0].is_complex, node.op_type != "BatchMatMul"
    dtype = node.np_dtype()
    within = np.dtype(np.float32) if node.output_dtypes[0] in NARROW else dtype

    def run(x: Any, y: Any) -> Any:
        if min(x.ndim, y.ndim) < 2 or not broadcasts and x.shape[:-2] != y.shape[:-2]:
            raise invalid(f"batch dimensions differ: {shown(x)} x {shown(y)}")
        a, b = x.astype(within, copy=False), y.astype(within, copy=False)

        def compute() -> Any:
            return np.matmul(_adjoint(a, is_complex) if adj_x else a,
                             _adjoint(b, is_complex) if adj_y else b)

        try:
            z = small_products.multiply(a, b, adj_x, adj_y, compute)
        except ValueError:
            raise _mismatch(x, y, adj_x, adj_y) from None
        return z.astype(dtype, copy=False)

    return run


def _batches_on_device(node: KernelNode) -> Callable:
    adj_x, adj_y = bool(node.attr("adj_x")), bool(node.attr("adj_y"))
    is_complex, broadcasts = node.output_dtypes[0].is_complex, node.op_type != "BatchMatMul"
    product = products.of(node.xp)

    def run(x: Any, y: Any) -> Any:
        if min(x.ndim, y.ndim) < 2 or not broadcasts and x.shape[:-2] != y.shape[:-2]:
            raise invalid(f"batch dimensions differ: {shown(x)} x {shown(y)}")
        try:
            return product(x.conj() if adj_x and is_complex else x,
                           y.conj() if adj_y and is_complex else y, flip_a=adj_x, flip_b=adj_y)
        except ValueError:
            raise _mismatch(x, y, adj_x, adj_y) from None

    return run


@kernel("Cross", fresh=True)
def _cross(node: KernelNode) -> Any:
    """Written out: cross() of NumPy 2 warns of shapes that are fine here."""
    xp, dtype = node.xp, node.np_dtype()

    def run(a: Any, b: Any) -> Any:
        if a.shape != b.shape or not a.ndim:
            raise invalid(f"cross products need two equal shapes of rank 1 or more: "
                          f"{shown(a)}, {shown(b)}")
        if a.shape[-1] != 3:
            raise FailedPreconditionError(
                None, None, f"cross products are of 3-element vectors, not {a.shape[-1]}")
        out = xp.empty(a.shape, dtype)
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            out[..., i] = a[..., j] * b[..., k] - a[..., k] * b[..., j]
        return out

    return run
