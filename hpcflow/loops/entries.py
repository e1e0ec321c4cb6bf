"""Functions around compiled loops that Python calls.

Around a loop two functions are made that Python calls with the loop's own arguments, in the way of
CPython's C interface: they read arrays and numbers from the objects, let the interpreter go, and
call the loop. The first does just that. The second keeps the arguments in a
table, and lets a team of OpenMP's threads call the loop for blocks of rows that they take from a
counter.

What is read of an array are the fields of NumPy's ``PyArrayObject``, whose places the processes
that load the code check first (:mod:`hpcflow.loops.objects`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module, Type, Value

#: Names of the functions, before the name of the code. Those of programs over arrays alone have a
#: third one for other compiled loops: see `llvm_code`.
CALL, SPREAD, TABLE = "call_", "spread_", "table_"
#: What the loader knows objects by.
ARRAY_TYPE, NONE, TYPE_ERROR = [
    f"hpcflow_{name}" for name in ("array_type", "none", "type_error")]

#: The size of the head of an object.
HEAD = object.__basicsize__
# Bytes from the end of an object's head to what NumPy keeps of an array, and of an element type.
DATA, RANK, DIMS, ELEMENT, FLAGS = 0, 8, 16, 40, 48
ORDER, NUMBER = 10, 12
# Of the flags: in C order, in machine order of bytes and at fit addresses, and writable.
_IN_ORDER, _FIT, _WRITABLE = 0x1, 0x100, 0x400
_SWAPPED = ord(">")
# NumPy's numbers of element types; two of them have the same layout where C has two names.
_NUMBERS = {"bool": (0,), "int8": (1,), "uint8": (2,), "int16": (3,), "uint16": (4,),
            "int32": (5,), "uint32": (6,), "int64": (7, 9), "uint64": (8, 10),
            "float32": (11,), "float64": (12,)}

# Of the table of a team: the next row, the threads that have come and that may work, all rows and
# those of a block. The arguments follow: of an array its address, the bytes from row to row if it
# is cut, and its dims; of a whole number itself, and how often the first row and the end of the
# block are added to it; of a real number its bits.
_NEXT, _COME, _SIZE, _ROWS, _STEP, _FIRST = range(6)
_BEFORE = 7  # arguments of the second function before those of the loop


PLACE = -1


class Array(NamedTuple):
    """An array in C order, of `rank` dimensions; or of any number if that is `PLACE`, of which the
    loop is told only where it lies, all of it."""

    dtype: str
    rank: int
    is_written: bool

    @property
    def dims(self) -> int:
        """The number of dimensions that the loop is given."""
        return max(self.rank, 0)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.dtype).itemsize


class Real(NamedTuple):
    """A floating-point number."""

    dtype: str


class Integer(NamedTuple):
    """A whole number, with its sign."""

    dtype: str


Kind: TypeAlias = "Array | Real | Integer"


class Body(Protocol):
    """A loop in a module of LLVM's, to be called there."""

    @property
    def kinds(self) -> Sequence[Kind]:
        """The kinds of the arguments."""

    def array(self, builder: IRBuilder, index: int, address: object, dims: Sequence) -> Any:
        """An array, given as words, as the value of an argument."""

    def call(self, builder: IRBuilder, values: Sequence) -> Any:
        """Call the loop; the word that it returns, or None."""


class Code(NamedTuple):
    """Machine code.

    Attributes:
        name: of the code, which its functions' names end with.
        text: an object file.
    """

    name: str
    text: bytes


def target_machine() -> Any:
    """LLVM's description of this machine, for code that is loaded into a process."""
    binding = importlib.import_module("llvmlite.binding")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        opt=3, cpu=binding.get_host_cpu_name(), reloc="default", codemodel="jitdefault", jit=True,
        features=binding.get_host_cpu_features().flatten())


class Writer:
    """Writes the functions around a loop into a module of LLVM's.

    Args:
        module: of ``llvmlite.ir``, with the loop.
        body: calls the loop.
    """

    def __init__(self, module: Module, body: Body) -> None:
        self.ir = importlib.import_module("llvmlite.ir")
        self.module = module
        self.body = body
        self.kinds = body.kinds
        self.word, self.small = self.ir.IntType(64), self.ir.IntType(32)
        self.byte = self.ir.IntType(8)
        self.pointer = self.byte.as_pointer()
        self.double = self.ir.DoubleType()

    def write(self, name: str) -> None:
        """Write the functions for code of this name."""
        self._begin(CALL + name, 0)
        values = self._values(0)
        self._return(self._without_interpreter(lambda: self.body.call(self.builder, values)))
        places, size = self._places()
        part = self._part("part_" + name, places)
        self._begin(SPREAD + name, _BEFORE)
        team, threads, *numbers = [self._integer(self._object(i)) for i in range(_BEFORE)]
        table = self.builder.alloca(self.word, size=size)
        self._fill(table, places, numbers, self._values(_BEFORE, as_words=True))
        self._without_interpreter(lambda: self._parallel(team, threads, part, table))
        self._return(None)

    # ------------------------------------------------------------ functions of the interpreter

    def _begin(self, name: str, before: int) -> None:
        """A function ``name(self, objects, count)``, as ``METH_FASTCALL`` wants it."""
        ir = self.ir
        kind = ir.FunctionType(self.pointer, [self.pointer, self.pointer, self.word])
        function = ir.Function(self.module, kind, name)
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.objects = self.builder.ptrtoint(function.args[1], self.word)
        expected = before + len(self.kinds)
        self._refuse(self.builder.icmp_signed("!=", function.args[2], self.word(expected)),
                     f"a compiled loop takes {expected} arguments")

    def _without_interpreter(self, work: Callable[[], Any]) -> Any:
        """Generate the code of the work between releasing and taking the interpreter's lock; return
        its result."""
        state = self.builder.call(self._c_function("PyEval_SaveThread", self.pointer), [])
        result = work()
        restore = self._c_function("PyEval_RestoreThread", self.ir.VoidType(), self.pointer)
        self.builder.call(restore, [state])
        return result

    def _return(self, word: Any) -> None:
        if word is not None:
            make = self._c_function("PyLong_FromLongLong", self.pointer, self.word)
            self.builder.ret(self.builder.call(make, [word]))
            return
        none = self._thing(NONE)
        self.builder.call(self._c_function("Py_IncRef", self.ir.VoidType(), self.pointer), [none])
        self.builder.ret(none)

    def _c_function(self, name: str, returned: Type, *given: Any) -> Any:
        found = self.module.globals.get(name)
        if found is None:
            found = self.ir.Function(self.module, self.ir.FunctionType(returned, given), name)
        return found

    def _thing(self, name: str) -> Any:
        """An object that the loader knows."""
        found = self.module.globals.get(name)
        if found is None:
            found = self.ir.GlobalVariable(self.module, self.byte, name)
            found.linkage = "external"
        return self.builder.bitcast(found, self.pointer)

    def _refuse(self, is_wrong: Value, message: str) -> None:
        """Return with an error if something is wrong."""
        builder = self.builder
        with builder.if_then(is_wrong, likely=False):
            error = self._thing(TYPE_ERROR)
            text = self._text(message)
            function = self._c_function(
                "PyErr_SetString", self.ir.VoidType(), self.pointer, self.pointer)
            builder.call(function, [error, builder.bitcast(text, self.pointer)])
            builder.ret(self.pointer(None))

    def _text(self, message: str) -> Any:
        """A string of C."""
        data = bytearray(message.encode() + b"\0")
        value = self.ir.Constant(self.ir.ArrayType(self.byte, len(data)), data)
        text = self.ir.GlobalVariable(
            self.module, value.type, self.module.get_unique_name("message"))
        text.initializer, text.global_constant, text.linkage = value, True, "internal"
        return text

    # ------------------------------------------------------------ from objects to values

    def _values(self, before: int, as_words: bool = False) -> list:
        """Return the arguments of the loop, of the objects after the first ones: values of the
        body's, or lists of words of a table."""
        return [self._value(kind, self._object(before + i), i, as_words)
                for i, kind in enumerate(self.kinds)]

    def _object(self, index: int) -> Any:
        return self._load(self.objects, 8 * index, self.word)

    def _load(self, address: Value, offset: int, kind: Type) -> Any:
        place = self.builder.add(address, self.word(offset))
        return self.builder.load(self.builder.inttoptr(place, kind.as_pointer()))

    def _pointer(self, address: Value) -> Any:
        return self.builder.inttoptr(address, self.pointer)

    def _value(self, kind: Kind, thing: Value, index: int, as_words: bool) -> Any:
        if isinstance(kind, Array):
            address, dims = self._array(kind, thing, index)
            return [address, *dims] if as_words else self.body.array(
                self.builder, index, address, dims)
        if isinstance(kind, Real):
            found = self._real(thing)
            return [self.builder.bitcast(found, self.word)] if as_words else self._as(kind, found)
        found = self._integer(thing)
        return [found] if as_words else self._as(kind, found)

    def _as(self, kind: Real | Integer, value: Value) -> Any:
        """A word or a double as the narrower `kind`."""
        bits = 8 * np.dtype(kind.dtype).itemsize
        if isinstance(kind, Real):
            return value if bits == 64 else self.builder.fptrunc(value, self.ir.FloatType())
        return value if bits == 64 else self.builder.trunc(value, self.ir.IntType(bits))

    def _integer(self, thing: Value) -> Any:
        return self._number(thing, "PyLong_AsLongLong", self.word,
                            lambda value: self.builder.icmp_signed("==", value, self.word(-1)))

    def _real(self, thing: Value) -> Any:
        return self._number(thing, "PyFloat_AsDouble", self.double,
                            lambda value: self.builder.fcmp_ordered("==", value, self.double(-1)))

    def _number(self, thing: Value, name: str, kind: Type, may_have_failed: Callable) -> Any:
        builder = self.builder
        value = builder.call(self._c_function(name, kind, self.pointer),
                             [builder.inttoptr(thing, self.pointer)])
        with builder.if_then(may_have_failed(value), likely=False):
            error = builder.call(self._c_function("PyErr_Occurred", self.pointer), [])
            with builder.if_then(builder.icmp_unsigned("!=", error, self.pointer(None))):
                builder.ret(self.pointer(None))
        return value

    def _array(self, kind: Array, thing: Value, index: int) -> tuple[Any, list]:
        """The address of an array's elements, and its dims."""
        self._check_type(thing, index)
        builder = self.builder
        rank = self._load(thing, HEAD + RANK, self.small)
        flags = self._load(thing, HEAD + FLAGS, self.small)
        element = self._load(thing, HEAD + ELEMENT, self.word)
        number = self._load(element, HEAD + NUMBER, self.small)
        needed = _IN_ORDER | _FIT | (_WRITABLE if kind.is_written else 0)
        is_known = [builder.icmp_signed("==", number, self.small(n))
                    for n in _NUMBERS[kind.dtype]]
        order = self._load(element, HEAD + ORDER, self.byte)
        fits = [builder.icmp_signed("==", builder.and_(flags, self.small(needed)),
                                    self.small(needed)),
                is_known[0] if len(is_known) == 1 else builder.or_(*is_known),
                builder.icmp_signed("!=", order, self.byte(_SWAPPED))]
        if kind.rank >= 0:
            fits.append(builder.icmp_signed("==", rank, self.small(kind.rank)))
        all_fit = fits[0]
        for one in fits[1:]:
            all_fit = builder.and_(all_fit, one)
        self._refuse(builder.not_(all_fit), f"argument {index} of a compiled loop is not an array "
                     f"in C order of {kind.dtype}"
                     + ("" if kind.rank < 0 else f" with {kind.rank} dimensions"))
        address, dims = [self._load(thing, HEAD + place, self.word) for place in (DATA, DIMS)]
        if kind.rank == PLACE:
            return address, []
        return address, [self._load(dims, 8 * d, self.word) for d in range(kind.rank)]

    def _check_type(self, thing: Value, index: int) -> None:
        builder = self.builder
        kind = self._load(thing, HEAD - 8, self.word)
        array = self._thing(ARRAY_TYPE)
        is_other = builder.icmp_unsigned("!=", kind, builder.ptrtoint(array, self.word))
        with builder.if_then(is_other, likely=False):
            inherits = builder.call(
                self._c_function("PyType_IsSubtype", self.small, self.pointer, self.pointer),
                [self._pointer(kind), array])
            self._refuse(builder.icmp_signed("==", inherits, self.small(0)),
                         f"argument {index} of a compiled loop is not an array")

    # ------------------------------------------------------------ the table of a team

    def _places(self) -> tuple[list[int], int]:
        """Where the table has each argument, and its size."""
        places, size = [], _FIRST
        for kind in self.kinds:
            places.append(size)
            if isinstance(kind, Array):
                size += 2 + kind.dims if kind.dims else 1
            else:
                size += 1 if isinstance(kind, Real) else 3
        return places, size

    def _fill(self, table: Value, places: Sequence[int], numbers: Sequence,
              values: Sequence) -> None:
        """Write the table; `numbers` are size, rows, step, and the bits of the arguments that the
        first row, and the end, of a block are added to."""
        builder, word = self.builder, self.word
        size, rows, step, firsts, stops = numbers
        start = builder.ptrtoint(table, word)
        for place, value in ((_NEXT, word(0)), (_COME, word(0)), (_SIZE, size), (_ROWS, rows),
                             (_STEP, step)):
            self._store(start, place, value)
        for i, (kind, place, words) in enumerate(zip(self.kinds, places, values)):
            first, stop = [builder.and_(builder.lshr(bits, word(i)), word(1))
                           for bits in (firsts, stops)]
            if isinstance(kind, Array) and kind.dims:
                address, *dims = words
                row = word(kind.item)
                for dim in dims[1:]:
                    row = builder.mul(row, dim)
                words = [address, builder.mul(first, row),
                         builder.select(builder.trunc(first, self.ir.IntType(1)), word(-1),
                                        dims[0]), *dims[1:]]
            elif isinstance(kind, Integer):
                kept = builder.sub(builder.sub(word(1), first), stop)
                words = [builder.mul(words[0], kept), first, stop]
            for k, value in enumerate(words):
                self._store(start, place + k, value)

    def _store(self, table: Value, place: int, value: Value) -> None:
        at = self.builder.add(table, self.word(8 * place))
        self.builder.store(value, self.builder.inttoptr(at, self.word.as_pointer()))

    def _parallel(self, team: Value, threads: Value, part: Value, table: Value) -> None:
        """Call OpenMP's function, whose address is `team`."""
        builder = self.builder
        kind = self.ir.FunctionType(
            self.ir.VoidType(), [self.pointer, self.pointer, self.small, self.small])
        builder.call(builder.inttoptr(team, kind.as_pointer()), [
            builder.bitcast(part, self.pointer), builder.bitcast(table, self.pointer),
            builder.trunc(threads, self.small), self.small(0)])

    def _part(self, name: str, places: Sequence[int]) -> Any:
        """``name(table)``: what each thread of a team does, blocks until there are no more."""
        ir, word = self.ir, self.word
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [self.pointer]), name)
        function.linkage = "internal"
        builder = self.builder = ir.IRBuilder(function.append_basic_block())
        table = builder.ptrtoint(function.args[0], word)

        def take(place: int, count: Value) -> Any:
            at = builder.add(table, word(8 * place))
            return builder.atomic_rmw("add", builder.inttoptr(at, word.as_pointer()), count,
                                      "monotonic")

        def end_unless(is_less: Value) -> None:
            with builder.if_then(builder.not_(is_less)):
                builder.ret_void()

        size, rows, step = [self._load(table, 8 * p, word) for p in (_SIZE, _ROWS, _STEP)]
        end_unless(builder.icmp_signed("<", take(_COME, word(1)), size))
        again = function.append_basic_block()
        builder.branch(again)
        builder.position_at_end(again)
        start = take(_NEXT, step)
        end_unless(builder.icmp_signed("<", start, rows))
        stop = builder.add(start, step)
        stop = builder.select(builder.icmp_signed("<", stop, rows), stop, rows)
        self.body.call(builder, [self._of_block(i, table, place, start, stop)
                                 for i, place in enumerate(places)])
        builder.branch(again)
        return function

    def _of_block(self, index: int, table: Value, place: int, start: Value, stop: Value) -> Any:
        """An argument of the loop for the block of rows from `start` to `stop`."""
        builder, word, kind = self.builder, self.word, self.kinds[index]
        if isinstance(kind, Real):
            return self._as(kind, self._load(table, 8 * place, self.double))
        if isinstance(kind, Array) and not kind.dims:
            return self.body.array(builder, index, self._load(table, 8 * place, word), [])
        count = 2 + kind.dims if isinstance(kind, Array) else 3
        words = [self._load(table, 8 * (place + k), word) for k in range(count)]
        if isinstance(kind, Integer):
            more = builder.add(builder.mul(words[1], start), builder.mul(words[2], stop))
            return self._as(kind, builder.add(words[0], more))
        address = builder.add(words[0], builder.mul(start, words[1]))
        length = builder.select(builder.icmp_signed("<", words[2], word(0)),
                                builder.sub(stop, start), words[2])
        return self.body.array(builder, index, address, [length, *words[3:]])
