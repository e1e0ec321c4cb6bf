"""Loops that can be compiled, each with what its code depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.loops import form
from hpcflow.loops.meanings import MEANINGS, SYNONYMS

if TYPE_CHECKING:
    from hpcflow.loops.entries import Code


def supports(name: str, dtype: str) -> bool:
    """True if NumPy's ufunc `name` on `dtype` may be part of a program, and has NumPy's bits."""
    from hpcflow.loops import llvm_functions

    name = SYNONYMS.get(name, name)
    return name in MEANINGS and MEANINGS[name].ulps == 0 and llvm_functions.supports(name, dtype)


class Loop:
    """A loop that can be compiled: one function for all of the same key.

    The arguments are numbers, strings, None, and tuples of such. Machine code is kept by its class
    and by them, by the text of this room, by the processor and the versions of libraries
    (`cache.name_of`): whatever else the code depends on has to be an argument.
    """

    key: tuple[str, str]
    arguments: tuple

    def __new__(cls, *arguments: Any) -> Loop:
        """Keep the arguments."""
        loop = super().__new__(cls)
        loop.arguments = arguments
        return loop

    def code(self, name: str) -> Code:
        """Machine code of this name. Whatever this raises means that there is none."""
        raise NotImplementedError


class TextLoop(Loop):
    """A function ``loop(*arrays, *numbers)`` of a text (see ``text_code``), which returns nothing
    or a whole number.

    `arrays` are tuples of a dtype, a rank, and whether it is written to: all lie in C order. The
    numbers are so many integers.
    """

    def __init__(self, source: str, arrays: tuple[tuple[str, int, bool], ...],
                 numbers: int) -> None:
        self.key = f"{arrays} {numbers}", source

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import text_code

        return text_code.code_of(name, *self.arguments)


class FormLoop(Loop):
    """A program of the form, which `of` takes; for what it is called with see ``llvm_code``."""

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

    def __init__(self, row_dtype: str, columns: int, arrays: tuple, arguments: tuple,
                 steps: tuple) -> None:
        self.key = "updates of rows", repr(self.arguments)

    @staticmethod
    def takes(dtype: str) -> bool:
        """True for elements that are computed with in the form that they have in memory."""
        return dtype in ("float32", "float64") or dtype.removeprefix("u").startswith("int")

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

    key = "philox", "blocks"

    def code(self, name: str) -> Code:
        """See `Loop`."""
        from hpcflow.loops import philox_code

        return philox_code.code_of(name)
