"""LinearOperator: the base of matrices that need not be written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor, register_tensor_conversion_function
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import algebra, broadcasting
from hpcflow.ops.arrays.matrix_parts import eye, matrix_diag_part, matrix_set_diag
from hpcflow.ops.common.grouping import group
from hpcflow.ops.common.linear_map import LinearMap
from hpcflow.ops.flow.checks import assert_equal, assert_less
from hpcflow.ops.math.reductions import reduce_prod, reduce_sum
from hpcflow.shapes import TensorShape

# The kinds of operators that methods of any operator return, which are made of the base.
_KINDS: dict[str, Callable[..., LinearOperator]] = {}
_Kind = TypeVar("_Kind", bound=type)


def returned_as(what: str) -> Callable[[_Kind], _Kind]:
    """Let operators return a class as their "adjoint", "inverse" or "triangle"."""
    def register(kind: _Kind) -> _Kind:
        _KINDS[what] = kind
        return kind

    return register


class LinearOperator(LinearMap):
    """A matrix, or a batch of them, ``[..., rows, columns]``, known by what it does.

    A kind of one's own defines ``_shape()``, ``_matmul(x, adjoint)``, and whatever else it can do
    better than with the written matrix: ``_solve``, ``_to_dense``, ``_diag_part``, ``_trace``,
    ``_determinant``, ``_log_abs_determinant``, ``_shape_tensor``.

    Args:
        dtype: type of the elements.
        graph_parents: tensors that it is made of.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: what is known about it:
            True, False, or None for nothing. These are promises, which the ``assert_`` functions
            check.
        name: of the scope of its operations.

    Raises ``ValueError`` for promises that contradict each other.
    """

    def __init__(self, dtype: DTypeLike | None, graph_parents: Sequence[Any] | None = None,
                 is_non_singular: bool | None = None, is_self_adjoint: bool | None = None,
                 is_positive_definite: bool | None = None, is_square: bool | None = None,
                 name: str | None = None) -> None:
        if is_positive_definite and is_non_singular is False:
            raise ValueError("A positive definite matrix is always non-singular.")
        if is_positive_definite:
            is_non_singular = True
        if is_square is False and (is_non_singular or is_self_adjoint):
            raise ValueError("A non-singular or self-adjoint operator is always square.")
        if is_non_singular or is_self_adjoint or is_positive_definite:
            is_square = True
        self.dtype: Any = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        self.graph_parents = [] if graph_parents is None else list(graph_parents)
        self.is_non_singular, self.is_self_adjoint = is_non_singular, is_self_adjoint
        self.is_positive_definite, self._is_square = is_positive_definite, is_square
        self.name = name or type(self).__name__

    @contextmanager
    def _scope(self, name: str, values: Sequence[Any] = ()) -> Iterator[None]:
        with name_scope(f"{self.name}/{name}/", values=[*self.graph_parents, *values]):
            yield

    # ------------------------------------------------------------ shapes

    def _shape(self) -> TensorShape:
        raise NotImplementedError(f"{type(self).__name__} does not say its shape")

    def _shape_tensor(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its shape")

    @property
    def shape(self) -> TensorShape:
        """The shape, as far as it is known, ``[..., rows, columns]``."""
        return self._shape()

    @property
    def batch_shape(self) -> TensorShape:
        """The batch dimensions, as far as they are known."""
        return self.shape[:-2]

    @property
    def tensor_rank(self) -> int | None:
        """The number of dimensions, 2 or more; None if it is not known."""
        return self.shape.ndims

    @property
    def range_dimension(self) -> Any:
        """The number of rows."""
        return self.shape[-2]

    @property
    def domain_dimension(self) -> Any:
        """The number of columns."""
        return self.shape[-1]

    @property
    def is_square(self) -> bool | None:
        """True for as many rows as columns, None if that is not known.

        Raises ``ValueError`` if it was said not to be square and is.
        """
        sizes = self.range_dimension.value, self.domain_dimension.value
        if None in sizes:
            return self._is_square
        if self._is_square is False and sizes[0] == sizes[1]:
            raise ValueError(f"{self.name}: is_square is False, but the shape {self.shape} was "
                             "square")
        return sizes[0] == sizes[1]

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        """Return the shape, an int32 vector."""
        if self.shape.is_fully_defined():
            return convert_to_tensor(np.array(self.shape.as_list(), np.int32), name=name)
        return self._shape_tensor()

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """Return the batch dimensions, an int32 vector."""
        return self.shape_tensor()[:-2]

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        """Return the number of dimensions, an int32 scalar."""
        return raw_ops.Size(self.shape_tensor())

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        """Return the number of rows, an int32 scalar."""
        return self.shape_tensor()[-2]

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        """Return the number of columns, an int32 scalar."""
        return self.shape_tensor()[-1]

    # ------------------------------------------------------------ what it does

    def _converted(self, x: TensorLike, name: str) -> Any:
        found = convert_to_tensor(x, name=name, preferred_dtype=self.dtype)
        if found.dtype.base_dtype != self.dtype:
            raise TypeError(f"{self.name}: the argument {name} has type {found.dtype.name}, the "
                            f"operator has {self.dtype.name}")
        return found

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False,
               name: str = "matmul") -> Any:
        """Return the product with matrices ``[..., columns, k]``; or a composition of operators.

        Args:
            x: a batch of matrices, or another operator.
            adjoint: take the conjugate transpose of the operator.
            adjoint_arg: take that of `x`.
            name: of the operations' scope.

        Raises ``ValueError`` for other sizes.
        """
        if isinstance(x, LinearOperator):
            left = self.adjoint() if adjoint else self
            right = x.adjoint() if adjoint_arg else x
            left.domain_dimension.assert_is_compatible_with(right.range_dimension)
            with self._scope(name):
                return algebra.matmul(left, right)
        with self._scope(name, [x]):
            x = self._converted(x, "x")
            x = broadcasting.adjoint(x) if adjoint_arg else x
            inner = self.range_dimension if adjoint else self.domain_dimension
            inner.assert_is_compatible_with(x.shape[-2])
            return self._matmul(x, adjoint)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: TensorLike, adjoint: bool = False, name: str = "matvec") -> Any:
        """Return the product with vectors ``[..., columns]``."""
        with self._scope(name, [x]):
            x = raw_ops.ExpandDims(self._converted(x, "x"), np.int32(-1))
            return raw_ops.Squeeze(self.matmul(x, adjoint), squeeze_dims=[-1])

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say its product")

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False,
              name: str = "solve") -> Any:
        """Return X with ``A X = rhs`` for right sides ``[..., rows, k]``; or an operator.

        Arguments as of :meth:`matmul`. Raises ``NotImplementedError`` for an operator that is known
        to be singular or not square.
        """
        self._ask("Exact solve", singular_too=True)
        if isinstance(rhs, LinearOperator):
            left = self.adjoint() if adjoint else self
            right = rhs.adjoint() if adjoint_arg else rhs
            left.range_dimension.assert_is_compatible_with(right.range_dimension)
            with self._scope(name):
                return algebra.solve(left, right)
        with self._scope(name, [rhs]):
            rhs = self._converted(rhs, "rhs")
            rhs = broadcasting.adjoint(rhs) if adjoint_arg else rhs
            self.range_dimension.assert_is_compatible_with(rhs.shape[-2])
            return self._solve(rhs, adjoint)

    def solvevec(self, rhs: TensorLike, adjoint: bool = False, name: str = "solve") -> Any:
        """Return x with ``A x = rhs`` for right sides ``[..., rows]``."""
        with self._scope(name, [rhs]):
            rhs = raw_ops.ExpandDims(self._converted(rhs, "rhs"), np.int32(-1))
            return raw_ops.Squeeze(self.solve(rhs, adjoint), squeeze_dims=[-1])

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return broadcasting.solution(self._to_dense(), rhs, adjoint)

    def _ask(self, what: str, singular_too: bool = False) -> None:
        """Refuse what only square operators have, or only those that have an inverse."""
        if singular_too and self.is_non_singular is False:
            raise NotImplementedError(f"{what} not implemented for an operator that is expected to "
                                      "be singular.")
        if self.is_square is False:
            raise NotImplementedError(f"{what} not implemented for an operator that is expected to "
                                      "not be square.")

    def determinant(self, name: str = "det") -> Any:
        """Return the determinants. Raises ``NotImplementedError`` if it is not square."""
        self._ask("Determinant")
        with self._scope(name):
            return self._determinant()

    def _determinant(self) -> Any:
        return raw_ops.MatrixDeterminant(self._to_dense())

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """Return the logarithms of the determinants' absolute values, of the operator's type."""
        self._ask("Determinant")
        with self._scope(name):
            return self._log_abs_determinant()

    def _log_abs_determinant(self) -> Any:
        return raw_ops.LogMatrixDeterminant(self._to_dense())[1]

    def trace(self, name: str = "trace") -> Any:
        """Return the sums of the diagonals."""
        with self._scope(name):
            return self._trace()

    def _trace(self) -> Any:
        return reduce_sum(self._diag_part(), -1)

    def diag_part(self, name: str = "diag_part") -> Any:
        """Return the diagonals."""
        with self._scope(name):
            return self._diag_part()

    def _diag_part(self) -> Any:
        return matrix_diag_part(self._to_dense())

    def to_dense(self, name: str = "to_dense") -> Any:
        """Return the matrices, written out."""
        with self._scope(name):
            return self._to_dense()

    def _to_dense(self) -> Any:
        size = self.domain_dimension.value
        columns = self.domain_dimension_tensor() if size is None else size
        batch = self.batch_shape
        shape = batch.as_list() if batch.is_fully_defined() else self.batch_shape_tensor()
        return self._matmul(eye(columns, batch_shape=shape, dtype=self.dtype), False)

    def add_to_tensor(self, x: TensorLike, name: str = "add_to_tensor") -> Any:
        """Return the sum with matrices."""
        with self._scope(name, [x]):
            return self._add_to_tensor(self._converted(x, "x"))

    def _add_to_tensor(self, x: Any) -> Any:
        return raw_ops.AddV2(self._to_dense(), x)

    def _add_to_diagonal(self, x: Any, diagonal: Any) -> Any:
        return matrix_set_diag(x, raw_ops.AddV2(matrix_diag_part(x), diagonal))

    # ------------------------------------------------------------ other operators

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """Return the conjugate transpose; the operator itself if it is known to be self-adjoint."""
        if self.is_self_adjoint:
            return self
        with self._scope(name):
            return algebra.adjoint(self)

    @property
    def H(self) -> LinearOperator:
        """The conjugate transpose."""
        return self.adjoint()

    def _adjoint(self) -> LinearOperator:
        return _KINDS["adjoint"](self)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """Return the inverse. Raises ``ValueError`` if it is known that there is none."""
        if self.is_square is False:
            raise ValueError("Cannot take the Inverse: This operator represents a non square "
                             "matrix.")
        if self.is_non_singular is False:
            raise ValueError("Cannot take the Inverse: This operator represents a singular matrix.")
        with self._scope(name):
            return algebra.inverse(self)

    def _inverse(self) -> LinearOperator:
        return _KINDS["inverse"](self)

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """Return the factor L with ``A = L L^H``, lower triangular.

        Raises ``ValueError`` if it is not known that the operator is self-adjoint and positive
        definite.
        """
        for known, what in ((self.is_positive_definite, "positive definite"),
                            (self.is_self_adjoint, "self adjoint")):
            if not known:
                raise ValueError("Cannot take the Cholesky decomposition: it is not known that the "
                                 f"operator is {what}.")
        with self._scope(name):
            return algebra.cholesky(self)

    def _cholesky(self) -> LinearOperator:
        return _KINDS["triangle"](raw_ops.Cholesky(self._to_dense()), is_non_singular=True)

    # ------------------------------------------------------------ checks

    def assert_non_singular(self, name: str = "assert_non_singular") -> Any:
        """Return an operation that fails if the operator has no inverse."""
        with self._scope(name):
            return self._assert_non_singular()

    def _assert_non_singular(self) -> Any:
        values = _real(raw_ops.Svd(self._to_dense(), compute_uv=False)[0])
        limit = np.array(np.finfo(values.dtype.base_dtype.np).eps, values.dtype.base_dtype.np)
        return assert_less(limit * values[..., 0], values[..., -1],
                           message="Singular matrix up to precision epsilon.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Any:
        """Return an operation that fails if not all of Re(x^H A x) are positive."""
        with self._scope(name):
            return self._assert_positive_definite()

    def _assert_positive_definite(self) -> Any:
        dense = self._to_dense()
        half = raw_ops.Mul(raw_ops.AddV2(dense, broadcasting.adjoint(dense)),
                           np.array(0.5, self.dtype.np))
        values = _real(raw_ops.SelfAdjointEigV2(half, compute_v=False)[0])
        return assert_less(raw_ops.ZerosLike(values), values,
                           message="Operator is not positive definite.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Any:
        """Return an operation that fails if the operator is not its own conjugate transpose."""
        with self._scope(name):
            return self._assert_self_adjoint()

    def _assert_self_adjoint(self) -> Any:
        dense = self._to_dense()
        return assert_equal(broadcasting.adjoint(dense), dense,
                            message="Matrix was not equal to its adjoint.")

    @staticmethod
    def _nothing_to_check() -> Any:
        return group()


def _written(value: LinearOperator, dtype: Any = None, name: str | None = None,
             as_ref: bool = False) -> Any:
    """The matrix of an operator that an operation reads."""
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        return NotImplemented
    return value.to_dense()


register_tensor_conversion_function(LinearOperator, _written)
algebra.RegisterAdjoint(LinearOperator)(lambda operator: operator._adjoint())
algebra.RegisterCholesky(LinearOperator)(lambda operator: operator._cholesky())
algebra.RegisterInverse(LinearOperator)(lambda operator: operator._inverse())


def product_of(values: Any) -> Any:
    """Return the products over the last dimension."""
    return reduce_prod(values, -1)


def _part_of(x: Any) -> Any:
    """The type of the parts of complex numbers."""
    return dtypes.float32 if x.dtype.base_dtype == dtypes.complex64 else dtypes.float64


def _real(x: Any) -> Any:
    return raw_ops.Real(x, Tout=_part_of(x)) if x.dtype.is_complex else x


def log_of_absolute(values: Any) -> Any:
    """Return the sums of logarithms of absolute values over the last dimension, of their type."""
    size = raw_ops.ComplexAbs(values, Tout=_part_of(values)) if (
        values.dtype.is_complex) else raw_ops.Abs(values)
    total = reduce_sum(raw_ops.Log(size), -1)
    return raw_ops.Cast(total, DstT=values.dtype.base_dtype) if values.dtype.is_complex else total
