"""Lists of calls of BLAS and of NumPy's own loops, run over and over without the interpreter.

Where Numba is installed, one compiled function reads such a list and makes the calls; it takes no
lock of the interpreter, so that several threads run lists at the same time, each over rows of its
own. What is called is what ``np.dot`` and the ufuncs call: the bits are theirs, of a product only
for all rows at once, since the order in which a BLAS adds may follow from their number.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.host import blas
from hpcflow.loops import compiling, packed_gemm, parallel_for

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder

(UNARY, BINARY, CHOICE, PRODUCT, PRODUCT_DOUBLE, PANELS, ADDED_PRODUCT, ARRAY,
 PROGRAM) = range(9)
#: Of the table with the arrays of a program.
TABLE_WORDS = 32
_LOOPS = {("float32", 1): "f->f", ("float64", 1): "d->d",
          ("float32", 2): "ff->f", ("float64", 2): "dd->d"}


class Operand(NamedTuple):
    """Where a matrix lies: in iteration t, row r, column c at ``slots[slot, t] + offset + r * row +
    c * column`` (bytes)."""

    slot: int
    row: int
    column: int
    offset: int = 0


class Call(NamedTuple):
    """``made = f(first, second)`` over rows of `columns` elements; a choice is ``made = f(second)``
    in the rows where `first`, a byte for each, is `inner`. An added product is ``made += first^T
    second``, in a matrix for each part of the rows. A program (see ``llvm_code``) is called after
    its arrays: each is the `first` of a call, and `inner` its number.

    Attributes:
        kind: one of the above.
        function, data: addresses; of a product by panels (see ``packed_gemm``), how many registers
            wide these are, and 0; of an added product, the registers of a tile and the rows of a
            part.
        inner: of a product, the columns of `first`.
        addend: what is added to a product by panels, whose columns lie side by side.
        ufunc: the names of a ufunc and of its dtype.
    """

    kind: int
    function: int
    data: int
    columns: int
    inner: int
    first: Operand
    second: Operand
    made: Operand
    addend: Operand | None = None
    ufunc: tuple[str, str] | None = None

    def words(self) -> list[int]:
        """The call as the compiled function reads it."""
        operands = [self.first, self.made] if self.kind == UNARY else [
            self.first, self.second, self.made]
        is_whole = all(o.row == self.columns * o.column for o in operands)
        words = [self.kind, self.function, self.data, self.columns, self.inner, int(is_whole)]
        for operand in (self.first, self.second, self.made):
            words += [operand.slot, operand.offset, operand.row, operand.column]
        more = self.addend or Operand(-1, 0, 0)
        return [*words, more.slot, more.offset, more.row]


# ---------------------------------------------------------------- what is called


class _Ufunc(ctypes.Structure):
    """The beginning of NumPy's ``PyUFuncObject``."""

    _fields_ = [("head", ctypes.c_byte * object.__basicsize__),
                ("counts", ctypes.c_int * 3), ("identity", ctypes.c_int),
                ("functions", ctypes.POINTER(ctypes.c_void_p)),
                ("data", ctypes.POINTER(ctypes.c_void_p)), ("ntypes", ctypes.c_int),
                ("reserved", ctypes.c_int), ("name", ctypes.c_char_p),
                ("types", ctypes.POINTER(ctypes.c_char))]


@functools.lru_cache(maxsize=256)
def loop_of(ufunc: np.ufunc, dtype: str) -> tuple[int, int] | None:
    """The addresses of the loop of `ufunc` over `dtype`, and of its data; None if it has none."""
    form = _LOOPS.get((dtype, ufunc.nin))
    if form is None or ufunc.nout != 1 or form not in ufunc.types:
        return None
    found, index = _Ufunc.from_address(id(ufunc)), ufunc.types.index(form)
    counts = ufunc.nin, 1, ufunc.nin + 1
    if tuple(found.counts) != counts or found.name != ufunc.__name__.encode() or (
            found.ntypes != ufunc.ntypes):
        return None
    address = found.functions[index]
    return None if not address else (address, found.data[index] or 0)


class _Products(NamedTuple):
    single: int
    double: int
    has_wide_integers: bool


@functools.lru_cache(maxsize=1)
def _products() -> _Products | None:
    """The products of NumPy's OpenBLAS."""
    for path in blas.loaded_libraries("openblas"):
        if "scipy.libs" in path:
            continue
        library = ctypes.CDLL(path)
        for single, double in zip(*map(blas.openblas_names, ("cblas_sgemm", "cblas_dgemm"))):
            if hasattr(library, single) and hasattr(library, double):
                return _Products(_address(getattr(library, single)),
                                 _address(getattr(library, double)),
                                 single.endswith(("64_", "_64")))
    return None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def product_of(dtype: str) -> tuple[int, int] | None:
    """The kind of a product of matrices of `dtype`, and its address; None if there is none."""
    found = _products()
    if found is None or dtype not in ("float32", "float64"):
        return None
    return (PRODUCT, found.single) if dtype == "float32" else (PRODUCT_DOUBLE, found.double)


# ---------------------------------------------------------------- the compiled function

_STEPS = 7
SCRATCH = _STEPS + TABLE_WORDS
#: How ``spread.run`` hands the function's arguments to it.
USES = (parallel_for.WHOLE * 2 + parallel_for.ROWS + parallel_for.WHOLE + parallel_for.START
        + parallel_for.STOP)

_PRODUCT = """(function, flip, rows, columns, calls[c, 4], first, calls[c, 8] // calls[c, 9],
                       second, ahead, made, calls[c, 16] // calls[c, 17])
"""
_SOURCE = f"""def loop(calls, slots, scratch, count, start, stop):
    given, steps, size = scratch[0, :3], scratch[0, 3:6], scratch[0, 6:{_STEPS}]
    table = scratch[0, {_STEPS}:]
    rows = stop - start
    for t in range(count):
        for c in range(calls.shape[0]):
            kind, function, data, columns = calls[c, 0], calls[c, 1], calls[c, 2], calls[c, 3]
            first = slots[calls[c, 6], t] + calls[c, 7] + start * calls[c, 8]
            second = slots[calls[c, 10], t] + calls[c, 11]
            made = slots[calls[c, 14], t] + calls[c, 15] + start * calls[c, 16]
            if kind == {ARRAY}:
                table[calls[c, 4]] = first
                continue
            if kind == {PROGRAM}:
                apply(function, table.ctypes.data, rows, 0, 0)
                continue
            if kind == {PANELS}:
                addend = 0
                if calls[c, 18] >= 0:
                    addend = slots[calls[c, 18], t] + calls[c, 19] + start * calls[c, 20]
                panels(rows, columns, calls[c, 4], function,
                       first, calls[c, 8] // calls[c, 9], second, made,
                       calls[c, 16] // calls[c, 17], addend, calls[c, 20] // calls[c, 17])
                continue
            if kind == {ADDED_PRODUCT}:
                made = (slots[calls[c, 14], t]
                        + start // data * calls[c, 4] * columns * calls[c, 17])
                add(calls[c, 4], columns, rows, function, first, calls[c, 8] // calls[c, 9],
                    second + start * calls[c, 12], calls[c, 12] // calls[c, 13], made, columns)
                continue
            if kind >= {PRODUCT}:
                flip = calls[c, 12] < calls[c, 13]
                ahead = max(calls[c, 12], calls[c, 13]) // calls[c, 17]
                if kind == {PRODUCT}:
                    single{_PRODUCT}
                else:
                    double{_PRODUCT}
                continue
            second += start * calls[c, 12]
            if kind == {CHOICE}:
                size[0], steps[0], steps[1] = columns, calls[c, 13], calls[c, 17]
                for r in range(rows):
                    if byte(first + r * calls[c, 8]) == calls[c, 4]:
                        given[0], given[1] = second + r * calls[c, 12], made + r * calls[c, 16]
                        apply(function, given.ctypes.data, size.ctypes.data, steps.ctypes.data,
                              data)
                continue
            size[0] = rows * columns if calls[c, 5] else columns
            last = 1 if kind == {UNARY} else 2
            steps[0], steps[1], steps[last] = calls[c, 9], calls[c, 13], calls[c, 17]
            for r in range(1 if calls[c, 5] else rows):
                given[0], given[1] = first + r * calls[c, 8], second + r * calls[c, 12]
                given[last] = made + r * calls[c, 16]
                apply(function, given.ctypes.data, size.ctypes.data, steps.ctypes.data, data)
"""


class _Runner(compiling.Loop):
    """The function for `jit`: ``loop(calls, slots, scratch, count, start, stop)`` makes all `calls`
    of `count` iterations for the rows from `start` to `stop`; `scratch` has
    `SCRATCH` words for each of them. The BLAS that it calls may count in integers of 64 bits."""

    def __init__(self, has_wide_integers: bool) -> None:
        self.has_wide_integers = has_wide_integers
        self.key = f"{64 if has_wide_integers else 32}", _SOURCE

    def typed(self) -> Any:
        """See `jit.Loop`."""
        single, double = (_multiplication(name, self.has_wide_integers)
                          for name in ("FloatType", "DoubleType"))
        return compiling.typed_text(_SOURCE, _signature, apply=application(), byte=_byte(),
                              single=single, double=double, panels=packed_gemm.compiled(),
                              add=packed_gemm.compiled_addition())


def runner() -> compiling.Compiled | None:
    """Return the function that runs lists, once it is compiled; None where nothing could be
    called."""
    found = _products() if compiling.enabled() else None
    return None if found is None else compiling.compiled(_Runner(found.has_wide_integers))


def _signature(types: Any) -> tuple:
    return (types.Array(types.int64, 2, "C"), types.Array(types.int64, 2, "C"),
            types.Array(types.int64, 2, "C"), *[types.int64] * 3)


def application() -> Callable:
    """For compiled loops: ``apply(function, arrays, size, steps, data)`` of addresses."""
    ir = importlib.import_module("llvmlite.ir")
    number = ir.IntType(64)
    kind = ir.FunctionType(ir.VoidType(), [number] * 4)

    def generate(builder: IRBuilder, arguments: Any) -> None:
        function = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(function, arguments[1:])

    return _intrinsic(generate, 5)


def _byte() -> Callable:
    """For compiled loops: the byte at an address, as a whole number."""
    import numba

    ir = importlib.import_module("llvmlite.ir")

    def generate(_context: object, builder: IRBuilder, _: object, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(place), ir.IntType(64))

    signature = numba.types.int64(numba.types.int64)
    return numba.extending.intrinsic(lambda _, address: (signature, generate))


# Of the C interface of BLAS: the order of elements, and whether a factor is transposed.
_BY_ROWS, _AS_IT_IS, _FLIPPED = 101, 111, 112


def _multiplication(real_type: str, has_wide_integers: bool) -> Callable:
    """For compiled loops: a product by an address, a flag for a transposed second factor, rows,
    columns, inner size, and three times an address and the elements from row to row."""
    ir = importlib.import_module("llvmlite.ir")
    number, choice, real = ir.IntType(64), ir.IntType(32), getattr(ir, real_type)()
    count = number if has_wide_integers else choice
    matrix = [number, count]
    kind = ir.FunctionType(ir.VoidType(), [choice] * 3 + [count] * 3 + [
        real, *matrix, *matrix, real, *matrix])

    def generate(builder: IRBuilder, arguments: Any) -> None:
        address, flip, *given = arguments
        function = builder.inttoptr(address, kind.as_pointer())
        rows, columns, inner, one, ahead_one, other, ahead_other, made, ahead_made = [
            builder.trunc(g, count) if i in (0, 1, 2, 4, 6, 8) and not has_wide_integers else g
            for i, g in enumerate(given)]
        flipped = builder.select(builder.trunc(flip, ir.IntType(1)), choice(_FLIPPED),
                                 choice(_AS_IT_IS))
        builder.call(function, [
            choice(_BY_ROWS), choice(_AS_IT_IS), flipped, rows, columns, inner, real(1.0), one,
            ahead_one, other, ahead_other, real(0.0), made, ahead_made])

    return _intrinsic(generate, 11)


def _intrinsic(generate: Callable, count: int) -> Callable:
    """A function of `count` whole numbers, for compiled loops."""
    import numba

    signature = numba.types.void(*[numba.types.int64] * count)

    def emit(context: Any, builder: IRBuilder, _: object, arguments: Any) -> Any:
        generate(builder, arguments)
        return context.get_dummy_value()

    names = ", ".join(f"n{i}" for i in range(count))
    scope: dict[str, Any] = {"signature": signature, "emit": emit}
    exec(f"def typed(context, {names}):\n    return signature, emit\n", scope)
    return numba.extending.intrinsic(scope["typed"])
