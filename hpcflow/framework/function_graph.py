"""FunctionGraph: the body of a function while it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.dtypes import string_ref
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.functions import add_arguments
from hpcflow.ops.state.handle_variables import ResourceVariable


class FunctionGraph(Graph):
    """A graph whose operations may read tensors of the graph around it.

    Such a tensor becomes one more input of the function.

    Attributes:
        outer: the graph in which the function is defined.
        inputs: the inputs of the function: its arguments, then what was captured.
        captured: tensors of the outer graph, by the order of the inputs that stand for them.
        variables: variables that were made in the function; they belong to the outer graph.

    Args:
        outer: as above.
        copied_ops: None, or operations with state that may be copied: then what would be captured
            is copied into this graph.
    """

    def __init__(self, outer: Graph, copied_ops: set[Operation] | None = None) -> None:
        super().__init__()
        self.outer = outer
        self.inputs: list[Tensor] = []
        self.captured: list[Tensor] = []
        self.variables: list[Any] = []
        self._library = outer._library
        self._callbacks = outer._callbacks
        self._place = outer._place
        self._collections = {key: list(items) for key, items in outer._collections.items()}
        self._variable_getter = self.get_variable
        self._inner: dict[Tensor, Tensor] = {}
        self._copied_ops = copied_ops
        self._copies: dict[Operation, Operation] = {}

    @property
    def building_function(self) -> bool:
        """True: this graph is the body of a function."""
        return True

    def add_arguments(self, dtypes: list) -> list[Tensor]:
        """Add the inputs that are arguments; their shapes are not known."""
        self.inputs = add_arguments(self, dtypes, [None] * len(dtypes))
        return list(self.inputs)

    def capture(self, tensor: Tensor) -> Tensor:
        """The input that stands for `tensor`, of the graph around this one."""
        if self._copied_ops is not None:
            return self._copied(tensor)
        found = self._inner.get(tensor)
        if found is None and _is_named_handle(tensor):
            found = self._inner[tensor] = self._copied_handle(tensor.op)
        if found is None:
            outside = self._outside(tensor)
            attrs = {"T": tensor.dtype.base_dtype, "index": len(self.inputs)}
            with self.control_dependencies(None):
                op = self.create_op("_Arg", [], attrs=attrs, name=f"_arg_{len(self.inputs)}/")
            found = self._inner[tensor] = op.outputs[0]
            found._dims, found._handle_data = tensor._dims, tensor._handle_data
            self.inputs.append(found)
            self.captured.append(outside)
        return found

    def _copied(self, tensor: Tensor) -> Tensor:
        """The copy in this graph of a tensor from outside, with all that it is computed from."""
        if tensor.graph is self:
            return tensor
        op = tensor.op
        if op not in self._copies:
            self._check_copied(op)
            inputs = [self._copied(t) for t in op.inputs]
            attrs = {k: v for k, v in op._attrs.items() if not k.startswith("_")}
            with self.control_dependencies(None):
                self._copies[op] = self.create_op(op.type, inputs, attrs=attrs, name=op.name)
        return self._copies[op].outputs[tensor.value_index]

    def _check_copied(self, op: Operation) -> None:
        kind = "placeholder" if op.type.startswith("Placeholder") else "stateful node"
        if kind == "placeholder" or (op.op_def.is_stateful and op not in (self._copied_ops or ())):
            raise ValueError(f"Cannot capture a {kind} (name:{op.name}, type:{op.type}) by value.")

    def _copied_handle(self, op: Operation) -> Tensor:
        """The handle of the same resource, which is found by its name."""
        attrs = {k: v for k, v in op._attrs.items() if not k.startswith("_")}
        attrs["shared_name"] = attrs["shared_name"] or op.name.encode()
        with self.control_dependencies(None):
            return self.create_op(op.type, [], attrs=attrs, name=op.name).outputs[0]

    def _captured(self, tensor: Tensor) -> Tensor:
        return self.capture(tensor)

    def _outside(self, tensor: Tensor) -> Tensor:
        """`tensor` as the outer graph has it; the value of a variable, where it is one."""
        graph = self.outer
        if tensor.graph is not graph:
            if not isinstance(graph, FunctionGraph):
                self._check_owns(tensor)
            tensor = graph._captured(tensor)
        if tensor.dtype._is_ref_dtype:
            with graph.as_default(), graph.control_dependencies(None):
                return raw_ops.Identity(tensor)
        return tensor

    def get_variable(self, getter: Callable, name: str, *args: Any, **keywords: Any) -> Any:
        """Return a variable of the outermost graph, by the `getter` that finds or makes it."""
        with self.outer.as_default(), self.outer.name_scope(None):
            around = self.outer._variable_getter
            variable = getter(name, *args, **keywords) if around is None else (
                around(getter, name, *args, **keywords))
        self.variables.append(variable)
        return variable

    def read_variable(self, getter: Callable, name: str, *args: Any, **keywords: Any) -> Any:
        """Custom getter: a variable by handle is its value, read in the graph around this one."""
        variable = getter(name, *args, **keywords)
        if not isinstance(variable, ResourceVariable):
            return variable
        with self.outer.as_default():
            return variable.value()


def _is_named_handle(tensor: Tensor) -> bool:
    """True for a handle by reference, as of a table: no input of a function can be one."""
    op = tensor.op
    return tensor.dtype is string_ref and not op.inputs and "shared_name" in op._attrs and (
        op.type not in ("Variable", "VariableV2"))


def function_graph() -> FunctionGraph | None:
    """The function that is being built, or None."""
    graph = get_default_graph()
    return graph if isinstance(graph, FunctionGraph) else None
