"""Queries and layouts of ``python.framework.test_util`` of 1.x, for tests of operations."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


def IsGoogleCudaEnabled() -> bool:
    """False: kernels of GPUs come with CuPy, not with the library."""
    return False


def IsMklEnabled() -> bool:
    """False: oneDNN's products are used by the kernels of this library, not by the reference's."""
    return False


def is_built_with_rocm() -> bool:
    """False: GPUs are driven through CUDA."""
    return False


def is_xla_enabled() -> bool:
    """False: loops are compiled here without XLA."""
    return False


def CudaSupportsHalfMatMulAndConv() -> bool:
    """False, as :func:`IsGoogleCudaEnabled`."""
    return False


GpuSupportsHalfMatMulAndConv = CudaSupportsHalfMatMulAndConv


def NHWCToNCHW(input_tensor: TensorLike) -> Any:
    """Move the channels of a shape (a list of 4 or 5) or of a 4-D tensor to the second place."""
    return _reordered(input_tensor, {4: [0, 3, 1, 2], 5: [0, 1, 4, 2, 3]})


def NCHWToNHWC(input_tensor: TensorLike) -> Any:
    """Move the channels of a shape (a list of 4 or 5) or of a 4-D tensor to the last place."""
    return _reordered(input_tensor, {4: [0, 2, 3, 1], 5: [0, 1, 3, 4, 2]})


def _reordered(value: Any, orders: dict[int, list[int]]) -> Any:
    if isinstance(value, Tensor):
        return raw_ops.Transpose(x=value, perm=orders[len(value.get_shape())])
    return [value[i] for i in orders[len(value)]]
