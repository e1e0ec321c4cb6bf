"""custom_gradient: functions that bring the gradient of what they compute."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.opdef import RegisterGradient
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops

_numbers = itertools.count()


def custom_gradient(f: Callable) -> Callable:
    """Decorator: differentiate `f` by the function that it returns.

    ``f(*tensors)`` returns ``(result, grad_fn)``; ``grad_fn(*gradients)``, given the gradient of
    each tensor of the result (a tensor or a nest of them), returns those of the arguments: one, or
    a list. Values that are no arguments, variables among them, get no gradient.

    Raises ``ValueError`` when the number of gradients is not that of the arguments.
    """

    @functools.wraps(f)
    def decorated(*args: Any, **keywords: Any) -> Any:
        leaves = [convert_to_tensor(x) for x in nest.flatten(args)]
        result, grad_fn = f(*nest.pack_as(args, leaves), **keywords)
        outputs = [convert_to_tensor(t) for t in nest.flatten(result)]
        replaced = _with_gradient(outputs, leaves, grad_fn)
        return nest.pack_as(result, replaced)

    return decorated


def _with_gradient(outputs: list[Tensor], arguments: list[Tensor],
                   grad_fn: Callable) -> list[Tensor]:
    """`outputs`, as an operation of `arguments` whose gradient `grad_fn` is."""
    name = f"CustomGradient-{next(_numbers)}"

    @RegisterGradient(name)
    def gradient(op: Operation, *grads: Any) -> list:
        found = nest.flatten(grad_fn(*grads[: len(outputs)]))
        if len(found) != len(arguments):
            raise ValueError(f"custom_gradient: {len(arguments)} gradients are expected, got "
                             f"{len(found)}")
        return [*[None] * len(outputs), *found]

    with get_default_graph().gradient_override_map({"IdentityN": name}):
        return raw_ops.IdentityN([*outputs, *arguments])[: len(outputs)]
