"""The scopes in which operations are made: names, devices, colocation, control dependencies."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hpcflow.graph.operation import Operation, Tensor, device_string
from hpcflow.graph.reentry import Reentrant, reentrant

if TYPE_CHECKING:
    from hpcflow.autodiff.backward_context import BackwardContext
    from hpcflow.device_spec import DeviceSpec
    from hpcflow.graph.replicas import Place, Replicas
    from hpcflow.ops.flow.cond_context import CondContext
    from hpcflow.ops.flow.while_context import WhileContext

VALID_OP_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*\Z")
VALID_SCOPE_NAME = re.compile(r"[A-Za-z0-9_.\-/]*\Z")


class _ControlScope:
    """One ``control_dependencies`` scope: what to wait for, and what was made inside."""

    def __init__(self, ops: list[Operation],
                 outer_context: BackwardContext | WhileContext | CondContext | None) -> None:
        self.ops = ops
        self.seen: set[Operation] = set()
        self.outer_context = outer_context

    def op_added(self, op: Operation) -> None:
        self.seen.add(op)


def _device_function(
        device: str | Callable[..., Any] | DeviceSpec | None) -> Callable[[Operation], str] | None:
    from hpcflow import device_spec

    if device is None:
        return None
    if callable(device) and not isinstance(device, str):
        return lambda op: device_string(device(op))
    merge = device_spec.merge_device(device)
    return lambda op: device_string(merge(op))


def operation_of(element: Any) -> Operation:
    """The operation that `element` is or belongs to; ``TypeError`` for anything else."""
    if isinstance(element, Operation):
        return element
    op = getattr(element, "op", None)
    if not isinstance(op, Operation):
        raise TypeError(f"Expected an operation, tensor or variable, got {element!r}")
    return op


def _without_slices(element: Any) -> Any:
    """Stand the values tensor in for IndexedSlices (which has `values` and `indices`)."""
    values = getattr(element, "values", None)
    if isinstance(values, Tensor) and hasattr(element, "indices"):
        return values
    return element


class _Scopes(threading.local):
    """The scopes that are open in each thread that builds a graph. A scope that opens makes new
    lists, so lists may be shared."""

    def __init__(self, inherited: list[tuple[list, list, list]]) -> None:
        self.names = ""
        self.devices: list[Callable[[Operation], str] | None] = []
        self.colocation: list[Operation] = []
        self.control: list[_ControlScope] = []
        if inherited:
            self.devices, self.colocation, self.control = inherited[0]
        self.attrs: dict[str, Any] = {}
        self.gradient_overrides: dict[str, str] = {}
        self.gradient = ""
        self.container = ""
        self.original: Operation | None = None
        self.context: Any = None
        self.variable_creators: list[Callable] = []
        self.place: Place | None = None


def _of_thread(field: str, meaning: str) -> Any:
    """A property of a graph that each thread has by itself."""
    return property(lambda graph: getattr(graph._scopes, field),
                    lambda graph, value: setattr(graph._scopes, field, value), doc=meaning)


class ScopedGraph:
    """The names and the open scopes of a graph.

    Several threads may build one graph: what is open belongs to each thread by itself.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._names_in_use: dict[str, int] = {}
        self._inherited: list[tuple[list, list, list]] = []
        self._scopes = _Scopes(self._inherited)
        self._replicas: Replicas | None = None
        self._variables_of_strategies: dict[Any, list] = {}
        self._strategy_scope: Any = None
        self._last_loss_reduction: str | None = None
        self._operations_beside = 0  # see graph.seeds
        self._seeds_given: dict[int, int] = {}  # with the versions of then

    _name_stack = _of_thread("names", "The current name scope, without a slash at the end.")
    _attr_scopes = _of_thread("attrs", "Attributes that operations get.")
    _gradient_override_map = _of_thread("gradient_overrides", "Op types and their other gradients.")
    _gradient_scope = _of_thread("gradient", "The name scope of the call that builds gradients.")
    _container = _of_thread("container", "The resource container of stateful operations.")
    _variable_creators = _of_thread("variable_creators", "Functions that make variables.")
    _place = _of_thread("place", "Where in a strategy of ``hpcflow.distribute`` it builds.")
    _control_flow_context = _of_thread("context", "The conditional or loop that is being built.")

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def as_graph_element(self, obj: object, allow_tensor: bool = True,
                         allow_operation: bool = True) -> Any:
        """Return the Tensor or Operation that `obj` stands for."""
        raise NotImplementedError

    # ------------------------------------------------------------ names

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return `name` inside the current name scope, with a suffix if it is taken."""
        if self._name_stack:
            name = f"{self._name_stack}/{name}"
        # Names are compared without case, so that no two differ by case alone.
        key = name.lower()
        with self._lock:
            return self._unused(name, key, mark_as_used)

    def _unused(self, name: str, key: str, mark_as_used: bool) -> str:
        count = self._names_in_use.get(key, 0)
        if mark_as_used:
            self._names_in_use[key] = count + 1
        if count == 0:
            return name
        while True:
            candidate = f"{name}_{count}"
            count += 1
            if candidate.lower() not in self._names_in_use:
                break
        if mark_as_used:
            self._names_in_use[key] = count
            self._names_in_use[candidate.lower()] = 1
        return candidate

    @reentrant
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix the names of operations made inside with `name`.

        A name that ends in "/" re-enters a scope; None or "" goes to the top level.
        """
        if isinstance(name, bytes):
            name = name.decode()
        if name:
            valid = VALID_SCOPE_NAME if self._name_stack else VALID_OP_NAME
            if not valid.match(name):
                raise ValueError(f"'{name}' is not a valid scope name")
        old = self._name_stack
        if not name:
            new = ""
        elif name.endswith("/"):
            new = name[:-1]
        else:
            new = self.unique_name(name)
        self._name_stack = new
        try:
            yield f"{new}/" if name else ""
        finally:
            self._name_stack = old

    @property
    def _c_graph(self) -> Any:
        return self  # for functions inside of 1.x, which take such a thing

    def get_name_scope(self) -> str:
        """Return the current name scope, without a slash at the end; "" at the top level."""
        return self._name_stack

    # ------------------------------------------------------------ devices, colocation, control

    @reentrant
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Request a device (string, DeviceSpec, function of the op, or None) for operations made
        inside; an inner request completes an outer one, None drops the outer ones."""
        scopes = self._scopes
        devices = scopes.devices
        inner = scopes.devices = [*devices, _device_function(device_name_or_function)]
        try:
            yield
        finally:
            if self._scopes.devices is not inner:
                raise RuntimeError("Exiting a device scope in which another one is still open")
            self._scopes.devices = devices

    @contextlib.contextmanager
    def _original_op(self, op: Operation) -> Iterator[None]:
        """Note in operations made inside that `op` is what they were made for: as its gradient."""
        outer, self._scopes.original = self._scopes.original, op
        try:
            yield
        finally:
            self._scopes.original = outer

    @reentrant
    def colocate_with(self, op: Any, ignore_existing: bool = False,
                      keep_devices: bool = False) -> Iterator[None]:
        """Place operations made inside on the device of `op` (an Operation or Tensor).

        The device scopes of here are left out, unless `keep_devices` lets them say what `op` does
        not.
        """
        if op is None and not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but ignore_existing is not "
                             "True")
        scopes = self._scopes
        devices, saved = scopes.devices, scopes.colocation
        target = None if op is None else operation_of(op)
        base = [] if ignore_existing else saved
        scopes.devices = devices if keep_devices else []
        scopes.colocation = base if target is None else [*base, target]
        try:
            yield
        finally:
            self._scopes.devices, self._scopes.colocation = devices, saved

    def control_dependencies(self, control_inputs: Iterable | None) -> Reentrant[None]:
        """Make operations created inside run after `control_inputs`; None clears outer ones."""
        return self._controlled(None if control_inputs is None else list(control_inputs))

    @reentrant
    def _controlled(self, control_inputs: list | None) -> Iterator[None]:
        scopes = self._scopes
        old_stack, old_context = scopes.control, self._control_flow_context
        if control_inputs is None:
            scopes.control = []
            self._control_flow_context = None
        else:
            known = self._current_control_dependencies()
            ops: list[Operation] = []
            for element in control_inputs:
                if getattr(element, "_is_by_handle", False):
                    element = element.op  # a change of a variable, which need not be read
                op = operation_of(self.as_graph_element(_without_slices(element)))
                if op not in known:
                    known.add(op)
                    ops.append(op)
            scopes.control = [*old_stack, _ControlScope(ops, old_context)]
        try:
            yield
        finally:
            self._scopes.control = old_stack
            self._control_flow_context = old_context

    def _current_control_dependencies(self) -> set[Operation]:
        return {op for scope in self._scopes.control for op in scope.ops}

    def _control_inputs_for(self, inputs: list[Tensor]) -> list[Operation]:
        scopes = self._scopes.control
        if not scopes:
            return []
        producers = {t.op for t in inputs}
        found: list[Operation] = []
        for scope in scopes:
            # An input made inside the scope already waits for the scope's operations.
            if any(op in scope.seen for op in producers):
                continue
            found.extend(op for op in scope.ops if op not in producers and op not in found)
        return found

    def switch_to_thread_local(self) -> None:
        """Let threads that come to this graph later begin with the devices, the colocation and the
        control dependencies that are open in this thread now; otherwise they begin with none."""
        open_now = self._scopes
        if not self._inherited:
            self._inherited.append((open_now.devices, open_now.colocation, open_now.control))

    @reentrant
    def container(self, container_name: str) -> Iterator[str]:
        """Name the resource container for stateful operations made inside."""
        old, self._container = self._container, container_name
        try:
            yield container_name
        finally:
            self._container = old

    @reentrant
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Use the gradients registered under other names for op types made inside."""
        if not isinstance(op_type_map, dict):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        for key, value in op_type_map.items():
            if not (isinstance(key, str) and isinstance(value, str)):
                raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        old = self._gradient_override_map
        self._gradient_override_map = {**old, **op_type_map}
        try:
            yield
        finally:
            self._gradient_override_map = old

    @reentrant
    def _attr_scope(self, attr_map: dict[str, Any]) -> Iterator[None]:
        from hpcflow.graph.attr_values import from_proto

        old = self._attr_scopes
        given = {k: from_proto(v) if hasattr(v, "WhichOneof") else v for k, v in attr_map.items()}
        merged = {**old, **given}
        self._attr_scopes = {k: v for k, v in merged.items() if v is not None}
        try:
            yield
        finally:
            self._attr_scopes = old
