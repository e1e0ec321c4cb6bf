"""Kernel of constants that are mapped from a file."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from hpcflow.errors import InternalError, UnimplementedError
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.storage.system_errors import system_errors


@kernel("ImmutableConst", device="CPU")
def _immutable(node: KernelNode) -> Callable:
    """Mapped when first used, then kept: the pages are the system's, and loaded when touched."""
    dtype, shape = node.output_dtypes[0].base_dtype, node.attr("shape")
    if dtype.size == 0:
        raise UnimplementedError(None, None, f"ImmutableConst of {dtype.name} is not supported")
    if not shape.is_fully_defined():
        raise invalid(f"ImmutableConst needs a fully defined shape, got {shape}")
    path, dims = node.attr("memory_region_name").decode(), tuple(shape.as_list())
    mapped: list[np.ndarray] = []

    def value() -> np.ndarray:
        if not mapped:
            mapped.append(_mapped(path, dtype.np, dims))
        return mapped[0]

    return value


def _mapped(path: str, dtype: np.dtype, dims: tuple[int, ...]) -> np.ndarray:
    wanted = int(np.prod(dims)) * dtype.itemsize
    with system_errors(f"mapping file '{path}'"):
        size = os.path.getsize(path)
        if size < wanted:
            raise InternalError(None, None, f"File '{path}' has {size} bytes, the tensor {wanted}")
        if not wanted:
            return np.empty(dims, dtype)
        return np.asarray(np.memmap(path, dtype, "r", shape=dims or (1,))).reshape(dims)[()]
