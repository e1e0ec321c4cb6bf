"""ResourceVariable: a variable that is kept by a resource handle and read where it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    colocate_with,
    control_dependencies,
    device,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.likes import DeviceLike, SessionLike, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.state.initial_values import reading_no_uninitialized
from hpcflow.ops.state.variables import Variable, variable_by_handle
from hpcflow.shapes import ShapeLike, TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__: list[str] = []

# Operations on references and those that do the same by handles, where the names differ more.
_BY_HANDLE = {"Assign": "AssignVariableOp", "AssignAdd": "AssignAddVariableOp",
              "AssignSub": "AssignSubVariableOp"}


class ResourceVariable(Variable):
    """A variable by handle, as ``use_resource=True`` asks for; arguments as of ``Variable``.

    Every use reads the variable where it is made among the operations, so control dependencies say
    before and after which changes. Methods that change it return a variable whose value is read
    after the change; with ``read_value=False`` the operation.
    """

    _is_by_handle = True

    def _make(self, shape: TensorShape, scope: str, validate_shape: bool,
              caching_device: DeviceLike | None) -> None:
        dtype = self._initial_value.dtype.base_dtype
        self._variable = raw_ops.VarHandleOp(dtype=dtype, shape=shape, name=scope,
                                             shared_name=scope.rstrip("/"))
        with name_scope("IsInitialized"), colocate_with(self._variable.op):
            raw_ops.VarIsInitializedOp(self._variable)
        assigned = reading_no_uninitialized(self._initial_value, scope)
        with colocate_with(self._variable.op):
            self._initializer_op = raw_ops.AssignVariableOp(self._variable, assigned, name="Assign")
        self._caching_device = caching_device
        with name_scope("Read"), self._reading_device():
            self._snapshot = self._read()

    def _init_from_proto(self, proto: Message, import_scope: str | None) -> None:
        super()._init_from_proto(proto, import_scope)
        if self._snapshot.op.type != "ReadVariableOp":  # a value that is cached elsewhere
            self._caching_device = self._snapshot.device

    def _read(self) -> Tensor:
        value: Tensor = raw_ops.ReadVariableOp(self._variable, dtype=self.dtype)
        if value._dims is None and self.shape.ndims is not None:
            value.set_shape(self.shape)
        return value

    def __deepcopy__(self, memo: dict) -> ResourceVariable:
        raise NotImplementedError(f"Variable '{self.name}' is part of a graph and cannot be copied "
                                  "by itself; read it, or save and restore it")

    def _reading_device(self) -> Any:
        if self._caching_device is None:
            return super()._reading_device()
        return _on_device_alone(self._caching_device)

    def _beside(self) -> Any:
        """Context manager that colocates operations with the variable, except inside functions."""
        graph = get_default_graph()
        if graph is not self._variable.graph:
            return contextlib.nullcontext()
        return graph.colocate_with(self._variable.op, ignore_existing=True)

    # ------------------------------------------------------------ facts

    @property
    def handle(self) -> Tensor:
        """The handle, a scalar of type resource, for the operations on handles."""
        return self._variable

    @property
    def dtype(self) -> DType:
        """The element type."""
        known: DType = self._variable._handle_data[0]
        return known

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return TensorShape(self._variable._handle_data[1])

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Merge `shape` into the static shape of the variable and of its value."""
        merged = self.shape.merge_with(shape)
        self._variable._handle_data = (self.dtype, merged._dims)
        self._snapshot.set_shape(merged)

    @property
    def create(self) -> Operation:
        """The operation that assigns the initial value."""
        return self._initializer_op

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return a boolean tensor: whether the variable has a value."""
        with self._beside():
            return raw_ops.VarIsInitializedOp(self._variable, name=name)

    # ------------------------------------------------------------ reading

    def value(self) -> Tensor:
        """Return a tensor that reads the variable, or what ``caching_device`` has of it."""
        if self._caching_device is not None:
            return self._snapshot
        with self._beside():
            return self._read()

    def read_value(self) -> Tensor:
        """Return a new tensor that reads the variable where it is made among the operations."""
        with name_scope("Read"):
            with self._beside():
                value = self._read()
        # The value of this moment, wherever it goes from here.
        return raw_ops.Identity(value)

    def eval(self, session: SessionLike | None = None) -> Any:
        """Return the value as an array, read in the given or the default session."""
        return self._as_graph_element().eval(session=session)

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value while there is none: for other initial values.

        Raises ``ValueError`` where `initial_value` is None.
        """
        initial = self._known_initial_value()
        with control_dependencies(None):
            value: Tensor = cond(self.is_initialized(), self.read_value, lambda: initial)
            return value

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows ``variable[indices, ...]``; no more of the variable is read."""
        with name_scope(name, "Gather", [indices]) as scope, self._beside():
            return raw_ops.ResourceGather(self._variable, indices, dtype=self.dtype, name=scope)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return elements or slices by coordinates: ``variable[tuple(indices[i])]``."""
        with name_scope(name, "GatherNd", [indices]) as scope, self._beside():
            return raw_ops.ResourceGatherNd(self._variable, indices, dtype=self.dtype, name=scope)

    # ------------------------------------------------------------ changing

    def assign(self, value: TensorLike, use_locking: bool = False, name: str | None = None,
               read_value: bool = True) -> Any:
        """Assign `value`; returns a variable that is read after it, or without `read_value` the
        operation. Raises ``ValueError`` for a value that does not fit the static shape."""
        return self._changed("Assign", value, name=name, read_value=read_value)

    def assign_add(self, delta: TensorLike, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Add `delta`; returns as :meth:`assign`."""
        return self._changed("AssignAdd", delta, name=name, read_value=read_value)

    def assign_sub(self, delta: TensorLike, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Subtract `delta`; returns as :meth:`assign`."""
        return self._changed("AssignSub", delta, name=name, read_value=read_value)

    def count_up_to(self, limit: int) -> Tensor:
        """Return the value before incrementing; ``OutOfRangeError`` (when run) at `limit`."""
        return self._changed("CountUpTo", limit=limit)

    def _changed(self, op_type: str, *args: Any, name: str | None = None, read_value: bool = True,
                 use_locking: bool | None = None, **attrs: Any) -> Any:
        """Apply the form for handles of an operation on references; see ``state.changed``."""
        del use_locking  # updates always hold the lock
        with self._own_graph():
            return self._change(op_type, args, name, read_value, attrs)

    def _own_graph(self) -> Any:
        """Context manager: the variable's graph, except inside functions."""
        graph, own = get_default_graph(), self._variable.graph
        outside = graph is not own and not graph.building_function
        return own.as_default() if outside else contextlib.nullcontext()

    def _change(self, op_type: str, args: tuple, name: str | None, read_value: bool,
                attrs: dict) -> Any:
        build = getattr(raw_ops, _BY_HANDLE.get(op_type, f"Resource{op_type}"))
        if op_type == "CountUpTo":
            with self._beside():
                return build(self._variable, T=self.dtype, name=name, **attrs)
        if op_type.startswith("Assign"):
            args, attrs = (self._checked_value(args[0]),), {}
        elif op_type.startswith("Scatter"):
            *places, values = args
            args = (*places, convert_to_tensor(values, self.dtype, name="updates"))
        with self._beside():
            op = build(self._variable, *args, name=name, **attrs)
        return UnreadVariable(self, op) if read_value else op

    def _checked_value(self, value: Tensor) -> Tensor:
        tensor: Tensor = convert_to_tensor(value, self.dtype, name="value")
        if not self.shape.is_compatible_with(tensor.shape):
            raise ValueError(f"Cannot assign to variable {self.name}: its shape {self.shape} and "
                             f"the shape {tensor.shape} of the value do not fit; shapes must be "
                             "equal")
        return tensor

    # ------------------------------------------------------------ protobufs

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the ``VariableDef``, or None if the variable is outside `export_scope`."""
        proto = super().to_proto(export_scope)
        if proto is not None:
            proto.is_resource = True
        return proto

    # ------------------------------------------------------------ standing for a tensor

    def _as_graph_element(self) -> Tensor:
        return self._snapshot

    def _as_tensor(self, dtype: DType | None = None, name: str | None = None,
                   as_ref: bool = False) -> Tensor:
        """The value, read here (the handle with `as_ref`), checked to have `dtype`."""
        checked = dtype is None or dtypes.as_dtype(dtype).is_compatible_with(self.dtype)
        if not checked:
            raise ValueError(f"Variable '{self.name}' has dtype {self.dtype.name}, but "
                             f"{dtypes.as_dtype(dtype).name} is required")
        return self._variable if as_ref else self.value()


class UnreadVariable(ResourceVariable):
    """The result of changing a variable: the variable, read or changed again after the change.

    Its ``op`` and ``name`` are those of the change.
    """

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        """Make one; nothing is asked of the arguments."""
        return object.__new__(cls)

    def __init__(self, variable: ResourceVariable, changed_by: Operation) -> None:
        self.__dict__.update(variable.__dict__)
        self._caching_device = None
        self._changed_by = changed_by
        self._snapshot = self.value()  # here, as a graph may be finalized before it is run

    @property
    def op(self) -> Operation:
        """The change."""
        return self._changed_by

    @property
    def name(self) -> str:
        """The name of the change."""
        return self._changed_by.name

    @property
    def trainable(self) -> bool:
        """False: it is the variable itself that optimizers change."""
        return False

    def value(self) -> Tensor:
        """Return a tensor that reads the variable after the change."""
        with control_dependencies([self._changed_by]):
            return super().value()

    def read_value(self) -> Tensor:
        """As :meth:`value`, with a name of its own."""
        with control_dependencies([self._changed_by]):
            return super().read_value()

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return the rows ``variable[indices, ...]`` after the change."""
        with control_dependencies([self._changed_by]):
            return super().sparse_read(indices, name)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """Return elements or slices by coordinates, after the change."""
        with control_dependencies([self._changed_by]):
            return super().gather_nd(indices, name)

    def _changed(self, op_type: str, *args: Any, **options: Any) -> Any:
        with control_dependencies([self._changed_by]):
            return super()._changed(op_type, *args, **options)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Not possible: a change is no variable of the graph."""
        raise TypeError(f"'{self.name}' is a change of a variable and has no VariableDef")


@contextlib.contextmanager
def _on_device_alone(wanted: DeviceLike) -> Iterator[None]:
    """Context manager: operations on that device, whatever else was asked for around it."""
    with get_default_graph().colocate_with(None, ignore_existing=True), device(wanted):
        yield


def is_resource_variable(var: TensorLike) -> bool:
    """True for a variable that operations know by a handle."""
    return isinstance(var, ResourceVariable)


def updated(op_type: str, states: list, *args: Any, **attrs: Any) -> Operation:
    """Return the training update of `op_type`, by references or by handles as `states` are;
    `states` are the variables that it changes, all of one kind."""
    if getattr(states[0], "_is_by_handle", False):
        handles = [s.handle for s in states]
        made: Operation = getattr(raw_ops, f"Resource{op_type}")(*handles, *args, **attrs)
        return made
    op: Operation = getattr(raw_ops, op_type)(*states, *args, **attrs).op
    return op


variable_by_handle.provide(lambda: ResourceVariable)
