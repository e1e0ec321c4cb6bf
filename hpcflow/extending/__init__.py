"""The public interface for adding ops, kernels, gradients, shape functions and device types.

``docs/extending.md`` explains it, with an example of each in ``examples/extending``.
"""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    broadcast_dims,
    constant_value,
    merge_dims,
    unchanged,
    unknown,
    with_rank,
)
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.runtime.executor.device import Device, register_device_type, unregister_device_type

__all__ = [
    "Device",
    "KernelNode",
    "RegisterGradient",
    "broadcast_dims",
    "constant_value",
    "invalid",
    "kernel",
    "merge_dims",
    "not_differentiable",
    "raw_ops",
    "register_device_type",
    "register_op",
    "unchanged",
    "unknown",
    "unregister_device_type",
    "with_rank",
]
