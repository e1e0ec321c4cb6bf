"""Compare two GraphDefs: names, types, inputs, attributes, control inputs of all nodes."""

from __future__ import annotations

from typing import Any

# Types that later versions build where 1.0 built the older one, which means the same.
SAME_TYPE = {"AddV2": "Add", "BatchMatMulV2": "BatchMatMul", "GatherV2": "Gather",
             "SelectV2": "Select", "FusedBatchNormV3": "FusedBatchNorm", "Inv": "Reciprocal",
             "PadV2": "Pad", "FIFOQueueV2": "FIFOQueue", "QueueEnqueueV2": "QueueEnqueue",
             "QueueDequeueV2": "QueueDequeue", "QueueSizeV2": "QueueSize",
             "QueueEnqueueManyV2": "QueueEnqueueMany", "QueueDequeueManyV2": "QueueDequeueMany",
             "QueueCloseV2": "QueueClose", "FloorMod": "Mod"}  # fmt: skip
# Compared elsewhere, or derived from the number of nodes so far.
IGNORED = ("_output_shapes", "_class", "seed2")
LISTED = 6
# Built in one step here, in several by the reference; checked by the name that is returned.
REPLACED = ("MatrixDiag", "MatrixDiagV3")


def compare(ours: bytes, theirs: bytes, inside: bool = True) -> tuple[list[str], set[str]]:
    """What differs between two serialized GraphDefs, and the op types of the first.

    Unless `inside`, only the names of nodes count, and of those in name scopes only variables,
    their updates, and the gradients that an optimizer is given.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    a, b = (({n.name: n for n in GraphDef.FromString(data).node}) for data in (ours, theirs))
    types = {n.op for n in a.values()}
    if not inside:
        a, b = ({k: v for k, v in nodes.items() if _is_visible(v)} for nodes in (a, b))
    problems = []
    missing, extra = [n for n in b if n not in a], [n for n in a if n not in b]
    if missing:
        problems.append(f"nodes of the reference that ours lacks: {_listed(missing, b)}")
    if extra:
        problems.append(f"nodes that only ours has: {_listed(extra, a)}")
    for name in a:
        if name in b and inside:
            problems += _compare_nodes(a[name], b[name])
    return problems, types


def _is_visible(node: Any) -> bool:
    if "/" not in node.name:
        return SAME_TYPE.get(node.op, node.op) not in REPLACED
    return (node.op in ("VariableV2", "Assign", "AssignAdd") or "Apply" in node.op
            or "/tuple/control_dependency" in node.name)


def _listed(names: list[str], nodes: dict) -> str:
    shown = ", ".join(f"{n} ({nodes[n].op})" for n in names[:LISTED])
    return shown + (f" and {len(names) - LISTED} more" if len(names) > LISTED else "")


def _compare_nodes(a: Any, b: Any) -> list[str]:
    problems = []
    if SAME_TYPE.get(a.op, a.op) != SAME_TYPE.get(b.op, b.op):
        return [f"{a.name} is a {a.op}, in the reference a {b.op}"]
    for what, mine, other in (("inputs", [i for i in a.input if i[0] != "^"],
                               [i for i in b.input if i[0] != "^"]),
                              ("control inputs", sorted(i for i in a.input if i[0] == "^"),
                               sorted(i for i in b.input if i[0] == "^"))):
        if mine != other:
            problems.append(f"{a.name} has {what} {mine}, in the reference {other}")
    for key in set(a.attr) - set(IGNORED):
        if key not in b.attr:
            if a.op == b.op:
                problems.append(f"{a.name}: only ours has the attribute {key}")
        elif not _same_attr(a.attr[key], b.attr[key]):
            problems.append(f"{a.name}: {key} is {_text(a.attr[key])}, in the reference "
                            f"{_text(b.attr[key])}")
    if "_class" in a.attr and "_class" in b.attr and a.attr["_class"] != b.attr["_class"]:
        problems.append(f"{a.name}: colocated with {_text(a.attr['_class'])}, in the reference "
                        f"{_text(b.attr['_class'])}")
    return problems


def _same_attr(a: Any, b: Any) -> bool:
    if a == b:
        return True
    if a.WhichOneof("value") == "tensor":
        from tensorboard.util.tensor_util import make_ndarray

        x, y = make_ndarray(a.tensor), make_ndarray(b.tensor)
        return x.dtype == y.dtype and x.shape == y.shape and bool((x == y).all())
    return False


def _text(value: Any) -> str:
    return " ".join(str(value).split())[:80]
