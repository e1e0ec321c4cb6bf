"""Machine code of element-wise programs, by LLVM alone: Numba would take ten times as long."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import FLAT, Array, Code, Integer, Kind, Real

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module, Type, Value


def code_of(name: str, dtype: str, arrays: int, scalars: int, steps: Sequence,
            stores: Sequence) -> Code:
    """The code of a `loops.Program` of these arguments; for `name` see `direct_code.code_from`."""

    def body_in(module: Module) -> _Body:
        body = _Body(module, dtype, arrays, scalars, {array for array, _ in stores})
        body.write(steps, stores)
        return body

    return code_from(name, body_in)


def number_type(dtype: str) -> Any:
    """LLVM's type of an element."""
    ir, is_wide = importlib.import_module("llvmlite.ir"), dtype.endswith("64")
    if dtype.startswith("float"):
        return ir.DoubleType() if is_wide else ir.FloatType()
    return ir.IntType(64 if is_wide else 32)


def calculation(dtype: str) -> Callable:
    """Return the generator of the code for ufuncs of the elements: to be called with a builder and
    the type of numbers, or of vectors of them."""
    return _Reals if dtype.startswith("float") else _Integers


class _Body:
    """See `entries.Body`."""

    def __init__(self, module: Module, dtype: str, arrays: int, scalars: int,
                 stored: set[str]) -> None:
        self.ir = importlib.import_module("llvmlite.ir")
        is_real = dtype.startswith("float")
        self.count = arrays
        number = Real(dtype) if is_real else Integer(dtype)
        self.kinds: list[Kind] = [Array(dtype, FLAT, f"a{i}" in stored) for i in range(arrays)]
        self.kinds += [number] * scalars
        self.number, self.calculation = number_type(dtype), calculation(dtype)
        self.word = self.ir.IntType(64)
        given = [self.number.as_pointer()] * arrays + [self.word] + [self.number] * scalars
        self.function = self.ir.Function(
            module, self.ir.FunctionType(self.ir.VoidType(), given), "loop")
        self.function.linkage = "internal"

    def array(self, builder: IRBuilder, index: int, address: Value, dims: Sequence) -> Any:
        """The first element and the size."""
        return builder.inttoptr(address, self.number.as_pointer()), dims[0]

    def several(self, builder: IRBuilder, kind: object, parts: Sequence) -> Any:
        """Refuse tuples: such a loop takes none."""
        raise NotImplementedError

    def call(self, builder: IRBuilder, values: Sequence) -> Any:
        """See `entries.Body`."""
        arrays, scalars = values[: self.count], values[self.count :]
        builder.call(self.function, [*[a for a, _ in arrays], arrays[0][1], *scalars])
        return self.ir.IntType(1)(0), None

    def write(self, steps: Sequence, stores: Sequence) -> None:
        """Write the loop over the elements of the first array."""
        builder = self.ir.IRBuilder(self.function.append_basic_block())
        start, size = builder.block, self.function.args[self.count]
        loop, end = [self.function.append_basic_block() for _ in range(2)]
        builder.cbranch(builder.icmp_signed(">", size, self.word(0)), loop, end)
        builder.position_at_end(loop)
        index = builder.phi(self.word)
        index.add_incoming(self.word(0), start)
        self._write_element(builder, index, steps, stores)
        following = builder.add(index, self.word(1), flags=("nuw", "nsw"))
        index.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, size), loop, end)
        builder.position_at_end(end)
        builder.ret_void()

    def _write_element(self, builder: IRBuilder, index: Value, steps: Sequence,
                       stores: Sequence) -> None:
        arrays, scalars = self.function.args[: self.count], self.function.args[self.count + 1 :]
        places = {f"a{i}": builder.gep(a, [index], inbounds=True) for i, a in enumerate(arrays)}
        values = {f"s{i}": s for i, s in enumerate(scalars)}
        read = {name for _, _, names in steps for name in names} | {name for _, name in stores}
        values |= {n: builder.load(place) for n, place in places.items() if n in read}
        calculate = self.calculation(builder, self.number)
        for target, ufunc, names in steps:
            values[target] = getattr(calculate, ufunc)(*[values[n] for n in names])
        for array, name in stores:
            builder.store(values[name], places[array])


class _Numbers:
    """A generator of code that does what NumPy's ufuncs of these names do, to the last bit."""

    def __init__(self, builder: IRBuilder, number: Type) -> None:
        """`number` is the type of what is computed with: a number, or a vector of them."""
        self.builder = builder
        self.number = number

    def square(self, x: Value) -> Any:
        return self.multiply(x, x)  # type: ignore[attr-defined]

    def maximum(self, x: Value, y: Value) -> Any:
        return self._chosen(x, y, ">=")

    def minimum(self, x: Value, y: Value) -> Any:
        return self._chosen(x, y, "<=")

    def _chosen(self, x: Value, y: Value, relation: str) -> Any:
        raise NotImplementedError


class _Integers(_Numbers):
    def add(self, x: Any, y: Value) -> Any:
        return self.builder.add(x, y)

    def subtract(self, x: Value, y: Value) -> Any:
        return self.builder.sub(x, y)

    def multiply(self, x: Value, y: Value) -> Any:
        return self.builder.mul(x, y)

    def negative(self, x: Value) -> Any:
        return self.builder.neg(x)

    def _chosen(self, x: Value, y: Value, relation: str) -> Any:
        return self.builder.select(self.builder.icmp_signed(relation, x, y), x, y)


class _Reals(_Numbers):
    def add(self, x: Any, y: Value) -> Any:
        return self.builder.fadd(x, y)

    def subtract(self, x: Value, y: Value) -> Any:
        return self.builder.fsub(x, y)

    def multiply(self, x: Value, y: Value) -> Any:
        return self.builder.fmul(x, y)

    def divide(self, x: Value, y: Value) -> Any:
        return self.builder.fdiv(x, y)

    true_divide = divide

    def negative(self, x: Value) -> Any:
        return self.builder.fneg(x)

    def reciprocal(self, x: Value) -> Any:
        return self.builder.fdiv(self._constant(1.0), x)

    def sqrt(self, x: Value) -> Any:
        return self._intrinsic("llvm.sqrt", x)

    def absolute(self, x: Value) -> Any:
        return self._intrinsic("llvm.fabs", x)

    def sign(self, x: Value) -> Any:
        """A NaN is its own."""
        builder, zero = self.builder, self._constant(0.0)
        found = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)
        found = builder.select(builder.fcmp_ordered("<", x, zero), self._constant(-1.0), found)
        return builder.select(builder.fcmp_ordered(">", x, zero), self._constant(1.0), found)

    def _chosen(self, x: Value, y: Value, relation: str) -> Any:
        """A NaN is chosen, the first one of two."""
        builder = self.builder
        is_first = builder.or_(builder.fcmp_ordered(relation, x, y),
                               builder.fcmp_unordered("!=", x, x))
        return builder.select(is_first, x, y)

    def _constant(self, value: float) -> Any:
        """The number, or a vector of it."""
        count = getattr(self.number, "count", 0)
        return self.number([value] * count if count else value)

    def _intrinsic(self, name: str, x: Value) -> Any:
        ir = importlib.import_module("llvmlite.ir")
        count = getattr(self.number, "count", 0)
        element = self.number.element if count else self.number
        of = f"{name}.{f'v{count}' if count else ''}{element.intrinsic_name}"
        function = self.builder.module.declare_intrinsic(
            of, (), ir.FunctionType(self.number, [self.number]))
        return self.builder.call(function, [x])
