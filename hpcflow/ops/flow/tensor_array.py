"""TensorArray: a list of tensors that a step fills and reads, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, colocate_with, control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.ops.common.static_shape import shape_of
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

__all__ = ["TensorArray"]


class TensorArray:
    """A list of tensors of one type, for use in ``while_loop`` and ``map_fn``.

    Each element is written once; gradients flow back through writes and reads. Methods that write
    return a new object with the `flow` after the write, which is to be used from then on: what
    is done with it comes after the write.

    Args:
        dtype: of the elements.
        size: the number of elements, a scalar int32.
        dynamic_size: writing beyond the end makes the array longer.
        clear_after_read: drop an element when it was read (the default), which saves memory; it
            can then be read only once.
        tensor_array_name: a name for messages.
        handle: an existing array's handle (then no array is made; not together with the
            arguments above).
        flow: an existing array's flow.
        infer_shape: all elements have the same shape, which is taken from what is written.
        element_shape: the shape of the elements, as far as it is known; it is then checked.
        name: name of the operation.

    Raises: ``ValueError`` for arguments that exclude each other or a missing size; ``TypeError``
        for a handle that is not a tensor.
    """

    def __init__(self, dtype: DTypeLike, size: TensorLike | None = None,
                 dynamic_size: bool | None = None, clear_after_read: bool | None = None,
                 tensor_array_name: str | None = None, handle: Tensor | None = None,
                 flow: Tensor | None = None, infer_shape: bool = True,
                 element_shape: ShapeLike | None = None, name: str | None = None,
                 colocate_with_first_write_call: bool = True) -> None:
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._elements = _Elements(infer_shape, element_shape)
        if handle is not None:
            _check_handle(handle, size=size, dynamic_size=dynamic_size,
                          clear_after_read=clear_after_read, tensor_array_name=tensor_array_name)
            self._handle = handle
            self._flow = convert_to_tensor(0.0 if flow is None else flow, dtypes.float32)
            return
        if size is None:
            raise ValueError("TensorArray: the size must be given where there is no handle")
        with name_scope(name, "TensorArray", [size, flow]) as scope:
            self._handle, self._flow = raw_ops.TensorArrayV3(
                size=size, dtype=self._dtype, element_shape=self._elements.shape,
                dynamic_size=bool(dynamic_size),
                clear_after_read=clear_after_read is not False,
                identical_element_shapes=infer_shape,
                tensor_array_name=tensor_array_name or "", name=scope)

    # ------------------------------------------------------------ facts

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def handle(self) -> Tensor:
        """The handle of the array."""
        return self._handle

    @property
    def flow(self) -> Tensor:
        """A scalar whose value does not matter: it orders what is done with the array."""
        return self._flow

    @property
    def graph(self) -> Graph:
        """The graph of the array."""
        return self._handle.graph

    @property
    def element_shape(self) -> TensorShape:
        """The shape of the elements, as far as it is known."""
        return self._elements.shape

    def _with_flow(self, flow: Tensor) -> TensorArray:
        """The same array at another point of the flow; what is known of the elements is shared."""
        other = TensorArray.__new__(TensorArray)
        other._dtype = self._dtype
        other._elements = self._elements
        other._handle = self._handle
        other._flow = flow
        return other

    def of_handle(self, handle: Tensor) -> TensorArray:
        """The array that `handle` says, at this point of its flow and with such elements."""
        other = self._with_flow(self._flow)
        other._handle = handle
        return other

    def identity(self) -> TensorArray:
        """Return the same array, to be used after the control dependencies of here."""
        return self._with_flow(raw_ops.Identity(self._flow))

    def grad(self, source: str, flow: Tensor | None = None,
             name: str | None = None) -> TensorArray:
        """Return the array of gradients for the computation called `source`.

        It has the size that this array has when the gradient array is first used; from then on
        this array cannot grow. What is written to an element there is added up.
        """
        flow = self._flow if flow is None else flow
        with name_scope(name, "TensorArrayGrad", [self._handle]) as scope:
            with colocate_with(self._handle):
                handle, _ = raw_ops.TensorArrayGradV3(
                    handle=self._handle, flow_in=flow, source=source, name=scope)
                with control_dependencies([handle]):
                    flow = raw_ops.Identity(flow, name="gradient_flow")
            array = TensorArray(self._dtype, handle=handle, flow=flow,
                                infer_shape=self._elements.infer)
            array._elements.shape = self._elements.shape
            return array

    # ------------------------------------------------------------ elements

    def read(self, index: TensorLike, name: str | None = None) -> Tensor:
        """Return element `index`, a scalar int32."""
        with colocate_with(self._handle):
            value = raw_ops.TensorArrayReadV3(handle=self._handle, index=index,
                                              flow_in=self._flow, dtype=self._dtype, name=name)
        value.set_shape(self._elements.shape)
        return value

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """Set element `index` to `value`; returns the array after the write."""
        with name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = self._convert(value)
            self._elements.merge(value.shape)
            return self._apply("WriteV3", index=index, value=value, T=self._dtype)

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the elements `indices` (a vector), stacked along a new first dimension."""
        with colocate_with(self._handle):
            return raw_ops.TensorArrayGatherV3(
                handle=self._handle, indices=indices, flow_in=self._flow, dtype=self._dtype,
                element_shape=self._elements.shape, name=name)

    def scatter(self, indices: TensorLike, value: TensorLike,
                name: str | None = None) -> TensorArray:
        """Set the elements `indices` (a vector) to the rows of `value`; returns the array."""
        with name_scope(name, "TensorArrayScatter", [self._handle, indices, value]):
            value = self._convert(value)
            if value._dims:
                self._elements.merge(TensorShape(value._dims[1:]))
            return self._apply("ScatterV3", indices=indices, value=value)

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements, stacked along a new first dimension."""
        with name_scope(name, "TensorArrayStack", [self._handle]):
            return self.gather(raw_ops.Range(0, self.size(), 1))

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """Set the first elements to the rows of `value`; returns the array."""
        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            value = self._convert(value)
            if value._dims is not None and value._dims and value._dims[0] is not None:
                return self.scatter(np.arange(value._dims[0], dtype=np.int32), value)
            count = raw_ops.StridedSlice(shape_of(value), [0], [1], [1], shrink_axis_mask=1)
            return self.scatter(raw_ops.Range(0, count, 1), value)

    pack = stack
    unpack = unstack

    def concat(self, name: str | None = None) -> Tensor:
        """Return all elements, one after the other along their first dimension."""
        dims = self._elements.shape._dims
        if dims == ():
            raise ValueError("TensorArray.concat: the elements are scalars; use stack")
        rest = TensorShape(None if dims is None else dims[1:])
        with colocate_with(self._handle):
            value, _ = raw_ops.TensorArrayConcatV3(
                handle=self._handle, flow_in=self._flow, dtype=self._dtype,
                element_shape_except0=rest, name=name)
        return value

    def split(self, value: TensorLike, lengths: Any, name: str | None = None) -> TensorArray:
        """Set the elements to pieces of `value` of the given lengths; returns the array."""
        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = self._convert(value)
            lengths = convert_to_tensor(lengths)
            if lengths.dtype.base_dtype is not dtypes.int64:
                lengths = raw_ops.Cast(lengths, DstT=dtypes.int64)
            if self._elements.infer and value._dims:
                first = _common(constant_value(lengths))
                self._elements.merge(TensorShape(
                    None if first is None else (first, *value._dims[1:])))
            return self._apply("SplitV3", value=value, lengths=lengths)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        with colocate_with(self._handle):
            return raw_ops.TensorArraySizeV3(handle=self._handle, flow_in=self._flow, name=name)

    def close(self, name: str | None = None) -> Operation:
        """Return an operation that drops the elements before the step ends."""
        with colocate_with(self._handle):
            return raw_ops.TensorArrayCloseV3(handle=self._handle, name=name)

    def mark_used(self) -> None:
        """Do nothing: it is no mistake not to use an array."""

    # ------------------------------------------------------------ helpers

    def _convert(self, value: TensorLike) -> Tensor:
        plain = isinstance(value, (np.ndarray, np.generic)) or not hasattr(value, "dtype")
        tensor = convert_to_tensor(value, preferred_dtype=self._dtype if plain else None,
                                   name="value")
        if tensor.dtype.base_dtype is not self._dtype:
            raise TypeError(f"TensorArray: the elements are {self._dtype.name}, but "
                            f"{tensor.name} is {tensor.dtype.base_dtype.name}")
        return tensor

    def _apply(self, op: str, **arguments: Any) -> TensorArray:
        with colocate_with(self._handle):
            flow = getattr(raw_ops, f"TensorArray{op}")(
                handle=self._handle, flow_in=self._flow, **arguments)
        return self._with_flow(flow)


class _Elements:
    """The common shape of the elements, shared by all objects that stand for one array."""

    def __init__(self, infer: bool, shape: ShapeLike | None) -> None:
        self.infer = infer
        self.shape = as_shape(shape)

    def merge(self, shape: TensorShape) -> None:
        """Take in the shape of an element; ``ValueError`` if it does not fit the others."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(f"TensorArray: inconsistent shapes: an element of shape {shape}, but "
                             f"the elements have shape {self.shape} (infer_shape=False allows "
                             "different shapes)")
        if self.infer:
            self.shape = self.shape.merge_with(shape)


def _check_handle(handle: Tensor | int, **others: Any) -> None:
    for name, value in others.items():
        if value is not None:
            raise ValueError(f"TensorArray: handle and {name} cannot both be given")
    if not isinstance(handle, Tensor):
        raise TypeError(f"TensorArray: the handle must be a tensor, got {handle!r}")


def _common(lengths: np.ndarray | None) -> int | None:
    """Return the length that all elements have; None if lengths are unknown or differ."""
    if lengths is None or not lengths.size or (lengths != lengths[0]).any():
        return None
    return int(lengths[0])


def _flow_of(array: TensorArray) -> list[Tensor]:
    return [array.flow]


def _at_flow(array: TensorArray, flows: Sequence[Tensor]) -> TensorArray:
    return array._with_flow(flows[0])


nest.register_composite(TensorArray, _flow_of, _at_flow)
