"""Writes programs by running kernels: an array module whose arrays are values of a program.

So an op has one definition, its kernel over the array module, whatever runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.loops.form import Builder
from hpcflow.loops.meanings import INTEGERS, MEANINGS, SYNONYMS, numpy_dtype


class UntraceableError(Exception):
    """A kernel does what a program cannot."""


class Traced:
    """An array of which an element is a value of a program; it may be written into (``out=``)."""

    __slots__ = ("tracer", "value", "type_name")
    __array_ufunc__ = None  # NumPy's functions refuse it
    __hash__ = None  # type: ignore[assignment]
    ndim = 1

    def __init__(self, tracer: Tracer, value: int | None, type_name: str) -> None:
        self.tracer = tracer
        self.value = value
        self.type_name = type_name

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return numpy_dtype(self.type_name)

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        """The elements as ones of another type."""
        name = np.dtype(dtype).name
        return self.tracer.of(self.tracer.builder.cast(self.number(), name))

    def conj(self) -> Traced:
        """Itself: there are no complex values."""
        return self

    def __getitem__(self, key: Any) -> Traced:
        """Itself, where all of it is asked for."""
        if key not in ((), ...):
            raise UntraceableError("takes parts")
        return self

    def number(self) -> int:
        """The value; raises if nothing was written yet."""
        if self.value is None:
            raise UntraceableError("reads what was not written")
        return self.value

    def __bool__(self) -> bool:
        raise UntraceableError("asks for the value")


def _operator(function: str, swapped: bool = False) -> Callable:
    def apply(self: Traced, other: Any) -> Traced:
        pair = (other, self) if swapped else (self, other)
        return self.tracer.apply(function, pair)

    return apply


for _name, _function in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                         ("truediv", "divide"), ("pow", "power"), ("and", "bitwise_and"),
                         ("or", "bitwise_or")):
    setattr(Traced, f"__{_name}__", _operator(_function))
    setattr(Traced, f"__r{_name}__", _operator(_function, swapped=True))
for _name, _function in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                         ("ge", "greater_equal"), ("eq", "equal"), ("ne", "not_equal")):
    setattr(Traced, f"__{_name}__", _operator(_function))
setattr(Traced, "__neg__", lambda self: self.tracer.apply("negative", (self,)))  # noqa: B010
setattr(Traced, "__invert__", lambda self: self.tracer.apply("logical_not", (self,)))  # noqa: B010


class Tracer:
    """The array module."""

    ndarray = Traced

    def __init__(self, builder: Builder) -> None:
        self.builder = builder

    def of(self, value: int) -> Traced:
        """The array of a value."""
        return Traced(self, value, self.builder.dtype(value))

    def empty_like(self, array: Traced) -> Traced:
        """An array to write into."""
        return Traced(self, None, array.type_name)

    def __getattr__(self, name: str) -> Any:
        if SYNONYMS.get(name, name) in MEANINGS:
            count = 1 + ("{1}" in MEANINGS[SYNONYMS.get(name, name)].cuda)
            return lambda *given, out=None: self._call(name, count, given, out)
        found = getattr(np, name, None)
        if isinstance(found, type) and issubclass(found, np.generic):
            return found
        raise UntraceableError(f"calls {name}")

    def where(self, test: Any, x: Any, y: Any) -> Traced:
        """`x` where the test is true, else `y`."""
        if not isinstance(test, Traced) or test.type_name != "bool":
            raise UntraceableError("tests a number")
        x, y = self._alike((x, y))
        return self.of(self.builder.select(test.number(), x, y))

    def _call(self, name: str, count: int, given: tuple, out: Any) -> Traced:
        if len(given) not in (count, count + 1):
            raise UntraceableError(f"calls {name} with {len(given)} arrays")
        target = given[count] if len(given) > count else out
        found = self.apply(name, given[:count])
        if target is None:
            return found
        if not isinstance(target, Traced):
            raise UntraceableError("writes into an array of its own")
        target.value = self.builder.cast(found.number(), target.type_name)
        return target

    def apply(self, name: str, operands: tuple) -> Traced:
        """An element-wise function of arrays and numbers."""
        name = SYNONYMS.get(name, name)
        meaning = MEANINGS[name]
        values = self._alike(operands)
        dtype = self.builder.dtype(values[0])
        if dtype not in meaning.types:
            if meaning.types == {"bool"} and name != "logical_not":
                values = [self.builder.cast(v, "bool") for v in values]
            else:
                raise UntraceableError(f"calls {name} of {dtype}")
        return self.of(self.builder.apply(name, *values))

    def _alike(self, operands: tuple) -> list[int]:
        """The operands as values of one dtype, by NumPy's rules."""
        typed = [o for o in operands if isinstance(o, (Traced, np.generic))]
        if not typed:
            raise UntraceableError("computes with numbers alone")
        dtype = np.result_type(*[o.dtype for o in typed])
        weak = [o for o in operands if not isinstance(o, (Traced, np.generic))]
        if any(not isinstance(o, (bool, int, float)) for o in weak) or (
                dtype.name in INTEGERS and any(isinstance(o, float) for o in weak)):
            raise UntraceableError("computes with numbers of another kind")
        name = "bool" if dtype == np.bool_ else dtype.name
        return [self._as(o, name) for o in operands]

    def _as(self, operand: Any, dtype: str) -> int:
        if isinstance(operand, Traced):
            return self.builder.cast(operand.number(), dtype)
        number = operand.item() if isinstance(operand, np.generic) else operand
        return self.builder.constant(number, dtype)


class TracedDevice:
    """The device that kernels see that are traced."""

    type = "GPU"
    has_own_memory = True
    resources = None

    def __init__(self, tracer: Tracer) -> None:
        self.xp = tracer

    def special(self, name: str) -> Callable[..., Any]:
        """The function of the table of meanings that SciPy calls so."""
        if name not in MEANINGS:
            raise UntraceableError(f"calls {name}")
        return lambda *operands: self.xp.apply(name, operands)
