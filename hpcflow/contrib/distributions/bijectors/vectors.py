"""Bijectors of events that are vectors, or have any shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Affine(Bijector):
    """The function ``y = S x + shift`` of vectors.

    ``S`` is the sum of what is given: ``scale_identity_multiplier`` times the unit matrix, the
    diagonal ``scale_diag``, the lower triangle ``scale_tril``, and ``U D U^T`` with
    ``scale_perturb_factor`` U, of shape ``[..., k, r]``, and the diagonal ``scale_perturb_diag`` D
    (ones by default). Without any of them S is the unit matrix.

    Raises ``ValueError`` for a ``scale_perturb_diag`` alone.
    """

    def __init__(self, shift: TensorLike | None = None,
                 scale_identity_multiplier: TensorLike | None = None,
                 scale_diag: TensorLike | None = None, scale_tril: TensorLike | None = None,
                 scale_perturb_factor: TensorLike | None = None,
                 scale_perturb_diag: TensorLike | None = None, validate_args: bool = False,
                 name: str = "affine") -> None:
        super().__init__(is_constant_jacobian=True, validate_args=validate_args,
                         forward_min_event_ndims=1, name=name)
        if scale_perturb_diag is not None and scale_perturb_factor is None:
            raise ValueError("scale_perturb_diag needs a scale_perturb_factor")
        shift, multiplier, diagonal, triangle, factor, inner = _of_one_type(
            shift, scale_identity_multiplier, scale_diag, scale_tril, scale_perturb_factor,
            scale_perturb_diag)
        self._shift = shift
        self._is_triangular = factor is None
        self._multiplier, self._diagonal, self._matrix = multiplier, diagonal, None
        if triangle is not None or factor is not None:
            self._matrix = _matrix(multiplier, diagonal, triangle, factor, inner)
        elif diagonal is not None and multiplier is not None:
            self._diagonal = diagonal + multiplier[..., None]

    @property
    def shift(self) -> Any:
        """What is added; None for nothing."""
        return self._shift

    def _factors(self) -> Any:
        """What elements are multiplied by where S has a diagonal alone."""
        if self._diagonal is not None:
            return self._diagonal
        return None if self._multiplier is None else self._multiplier[..., None]

    def _forward(self, x: Any) -> Any:
        if self._matrix is not None:
            y = _product(self._matrix, x)
        else:
            factors = self._factors()
            y = hf.identity(x) if factors is None else x * factors
        return y if self._shift is None else y + self._shift

    def _inverse(self, y: Any) -> Any:
        x = hf.identity(y) if self._shift is None else y - self._shift
        if self._matrix is None:
            factors = self._factors()
            return x if factors is None else x / factors
        if not self._is_triangular:
            return _product(hf.matrix_inverse(self._matrix), x)
        unit = hf.matrix_diag(hf.ones_like(hf.matrix_diag_part(self._matrix)))
        return _product(hf.matrix_triangular_solve(self._matrix, unit), x)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        if self._matrix is not None and not self._is_triangular:
            return hf.log(hf.abs(hf.matrix_determinant(self._matrix)))
        if self._matrix is not None:
            return hf.reduce_sum(hf.log(hf.abs(hf.matrix_diag_part(self._matrix))), -1)
        if self._diagonal is not None:
            return hf.reduce_sum(hf.log(hf.abs(self._diagonal)), -1)
        if self._multiplier is None:
            return hf.zeros([], x.dtype.base_dtype)
        size = hf.cast(hf.shape(x)[-1], x.dtype.base_dtype)
        return hf.log(hf.abs(self._multiplier)) * size


def _of_one_type(*given: Any) -> list:
    typed = [hf.convert_to_tensor(value) for value in given if value is not None]
    dtype = typed[0].dtype.base_dtype if typed else hf.float32
    return [None if value is None else hf.convert_to_tensor(value, dtype) for value in given]


def _matrix(multiplier: Any, diagonal: Any, triangle: Any, factor: Any, inner: Any) -> Any:
    parts = []
    if factor is not None:
        scaled = factor if inner is None else factor * inner[..., None, :]
        parts.append(hf.matmul(scaled, factor, transpose_b=True))
    if triangle is not None:
        parts.append(hf.matrix_band_part(triangle, -1, 0))
    if diagonal is not None:
        parts.append(hf.matrix_diag(diagonal))
    unit = hf.matrix_diag(hf.ones_like(hf.matrix_diag_part(parts[0])))
    if multiplier is not None:
        parts.append(unit * multiplier[..., None, None])
    elif triangle is None and diagonal is None:
        parts.append(unit)
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def _product(matrix: Any, x: Any) -> Any:
    return hf.reduce_sum(matrix * x[..., None, :], -1)


class Permute(Bijector):
    """The elements of a vector in another order: element i is element ``permutation[i]`` before.

    Raises ``ValueError`` for a known `permutation` that does not have each of 0..n-1 once,
    ``TypeError`` for one that is not of whole numbers.
    """

    def __init__(self, permutation: TensorLike, validate_args: bool = False,
                 name: str | None = None) -> None:
        super().__init__(is_constant_jacobian=True, validate_args=validate_args,
                         forward_min_event_ndims=1, name=name or "permute")
        self._permutation = hf.convert_to_tensor(permutation)
        if not self._permutation.dtype.is_integer:
            raise TypeError("permutation.dtype should be integer, but is "
                            f"{self._permutation.dtype.name}")
        known = hf.constant_value(self._permutation)
        if known is not None and sorted(known.tolist()) != list(range(known.size)):
            raise ValueError("Permutation over `d` must contain exactly one of each of "
                             f"`{{0, 1, ..., d}}`, got {known.tolist()}")

    @property
    def permutation(self) -> Any:
        """The numbers of the elements, in their new order."""
        return self._permutation

    def _forward(self, x: Any) -> Any:
        return hf.gather(x, self._permutation, axis=-1)

    def _inverse(self, y: Any) -> Any:
        return hf.gather(y, hf.invert_permutation(self._permutation), axis=-1)

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return hf.zeros([], x.dtype.base_dtype)


class Reshape(Bijector):
    """Events in another shape; one dimension of each shape may be -1, for what is left.

    Raises ``ValueError`` for shapes that are not known, of different sizes, or of several -1.
    """

    def __init__(self, event_shape_out: TensorLike, event_shape_in: TensorLike = (-1,),
                 validate_args: bool = False, name: str | None = None) -> None:
        self._out, self._in = _known(event_shape_out), _known(event_shape_in)
        if -1 not in self._out + self._in and np.prod(self._out) != np.prod(self._in):
            raise ValueError(f"Input/output `event_size`s do not match: {self._in} and {self._out}")
        super().__init__(is_constant_jacobian=True, validate_args=validate_args,
                         forward_min_event_ndims=0, name=name or "reshape")

    def _gained_dims(self) -> int:
        return len(self._out) - len(self._in)

    def _forward(self, x: Any) -> Any:
        return self._reshaped(x, self._in, self._out)

    def _inverse(self, y: Any) -> Any:
        return self._reshaped(y, self._out, self._in)

    def _reshaped(self, value: Tensor, before: list[int], after: list[int]) -> Tensor:
        rank, static = len(before), value.shape
        batch = hf.shape(value)[: hf.rank(value) - rank]
        if static.ndims is None:
            return hf.reshape(value, hf.concat([batch, after], 0))
        events = TensorShape(static.as_list()[static.ndims - rank :])
        shape = _changed(events, before, after)
        result = hf.reshape(value, hf.concat([batch, after], 0))
        result.set_shape(TensorShape(static.as_list()[: static.ndims - rank]).concatenate(shape))
        return result

    def _forward_log_det_jacobian(self, x: Tensor) -> Tensor:
        return hf.zeros([], x.dtype.base_dtype)

    def _inverse_log_det_jacobian(self, y: Tensor) -> Tensor:
        return hf.zeros([], y.dtype.base_dtype)

    def _forward_event_shape(self, shape: TensorShape) -> TensorShape:
        return _changed(shape, self._in, self._out)

    def _inverse_event_shape(self, shape: TensorShape) -> TensorShape:
        return _changed(shape, self._out, self._in)

    def _forward_event_shape_tensor(self, shape: Tensor) -> Tensor:
        return hf.shape(hf.reshape(hf.zeros(shape), self._out))

    def _inverse_event_shape_tensor(self, shape: Tensor) -> Tensor:
        return hf.shape(hf.reshape(hf.zeros(shape), self._in))


def _known(shape: Any) -> list[int]:
    known = hf.constant_value(shape) if isinstance(shape, hf.Tensor) else shape
    if known is None:
        raise ValueError("the shapes of Reshape must be known when it is built")
    found = [int(size) for size in np.reshape(known, [-1])]
    if found.count(-1) > 1 or any(size < -1 for size in found):
        raise ValueError(f"a shape has at most one -1 and no other negative sizes, got {found}")
    return found


def _changed(shape: TensorShape, before: list[int], after: list[int]) -> TensorShape:
    """The static shape of events of `shape`, which are to be `before`, as `after`."""
    expected = TensorShape([None if size == -1 else size for size in before])
    if not shape.is_compatible_with(expected):
        raise ValueError(f"Input `event_shape` {shape} does not match `event_shape_in` {before}")
    count = shape.merge_with(expected).num_elements()
    if count is None:
        return TensorShape([None if size == -1 else size for size in after])
    rest = int(np.prod([size for size in after if size != -1]))
    return TensorShape([count // rest if size == -1 else size for size in after])
