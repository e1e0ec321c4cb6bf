"""Loops that can be compiled: texts of loops over arrays, with the types of their arguments."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.loops import form, numba_parts
from hpcflow.loops.meanings import MEANINGS, SYNONYMS

if TYPE_CHECKING:
    from hpcflow.loops.entries import Code
    from hpcflow.loops.numba_code import Typed

def supports(name: str, dtype: str) -> bool:
    """True if NumPy's ufunc `name` on `dtype` may be part of a program, and has NumPy's bits."""
    from hpcflow.loops import llvm_functions

    name = SYNONYMS.get(name, name)
    return name in MEANINGS and MEANINGS[name].ulps == 0 and llvm_functions.supports(name, dtype)


class Loop:
    """A loop that can be compiled: one function for all of the same key.

    Another process makes the loop again from its class and its arguments: these are numbers,
    strings, None, and tuples of such. Machine code is kept by them, by the text of all modules that
    the module of the class imports, by the processor and the versions of libraries
    (`cache.name_of`): whatever else the code depends on has to be an argument.

    Attributes:
        is_quick: it takes a few milliseconds, nearly all of them without the interpreter.
    """

    key: tuple[str, str]
    arguments: tuple
    is_quick = False

    def __new__(cls, *arguments: Any) -> Loop:
        """Keep the arguments."""
        loop = super().__new__(cls)
        loop.arguments = arguments
        return loop

    def typed(self) -> Typed:
        """The function, for arguments of just these types: arrays in C order, numbers, and tuples
        of numbers. It returns nothing or a whole number, and allocates nothing.

        Whatever this raises means that there is none.
        """
        raise NotImplementedError

    def code(self, name: str) -> Code:
        """Machine code of this name."""
        from hpcflow.loops import numba_code

        return numba_code.code_of(self.typed(), name)


class FormLoop(Loop):
    """A program of the form, which `of` takes; for what it is called with see ``llvm_code``."""

    is_quick = True

    def __init__(self, columns: int, arrays: tuple, arguments: tuple, steps: tuple) -> None:
        self.key = "form", repr(self.arguments)

    @classmethod
    def of(cls, program: form.Program) -> FormLoop:
        """The loop of a program."""
        return cls(*form.encoded(program))

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import llvm_code

        return llvm_code.code_of(name, form.decoded(*self.arguments))


class RowUpdates(Loop):
    """A program over the elements of ``state[row[i]]``, of one matrix or several, and of
    ``updates[i]``: for every i, in that order, where ``row[i]`` falls to one of several parts.

    The function is called with (*states, row, updates, *arguments, part, parts): contiguous
    matrices of one dtype, but the rows are a vector of `row_dtype`. The program is one of elements,
    of one column; the updates are the array after the states.
    """

    is_quick = True

    def __init__(self, row_dtype: str, columns: int, arrays: tuple, arguments: tuple,
                 steps: tuple) -> None:
        self.key = "updates of rows", repr(self.arguments)

    @classmethod
    def of(cls, row_dtype: str, program: form.Program) -> RowUpdates:
        """The loop of a program."""
        return cls(row_dtype, *form.encoded(program))

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import row_code

        row_dtype, *program = self.arguments
        return row_code.code_of_updates(name, row_dtype, form.decoded(*program))


class RowCopies(Loop):
    """``target[i] = source[rows[i]]`` for every i: called with (target, source, rows), the first
    two contiguous matrices of whole words of eight bytes, the third a vector of `row_dtype`."""

    is_quick = True

    def __init__(self, row_dtype: str) -> None:
        self.key = row_dtype, "copies of rows"

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import row_code

        return row_code.code_of_copies(name, *self.arguments)


class PhiloxBlocks(Loop):
    """Blocks of random words (see ``kernels.random.philox``): called with (places, words, key, low,
    high): a vector of uint64, a matrix of uint32 with four for each place, and the bits of the key
    and of the counter's halves as int64."""

    is_quick = True
    key = "philox", "blocks"

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import philox_code

        return philox_code.code_of(name)


class SmallProducts(Loop):
    """Products of matrices of (m, k) by (k, n) numbers, of which those of the first or the second
    factors may lie transposed; sums in any order.

    The function is called with (a, b, out): matrices of `dtype` that have a row for each product,
    in which the numbers of a matrix lie.
    """

    is_quick = True

    def __init__(self, dtype: str, m: int, k: int, n: int, flip_a: bool, flip_b: bool) -> None:
        self.key = dtype, f"products {m} {k} {n} {flip_a} {flip_b}"

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import product_code

        return product_code.code_of(name, *self.arguments)


def typed_text(source: str, signature: Callable[[Any], tuple], **names: Any) -> Typed:
    """The function ``loop`` of a text, for one signature, with `names` to use.

    ``flat(array)`` takes the place of ``array.reshape(-1)``.
    """
    scope: dict[str, Any] = {"np": np, "flat": numba_parts.flat(), **names}
    exec(compile(source, "<hpcflow loop>", "exec"), scope)
    return typed(scope["loop"], signature(numba_parts.types()))


def typed(loop: Callable, types: tuple, *liberties: str, is_flat: bool = False) -> Typed:
    """A function for arguments of these types, with the `liberties` of Numba's ``fastmath``; the
    vectors among them may be arrays of any shape, if it `is_flat`."""
    decorator = importlib.import_module("numba").njit
    from hpcflow.loops import numba_code

    return numba_code.Typed(decorator(
        nogil=True, error_model="numpy", fastmath=set(liberties) or False)(loop), types, is_flat)
