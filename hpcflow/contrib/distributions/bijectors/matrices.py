"""Bijectors of matrices, most of them of triangular ones, and of vectors by linear operators."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector, checked
from hpcflow.contrib.distributions.bijectors.composed import Chain
from hpcflow.contrib.distributions.bijectors.scalars import AffineScalar, Softplus
from hpcflow.distributions.util import fill_triangular, fill_triangular_inverse
from hpcflow.shapes import TensorShape


class AbsoluteValue(Bijector):
    """|x|, which is no bijection: its inverse is the pair ``(-y, y)``, as are its determinants."""

    def __init__(self, validate_args: bool = False, name: str = "absolute_value") -> None:
        super().__init__(forward_min_event_ndims=0, is_constant_jacobian=True,
                         validate_args=validate_args, name=name)

    def inverse_log_det_jacobian(self, y: Any, event_ndims: Any,
                                 name: str = "inverse_log_det_jacobian") -> Any:
        """Return zeros for both of the values that give `y`."""
        with self._scope(name):
            zero = hf.zeros([], self._tensor(y).dtype.base_dtype)
            return zero, zero

    def _forward(self, x: Any) -> Any:
        return hf.abs(x)

    def _inverse(self, y: Any) -> Any:
        if self.validate_args:
            y = checked(y, hf.assert_non_negative(y, message="Argument y was negative"))
        return -y, y


class AffineLinearOperator(Bijector):
    """``scale @ x + shift`` of vectors, `scale` a linear operator; either may be left out.

    Args:
        shift: a vector, or a batch of them.
        scale: a ``hf.linalg.LinearOperator`` that is not singular; the identity if None.
        adjoint: whether `scale` is applied conjugated and transposed.
        validate_args: check arguments when the graph runs.
        name: prefix of the names of operations.
    """

    def __init__(self, shift: Any = None, scale: Any = None, adjoint: bool = False,
                 validate_args: bool = False, name: str = "affine_linear_operator") -> None:
        self.shift = None if shift is None else hf.convert_to_tensor(shift, name="shift")
        self.scale, self.adjoint = scale, adjoint
        dtype = scale.dtype if scale is not None else (
            None if self.shift is None else self.shift.dtype.base_dtype)
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, dtype=dtype,
                         forward_min_event_ndims=0 if scale is None else 1, name=name)

    def _forward(self, x: Any) -> Any:
        y = x if self.scale is None else self.scale.matvec(x, adjoint=self.adjoint)
        return y if self.shift is None else y + self.shift

    def _inverse(self, y: Any) -> Any:
        x = y if self.shift is None else y - self.shift
        return x if self.scale is None else self.scale.solvevec(x, adjoint=self.adjoint)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self.scale is None:
            return hf.zeros([], x.dtype.base_dtype)
        return self.scale.log_abs_determinant()


class FillTriangular(Bijector):
    """The function that fills lower triangular matrices, upper ones with `upper`, with vectors."""

    def __init__(self, upper: bool = False, validate_args: bool = False,
                 name: str = "fill_triangular") -> None:
        self._upper = upper
        super().__init__(forward_min_event_ndims=1, inverse_min_event_ndims=2,
                         is_constant_jacobian=True, validate_args=validate_args, name=name)

    def _forward_event_shape(self, shape: TensorShape) -> TensorShape:
        size = shape[-1].value
        side = None if size is None else _side(size)
        return shape[:-1].concatenate([side, side])

    def _inverse_event_shape(self, shape: TensorShape) -> TensorShape:
        side = shape[-1].value
        if not shape[-1].is_compatible_with(shape[-2]):
            raise ValueError(f"Matrix must be square, got {shape}")
        return shape[:-2].concatenate([None if side is None else side * (side + 1) // 2])

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        root = hf.sqrt(0.25 + 2.0 * hf.cast(shape[-1], hf.float64)) - 0.5
        side = hf.cast(hf.round(root), hf.int32)
        return hf.concat([shape[:-1], [side, side]], axis=0)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return hf.concat([shape[:-2], [shape[-1] * (shape[-1] + 1) // 2]], axis=0)

    def _forward(self, x: Any) -> Any:
        return fill_triangular(x, self._upper)

    def _inverse(self, y: Any) -> Any:
        return fill_triangular_inverse(y, self._upper)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return hf.zeros_like(x[..., 0])

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return hf.zeros_like(y[..., 0, 0])


class TransformDiagonal(Bijector):
    """`diag_bijector` of the diagonal of a matrix, whose other elements stay."""

    def __init__(self, diag_bijector: Bijector, validate_args: bool = False,
                 name: str = "transform_diagonal") -> None:
        self._diagonal = diag_bijector
        super().__init__(forward_min_event_ndims=2, validate_args=validate_args, name=name)

    def _forward(self, x: Any) -> Any:
        return hf.matrix_set_diag(x, self._diagonal.forward(hf.matrix_diag_part(x)))

    def _inverse(self, y: Any) -> Any:
        return hf.matrix_set_diag(y, self._diagonal.inverse(hf.matrix_diag_part(y)))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return self._diagonal.forward_log_det_jacobian(hf.matrix_diag_part(x), event_ndims=1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return self._diagonal.inverse_log_det_jacobian(hf.matrix_diag_part(y), event_ndims=1)


class ScaleTriL(Chain):
    """The function that makes lower triangular matrices with a positive diagonal of vectors.

    Args:
        diag_bijector: of the elements of the diagonal; ``Softplus`` if None.
        diag_shift: added to the diagonal then; None for nothing.
        validate_args: check arguments when the graph runs.
        name: prefix of the names of operations.
    """

    def __init__(self, diag_bijector: Bijector | None = None, diag_shift: Any = 1e-5,
                 validate_args: bool = False, name: str = "scale_tril") -> None:
        diagonal: Bijector = Softplus() if diag_bijector is None else diag_bijector
        if diag_shift is not None:
            diagonal = Chain([AffineScalar(shift=diag_shift), diagonal])
        super().__init__([TransformDiagonal(diagonal), FillTriangular()], validate_args, name)


class CholeskyOuterProduct(Bijector):
    """``X @ X^T`` of lower triangular matrices with a positive diagonal; back by Cholesky's
    decomposition."""

    def __init__(self, validate_args: bool = False, name: str = "cholesky_outer_product") -> None:
        super().__init__(forward_min_event_ndims=2, validate_args=validate_args, name=name)

    def _forward(self, x: Any) -> Any:
        x = hf.matrix_band_part(x, -1, 0)
        return hf.matmul(x, x, adjoint_b=True)

    def _inverse(self, y: Any) -> Any:
        return hf.cholesky(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        diagonal = hf.matrix_diag_part(x)
        if self.validate_args:
            diagonal = checked(diagonal, hf.assert_positive(
                diagonal, message="The diagonal of X must be positive"))
        side = hf.cast(hf.shape(x)[-1], x.dtype.base_dtype)
        # The row i of X moves the elements (i, 0..i) of the product: n - i times its diagonal.
        exponents = side - hf.range(side)
        return side * hf.log(hf.constant(2.0, x.dtype.base_dtype)) + hf.reduce_sum(
            exponents * hf.log(diagonal), axis=-1)


class MatrixInverseTriL(Bijector):
    """The inverse of lower triangular matrices without zeros in the diagonal.

    Its determinant is the true one, of -(n + 1) times the sum of the logarithms of the diagonal;
    1.15 has -2n of them.
    """

    def __init__(self, validate_args: bool = False, name: str = "matrix_inverse_tril") -> None:
        super().__init__(forward_min_event_ndims=2, validate_args=validate_args, name=name)

    def _forward(self, x: Any) -> Any:
        return hf.matrix_triangular_solve(x, _identity_like(x), lower=True)

    def _inverse(self, y: Any) -> Any:
        return self._forward(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        side = hf.cast(hf.shape(x)[-1], x.dtype.base_dtype)
        logarithms = hf.log(hf.abs(hf.matrix_diag_part(x)))
        return -(side + 1.0) * hf.reduce_sum(logarithms, axis=-1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return self._forward_log_det_jacobian(y)


def _identity_like(x: Any) -> Any:
    return hf.matrix_set_diag(hf.zeros_like(x), hf.ones_like(hf.matrix_diag_part(x)))


def _side(size: int) -> int:
    """The side of the triangle that `size` elements fill."""
    side = int((0.25 + 2 * size) ** 0.5)
    if side * (side + 1) // 2 != size:
        raise ValueError(f"A vector of {size} elements fills no triangle")
    return side
