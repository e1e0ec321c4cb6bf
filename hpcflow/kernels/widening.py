"""Kernels of narrow floating-point types by those of float32.

bfloat16 and float16 are formats to store and send; few kernels compute in them. Where none does,
the kernel of float32 serves: the inputs are converted, and what it gives is rounded once.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.dtypes import DType, bfloat16, float16, float32

if TYPE_CHECKING:
    from hpcflow.kernels.registry import Kernel, KernelNode

NARROW = (bfloat16, float16)

#: For ``types=`` of kernels that would lose digits in bfloat16: what NumPy itself computes in.
NATIVE = ("float16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32",
          "int64", "uint8", "uint16", "uint32", "uint64", "bool", "qint8", "qint16", "qint32",
          "quint8", "quint16")


def wider(attrs: dict[str, Any]) -> dict[str, Any] | None:
    """`attrs` with float32 for every narrow type; None if there is none."""
    if not any(_is_narrow(value) for value in attrs.values()):
        return None
    return {name: _wide(value) for name, value in attrs.items()}


def _is_narrow(value: Any) -> bool:
    if type(value) is list:
        return any(_is_narrow(v) for v in value)
    return isinstance(value, DType) and value in NARROW


def _wide(value: Any) -> Any:
    if type(value) is list:
        return [_wide(v) for v in value]
    return float32 if _is_narrow(value) else value


def widened(kernel: Kernel) -> Kernel:
    """The kernel for narrow types that computes by `kernel`, which serves :func:`wider` ones."""

    def factory(node: KernelNode) -> Callable:
        function = kernel.factory(_wide_node(node))
        narrow = tuple([i for i, dtype in enumerate(node.input_dtypes) if dtype in NARROW])
        results = [d.np if d in NARROW else None for d in node.output_dtypes]
        return _converting(function, narrow, results)

    return kernel._replace(factory=factory, types={}, fresh=True, accepts_out=False, operator="",
                           takes_over=None)


def _wide_node(node: KernelNode) -> KernelNode:
    """`node` as the kernel of float32 is to see it."""
    wide = copy.copy(node)
    wide.attrs = {name: _wide(value) for name, value in node.attrs.items()}
    wide.input_dtypes = [_wide(d) for d in node.input_dtypes]
    wide.output_dtypes = [_wide(d) for d in node.output_dtypes]
    wide.constants = [c if c is None or d not in NARROW else c.astype(np.float32)
                      for c, d in zip(node.constants, node.input_dtypes)]
    return wide


def _converting(function: Callable, narrow: tuple[int, ...], results: list) -> Callable:
    """`function` of float32 inputs and outputs, for those given; `results`: None or the dtype."""
    single = len(results) == 1

    def run(*inputs: Any) -> Any:
        values = list(inputs)
        for i in narrow:
            values[i] = values[i].astype(np.float32)
        found = function(*values)
        if single:
            return found if results[0] is None else found.astype(results[0])
        if not results:
            return found
        return tuple([y if dtype is None else y.astype(dtype)
                      for y, dtype in zip(found, results)])

    return run
