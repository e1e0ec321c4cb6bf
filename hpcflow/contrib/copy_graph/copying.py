"""Operations and variables of one graph, copied to another under the names they have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.graph.graph import Graph
from hpcflow.graph.importer import import_graph_def
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.operation import COLOCATION_ATTR, Operation, Tensor
from hpcflow.ops.state.variables import Variable
from hpcflow.runtime.session.session import Session

_KEPT_NAMES = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES)


def copy_variable_to_graph(org_instance: Any, to_graph: Graph, scope: str = "") -> Variable:
    """Return a variable of `to_graph` named as `org_instance`, below `scope`.

    Its initial value is that of the other, which is computed now. It is in the collections of the
    other; below a scope, those that are not of all variables or the trainable ones have the scope
    before their names. Raises ``TypeError`` if `org_instance` is not a variable.
    """
    if not isinstance(org_instance, Variable):
        raise TypeError(f"{org_instance} is not a Variable")
    graph = org_instance.graph
    with graph.as_default(), Session() as session:
        value = session.run(org_instance.initialized_value())
    found = [key for key in graph.collections
             if any(item is org_instance for item in graph.get_collection_ref(key))]
    with to_graph.as_default():
        return Variable(value, trainable=GraphKeys.TRAINABLE_VARIABLES in found,
                        name=_below(scope, org_instance.op.name), validate_shape=False,
                        collections=[key if key in _KEPT_NAMES else _below(scope, key)
                                     for key in found])


def copy_op_to_graph(org_instance: Any, to_graph: Graph, variables: Iterable[Variable],
                     scope: str = "") -> Any:
    """Return the operation or tensor of `to_graph` named as `org_instance`, below `scope`.

    It is copied if it is not there, and so is what it reads, up to operations that are there under
    their names below `scope`; `variables` are copies of the variables that it reads, and end the
    copying too. Raises ``TypeError`` if `org_instance` is not an operation or a tensor.
    """
    if not isinstance(org_instance, (Operation, Tensor)):
        raise TypeError(f"Could not copy instance: {org_instance}")
    op = org_instance.op if isinstance(org_instance, Tensor) else org_instance
    present = {variable.op.name: variable.op for variable in variables}
    present.update((one.name, one) for one in to_graph.get_operations())
    missing = _missing([op], present, scope)
    _import(missing, present, to_graph, scope)
    copy = get_copied_op(op, to_graph, scope)
    return copy.outputs[org_instance.value_index] if isinstance(org_instance, Tensor) else copy


def get_copied_op(org_instance: Any, graph: Graph, scope: str = "") -> Any:
    """Return the operation or tensor of `graph` named as `org_instance`, below `scope`.

    Raises ``KeyError`` if there is none.
    """
    return graph.as_graph_element(_below(scope, org_instance.name))


def _below(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def _missing(ops: list[Operation], present: dict[str, Operation], scope: str) -> list[Operation]:
    """The operations that `ops` need and that have no copy, inputs before their readers."""
    found: dict[Operation, None] = {}
    while ops:
        op = ops.pop()
        if op in found or _below(scope, op.name) in present:
            continue
        found[op] = None
        ops.extend([*(t.op for t in op.inputs), *op.control_inputs])
    return sorted(found, key=lambda op: op._id)


def _import(ops: list[Operation], present: dict[str, Operation], graph: Graph,
            scope: str) -> None:
    if not ops:
        return
    graph_def: Any = type(ops[0].graph.as_graph_def())()
    graph_def.library.CopyFrom(ops[0].graph.as_graph_def().library)
    inputs: dict[str, Any] = {}
    copied = set(ops)
    for op in ops:
        node = graph_def.node.add()
        node.CopyFrom(op.node_def)
        node.attr.pop(COLOCATION_ATTR, None)
        for tensor in op.inputs:
            if tensor.op not in copied:
                other = present[_below(scope, tensor.op.name)]
                inputs[f"{tensor.op.name}:{tensor.value_index}"] = other.outputs[tensor.value_index]
        inputs.update((f"^{c.name}", present[_below(scope, c.name)])
                      for c in op.control_inputs if c not in copied)
    with graph.as_default(), graph.control_dependencies(None):
        import_graph_def(graph_def, inputs, name=f"{scope}/" if scope else "")
