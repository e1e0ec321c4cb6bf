"""Questions about effects: which nodes only compute, and which state a reference stands for."""

from __future__ import annotations

import functools
from typing import Any

from hpcflow.compiler.ir.step_graph import CONTROL_FLOW_TYPES, FEED, FETCH, RECV, Node, Port
from hpcflow.graph.opdef import OpDef

_HANDLES = frozenset({"resource", "variant"})


def is_pure(node: Node) -> bool:
    """True if all that `node` does is to compute values from values.

    What holds a reference or a handle of a resource may change the state behind it.
    """
    if not _may_be_pure(node.type, node.op_def):
        return False
    return not (any([t._is_ref_dtype for t in node.dtypes])
                or any([s.dtypes[i].name in _HANDLES for s, i in node.inputs]))


@functools.cache
def _may_be_pure(op_type: str, op_def: OpDef) -> bool:
    return (bool(op_def.outputs) and not op_def.is_stateful and op_type not in CONTROL_FLOW_TYPES
            and op_type not in (FEED, FETCH) and not op_type.startswith("Placeholder")
            and not any(a.is_ref for a in op_def.inputs))


def is_state(port: Port) -> bool:
    """True for a reference or a handle."""
    dtype = port[0].dtypes[port[1]]
    return dtype._is_ref_dtype or dtype.name == "resource"


def state_of(port: Port) -> Any:
    """Return a key that identifies the state behind a reference or a handle."""
    node, index = port
    while node.inputs and node.type != RECV:
        source, k = node.inputs[0]
        if not is_state((source, k)):
            break
        node, index = source, k
    if node.type in ("VarHandleOp", "VariableV2", "Variable"):
        return (node.device, node.attrs.get("container"),
                node.attrs.get("shared_name") or node.name)
    return node, index
