"""bind: a node and the device it is on give a kernel function with everything fixed known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.codegen import ALIASES, NOTHING, Bound
from hpcflow.compiler.ir import FETCH, RECV, Node
from hpcflow.errors import InvalidArgumentError, UnimplementedError, op_error
from hpcflow.graph.operation import arg_types
from hpcflow.kernels.registry import (
    RESOURCE,
    Kernel,
    KernelNode,
    describe_kernels,
    find_kernel,
)


class Binder:
    """Makes the kernels of one task's nodes.

    `devices` maps canonical names to device objects; `context` is what kernels see of the session
    and the task (``op_state``, ...).
    """

    def __init__(self, devices: dict[str, Any], context: Any) -> None:
        self.devices = devices
        self.context = context
        self.known: dict[tuple[Node, int], Any] = {}

    def bind(self, node: Node) -> Bound:
        """Return `node` with its function, or with the constant that it is."""
        device = self.devices[node.device]
        if node.is_const:
            return self._constant(node, _on_device(device, node.attrs["value"]))
        if node.type in NOTHING:
            return Bound(node, None, None)
        if node.type == FETCH:
            return Bound(node, None, _fetch)
        if node.type == RECV:
            source = self.devices[node.inputs[0][0].device]
            return Bound(node, None, _transfer(source, device))
        if node.type in ALIASES and not device.has_own_memory:
            return Bound(node, None, None)
        kernel = self._kernel(node, device)
        function = instantiate(node, kernel, device, self.context, self._constants(node))
        if kernel.mode == RESOURCE:
            return self._constant(node, function, kernel)
        return Bound(node, kernel, function)

    def _constant(self, node: Node, value: Any, kernel: Kernel | None = None) -> Bound:
        self.known[(node, 0)] = value
        return Bound(node, kernel, None, value, True)

    def _constants(self, node: Node) -> list:
        return [s.attrs["value"] if s.is_const else None for s, _ in node.inputs]

    def _kernel(self, node: Node, device: Any) -> Kernel:
        kernel = find_kernel(node.type, device.type, node.attrs)
        if kernel is None:
            raise op_error(UnimplementedError, f"No kernel for {node.type} on {device.type}: "
                           f"{describe_kernels(node.type)}", op=node, device=node.device)
        return kernel


def instantiate(node: Node, kernel: Kernel, device: Any, context: Any, constants: list) -> Any:
    """Call the kernel's factory for `node`; for devices with own memory, wrap the transfers."""
    kernel_node = KernelNode(
        node.name, node.type, node.attrs, device, [s.dtypes[i].base_dtype for s, i in node.inputs],
        node.dtypes, [s.dims[i] for s, i in node.inputs], node.dims, constants, context, node.op)
    try:
        function = kernel.factory(kernel_node)
    except (ValueError, TypeError, IndexError) as e:
        raise op_error(InvalidArgumentError, str(e), op=node, device=node.device) from e
    if device.has_own_memory and kernel.mode != RESOURCE:
        return _with_transfers(function, kernel, device, len(node.inputs))
    return function


def _on_device(device: Any, value: Any) -> Any:
    return device.to_device(value) if device.has_own_memory else value


def _with_transfers(function: Callable, kernel: Kernel, device: Any, count: int) -> Callable:
    """Bring inputs to where the kernel wants them, and outputs to the device."""
    lead = {"sync": 0, "step": 1, "async": 2}[kernel.mode]
    host = frozenset(kernel.host_inputs)
    moves = [device.to_host if i in host else device.to_device for i in range(count)]

    def run(*args: Any, **keywords: Any) -> Any:
        values = [move(v) if isinstance(v, (np.ndarray, np.generic)) or device.is_device_value(v)
                  else v for move, v in zip(moves, args[lead:], strict=True)]
        return function(*args[:lead], *values, **keywords)

    return run


def _transfer(source: Any, destination: Any) -> Callable:
    """The function that moves a value between two devices of one task."""
    if source is destination or not (source.has_own_memory or destination.has_own_memory):
        return _same
    return lambda value: destination.to_device(source.to_host(value))


def _same(value: Any) -> Any:
    return value


def _fetch(value: Any) -> Any:
    """The client's own copy of a value: an array, or a NumPy scalar for rank 0."""
    if isinstance(value, np.ndarray):
        return value.copy() if value.ndim else value[()]
    if isinstance(value, (np.generic, bytes)):
        return value
    return _fetch(np.asarray(value)) if not _opaque(value) else value


def _opaque(value: Any) -> bool:
    """Handles of resources are fetched as they are."""
    return not isinstance(value, (bool, int, float, complex, list, tuple))


def _fetch_own(value: Any) -> Any:
    """As :func:`_fetch` for a value that nobody else refers to."""
    return value if value.ndim else value[()]


def expected_types(node: Node) -> list:
    """The declared output types of a node (for the stage checks)."""
    return arg_types(node.op_def.outputs, node.attrs)


