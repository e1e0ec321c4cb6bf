"""Summing the gradients that reach one tensor over several paths."""

from __future__ import annotations

import functools
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops


class AggregationMethod:
    """The ways to sum the gradients of one tensor.

    - ``ADD_N`` (the default): one AddN op over those of each device, run there when the last one
      of them is there, and one over the sums of several devices.
    - ``EXPERIMENTAL_TREE``: a running sum, which frees memory earlier.
    - ``EXPERIMENTAL_ACCUMULATE_N``: the same as ``ADD_N`` here.
    """

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2

    @classmethod
    def check(cls, method: int | None) -> int:
        """Return `method` (None: the default); ``ValueError`` for an unknown one."""
        if method is None:
            return cls.DEFAULT
        if method not in (cls.ADD_N, cls.EXPERIMENTAL_TREE, cls.EXPERIMENTAL_ACCUMULATE_N):
            raise ValueError(f"Invalid aggregation_method {method!r}: use a constant of "
                             "AggregationMethod")
        return method


def aggregate(grads: list[Any], op: Operation, method: int = AggregationMethod.DEFAULT) -> Any:
    """The sum of `grads` (tensors and IndexedSlices; at least one), those of one output of `op`.

    IndexedSlices alone are concatenated and stay sparse; beside a dense gradient they are made
    dense, because the sum touches every row anyway.
    """
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(g, IndexedSlices) for g in grads):
        return _concatenate(grads)
    tensors = [convert_to_tensor(g) for g in grads]
    if method == AggregationMethod.EXPERIMENTAL_TREE:
        return _running_sum(tensors, op)
    return _by_device(tensors)


def _by_device(tensors: list[Tensor]) -> Tensor:
    """The sum of `tensors`: those of each device are summed beside the first of them, so that one
    value leaves each device, and the sums then where the scopes say."""
    devices: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        devices.setdefault(tensor.device or "", []).append(tensor)
    sums = [_beside(devices[name]) for name in sorted(devices)]
    return sums[0] if len(sums) == 1 else raw_ops.AddN(sums)


def _beside(tensors: list[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    with tensors[0].graph.colocate_with(tensors[0].op, ignore_existing=True):
        return raw_ops.AddN(tensors)


def _running_sum(tensors: list[Tensor], op: Operation) -> Tensor:
    with name_scope(f"{op.name}_gradient_sum"):
        return functools.reduce(lambda total, more: raw_ops.AddN([total, more]), tensors)


def _concatenate(slices: list[IndexedSlices]) -> IndexedSlices:
    indices = [s.indices for s in slices]
    if len({i.dtype.base_dtype for i in indices}) > 1:
        indices = [raw_ops.Cast(i, DstT="int64") for i in indices]
    shape = next((s.dense_shape for s in slices if s.dense_shape is not None), None)
    return IndexedSlices(raw_ops.ConcatV2([s.values for s in slices], 0),
                         raw_ops.ConcatV2(indices, 0), shape)
