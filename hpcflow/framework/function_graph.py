"""FunctionGraph: the body of a function while it is built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.dtypes import string_ref
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.functions import add_arguments


class FunctionGraph(Graph):
    """A graph whose operations may read tensors of the graph around it.

    Such a tensor becomes one more input of the function.

    Attributes:
        outer: the graph in which the function is defined.
        inputs: the inputs of the function: its arguments, then what was captured.
        captured: tensors of the outer graph, by the order of the inputs that stand for them.
        variables: variables that were made in the function; they belong to the outer graph.
    """

    def __init__(self, outer: Graph) -> None:
        super().__init__()
        self.outer = outer
        self.inputs: list[Tensor] = []
        self.captured: list[Tensor] = []
        self.variables: list[Any] = []
        self._library = outer._library
        self._callbacks = outer._callbacks
        self.seed = outer.seed
        self._inner: dict[Tensor, Tensor] = {}

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
        """Make variables in the outer graph (a custom getter of a variable scope)."""
        with self.outer.as_default():
            variable = getter(name, *args, **keywords)
        self.variables.append(variable)
        return variable


def _is_named_handle(tensor: Tensor) -> bool:
    """True for a handle by reference, as of a table: no input of a function can be one."""
    op = tensor.op
    return tensor.dtype is string_ref and not op.inputs and "shared_name" in op._attrs and (
        op.type not in ("Variable", "VariableV2"))


def function_graph() -> FunctionGraph | None:
    """The function that is being built, or None."""
    graph = get_default_graph()
    return graph if isinstance(graph, FunctionGraph) else None
