"""The way from Python's calls to compiled loops.

A loop is a function of a table of words: of an array its address and the dims that it is told, of a
number its bits. Beside it lies a *plan*, which says what it is called with. One function that
Python calls, in the way of CPython's C interface, serves all loops (``entry_code``): by the plan it
reads arrays and numbers from the objects into a table, lets the interpreter go, and calls the loop.
Called with seven numbers more, it lets a team of OpenMP's threads call the loop for blocks of rows
that they take from a counter.

What is read of an array are the fields of NumPy's ``PyArrayObject``, whose places the processes
that load the code check first (:mod:`hpcflow.loops.objects`).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from llvmlite.ir import Module

#: The name of a plan, before the name of the code.
PLAN = "plan_"
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
# NumPy's numbers of element types; two of them have the same layout where C has two names.
_NUMBERS = {"bool": (0, 0), "int8": (1, 1), "uint8": (2, 2), "int16": (3, 3), "uint16": (4, 4),
            "int32": (5, 5), "uint32": (6, 6), "int64": (7, 9), "uint64": (8, 10),
            "float32": (11, 11), "float64": (12, 12)}
PLACE = -1


class Array(NamedTuple):
    """An array in C order, of `rank` dimensions; or of any number if that is `PLACE`, of which the
    loop is told only where it lies, all of it."""

    dtype: str
    rank: int
    is_written: bool

    @property
    def words(self) -> int:
        """How many words of the table are for it."""
        return 1 + max(self.rank, 0)


class Real(NamedTuple):
    """A floating-point number."""

    dtype: str
    words: int = 1


class Integer(NamedTuple):
    """A whole number, with its sign."""

    dtype: str
    words: int = 1


Kind: TypeAlias = "Array | Real | Integer"
ARRAY, REAL, INTEGER = range(3)


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


def processor() -> str:
    """Return the text that machine code depends on: the kind of machine and system, with the width
    of addresses, and the processor and its features."""
    binding = importlib.import_module("llvmlite.binding")
    return (f"{binding.get_process_triple()} {binding.get_host_cpu_name()} "
            f"{binding.get_host_cpu_features().flatten()}")


def write_plan(module: Module, name: str, function: Any, kinds: Sequence[Kind],
               returns: bool) -> None:
    """Write the plan of the loop `function`, which returns a word that is a result, or not."""
    ir = importlib.import_module("llvmlite.ir")
    word = ir.IntType(64)

    def text(message: str) -> Any:
        data = bytearray(message.encode() + b"\0")
        made = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), len(data)),
                                 module.get_unique_name("message"))
        made.initializer, made.global_constant = made.type.pointee(data), True
        made.linkage = "internal"
        return made.ptrtoint(word)

    words = [function.ptrtoint(word), len(kinds), sum([k.words for k in kinds]), int(returns),
             text(f"a compiled loop takes {len(kinds)} arguments")]
    for i, kind in enumerate(kinds):
        if isinstance(kind, Array):
            needed = _IN_ORDER | _FIT | (_WRITABLE if kind.is_written else 0)
            rank = "" if kind.rank < 0 else f" with {kind.rank} dimensions"
            words += [ARRAY, *_NUMBERS[kind.dtype], needed, kind.rank,
                      np.dtype(kind.dtype).itemsize,
                      text(f"argument {i} of a compiled loop is not an array in C order of "
                           f"{kind.dtype}{rank}")]
        else:
            words += [REAL if isinstance(kind, Real) else INTEGER] + [0] * 6
    constants = [w if not isinstance(w, int) else word(w) for w in words]
    plan = ir.GlobalVariable(module, ir.ArrayType(word, len(constants)), PLAN + name)
    plan.initializer, plan.global_constant = plan.type.pointee(constants), True
