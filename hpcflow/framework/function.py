"""Functions of graphs, defined in Python: Defun and Declare.

``from hpcflow.framework import function``::

    @function.Defun(hf.float32, hf.float32)
    def scaled(x, y):
        return x * hf.reduce_sum(y)

    z = scaled(a, b)       # one operation of type "scaled_..."; its body is in the graph's library

The decorated function is called once, with placeholders for its arguments, when it is first used.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hpcflow.dtypes import DType, as_dtype
from hpcflow.errors import InvalidArgumentError
from hpcflow.framework.function_graph import FunctionGraph, function_graph
from hpcflow.graph.attr_values import Func
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.function_def import function_def
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.traversal import ancestors
from hpcflow.ops.flow.functions import Function, call
from hpcflow.ops.flow.side_effects import bring_out, has_effect
from hpcflow.ops.state.variable_scope import share_variables

__all__ = ["Declare", "Defun", "get_extra_args", "get_extra_inputs", "get_extra_vars"]


class Defun:
    """Decorator that makes a Python function a function of graphs.

    Args:
        input_types: the types of the arguments. Without any, and with a function that takes
            arguments, one function is made for each combination of types that it is called with.
        func_name: the name in the graph's library; by default the Python name with a hash of the
            body.
        grad_func: another Defun: called with the inputs and the gradients of the outputs, it
            returns the gradients of the inputs.
        python_grad_func: ``f(op, *grads)`` that builds the gradients of the inputs of a call.
        out_names: names of the outputs.
        shape_func: ``f(op)`` that returns the shapes of the outputs of a call. By default they
            follow from the body.
        noinline: is kept as an attribute; calls are put in place in any case.
        capture_by_value: what the body reads of the graph around it is copied into it, instead
            of being passed in every call. Raises ``ValueError`` for what cannot be copied:
            placeholders, and operations with state that are not among
            `whitelisted_stateful_ops`.
        experimental_NAME, _implements, _reference: attributes of the function.
        compiled: accepted; steps are compiled in any case. So is separate_compiled_gradients.

    Raises:
        ValueError: both kinds of gradients are given, or the function has defaults or ``**``.
    """

    def __init__(self, *input_types: Any, **options: Any) -> None:
        self._types = [as_dtype(t).base_dtype for t in input_types]
        for ignored in ("compiled", "separate_compiled_gradients"):
            options.pop(ignored, None)
        known = ("func_name", "grad_func", "python_grad_func", "out_names", "shape_func",
                 "noinline", "capture_by_value", "whitelisted_stateful_ops")
        attrs = {key: _attr(options.pop(key)) for key in list(options)
                 if key.startswith("experimental_") or key in ("_implements", "_reference")}
        wrong = sorted(set(options) - set(known))
        if wrong:
            raise TypeError(f"Defun got unexpected arguments: {', '.join(wrong)}")
        if options.get("grad_func") and options.get("python_grad_func"):
            raise ValueError("Defun: Gradient defined twice: give one of grad_func and "
                             "python_grad_func, not both")
        self._options = {**options, "attrs": attrs}

    def __call__(self, func: Callable) -> Any:
        """Return what is called instead of `func`."""
        if not callable(func):
            raise ValueError(f"Defun: expected a function, got {func!r}")
        names, any_number = _parameters(func)
        if any_number or len(names) == len(self._types):
            return DefinedFunction(func, names, self._types, **self._options)
        if not self._types:
            return OverloadedFunction(func, names, **self._options)
        raise ValueError(f"The function takes {len(names)} arguments, but {len(self._types)} "
                         f"specified input types are given: {_types(self._types)}")


def _parameters(func: Callable) -> tuple[list[str], bool]:
    """Return the names of the arguments, and True if there may be any number of them."""
    names, any_number = [], False
    for parameter in inspect.signature(func).parameters.values():
        if parameter.default is not parameter.empty or parameter.kind in (
                parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ValueError("Defun: functions with defaults or keyword arguments are not "
                             f"supported ('{parameter.name}')")
        if parameter.kind is parameter.VAR_POSITIONAL:
            any_number = True
        else:
            names.append(parameter.name)
    return names, any_number


def _attr(value: str | float) -> bytes | float:
    return value.encode() if isinstance(value, str) else value


def _types(types: list[DType]) -> str:
    return ", ".join(t.name for t in types)


class DefinedFunction:
    """A function for fixed input types; calling it adds an operation to the default graph.

    With `reads_variables` its ``get_variable`` returns the value of a variable by handle, as it is
    where the function is called; else the variable, which the function then reads and changes.
    """

    def __init__(self, func: Callable, names: list[str], input_types: list[DType],
                 func_name: str | None = None, grad_func: Any = None,
                 python_grad_func: Callable | None = None, out_names: list[str] | None = None,
                 shape_func: Callable | None = None, noinline: bool = False,
                 capture_by_value: bool = False,
                 whitelisted_stateful_ops: Iterable[Operation] | None = None,
                 attrs: dict[str, Any] | None = None, reads_variables: bool = True) -> None:
        self._func = func
        self._types = input_types
        self._names = names + [f"arg{i}" for i in range(len(names), len(input_types))]
        self._given_name = func_name
        self._grad_func = grad_func
        self._python_grad_func = python_grad_func
        self._out_names = out_names
        self._shape_func = shape_func
        self._noinline = noinline
        self._copied_ops = set(whitelisted_stateful_ops or ()) if capture_by_value else None
        self._attrs = attrs or {}
        self._reads_variables = reads_variables
        self._function: Function | None = None
        self._graph: FunctionGraph | None = None

    # ------------------------------------------------------------ facts

    @property
    def name(self) -> str:
        """The name in the library."""
        return self._given_name or self._made().name

    @property
    def definition(self) -> Any:
        """The ``FunctionDef``."""
        return self._made().to_proto()

    @property
    def declared_input_types(self) -> tuple[DType, ...]:
        """The types of the arguments."""
        return tuple(self._types)

    @property
    def captured_inputs(self) -> list[Tensor]:
        """Tensors from outside that the body reads: calls have them as further inputs."""
        self._made()
        return list(self._graph.captured) if self._graph is not None else []

    @property
    def stateful_ops(self) -> list[tuple[str, str]]:
        """(name, type) of the operations of the body that have state."""
        op_def = get_default_graph()._library.op_def
        return [(node.name, node.op) for node in self.definition.node_def
                if op_def(node.op).is_stateful]

    @property
    def python_grad_func(self) -> Callable | None:
        """The Python function of the gradient, if one was given."""
        return self._python_grad_func

    @property
    def grad_func_name(self) -> str | None:
        """The name of the gradient function, if one was given."""
        return self._grad_func.name if self._grad_func else None

    # ------------------------------------------------------------ use

    def add_to_graph(self, g: Graph) -> None:
        """Add the function, and that of its gradient, to the library of `g`."""
        g._add_function(self._made())
        if self._grad_func:
            self._grad_func.add_to_graph(g)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Add a call; returns its output, a tuple of them, or the operation if there are none."""
        name = keywords.pop("name", None)
        noinline = keywords.pop("noinline", self._noinline)
        if keywords:
            raise ValueError(f"Unknown keyword arguments: {', '.join(sorted(keywords))}")
        if len(args) != len(self._types):
            raise ValueError(f"{self.name} expects arguments: {len(self._types)} of the types "
                             f"[{_types(self._types)}], but got {len(args)}")
        inputs = [_argument(a, t, self.name, i) for i, (a, t) in
                  enumerate(zip(args, self._types, strict=True))]
        self.add_to_graph(get_default_graph())
        op = call(self._made(), inputs + self.captured_inputs, name)
        if noinline:
            op._attrs["_noinline"] = True
        return _result(op)

    # ------------------------------------------------------------ the body

    def _made(self) -> Function:
        if self._function is None:
            self._function = self._make()
        return self._function

    def _make(self) -> Function:
        graph = self._graph = FunctionGraph(get_default_graph(), self._copied_ops)
        library = graph._library
        if any(f is self._func for f in library.building):
            label = self._given_name or self._func.__name__
            raise ValueError(f"The function '{label}' calls itself; recursive functions are not "
                             "supported")
        with library.lock:
            library.building.append(self._func)
            try:
                share_variables(graph, graph.read_variable if self._reads_variables else None)
                with graph.as_default():
                    result = self._func(*graph.add_arguments(self._types))
                    outputs, controls = self._results(graph, result)
            finally:
                library.building.pop()
        return self._defined(graph, outputs, controls)

    def _results(self, graph: FunctionGraph,
                 result: Tensor | Sequence[Tensor]) -> tuple[list[Tensor], list[Operation]]:
        """Return the function's results as tensors, and the operations that have to run besides."""
        if result is None or isinstance(result, Operation):
            values = []
        else:
            values = list(result) if isinstance(result, (list, tuple)) else [result]
        if any(v is None for v in values):
            raise ValueError(f"The function '{self._func.__name__}' can not return None among its "
                             "values")
        outputs = [_own(graph, convert_to_tensor(v)) for v in values]
        needed = ancestors([t.op for t in outputs])
        controls = [bring_out(op, None) for op in graph.get_operations()
                    if op not in needed and has_effect(op)]
        if isinstance(result, Operation) and result not in controls:
            controls.append(result)
        return outputs, controls

    def _defined(self, graph: FunctionGraph, outputs: list[Tensor],
                 controls: list[Operation]) -> Function:
        names = self._names + [f"captured{i}" for i in range(len(graph.captured))]
        out_names = self._out_names or _output_names(outputs)
        if len(out_names) != len(outputs):
            raise InvalidArgumentError(
                None, None, f"The function '{self._func.__name__}': output names must be either "
                f"empty or equal in size to outputs. output names size = {len(out_names)} "
                f"outputs size = {len(outputs)}")
        ops = [op for op in graph.get_operations() if op.type != "_Arg"]
        attrs = {"_noinline": True, **self._attrs} if self._noinline else self._attrs
        proto = function_def(self._given_name or "", ops, graph.inputs, _distinct(names, ops),
                             outputs, out_names, controls, attrs)
        if self._given_name is None:
            known_by = proto.SerializeToString(deterministic=True) + self._gradient_label().encode()
            digest = hashlib.sha256(known_by).hexdigest()[:8]
            proto.signature.name = f"{_identifier(self._func.__name__)}_{digest}"
        if self._func.__doc__:
            proto.signature.description = self._func.__doc__
        return Function(proto, self.grad_func_name, self._python_grad_func, self._shape_func,
                        {op.name: op._stack for op in ops})


    def _gradient_label(self) -> str:
        """Return a label that distinguishes functions which differ only in their gradients."""
        gradient = self._python_grad_func
        if gradient is None:
            return self.grad_func_name or ""
        return f"{gradient.__module__}.{getattr(gradient, '__qualname__', type(gradient))}"


def _argument(value: TensorLike, dtype: DType, name: str, index: int) -> Tensor:
    tensor = convert_to_tensor(value, None if isinstance(value, Tensor) else dtype)
    if tensor.dtype.base_dtype is not dtype:
        raise ValueError(f"Expected type {dtype.name} for argument {index} of {name}, got "
                         f"{tensor.dtype.base_dtype.name}: {tensor!r}")
    return tensor


def _own(graph: FunctionGraph, tensor: Tensor) -> Tensor:
    return tensor if tensor.graph is graph else graph.capture(tensor)


def _result(op: Operation) -> Any:
    if not op.outputs:
        return op
    return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)


def _output_names(outputs: list[Tensor]) -> list[str]:
    return _numbered([_identifier(t.op.name.rpartition("/")[2]) for t in outputs], set())


def _distinct(names: list[str], ops: list[Operation]) -> list[str]:
    """Rename inputs whose names collide with operations of the body."""
    return _numbered(names, {op.name for op in ops})


def _numbered(names: list[str], taken: set[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        candidate, count = name, 0
        while candidate in taken or candidate in found:
            candidate, count = f"{name}_{count}", count + 1
        found.append(candidate)
    return found


def _identifier(name: str) -> str:
    """A name of a function or of an argument: letters, digits and underscores."""
    text = "".join(c if c.isalnum() else "_" for c in name).strip("_")
    return text if text and text[0].isalpha() else f"f_{text}"


# ---------------------------------------------------------------- functions for several types


class OverloadedFunction:
    """A function whose input types are those that it is called with."""

    def __init__(self, func: Callable, names: list[str], **options: Any) -> None:
        self._func = func
        self._names = names
        self._options = options
        self._made: dict[tuple, DefinedFunction] = {}

    def instantiate(self, input_types: list) -> DefinedFunction:
        """Return the function for arguments of these types, made on first use."""
        types = [as_dtype(t).base_dtype for t in input_types]
        if len(types) != len(self._names):
            raise ValueError(f"Expected {len(self._names)} arguments: {', '.join(self._names)}, "
                             f"but got {len(types)}")
        key = tuple(types)
        if key not in self._made:
            options = dict(self._options)
            name = options.pop("func_name", None)
            if name is not None:
                options["func_name"] = "_".join([name, *(t.name for t in types)])
            gradient = options.pop("grad_func", None)
            made = self._made[key] = DefinedFunction(self._func, self._names, types, **options)
            if isinstance(gradient, OverloadedFunction):
                outputs = [as_dtype(a.type) for a in made.definition.signature.output_arg]
                gradient = gradient.instantiate([*types, *outputs])
                made._function = None  # it gets a gradient
            made._grad_func = gradient
        return self._made[key]

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Add a call for the types of the arguments."""
        tensors = [convert_to_tensor(a) for a in args]
        return self.instantiate([t.dtype for t in tensors])(*tensors, **keywords)


# ---------------------------------------------------------------- functions defined later


class Declare:
    """A function that is called before it is defined: its name and its signature.

    Args:
        func_name: the name under which it will be in the library.
        inputs, outputs: pairs (name, type) of the arguments and of the outputs.
    """

    def __init__(self, func_name: str, inputs: list, outputs: list) -> None:
        from tensorboard.compat.proto.op_def_pb2 import OpDef

        self._signature = OpDef(name=func_name)
        for pairs, args in ((inputs, self._signature.input_arg),
                            (outputs, self._signature.output_arg)):
            for name, dtype in pairs:
                args.add(name=name, type=as_dtype(dtype).base_dtype.enum)

    @property
    def name(self) -> str:
        """The name in the library."""
        return self._signature.name

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Add a call; returns as a call of the function itself."""
        args = self._signature.input_arg
        if len(inputs) != len(args):
            raise ValueError(f"{self.name} expects {len(args)} arguments, but got {len(inputs)}")
        tensors = [_argument(x, as_dtype(a.type), self.name, i)
                   for i, (x, a) in enumerate(zip(inputs, args, strict=True))]
        types = [as_dtype(a.type) for a in self._signature.output_arg]
        op = get_default_graph().create_op(
            "StatefulPartitionedCall", tensors, name=keywords.pop("name", None) or self.name,
            attrs={"f": Func(self.name), "Tout": types})
        if keywords:
            raise ValueError(f"Unknown keyword arguments: {', '.join(sorted(keywords))}")
        return _result(op)


# ---------------------------------------------------------------- inside a body


def get_extra_vars() -> list:
    """The variables made so far in the function that is being built; empty outside of one."""
    graph = function_graph()
    return [] if graph is None else list(graph.variables)


def get_extra_inputs() -> list[Tensor]:
    """Return the tensors captured so far by the function being built; empty outside of one."""
    graph = function_graph()
    return [] if graph is None else list(graph.captured)


def get_extra_args() -> list[Tensor]:
    """The inputs that stand for :func:`get_extra_inputs`; empty outside of a function."""
    graph = function_graph()
    return [] if graph is None else graph.inputs[len(graph.inputs) - len(graph.captured):]
