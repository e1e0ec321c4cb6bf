"""Shared parts of decoders: feedback of their own outputs, and the choice of it at run time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.dtypes import DTypeLike
from hpcflow.graph import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.nn.embedding import embedding_lookup
from hpcflow.ops.arrays.identities import stop_gradient
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.reductions import arg_max
from hpcflow.ops.state.variable_scope import get_variable_scope, variable_scope


def embed_previous(embedding: TensorLike, output_projection: Any,
                   update_embedding: bool) -> Callable:
    """Return a loop function that embeds the most likely symbol of the previous output."""

    def loop_function(previous: TensorLike, _: int) -> Tensor:
        if output_projection is not None:
            previous = previous @ output_projection[0] + output_projection[1]
        embedded = embedding_lookup(embedding, arg_max(previous, 1))
        return embedded if update_embedding else stop_gradient(embedded)

    return loop_function


def next_input(loop_function: Callable | None, previous: TensorLike | None, step: int,
               given: TensorLike) -> Any:
    """Return the input of a step: the given one, or `loop_function` applied to the last output."""
    if loop_function is None or previous is None:
        return given
    with variable_scope("loop_function", reuse=True):
        return loop_function(previous, step)


def check_projection(output_projection: Sequence[Tensor] | None, num_symbols: int,
                     dtype: DTypeLike) -> None:
    """Raise ``ValueError`` unless `output_projection` is None or (W [?, symbols], B [symbols])."""
    if output_projection is None:
        return
    weights, biases = (convert_to_tensor(v, dtype) for v in output_projection)
    weights.shape.assert_is_compatible_with([None, num_symbols])
    biases.shape.assert_is_compatible_with([num_symbols])


def with_feed_previous(feed_previous: TensorLike, decode: Callable[[bool], tuple[list, Any]],
                       count: int) -> tuple[list, Any]:
    """Call ``decode(feed_previous)``; for a tensor build both forms, and choose by a conditional.

    `decode` gives (outputs, state), `count` outputs. The second form reuses the first's variables.
    """
    if isinstance(feed_previous, bool):
        return decode(feed_previous)
    structure: list[Any] = []

    def branch(fed: bool) -> Callable[[], list]:
        def build() -> list:
            with variable_scope(get_variable_scope(), reuse=None if fed else True):
                outputs, state = decode(fed)
            structure.append(state)
            return [*outputs, *nest.flatten(state)]

        return build

    values: Sequence[Any] = cond(feed_previous, branch(True), branch(False))
    return list(values[:count]), nest.pack_as(structure[0], values[count:])
