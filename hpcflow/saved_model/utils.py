"""Tensors as ``TensorInfo``, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.common.slice_info import prepend_scope
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.operation import Operation, Tensor
    from hpcflow.ops.state.variables import Variable


def build_tensor_info(tensor: Tensor | Variable | SparseTensor) -> Any:
    """Return the ``TensorInfo`` of a tensor, a variable or a SparseTensor: names, dtype, shape."""
    from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo

    info = TensorInfo(dtype=dtypes.as_dtype(tensor.dtype).as_datatype_enum,
                      tensor_shape=tensor.get_shape().as_proto())
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


def build_tensor_info_from_op(op: Operation | Tensor) -> Any:
    """Return a ``TensorInfo`` with the name of an operation, and neither a dtype nor a shape."""
    from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo

    return TensorInfo(name=op.name, tensor_shape=TensorShape(None).as_proto())


def get_element_from_tensor_info(tensor_info: Message, graph: Graph | None = None,
                                 import_scope: str | None = None) -> Operation | Tensor:
    """Return the operation or tensor of a graph that a ``TensorInfo`` names; the arguments are
    those of :func:`get_tensor_from_tensor_info`. Raises ``KeyError`` if there is none."""
    graph = graph or get_default_graph()
    return graph.as_graph_element(prepend_scope(tensor_info.name, import_scope))


def get_tensor_from_tensor_info(tensor_info: Message, graph: Graph | None = None,
                                import_scope: str | None = None) -> Any:
    """Return the Tensor or SparseTensor that a ``TensorInfo`` names.

    Args:
        tensor_info: the ``TensorInfo``.
        graph: where it is looked up; the default graph by default.
        import_scope: name scope to put before its names.

    Raises ``KeyError`` if there is no such tensor, ``ValueError`` for a `tensor_info` that names
    neither.
    """
    graph = graph or get_default_graph()

    def named(name: str) -> Any:
        return graph.get_tensor_by_name(prepend_scope(name, import_scope))

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return named(tensor_info.name)
    if encoding == "coo_sparse":
        parts = tensor_info.coo_sparse
        return SparseTensor(named(parts.indices_tensor_name), named(parts.values_tensor_name),
                            named(parts.dense_shape_tensor_name))
    raise ValueError(f"Invalid TensorInfo.encoding: {encoding}; expected name or coo_sparse")
