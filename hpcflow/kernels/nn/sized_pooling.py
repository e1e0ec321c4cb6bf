"""Kernels of max pooling whose window sizes and strides are tensors: those of fixed sizes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.nn.pooling import _REAL, max_pool, max_pool_grad, max_pool_grad_grad
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


def _checked(sizes: Any, what: str) -> list[int]:
    values = np.asarray(sizes)
    if values.shape != (4,):
        raise invalid(f"{what} must have 4 elements, but has shape {shown(values)}")
    if values.min() < 1 or values[0] != 1:
        raise invalid(f"{what} must be positive, and 1 along the batch, but is {values.tolist()}")
    return values.tolist()


def _sized(node: KernelNode, factory: Callable) -> Callable:
    """The kernel that `factory` makes of a node with attributes, made for the sizes of each run."""

    def run(*inputs: Any) -> Any:
        *arrays, windows, strides = inputs
        fixed = copy.copy(node)
        fixed.attrs = {**node.attrs, "ksize": _checked(windows, "ksize"),
                       "strides": _checked(strides, "strides")}
        return factory(fixed)(*arrays)

    return run


@kernel("MaxPoolV2", types={"T": _REAL}, fresh=True, host_inputs=(1, 2))
def _max_pool(node: KernelNode) -> Callable:
    return _sized(node, max_pool)


@kernel("MaxPoolGradV2", types={"T": _REAL}, fresh=True, host_inputs=(3, 4))
def _max_pool_grad(node: KernelNode) -> Callable:
    return _sized(node, max_pool_grad)


@kernel("MaxPoolGradGradV2", types={"T": _REAL}, fresh=True, host_inputs=(3, 4))
def _max_pool_grad_grad(node: KernelNode) -> Callable:
    return _sized(node, max_pool_grad_grad)
