"""Operation and Tensor: the one node type, and its typed outputs."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hpcflow.base import tracing
from hpcflow.dtypes import DType, DTypeLike
from hpcflow.errors import OperatorNotAllowedInGraphError, OutOfRangeError
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.identity import Reference
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.opdef import OpDef
from hpcflow.host.tuning import programs as tuning
from hpcflow.shapes import ShapeLike, TensorShape

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.graph import Graph
    from hpcflow.graph.likes import TensorLike

Dims = tuple | None  # one int or None per dimension; None for an unknown rank

COLOCATION_ATTR = "_class"
COLOCATION_PREFIX = b"loc:@"


class SymbolicValueError(TypeError, NotImplementedError):
    """The value of a tensor was asked for outside of a session.

    It is both: what NumPy's functions raise for arguments they cannot use, and what 1.15 raises.
    """


def refuse_array(self: Any, *_args: Any, **_kwargs: Any) -> Any:
    """``__array__`` of what stands for a value of the graph: raise :class:`SymbolicValueError`."""
    name = getattr(self, "name", type(self).__name__)
    raise SymbolicValueError(
        f"Cannot convert a symbolic Tensor ({name}) to a numpy array: a symbolic tensor has "
        "no value yet. session.run(tensor) computes it; hf.sqrt, hf.reduce_mean, ... do in the "
        "graph what NumPy's functions do for arrays")


class Tensor:
    """One output of an operation: a symbolic handle with a dtype and a static shape.

    Operators (``+``, ``[...]``, ...) are filled in by ``hpcflow.ops``.
    """

    __slots__ = (
        "__dict__",  # for attributes that programs give their tensors; made when there are any
        "__weakref__",
        "_consumers",
        "_dims",
        "_dtype",
        "_handle_data",
        "_op",
        "_value_index",
    )  # fmt: skip
    # NumPy must not take the operators of ``array + tensor`` apart.
    __array_priority__ = 100
    __array__ = refuse_array

    OVERLOADABLE_OPERATORS: ClassVar[set[str]] = {
        "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__div__", "__rdiv__",
        "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__", "__rmod__",
        "__lt__", "__le__", "__gt__", "__ge__", "__and__", "__rand__", "__or__", "__ror__",
        "__xor__", "__rxor__", "__getitem__", "__pow__", "__rpow__", "__invert__", "__neg__",
        "__abs__", "__matmul__", "__rmatmul__",
    }  # fmt: skip

    if TYPE_CHECKING:  # those operators, for checkers of types
        __add__: Callable[[TensorLike], Tensor]
        __radd__: Callable[[TensorLike], Tensor]
        __sub__: Callable[[TensorLike], Tensor]
        __rsub__: Callable[[TensorLike], Tensor]
        __mul__: Callable[[TensorLike], Tensor]
        __rmul__: Callable[[TensorLike], Tensor]
        __div__: Callable[[TensorLike], Tensor]
        __rdiv__: Callable[[TensorLike], Tensor]
        __truediv__: Callable[[TensorLike], Tensor]
        __rtruediv__: Callable[[TensorLike], Tensor]
        __floordiv__: Callable[[TensorLike], Tensor]
        __rfloordiv__: Callable[[TensorLike], Tensor]
        __mod__: Callable[[TensorLike], Tensor]
        __rmod__: Callable[[TensorLike], Tensor]
        __lt__: Callable[[TensorLike], Tensor]
        __le__: Callable[[TensorLike], Tensor]
        __gt__: Callable[[TensorLike], Tensor]
        __ge__: Callable[[TensorLike], Tensor]
        __and__: Callable[[TensorLike], Tensor]
        __rand__: Callable[[TensorLike], Tensor]
        __or__: Callable[[TensorLike], Tensor]
        __ror__: Callable[[TensorLike], Tensor]
        __xor__: Callable[[TensorLike], Tensor]
        __rxor__: Callable[[TensorLike], Tensor]
        __pow__: Callable[[TensorLike], Tensor]
        __rpow__: Callable[[TensorLike], Tensor]
        __matmul__: Callable[[TensorLike], Tensor]
        __rmatmul__: Callable[[TensorLike], Tensor]
        __invert__: Callable[[], Tensor]
        __neg__: Callable[[], Tensor]
        __abs__: Callable[[], Tensor]
        __getitem__: Callable[[Any], Tensor]

    def __init__(self, op: Operation, value_index: int, dtype: DType) -> None:
        if not isinstance(op, Operation):
            raise TypeError(f"op needs to be an Operation: {op!r}")
        self._op = op
        self._value_index = value_index
        self._dtype = dtype
        self._dims: Dims = None
        self._consumers: list[Operation] = []
        self._handle_data: Any = None

    @property
    def op(self) -> Operation:
        """The operation that produces this tensor."""
        return self._op

    @property
    def dtype(self) -> DType:
        """The element type; a ``_ref`` type for the handle of a variable."""
        return self._dtype

    @property
    def graph(self) -> Graph:
        """The graph that holds this tensor."""
        return self._op.graph

    @property
    def name(self) -> str:
        """``<op name>:<output index>``."""
        return f"{self._op.name}:{self._value_index}"

    @property
    def device(self) -> str:
        """The device string of the producing operation, possibly empty."""
        return self._op.device

    @property
    def value_index(self) -> int:
        """The index of this tensor among its operation's outputs."""
        return self._value_index

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return TensorShape(self._dims)

    def get_shape(self) -> TensorShape:
        """Return the static shape, as far as it is known."""
        return TensorShape(self._dims)

    def _shape_as_list(self) -> list[int | None] | None:
        return None if self._dims is None else list(self._dims)

    def _shape_tuple(self) -> Dims:
        return self._dims

    def set_shape(self, shape: ShapeLike) -> None:
        """Merge `shape` into the static shape; ``ValueError`` if the two disagree."""
        self._dims = self.shape.merge_with(shape)._dims

    _shape = shape

    def _as_tf_output(self) -> Tensor:
        return self  # for functions inside of 1.x, which take such a thing

    def consumers(self) -> list[Operation]:
        """Return the operations that read this tensor."""
        return list(self._consumers)

    def eval(self, feed_dict: dict | None = None, session: SessionLike | None = None) -> Any:
        """Run the default (or given) session for this tensor and return its value."""
        return _session_for(session, self.graph, "eval").run(self, feed_dict)

    def experimental_ref(self) -> Reference:
        """Return what stands for this tensor in sets and dictionaries, equal for itself alone."""
        return Reference(self)

    def _as_node_def_input(self) -> str:
        name = self._op.name
        return f"{name}:{self._value_index}" if self._value_index else name

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self.shape} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        dims = f", shape={self.shape}" if self._dims is not None else ""
        where = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{dims}, dtype={self._dtype.name}{where})'

    def _repr_html_(self) -> str:
        from hpcflow.graph.notebook import tensor_html

        return tensor_html(self)

    def __bool__(self) -> bool:
        raise OperatorNotAllowedInGraphError(
            "using a `tf.Tensor` as a Python `bool` is not allowed in Graph execution. Use `if t "
            "is not None:` instead of `if t:` to test if a tensor is defined, and tf.cond to run a "
            f"part of the graph depending on a value. ({self!r})"
        )

    __nonzero__ = __bool__  # wrappers of tensors hand it on by this name too

    def __iter__(self) -> Any:
        raise OperatorNotAllowedInGraphError(
            "iterating over `tf.Tensor` is not allowed in Graph execution: 'Tensor' object is not "
            f"iterable ({self!r}); use tf.unstack")

    def __len__(self) -> int:
        raise TypeError(f"len is not well defined for symbolic Tensors. ({self.name}) "
                        "Please call `x.shape` or `tf.shape(x)`")

    @staticmethod
    def _override_operator(operator: str, func: Callable) -> None:
        setattr(Tensor, operator, func)


class Operation:
    """A node of the graph: type, name, inputs, control inputs, attributes, device.

    Made by :meth:`Graph.create_op`; nothing in it is specific to an op type.
    """

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_attrs",
        "_control_flow_context",
        "_control_inputs",
        "_device",
        "_id",
        "_inputs",
        "_original_op",
        "_outputs",
        "_stack",
        "graph",
        "name",
        "op_def",
        "type",
    )  # fmt: skip

    def __init__(self, node_def: Message, g: Graph, inputs: list[Tensor] | None = None,
                 output_types: list[DType] | None = None,
                 control_inputs: list[Operation] | None = None,
                 input_types: Sequence[DTypeLike] | None = None,
                 original_op: Operation | None = None, op_def: OpDef | None = None) -> None:
        """An operation as the protobuf `node_def` says, for the graph `g` but not added to it.

        Programs call ``Graph.create_op``. `input_types` follow from the inputs. Raises
        ``TypeError`` for another kind of `node_def`, ``ValueError`` for an unknown type or
        attributes that it does not have.
        """
        from hpcflow.graph.attr_values import node_attrs

        if type(node_def).__name__ != "NodeDef":
            raise TypeError(f"node_def needs to be a NodeDef: {node_def!r}")
        op_def = op_def or g._library.op_def(node_def.op)
        attrs = node_attrs(node_def, op_def)
        types = arg_types(op_def.outputs, attrs) if output_types is None else output_types
        self._fill(g, op_def, node_def.name, list(inputs or []), list(control_inputs or []), attrs,
                   list(types), node_def.device, original_op)

    def _fill(self, graph: Graph, op_def: OpDef, name: str, inputs: list[Tensor],
              control_inputs: list[Operation], attrs: dict[str, Any], output_types: list[DType],
              device: str = "", original_op: Operation | None = None) -> None:
        self.graph = graph
        self.type = op_def.name
        self.name = name
        self.op_def = op_def
        self._inputs = inputs
        self._control_inputs = control_inputs
        self._attrs = attrs
        self._device = device
        self._original_op = original_op
        self._control_flow_context: Any = None
        self._stack = tracing.creation_site(2)
        self._id = -1
        self._outputs = [Tensor(self, i, t) for i, t in enumerate(output_types)]
        for tensor in inputs:
            tensor._consumers.append(self)

    @property
    def inputs(self) -> list[Tensor]:
        """The data inputs, in order (a copy-free list: do not change it)."""
        return self._inputs

    @property
    def outputs(self) -> list[Tensor]:
        """The output tensors, in order."""
        return self._outputs

    @property
    def control_inputs(self) -> list[Operation]:
        """The operations that must run before this one."""
        return self._control_inputs

    @property
    def device(self) -> str:
        """The requested device, possibly partial or empty."""
        return self._device

    @property
    def node_def(self) -> Any:
        """A serialized ``NodeDef`` protobuf of this operation."""
        from hpcflow.graph.exporter import node_def

        return node_def(self)

    @property
    def _node_def(self) -> Any:
        """:attr:`node_def`, by the name that older programs use."""
        return self.node_def

    @property
    def _op_def(self) -> OpDef:
        """:attr:`op_def`, by the name that older programs use."""
        return self.op_def

    @property
    def traceback(self) -> list[tuple[str, int, str, str | None]]:
        """The stack at creation as (filename, lineno, function, line), outermost first."""
        sites = reversed(tracing.resolve(self._stack))
        return [(*s, linecache.getline(s.filename, s.lineno).strip() or None) for s in sites]

    @property
    def creation_site(self) -> tuple[str, int, str] | None:
        """(filename, lineno, function) of the user's line that created this operation."""
        return tracing.user_frame(self._stack)

    def values(self) -> tuple[Tensor, ...]:
        """Return the outputs as a tuple."""
        return tuple(self._outputs)

    def get_attr(self, name: str) -> Any:
        """Return the value of attribute `name`; ``ValueError`` if there is none.

        Types come back as DType, shapes as TensorShapeProto, tensors as TensorProto, strings as
        bytes.
        """
        if name not in self._attrs:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'. "
                             f"(op type {self.type})")
        from hpcflow.graph.attr_values import to_public

        return to_public(self._attrs[name])

    def attr(self, name: str, default: Any = None) -> Any:
        """Return attribute `name` in the library's own form, or `default`."""
        return self._attrs.get(name, default)

    def input_dims(self, index: int) -> Dims:
        """The static dimensions of input `index`: a tuple of int or None; None: unknown rank."""
        return self._inputs[index]._dims

    def input_arg(self, arg: str) -> list[Tensor]:
        """The inputs that belong to the definition's argument `arg`."""
        start = 0
        for a in self.op_def.inputs:
            count = arg_length(a, self._attrs)
            if a.name == arg:
                return self._inputs[start : start + count]
            start += count
        raise KeyError(f"{self.type} has no input '{arg}'")

    def colocation_groups(self) -> list[bytes]:
        """Return the colocation constraints, ``[b'loc:@<own name>']`` if there are none."""
        groups = self._attrs.get(COLOCATION_ATTR, ())
        groups = [c for c in groups if c.startswith(COLOCATION_PREFIX)]
        return groups or [COLOCATION_PREFIX + self.name.encode()]

    def run(self, feed_dict: dict | None = None, session: SessionLike | None = None) -> None:
        """Run this operation in the default (or given) session."""
        _session_for(session, self.graph, "run").run(self, feed_dict)

    def _set_device(self, device: Any) -> None:
        self._device = device_string(device)

    def _set_attr(self, name: str, value: Any) -> None:
        """Set an attribute to a value of the library's own form, or to an ``AttrValue``."""
        if hasattr(value, "WhichOneof"):
            from hpcflow.graph.attr_values import from_proto

            value = from_proto(value)
        self._attrs[name] = value
        self.graph._mutated()

    def _update_input(self, index: int, tensor: Tensor) -> None:
        """Replace input `index` (the back edge of a loop)."""
        self.graph._check_owns(tensor)
        if not 0 <= index < len(self._inputs):
            raise OutOfRangeError(None, self, f"Cannot update edge. Input index [{index}] is "
                                  "greater than the number of total inputs "
                                  f"[{len(self._inputs)}].")
        old = self._inputs[index]
        old._consumers.remove(self)
        self._inputs[index] = tensor
        tensor._consumers.append(self)
        if self._id >= 0:  # else it is not part of the graph yet
            self.graph._mutated()

    def _add_control_input(self, op: Operation) -> None:
        self.graph._check_owns(op)
        if op not in self._control_inputs:
            self._control_inputs.append(op)
            if self._id >= 0:
                self.graph._mutated()

    def _add_control_inputs(self, ops: list[Operation]) -> None:
        for op in ops:
            self._add_control_input(op)

    def _remove_all_control_inputs(self) -> None:
        self._control_inputs.clear()
        self.graph._mutated()

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"

    def __str__(self) -> str:
        return str(self.node_def)


def arg_length(arg: Any, attrs: dict[str, Any]) -> int:
    """The number of tensors that argument `arg` stands for under `attrs`."""
    if arg.number_attr is not None:
        return int(attrs[arg.number_attr])
    if arg.type_list_attr is not None:
        return len(attrs[arg.type_list_attr])
    return 1


def arg_types(args: tuple, attrs: dict[str, Any]) -> list[DType]:
    """The flat list of dtypes of `args` (inputs or outputs of a definition) under `attrs`.

    Raises ``ValueError`` for more than there can be.
    """
    types: list[DType] = []
    for arg in args:
        if arg.type_list_attr is not None:
            flat = list(attrs[arg.type_list_attr])
        else:
            base = arg.type if arg.type_attr is None else attrs[arg.type_attr]
            length = arg_length(arg, attrs)
            if length > tuning.OPERATION_MOST_TENSORS:
                raise ValueError(f"Attribute '{arg.number_attr}' asks for {length} tensors for "
                                 f"'{arg.name}'; at most {tuning.OPERATION_MOST_TENSORS} can be")
            flat = [base] * length
        types.extend(t._as_ref if arg.is_ref else t for t in flat)
    return types


def device_string(device: Any) -> str:
    """The string form of a device given as string, DeviceSpec or None."""
    if device is None:
        return ""
    if isinstance(device, str):
        return device
    return device.to_string()


def _session_for(session: Any, graph: Graph, method: str) -> Any:
    """The given or the default session, checked to run `graph`."""
    doing = "evaluate tensor" if method == "eval" else "execute operation"
    given, session = session, session or get_default_session()
    if session is None:
        raise ValueError(
            f"Cannot {doing} using `{method}()`: No default session is registered. Use "
            f"`with sess.as_default()` or pass an explicit session to `{method}(session=sess)`"
        )
    if session.graph is not graph:
        which = "given" if given else "default"
        raise ValueError(f"Cannot use the {which} session to {doing}: the {doing.split()[1]}'s "
                         "graph is different from the session's graph.")
    return session
