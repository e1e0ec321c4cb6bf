"""Element-wise functions that are several passes of NumPy, as one loop where Numba is installed.

The exact ones give the bits of the NumPy forms: they do the same operations in the same order.
The others compute in vectorized arithmetic (``vector_math``), which differs in the last bits; the
deterministic mode keeps to NumPy for these.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.registry import KernelNode
from hpcflow.loops import compiling, parallel_for, strided_copy, vector_math
from hpcflow.loops.formulas import APPROXIMATE, DTYPES, EXACT, functions_in, with_numbers

_BOTH = ("float32", "float64")


def with_loop(node: KernelNode, compute: Callable, **constants: Any) -> Callable:
    """``compute(x[, y], out=None)``, by a loop once there is one: of arrays of one shape that are
    not tiny.

    Args:
        node: of one of the op types above; others, and other dtypes, get `compute` as it is.
        compute: the form of NumPy; its results have the dtype of its inputs.
        constants: numbers that the formula of the op type names.
    """
    kind, dtype = node.op_type, node.np_dtype()
    if (node.xp is not np or kind not in EXACT and kind not in APPROXIMATE
            or dtype.name not in DTYPES.get(kind, _BOTH)):
        return compute
    numbers = sorted([(name, float(number)) for name, number in constants.items()])
    program = _program(kind, dtype.name, tuple(numbers))
    may_run = compiling.enabled if kind in EXACT else compiling.approximates

    def run(*inputs: Any, out: Any = None) -> Any:
        first = inputs[0]
        shape, size = first.shape, first.size
        if size < tuning.FUNCTION_LOOP_LEAST or not may_run() or inputs[-1].shape != shape:
            return compute(*inputs, out=out)
        found = compiling.compiled(program)
        if found.function is None:
            began = time.perf_counter()
            result = compute(*inputs, out=out)
            found.spent(time.perf_counter() - began)
            return result
        made = memory.empty(shape, dtype) if out is None or out.shape != shape else out
        try:
            parallel_for.run_elements(found, [*map(strided_copy.in_order, inputs), made])
        except TypeError:  # an array that is not aligned
            return compute(*inputs, out=out)
        return made

    return run


class _Program(compiling.Loop):
    """The loop of one op type for `jit`."""

    def __init__(self, kind: str, dtype: str, constants: tuple) -> None:
        self.kind = kind
        self.dtype = dtype
        self.constants = constants
        self.key = dtype, f"{kind} {constants}"

    def typed(self) -> Any:
        """The compiled loop over one or two inputs and the output."""
        is_exact = self.kind in EXACT
        text = (EXACT if is_exact else APPROXIMATE)[self.kind]
        number = np.dtype(self.dtype).type
        scope: dict[str, Any] = {"sqrt": np.sqrt} | {n: number(c) for n, c in self.constants}
        text = with_numbers(text, number, scope)
        for name in functions_in(text):
            scope[name] = getattr(vector_math, name)(self.dtype)
        inputs = ["x", "y"] if re.search(r"\by\b", text) else ["x"]
        exec(compile(_loop_text(inputs, text), "<hpcflow function>", "exec"), scope)
        kind = getattr(vector_math.types(), self.dtype)
        given, made = (vector_math.types().Array(kind, 1, "C", readonly=r) for r in (True, False))
        liberties = () if is_exact else ("contract",)
        return compiling.typed(scope["loop"], (*[given] * len(inputs), made), *liberties,
                               is_flat=True)


_program = functools.lru_cache(maxsize=256)(_Program)


def _loop_text(inputs: list[str], result: str) -> str:
    lines = [f"def loop({', '.join(f'{n}s' for n in inputs)}, made):",
             "    for i in range(made.size):"]
    lines += [f"        {n} = {n}s[i]" for n in inputs]
    return "\n".join([*lines, f"        made[i] = {result}"]) + "\n"
