"""Summing the gradients that reach one tensor over several paths."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


class AggregationMethod:
    """The ways to sum the gradients of one tensor.

    - ``ADD_N`` (the default): one AddN op over all of them, run when the last one is there.
    - ``EXPERIMENTAL_TREE``: a balanced tree of Add ops, which frees memory earlier.
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


def aggregate(grads: list[Any], method: int = AggregationMethod.DEFAULT) -> Any:
    """The sum of `grads` (tensors and IndexedSlices; at least one).

    IndexedSlices alone are concatenated and stay sparse; beside a dense gradient they are made
    dense, because the sum touches every row anyway.
    """
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(g, IndexedSlices) for g in grads):
        return _concatenate(grads)
    tensors = [convert_to_tensor(g) for g in grads]
    if method == AggregationMethod.EXPERIMENTAL_TREE:
        return _tree(tensors)
    return raw_ops.AddN(tensors)


def _tree(tensors: list[Tensor]) -> Tensor:
    while len(tensors) > 1:
        pairs = zip(tensors[::2], tensors[1::2], strict=False)
        odd = tensors[-1:] if len(tensors) % 2 else []
        tensors = [raw_ops.Add(a, b) for a, b in pairs] + odd
    return tensors[0]


def _concatenate(slices: list[IndexedSlices]) -> IndexedSlices:
    indices = [s.indices for s in slices]
    if len({i.dtype.base_dtype for i in indices}) > 1:
        indices = [raw_ops.Cast(i, DstT="int64") for i in indices]
    shape = next((s.dense_shape for s in slices if s.dense_shape is not None), None)
    return IndexedSlices(raw_ops.ConcatV2([s.values for s in slices], 0),
                         raw_ops.ConcatV2(indices, 0), shape)
