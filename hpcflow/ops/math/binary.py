"""Element-wise arithmetic of two inputs, with broadcasting: Add, Mul, Div, Mod, Pow, ..."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorHandle, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.common.broadcasting import broadcast_shape, unbroadcast
from hpcflow.ops.common.type_sets import ORDERED, SIGNED
from hpcflow.ops.common.unary import conj

__all__ = [
    "add",
    "div",
    "divide",
    "floor_div",
    "floordiv",
    "floormod",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "pow",
    "realdiv",
    "scalar_mul",
    "squared_difference",
    "subtract",
    "truediv",
    "truncatediv",
    "truncatemod",
]


def _register(types: str, *op_types: str, commutative: bool = False) -> None:
    for op_type in op_types:
        register_op(op_type, "x: T; y: T", "z: T", f"T: {types}", shape=broadcast_shape,
                    commutative=commutative)


_WIDE = f"{ORDERED[:-1]}, complex64, complex128}}"
_ADDABLE = f"{_WIDE[:-1]}, string}}"
_POWERS = f"{SIGNED[:-1]}, bfloat16, int8, int16}}"

_register(_ADDABLE, "Add")
# AddV2 is what newer programs write for Add; it has no strings and is commutative.
_register(_WIDE, "AddV2", commutative=True)
_register(_WIDE, "Sub")
_register(_POWERS, "Pow")
_register(f"{SIGNED[:-1]}, bfloat16}}", "SquaredDifference", commutative=True)
_register(_WIDE, "Mul", commutative=True)
_register(_WIDE, "Div", "RealDiv", "TruncateDiv", "FloorDiv")
_register(ORDERED, "FloorMod")
_register("{int32, int64, float, double, half, bfloat16}", "Mod", "TruncateMod")
_register(ORDERED, "Maximum", "Minimum", commutative=True)

# ---------------------------------------------------------------- gradients


@RegisterGradient("Add")
def _add_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = op.inputs
    return unbroadcast(x, y, grad, grad)


RegisterGradient("AddV2")(_add_grad)


@RegisterGradient("Sub")
def _sub_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = op.inputs
    return unbroadcast(x, y, grad, raw_ops.Neg(grad))


@RegisterGradient("Mul")
def _mul_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = op.inputs
    return unbroadcast(x, y, raw_ops.Mul(grad, conj(y)), raw_ops.Mul(conj(x), grad))


def _quotient_grad(op: Operation, grad: Tensor) -> tuple:
    """d(x/y) = dx / y - x/y dy / y."""
    x, y = op.inputs
    grad_x = raw_ops.RealDiv(grad, conj(y))
    return unbroadcast(x, y, grad_x,
                       raw_ops.Neg(raw_ops.Mul(grad_x, conj(op.outputs[0]))))


RegisterGradient("Div")(_quotient_grad)
RegisterGradient("RealDiv")(_quotient_grad)


@RegisterGradient("FloorMod")
def _floor_mod_grad(op: Operation, grad: Tensor) -> tuple:
    """x mod y = x - floor(x / y) y, and the floor is constant."""
    x, y = op.inputs
    return unbroadcast(x, y, grad, raw_ops.Neg(raw_ops.Mul(grad, raw_ops.FloorDiv(x, y))))


def _truncate_mod_grad(op: Operation, grad: Tensor) -> tuple:
    x, y = op.inputs
    return unbroadcast(x, y, grad, raw_ops.Neg(raw_ops.Mul(grad, raw_ops.TruncateDiv(x, y))))


RegisterGradient("Mod")(_truncate_mod_grad)
RegisterGradient("TruncateMod")(_truncate_mod_grad)
not_differentiable("FloorDiv", "TruncateDiv")


def _chosen_grad(op: Operation, grad: Tensor, x_wins: Tensor) -> tuple:
    """The gradient goes to whichever input was chosen; to x where they are equal."""
    x, y = op.inputs
    zeros = raw_ops.ZerosLike(grad)
    return unbroadcast(x, y, raw_ops.Select(x_wins, grad, zeros),
                       raw_ops.Select(x_wins, zeros, grad))


@RegisterGradient("Maximum")
def _maximum_grad(op: Operation, grad: Tensor) -> tuple:
    return _chosen_grad(op, grad, raw_ops.GreaterEqual(*op.inputs))


@RegisterGradient("Minimum")
def _minimum_grad(op: Operation, grad: Tensor) -> tuple:
    return _chosen_grad(op, grad, raw_ops.LessEqual(*op.inputs))


@RegisterGradient("Pow")
def _pow_grad(op: Operation, grad: Tensor) -> tuple:
    """d(x^y) = y x^(y-1) dx + x^y log(x) dy; log(x) counts as zero where it has no real value."""
    x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])
    power = raw_ops.Pow(x, raw_ops.Sub(y, _one(y)))
    # From the left: no product of what may overflow, where the gradient is zero.
    grad_x = raw_ops.Mul(raw_ops.Mul(grad, y), power)
    zeros = raw_ops.ZerosLike(x)
    if x.dtype.is_complex:
        defined = raw_ops.NotEqual(x, zeros)
    else:
        defined = raw_ops.Greater(x, zeros)
    # The logarithm of a safe value: a NaN would survive the Select in second derivatives.
    safe = raw_ops.Select(defined, x, raw_ops.OnesLike(x))
    logarithm = _logarithm(safe)
    grad_y = None if logarithm is None else raw_ops.Mul(raw_ops.Mul(grad, z), logarithm)
    return unbroadcast(op.inputs[0], op.inputs[1], grad_x, grad_y)


def _one(x: Tensor) -> Any:
    return x.dtype.base_dtype.np.type(1)


def _logarithm(x: Tensor) -> Tensor | None:
    """log(x), None for integers: no gradient flows to an integer exponent."""
    return None if x.dtype.is_integer else raw_ops.Log(x)


@RegisterGradient("SquaredDifference")
def _squared_difference_grad(op: Operation, grad: Tensor) -> tuple:
    """2 (x - y) times the gradient, of which only the real part counts: |x - y|² is real."""
    x, y = op.inputs
    if x.dtype.is_complex:
        twice = raw_ops.Add(grad, raw_ops.Conj(grad))
    else:
        twice = raw_ops.Mul(grad, x.dtype.base_dtype.np.type(2))
    grad_x = raw_ops.Mul(twice, raw_ops.Sub(x, y))
    return unbroadcast(x, y, grad_x, raw_ops.Neg(grad_x))


# ---------------------------------------------------------------- public functions


def add(x: TensorHandle, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x + y element-wise (strings are concatenated), with broadcasting.

    `x` and `y` are numbers or strings of one type; so is the result, of their broadcast shape.
    """
    return raw_ops.Add(x=x, y=y, name=name)


def subtract(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x - y element-wise, with broadcasting.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.Sub(x=x, y=y, name=name)


def multiply(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x * y element-wise, with broadcasting.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.Mul(x=x, y=y, name=name)


def scalar_mul(scalar: TensorLike, x: Any, name: str | None = None) -> Any:
    """Multiply a scalar with a tensor or :class:`IndexedSlices`, which stays sparse.

    Raises ``ValueError`` if `scalar` is not a scalar.
    """
    like = x.values if isinstance(x, IndexedSlices) else convert_to_tensor(x)
    scalar = convert_to_tensor(scalar, like.dtype.base_dtype, name="scalar")
    if scalar._dims != ():
        raise ValueError(f"scalar_mul: the scalar has shape {scalar.shape}")
    product = raw_ops.Mul(scalar, like, name=name)
    if isinstance(x, IndexedSlices):
        return IndexedSlices(product, x.indices, x.dense_shape)
    return product


_QUOTIENT_TYPES = {
    dtypes.uint8: dtypes.float32, dtypes.int8: dtypes.float32, dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32, dtypes.int32: dtypes.float64, dtypes.int64: dtypes.float64,
    dtypes.uint32: dtypes.float64, dtypes.uint64: dtypes.float64,
}  # fmt: skip


def _pair(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as tensors of one dtype; Python numbers follow the tensor beside them."""
    if not isinstance(x, Tensor) and isinstance(getattr(y, "dtype", None), dtypes.DType):
        y = convert_to_tensor(y, name="y")
        return convert_to_tensor(x, y.dtype.base_dtype, name="x"), y
    x = convert_to_tensor(x, name="x")
    if isinstance(y, Tensor):
        if y.dtype.base_dtype is not x.dtype.base_dtype:
            raise TypeError(f"x and y must have the same dtype, got {x.dtype.base_dtype.name} != "
                            f"{y.dtype.base_dtype.name}")
        return x, y
    return x, convert_to_tensor(y, x.dtype.base_dtype, name="y")


def truediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y as Python 3 divides: integers are cast to a floating type first.

    8- and 16-bit integers give float32, wider ones float64. Raises ``TypeError`` for different
    dtypes.
    """
    if _floating_pair(x, y):
        return raw_ops.RealDiv(x=x, y=y, name=name or "truediv")
    with name_scope(name, "truediv", [x, y]) as scope:
        x, y = _pair(x, y)
        wanted = _QUOTIENT_TYPES.get(x.dtype.base_dtype)
        if wanted is not None:
            x, y = raw_ops.Cast(x, DstT=wanted), raw_ops.Cast(y, DstT=wanted)
        return raw_ops.RealDiv(x, y, name=scope)


def _floating_pair(x: TensorLike, y: TensorLike) -> bool:
    """True for two tensors of one floating dtype: the common case, without a scope."""
    return (isinstance(x, Tensor) and isinstance(y, Tensor)
            and x.dtype.base_dtype is y.dtype.base_dtype and x.dtype.is_floating)


def divide(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y as Python 3 divides; see :func:`truediv`."""
    return truediv(x, y, name)


def div(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y as Python 2 divides: integers round down, floating types divide exactly.

    Raises ``TypeError`` for different dtypes.
    """
    with name_scope(name, "div", [x, y]) as scope:
        x, y = _pair(x, y)
        exact = x.dtype.is_floating or x.dtype.is_complex
        return (raw_ops.RealDiv if exact else raw_ops.FloorDiv)(x, y, name=scope)


def realdiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y element-wise for floating and complex types.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.RealDiv(x=x, y=y, name=name)


def floordiv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y rounded down, for integers and for floating types.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.FloorDiv(x=x, y=y, name=name or "floordiv")


def floor_div(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y rounded down, for integers and for floating types."""
    return raw_ops.FloorDiv(x=x, y=y, name=name)


def truncatediv(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x / y rounded towards zero, as C divides integers.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.TruncateDiv(x=x, y=y, name=name)


def floormod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the remainder of the division rounded down: it has the sign of `y`.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.FloorMod(x=x, y=y, name=name)


mod = floormod


def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the remainder of the division rounded towards zero: it has the sign of `x`.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.TruncateMod(x=x, y=y, name=name)


def maximum(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the larger of x and y element-wise; NaN where either is NaN.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.Maximum(x=x, y=y, name=name)


def minimum(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return the smaller of x and y element-wise; NaN where either is NaN.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.Minimum(x=x, y=y, name=name)


def pow(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return x to the power y element-wise; integers to negative powers are an error when run.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.Pow(x=x, y=y, name=name)


def squared_difference(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """Return (x - y)² element-wise.

    `x` and `y` are numbers of one type; the result has it, too, and their broadcast shape.
    """
    return raw_ops.SquaredDifference(x=x, y=y, name=name)

register_op("NextAfter", "x1: T; x2: T", "output: T", "T: {double, float} = float",
            shape=broadcast_shape)


@RegisterGradient("NextAfter")
def _next_after_grad(op: Operation, grad: Tensor) -> tuple:
    """The neighbour moves with its number."""
    x = op.inputs[0]
    axes, _ = raw_ops.BroadcastGradientArgs(raw_ops.Shape(x), raw_ops.Shape(op.outputs[0]))
    return (raw_ops.Reshape(raw_ops.Sum(grad, axes), raw_ops.Shape(x)),
            raw_ops.ZerosLike(op.inputs[1]))
