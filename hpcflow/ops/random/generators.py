"""Generators in variables: op types that take numbers of a Philox sequence kept as a resource.

The state is a vector of int64: the lower and the upper half of the counter, and the key.
"""

from __future__ import annotations

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import constant_value_as_dims, no_outputs, with_rank

__all__: list[str] = []


def _state_shape(op: Operation) -> list[Dims]:
    for i, name in enumerate(("resource", "alg", "delta")):
        with_rank(op.input_dims(i), 0, name)
    return [(3,)]


def _skip_shape(op: Operation) -> list[Dims]:
    _state_shape(op)
    return no_outputs(op)


def _any_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "shape")
    return [constant_value_as_dims(op.inputs[0])]


# The state before the numbers that `delta` elements take at most.
register_op("RngReadAndSkip", "resource: resource; alg: int32; delta: uint64", "value: int64",
            stateful=True, shape=_state_shape)
register_op("RngSkip", "resource: resource; algorithm: int64; delta: int64", stateful=True,
            shape=_skip_shape)
register_op("NonDeterministicInts", "shape: shape_dtype", "output: dtype",
            "dtype: {int32, int64, uint32, uint64} = int64; shape_dtype: type = int64",
            stateful=True, shape=_any_shape)
not_differentiable("RngReadAndSkip", "RngSkip", "NonDeterministicInts")
