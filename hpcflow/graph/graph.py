"""Graph: an append-only list of operations with names, scopes, devices and collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.dtypes import DType
from hpcflow.graph import shape_inference
from hpcflow.graph.completing import complete_attrs
from hpcflow.graph.defaults import DefaultStack
from hpcflow.graph.elements import Collections, Elements
from hpcflow.graph.exporter import graph_def
from hpcflow.graph.function_library import FunctionLibrary
from hpcflow.graph.likes import DeviceLike
from hpcflow.graph.opdef import OpDef
from hpcflow.graph.operation import (
    COLOCATION_ATTR,
    Operation,
    Tensor,
    arg_types,
)
from hpcflow.graph.reentry import reentrant
from hpcflow.graph.scopes import VALID_OP_NAME, VALID_SCOPE_NAME, ScopedGraph, operation_of
from hpcflow.graph.seeds import operations_of
from hpcflow.version import GRAPH_DEF_VERSION

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.ops.flow.functions import Function


class Parting(NamedTuple):
    """A session that has run `begin` is to run `end` before it ends; `only_if_closed`: not where
    its program ends without closing it, because its threads may go on meanwhile."""

    begin: Operation
    end: Operation
    only_if_closed: bool = False


class DeviceSeen:
    """A stand-in that device functions look at in place of an operation that nobody makes."""

    type, name, node_def = "", "", None

    def __init__(self) -> None:
        self.device = ""

    def _set_device(self, device: str) -> None:
        self.device = device


class Graph(Elements, Collections, ScopedGraph):
    """A dataflow graph: operations and the tensors that flow between them.

    Operations are only ever added, so a session's compiled steps stay valid as the graph grows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._mutations = 0
        self._finalized = False
        self._seed: int | None = None
        self.seed_used = False  # by an operation that has no other
        self._compression: list = []  # the rules of hpcflow.mpi.compress
        self._equal_bits = False
        #: What sessions do before they end, because of what they have begun.
        self.partings: list[Parting] = []
        self._library = FunctionLibrary()
        self._callbacks: list = []  # the Python functions that operations call
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        # producer, min_consumer of a GraphDef made from this graph
        self._version_info = (GRAPH_DEF_VERSION, 0)
        self._variable_scope_store: Any = None
        self._variable_getter: Callable | None = None  # where the body of a function gets them

    def add_parting(self, begin: Operation, end: Operation, only_if_closed: bool = False) -> None:
        """Let sessions that have run `begin` run `end` before they end; see :class:`Parting`."""
        self.partings.append(Parting(begin, end, only_if_closed))

    # ------------------------------------------------------------ facts

    def _repr_html_(self) -> str:
        from hpcflow.graph.notebook import graph_html

        return graph_html(self)

    @property
    def version(self) -> int:
        """A number that grows as operations are added."""
        return len(self._ops)

    @property
    def _last_id(self) -> int:
        """The number of operations that 1.15 has made, by the name that older programs use."""
        return operations_of(self)

    @property
    def graph_def_versions(self) -> Any:
        """The ``VersionDef`` of this graph's GraphDef."""
        from tensorboard.compat.proto import versions_pb2

        producer, min_consumer = self._version_info
        return versions_pb2.VersionDef(producer=producer, min_consumer=min_consumer)

    def _take_versions(self, versions: Message, alone: bool) -> None:
        """Take over the versions of what was imported into the graph, `alone` or besides what was
        there."""
        producer, consumer = versions.producer, versions.min_consumer
        if not alone:
            producer = min(producer, self._version_info[0])
            consumer = max(consumer, self._version_info[1])
        self._version_info = (producer, consumer)

    @property
    def seed(self) -> int | None:
        """The graph-level random seed."""
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed

    @property
    def finalized(self) -> bool:
        """True once :meth:`finalize` was called."""
        return self._finalized

    @property
    def building_function(self) -> bool:
        """True if this graph is the body of a function under construction."""
        return False

    def finalize(self) -> None:
        """Make the graph read-only: adding an operation is then a ``RuntimeError``."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def _check_owns(self, element: Tensor | Operation) -> None:
        if element.graph is not self:
            raise ValueError(f"{element!r} must be from the same graph as the operation that "
                             "uses it")

    def _mutated(self) -> None:
        """An existing operation changed: compiled steps are stale."""
        self._mutations += 1

    def _ask_for_equal_bits(self) -> None:
        """Let no result depend on what has been compiled so far, in the steps of any session."""
        if not self._equal_bits:
            self._equal_bits = True
            self._mutated()

    # ------------------------------------------------------------ operations

    def create_op(self, op_type: str, inputs: list[Tensor], dtypes: list[DType] | None = None,
                  input_types: list[DType] | None = None, name: str | None = None,
                  attrs: dict | None = None, op_def: OpDef | None = None,
                  compute_shapes: bool = True, compute_device: bool = True) -> Operation:
        """Add an operation whose inputs are tensors of this graph and return it.

        `attrs` may hold own-form values or ``AttrValue`` protobufs; defaults are filled in.
        Raises ``TypeError``/``ValueError`` for wrong attributes, inputs or shapes.
        """
        op_def = op_def if isinstance(op_def, OpDef) else self._library.op_def(op_type)
        for i, tensor in enumerate(inputs):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Input #{i} of {op_type} is not a tensor: {tensor!r}")
        complete = complete_attrs(op_def, attrs or {}, inputs, name)
        return self._add_op(op_def, list(inputs), complete, name, dtypes, compute_shapes,
                            compute_device)

    def _add_op(self, op_def: OpDef, inputs: list[Tensor], attrs: dict[str, Any],
                name: str | None, output_types: list[DType] | None = None,
                compute_shapes: bool = True, compute_device: bool = True) -> Operation:
        """Add an operation whose attributes are complete and canonical."""
        self._check_not_finalized()
        for i, tensor in enumerate(inputs):
            if tensor._op.graph is not self:
                inputs[i] = self._captured(tensor)
        self._add_scope_attrs(op_def, attrs)
        if output_types is None:
            output_types = arg_types(op_def.outputs, attrs)
        full_name = self._op_name(name or op_def.name.lstrip("_"))
        op = Operation.__new__(Operation)
        op._fill(self, op_def, full_name, inputs, self._control_inputs_for(inputs), attrs,
                 output_types, original_op=self._scopes.original)
        try:
            if self._control_flow_context is not None:
                self._control_flow_context.AddOp(op)
            else:
                _check_outside(op)
            if compute_shapes:
                shape_inference.set_shapes(op)
        except BaseException:
            self._disconnect(op)
            raise
        with self._lock:
            op._id = len(self._ops)
            self._ops.append(op)
            self._nodes_by_name[full_name] = op
        for scope in self._scopes.control:
            scope.op_added(op)
        if compute_device:
            self._apply_device(op)
        self._apply_colocation(op)
        return op

    @staticmethod
    def _disconnect(op: Operation) -> None:
        for tensor in op._inputs:
            if op in tensor._consumers:
                tensor._consumers.remove(op)

    def _remove_from(self, start: int) -> None:
        """Take back the operations added since `version` was `start` (a failed import)."""
        with self._lock:
            for op in reversed(self._ops[start:]):
                self._disconnect(op)
                del self._nodes_by_name[op.name]
            del self._ops[start:]

    def _op_name(self, name: str | bytes) -> str:
        if isinstance(name, bytes):
            name = name.decode()
        if not isinstance(name, str):
            raise TypeError(f"expected string or bytes-like object, got {name!r}")
        if name.endswith("/"):  # an absolute name, already unique
            return name[:-1]
        if not (VALID_SCOPE_NAME if self._name_stack else VALID_OP_NAME).match(name):
            raise ValueError(f"'{name}' is not a valid scope or op name")
        return self.unique_name(name)

    def _add_scope_attrs(self, op_def: OpDef, attrs: dict[str, Any]) -> None:
        """Add what the surrounding scopes say; an attribute that is set already stays."""
        for key, value in self._attr_scopes.items():
            attrs.setdefault(key, value)
        override = self._gradient_override_map.get(op_def.name)
        if override is not None:
            attrs["_gradient_op_type"] = override.encode()
        if self._container and op_def.is_stateful and attrs.get("container") == b"":
            attrs["container"] = self._container.encode()

    def _apply_device(self, op: Any) -> None:
        """Let the innermost device scope speak first; a scope of None silences the outer ones."""
        for function in reversed(self._scopes.devices):
            if function is None:
                break
            op._set_device(function(op))

    def _apply_device_functions(self, op: Operation) -> None:
        """Tell an object of a program's own, by the method of operations that it has, which device
        an operation would get here: by ``_set_device_from_string``, or by ``_set_device`` as a
        ``DeviceSpec``. Nothing is told outside of device scopes."""
        from hpcflow.device_spec import DeviceSpec

        seen = DeviceSeen()
        self._apply_device(seen)
        if self._scopes.devices and seen.device:
            if hasattr(op, "_set_device_from_string"):
                op._set_device_from_string(seen.device)
            else:
                op._set_device(DeviceSpec.from_string(seen.device))

    def _apply_colocation(self, op: Operation) -> None:
        targets = self._scopes.colocation
        if not targets:
            return
        groups = list(op._attrs.get(COLOCATION_ATTR, ()))
        for target in targets:
            groups.extend(target.colocation_groups())
            if target.device:
                # As in 1.x a colocated operation takes over the explicit device of its group.
                op._set_device(target.device)
        if groups:
            op._attrs[COLOCATION_ATTR] = sorted(set(groups))

    # ------------------------------------------------------------ functions

    def _is_function(self, name: str) -> bool:
        """True if a function called `name` was added to this graph."""
        return name in self._library.functions

    def _get_function(self, name: str) -> Any:
        """The function called `name`, or None."""
        return self._library.functions.get(name)

    def _add_function(self, function: Function) -> None:
        """Add a function; ``ValueError`` if there is another one of its name."""
        self._check_not_finalized()
        self._library.add(function)

    def _captured(self, tensor: Tensor) -> Tensor:
        """The form in which operations of this graph read `tensor`, which must be its own."""
        self._check_owns(tensor)
        return tensor

    # ------------------------------------------------------------ feeding and fetching

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Refuse `tensor` in feeds."""
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor: Tensor) -> bool:
        """True if `tensor` may be fed."""
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        """Refuse `op` and its outputs in fetches."""
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Tensor | Operation) -> bool:
        """True if the element may be fetched."""
        return operation_of(tensor_or_op) not in self._unfetchable

    # ------------------------------------------------------------ whole graph

    def as_default(self) -> Any:
        """Return a context manager that makes this the default graph."""
        return _default_graphs.use(self)

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """Return the graph as a ``GraphDef`` protobuf.

        `from_version` leaves out the operations before that version; `add_shapes` adds the
        inferred shapes as the attribute ``_output_shapes``. What other threads add meanwhile is
        not in it.
        """
        with self._lock:
            return graph_def(self, from_version, add_shapes)


def _check_outside(op: Operation) -> None:
    """An operation outside every loop cannot read what is inside one."""
    for tensor in op._inputs:
        context = tensor._op._control_flow_context
        if context is not None:
            context.check_reader(tensor._op, op)
    for source in op._control_inputs:
        if source._control_flow_context is not None:
            source._control_flow_context.check_reader(source, op)


# ---------------------------------------------------------------- defaults


_default_graphs = DefaultStack()
_global_graph: Graph | None = None


def get_default_graph() -> Graph:
    """Return the default graph of this thread, or the process's global graph."""
    global _global_graph
    graph = _default_graphs.get()
    if graph is not None:
        return graph
    if _global_graph is None:
        _global_graph = Graph()
    return _global_graph


def reset_default_graph() -> None:
    """Replace the global default graph by an empty one."""
    global _global_graph
    if _default_graphs.stack:
        raise AssertionError("Do not use reset_default_graph() to clear nested graphs.")
    _global_graph = Graph()


def graph_of(inputs: list, graph: Graph | None = None) -> Graph:
    """The graph of the tensors and operations in `inputs`, or the default graph.

    Raises ``ValueError`` when they come from different graphs.
    """
    found = graph
    first: Any = None
    default = get_default_graph()
    if default.building_function and (graph is None or graph is default):
        return default  # which captures what is outside of it
    for item in inputs:
        owner = getattr(item, "graph", None)
        if not isinstance(owner, Graph):
            continue
        if found is None:
            found, first = owner, item
        elif owner is not found:
            raise ValueError(f"{item!r} is not from the passed-in graph." if first is None else
                             f"{item!r} must be from the same graph as {first!r}.")
    return found or default


# ---------------------------------------------------------------- module-level wrappers


def name_scope(name: str | None, default_name: str | None = None,
               values: list | None = None) -> Any:
    """Context manager: validate that `values` share a graph, make it the default, enter a name
    scope called `name` (or `default_name`), which is its attribute ``name``."""
    scope = _name_scope(name, default_name, values)
    scope.name = default_name if name is None else name
    return scope


@reentrant
def _name_scope(name: str | None, default_name: str | None, values: list | None) -> Iterator[str]:
    if not isinstance(default_name, (str, type(None))):
        raise TypeError(f"default_name must be a string or None, not {default_name!r}; the values "
                        "are the third argument")
    chosen = default_name if name is None else name
    if chosen is None and values is not None:
        raise ValueError(f"At least one of name ({name}) and default_name ({default_name}) must be "
                         "provided.")
    if values is None:
        with get_default_graph().name_scope(chosen) as scope:
            yield scope
        return
    graph = graph_of(values)
    with graph.as_default(), graph.name_scope(chosen) as scope:
        yield scope


def op_scope(values: list, name: str | None, default_name: str | None = None) -> Any:
    """The old argument order of :func:`name_scope`."""
    return _name_scope(name, default_name, values)


def device(device_name_or_function: DeviceLike | None) -> Any:
    """:meth:`Graph.device` of the default graph."""
    return get_default_graph().device(device_name_or_function)


def container(container_name: str) -> Any:
    """:meth:`Graph.container` of the default graph."""
    return get_default_graph().container(container_name)


def colocate_with(op: Any, ignore_existing: bool = False) -> Any:
    """:meth:`Graph.colocate_with` of the default graph."""
    return get_default_graph().colocate_with(op, ignore_existing)


def control_dependencies(control_inputs: list | None) -> Any:
    """:meth:`Graph.control_dependencies` of the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


@reentrant
def init_scope() -> Iterator[None]:
    """Context manager: build outside of all functions, loops, branches and control dependencies
    that are being built, in the name scope and the innermost device scopes of here."""
    graph: Any = get_default_graph()
    scope, devices = graph.get_name_scope(), graph._scopes.devices
    while graph.building_function:
        graph = graph.outer
        devices = devices or graph._scopes.devices
    with graph.as_default(), graph.control_dependencies(None), graph.name_scope(
            f"{scope}/" if scope else None):
        outer, graph._scopes.devices = graph._scopes.devices, devices
        try:
            yield
        finally:
            graph._scopes.devices = outer


def add_to_collection(name: str, value: Any) -> None:
    """:meth:`Graph.add_to_collection` of the default graph."""
    get_default_graph().add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list:
    """:meth:`Graph.get_collection` of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list:
    """:meth:`Graph.get_collection_ref` of the default graph."""
    return get_default_graph().get_collection_ref(key)


def set_random_seed(seed: int | None) -> None:
    """Set the graph-level random seed of the default graph."""
    get_default_graph().seed = seed


