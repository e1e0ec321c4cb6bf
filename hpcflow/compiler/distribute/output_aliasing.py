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


class _InPlace:
    """A kernel that writes its result to the array that `place` gives, if it gives one."""

    def __init__(self, function: Callable, place: Callable[[], Any]) -> None:
        self.function = function
        self._place = place

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        there = self._place()
        return self.function(*inputs, out=out if there is None else there)


def made_in_place(function: Callable, kernel: Kernel, place: Callable[[], Any]) -> Callable:
    """Return `function` of a kernel, writing its result to the array that `place` gives, if it
    gives one."""
    return _InPlace(function, place) if kernel.accepts_out else function


def anywhere(function: Callable) -> Callable:
    """Return the function of a kernel that writes where it is told, as to a part of its result,
    of one that `made_in_place` has returned."""
    return function.function if isinstance(function, _InPlace) else function
