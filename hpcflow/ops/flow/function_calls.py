"""``functional_ops``: calls of defined functions, on a device, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.dtypes import as_dtype
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import device, get_default_graph, name_scope
from hpcflow.graph.likes import DeviceLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.function_branches import as_func, output_types

__all__: list[str] = []


def Gradient(inputs: Sequence[TensorLike], f: Any, name: str | None = None) -> list[Tensor]:
    """Return the gradients of the function `f` by its arguments.

    `inputs` are the arguments, and behind them the gradients by what it returns.
    """
    types = list(f.declared_input_types)
    values = [convert_to_tensor(x, t) for x, t in zip(inputs, types + output_types(f), strict=True)]
    found = raw_ops.SymbolicGradient(input=values, Tout=types, f=as_func(f), name=name)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def partitioned_call(args: Sequence[TensorLike], f: Any, tout: Sequence[Any] | None = None,
                     executing_eagerly: bool | None = None, config: Any = None,
                     executor_type: str | None = None, name: str | None = None) -> Any:
    """Return the list of what ``f(*args)`` returns, or the call's operation if that is nothing.

    The function's operations run on the devices that they ask for. `args` are all that the
    function takes, with what it takes from outside (``f.captured_inputs``); `tout` are the types
    of its outputs, known if left out. `executing_eagerly` and `config` mean nothing here. Raises
    ``NotFoundError`` in a step for an `executor_type` other than "" and "DEFAULT".
    """
    types = output_types(f) if tout is None else [as_dtype(t) for t in tout]
    values = [convert_to_tensor(x) for x in args]
    attrs = {"f": as_func(f), "Tin": [v.dtype for v in values], "Tout": types,
             "executor_type": executor_type or ""}
    op = get_default_graph().create_op(
        "StatefulPartitionedCall" if f.stateful_ops else "PartitionedCall", values, attrs=attrs,
        name=name)
    return list(op.outputs) if types else op


def remote_call(args: Sequence[TensorLike], Tout: Sequence[Any], f: Any, target: DeviceLike,
                name: str | None = None) -> list[Tensor]:
    """Return the list of what ``f(*args)`` returns, computed on the device `target`.

    Raises ``TypeError`` unless the function returns the types `Tout`.
    """
    types = [as_dtype(t) for t in Tout]
    if output_types(f) != types:
        raise TypeError(f"'{f.name}' returns {output_types(f)}, not {types}")
    values = [convert_to_tensor(x, t) for x, t in zip(args, f.declared_input_types, strict=True)]
    with name_scope(name, "RemoteCall", values), device(target):
        found = f(*values)
    return list(found) if isinstance(found, (list, tuple)) else [found]
