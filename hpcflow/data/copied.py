"""A function without inputs that computes a tensor: it has copies of all that this depends on."""

from __future__ import annotations

from hpcflow.framework.function import DefinedFunction
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.traversal import ancestors


def copied_function(tensor: Tensor, name: str) -> str:
    """The name in the library of a function that returns `tensor`.

    Raises ``ValueError`` where it depends on a placeholder or on state.
    """
    graph = get_default_graph()
    ops = sorted(ancestors([tensor.op]), key=lambda op: op._id)
    for op in ops:
        _check(op)

    def body() -> Tensor:
        made: dict[Operation, Operation] = {}
        inner = get_default_graph()
        for op in ops:
            inputs = [made[t.op].outputs[t.value_index] for t in op.inputs]
            with inner.control_dependencies([made[c] for c in op.control_inputs]):
                copy = inner.create_op(op.type, inputs, attrs={
                    k: v for k, v in op._attrs.items() if not k.startswith("_")}, name=op.name)
            for mine, other in zip(copy.outputs, op.outputs, strict=True):
                mine._dims = other._dims
            copy._stack = op._stack
            made[op] = copy
        return made[tensor.op].outputs[tensor.value_index]

    body.__name__ = name
    function = DefinedFunction(body, [], [])
    function.add_to_graph(graph)
    return function.name


def _check(op: Operation) -> None:
    if op.type.startswith("Placeholder") and op.type != "PlaceholderWithDefault":
        raise ValueError(f"Cannot capture a placeholder (name:{op.name}, type:{op.type}) by value.")
    makes_dataset = any(t.dtype.base_dtype.name == "variant" for t in op.outputs)
    if op.op_def.is_stateful and not makes_dataset and op.type not in _PURE:
        raise ValueError(f"Cannot capture a stateful node (name:{op.name}, type:{op.type}) by "
                         "value.")


# Marked as having state for the sake of those who would take them for constants.
_PURE = frozenset(("Assert", "MatchingFiles"))
