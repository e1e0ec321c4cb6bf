"""Loops over the rows of matrices: element-wise steps, sums of rows, and sums of columns.

Where Numba is installed, one compiled function takes the place of as many passes of NumPy over
memory. What lies between two reductions is one loop over the columns of a row, which stays in the
first-level cache. Functions that are no arithmetic, like ``exp``, are the loops of NumPy itself
over such a row. So element-wise values have NumPy's bits, but for the few functions that `formulas`
calls approximate; sums are formed in another order.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.loops import call_list, compiling, vector_math
from hpcflow.loops.formulas import APPROXIMATE, DTYPES, formula_of, functions_in, with_numbers

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder

#: What a value is: an element for each place, one for each row, one for each column, or a number.
FULL, COLUMN, VECTOR, NUMBER = "fcvn"
#: The reductions of rows, by op type.
REDUCTIONS = ("Sum", "Mean", "Max", "Min")


class RowStep(NamedTuple):
    """``target = function(*arguments)``.

    Attributes:
        function: the name of a ufunc or the type of an op.
        kind: of the target; a reduction of rows makes a COLUMN of a FULL value.
        reduces: it is one of the reductions of rows.
        ends: it is the sum of each column over all rows.
    """

    target: str
    function: str
    arguments: tuple[str, ...]
    kind: str
    reduces: bool = False
    ends: bool = False


def is_call(function: str, count: int, dtype: str) -> bool:
    """True for a function of `count` arguments that is no formula, but a loop of NumPy."""
    ufunc = getattr(np, function, None)
    return (isinstance(ufunc, np.ufunc) and ufunc.nin == count == 1
            and formula_of(function, "x") is None
            and call_list.loop_of(ufunc, dtype) is not None)


def supports(function: str, count: int, kind: str, dtype: str) -> bool:
    """True if a step of this function, with a result of this kind, may be part of a program."""
    if is_call(function, count, dtype):
        return kind == FULL
    if dtype not in DTYPES.get(function, (dtype,)):
        return False
    return formula_of(function, "x" * count if count < 3 else "x") is not None


class RowProgram(compiling.Loop):
    """A loop for `jit`: ``loop(*inputs, *outputs, *sums, calls, first, last, block, columns)``.

    All arrays are vectors: of FULL values, row after row; of `sums`, the sums of the columns of
    each block of rows, which are added to. If the rows are pieces of vectors (``flat``), the last
    may be shorter, sums have one number per block, and there are no COLUMN and VECTOR values.
    ``calls`` are `addresses`, which differ from process to process.

    Args:
        dtype: of all values.
        inputs: names and kinds.
        steps: in their order.
        outputs: the FULL and COLUMN values that are wanted; ends are all wanted.
        flat: see above.
    """

    def __init__(self, dtype: str, inputs: tuple[tuple[str, str], ...], steps: tuple[tuple, ...],
                 outputs: tuple[str, ...], flat: bool) -> None:
        self.dtype = dtype
        self.inputs = dict(inputs)
        self.outputs = list(outputs)
        self.steps = [RowStep(*s) for s in steps]
        self.ends = [s.target for s in self.steps if s.ends]
        self.flat = flat
        self.calls = sorted({s.function for s in self.steps if self._is_call(s)})
        self.source = _Text(self).source
        kinds = "".join(self.inputs.values())
        self.key = f"{dtype} {kinds} {len(self.outputs)} {flat}", self.source

    def addresses(self) -> np.ndarray:
        """Where the loops of NumPy that are called lie in this process, and their data."""
        found = [call_list.loop_of(getattr(np, name), self.dtype) for name in self.calls]
        assert None not in found
        return np.array(found, np.int64).reshape(-1)

    def _is_call(self, step: RowStep) -> bool:
        return not (step.reduces or step.ends) and is_call(
            step.function, len(step.arguments), self.dtype)

    @property
    def is_exact(self) -> bool:
        """True if all results have the bits of NumPy."""
        return not any([s.reduces or s.ends or s.function in APPROXIMATE for s in self.steps])

    def signature(self, types: Any) -> tuple:
        """The types of the arguments, of the module `types`."""
        number = getattr(types, self.dtype)
        given = [number if kind == NUMBER else types.Array(number, 1, "C", readonly=True)
                 for kind in self.inputs.values()]
        made = [types.Array(number, 1, "C")] * (len(self.outputs) + len(self.ends))
        return (*given, *made, types.Array(types.int64, 1, "C", readonly=True),
                *[types.int64] * 4)

    def typed(self) -> Any:
        """See `jit.Loop`."""
        number = np.dtype(self.dtype).type
        scope: dict[str, Any] = {
            "np": np, "sqrt": np.sqrt, "number": number, "zero": number(0), "plus": _plus(),
            "wide": vector_math.wide(), "distinct": _distinct(), "item": number(0).itemsize,
            "apply": call_list.application(), **_memory(),
            **{f"i{k}": k for k in range(max(9, 2 * len(self.calls)))}}
        for name in functions_in(self.source):
            scope[name] = getattr(vector_math, name)(self.dtype)
        text = with_numbers(self.source, number, scope)
        exec(compile(text, "<hpcflow rows>", "exec"), scope)
        return compiling.typed(scope["loop"], self.signature(vector_math.types()))


class _Text:
    """Writes the source of a program. Whole numbers in it are arguments and names, as any other
    would become one of the dtype."""

    def __init__(self, program: RowProgram) -> None:
        self.program = program
        self.made = {s.target: s for s in program.steps}
        self.kinds = {**program.inputs, **{s.target: s.kind for s in program.steps}}
        self.phase = self._phases()
        self.kept = self._kept()
        self.scratch = [n for n in self.kept if n not in program.outputs]
        self.source = "\n".join(self._lines()) + "\n"

    def _phases(self) -> dict[str, int]:
        """The loop over columns from which on each value can be used."""
        phase = dict.fromkeys(self.program.inputs, 0)
        for s in self.program.steps:
            latest = max(phase[a] for a in s.arguments)
            phase[s.target] = latest + (s.reduces or self.program._is_call(s))
        return phase

    def _kept(self) -> list[str]:
        """FULL values that a later loop needs, or somebody else."""
        kept = [n for n in self.program.outputs if self.kinds[n] == FULL]
        for s in self.program.steps:
            is_call = self.program._is_call(s)
            if is_call:
                kept.append(s.target)
            for a in s.arguments:
                if a in self.made and self.kinds[a] == FULL and (
                        is_call or self.phase[a] < self._loop_of(s)):
                    kept.append(a)
        return list(dict.fromkeys(kept))

    def _loop_of(self, step: RowStep) -> int:
        """The loop in which a step is computed."""
        return self.phase[step.target] - step.reduces

    def _lines(self) -> list[str]:
        p = self.program
        parameters = [*p.inputs, *(f"o_{n}" for n in p.outputs), *(f"e_{n}" for n in p.ends)]
        size = "columns" if not p.flat else f"min(columns, {self._array_of_full()}.size - base)"
        lines = [f"def loop({', '.join(parameters)}, calls, first, last, block, columns):",
                 "    wide()", "    distinct()"]
        for n in self.scratch:
            lines += [f"    p_{n} = allocate(item * columns)",
                      f"    w_{n} = carray(pointer(p_{n}), (columns,), np.{p.dtype})"]
        if p.calls:  # two addresses, how many elements there are, the bytes between them
            lines += ["    p = allocate(i8 * i5)",
                      "    words = carray(pointer(p), (i5,), np.int64)",
                      "    words[i3], words[i4] = item, item"]
        lines.append("    for row in range(first, last):")
        body = [f"base = row * columns; count = np.uint64({size}); start = np.uint64(base)"]
        if p.ends:
            body.append(f"total = np.uint64(row // block{'' if p.flat else ' * columns'})")
        body += [f"c_{n} = {n}[row]" for n, kind in p.inputs.items() if kind == COLUMN]
        for number in range(max(self.phase.values()) + 1):
            body += self._before(number) + self._loop(number)
        released = [*(f"p_{n}" for n in self.scratch), *(["p"] if p.calls else [])]
        return [*lines, *(f"        {line}" for line in body),
                *(f"    release({name})" for name in released)]

    def _array_of_full(self) -> str:
        return next(n for n, kind in self.program.inputs.items() if kind == FULL)

    def _before(self, number: int) -> list[str]:
        """The calls, and what is computed once per row, between two loops."""
        lines = []
        for s in self.program.steps:
            if self.phase[s.target] != number or s.reduces or s.ends:
                continue
            if self.program._is_call(s):
                lines += self._call(s)
            elif s.kind == COLUMN:
                lines.append(f"c_{s.target} = number({self._formula(s, '')})")
                lines += self._column_out(s.target)
        return lines

    def _call(self, s: RowStep) -> list[str]:
        i = self.program.calls.index(s.function)
        return [f"words[i0] = {self._address(s.arguments[0])}",
                f"words[i1] = {self._address(s.target)}", "words[i2] = count",
                f"apply(calls[i{2 * i}], p, p + i8 * i2, p + i8 * i3, calls[i{2 * i + 1}])"]

    def _address(self, name: str) -> str:
        if name in self.scratch:
            return f"p_{name}"
        array = f"o_{name}" if name in self.program.outputs else name
        return f"{array}.ctypes.data + item * base"

    def _column_out(self, name: str) -> list[str]:
        return [f"o_{name}[row] = c_{name}"] if name in self.program.outputs else []

    def _loop(self, number: int) -> list[str]:
        """One loop over the columns, with what is made of its sums."""
        here = [s for s in self.program.steps if self._loop_of(s) == number and (
            s.reduces or s.ends or s.kind == FULL and not self.program._is_call(s))]
        if not here:
            return []
        before, inside, after = [], [], []
        made = {s.target for s in here}
        loaded = dict.fromkeys(a for s in here for a in s.arguments
                               if a not in made and self.kinds[a] in (FULL, VECTOR))
        inside += [f"v_{a} = {self._element(a)}" for a in loaded]
        for s in here:
            first, target = s.arguments[0], s.target
            if s.reduces:
                begin, join = self._reduction(s)
                before.append(f"t_{target} = {begin}")
                inside.append(f"t_{target} = {join}")
                mean = " / number(count)" if s.function == "Mean" else ""
                after += [f"c_{target} = number(t_{target}{mean})", *self._column_out(target)]
            elif s.ends and self.program.flat:
                before.append(f"t_{target} = zero")
                inside.append(f"t_{target} = plus(t_{target}, v_{first})")
                after.append(f"e_{target}[total] += t_{target}")
            elif s.ends:
                inside.append(f"e_{target}[total + c] += v_{first}")
            else:
                inside.append(f"v_{target} = number({self._formula(s, 'v_')})")
                if target in self.kept:
                    inside.append(f"{self._element(target)} = v_{target}")
        return [*before, "for c in range(count):", *(f"    {line}" for line in inside), *after]

    def _reduction(self, s: RowStep) -> tuple[str, str]:
        value, total = f"v_{s.arguments[0]}", f"t_{s.target}"
        if s.function in ("Sum", "Mean"):
            return "zero", f"plus({total}, {value})"
        sign = "-" if s.function == "Max" else ""
        sense = ">" if s.function == "Max" else "<"
        return f"number({sign}np.inf)", (f"{value} if ({value} {sense} {total}) | "
                                         f"({value} != {value}) else {total}")

    def _element(self, name: str) -> str:
        """Where an element of a value lies that is in memory."""
        if self.kinds[name] == VECTOR:
            return f"{name}[c]"
        if name in self.scratch:
            return f"w_{name}[c]"
        return f"{f'o_{name}' if name in self.program.outputs else name}[start + c]"

    def _formula(self, s: RowStep, prefix: str) -> str:
        names = [a if self.kinds[a] == NUMBER else f"c_{a}" if self.kinds[a] == COLUMN
                 else f"{prefix}{a}" for a in s.arguments]
        text = formula_of(s.function, names)
        assert text is not None
        return text


# ---------------------------------------------------------------- for compiled loops


@functools.lru_cache(maxsize=1)
def _plus() -> Callable:
    """``plus(a, b)`` of a sum whose terms may be added in any order."""

    @vector_math.compiler("reassoc")
    def plus(a: Any, b: Any) -> Any:
        return a + b

    return plus


@functools.lru_cache(maxsize=1)
def _memory() -> dict[str, Any]:
    """``allocate(bytes)`` and ``release(address)`` of the C library, and ``pointer(address)``."""
    numba = importlib.import_module("numba")
    ir = importlib.import_module("llvmlite.ir")
    tools = importlib.import_module("numba.core.cgutils")
    number, byte = ir.IntType(64), ir.IntType(8).as_pointer()

    def allocate(_context: object, builder: IRBuilder, _: object, arguments: Any) -> Any:
        kind = ir.FunctionType(byte, [number])
        function = tools.get_or_insert_function(builder.module, kind, "malloc")
        return builder.ptrtoint(builder.call(function, arguments), number)

    def release(context: Any, builder: IRBuilder, _: object, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [byte])
        function = tools.get_or_insert_function(builder.module, kind, "free")
        builder.call(function, [builder.inttoptr(arguments[0], byte)])
        return context.get_dummy_value()

    types, intrinsic = numba.types, numba.extending.intrinsic
    one = types.int64
    return {"carray": numba.carray,
            "allocate": intrinsic(lambda _, size: (one(one), allocate)),
            "release": intrinsic(lambda _, address: (types.void(one), release)),
            "pointer": vector_math.pointer()}


@functools.lru_cache(maxsize=1)
def _distinct() -> Callable:
    """To call it in a function promises that none of its arrays that are written shares memory with
    another; else the compiled code would have to test each pair, and makes vectors of few pairs."""
    numba = importlib.import_module("numba")
    ir = importlib.import_module("llvmlite.ir")
    numbers = ir.FloatType, ir.DoubleType

    def generate(context: Any, builder: IRBuilder, _: object, __: object) -> Any:
        for argument in builder.function.args:
            if isinstance(argument.type, ir.PointerType) and isinstance(
                    argument.type.pointee, numbers):
                argument.add_attribute("noalias")
        return context.get_dummy_value()

    signature = numba.types.void()
    return numba.extending.intrinsic(lambda _: (signature, generate))
