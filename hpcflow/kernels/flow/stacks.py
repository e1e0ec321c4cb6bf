"""Kernels of stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import STEP, KernelNode, kernel
from hpcflow.resources.stack import Stack
from hpcflow.resources.step_state import keep


def _name(node: KernelNode) -> str:
    return node.attr("stack_name", b"").decode() or node.name


@kernel("Stack", mode=STEP)
def stack(node: KernelNode) -> Callable:
    """A new stack in every execution."""
    name = _name(node)
    return lambda step: keep(step, Stack(name))


@kernel("StackV2", mode=STEP, host_inputs=(0,))
def stack_v2(node: KernelNode) -> Callable:
    """A new stack in every execution, with a limit."""
    name = _name(node)
    return lambda step, max_size: keep(step, Stack(name, int(max_size)))


# On the host on every device; or, as counts, where they were when they were pushed.
_HOST_TYPES = ("string", "resource", "variant", "int32", "bool")


@kernel("StackPush", "StackPushV2")
def push(node: KernelNode) -> Callable:
    """With swap_memory a device's value is kept on the host."""
    device = node.device
    if not (node.attr("swap_memory") and _is_elsewhere(node, "T")):
        return Stack.push

    def push_to_host(handle: Stack, value: Any) -> Any:
        handle.push(device.to_host(value))
        return value

    return push_to_host


@kernel("StackPop", "StackPopV2")
def pop(node: KernelNode) -> Callable:
    """The value on top, brought back to the device where it was swapped out."""
    if not _is_elsewhere(node, "elem_type"):
        return Stack.pop
    to_device = node.device.to_device
    return lambda handle: to_device(handle.pop())


def _is_elsewhere(node: KernelNode, attr: str) -> bool:
    """True for values that lie in a device's own memory, and may be swapped out of it."""
    return node.device.has_own_memory and node.attr(attr).base_dtype.name not in _HOST_TYPES


@kernel("StackClose", "StackCloseV2")
def close(node: KernelNode) -> Callable:
    """Drop the values."""
    return Stack.close
