"""host_values: the nodes on a device with memory of its own whose values are kept in host memory.

Counters, shapes, axes and predicates are a few numbers that the host needs: to pick a branch, to
end a loop, to know how large a result is. They are computed on the host, as int32 values are in
the 1.x runtime, so that no step waits for the device to learn them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.step_graph import FETCH, LOOP_GATE, RECV, SWITCH_TYPES, Node, Port
from hpcflow.dtypes import DType
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels import late_errors
from hpcflow.kernels.registry import ASYNC, EVERY, STEP, SYNC, Kernel, find_kernel

HOST, DEVICE = "host", "device"

# Op types that are computed on the host where all their values are int32 numbers or truth values,
# unless one of them is known to be on the device.
_COUNTING = frozenset({
    "Abs", "Add", "AddV2", "All", "Any", "BroadcastTo", "Concat", "ConcatV2", "Div", "Equal",
    "ExpandDims", "Fill", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Less",
    "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "Max", "Maximum", "Min", "Minimum",
    "Mod", "Mul", "Neg", "NotEqual", "OnesLike", "Pack", "Pad", "Prod", "Range", "RealDiv",
    "Reshape", "Reverse", "ReverseV2", "Select", "SelectV2", "Sign", "Slice", "Split", "SplitV",
    "Square", "Squeeze", "StridedSlice", "Sub", "Sum", "Tile", "Transpose", "TruncateDiv",
    "TruncateMod", "Unpack", "ZerosLike",
})  # fmt: skip
_COUNTS = frozenset({"int32", "bool"})
# Types that stay where they are when they pass through a stack: the gradient of a loop pushes its
# counters and predicates.
_STACKS = frozenset({"StackPush", "StackPushV2", "StackPop", "StackPopV2"})
_PASSING = frozenset({"Identity", "LoopCond", "StopGradient", "PreventGradient"})


def predicates(nodes: Iterable[Node]) -> frozenset[Port]:
    """The values that the executor looks at, and those that they are passed on from."""
    found: set[Port] = set()
    for node in nodes:
        at = 1 if node.type in SWITCH_TYPES else 0 if node.type == LOOP_GATE else None
        port = None if at is None or len(node.inputs) <= at else node.inputs[at]
        while port is not None and port not in found:
            found.add(port)
            source = port[0]
            port = source.inputs[0] if source.type in _PASSING and source.inputs else None
    return frozenset(found)


def fetched(nodes: Sequence[Node]) -> frozenset[Node]:
    """The nodes that bring a value from another device of the task to the client alone, once."""
    readers: dict[Node, list[str]] = {n: [] for n in nodes if n.type == RECV and n.inputs}
    for node in nodes:
        for source, _ in node.inputs:
            if source in readers:
                readers[source].append(node.type)
    return frozenset(n for n, types in readers.items() if types == [FETCH])


def host_kernel(node: Node, sides: Sequence[str | None]) -> Kernel | None:
    """The CPU's kernel for a node on a device if it is to run in host memory, else None.

    `sides` are HOST or DEVICE for each input, None for one that is not known.
    """
    if DEVICE in sides or node.op_def.is_stateful or not (
            node.type == "Const" or _counts(node) or _is_small(node, sides)):
        return None
    kernel = find_kernel(node.type, "CPU", node.attrs)
    if kernel is None or kernel.mode != SYNC:
        return None
    return kernel._replace(host_inputs=EVERY, host_outputs=EVERY, accepts_out=False,
                           takes_over=None)


def is_count(dtype: DType) -> bool:
    """True for the type of a value that is not moved to a device before a kernel there reads it."""
    return dtype.name in _COUNTS


def keeps_its_side(node: Node) -> bool:
    """True for a push or pop of counts, which are moved nowhere."""
    return node.type in _STACKS and is_count(node.dtypes[0].base_dtype)


def _dtype_names(node: Node) -> list[str]:
    inputs = [s.dtypes[i] for s, i in node.inputs]
    if any(d._is_ref_dtype for d in (*inputs, *node.dtypes)):
        return ["reference"]
    return [d.name for d in (*inputs, *node.dtypes)]


def _counts(node: Node) -> bool:
    return node.type in _COUNTING and _COUNTS.issuperset(_dtype_names(node))


def _is_small(node: Node, sides: Sequence[str | None]) -> bool:
    """True if everything is known to be on the host, and to be a few numbers."""
    if not sides or any(side != HOST for side in sides):
        return False
    if any(name in ("string", "resource", "variant", "reference") for name in _dtype_names(node)):
        return False
    shapes = [s.dims[i] for s, i in node.inputs] + list(node.dims)
    return all(d is not None and None not in d and math.prod(d) <= tuning.HOST_FEW for d in shapes)


def named(function: Callable, node: Node, kernel: Kernel, device: Any) -> Callable:
    """`function` of a node on a device with memory of its own: errors that are heard of later will
    name the node. What runs outside of regions makes the device the current one by itself."""
    entered = device.entered(function) if kernel.mode == ASYNC else function
    where, first = node.device, {STEP: 1, ASYNC: 2}.get(kernel.mode, 0)

    def run(*inputs: Any, **options: Any) -> Any:
        noted = late_errors.noted()
        result = entered(*inputs, **options)
        if late_errors.noted() > noted:
            shapes = [summary(v) for v in inputs[first:]]
            late_errors.explain_from(noted, lambda e: explain(e, node, shapes, where))
        return result

    return run
