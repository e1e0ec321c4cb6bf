"""Kernels of element-wise arithmetic, comparisons and logic of two inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.sizes import check_count
from hpcflow.kernels.common.strings import box
from hpcflow.kernels.compiled import integer_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown, ufunc

_INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64", "bfloat16")
_COMPLEX = ("complex64", "complex128")
_ELEMENTWISE: dict[str, Any] = {"fresh": True, "accepts_out": True, "elementwise": True}

for _op_type, _name in (
        ("Add", "add"), ("AddV2", "add"), ("Sub", "subtract"), ("Mul", "multiply"),
        ("Maximum", "maximum"), ("Minimum", "minimum"),
        ("Equal", "equal"), ("NotEqual", "not_equal"), ("Less", "less"),
        ("LessEqual", "less_equal"), ("Greater", "greater"), ("GreaterEqual", "greater_equal"),
        ("LogicalAnd", "logical_and"), ("LogicalOr", "logical_or"), ("LogicalNot", "logical_not")):
    ufunc(_op_type, _name)
for _op_type in ("Div", "RealDiv"):
    ufunc(_op_type, "true_divide", types={"T": _FLOATS + _COMPLEX})
for _op_type in ("Mod", "TruncateMod"):
    ufunc(_op_type, "fmod", types={"T": _FLOATS})


# ---------------------------------------------------------------- strings


@kernel("Add", device="CPU", types={"T": ["string"]}, fresh=True)
def _concatenate_strings(node: KernelNode) -> Any:
    """Scalars in boxes: as bytes NumPy would take them for its own type, without final zeros."""
    add = np.frompyfunc(operator.add, 2, 1)
    return lambda x, y: add(box(x), box(y))


def _compare_strings(compare: Callable) -> Callable:
    """An object array compares element by element; two scalars give a Python bool."""

    def run(x: Any, y: Any) -> Any:
        if not isinstance(x, np.ndarray):
            x, y = y, x
        if not isinstance(x, np.ndarray):
            return np.bool_(compare(x, y))
        return compare(x, box(y)).astype(bool)

    return run


@kernel("Equal", device="CPU", types={"T": ["string"]}, fresh=True)
def _equal_strings(node: KernelNode) -> Any:
    return _compare_strings(operator.eq)


@kernel("NotEqual", device="CPU", types={"T": ["string"]}, fresh=True)
def _not_equal_strings(node: KernelNode) -> Any:
    return _compare_strings(operator.ne)


# ---------------------------------------------------------------- integer division


def _checked_division(node: KernelNode, divide: Callable, rounded: str,
                      wants_rest: bool = False) -> Callable:
    """``divide(x, y, out=None)`` after a check of the divisor, made once where the divisor is the
    same always; by a loop for numbers whose quotients in double precision are exact."""
    if node.xp is np and node.np_dtype().itemsize <= 4:
        quotient = f"np.{rounded}({integer_loops.QUOTIENT})"
        divide = integer_loops.with_loop(
            divide, f"np.float64(X) - {quotient} * np.float64(Y)" if wants_rest
            else f"np.int64({quotient})")
    divisor = node.constant(1)
    if divisor is not None and bool(divisor.all()):
        return divide

    def run(x: Any, y: Any, out: Any = None) -> Any:
        if not y.all() and x.size:
            raise invalid("Integer division by zero")
        return divide(x, y, out=out)

    return run


@kernel("FloorDiv", types={"T": _INTEGERS}, **_ELEMENTWISE)
def _floor_divide_integers(node: KernelNode) -> Any:
    return _checked_division(node, node.xp.floor_divide, "floor")


@kernel("FloorMod", types={"T": _INTEGERS}, **_ELEMENTWISE)
def _floor_mod_integers(node: KernelNode) -> Any:
    return _checked_division(node, node.xp.remainder, "floor", wants_rest=True)


@kernel("Mod", "TruncateMod", types={"T": _INTEGERS}, **_ELEMENTWISE)
def _truncate_mod_integers(node: KernelNode) -> Any:
    return _checked_division(node, node.xp.fmod, "trunc", wants_rest=True)


@kernel("Div", "TruncateDiv", types={"T": _INTEGERS}, **_ELEMENTWISE)
def _truncate_divide_integers(node: KernelNode) -> Any:
    """Division as in C: what is left after taking the remainder away divides exactly."""
    xp = node.xp
    if node.output_dtypes[0].is_unsigned:
        return _checked_division(node, xp.floor_divide, "floor")

    def divide(x: Any, y: Any, out: Any = None) -> Any:
        return xp.floor_divide(x - xp.fmod(x, y), y, out=out)

    return _checked_division(node, divide, "trunc")


@kernel("FloorDiv", types={"T": _FLOATS}, **_ELEMENTWISE)
def _floor_divide_floats(node: KernelNode) -> Any:
    """The rounded quotient, rounded down (NumPy's floor_divide would be exact instead)."""
    return _rounded_quotient(node.xp, node.xp.floor)


@kernel("FloorMod", types={"T": _FLOATS}, **_ELEMENTWISE)
def _floor_mod_floats(node: KernelNode) -> Any:
    """The remainder of truncation, moved by one divisor where the signs differ.

    A rest of zero keeps the sign of the dividend, and so does one that is too small to count
    (NumPy's remainder would give it the sign of the divisor).
    """
    xp, dtype = node.xp, node.np_dtype()

    def run(x: Any, y: Any, out: Any = None) -> Any:
        rest = xp.fmod(x, y, out=out)
        moved = ((rest < 0) != (y < 0)) & (rest != 0)
        if not rest.ndim:
            return rest + y if moved else rest
        return xp.add(rest, y, out=rest, where=moved) if xp is np else (
            xp.where(moved, rest + y, rest).astype(dtype, copy=False))

    return run


@kernel("TruncateDiv", types={"T": _FLOATS}, **_ELEMENTWISE)
def _truncate_divide_floats(node: KernelNode) -> Any:
    return _rounded_quotient(node.xp, node.xp.trunc)


def _rounded_quotient(xp: Any, rounding: Callable) -> Callable:
    divide = xp.true_divide

    def run(x: Any, y: Any, out: Any = None) -> Any:
        quotient = divide(x, y, out=out)
        return rounding(quotient, out=quotient) if quotient.ndim else rounding(quotient)

    return run


# ---------------------------------------------------------------- others


@kernel("Pow", types={"T": _FLOATS + _COMPLEX}, **_ELEMENTWISE)
def _power(node: KernelNode) -> Any:
    """Squares are several times cheaper than powers."""
    exponent = node.constant(1)
    if exponent is None or exponent.ndim or exponent != 2:
        return node.xp.power
    square = node.xp.square
    return lambda x, _, out=None: square(x, out=out)


@kernel("Pow", types={"T": ["int8", "int16", "int32", "int64"]}, **_ELEMENTWISE)
def _power_integers(node: KernelNode) -> Any:
    power = node.xp.power

    def run(x: Any, y: Any, out: Any = None) -> Any:
        if (y < 0).any():
            raise invalid("Integers to negative integer powers are not allowed")
        return power(x, y, out=out)

    return run


@kernel("SquaredDifference", **_ELEMENTWISE)
def _squared_difference(node: KernelNode) -> Any:
    xp = node.xp
    subtract, multiply, conj = xp.subtract, xp.multiply, xp.conj
    is_complex = node.output_dtypes[0].is_complex

    def run(x: Any, y: Any, out: Any = None) -> Any:
        difference = subtract(x, y, out=out)
        other = conj(difference) if is_complex else difference
        return multiply(difference, other, out=difference if difference.ndim else None)

    return run


@kernel("BroadcastTo", fresh=True, accepts_out=True, host_inputs=(1,))
def _broadcast_to(node: KernelNode) -> Any:
    """A full copy: cheaper than a view of repeated elements for all that reads it."""
    xp, dtype = node.xp, node.np_dtype()
    known = node.constant(1)
    dims = None if known is None else tuple(int(d) for d in known)

    def run(x: Any, shape: Any, out: Any = None) -> Any:
        if out is None:
            wanted = tuple(shape.tolist()) if dims is None else dims
            check_count(wanted, dtype.itemsize * (xp is np))
            out = xp.empty(wanted, dtype)
        if np.ndim(x) > out.ndim:
            raise invalid(f"a value of shape {shown(x)} cannot be broadcast to shape "
                          f"{shown(out)}")
        out[...] = x
        return out

    return run


@kernel("ApproximateEqual", fresh=True)
def _approximate_equal(node: KernelNode) -> Callable:
    xp, tolerance = node.xp, node.attr("tolerance")

    def run(x: Any, y: Any) -> Any:
        if x.shape != y.shape:
            raise invalid(f"x and y must be of the same shape, got {shown(x)} and {shown(y)}")
        return xp.abs(x - y) < x.real.dtype.type(tolerance)

    return run


@kernel("NextAfter", fresh=True)
def _next_after(node: KernelNode) -> Callable:
    return node.xp.nextafter
