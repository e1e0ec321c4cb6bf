"""Operators made of several: products, Kronecker products and blocks on a diagonal."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators import broadcasting
from hpcflow.linear_operators.base import LinearOperator
from hpcflow.ops.arrays.shape_ops import broadcast_dynamic_shape, broadcast_static_shape
from hpcflow.shapes import Dimension, TensorShape


def _all(operators: Sequence[LinearOperator], hint: str) -> bool | None:
    """True if all operators are known to be so."""
    return True if all(getattr(op, hint) for op in operators) else None


class _Several(LinearOperator):
    """An operator made of a list of others of one type."""

    def __init__(self, operators: Sequence[LinearOperator], hints: dict, name: str | None,
                 between: str) -> None:
        self.operators = list(operators)
        if not self.operators:
            raise ValueError(f"{type(self).__name__}: expected a non-empty list of >=1 operators")
        kinds = {op.dtype for op in self.operators}
        if len(kinds) > 1:
            raise TypeError("Expected all operators to have the same dtype, found "
                            f"{[op.dtype.name for op in self.operators]}")
        super().__init__(self.operators[0].dtype,
                         [p for op in self.operators for p in op.graph_parents],
                         name=name or between.join(op.name for op in self.operators), **hints)

    def _batch(self) -> TensorShape:
        return reduce(broadcast_static_shape, (op.batch_shape for op in self.operators))

    def _batch_tensor(self) -> Any:
        return reduce(broadcast_dynamic_shape,
                      (op.batch_shape_tensor() for op in self.operators))

    def _added(self, values: Sequence[Any]) -> Any:
        return reduce(raw_ops.AddV2, values)


class LinearOperatorComposition(_Several):
    """The product ``A B C`` of operators, the last of which is applied first.

    Args:
        operators: the factors, whose sizes fit.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.
    """

    def __init__(self, operators: Sequence[LinearOperator], is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = None, name: str | None = None) -> None:
        if _all(operators, "is_non_singular"):
            if is_non_singular is False:
                raise ValueError("The composition of non-singular operators is always "
                                 "non-singular.")
            is_non_singular = True
        super().__init__(operators, {
            "is_non_singular": is_non_singular, "is_self_adjoint": is_self_adjoint,
            "is_positive_definite": is_positive_definite, "is_square": is_square}, name, "_o_")
        for left, right in zip(self.operators, self.operators[1:]):
            left.domain_dimension.assert_is_compatible_with(right.range_dimension)

    def _shape(self) -> TensorShape:
        return self._batch().concatenate([self.operators[0].range_dimension,
                                          self.operators[-1].domain_dimension])

    def _shape_tensor(self) -> Any:
        return raw_ops.ConcatV2([self._batch_tensor(), raw_ops.Pack([
            self.operators[0].range_dimension_tensor(),
            self.operators[-1].domain_dimension_tensor()])], np.int32(0))

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        for op in self.operators if adjoint else reversed(self.operators):
            x = op.matmul(x, adjoint)
        return x

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        for op in reversed(self.operators) if adjoint else self.operators:
            rhs = op.solve(rhs, adjoint)
        return rhs

    def _determinant(self) -> Any:
        return reduce(raw_ops.Mul, [op.determinant() for op in self.operators])

    def _log_abs_determinant(self) -> Any:
        return self._added([op.log_abs_determinant() for op in self.operators])

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorComposition([op.adjoint() for op in reversed(self.operators)])

    def _inverse(self) -> LinearOperator:
        return LinearOperatorComposition([op.inverse() for op in reversed(self.operators)])


class _Squares(_Several):
    """An operator made of square ones, which passes on what is known of all of them.

    Its own size is that of all of them, by `_sizes`; their names are joined by `_between`.
    """

    _between: str
    _sizes: Any  # a function of two sizes

    def __init__(self, operators: Sequence[LinearOperator], is_non_singular: bool | None = None,
                 is_self_adjoint: bool | None = None, is_positive_definite: bool | None = None,
                 is_square: bool | None = True, name: str | None = None) -> None:
        hints = {"is_non_singular": is_non_singular, "is_self_adjoint": is_self_adjoint,
                 "is_positive_definite": is_positive_definite}
        for hint, given in hints.items():
            if _all(operators, hint):
                if given is False:
                    word = hint.removeprefix("is_").replace("_", "-")
                    raise ValueError(f"{type(self).__name__} of operators that are all {word} is "
                                     f"always {word}")
                hints[hint] = True
        if any(op.is_square is False for op in operators):
            raise ValueError(f"{type(self).__name__} expects operators of square matrices")
        super().__init__(operators, {**hints, "is_square": True}, name, self._between)

    def _size(self) -> Dimension:
        """The number of rows and columns."""
        return reduce(type(self)._sizes, (op.range_dimension for op in self.operators))

    def _size_tensor(self) -> Any:
        return reduce(type(self)._sizes, (op.range_dimension_tensor() for op in self.operators))

    def _shape(self) -> TensorShape:
        return self._batch().concatenate([self._size(), self._size()])

    def _shape_tensor(self) -> Any:
        size = self._size_tensor()
        return raw_ops.ConcatV2([self._batch_tensor(), raw_ops.Pack([size, size])], np.int32(0))


class LinearOperatorBlockDiag(_Squares):
    """Square operators as blocks on a diagonal, with zeros around.

    Args:
        operators: the blocks.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.
    """

    _between, _sizes = "_ds_", operator.add

    def _by_blocks(self, x: Any, apply: Callable[[LinearOperator, Any], Any]) -> Any:
        """What the blocks make of their rows of `x`."""
        known = [op.range_dimension.value for op in self.operators]
        sizes: Any = np.array(known, np.int32) if None not in known else raw_ops.Pack(
            [op.range_dimension_tensor() for op in self.operators])
        parts = raw_ops.SplitV(x, sizes, np.int32(-2), num_split=len(known))
        return self._joined([apply(op, part) for op, part in zip(
            self.operators, parts if isinstance(parts, (list, tuple)) else [parts],
            strict=True)], -2, 2)

    def _joined(self, parts: Sequence[Any], axis: int, inner: int) -> Any:
        """Parts along a dimension, with the batch dimensions that all broadcast to."""
        shapes = [p.shape[:p.shape.ndims - inner] for p in parts if p.shape.ndims is not None]
        if len(shapes) == len(parts) and all(s.is_fully_defined() for s in shapes):
            batch: Any = reduce(broadcast_static_shape, shapes)
        else:
            batch = reduce(broadcast_dynamic_shape,
                           [raw_ops.Shape(p)[:-inner] for p in parts])
        wide = [broadcasting.with_batch(p, batch, inner) for p in parts]
        return wide[0] if len(wide) == 1 else raw_ops.ConcatV2(wide, np.int32(axis))

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._by_blocks(x, lambda op, part: op.matmul(part, adjoint))

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._by_blocks(rhs, lambda op, part: op.solve(part, adjoint))

    def _diag_part(self) -> Any:
        return self._joined([op.diag_part() for op in self.operators], -1, 1)

    def _trace(self) -> Any:
        return self._added([op.trace() for op in self.operators])

    def _determinant(self) -> Any:
        return reduce(raw_ops.Mul, [op.determinant() for op in self.operators])

    def _log_abs_determinant(self) -> Any:
        return self._added([op.log_abs_determinant() for op in self.operators])

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorBlockDiag([op.adjoint() for op in self.operators])

    def _inverse(self) -> LinearOperator:
        return LinearOperatorBlockDiag([op.inverse() for op in self.operators])

    def _cholesky(self) -> LinearOperator:
        return LinearOperatorBlockDiag([op.cholesky() for op in self.operators])


class LinearOperatorKronecker(_Squares):
    """The Kronecker product of square operators.

    Args:
        operators: the factors.
        is_non_singular, is_self_adjoint, is_positive_definite, is_square: as of
            :class:`LinearOperator`.
        name: of the scope of its operations.
    """

    _between, _sizes = "_x_", operator.mul

    def _factor_wise(self, x: Any, apply: Callable[[LinearOperator, Any], Any]) -> Any:
        """Apply each factor to its own dimension of ``[..., n1 n2 ..., k]``."""
        rows, columns = self._size_tensor(), raw_ops.Shape(x)[-1]
        x = broadcasting.with_batch(x, broadcast_dynamic_shape(
            self._batch_tensor(), raw_ops.Shape(x)[:-2]))
        batch = raw_ops.Shape(x)[:-2]
        for op in self.operators:
            own = op.range_dimension_tensor()
            rest = raw_ops.FloorDiv(rows, own) * columns
            # The first dimension is that of this factor; afterwards it stands behind the others.
            turned = apply(op, _shaped(x, batch, own, rest))
            turned = broadcasting.adjoint(turned)
            turned = raw_ops.Conj(turned) if self.dtype.is_complex else turned
            apart = raw_ops.Reshape(turned, raw_ops.ConcatV2(
                [batch, raw_ops.Pack([raw_ops.FloorDiv(rows, own), columns, own])], np.int32(0)))
            x = _shaped(_last_two_turned(apart), batch, rows, columns)
        return x

    def _matmul(self, x: Any, adjoint: bool) -> Any:
        return self._with_shape(x, self._factor_wise(
            x, lambda op, part: op.matmul(part, adjoint)))

    def _solve(self, rhs: Any, adjoint: bool) -> Any:
        return self._with_shape(rhs, self._factor_wise(
            rhs, lambda op, part: op.solve(part, adjoint)))

    def _with_shape(self, x: Any, found: Any) -> Any:
        if x.shape.ndims is not None and self._batch().ndims is not None:
            found.set_shape(broadcast_static_shape(self._batch(), x.shape[:-2]).concatenate(
                [self._size(), x.shape[-1]]))
        return found

    def _diag_part(self) -> Any:
        found = self.operators[0].diag_part()
        for op in self.operators[1:]:
            found = raw_ops.Mul(raw_ops.ExpandDims(found, np.int32(-1)),
                                raw_ops.ExpandDims(op.diag_part(), np.int32(-2)))
            found = raw_ops.Reshape(found, raw_ops.ConcatV2(
                [raw_ops.Shape(found)[:-2], np.array([-1], np.int32)], np.int32(0)))
        return found

    def _trace(self) -> Any:
        return reduce(raw_ops.Mul, [op.trace() for op in self.operators])

    def _power(self, op: LinearOperator) -> Any:
        """How often a factor's determinant is a factor of the whole one."""
        return raw_ops.Cast(raw_ops.FloorDiv(self._size_tensor(), op.range_dimension_tensor()),
                            DstT=self.dtype)

    def _determinant(self) -> Any:
        return reduce(raw_ops.Mul, [raw_ops.Pow(op.determinant(), self._power(op))
                                    for op in self.operators])

    def _log_abs_determinant(self) -> Any:
        return self._added([raw_ops.Mul(op.log_abs_determinant(), self._power(op))
                            for op in self.operators])

    def _adjoint(self) -> LinearOperator:
        return LinearOperatorKronecker([op.adjoint() for op in self.operators])

    def _inverse(self) -> LinearOperator:
        return LinearOperatorKronecker([op.inverse() for op in self.operators])

    def _cholesky(self) -> LinearOperator:
        return LinearOperatorKronecker([op.cholesky() for op in self.operators])


def _shaped(x: Any, batch: Any, rows: Any, columns: Any) -> Any:
    return raw_ops.Reshape(x, raw_ops.ConcatV2([batch, raw_ops.Pack([rows, columns])],
                                               np.int32(0)))


def _last_two_turned(x: Any) -> Any:
    number = raw_ops.Rank(x)
    order = raw_ops.ConcatV2([raw_ops.Range(np.int32(0), number - 2, np.int32(1)),
                              raw_ops.Pack([number - 1, number - 2])], np.int32(0))
    return raw_ops.Transpose(x, order)
