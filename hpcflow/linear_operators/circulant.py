"""Circulant matrices, which Fourier transforms make diagonal, and Toeplitz matrices in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.linear_operators.base import LinearOperator, log_of_absolute, product_of
from hpcflow.linear_operators.checks import assert_zero_imag_part
from hpcflow.linear_operators.diagonal import assert_no_zeros, assert_positive, conjugated
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.layout import reverse
from hpcflow.ops.math.reductions import reduce_mean, reduce_prod
from hpcflow.shapes import TensorShape

_TRANSFORMS: dict[int, tuple[Any, Any]] = {
    1: (raw_ops.FFT, raw_ops.IFFT), 2: (raw_ops.FFT2D, raw_ops.IFFT2D),
    3: (raw_ops.FFT3D, raw_ops.IFFT3D)}


def to_complex(x: TensorLike) -> Any:
    """Return complex numbers: complex128 of double precision, complex64 of others."""
    given: Any = convert_to_tensor(x)
    if given.dtype.is_complex:
        return given
    wide = given.dtype.base_dtype is dtypes.float64
    return raw_ops.Cast(given, DstT=dtypes.complex128 if wide else dtypes.complex64)


class _Circulant(LinearOperator):
    """A matrix of blocks within blocks that a Fourier transform of `_depth` dimensions makes
    diagonal."""

    _depth = 1

    def __init__(self, spectrum: TensorLike, input_output_dtype: DTypeLike = dtypes.complex64,
                 is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = True,
                 name: str | None = None) -> None:
        given: Any = convert_to_tensor(spectrum, name="spectrum")
        rank = given.shape.ndims
        if rank is not None and rank < self._depth:
            raise ValueError(f"Argument spectrum must have at least {self._depth} dimensions. "
                             f"Found: {given}")
        kind = dtypes.as_dtype(input_output_dtype).base_dtype
        wide = kind in (dtypes.complex128, dtypes.float64)
        self._inner = dtypes.complex128 if wide else dtypes.complex64
        if not given.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError("A real spectrum always corresponds to a self-adjoint operator.")
            is_self_adjoint = True
        if is_square is False:
            raise ValueError("A circulant operator is always square.")
        self.spectrum = given
        self._values: Any = given if given.dtype.base_dtype == self._inner else raw_ops.Cast(
            given, DstT=self._inner)
        super().__init__(kind, [given], is_non_singular, is_self_adjoint, is_positive_definite,
                         True, name or type(self).__name__)

    # ------------------------------------------------------------ shapes

    @property
    def block_depth(self) -> int:
        """How often blocks are nested: the number of dimensions of the transform."""
        return self._depth

    @property
    def block_shape(self) -> TensorShape:
        """The sizes of the nested blocks, as far as they are known."""
        shape = self.spectrum.shape
        return shape if shape.ndims is None else shape[shape.ndims - self._depth:]

    def block_shape_tensor(self) -> Any:
        """Return the sizes of the nested blocks, an int32 vector."""
        return raw_ops.Shape(self.spectrum)[-self._depth:]

    def _shape(self) -> TensorShape:
        shape = self.spectrum.shape
        if shape.ndims is None:
            return shape
        sizes: list[Any] = self.block_shape.as_list()
        size = None if None in sizes else math.prod(sizes)
        return shape[:shape.ndims - self._depth].concatenate([size, size])

    def _shape_tensor(self) -> Any:
        size = reduce_prod(self.block_shape_tensor())
        return raw_ops.ConcatV2([self._batch_sizes(), raw_ops.Pack([size, size])], np.int32(0))

    def _batch_sizes(self) -> Any:
        return raw_ops.Shape(self.spectrum)[:-self._depth]

    # ------------------------------------------------------------ what it does

    def _out(self, x: Any) -> Any:
        """Complex numbers as those of the operator's type."""
        return x if self.dtype.is_complex else raw_ops.Real(x, Tout=self.dtype)

    def _flat(self, x: Any) -> Any:
        """The dimensions of the blocks as one."""
        return x if self._depth == 1 else raw_ops.Reshape(x, raw_ops.ConcatV2(
            [raw_ops.Shape(x)[:-self._depth], np.array([-1], np.int32)], np.int32(0)))

    def _in_blocks(self, rows: Any) -> Any:
        return rows if self._depth == 1 else raw_ops.Reshape(rows, raw_ops.ConcatV2(
            [raw_ops.Shape(rows)[:-1], self.block_shape_tensor()], np.int32(0)))

    def _filtered(self, x: Any, values: Any) -> Any:
        """Multiply the transforms of the columns of `x` by values of the spectrum."""
        there, back = _TRANSFORMS[self._depth]
        rows = self._in_blocks(_turned(raw_ops.Cast(x, DstT=self._inner)))
        each = raw_ops.ExpandDims(values, np.int32(-1 - self._depth))
        found = self._out(_turned(self._flat(back(raw_ops.Mul(there(rows), each)))))
        if self._depth > 1 and x.shape.ndims is not None and self.batch_shape.ndims == 0:
            found.set_shape(x.shape)
        return found

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._filtered(x, raw_ops.Conj(self._values) if adjoint else self._values)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        values = raw_ops.Reciprocal(self._values)
        return self._filtered(rhs, raw_ops.Conj(values) if adjoint else values)

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """Return the first column, in the shape of the blocks."""
        with self._scope(name):
            return self._out(_TRANSFORMS[self._depth][1](self._values))

    def _diag_part(self) -> Any:
        flat = self._flat(self._values)
        mean = self._out(reduce_mean(flat, -1, keep_dims=True))
        found = raw_ops.BroadcastTo(mean, raw_ops.Shape(flat))
        found.set_shape(self.shape[:-1] if self.shape.ndims is not None else None)
        return found

    def _determinant(self) -> Any:
        return self._out(product_of(self._flat(self._values)))

    def _log_abs_determinant(self) -> Any:
        return self._out(log_of_absolute(self._flat(self._values)))

    def _like(self, spectrum: Any) -> LinearOperator:
        return type(self)(spectrum, self.dtype, self.is_non_singular, self.is_self_adjoint,
                          self.is_positive_definite)

    def _adjoint(self) -> LinearOperator:
        return self._like(conjugated(self.spectrum))

    def _inverse(self) -> LinearOperator:
        return self._like(raw_ops.Reciprocal(self.spectrum))

    # ------------------------------------------------------------ checks

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Any:
        """Return an operation that fails unless the first column, and so the matrix, is real."""
        with self._scope(name):
            eps = 0 if self._inner is None else np.finfo(self._inner.real_dtype.np).eps
            kernel = _TRANSFORMS[self._depth][1](self._values)
            part = raw_ops.Imag(kernel, Tout=self._inner.real_dtype)
            limit = np.array(5 * eps, self._inner.real_dtype.np) * reduce_mean(
                raw_ops.ComplexAbs(self._values, Tout=self._inner.real_dtype))
            zero = raw_ops.Select(raw_ops.LessEqual(raw_ops.Abs(part), raw_ops.Add(
                limit, raw_ops.ZerosLike(part))), raw_ops.ZerosLike(part), part)
            return assert_zero_imag_part(raw_ops.Complex(
                raw_ops.ZerosLike(zero), zero, Tout=self._inner),
                "Spectrum was not Hermitian: the operator is not real.")

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._values, "Singular operator:  Spectrum contained zero values.")

    def _assert_positive_definite(self) -> Any:
        return assert_positive(self._values, "Not positive definite:  Real part of spectrum was "
                               "not all positive.")

    def _assert_self_adjoint(self) -> Any:
        return assert_zero_imag_part(self._values, "Not self-adjoint: the spectrum contained "
                                     "imaginary parts.")


class LinearOperatorCirculant(_Circulant):
    """A matrix each of whose columns is the one before it moved down by one.

    Args:
        spectrum: its eigenvalues ``[..., n]``: the Fourier transform of its first column.
        input_output_dtype: type of what it is applied to, and of what comes out; real for a
            spectrum that is Hermitian.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`; one with a real spectrum is self-adjoint.
        name: of the scope of its operations.
    """


class LinearOperatorCirculant2D(_Circulant):
    """A circulant matrix of circulant blocks, with a spectrum ``[..., n, m]``.

    Arguments are those of :class:`LinearOperatorCirculant`; the matrix has n m rows.
    """

    _depth = 2


class LinearOperatorCirculant3D(_Circulant):
    """Circulant blocks within blocks within a matrix, with a spectrum ``[..., n, m, k]``.

    Arguments are those of :class:`LinearOperatorCirculant`; the matrix has n m k rows.
    """

    _depth = 3


class LinearOperatorToeplitz(LinearOperator):
    """A matrix with one number along each diagonal, applied by a circulant one of twice the size.

    Args:
        col: the first column ``[..., n]``.
        row: the first row ``[..., n]``; its first number is that of `col`.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.
    """

    def __init__(self, col: TensorLike, row: TensorLike, is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str = "LinearOperatorToeplitz") -> None:
        self.col: Any = convert_to_tensor(col, name="col")
        self.row: Any = convert_to_tensor(row, self.col.dtype.base_dtype, name="row")
        for given, what in ((self.col, "col"), (self.row, "row")):
            if given.shape.ndims == 0:
                raise ValueError(f"Argument {what} must have at least 1 dimension. Found: {given}")
        if is_square is False:
            raise ValueError("A Toeplitz operator is always square.")
        super().__init__(self.col.dtype, [self.col, self.row], is_non_singular, is_self_adjoint,
                         is_positive_definite, True, name)

    def _shape(self) -> TensorShape:
        both = broadcasting.static_batch(self.col.shape, self.row.shape)
        return both if both.ndims is None else both.concatenate(both[-1:])

    def _shape_tensor(self) -> Any:
        both = raw_ops.BroadcastArgs(raw_ops.Shape(self.col), raw_ops.Shape(self.row))
        return raw_ops.ConcatV2([both, both[-1:]], np.int32(0))

    def _wide(self) -> tuple[Any, Any]:
        """The column and the row with the batch dimensions of both."""
        shape = raw_ops.BroadcastArgs(raw_ops.Shape(self.col), raw_ops.Shape(self.row))
        return raw_ops.BroadcastTo(self.col, shape), raw_ops.BroadcastTo(self.row, shape)

    def _circle(self) -> Any:
        """The first column of the circulant matrix: the column, a zero, and the row upwards."""
        col, row = self._wide()
        return concat([col, raw_ops.ZerosLike(col[..., :1]), reverse(row[..., 1:], [-1])], -1)

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        spectrum = raw_ops.FFT(to_complex(self._circle()))
        around = LinearOperatorCirculant(spectrum, self.dtype)
        found = around._matmul(concat([x, raw_ops.ZerosLike(x)], -2), adjoint)
        return found[..., :raw_ops.Shape(x)[-2], :]

    def _diag_part(self) -> Any:
        first = self.col[..., :1]
        return raw_ops.BroadcastTo(first, self.shape_tensor()[:-1])

    def _to_dense(self) -> Any:
        numbers, size = self._circle(), self.domain_dimension_tensor()
        line = raw_ops.Range(np.int32(0), size, np.int32(1))
        apart = raw_ops.Sub(raw_ops.ExpandDims(line, np.int32(-1)), line)
        return raw_ops.GatherV2(numbers, raw_ops.FloorMod(apart, size + size), np.int32(-1))

    def _adjoint(self) -> LinearOperator:
        down, right = self._wide()
        first = down[..., :1]
        col, row = concat([first, right[..., 1:]], -1), concat([first, down[..., 1:]], -1)
        return LinearOperatorToeplitz(conjugated(col), conjugated(row), self.is_non_singular,
                                      self.is_self_adjoint, self.is_positive_definite)


def _turned(x: Any) -> Any:
    turned = broadcasting.adjoint(x)
    return raw_ops.Conj(turned)
