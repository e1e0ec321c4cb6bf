"""Functions that bring the gradient of what they compute."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.autodiff.gradients import gradients as differentiate
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import Graph, control_dependencies, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.opdef import RegisterGradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.traversal import reachable
from hpcflow.ops.state.variable_scope import get_variable_scope, variable_scope

if TYPE_CHECKING:
    from hpcflow.ops.state.variables import Variable

_numbers = itertools.count()


def custom_gradient(f: Callable) -> Callable:
    """Decorator: differentiate `f` by the function that it returns.

    ``f(*tensors)`` returns ``(result, grad_fn)``; ``grad_fn(*gradients)``, given the gradient of
    each tensor of the result (a tensor or a nest of them), returns those of the arguments: one, or
    a list. Where it takes ``variables``, the trainable variables that `f` reads, it returns these
    and a list of the gradients of the variables. Other values get no gradient.

    Raises ``ValueError`` when the number of gradients is not that of the arguments or variables,
    ``TypeError`` where `f` makes trainable variables, or reads some by handle, and the function of
    the gradients does not take them.
    """

    @functools.wraps(f)
    def decorated(*args: Any, **keywords: Any) -> Any:
        leaves = [convert_to_tensor(x) for x in nest.flatten(args)]
        before = get_default_graph().version
        result, grad_fn = f(*nest.pack_as(args, leaves), **keywords)
        outputs = [convert_to_tensor(t) for t in nest.flatten(result)]
        variables = variables_read(outputs, leaves, before)
        if variables and not _takes_variables(grad_fn):
            _check_left_out(variables, before)
            variables = []
        replaced = _with_gradient(outputs, leaves, variables, grad_fn)
        return nest.pack_as(result, replaced)

    return decorated


def grad_pass_through(f: Callable) -> Callable:
    """Return `f`, whose gradients are those of the identity: for what has none, or should not."""

    @custom_gradient
    def passed(*args: Any, **keywords: Any) -> tuple:
        def grad(*gradients: Any, variables: Sequence[Variable] = ()) -> Any:
            found = gradients[0] if len(gradients) == 1 else list(gradients)
            return (found, [None] * len(variables)) if variables else found

        return f(*args, **keywords), grad

    return passed


def recompute_grad(f: Callable) -> Callable:
    """Return `f`, whose gradients compute it again, once its gradient is there, instead of keeping
    its intermediate values.

    `f` reads variables that were made before, or that ``get_variable`` finds again.
    """

    @custom_gradient
    def computed(*args: Any, **keywords: Any) -> tuple:
        scope = get_variable_scope()

        def grad(*gradients: Any, variables: Sequence[Variable] = ()) -> Any:
            with control_dependencies(list(gradients)), variable_scope(scope, reuse=True):
                copies = [raw_ops.Identity(x) for x in nest.flatten(args)]
                result = nest.flatten(f(*nest.pack_as(args, copies), **keywords))
                found = differentiate(result, [*copies, *variables], list(gradients))
            by_arguments, by_variables = found[: len(copies)], found[len(copies):]
            return (by_arguments, by_variables) if variables else by_arguments

        return f(*args, **keywords), grad

    return computed


def _takes_variables(grad_fn: Callable) -> bool:
    parameters = inspect.signature(grad_fn).parameters
    return "variables" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _check_left_out(variables: Iterable[Any], before: int) -> None:
    for variable in variables:
        if variable.op._id >= before or variable.op.type == "VarHandleOp":
            raise TypeError("custom_gradient: the function uses the variable "
                            f"{variable.name}, but that of its gradients does not take "
                            "a keyword argument 'variables'")


def variables_read(outputs: list[Tensor], arguments: list[Tensor], before: int) -> list[Any]:
    """Return the trainable variables that `outputs` depend on by operations made since `before`, a
    version of the graph."""
    graph = get_default_graph()
    known = {v.op: v for v in graph.get_collection(GraphKeys.TRAINABLE_VARIABLES)}
    stop = {t.op for t in arguments}
    found = reachable({t.op for t in outputs} - stop, lambda op: [
        t.op for t in op.inputs if t.op not in stop and _is_inside(op, before)])
    return [v for op, v in known.items() if op in found]


def _is_inside(op: Operation, before: int) -> bool:
    """True for operations made since then, and for those that only read a variable."""
    return op._id >= before or op.type in ("Identity", "ReadVariableOp", "Enter")


def _with_gradient(outputs: list[Tensor], arguments: list[Tensor], variables: list[Any],
                   grad_fn: Callable) -> list[Tensor]:
    """`outputs`, as an operation of `arguments` and `variables` whose gradient `grad_fn` is."""
    name = f"CustomGradient-{next(_numbers)}"

    @RegisterGradient(name)
    def gradient(op: Operation, *grads: Any) -> list:
        of_results = grads[: len(outputs)]
        by_variables: list = []
        if variables:
            by_arguments, by_variables = grad_fn(*of_results, variables=variables)
        else:
            by_arguments = grad_fn(*of_results)
        found = nest.flatten(by_arguments)
        for what, got, wanted in (("gradients", found, arguments),
                                  ("gradients of variables", by_variables, variables)):
            if len(got) != len(wanted):
                raise ValueError(f"custom_gradient: {len(wanted)} {what} are expected, got "
                                 f"{len(got)}")
        return [*[None] * len(outputs), *found, *by_variables]

    graph: Graph = get_default_graph()
    handles = [convert_to_tensor(v, as_ref=True) for v in variables]
    with graph.gradient_override_map({"IdentityN": name}):
        return raw_ops.IdentityN([*outputs, *arguments, *handles])[: len(outputs)]
