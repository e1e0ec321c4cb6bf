"""Strategies of ``replica_device_setter``: which parameter server gets the next variable."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.graph.operation import Operation


class RandomStrategy:
    """Deals operations to `num_ps_tasks` tasks by a hash of their names and `seed`."""

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        self._tasks = num_ps_tasks
        self._seed = seed

    def __call__(self, op: Any) -> int:
        """The task of `op`."""
        key = f"{op.name}_{self._seed}".encode()
        return int(hashlib.md5(key, usedforsecurity=False).hexdigest(), 16) % self._tasks


class GreedyLoadBalancingStrategy:
    """Gives an operation to the task with the least load so far.

    Args:
        num_tasks: how many parameter servers there are.
        load_fn: function of an operation that gives its load, such as `byte_size_load_fn`.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        self._loads = [0.0] * num_tasks
        self._load_fn = load_fn

    def __call__(self, op: Any) -> int:
        """The task of `op`, whose load it gets."""
        task = min(range(len(self._loads)), key=self._loads.__getitem__)
        self._loads[task] += self._load_fn(op)
        return task


def byte_size_load_fn(op: Operation) -> int:
    """The bytes of a variable's operation with one output; at least those of one element.

    Raises ``ValueError`` for several outputs or a shape that is not known.
    """
    if len(op.outputs) != 1:
        raise ValueError(f"Op {op.name} of type {op.type} must have a single output, "
                         f"got {len(op.outputs)}")
    shape = op.get_attr("shape") if op.type == "VarHandleOp" else op.outputs[0].get_shape()
    dtype = op.get_attr("dtype") if op.type == "VarHandleOp" else op.outputs[0].dtype
    elements = shape.num_elements()
    if elements is None:
        raise ValueError(f"The load of {op.name} needs a shape that is known, got {shape}")
    return dtype.size * max(elements, 1)
