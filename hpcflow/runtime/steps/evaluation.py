"""What kernels compute from constants while a graph is built: values that shapes follow from."""

from __future__ import annotations

import functools

import numpy as np

from hpcflow import kernels
from hpcflow.compiler.rewrite.fold import as_constant
from hpcflow.graph.operation import Operation
from hpcflow.graph.shape_inference import evaluate_with
from hpcflow.kernels.input_shapes import checked
from hpcflow.kernels.registry import SYNC, KernelNode, find_kernel
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.executor.device import Device


@functools.cache
def _device() -> Device:
    return Device("/job:localhost/replica:0/task:0/device:CPU:0", 0, ResourceManager())


@evaluate_with
def evaluate(op: Operation, values: list[np.ndarray]) -> list[np.ndarray] | None:
    """Return the outputs of a stateless operation on `values`; None if no kernel computes them, or
    if it fails, which a step will tell of."""
    kernels.load()
    kernel = find_kernel(op.type, "CPU", op._attrs)
    if kernel is None or kernel.mode != SYNC:
        return None
    dtypes = [t.dtype for t in op.outputs]
    node = KernelNode(op.name, op.type, op._attrs, _device(),
                      [t.dtype.base_dtype for t in op.inputs], dtypes,
                      [t._dims for t in op.inputs], [t._dims for t in op.outputs], list(values),
                      None, op)
    try:
        with np.errstate(all="ignore"):
            result = checked(node, kernel, kernel.factory(node))(*values)
    except Exception:  # noqa: BLE001  (reported when the operation runs)
        return None
    outputs = list(result) if len(dtypes) > 1 else [result]
    return [as_constant(v, t.name == "string") for v, t in zip(outputs, dtypes, strict=True)]
