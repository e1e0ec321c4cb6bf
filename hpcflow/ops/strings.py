"""Op types on strings."""

from __future__ import annotations

from typing import Any

from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, unchanged

__all__ = ["string_join"]


def _join_shape(op: Operation) -> list[Dims]:
    """Scalars go with every shape; all others must agree."""
    dims: Dims = ()
    for tensor in op.inputs:
        if tensor._dims is None:
            return [None]
        if tensor._dims:
            dims = merge_dims(dims, tensor._dims) if dims else tensor._dims
    return [dims]


register_op("StringJoin", "inputs: N * string", "output: string",
            'N: int >= 1; separator: string = ""', shape=_join_shape)
register_op("StaticRegexFullMatch", "input: string", "output: bool", "pattern: string",
            shape=unchanged)
not_differentiable("StringJoin", "StaticRegexFullMatch")


def string_join(inputs: Any, separator: str | None = None, name: str | None = None) -> Tensor:
    """Join strings element by element: ``output[i] = inputs[0][i] + separator + inputs[1][i] ...``.

    `inputs` is a list of string tensors of one shape, or scalars, which go with every element.
    Raises (when run) ``InvalidArgumentError`` for shapes that differ.
    """
    return raw_ops.StringJoin(inputs, separator=separator, name=name)
