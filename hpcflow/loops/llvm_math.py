"""The arithmetic of the table of meanings as LLVM's instructions: to the last bit what NumPy does.

LLVM turns loops over numbers into loops over vectors. Numbers of narrow floating-point types are
kept as those of float32 that they are.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow import config
from hpcflow.loops.meanings import CAST, FLOATS, MEANINGS, NARROW, SELECT

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder

_ORDERS = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==",
           "not_equal": "!="}
_ROUNDINGS = {"floor": "llvm.floor", "ceil": "llvm.ceil", "trunc": "llvm.trunc",
              "rint": "llvm.rint", "sqrt": "llvm.sqrt"}


def supports(function: str, dtype: str) -> bool:
    """True if there is code for a function of the table, of operands of `dtype`."""
    if function in (SELECT, CAST):
        return True
    meaning = MEANINGS.get(function)
    return meaning is not None and dtype in meaning.types and function in _WRITERS


def emit(function: str, builder: IRBuilder, dtype: str, operands: Sequence[Any]) -> Any:
    """The value of a function of the table of values of `dtype`; for casts see `cast`."""
    if function == SELECT:
        return builder.select(*operands)
    found = _WRITERS[function](_Numbers(builder, dtype, operands[0].type), *operands)
    return rounded(builder, found, dtype) if not MEANINGS[function].is_test else found


@functools.lru_cache(maxsize=1)
def ir() -> Any:
    """LLVM's module of instructions."""
    return importlib.import_module("llvmlite.ir")


@functools.lru_cache(maxsize=1)
def binding() -> Any:
    """LLVM itself."""
    return importlib.import_module("llvmlite.binding")


# What HPCFLOW_AVX512=0 leaves out: LLVM's names of these begin so.
_SINCE_AVX512 = ("avx512", "avx10", "amx", "evex512")


@functools.lru_cache(maxsize=1)
def features() -> dict[str, bool]:
    """What loops are compiled for: whether this processor has it, by LLVM's names."""
    return {name: has and (config.flags.avx512 or not name.startswith(_SINCE_AVX512))
            for name, has in binding().get_host_cpu_features().items()}


def feature_text() -> str:
    """`features` as LLVM reads them."""
    return ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features().items()))


def value_type(dtype: str) -> Any:
    """LLVM's type of a number while it is computed with."""
    if dtype in FLOATS:
        return ir().DoubleType() if dtype == "float64" else ir().FloatType()
    return ir().IntType(1 if dtype == "bool" else int(dtype.lstrip("uint")))


def memory_type(dtype: str) -> Any:
    """LLVM's type of a number in memory."""
    if dtype == "bool":
        return ir().IntType(8)
    return ir().IntType(16) if dtype in NARROW else value_type(dtype)


def item_size(kind: Any) -> int:
    """The bytes of a number of LLVM's type `kind` in memory."""
    if isinstance(kind, ir().IntType):
        return kind.width // 8
    return 8 if kind == ir().DoubleType() else 4


def has_wide_registers() -> bool:
    """True if registers of 512 bits are as fast as those of 256, which LLVM takes on its own
    account: older processors slow down."""
    return features().get("avx512vbmi2", False)


def interleaves_too_little() -> bool:
    """True if LLVM computes too few vectors side by side, since it lacks registers for their many
    constants. They are read from the cache at no cost; a chain of functions waits for itself."""
    return features().get("avx2", False) and not features().get("avx512f", False)


def has_scaling() -> bool:
    """True if LLVM has one instruction of this processor for x 2**k of vectors."""
    return features().get("avx512vl", False) and binding().llvm_version_info >= (22,)


def intrinsic(builder: IRBuilder, name: str, *operands: Any, flags: Sequence[str] = ()) -> Any:
    """The value of a function of LLVM's own, of operands of one type; see LLVM for `flags`."""
    kind = operands[0].type
    function = builder.module.declare_intrinsic(
        f"{name}.{kind.intrinsic_name}", (), ir().FunctionType(kind, [kind] * len(operands)))
    return builder.call(function, operands, fastmath=flags)


# ---------------------------------------------------------------- memory and casts


def from_memory(builder: IRBuilder, value: Any, dtype: str) -> Any:
    """The number that lies in memory as `value`."""
    if dtype == "bool":
        return builder.icmp_unsigned("!=", value, value.type(0))
    if dtype == "float16":
        return builder.fpext(builder.bitcast(value, ir().HalfType()), ir().FloatType())
    if dtype == "bfloat16":
        wide = builder.shl(builder.zext(value, ir().IntType(32)), ir().IntType(32)(16))
        return builder.bitcast(wide, ir().FloatType())
    return value


def to_memory(builder: IRBuilder, value: Any, dtype: str) -> Any:
    """What a number lies in memory as; one of a narrow type is rounded already."""
    if dtype == "bool":
        return builder.zext(value, memory_type(dtype))
    if dtype == "float16":
        return builder.bitcast(builder.fptrunc(value, ir().HalfType()), memory_type(dtype))
    if dtype == "bfloat16":
        bits = builder.bitcast(value, ir().IntType(32))
        return builder.trunc(builder.lshr(bits, ir().IntType(32)(16)), memory_type(dtype))
    return value


def rounded(builder: IRBuilder, value: Any, dtype: str) -> Any:
    """A number of float32 rounded to a narrow type, to the even one of two; others as they are."""
    single, word = ir().FloatType(), ir().IntType(32)
    if dtype == "float16":
        return builder.fpext(builder.fptrunc(value, ir().HalfType()), single)
    if dtype == "bfloat16":
        bits = builder.bitcast(value, word)
        odd = builder.and_(builder.lshr(bits, word(16)), word(1))
        near = builder.add(builder.add(bits, word(0x7FFF)), odd)
        near = builder.and_(near, word(0xFFFF0000))
        # The sum may carry a NaN beyond the numbers.
        is_nan = builder.fcmp_unordered("uno", value, value)
        quiet = builder.or_(builder.and_(bits, word(0xFFFF0000)), word(0x00400000))
        return builder.bitcast(builder.select(is_nan, quiet, near), single)
    return value


def can_cast(source: str, target: str) -> bool:
    """True if there is code for a cast: not for one that would round twice."""
    return not (target in NARROW and source in ("float64", "int64", "uint64"))


def cast(builder: IRBuilder, value: Any, source: str, target: str) -> Any:
    """A number of one dtype as one of another, as NumPy casts."""
    kind = value_type(target)
    if target == "bool":
        zero = value.type(0)
        return (builder.fcmp_unordered("!=", value, zero) if source in FLOATS
                else builder.icmp_unsigned("!=", value, zero))
    if source in FLOATS and target in FLOATS:
        if value.type != kind:
            value = (builder.fpext if target == "float64" else builder.fptrunc)(value, kind)
        return rounded(builder, value, target)
    if target in FLOATS:
        is_signed = source.startswith("int")
        value = (builder.sitofp if is_signed else builder.uitofp)(value, kind)
        return rounded(builder, value, target)
    if source in FLOATS:
        if target == "uint64":
            return builder.fptoui(value, kind)
        wide = ir().IntType(64 if kind.width == 64 or target == "uint32" else 32)
        found = builder.fptosi(value, wide)
        return found if wide == kind else builder.trunc(found, kind)
    if value.type == kind:
        return value
    if value.type.width > kind.width:
        return builder.trunc(value, kind)
    return (builder.sext if source.startswith("int") else builder.zext)(value, kind)


# ---------------------------------------------------------------- functions


class _Numbers(NamedTuple):
    """What the functions are written with."""

    builder: IRBuilder
    dtype: str
    kind: Any

    @property
    def is_real(self) -> bool:
        """True for numbers with a fraction."""
        return self.dtype in FLOATS

    def number(self, value: float) -> Any:
        """A number of the type."""
        return self.kind(value if self.is_real else int(value))

    def compare(self, order: str, x: Any, y: Any) -> Any:
        """A truth value; a NaN is not equal to anything, and in no order."""
        b = self.builder
        if self.is_real:
            return (b.fcmp_unordered if order == "!=" else b.fcmp_ordered)(order, x, y)
        is_signed = self.dtype.startswith("int")
        return (b.icmp_signed if is_signed else b.icmp_unsigned)(order, x, y)


def _arithmetic(real: str, whole: str) -> Callable:
    def write(n: _Numbers, *operands: Any) -> Any:
        return getattr(n.builder, real if n.is_real else whole)(*operands)

    return write


def _order(order: str) -> Callable:
    return lambda n, x, y: n.compare(order, x, y)


def _rounding(name: str) -> Callable:
    return lambda n, x: intrinsic(n.builder, name, x)


def _chosen(order: str) -> Callable:
    """The first of two where they are in this order, or it is a NaN."""

    def write(n: _Numbers, x: Any, y: Any) -> Any:
        is_first = n.compare(order, x, y)
        if n.is_real:
            is_first = n.builder.or_(is_first, n.compare("!=", x, x))
        return n.builder.select(is_first, x, y)

    return write


def _absolute(n: _Numbers, x: Any) -> Any:
    if n.is_real:
        return intrinsic(n.builder, "llvm.fabs", x)
    return n.builder.select(n.compare("<", x, n.number(0)), n.builder.neg(x), x)


def _sign(n: _Numbers, x: Any) -> Any:
    """A NaN is its own."""
    b, zero = n.builder, n.number(0)
    found = b.select(n.compare("==", x, zero), zero, x)
    if not n.dtype.startswith("u"):
        found = b.select(n.compare("<", x, zero), n.number(-1), found)
    return b.select(n.compare(">", x, zero), n.number(1), found)


def _beside_infinity(order: str) -> Callable:
    return lambda n, x: n.compare(order, _absolute(n, x), n.number(float("inf")))


_WRITERS: dict[str, Callable] = {
    "add": _arithmetic("fadd", "add"), "subtract": _arithmetic("fsub", "sub"),
    "multiply": _arithmetic("fmul", "mul"), "negative": _arithmetic("fneg", "neg"),
    "divide": lambda n, x, y: n.builder.fdiv(x, y),
    "reciprocal": lambda n, x: n.builder.fdiv(n.number(1), x),
    "positive": lambda n, x: x,
    "square": lambda n, x: _WRITERS["multiply"](n, x, x),
    "absolute": _absolute, "sign": _sign, "maximum": _chosen(">="), "minimum": _chosen("<="),
    "isnan": lambda n, x: n.compare("!=", x, x), "isfinite": _beside_infinity("<"),
    "isinf": _beside_infinity("=="),
    "bitwise_and": lambda n, x, y: n.builder.and_(x, y),
    "bitwise_or": lambda n, x, y: n.builder.or_(x, y),
    "bitwise_xor": lambda n, x, y: n.builder.xor(x, y),
    "logical_and": lambda n, x, y: n.builder.and_(x, y),
    "logical_or": lambda n, x, y: n.builder.or_(x, y),
    "logical_not": lambda n, x: n.builder.not_(x),
    **{name: _order(order) for name, order in _ORDERS.items()},
    **{name: _rounding(name_) for name, name_ in _ROUNDINGS.items()},
}
