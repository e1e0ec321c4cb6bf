"""The operators of Tensor: ``+``, ``*``, ``<``, ``@``, ... build ops of the same meaning.

An operand whose class has a higher ``__array_priority__`` than Tensor (a sparse tensor, say)
goes first with its reflected operator. So does one that no tensor can be made of, if its class has
a reflected operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.linalg.matmul import matmul
from hpcflow.ops.math.binary import div, truediv
from hpcflow.ops.math.comparison import logical_xor
from hpcflow.ops.math.elementwise import abs as absolute

if TYPE_CHECKING:
    import numpy as np

_BINARY = {
    "add": ("Add", "add"),
    "sub": ("Sub", "sub"),
    "mul": ("Mul", "mul"),
    "floordiv": ("FloorDiv", "floordiv"),
    "mod": ("FloorMod", "mod"),
    "pow": ("Pow", "pow"),
    "and": ("LogicalAnd", "and"),
    "or": ("LogicalOr", "or"),
}
_COMPARISONS = {"lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}


def _defers(other: TensorLike) -> bool:
    priority = getattr(other, "__array_priority__", 0)
    return priority > Tensor.__array_priority__


def _knows_better(other: TensorLike, reflected: str) -> bool:
    """True if the operator of `other`'s own class is to be tried: it is not of Python or NumPy, and
    no tensor can be made of it."""
    if type(other).__module__ in ("builtins", "numpy") or not hasattr(other, reflected):
        return False
    try:
        convert_to_tensor(other)
    except (TypeError, ValueError):
        return True
    return False


def _of_type(op_type: str) -> Callable:
    def build(x: TensorLike, y: Any, name: str) -> Tensor:
        return getattr(raw_ops, op_type)(x=x, y=y, name=name)

    return build


def _define(operator: str, build: Callable, name: str) -> None:
    """Define ``__operator__`` and ``__roperator__`` by ``build(x, y, name)``."""

    def forward(self: Tensor, other: TensorLike) -> Any:
        if _defers(other):
            return NotImplemented
        try:
            return build(self, other, name)
        except (TypeError, ValueError):
            if _knows_better(other, f"__r{operator}__"):
                return NotImplemented
            raise

    def reflected(self: Tensor, other: TensorLike) -> Any:
        return build(other, self, name)

    for method, doc in ((forward, "x op y"), (reflected, "y op x")):
        method.__doc__ = f"Return {doc} as a tensor, for op '{name}'."
    Tensor._override_operator(f"__{operator}__", forward)
    Tensor._override_operator(f"__r{operator}__", reflected)


def _define_comparison(operator: str, op_type: str) -> None:
    def compare(self: Tensor, other: TensorLike) -> Any:
        if _defers(other):
            return NotImplemented
        return getattr(raw_ops, op_type)(x=self, y=other)

    compare.__doc__ = f"Return a boolean tensor: {op_type}, element-wise."
    Tensor._override_operator(f"__{operator}__", compare)


def _matmul(x: Tensor | np.ndarray, y: Tensor, name: str) -> Tensor:
    if not isinstance(x, Tensor):
        x = convert_to_tensor(x, y.dtype.base_dtype, name="a")
    return matmul(x, y, name=name)


def _abs(self: Tensor) -> Tensor:
    return absolute(self)


def _neg(self: Tensor) -> Tensor:
    return raw_ops.Neg(self)


def _invert(self: Tensor) -> Tensor:
    return raw_ops.LogicalNot(self)


def install() -> None:
    """Fill the operators of Tensor in (all but ``__getitem__``)."""
    for operator, (op_type, name) in _BINARY.items():
        _define(operator, _of_type(op_type), name)
    for operator, op_type in _COMPARISONS.items():
        _define_comparison(operator, op_type)
    _define("truediv", truediv, "truediv")
    _define("div", div, "div")
    _define("xor", logical_xor, "xor")
    _define("matmul", _matmul, "matmul")
    Tensor._override_operator("__abs__", _abs)
    Tensor._override_operator("__neg__", _neg)
    Tensor._override_operator("__invert__", _invert)


install()
