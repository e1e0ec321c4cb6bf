"""The functions of the table of meanings as LLVM's instructions: arithmetic, and what is made
of it.

A function is written for one number, without branches, so that a loop over it becomes one over
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops import llvm_math

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder

#: ``write(builder, dtype, *operands)``, of float32 and float64.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def supports(function: str, dtype: str) -> bool:
    """True if there is code for a function of the table, of operands of `dtype`."""
    if function in FUNCTIONS:
        return dtype in ("float32", "float64") or dtype in llvm_math.NARROW
    return llvm_math.supports(function, dtype)


def emit(function: str, builder: IRBuilder, dtype: str, operands: Sequence[Any]) -> Any:
    """The value of a function of the table of values of `dtype`."""
    write = FUNCTIONS.get(function)
    if write is None:
        return llvm_math.emit(function, builder, dtype, operands)
    wide = "float32" if dtype in llvm_math.NARROW else dtype
    return llvm_math.rounded(builder, write(builder, wide, *operands), dtype)
