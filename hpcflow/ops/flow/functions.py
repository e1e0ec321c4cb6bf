"""Functions: graphs with arguments and results, which operations call by name.

A function is kept as a ``FunctionDef``, the form in which graphs carry it. For the types and the
static shapes of a call it becomes a :class:`Body`, a graph with inputs and outputs, from which the
shapes of the call's outputs are known, and which the compiler puts in the place of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.graph.attr_values import Func, to_proto
from hpcflow.graph.function_def import body_of, op_def_from_proto
from hpcflow.graph.function_library import FunctionLibrary, hooks
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.importer import Importer
from hpcflow.graph.opdef import get_op_def, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor, arg_length
from hpcflow.graph.traversal import ancestors
from hpcflow.ops.flow.side_effects import bring_out, has_effect

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__: list[str] = []

# ---------------------------------------------------------------- functions


class Function:
    """A function of a graph's library.

    Args:
        proto: its ``FunctionDef``.
        gradient_name: the function that computes its gradient: it takes the inputs and the
            gradients of the outputs, and returns the gradients of the inputs.
        python_gradient: a function of the call and the gradients of its outputs instead.
        shape_function: a function of the call that returns the shapes of its outputs.
        stacks: per node of the body, where the user made it.
    """

    def __init__(self, proto: Message, gradient_name: str | None = None,
                 python_gradient: Callable | None = None, shape_function: Callable | None = None,
                 stacks: dict[str, Any] | None = None) -> None:
        self._proto = proto
        self.gradient_name = gradient_name
        self.python_gradient = python_gradient
        self.stacks = stacks or {}
        self.op_def = op_def_from_proto(proto.signature)
        self.op_def.shape_fn = shape_function or _call_shapes

    @property
    def name(self) -> str:
        """The name by which operations call it."""
        return self.op_def.name

    def to_proto(self) -> Any:
        """Its ``FunctionDef``."""
        return self._proto


hooks.make_function = Function


def callee(library: FunctionLibrary, op_type: str,
           attrs: dict[str, Any]) -> tuple[Function, dict[str, Any]] | None:
    """The function that an operation calls, and the attributes for it; None if it calls none.

    Raises ``ValueError`` for a call by a name that the library does not have.
    """
    if op_type in CALL_TYPES:
        name, attrs = attrs["f"]
        if name not in library.functions:
            raise ValueError(f"there is no function called '{name}'")
        return library.functions[name], attrs
    function = library.functions.get(op_type)
    return None if function is None else (function, attrs)


# ---------------------------------------------------------------- bodies


class Body(NamedTuple):
    """A function for some types and shapes.

    Attributes:
        graph: the body.
        inputs, outputs: its tensors.
        effects: operations that run whenever the function does, though no output needs them.
    """

    graph: Graph
    inputs: list[Tensor]
    outputs: list[Tensor]
    effects: list[Operation]


def body_for(library: FunctionLibrary, function: Function, attrs: dict[str, Any],
             dtypes: list, dims: list[Dims]) -> Body:
    """The body of `function` for inputs of such types and shapes.

    Raises ``ValueError`` if the function calls itself, directly or not, or shapes do not fit.
    """
    return cached(library, ("body", function.name), attrs, dims,
                  lambda: _body(library, function, attrs, dtypes, dims))


def cached(library: FunctionLibrary, key: tuple, attrs: dict[str, Any], dims: list[Dims],
           make: Callable[[], Any]) -> Any:
    """Return the result of `make`, called once for the same key, attributes and shapes."""
    values = tuple((k, to_proto(v).SerializeToString(deterministic=True))
                   for k, v in sorted(attrs.items()) if not k.startswith("_"))
    full = (*key, values, tuple(dims))
    with library.lock:
        if full not in library.bodies:
            library.bodies[full] = make()
        return library.bodies[full]


def _body(library: FunctionLibrary, function: Function, attrs: dict[str, Any], dtypes: list,
          dims: list[Dims]) -> Body:
    with body_graph(library).as_default() as graph:
        inputs = add_arguments(graph, dtypes, dims)
        outputs, effects = instantiate(function, attrs, inputs)
    return Body(graph, inputs, outputs, effects)


def body_graph(library: FunctionLibrary) -> Graph:
    """An empty graph with the functions of `library`."""
    graph = Graph()
    graph._library = library
    return graph


def add_arguments(graph: Graph, dtypes: list, dims: list[Dims]) -> list[Tensor]:
    """Add the arguments of a body to its graph, and return their tensors."""
    inputs = []
    for i, (dtype, shape) in enumerate(zip(dtypes, dims, strict=True)):
        attrs = {"T": dtype.base_dtype, "index": i}
        op = graph._add_op(get_op_def("_Arg"), [], attrs, f"_arg_{i}/")
        op.outputs[0]._dims = shape
        inputs.append(op.outputs[0])
    return inputs


def instantiate(function: Function, attrs: dict[str, Any],
                inputs: list[Tensor]) -> tuple[list[Tensor], list[Operation]]:
    """Add the body of `function` to the default graph, reading `inputs`.

    Returns its outputs, and operations that must run though no output needs them. Raises
    ``ValueError`` if the function calls itself, directly or not.
    """
    graph = get_default_graph()
    library = graph._library
    with library.lock:
        if function.name in library.stack:
            calls = [*library.stack[library.stack.index(function.name):], function.name]
            raise ValueError(f"The function '{function.name}' calls itself ({' -> '.join(calls)}); "
                             "recursive functions are not supported")
        library.stack.append(function.name)
        try:
            return _instantiate(graph, function, attrs, inputs)
        finally:
            library.stack.pop()


def _instantiate(graph: Graph, function: Function, attrs: dict[str, Any],
                 inputs: list[Tensor]) -> tuple[list[Tensor], list[Operation]]:
    body = body_of(function.to_proto(), attrs, graph._library.op_def)
    scope = f"{graph._name_stack}/" if graph._name_stack else ""
    importer = Importer(graph, body.nodes, _input_map(function, attrs, inputs))
    importer.run(scope)
    for name, op in importer.ops.items():
        op._stack = function.stacks.get(name, op._stack)
    outputs = [importer.tensor(text) for text in body.outputs]
    made = graph.get_operations()[importer.start:]
    needed = ancestors([t.op for t in outputs])
    effects = [op for op in made if op not in needed and has_effect(op)]
    effects += [importer.ops[name] for name in body.controls
                if importer.ops[name] not in needed and importer.ops[name] not in effects]
    return outputs, [bring_out(op, graph._control_flow_context) for op in effects]


def _input_map(function: Function, attrs: dict[str, Any], inputs: list[Tensor]) -> dict[str, Any]:
    """Map names of arguments, as inputs and as control inputs, to the tensors of a call."""
    found: dict[str, Any] = {}
    start = 0
    for arg in function.op_def.inputs:
        count = arg_length(arg, attrs)
        for i, tensor in enumerate(inputs[start : start + count]):
            found[f"{arg.name}:{i}"] = tensor
            found[f"^{arg.name}"] = tensor.op
        start += count
    return found


# ---------------------------------------------------------------- gradients


class GradientBody(NamedTuple):
    """A function together with its gradient.

    Attributes:
        graph: the body.
        inputs: the inputs of the function, then the gradients of its outputs.
        outputs, effects: of the function, as in :class:`Body`.
        gradients: the gradients of the inputs.
    """

    graph: Graph
    inputs: list[Tensor]
    outputs: list[Tensor]
    effects: list[Operation]
    gradients: list[Tensor]


class GradientHooks:
    """A hook that hpcflow.autodiff fills in: (outputs, inputs, gradients of the outputs) ->
    gradients of the inputs, none of them None."""

    differentiate: Callable[[list[Tensor], list[Tensor], list[Tensor]], list[Tensor]]


gradient_hooks = GradientHooks()


def gradient_body_for(library: FunctionLibrary, func: Func, dtypes: list, dims: list[Dims],
                      without: tuple[int, ...] = ()) -> Body | GradientBody:
    """The body of the gradient of the function `func`.

    `dtypes` and `dims` are those of its inputs and of the gradients of its outputs; the outputs
    `without` have none. Raises as :func:`body_for`.
    """
    name, attrs = func
    function = library.functions.get(name)
    if function is None:
        raise ValueError(f"there is no function called '{name}', whose gradient is wanted")
    if function.gradient_name is not None:
        own = library.functions.get(function.gradient_name)
        if own is None:
            raise ValueError(f"the gradient of '{name}' is to be the function "
                             f"'{function.gradient_name}', which does not exist")
        return _own_gradient(library, function, own, attrs, dtypes, dims)
    return cached(library, ("gradient", name, *without), attrs, dims,
                  lambda: _gradient_body(library, function, attrs, dtypes, dims, without))


def _own_gradient(library: FunctionLibrary, function: Function, own: Function,
                  attrs: dict[str, Any], dtypes: list, dims: list[Dims]) -> Body:
    """The body of `own`, the gradient that was given for `function`."""
    body = body_for(library, own, attrs, dtypes, dims)
    count = sum(arg_length(a, attrs) for a in function.op_def.inputs)
    if len(body.outputs) != count:
        raise ValueError(f"SymGrad expects to return {count} values, one per input of "
                         f"'{function.name}', but get {len(body.outputs)} instead, from its "
                         f"gradient '{own.name}'")
    return body


def _gradient_body(library: FunctionLibrary, function: Function, attrs: dict[str, Any],
                   dtypes: list, dims: list[Dims], without: tuple[int, ...]) -> GradientBody:
    count = sum(arg_length(a, attrs) for a in function.op_def.inputs)
    with body_graph(library).as_default() as graph:
        arguments = add_arguments(graph, dtypes, dims)
        inputs, grads = arguments[:count], arguments[count:]
        outputs, effects = instantiate(function, attrs, inputs)
        if len(grads) != len(outputs):
            raise ValueError(f"the gradient of '{function.name}' takes {count} inputs and "
                             f"{len(outputs)} gradients of its outputs, but {len(arguments)} "
                             "values were given")
        known = [i for i in range(len(outputs)) if i not in without]
        gradients = gradient_hooks.differentiate([outputs[i] for i in known], inputs,
                                                 [grads[i] for i in known])
    return GradientBody(graph, arguments, outputs, effects, gradients)


# ---------------------------------------------------------------- op types


def _call_shapes(op: Operation) -> list[Dims]:
    """Shape function of a call: return the shapes of the body's outputs."""
    found = callee(op.graph._library, op.type, op._attrs)
    if found is None:
        return [None] * len(op.outputs)
    function, attrs = found
    body = body_for(op.graph._library, function, attrs, [t.dtype for t in op.inputs],
                    [t._dims for t in op.inputs])
    for output, inner in zip(op.outputs, body.outputs, strict=True):
        output._handle_data = inner._handle_data
    return [t._dims for t in body.outputs]


def _named_call_shapes(op: Operation) -> list[Dims]:
    try:
        return _call_shapes(op)
    except ValueError:
        if op.attr("f").name in op.graph._library.functions:
            raise
        return [None] * len(op.outputs)  # declared, and to be defined later


def _inputs_shapes(op: Operation) -> list[Dims]:
    """A gradient has the shape of what it is the gradient of: of a handle, of the variable."""
    return [(t._handle_data or (None, None))[1] if t.dtype.name == "resource" else t._dims
            for t in op.inputs[: len(op.outputs)]]


def _argument_shape(op: Operation) -> list[Dims]:
    return [None]


_CALL = "Tin: list(type) >= 0; Tout: list(type) >= 0; f: func"
_OPTIONS = 'config: string = ""; config_proto: string = ""; executor_type: string = ""'
CALL_TYPES = ("PartitionedCall", "StatefulPartitionedCall")
GRADIENT_TYPE = "SymbolicGradient"
# Of a gradient: the name of the call that it belongs to.
FORWARD_ATTR = "_forward_call"
# Of a gradient: the numbers of the outputs that have no gradient; their inputs are not read.
WITHOUT_ATTR = "_without_gradient"

register_op("_Arg", outputs="output: T", attrs="T: type; index: int >= 0", stateful=True,
            shape=_argument_shape)
for _op_type in CALL_TYPES:
    register_op(_op_type, "args: Tin", "output: Tout", f"{_CALL}; {_OPTIONS}",
                stateful=_op_type.startswith("Stateful"), shape=_named_call_shapes)
register_op(GRADIENT_TYPE, "input: Tin", "output: Tout",
            "Tin: list(type) >= 1; Tout: list(type) >= 1; f: func", shape=_inputs_shapes)
not_differentiable("_Arg")


def call(function: Function, inputs: list[Tensor], name: str | None = None) -> Operation:
    """Add a call of `function` to the default graph."""
    graph = get_default_graph()
    graph._add_function(function)
    return graph.create_op(function.name, inputs, name=name)


def as_func(op: Operation) -> Func:
    """Return the function that the operation calls, as the value of an attribute."""
    if op.type in CALL_TYPES:
        return op._attrs["f"]
    return Func(op.type, {k: v for k, v in op._attrs.items() if not k.startswith("_")})


