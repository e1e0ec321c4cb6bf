"""``contrib.framework.py_func``: functions of Python over structures of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.framework import nest
from hpcflow.ops.flow.py_func import py_func as flat_py_func


def py_func(func: Callable, args: Any = (), kwargs: dict | None = None, output_types: Any = None,
            output_shapes: Any = None, stateful: bool = True, name: str | None = None) -> Any:
    """Add an operation that calls `func` with arrays for all tensors of its arguments.

    Args:
        func: returns a structure of arrays like that of `output_types`.
        args, kwargs: a list or tuple, and a dict; structures of tensors in them, too.
        output_types: a structure of types, or a function of the arguments that returns it.
        output_shapes: the same of shapes.
        stateful, name: as of ``hf.py_func``.

    Returns: a structure like `output_types`. Raises ``TypeError`` for arguments of other classes.
    """
    named = {} if kwargs is None else kwargs
    if not isinstance(args, (list, tuple)):
        raise TypeError(f"args must be list and not {type(args)}. args: {args}")
    if not isinstance(named, dict):
        raise TypeError(f"kwargs must be dict and not {type(named)}. args: {named}")
    types = output_types(*args, **named) if callable(output_types) else output_types
    shapes = output_shapes(*args, **named) if callable(output_shapes) else output_shapes
    given = (args, named)

    def call(*arrays: Any) -> list:
        arguments, by_name = nest.pack_sequence_as(given, list(arrays))
        found = func(*arguments, **by_name)
        nest.assert_shallow_structure(types, found)
        return nest.flatten(found)

    results = flat_py_func(call, nest.flatten(given), nest.flatten(types), stateful, name)
    if shapes is not None:
        for result, shape in zip(results, nest.flatten_up_to(types, shapes), strict=True):
            result.set_shape(shape)
    return nest.pack_sequence_as(types, results)
