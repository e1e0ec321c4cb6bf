"""The way from Python's calls to compiled loops.

A loop is a function of a table of words: of an array its address and the dims that it is told, of a
number its bits. Beside it lies a *plan*, which says what it is called with. One function that
Python calls, in the way of CPython's C interface, serves all loops (``entry_code``): by the plan it
reads arrays and numbers from the objects into a table, lets the interpreter go, and calls the loop.
Called with seven numbers more, it lets a team of OpenMP's threads call the loop for blocks of rows
that they take from a counter.

Of an array it reads what CPython's protocol of buffers tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from hpcflow.loops import llvm_math
from hpcflow.loops.meanings import FLOATS

if TYPE_CHECKING:
    from llvmlite.ir import Module

#: The name of a plan, before the name of the code.
PLAN = "plan_"
#: What the loader knows objects by.
NONE, TYPE_ERROR = "hpcflow_none", "hpcflow_type_error"

# What is asked of a buffer: PyBUF_C_CONTIGUOUS, with PyBUF_FORMAT, and PyBUF_WRITABLE.
_IN_ORDER, _WRITABLE = 0x38 | 0x4, 0x1
# The formats of elements, by the letters of the module ``struct``: where C has two names for a
# type, two of them.
_FORMATS = {"bool": "??", "int8": "bb", "uint8": "BB", "int16": "hh", "uint16": "HH",
            "int32": "ii", "uint32": "II", "int64": "lq", "uint64": "LQ", "float32": "ff",
            "float64": "dd"}
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


class Number(NamedTuple):
    """A floating-point number, or a whole one."""

    dtype: str
    words: int = 1


Kind: TypeAlias = "Array | Number"
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
    binding = llvm_math.binding()
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        opt=3, cpu=binding.get_host_cpu_name(), reloc="default", codemodel="jitdefault", jit=True,
        features=llvm_math.feature_text())


def processor() -> str:
    """Return the text that machine code depends on: the kind of machine and system, with the width
    of addresses, and the processor and its features."""
    binding = llvm_math.binding()
    return (f"{binding.get_process_triple()} {binding.get_host_cpu_name()} "
            f"{llvm_math.feature_text()}")


def write_plan(module: Module, name: str, function: Any, kinds: Sequence[Kind],
               returns: bool) -> None:
    """Write the plan of the loop `function`, which returns a word that is a result, or not."""
    ir = llvm_math.ir()
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
            needed = _IN_ORDER | (_WRITABLE if kind.is_written else 0)
            rank = "" if kind.rank < 0 else f" with {kind.rank} dimensions"
            words += [ARRAY, *_FORMATS[kind.dtype].encode(), needed, kind.rank,
                      np.dtype(kind.dtype).itemsize,
                      text(f"argument {i} of a compiled loop is not an array in C order of "
                           f"{kind.dtype}{rank}")]
        else:
            words += [REAL if kind.dtype in FLOATS else INTEGER] + [0] * 6
    constants = [w if not isinstance(w, int) else word(w) for w in words]
    plan = ir.GlobalVariable(module, ir.ArrayType(word, len(constants)), PLAN + name)
    plan.initializer, plan.global_constant = plan.type.pointee(constants), True
