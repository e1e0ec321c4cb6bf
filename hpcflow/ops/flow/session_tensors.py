"""Tensors that stay with the session, on their device, between steps; steps pass handles."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes as dtypes_lib
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, device, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import scalar, unknown

__all__ = ["delete_session_tensor", "get_session_handle", "get_session_tensor"]

register_op("GetSessionHandle", "value: T", "handle: string", "T: type", shape=scalar,
            stateful=True)
register_op("GetSessionTensor", "handle: string", "value: dtype", "dtype: type", shape=unknown,
            stateful=True)
register_op("DeleteSessionTensor", "handle: string", stateful=True)
not_differentiable("GetSessionHandle", "GetSessionTensor", "DeleteSessionTensor")


def get_session_handle(data: TensorLike, name: str | None = None) -> Tensor:
    """Return an operation that keeps the value of `data` in the session.

    Fetching it gives a handle, to be fed where :func:`get_session_tensor` asks for it; the value
    stays on its device until the handle is deleted, or nobody refers to it any more. Raises
    ``TypeError`` unless `data` is a tensor.
    """
    if not isinstance(data, Tensor):
        data = convert_to_tensor(data) if hasattr(data, "graph") else data
    if not isinstance(data, Tensor):
        raise TypeError("`data` must be of type Tensor.")
    with colocate_with(data.op):
        return raw_ops.GetSessionHandle(value=data, name=name)


def get_session_tensor(handle: Any, dtype: DTypeLike,
                       name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return (placeholder, tensor): the tensor is the value behind the handle that is fed.

    Args:
        handle: a handle that was fetched; says on which device to work.
        dtype: dtype of the value.
        name: name of the operation.
    """
    with device(_device_of(handle)):
        holder = raw_ops.Placeholder(dtype=dtypes_lib.string, shape=None)
        return holder, raw_ops.GetSessionTensor(handle=holder, dtype=dtypes_lib.as_dtype(dtype),
                                                name=name)


def delete_session_tensor(handle: Any, name: str | None = None) -> tuple[Tensor, Operation]:
    """Return (placeholder, operation): the operation forgets the value behind the handle fed."""
    with device(_device_of(handle)), name_scope(name, "DeleteSessionTensor"):
        holder = raw_ops.Placeholder(dtype=dtypes_lib.string, shape=None)
        return holder, raw_ops.DeleteSessionTensor(handle=holder)


def _device_of(handle: Any) -> str:
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    parts = text.split(";")
    if len(parts) != 3:
        raise ValueError(f"Expected a handle of a session's tensor, got {text!r}")
    return parts[-1]
