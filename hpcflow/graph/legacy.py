"""Functions of ``python.framework`` of 1.x that its programs use, but not its public API."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import shape_inference
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import get_gradient
from hpcflow.graph.operation import Operation, Tensor, device_string
from hpcflow.graph.shape_inference import computed_value, constant_value_as_dims
from hpcflow.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_indexed_slices
from hpcflow.shapes import TensorShape, as_shape

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.device_spec import DeviceSpec


def get_gradient_function(op: Operation) -> Callable | None:
    """Return the function that computes the gradient of `op`; None where nothing flows.

    Raises ``LookupError`` if none is registered.
    """
    mapped = op.node_def.attr
    name = mapped["_gradient_op_type"].s.decode() if "_gradient_op_type" in mapped else op.type
    return get_gradient(name)


def name_from_scope_name(name: str) -> str:
    """Return the name of an op, given the name of its scope: without a slash at the end."""
    return name.removesuffix("/")


def strip_name_scope(name: str, export_scope: str | None) -> str:
    """Return `name` without the scope `export_scope` in front (also behind ``^``, ``loc:@``)."""
    if not export_scope:
        return name
    for mark in ("^", "loc:@", ""):
        start = f"{mark}{export_scope.removesuffix('/')}/"
        if name.startswith(start):
            return mark + name.removeprefix(start).lstrip("/")
    return name


def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """Return `name` with the scope `import_scope` in front (behind ``^`` and ``loc:@``)."""
    if not import_scope:
        return name
    mark = next(m for m in ("^", "loc:@", "") if name.startswith(m))
    return f"{mark}{import_scope.removesuffix('/')}/{name.removeprefix(mark)}"


def get_all_collection_keys() -> list:
    """Return the keys of all collections of the default graph."""
    return get_default_graph().get_all_collection_keys()


def add_to_collections(names: Iterable, value: Any) -> None:
    """Add `value` to each of several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def is_tensor(x: TensorLike) -> bool:
    """Return whether `x` is a tensor, dense or sparse, or a variable."""
    return isinstance(x, (Tensor, SparseTensor, IndexedSlices)) or hasattr(x, "_as_graph_element")


class EagerTensor(Tensor):
    """The type of tensors that are computed as they are made, of which there are none."""


def convert_to_tensor_v2(value: TensorLike, dtype: DTypeLike | None = None,
                         dtype_hint: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Return `value` as a tensor, see ``convert_to_tensor``."""
    return convert_to_tensor(value, dtype, name, dtype_hint)


def constant_value(tensor: TensorLike, partial: bool = False) -> Any:
    """Return the value of `tensor` if it follows from the graph alone, else None.

    What is no tensor is returned as it is. With `partial`, the value of tensors stacked along their
    first axis has None for those that are not known.
    """
    if not isinstance(tensor, Tensor):
        return None if is_tensor(tensor) else tensor
    known = shape_inference.constant_value(tensor)
    if known is not None or not partial or tensor.op.type != "Pack" or tensor.op.attr("axis"):
        return known
    parts = [shape_inference.constant_value(part) for part in tensor.op.inputs]
    if all(part is None for part in parts):
        return None
    stacked = np.empty(len(parts), object)
    stacked[:] = parts
    return stacked


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """Return what is known of a 1-D integer tensor that stands for a shape."""
    return TensorShape(constant_value_as_dims(tensor))


def convert_n_to_tensor_or_indexed_slices(values: Iterable, dtype: DTypeLike | None = None,
                                          name: str | None = None) -> list:
    """Return each value as a tensor, IndexedSlices or a sparse tensor; None stays None."""
    return [None if v is None else convert_to_tensor_or_indexed_slices(
        v, dtype, None if name is None else f"{name}_{i}") for i, v in enumerate(values)]


def ShapeEquals(tensor_proto: Message, shape: Sequence[int]) -> bool:
    """True if a ``TensorProto`` has this shape, a protobuf or a list."""
    return [d.size for d in tensor_proto.tensor_shape.dim] == as_shape(shape).as_list()


def TensorShapeProtoToList(shape: Message) -> list[int]:
    """The dimensions of a ``TensorShapeProto``."""
    return [d.size for d in shape.dim]


def inside_function() -> bool:
    """Return whether the default graph is the body of a function that is being built."""
    return get_default_graph().building_function


_uids = itertools.count(1)


def uid() -> int:
    """Return a number that no other call in this process returns."""
    return next(_uids)


def set_call_cpp_shape_fn(function: Callable) -> None:
    """Accept a function that infers shapes, and leave it: shapes follow from the op types."""


def RegisterShape(op_type: str) -> Callable:
    """Return a decorator that leaves a function as it is: shapes follow from the op types."""
    return lambda function: function


def node_def(op_type: str, name: str, device: DeviceSpec | str | None = None,
             attrs: Mapping[str, Message] | None = None) -> Message:
    """Return a ``NodeDef`` of this type, name and device, with these ``AttrValue``s."""
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

    return NodeDef(op=op_type, name=name, device=device_string(device), attr=dict(attrs or {}))


def bfloat16_type() -> type:
    """Return NumPy's scalar type of bfloat16."""
    return dtypes.bfloat16.as_numpy_dtype


def is_ragged(value: object) -> bool:
    """False: no value is a ragged tensor here."""
    return False


def try_evaluate_constant(graph: Any, output: Tensor) -> Any:
    """The value of a tensor that is computed from constants by operations without state, else
    None. Programs give what ``graph._c_graph`` and ``tensor._as_tf_output()`` are."""
    return computed_value(output)
