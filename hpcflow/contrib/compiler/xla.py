"""Computations that are to be compiled as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.framework import nest
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.operation import Operation
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.common.grouping import group

__all__ = ["compile"]


def compile(computation: Callable[..., Any], inputs: list[Any] | None = None) -> Any:
    """Return what `computation` gives for tensors of `inputs`, once all of its operations have run.

    Nothing, or operations alone, become one operation; a single tensor becomes a list of one; other
    structures stay as they are. Raises ``TypeError`` if `inputs` is no list or tuple, and
    ``ValueError`` if a structure other than a list of tensors and operations has operations.
    """
    if inputs is not None and not isinstance(inputs, (list, tuple)):
        raise TypeError("inputs must be a list or tuple")
    given = nest.map_structure(lambda x: identity(convert_to_tensor(x)), list(inputs or []))
    outputs = computation(*given)
    flat = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    if any(nest.is_sequence(value) for value in flat):
        if any(isinstance(value, Operation) for value in nest.flatten(outputs)):
            raise ValueError("xla.compile: a nested structure of outputs must not have operations")
        return nest.map_structure(lambda x: identity(convert_to_tensor(x)), outputs)
    operations = [value for value in flat if isinstance(value, Operation)]
    values = [value for value in flat if value is not None and not isinstance(value, Operation)]
    with control_dependencies(operations):
        return [identity(convert_to_tensor(value)) for value in values] or group(*operations)
