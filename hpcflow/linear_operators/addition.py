"""Sums of operators, as few operators as it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.graph.graph import name_scope
from hpcflow.graph.raw import raw_ops
from hpcflow.linear_operators.base import LinearOperator
from hpcflow.linear_operators.dense import LinearOperatorFullMatrix, LinearOperatorLowerTriangular
from hpcflow.linear_operators.diagonal import LinearOperatorDiag
from hpcflow.linear_operators.identities import (
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
)
from hpcflow.ops.arrays.shape_ops import broadcast_static_shape


class Hints:
    """What is known of an operator: its arguments of the same names."""

    def __init__(self, is_non_singular: bool | None = None,
                 is_positive_definite: bool | None = None,
                 is_self_adjoint: bool | None = None) -> None:
        self.is_non_singular, self.is_self_adjoint = is_non_singular, is_self_adjoint
        self.is_positive_definite = is_positive_definite

    def known(self) -> dict[str, Any]:
        """Return the arguments."""
        return dict(vars(self))


class Adder:
    """Base of what adds two operators of certain kinds: ``can_add`` and ``_add``."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        """Return whether it adds these."""
        raise NotImplementedError(f"{type(self).__name__} must define can_add")

    def _add(self, op1: Any, op2: Any, operator_name: str, hints: Hints) -> LinearOperator:
        raise NotImplementedError(f"{type(self).__name__} must define _add")

    def add(self, op1: LinearOperator, op2: LinearOperator, operator_name: str | None,
            hints: Hints | None = None) -> LinearOperator:
        """Return the sum, called `operator_name`; by default it is known to be what both are."""
        both = hints or _hints_of_sum(op1, op2)
        with name_scope(f"Add/{op1.name}__{op2.name}/"):
            return self._add(op1, op2, operator_name or f"Add/{op1.name}__{op2.name}/", both)


class AddAndReturnScaledIdentity(Adder):
    """Multiples of the identity, which add up to one."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        """Return whether both are multiples of the identity."""
        return all(_kind(op) == "identity" for op in (op1, op2))

    def _add(self, op1: Any, op2: Any, operator_name: str, hints: Hints) -> LinearOperator:
        return LinearOperatorScaledIdentity(
            op1.range_dimension_tensor(), _multiplier(op1) + _multiplier(op2), name=operator_name,
            **hints.known())


class AddAndReturnDiag(Adder):
    """Diagonal operators, which add up to one."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        """Return whether both are diagonal."""
        return all(_kind(op) in ("identity", "diag") for op in (op1, op2))

    def _add(self, op1: Any, op2: Any, operator_name: str, hints: Hints) -> LinearOperator:
        return LinearOperatorDiag(op1.diag_part() + op2.diag_part(), name=operator_name,
                                  **hints.known())


class AddAndReturnTriL(Adder):
    """Lower triangular operators, which add up to one."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        """Return whether both are lower triangular."""
        return all(_kind(op) in ("identity", "diag", "tril") for op in (op1, op2))

    def _add(self, op1: Any, op2: Any, operator_name: str, hints: Hints) -> LinearOperator:
        return LinearOperatorLowerTriangular(_written_sum(op1, op2), name=operator_name,
                                             **hints.known())


class AddAndReturnMatrix(Adder):
    """Any operators, whose sum is written out."""

    def can_add(self, op1: Any, op2: Any) -> bool:
        """Return True for all operators."""
        return isinstance(op1, LinearOperator) and isinstance(op2, LinearOperator)

    def _add(self, op1: Any, op2: Any, operator_name: str, hints: Hints) -> LinearOperator:
        return LinearOperatorFullMatrix(_written_sum(op1, op2), name=operator_name,
                                        **hints.known())


def _kind(op: Any) -> str:
    if isinstance(op, (LinearOperatorIdentity, LinearOperatorScaledIdentity)):
        return "identity"
    if isinstance(op, LinearOperatorDiag):
        return "diag"
    return "tril" if isinstance(op, LinearOperatorLowerTriangular) else "other"


def _multiplier(op: Any) -> Any:
    if isinstance(op, LinearOperatorScaledIdentity):
        return op.multiplier
    shape = op.batch_shape_tensor()
    return raw_ops.Fill(shape, raw_ops.Cast(1.0, DstT=op.dtype))


def _written_sum(op1: Any, op2: Any) -> Any:
    """The sum as a matrix: the one that is cheaper to add is added to the other."""
    order = ("other", "tril", "diag", "identity")
    first, second = sorted((op1, op2), key=lambda op: order.index(_kind(op)))
    return second.add_to_tensor(first.to_dense())


def _hints_of_sum(op1: LinearOperator, op2: LinearOperator) -> Hints:
    adjoint = op1.is_self_adjoint and op2.is_self_adjoint or None
    positive = op1.is_positive_definite and op2.is_positive_definite or None
    return Hints(is_self_adjoint=adjoint, is_positive_definite=positive,
                 is_non_singular=positive)


_TIERS: list[list[Adder]] = [
    [AddAndReturnScaledIdentity()], [AddAndReturnDiag()], [AddAndReturnTriL()],
    [AddAndReturnMatrix()]]


def add_operators(operators: Sequence[LinearOperator], operator_name: str | None = None,
                  addition_tiers: Sequence[Sequence[Adder]] | None = None,
                  name: str | None = None) -> list[LinearOperator]:
    """Return operators whose sum is that of the given ones, as few as the adders make of them.

    Args:
        operators: of one type and of sizes that fit.
        operator_name: the name of sums.
        addition_tiers: lists of adders; those of a list add what they can before those of the next
            list do. By default all operators become one.
        name: of the scope of the operations.

    Raises ``ValueError`` for no operators or sizes that do not fit, ``TypeError`` for anything
    else.
    """
    found = list(operators)
    if not found:
        raise ValueError("Argument operators must contain at least one operator. Found: []")
    if not all(isinstance(op, LinearOperator) for op in found):
        raise TypeError(f"Argument operators must contain only LinearOperator instances. Found: "
                        f"{found}")
    _check_sizes(found)
    with name_scope(name, "add_operators"):
        for tier in _TIERS if addition_tiers is None else addition_tiers:
            found = _one_tier(found, tier, operator_name)
    return found


def _check_sizes(operators: Sequence[LinearOperator]) -> None:
    first = operators[0]
    batch = first.batch_shape
    for op in operators[1:]:
        if op.dtype != first.dtype:
            raise TypeError(f"All operators must have the same dtype, found {first.dtype.name} and "
                            f"{op.dtype.name}")
        for what in ("domain_dimension", "range_dimension"):
            own, other = getattr(first, what), getattr(op, what)
            if not own.is_compatible_with(other):
                raise ValueError(f"Operators must have the same {what.replace('_', ' ')}, found "
                                 f"{own} of {first.name} and {other} of {op.name}")
        batch = broadcast_static_shape(batch, op.batch_shape)


def _one_tier(operators: list[LinearOperator], adders: Sequence[Adder],
              name: str | None) -> list[LinearOperator]:
    """Add pairs until no adder can add one."""
    left = list(operators)
    done: list[LinearOperator] = []
    while left:
        op = left.pop()
        for position, other in enumerate(left):
            adder = next((a for a in adders if a.can_add(op, other)), None)
            if adder is not None:
                left.pop(position)
                left.append(adder.add(op, other, name))
                break
        else:
            done.append(op)
    return done[::-1]
