"""output_aliasing: a value that only a reduction over ranks reads is made in the memory that the
reduction reads.

A gradient need not be copied into memory that ranks share, nor into a bucket with others, if the
kernel that makes it writes there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.compiler.ir.step_graph import Node, device_type
from hpcflow.kernels.registry import Kernel

_REDUCTION = "MpiAllreduce"
#: What passes on the very value.
_PASSING = frozenset({"Identity", "StopGradient", "PreventGradient"})


def places_of(nodes: Sequence[Node]) -> dict[Node, tuple[str, int]]:
    """Return the nodes whose only output is read by one input of one reduction and nothing else,
    each with the name of the reduction and the number of the input."""
    reductions = [n for n in nodes if n.type == _REDUCTION and device_type(n.device) == "CPU"]
    if not reductions:
        return {}
    readers = Counter(port for node in nodes for port in node.inputs)
    found = {}
    for reduction in reductions:
        for i, port in enumerate(reduction.inputs):
            while readers[port] == 1 and port[0].type in _PASSING:
                port = port[0].inputs[0]
            dims = port[0].dims[port[1]]
            if readers[port] == 1 and len(port[0].dtypes) == 1 and dims and None not in dims:
                found[port[0]] = reduction.name, i
    return found


def made_in_place(function: Callable, kernel: Kernel, place: Callable[[], Any]) -> Callable:
    """Return `function` of a kernel, writing its result to the array that `place` gives, if it
    gives one."""
    if not kernel.accepts_out:
        return function

    def run(*inputs: Any, out: Any = None) -> Any:
        there = place()
        return function(*inputs, out=out if there is None else there)

    return run
