"""Products of large matrices by oneDNN; small ones by BLAS.

Its sgemm needs no primitive. The primitive is faster where the second factor is transposed, and
takes whole batches.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host import blas, memory
from hpcflow.host.memory import address_of
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.windows import in_float32
from hpcflow.kernels.compiled import small_products
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.convolution import TYPES, numpy_kernel
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.registry import KernelNode, kernel
from hpcflow.loops import compiling

_Operand = tuple[Any, bytes, int]  # the array whose memory is read, "N" or "T", its row length


def is_large(m: int, k: int, n: int, batch: int = 1) -> bool:
    """True if the library multiplies a batch of (m, k) by (k, n) faster than BLAS does: with
    AVX-512, or a whole batch. In narrower registers OpenBLAS is as fast or faster.

    A product with a vector reads the matrix once, which BLAS does as fast as memory allows.
    """
    size = batch * m * k * n
    if batch * m == 1 or n == 1 or k == 1:
        return False
    if blas.is_small(size):
        return size > tuning.ONEDNN_WIDER_PRODUCTS and _is_wider() and not compiling.keeps_bits()
    return batch > 1 or _is_wide()


@functools.cache
def _is_wide() -> bool:
    lib = load()
    return lib is not None and lib.has_avx512


@functools.cache
def _is_wider() -> bool:
    """True if the library computes with wider registers than BLAS, by the kernels that both chose.

    Compiled loops that keep the bits of single steps multiply by BLAS what is small.
    """
    return _is_wide() and blas.has_avx512() is False


def _operand(x: Any, flip: bool) -> _Operand:
    """Return `x` (its transpose with `flip`) as sgemm reads it; views in order are not copied."""
    rows, columns = x.strides
    if columns == 4 and rows >= 4 * x.shape[1] and rows % 4 == 0:
        return x, b"T" if flip else b"N", rows // 4
    if rows == 4 and columns >= 4 * x.shape[0] and columns % 4 == 0:
        return x, b"N" if flip else b"T", columns // 4
    x = np.ascontiguousarray(x)
    return x, b"T" if flip else b"N", x.shape[1]


def multiply(lib: Library, a: Any, b: Any, flip_a: bool, flip_b: bool, out: Any,
             factor: float = 1.0, keep: float = 0.0) -> None:
    """``out = keep * out + factor * a @ b``, factors transposed as asked; `out` lies in C order."""
    key, (a, b) = _form(a, b, flip_a, flip_b, out, keep)
    compute, addresses = _sgemm(lib, key, factor), (address_of(a), address_of(b), address_of(out))
    if lib.team is None:
        compute(*addresses)
    else:
        m, n, k = key[:3]
        lib.team.run(m * n * k, compute, compute, addresses)


def _form(a: Any, b: Any, flip_a: bool, flip_b: bool, out: Any, keep: float) -> tuple[tuple, tuple]:
    """Return the key of a product (rows and columns of the result, the inner size, the layouts),
    and the arrays that are read."""
    m, n = out.shape
    k = a.shape[0] if flip_a else a.shape[1]
    a, form_a, step_a = _operand(a, flip_a)
    b, form_b, step_b = _operand(b, flip_b)
    return (m, n, k, form_a, form_b, step_a, step_b, keep), (a, b)


def _sgemm(lib: Library, key: tuple, factor: float) -> Callable[[int, int, int], None]:
    """Return a function that multiplies the matrices at two addresses into a third."""
    m, n, k, form_a, form_b, step_a, step_b, keep = key

    def compute(a: int, b: int, out: int) -> None:
        status = lib.sgemm(form_a, form_b, m, n, k, factor, a, step_a, b, step_b, keep, out, n)
        if status:
            raise OneDNNError(f"dnnl_sgemm failed with status {status}")

    return compute


@blas.large_together.provide
def _multiply_together(a: Any, b: Any) -> Any:
    lib = load()
    if lib is None or not _serves(a, b):
        return None
    out = memory.empty((a.shape[0], b.shape[1]), np.float32)
    multiply(lib, a, b, False, False, out)
    return out


def _serves(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype == np.float32 and is_large(a.shape[0], a.shape[1], b.shape[1])


class _Product:
    """A primitive as a function of addresses, that of the result the last, by one thread or by all
    of them; see `team`.

    Args:
        lib: the library.
        size: the multiplications.
        make: makes a primitive for the threads that the caller has.
    """

    def __init__(self, lib: Library, size: int, make: Callable) -> None:
        self.lib = lib
        self.size = size
        self.make = make
        self.together: p.Primitive = make()
        self.alone: p.Primitive | None = None

    def __call__(self, *addresses: int) -> None:
        """See the class."""
        team = self.lib.team
        if team is None:
            self.together(*addresses)
        else:
            team.run(self.size, self._run_alone, self.together, addresses)

    def _run_alone(self, *addresses: int) -> None:
        found = self.alone
        if found is None:
            found = self.alone = self.make()
        found(*addresses)


@functools.lru_cache(maxsize=1024)
def product(lib: Library, batch: int, m: int, k: int, n: int, flip_a: bool, flip_b: bool,
            dtype: str = "float32", bias: bool = False, relu: bool = False) -> _Product | None:
    """``out = a @ b`` in every matrix of a batch, factors of `dtype` transposed as asked, and the
    products in float32; None without one. With a `bias` it comes after the factors."""

    def matrices(rows: int, columns: int, flip: bool, dtype: str = dtype) -> p.Description:
        steps = (1, rows) if flip else (columns, 1)
        return p.Description(lib, (batch, rows, columns), (rows * columns, *steps), dtype)

    a, b = matrices(m, k, flip_a), matrices(k, n, flip_b)
    out = matrices(m, n, False, "float32")
    row = p.Description(lib, (1, 1, n), (n, n, 1)) if bias else None
    more = [] if row is None else [(p.BIAS, row)]

    def make() -> p.Primitive:
        desc = lib.create("matmul_primitive_desc_create", lib.engine, a.handle, b.handle,
                          row and row.handle, out.handle, lib.relu_attr if relu else lib.attr)
        return p.Primitive(lib, desc, [(p.SRC, a), (p.WEIGHTS, b), *more, (p.DST, out)])

    try:
        return _Product(lib, batch * m * k * n, make)
    except OneDNNError:
        return None


def _run_product(run: _Product, a: Any, b: Any, out: Any) -> None:
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    run(address_of(a), address_of(b), address_of(out))


def multiply_transposed(lib: Library, a: Any, b: Any, out: Any) -> bool:
    """``out = a @ b.T``, all in C order; False if the library has no primitive for it, or other
    orders make `multiply` the better choice."""
    if not (a.flags.c_contiguous and b.flags.c_contiguous):
        return False
    found = product(lib, 1, a.shape[0], a.shape[1], b.shape[0], False, True)
    if found is not None:
        _run_product(found, a, b, out)
    return found is not None


@kernel("MatMul", device="CPU", types={"T": TYPES}, priority=10, fresh=True, accepts_out=True)
def _matmul(node: KernelNode) -> Callable:
    lib, plain = load(), numpy_kernel(node)
    flip_a, flip_b = node.attr("transpose_a"), node.attr("transpose_b")
    if lib is None or _is_small(node, flip_a, flip_b):
        return plain

    def run(a: Any, b: Any, out: Any = None) -> Any:
        if a.ndim != 2 or b.ndim != 2:
            return plain(a, b)  # which says what is wrong
        k, m = a.shape if flip_a else a.shape[::-1]
        n, inner = b.shape if flip_b else b.shape[::-1]
        if k != inner or not is_large(m, k, n):
            return plain(a, b) if out is None else plain(a, b, out=out)
        if out is None:
            out = memory.empty((m, n), np.float32)
        found = product(lib, 1, m, k, n, flip_a, flip_b) if flip_b else None
        if found is None:
            multiply(lib, a, b, flip_a, flip_b, out)
        else:
            _run_product(found, a, b, out)
        return out

    return in_float32(node, run)


@kernel("BatchMatMul", "BatchMatMulV2", device="CPU", types={"T": TYPES}, priority=10, fresh=True)
def _batch_matmul(node: KernelNode) -> Callable:
    """Kernel of BatchMatMul: the factors may be transposed views. The attribute ``_order`` is the
    permutation after which the result lies in C order, since all that reads it is a transposition
    by that."""
    lib, plain = load(), numpy_kernel(node)
    if lib is None:
        return plain
    flip_a, flip_b = bool(node.attr("adj_x")), bool(node.attr("adj_y"))
    order = node.attr("_order")

    def run(a: Any, b: Any) -> Any:
        if a.ndim < 3 or a.ndim != b.ndim or a.shape[:-2] != b.shape[:-2]:
            return plain(a, b)  # which repeats matrices, or says what is wrong
        batch = math.prod(a.shape[:-2])
        k, m = a.shape[-2:] if flip_a else a.shape[:-3:-1]
        n, inner = b.shape[-2:] if flip_b else b.shape[:-3:-1]
        if k != inner or batch < 2 or not is_large(m, k, n, batch) or (
                order is None and small_products.fits(m, k, n)):
            return plain(a, b)
        out = _empty((*a.shape[:-2], m, n), order)
        a, b = _readable(a), _readable(b)
        if a.flags.c_contiguous and b.flags.c_contiguous and out.flags.c_contiguous:
            found = product(lib, batch, m, k, n, flip_a, flip_b)
        else:
            found = product_of_views(lib, *_lying(a, flip_a), *_lying(b, flip_b), *_lying(out))
        if found is None:
            return plain(a, b)
        found(address_of(a), address_of(b), address_of(out))
        return out

    return in_float32(node, run)


def _empty(dims: tuple[int, ...], order: Sequence[int] | None) -> np.ndarray:
    """A new array of `dims` that lies in C order when its axes are permuted so."""
    if order is None:
        return memory.empty(dims, np.float32)
    made = memory.empty([dims[axis] for axis in order], np.float32)
    return made.transpose(np.argsort(order))


def _readable(x: np.ndarray) -> np.ndarray:
    """A batch of matrices as primitives read it: a copy unless its rows, or its columns, lie one
    after the other without overlapping."""
    rows, columns = x.strides[-2:]
    in_order = (columns == 4 and rows >= 4 * x.shape[-1]) or (
        rows == 4 and columns >= 4 * x.shape[-2])
    if x.flags.c_contiguous or (in_order and x.ndim <= tuning.ONEDNN_MOST_AXES and all(
            [s > 0 and s % 4 == 0 for s in x.strides])):
        return x
    return np.ascontiguousarray(x)


def _lying(x: np.ndarray, flip: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dims and the strides, in elements, of a batch of matrices, transposed with `flip`."""
    dims, steps = x.shape, tuple([s // 4 for s in x.strides])
    if flip:
        return (*dims[:-2], dims[-1], dims[-2]), (*steps[:-2], steps[-1], steps[-2])
    return dims, steps


@functools.lru_cache(maxsize=1024)
def product_of_views(lib: Library, *lying: tuple[int, ...]) -> _Product | None:
    """``out = a @ b`` in every matrix of batches that lie in any order: dims and strides, in
    elements, of a, b and out; None without a primitive."""
    a, b, out = [p.Description(lib, dims, steps) for dims, steps in zip(lying[::2], lying[1::2])]

    def make() -> p.Primitive:
        desc = lib.create("matmul_primitive_desc_create", lib.engine, a.handle, b.handle, None,
                          out.handle, lib.attr)
        return p.Primitive(lib, desc, [(p.SRC, a), (p.WEIGHTS, b), (p.DST, out)])

    size = math.prod(lying[4])
    try:
        return _Product(lib, size * lying[0][-1], make)
    except OneDNNError:
        return None


@kernel("SparseMatMul", device="CPU", priority=10, fresh=True)
def _sparse_matmul(node: KernelNode) -> Callable:
    """Kernel of SparseMatMul: bfloat16 is multiplied as it is, as products are exact in float32."""
    lib, plain = load(), numpy_kernel(node)
    if lib is None:
        return plain
    flip_a, flip_b = node.attr("transpose_a"), node.attr("transpose_b")

    def run(a: Any, b: Any) -> Any:
        if a.ndim != 2 or b.ndim != 2:
            return plain(a, b)
        k, m = a.shape if flip_a else a.shape[::-1]
        n, inner = b.shape if flip_b else b.shape[::-1]
        if k != inner or not is_large(m, k, n):
            return plain(a, b)
        dtype = "bfloat16" if a.dtype == b.dtype != np.float32 else "float32"
        if dtype == "float32":
            a, b = a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
        found = product(lib, 1, m, k, n, flip_a, flip_b, dtype)
        if found is None:
            return plain(a, b)
        out = memory.empty((m, n), np.float32)
        _run_product(found, a, b, out)
        return out

    return run


def _is_small(node: KernelNode, flip_a: bool, flip_b: bool) -> bool:
    """True if the shapes are known and BLAS is the better choice."""
    a, b = node.static_dims(0), node.static_dims(1)
    if a is None or b is None:
        return False
    k, m = a if flip_a else a[::-1]
    return not is_large(m, k, b[0] if flip_b else b[1])
