"""Circulant matrices, which Fourier transforms make diagonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.linear_operators.base import LinearOperator, log_of_absolute, product_of
from hpcflow.linear_operators.diagonal import assert_no_zeros
from hpcflow.ops.flow.checks import assert_less
from hpcflow.ops.math.reductions import reduce_mean
from hpcflow.shapes import TensorShape


class LinearOperatorCirculant(LinearOperator):
    """A matrix each of whose columns is the one before it moved down by one.

    Args:
        spectrum: its eigenvalues ``[..., n]``: the Fourier transform of its first column.
        input_output_dtype: type of what it is applied to, and of what comes out; real for a
            spectrum that is Hermitian.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`; one with a real spectrum is self-adjoint.
        name: of the scope of its operations.
    """

    def __init__(self, spectrum: TensorLike, input_output_dtype: DTypeLike = dtypes.complex64,
                 is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = True,
                 name: str = "LinearOperatorCirculant") -> None:
        given: Any = convert_to_tensor(spectrum, name="spectrum")
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
                         True, name)

    def _shape(self) -> TensorShape:
        return self.spectrum.shape.concatenate(self.spectrum.shape[-1:])

    def _shape_tensor(self) -> Any:
        shape = raw_ops.Shape(self.spectrum)
        return raw_ops.ConcatV2([shape, shape[-1:]], np.int32(0))

    def _out(self, x: Any) -> Any:
        """Complex numbers as those of the operator's type."""
        return x if self.dtype.is_complex else raw_ops.Real(x, Tout=self.dtype)

    def _filtered(self, x: Any, values: Any) -> Any:
        """Multiply the transforms of the columns of `x` by values of the spectrum."""
        rows = _turned(raw_ops.Cast(x, DstT=self._inner))
        found = raw_ops.IFFT(raw_ops.Mul(raw_ops.FFT(rows), raw_ops.ExpandDims(
            values, np.int32(-2))))
        return self._out(_turned(found))

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._filtered(x, raw_ops.Conj(self._values) if adjoint else self._values)

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        values = raw_ops.Reciprocal(self._values)
        return self._filtered(rhs, raw_ops.Conj(values) if adjoint else values)

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """Return the first column."""
        with self._scope(name):
            return self._out(raw_ops.IFFT(self._values))

    def _diag_part(self) -> Any:
        mean = self._out(reduce_mean(self._values, -1, keep_dims=True))
        return raw_ops.BroadcastTo(mean, raw_ops.Shape(self.spectrum))

    def _determinant(self) -> Any:
        return self._out(product_of(self._values))

    def _log_abs_determinant(self) -> Any:
        return self._out(log_of_absolute(self._values))

    def _assert_non_singular(self) -> Any:
        return assert_no_zeros(self._values, "Singular operator:  Spectrum contained zero values.")

    def _assert_positive_definite(self) -> Any:
        kind = dtypes.float64 if self._inner == dtypes.complex128 else dtypes.float32
        real = raw_ops.Real(self._values, Tout=kind)
        return assert_less(raw_ops.ZerosLike(real), real, message=(
            "Not positive definite:  Real part of spectrum was not all positive."))


def _turned(x: Any) -> Any:
    turned = broadcasting.adjoint(x)
    return raw_ops.Conj(turned)
