"""Variable: a tensor that keeps its value between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import dtypes
from hpcflow.base.hooks import Hook
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.graph.convert import convert_to_tensor, register_tensor_conversion_function
from hpcflow.graph.graph import (
    Graph,
    add_to_collection,
    colocate_with,
    control_dependencies,
    device,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.identity import Reference
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, DeviceLike, SessionLike, TensorLike
from hpcflow.graph.operation import (
    COLOCATION_ATTR,
    COLOCATION_PREFIX,
    Operation,
    Tensor,
    refuse_array,
)
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import seeds_of_place
from hpcflow.ops.arrays.slicing import slice_tensor
from hpcflow.ops.common import slice_info
from hpcflow.ops.common.slice_info import prepend_scope, strip_scope
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.state import state
from hpcflow.ops.state.creators import Created
from hpcflow.ops.state.initial_values import reading_no_uninitialized
from hpcflow.ops.state.replication import (
    VariableAggregation,
    VariableSynchronization,
    checked_replication,
)
from hpcflow.ops.state.variable_rows import RowsOfVariable
from hpcflow.shapes import ShapeLike, TensorShape, as_shape

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["Variable"]


#: The class of variables that are kept by a resource handle; `handle_variables` provides it.
variable_by_handle = Hook("the class of resource variables")


class Variable(RowsOfVariable, metaclass=Created):
    """A tensor kept by the runtime from step to step, changed by its assign methods.

    It stands for its value wherever a tensor is expected. It must be initialized before it is
    read: by its ``initializer``, by ``global_variables_initializer()`` or by ``Saver.restore``.

    Args:
        initial_value: the initial value, anything convertible to a tensor, or a function without
            arguments that returns it (then `dtype` is required). Where it is computed of other
            variables, those need not be initialized before.
        trainable: add to the collection of variables that optimizers change.
        collections: collections to add to; global variables if None.
        validate_shape: require a fully known shape (a resource variable's may be known in part),
            and keep it; if False the variable may take a value of any shape.
        caching_device: device on which reads are cached, for a variable kept elsewhere.
        name: name; "Variable" with a number if None.
        variable_def: a ``VariableDef`` protobuf: stand for the variable that it describes in the
            default graph; the other arguments are then ignored.
        dtype: convert the initial value to this type.
        expected_shape: the shape that the initial value must have, if given.
        shape: the static shape, where it is to be less known than that of the initial value:
            ``TensorShape(None)`` for a variable that takes values of any shape.
        import_scope: with `variable_def`: prefix of the names.
        constraint: a function that optimizers apply to the value after an update, or None.
        use_resource: True: keep the variable by a resource handle, see
            `ResourceVariable` of `handle_variables`; None: as the variable scope
            says, else False.
        synchronization, aggregation: kept, for programs that look; variables ON_READ are not
            trained.

    Raises: ``ValueError`` for a missing initial value or one without a known shape; ``TypeError``
        for collections that are not a list.
    """

    SaveSliceInfo = slice_info.SaveSliceInfo
    _is_by_handle = False
    __array_priority__ = 100
    __array__ = refuse_array

    asks_creators = True

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        """Make a variable of the kind that `use_resource`, or the `variable_def`, asks for."""
        if cls is Variable and _is_by_handle(args, keywords):
            return super().__new__(variable_by_handle())
        return super().__new__(cls)

    def __init__(self, initial_value: Any = None, trainable: bool | None = None,
                 collections: Collections | None = None, validate_shape: bool = True,
                 caching_device: Any = None, name: str | None = None,
                 variable_def: Message | None = None, dtype: DTypeLike | None = None,
                 expected_shape: Any = None, import_scope: str | None = None,
                 constraint: Callable | None = None, use_resource: bool | None = None,
                 synchronization: VariableSynchronization | None = None,
                 aggregation: VariableAggregation | None = None,
                 shape: ShapeLike | None = None) -> None:
        if constraint is not None and not callable(constraint):
            raise ValueError(f"The `constraint` argument must be a callable, got {constraint!r}")
        self._save_slice_info: slice_info.SaveSliceInfo | None = None
        self._caching_device: Any = None
        self._initial_value: Any = None
        self._constraint = constraint
        self._synchronization, self._aggregation, trainable = checked_replication(
            synchronization, aggregation, trainable, name)
        if variable_def is not None:
            self._init_from_proto(variable_def, import_scope)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        self._trainable = trainable
        collections = _checked_collections(collections, trainable)
        with control_dependencies(None):
            self._build(initial_value, validate_shape, caching_device, name, dtype, expected_shape,
                        shape)
        for key in collections:
            add_to_collection(key, self)

    # ------------------------------------------------------------ making

    def _build(self, initial_value: Any, validate_shape: bool, caching_device: DeviceLike | None,
               name: str | None, dtype: DTypeLike | None, expected_shape: Any,
               declared: Any) -> None:
        dtype = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
        values = [] if callable(initial_value) else [initial_value]
        with name_scope(name, "Variable", values) as scope:
            if callable(initial_value):
                self._initial_value = _initial_tensor(initial_value, scope, dtype)
            else:
                self._initial_value = convert_to_tensor(initial_value, dtype, "initial_value")
                _check_context(self._initial_value, scope)
            shape = self._initial_value.shape if validate_shape else TensorShape(None)
            if validate_shape and declared is None:
                _check_shape(shape, scope, expected_shape, self._is_by_handle)
            self._make(_declared_shape(declared, shape, scope), scope, validate_shape,
                       caching_device)

    def _make(self, shape: TensorShape, scope: str, validate_shape: bool,
              caching_device: DeviceLike | None) -> None:
        """Add the operations that hold the variable, initialize it and read it."""
        self._variable = state.variable_op(shape, self._initial_value.dtype.base_dtype, scope)
        assigned = reading_no_uninitialized(self._initial_value, scope)
        self._initializer_op = state.assign(
            self._variable, assigned, validate_shape=validate_shape).op
        self._caching_device = caching_device
        with self._reading_device():
            self._snapshot = raw_ops.Identity(self._variable, name="read")

    def _reading_device(self) -> Any:
        if self._caching_device is not None:
            return device(self._caching_device)
        return colocate_with(self._variable.op)

    def _init_from_proto(self, proto: Message, import_scope: str | None) -> None:
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(prepend_scope(name, import_scope))

        self._trainable = getattr(proto, "trainable", False)
        self._synchronization = VariableSynchronization(getattr(proto, "synchronization", 0))
        self._aggregation = VariableAggregation(getattr(proto, "aggregation", 0))
        self._variable = element(proto.variable_name)
        self._initializer_op = element(proto.initializer_name)
        named = getattr(proto, "initial_value_name", "")
        # Older definitions do not name the initial value.
        self._initial_value = element(named) if named else None
        self._snapshot = element(proto.snapshot_name)
        if proto.HasField("save_slice_info_def"):
            self._save_slice_info = slice_info.SaveSliceInfo(
                save_slice_info_def=proto.save_slice_info_def, import_scope=import_scope)

    # ------------------------------------------------------------ facts

    @property
    def name(self) -> str:
        """The name of the variable's tensor, ``<op name>:0``."""
        return self._variable.name

    @property
    def _shared_name(self) -> str:
        """The name without its output: slots are named after it."""
        return self.name.rpartition(":")[0]

    @property
    def op(self) -> Operation:
        """The operation that holds the variable."""
        return self._variable.op

    @property
    def dtype(self) -> DType:
        """The element type, a reference type."""
        return self._variable.dtype

    @property
    def device(self) -> str:
        """The device requested for the variable."""
        return self._variable.device

    @property
    def trainable(self) -> bool:
        """True if optimizers change the variable by default."""
        return self._trainable or any(
            v is self for v in self.graph.get_collection(GraphKeys.TRAINABLE_VARIABLES))

    @property
    def constraint(self) -> Callable | None:
        """The function that optimizers apply to the value after an update, or None."""
        return self._constraint

    @property
    def synchronization(self) -> VariableSynchronization:
        """The synchronization mode given when the variable was made."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """The aggregation mode given when the variable was made."""
        return self._aggregation

    @property
    def graph(self) -> Graph:
        """The graph of the variable."""
        return self._variable.graph

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return self._variable.shape

    def get_shape(self) -> TensorShape:
        """Return the static shape."""
        return self._variable.shape

    def set_shape(self, shape: ShapeLike) -> None:
        """Merge `shape` into the static shape of the variable and of its value."""
        self._variable.set_shape(shape)
        self._snapshot.set_shape(shape)

    @property
    def initializer(self) -> Operation:
        """The operation that assigns the initial value."""
        return self._initializer_op

    @property
    def initial_value(self) -> Tensor | None:
        """The tensor of the initial value; it does not depend on the variable's value. None if
        the ``VariableDef`` that the variable was made of does not name it."""
        return self._initial_value

    def _known_initial_value(self) -> Tensor:
        """What the initializer assigns; ``ValueError`` if the initial value is not known."""
        if self._initial_value is None:
            raise ValueError(f"Variable '{self.name}' was made of a VariableDef that names no "
                             "initial value")
        value: Tensor = self._initializer_op.inputs[1]
        return value

    def __repr__(self) -> str:
        return (f"<tf.Variable '{self.name}' shape={self.shape} "
                f"dtype={self.dtype.name}>")

    # ------------------------------------------------------------ reading

    def value(self) -> Tensor:
        """Return the tensor that is the variable's value, cached as ``caching_device`` says."""
        return self._snapshot

    def read_value(self) -> Tensor:
        """Return a new tensor that reads the variable where it is created among the operations."""
        return raw_ops.Identity(self._variable, name="read")

    def eval(self, session: SessionLike | None = None) -> Any:
        """Return the value as an array, read in the given or the default session."""
        return self._variable.eval(session=session)

    def initialized_value(self) -> Tensor:
        """Return the value, or the initial value while there is none: for other initial values.

        Raises ``ValueError`` where `initial_value` is None.
        """
        initial = self._known_initial_value()
        with control_dependencies(None), self._reading_device():
            initialized = raw_ops.IsVariableInitialized(self._variable)
            value: Tensor = cond(initialized, self.read_value, lambda: initial)
            return value

    def load(self, value: TensorLike, session: SessionLike | None = None) -> None:
        """Assign the array `value` in the given or the default session, adding nothing to the
        graph. Raises ``ValueError`` without a session."""
        from hpcflow.graph.defaults import get_default_session

        session = session or get_default_session()
        if session is None:
            raise ValueError("Variable.load needs a session: pass one, or use one as the default "
                             "(with session.as_default())")
        session.run(self._initializer_op, {self._initializer_op.inputs[1]: value})

    # ------------------------------------------------------------ changing

    def assign(self, value: TensorLike, use_locking: bool = False, name: str | None = None,
               read_value: bool = True) -> Any:
        """Assign `value`; returns the reference, to be run or read; without `read_value` the
        operation."""
        changed = state.assign(self._variable, value, use_locking=use_locking, name=name)
        return changed if read_value else changed.op

    def assign_add(self, delta: TensorLike, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Add `delta`; returns as :meth:`assign`."""
        changed = state.assign_add(self._variable, delta, use_locking=use_locking, name=name)
        return changed if read_value else changed.op

    def assign_sub(self, delta: TensorLike, use_locking: bool = False, name: str | None = None,
                   read_value: bool = True) -> Any:
        """Subtract `delta`; returns as :meth:`assign`."""
        changed = state.assign_sub(self._variable, delta, use_locking=use_locking, name=name)
        return changed if read_value else changed.op

    def count_up_to(self, limit: int) -> Tensor:
        """Return the value before incrementing; ``OutOfRangeError`` (when run) at `limit`."""
        return state.count_up_to(self._variable, limit)

    # ------------------------------------------------------------ protobufs

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the ``VariableDef``, or None if the variable is outside `export_scope`."""
        from tensorboard.compat.proto import variable_pb2

        if export_scope is not None and not self._variable.name.startswith(export_scope):
            return None
        proto = variable_pb2.VariableDef()
        proto.variable_name = strip_scope(self._variable.name, export_scope)
        proto.initializer_name = strip_scope(self._initializer_op.name, export_scope)
        proto.snapshot_name = strip_scope(self._snapshot.name, export_scope)
        if self._initial_value is not None:
            proto.initial_value_name = strip_scope(self._initial_value.name, export_scope)
        proto.trainable = self.trainable
        proto.synchronization = self._synchronization.value
        proto.aggregation = self._aggregation.value
        info = self._save_slice_info and self._save_slice_info.to_proto(export_scope)
        if info:
            proto.save_slice_info_def.CopyFrom(info)
        return proto

    @staticmethod
    def from_proto(variable_def: Message, import_scope: str | None = None) -> Variable:
        """Return the variable that `variable_def` describes in the default graph."""
        return Variable(variable_def=variable_def, import_scope=import_scope)

    def _set_save_slice_info(self, info: slice_info.SaveSliceInfo) -> None:
        self._save_slice_info = info

    def _get_save_slice_info(self) -> slice_info.SaveSliceInfo | None:
        return self._save_slice_info

    # ------------------------------------------------------------ standing for a tensor

    def _ref(self) -> Tensor:
        """The reference, for operations that change the variable."""
        return self._variable

    def experimental_ref(self) -> Reference:
        """Return what stands for this variable in sets and dictionaries, equal for itself alone."""
        return Reference(self)

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def _as_tensor(self, dtype: DType | None = None, name: str | None = None,
                   as_ref: bool = False) -> Tensor:
        """The value (the reference with `as_ref`), checked to have `dtype`."""
        del name
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(self.dtype):
            raise ValueError(f"Variable '{self.name}' has dtype {self.dtype.base_dtype.name}, but "
                             f"{dtypes.as_dtype(dtype).name} is required")
        return self._variable if as_ref else self._snapshot

    def __getitem__(self, index: Any) -> Tensor:
        """Return a part of the value: ``variable[index].assign(value)`` changes it."""
        return slice_tensor(self.value(), index, var=self)

    def __iter__(self) -> Any:
        raise TypeError(f"'Variable' object is not iterable ({self!r}); use tf.unstack")


def _check_context(value: Tensor, name: str) -> None:
    """Raise ``ValueError`` for an initial value that does not exist whenever it is asked for."""
    if value.op._get_control_flow_context() is not None:
        raise ValueError(f"Initializer for variable {name} is from inside a control-flow "
                         "construct, such as a loop or conditional: give as the initializer a "
                         "function that makes the initial value")


def _checked_collections(collections: Sequence[str] | None, trainable: bool) -> list:
    if collections is None:
        collections = [GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(collections, (list, tuple, set)):
        raise ValueError("collections argument to Variable constructor must be a list, tuple, or "
                         f"set. Got {collections!r} of type {type(collections)}")
    collections = list(collections)
    if trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
        collections.append(GraphKeys.TRAINABLE_VARIABLES)
    return collections


def _initial_tensor(initial_value: Callable, scope: str, dtype: DType | None) -> Tensor:
    """The value of a function, its operations on the device that the variable will have."""
    group = COLOCATION_PREFIX + scope.rstrip("/").encode()
    with get_default_graph()._attr_scope({COLOCATION_ATTR: [group]}):
        with name_scope("Initializer"), device(None):
            with seeds_of_place():
                return convert_to_tensor(initial_value(), dtype, "initial_value")


def _check_shape(shape: TensorShape, scope: str, expected: Any, partly: bool) -> None:
    name = scope.rstrip("/")
    if not partly and not shape.is_fully_defined():
        raise ValueError(f"Variable '{name}': initial_value must have a shape specified, "
                         f"got {shape}; pass validate_shape=False for a variable of any shape")
    if expected is not None and not as_shape(expected).is_compatible_with(shape):
        raise ValueError(f"Variable '{name}': the initial value has shape {shape}, expected "
                         f"{as_shape(expected)}")


def _declared_shape(declared: Any, initial: TensorShape, scope: str) -> TensorShape:
    """The static shape: that of the initial value, or the declared one, which it must fit."""
    if declared is None:
        return initial
    if not as_shape(declared).is_compatible_with(initial):
        raise ValueError(f"Variable '{scope.rstrip('/')}': the initial value has shape {initial}, "
                         f"which is not compatible with the shape {as_shape(declared)} of the "
                         "variable")
    return as_shape(declared)


_VARIABLE_DEF, _USE_RESOURCE = 6, 11  # places among the arguments of Variable


def _is_by_handle(args: tuple, keywords: dict) -> bool:
    """True if the arguments of Variable ask for one that is kept by a resource handle."""
    definition = args[_VARIABLE_DEF] if len(args) > _VARIABLE_DEF else keywords.get("variable_def")
    if definition is not None:
        return getattr(definition, "is_resource", False)
    asked = args[_USE_RESOURCE] if len(args) > _USE_RESOURCE else keywords.get("use_resource")
    if asked is None:
        scopes = get_default_graph()._variable_scope_store
        asked = None if scopes is None else scopes.current.use_resource
    return resources_by_default.enabled if asked is None else bool(asked)


class _Default:
    """The default kind of variables: resource variables if `enabled`."""

    enabled = False


resources_by_default = _Default()


def _overload(operator: str) -> None:
    """Let Variable's operator be that of its value."""

    def apply(self: Variable, *args: Any) -> Any:
        return getattr(Tensor, operator)(self.value(), *args)

    apply.__name__ = operator
    setattr(Variable, operator, apply)


for _operator in sorted(Tensor.OVERLOADABLE_OPERATORS - {"__getitem__"}):
    _overload(_operator)


def _conversion(value: Variable, dtype: DType | None = None, name: str | None = None,
                as_ref: bool = False) -> Any:
    return value._as_tensor(dtype, name, as_ref)


register_tensor_conversion_function(Variable, _conversion)
