"""What operators of certain kinds make of each other: a table that programs may add to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_Table = dict[tuple[type, ...], Callable[..., Any]]

_ADJOINTS: _Table = {}
_CHOLESKY_DECOMPS: _Table = {}
_INVERSES: _Table = {}
_MATMUL: _Table = {}
_SOLVE: _Table = {}


class _Register:
    """A decorator that registers a function for kinds of operators.

    Raises ``TypeError`` for what cannot be called, ``ValueError`` for kinds that have a function.
    """

    table: _Table
    what: str

    def __init__(self, *kinds: type) -> None:
        self._kinds = kinds

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the function and return it."""
        if not callable(function):
            raise TypeError(f"{self.what}: the function must be callable, got {function!r}")
        if self._kinds in self.table:
            raise ValueError(f"{self.what} of {', '.join(k.__name__ for k in self._kinds)} has "
                             f"already been registered: {self.table[self._kinds]}")
        self.table[self._kinds] = function
        return function


class RegisterAdjoint(_Register):
    """A decorator that registers ``f(operator)`` as the adjoint of a kind of operators."""

    table, what = _ADJOINTS, "The adjoint"


class RegisterCholesky(_Register):
    """A decorator that registers ``f(operator)`` as the Cholesky factor of a kind of operators."""

    table, what = _CHOLESKY_DECOMPS, "The Cholesky decomposition"


class RegisterInverse(_Register):
    """A decorator that registers ``f(operator)`` as the inverse of a kind of operators."""

    table, what = _INVERSES, "The inverse"


class RegisterMatmul(_Register):
    """A decorator that registers ``f(a, b)`` as the product of two kinds of operators."""

    table, what = _MATMUL, "The product"


class RegisterSolve(_Register):
    """A decorator that registers ``f(a, b)`` as the operator that solves ``a X = b``."""

    table, what = _SOLVE, "The solution"


def registered(table: _Table, *kinds: type) -> Callable[..., Any] | None:
    """Return the function of the kinds that are nearest above `kinds`; None if there is none."""
    best: tuple[int, Callable[..., Any] | None] = (0, None)
    for known, function in table.items():
        if all(issubclass(kind, above) for kind, above in zip(kinds, known, strict=True)):
            far = sum(kind.__mro__.index(above) for kind, above in zip(kinds, known))
            if best[1] is None or far < best[0]:
                best = far, function
    return best[1]


def _registered_adjoint(kind: type) -> Callable[..., Any] | None:
    return registered(_ADJOINTS, kind)


def _registered_cholesky(kind: type) -> Callable[..., Any] | None:
    return registered(_CHOLESKY_DECOMPS, kind)


def _registered_inverse(kind: type) -> Callable[..., Any] | None:
    return registered(_INVERSES, kind)


def _registered_matmul(left: type, right: type) -> Callable[..., Any] | None:
    return registered(_MATMUL, left, right)


def _registered_solve(left: type, right: type) -> Callable[..., Any] | None:
    return registered(_SOLVE, left, right)


def _applied(table: _Table, what: str, *operators: Any) -> Any:
    function = registered(table, *(type(op) for op in operators))
    if function is None:
        raise ValueError(f"{what} of {', '.join(type(op).__name__ for op in operators)} is not "
                         "registered")
    return function(*operators)


def adjoint(lin_op_a: Any) -> Any:
    """Return the adjoint of an operator. Raises ``ValueError`` if none is registered."""
    return _applied(_ADJOINTS, "The adjoint", lin_op_a)


def cholesky(lin_op_a: Any) -> Any:
    """Return the Cholesky factor of an operator. Raises ``ValueError`` if none is registered."""
    return _applied(_CHOLESKY_DECOMPS, "The Cholesky decomposition", lin_op_a)


def inverse(lin_op_a: Any) -> Any:
    """Return the inverse of an operator. Raises ``ValueError`` if none is registered."""
    return _applied(_INVERSES, "The inverse", lin_op_a)


def matmul(lin_op_a: Any, lin_op_b: Any) -> Any:
    """Return the product of two operators. Raises ``ValueError`` if none is registered."""
    return _applied(_MATMUL, "The product", lin_op_a, lin_op_b)


def solve(lin_op_a: Any, lin_op_b: Any) -> Any:
    """Return the operator X of ``a X = b``. Raises ``ValueError`` if none is registered."""
    return _applied(_SOLVE, "The solution", lin_op_a, lin_op_b)
