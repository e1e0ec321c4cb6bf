"""Element-wise functions that are several passes of NumPy, as one loop where that can be made.

The loop is a program that the kernel itself writes, run over values of a program instead of arrays.
What the standard rounds gives the bits of NumPy; exponentials and the like differ in the last ones,
and the deterministic mode keeps to NumPy for these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.registry import KernelNode, find_kernel
from hpcflow.loops import llvm_plan
from hpcflow.loops.form import DENSE, Builder
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.tracing import Traced, TracedDevice, Tracer, UntraceableError

_DTYPES = ("float32", "float64")


def with_loop(node: KernelNode, compute: Callable, is_slow: bool = False) -> Callable:
    """``compute(x[, y], out=None)``, by a loop once there is one: of arrays of one shape that are
    not tiny.

    Args:
        node: of an element-wise op type, whose kernel for devices can be traced.
        compute: the form of NumPy; its results have the dtype of its inputs.
        is_slow: it is so many passes that a loop is worth it for a few elements.
    """
    dtype = node.np_dtype()
    if node.xp is not np or dtype.name not in _DTYPES:
        return compute
    made: list[FormLoop | None] = []

    def run(*inputs: Any, out: Any = None) -> Any:
        first = inputs[0]
        shape, size = first.shape, first.size
        least = tuning.FUNCTION_LOOP_FEW if is_slow else tuning.FUNCTION_LOOP_LEAST
        if size < least or inputs[-1].shape != shape:
            return compute(*inputs, out=out)
        if not made:
            made.append(_loop_of(node, len(inputs)))
        loop = made[0]
        if loop is None:
            return compute(*inputs, out=out)
        return loop.apply(
            size, inputs,
            lambda: memory.empty(shape, dtype) if out is None or out.shape != shape else out,
            lambda: compute(*inputs, out=out))

    return run


def _loop_of(node: KernelNode, inputs: int) -> FormLoop | None:
    """The loop over the elements of the inputs and the output; None if there is none."""
    b, dtype = Builder(columns=1), node.np_dtype().name
    tracer = Tracer(b)
    device = TracedDevice(tracer)
    seen = KernelNode(node.name, node.op_type, node.attrs, device, node.input_dtypes,
                      node.output_dtypes, node.input_dims, node.output_dims, node.constants)
    given = [tracer.of(b.load(b.array(dtype), DENSE)) for _ in range(inputs)]
    try:
        result = _result_of(seen, given)
    except UntraceableError:
        return None
    b.store(b.array(dtype), DENSE, b.cast(result, dtype))
    program = b.program()
    return FormLoop(program) if llvm_plan.supports(program) else None


def _result_of(node: KernelNode, given: list[Traced]) -> int:
    """The value that the kernel makes of these."""
    kernel = find_kernel(node.op_type, node.device.type, node.attrs)
    if kernel is None:
        raise UntraceableError("there is no kernel for devices")
    try:
        return int(kernel.factory(node)(*given).number())
    except UntraceableError:
        raise
    except Exception as e:  # whatever a kernel may ask of an array
        raise UntraceableError(f"{node.op_type}: {e}") from e
