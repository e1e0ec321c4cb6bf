"""Kernels of tensors that stay with a session between steps."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel

_numbers = itertools.count(1)


def _store(node: KernelNode) -> dict[bytes, tuple[Any, Any]]:
    """Handle -> (device, value): what the session keeps on this task."""
    return node.context.op_state("tensors of the session", dict)


@kernel("GetSessionHandle", host_outputs=(0,))
def _keep(node: KernelNode) -> Callable:
    store, device = _store(node), node.device

    def run(value: Any) -> bytes:
        handle = f"{node.name};{next(_numbers)};{device.name}".encode()
        store[handle] = (device, value.copy() if getattr(value, "ndim", 0) else value)
        return handle

    return run


def _find(store: dict, handle: bytes) -> tuple[Any, Any]:
    try:
        return store[bytes(handle)]
    except KeyError:
        raise invalid(f"The tensor with handle '{handle.decode(errors='replace')}' is not in the "
                      "session store.") from None


@kernel("GetSessionTensor")
def _get(node: KernelNode) -> Callable:
    store, device, dtype = _store(node), node.device, node.attr("dtype")

    def run(handle: bytes) -> Any:
        home, value = _find(store, handle)
        kept = "string" if isinstance(value, bytes) or value.dtype == np.object_ else value.dtype
        if kept != ("string" if dtype.name == "string" else dtype.np):
            raise invalid(f"The tensor with handle '{handle.decode(errors='replace')}' has type "
                          f"{kept}, not {dtype.name}")
        return value if home is device else device.to_device(home.to_host(value))

    return run


@kernel("DeleteSessionTensor")
def _delete(node: KernelNode) -> Callable:
    store = _store(node)

    def run(handle: bytes) -> None:
        _find(store, handle)
        del store[bytes(handle)]

    return run
