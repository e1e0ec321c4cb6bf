"""The update rules of training applied to selected rows on a device, in one kernel.

The rows are sorted by their numbers. For each row that occurs, and each of its elements, one thread
applies the rule as often as the row occurs, in the order of the updates: what the CPU does, in
every run, and the host waits for nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.kernels.common.indices import stable_order
from hpcflow.loops import cuda_code, elements
from hpcflow.loops.elements import ElementKernel
from hpcflow.loops.form import DENSE, ONE, Builder, Program
from hpcflow.loops.meanings import FLOATS
from hpcflow.loops.tracing import Tracer, UntraceableError

_INDICES = {"int32": "int", "int64": "long long"}
Kinds = tuple[tuple[str, bool], ...]  # of the scalars: the dtype, and if they are on the device


def _program(rule: Callable, dtype: str, count: int, scratch: int, kinds: Kinds) -> Program:
    """The rule over one element; its arrays are the states, the gradient, the scalars of the
    device."""
    builder = Builder(1)
    tracer = Tracer(builder)
    arrays = [builder.array(dtype) for _ in range(count + 1)]
    blocks = [tracer.of(builder.load(a, DENSE)) for a in arrays]
    scalars = tuple([
        tracer.of(builder.load(builder.array(kind), ONE) if on_device else builder.argument(kind))
        for kind, on_device in kinds])
    rule(tracer, blocks, scalars, [tracer.empty_like(blocks[0]) for _ in range(scratch)])
    for array, block in zip(arrays, blocks[:count]):
        builder.store(array, DENSE, block.number())
    return builder.program()


@functools.lru_cache(maxsize=256)
def _kernel(rule: Callable, dtype: str, index: str, count: int, scratch: int,
            kinds: Kinds) -> ElementKernel | None:
    """(states, gradient, order, row numbers, scalars of the device, numbers, width, rows of the
    table, rows given); None for a rule that asks for values."""
    try:
        program = _program(rule, dtype, count, scratch, kinds)
    except UntraceableError:
        return None
    except Exception:  # noqa: BLE001  (whatever a rule may ask of an array)
        return None
    stored, _ = cuda_code.types_of(dtype)
    there = [k for k, on_device in kinds if on_device]
    numbers = [k for k, on_device in kinds if not on_device]
    parameters = [f"{stored}* state{k}" for k in range(count)] + [
        f"const {stored}* grad", "const long long* order", f"const {_INDICES[index]}* rows"]
    parameters += [f"const {cuda_code.types_of(k)[0]}* a{count + 1 + n}"
                   for n, k in enumerate(there)]
    parameters += [f"{cuda_code.types_of(k)[0]} s{n}" for n, k in enumerate(numbers)]
    pointers = "\n".join(f"  {stored}* a{k} = state{k} + (row * width + column);"
                         for k in range(count))
    statements = "\n".join(cuda_code.statements(program))
    body = f"""
const position at_first = i / width, column = i % width;
const long long row = rows[order[at_first]];
if (row < 0 || row >= limit) continue;
if (at_first > 0 && rows[order[at_first - 1]] == row) continue;
for (position k = at_first; k < given && rows[order[k]] == row; k++) {{
  const position r = 0;
{pointers}
  const {stored}* a{count} = grad + (order[k] * width + column);
{statements}
}}"""
    return ElementKernel((*parameters, "position width", "position limit", "position given"), body)


def _kinds(xp: Any, scalars: Sequence[Any]) -> Kinds | None:
    """None if there is a scalar of another kind."""
    found = []
    for scalar in scalars:
        on_device = isinstance(scalar, xp.ndarray)
        if not on_device and not isinstance(scalar, np.generic):
            return None
        if scalar.dtype.name not in (FLOATS if on_device else ("float32", "float64", "int64")):
            return None
        found.append((scalar.dtype.name, on_device))
    return tuple(found)


def apply(xp: Any, rule: Callable, states: Sequence[Any], indices: Any, grad: Any,
          scalars: Sequence[Any], scratch: int) -> bool:
    """Apply `rule` to the rows `indices` of `states`, arrays of one shape and type; False, and
    nothing is done, where the device runs no such kernel or the rule asks for values."""
    programs, kinds = elements.serving(xp), _kinds(xp, scalars)
    dtype = grad.dtype
    if programs is None or kinds is None or dtype.name not in FLOATS or (
            indices.dtype.name not in _INDICES) or any(
            s.dtype != dtype or not s.flags.c_contiguous for s in states):
        return False
    made = _kernel(rule, dtype.name, indices.dtype.name, len(states), scratch, kinds)
    if made is None:
        return False
    if grad.size:
        rows = xp.ascontiguousarray(indices)
        order = stable_order(xp, rows).astype(np.int64, copy=False)
        there = [s for s, (_, on_device) in zip(scalars, kinds) if on_device]
        numbers = [s for s, (_, on_device) in zip(scalars, kinds) if not on_device]
        programs.elements(made)(
            grad.size, *states, xp.ascontiguousarray(grad), order, rows, *there, *numbers,
            grad.size // rows.size, int(states[0].shape[0]), rows.size)
    return True
