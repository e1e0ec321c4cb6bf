"""The TPU functions of 1.x, which build ordinary operations of the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.state.variable_scope import VariableScope, variable_scope


def rewrite(computation: Callable, inputs: Tensor | None = None, infeed_queue: object = None,
            device_assignment: object = None, name: str | None = None) -> Any:
    """Return what `computation` makes of `inputs`."""
    return computation(*(inputs or ()))


def replicate(computation: Callable, inputs: Sequence[Any] | None = None, *others: Any,
              **options: Any) -> list:
    """Return, for each list of inputs, what `computation` makes of it; of none if there is none."""
    return [computation(*given) for given in (inputs or [[]])]


def outside_compilation(computation: Callable, *args: Any, **kwargs: Any) -> Any:
    """Return what `computation` returns."""
    return computation(*args, **kwargs)


def cross_replica_sum(x: TensorLike, group_assignment: object = None,
                      name: str | None = None) -> Tensor:
    """Return `x`: there is one replica."""
    return raw_ops.Identity(convert_to_tensor(x), name=name)


def initialize_system(embedding_config: object = None, job: str | None = None) -> Tensor:
    """Return a string, the topology of no TPU."""
    return convert_to_tensor(b"", name="topology")


def shutdown_system(job: str | None = None) -> Operation:
    """Return an operation that does nothing."""
    return raw_ops.NoOp(name="shutdown_system")


@contextlib.contextmanager
def bfloat16_scope() -> Iterator[VariableScope]:
    """A variable scope in which variables are as they are elsewhere."""
    with variable_scope("") as scope:
        yield scope


class TPUContext(NamedTuple):
    """A description of the cores that a graph is built for."""

    number_of_shards: int | None = None


def get_tpu_context() -> TPUContext:
    """Return what is known of the cores: nothing, there are none."""
    return TPUContext()
